"""Attempts at a goal literal: skills with their parameters, the likeliest first."""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.articulated import ArticulatedPart, handle_grasps, handle_of, lead, part_of, push
from pytest_vla.expert.carrying import CarriedObject, Drop, carry, travel
from pytest_vla.expert.grasps import Grasp, grasps_from_above
from pytest_vla.expert.hand import (
    CLOSED,
    FINGER_HALF_WIDTH,
    FINGER_OUTSIDE,
    PALM_HALF_LENGTH,
    TIP_LENGTH,
    Hand,
    Motion,
    StallDetector,
    action_towards,
    facing,
    move,
    nearest_turn,
)
from pytest_vla.expert.heights import Heights, colliding_geoms, corners, measure, robot_geoms
from pytest_vla.expert.lookout import Lookout
from pytest_vla.scene.catalog import Articulation
from pytest_vla.scene.problem import Literal
from pytest_vla.scene.scene import SceneBody, SceneSite, SceneSpec

# The inputs and results of planning: a state with its names and maps, and attempts.

Array = npt.NDArray[np.float64]

# Sides of a map's cells, m. A wall of four millimetres has to show where fingers close; a table may be coarse.
GRASP_CELL = 0.004
SUPPORT_CELL = 0.008
PALM_CELL = 0.01
_TERRAIN_CELL, _TERRAIN_REACH = 0.02, 0.6


@dataclass(frozen=True)
class Stage:
    """The basis for planning skills: a state, and the names of the scene's things.

    Attributes:
        model, data, scene: the state, and its names.
        lookout: of a careful expert in a task with costs or movers to respect, or None.
        unseen: geoms that are ignored: movers', which will be elsewhere, and hazards of an expert without care.
        rough: things that an expert without care lets fall, by name, with the geoms of the things that ride in
            them.
    """

    model: mujoco.MjModel
    data: mujoco.MjData
    scene: SceneSpec
    lookout: Lookout | None = None
    unseen: tuple[int, ...] = ()
    rough: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SkillAttempt:
    """A skill with its parameters; calling it with the hand gives the motion.

    Attempts that begin with the same grip share `grasp`: if one of them loses its grip, the others are skipped.
    """

    name: str
    motion: Callable[[Hand], Motion]
    grasp: int | None = None


def terrain_of(stage: Stage, without: tuple[int, ...] = (), cell: float = _TERRAIN_CELL) -> Heights:
    """Measure the coarse map of the whole workspace, without the robot and these geoms.

    Thin walls need a small `cell` (m).
    """
    robot = robot_geoms(stage.model)
    hand = Hand(stage.model, stage.data).position
    return measure(stage.model, stage.data, hand, _TERRAIN_REACH, cell, (*robot, *without, *stage.unseen))


def close_up(stage: Stage, centre: Array, reach: float, cell: float, without: tuple[int, ...] = ()) -> Heights:
    """Measure a finer map of a square around a place (2,), without the robot and these geoms."""
    passed = (*robot_geoms(stage.model), *without, *stage.unseen)
    return measure(stage.model, stage.data, centre, reach, cell, passed)


# Attempts for a drawer, a door or a knob: grips that lead it along, and pushes.

_DOWN = np.array([0.0, 0.0, -1.0])
_UP = np.array([0.0, 0.0, 1.0])
# Beyond this z, a direction is vertical: no skill opens lids that go up.
_LEVEL = 0.9
# A knob smaller than this (m, from its middle) is gripped from above and turned; a larger one is pushed.
_KNOB = 0.15
_JOINTS_GRASPS, _POINTS = 8, 6
# Degrees from level at which the hand points at the part that it pushes.
_SLANTS = (90.0, 60.0, 35.0)
# Beyond the threshold at which a knob counts as on, rad.
_SURELY_ON = 0.25


