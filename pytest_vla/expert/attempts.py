"""From a goal literal to what may bring it about: skills with their parameters, the likeliest first."""

import heapq
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from pytest_vla.expert.carrying import Drop, Thing, carry, travel
from pytest_vla.expert.grasps import Grasp, grasps_from_above
from pytest_vla.expert.hand import (
    CLOSED,
    FINGER_HALF_WIDTH,
    FINGER_OUTSIDE,
    PALM_HALF_LENGTH,
    TIP_LENGTH,
    Hand,
    Motion,
    Patience,
    action_towards,
    facing,
    move,
    nearest_turn,
)
from pytest_vla.expert.heights import Heights
from pytest_vla.expert.joints import joint_goals, leading
from pytest_vla.expert.lookout import Lookout
from pytest_vla.expert.parts import colliding_geoms, corners
from pytest_vla.expert.stage import GRASP_CELL, PALM_CELL, SUPPORT_CELL, Attempt, Stage, close_up, terrain_of
from pytest_vla.scene.problem import Literal
from pytest_vla.scene.scene import SceneBody, SceneSite

Array = npt.NDArray[np.float64]

# Push and drag: a thing that cannot be gripped is moved on its support by closed fingers.

_DOWN = np.array([0.0, 0.0, -1.0])


def slide(
    hand: Hand,
    thing: Thing,
    goal: Array,
    contact: Array,
    height: float,
    terrain: Heights,
    ahead: float,
    lookout: Lookout | None = None,
) -> Motion:
    """Moves a thing over its support to a place.

    Args:
        hand: whose.
        thing: what.
        goal: (2,) where its root shall be, m.
        contact: (2,) where the fingers come down, relative to its root, m.
        height: z of the fingers' ends, m.
        terrain: what stands around, with the thing.
        ahead: how far before itself the hand aims, m.
        lookout: of a careful hand.
    """
    way = goal - thing.position(hand.data)[:2]
    rotation = nearest_turn(facing(_DOWN, np.array([-way[1], way[0], 0.0])), hand.rotation)
    start = np.append(thing.position(hand.data)[:2] + contact, height + TIP_LENGTH)
    yield from travel(hand, start + np.array([0.0, 0.0, 0.06]), rotation, CLOSED, terrain, TIP_LENGTH, 0.05, lookout)
    yield from move(hand, start, rotation, CLOSED, tolerance=0.005, patience=6, speed=0.6)
    patience = Patience(15)
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


