"""Policies with one wrong wiring each: what they get or give is changed as people get it wrong.

The causes are those of ../shared/spec/evaluators.md, last table. Nothing here knows the doctor, which is tested with
it. Pictures, state and actions are those of the policy's view: whatever a suite's protocol does has been done.
"""

import copy
import functools
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Answer, Episode, Observations, is_batch_policy
from pytest_vla.policies.fit import traits_of
from pytest_vla.policies.tiny.network import POINTS, rotation_of
from pytest_vla.policies.tiny.policy import TinyPolicy
from pytest_vla.policies.view import centre_crop

Array = NDArray[Any]
Seen = Mapping[str, Array]

SCENE, WRIST, STATE = "agentview_image", "robot0_eye_in_hand_image", "state"
JOINTS, CONTROLLER_POS, CONTROLLER_MAT = "robot0_joint_pos", "controller_pos", "controller_mat"
LANGUAGE, WEIGHTS, TINY = "language", "weights", "tiny"
PICTURES, ACTIONS, CHUNKS = "pictures", "actions", "chunks"

_CAMERAS = (SCENE, WRIST)
_STILL = np.array([0.0, 0, 0, 0, 0, 0, -1])


@dataclass(frozen=True)
class Miswiring:
    """One wrong wiring.

    Attributes:
        name: short.
        about: what is wrong.
        part: of the wiring that is wrong: "pictures", "state", "language", "actions", "chunks" or "weights".
        wrap: returns the policy with this wiring; a `BatchPolicy` if it is one.
        needs: what the policy has to read for it to be plantable: observations, "language"; or "weights", if it has to
            have some that can be replaced; or "tiny", if it has to be that one.
        acceptable: the codes of the diagnoses that name it.
    """

    name: str
    about: str
    part: str
    wrap: Callable[[Any], Any]
    needs: tuple[str, ...] = ()
    acceptable: tuple[str, ...] = ()

    def can_wrap(self, policy: Any) -> bool:
        """Whether a policy reads what is wired wrongly. One that does not say so reads observations, no language."""
        traits = traits_of(policy)
        has = {
            LANGUAGE: bool(traits.language),
            WEIGHTS: _has_weights(policy),
            TINY: isinstance(policy, TinyPolicy),
            JOINTS: True,
            CONTROLLER_POS: True,
        }
        reads = traits.reads or (SCENE, WRIST, STATE)
        return all(has.get(need, need in reads) for need in self.needs)


# A policy with a wiring around it.


@dataclass
class _Wired:
    """An episode of a policy behind a wiring.

    Attributes:
        inner: the policy's own session, or its state.
        replan: how many actions of a chunk are executed, or None for all.
        kept: what the wiring remembers.
    """

    inner: Any
    replan: int | None
    kept: dict[str, Any] = field(default_factory=dict)

    def close(self) -> None:
        if hasattr(self.inner, "close"):
            self.inner.close()


@dataclass(frozen=True)
class _Wiring:
    """What is changed on the way to a policy and back.

    Attributes:
        observe: returns what the policy gets, from the observations that it reads and what is remembered.
        answer: returns the executed chunk, from the policy's chunk (k, 7), the true observation and the episode.
        episode: returns the episode that the policy is told of.
        also: observations that the wiring reads itself.
        replan: returns how many actions are executed, from how many should be. The policy is not told.
    """

    name: str
    observe: Callable[[dict[str, Array], dict[str, Any]], dict[str, Array]] = lambda seen, kept: seen
    answer: Callable[[Array, Seen, _Wired], Array] | None = None
    episode: Callable[[Episode], Episode] = lambda episode: episode
    also: tuple[str, ...] = ()
    replan: Callable[[int | None], int | None] = lambda steps: steps

    def begun(self, episode: Episode, begin: Callable[[Episode], Any], own: int | None) -> _Wired:
        """Begin an episode of the policy, whose own number of executed steps is `own`."""
        executed = episode.replan
        if executed == self.replan(own):
            episode = replace(episode, replan=own)
        return _Wired(begin(self.episode(episode)), executed or self.replan(own))

    def answered(self, given: Any, seen: Seen, wired: _Wired) -> Any:
        """Return a policy's answer, changed."""
        if self.answer is None:
            return given
        if not isinstance(given, Answer):
            return self._changed(given, seen, wired)
        samples = given.samples
        if samples is not None:
            apart = [replace(wired, kept=dict(wired.kept)) for _ in samples]
            samples = np.stack([self._changed(one, seen, each) for one, each in zip(samples, apart, strict=True)])
        return replace(given, actions=self._changed(given.actions, seen, wired), samples=samples)

    def _changed(self, actions: Array, seen: Seen, wired: _Wired) -> Array:
        assert self.answer is not None
        chunk = self.answer(np.atleast_2d(np.asarray(actions, dtype=np.float64)), seen, wired)
        chunk = chunk.astype(np.asarray(actions).dtype)
        return chunk if np.ndim(actions) == 2 else chunk[0]


