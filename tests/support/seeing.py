"""A scripted policy that answers from what it sees; numpy alone, so that upstream's environment can import it too."""

import hashlib

import numpy as np

CHUNK = 10


def digest(*arrays: np.ndarray) -> bytes:
    """The digest of arrays: values, shapes and types."""
    content = hashlib.sha256()
    for array in arrays:
        content.update(f"{array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return content.digest()


def chunk_of(pictures: list[np.ndarray], state: np.ndarray, text: str, convention: str) -> np.ndarray:
    """A chunk (10, 7) that depends on every pixel, on the state in float32 and on the text.

    The arm moves a little; the gripper is in the convention of the evaluator's policies: ``signs`` (-1 opens), ``open``
    (1 opens, 0 closes) or ``absolute`` (a pose near the state's position, 1 closes, 0 opens).
    """
    seed = digest(*pictures, np.asarray(state, dtype=np.float32)) + text.encode()
    generator = np.random.default_rng(list(hashlib.sha256(seed).digest()))
    rows = generator.uniform(-0.4, 0.4, (CHUNK, 7))
    rows[:, 6] = generator.integers(0, 2, CHUNK)
    if convention == "signs":
        rows[:, 6] = 2 * rows[:, 6] - 1
    if convention == "absolute":
        rows[:, :3] = np.asarray(state[:3], dtype=np.float64) + 0.05 * rows[:, :3]
        rows[:, 3:6] = [np.pi, 0, 0] + 0.2 * rows[:, 3:6]
    return rows
