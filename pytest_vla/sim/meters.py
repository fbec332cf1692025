"""An episode's meters and the ledger that they write, kept by the world that is metered."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import OURS, PAPER, UPSTREAM
from pytest_vla.plan.choices import COSTS_NONE
from pytest_vla.plan.costs import Charge, Ledger
from pytest_vla.scene.cost_rules import TERMINAL, Charging, CostRule
from pytest_vla.scene.literals import GRIPPER, Literal
from pytest_vla.scene.panda import ARM_JOINTS
from pytest_vla.scene.workspaces import workspace
from pytest_vla.sim.collisions import Collisions
from pytest_vla.sim.contacts import goal_things, things_of
from pytest_vla.sim.costs.paper import PaperMeter, judged_as_written, leaves, stances_of
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.costs.stances import Stances
from pytest_vla.sim.costs.upstream import UpstreamMeter
from pytest_vla.sim.declared import Check, Declared, Missing, RuleFinding, RuleScene
from pytest_vla.sim.verdicts import all_of, compile_goal
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


# Meters charge an episode for events in its world; each account of a ledger has its own meter.


class Meter(Protocol):
    """A reader of a world's present state that charges its costs after each control step.

    Reading changes nothing, except through `frozen`: an episode is the same with and without meters. A meter reads the
    state that verdicts are given on: that of the last mj_step1.
    """

    def watched(self) -> tuple[Charge, ...]:
        """Return an entry of 0, at step 0, for each name that may be charged.

        An episode without charges thus still shows what was watched.
        """

    def begin(self) -> None:
        """Start an episode after the scene was reset and has settled; earlier events are not charged."""

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge a control step.

        Args:
            ledger: is written to.
            step: its number, from 1; settling is not counted.
            success: whether the goal holds now. It is False if no meter of the episode needs it; a meter that does
                not has an attribute ``asks_success`` that is False.
        """

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        """Charge how the episode ended, after this step."""

    def frozen(self) -> frozenset[str]:
        """Return the movers, by their objects' names, that stop from now on because they were touched."""

    def saved(self) -> object:
        """Return the meter's memory, for `restore`."""

    def restore(self, state: object) -> None:
        """Set the meter back to a value from `saved`."""


MakeMeters = Callable[["World"], Sequence[Meter]]
"""Returns the meters of a world's task; called again when the world turns to another task or variation."""


class Metered(NamedTuple):
    """A metering's exact moment, to return to."""

    ledger: Ledger
    states: tuple[object, ...]
    is_over: bool
    meters: tuple[Meter, ...]


class Metering:
    """An episode's meters and their ledger. Steps apart from the world, as on a copy of it, are not charged."""

    def __init__(self, meters: Sequence[Meter] = ()) -> None:
        self._meters = tuple(meters)
        # Judging the goal once more costs as much as looking at all contacts.
        self.asks_success = any(getattr(meter, "asks_success", True) for meter in self._meters)
        self._ledger = Ledger()
        self._is_over = False

    def __bool__(self) -> bool:
        return bool(self._meters)

    @property
    def meters(self) -> tuple[Meter, ...]:
        """The meters that are called."""
        return self._meters

    def clear(self) -> None:
        """Empty the ledger."""
        self._ledger, self._is_over = Ledger(), False

    def begin(self) -> None:
        """Empty the ledger and start all meters, after the scene was reset and has settled."""
        self.clear()
        for meter in self._meters:
            meter.begin()

    def step(self, step: int, success: bool) -> frozenset[str]:
        """Charge a control step and return the movers that stop from now on."""
        for meter in self._meters:
            meter.step(self._ledger, step, success)
        return frozenset().union(*(meter.frozen() for meter in self._meters))

    def end(self, step: int, success: bool) -> None:
        """Charge how the episode ended; a second call does nothing."""
        if not self._is_over:
            self._is_over = True
            for meter in self._meters:
                meter.end(self._ledger, step, success)

    def charges(self) -> tuple[Charge, ...]:
        """Return the ledger so far, with an entry of 0 for each watched name without a charge."""
        entries = self._ledger.entries()
        charged = {(entry.account, entry.name) for entry in entries}
        watched = [charge for meter in self._meters for charge in meter.watched()]
        return (*(charge for charge in watched if (charge.account, charge.name) not in charged), *entries)

    def saved(self) -> Metered:
        """Return the ledger and all meters' memories, for `restore`."""
        return Metered(self._ledger.copy(), tuple(meter.saved() for meter in self._meters), self._is_over, self._meters)

    def restore(self, saved: Metered) -> None:
        """Set the meters back to a value from `saved`. Raises VlaError if the meters were different ones then."""
        if saved.meters != self._meters:
            raise VlaError("this state was saved with different cost meters; reset the world and save it again")
        self._ledger, self._is_over = saved.ledger.copy(), saved.is_over
        for meter, state in zip(self._meters, saved.states, strict=True):
            meter.restore(state)


