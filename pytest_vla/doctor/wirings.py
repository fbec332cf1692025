"""Wirings: what an adapter may change between a suite and a policy, in what is shown, told and answered.

Each is a mistake that people make (../spec of evaluators, its last table), and mends the opposite mistake.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from pytest_vla.doctor.demonstrations import SCENE, STATE, WRIST
from pytest_vla.policies.view import centre_crop

Array = NDArray[Any]
Shown = dict[str, Array]

PICTURES = (SCENE, WRIST)


@dataclass(frozen=True)
class Wiring:
    """A change between a suite and a policy.

    Attributes:
        code: of the finding that it is the cure of, one of `pytest_vla.doctor.findings.CODES`.
        name: what it does, in words: "the scene's picture turned by 180 degrees".
        lines: of an adapter in Python, which change ``seen``, a dict of the observation, or ``told``, the instruction.
        see: returns what the policy is shown, from what the suite shows.
        tell: returns what the policy is told, from the instruction.
    """

    code: str
    name: str
    lines: tuple[str, ...]
    see: Callable[[Shown], Shown] = lambda seen: seen
    tell: Callable[[str], str] = lambda told: told


def composed(wirings: Sequence[Wiring]) -> Wiring:
    """Return the wiring that applies several, one after the other."""

    def see(seen: Shown) -> Shown:
        for each in wirings:
            seen = each.see(seen)
        return seen

    def tell(told: str) -> str:
        for each in wirings:
            told = each.tell(told)
        return told

    name = ", ".join(each.name for each in wirings) or "as wired today"
    return Wiring("", name, tuple(line for each in wirings for line in each.lines), see, tell)


def changed(name: str, change: Callable[[Array], Array]) -> Callable[[Shown], Shown]:
    """Return what changes one observation, where it is shown."""
    return lambda seen: {**seen, name: change(seen[name])} if name in seen else seen


# Pictures.

TURNS: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
    "turned by 180 degrees": ("[::-1, ::-1]", lambda picture: picture[::-1, ::-1]),
    "upside down": ("[::-1]", lambda picture: picture[::-1]),
    "mirrored": ("[:, ::-1]", lambda picture: picture[:, ::-1]),
    "turned by 90 degrees": (".swapaxes(0, 1)[::-1]", lambda picture: picture.swapaxes(0, 1)[::-1]),
    "turned by 270 degrees": (".swapaxes(0, 1)[:, ::-1]", lambda picture: picture.swapaxes(0, 1)[:, ::-1]),
    "with rows and columns exchanged": (".swapaxes(0, 1)", lambda picture: picture.swapaxes(0, 1)),
    "with rows and columns exchanged, and turned": (
        ".swapaxes(0, 1)[::-1, ::-1]",
        lambda picture: picture.swapaxes(0, 1)[::-1, ::-1],
    ),
}
"""The seven turns and mirrors of a picture besides itself: text of the index, and the function. Each of the first
three undoes itself."""

CAMERAS = {SCENE: "the scene's picture", WRIST: "the wrist's picture"}


def picture_wirings(reads: Iterable[str]) -> list[Wiring]:
    """Return the wirings of the pictures that a policy reads."""
    cameras = [name for name in PICTURES if name in reads]
    if not cameras:
        return []
    every = "both pictures" if len(cameras) > 1 else CAMERAS[cameras[0]]
    found = [_on_pictures("VLA-D010", f"{every} {name}", cameras, index, turn) for name, (index, turn) in TURNS.items()]
    found.append(_on_pictures("VLA-D012", f"{every} with red and blue exchanged", cameras, "[..., ::-1]", _blue_first))
    if len(cameras) > 1:
        swapped = f'seen["{SCENE}"], seen["{WRIST}"] = seen["{WRIST}"], seen["{SCENE}"]'
        found.append(
            Wiring("VLA-D013", "the two cameras exchanged", (swapped,), _exchanged),
        )
        for camera in cameras:
            some = [*TURNS.items()][:3]
            found += [
                _on_pictures("VLA-D011", f"{CAMERAS[camera]} alone {name}", [camera], index, turn)
                for name, (index, turn) in some
            ]
    found += [
        _on_pictures("VLA-D015", f"{every} as float from 0 to 1", cameras, '.astype("float32") / 255', _as_share),
        _on_pictures("VLA-D015", f"{every} as float, times 255", cameras, '.astype("float32") * 255', _enlarged),
        _on_pictures("VLA-D015", f"{every} brighter (gamma 1/2.2)", cameras, "", brighter, "brighter({})"),
        _on_pictures("VLA-D015", f"{every} darker (gamma 2.2)", cameras, "", darker, "darker({})"),
        _on_pictures("VLA-D016", f"{every} cut to the central 90%", cameras, "", _cropped, "centre_crop({})"),
        _on_pictures("VLA-D016", f"{every} shrunk to the central 90%", cameras, "", shrunk, "shrunk({})"),
    ]
    return found


def _on_pictures(
    code: str, name: str, cameras: Sequence[str], index: str, change: Callable[[Array], Array], call: str = "{}"
) -> Wiring:
    def see(seen: Shown) -> Shown:
        return {**seen, **{camera: np.ascontiguousarray(change(seen[camera])) for camera in cameras if camera in seen}}

    texts = [f'seen["{camera}"]' for camera in cameras]
    # A copy: frameworks refuse arrays with negative strides.
    index += ".copy()" * index.endswith("]")
    return Wiring(code, name, tuple(f"{text} = {call.format(text)}{index}" for text in texts), see)


def _blue_first(picture: Array) -> Array:
    return picture[..., ::-1]


def _exchanged(seen: Shown) -> Shown:
    return {**seen, SCENE: seen[WRIST], WRIST: seen[SCENE]} if SCENE in seen and WRIST in seen else seen


def _as_share(picture: Array) -> Array:
    return picture.astype(np.float32) / 255


def _enlarged(picture: Array) -> Array:
    return picture.astype(np.float32) * 255


def brighter(picture: Array) -> Array:
    """Return a picture (h, w, 3) uint8 of linear light as sRGB shows it: gamma 1/2.2. One of floats stays as it is."""
    return _with_gamma(picture, 1 / 2.2)


def darker(picture: Array) -> Array:
    """Return a picture (h, w, 3) uint8 of sRGB in linear light: gamma 2.2. One of floats stays as it is."""
    return _with_gamma(picture, 2.2)


def _with_gamma(picture: Array, gamma: float) -> Array:
    if picture.dtype != np.uint8:
        return picture
    return np.asarray(np.rint(255 * (np.arange(256) / 255) ** gamma).astype(np.uint8)[picture])


def _cropped(picture: Array) -> Array:
    return centre_crop(picture) if picture.dtype == np.uint8 else picture


def shrunk(picture: Array) -> Array:
    """Return a picture that `centre_crop` cuts to the one that is given, within rounding; its border is repeated."""
    if picture.dtype != np.uint8:
        return picture
    side = np.sqrt(0.9)
    places = [np.clip(((np.arange(n) / (n - 1)) - (1 - side) / 2) / side, 0, 1) * (n - 1) for n in picture.shape[:2]]
    rows, columns = (np.rint(each).astype(int) for each in places)
    return np.asarray(picture[rows][:, columns])


# The state: (8,) position in m, axis-angle in rad, two fingers in m.


def _state_wiring(code: str, name: str, line: str, change: Callable[[Array], Array]) -> Wiring:
    return Wiring(code, name, (f'state = seen["{STATE}"]', f'seen["{STATE}"] = {line}'), changed(STATE, change))


def state_wirings(reads: Iterable[str], size: int) -> list[Wiring]:
    """Return the wirings of the state that a policy reads, of a suite whose state has so many values."""
    if STATE not in reads or size != _STATE_SIZE:
        return []
    orders = {
        "the rotation before the position": [3, 4, 5, 0, 1, 2, 6, 7],
        "the fingers first": [6, 7, 0, 1, 2, 3, 4, 5],
        "the first two values last": [2, 3, 4, 5, 6, 7, 0, 1],
        "the two fingers exchanged": [0, 1, 2, 3, 4, 5, 7, 6],
    }
    found = [
        _state_wiring(
            "VLA-D022" if "exchanged" in name else "VLA-D020",
            f"the state with {name}",
            f"state[{order}]",
            lambda state, order=order: state[order],  # type: ignore[misc]
        )
        for name, order in orders.items()
    ]
    turns: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
        "as the other axis-angle of the same turn": ("antipodal({})", antipodal),
        "as Euler angles (xyz)": ('Rotation.from_rotvec({}).as_euler("xyz")', euler),
        "from Euler angles (xyz)": ('Rotation.from_euler("xyz", {}).as_rotvec()', _from_euler),
        "from a quaternion whose w is taken for the last": ("w_last({})", w_last),
        "from a quaternion whose w is taken for the first": ("w_first({})", w_first),
        "inverted": ("-{}", lambda turn: -turn),
    }
    found += [
        _state_wiring(
            "VLA-D021",
            f"the state's rotation {name}",
            f"np.array([*state[:3], *{line.format('state[3:6]')}, *state[6:]])",
            lambda state, turn=turn: np.concatenate([state[:3], turn(state[3:6]), state[6:]]),  # type: ignore[misc]
        )
        for name, (line, turn) in turns.items()
    ]
    # The other states of eight numbers that Open X-Embodiment's data sets have: POS_QUAT and POS_EULER.
    eight: Mapping[str, tuple[str, Callable[[Array], Array]]] = {
        "a quaternion xyzw and one finger": (
            "*Rotation.from_rotvec(state[3:6]).as_quat(), state[6]",
            lambda state: np.array([*state[:3], *Rotation.from_rotvec(state[3:6]).as_quat(), state[6]]),
        ),
        "Euler angles (xyz), a zero and one finger": (
            '*Rotation.from_rotvec(state[3:6]).as_euler("xyz"), 0, state[6]',
            lambda state: np.array([*state[:3], *euler(state[3:6]), 0, state[6]]),
        ),
    }
    found += [
        _state_wiring("VLA-D021", f"the state as position, {name}", f"np.array([*state[:3], {line}])", change)
        for name, (line, change) in eight.items()
    ]
    found += [
        _state_wiring(
            "VLA-D022",
            "the second finger with its sign inverted",
            "np.array([*state[:7], -state[7]])",
            lambda state: np.concatenate([state[:7], -state[7:]]),
        ),
        _state_wiring(
            "VLA-D022",
            "the fingers' signs inverted",
            "np.array([*state[:6], *-state[6:]])",
            lambda state: np.concatenate([state[:6], -state[6:]]),
        ),
    ]
    found += [
        _state_wiring(
            "VLA-D023",
            f"the state's position {word} 1000",
            f"np.array([*state[:3] {sign} 1000, *state[3:]])",
            lambda state, factor=factor: np.concatenate([state[:3] * factor, state[3:]]),  # type: ignore[misc]
        )
        for word, sign, factor in (("times", "*", 1000.0), ("divided by", "/", 0.001))
    ]
    return found


_STATE_SIZE = 8


def antipodal(turn: Array) -> Array:
    """Return the axis-angle (3,) of the same rotation about the opposite axis, by 2 pi less the angle."""
    angle = float(np.linalg.norm(turn))
    return turn if angle < 1e-9 else np.asarray(turn * (1 - 2 * np.pi / angle))


def euler(turn: Array) -> Array:
    """Return roll, pitch and yaw (rad) of an axis-angle (3,), about the fixed axes x, y and z in turn."""
    return np.asarray(Rotation.from_rotvec(turn).as_euler("xyz"))


def _from_euler(angles: Array) -> Array:
    return np.asarray(Rotation.from_euler("xyz", angles).as_rotvec())


def _axis_angle(quaternion: Array) -> Array:
    """Return the axis-angle of a quaternion xyzw with an angle in [0, 2 pi], as robosuite's formula."""
    x, w = quaternion[:3], float(np.clip(quaternion[3], -1, 1))
    sine = np.sqrt(max(1 - w * w, 0.0))
    return np.zeros(3) if sine < 1e-9 else np.asarray(x / sine * 2 * np.arccos(w))


