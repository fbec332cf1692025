"""A user's costs (``--vla-cost-file``) in a suite's own world that shows a MuJoCo model and data.

Such a world steps its simulation by itself. MuJoCo calls its control callback in every physics step, after it has found
the contacts, whoever steps: `Steps` looks on from there, so that an impact between two observations is charged.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError
from pytest_vla.plan.costs import Charge, Ledger
from pytest_vla.plan.task import MujocoScene, Task
from pytest_vla.scene.cost_rules import GOAL, GRIPPER, HELD, PARTS, ROBOT, CostRule
from pytest_vla.scene.variation import named_geoms, part_number
from pytest_vla.sim.contacts import Things
from pytest_vla.sim.declared import Declared, Missing, RuleScene, name_of
from pytest_vla.sim.substeps import CENTRE, FOLLOWED, Array, Ids, Mask, Pairs, Press, strongest
from pytest_vla.util.text import did_you_mean

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_TURN, _MOVES = slice(3, 12), slice(12, 18)
"""Of what is followed of a body: its rotation matrix; its angular velocity and the velocity of its centre."""


class _Moment(NamedTuple):
    """One physics step: when it began (s), the geoms of the watched contacts, their forces and places, the motion."""

    time: float
    geoms: Pairs
    measured: Array
    motion: Array


class Steps:
    """The watched contacts and the followed bodies in each physics step of the last control step.

    A `pytest_vla.sim.declared.Recorder`. It changes nothing in the simulation. Forces are those that MuJoCo's solver
    finds in a copy of the moment, as it has not yet found them when the callback is called.
    """

    def __init__(self, model: Any, data: Any) -> None:
        self._model, self._data = model, data
        # The present moment, computed to the end.
        self.copy = mujoco.MjData(model)
        self._state = np.empty(mujoco.mj_stateSize(model, _STATE))
        self._watched = np.zeros((model.ngeom + 1,) * 2, dtype=bool)
        self._followed: dict[int, int] = {}
        self._moments: list[_Moment] = []
        # That of the state which the next control step begins with, if it was looked at already.
        self._next: list[_Moment] = []

    def watch(self, one: Mask, other: Mask) -> None:
        """Record contacts of a geom of `one` with one of `other`, in either order, from now on."""
        both = np.outer(one, other)
        self._watched |= both | both.T

    def follow(self, body: int) -> None:
        """Record the motion of this body from now on."""
        self._followed.setdefault(body, len(self._followed))

    def begin(self) -> None:
        """Look at the state from which an episode begins."""
        self.settle()
        self._moments, self._next = [], [self._moment(self.copy)]

    def settle(self) -> None:
        """Compute the copy of the present moment to the end."""
        mujoco.mj_getState(self._model, self._data, self._state, _STATE)
        mujoco.mj_setState(self._model, self.copy, self._state, _STATE)
        # A callback of the world's own may count its calls.
        before = mujoco.get_mjcb_control()
        mujoco.set_mjcb_control(None)
        try:
            mujoco.mj_forward(self._model, self.copy)
        finally:
            mujoco.set_mjcb_control(before)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Look on while the world takes a control step.

        Raises:
            EpisodeError: physics steps were not seen; ``world-protocol``.
        """
        before, began = mujoco.get_mjcb_control(), float(self._data.time)
        self._moments, self._next = self._next, []

        def look(model: Any, data: Any) -> None:
            if before is not None:
                before(model, data)
            # A step by Runge-Kutta also tries states that the simulation never has; its stack is then in use.
            if data is self._data and not data.pstack:
                # A state looked at again, or one that the world has gone back from.
                while self._moments and self._moments[-1].time >= data.time:
                    self._moments.pop()
                self._moments.append(self._moment(data))

        mujoco.set_mjcb_control(look)
        try:
            yield
        finally:
            if mujoco.get_mjcb_control() is look:
                mujoco.set_mjcb_control(before)
        ended = float(self._data.time)
        if ended <= began:
            # No time passed, or the world began anew.
            self.settle()
            self._moments = self._moments or [self._moment(self.copy)]
            return
        # The state that a step ends with belongs to the next one, whether or not it was looked at.
        self._next = [moment for moment in self._moments if moment.time >= ended]
        self._moments = [moment for moment in self._moments if moment.time < ended]
        steps = round((ended - began) / self._model.opt.timestep)
        if len(self._moments) < steps:
            raise EpisodeError(
                "world-protocol",
                f"MuJoCo called its control callback in {len(self._moments)} of {steps} physics steps, so contacts "
                "were missed for --vla-cost-file: the model disables actuation, or the world sets the callback itself",
            )

    def _moment(self, data: Any) -> _Moment:
        geoms = data.contact.geom
        met = np.flatnonzero(self._watched[geoms[:, 0], geoms[:, 1]])
        measured = np.zeros((len(met), 4))
        if met.size:
            if data is self._data:
                self.settle()
            wrench = np.zeros(6)
            measured[:, 1:] = data.contact.pos[met]
            for row, contact in enumerate(met.tolist()):
                mujoco.mj_contactForce(self._model, self.copy, contact, wrench)
                measured[row, 0] = wrench[0]
        motion = np.empty((len(self._followed), FOLLOWED))
        if self._followed:
            bodies = [*self._followed]
            motion[:, CENTRE], motion[:, _TURN] = data.xipos[bodies], data.xmat[bodies]
            for body, row in self._followed.items():
                mujoco.mj_objectVelocity(self._model, data, mujoco.mjtObj.mjOBJ_BODY, body, motion[row, _MOVES], 0)
        return _Moment(float(data.time), geoms[met], measured, motion)

    @property
    def last(self) -> int:
        """See `pytest_vla.sim.substeps.Contacts`."""
        return len(self._moments) - 1

    @property
    def pairs(self) -> Pairs:
        """See `pytest_vla.sim.substeps.Contacts`."""
        return np.unique(self.geoms, axis=0)

    @property
    def geoms(self) -> Pairs:
        """See `pytest_vla.sim.substeps.Contacts`."""
        return np.concatenate([moment.geoms for moment in self._moments])

    @property
    def substeps(self) -> npt.NDArray[np.int32]:
        """See `pytest_vla.sim.substeps.Contacts`."""
        counts = [len(moment.geoms) for moment in self._moments]
        return np.repeat(np.arange(len(counts), dtype=np.int32), counts)

    def press(self, contacts: Ids) -> Press:
        """See `pytest_vla.sim.substeps.Contacts`."""
        rows = np.column_stack([self.substeps, self.geoms])[contacts]
        measured = np.concatenate([moment.measured for moment in self._moments])[contacts]
        return strongest(rows, measured, self._model.opt.timestep)

    def motion(self, body: int) -> Array:
        """See `pytest_vla.sim.substeps.Contacts`; of a followed body."""
        return np.array([moment.motion[self._followed[body]] for moment in self._moments])


