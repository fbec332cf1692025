"""What a variation is: one controlled change of a task, as a value. Pure: no simulator, no pytest."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import LABEL, joint_of

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.problem import Problem
    from pytest_vla.scene.scene import SceneSpec

Params = Mapping[str, Any]
"""What a variation is made of, by name: texts, numbers, and lists and mappings of them, as JSON has them."""

INSTRUCTION = "instruction"
"""The parameter that is what the robot is told. A record has it by itself, and not among the others."""

VISUAL_ARRAYS = frozenset(
    (
        *("cam_pos", "cam_quat", "cam_fovy"),
        *("light_pos", "light_dir", "light_diffuse", "light_ambient", "light_specular", "light_castshadow"),
        *("light_type", "light_active"),
        *("geom_rgba", "mat_rgba", "mat_specular", "mat_shininess", "mat_reflectance", "mat_emission", "mat_texid"),
        "mat_texrepeat",
    )
)
"""What of a compiled model a variation may write: what is seen, and nothing of physics."""

LIGHT_SPOT, LIGHT_DIRECTIONAL = 0, 1
"""Of ``light_type``: MuJoCo's mjtLightType."""


def model_array(model: "mujoco.MjModel", name: str) -> "NDArray[Any]":
    """One of `VISUAL_ARRAYS` of a model, to be read and written. MuJoCo before 3.3.3 has another name for one."""
    found: NDArray[Any] = getattr(model, name if hasattr(model, name) else _EARLIER_NAMES[name])
    return found


_EARLIER_NAMES = {"light_type": "light_directional"}

ProblemEdit = Callable[["Problem"], "Problem"]
"""What becomes of a problem before it is compiled; raises VlaError where the problem cannot be changed so."""

InitStates = Callable[[], "NDArray[np.float64]"]
"""Gives init states (n, 1+nq+nv), [time, qpos, qvel], in the place of the task's own."""

StateEdit = Callable[["mujoco.MjModel", "SceneSpec", "NDArray[np.float64]"], None]
"""Writes in a reset's state, [time, qpos, qvel] (1+nq+nv,), before it is set."""

PictureEdit = Callable[[], Callable[["NDArray[np.uint8]", str, int], "NDArray[np.uint8]"]]
"""Begins an episode; gives what becomes of a picture (H, W, 3), upright, of a camera after a control step."""

ActionEdit = Callable[[], Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]]
"""Begins an episode; gives what becomes of each action (7,) of the policy's, in [-1, 1], before it is executed."""


@dataclass(frozen=True)
class ModelEdit:
    """A change of what is seen of a compiled model, undone at the next reset.

    Attributes:
        arrays: names of the `mujoco.MjModel` arrays that it writes, of `VISUAL_ARRAYS`.
        apply: writes them, after fixtures were placed. Textures are written by ``tex_data``, of those named.
        textures: gives the names of the textures whose pixels it writes.
    """

    arrays: tuple[str, ...]
    apply: Callable[["mujoco.MjModel", "SceneSpec"], None]
    textures: Callable[["mujoco.MjModel", "SceneSpec"], tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.arrays) - VISUAL_ARRAYS):
            raise ValueError(f"a variation may not write {', '.join(unknown)}")


@dataclass(frozen=True)
class Edits:
    """What a variation does to a task: its changes, by their names in `Variation`, which says what each is.

    Attributes:
        told: all that is said of it in records, in order, where that is more than its parameters; None: just these.
    """

    instruction: str | None = None
    problem: tuple[ProblemEdit, ...] = ()
    model: tuple[ModelEdit, ...] = ()
    init_states: InitStates | None = None
    state: tuple[StateEdit, ...] = ()
    rest_joints: tuple[float, ...] | None = None
    removed: tuple[str, ...] = ()
    pictures: tuple[PictureEdit, ...] = ()
    actions: tuple[ActionEdit, ...] = ()
    asked: ProblemEdit | None = None
    told: Params | None = None


