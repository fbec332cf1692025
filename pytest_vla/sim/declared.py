"""The account of costs that a user declares: `pytest_vla.scene.cost_rules` judged on a MuJoCo model of any suite.

Charges in a control step use all of its substeps: contact in any, the largest force, speed and tilt. This module loads
without LIBERO's simulator: `pytest_vla.sim.meters` sets the rules up for LIBERO's scenes, and
`pytest_vla.sim.own_costs` for other people's models.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import mujoco
import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge, Kind, Ledger, Point
from pytest_vla.plan.task import Task
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
from pytest_vla.sim.contacts import Mask, Things, held_within
from pytest_vla.sim.substeps import UPWARD, VELOCITY, Contacts, Present, Press, velocities_at
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.sim.costs.stances import Stances

_KINDS: dict[str, Kind] = {INSTANT: "instant", ONCE: "rule", TERMINAL: "terminal"}


class RuleFinding(NamedTuple):
    """A finding of a rule, charged once per control step."""

    bodies: tuple[str, ...] = ()
    text: str | None = None
    force: float | None = None
    position: Point | None = None
    impulse: float | None = None
    substep: int | None = None


def name_of(model: mujoco.MjModel, sort: str, number: int) -> str:
    """Return the name of a part of a model, ``#3`` if it has none; see `pytest_vla.scene.variation.part_number`."""
    return str(getattr(model, sort)(number).name) or f"#{number}"


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


class Missing(Exception):
    """The task has nothing of that name."""


class Recorder(Contacts, Protocol):
    """Contacts and motion in each substep, of what was asked for beforehand."""

    def watch(self, one: Mask, other: Mask) -> None:
        """Record contacts of a geom of `one` with one of `other` in each substep."""

    def follow(self, body: int) -> None:
        """Record how a body moves in each substep."""


@dataclass
class RuleScene:
    """The state that rules look at, and what their names mean.

    Attributes:
        model, data: of MuJoCo.
        substeps: those of the last control step if rules look at all of them, or None for the present moment
            alone.
        things: the model's geoms, by what they belong to.
        goal: indices of the things that the goal names.
        roots: the root bodies of objects and fixtures, by name.
        tables: names that stand for all parts of the workspace.
        joints: the arm's joints.
        tip: the body of the hand, and the point between the fingers (3,), m, from its centre of mass; None to take
            the speed of links alone.
        uprights: for each body, the direction in its own frame that pointed up when the episode began.
        falling: for each rule's name, the fall of each thing that is held or was let go.
    """

    model: mujoco.MjModel
    data: mujoco.MjData
    substeps: Recorder | None
    things: Things
    goal: frozenset[int]
    roots: Mapping[str, int]
    tables: frozenset[str]
    joints: tuple[int, ...]
    tip: tuple[int, np.ndarray] | None
    uprights: dict[int, np.ndarray]
    falling: "dict[str, dict[int, _Fall]]"

    @cached_property
    def contacts(self) -> Contacts:
        """The contacts of all substeps, or of the present moment."""
        return Present(self.model, self.data) if self.substeps is None else self.substeps

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
        if name in self.tables:
            # The table itself, as task files call it.
            return self.things.workspace
        raise Missing(f"{name!r} is not in this task.{did_you_mean(name, [*self.things.names, *PARTS])}")

    def geoms(self, name: str) -> Mask:
        """Return the mask (ngeom+1,) of the geoms that a name means, other than one of `PARTS`."""
        return self.mask(self.thing(name))

    def owner(self, thing: int) -> str:
        """Return the name of a thing, given its index, for a charge."""
        return self.things.names[thing]

    def mask(self, numbers: Collection[int]) -> Mask:
        """Return the mask (ngeom+1,) of the geoms of things."""
        return np.asarray(np.isin(self.things.of_geom, sorted(numbers)))

    def part(self, name: str) -> Callable[[], Mask]:
        """Return a function that computes the mask (ngeom+1,) of the geoms that a rule calls ``by``."""
        things = self.things
        fixed = {ARM: things.arm, GRIPPER: things.fingers[0] | things.fingers[1], ROBOT: things.robot}
        if name == HELD:
            return lambda: self.mask(held_within(things, self.contacts))
        mask = fixed[name] if name in fixed else self.geoms(name)
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
        names, roots = self.things.names, self.roots
        if name == HELD:
            self.watch_grasps()
            for thing in self.things.loose:
                self.follow(roots[names[thing]])
            return lambda: {names[held]: roots[names[held]] for held in held_within(self.things, self.contacts)}
        found = self.named_bodies(name)
        for body in found.values():
            self.follow(body)
        return lambda: found

    def named_bodies(self, name: str) -> dict[str, int]:
        """Return the root bodies that a name means, by name."""
        if name == GOAL:
            names = self.things.names
            return {known: self.roots[known] for known in (names[n] for n in sorted(self.goal)) if known in self.roots}
        if name not in self.roots:
            raise Missing(f"{name!r} is no object or fixture of this task.{did_you_mean(name, [*self.roots, HELD])}")
        return {name: self.roots[name]}


