"""The inputs of a lerobot policy, from its config: which camera becomes which of its pictures."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies import fit
from pytest_vla.util.text import did_you_mean

STATE = "observation.state"


ACTION = "action"


SCENE, WRIST = "agentview_image", "robot0_eye_in_hand_image"


_WRIST_NAMES = re.compile(r"wrist|hand|gripper|^image_?2$|^camera_?2$")


_SCENE_NAMES = re.compile(r"agentview|^image_?1?$|^camera_?1$|front|base|top|exterior|third|main|static")


# Config attributes of classes that resize pictures themselves; lerobot-eval relies on that, too.
_RESIZES_ITSELF = ("resize_imgs_with_padding", "image_resolution", "resize_shape")


@dataclass(frozen=True)
class Inputs:
    """The inputs of a policy's preprocessor.

    Attributes:
        pictures: for each key of the preprocessor, the name of our picture.
        sizes: height and width in pixels for the keys whose pictures have to be resized.
        state: the key for the state, or None if the policy takes no state.
        guessed: the keys whose picture was chosen by order, since neither their name nor the user says it.
        is_xvla: whether actions and state are X-VLA's: poses with six numbers for the rotation.
        state_size: how many numbers the state has; None without one, and for X-VLA, which pads any.
        action_size: how many numbers an action has.
    """

    pictures: Mapping[str, str]
    sizes: Mapping[str, tuple[int, int]]
    state: str | None
    guessed: tuple[str, ...] = ()
    is_xvla: bool = False
    state_size: int | None = None
    action_size: int = fit.ACTION_SIZE

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of our observations that are needed."""
        state = ("robot0_eef_pos", "controller_mat") if self.is_xvla else ("state",)
        return (*dict.fromkeys(self.pictures.values()), *(state if self.state else ()))


CAMERAS = "cameras"
"""The argument of ``lerobot:PATH?cameras=NAME:CAMERA,...``."""


BASE = "base"
"""The argument of ``lerobot:PATH?base=WHERE``: the policy that an adapter was trained on."""


def read_cameras(text: str, option: str = CAMERAS, known: Sequence[str] = ()) -> dict[str, str]:
    """Read the argument ``cameras``: our picture for each name of the policy's, such as ``top:agentview,side:...``.

    Args:
        text: of the argument.
        option: the argument's name, for messages.
        known: the pictures that may be chosen; empty for those of any suite.

    Raises:
        VlaError: it has another form, or names another camera than these.
    """
    found = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, colon, camera = each.rpartition(":")
        picture = f"{camera.removesuffix('_image')}_image"
        if not (name and colon and camera) or (known and picture not in known):
            which = " or ".join(each.removesuffix("_image") for each in known or (SCENE, WRIST))
            told = f"with the camera {which}" if known else f"with the suite's camera, such as {which}"
            raise VlaError(f"{option}={text}: expected NAME:CAMERA[,NAME:CAMERA], {told}")
        found[name] = picture
    return found


def read_inputs(config: Any, renames: Mapping[str, str], cameras: Mapping[str, str] | None = None) -> Inputs:
    """Return the inputs of a policy with this config.

    Args:
        config: lerobot's ``PreTrainedConfig``.
        renames: the renaming in the policy's preprocessor, from the key that it takes to the key of the config.
        cameras: our picture by the name of the policy's, a key or its last part, as the user chose it; others are
            assigned by name and then by order.

    Raises:
        VlaError: the policy needs more cameras than there are or other observations, or has no actions. Sizes are
            compared with a suite's by `pytest_vla.policies.fit.check_fit`.
    """
    is_xvla = "ee6d" in str(getattr(config, "action_mode", ""))
    action_size = fit.ACTION_SIZE if is_xvla else _size_of((config.output_features or {}).get(ACTION), "actions")
    taken = {new: old for old, new in renames.items()}
    pictures: dict[str, str] = {}
    assigned, guessed = _assign(list(config.image_features), config, cameras or {})
    for key, picture in assigned.items():
        pictures[taken.get(key, key)] = picture
    state, state_size = None, None
    for key, feature in config.input_features.items():
        if key in config.image_features:
            continue
        if key != STATE:
            raise _unfit(fit.OBSERVATION, f"the policy needs {key!r}, but suites have only pictures and {STATE!r}")
        state, state_size = taken.get(key, key), None if is_xvla else _size_of(feature, "state")
    sizes = {}
    # X-VLA takes any size.
    if not is_xvla and not any(getattr(config, name, None) for name in _RESIZES_ITSELF):
        shapes = {taken.get(key, key): tuple(feature.shape) for key, feature in config.image_features.items()}
        sizes = {key: _height_and_width(shapes[key]) for key in pictures}
    unsure = tuple(taken.get(key, key) for key in guessed)
    return Inputs(pictures, sizes, state, unsure, is_xvla, state_size, action_size)