def _quaternion(turn: Array) -> Array:
    """Return the quaternion xyzw of an axis-angle, continuous over angles in [0, 2 pi]."""
    half = float(np.linalg.norm(turn)) / 2
    return np.array([*(np.asarray(turn) / 2 * np.sinc(half / np.pi)), np.cos(half)])


def w_last(turn: Array) -> Array:
    """Return an axis-angle (3,) whose quaternion wxyz is taken for xyzw."""
    return _axis_angle(np.roll(_quaternion(turn), 1))


def w_first(turn: Array) -> Array:
    """Return an axis-angle (3,) whose quaternion xyzw is taken for wxyz."""
    return _axis_angle(np.roll(_quaternion(turn), -1))


# The instruction.


def prompt_wirings() -> list[Wiring]:
    """Return the wordings of one instruction that checkpoints are known to need."""
    forms: Mapping[str, tuple[str, Callable[[str], str]]] = {
        "with underscores": ('told.replace(" ", "_")', lambda told: told.replace(" ", "_")),
        "without underscores": ('told.replace("_", " ")', lambda told: told.replace("_", " ")),
        "with a capital and a full stop": (
            'told.capitalize().rstrip(".") + "."',
            lambda told: told.capitalize().rstrip(".") + ".",
        ),
        "in lower case": ("told.lower()", str.lower),
        "in OpenVLA's template": (
            'f"In: What action should the robot take to {told.lower()}?\\nOut:"',
            lambda told: f"In: What action should the robot take to {told.lower()}?\nOut:",
        ),
    }
    return [
        Wiring("VLA-D032", f"the instruction {name}", (f"told = {line}",), tell=tell)
        for name, (line, tell) in forms.items()
    ]
