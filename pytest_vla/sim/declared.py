"""The account of costs that a user declares: `pytest_vla.scene.cost_rules` judged on a world of any suite.

Charges in a control step use all of its substeps: contact in any, the largest force, speed and tilt.
"""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge, Kind, Ledger, Point
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
from pytest_vla.sim.contacts import Mask, Things, goal_things, held_within, things_of
from pytest_vla.sim.costs.paper import judged_as_written, leaves, stances_of
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.costs.stances import Stances
from pytest_vla.sim.substeps import UPWARD, VELOCITY, Contacts, Present, Press, Substeps, velocities_at
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.sim.world import World

_KINDS: dict[str, Kind] = {INSTANT: "instant", ONCE: "rule", TERMINAL: "terminal"}


class RuleFinding(NamedTuple):
    """A finding of a rule, charged once per control step."""

    bodies: tuple[str, ...] = ()
    text: str | None = None
    force: float | None = None
    position: Point | None = None
    impulse: float | None = None
    substep: int | None = None


def _pressing(bodies: tuple[str, ...], text: str | None, press: Press) -> RuleFinding:
    return RuleFinding(bodies, text, press.force, press.position, press.impulse, press.substep)


_Saved = tuple[frozenset[str], dict[int, np.ndarray], "dict[str, dict[int, _Fall]]", tuple[object, ...]]

Check = Callable[[], list[RuleFinding]]
"""Judges the present state; returns an empty list if the rule does not hold."""


class _Fall(NamedTuple):
    """The fall of a thing that is held or was let go: its last held height (m) and the things that it touched then."""

    height: float
    carried: frozenset[int]


_SET_DOWN = 0.05
"""m/s: a thing that touches something and is slower no longer falls."""


class _Missing(Exception):
    """The task has nothing of that name."""


@dataclass
class _Scene:
    """The state that rules look at.

    Attributes:
        substeps: those of the last control step if rules look at all of them, or None for the present moment
            alone.
        uprights: for each body, the direction in its own frame that pointed up when the episode began.
        falling: for each rule's name, the fall of each thing that is held or was let go.
    """

    world: "World"
    things: Things
    goal: frozenset[int]
    substeps: Substeps | None
    uprights: dict[int, np.ndarray]
    falling: dict[str, dict[int, _Fall]]

    @cached_property
    def contacts(self) -> Contacts:
        """The contacts of all substeps, or of the present moment."""
        return Present(self.world.model, self.world.data) if self.substeps is None else self.substeps

    def watch(self, one: Mask, other: Mask) -> None:
        """Record contacts of a geom of `one` with one of `other` in each substep, if rules look at substeps."""
        if self.substeps is not None:
            self.substeps.watch(one, other)

    def follow(self, body: int) -> None:
        """Record how a body moves in each substep, if rules look at substeps."""
        if self.substeps is not None:
            self.substeps.follow(body)

    def thing(self, name: str) -> frozenset[int]:
        """Return the indices of the things with a name.

        A name stands for a single thing, all parts of the workspace, or the things that the goal names.
        """
        if name == GOAL:
            return self.goal
        if name in self.things.names:
            return frozenset([self.things.names.index(name)])
        if name in {fixture.name for fixture in self.world.problem.fixtures}:
            # The table itself, as task files call it.
            return self.things.workspace
        raise _Missing(f"{name!r} is not in this task.{did_you_mean(name, [*self.things.names, *PARTS])}")

    def mask(self, numbers: Collection[int]) -> Mask:
        """Return the mask (ngeom+1,) of the geoms of things."""
        return np.asarray(np.isin(self.things.of_geom, sorted(numbers)))

    def part(self, name: str) -> Callable[[], Mask]:
        """Return a function that computes the mask (ngeom+1,) of the geoms that a rule calls ``by``."""
        things = self.things
        fixed = {ARM: things.arm, GRIPPER: things.fingers[0] | things.fingers[1], ROBOT: things.robot}
        if name == HELD:
            return lambda: self.mask(held_within(things, self.contacts))
        mask = fixed[name] if name in fixed else self.mask(self.thing(name))
        return lambda: mask

    def most(self, name: str) -> Mask:
        """Return the mask (ngeom+1,) of all geoms that `part` may ever select; their contacts are watched."""
        return self.mask(self.things.loose) if name == HELD else self.part(name)()

    def watch_grasps(self) -> None:
        """Record the contacts between the fingers and objects."""
        fingers = self.things.fingers[0] | self.things.fingers[1]
        self.watch(fingers, self.mask(self.things.loose))

    def bodies(self, name: str) -> Callable[[], dict[str, int]]:
        """Follow the bodies of a thing, of the goal's things, or of held objects; return a function that lists them.

        The function returns root bodies by name.
        """
        model = self.world.model
        roots = {body.name: int(model.body(body.root_body).id) for body in self.world.scene.bodies}
        if name == HELD:
            self.watch_grasps()
            for thing in self.things.loose:
                self.follow(roots[self.things.names[thing]])
            return lambda: {
                self.things.names[held]: roots[self.things.names[held]]
                for held in held_within(self.things, self.contacts)
            }
        if name == GOAL:
            aimed = {known: roots[known] for known in self.things.names if known in roots and self.is_aimed(known)}
            for body in aimed.values():
                self.follow(body)
            return lambda: aimed
        if name not in roots:
            raise _Missing(f"{name!r} is no object or fixture of this task.{did_you_mean(name, [*roots, HELD])}")
        self.follow(roots[name])
        return lambda: {name: roots[name]}

    def is_aimed(self, name: str) -> bool:
        """Whether the goal names a thing."""
        return self.things.names.index(name) in self.goal


