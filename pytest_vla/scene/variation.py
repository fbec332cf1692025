"""A variation: one controlled change of a task, as a value. Pure: no simulator, no pytest."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
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
"""A variation's parameters by name: texts, numbers, and lists and mappings of them, as in JSON."""

INSTRUCTION = "instruction"
"""The name of the instruction's parameter. A record stores it separately from the others."""

VISUAL_ARRAYS = frozenset(
    (
        *("cam_pos", "cam_quat", "cam_fovy"),
        *("light_pos", "light_dir", "light_diffuse", "light_ambient", "light_specular", "light_castshadow"),
        *("light_type", "light_active"),
        *("geom_rgba", "mat_rgba", "mat_specular", "mat_shininess", "mat_reflectance", "mat_emission", "mat_texid"),
        "mat_texrepeat",
    )
)
"""The arrays of a compiled model's looks that a variation may write."""

MASS_ARRAYS = (
    *("body_mass", "body_inertia", "body_subtreemass", "body_invweight0", "dof_M0", "dof_invweight0"),
    *("tendon_invweight0", "actuator_acc0"),
)
"""Masses, and what MuJoCo's mj_setConst computes of them."""

PHYSICS_ARRAYS = frozenset((*MASS_ARRAYS, "geom_friction"))
"""The arrays that a variation of an object's mass or friction may write."""

LIGHT_SPOT, LIGHT_DIRECTIONAL = 0, 1
"""Values of ``light_type``: MuJoCo's mjtLightType."""


def model_array(model: "mujoco.MjModel", name: str) -> "NDArray[Any]":
    """Return one of these arrays of a model, to be read and written.

    MuJoCo before 3.3.3 has a different name for one of them.
    """
    found: NDArray[Any] = getattr(model, name if hasattr(model, name) else _EARLIER_NAMES[name])
    return found


_EARLIER_NAMES = {"light_type": "light_directional"}


def part_number(model: "mujoco.MjModel", sort: str, name: str) -> int:
    """Return the number of a part of a model, by its name, or by ``#3`` for one without a name.

    Args:
        model: not changed.
        sort: ``camera``, ``geom``, ``body``, ``joint`` or ``texture``.
        name: of the part.

    Raises:
        VlaError: there is none; names those that there are.
    """
    number = int(name[1:]) if re.fullmatch(r"#\d+", name) else None
    counts = {
        "camera": model.ncam,
        "geom": model.ngeom,
        "body": model.nbody,
        "joint": model.njnt,
        "texture": model.ntex,
    }
    if number is None:
        try:
            return int(getattr(model, sort)(name).id)
        except KeyError:
            pass
    elif number < counts[sort]:
        return number
    known = ", ".join(getattr(model, sort)(each).name or f"#{each}" for each in range(min(counts[sort], 20)))
    raise VlaError(f"the model has no {sort} {name!r}; it has {known or 'none'}")


def named_geoms(model: "mujoco.MjModel", names: Sequence[str]) -> tuple[int, ...]:
    """Return the geoms that names of a `pytest_vla.plan.task.MujocoScene` mean. Raises VlaError if one means none."""
    found: dict[int, None] = {}
    for name in names:
        if name.startswith("#"):
            found[part_number(model, "geom", name)] = None
            continue
        of = [
            geom
            for geom in range(model.ngeom)
            if fnmatchcase(model.geom(geom).name, name) or fnmatchcase(model.body(model.geom_bodyid[geom]).name, name)
        ]
        if not of:
            raise VlaError(f"the model has no geom and no body {name!r}, which the suite's scene names")
        found |= dict.fromkeys(of)
    return tuple(found)


ProblemEdit = Callable[["Problem"], "Problem"]
"""Changes a problem before it is compiled; raises VlaError if the problem cannot be changed like this."""

InitStates = Callable[[], "NDArray[np.float64]"]
"""Returns init states (n, 1+nq+nv), [time, qpos, qvel], to use instead of the task's own."""

StateEdit = Callable[["mujoco.MjModel", "SceneSpec", "NDArray[np.float64]"], None]
"""Writes in a reset's state, [time, qpos, qvel] (1+nq+nv,), before it is set."""

PictureEdit = Callable[[], Callable[["NDArray[np.uint8]", str, int], "NDArray[np.uint8]"]]
"""Begins an episode; returns a function that changes a camera's picture (H, W, 3), upright, after a control step."""

ActionEdit = Callable[[], Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]]
"""Begins an episode; returns a function that changes each policy action (7,), in [-1, 1], before it is executed."""


@dataclass(frozen=True)
class ModelEdit:
    """A change of a compiled model's looks, or of masses and friction, undone at the next reset.

    Attributes:
        arrays: names of the `mujoco.MjModel` arrays that it writes, of `VISUAL_ARRAYS` or `PHYSICS_ARRAYS`.
        apply: writes them, after fixtures were placed. Textures are written through ``tex_data``, only the named
            ones.
        textures: returns the textures whose pixels it writes, by name, or as in `part_number`.
    """

    arrays: tuple[str, ...]
    apply: Callable[["mujoco.MjModel", "SceneSpec"], None]
    textures: Callable[["mujoco.MjModel", "SceneSpec"], tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.arrays) - VISUAL_ARRAYS - PHYSICS_ARRAYS):
            raise ValueError(f"a variation may not write {', '.join(unknown)}")


