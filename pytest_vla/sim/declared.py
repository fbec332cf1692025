"""The account of what a user declares: `pytest_vla.scene.cost_rules` judged on a world, of whichever suite."""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import mujoco
import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge, Kind, Point
from pytest_vla.plan.ledger import Ledger
from pytest_vla.scene.cost_rules import (
    ARM,
    GOAL,
    GRIPPER,
    HELD,
    INSTANT,
    ONCE,
    PARTS,
    ROBOT,
    SKIP,
    TERMINAL,
    CostRule,
)
from pytest_vla.scene.literals import GRIPPER as GRIPPER_NAME
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.workspaces import workspace
from pytest_vla.sim.arm import ARM_JOINTS
from pytest_vla.sim.costs.as_written import judged_as_written, leaves, stances_of
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.costs.stances import Stances
from pytest_vla.sim.touching import Mask, Things, goal_things, held_things, press, things_of
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.sim.world import World

_KINDS: dict[str, Kind] = {INSTANT: "instant", ONCE: "rule", TERMINAL: "terminal"}


class Finding(NamedTuple):
    """What a rule found: what is charged once a control step."""

    bodies: tuple[str, ...] = ()
    text: str | None = None
    force: float | None = None
    position: Point | None = None


_Saved = tuple[frozenset[str], dict[int, np.ndarray], tuple[object, ...]]

Check = Callable[[], list[Finding]]
"""Judges the present state; an empty list: it does not hold."""


class _Missing(Exception):
    """The task has nothing of that name."""


@dataclass
class _Scene:
    """What rules look at. `uprights`: of each body, which of its directions pointed up when the episode began."""

    world: "World"
    things: Things
    goal: frozenset[int]
    uprights: dict[int, np.ndarray]

    def thing(self, name: str) -> frozenset[int]:
        """The things of a name: one, or all that the workspace is made of."""
        if name in self.things.names:
            return frozenset([self.things.names.index(name)])
        if name in {fixture.name for fixture in self.world.problem.fixtures}:
            # The table itself, as task files call it.
            return self.things.workspace
        raise _Missing(f"{name!r} is nothing in this task.{did_you_mean(name, [*self.things.names, *PARTS])}")

    def mask(self, numbers: Collection[int]) -> Mask:
        """(ngeom+1,) the geoms of things."""
        return np.asarray(np.isin(self.things.of_geom, sorted(numbers)))

    def part(self, name: str) -> Callable[[], Mask]:
        """(ngeom+1,) the geoms of what a rule calls ``by``, each time that it is asked."""
        things = self.things
        fixed = {ARM: things.arm, GRIPPER: things.fingers[0] | things.fingers[1], ROBOT: things.robot}
        if name == HELD:
            return lambda: self.mask(held_things(things, self.world.data))
        mask = fixed[name] if name in fixed else self.mask(self.thing(name))
        return lambda: mask

    def bodies(self, name: str) -> Callable[[], dict[str, int]]:
        """Names with their root bodies, of a thing or of what is held."""
        model = self.world.model
        roots = {body.name: int(model.body(body.root_body).id) for body in self.world.scene.bodies}
        if name == HELD:
            return lambda: {self.things.names[held]: roots[self.things.names[held]] for held in self.held()}
        if name not in roots:
            raise _Missing(f"{name!r} is no object or fixture of this task.{did_you_mean(name, [*roots, HELD])}")
        return lambda: {name: roots[name]}

    def held(self) -> tuple[int, ...]:
        """What both fingers touch."""
        return tuple(sorted(held_things(self.things, self.world.data)))


