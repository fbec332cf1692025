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
    """A chunk (10, 7) or (10, 10) that depends on every pixel, on the state in float32 and on the text.

    The arm moves a little; the gripper is in the convention of the evaluator's policies: ``signs`` (-1 opens), ``open``
    (1 opens, 0 closes) or ``absolute`` (X-VLA's (10, 10): poses near the state's, with six numbers for the rotation, and
    a gripper of which more than .5 closes).
    """
    seed = digest(*pictures, np.asarray(state, dtype=np.float32)) + text.encode()
    generator = np.random.default_rng(list(hashlib.sha256(seed).digest()))
    rows = generator.uniform(-0.4, 0.4, (CHUNK, 7))
    rows[:, 6] = generator.integers(0, 2, CHUNK)
    if convention == "signs":
        rows[:, 6] = 2 * rows[:, 6] - 1
    if convention == "absolute":
        # As a network gives them: neither of unit length nor at a right angle.
        pose = np.asarray(state[:9], dtype=np.float64) + 0.1 * generator.uniform(-0.4, 0.4, (CHUNK, 9))
        return np.column_stack([pose, generator.uniform(0, 1, CHUNK)])
    return rows
