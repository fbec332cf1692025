"""Moving objects in an initial state, on the compiled scene."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import RedrawError
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.workspaces import REACH, workspace
from pytest_vla.sim.contacts import Clearance
from pytest_vla.vary.axes.layout_room import AREA

if TYPE_CHECKING:
    import mujoco
    import numpy as np


Array = npt.NDArray[np.float64]


_APART = 0.01
"""How near (m) something may be put to anything else."""


_LIFT = 0.002
"""How far (m) above its place an added object begins at least."""


def put_down(
    model: mujoco.MjModel, scene: SceneSpec, state: Array, poses: Mapping[str, tuple[float, float, float]]
) -> None:
    """Move objects to given places on the workspace, and turn them about the vertical.

    Args:
        model, scene: fixtures stand as in the episode.
        state: (1+nq+nv,), written.
        poses: x and y (m, world frame) and a turn (degrees), by object.

    Raises:
        RedrawError: an object would touch something.
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
    scene: SceneSpec,
    state: Array,
    name: str,
    distance: float,
    direction: float,
    yaw: float,
    along: Sequence[str],
    zones: Sequence[str],
) -> None:
    """Move an object over the workspace, with everything that stands on it, and turn it about the vertical.

    Args:
        model, scene: fixtures stand as in the episode.
        state: (1+nq+nv,), written, unless an error is raised.
        name: the object.
        distance: m.
        direction: degrees, from x to y.
        yaw: the object's turn (degrees).
        along: the objects that stand on it.
        zones: sites that the object must not enter.

    Raises:
        RedrawError: the object cannot be moved there.
    """
    heading, turn = math.radians(direction), math.radians(yaw)
    step = distance * np.array([math.cos(heading), math.sin(heading)])
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    after = state.copy()
    centre = _pose(model, scene, state, name)[:2]
    for each in (name, *along):
        pose = _pose(model, scene, after, each)
        pose[:2] = centre + step + rotation @ (pose[:2] - centre)
        pose[3:] = _turned(pose[3:], turn)
    why = _unfit(model, scene, centre + step, zones)
    if not why and (other := Clearance(model, scene).in_the_way(after[1 : 1 + model.nq], (name, *along), _APART)):
        why = f"{other} is in the way"
    if why:
        raise RedrawError(f"{name} cannot go {distance:g} m at {direction:g} degrees: {why}")
    state[:] = after


def stand_scaled(model: mujoco.MjModel, scene: SceneSpec, state: Array, name: str, factor: float) -> None:
    """Put an object that was made larger or smaller with its underside where it was.

    Args:
        model, scene: with the object in its new size.
        state: (1+nq+nv,) of the scene with the object in its own size, written.
        name: of the object.
        factor: its new size over its own.
    """
    body = scene.body(name)
    assert body is not None, f"{name} is declared, so it is in the scene"
    pose = _pose(model, scene, state, name)
    pose[2] -= body.bottom * (1 - 1 / factor)
    # What lies on its side reaches down otherwise than its model says.
    pose[2] += Clearance(model, scene).depth(state[1 : 1 + model.nq], name)


def _unfit(model: mujoco.MjModel, scene: SceneSpec, point: Array, zones: Sequence[str]) -> str:
    """Why what the robot shall take may not stand at a point (2,); an empty text: it may."""
    place = workspace(scene.problem, scene.problem)
    x, y = point - place.offset[:2]
    if not (AREA[0] <= x <= AREA[2] and AREA[1] <= y <= AREA[3]):
        return "the workspace ends"
    if math.dist(point, place.robot_base[:2]) > REACH:
        return "the robot does not reach there"
    for zone in zones:
        site = model.site(zone)
        middle = model.body_pos[site.bodyid[0]][:2] + site.pos[:2]
        if (np.abs(point - middle) <= site.size[:2]).all():
            return "the goal wants it there"
    return ""


def _pose(model: mujoco.MjModel, scene: SceneSpec, state: Array, name: str) -> Array:
    """Return a view of an object's part (7,) of a state: position and quaternion wxyz."""
    body = scene.body(name)
    assert body is not None, f"{name} is declared, so it is in the scene"
    address = 1 + model.joint(body.joints[-1]).qposadr[0]
    return state[address : address + 7]


def _turned(quaternion: Array, yaw: float) -> Array:
    turned = np.empty(4)
    mujoco.mju_mulQuat(turned, np.array([math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)]), quaternion)
    return turned