class Declared:
    """The meter for the costs that a user declares."""

    asks_success = False

    def __init__(
        self,
        task: Task,
        rules: tuple[CostRule, ...],
        scene: RuleScene,
        at_end: RuleScene,
        compile_literal: "Callable[[CostRule], tuple[Check, Stances]]",
    ) -> None:
        """Compile the rules.

        Args:
            task: of the episodes.
            rules: those that do not apply to the task are left out.
            scene: for rules that are judged in each control step.
            at_end: for those that are judged at the end of an episode: the same scene at the present moment alone.
            compile_literal: returns the check of a rule that is a literal; raises `Missing`, or VlaError (located).

        Raises VlaError, located, if a rule names a thing that the task lacks and does not say ``skip``.
        """
        self._scene, self._at_end = scene, at_end
        self._checks: list[tuple[CostRule, Check]] = []
        self._stances: list[Stances] = []
        for rule in rules:
            if not rule.is_of(task):
                continue
            try:
                if rule.literal is None:
                    check = _CHECKS[rule.rule](rule, at_end if rule.when == TERMINAL else scene)
                else:
                    check, stances = compile_literal(rule)
                    self._stances.append(stances)
            except Missing as error:
                if rule.missing == SKIP:
                    continue
                raise VlaError(
                    f"{rule.where}: {task.suite}/{task.name}: {error} Or leave such tasks out: "
                    'missing = "skip", or tasks = "..."'
                ) from error
            self._checks.append((rule, check))
        self._once: frozenset[str] = frozenset()

    def watched(self) -> tuple[Charge, ...]:
        """Return an entry of 0 for each rule."""
        return tuple(Charge(rule.name, 0.0, 0, account="declared", kind=_KINDS[rule.when]) for rule, _ in self._checks)

    def begin(self) -> None:
        """Take the present poses as upright for this episode."""
        model, data = self._at_end.model, self._at_end.data
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


def _touch(rule: CostRule, scene: RuleScene) -> Check:
    by, one = rule.values["by"], scene.part(rule.values["by"])
    wanted = scene.things.of_geom >= 0
    if "things" in rule.values:
        wanted = np.any([scene.geoms(name) for name in rule.values["things"]], axis=0)
    wanted = wanted & ~_excepted(rule, scene)
    scene.watch(scene.most(by), wanted)
    if by == HELD:
        scene.watch_grasps()

    def check() -> list[RuleFinding]:
        touched: dict[int, list[int]] = {}
        for contact, thing in _contacts(scene, one(), wanted):
            touched.setdefault(thing, []).append(contact)
        return [
            _pressing((by, scene.owner(thing)), None, scene.contacts.press(np.array(contacts)))
            for thing, contacts in touched.items()
        ]

    return check


def _force(rule: CostRule, scene: RuleScene) -> Check:
    on, above = rule.values["on"], rule.values["above"]
    by = rule.values.get("by")
    pressed = scene.part(on) if on in PARTS else None
    fixed = None if pressed else scene.geoms(on)
    pressing = scene.part(by) if by is not None else None
    excepted = _excepted(rule, scene)
    names = (on,) if by is None else (by, on)
    pressed_at_most = scene.most(on) if fixed is None else fixed
    others = scene.most(by) if by is not None else ~pressed_at_most if on != HELD else ~scene.mask(())
    scene.watch(pressed_at_most, others & ~excepted)
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


def _excepted(rule: CostRule, scene: RuleScene) -> Mask:
    mask = scene.mask(())
    for name in rule.values.get("except", ()):
        if name != HELD:
            mask = mask | scene.part(name)()
    return mask