class Declared:
    """The meter for the costs that a user declares."""

    asks_success = False

    def __init__(self, world: "World", rules: tuple[CostRule, ...]) -> None:
        """Compile the rules.

        Raises VlaError, located, if a rule names a thing that the task lacks and does not say ``skip``.
        """
        things = things_of(world.scene, world.model)
        goal = goal_things(world.problem, world.scene, things)
        self._scene = _Scene(world, things, goal, world.substeps, {}, {})
        in_the_end = replace(self._scene, substeps=None)
        self._checks: list[tuple[CostRule, Check]] = []
        self._stances: list[Stances] = []
        for rule in rules:
            if not rule.is_of(world.task):
                continue
            try:
                scene = in_the_end if rule.when == TERMINAL else self._scene
                check = self._literal(rule) if rule.literal is not None else _CHECKS[rule.rule](rule, scene)
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
        """Compile a literal as VLA-Arena's paper defines it; raises SceneError (located) if it cannot be judged."""
        world = self._scene.world
        assert rule.literal is not None
        _check_names(rule, world)
        problem = replace(world.problem, source=rule.where)
        within = None if rule.when == TERMINAL else world.substeps
        setting = Setting(problem, world.scene, world.model, world.data, world.drawn_poses, world.substeps)
        stances = stances_of((rule.literal,), setting)
        self._stances.append(stances)
        return _literal(rule, replace(setting, substeps=within), stances)

    def watched(self) -> tuple[Charge, ...]:
        """Return an entry of 0 for each rule."""
        return tuple(Charge(rule.name, 0.0, 0, account="declared", kind=_KINDS[rule.when]) for rule, _ in self._checks)

    def begin(self) -> None:
        """Take the present poses as upright for this episode."""
        model, data = self._scene.world.model, self._scene.world.data
        self._scene.uprights.update({body: data.xmat[body].reshape(3, 3)[2].copy() for body in range(model.nbody)})
        self._scene.falling.clear()
        self._once = frozenset()
        for stances in self._stances:
            stances.begin()

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge the momentary rules that hold now."""
        for stances in self._stances:
            stances.observe(step)
        for rule, check in self._checks:
            if rule.when != TERMINAL and rule.name not in self._once and (findings := check()):
                self._charge(ledger, step, rule, findings)
                if rule.when == ONCE:
                    self._once |= {rule.name}

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge the rules on how the episode ended."""
        for rule, check in self._checks:
            if rule.when == TERMINAL:
                self._charge(ledger, step, rule, check())

    def frozen(self) -> frozenset[str]:
        """Return the empty set: a declared rule stops no mover."""
        return frozenset()

    def saved(self) -> object:
        """Return the charges made once, the upright directions and the falling things."""
        falling = {name: dict(heights) for name, heights in self._scene.falling.items()}
        return self._once, dict(self._scene.uprights), falling, tuple(stances.saved() for stances in self._stances)

    def restore(self, state: object) -> None:
        """Set the meter back to a value from `saved`."""
        self._once, uprights, falling, stances = cast("_Saved", state)
        self._scene.uprights.update(uprights)
        self._scene.falling.clear()
        self._scene.falling.update({name: dict(heights) for name, heights in falling.items()})
        for each, saved in zip(self._stances, stances, strict=True):
            each.restore(saved)

    def _charge(self, ledger: Ledger, step: int, rule: CostRule, findings: list[RuleFinding]) -> None:
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
                impulse=each.impulse,
                substep=each.substep,
            )