class Declared:
    """The meter of what a user declares."""

    asks_success = False

    def __init__(self, world: "World", rules: tuple[CostRule, ...]) -> None:
        """Raises VlaError, located, where a rule names what the task does not have and does not say ``skip``."""
        things = things_of(world.scene, world.model)
        self._scene = _Scene(world, things, goal_things(world.problem, world.scene, things), {})
        self._checks: list[tuple[CostRule, Check]] = []
        self._stances: list[Stances] = []
        for rule in rules:
            if not rule.is_of(world.task):
                continue
            try:
                check = self._literal(rule) if rule.literal is not None else _CHECKS[rule.rule](rule, self._scene)
            except _Missing as error:
                if rule.missing == SKIP:
                    continue
                task = f"{world.task.suite}/{world.task.name}"
                raise VlaError(
                    f'{rule.where}: {task}: {error} Or leave such tasks out: missing = "skip", or tasks = "..."'
                ) from error
            self._checks.append((rule, check))
        self._once: frozenset[str] = frozenset()

    def _literal(self, rule: CostRule) -> Check:
        """As VLA-Arena's paper has it. Raises SceneError, located, where it cannot be judged."""
        world = self._scene.world
        assert rule.literal is not None
        _check_names(rule, world)
        problem = replace(world.problem, source=rule.where)
        setting = Setting(problem, world.scene, world.model, world.data, world.drawn_poses)
        stances = stances_of((rule.literal,), setting)
        self._stances.append(stances)
        return _literal(rule, setting, stances)

    def watched(self) -> tuple[Charge, ...]:
        """One a rule."""
        return tuple(Charge(rule.name, 0.0, 0, account="declared", kind=_KINDS[rule.when]) for rule, _ in self._checks)

    def begin(self) -> None:
        """What stands upright now is upright."""
        model, data = self._scene.world.model, self._scene.world.data
        self._scene.uprights = {body: data.xmat[body].reshape(3, 3)[2].copy() for body in range(model.nbody)}
        self._once = frozenset()
        for stances in self._stances:
            stances.begin()

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charges what holds now."""
        for stances in self._stances:
            stances.observe(step)
        for rule, check in self._checks:
            if rule.when != TERMINAL and rule.name not in self._once and (findings := check()):
                self._charge(ledger, step, rule, findings)
                if rule.when == ONCE:
                    self._once |= {rule.name}

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charges what holds in the end."""
        for rule, check in self._checks:
            if rule.when == TERMINAL:
                self._charge(ledger, step, rule, check())

    def frozen(self) -> frozenset[str]:
        """No rule stops a mover."""
        return frozenset()

    def saved(self) -> object:
        """What was charged once, and what was upright."""
        return self._once, self._scene.uprights, tuple(stances.saved() for stances in self._stances)

    def restore(self, state: object) -> None:
        """As of then."""
        self._once, self._scene.uprights, stances = cast("_Saved", state)
        for each, saved in zip(self._stances, stances, strict=True):
            each.restore(saved)

    def _charge(self, ledger: Ledger, step: int, rule: CostRule, findings: list[Finding]) -> None:
        for each in findings[:1] if rule.when == ONCE else findings:
            ledger.charge(
                step,
                rule.name,
                rule.weight,
                account="declared",
                kind=_KINDS[rule.when],
                bodies=each.bodies,
                by=each.bodies[-1] if each.bodies else None,
                text=each.text,
                force=each.force,
                position=each.position,
            )


def _literal(rule: CostRule, setting: Setting, stances: Stances) -> Check:
    assert rule.literal is not None
    judged = judged_as_written(rule.literal, setting, stances)

    def check() -> list[Finding]:
        if not judged.holds():
            return []
        told = judged.told()
        return [Finding(told.bodies, told.text, told.force, told.position)]

    return check


def _names(literal: Literal) -> Iterator[str]:
    for leaf in leaves(literal):
        yield from (argument for argument in leaf.arguments if isinstance(argument, str))


def _check_names(rule: CostRule, world: "World") -> None:
    assert rule.literal is not None
    problem = world.problem
    known = {item.name for item in (*problem.objects, *problem.fixtures)} | {region.key for region in problem.regions}
    known |= {workspace(problem.name, problem.source).name, GRIPPER_NAME}
    for name in _names(rule.literal):
        if name not in known:
            raise _Missing(f"{rule.literal}: {name!r} is nothing in this task.{did_you_mean(name, known)}")


def _touch(rule: CostRule, scene: _Scene) -> Check:
    by, one = rule.values["by"], scene.part(rule.values["by"])
    wanted = scene.things.of_geom >= 0
    if "things" in rule.values:
        wanted = scene.mask({number for name in rule.values["things"] for number in scene.thing(name)})
    wanted = wanted & ~_excepted(rule, scene)

    def check() -> list[Finding]:
        touched: dict[int, list[int]] = {}
        for contact, thing in _contacts(scene, one(), wanted):
            touched.setdefault(thing, []).append(contact)
        found = []
        for thing, contacts in touched.items():
            force, place = press(scene.world.model, scene.world.data, contacts)
            found.append(Finding((by, scene.things.names[thing]), None, force, place))
        return found

    return check


