"""The Panda arm under robosuite's operational-space control: goals, stale first substep, gripper.

Facts from robosuite 1.4.0 (``controllers/osc.py``, ``robots/single_arm.py``, ``models/grippers/panda_gripper.py``) and
1.5.1 (``controllers/parts/arm/osc.py``, ``controllers/composite/composite_controller.py``, ``robots/robot.py``).
"""

from dataclasses import dataclass
from typing import Any, Literal

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError
from pytest_vla.scene import panda
from pytest_vla.scene.panda import ARM_JOINTS, FINGERS, PROFILES, ROBOSUITE_1_4, Profile
from pytest_vla.sim.native import control_step, load_step
from pytest_vla.sim.robosuite_control import (
    axisangle2quat,
    make_pose,
    pose_in_A_to_pose_in_B,
    pose_inv,
    quat2mat,
    set_goal_orientation,
)
from pytest_vla.sim.substeps import SUBSTEPS, NativeSubsteps, nothing_recorded
from pytest_vla.versions import forward_warms

Array = npt.NDArray[np.float64]

# The arm's rest pose (rad) and the fingers' (m) at a reset; LIBERO's Pandas, no noise.
REST_JOINTS = np.array(panda.REST_JOINTS)
REST_FINGERS = np.array([0.020833, -0.020833])
_GAIN = np.full(6, 150.0)
_DAMPING = 2 * np.sqrt(_GAIN)
_SCALE = np.array([0.05, 0.05, 0.05, 0.5, 0.5, 0.5])
_CLOSING = np.array([-1.0, 1.0])
# Whether solves before a substep's own, and those of a reset, leave a trace in this version of MuJoCo.
_FORWARD_WARMS = forward_warms(mujoco.__version__)
HAND_BODY = "robot0_right_hand"
# The site of the arm's base, in scenes whose goals are kept in its frame.
BASE_SITE = "robot0_right_center"


@dataclass(frozen=True)
class ResetPose:
    """The controller's quantities at the rest pose.

    `state` (26,) holds the end-effector position 3 (m), rotation 9, joint positions 7 and joint velocities 7. The
    jacobian is (6, 7) and the mass matrix (7, 7), both in Fortran order.
    """

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
        """Return an independent copy."""
        return ArmState(self.goal_position.copy(), self.goal_rotation.copy(), self.gripper_action.copy(), self.fresh)


def grip_site(model: mujoco.MjModel) -> int:
    """Return the id of the site between the fingers in a compiled scene, under either robosuite version's names."""
    found = (mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, profile.grip_site) for profile in PROFILES)
    return next(int(number) for number in found if number >= 0)


