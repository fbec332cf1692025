"""A task, and the protocol that all of its episodes share, as values."""

import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import PROTOCOLS, task_key
from pytest_vla.plan.choices import DOUBLE, FIRST, GRIPPER_RULES, INIT_STATES, RELATIVE, SEED, STATES, TRAINED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.plan.case import Case

    Seen = Mapping[str, NDArray[Any]]


# A world that a suite brings: what it has to do, so that any simulator can be a suite. Values and contracts only.


class SuiteWorld(typing.Protocol):
    """The world of a task: `Task.world` makes one, in the process that runs the episode, and it is used for many.

    An observation is a mapping with the names of the suite's protocol: ``CAMERA_image`` (H, W, 3) uint8, upright, for
    each camera, and the vectors of `Protocol.vectors`, ``state`` among them. It may be lazy: a value is read before the
    next step, and at most once. ``robot0_eef_pos`` (3,) in m, world frame, is recorded as the end effector's path.

    It may have more methods, which are used if they exist: predicates() -> Mapping[str, bool]: the goal's literals; the
    task has succeeded when all of them hold. over() -> bool: nothing can happen any more, for example because something
    fell: the episode ends. costs(): of the last step, each 0 or more: a table of amounts by name, or a list of
    `pytest_vla.plan.costs.Charge`, which also have the causes. The record has them as a ledger. series(): of the last
    step, a table of numbers, truths or arrays by name (a-z, 0-9, _ and .), the same names and shapes at each step. The
    trajectory has them, a row a step. save() -> (n,) array of float64: the state, which the trajectory has for each
    step; without it that is ``state``. restore(state) -> the observation in a saved state: videos and sheets are drawn
    from recorded ones. Without it, frames are kept while an episode runs, if a video of it is wanted. provenance() ->
    Mapping[str, str]: what results depend on, such as versions. Texts by name; a name that pytest-vla records itself,
    such as ``numpy``, cannot have a different text here. expert(): a session that does the task from the present state,
    without random numbers: called with observations, it returns actions. It is the policy ``expert``, and shows which
    changed scenes can be done. hold(last) -> the action that keeps everything where it is, for ``--vla-realtime``;
    `last` is the last action, or None before the first; without it that is `Protocol.settle_action`. close(): called
    after the last use.

    A world of MuJoCo whose task has a `MujocoScene` is varied as LIBERO's are, and charged by ``--vla-cost-file``, by
    three more methods. mujoco() -> the model and the data that it simulates with, the same objects until the next
    reset. observe() -> the observation after the state was changed. repaint(): textures or shadows are other ones,
    which the graphics side has to be sent.
    """

    def reset(self, case: "Case") -> "Seen":
        """Begin an episode: equal cases begin alike. All draws follow from `Case.seed`."""

    def step(self, action: "NDArray[np.float64]") -> "Seen":
        """Run one control step, with an action (`Protocol.action_size`,) in [-1, 1], or as the policy gave it."""

    def success(self) -> bool:
        """Whether the task is done now."""


# What a suite's own world says of its MuJoCo model, if it has one.

TABLE, FLOOR, WALL = "table", "floor", "wall"
SURFACES = (TABLE, FLOOR, WALL)

NEEDS_CAMERA, NEEDS_LIGHT, NEEDS_LIGHTS, NEEDS_SURFACE, NEEDS_OBJECT, NEEDS_ARM = (
    "a camera",
    "a light",
    "two lights and no shadows yet",
    "a surface",
    "an object",
    "an arm",
)
PARTS = (NEEDS_CAMERA, NEEDS_LIGHT, NEEDS_LIGHTS, NEEDS_SURFACE, NEEDS_OBJECT, NEEDS_ARM)
"""What a kind of variation may need of a MuJoCo world (`pytest_vla.vary.kind.VariationKind.needs`)."""

NEEDS_STATE = "a state"
"""What a kind needs, too, that changes the state that an episode starts from."""


