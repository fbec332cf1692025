"""Variations of how the arm stands when an episode begins."""

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pytest_vla.errors import RedrawError, VlaError
from pytest_vla.plan.task import NEEDS_ARM, NEEDS_STATE, Task
from pytest_vla.scene.panda import JOINT_LIMITS, MOUNT, REST_JOINTS, hand_of
from pytest_vla.scene.problem import problem_of
from pytest_vla.scene.variation import Edits, Params, part_number
from pytest_vla.scene.workspaces import Workspace, workspace
from pytest_vla.vary.axes.layout_room import in_picture
from pytest_vla.vary.kind import LEVELS, Draw, VariationKind, always
from pytest_vla.vary.space import NUMBER, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec

_NORM = 0.1
_MOST = round(_NORM * LEVELS[-1], 2)
_APART = 0.03
"""How near (m) the arm may be to anything: its fingers open by 0.02 m while the scene settles."""
_TRIES = 1000
"""Directions that are tried: of about two in three the hand stays in the picture."""
_PICTURE = 0.9
"""How far from the middle of the front camera's picture the hand may be, of half its side: it stays to be seen."""


def draw_joints(draw: Draw) -> Params:
    """Draw a joint offset of `level` tenths of a radian from the arm's own pose, in a direction in joint space.

    All levels share the direction. At every level the hand is in the picture, and every joint within its limits: the
    rest pose of LIBERO's arm is at least 0.62 rad from any limit. Of another arm, whose hand is not looked for in the
    picture, draws beyond a limit are drawn again.
    """
    if draw.task.scene is not None:
        own = draw.shared(f"robot.joints/{draw.time}")
        return {"offset": _offsets([own.gauss(0.0, 1.0) for _ in draw.task.scene.arm])[draw.level]}
    drawn, place = draw.shared("robot.joints"), _place_of(draw.task)
    for _ in range(_TRIES):
        direction = [drawn.gauss(0.0, 1.0) for _ in REST_JOINTS]
        offsets = _offsets(direction)
        poses = [_pose(place, offset) for offset in offsets.values()]
        if place is None or all(_is_possible(pose) and _is_seen(place, pose) for pose in poses):
            break
    return {"offset": offsets[draw.level]}


def joints(task: Task, params: Params) -> Edits:
    """Return edits that change the arm's rest pose.

    The edit raises RedrawError if something is in the arm's way, at this or any other level in that direction.
    """
    offset = params["offset"]
    norm = round(math.hypot(*offset), 3)
    told = {"norm": norm, "offset": offset}
    if not any(offset):
        return Edits(told=told)
    if task.scene is not None:
        return Edits(state=(partial(_put_own_arm, task.scene.arm, offset),), told=told)
    place = _place_of(task)
    pose = _pose(place, offset)
    # A draw that some level could not have is none of the others' either.
    poses = {_name(level): _pose(place, each) for level, each in _offsets(offset).items()}
    poses |= {_name(norm / _NORM): pose}

    def put(model: "mujoco.MjModel", scene: "SceneSpec", state: "NDArray[np.float64]") -> None:
        from pytest_vla.sim.contacts import Clearance

        clearance, qpos = Clearance(model, scene), state[1 : 1 + model.nq].copy()
        for name, other in poses.items():
            qpos[: len(other)] = other
            if touched := clearance.in_robots_way(qpos, _APART):
                raise RedrawError(f"robot.joints: the arm would begin in {touched} at level {name}")
        state[1 : 1 + len(pose)] = pose

    return Edits(state=(put,), rest_joints=pose, told=told)


def _put_own_arm(
    arm: Sequence[str],
    offset: Sequence[float],
    model: "mujoco.MjModel",
    scene: "SceneSpec",
    state: "NDArray[np.float64]",
) -> None:
    """Turn the joints of another arm than LIBERO's by the offset, in a state (1+nq+nv,).

    Raises RedrawError if a joint goes beyond its limits, or the arm into something.
    """
    from pytest_vla.sim.own_models import newly_touched

    before, moved = state[1 : 1 + model.nq].copy(), set[int]()
    for name, turn in zip(arm, offset, strict=True):
        joint = part_number(model, "joint", name)
        at = 1 + int(model.jnt_qposadr[joint])
        state[at] += turn
        low, high = model.jnt_range[joint]
        if model.jnt_limited[joint] and not low <= state[at] <= high:
            raise RedrawError(f"robot.joints: {name} would be beyond its limits")
        moved.add(int(model.jnt_bodyid[joint]))
    for body in range(model.nbody):
        # Bodies come after their parents.
        if int(model.body_parentid[body]) in moved:
            moved.add(body)
    if touched := newly_touched(model, before, state[1 : 1 + model.nq], moved):
        raise RedrawError(f"robot.joints: the arm would begin in {touched}")


def _offsets(direction: Sequence[float]) -> dict[int, list[float]]:
    """Return the joint offset (rad) by level; the length of `direction` does not matter."""
    length = sum(number * number for number in direction) ** 0.5
    return {level: [round(round(_NORM * level, 2) * number / length, 8) for number in direction] for level in LEVELS}


def _pose(place: Workspace | None, offset: Sequence[float]) -> tuple[float, ...]:
    joints = REST_JOINTS if place is None else place.rest_joints
    return tuple(round(rest + moved, 8) for rest, moved in zip(joints, offset, strict=True))


def _is_possible(pose: Sequence[float]) -> bool:
    return all(lowest < angle < highest for angle, (lowest, highest) in zip(pose, JOINT_LIMITS, strict=True))


def _name(level: float) -> str:
    return f"{level:.3g}"


def _place_of(task: Task) -> Workspace | None:
    """Return the task's workspace, or None if the task's file is not here: it can then be collected but not run."""
    try:
        problem = problem_of(task)
    except VlaError:
        return None
    return workspace(problem.name, problem.source)


def _is_seen(place: Workspace, pose: Sequence[float]) -> bool:
    """Whether the hand is in the picture of the workspace's first camera."""
    x, y, z = place.robot_base
    base = (x, y, z + MOUNT * place.mounted)
    return all(
        in_picture(place.cameras[0], [one + other for one, other in zip(base, point, strict=True)], _PICTURE)
        for point in hand_of(pose)
    )


def _joints_of(task: Task) -> int:
    return len(REST_JOINTS if task.scene is None else task.scene.arm)


KINDS = (
    VariationKind(
        "robot.joints",
        "the arm starts in another pose, with the hand in the picture",
        "LIBERO-Plus's range, drawn by us",
        draw_joints,
        joints,
        lambda task: (Parameter("offset", NUMBER, -_MOST, _MOST, 0.0, (_joints_of(task),), unit="rad"),),
        levels=LEVELS,
        grades="0.1 to 0.5 rad in joint space; the hand moves 3 to 14 cm on average",
        again=always,
        needs=(NEEDS_ARM, NEEDS_STATE),
    ),
)
