"""Motions of :moving_objects, as VLA-Arena's generators read them."""

import math
from collections.abc import Iterator

from pytest_vla.scene.accepted import names_of
from pytest_vla.scene.lint.conditions import leaves
from pytest_vla.scene.lint.finding import Finding, place_of
from pytest_vla.scene.lint.reading import TaskText
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Mover, Region, Vector

_NEVER_READ = ("speed", "radius", "quat", "pos", "angle")
_READ = {
    "linear": ("period", "travel_dist", "direction"),
    "circle": ("period", "center"),
    "waypoint": ("waypoints", "dt"),
    "parabolic": ("start_pos", "start_quat", "initial_speed", "direction", "dt", "gravity"),
}
_ATTRIBUTES = (*_NEVER_READ, *dict.fromkeys(name for names in _READ.values() for name in names), "loop")
_CENTER = (0.0, 0.0, 1.2)
_NEAR = 0.05  # m


def check_movers(task: TaskText, problem: Problem) -> Iterator[Finding]:
    """What is wrong with :moving_objects."""
    moved = {mover.name for mover in problem.movers}
    for literal in leaves(problem.cost):
        names = names_of(literal)
        if literal.predicate == "incontact" and len(names) == 2 and names[0] in moved and names[1] not in moved:
            yield task.found(
                "M007",
                literal,
                f"{literal}: upstream stops a mover where it is the second of the two, and {names[0]} goes on pushing; "
                f"write (InContact {names[1]} {names[0]})",
            )
    for mover in problem.movers:
        if mover.crashes:
            yield task.found("M008", mover, f"{mover.name}: upstream's code raises {mover.crashes}; write it so")
        yield from _unmovable(task, mover)
        yield from _unread(task, mover)
        yield from _odd(task, mover)
        region = _begins_in(problem, mover)
        if mover.motion_type == "circle":
            yield from _tilted(task, problem, mover, region)
        if mover.motion_type == "waypoint" and region is not None:
            yield from _torn(task, problem, mover, region)


def _unmovable(task: TaskText, mover: Mover) -> Iterator[Finding]:
    name, kind = mover.name, mover.motion_type
    if kind == "linear":
        period = 1.0 if mover.period is None else mover.period
        if round(period) < 2:
            default = " (the default)" if mover.period is None else ""
            yield task.found(
                "M001",
                mover,
                f"{name} moves with a period of {period:g} control steps{default}: upstream divides by half of it, "
                "which is 0; give (:motion_period NUMBER) of 2 or more",
            )
        if mover.direction is not None and not any(mover.direction):
            yield task.found("M001", mover, f"{name} moves in the direction (0 0 0), which has no length; give another")
    if kind == "circle" and (1.0 if mover.period is None else mover.period) == 0:
        yield task.found("M001", mover, f"{name} moves with a period of 0, by which upstream divides; give another")
    if kind == "waypoint" and not mover.waypoints:
        yield task.found("M001", mover, f"{name} has no waypoints; add (:motion_waypoints (((X Y Z) (DX DY DZ)) ...))")
    if kind == "waypoint" and mover.dt is not None and mover.dt <= 0:
        yield task.found("M001", mover, f"{name} moves with a dt of {mover.dt:g}; give one above 0")
    if kind == "parabolic" and mover.direction is not None and not any(mover.direction):
        yield task.found("M001", mover, f"{name} flies in the direction (0 0 0), which has no length; give another")


def _unread(task: TaskText, mover: Mover) -> Iterator[Finding]:
    read = _READ.get(mover.motion_type)
    if read is None:
        return
    given = [name for name in _ATTRIBUTES if getattr(mover, name) not in (None, ())]
    # (:motion_loop true) says what happens anyway.
    dead = [name for name in given if name not in read and not (name == "loop" and mover.loop is not False)]
    if dead:
        shown = ", ".join(f":motion_{name}" for name in dead)
        yield task.found(
            "M002",
            mover,
            f"{mover.name}: upstream's {mover.motion_type} motion has no use for {shown}; remove it. It reads "
            f"{', '.join(f':motion_{name}' for name in read)}",
        )
    if any(direction[0] == 0 and direction[1] < 0 and direction[2] == 0 for _, direction in mover.waypoints):
        yield task.found(
            "M006",
            mover,
            f"{mover.name}: at a waypoint whose direction is (0 -Y 0) upstream turns it as for (0 Y 0); write "
            "(0.001 -1 0)",
        )


def _odd(task: TaskText, mover: Mover) -> Iterator[Finding]:
    if (
        mover.motion_type == "linear"
        and mover.period is not None
        and round(mover.period) >= 2
        and round(mover.period) % 2
    ):
        period = round(mover.period)
        yield task.found(
            "M004",
            mover,
            f"{mover.name} has the odd period {period}: upstream's motion repeats after {period - 1} control steps; "
            "give an even one",
        )


def _begins_in(problem: Problem, mover: Mover) -> Region | None:
    keys = {
        str(literal.arguments[1])
        for literal in problem.init
        if literal.predicate == "on" and len(literal.arguments) == 2 and literal.arguments[0] == mover.name
    }
    found = [region for region in problem.regions if region.key in keys and region.ranges]
    return found[-1] if found else None


def _tilted(task: TaskText, problem: Problem, mover: Mover, region: Region | None) -> Iterator[Finding]:
    center = mover.center or _CENTER
    place = place_of(problem)
    if region is not None and place is not None and math.dist(_middle(region, place.offset), center[:2]) < 1e-3:
        yield task.found(
            "M001",
            mover,
            f"{mover.name} begins in the middle of its circle, which has no radius then; move :motion_center",
        )
    top = place.offset[2] if place is not None else 0.9
    if center[2] <= top or region is None:
        yield task.found(
            "M003",
            mover,
            f"{mover.name} circles about a point at z = {center[2]:g} m, and its own middle stands above {top:g} m: "
            "upstream keeps the difference as part of the radius, so that for half of each turn the thing is pulled "
            "into the table; give :motion_center the height of the thing's middle. --vla-protocol=paper keeps the "
            "circle level",
        )


def _torn(task: TaskText, problem: Problem, mover: Mover, region: Region) -> Iterator[Finding]:
    place = place_of(problem)
    if place is None or not mover.waypoints:
        return
    distance = math.dist(_middle(region, place.offset), mover.waypoints[0][0][:2])
    if distance > _NEAR:
        yield task.found(
            "M005",
            mover,
            f"{mover.name} begins {100 * distance:.0f} cm from its first waypoint, and is torn there in the first "
            "step; begin at the waypoint, or move it",
        )


def _middle(region: Region, offset: Vector) -> tuple[float, float]:
    x0, y0, x1, y1 = region.ranges[0]
    return (x0 + x1) / 2 + offset[0], (y0 + y1) / 2 + offset[1]