def contacts(thing: Thing, way: Array) -> list[tuple[Array, float | None, float]]:
    """Where closed fingers may come down to move a thing along `way` (unit, 2), the likeliest first.

    Returns:
        Offsets (2,) from its root; how high above what is there, m: in the middle of a hollow thing, where they meet
        its rim on the way or drag it along; None: behind it, down to what it stands on; and how far to aim ahead, m.
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
# Of a thing's reach, the part that stands on what it is set on.
_BASE = 0.6
# Gaps when the fingers open (m): just above, or pressed down until nothing gives, where what is below slopes.
_GAPS_ON_THING, _GAPS_AT_SITE = (0.004, -0.02), (0.004, -0.03)
# The gap at which a thing is let go without care.
_LET_FALL = 0.04
_SPOTS, _SPOT_DISTANCE = 4, 0.025


def attempts(stage: Stage, literal: Literal, *, leave_room: bool = False) -> Iterator[Attempt]:
    """What may make a literal true, likeliest first; nothing for what no skill is for.

    Args:
        stage: the present.
        literal: what shall hold.
        leave_room: something else shall come onto the same region: its middle is left free.
    """
    names = [str(argument) for argument in literal.arguments]
    if literal.predicate in ("on", "in"):
        body = stage.scene.body(names[0])
        if body is not None and not body.is_fixture:
            yield from _carrying(stage, literal.predicate, thing_of(stage, body), names[1], leave_room)
    elif literal.predicate in ("open", "close", "turnon", "turnoff"):
        for part, goal in joint_goals(stage, literal):
            yield from leading(stage, part, goal, literal.predicate)


def thing_of(stage: Stage, body: SceneBody) -> Thing:
    """A movable object as skills need it."""
    identifier = int(stage.model.body(body.root_body).id)
    geoms = colliding_geoms(stage.model, identifier)
    reach = corners(stage.model, stage.data, geoms)[:, :2] - stage.data.xpos[identifier][:2]
    return Thing(body.name, identifier, geoms, float(np.linalg.norm(reach, axis=1).max(initial=0.0)))


def remaining(stage: Stage, literal: Literal) -> float:
    """How far a literal is from holding: the way of a thing to its place (m), or of a joint (m or rad)."""
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


def _carrying(stage: Stage, predicate: str, thing: Thing, target: str, leave_room: bool) -> Iterator[Attempt]:
    if not thing.geoms:
        return
    hand = Hand(stage.model, stage.data)
    terrain = terrain_of(stage, thing.geoms)
    middle = thing.position(stage.data)[:2]
    near = close_up(stage, middle, thing.radius + FINGER_OUTSIDE + 0.01, GRASP_CELL)
    if not np.isfinite(near.height).any():
        # A probe has taken it out of the world.
        return
    around = close_up(stage, middle, thing.radius + PALM_HALF_LENGTH + 0.02, PALM_CELL)
    centre = np.array(stage.data.subtree_com[thing.body][:2])
    # What rides in a vessel is no reason not to grip the vessel around it.
    held = (*thing.geoms, *stage.rough.get(thing.name, ()))
    if stage.lookout is not None:
        held = stage.lookout.geoms_with(thing.name, thing.geoms)
    grasps = _careful(stage, hand, grasps_from_above(near, around, held, centre, hand.rotation))[:_GRASPS]
    drops = drops_of(stage, predicate, thing, target, leave_room)
    pairs = sorted(
        ((i + _PLACE_COST * j, i, j) for i in range(len(grasps)) for j in range(len(drops))),
    )[:_PAIRS]

    for _, i, j in pairs:
        yield Attempt(
            f"carry {thing.name} (grasp {i}, place {j})",
            partial(carry, thing=thing, grasp=grasps[i], drop=drops[j], terrain=terrain, lookout=stage.lookout),
            grasp=i,
        )
    if predicate == "on" and drops:
        yield from _sliding(stage, thing, drops[0], near)


def _careful(stage: Stage, hand: Hand, grasps: list[Grasp]) -> list[Grasp]:
    """Those first at which the hand keeps the distances that it has to keep."""
    lookout = stage.lookout
    if lookout is None:
        return grasps
    return sorted(grasps, key=lambda grasp: lookout.at(hand, grasp.position, grasp.rotation))


def _sliding(stage: Stage, thing: Thing, drop: Drop, near: Heights) -> Iterator[Attempt]:
    position = thing.position(stage.data)[:2]
    way = drop.place - position
    if np.linalg.norm(way) < 1e-6:
        return
    way = way / np.linalg.norm(way)
    terrain = terrain_of(stage)
    floor = float(near.height[np.isfinite(near.height)].min())
    for number, (contact, above, ahead) in enumerate(contacts(thing, way)):
        height = floor + 0.008 if above is None else near.highest_near(position + contact, 0.024) + above

        yield Attempt(
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


def drops_of(stage: Stage, predicate: str, thing: Thing, target: str, leave_room: bool) -> list[Drop]:
    """Where a thing may be let go so that it is on or in a target, the likeliest first."""
    support = stage.scene.body(target)
    base = max(_BASE * thing.radius, 0.02)
    if support is not None:
        place = np.array(stage.data.xpos[stage.model.body(support.root_body).id][:2])
        top = close_up(stage, place, base + 0.02, SUPPORT_CELL, thing.geoms).highest_near(place, base)
        return [Drop(place, top, gap) for gap in _gaps(stage, thing, _GAPS_ON_THING)]
    site = stage.scene.site(target)
    return [] if site is None else _drops_at_site(stage, site, base, thing, leave_room and predicate == "on")


def _gaps(stage: Stage, thing: Thing, gaps: tuple[float, ...]) -> tuple[float, ...]:
    return (_LET_FALL, *gaps) if thing.name in stage.rough else gaps


def _drops_at_site(stage: Stage, site: SceneSite, base: float, thing: Thing, leave_room: bool) -> list[Drop]:
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