@dataclass(frozen=True)
class Edits:
    """The changes that a variation makes, by the names of their fields in `Variation`, where they are described.

    Attributes:
        told: the parameters shown in records, in order, if there are more than `parameters`; None for just these.
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
    latency: float | None = None
    asked: ProblemEdit | None = None
    told: Params | None = None


@dataclass(frozen=True)
class Variation:
    """One controlled change of a task. Variations are equal if the same was drawn; the changes follow from it.

    Attributes:
        label: its name in ids, unique within a task; of letters, digits, ``_``, ``.``, ``+`` and ``-``.
        dimension: the kind of thing that changes, such as ``language``; for a joint variation all of them, with
            ``+`` between.
        kind: how it changes, within the dimension.
        level: the strength of the change, or None if the kind has no levels.
        parameters: everything that was drawn, and its consequences, as texts and numbers.
        instruction: the robot's instruction, or None for the task's own.
        problem: changes before the scene is compiled, in order.
        model: changes of the compiled scene's looks.
        init_states: the init states to start from. None for the task's own, or, if things stand elsewhere, for
            states that are made.
        state: changes of the state that an episode starts from.
        rest_joints: (7,) rad: the arm's pose at the reset, which its controller keeps to, or None for the robot's
            own.
        removed: objects that are taken out of the world before an episode begins, and never touch or are seen
            again.
        pictures: changes of the cameras' pictures.
        actions: changes of the policy's actions.
        latency: seconds that each answer of the policy comes later, while the world moves on
            (`pytest_vla.plan.choices.Realtime`), in addition to ``--vla-realtime``; None for none.
        probe: whether it observes the policy's behaviour instead of success: no test fails then, and it does not
            count in the suite's rates.
        asked: returns the problem whose goal the instruction asks for, if that is not the task's own; whether it
            was reached is measured in addition. None for the task's own goal.
        in_sight: whether an episode counts only if the task's objects can be seen and reached at its start, and
            the variation's additions can be seen.
        parts: the parts of a joint variation, each drawn as it is alone; empty if the variation is not joint.
        redraw: returns the variation drawn for another time, 1 and up, or None if it has nothing to draw.
        remade: for a published variation that follows from more than its label, returns it with a record's
            parameters.
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
    latency: float | None = None
    probe: bool = False
    asked: ProblemEdit | None = field(default=None, compare=False, repr=False)
    in_sight: bool = False
    parts: "tuple[Variation, ...]" = field(default=(), compare=False, repr=False)
    redraw: "Callable[[int], Variation] | None" = field(default=None, compare=False, repr=False)
    remade: "Callable[[Params], Variation] | None" = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if re.fullmatch(LABEL, self.label) is None:
            raise VlaError(f"a variation's label consists of letters, digits, _ . + and -, not {self.label!r}")

    @property
    def changes_world(self) -> bool:
        """Whether more than the instruction changes, or the world has to check another goal beside the task's."""
        return self.changes_scene or bool(self.model or self.pictures or self.changes_control or self.asked)

    @property
    def changes_scene(self) -> bool:
        """Whether things, the robot or the goal change, so that the task may have become impossible."""
        return bool(self.problem or self.state or self.rest_joints or self.removed or self.init_states)

    @property
    def changes_physics(self) -> bool:
        """Whether masses or frictions change, so that the task may have become impossible in the same scene."""
        return any(PHYSICS_ARRAYS.intersection(edit.arrays) for edit in self.model)

    @property
    def changes_control(self) -> bool:
        """Whether actions are executed differently, or later."""
        return bool(self.actions or self.latency)

    @property
    def edits(self) -> tuple[str, ...]:
        """The sorts of things that change: scene (before it is compiled), state, model (its looks), and so on."""
        changed = {
            "scene": self.problem or self.removed or self.asked,
            "state": self.state or self.init_states or self.rest_joints,
            "model": self.model,
            "pictures": self.pictures,
            "actions": self.actions,
            "latency": self.latency,
            "instruction": self.instruction is not None,
        }
        return tuple(name for name, edits in changed.items() if edits)

    def table(self) -> dict[str, Any]:
        """Return the variation as records store it; the instruction is stored separately."""
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
    """Return a variation that makes some edits."""
    changes = {each.name: getattr(edits, each.name) for each in fields(Edits) if each.name != "told"}
    return Variation(label, dimension, kind, level, dict(parameters), probe=probe, in_sight=in_sight, **changes)


def changed_problem(problem: "Problem", variation: Variation | None) -> "Problem":
    """Return a problem as the variation changes it, before it is compiled.

    Raises VlaError if the variation cannot be applied to it.
    """
    for edit in variation.problem if variation is not None else ():
        problem = edit(problem)
    return problem


def joined(label: str, parts: tuple[Variation, ...]) -> Variation:
    """Combine several variations of different dimensions, in the given order.

    Parameters are named ``DIMENSION.KIND.NAME``. Changes of one sort are made in that order too.

    Raises:
        VlaError: two variations have the same dimension, or both set the instruction or the arm's rest pose.
    """
    names = [part.dimension for part in parts]
    if len(set(names)) < len(names):
        raise VlaError("two variations of the same dimension cannot be combined; run them separately")
    if sum(part.instruction is not None for part in parts) > 1:
        raise VlaError("two of the variations change the instruction; use one of them")
    if sum(part.rest_joints is not None for part in parts) > 1:
        raise VlaError("two of the variations change the arm's rest pose; use one of them")
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
        latency=next((part.latency for part in parts if part.latency is not None), None),
        probe=any(part.probe for part in parts),
        asked=next((part.asked for part in parts if part.asked), None),
        in_sight=any(part.in_sight for part in parts),
        parts=parts,
        **together,
    )
