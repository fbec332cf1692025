"""Drawn placements written into a model and its data, as a reset of robosuite does."""

import hashlib
from collections.abc import Callable, Iterable, Mapping

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.placement import Placement
from pytest_vla.scene.scene import Scene, SceneBody
from pytest_vla.sim.arm import ARM_JOINTS, FINGERS, REST_FINGERS

Array = npt.NDArray[np.float64]
Point = tuple[float, float, float]

_AWAY = 1e5
"""m. It would take a thing more than two minutes to fall from there; the longest episode lasts 30 seconds."""


def site_positions(
    model: mujoco.MjModel, scratch: mujoco.MjData, joints: Mapping[str, float]
) -> Callable[[str], Array]:
    """World positions (3,) of sites by name, with fixtures where `model` has them and these joints set.

    `scratch` is overwritten at the first question; most scenes ask none.
    """
    moved = False

    def position(name: str) -> Array:
        nonlocal moved
        if not moved:
            moved = True
            mujoco.mj_resetData(model, scratch)
            for joint, value in joints.items():
                scratch.joint(joint).qpos[0] = value
            mujoco.mj_kinematics(model, scratch)
        return np.array(scratch.site(name).xpos)

    return position


def place_fixtures(model: mujoco.MjModel, scene: Scene, placement: Placement) -> None:
    """Moves fixtures: they have no joints, so that their poses are the model's."""
    for name, (position, quaternion) in placement.fixtures.items():
        identifier = model.body(_body(scene, name).root_body).id
        model.body_pos[identifier] = position
        model.body_quat[identifier] = quaternion


def place_objects(model: mujoco.MjModel, qpos: Array, scene: Scene, placement: Placement, rest_joints: Array) -> None:
    """Writes in `qpos` (nq,) the arm (7,) and the fingers at rest, and drawn joints and free objects at their poses."""
    qpos[:ARM_JOINTS] = rest_joints
    qpos[ARM_JOINTS : ARM_JOINTS + FINGERS] = REST_FINGERS
    for joint, value in placement.joints.items():
        qpos[model.joint(joint).qposadr[0]] = value
    for name, (position, quaternion) in placement.objects.items():
        address = model.joint(_body(scene, name).joints[-1]).qposadr[0]
        qpos[address : address + 7] = np.concatenate([position, quaternion])


def take_away(model: mujoco.MjModel, scene: Scene, state: Array, names: Iterable[str]) -> dict[str, Point]:
    """Takes objects out of the world: so far up that nothing sees or meets them, where they fall freely.

    All else moves as it does beside them, bit for bit, as long as it would not touch them.

    Args:
        model, scene: of the world.
        state: (1+nq+nv,), [time, qpos, qvel], written.
        names: of the objects.

    Returns:
        Where each of them was (m).
    """
    places: dict[str, Point] = {}
    for number, name in enumerate(names, 1):
        joint = model.joint(_body(scene, name).joints[-1])
        position = 1 + joint.qposadr[0]
        x, y, z = (float(value) for value in state[position : position + 3])
        places[name] = (x, y, z)
        # Apart from each other, as they fall side by side.
        state[position : position + 3] = _AWAY * number, 0.0, _AWAY
        state[1 + model.nq + joint.dofadr[0] :][:6] = 0.0
    return places


def placed_number(model: mujoco.MjModel, data: mujoco.MjData, beside: int) -> int:
    """Return a number of 48 bits that names how everything is placed: equal for equal starts, by luck for no others.

    Args:
        model: with its fixtures where they stand.
        data: reset to where the episode begins.
        beside: what else the start follows from, such as the seed of drawn colours.
    """
    parts = (
        model.body_pos,
        model.body_quat,
        data.mocap_pos,
        data.mocap_quat,
        data.qpos,
        data.qvel,
        data.qacc_warmstart,
    )
    found = hashlib.sha256(str(beside).encode())
    for part in parts:
        # Zeros without a sign are as many bits.
        found.update(np.ascontiguousarray(part + 0.0).tobytes())
    return int.from_bytes(found.digest()[:6])


def hide_sites(model: mujoco.MjModel, scene: Scene) -> None:
    """Gives sites of robot and objects a negative alpha: robosuite's way to hide them."""
    for name in scene.hidden_sites:
        rgba = model.site(name).rgba
        if rgba[3] > 0:
            rgba[3] = -rgba[3]


def _body(scene: Scene, name: str) -> SceneBody:
    body = scene.body(name)
    assert body is not None, f"{name} was placed, so it is in the scene"
    return body
