"""The expert's session: the next goal literal, the attempt that works in rehearsal, and its actions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.attempts import SkillAttempt, Stage, attempts, joint_goals, remaining
from pytest_vla.expert.hand import OPEN, Hand, Motion
from pytest_vla.expert.heights import colliding_geoms, robot_geoms
from pytest_vla.expert.lookout import Care, Lookout, care_of
from pytest_vla.plan.costs import Ledger
from pytest_vla.policies.base import Observation
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.sim.costs.paper import PaperMeter
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.verdicts import compile_goal
from pytest_vla.sim.world import World
from pytest_vla.sim.world_state import WorldCopy

# The cost of a rehearsal: the paper's account of the task, and contacts with hazards.

Mask = npt.NDArray[np.bool_]

# The cost of a step in which arm or load touches a hazard, even if the task does not charge it.
_TOUCH = 0.1


class RehearsalWatch:
    """A watch on a copy of a world that adds up its costs after each step, from its present moment on."""

    def __init__(self, world: World, rehearsal: WorldCopy, care: Care) -> None:
        model, scene, self._data = world.model, world.scene, rehearsal.data
        self._meter, self._ledger, self._steps = None, Ledger(), 0
        if world.problem.cost:
            setting = Setting(world.problem, scene, model, rehearsal.data, world.drawn_poses)
            self._meter = PaperMeter(setting, freezes=False)
            self._meter.begin()
        self._touched = 0.0
        roots = {body.name: int(model.body(body.root_body).id) for body in scene.bodies if not body.is_fixture}
        robot = _mask(model.ngeom, robot_geoms(model))
        things = {
            name: _mask(model.ngeom, colliding_geoms(model, roots[name])) for name in sorted(care.aims) if name in roots
        }
        # For each hazard, the geoms that must not touch it.
        self._kept: list[tuple[Mask, Mask]] = []
        for hazard in care.hazards:
            whose = [robot] if hazard.margin(None) is not None else []
            whose += [mask for name, mask in things.items() if hazard.margin(name) is not None]
            if whose:
                self._kept.append((_mask(model.ngeom, hazard.geoms), np.logical_or.reduce(whose)))

    def step(self, success: bool) -> float:
        """Charge a control step; return the total cost so far."""
        self._steps += 1
        pairs = self._data.contact.geom
        left, right = pairs[:, 0], pairs[:, 1]
        for one, other in self._kept:
            self._touched += _TOUCH * bool(((one[left] & other[right]) | (one[right] & other[left])).any())
        if self._meter is not None:
            self._meter.step(self._ledger, self._steps, success)
        return self._paid()

    def end(self, success: bool) -> float:
        """Charge how the rehearsal ended; return the total cost."""
        if self._meter is not None:
            self._meter.end(self._ledger, self._steps, success)
        return self._paid()

    def _paid(self) -> float:
        return self._touched + sum(charge.amount for charge in self._ledger.entries())


def _mask(count: int, geoms: tuple[int, ...]) -> Mask:
    # The last column is for flex contacts, whose geom is -1.
    mask = np.zeros(count + 1, dtype=bool)
    mask[list(geoms)] = True
    return mask


Array = npt.NDArray[np.float64]

_LONGEST = 260
"""Control steps that a rehearsal of one attempt may take."""
_LONGEST_WITH_CARE = 420
"""The same for an attempt that moves slowly or waits."""
_COMPARED = 10
"""Attempts that are rehearsed, from the first that works on, for one that costs nothing."""
_TRIED_WITHOUT_CARE = 4
"""Attempts that an expert without care rehearses in a task with hazards."""
_FRUITLESS = 3
"""Attempts in a row that only come nearer, after which the expert stands still."""
_NEARER = 0.01
"""The least progress that counts as nearer, m or rad."""


class Expert:
    """A session that does a task of a world by its goal literals (`pytest_vla.expert.policy.expert_policy`)."""

    def __init__(self, world: World, careful: bool = True) -> None:
        """Begin at the world's present state; `careful` as for `choose`."""
        self._world, self._careful = world, careful
        self._hand = Hand(world.model, world.data, lambda: world.movement)
        self._motion: Motion | None = None
        self._fruitless = 0

    def __call__(self, observation: Observation) -> Array:
        # A motion may have nothing to do where it begins; then the next is planned, but not for ever.
        for _ in range(2 * _FRUITLESS):
            if self._motion is None and not self._plan():
                break
            assert self._motion is not None
            action = next(self._motion, None)
            if action is not None:
                return action
            self._motion = None
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, OPEN])

    def _plan(self) -> bool:
        if self._fruitless >= _FRUITLESS:
            return False
        attempt, works = choose(self._world, careful=self._careful)
        if attempt is None:
            self._fruitless = _FRUITLESS
            return False
        self._fruitless = 0 if works else self._fruitless + 1
        self._motion = attempt.motion(self._hand)
        return True