class _Miswired:
    """A policy that is called once an episode, behind a wiring."""

    def __init__(self, policy: Any, wiring: _Wiring) -> None:
        self._policy, self._wiring = policy, wiring
        self.traits = traits_of(policy)
        if self.traits.reads is not None:
            self.traits = replace(self.traits, reads=_reads(self.traits.reads, wiring))
        self.replan = wiring.replan(getattr(policy, "replan", None))
        if isinstance(digest := getattr(policy, "digest", None), str):
            self.digest = f"{digest}-{wiring.name}"
        for name in ("privileged", "start"):
            if hasattr(policy, name):
                setattr(self, name, getattr(policy, name))

    def __call__(self, episode: Episode) -> Any:
        return _Session(self._wiring, self._begun(episode, self._policy), self.traits.reads or (*_CAMERAS, STATE))

    def _begun(self, episode: Episode, begin: Callable[[Episode], Any]) -> _Wired:
        return self._wiring.begun(episode, begin, getattr(self._policy, "replan", None))


@dataclass
class _Session:
    wiring: _Wiring
    wired: _Wired
    reads: Sequence[str]

    def __call__(self, observation: Any) -> Any:
        seen = {name: observation[name] for name in self.reads if name in observation}
        changed = self.wiring.observe(dict(seen), self.wired.kept)
        return self.wiring.answered(self.wired.inner(ChainMap(changed, observation)), seen, self.wired)

    def close(self) -> None:
        self.wired.close()


class _MiswiredBatch(_Miswired):
    """A policy that answers in batches, behind a wiring."""

    def __init__(self, policy: Any, wiring: _Wiring) -> None:
        super().__init__(policy, wiring)
        self.max_batch, self.reads = policy.max_batch, _reads(policy.reads, wiring)

    def begin(self, episode: Episode) -> _Wired:
        return self._begun(episode, self._policy.begin)

    def act(self, sessions: Sequence[_Wired], observations: Sequence[Seen]) -> list[Any]:
        seen = [{name: observation[name] for name in self.reads} for observation in observations]
        changed = [self._wiring.observe(dict(one), wired.kept) for one, wired in zip(seen, sessions, strict=True)]
        wanted = Observations([{name: one[name] for name in self._policy.reads} for one in changed])
        given = self._policy.act([wired.inner for wired in sessions], wanted)
        return [self._wiring.answered(*each) for each in zip(given, seen, sessions, strict=True)]


def _reads(reads: Sequence[str], wiring: _Wiring) -> tuple[str, ...]:
    return (*reads, *(name for name in wiring.also if name not in reads))


def _wrapped(policy: Any, wiring: _Wiring) -> Any:
    return (_MiswiredBatch if is_batch_policy(policy) else _Miswired)(policy, wiring)


def _wired(
    part: str, name: str, about: str, needs: tuple[str, ...] = (), also: tuple[str, ...] = (), **hooks: Any
) -> Miswiring:
    wiring = _Wiring(name, also=also, **hooks)
    return Miswiring(name, about, part, functools.partial(_wrapped, wiring=wiring), needs)


def together(one: Miswiring, other: Miswiring) -> Miswiring:
    """Return both wirings at once."""
    return Miswiring(
        f"{one.name}+{other.name}",
        f"{one.about} {other.about}",
        f"{one.part}+{other.part}",
        lambda policy: other.wrap(one.wrap(policy)),
        (*one.needs, *other.needs),
        (*one.acceptable, *other.acceptable),
    )


# Pictures.