class Arm:
    """Runs control steps of one model. Holds views into `data`; all state of an episode is in `state`."""

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        profile: Profile = ROBOSUITE_1_4,
        rest_joints: npt.ArrayLike = REST_JOINTS,
    ) -> None:
        """Set up the arm of a compiled scene.

        Args:
            model, data: the compiled scene.
            profile: the robosuite version to reproduce.
            rest_joints: (7,) rad, the arm's pose at a reset.
        """
        self._model, self._data, self._profile = model, data, profile
        self.site = model.site(profile.grip_site).id
        self._own_rest = np.array(rest_joints, dtype=np.float64)
        self.rest_joints = self._own_rest
        self._reset_pose = reset_pose(model, self.rest_joints, self.site)
        self._base = base_frame(model, BASE_SITE) if profile.goals_in_base_frame else None
        self._warm_solves = profile.forwards if _FORWARD_WARMS else 0
        order: Literal["C", "F"] = "C" if profile.goals_in_base_frame else "F"
        self._jacobians = tuple(np.empty((rows, ARM_JOINTS), order=order) for rows in (6, 3, 3))
        limits = model.actuator_ctrlrange
        self._torque_limits = np.ascontiguousarray(limits[:ARM_JOINTS])
        fingers = limits[ARM_JOINTS : ARM_JOINTS + FINGERS]
        self._gripper_bias = 0.5 * (fingers[:, 1] + fingers[:, 0])
        self._gripper_weight = 0.5 * (fingers[:, 1] - fingers[:, 0])
        self._substep_before = np.zeros(model.nq)
        self._substep_after = np.zeros(model.nq)
        self.state = self.rest()
        load_step(order)

    def rest_at(self, joints: npt.ArrayLike | None) -> None:
        """Set the arm's rest pose from the next reset on; the controller's null space keeps to it.

        Args:
            joints: (7,) rad, or None for the scene's own rest pose.
        """
        rest = self._own_rest if joints is None else np.array(joints, dtype=np.float64)
        if not np.array_equal(rest, self.rest_joints):
            self.rest_joints = rest
            self._reset_pose = reset_pose(self._model, rest, self.site)

    def rest(self) -> ArmState:
        """Return the controller's state right after a reset: goal at the rest pose, gripper at zero."""
        pose = self._reset_pose.state
        return ArmState(pose[:3].copy(), pose[3:12].reshape(3, 3).copy(), np.zeros(FINGERS), True)

    def running(self, steps: int, gripper: float) -> ArmState:
        """Return what the controller's state may have been after control steps that nobody recorded.

        The goal is at the present pose; the gripper was given one command since the reset.

        Args:
            steps: 1 and up.
            gripper: the command, -1 open, 1 close.
        """
        times = steps * (SUBSTEPS if self._profile.gripper_each_substep else 1)
        action = np.clip(_CLOSING * self._profile.gripper_speed * np.sign(gripper) * times, -1.0, 1.0)
        rotation = self._data.site_xmat[self.site].reshape(3, 3).copy()
        return ArmState(self._data.site_xpos[self.site].copy(), rotation, action, False)

    def controller_pose(self) -> tuple[Array, Array]:
        """Return the controller's end-effector position (3,) m and rotation (3, 3), world frame.

        They are robosuite's ``controller.ee_pos`` and ``ee_ori_mat``, which X-VLA reads: of the grip site at the begin
        of the last substep, and after a reset of the rest pose, even if an init state put the arm elsewhere. The site's
        frame is the hand body's, turned by -90 degrees about its z axis.
        """
        if self.state.fresh:
            pose = self._reset_pose.state
            return pose[:3].copy(), pose[3:12].reshape(3, 3).copy()
        # mj_step2 leaves what mj_step1 computed.
        return self._data.site_xpos[self.site].copy(), self._data.site_xmat[self.site].reshape(3, 3).copy()

    def step(
        self,
        action: npt.NDArray[np.floating[Any]],
        sample_at: int,
        record: NativeSubsteps | None = None,
        absolute: bool = False,
    ) -> tuple[Array, Array]:
        """Run one control step (25 substeps of 2 ms).

        Args:
            action: (7,), [-1, 1]: position change x 0.05 m and axis-angle x 0.5 rad in the world frame, gripper
                (-1 open, 1 close). Clipped as robosuite clips it. If `absolute`, the pose itself of the grip site (m,
                axis-angle in rad), which robosuite neither scales nor clips, and whose rotation it converts in the
                type that the action has, float64 or float32.
            sample_at: substep whose state observations show.
            record: receives the contacts and motions of each substep, or None to record nothing.
            absolute: whether the action is a pose (robosuite's ``use_delta = False``); 1.4.0's profile only.

        Returns:
            qpos (nq,) before and after the sampled substep; valid until the next call.

        Raises:
            EpisodeError: ``physics-nan`` if the state went bad and the controller's matrices have no inverse.
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
        if absolute:
            state.goal_position = action[:3].astype(np.float64)
            state.goal_rotation = quat2mat(axisangle2quat(action[3:6]))
        elif self._base is not None:
            state.goal_position, state.goal_rotation = self._base.goal(position, rotation, delta)
        else:
            if delta[3:].any() or not self._profile.keeps_orientation:
                state.goal_rotation = np.ascontiguousarray(set_goal_orientation(delta[3:], rotation))
            state.goal_position = position + delta[:3]
        change = _CLOSING * self._profile.gripper_speed * np.sign(action[6])
        if not self._profile.gripper_each_substep:
            state.gripper_action[:] = np.clip(state.gripper_action + change, -1.0, 1.0)
            change = np.zeros(FINGERS)
        try:
            self._run(sample_at, change, nothing_recorded() if record is None else record.arguments())
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            raise EpisodeError("physics-nan", f"the controller's matrices cannot be inverted: {error}") from error
        if record is not None:
            record.check()
        state.fresh = False
        return self._substep_before, self._substep_after

    def _run(self, sample_at: int, direction: Array, recorded: tuple[npt.NDArray[np.generic], ...]) -> None:
        model, data, state = self._model, self._data, self.state
        control_step(
            model._address,
            data._address,
            SUBSTEPS,
            sample_at,
            self._warm_solves,
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
            *self._jacobians,
            self._substep_before,
            self._substep_after,
            data.xipos,
            data.xmat,
            *recorded,
        )


@dataclass(frozen=True)
class BaseFrame:
    """The frame of the arm's base, which never moves: position 3 (m), rotation (3, 3), pose's inverse (4, 4)."""

    position: Array
    rotation: Array
    inverse: Array

    def goal(self, position: Array, rotation: Array, delta: Array) -> tuple[Array, Array]:
        """Compute the goal position (3,) m and rotation (3, 3) in the world, rounded as upstream's.

        Args:
            position, rotation: the end effector's, in the world.
            delta: (6,) change of position (m) and axis-angle (rad), in the base's frame.
        """
        point = np.eye(4)
        point[:3, 3] = position
        goal_position = pose_in_A_to_pose_in_B(point, self.inverse)[:3, 3] + delta[:3]
        achieved = pose_in_A_to_pose_in_B(make_pose(position, rotation), self.inverse)[:3, :3]
        goal_rotation = set_goal_orientation(delta[3:], achieved)
        return (
            self.position + np.dot(self.rotation, goal_position),
            np.ascontiguousarray(np.dot(self.rotation, goal_rotation)),
        )


def base_frame(model: mujoco.MjModel, site: str) -> BaseFrame:
    """Return the frame of a site that no joint moves."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    position, rotation = data.site(site).xpos.copy(), data.site(site).xmat.reshape(3, 3).copy()
    return BaseFrame(position, rotation, pose_inv(make_pose(position, rotation)))


