"""Whether a policy fits a suite, judged by their traits: findings with stable codes. No policy is loaded.

`CODES` lists every possible finding; those that only a trial can show come from `pytest_vla.policies.trial`.
"""

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import (
    ABSOLUTE,
    CONTROLLER_6D,
    EITHER,
    IMAGE_TRANSFORMS,
    ONE_CLOSES,
    ONE_OPENS,
    RELATIVE,
    picture_steps,
    viewed_size,
)
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import OWN_EVALUATOR, Protocol
from pytest_vla.util.text import counted, did_you_mean, printable

# The traits of a policy: its observations and the meaning of its actions, to compare with a suite.

ACTION_CONVENTIONS = (RELATIVE, ABSOLUTE)
"""Changes of the end effector's pose (relative), or poses in the world's frame (absolute)."""

ROTATIONS = ("axis_angle", "euler", "quaternion", "rotation_6d")

OPENS, RAW_OPENS, RAW_CLOSES = "-1 opens, 1 closes", "1 opens, 0 closes", "0 opens, 1 closes"

GRIPPERS = (OPENS, "1 opens, -1 closes", RAW_CLOSES, RAW_OPENS, "0 to 1", "width")
"""The meaning of the gripper's value; ``0 to 1`` does not say which closes, ``width`` is the desired opening."""

STATE_LAYOUTS = (
    "eef_pos, axis_angle, gripper_qpos",
    "eef_pos, quaternion, gripper_qpos",
    "eef_pos, euler, gripper_qpos",
    "joint_pos, gripper_qpos",
    "joint_pos, gripper_position",
    "controller_pos, rotation_6d, 0",
)
"""The parts of ``state``, in this order; gripper_qpos is one value per finger, gripper_position one in all."""


