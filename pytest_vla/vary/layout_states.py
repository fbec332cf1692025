"""Objects moved in a state that an episode begins from, on the compiled scene."""

import math
from collections.abc import Mapping, Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import RedrawError
from pytest_vla.scene.scene import Scene
from pytest_vla.scene.workspaces import workspace
from pytest_vla.sim.clearance import Clearance
from pytest_vla.sim.sight import REACH
from pytest_vla.vary.layout_objects import AREA

Array = npt.NDArray[np.float64]

DIRECTIONS = 16
_APART = 0.01
"""How near (m) something may be put to anything else."""
_LIFT = 0.002
"""How far (m) above its place an added object begins at least."""


def put_down(
    model: mujoco.MjModel, scene: Scene, state: Array, poses: Mapping[str, tuple[float, float, float]]
) -> None:
    """Puts objects elsewhere on the workspace, and turns them about the vertical.

    Args:
        model, scene: fixtures stand as in the episode.
        state: (1+nq+nv,), written.
        poses: by object: x and y (m, world frame), and a turn (degrees).

    Raises:
        RedrawError: one would touch something.
    """
    for name, (x, y, yaw) in poses.items():
        pose = _pose(model, scene, state, name)
        pose[:2] = x, y
        pose[3:] = _turned(pose[3:], math.radians(yaw))
    clearance = Clearance(model, scene)
    for name in poses:
        # Models say of themselves how far they reach down, not always rightly.
        _pose(model, scene, state, name)[2] += clearance.depth(state[1 : 1 + model.nq], name) + _LIFT
    for name in poses:
        if other := clearance.in_the_way(state[1 : 1 + model.nq], (name,), _APART):
            raise RedrawError(f"{name} would stand in {other}")


def displace(
    model: mujoco.MjModel,
    scene: Scene,
    state: Array,
    name: str,
    distance: float,
    direction: float,
    yaw: float,
    standing: Mapping[str, Sequence[str]],
    zones: Sequence[str],
) -> None:
    """Moves an object over the workspace, with what stands on it, and turns it about the vertical.

    It goes in the next of `DIRECTIONS` that is free. Where none is, objects in its way are moved as far as it is.

    Args:
        model, scene: fixtures stand as in the episode.
        state: (1+nq+nv,), written.
        name: of the object.
        distance: m.
        direction: where to (rad, from x to y), if it is free.
        yaw: its turn (rad).
        standing: what stands on objects, by their names.
        zones: sites that it must not come to be in.

    Raises:
        RedrawError: it cannot go anywhere.
    """
    clearance, before = Clearance(model, scene), state.copy()
    for makes_way in (False, True):
        for number in range(DIRECTIONS):
            angle = direction + 2 * math.pi * number / DIRECTIONS
            step = distance * np.array([math.cos(angle), math.sin(angle)])
            state[:] = before
            if _go(clearance, model, scene, state, name, step, yaw, standing, zones, makes_way):
                return
    state[:] = before
    raise RedrawError(f"{name} cannot go {distance} m anywhere: something is in the way, or the workspace ends")


def _go(
    clearance: Clearance,
    model: mujoco.MjModel,
    scene: Scene,
    state: Array,
    name: str,
    step: Array,
    yaw: float,
    standing: Mapping[str, Sequence[str]],
    zones: Sequence[str],
    makes_way: bool,
) -> bool:
    """Moves an object by a step (2,) and, where `makes_way`, what is in its way; False: it cannot be."""
    qpos = state[1 : 1 + model.nq]
    if not _may_be_wanted(model, scene, _pose(model, scene, state, name)[:2] + step, zones):
        return False
    moved: list[str] = []
    mover, turn = name, yaw
    while True:
        group = [mover, *standing.get(mover, ())]
        if not _shift(model, scene, state, group, step, turn):
            return False
        moved += group
        mover, turn = clearance.in_the_way(qpos, moved, _APART), 0.0
        if not mover:
            return True
        body = scene.body(mover)
        if not makes_way or body is None or body.is_fixture:
            return False


def _shift(model: mujoco.MjModel, scene: Scene, state: Array, group: Sequence[str], step: Array, yaw: float) -> bool:
    """Moves an object and what stands on it by a step (2,), turned about the object; False: it may not stand there."""
    centre = _pose(model, scene, state, group[0])[:2].copy()
    x, y = centre + step - workspace(scene.problem, scene.problem).offset[:2]
    if not (AREA[0] <= x <= AREA[2] and AREA[1] <= y <= AREA[3]):
        return False
    cosine, sine = math.cos(yaw), math.sin(yaw)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    for name in group:
        pose = _pose(model, scene, state, name)
        pose[:2] = centre + step + turn @ (pose[:2] - centre)
        pose[3:] = _turned(pose[3:], yaw)
    return True


def _may_be_wanted(model: mujoco.MjModel, scene: Scene, point: Array, zones: Sequence[str]) -> bool:
    """Whether what the robot shall take may stand at a point (2,): in its reach, and not where it shall go."""
    if math.dist(point, workspace(scene.problem, scene.problem).robot_base[:2]) > REACH:
        return False
    for zone in zones:
        site = model.site(zone)
        middle = model.body_pos[site.bodyid[0]][:2] + site.pos[:2]
        if (np.abs(point - middle) <= site.size[:2]).all():
            return False
    return True


def _pose(model: mujoco.MjModel, scene: Scene, state: Array, name: str) -> Array:
    """An object's part (7,) of a state, position and quaternion wxyz, to be written in."""
    body = scene.body(name)
    assert body is not None, f"{name} is declared, so it is in the scene"
    address = 1 + model.joint(body.joints[-1]).qposadr[0]
    return state[address : address + 7]


def _turned(quaternion: Array, yaw: float) -> Array:
    turned = np.empty(4)
    mujoco.mju_mulQuat(turned, np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]), quaternion)
    return turned