@dataclass(frozen=True)
class Variation:
    """One controlled change of a task. What was drawn makes them equal; the changes follow from it.

    Attributes:
        label: its name in ids, unique within a task; of letters, digits, ``_``, ``.``, ``+`` and ``-``.
        dimension: what is changed, such as ``language``; of a joint one all that is, with ``+`` between.
        kind: how, within the dimension.
        level: how much, where that is graded; None: it is not.
        parameters: all that was drawn, and what follows from it, of texts and numbers.
        instruction: what the robot is told instead of the task's own; None: that.
        problem: changes before the scene is compiled, in order.
        model: changes of what is seen of the compiled scene.
        init_states: those to start from; None: the task's own, or, where things stand elsewhere, such as are made.
        state: changes of the state that an episode starts from.
        rest_joints: (7,) rad: the arm's pose at the reset, which its controller keeps to; None: the robot's own.
        removed: objects that are taken out of the world before an episode begins, and never touch or are seen again.
        pictures: changes of what the cameras give.
        actions: changes of what the policy wants.
        probe: whether it asks what the policy does, and not whether it does the task: no test fails then, and it is in
            no rate of the suite.
        asked: gives the problem whose goal the instruction asks for, where that is not the task's own: whether it was
            reached is measured beside; None: it is the task's own.
        in_sight: whether an episode counts only where the task's objects are seen and can be reached at its start, and
            what the variation adds is seen.
        parts: of a joint one, what it is made of, each of which is drawn as it is alone; empty: it is not joint.
        redraw: gives it drawn for another time, 1 and on, where they are not; None: it has nothing to draw.
        remade: of a published one that follows from more than its label, gives it with a record's parameters.
    """

    label: str
    dimension: str
    kind: str
    level: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    instruction: str | None = None
    problem: tuple[ProblemEdit, ...] = field(default=(), compare=False, repr=False)
    model: tuple[ModelEdit, ...] = field(default=(), compare=False, repr=False)
    init_states: InitStates | None = field(default=None, compare=False, repr=False)
    state: tuple[StateEdit, ...] = field(default=(), compare=False, repr=False)
    rest_joints: tuple[float, ...] | None = None
    removed: tuple[str, ...] = ()
    pictures: tuple[PictureEdit, ...] = field(default=(), compare=False, repr=False)
    actions: tuple[ActionEdit, ...] = field(default=(), compare=False, repr=False)
    probe: bool = False
    asked: ProblemEdit | None = field(default=None, compare=False, repr=False)
    in_sight: bool = False
    parts: "tuple[Variation, ...]" = field(default=(), compare=False, repr=False)
    redraw: "Callable[[int], Variation] | None" = field(default=None, compare=False, repr=False)
    remade: "Callable[[Params], Variation] | None" = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if re.fullmatch(LABEL, self.label) is None:
            raise VlaError(f"a variation's label is of letters, digits, _ . + and -, not {self.label!r}")

    @property
    def changes_world(self) -> bool:
        """Whether anything but the instruction is another, or the world has more to look at than the task's goal."""
        return self.changes_scene or bool(self.model or self.pictures or self.actions or self.asked)

    @property
    def changes_scene(self) -> bool:
        """Whether things, the robot or the goal are others, so that what could be done may no longer be."""
        return bool(self.problem or self.state or self.rest_joints or self.removed or self.init_states)

    def table(self) -> dict[str, Any]:
        """As it stands in a record; the instruction is there by itself."""
        return {
            "label": self.label,
            "dimension": self.dimension,
            "kind": self.kind,
            "level": self.level,
            "probe": self.probe,
            "parameters": dict(self.parameters),
        }


def varied(
    label: str,
    dimension: str,
    kind: str,
    level: int | None,
    parameters: Params,
    edits: Edits,
    *,
    probe: bool = False,
    in_sight: bool = False,
) -> Variation:
    """A variation that makes some edits."""
    changes = {each.name: getattr(edits, each.name) for each in fields(Edits) if each.name != "told"}
    return Variation(label, dimension, kind, level, dict(parameters), probe=probe, in_sight=in_sight, **changes)


def changed_problem(problem: "Problem", variation: Variation | None) -> "Problem":
    """A problem as the variation has it, before it is compiled. Raises VlaError where it cannot be changed so."""
    for edit in variation.problem if variation is not None else ():
        problem = edit(problem)
    return problem


def joined(label: str, parts: tuple[Variation, ...]) -> Variation:
    """Several variations of different dimensions at once, in the order in which they are given.

    Parameters are named ``DIMENSION.KIND.NAME``. Changes of one sort are done in that order too.

    Raises:
        VlaError: two are of one dimension, or both say what the robot is told or how its arm rests.
    """
    names = [part.dimension for part in parts]
    if len(set(names)) < len(names):
        raise VlaError("two variations of one dimension do not go together; take them one by one")
    if sum(part.instruction is not None for part in parts) > 1:
        raise VlaError("two of them say what the robot is told; take one of them")
    if sum(part.rest_joints is not None for part in parts) > 1:
        raise VlaError("two of them say how the robot's arm rests; take one of them")
    levels = {part.level for part in parts}

    together: dict[str, Any] = {
        name: tuple(edit for part in parts for edit in getattr(part, name))
        for name in ("problem", "model", "state", "removed", "pictures", "actions")
    }
    return Variation(
        label,
        joint_of(names),
        joint_of(part.kind for part in parts),
        levels.pop() if len(levels) == 1 else None,
        {f"{part.dimension}.{part.kind}.{name}": value for part in parts for name, value in part.parameters.items()},
        next((part.instruction for part in parts if part.instruction is not None), None),
        init_states=next((part.init_states for part in parts if part.init_states), None),
        rest_joints=next((part.rest_joints for part in parts if part.rest_joints is not None), None),
        probe=any(part.probe for part in parts),
        asked=next((part.asked for part in parts if part.asked), None),
        in_sight=any(part.in_sight for part in parts),
        parts=parts,
        **together,
    )