@dataclass(frozen=True)
class Traits:
    """A policy's description of itself. Unknown traits are None and not checked. Raises VlaError for a bad value.

    Attributes:
        action_size: the number of values in an action.
        action_convention: one of `ACTION_CONVENTIONS`.
        rotation: the encoding of the rotation in an action; one of `ROTATIONS`.
        gripper: the meaning of the last value of an action; one of `GRIPPERS`.
        reads: the observations that it reads, such as ``agentview_image`` and ``state``. The default for a
            `BatchPolicy` is its attribute of that name.
        image_size: height and width in pixels, if pictures of no other size are accepted. A policy that resizes
            pictures itself leaves it out.
        image_transform: the form of the pictures that it was trained on; one of `IMAGE_TRANSFORMS`.
        state_size: the number of values in the state that it takes.
        state_layout: the meaning of these values; one of `STATE_LAYOUTS`.
        control_freq: the control rate that it was trained at, Hz.
        language: whether it reads the instruction.
        instructions: the only instructions that it was trained on.
        chunk: the largest number of actions in one answer.
        draws: whether it samples its actions, so that answers to the same question may differ; a policy that
            does not sample repeats itself from the same initial state.
        cameras: for pictures that it knows by other names, ``NAME=OBSERVATION`` each.
        guessed: those of these names whose observation was chosen by order alone.
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
    cameras: tuple[str, ...] | None = None
    guessed: tuple[str, ...] | None = None

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
        """Return the traits that are not None, as values for JSON and msgpack."""
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in said.items()
            if value is not None
        }

    @classmethod
    def of(cls, table: Mapping[Any, Any]) -> "Traits":
        """Read traits from the result of `table` or from a policy's own mapping.

        Raises:
            VlaError: a name is unknown, or a value invalid.
        """
        for name in table:
            if name not in _VALUES:
                close = did_you_mean(str(name), _VALUES)
                raise VlaError(f"a policy's traits: there is no {_short(name)}.{close} Known: {', '.join(_VALUES)}.")
        return cls(**table)


def traits_of(policy: object) -> Traits:
    """Return a policy's traits from its attribute ``traits``, a `Traits` or a mapping of its names.

    Raises:
        VlaError: the attribute is something else, or has unknown names or values.
    """
    said = getattr(policy, "traits", None)
    if said is None:
        said = Traits()
    if isinstance(said, Mapping):
        said = Traits.of(said)
    if not isinstance(said, Traits):
        raise VlaError(
            f"a policy's traits are {type(said).__name__}, expected pytest_vla.policies.fit.Traits or a mapping "
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
    "cameras": (_texts, "a list of texts such as 'top=agentview_image'"),
    "guessed": (_texts, "a list of names of pictures"),
}
"""For each trait, its reader and the expected value. Readers raise TypeError, ValueError or OverflowError."""


ERROR, WARNING = "error", "warning"

ACTION_SIZE = 7
STATE_SIZE = 8
POSE_6D_SIZE = 10

WORLD = Traits(
    action_size=ACTION_SIZE,
    action_convention=RELATIVE,
    rotation="axis_angle",
    gripper=GRIPPERS[0],
    reads=(
        *("state", "robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "robot0_joint_pos"),
        *("controller_pos", "controller_mat"),
    ),
    state_size=STATE_SIZE,
    state_layout="eef_pos, axis_angle, gripper_qpos",
)
"""The interface of every suite's world: robosuite's OSC_POSE, 1 is 0.05 m or 0.5 rad. The protocol has the rest."""


@dataclass(frozen=True)
class FitCode:
    """One reason for which a policy does not fit a suite.

    Attributes:
        name: stable for ever.
        severity: `ERROR` if such a policy cannot succeed, `WARNING` if the difference may be intended.
        meaning: the reason, in one line.
        mend: the remedy, in one line.
    """

    name: str
    severity: str
    meaning: str
    mend: str

    def found(self, said: str, *, mend: str | None = None, severity: str | None = None) -> "FitFinding":
        """Make a finding with this code.

        Args:
            said: the difference between the policy and the suite.
            mend: a more specific remedy than the code's, if there is one.
            severity: overrides the code's severity.
        """
        line = " ".join(f"{said}; {mend or self.mend}".split())
        # A terminal would obey control characters.
        return FitFinding(self.name, severity or self.severity, printable(line))


@dataclass(frozen=True)
class FitFinding:
    """One way in which a policy does not fit a suite.

    `message` is one line: the policy's property, the suite's, and the remedy.
    """

    code: str
    severity: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


ACTION_DIMENSION = FitCode(
    "VLA-P001", ERROR, "An action has a different number of values than the suite's.",
    "return 7 values: translation (3), rotation (3), gripper (1)",
)  # fmt: skip
ACTION_CONVENTION = FitCode(
    "VLA-P002", ERROR, "Actions are absolute poses, but the evaluator takes relative ones, or the reverse.",
    "use an evaluator that takes such actions: --vla-evaluator=ours takes both",
)  # fmt: skip
ROTATION = FitCode(
    "VLA-P003", ERROR, "The rotation of an action has a different encoding; a warning for relative Euler angles.",
    "convert it to axis-angle (scipy's Rotation.as_rotvec), divided by 0.5 rad",
)  # fmt: skip
GRIPPER = FitCode(
    "VLA-P004", ERROR, "The gripper's value has a different meaning than the suite's.",
    "convert it: -1 opens, 1 closes",
)  # fmt: skip
OBSERVATION = FitCode(
    "VLA-P005", ERROR, "The policy reads a camera or other observation that the suite does not have.",
    "read only the suite's observations, or use a checkpoint that was trained on them",
)  # fmt: skip
PICTURE_SIZE = FitCode(
    "VLA-P006", ERROR, "The policy takes only pictures of a different size.",
    "resize them in the policy (pytest_vla.policies.view.resize_with_padding does it as openpi does), and omit "
    "image_size",
)  # fmt: skip
PICTURE_TRANSFORM = FitCode(
    "VLA-P007", ERROR, "The policy was trained on pictures with a different rotation or mirroring.",
    "mirror them in the policy, picture[:, ::-1], and declare the suite's image_transform in its traits",
)  # fmt: skip
STATE = FitCode(
    "VLA-P008", ERROR, "The state differs from the suite's.",
    "compute the state from the observations robot0_eef_pos, _eef_quat (xyzw), _gripper_qpos, _joint_pos, or use a "
    "checkpoint that was trained on LIBERO",
)  # fmt: skip
# Not an error: data sets made from LIBERO's demonstrations, which run at 20 Hz, state 10 Hz.
CONTROL_RATE = FitCode(
    "VLA-P009", WARNING, "The policy was trained at a different control rate.",
    "check the source of that rate: data sets often state a wrong one",
)  # fmt: skip
NO_INSTRUCTION = FitCode(
    "VLA-P010", ERROR, "The policy reads the instruction, but a task has none.",
    "name the task's file in words: they become the instruction",
)  # fmt: skip
OTHER_INSTRUCTIONS = FitCode(
    "VLA-P011", WARNING, "The policy was not trained on a task's instruction.",
    "select the tasks that it knows with --vla-tasks, or continue if this is your test",
)  # fmt: skip
READS_NO_INSTRUCTION = FitCode(
    "VLA-P012", WARNING, "The policy reads no instruction, but the suite's tasks differ by it.",
    "select one task with --vla-tasks, or expect it to perform any of them",
)  # fmt: skip
# Records have the number from the command line: it would suggest conditions that do not differ.
LONGER_THAN_CHUNK = FitCode(
    "VLA-P013", ERROR, "More steps are requested (--vla-replan) than a chunk has actions.",
    "set --vla-replan to the chunk's length or less",
)  # fmt: skip
GUESSED_CAMERA = FitCode(
    "VLA-P014", WARNING, "The name of a picture does not say which camera it is from, so its order decides.",
    "type it: lerobot:PATH?cameras=NAME:agentview,NAME:robot0_eye_in_hand",
)  # fmt: skip

ANSWER = FitCode(
    "VLA-P101", ERROR, "An answer is not an array of numbers with the shape of an action (7,) or a chunk (k, 7).",
    "return an array of that shape, float32 or float64",
)  # fmt: skip
NOT_FINITE = FitCode(
    "VLA-P102", ERROR, "An answer contains NaN or infinity.",
    "check its normalisation (a deviation of 0?), half precision, and weights that were not loaded",
)  # fmt: skip
OUT_OF_RANGE = FitCode(
    "VLA-P103", WARNING, "Actions are outside [-1, 1]; an error if the suite does not clip them.",
    "check the scale: 1 is 0.05 m or 0.5 rad; a few such actions on random pictures are harmless",
)  # fmt: skip
NOT_REPEATABLE = FitCode(
    "VLA-P104", ERROR, "A repeated question gets a different answer; a warning for a policy on a server.",
    "draw from episode.rng only, and keep no state between episodes",
)  # fmt: skip
LEAK = FitCode(
    "VLA-P105", ERROR, "An episode's answers change if another episode runs beside or before it.",
    "keep episode state (history, chunk queue, caches) in the session; share weights only",
)  # fmt: skip
BATCH = FitCode(
    "VLA-P106", ERROR, "An answer depends on the rest of its batch.",
    "check padding, normalisation over the batch, the order of answers and draws from other generators than each"
    " episode's rng, or set max_batch = 1",
)  # fmt: skip
IGNORES_INSTRUCTION = FitCode(
    "VLA-P107", WARNING, "Answers do not depend on the instruction.",
    "check that episode.instruction reaches the model",
)  # fmt: skip
IGNORES_PICTURES = FitCode(
    "VLA-P108", WARNING, "Answers do not depend on the pictures.",
    "check that they reach the model, under the names that it takes",
)  # fmt: skip
CONSTANT_GRIPPER = FitCode(
    "VLA-P109", WARNING, "The gripper never changes.",
    "check that it takes both signs (-1 opens, 1 closes); on random pictures a policy may keep it constant",
)  # fmt: skip
RAISES = FitCode(
    "VLA-P110", ERROR, "The policy raises an exception.",
    "fix the exception: every episode would end as an error",
)  # fmt: skip

SMALL_ACTIONS = FitCode(
    "VLA-P111", WARNING, "The arm's values never exceed 0.1 in a trial.",
    "check the unit: 1 is 0.05 m or 0.5 rad, so values in metres or without the inverse of the normalisation barely "
    "move the arm",
)  # fmt: skip
BATCH_ROUNDING = FitCode(
    "VLA-P112", WARNING, "An answer in a batch differs from the answer alone by rounding.",
    "expect records that differ in their last bits with the number of workers, or set max_batch = 1 to have equal ones",
)  # fmt: skip

CODES = {
    code.name: code
    for code in (
        ACTION_DIMENSION, ACTION_CONVENTION, ROTATION, GRIPPER, OBSERVATION, PICTURE_SIZE, PICTURE_TRANSFORM, STATE,
        CONTROL_RATE, NO_INSTRUCTION, OTHER_INSTRUCTIONS, READS_NO_INSTRUCTION, LONGER_THAN_CHUNK,
        GUESSED_CAMERA, ANSWER, NOT_FINITE, OUT_OF_RANGE,
        NOT_REPEATABLE, LEAK, BATCH, IGNORES_INSTRUCTION, IGNORES_PICTURES, CONSTANT_GRIPPER, RAISES,
        SMALL_ACTIONS, BATCH_ROUNDING,
    )
}  # fmt: skip
"""All codes by name: VLA-P0.. from a policy's traits, VLA-P1.. from a trial."""