def _pictures(
    name: str, about: str, change: Callable[[Array], Array], cameras: tuple[str, ...] = _CAMERAS
) -> Miswiring:
    def observe(seen: dict[str, Array], kept: dict[str, Any]) -> dict[str, Array]:
        return seen | {
            camera: np.ascontiguousarray(change(seen[camera]), dtype=seen[camera].dtype)
            for camera in cameras
            if camera in seen
        }

    return _wired(PICTURES, name, about, cameras if len(cameras) == 1 else (SCENE,), observe=observe)


def _swapped_cameras(seen: dict[str, Array], kept: dict[str, Any]) -> dict[str, Array]:
    return seen | {SCENE: seen[WRIST], WRIST: seen[SCENE]}


def _shrunk(picture: Array, area: float = 0.9) -> Array:
    """Return a picture whose central `area` is the whole of it; its edge goes on outside."""
    side = np.sqrt(area)
    for axis in (0, 1):
        length = picture.shape[axis]
        middle = (length - 1) / 2
        places = np.clip((np.arange(length) - middle) / side + middle, 0, length - 1)
        below = np.minimum(places.astype(int), length - 2)
        share = (places - below).reshape([-1 if each == axis else 1 for each in range(3)])
        first, second = (np.take(picture, below + more, axis).astype(np.float64) for more in (0, 1))
        picture = np.rint(first + share * (second - first)).astype(picture.dtype)
    return picture