def _size_of(feature: Any, what: str) -> int:
    """Return how many numbers a feature has. Raises VlaError if it is no vector."""
    shape = None if feature is None else tuple(feature.shape)
    if shape is None or len(shape) != 1:
        code = fit.STATE if what == "state" else fit.ACTION_DIMENSION
        raise _unfit(
            code, f"the shape of the policy's {what} is {shape}, expected one dimension", "check its config.json"
        )
    return int(shape[0])


def assign_by_name(keys: Sequence[str], chosen: Mapping[str, str], what: str) -> dict[str, str]:
    """Return our picture for the keys that the user chose it for, or whose name says it.

    Args:
        keys: of a policy's pictures, or of a data set's.
        chosen: our picture by key, or by a key's last part.
        what: has the keys, for messages.

    Raises:
        VlaError: a chosen key is not among them.
    """
    assigned: dict[str, str] = {}
    for name, picture in chosen.items():
        meant = [key for key in keys if name in (key, key.rpartition(".")[2])]
        if not meant:
            short = [key.rpartition(".")[2] for key in keys]
            raise VlaError(
                f"{CAMERAS}: {what} has no picture {name!r}.{did_you_mean(name, short)} It has {', '.join(short)}"
            )
        assigned.update(dict.fromkeys(meant, picture))
    for wanted, names in ((SCENE, _SCENE_NAMES), (WRIST, _WRIST_NAMES)):
        for key in keys if wanted not in assigned.values() else ():
            if key in assigned:
                continue
            name = key.rpartition(".")[2].lower()
            is_wrist = bool(_WRIST_NAMES.search(name))
            if names.search(name) and is_wrist == (wanted is WRIST) and "empty" not in name:
                assigned[key] = wanted
                break
    return assigned


def _assign(keys: list[str], config: Any, chosen: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return our picture for each key, and the keys whose picture is a guess: as chosen, by name, then by order.

    Keys of empty cameras get none: the class fills them itself.
    """
    assigned = assign_by_name(keys, chosen, "the policy")
    left = [picture for picture in (SCENE, WRIST) if picture not in assigned.values()]
    rest = [key for key in keys if key not in assigned and "empty" not in key.rpartition(".")[2].lower()]
    # Of two, one whose name is known leaves no doubt.
    guessed = rest[: len(left)] if len(left) > 1 or len(rest) > 1 else []
    while rest and left:
        assigned[rest.pop(0)] = left.pop(0)
    named_empty = sum("empty" in key.rpartition(".")[2].lower() for key in keys)
    if len(rest) > max(int(getattr(config, "empty_cameras", 0) or 0) - named_empty, 0):
        raise _unfit(
            fit.OBSERVATION,
            f"the policy needs {len(keys) - named_empty} cameras ({', '.join(keys)}), but suites have two "
            f"({SCENE}, {WRIST}): there is no picture for {', '.join(rest)}",
            f"choose with lerobot:PATH?{CAMERAS}=NAME:CAMERA,...; if it was trained without that picture, set "
            "empty_cameras in its config.json",
        )
    return {key: assigned[key] for key in keys if key in assigned}, guessed


def _height_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 3:
        raise _unfit(
            fit.PICTURE_SIZE,
            f"the policy needs pictures of shape {shape}, but a suite's are (3, height, width)",
            "check input_features in its config.json",
        )
    # Some datasets were recorded with channels last.
    height, width = shape[1:] if shape[0] == 3 else shape[:2]
    return height, width


def _unfit(code: fit.FitCode, said: str, mend: str | None = None) -> VlaError:
    return VlaError(str(code.found(said, mend=mend)))