def joint_goals(stage: Stage, literal: Literal) -> list[tuple[ArticulatedPart, float]]:
    """Return the parts that a literal opens, closes or turns, and their joints' goal positions.

    Args:
        stage: the present.
        literal: ``open``, ``close``, ``turnon`` or ``turnoff``.
    """
    name = str(literal.arguments[0])
    body, site = stage.scene.body(name), stage.scene.site(name)
    joints = body.joints if body is not None else site.joints if site is not None else ()
    owner = body if body is not None else stage.scene.body(site.parent) if site is not None and site.parent else None
    if owner is None:
        return []
    articulation = owner.kind.articulation or Articulation()
    goals = []
    for joint in joints:
        goal = _joint_goal(articulation, literal.predicate)
        if goal is not None:
            goals.append((part_of(stage.model, joint), goal))
    return goals


def _joint_goal(articulation: Articulation, predicate: str) -> float | None:
    if predicate == "open" and articulation.open_range:
        return sum(articulation.open_range) / 2
    if predicate == "close" and articulation.close_range:
        # Strictly beyond the nearer end counts, so the farther end is the goal.
        return max(articulation.close_range) if articulation.opens_below else min(articulation.close_range)
    if predicate == "turnon" and articulation.turn_on_range:
        return min(articulation.turn_on_range) + _SURELY_ON
    if predicate == "turnoff" and articulation.turn_off_range:
        return min(articulation.turn_off_range)
    return None


def leading(stage: Stage, part: ArticulatedPart, goal: float, predicate: str) -> Iterator[SkillAttempt]:
    """Yield attempts to bring a part's joint to `goal` (m or rad), the likeliest first."""
    if not part.geoms:
        return
    model, data = stage.model, stage.data
    hand = Hand(model, data)
    terrain = terrain_of(stage)
    middle = corners(model, data, part.geoms).mean(0)
    if predicate == "open" and part.slides:
        sign = float(np.sign(goal - part.value(model, data)))
        way = part.direction(data, middle, sign)
        if way is None or abs(way[2]) > _LEVEL:
            return
        handle = handle_of(model, data, part, way)
        for number, grasp in enumerate(handle_grasps(handle, hand.rotation)):
            yield SkillAttempt(
                f"pull (grasp {number})",
                partial(lead, part=part, grasp=grasp, goal=goal, terrain=terrain, lookout=stage.lookout),
            )
        return
    if not part.slides and abs(data.xaxis[part.joint][2]) > _LEVEL:
        reach = float(np.linalg.norm((corners(model, data, part.geoms) - middle)[:, :2], axis=1).max())
        if reach < _KNOB:
            near = close_up(stage, middle[:2], reach + FINGER_OUTSIDE + 0.01, GRASP_CELL)
            around = close_up(stage, middle[:2], reach + PALM_HALF_LENGTH + 0.02, PALM_CELL)
            anchor = np.array(data.xanchor[part.joint][:2])
            grasps = grasps_from_above(near, around, part.geoms, anchor, hand.rotation)[:_JOINTS_GRASPS]
            for number, grasp in enumerate(grasps):
                turning = partial(lead, part=part, grasp=grasp, goal=goal, terrain=terrain, lookout=stage.lookout)
                yield SkillAttempt(f"turn (grasp {number})", turning)
    yield from _pushing(stage, part, goal, terrain)


def _pushing(stage: Stage, part: ArticulatedPart, goal: float, terrain: Heights) -> Iterator[SkillAttempt]:
    for number, (point, tool) in enumerate(push_poses(stage, part, goal, Hand(stage.model, stage.data).rotation)):
        slant = _SLANTS[number % len(_SLANTS)]
        yield SkillAttempt(
            f"push (point {number // len(_SLANTS)}, slant {slant:.0f})",
            partial(push, part=part, point=point, tool=tool, goal=goal, terrain=terrain, lookout=stage.lookout),
        )


def push_poses(stage: Stage, part: ArticulatedPart, goal: float, current: Array) -> Iterator[tuple[Array, Array]]:
    """Yield points (3,) at which to push a part to bring its joint to `goal`, with the hand's rotation (3, 3).

    The likeliest comes first, for a hand that has the rotation `current` now.
    """
    model, data = stage.model, stage.data
    sign = float(np.sign(goal - part.value(model, data)))
    if part.slides:
        way = part.direction(data, data.xanchor[part.joint], sign)
        if way is None or abs(way[2]) > _LEVEL:
            return
        handle = handle_of(model, data, part, -way)
        front = handle.middle - way * handle.half[0]
        points = [front, front + _DOWN * 0.015, front + 0.04 * handle.side, front - 0.04 * handle.side]
    else:
        points = _push_points(stage, part, goal)
    for point in points:
        push_way = part.direction(data, point, sign)
        if push_way is None or abs(push_way[2]) > _LEVEL:
            continue
        side = np.cross(_UP, push_way)
        for slant in np.deg2rad(_SLANTS):
            approach = push_way * np.cos(slant) + _DOWN * np.sin(slant)
            yield point, nearest_turn(facing(approach, side), current)