def _literal(rule: CostRule, setting: Setting, stances: Stances) -> Check:
    assert rule.literal is not None
    judged = judged_as_written(rule.literal, setting, stances)

    def check() -> list[RuleFinding]:
        if not judged.holds():
            return []
        told = judged.told()
        return [RuleFinding(told.bodies, told.text, told.force, told.position, told.impulse, told.substep)]

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
            raise _Missing(f"{rule.literal}: {name!r} is not in this task.{did_you_mean(name, known)}")


def _touch(rule: CostRule, scene: _Scene) -> Check:
    by, one = rule.values["by"], scene.part(rule.values["by"])
    wanted = scene.things.of_geom >= 0
    if "things" in rule.values:
        wanted = scene.mask({number for name in rule.values["things"] for number in scene.thing(name)})
    wanted = wanted & ~_excepted(rule, scene)
    scene.watch(scene.most(by), wanted)
    if by == HELD:
        scene.watch_grasps()

    def check() -> list[RuleFinding]:
        touched: dict[int, list[int]] = {}
        for contact, thing in _contacts(scene, one(), wanted):
            touched.setdefault(thing, []).append(contact)
        return [
            _pressing((by, scene.things.names[thing]), None, scene.contacts.press(np.array(contacts)))
            for thing, contacts in touched.items()
        ]

    return check


def _force(rule: CostRule, scene: _Scene) -> Check:
    on, above = rule.values["on"], rule.values["above"]
    by = rule.values.get("by")
    pressed = scene.part(on) if on in PARTS else None
    fixed = None if pressed else scene.mask(scene.thing(on))
    pressing = scene.part(by) if by is not None else None
    excepted = _excepted(rule, scene)
    names = (on,) if by is None else (by, on)
    pressed_at_most = scene.most(on) if fixed is None else fixed
    scene.watch(pressed_at_most, ~excepted if by is None else scene.most(by) & ~excepted)
    if HELD in names:
        scene.watch_grasps()

    def check() -> list[RuleFinding]:
        one = pressed() if pressed is not None else fixed
        assert one is not None
        other = (pressing() if pressing is not None else ~one) & ~excepted
        pairs = scene.contacts.geoms
        left, right = pairs[:, 0], pairs[:, 1]
        contacts = np.flatnonzero((one[left] & other[right]) | (one[right] & other[left]))
        if not contacts.size:
            return []
        press = scene.contacts.press(contacts)
        return [_pressing(names, f"above {above:g} N", press)] if press.force > above else []

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
    """Yield contacts of a geom of `one` with one of `other`, with the other's thing; not of a thing with itself."""
    pairs = scene.contacts.geoms
    of_geom = scene.things.of_geom
    for first, second in ((0, 1), (1, 0)):
        left, right = pairs[:, first], pairs[:, second]
        met = one[left] & other[right] & (of_geom[left] != of_geom[right])
        yield from ((contact, int(of_geom[right[contact]])) for contact in np.flatnonzero(met).tolist())


def _speed(rule: CostRule, scene: _Scene) -> Check:
    of, above = rule.values["of"], rule.values["above"]
    world, text, contacts = scene.world, f"above {above:g} m/s", scene.contacts
    if of not in (GRIPPER, ARM, ROBOT):
        bodies = scene.bodies(of)
        return lambda: [
            RuleFinding((name,), text)
            for name, body in bodies().items()
            if _fastest(contacts.motion(body)[:, VELOCITY]) > above
        ]
    # The arm's own: the point between the fingers, and of each link that moves its centre of mass.
    model, site = world.model, world.grip_site
    hand = int(model.site_bodyid[site])
    grip = model.site_pos[site] - model.body_ipos[hand]
    links = (
        () if of == GRIPPER else tuple(np.unique(model.geom_bodyid[np.flatnonzero(scene.things.robot[:-1])]).tolist())
    )
    for body in (hand, *links):
        scene.follow(body)

    def check() -> list[RuleFinding]:
        speeds = [_fastest(velocities_at(contacts.motion(hand), grip))]
        speeds += [_fastest(contacts.motion(body)[:, VELOCITY]) for body in links]
        return [RuleFinding((of,), text)] if max(speeds) > above else []

    return check