@dataclass(frozen=True)
class MujocoScene:
    """The parts of a MuJoCo model that variations change, by the names that they have in it.

    A part without a name is ``#3``, by its number in the model. Geoms are named by their own names, or by a body's,
    which means all of its geoms; ``*`` stands for any letters.

    Attributes:
        camera: the model's camera that looks from outside, which variations move; empty if there is none that can be.
        views: the suite's cameras that show its picture.
        middle: (3,) m, world frame: the middle of the workspace, at the height of the table or floor.
        lights: how many the model has.
        shadows: whether the brightest casts shadows, as MuJoCo's lights do by default.
        surfaces: the geoms of table, floor and walls, by `SURFACES`.
        objects: the bodies with a free joint that stand about; the first is the task's.
        arm: the joints of the arm, from its base to its hand.
        fixed: whether observations cannot be read anew after the state has changed, so that it has to stay as it is.
        lags: whether its pictures are of the state one physics step before, as where MuJoCo's mj_step is the last thing
            that a control step does. A recorded state would not give the same picture, so videos are kept while
            episodes run.
    """

    camera: str = ""
    views: tuple[str, ...] = ()
    middle: tuple[float, float, float] = (0.0, 0.0, 0.0)
    lights: int = 0
    shadows: bool = False
    surfaces: tuple[tuple[str, tuple[str, ...]], ...] = ()
    objects: tuple[str, ...] = ()
    arm: tuple[str, ...] = ()
    fixed: bool = False
    lags: bool = False

    def has(self, part: str) -> bool:
        """Whether it has one of `PARTS`."""
        lit = self.lights, self.lights > 1 and not self.shadows
        said = self.camera, *lit, self.surfaces, self.objects, self.arm
        return bool(said[PARTS.index(part)])

    def geoms_of(self, surface: str) -> tuple[str, ...]:
        """Return the names of a surface's geoms; none if it has no such surface."""
        return dict(self.surfaces).get(surface, ())


MakeWorld = Callable[["Task"], SuiteWorld]
"""Makes a task's world. Equal ones make equal worlds; what raises is an ``error`` of the episode."""


OWN_EVALUATOR = "ours"
"""The evaluator of a suite's own protocol."""

UNKNOWN_EVALUATOR = "unknown"
"""The evaluator of an imported log that could be several's."""

INSTRUCTION = "{instruction}"

_ALWAYS_RECORDED = frozenset(
    (
        *("max_steps", "settle_steps", "settle_action", "control_freq", "init_states", "image_size", "cameras"),
        *("image_transform", "out_of_range", "init_state", "textures"),
    )
)


@dataclass(frozen=True)
class Protocol:
    """The conditions that all episodes of a suite share.

    Attributes:
        max_steps: control steps after which an episode has failed; settling is not counted.
        settle_steps: control steps after a reset before the policy is asked.
        settle_action: the action (7,) of those steps.
        control_freq: control steps a second, Hz.
        init_states: number of a task's init states; seed s starts from init state s mod n.
        image_size: height and width of a picture, pixels.
        cameras: whose pictures an observation has.
        image_transform: applied to upright pictures for a policy; see `pytest_vla.plan.choices.picture_steps`.
        out_of_range: the treatment of actions outside of [-1, 1]; one of `OUT_OF_RANGE`, or for a suite's own world
            `pytest_vla.plan.choices.UNSCALED`.
        init_state: the init state that every episode starts from, or None if seed s starts from init state s mod n.
        textures: how they are drawn; one of `TEXTURES`.
        rules: whose goals, costs and movers count if a benchmark's paper and its code differ; one of
            `pytest_vla.plan.case.PROTOCOLS`. Suites without such a difference leave it out of records.
        action_size: length of an action; 7 for LIBERO's robot.
        vectors: names and sizes of an observation's vectors beside pictures, ``state`` among them; empty for LIBERO's.
        action_bounds: the usual range of each number of an unscaled action, from which ``random`` draws; empty for
            [-1, 1].
        evaluator: the published evaluator whose protocol it is; `OWN_EVALUATOR` for the suite's own.
        scenes: how a seed determines what a reset draws, see `pytest_vla.plan.choices.scene_draw`.
        starts: where objects stand at an episode's begin; one of `STARTS`.
        wrist_transform: of the wrist camera's pictures, if it differs from `image_transform`; else empty.
        state: what the state is; one of `STATES`.
        gripper: what becomes of an action's last value; one of `GRIPPER_RULES`.
        control: what an action of LIBERO's robot is; one of `CONTROLS`. Poses (absolute) are not clipped.
        action_precision: the type in which actions reach the simulator; one of `PRECISIONS`.
        prompt: the text for a language model, with ``{instruction}`` in it.
        success: when the task is done: ``first``, at the first step at which the goal holds; ``held:K``, once it has
            held for K steps on end; or ``end``, if it holds after the last step.
    """

    max_steps: int
    settle_steps: int
    settle_action: tuple[float, ...]
    control_freq: int
    init_states: int
    image_size: tuple[int, int]
    cameras: tuple[str, ...]
    image_transform: str
    out_of_range: str
    init_state: int | None = None
    textures: str = TRAINED
    rules: str = PROTOCOLS[0]
    action_size: int = 7
    vectors: tuple[tuple[str, int], ...] = ()
    action_bounds: tuple[tuple[float, float], ...] = ()
    evaluator: str = OWN_EVALUATOR
    scenes: str = SEED
    starts: str = INIT_STATES
    wrist_transform: str = ""
    state: str = STATES[0]
    gripper: str = GRIPPER_RULES[0]
    prompt: str = INSTRUCTION
    success: str = FIRST
    control: str = RELATIVE
    action_precision: str = DOUBLE

    def table(self) -> dict[str, Any]:
        """Return the protocol as in a record.

        Fields that few protocols set are left out while they have their defaults.
        """
        own = {field.name: field.default for field in fields(self) if field.name not in _ALWAYS_RECORDED}
        return {name: value for name, value in asdict(self).items() if name not in own or value != own[name]}


