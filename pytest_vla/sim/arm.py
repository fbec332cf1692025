"""The Panda arm under robosuite's operational-space control: goals, stale first substep, gripper.

Facts from robosuite 1.4.0 (``controllers/osc.py``, ``robots/single_arm.py``, ``models/grippers/panda_gripper.py``).
"""

from contextlib import nullcontext
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError
from pytest_vla.scene import panda
from pytest_vla.sim.native import control_step, is_compiled
from pytest_vla.sim.robosuite_control import set_goal_orientation
from pytest_vla.util.folders import cache_folder
from pytest_vla.util.locks import exclusive
from pytest_vla.util.preparing import preparing
from pytest_vla.versions import forward_warms

Array = npt.NDArray[np.float64]

ARM_JOINTS = 7
FINGERS = 2
SUBSTEPS = 25
# The arm's rest pose (rad) and the fingers' (m) at a reset; LIBERO's Pandas, no noise.
REST_JOINTS = np.array(panda.REST_JOINTS)
REST_FINGERS = np.array([0.020833, -0.020833])
_GAIN = np.full(6, 150.0)
_DAMPING = 2 * np.sqrt(_GAIN)
_SCALE = np.array([0.05, 0.05, 0.05, 0.5, 0.5, 0.5])
_GRIPPER_SPEED = 0.01
# Before its own, upstream's substep solves constraints in ``sim.forward()`` and in the controller's update.
WARM_SOLVES = 2 if forward_warms(mujoco.__version__) else 0
GRIP_SITE = "gripper0_grip_site"
HAND_BODY = "robot0_right_hand"


@dataclass(frozen=True)
class ResetPose:
    """What the controller remembers of the rest pose: end-effector position 3 (m), rotation 9, joints 7, velocities 7
    in `state` (26,); jacobian (6, 7) and mass matrix (7, 7), Fortran order."""

    state: Array
    jacobian: Array
    mass: Array


@dataclass
class ArmState:
    """The controller's own state, which mjData does not hold: goal pose, gripper action, whether a reset is fresh."""

    goal_position: Array
    goal_rotation: Array
    gripper_action: Array
    fresh: bool

    def copy(self) -> "ArmState":
        """An independent copy."""
        return ArmState(self.goal_position.copy(), self.goal_rotation.copy(), self.gripper_action.copy(), self.fresh)


