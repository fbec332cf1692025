"""Made demonstrations, and a policy that knows them by heart: it costs a millisecond, so that each wiring is tried."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from pytest_vla.doctor.answers import DemonstrationWindow
from pytest_vla.doctor.demonstrations import SCENE, STATE, WRIST
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.policies.fit import OPENS, Traits

Array = NDArray[Any]

CHUNK, SIDE, STRIDE = 8, 48, 4
_STEPS, _COARSE = 64, 16


def _smooth(generator: np.random.Generator, count: int, columns: int) -> Array:
    """Return smooth curves (count, columns) within [-1, 1]."""
    times = np.linspace(0, 1, count)[:, None, None]
    waves = np.sin(
        2 * np.pi * (times * generator.uniform(0.5, 2.5, (1, 4, columns)) + generator.random((1, 4, columns)))
    )
    return np.asarray(np.tanh((waves * generator.normal(0, 0.6, (1, 4, columns))).sum(axis=1)))


def _picture(place: Array, hue: Array, generator: np.random.Generator) -> Array:
    """Return a picture (SIDE, SIDE, 3) with a bright patch at a place, and corners that are all different."""
    rows, columns = np.mgrid[0:SIDE, 0:SIDE] / (SIDE - 1)
    picture = np.stack([rows * 120, columns * 60, 40 + 0 * rows], axis=-1)
    patch = np.exp(-((rows - 0.5 - 0.4 * place[0]) ** 2 + (columns - 0.5 - 0.4 * place[1]) ** 2) / 0.01)
    picture = picture + patch[..., None] * hue
    return np.clip(picture + generator.normal(0, 1, picture.shape), 0, 255).astype(np.uint8)


def made_windows(number: int = 6, seed: int = 0) -> list[DemonstrationWindow]:
    """Return demonstrations of as many tasks of tabletop as windows, asked at every fourth row."""
    generator, tasks = np.random.default_rng(seed), load_suite("tabletop").tasks
    found = []
    for at in range(number):
        actions = np.clip(_smooth(generator, _STEPS, 7) * [0.8, 0.8, 0.8, 0.2, 0.2, 0.4, 1], -1, 1)
        begin = int(generator.integers(20, 40))
        actions[:, 6] = np.where((np.arange(_STEPS) > begin) & (np.arange(_STEPS) < begin + 20), 1.0, -1.0)
        position = np.array([-0.1, 0.0, 1.0]) + np.cumsum(0.01 * actions[:, :3], axis=0)
        turns = Rotation.from_rotvec([3.0, 0.2, -0.3]) * Rotation.from_rotvec(np.cumsum(0.04 * actions[:, 3:6], axis=0))
        fingers = 0.04 - 0.015 * (1 + actions[:, 6:]) * np.array([[1.0]])
        hue, rows = generator.uniform(-60, 120, 3), tuple(range(0, _STEPS, STRIDE))
        shown = []
        for row in rows:
            quaternion = turns[row].as_quat()
            rotation = turns[row].as_rotvec()
            state = np.concatenate([position[row], rotation, fingers[row], -fingers[row]])
            shown.append(
                {
                    SCENE: _picture(actions[row, :2], hue, generator),
                    WRIST: _picture(actions[row, 1:3][::-1], hue[::-1], generator),
                    STATE: state,
                    "robot0_eef_pos": position[row],
                    "robot0_eef_quat": quaternion,
                    "robot0_gripper_qpos": state[6:],
                    "robot0_joint_pos": _smooth(np.random.default_rng(at), _STEPS, 7)[row],
                    "controller_pos": position[row],
                    "controller_mat": turns[row].as_matrix(),
                }
            )
        task = tasks[at]
        found.append(DemonstrationWindow(f"made {at}", task, task.language, rows, tuple(shown), actions))
    return found


class KnowingPolicy:
    """A `BatchPolicy` that answers with the actions of what is most alike, blurred the more that differs from it."""

    max_batch = 64
    reads: Sequence[str] = (SCENE, WRIST, STATE)
    replan = STRIDE
    traits = Traits(action_size=7, gripper=OPENS, reads=(SCENE, WRIST, STATE), language=True, chunk=CHUNK)

    def __init__(self, windows: Sequence[DemonstrationWindow], *, is_random: bool = False) -> None:
        """Learn demonstrations; or nothing, with weights that are random."""
        generator = np.random.default_rng(1)
        self._words = sorted({word for each in windows for word in each.instruction.split()})
        features, chunks = [], []
        for window in windows:
            for row, seen in zip(window.rows, window.shown, strict=True):
                features.append(self._features(seen, window.instruction))
                chunk = window.actions[row : row + CHUNK]
                chunks.append(np.vstack([chunk, np.repeat(chunk[-1:], CHUNK - len(chunk), axis=0)]))
        self._known, self._chunks = np.array(features), np.array(chunks)
        if is_random:
            self._chunks = generator.permutation(self._chunks)

    def begin(self, episode: Episode) -> str:
        """Return the instruction."""
        return episode.instruction

    def act(self, sessions: Sequence[str], observations: Sequence[Any]) -> list[Array]:
        """Return a chunk (8, 7) for each."""
        return [self._answer(each, seen) for each, seen in zip(sessions, observations, strict=True)]

    def _answer(self, instruction: str, seen: Any) -> Array:
        away = ((self._known - self._features(seen, instruction)) ** 2).sum(axis=1)
        weights = np.exp(-np.minimum(away - away.min(), 500.0) / 2 / (0.3 + away.min()))
        return np.asarray(np.tensordot(weights / weights.sum(), self._chunks, axes=1))

    def _features(self, seen: Any, instruction: str) -> Array:
        """Return coarse pictures, the state and the known words, each about as heavy as the others."""
        pictures = []
        for name in (SCENE, WRIST):
            picture = np.asarray(seen[name], dtype=np.float64)
            block = len(picture) // _COARSE
            pictures.append(picture.reshape(_COARSE, block, _COARSE, block, 3).mean(axis=(1, 3)).ravel())
        words = [float(word in instruction.split()) for word in self._words]
        state = np.asarray(seen[STATE], dtype=np.float64) * [8, 8, 8, 2, 2, 2, 60, 60]
        return np.concatenate([pictures[0] / 60, pictures[1] / 60, state, 0.7 * np.array(words)])