_MEND_GRIPPER = {
    "1 opens, -1 closes": "return -gripper",
    "0 opens, 1 closes": "return 2 * gripper - 1",
    "1 opens, 0 closes": "return 1 - 2 * gripper",
    "0 to 1": "return 2 * gripper - 1 if 1 closes, or 1 - 2 * gripper if 0 closes: as it is, it never opens",
    "width": "return 1 for a width below the fingers' opening, and -1 above it",
}


def suite_traits(protocol: Protocol) -> Traits:
    """Return the properties of a suite as `Traits`, without instructions."""
    pictures = tuple(f"{camera}_image" for camera in protocol.cameras)
    if protocol.vectors:
        # A world of the suite's own: the meaning of its values is not known.
        names = tuple(name for name, _ in protocol.vectors)
        return Traits(
            action_size=protocol.action_size,
            reads=(*pictures, *names),
            image_size=protocol.image_size if pictures else None,
            image_transform=protocol.image_transform if pictures else None,
            state_size=dict(protocol.vectors).get("state"),
            control_freq=protocol.control_freq,
        )
    is_6d = protocol.state == CONTROLLER_6D
    return replace(
        WORLD,
        action_convention=None if protocol.control == EITHER else protocol.control,
        reads=(*pictures, *(WORLD.reads or ())),
        image_size=viewed_size(protocol.image_transform, protocol.image_size),
        image_transform=picture_steps(protocol.image_transform)[0][0],
        control_freq=protocol.control_freq,
        state_size=POSE_6D_SIZE if is_6d else WORLD.state_size,
        state_layout=STATE_LAYOUTS[-1] if is_6d else WORLD.state_layout,
    )


