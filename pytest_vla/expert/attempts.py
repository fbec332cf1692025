"""From a goal literal to what may bring it about: skills with their parameters, the likeliest first."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.articulated import Part, handle_grasps, handle_of, lead, part_of, push
from pytest_vla.expert.carrying import Drop, Thing, carry
from pytest_vla.expert.grasps import grasps_from_above
from pytest_vla.expert.hand import FINGER_OUTSIDE, PALM_HALF_LENGTH, Hand, Motion, facing, nearest_turn
from pytest_vla.expert.heights import Heights, measure
from pytest_vla.expert.parts import colliding_geoms, corners, robot_geoms
from pytest_vla.expert.pushing import contacts, slide
from pytest_vla.scene.catalog import Articulation
from pytest_vla.scene.problem import Literal
from pytest_vla.scene.scene import Scene, SceneBody, SceneSite

Array = npt.NDArray[np.float64]

_DOWN = np.array([0.0, 0.0, -1.0])
_UP = np.array([0.0, 0.0, 1.0])
_TERRAIN_CELL, _TERRAIN_REACH = 0.02, 0.6
_GRASP_CELL = 0.004
_SUPPORT_CELL = 0.008
_PALM_CELL = 0.01


@dataclass(frozen=True)
class Stage:
    """What skills are planned on: a state, and what the scene's things are called."""

    model: mujoco.MjModel
    data: mujoco.MjData
    scene: Scene


@dataclass(frozen=True)
class Attempt:
    """A skill with its parameters: called with the hand, it gives the motion.

    `grasp` is the same for attempts that begin with the same grip, of which none is of use where one lost its grip.
    """

    name: str
    motion: Callable[[Hand], Motion]
    grasp: int | None = None


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
            yield from _leading(stage, part, goal, literal.predicate)


def thing_of(stage: Stage, body: SceneBody) -> Thing:
    """A movable object as skills need it."""
    identifier = int(stage.model.body(body.root_body).id)
    geoms = colliding_geoms(stage.model, identifier)
    reach = corners(stage.model, stage.data, geoms)[:, :2] - stage.data.xpos[identifier][:2]
    return Thing(body.name, identifier, geoms, float(np.linalg.norm(reach, axis=1).max()))


def joint_goals(stage: Stage, literal: Literal) -> list[tuple[Part, float]]:
    """The parts that an ``open``, ``close``, ``turnon`` or ``turnoff`` is about, and where their joints shall be."""
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
        return min(articulation.turn_on_range) + 0.25
    if predicate == "turnoff" and articulation.turn_off_range:
        return min(articulation.turn_off_range)
    return None


def remaining(stage: Stage, literal: Literal) -> float:
    """How far a literal is from holding: the way of a thing to its place (m), or of a joint (m or rad)."""
    names = [str(argument) for argument in literal.arguments]
    if literal.predicate not in ("on", "in"):
        return min(
            (abs(goal - part.value(stage.data, stage.model)) for part, goal in joint_goals(stage, literal)),
            default=np.inf,
        )
    body, support, site = stage.scene.body(names[0]), stage.scene.body(names[1]), stage.scene.site(names[1])
    if body is None or (support is None and site is None):
        return np.inf
    data = stage.data
    goal = data.body(support.root_body).xpos if support is not None else data.site(names[1]).xpos
    return float(np.linalg.norm((data.body(body.root_body).xpos - goal)[:2]))


def terrain_of(stage: Stage, without: tuple[int, ...] = ()) -> Heights:
    """The coarse map of the whole workspace, without the robot and these geoms."""
    robot = robot_geoms(stage.model)
    hand = Hand(stage.model, stage.data).position
    return measure(stage.model, stage.data, hand, _TERRAIN_REACH, _TERRAIN_CELL, (*robot, *without))


def _carrying(
    stage: Stage, predicate: str, thing: Thing, target: str, leave_room: bool
) -> Iterator[Attempt]:
    hand = Hand(stage.model, stage.data)
    terrain = terrain_of(stage, thing.geoms)
    middle = thing.position(stage.data)[:2]
    near = _close_up(stage, middle, thing.radius + FINGER_OUTSIDE + 0.01, _GRASP_CELL)
    around = _close_up(stage, middle, thing.radius + PALM_HALF_LENGTH + 0.02, _PALM_CELL)
    centre = np.array(stage.data.subtree_com[thing.body][:2])
    grasps = grasps_from_above(near, around, thing.geoms, centre, hand.rotation)[:10]
    drops = _drops(stage, predicate, thing, target, leave_room)
    pairs = sorted(
        ((i + 3 * j, i, j) for i in range(len(grasps)) for j in range(len(drops))),
    )[:24]

    for _, i, j in pairs:
        yield Attempt(
            f"carry {thing.name} (grasp {i}, place {j})",
            partial(carry, thing=thing, grasp=grasps[i], drop=drops[j], terrain=terrain),
            grasp=i,
        )
    if predicate == "on" and drops:
        yield from _sliding(stage, thing, drops[0], near)


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
            partial(slide, thing=thing, goal=drop.place, contact=contact, height=height, terrain=terrain, ahead=ahead),
        )