@dataclass
class OwnRuleScene(RuleScene):
    """A `RuleScene` whose names are those of other people's models, in any case of letters.

    Attributes:
        own: the scene's.
        fingers: how many the robot has.
    """

    own: MujocoScene
    fingers: int

    def part(self, name: str) -> Callable[[], Mask]:
        """See `RuleScene`."""
        self._require(name)
        return super().part(name)

    def most(self, name: str) -> Mask:
        """See `RuleScene`."""
        self._require(name)
        return super().most(name)

    def watch_grasps(self) -> None:
        """See `RuleScene`."""
        self._require(HELD)
        super().watch_grasps()

    def thing(self, name: str) -> frozenset[int]:
        """See `RuleScene`: an object, or the first one as the goal."""
        wanted = self._goal() if name == GOAL else name
        found = [number for number in self.things.loose if self.things.names[number].lower() == wanted.lower()]
        if not found:
            known = ", ".join(self.own.objects) or "none"
            raise Missing(f"{name!r} is none of the scene's objects ({known}).")
        return frozenset(found)

    def geoms(self, name: str) -> Mask:
        """See `RuleScene`: of a surface, of an object, of a body with all below it, or a geom."""
        names, model = self.things.names, self.model
        if name == GOAL or name in (each.lower() for each in self.own.objects):
            return self.mask(self.thing(name))
        if name in PARTS and name != HELD:
            return self.part(name)()
        surfaces = [surface for surface, _ in self.own.surfaces]
        if name in surfaces:
            return self.mask({names.index(name)})
        found = np.zeros(model.ngeom + 1, dtype=bool)
        for geom in range(model.ngeom):
            found[geom] = name == f"#{geom}" or fnmatchcase(model.geom(geom).name.lower(), name)
        if not name.startswith("#"):
            found[:-1] |= np.isin(model.geom_bodyid, sorted(below(model, set(_bodies(model, name).values()))))
        if not found.any():
            raise self._missing(name, [*surfaces, *self.own.objects], "geom", "body")
        return found

    def owner(self, thing: int) -> str:
        """See `RuleScene`; a part of the robot, touched by something that a rule names, is the robot."""
        return ROBOT if thing < 0 else self.things.names[thing]

    def named_bodies(self, name: str) -> dict[str, int]:
        """See `RuleScene`: any body of the model."""
        wanted = (self._goal() if name == GOAL else name).lower()
        objects = {known: body for known, body in self.roots.items() if known.lower() == wanted}
        found = objects or _bodies(self.model, wanted)
        if not found:
            raise self._missing(name, [*self.own.objects], "body")
        return found

    def _goal(self) -> str:
        if not self.own.objects:
            raise Missing("'goal' is the scene's first object, and the scene has none: name a body of the model.")
        return self.own.objects[0]

    def _missing(self, name: str, known: list[str], *sorts: str) -> Missing:
        model = self.model
        counts = {"geom": model.ngeom, "body": model.nbody}
        known = [*PARTS[:3], *known, *(name_of(model, sort, n) for sort in sorts for n in range(counts[sort]))]
        listed = [*dict.fromkeys(each for each in known if not each.startswith("#"))]
        more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
        return Missing(
            f"the model has nothing called {name!r}; it has {', '.join(listed[:_SHOWN])}{more}."
            f"{did_you_mean(name, listed)}"
        )

    def _require(self, name: str) -> None:
        """Raise `Missing` if the model does not show which part of the robot is meant."""
        if name in PARTS and not self.own.arm:
            raise Missing(
                f"{name!r} is not known, as the scene has no arm: gym.suite(..., scene={{'arm': [...]}}) names its "
                "joints. Or name a body of the model."
            )
        if (name == GRIPPER and not self.fingers) or (name == HELD and self.fingers != _HANDS):
            raise Missing(
                f"{name!r} is not known: {self.fingers} bodies beyond the arm's joints move by joints of their own, "
                f"expected {'two fingers' if name == HELD else 'fingers'}. Name a body of the model."
            )