@dataclass(frozen=True)
class Task:
    """One task of a suite.

    Attributes:
        suite: the suite's name.
        name: stem of the task's file, without characters that ids cannot have.
        index: place in upstream's order.
        language: the instruction that policies are trained and measured with: the manifest's if it has one, else from
            the task's file name, as in LIBERO, whose files' own ``:language`` often differs; if that name is no
            sentence (``CELL_0_0``), the file's.
        protocol: the suite's.
        data: the folder given by ``--vla-data``, or None for the default roots.
        files: the suite whose task files and init states it has; by default its own.
        varied: the list by which the suite varies itself, the name of a `pytest_vla.entries.ListEntry`; empty for
            unvaried tasks.
        world: makes the task's world, if the suite brings its own simulator, or None for MuJoCo with the task's file.
        scene: the parts of the own world's MuJoCo model, or None if it has no model that variations may change.
        task_level: in suites whose tasks come in levels, such as ``L1``; several levels may have a task of the same
            name. It is no level of a variation.
        file: of the task below the suite's folder of task files or init states, without its ending; empty for `name`.
        folders: further names that `files` has in folders of data.
    """

    suite: str
    name: str
    index: int
    language: str
    protocol: Protocol
    data: Path | None = None
    files: str = ""
    varied: str = ""
    world: MakeWorld | None = field(default=None, repr=False)
    scene: MujocoScene | None = None
    task_level: str = ""
    file: str = ""
    folders: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", self.files or self.suite)

    @property
    def key(self) -> str:
        """The task's key, unique within its suite: ``pick_the_apple``, or with its level ``L1-pick_the_apple``."""
        return task_key(self.name, self.task_level)

    def is_asked_as(self, other: "Task") -> bool:
        """Whether it is the other task, or the same at another level with the same instruction."""
        same = bool(self.task_level) and self.language == other.language
        return self.suite == other.suite and (self.key == other.key or same)

    @property
    def paths(self) -> tuple[str, ...]:
        """The places of its file in a folder of task files or init states, without its ending, the usual one first."""
        return tuple(f"{folder}/{self.file or self.name}" for folder in (self.files, *self.folders))

    @property
    def id(self) -> str:
        """``SUITE/TASK``, or ``SUITE/LEVEL-TASK``, unique among all tasks."""
        return f"{self.suite}/{self.key}"


def check_unvaried(task: Task, option: str = "") -> None:
    """Raise VlaError if a suite is varied by itself; the message begins with the option, if there is one."""
    if task.varied:
        given = f"{option}: " if option else ""
        raise VlaError(f"{given}{task.suite} is already varied; use the suite {task.files} for your own changes")


def with_protocol(task: Task, **changes: Any) -> Task:
    """Return the task with parts of its protocol replaced, named as in `Protocol`; None leaves a part as it is."""
    new = {name: value for name, value in changes.items() if value not in (None, getattr(task.protocol, name))}
    return replace(task, protocol=replace(task.protocol, **new)) if new else task


OF_OWN_WORLDS = ("action_size", "vectors", "action_bounds")
"""Fields of a `Protocol` that follow from a suite's own world, which no evaluator and no option changes."""

USUAL_VALUES = {
    field.name: field.default
    for field in fields(Protocol)
    if field.name == "rules" or field.name not in (*_ALWAYS_RECORDED, *OF_OWN_WORLDS)
}
"""What an episode's protocol may have instead of the suite's own, with the usual values, which records leave out."""


def recorded_protocol(task: Task, table: Mapping[str, Any]) -> Task:
    """Return the task with the steps, the rules, the pictures and the evaluator's fields of a record's protocol.

    Fields of other types, as a later version may write them, are left as the task has them.
    """
    names = ("max_steps", "settle_steps", "settle_action", "image_size", "image_transform", *USUAL_VALUES)
    said = {**USUAL_VALUES, **{name: table[name] for name in names if name in table}}
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in said.items()}
    alike = {name: value for name, value in plain.items() if type(value) is type(getattr(task.protocol, name))}
    return with_protocol(task, **alike)


def language_of(stem: str) -> str:
    """Return the instruction in a task's file name: spaces for underscores, without a leading ``KITCHEN_SCENE10_``."""
    return re.sub(r"^[A-Z].*?SCENE\d+_", "", stem).replace("_", " ")