def _push_points(stage: Stage, part: ArticulatedPart, goal: float) -> list[Array]:
    """Return points of a turning part far from its axis, on the side that faces away from its goal."""
    model, data = stage.model, stage.data
    axis, anchor = data.xaxis[part.joint], data.xanchor[part.joint]
    sign = float(np.sign(goal - part.value(model, data)))
    scored = []
    for geom in part.geoms:
        box = corners(model, data, [geom])
        middle = box.mean(0)
        offset = middle - anchor
        lever = float(np.linalg.norm(offset - axis * (offset @ axis)))
        way = part.direction(data, middle, sign)
        if way is None:
            # On the axis: pushed there, nothing turns.
            continue
        depth = float(((box - middle) @ way).min())
        scored.append((lever, middle + way * depth))
    scored.sort(key=lambda item: -item[0])
    return [point for _, point in scored[:_POINTS]]


# Push and drag: a thing that cannot be gripped is moved on its support by closed fingers.


def slide(
    hand: Hand,
    thing: CarriedObject,
    goal: Array,
    contact: Array,
    height: float,
    terrain: Heights,
    ahead: float,
    lookout: Lookout | None = None,
) -> Motion:
    """Move a thing over its support to a place.

    Args:
        hand: the hand that slides.
        thing: the thing to slide.
        goal: (2,) where its root shall be, m.
        contact: (2,) where the fingers come down, relative to its root, m.
        height: z of the fingers' ends, m.
        terrain: heights of the surroundings, with the thing.
        ahead: how far in front of itself the hand aims, m.
        lookout: of a careful hand.
    """
    way = goal - thing.position(hand.data)[:2]
    rotation = nearest_turn(facing(_DOWN, np.array([-way[1], way[0], 0.0])), hand.rotation)
    start = np.append(thing.position(hand.data)[:2] + contact, height + TIP_LENGTH)
    yield from travel(hand, start + np.array([0.0, 0.0, 0.06]), rotation, CLOSED, terrain, TIP_LENGTH, 0.05, lookout)
    yield from move(hand, start, rotation, CLOSED, tolerance=0.005, patience=6, speed=0.6)
    patience = StallDetector(15)
    while True:
        rest = goal - thing.position(hand.data)[:2]
        distance = float(np.linalg.norm(rest))
        if distance < 0.012:
            break
        if patience.ends(distance):
            break
        aim = hand.position[:2] + rest / distance * min(ahead, distance + 0.015)
        yield action_towards(hand, np.append(aim, start[2]), rotation, CLOSED, speed=0.5)
    yield from move(hand, hand.position + np.array([0.0, 0.0, 0.1]), rotation, CLOSED, tolerance=0.03)
    return True


def contacts(thing: CarriedObject, way: Array) -> list[tuple[Array, float | None, float]]:
    """Return places for closed fingers to move a thing along `way` (unit, 2), the likeliest first.

    Returns:
        Offsets (2,) from its root; the height of the fingers above the surface there, m; and how far to aim ahead,
        m. A height is given in the middle of a hollow thing, where the fingers meet its rim or drag it along. It is
        None behind the thing, where they go down to its support.
    """
    behind: list[tuple[Array, float | None, float]] = [
        (-way * (thing.radius + FINGER_HALF_WIDTH + extra), None, 0.04) for extra in (0.012, 0.025)
    ]
    inside = [
        (way * thing.radius * part, above, lead)
        for above in (-0.004, 0.001, -0.01)
        for lead in (0.02, 0.035)
        for part in (0.0, 0.25)
    ]
    return behind + inside