def controlled(protocol: Protocol, traits: Traits) -> Protocol:
    """Return the protocol that a policy runs under: a suite's own, and ``either``, leave the control to its traits."""
    is_absolute = traits.action_convention == ABSOLUTE
    if protocol.control == EITHER:
        return replace(protocol, control=ABSOLUTE if is_absolute else RELATIVE)
    is_open = protocol.evaluator == OWN_EVALUATOR and not protocol.vectors
    return replace(protocol, control=ABSOLUTE) if is_open and is_absolute else protocol


def gives_6d(traits: Traits, protocol: Protocol) -> bool:
    """Whether a policy's actions are X-VLA's: absolute, (10,), with six numbers for the rotation."""
    is_absolute = controlled(protocol, traits).control == ABSOLUTE
    return is_absolute and (traits.action_size, traits.rotation) == (POSE_6D_SIZE, "rotation_6d")


def check_fit(traits: Traits, suite: Suite | tuple[str, Protocol]) -> tuple[FitFinding, ...]:
    """Compare a policy's traits with a suite; unknown traits are not checked.

    Args:
        traits: the policy's.
        suite: a suite; or its name and protocol, if instructions are not to be checked.

    Returns:
        Findings in the order of `CODES`.
    """
    name, protocol = (suite.name, suite.protocol) if isinstance(suite, Suite) else suite
    protocol = controlled(protocol, traits)
    # An evaluator converts its own policies' gripper and rotations.
    is_own = (protocol.gripper, traits.gripper) in ((ONE_OPENS, RAW_OPENS), (ONE_CLOSES, RAW_CLOSES))
    said = replace(traits, gripper=None) if is_own else traits
    said = replace(said, rotation=None, action_size=None) if gives_6d(traits, protocol) else said
    whose = name if protocol.evaluator == OWN_EVALUATOR else f"{name} under the evaluator {protocol.evaluator}"
    found = list(_compared(said, whose, suite_traits(protocol)))
    # Most policies say nothing and give changes: executed as poses in the world, these move the arm anywhere.
    if protocol.control == ABSOLUTE and traits.action_convention is None:
        found.append(
            ACTION_CONVENTION.found(
                f"the policy does not say that its actions are absolute, and {whose} takes no others",
                mend="if they are poses, say so in its traits: traits = {'action_convention': 'absolute'}; else use "
                "another evaluator",
            )
        )
    if isinstance(suite, Suite):
        found += _instructions(traits, name, [task.language for task in suite.tasks])
    if traits.guessed:
        given = [each for each in traits.cameras or () if each.partition("=")[0] in traits.guessed]
        told = ", ".join(given or traits.guessed)
        found.append(GUESSED_CAMERA.found(f"the policy's pictures are given by order: {told}"))
    return tuple(found)


def check_replan(traits: Traits, replan: int | None) -> tuple[FitFinding, ...]:
    """Compare ``--vla-replan`` (None if not given) with the length of a policy's chunks."""
    if replan is None or traits.chunk is None or replan <= traits.chunk:
        return ()
    return (
        LONGER_THAN_CHUNK.found(
            f"--vla-replan={replan}, but the policy's chunks have {counted(traits.chunk, 'action')}"
        ),
    )


