"""A task's movers in its world: before each control step the bodies that pull them move on.

As upstream does, a moving object keeps its free joint and is softly welded to a body without mass, which is put at the
motion's pose. The progress of an episode's movers is a value, `Movement`, so that a saved one continues exactly.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import SceneError
from pytest_vla.plan.case import PAPER, UPSTREAM
from pytest_vla.scene.compose import MOVER_TARGET
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.sections import Mover, Vector
from pytest_vla.util.rotations import VERTICAL

# Motions of a task file's movers (CBDDL's ``:moving_objects``): pure functions of the tick, one per control step.
#
# Under ``paper`` a motion is what VLA-Arena's paper and its guide to files say; under the other rules it is what its
# code computes, number for number, rounding included: where the code adds a step to its last position, so does this.
# Lengths in metres, quaternions wxyz. Tick 0 is the reset; the first control step has tick 1.

Array = npt.NDArray[np.float64]

Pose = tuple[Array, Array]
"""Position (3,) and quaternion (4,); not to be written to."""

Motion = Callable[[int], Pose]
"""The pose that an object is drawn to in the control step of this tick, 1 and on."""

Begun = Callable[[Pose], Motion]
"""The motion of an object from its drawn pose. Raises SceneError if it cannot move from there."""

CONTROL_STEP = 0.05
"""s of a control step, which is what a tick is to a projectile as documented."""

# Default values of a motion's attributes, from upstream's code.
_PERIOD, _TRAVEL, _DIRECTION, _CENTRE = 1.0, 1.0, (0.0, 1.0, 0.0), (0.0, 0.0, 1.2)
_DT, _SPEED, _GRAVITY = 0.01, 1.0, (0.0, 0.0, -9.81)
_START, _START_QUATERNION = (0.0, 0.0, 1.2), (0.0, 0.0, 0.0, 1.0)
_SEGMENT = 10.0

# The orientation of a thing headed along +y: a third of a turn about (1, 1, 1). Upstream's headings start from it.
_HEADING = np.array([0.0, 1.0, 0.0])
_HEADED = np.array([1.0, 1.0, 1.0, 1.0])
_NO_LENGTH = 1e-8
_COLLINEAR = 1e-6
# Quaternions with a larger product are mixed and made to length 1 again.
_NEAR = 0.9995


def motion_of(mover: Mover, rules: str, source: str) -> Begun:
    """Return a mover's motion, to be begun at each reset.

    Args:
        mover: a mover of the task file.
        rules: one of `pytest_vla.plan.case.PROTOCOLS`.
        source: the file, for errors.

    Raises:
        SceneError: the motion is impossible: no direction, no period, fewer than two waypoints, an unknown
            motion, or, by upstream's rules, a form that its code cannot read (located).
    """
    if rules == UPSTREAM and mover.crashes:
        raise _fail(
            mover, source, f"cannot be read: upstream's code raises {mover.crashes}; write it in upstream's form"
        )
    try:
        coded, documented = _MOTIONS[mover.motion_type]
    except KeyError:
        known = ", ".join(_MOTIONS)
        raise _fail(mover, source, f"has an unknown motion; write one of {known}") from None
    return (documented if rules == PAPER else coded)(mover, source)


def _fail(mover: Mover, source: str, message: str) -> SceneError:
    return SceneError(
        f"{source}:{mover.line}:{mover.column}: the mover {mover.name!r} (:motion_type {mover.motion_type}) {message}"
    )


def _vector(values: Vector | None, default: Vector) -> Array:
    return np.array(default if values is None else values, dtype=np.float64)


def _unit(mover: Mover, source: str) -> Array:
    direction = _vector(mover.direction, _DIRECTION)
    length = np.linalg.norm(direction)
    if not length > _NO_LENGTH:
        raise _fail(mover, source, "has no direction; give three numbers that are not all 0 in :motion_direction")
    unit: Array = direction / length
    return unit


def _period(mover: Mover, source: str, least: float) -> float:
    period = float(_PERIOD if mover.period is None else mover.period)
    if period < least or period == 0.0:
        said = f":motion_period {period:g}" if mover.period is not None else "no :motion_period, which makes it 1"
        wanted = f"of at least {least:g} control steps" if least > 0 else "that is not 0"
        raise _fail(mover, source, f"has {said}; expected a period {wanted} for the way there and back")
    return period


def _linear_coded(mover: Mover, source: str) -> Begun:
    # Upstream rounds the period to whole steps and halves it: a whole cycle takes 2 * half ticks, 124 of 125.
    half = round(_period(mover, source, 2.0)) // 2
    travel = float(_TRAVEL if mover.travel_dist is None else mover.travel_dist)
    step = _unit(mover, source) * (travel / half)

    def begin(start: Pose) -> Motion:
        reached = [np.array(start[0], dtype=np.float64)]

        def pose(tick: int) -> Pose:
            while len(reached) <= tick:
                is_back = (len(reached) - 1) // half % 2
                reached.append(reached[-1] - step if is_back else reached[-1] + step)
            return reached[tick], start[1]

        return pose

    return begin


def _linear_documented(mover: Mover, source: str) -> Begun:
    period = _period(mover, source, 2.0)
    travel = float(_TRAVEL if mover.travel_dist is None else mover.travel_dist)
    way = _unit(mover, source) * travel

    def begin(start: Pose) -> Motion:
        def pose(tick: int) -> Pose:
            phase = math.fmod(tick, period) / period
            return start[0] + way * (1.0 - abs(1.0 - 2.0 * phase)), start[1]

        return pose

    return begin


def _circle_coded(mover: Mover, source: str) -> Begun:
    centre = _vector(mover.center, _CENTRE)
    angle = 2 * np.pi / _period(mover, source, -math.inf) * 1.0

    def begin(start: Pose) -> Motion:
        offset = start[0] - centre
        radius = np.linalg.norm(offset)
        across = np.cross(VERTICAL, offset / radius) if radius >= _NO_LENGTH else np.zeros(3)
        if not np.linalg.norm(across) > _NO_LENGTH:
            raise _off_centre(mover, source, start)
        ahead, aside = offset / radius, across / np.linalg.norm(across)
        # Upstream sums up the angle.
        angles = [0.0]

        def pose(tick: int) -> Pose:
            while len(angles) <= tick:
                angles.append(angles[-1] + angle)
            now = angles[tick]
            return centre + radius * np.cos(now) * ahead + radius * np.sin(now) * aside, start[1]

        return pose

    return begin


def _circle_documented(mover: Mover, source: str) -> Begun:
    centre = _vector(mover.center, _CENTRE)
    period = _period(mover, source, -math.inf)

    def begin(start: Pose) -> Motion:
        x, y, z = (float(value) for value in start[0])
        # In its own plane: at the object's height, whatever height the file gives the centre.
        dx, dy = x - float(centre[0]), y - float(centre[1])
        if not math.hypot(dx, dy) > _NO_LENGTH:
            raise _off_centre(mover, source, start)

        def pose(tick: int) -> Pose:
            angle = 2 * math.pi * math.fmod(tick, period) / period
            cos, sin = math.cos(angle), math.sin(angle)
            return np.array([centre[0] + dx * cos - dy * sin, centre[1] + dy * cos + dx * sin, z]), start[1]

        return pose

    return begin


def _off_centre(mover: Mover, source: str, start: Pose) -> SceneError:
    place = ", ".join(f"{value:.3f}" for value in start[0])
    return _fail(
        mover,
        source,
        f"starts at ({place}), above, below or at the centre of its circle, so that the circle has no radius; "
        "set :motion_center beside the region in which it is placed",
    )


def _waypoints(upright_only: bool, mover: Mover, source: str) -> Begun:
    """Return the motion to and fro between waypoints, with the same number of ticks for each leg."""
    if len(mover.waypoints) < 2:
        found = len(mover.waypoints)
        raise _fail(mover, source, f"has {found} waypoints; give two or more as (((X Y Z) (DX DY DZ)) ...)")
    dt = float(_DT if mover.dt is None else mover.dt)
    if not dt > 0.0:
        raise _fail(mover, source, f"has :motion_dt {dt:g}; expected more than 0")
    steps = max(1, int(_SEGMENT / dt))
    last = len(mover.waypoints) - 1
    places = [np.array(place, dtype=np.float64) for place, _ in mover.waypoints]
    for number, (_, direction) in enumerate(mover.waypoints, 1):
        if not np.linalg.norm(np.array(direction)) >= _COLLINEAR:
            raise _fail(mover, source, f"has no direction at waypoint {number}; give (DX DY DZ) that are not all 0")
    headings = [heading(direction, turns_back=upright_only) for _, direction in mover.waypoints]
    # Upstream cannot be told to stop: it takes the word "false" for true.
    stops = upright_only and mover.loop is False

    def pose(tick: int) -> Pose:
        # The first step goes to the first waypoint, wherever the object stands.
        segment, step = divmod(max(tick - 1, 0), steps)
        if stops and segment >= last:
            return places[last], headings[last]
        turn = segment % (2 * last)
        here, there = (turn, turn + 1) if turn < last else (2 * last - turn, 2 * last - turn - 1)
        part = step / steps
        position = places[here] + part * (places[there] - places[here])
        return position, _between(headings[here], headings[there], part)

    def begin(start: Pose) -> Motion:
        return pose

    return begin


def heading(direction: Vector, *, turns_back: bool) -> Array:
    """Compute the orientation wxyz (4,), of length 1, of a thing headed in a direction (3,).

    Args:
        direction: of any length but 0.
        turns_back: whether a thing headed along -y is turned around; upstream leaves it as along +y.
    """
    unit = np.array(direction, dtype=np.float64)
    unit = unit / np.linalg.norm(unit)
    axis = np.cross(_HEADING, unit)
    length = np.linalg.norm(axis)
    along = np.dot(_HEADING, unit)
    if length < _COLLINEAR:
        if along > 0 or not turns_back:
            # The negated quaternion that upstream has for -y is the same rotation.
            unturned: Array = (_HEADED if along > 0 else -_HEADED) / np.linalg.norm(_HEADED)
            return unturned
        axis, length = VERTICAL, np.float64(1.0)
    half = np.arccos(np.clip(along, -1.0, 1.0)) / 2.0
    sin = np.sin(half)
    turn = [np.cos(half), *(component * sin for component in axis / length)]
    # Upstream keeps it at length 2 until it is mixed.
    whole = _product(turn, _HEADED / np.linalg.norm(_HEADED)) * 2.0
    unit_heading: Array = whole / np.linalg.norm(whole)
    return unit_heading


def _product(first: list[np.float64], second: Array) -> Array:
    # In upstream's order of terms, which decides the last bit.
    w1, x1, y1, z1 = first
    w2, x2, y2, z2 = second
    return np.array(
        [
            w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2,
            w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
            w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
            w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        ]
    )


def _between(here: Array, there: Array, part: float) -> Array:
    """Interpolate from one orientation to another by the shorter way (4,)."""
    product = here[0] * there[0] + here[1] * there[1] + here[2] * there[2] + here[3] * there[3]
    if product < 0.0:
        there, product = -there, -product
    if product > _NEAR:
        mixed = here + part * (there - here)
        near: Array = mixed / np.linalg.norm(mixed)
        return near
    whole = np.arccos(product)
    angle = whole * part
    weight = np.sin(angle) / np.sin(whole)
    turned: Array = (np.cos(angle) - product * np.sin(angle) / np.sin(whole)) * here + weight * there
    return turned


def _parabolic_coded(mover: Mover, source: str) -> Begun:
    velocity = _unit(mover, source) * _speed(mover)
    gravity = _vector(mover.gravity, _GRAVITY)
    place, turned = _vector(mover.start_pos, _START), _vector(mover.start_quat, _START_QUATERNION)
    dt = float(_DT if mover.dt is None else mover.dt)
    # Upstream sums up the time.
    times = [0.0]

    def pose(tick: int) -> Pose:
        while len(times) <= tick:
            times.append(times[-1] + dt)
        now = times[tick]
        return place + velocity * now + 0.5 * gravity * now**2, turned

    def begin(start: Pose) -> Motion:
        return pose

    return begin


def _parabolic_documented(mover: Mover, source: str) -> Begun:
    velocity = _unit(mover, source) * _speed(mover)
    gravity = _vector(mover.gravity, _GRAVITY)

    def begin(start: Pose) -> Motion:
        def pose(tick: int) -> Pose:
            time = tick * CONTROL_STEP
            return start[0] + velocity * time + 0.5 * gravity * time**2, start[1]

        return pose

    return begin


def _speed(mover: Mover) -> float:
    return float(_SPEED if mover.initial_speed is None else mover.initial_speed)


_Plan = Callable[[Mover, str], Begun]
_MOTIONS: dict[str, tuple[_Plan, _Plan]] = {
    "linear": (_linear_coded, _linear_documented),
    "circle": (_circle_coded, _circle_documented),
    "waypoint": (partial(_waypoints, False), partial(_waypoints, True)),
    "parabolic": (_parabolic_coded, _parabolic_documented),
}
"""By their names in files: as coded, and as documented."""


@dataclass(frozen=True)
class Moving:
    """One mover that goes on: its object's name, the number of the mocap body that draws it, and its motion."""

    name: str
    mocap: int
    motion: Motion


