"""What a policy says of itself: what it reads and what its actions mean, to be held against a suite (`fit`)."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import IMAGE_TRANSFORMS
from pytest_vla.util.text import did_you_mean

ACTION_CONVENTIONS = ("relative", "absolute")
"""Changes of the end effector's pose, or poses."""

ROTATIONS = ("axis_angle", "euler", "quaternion", "rotation_6d")

GRIPPERS = ("-1 opens, 1 closes", "1 opens, -1 closes", "0 opens, 1 closes", "1 opens, 0 closes", "width")
"""What the gripper's number means; ``width`` is the opening that is wanted, and no direction."""

STATE_LAYOUTS = (
    "eef_pos, axis_angle, gripper_qpos",
    "eef_pos, quaternion, gripper_qpos",
    "eef_pos, euler, gripper_qpos",
    "joint_pos, gripper_qpos",
    "joint_pos, gripper_position",
)
"""What stands in ``state``, in this order; gripper_qpos is one number a finger, gripper_position one in all."""


@dataclass(frozen=True)
class Traits:
    """What a policy says of itself. None: it does not say, and nobody checks. Raises VlaError for another value.

    Attributes:
        action_size: numbers in an action.
        action_convention: one of `ACTION_CONVENTIONS`.
        rotation: how an action writes the rotation; one of `ROTATIONS`.
        gripper: what an action's last number means; one of `GRIPPERS`.
        reads: the observations that it reads, such as ``agentview_image`` and ``state``. A `BatchPolicy` that does not
            say has its attribute of that name.
        image_size: height and width in pixels of the only pictures that it takes. A policy that brings pictures to
            its size itself does not say.
        image_transform: the form of the pictures that it was trained on; one of `IMAGE_TRANSFORMS`.
        state_size: numbers in the state that it takes.
        state_layout: what these are; one of `STATE_LAYOUTS`.
        control_freq: actions a second that it was trained on, Hz.
        language: whether it reads the instruction.
        instructions: the only ones that it was trained on.
        chunk: the most actions that one answer has.
        draws: whether it samples its actions, so that it may answer the same question in different ways; what does not
            draw does the same again from an equal start.
    """

    action_size: int | None = None
    action_convention: str | None = None
    rotation: str | None = None
    gripper: str | None = None
    reads: tuple[str, ...] | None = None
    image_size: tuple[int, int] | None = None
    image_transform: str | None = None
    state_size: int | None = None
    state_layout: str | None = None
    control_freq: float | None = None
    language: bool | None = None
    instructions: tuple[str, ...] | None = None
    chunk: int | None = None
    draws: bool | None = None

    def __post_init__(self) -> None:
        for name, (read, expected) in _VALUES.items():
            value = getattr(self, name)
            if value is None:
                continue
            try:
                # A list from JSON becomes a tuple.
                object.__setattr__(self, name, read(value))
            except (TypeError, ValueError, OverflowError):
                raise VlaError(f"a policy's traits: {name} is {_short(value)}, expected {expected}") from None

    def table(self) -> dict[str, Any]:
        """What is said, of values that JSON and msgpack know, as it goes to another process."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in said.items()
            if value is not None
        }

    @classmethod
    def of(cls, table: Mapping[Any, Any]) -> "Traits":
        """What `table` made a table of, or a policy's own mapping. Raises VlaError: an unknown name or value."""
        for name in table:
            if name not in _VALUES:
                close = did_you_mean(str(name), _VALUES)
                raise VlaError(f"a policy's traits: there is no {_short(name)}.{close} Known: {', '.join(_VALUES)}.")
        return cls(**table)


def traits_of(policy: object) -> Traits:
    """What a policy says of itself by its attribute ``traits``, a `Traits` or a mapping of its names.

    Raises:
        VlaError: it is something else, or has unknown names or values.
    """
    said = getattr(policy, "traits", None)
    if said is None:
        said = Traits()
    if isinstance(said, Mapping):
        said = Traits.of(said)
    if not isinstance(said, Traits):
        raise VlaError(
            f"a policy's traits are {type(said).__name__}, expected pytest_vla.policies.traits.Traits or a mapping "
            f"with some of {', '.join(_VALUES)}"
        )
    reads = getattr(policy, "reads", None)
    return said if said.reads is not None or reads is None else replace(said, reads=reads)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _count(value: Any) -> int:
    if isinstance(value, bool) or (number := operator.index(value)) < 1:
        raise ValueError
    return number


def _rate(value: Any) -> float:
    if isinstance(value, bool | str) or not 0 < (number := float(value)) < math.inf:
        raise ValueError
    return number


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    texts = tuple(value)
    # A text by itself is also an iterable of texts.
    if isinstance(value, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError
    return texts


def _size(value: Any) -> tuple[int, int]:
    height, width = map(_count, value)
    return height, width


def _one_of(words: Iterable[str]) -> tuple[Callable[[Any], Any], str]:
    known = tuple(words)

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError
        return value

    return read, f"one of {', '.join(map(repr, known))}"


_VALUES: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "action_size": (_count, "how many numbers an action has"),
    "action_convention": _one_of(ACTION_CONVENTIONS),
    "rotation": _one_of(ROTATIONS),
    "gripper": _one_of(GRIPPERS),
    "reads": (_texts, "a list of observations, such as ['agentview_image', 'state']"),
    "image_size": (_size, "(height, width) in pixels"),
    "image_transform": _one_of(IMAGE_TRANSFORMS),
    "state_size": (_count, "how many numbers the state has"),
    "state_layout": _one_of(STATE_LAYOUTS),
    "control_freq": (_rate, "actions a second, such as 20"),
    "language": (_flag, "True or False: whether it reads the instruction"),
    "instructions": (_texts, "a list of instructions"),
    "chunk": (_count, "how many actions an answer has at most"),
    "draws": (_flag, "True or False: whether it samples its actions"),
}
"""Of each name, what reads its value and what is expected. Readers raise TypeError, ValueError or OverflowError."""