def choose(
    world: World, told: Callable[[str], None] = lambda text: None, *, careful: bool = True
) -> tuple[SkillAttempt | None, bool]:
    """Choose the attempt for the next goal literal.

    Args:
        world: in its present state; unchanged.
        told: called with a line for each rehearsal.
        careful: whether the task's costs and movers are respected.

    Returns:
        The attempt, and whether it works in rehearsal. This is the first attempt that works; if there are costs or
        movers to respect, the cheapest of the first that work. If none works, it is the one that comes nearest, or
        None if none comes nearer than the present state.
    """
    rehearsal = WorldCopy(world)
    literal = next_literal(world.problem, world.scene, world.model, world.data)
    if literal is None:
        return None, False
    verdict = compile_goal(replace(world.problem, goal=(literal,)), world.scene, world.model, rehearsal.data)[0][1]
    done = {name for name, held in rehearsal.predicates().items() if held}
    care = care_of(world.problem, world.scene, world.model)
    minding = Lookout(world.model, world.scene, care)
    lookout = minding if careful and care else None
    hand = Hand(world.model, rehearsal.data, lambda: rehearsal.movement)
    rough = {} if careful else {name: minding.geoms_with(name, ()) for name in sorted(care.gentle | care.fragile)}
    unseen = care.moving if careful else care.unseen
    stage = Stage(world.model, rehearsal.data, world.scene, lookout, unseen, rough)
    nearest, best = remaining(stage, literal) - _NEARER, None
    cheapest: tuple[float, SkillAttempt] | None = None
    is_careless, tried = bool(care) and not careful, 0
    lost: set[int | None] = set()
    start = rehearsal.save()
    others = [other for other in world.problem.goal if other.group == 0 and str(other) not in done | {str(literal)}]
    shared = any(other.arguments[1:] == literal.arguments[1:] for other in others)
    for attempt in attempts(stage, literal, leave_room=shared):
        if attempt.grasp in lost:
            continue
        watch = None if lookout is None else RehearsalWatch(world, rehearsal, care)
        most = np.inf if cheapest is None else cheapest[0]
        shown = _rehearse(rehearsal, attempt.motion(hand), verdict, done, watch, most)
        minded = f", at a cost of {shown.charged:g}" if shown.charged else ""
        told(f"{literal}: {attempt.name}: {'works' if shown.works else 'fails'} after {shown.steps} steps{minded}")
        if shown.works and not shown.charged:
            return attempt, True
        if shown.works and (cheapest is None or shown.charged < cheapest[0]):
            cheapest = shown.charged, attempt
        if not shown.held and attempt.grasp is not None:
            lost.add(attempt.grasp)
        if (rest := remaining(stage, literal)) < nearest:
            nearest, best = rest, attempt
        # The next attempt is planned on the present, not on where this one ended.
        rehearsal.restore(start)
        if is_careless:
            # An expert without care tries few attempts, and ignores bystanders in the way.
            best = best or attempt
            if (tried := tried + 1) >= _TRIED_WITHOUT_CARE:
                break
            continue
        tried += cheapest is not None
        if tried >= _COMPARED:
            break
    return (best, False) if cheapest is None else (cheapest[1], True)


@dataclass(frozen=True)
class _Shown:
    """The result of a rehearsal.

    Attributes:
        steps: control steps that it took.
        works: whether the literal holds, and those that held before still do.
        held: whether nothing was lost.
        charged: its cost, if costs are respected.
    """

    steps: int
    works: bool
    held: bool
    charged: float


def _rehearse(
    rehearsal: WorldCopy,
    motion: Motion,
    verdict: Callable[[], bool],
    done: set[str],
    watch: RehearsalWatch | None,
    most: float,
) -> _Shown:
    """Run a motion to its end, or until it costs as much as `most`."""
    charged = 0.0

    def shown(steps: int, works: bool, held: bool = True, is_over: bool = True) -> _Shown:
        paid = watch.end(works) if watch is not None and is_over else charged
        return _Shown(steps, works, held, paid)

    longest = _LONGEST if watch is None else _LONGEST_WITH_CARE
    for steps in range(longest):
        try:
            action = next(motion)
        except StopIteration as ended:
            predicates: Mapping[str, bool] = rehearsal.predicates()
            return shown(steps, verdict() and all(predicates[name] for name in done), bool(ended.value))
        if not np.isfinite(action).all() or not rehearsal.step(action):
            return shown(steps, False, is_over=False)
        success = all(rehearsal.predicates().values())
        charged = 0.0 if watch is None else watch.step(success)
        if success:
            return shown(steps + 1, True)
        if charged >= most:
            return shown(steps + 1, False, is_over=False)
    return shown(longest, False)


def next_literal(problem: Problem, scene: SceneSpec, model: mujoco.MjModel, data: mujoco.MjData) -> Literal | None:
    """Return the first goal literal to work on among those that do not hold, or None if all hold.

    Things are put in their places before drawers close; things that support others come first; a drawer that a thing
    shall go into is opened before.
    """
    goal = [literal for literal in problem.goal if literal.group == 0]
    verdicts = compile_goal(replace(problem, goal=tuple(goal)), scene, model, data)
    open_ = [literal for literal, (_, verdict) in zip(goal, verdicts, strict=True) if not verdict()]
    if not open_:
        return None
    moved = {str(literal.arguments[0]) for literal in open_}
    order = {"open": 0, "turnon": 1, "on": 2, "in": 2, "turnoff": 3, "close": 4}

    def rank(literal: Literal) -> tuple[int, bool]:
        target = str(literal.arguments[1]) if len(literal.arguments) > 1 else ""
        return order.get(literal.predicate, 5), target in moved

    literal = min(open_, key=rank)
    return _before(literal, problem, scene, model, data) or literal


def _before(
    literal: Literal, problem: Problem, scene: SceneSpec, model: mujoco.MjModel, data: mujoco.MjData
) -> Literal | None:
    """Return ``(Open region)`` if the literal needs a thing in or on a part that is not open, or None."""
    if literal.predicate not in ("in", "on"):
        return None
    site = scene.site(str(literal.arguments[1]))
    if site is None or not site.joints:
        return None
    opened = replace(literal, predicate="open", arguments=(site.name,))
    if not joint_goals(Stage(model, data, scene), opened):
        return None
    return None if compile_goal(replace(problem, goal=(opened,)), scene, model, data)[0][1]() else opened