@dataclass(frozen=True)
class Movement:
    """The progress of an episode's movers.

    Attributes:
        moving: the movers that still move; the others stay at their last target.
        tick: control steps since the reset, settling included.
    """

    moving: tuple[Moving, ...] = ()
    tick: int = 0

    def advanced(self, data: mujoco.MjData) -> "Movement":
        """Set the movers' targets for the next control step in `data`; return the progress after it."""
        if not self.moving:
            return self
        tick = self.tick + 1
        for each in self.moving:
            data.mocap_pos[each.mocap], data.mocap_quat[each.mocap] = each.motion(tick)
        return Movement(self.moving, tick)

    def without(self, names: Collection[str]) -> "Movement":
        """Return the progress with these movers, by their objects' names, stopped; other names are ignored."""
        if not names or not any(each.name in names for each in self.moving):
            return self
        return replace(self, moving=tuple(each for each in self.moving if each.name not in names))


@dataclass(frozen=True)
class _Planned:
    mover: Mover
    mocap: int
    weld: int
    joint: int
    """Where in qpos the object's free joint is."""
    begun: Begun


@dataclass(frozen=True)
class Movers:
    """The movers of a task in its compiled model, to be begun at each reset."""

    source: str
    starts_in_place: bool
    planned: tuple[_Planned, ...] = ()

    def begin(
        self, data: mujoco.MjData, placed: Mapping[str, Pose], stands: Array, removed: Collection[str] = ()
    ) -> Movement:
        """Set the movers' targets to where an episode begins, before anything is forwarded.

        Args:
            data: reset; the targets are written to it.
            placed: where the reset drew each object. As coded, motions begin there, whatever init state is set
                after it.
            stands: qpos (nq,) that the episode begins with. As documented, motions begin there.
            removed: objects that are out of the world and have no target.

        Raises:
            SceneError: a mover that nothing places, or that cannot move from where it was placed (located).
        """
        moving = []
        for each in self.planned:
            name = each.mover.name
            if name in removed:
                data.eq_active[each.weld] = 0
                continue
            if name not in placed:
                raise SceneError(
                    f"{self.source}:{each.mover.line}:{each.mover.column}: the mover {name!r} is never placed; "
                    f"add a literal such as (On {name} REGION) to :init"
                )
            if self.starts_in_place:
                pose = np.array(stands[each.joint : each.joint + 7])
                start: Pose = (pose[:3], pose[3:])
            else:
                start = (np.array(placed[name][0], dtype=np.float64), np.array(placed[name][1], dtype=np.float64))
            data.mocap_pos[each.mocap], data.mocap_quat[each.mocap] = start
            moving.append(Moving(name, each.mocap, each.begun(start)))
        return Movement(tuple(moving))


def plan_movers(problem: Problem, rules: str, scene: SceneSpec, model: mujoco.MjModel) -> Movers:
    """Compile a problem's ``:moving_objects``.

    Args:
        problem: with or without movers.
        rules: the rules of the motions, one of `pytest_vla.plan.case.PROTOCOLS`.
        scene, model: compiled from the problem.

    Raises:
        SceneError: a mover that cannot move as its file says (located).
    """
    planned = []
    for mover in problem.movers:
        body = scene.body(mover.name)
        assert body is not None, f"{mover.name} is in the compiled scene"
        begun = motion_of(mover, rules, problem.source)
        identifier = model.body(body.root_body).id
        target = model.body(f"{body.root_body}{MOVER_TARGET}").id
        (weld,) = np.flatnonzero((model.eq_obj1id == identifier) & (model.eq_obj2id == target))
        joint = int(model.joint(body.joints[-1]).qposadr[0])
        planned.append(_Planned(mover, int(model.body_mocapid[target]), int(weld), joint, begun))
    return Movers(problem.source, rules == PAPER, tuple(planned))