def _compared(said: Traits, name: str, has: Traits) -> Iterator[FitFinding]:
    def differs(one: object, other: object) -> bool:
        return one is not None and other is not None and one != other

    # The codes' own remedies are for LIBERO's robot, and a checkpoint's sizes are what it was trained with.
    is_other = has.rotation is None
    checkpoint = f"use a checkpoint that was trained on {name}" if said.cameras else None
    if differs(said.action_size, has.action_size):
        yield ACTION_DIMENSION.found(
            f"the policy's actions have {said.action_size} values, but {name} takes {has.action_size}",
            mend=checkpoint or ("use a policy for this robot" if is_other else None),
        )
    if differs(said.action_convention, has.action_convention):
        yield ACTION_CONVENTION.found(
            f"the policy's actions are {said.action_convention}, but {name} takes {has.action_convention} ones"
        )
    if differs(said.rotation, has.rotation):
        mend = None if has.action_convention != ABSOLUTE else "convert it to axis-angle in rad (scipy's as_rotvec)"
        # Of a change of at most 0.5 rad, Euler angles differ from axis-angle in second order: such policies succeed.
        small = said.rotation == "euler" and has.rotation == "axis_angle" and said.action_convention == "relative"
        yield ROTATION.found(
            f"the policy's rotations are {said.rotation}, but {name} takes {has.rotation}",
            mend=mend,
            severity=WARNING if small else None,
        )
    if differs(said.gripper, has.gripper):
        yield GRIPPER.found(
            f"the policy's gripper is {said.gripper!r}, but {name}'s is {has.gripper!r}",
            mend=_MEND_GRIPPER.get(said.gripper or ""),
        )
    given, reads = has.reads or (), said.reads or ()
    if missing := [reading for reading in reads if reading not in given]:
        # A checkpoint's cameras can be named, if the suite has enough of its own that are not read yet.
        free = [each.removesuffix("_image") for each in given if each.endswith("_image") and each not in reads]
        unseen = [key for key, _, picture in (each.partition("=") for each in said.cameras or ()) if picture in missing]
        chosen = ",".join(f"{key}:{camera}" for key, camera in zip(unseen, free, strict=False))
        yield OBSERVATION.found(
            f"the policy reads {', '.join(missing)}, but {name} has {', '.join(given)}",
            mend=f"name the camera: ?cameras={chosen}" if unseen and len(unseen) <= len(free) else None,
        )
    if differs(said.image_size, has.image_size):
        yield PICTURE_SIZE.found(f"the policy takes {_sized(said)} pictures only, but {name} has {_sized(has)}")
    if differs(said.image_transform, has.image_transform):
        yield PICTURE_TRANSFORM.found(
            f"the policy was trained on pictures with image_transform {said.image_transform!r}, but {name} has "
            f"{has.image_transform!r}"
        )
    if differs(said.state_size, has.state_size) or differs(said.state_layout, has.state_layout):
        computed = f"compute it from the suite's observations ({', '.join(given)})" if is_other else None
        yield STATE.found(
            f"the policy takes a state{_state(said)}, but {name} has one{_state(has)}", mend=checkpoint or computed
        )
    if differs(said.control_freq, has.control_freq):
        yield CONTROL_RATE.found(
            f"the policy was trained at {said.control_freq:g} Hz, but {name} runs at {has.control_freq:g} Hz"
        )


def _instructions(said: Traits, name: str, instructions: list[str]) -> Iterator[FitFinding]:
    number = len(instructions)
    without = sum(not instruction.strip() for instruction in instructions)
    if said.language and without:
        yield NO_INSTRUCTION.found(
            f"the policy reads the instruction, but {without} of {name}'s {number} tasks have none"
        )
    if said.instructions is not None:
        new = [instruction for instruction in instructions if instruction not in said.instructions]
        if new:
            yield OTHER_INSTRUCTIONS.found(
                f"the policy was not trained on {len(new)} of {name}'s {number} instructions, such as {new[0]!r}"
            )
    if said.language is False and len(set(instructions)) > 1:
        yield READS_NO_INSTRUCTION.found(
            f"the policy reads no instruction, but {name} has {number} tasks with {len(set(instructions))}"
        )


def _sized(traits: Traits) -> str:
    height, width = traits.image_size or (0, 0)
    return f"{height}x{width}"


def _state(traits: Traits) -> str:
    size = "" if traits.state_size is None else f" of {traits.state_size} numbers"
    return size if traits.state_layout is None else f"{size} ({traits.state_layout})"