def _coarse(picture: Array, block: int = 8) -> Array:
    height, width = (length // block * block for length in picture.shape[:2])
    blocks = picture[:height, :width].reshape(height // block, block, width // block, block, 3).mean(axis=(1, 3))
    fine = np.rint(blocks).repeat(block, axis=0).repeat(block, axis=1)
    return np.pad(fine, ((0, len(picture) - height), (0, picture.shape[1] - width), (0, 0)), mode="edge")


# The state: position (m), axis-angle (rad), two fingers (m).


def _state(name: str, about: str, change: Callable[[Array], Array]) -> Miswiring:
    def observe(seen: dict[str, Array], kept: dict[str, Any]) -> dict[str, Array]:
        return seen | {STATE: np.asarray(change(seen[STATE]), dtype=seen[STATE].dtype)}

    return _wired(STATE, name, about, (STATE,), observe=observe)


def _rotated(convert: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda state: np.concatenate([state[:3], convert(np.asarray(state[3:6], dtype=np.float64)), state[6:]])


def _quaternion(turn: Array) -> Array:
    """Return the quaternion xyzw of an axis-angle (3,), rad."""
    angle = float(np.linalg.norm(turn))
    return np.array([*(turn * (np.sinc(angle / (2 * np.pi)) / 2)), np.cos(angle / 2)])


def _axis_angle(quaternion: Array) -> Array:
    """Return the axis-angle (3,) of a quaternion xyzw, its angle from 0 to 2 pi, by robosuite's formula."""
    w = float(np.clip(quaternion[3], -1.0, 1.0))
    sine = np.sqrt(1 - w * w)
    return np.zeros(3) if sine < 1e-9 else quaternion[:3] / sine * (2 * np.arccos(w))


def _times(one: Array, other: Array) -> Array:
    """Return the product of two quaternions xyzw: first `other`, then `one`."""
    first, second = one[:3], other[:3]
    vector = one[3] * second + other[3] * first + np.cross(first, second)
    return np.array([*vector, one[3] * other[3] - first @ second])


def _euler(turn: Array) -> Array:
    """Return roll, pitch and yaw (about the fixed axes x, y, z) of an axis-angle (3,), rad."""
    matrix = rotation_of(turn)
    return np.array(
        [
            np.arctan2(matrix[2, 1], matrix[2, 2]),
            -np.arcsin(np.clip(matrix[2, 0], -1, 1)),
            np.arctan2(matrix[1, 0], matrix[0, 0]),
        ]
    )


def _joints(seen: dict[str, Array], kept: dict[str, Any]) -> dict[str, Array]:
    return seen | {STATE: np.array([*seen[JOINTS], seen[STATE][6] - seen[STATE][7]], dtype=seen[STATE].dtype)}


def _controller(seen: dict[str, Array], kept: dict[str, Any]) -> dict[str, Array]:
    numbers = np.concatenate([seen[CONTROLLER_POS], _axis_angle_of(seen[CONTROLLER_MAT]), seen[STATE][6:]])
    return seen | {STATE: numbers.astype(seen[STATE].dtype)}


def _axis_angle_of(matrix: Array) -> Array:
    """Return the axis-angle (3,) of a matrix (3, 3), by its eigenvector."""
    four = np.array(
        [
            [matrix[0, 0] - matrix[1, 1] - matrix[2, 2], 0, 0, 0],
            [matrix[1, 0] + matrix[0, 1], matrix[1, 1] - matrix[0, 0] - matrix[2, 2], 0, 0],
            [matrix[2, 0] + matrix[0, 2], matrix[2, 1] + matrix[1, 2], matrix[2, 2] - matrix[0, 0] - matrix[1, 1], 0],
            [
                matrix[2, 1] - matrix[1, 2],
                matrix[0, 2] - matrix[2, 0],
                matrix[1, 0] - matrix[0, 1],
                matrix[0, 0] + matrix[1, 1] + matrix[2, 2],
            ],
        ]
    )
    quaternion = np.linalg.eigh(four)[1][:, -1]
    return _axis_angle(quaternion if quaternion[3] >= 0 else -quaternion)


# Actions: translation, rotation, gripper (-1 opens).


def _actions(name: str, about: str, change: Callable[[Array], Array]) -> Miswiring:
    return _wired(ACTIONS, name, about, answer=lambda chunk, seen, wired: change(chunk))


def _gripper(name: str, about: str, change: Callable[[Array], Array]) -> Miswiring:
    return _actions(name, about, lambda chunk: np.column_stack([chunk[:, :6], change(chunk[:, 6])]))


def _scaled(name: str, about: str, factors: Sequence[float], offsets: Sequence[float] = (0.0,) * 6) -> Miswiring:
    return _actions(
        name,
        about,
        lambda chunk: np.column_stack([chunk[:, :6] * np.array(factors) + np.array(offsets), chunk[:, 6]]),
    )


def _sure_to_close(gripper: Array, least: float = 0.9) -> Array:
    """Close where the mean of five steps says so nearly with certainty."""
    padded = np.pad(gripper, 2, mode="edge")
    means = np.convolve(padded, np.full(5, 0.2), mode="valid")
    return np.where(means > least, 1.0, -1.0)


def _absolute(chunk: Array, seen: Seen, wired: _Wired) -> Array:
    """Return the poses that actions lead to, one after the other: m, axis-angle in rad."""
    position = seen[STATE][:3] + np.cumsum(chunk[:, :3] * 0.05, axis=0)
    turn, turns = _quaternion(np.asarray(seen[STATE][3:6], dtype=np.float64)), []
    for action in chunk:
        turn = _times(_quaternion(action[3:6] * 0.5), turn)
        turns.append(_axis_angle(turn))
    return np.column_stack([position, turns, chunk[:, 6]])


def _in_hand(columns: slice) -> Callable[[Array, Seen, _Wired], Array]:
    def answer(chunk: Array, seen: Seen, wired: _Wired) -> Array:
        changed = chunk.copy()
        # Row by row, matrix^T @ vector is vector @ matrix.
        changed[:, columns] = chunk[:, columns] @ rotation_of(np.asarray(seen[STATE][3:6], dtype=np.float64))
        return changed

    return answer


# Normalisation of actions in OpenVLA's data sets libero_object_no_noops and libero_goal_no_noops, by dimension; the
# gripper is in no table. Source: dataset_statistics.json of openvla-7b-finetuned-libero-object and -goal.
_OBJECT_MEAN = np.array([0.0710, 0.1350, -0.0460, 0.0012, 0.0070, -0.0150])
_OBJECT_STD = np.array([0.2681, 0.4385, 0.4475, 0.0244, 0.0494, 0.0421])
_OBJECT_MIN = np.array([-0.8839, -0.9375, -0.9375, -0.1500, -0.2904, -0.3289])
_OBJECT_MAX = np.array([0.9375, 0.8920, 0.9375, 0.1768, 0.3504, 0.1811])
_OBJECT_Q01 = np.array([-0.5384, -0.8759, -0.9375, -0.0696, -0.1168, -0.1596])
_OBJECT_Q99 = np.array([0.8464, 0.8438, 0.9375, 0.0814, 0.1489, 0.0868])
_GOAL_MEAN = np.array([0.0472, 0.0288, -0.1486, -0.0025, 0.0264, 0.0274])
_GOAL_STD = np.array([0.3969, 0.3473, 0.4924, 0.0553, 0.0784, 0.1001])

STATISTICS = {
    name: {"action": {key: row.tolist() for key, row in rows.items()}}
    for name, rows in {
        "libero_object": {
            "mean": _OBJECT_MEAN, "std": _OBJECT_STD, "min": _OBJECT_MIN, "max": _OBJECT_MAX,
            "q01": _OBJECT_Q01, "q99": _OBJECT_Q99,
        },
        "libero_goal": {"mean": _GOAL_MEAN, "std": _GOAL_STD},
    }.items()
}  # fmt: skip
"""The tables that are planted, as in the `dataset_statistics.json` beside a checkpoint."""

_MEANS_FACTOR = _GOAL_STD / _OBJECT_STD
_RANGE_FACTOR = (_OBJECT_MAX - _OBJECT_MIN) / (_OBJECT_Q99 - _OBJECT_Q01)


# Chunks.


def _late(chunk: Array, seen: Seen, wired: _Wired) -> Array:
    before = wired.kept.get("last", _STILL)
    wired.kept["last"] = chunk[min(wired.replan or len(chunk), len(chunk)) - 1]
    return np.vstack([before, chunk[:-1]])


def _stale(seen: dict[str, Array], kept: dict[str, Any]) -> dict[str, Array]:
    before = kept.get("before", seen)
    kept["before"] = seen
    return dict(before)


# Language.


def _language(name: str, about: str, change: Callable[[Episode], str]) -> Miswiring:
    def episode(episode: Episode) -> Episode:
        told = change(episode)
        prompt = episode.prompt.replace(episode.instruction, told) if episode.instruction else told
        return replace(episode, instruction=told, prompt=prompt)

    return _wired(LANGUAGE, name, about, (LANGUAGE,), episode=episode)


def _of_another_task(episode: Episode) -> str:
    """Return the instruction of the suite's next task, whatever the policy is told."""
    tasks = load_suite(episode.suite).tasks
    number = next((number for number, task in enumerate(tasks) if task.name == episode.task), 0)
    return tasks[(number + 1) % len(tasks)].language


def _of_first_task(episode: Episode) -> str:
    return load_suite(episode.suite).tasks[0].language


# Weights.


def _has_weights(policy: Any) -> bool:
    return isinstance(policy, TinyPolicy) or hasattr(getattr(policy, "_model", None), "named_parameters")


def _weights(
    name: str, about: str, change: Callable[[Mapping[str, Array]], Mapping[str, Array]], needs: str = WEIGHTS
) -> Miswiring:
    def wrap(policy: Any) -> Any:
        if isinstance(policy, TinyPolicy):
            trained = policy.trained
            weights = {**trained.weights, **change(trained.weights)}
            return TinyPolicy(replace(trained, weights=weights, digest=f"{trained.digest}-{name}"))
        if not _has_weights(policy):
            raise VlaError(f"{name}: {type(policy).__name__} has no weights that can be replaced")
        import torch

        changed = copy.deepcopy(policy)
        found = dict(changed._model.named_parameters())
        with torch.no_grad():
            for key, values in change({key: each.detach().cpu().numpy() for key, each in found.items()}).items():
                found[key].copy_(torch.from_numpy(np.ascontiguousarray(values)))
        return changed

    return Miswiring(name, about, WEIGHTS, wrap, (needs,))


def _drawn(weights: Mapping[str, Array], names: Sequence[str]) -> dict[str, Array]:
    """Return normal numbers in place of the weights of these names, each with its array's mean and deviation."""
    rng = np.random.default_rng(0)
    return {
        name: rng.normal(weights[name].mean(), weights[name].std(), weights[name].shape).astype(weights[name].dtype)
        for name in names
    }


def _all_drawn(weights: Mapping[str, Array]) -> Mapping[str, Array]:
    return _drawn(weights, list(weights))


def _half_drawn(weights: Mapping[str, Array]) -> Mapping[str, Array]:
    layers = list(dict.fromkeys(name.rpartition(".")[0] for name in weights))[::2]
    return _drawn(weights, [name for name in weights if name.rpartition(".")[0] in layers])


def _head_drawn(weights: Mapping[str, Array]) -> Mapping[str, Array]:
    return _drawn(weights, [name for name in weights if "control.out" in name or "action_head" in name])


def _other_objects(weights: Mapping[str, Array]) -> Mapping[str, Array]:
    """Return tiny's weights with its eight points exchanged in turn, and the words that it knows.

    It moves as before, but to something else: the plate where it was asked for the bowl, a handle for the box; and
    takes a word for another. So it does what belongs to other tasks than these.
    """
    changed = {}
    for name in ("view.out.weight", "view.out.bias", "wrist.out.weight", "wrist.out.bias"):
        values = weights[name].copy()
        places = np.arange(3 * POINTS).reshape(POINTS, 3)
        values[..., places.ravel()] = values[..., np.roll(places, 1, axis=0).ravel()]
        trust = np.arange(values.shape[-1] - POINTS, values.shape[-1])
        values[..., trust] = values[..., np.roll(trust, 1)]
        changed[name] = values
    words = weights["text.embedding"].copy()
    # The first two are padding and unknown words.
    words[2:] = words[2:][np.random.default_rng(0).permutation(len(words) - 2)]
    return changed | {"text.embedding": words}


# The codes of the doctor's findings that name a wiring. Some cannot be told from others by data: a picture that is
# scaled to nothing is black, and a state that is not sent may as well be another observation.
_NAMED = {
    "turned": "010", "mirrored": "010", "flipped": "010", "transposed": "010", "quarter-turned": "010",
    "bgr": "012", "float-twice": "014 015", "unscaled": "014 015", "cameras-swapped": "013",
    "scene-black": "014", "wrist-black": "014", "scene-unturned": "011", "wrist-unturned": "011",
    "state-wxyz": "021", "state-antipodal": "021", "state-rotation-first": "020", "state-gripper-first": "020",
    "state-one-finger": "025", "state-fingers-swapped": "022", "state-zero": "024", "state-mm": "023",
    "state-joints": "024 026", "gripper-sign": "040", "gripper-01-closes": "041", "gripper-01-opens": "041",
    "gripper-never-closes": "042", "scaled-05": "043", "scaled-2": "043", "rotation-scaled": "043",
    "absolute": "045", "translation-hand-frame": "046", "rotation-hand-frame": "046",
    "action-rotation-first": "047", "action-gripper-first": "047", "action-xy-swapped": "047",
    "action-base-turned": "046 047", "other-statistics": "044", "minmax-for-quantiles": "044 043",
    "normalised": "044 043", "other-instruction": "030 031", "underscores": "030 032", "empty": "030",
    "fixed-instruction": "030", "chunk-early": "050", "chunk-late": "050", "every-second": "051",
    "each-twice": "051", "stale": "050", "crop-missing": "016", "crop-extra": "016", "darker": "016 015",
    "low-resolution": "016", "state-euler": "021", "state-controller": "026 021 024",
    "gripper-threshold": "042 050", "upper-case": "032 030", "template": "032 030", "whole-chunk": "052",
    "one-step": "052", "weights-random": "060", "weights-half-random": "060", "weights-head-random": "060",
    "other-task-set": "060 061 031",
}  # fmt: skip


def _named(planted: Miswiring) -> Miswiring:
    return replace(planted, acceptable=tuple(f"VLA-D{code}" for code in _NAMED[planted.name].split()))


MISWIRINGS = tuple(map(_named, (
    _pictures("turned", "Both pictures turned by 180 degrees: once too often, or not at all.", lambda p: p[::-1, ::-1]),
    _pictures("mirrored", "Both pictures mirrored, left for right.", lambda p: p[:, ::-1]),
    _pictures("flipped", "Both pictures upside down.", lambda p: p[::-1]),
    _pictures("transposed", "Rows and columns of both pictures exchanged.", lambda p: p.transpose(1, 0, 2)),
    _pictures("quarter-turned", "Both pictures turned by 90 degrees.", np.rot90),
    _pictures("bgr", "Both pictures with red and blue exchanged.", lambda p: p[..., ::-1]),
    _pictures("float-twice", "Both pictures divided by 255 twice: all but black.", lambda p: p / 255),
    _pictures("unscaled", "Both pictures not divided by 255: saturated.", lambda p: np.minimum(p * 255.0, 255)),
    _wired(PICTURES, "cameras-swapped", "Each camera's picture in the other's place.", _CAMERAS,
           observe=_swapped_cameras),
    _pictures("scene-black", "The scene camera's picture black.", np.zeros_like, (SCENE,)),
    _pictures("wrist-black", "The wrist camera's picture black.", np.zeros_like, (WRIST,)),
    _pictures("scene-unturned", "Only the scene's picture turned by 180 degrees.", lambda p: p[::-1, ::-1], (SCENE,)),
    _pictures("wrist-unturned", "Only the wrist's picture turned by 180 degrees.", lambda p: p[::-1, ::-1], (WRIST,)),
    _pictures("crop-missing", "The centre crop of 90% of the area missing, on which the policy was trained.", _shrunk),
    _pictures("crop-extra", "A centre crop of 90% of the area, on which the policy was not trained.", centre_crop),
    _pictures("darker", "Both pictures darker, by a gamma of 2.2.", lambda p: np.rint((p / 255) ** 2.2 * 255)),
    _pictures("low-resolution", "Both pictures rendered at an eighth of their size.", _coarse),
    _state("state-wxyz", "The quaternion read as wxyz, which was xyzw.",
           _rotated(lambda turn: _axis_angle(np.roll(_quaternion(turn), -1)))),
    _state("state-antipodal", "The axis-angle of the opposite quaternion: the same turn the other way round.",
           _rotated(lambda turn: _axis_angle(-_quaternion(turn)))),
    _state("state-euler", "Roll, pitch and yaw in place of an axis-angle.", _rotated(_euler)),
    _state("state-rotation-first", "The rotation before the position.", lambda s: s[[3, 4, 5, 0, 1, 2, 6, 7]]),
    _state("state-gripper-first", "The fingers before the position.", lambda s: s[[6, 7, 0, 1, 2, 3, 4, 5]]),
    _state("state-one-finger", "One finger; zero for the second.", lambda s: np.array([*s[:7], 0.0])),
    _state("state-fingers-swapped", "The second finger before the first.", lambda s: s[[0, 1, 2, 3, 4, 5, 7, 6]]),
    _state("state-zero", "No state: zeros.", np.zeros_like),
    _state("state-mm", "The position in millimetres.", lambda s: np.array([*s[:3] * 1000, *s[3:]])),
    _wired(STATE, "state-joints", "Seven joint positions and the gripper's opening in place of the pose.",
           (STATE, JOINTS), (JOINTS,), observe=_joints),
    _wired(STATE, "state-controller", "The controller's pose, turned by 90 degrees, in place of the observation's.",
           (STATE, CONTROLLER_POS), (CONTROLLER_POS, CONTROLLER_MAT), observe=_controller),
    _gripper("gripper-sign", "The gripper's sign: it opens where it should close.", lambda g: -g),
    _gripper("gripper-01-closes", "The gripper in [0, 1], where 1 closes: it never opens.", lambda g: (g + 1) / 2),
    _gripper("gripper-01-opens", "The gripper in [0, 1], where 1 opens.", lambda g: (1 - g) / 2),
    _gripper("gripper-threshold", "The gripper closes only where five steps agree.", _sure_to_close),
    _gripper("gripper-never-closes", "The gripper stays open.", lambda g: np.full_like(g, -1.0)),
    _scaled("scaled-05", "Translation and rotation scaled by 0.05 once too often.", [0.05] * 6),
    _scaled("scaled-2", "Translation and rotation twice as large.", [2.0] * 6),
    _scaled("rotation-scaled", "Rotation five times as large.", [1.0] * 3 + [5.0] * 3),
    _wired(ACTIONS, "absolute", "Poses in the world's frame where changes are expected.", (STATE,), (STATE,),
           answer=_absolute),
    _wired(ACTIONS, "translation-hand-frame", "The translation in the hand's frame.", (STATE,), (STATE,),
           answer=_in_hand(slice(0, 3))),
    _wired(ACTIONS, "rotation-hand-frame", "The rotation in the hand's frame.", (STATE,), (STATE,),
           answer=_in_hand(slice(3, 6))),
    _actions("action-rotation-first", "The rotation before the translation.", lambda c: c[:, [3, 4, 5, 0, 1, 2, 6]]),
    _actions("action-gripper-first", "The gripper before the translation.", lambda c: c[:, [6, 0, 1, 2, 3, 4, 5]]),
    _actions("action-xy-swapped", "x and y of the translation exchanged.", lambda c: c[:, [1, 0, 2, 3, 4, 5, 6]]),
    _scaled("action-base-turned", "Actions in the frame of a base that looks the other way.", [-1, -1, 1, -1, -1, 1]),
    _scaled("other-statistics", "Actions normalised by LIBERO-Object's mean and deviation, undone by LIBERO-Goal's.",
            list(_MEANS_FACTOR), list(_GOAL_MEAN - _MEANS_FACTOR * _OBJECT_MEAN)),
    _scaled("minmax-for-quantiles", "Actions normalised by the 1% and 99% quantiles, undone by minimum and maximum.",
            list(_RANGE_FACTOR), list(_OBJECT_MIN - _RANGE_FACTOR * _OBJECT_Q01)),
    _scaled("normalised", "Actions left normalised by mean and deviation.",
            list(1 / _GOAL_STD), list(-_GOAL_MEAN / _GOAL_STD)),
    _language("other-instruction", "The instruction of the suite's next task.", _of_another_task),
    _language("fixed-instruction", "The instruction of the suite's first task in all of them.", _of_first_task),
    _language("underscores", "The instruction with underscores.", lambda e: e.instruction.replace(" ", "_")),
    _language("empty", "No instruction.", lambda e: ""),
    _language("upper-case", "The instruction in capitals.", lambda e: e.instruction.upper()),
    _language("template", "The instruction in OpenVLA's template.",
              lambda e: f"In: What action should the robot take to {e.instruction.lower()}?\nOut:"),
    _wired(CHUNKS, "chunk-early", "Chunks shifted: the first action is left out.",
           answer=lambda chunk, seen, wired: np.vstack([chunk[1:], chunk[-1:]])),
    _wired(CHUNKS, "chunk-late", "Chunks shifted: each action is executed a step late.", answer=_late),
    _wired(CHUNKS, "whole-chunk", "The whole chunk executed.", replan=lambda steps: None),
    _wired(CHUNKS, "one-step", "One action of a chunk executed.", replan=lambda steps: 1),
    _wired(CHUNKS, "every-second", "Every second action of a chunk: half the control rate's actions.",
           answer=lambda chunk, seen, wired: chunk[::2]),
    _wired(CHUNKS, "each-twice", "Each action executed twice: twice the control rate's actions.",
           answer=lambda chunk, seen, wired: chunk.repeat(2, axis=0)[: len(chunk)]),
    _wired(CHUNKS, "stale", "Observations from the question before. One frame by itself shows nothing.",
           observe=_stale),
    _weights("weights-random", "All weights drawn at random.", _all_drawn),
    _weights("weights-half-random", "Every second layer drawn at random.", _half_drawn),
    _weights("weights-head-random", "The last layer drawn at random.", _head_drawn),
    _weights("other-task-set", "Weights that know other tasks: its objects and words are exchanged in turn.",
             _other_objects, TINY),
)))  # fmt: skip

BY_NAME = {each.name: each for each in MISWIRINGS}

_INPUTS = (
    "turned", "mirrored", "flipped", "bgr", "float-twice", "cameras-swapped", "scene-black", "wrist-black",
    "wrist-unturned", "state-wxyz", "state-rotation-first", "state-one-finger", "state-zero", "state-mm",
    "other-instruction", "empty",
)  # fmt: skip
_OUTPUTS = (
    "gripper-sign", "gripper-01-closes", "gripper-never-closes", "scaled-05", "scaled-2", "absolute",
    "translation-hand-frame", "action-rotation-first", "action-xy-swapped", "other-statistics", "chunk-late",
    "every-second",
)  # fmt: skip


def pairs(
    seed: int = 0, number: int = 20, among: Collection[str] | None = None
) -> tuple[tuple[Miswiring, Miswiring], ...]:
    """Return different pairs of a wrong input and a wrong output, drawn by a seed; all, or of those of some names."""
    possible = [(one, other) for one in _INPUTS for other in _OUTPUTS if among is None or {one, other} <= {*among}]
    drawn = np.random.default_rng(seed).choice(len(possible), size=number, replace=False)
    return tuple((BY_NAME[possible[place][0]], BY_NAME[possible[place][1]]) for place in drawn)