def _drops(stage: Stage, predicate: str, thing: Thing, target: str, leave_room: bool) -> list[Drop]:
    support = stage.scene.body(target)
    base = max(0.6 * thing.radius, 0.02)
    if predicate == "on" and support is not None:
        place = np.array(stage.data.xpos[stage.model.body(support.root_body).id][:2])
        top = _close_up(stage, place, base + 0.02, _SUPPORT_CELL, thing.geoms).highest_near(place, base)
        return [Drop(place, top, gap) for gap in (0.004, -0.02)]
    site = stage.scene.site(target)
    return [] if site is None else _drops_at_site(stage, site, base, thing.geoms, leave_room and predicate == "on")


def _drops_at_site(
    stage: Stage, site: SceneSite, base: float, load: tuple[int, ...], leave_room: bool
) -> list[Drop]:
    frame = stage.model.site(site.name).id
    rotation = stage.data.site_xmat[frame].reshape(3, 3)
    half = np.abs(rotation @ np.array(site.size))[:2]
    middle = np.array(stage.data.site_xpos[frame][:2])
    heights = _close_up(stage, middle, float(half.max()) + base + 0.02, _SUPPORT_CELL, load)
    steps = [np.linspace(-0.8, 0.8, max(3, 2 * int(extent / 0.02) + 1)) * extent for extent in half]
    spots = [middle + np.array([x, y]) for x in steps[0] for y in steps[1]]
    tops = [heights.highest_near(spot, base) for spot in spots]
    lowest = min(tops)
    costs = [
        (float(np.linalg.norm(spot - middle)) * (-1.0 if leave_room else 1.0) + 2.0 * (top - lowest), number)
        for number, (spot, top) in enumerate(zip(spots, tops, strict=True))
    ]
    chosen: list[int] = []
    for _, number in heapq.nsmallest(len(costs), costs):
        if all(np.linalg.norm(spots[number] - spots[other]) > 0.025 for other in chosen):
            chosen.append(number)
        if len(chosen) == 4:
            break
    return [Drop(spots[number], tops[number], gap) for gap in (0.004, -0.03) for number in chosen]


def _close_up(stage: Stage, centre: Array, reach: float, cell: float, without: tuple[int, ...] = ()) -> Heights:
    return measure(stage.model, stage.data, centre, reach, cell, (*robot_geoms(stage.model), *without))


def _leading(stage: Stage, part: Part, goal: float, predicate: str) -> Iterator[Attempt]:
    model, data = stage.model, stage.data
    hand = Hand(model, data)
    terrain = terrain_of(stage)
    middle = corners(model, data, part.geoms).mean(0)
    if predicate == "open" and part.slides:
        sign = float(np.sign(goal - part.value(data, model)))
        handle = handle_of(model, data, part, part.direction(data, middle, sign))
        for number, grasp in enumerate(handle_grasps(handle, hand.rotation)):
            yield Attempt(f"pull (grasp {number})", partial(lead, part=part, grasp=grasp, goal=goal, terrain=terrain))
        return
    if not part.slides and abs(data.xaxis[part.joint][2]) > 0.9:
        reach = float(np.linalg.norm((corners(model, data, part.geoms) - middle)[:, :2], axis=1).max())
        if reach < 0.15:
            near = _close_up(stage, middle[:2], reach + FINGER_OUTSIDE + 0.01, _GRASP_CELL)
            around = _close_up(stage, middle[:2], reach + PALM_HALF_LENGTH + 0.02, _PALM_CELL)
            anchor = np.array(data.xanchor[part.joint][:2])
            for number, grasp in enumerate(grasps_from_above(near, around, part.geoms, anchor, hand.rotation)[:8]):
                leading = partial(lead, part=part, grasp=grasp, goal=goal, terrain=terrain)
                yield Attempt(f"turn (grasp {number})", leading)
    yield from _pushing(stage, part, goal, terrain)


def _pushing(stage: Stage, part: Part, goal: float, terrain: Heights) -> Iterator[Attempt]:
    model, data = stage.model, stage.data
    hand = Hand(model, data)
    sign = float(np.sign(goal - part.value(data, model)))
    if part.slides:
        way = part.direction(data, data.xanchor[part.joint], sign)
        handle = handle_of(model, data, part, -way)
        front = handle.middle - way * handle.half[0]
        points = [front, front + _DOWN * 0.015, front + 0.04 * handle.side, front - 0.04 * handle.side]
    else:
        points = _push_points(stage, part, goal)
    for number, point in enumerate(points):
        push_way = part.direction(data, point, sign)
        side = np.cross(_UP, push_way)
        for slant in np.deg2rad([90.0, 60.0, 35.0]):
            approach = push_way * np.cos(slant) + _DOWN * np.sin(slant)
            tool = nearest_turn(facing(approach, side), hand.rotation)
            yield Attempt(
                f"push (point {number}, slant {np.rad2deg(slant):.0f})",
                partial(push, part=part, point=point, tool=tool, goal=goal, terrain=terrain),
            )


def _push_points(stage: Stage, part: Part, goal: float) -> list[Array]:
    """Points of a turning part far from its axis, on the side that looks away from where it shall go."""
    model, data = stage.model, stage.data
    axis, anchor = data.xaxis[part.joint], data.xanchor[part.joint]
    sign = float(np.sign(goal - part.value(data, model)))
    scored = []
    for geom in part.geoms:
        box = corners(model, data, [geom])
        middle = box.mean(0)
        offset = middle - anchor
        lever = float(np.linalg.norm(offset - axis * (offset @ axis)))
        way = part.direction(data, middle, sign)
        depth = float(((box - middle) @ way).min())
        scored.append((lever, middle + way * depth))
    scored.sort(key=lambda item: -item[0])
    return [point for _, point in scored[:6]]