# How many grasps are tried, and grasps with places; another place is tried after three more grasps.
_GRASPS, _PAIRS, _PLACE_COST = 10, 24, 3
# The share of a thing's radius that rests on its support.
_BASE = 0.6
# Gaps when the fingers open (m): just above, or pressed down until nothing gives if the support slopes.
_GAPS_ON_THING, _GAPS_AT_SITE = (0.004, -0.02), (0.004, -0.03)
# The gap at which a thing is let go without care.
_LET_FALL = 0.04
_SPOTS, _SPOT_DISTANCE = 4, 0.025


def attempts(stage: Stage, literal: Literal, *, leave_room: bool = False) -> Iterator[SkillAttempt]:
    """Yield attempts to make a literal true, likeliest first; none if no skill can.

    Args:
        stage: the present.
        literal: the literal that shall hold.
        leave_room: keep the middle of a region free, because another thing shall come onto it.
    """
    names = [str(argument) for argument in literal.arguments]
    if literal.predicate in ("on", "in"):
        body = stage.scene.body(names[0])
        if body is not None and not body.is_fixture:
            yield from _carrying(stage, literal.predicate, thing_of(stage, body), names[1], leave_room)
    elif literal.predicate in ("open", "close", "turnon", "turnoff"):
        for part, goal in joint_goals(stage, literal):
            yield from leading(stage, part, goal, literal.predicate)


def thing_of(stage: Stage, body: SceneBody) -> CarriedObject:
    """Return a movable object as skills need it."""
    identifier = int(stage.model.body(body.root_body).id)
    geoms = colliding_geoms(stage.model, identifier)
    reach = corners(stage.model, stage.data, geoms)[:, :2] - stage.data.xpos[identifier][:2]
    return CarriedObject(body.name, identifier, geoms, float(np.linalg.norm(reach, axis=1).max(initial=0.0)))


def remaining(stage: Stage, literal: Literal) -> float:
    """Compute how far a literal is from holding: a thing's distance to its place (m), or a joint's (m or rad)."""
    names = [str(argument) for argument in literal.arguments]
    if literal.predicate not in ("on", "in"):
        return min(
            (abs(goal - part.value(stage.model, stage.data)) for part, goal in joint_goals(stage, literal)),
            default=np.inf,
        )
    body, support, site = stage.scene.body(names[0]), stage.scene.body(names[1]), stage.scene.site(names[1])
    if body is None or (support is None and site is None):
        return np.inf
    data = stage.data
    goal = data.body(support.root_body).xpos if support is not None else data.site(names[1]).xpos
    return float(np.linalg.norm((data.body(body.root_body).xpos - goal)[:2]))


def _carrying(
    stage: Stage, predicate: str, thing: CarriedObject, target: str, leave_room: bool
) -> Iterator[SkillAttempt]:
    if not thing.geoms:
        return
    hand = Hand(stage.model, stage.data)
    terrain = terrain_of(stage, thing.geoms)
    middle = thing.position(stage.data)[:2]
    near = close_up(stage, middle, thing.radius + FINGER_OUTSIDE + 0.01, GRASP_CELL)
    if not np.isfinite(near.height).any():
        # A variation has taken it out of the world.
        return
    around = close_up(stage, middle, thing.radius + PALM_HALF_LENGTH + 0.02, PALM_CELL)
    centre = np.array(stage.data.subtree_com[thing.body][:2])
    # Contents of a vessel must not prevent gripping the vessel around them.
    held = (*thing.geoms, *stage.rough.get(thing.name, ()))
    if stage.lookout is not None:
        held = stage.lookout.geoms_with(thing.name, thing.geoms)
    grasps = _careful(stage, hand, grasps_from_above(near, around, held, centre, hand.rotation))[:_GRASPS]
    drops = drops_of(stage, predicate, thing, target, leave_room)
    pairs = sorted(
        ((i + _PLACE_COST * j, i, j) for i in range(len(grasps)) for j in range(len(drops))),
    )[:_PAIRS]

    for _, i, j in pairs:
        yield SkillAttempt(
            f"carry {thing.name} (grasp {i}, place {j})",
            partial(carry, thing=thing, grasp=grasps[i], drop=drops[j], terrain=terrain, lookout=stage.lookout),
            grasp=i,
        )
    if predicate == "on" and drops:
        yield from _sliding(stage, thing, drops[0], near)