def reset_pose(model: mujoco.MjModel, rest_joints: Array, site: int) -> ResetPose:
    """Compute the quantities that robosuite's controller reads when it is made.

    The arm is at rest and everything else at the model's qpos0.

    Args:
        model: a compiled scene; unchanged.
        rest_joints: (7,) rad.
        site: id of the grip site.
    """
    data = mujoco.MjData(model)
    data.qpos[:ARM_JOINTS] = rest_joints
    mujoco.mj_forward(model, data)
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


def reset_warm_start(model: mujoco.MjModel, rest_joints: Array) -> Array | None:
    """Compute the accelerations (nv,) that warm-start upstream's solver in a reset, or None if it starts from zero.

    The warm start is the one before anything is placed. A new simulation is forwarded twice at qpos0, by itself and by
    its renderer, and twice with the arm at rest; only old versions of MuJoCo keep the result. Source: robosuite 1.4.0,
    ``environments/base.py``, ``utils/binding_utils.py`` and ``controllers/base_controller.py``. Without cameras
    upstream omits the renderer's call, but no policy runs without cameras. robosuite 1.5.1 forwards equally often: its
    second call with the arm at rest comes from the gripper's own controller.

    Args:
        model: a compiled scene whose fixtures are where they were compiled; unchanged.
        rest_joints: (7,) rad.
    """
    if not _FORWARD_WARMS:
        return None
    data = mujoco.MjData(model)
    for _ in range(2):
        mujoco.mj_forward(model, data)
    data.qpos[:ARM_JOINTS] = rest_joints
    for _ in range(2):
        mujoco.mj_forward(model, data)
    return np.array(data.qacc_warmstart)