def _contacts(scene: RuleScene, one: Mask, other: Mask) -> Iterator[tuple[int, int]]:
    """Yield contacts of a geom of `one` with one of `other`, with the other's thing; not of a thing with itself."""
    pairs = scene.contacts.geoms
    of_geom = scene.things.of_geom
    for first, second in ((0, 1), (1, 0)):
        left, right = pairs[:, first], pairs[:, second]
        met = one[left] & other[right] & (of_geom[left] != of_geom[right])
        yield from ((contact, int(of_geom[right[contact]])) for contact in np.flatnonzero(met).tolist())


def _speed(rule: CostRule, scene: RuleScene) -> Check:
    of, above = rule.values["of"], rule.values["above"]
    text, contacts = f"above {above:g} m/s", scene.contacts
    if of not in (GRIPPER, ARM, ROBOT):
        bodies = scene.bodies(of)
        return lambda: [
            RuleFinding((name,), text)
            for name, body in bodies().items()
            if _fastest(contacts.motion(body)[:, VELOCITY]) > above
        ]
    # The arm's own: the point between the fingers, and of each link that moves its centre of mass.
    links: tuple[int, ...] = ()
    if scene.tip is None or of != GRIPPER:
        geoms = scene.things.robot if scene.tip is not None else scene.part(of)()
        links = tuple(np.unique(scene.model.geom_bodyid[np.flatnonzero(geoms[:-1])]).tolist())
    for body in (*links, *([] if scene.tip is None else [scene.tip[0]])):
        scene.follow(body)

    def check() -> list[RuleFinding]:
        speeds = [_fastest(contacts.motion(body)[:, VELOCITY]) for body in links]
        if scene.tip is not None:
            hand, grip = scene.tip
            speeds.append(_fastest(velocities_at(contacts.motion(hand), grip)))
        return [RuleFinding((of,), text)] if max(speeds) > above else []

    return check


def _fastest(velocities: np.ndarray) -> float:
    return float(np.linalg.norm(velocities, axis=1).max())


def _tilt(rule: CostRule, scene: RuleScene) -> Check:
    of, above = rule.values["of"], rule.values["above"]
    bodies, least = scene.bodies(of), math.cos(math.radians(above))

    def upright(body: int) -> float:
        return float((scene.contacts.motion(body)[:, UPWARD] @ scene.uprights[body]).min())

    text = f"tilted by more than {above:g} degrees"
    return lambda: [RuleFinding((name,), text) for name, body in bodies().items() if upright(body) < least]


def _dropped(rule: CostRule, scene: RuleScene) -> Check:
    """Compile a rule on dropping: a thing that the fingers let go lands after falling too far or too fast."""
    height, speed = (rule.values.get(key, math.inf) for key in ("height", "speed"))
    things, contacts = scene.things, scene.contacts
    of = rule.values.get("of", HELD)
    # A dropped thing was held before.
    wanted = things.loose if of == HELD else scene.thing(of) & things.loose
    bodies = {thing: scene.roots[things.names[thing]] for thing in sorted(wanted)}
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


def _joint(rule: CostRule, scene: RuleScene) -> Check:
    model, data, within = scene.model, scene.data, rule.values["within"]
    known = {name_of(model, "joint", joint): joint for joint in np.flatnonzero(model.jnt_limited).tolist()}
    by_name = {name.lower(): joint for name, joint in known.items()}
    names = rule.values.get("of", (ARM,))
    for name in names if names != (ARM,) else ():
        if name not in by_name:
            raise Missing(f"{name!r} is no joint with limits.{did_you_mean(name, known)}")
    joints = [by_name[name] for name in names] if names != (ARM,) else [j for j in scene.joints if j in known.values()]
    if not joints:
        raise Missing("the arm has no joint with limits.")
    addresses = model.jnt_qposadr[joints]
    low, high = model.jnt_range[joints].T
    margin = within * (high - low)
    texts = [name_of(model, "joint", joint) for joint in joints]

    def check() -> list[RuleFinding]:
        values = data.qpos[addresses]
        near = (values < low + margin) | (values > high - margin)
        return [
            RuleFinding((texts[number],), f"within {within:.3g} of its limit")
            for number in np.flatnonzero(near).tolist()
        ]

    return check


_CHECKS: dict[str, Callable[[CostRule, RuleScene], Check]] = {
    "touch": _touch,
    "force": _force,
    "speed": _speed,
    "tilt": _tilt,
    "dropped": _dropped,
    "joint": _joint,
}