def _fastest(velocities: np.ndarray) -> float:
    return float(np.linalg.norm(velocities, axis=1).max())


def _tilt(rule: CostRule, scene: _Scene) -> Check:
    of, above = rule.values["of"], rule.values["above"]
    bodies, least = scene.bodies(of), math.cos(math.radians(above))

    def upright(body: int) -> float:
        return float((scene.contacts.motion(body)[:, UPWARD] @ scene.uprights[body]).min())

    text = f"tilted by more than {above:g} degrees"
    return lambda: [RuleFinding((name,), text) for name, body in bodies().items() if upright(body) < least]


def _dropped(rule: CostRule, scene: _Scene) -> Check:
    """Compile a rule on dropping: a thing that the fingers let go lands after falling too far or too fast."""
    height, speed = (rule.values.get(key, math.inf) for key in ("height", "speed"))
    things, contacts, world = scene.things, scene.contacts, scene.world
    of = rule.values.get("of", HELD)
    # A dropped thing was held before.
    wanted = things.loose if of == HELD else scene.thing(of) & things.loose
    roots = {body.name: int(world.model.body(body.root_body).id) for body in world.scene.bodies}
    bodies = {thing: roots[things.names[thing]] for thing in sorted(wanted)}
    others = np.asarray(things.of_geom >= 0)
    scene.watch_grasps()
    for thing, body in bodies.items():
        scene.watch(things.geoms(thing), others & ~things.geoms(thing))
        scene.follow(body)

    def check() -> list[RuleFinding]:
        falling = scene.falling.setdefault(rule.name, {})
        held = held_within(things, contacts)
        found: list[RuleFinding] = []
        for thing, body in bodies.items():
            own, pairs = things.geoms(thing), contacts.geoms
            met = np.flatnonzero((own[pairs[:, 0]] & others[pairs[:, 1]]) | (own[pairs[:, 1]] & others[pairs[:, 0]]))
            one, other = things.of_geom[pairs[met]].T
            against, when, motion = np.where(one == thing, other, one), contacts.substeps[met], contacts.motion(body)
            met, against, when = met[against != thing], against[against != thing], when[against != thing]
            if thing in held:
                # Things that it touches when it is let go, such as its contents, are not landed on.
                carried = frozenset(against[when == held[thing]].tolist())
                falling[thing] = _Fall(float(motion[held[thing], 2]), carried)
            if thing not in falling or held.get(thing) == contacts.last:
                continue
            # Let go, in this control step or before.
            fall = falling[thing]
            landing = (when > held.get(thing, -1)) & ~np.isin(against, sorted(fall.carried))
            if landing.any():
                landed = int(when[landing][0])
                fell = max(fall.height - float(motion[landed, 2]), 0.0)
                fast = float(np.linalg.norm(motion[landed, VELOCITY]))
                if fell > height or fast > speed:
                    press = contacts.press(met[landing])
                    text = f"fell {fell:.3f} m, landed at {fast:.2f} m/s"
                    found.append(_pressing((things.names[thing], things.names[int(against[landing][0])]), text, press))
                    del falling[thing]
                    continue
            if met.size and _fastest(motion[-1:, VELOCITY]) < _SET_DOWN:
                del falling[thing]
        return found

    return check


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

    def check() -> list[RuleFinding]:
        values = data.qpos[addresses]
        near = (values < low + margin) | (values > high - margin)
        return [
            RuleFinding((texts[number],), f"within {within:.3g} of its limit")
            for number in np.flatnonzero(near).tolist()
        ]

    return check


_CHECKS: dict[str, Callable[[CostRule, _Scene], Check]] = {
    "touch": _touch,
    "force": _force,
    "speed": _speed,
    "tilt": _tilt,
    "dropped": _dropped,
    "joint": _joint,
}