def _careful(stage: Stage, hand: Hand, grasps: list[Grasp]) -> list[Grasp]:
    """Sort the grasps so that those at which the hand keeps all clearances come first."""
    lookout = stage.lookout
    if lookout is None:
        return grasps
    return sorted(grasps, key=lambda grasp: lookout.at(hand, grasp.position, grasp.rotation))


def _sliding(stage: Stage, thing: CarriedObject, drop: Drop, near: Heights) -> Iterator[SkillAttempt]:
    position = thing.position(stage.data)[:2]
    way = drop.place - position
    if np.linalg.norm(way) < 1e-6:
        return
    way = way / np.linalg.norm(way)
    terrain = terrain_of(stage)
    floor = float(near.height[np.isfinite(near.height)].min())
    for number, (contact, above, ahead) in enumerate(contacts(thing, way)):
        height = floor + 0.008 if above is None else near.highest_near(position + contact, 0.024) + above

        yield SkillAttempt(
            f"push {thing.name} (contact {number})",
            partial(
                slide,
                thing=thing,
                goal=drop.place,
                contact=contact,
                height=height,
                terrain=terrain,
                ahead=ahead,
                lookout=stage.lookout,
            ),
        )


def drops_of(stage: Stage, predicate: str, thing: CarriedObject, target: str, leave_room: bool) -> list[Drop]:
    """Return places to let go a thing so that it is on or in a target, the likeliest first."""
    support = stage.scene.body(target)
    base = max(_BASE * thing.radius, 0.02)
    if support is not None:
        place = np.array(stage.data.xpos[stage.model.body(support.root_body).id][:2])
        top = close_up(stage, place, base + 0.02, SUPPORT_CELL, thing.geoms).highest_near(place, base)
        return [Drop(place, top, gap) for gap in _gaps(stage, thing, _GAPS_ON_THING)]
    site = stage.scene.site(target)
    return [] if site is None else _drops_at_site(stage, site, base, thing, leave_room and predicate == "on")


def _gaps(stage: Stage, thing: CarriedObject, gaps: tuple[float, ...]) -> tuple[float, ...]:
    return (_LET_FALL, *gaps) if thing.name in stage.rough else gaps


def _drops_at_site(stage: Stage, site: SceneSite, base: float, thing: CarriedObject, leave_room: bool) -> list[Drop]:
    frame = stage.model.site(site.name).id
    rotation = stage.data.site_xmat[frame].reshape(3, 3)
    half = np.abs(rotation @ np.array(site.size))[:2]
    middle = np.array(stage.data.site_xpos[frame][:2])
    heights = close_up(stage, middle, float(half.max()) + base + 0.02, SUPPORT_CELL, thing.geoms)
    steps = [np.linspace(-0.8, 0.8, max(3, 2 * int(extent / 0.02) + 1)) * extent for extent in half]
    spots = [middle + np.array([x, y]) for x in steps[0] for y in steps[1]]
    tops = [heights.highest_near(spot, base) for spot in spots]
    lowest = min(tops)
    costs = [
        (float(np.linalg.norm(spot - middle)) * (-1.0 if leave_room else 1.0) + 2.0 * (top - lowest), number)
        for number, (spot, top) in enumerate(zip(spots, tops, strict=True))
    ]
    if stage.lookout is not None:
        high = stage.data.xpos[thing.body][2] - corners(stage.model, stage.data, thing.geoms)[:, 2].min()
        places = np.array([[*spot, top + high] for spot, top in zip(spots, tops, strict=True)])
        minded = stage.lookout.load_at(stage.data, thing.name, thing.body, thing.geoms, places)
        costs = [(cost + float(minded[number]), number) for cost, number in costs]
    chosen: list[int] = []
    for _, number in heapq.nsmallest(len(costs), costs):
        if all(np.linalg.norm(spots[number] - spots[other]) > _SPOT_DISTANCE for other in chosen):
            chosen.append(number)
        if len(chosen) == _SPOTS:
            break
    return [Drop(spots[number], tops[number], gap) for gap in _gaps(stage, thing, _GAPS_AT_SITE) for number in chosen]
