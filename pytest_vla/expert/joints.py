"""What may bring a drawer, a door or a knob where it shall be: grips that lead it along, and pushes."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from pytest_vla.expert.articulated import Part, handle_grasps, handle_of, lead, part_of, push
from pytest_vla.expert.grasps import grasps_from_above
from pytest_vla.expert.hand import FINGER_OUTSIDE, PALM_HALF_LENGTH, Hand, facing, nearest_turn
from pytest_vla.expert.heights import Heights
from pytest_vla.expert.parts import corners
from pytest_vla.expert.stage import GRASP_CELL, PALM_CELL, Attempt, Stage, close_up, terrain_of
from pytest_vla.scene.catalog import Articulation
from pytest_vla.scene.problem import Literal

Array = npt.NDArray[np.float64]

_DOWN = np.array([0.0, 0.0, -1.0])
_UP = np.array([0.0, 0.0, 1.0])
# Beyond this, a direction's z is vertical: no skill is for lids that go up.
_LEVEL = 0.9
# What is smaller than this (m, from its middle) is gripped from above and turned; what is larger is pushed.
_KNOB = 0.15
_GRASPS, _POINTS = 8, 6
# Degrees from level at which the hand points at what it pushes.
_SLANTS = (90.0, 60.0, 35.0)
# Beyond the threshold at which a knob counts as on, rad.
_SURELY_ON = 0.25


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
        return min(articulation.turn_on_range) + _SURELY_ON
    if predicate == "turnoff" and articulation.turn_off_range:
        return min(articulation.turn_off_range)
    return None


def leading(stage: Stage, part: Part, goal: float, predicate: str) -> Iterator[Attempt]:
    """What may bring a part's joint to `goal` (m or rad), the likeliest first."""
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
            yield Attempt(
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
            grasps = grasps_from_above(near, around, part.geoms, anchor, hand.rotation)[:_GRASPS]
            for number, grasp in enumerate(grasps):
                turning = partial(lead, part=part, grasp=grasp, goal=goal, terrain=terrain, lookout=stage.lookout)
                yield Attempt(f"turn (grasp {number})", turning)
    yield from _pushing(stage, part, goal, terrain)


def _pushing(stage: Stage, part: Part, goal: float, terrain: Heights) -> Iterator[Attempt]:
    for number, (point, tool) in enumerate(push_poses(stage, part, goal, Hand(stage.model, stage.data).rotation)):
        slant = _SLANTS[number % len(_SLANTS)]
        yield Attempt(
            f"push (point {number // len(_SLANTS)}, slant {slant:.0f})",
            partial(push, part=part, point=point, tool=tool, goal=goal, terrain=terrain, lookout=stage.lookout),
        )


def push_poses(stage: Stage, part: Part, goal: float, current: Array) -> Iterator[tuple[Array, Array]]:
    """Where (3,) a part may be pushed so that its joint comes to `goal`, and with which rotation (3, 3) of the hand.

    The likeliest first, for a hand that is turned as `current` now.
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


def _push_points(stage: Stage, part: Part, goal: float) -> list[Array]:
    """Points of a turning part far from its axis, on the side that looks away from where it shall go."""
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