def _force(rule: CostRule, scene: _Scene) -> Check:
    on, above = rule.values["on"], rule.values["above"]
    by = rule.values.get("by")
    pressed = scene.part(on) if on in PARTS else None
    fixed = None if pressed else scene.mask(scene.thing(on))
    pressing = scene.part(by) if by is not None else None
    excepted = _excepted(rule, scene)
    names = (on,) if by is None else (by, on)

    def check() -> list[Finding]:
        one = pressed() if pressed is not None else fixed
        assert one is not None
        other = (pressing() if pressing is not None else ~one) & ~excepted
        pairs = scene.world.data.contact.geom
        left, right = pairs[:, 0], pairs[:, 1]
        contacts = np.flatnonzero((one[left] & other[right]) | (one[right] & other[left])).tolist()
        if not contacts:
            return []
        force, place = press(scene.world.model, scene.world.data, contacts)
        return [Finding(names, f"above {above:g} N", force, place)] if force > above else []

    return check


def _excepted(rule: CostRule, scene: _Scene) -> Mask:
    excepted = [name for name in rule.values.get("except", ()) if name not in PARTS]
    numbers = {number for name in excepted for number in (scene.goal if name == GOAL else scene.thing(name))}
    mask = scene.mask(numbers)
    for name in rule.values.get("except", ()):
        if name in (ARM, GRIPPER, ROBOT):
            mask = mask | scene.part(name)()
    return mask


def _contacts(scene: _Scene, one: Mask, other: Mask) -> Iterator[tuple[int, int]]:
    """Contacts of a geom of one with one of the other, with the other's thing; not of a thing with itself."""
    pairs = scene.world.data.contact.geom
    of_geom = scene.things.of_geom
    for first, second in ((0, 1), (1, 0)):
        left, right = pairs[:, first], pairs[:, second]
        met = one[left] & other[right] & (of_geom[left] != of_geom[right])
        yield from ((contact, int(of_geom[right[contact]])) for contact in np.flatnonzero(met).tolist())


def _speed(rule: CostRule, scene: _Scene) -> Check:
    of, above = rule.values["of"], rule.values["above"]
    world, text, velocity = scene.world, f"above {above:g} m/s", np.zeros(6)

    def fast(kind: mujoco.mjtObj, number: int) -> bool:
        mujoco.mj_objectVelocity(world.model, world.data, kind, number, velocity, 0)
        return bool(np.linalg.norm(velocity[3:]) > above)

    if of in (GRIPPER, ARM, ROBOT):
        return lambda: [Finding((of,), text)] if fast(mujoco.mjtObj.mjOBJ_SITE, world.grip_site) else []
    bodies = scene.bodies(of)
    return lambda: [Finding((name,), text) for name, body in bodies().items() if fast(mujoco.mjtObj.mjOBJ_BODY, body)]


def _tilt(rule: CostRule, scene: _Scene) -> Check:
    of, above = rule.values["of"], rule.values["above"]
    bodies, least = scene.bodies(of), math.cos(math.radians(above))

    def upright(body: int) -> float:
        return float(scene.world.data.xmat[body].reshape(3, 3)[2] @ scene.uprights[body])

    text = f"tilted by more than {above:g} degrees"
    return lambda: [Finding((name,), text) for name, body in bodies().items() if upright(body) < least]


def _joint(rule: CostRule, scene: _Scene) -> Check:
    model, data, within = scene.world.model, scene.world.data, rule.values["within"]
    known = [str(model.joint(joint).name) for joint in range(model.njnt) if model.jnt_limited[joint]]
    names = rule.values.get("of", ("arm",))
    wanted = [] if names == ("arm",) else list(names)
    for name in wanted:
        if name not in known:
            raise _Missing(f"{name!r} is no joint with limits.{did_you_mean(name, known)}")
    joints = [model.joint(name).id for name in wanted] or list(range(ARM_JOINTS))
    addresses = model.jnt_qposadr[joints]
    low, high = model.jnt_range[joints].T
    margin = within * (high - low)
    texts = [str(model.joint(joint).name) for joint in joints]

    def check() -> list[Finding]:
        values = data.qpos[addresses]
        near = (values < low + margin) | (values > high - margin)
        return [
            Finding((texts[number],), f"within {within:.3g} of its limit") for number in np.flatnonzero(near).tolist()
        ]

    return check


_CHECKS: dict[str, Callable[[CostRule, _Scene], Check]] = {
    "touch": _touch,
    "force": _force,
    "speed": _speed,
    "tilt": _tilt,
    "joint": _joint,
}
