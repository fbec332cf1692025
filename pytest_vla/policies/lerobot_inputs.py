"""The inputs of a lerobot policy, from its config: which camera becomes which of its pictures."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies import fit
from pytest_vla.policies.fit import ACTION_SIZE, STATE_SIZE

STATE = "observation.state"


ACTION = "action"


_SCENE, _WRIST = "agentview_image", "robot0_eye_in_hand_image"


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
        state: the key for the state (8,), or None if the policy takes no state.
    """

    pictures: Mapping[str, str]
    sizes: Mapping[str, tuple[int, int]]
    state: str | None

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of our observations that are needed."""
        return (*dict.fromkeys(self.pictures.values()), *(["state"] if self.state else []))


def read_inputs(config: Any, renames: Mapping[str, str]) -> Inputs:
    """Return the inputs of a policy with this config.

    Args:
        config: lerobot's ``PreTrainedConfig``.
        renames: the renaming in the policy's preprocessor, from the key that it takes to the key of the config.

    Raises:
        VlaError: the policy needs more cameras than there are, a different state or other observations, or has
            different actions.
    """
    _check_actions(config)
    taken = {new: old for old, new in renames.items()}
    pictures: dict[str, str] = {}
    for key, picture in _assign(list(config.image_features), config).items():
        pictures[taken.get(key, key)] = picture
    state = None
    for key, feature in config.input_features.items():
        if key in config.image_features:
            continue
        if key != STATE:
            raise _unfit(fit.OBSERVATION, f"the policy needs {key!r}, but suites have only pictures and {STATE!r}")
        if tuple(feature.shape) != (STATE_SIZE,):
            raise _unfit(
                fit.STATE,
                f"the policy needs a state {tuple(feature.shape)}, but suites have ({STATE_SIZE},): position, "
                "axis-angle, two fingers",
                "take a checkpoint that was trained on LIBERO",
            )
        state = taken.get(key, key)
    sizes = {}
    if not any(getattr(config, name, None) for name in _RESIZES_ITSELF):
        shapes = {taken.get(key, key): tuple(feature.shape) for key, feature in config.image_features.items()}
        sizes = {key: _height_and_width(shapes[key]) for key in pictures}
    return Inputs(pictures, sizes, state)


def _check_actions(config: Any) -> None:
    mode = getattr(config, "action_mode", None)
    if isinstance(mode, str) and "ee6d" in mode:
        raise _unfit(
            fit.ACTION_CONVENTION,
            f"the policy's actions are absolute poses (action_mode {mode!r}), but suites take relative ones",
            "lerobot-eval runs such a checkpoint with --env.control_mode=absolute; pytest-vla does not support it yet",
        )
    feature = (config.output_features or {}).get(ACTION)
    if feature is None or tuple(feature.shape) != (ACTION_SIZE,):
        shape = "none" if feature is None else tuple(feature.shape)
        raise _unfit(
            fit.ACTION_DIMENSION,
            f"the policy's actions have shape {shape}, but suites take ({ACTION_SIZE},)",
            "take a checkpoint that was trained on LIBERO",
        )


def _assign(keys: list[str], config: Any) -> dict[str, str]:
    """Return our picture for each key: by name, then by order.

    Keys of empty cameras get none: the class fills them itself.
    """
    assigned: dict[str, str] = {}
    for wanted, names in ((_SCENE, _SCENE_NAMES), (_WRIST, _WRIST_NAMES)):
        for key in keys:
            name = key.rpartition(".")[2].lower()
            is_wrist = bool(_WRIST_NAMES.search(name))
            if names.search(name) and is_wrist == (wanted is _WRIST) and "empty" not in name:
                assigned[key] = wanted
                break
    left = [picture for picture in (_SCENE, _WRIST) if picture not in assigned.values()]
    rest = [key for key in keys if key not in assigned and "empty" not in key.rpartition(".")[2].lower()]
    while rest and left:
        assigned[rest.pop(0)] = left.pop(0)
    named_empty = sum("empty" in key.rpartition(".")[2].lower() for key in keys)
    if len(rest) > max(int(getattr(config, "empty_cameras", 0) or 0) - named_empty, 0):
        raise _unfit(
            fit.OBSERVATION,
            f"the policy needs {len(keys) - named_empty} cameras ({', '.join(keys)}), but suites have two "
            f"({_SCENE}, {_WRIST}): there is no picture for {', '.join(rest)}",
            "if it was trained without that picture, set empty_cameras in its config.json",
        )
    return {key: assigned[key] for key in keys if key in assigned}


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