_SHOWN = 40
_HANDS = 2
"""Fingers that hold a thing between them."""


def _bodies(model: Any, name: str) -> dict[str, int]:
    names = {name_of(model, "body", body): body for body in range(1, model.nbody)}
    return {known: body for known, body in names.items() if fnmatchcase(known.lower(), name)}


def below(model: Any, bodies: set[int]) -> set[int]:
    """Return these bodies and all that are attached to them, however deep."""
    found = set(bodies)
    # A body comes after the one that it is attached to.
    for body, parent in enumerate(model.body_parentid.tolist()):
        if parent in found and body:
            found.add(body)
    return found


def own_rule_scene(model: Any, data: Any, steps: Steps, own: MujocoScene) -> OwnRuleScene:
    """Return what rules look at in a model, with its robot, objects and surfaces as a scene names them.

    The arm is what its joints move. Whatever hangs on it and has joints of its own is a finger.
    """
    joints = tuple(part_number(model, "joint", name) for name in own.arm)
    links = {int(model.jnt_bodyid[joint]) for joint in joints}
    robot, roots = below(model, links), {name: part_number(model, "body", name) for name in own.objects}
    moved = {body for body in robot - links if not below(model, {body}) & links}
    fingers = [below(model, {body}) for body in sorted(moved) if model.body_jntnum[body]]
    fingers = [each for each in fingers if not any(each < other for other in fingers)]
    mounts = {body for body in range(1, model.nbody) if below(model, {body}) & links}
    of_body = {body: name for name, root in roots.items() for body in below(model, {root})}
    surfaces = {geom: name for name, geoms in own.surfaces for geom in named_geoms(model, geoms)}
    names, of_geom = [*roots, *(name for name, _ in own.surfaces)], np.full(model.ngeom + 1, -1, dtype=np.int64)
    for geom, body in enumerate(model.geom_bodyid.tolist()):
        root = int(model.body_rootid[body])
        name = of_body.get(body) or surfaces.get(geom)
        if name is None and body in robot | mounts:
            continue
        name = name or name_of(model, *(("body", root) if root else ("geom", geom)))
        if name not in names:
            names.append(name)
        of_geom[geom] = names.index(name)

    def mask(bodies: set[int]) -> Mask:
        return np.append(np.isin(model.geom_bodyid, sorted(bodies)), False)

    first, rest = (fingers[0] if fingers else set()), set().union(*fingers[1:])
    things = Things(
        tuple(names),
        of_geom,
        mask(robot - first - rest),
        (mask(first), mask(rest)),
        frozenset(range(len(roots))),
        frozenset(range(len(roots), len(roots) + len(own.surfaces))),
    )
    no_names = frozenset[Any]()
    return OwnRuleScene(
        model, data, steps, things, no_names, roots, no_names, joints, None, {}, {}, own=own, fingers=len(fingers)
    )