# The meters of a world's task: VLA-Arena's two accounts.


def cost_meters(world: "World") -> tuple[Meter, ...]:
    """Return the meters of both accounts of the task's ``:cost``; empty if the task has no costs.

    A world has these meters by default because a charge may stop a mover. The rules that run the task decide which
    account stops movers.

    Raises:
        SceneError: a literal names a thing that does not exist (located).
    """
    if not world.problem.cost:
        return ()
    rules = world.task.protocol.rules
    setting = Setting(world.problem, world.scene, world.model, world.data, world.drawn_poses)
    # Upstream checks once per control step, its paper "at every simulation step".
    within = replace(setting, substeps=world.substeps)
    goal = None
    if rules == PAPER:
        # Upstream's account uses upstream's goal; if its code would raise, the episode does not end here.
        goal = partial(all_of, compile_goal(world.problem, world.scene, world.model, world.data, OURS, setting.drawn))
    return (
        UpstreamMeter(setting, freezes=rules != PAPER, crashes=rules == UPSTREAM, goal=goal),
        PaperMeter(within, freezes=rules == PAPER),
    )


# An episode's meters: those of its benchmark, of the user's declared costs, and of collisions.


def meters_of(charging: Charging) -> MakeMeters:
    """Return a factory of a world's meters, for `World.meter`.

    The factory raises VlaError if a declared cost does not fit the task.
    """
    return partial(_meters, charging)


def _meters(charging: Charging, world: "World") -> Sequence[Meter]:
    meters = list(cost_meters(world))
    if charging.declared is not None and any(rule.is_of(world.task) for rule in charging.declared.rules):
        meters.append(declared_meter(world, charging.declared.rules))
    if charging.costs != COSTS_NONE:
        meters.append(Collisions(world))
    return meters


def declared_meter(world: "World", rules: tuple[CostRule, ...]) -> Declared:
    """Return the meter of a user's costs on a scene of LIBERO's. Raises VlaError, as `Declared`."""
    model, problem = world.model, world.problem
    things = things_of(world.scene, model)
    hand = int(model.site_bodyid[world.grip_site])
    scene = RuleScene(
        model,
        world.data,
        world.substeps,
        things,
        goal_things(problem, world.scene, things),
        {body.name: int(model.body(body.root_body).id) for body in world.scene.bodies},
        frozenset(fixture.name for fixture in problem.fixtures),
        tuple(range(ARM_JOINTS)),
        (hand, model.site_pos[world.grip_site] - model.body_ipos[hand]),
        {},
        {},
    )
    return Declared(world.task, rules, scene, replace(scene, substeps=None), partial(_compile_literal, world))


def _compile_literal(world: "World", rule: CostRule) -> tuple[Check, Stances]:
    """Compile a literal as VLA-Arena's paper defines it; raises SceneError (located) if it cannot be judged."""
    assert rule.literal is not None
    _check_names(rule, world)
    problem = replace(world.problem, source=rule.where)
    setting = Setting(problem, world.scene, world.model, world.data, world.drawn_poses, world.substeps)
    stances = stances_of((rule.literal,), setting)
    within = None if rule.when == TERMINAL else world.substeps
    return _judged(rule, replace(setting, substeps=within), stances), stances


def _judged(rule: CostRule, setting: Setting, stances: Stances) -> Check:
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
    known |= {workspace(problem.name, problem.source).name, GRIPPER}
    for name in _names(rule.literal):
        if name not in known:
            raise Missing(f"{rule.literal}: {name!r} is not in this task.{did_you_mean(name, known)}")