class Arm:
    """Runs control steps of one model. Holds views into `data`; all state of an episode is in `state`."""

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self._model, self._data = model, data
        self.site = model.site(GRIP_SITE).id
        self.rest_joints = REST_JOINTS
        self._reset_pose = reset_pose(model, REST_JOINTS)
        limits = model.actuator_ctrlrange
        self._torque_limits = np.ascontiguousarray(limits[:ARM_JOINTS])
        fingers = limits[ARM_JOINTS : ARM_JOINTS + FINGERS]
        self._gripper_bias = 0.5 * (fingers[:, 1] + fingers[:, 0])
        self._gripper_weight = 0.5 * (fingers[:, 1] - fingers[:, 0])
        self._substep_before = np.zeros(model.nq)
        self._substep_after = np.zeros(model.nq)
        self.state = self.rest()
        if not control_step.signatures:
            # Machine code comes from numba's cache; on a new machine it is compiled, which takes ten seconds and which
            # one worker should do while the others wait. No substep is run.
            with (
                nullcontext() if is_compiled() else preparing("compiling the native step, once on this machine"),
                exclusive(cache_folder() / "control_step.lock"),
            ):
                self._run(0, 0, np.zeros(FINGERS))

    def rest_at(self, joints: Array) -> None:
        """From the next reset on, the arm's rest pose is this one, (7,) rad; its controller keeps to it."""
        if not np.array_equal(joints, self.rest_joints):
            self.rest_joints = np.array(joints, dtype=np.float64)
            self._reset_pose = reset_pose(self._model, self.rest_joints)

    def rest(self) -> ArmState:
        """The controller's state right after a reset: goal at the rest pose, gripper at zero."""
        pose = self._reset_pose.state
        return ArmState(pose[:3].copy(), pose[3:12].reshape(3, 3).copy(), np.zeros(FINGERS), True)

    def step(self, action: Array, sample_at: int) -> tuple[Array, Array]:
        """One control step (25 substeps of 2 ms).

        Args:
            action: (7,), [-1, 1]: position change x 0.05 m and axis-angle x 0.5 rad in the world frame, gripper
                (-1 open, 1 close). Clipped as robosuite clips it.
            sample_at: substep whose state observations show.

        Returns:
            qpos (nq,) before and after the sampled substep; valid until the next call.

        Raises:
            EpisodeError: ``physics-nan`` where the state went bad and the controller's matrices have no inverse.
        """
        model, data, state = self._model, self._data, self.state
        mujoco.mj_step1(model, data)
        pose = self._reset_pose.state
        if state.fresh:
            # Upstream's controller still has the rest pose's quantities here: its cached update is not refreshed.
            position, rotation = pose[:3], pose[3:12].reshape(3, 3)
        else:
            position, rotation = data.site_xpos[self.site], data.site_xmat[self.site].reshape(3, 3)
        delta = np.clip(action[:6], -1.0, 1.0) * _SCALE
        if delta[3:].any():
            state.goal_rotation = np.ascontiguousarray(set_goal_orientation(delta[3:], rotation))
        state.goal_position = position + delta[:3]
        direction = np.array([-1.0, 1.0]) * _GRIPPER_SPEED * np.sign(action[6])
        try:
            self._run(SUBSTEPS, sample_at, direction)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            raise EpisodeError("physics-nan", f"the controller's matrices cannot be inverted: {error}") from error
        state.fresh = False
        return self._substep_before, self._substep_after

    def _run(self, substeps: int, sample_at: int, direction: Array) -> None:
        model, data, state = self._model, self._data, self.state
        control_step(
            model._address,
            data._address,
            substeps,
            sample_at,
            WARM_SOLVES,
            state.fresh,
            self.site,
            data.qpos,
            data.qvel,
            data.qfrc_bias,
            data.ctrl,
            data.site_xpos,
            data.site_xmat,
            data.qM,
            state.goal_position,
            state.goal_rotation,
            self.rest_joints,
            _GAIN,
            _DAMPING,
            self._torque_limits,
            self._gripper_bias,
            self._gripper_weight,
            direction,
            state.gripper_action,
            self._reset_pose.state,
            self._reset_pose.jacobian,
            self._reset_pose.mass,
            self._substep_before,
            self._substep_after,
        )


def reset_pose(model: mujoco.MjModel, rest_joints: Array) -> ResetPose:
    """What robosuite's controller reads when it is made: arm at rest, everything else at the model's qpos0.

    Args:
        model: a compiled scene; unchanged.
        rest_joints: (7,) rad.
    """
    data = mujoco.MjData(model)
    data.qpos[:ARM_JOINTS] = rest_joints
    mujoco.mj_forward(model, data)
    site = model.site(GRIP_SITE).id
    jacobians = np.zeros((2, 3, model.nv))
    mujoco.mj_jacSite(model, data, jacobians[0], jacobians[1], site)
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, mass, data.qM)
    jacobian = np.vstack([jacobians[0][:, :ARM_JOINTS], jacobians[1][:, :ARM_JOINTS]])
    joints, velocities = data.qpos[:ARM_JOINTS], data.qvel[:ARM_JOINTS]
    return ResetPose(
        np.concatenate([data.site_xpos[site], data.site_xmat[site], joints, velocities]),
        np.asfortranarray(jacobian),
        np.asfortranarray(mass[:ARM_JOINTS, :ARM_JOINTS]),
    )


def reset_warm_start(model: mujoco.MjModel) -> Array | None:
    """What upstream's solver starts from in a reset, (nv,), before anything is placed; None where it starts from zero.

    A new simulation is forwarded twice at qpos0, by itself and by its renderer, and twice with the arm at rest, which
    only old versions of MuJoCo remember. Source: robosuite 1.4.0, ``environments/base.py``, ``utils/binding_utils.py``
    and ``controllers/base_controller.py``; without cameras, as no policy has it, upstream leaves out the renderer's.

    Args:
        model: a compiled scene with its fixtures where it was compiled; unchanged.
    """
    if not WARM_SOLVES:
        return None
    data = mujoco.MjData(model)
    for _ in range(2):
        mujoco.mj_forward(model, data)
    data.qpos[:ARM_JOINTS] = REST_JOINTS
    for _ in range(2):
        mujoco.mj_forward(model, data)
    return np.array(data.qacc_warmstart)