class OwnCosts:
    """The charges of a user's costs in episodes of one world.

    Args:
        task: of the world, with a scene.
        rules: the user's.
        shown: returns the model and data that the world simulates with.

    Raises:
        VlaError: a rule does not fit the model (located).
    """

    def __init__(self, task: Task, rules: tuple[CostRule, ...], shown: Callable[[], tuple[Any, Any]]) -> None:
        self._task, self._rules, self._shown = task, rules, shown
        self._compile()

    def _compile(self) -> None:
        assert self._task.scene is not None
        self._model, self._data = self._shown()
        self._steps, self._ledger, self._is_over = Steps(self._model, self._data), Ledger(), False
        scene = own_rule_scene(self._model, self._data, self._steps, self._task.scene)
        at_end = replace(scene, data=self._steps.copy, substeps=None)
        self._meter = Declared(self._task, self._rules, scene, at_end, _no_literal)

    def begin(self) -> None:
        """Begin an episode, after the world was reset and has settled."""
        model, data = self._shown()
        if model is not self._model or data is not self._data:
            # Some worlds make their model anew.
            self._compile()
        self._ledger, self._is_over = Ledger(), False
        self._steps.begin()
        self._meter.begin()

    @contextmanager
    def charging(self, step: int) -> Iterator[None]:
        """Charge the control step of this number that the world takes. Raises EpisodeError, as `Steps.recorded`."""
        with self._steps.recorded():
            yield
        self._meter.step(self._ledger, step, success=False)

    def end(self, step: int) -> None:
        """Charge how the episode ended; a second call does nothing."""
        if not self._is_over:
            self._is_over = True
            self._steps.settle()
            self._meter.end(self._ledger, step, success=False)

    def charges(self) -> tuple[Charge, ...]:
        """Return the ledger so far, with an entry of 0 for each rule without a charge."""
        entries = self._ledger.entries()
        charged = {entry.name for entry in entries}
        return (*(charge for charge in self._meter.watched() if charge.name not in charged), *entries)


def _no_literal(rule: CostRule) -> Any:
    raise Missing(
        f"{rule.literal}: a literal in CBDDL is about LIBERO's scenes, and this suite has its own simulator. "
        'Write a rule, such as rule = "touch".'
    )
