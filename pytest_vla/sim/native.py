"""One control step in native code: 25 substeps of physics and operational-space control, without Python in between.

A numba function calls MuJoCo's own C functions (by symbol, so that its machine code can be kept) and robosuite's own
jitted controller functions. No layout of MuJoCo's structures is compiled in: the code is the same for all versions
whose functions take these arguments (`pytest_vla.versions.MUJOCO_END`); where contacts are is an argument, found out at
run time (`pytest_vla.sim.substeps`). Bitwise equal to robosuite's ``env.step``,
1.4.0's and 1.5.1's: same order per substep (mj_step1, jacobian and mass matrix, torque, ctrl, mj_step2), same memory
layout of J and M (M in Fortran order, J as the arm gives it: each layout has machine code of its own), same functions
for inverses.
"""

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding
import mujoco
import numba
import numpy as np
from numba import types

from pytest_vla.errors import VlaError
from pytest_vla.sim.robosuite_control import nullspace_torques, opspace_matrices, orientation_error, rotation_code
from pytest_vla.util.machine_code import codes, keep, make_ready

# MuJoCo's shared library: its path, and functions that the Python package does not offer in every version.


def library_file() -> Path:
    """Return the path of MuJoCo's shared library beside its Python package. Raises VlaError if it is missing."""
    folder = Path(mujoco.__file__).parent
    patterns = {"darwin": "libmujoco*.dylib", "win32": "mujoco.dll"}
    found = sorted(folder.glob(patterns.get(sys.platform, "libmujoco.so*")))
    if not found:
        raise VlaError(f"{folder}: MuJoCo's shared library is missing; reinstall the package: pip install mujoco")
    return found[0]


def copy_data(target: mujoco.MjData, model: mujoco.MjModel, source: mujoco.MjData) -> None:
    """Make `target` equal to `source`, in place; both belong to `model`.

    `mujoco.mj_copyData` is not in the package before 3.4.
    """
    _copy_data()(target._address, model._address, source._address)


@cache
def _copy_data() -> Any:
    function = ctypes.CDLL(str(library_file())).mj_copyData
    function.argtypes = [ctypes.c_void_p] * 3
    function.restype = ctypes.c_void_p
    return function


llvmlite.binding.load_library_permanently(str(library_file()))

_pointer = types.uintp
_mj_step1 = types.ExternalFunction("mj_step1", types.void(_pointer, _pointer))
_mj_step2 = types.ExternalFunction("mj_step2", types.void(_pointer, _pointer))
_mj_forward_skip = types.ExternalFunction("mj_forwardSkip", types.void(_pointer, _pointer, types.int32, types.int32))
_mj_jac_site = types.ExternalFunction("mj_jacSite", types.void(_pointer, _pointer, _pointer, _pointer, types.int32))
_mj_full_m = types.ExternalFunction("mj_fullM", types.void(_pointer, _pointer, _pointer))

_mj_contact_force = types.ExternalFunction("mj_contactForce", types.void(_pointer, _pointer, types.int32, _pointer))
_mj_object_velocity = types.ExternalFunction(
    "mj_objectVelocity", types.void(_pointer, _pointer, types.int32, types.int32, _pointer, types.int32)
)
_mj_fwd_constraint = types.ExternalFunction("mj_fwdConstraint", types.void(_pointer, _pointer))

# The stages that mj_forwardSkip skips after mj_step1: positions and velocities (mjSTAGE_VEL), and sensors.
_AFTER_VELOCITIES, _NO_SENSORS = 2, 1

# mjOBJ_BODY.
_BODY = 1

LAYOUTS = ("F", "C")
"""Memory layouts of an arm's jacobians: robosuite 1.4.0's and 1.5.1's. Each has machine code of its own."""


@numba.njit  # type: ignore[untyped-decorator]
def _record_substep(
    model: int,
    data: int,
    substep: int,
    xipos: np.ndarray,
    xmat: np.ndarray,
    layout: np.ndarray,
    structure: np.ndarray,
    arena: np.ndarray,
    places: np.ndarray,
    watched: np.ndarray,
    bodies: np.ndarray,
    columns: np.ndarray,
    rows: np.ndarray,
    measured: np.ndarray,
    pairs: np.ndarray,
    motion: np.ndarray,
    tally: np.ndarray,
) -> None:
    """Record the motion and the contacts of the substep that mj_step2 has just ended; see `NativeSubsteps`."""
    six = np.empty(6)
    for number in range(bodies.shape[0]):
        body = bodies[number]
        motion[substep, number, 0:3] = xipos[body]
        motion[substep, number, 3:12] = xmat[body]
        _mj_object_velocity(model, data, _BODY, body, six.ctypes.data, 0)
        motion[substep, number, 12:18] = six
    found, met, now = tally[0], tally[1], tally[2]
    for contact in range(structure[layout[0]]):
        geom = contact * layout[1] + layout[2]
        # Something that is not a geom is -1, the last row.
        one, other = arena[geom], arena[geom + 1]
        if watched[one, other] == 0 or found == rows.shape[0]:
            continue
        _mj_contact_force(model, data, contact, six.ctypes.data)
        place, normal = contact * layout[3] + layout[4], contact * layout[3] + layout[5]
        # The normal points from the first geom to the other; bodies that are not followed count as standing still.
        approach = 0.0
        for side in range(2):
            column = columns[one if side == 0 else other]
            if column >= 0:
                sign = 1.0 if side == 0 else -1.0
                x = places[place] - motion[substep, column, 0]
                y = places[place + 1] - motion[substep, column, 1]
                z = places[place + 2] - motion[substep, column, 2]
                turn_x, turn_y, turn_z = motion[substep, column, 12:15]
                approach += sign * places[normal] * (motion[substep, column, 15] + turn_y * z - turn_z * y)
                approach += sign * places[normal + 1] * (motion[substep, column, 16] + turn_z * x - turn_x * z)
                approach += sign * places[normal + 2] * (motion[substep, column, 17] + turn_x * y - turn_y * x)
        rows[found, 0], rows[found, 1], rows[found, 2] = substep, one, other
        measured[found, 0] = six[0]
        measured[found, 1:4] = places[place : place + 3]
        measured[found, 4] = approach
        found += 1
        if watched[one, other] != now:
            watched[one, other] = now
            pairs[met, 0], pairs[met, 1] = one, other
            met += 1
    tally[0], tally[1] = found, met


@numba.njit  # type: ignore[untyped-decorator]
def control_step(
    model: int,
    data: int,
    substeps: int,
    sample_at: int,
    warm_solves: int,
    stale: bool,
    site: int,
    qpos: np.ndarray,
    qvel: np.ndarray,
    qfrc_bias: np.ndarray,
    ctrl: np.ndarray,
    site_xpos: np.ndarray,
    site_xmat: np.ndarray,
    inertia: np.ndarray,
    goal_position: np.ndarray,
    goal_rotation: np.ndarray,
    reset_joints: np.ndarray,
    kp: np.ndarray,
    kd: np.ndarray,
    torque_limits: np.ndarray,
    gripper_bias: np.ndarray,
    gripper_weight: np.ndarray,
    gripper_direction: np.ndarray,
    gripper_action: np.ndarray,
    reset_state: np.ndarray,
    reset_jacobian: np.ndarray,
    reset_mass: np.ndarray,
    jacobian: np.ndarray,
    position_jacobian: np.ndarray,
    rotation_jacobian: np.ndarray,
    sample_before: np.ndarray,
    sample_after: np.ndarray,
    xipos: np.ndarray,
    xmat: np.ndarray,
    layout: np.ndarray,
    structure: np.ndarray,
    arena: np.ndarray,
    places: np.ndarray,
    watched: np.ndarray,
    bodies: np.ndarray,
    columns: np.ndarray,
    rows: np.ndarray,
    measured: np.ndarray,
    pairs: np.ndarray,
    motion: np.ndarray,
    tally: np.ndarray,
) -> None:
    """Advance `data` by `substeps` substeps; mj_step1 of the first one has been called already.

    Args:
        model, data: addresses of mjModel and mjData.
        sample_at: substep (from 0) whose state is the observation's: qpos before and after it are copied out.
        warm_solves: constraint solves before a substep's own, with the controls of the substep before; each warms the
            next one (`pytest_vla.sim.arm.Arm`). In a stale substep it is one less.
        stale: whether the first substep uses the controller's quantities of the reset pose, as upstream does after
            an init state was set.
        site: id of the grip site.
        qpos, qvel, qfrc_bias, ctrl, site_xpos (nsite, 3), site_xmat (nsite, 9), inertia (qM): views into `data`.
            The arm's 7 joints come first in qpos and qvel, and first in ctrl; the gripper's 2 actuators follow.
        goal_position (3,) m, goal_rotation (3, 3): the pose that the arm is driven to, world frame.
        reset_joints (7,): rest pose of the null space.
        kp, kd (6,): gains. torque_limits (7, 2) N*m.
        gripper_bias, gripper_weight (2,): scale of the gripper's control; gripper_direction (2,): change of its
            action per substep; gripper_action (2,): its integrated action, in [-1, 1], updated in place.
        reset_state (26,): end-effector position 3, rotation 9, joint positions 7, joint velocities 7 of the reset
            pose; its jacobian (6, 7) and mass matrix (7, 7), Fortran order.
        jacobian (6, 7), position_jacobian (3, 7), rotation_jacobian (3, 7): overwritten; in upstream's memory layout.
        sample_before, sample_after (nq,): output.
        xipos (nbody, 3), xmat (nbody, 9): views into `data`.
        layout, structure, arena, places: where MuJoCo's contacts are; with an empty layout, nothing is recorded.
        watched, bodies, columns, rows, measured, pairs, motion, tally: the recording's inputs and outputs; see
            `NativeSubsteps`.
    """
    if layout.shape[0] > 0:
        tally[0], tally[1] = 0, 0
        tally[2] += 1
    nv = qvel.shape[0]
    jacobian_position = np.zeros((3, nv))
    jacobian_rotation = np.zeros((3, nv))
    full_mass = np.empty((nv, nv))
    mass = np.empty((7, 7)).T
    position = np.empty(3)
    rotation = np.empty((3, 3))
    joints = np.empty(7)
    velocities = np.empty(7)
    wrench = np.empty(6)
    for substep in range(substeps):
        if substep > 0:
            _mj_step1(model, data)
        for solve in range(warm_solves - 1 if stale and substep == 0 else warm_solves):
            if solve == 0:
                _mj_forward_skip(model, data, _AFTER_VELOCITIES, _NO_SENSORS)
            else:
                # Only the start of the solver differs from the first solve.
                _mj_fwd_constraint(model, data)
        if stale and substep == 0:
            position[:] = reset_state[0:3]
            rotation[:] = reset_state[3:12].reshape((3, 3))
            joints[:] = reset_state[12:19]
            velocities[:] = reset_state[19:26]
            jacobian[:] = reset_jacobian
            position_jacobian[:] = reset_jacobian[:3]
            rotation_jacobian[:] = reset_jacobian[3:]
            mass[:] = reset_mass
            linear = np.zeros(3)
            angular = np.zeros(3)
        else:
            position[:] = site_xpos[site]
            rotation[:] = site_xmat[site].copy().reshape((3, 3))
            joints[:] = qpos[:7]
            velocities[:] = qvel[:7]
            _mj_jac_site(model, data, jacobian_position.ctypes.data, jacobian_rotation.ctypes.data, site)
            linear = np.dot(jacobian_position, qvel)
            angular = np.dot(jacobian_rotation, qvel)
            for column in range(7):
                for row in range(3):
                    position_jacobian[row, column] = jacobian_position[row, column]
                    rotation_jacobian[row, column] = jacobian_rotation[row, column]
                    jacobian[row, column] = jacobian_position[row, column]
                    jacobian[row + 3, column] = jacobian_rotation[row, column]
            _mj_full_m(model, full_mass.ctypes.data, inertia.ctypes.data)
            for row in range(7):
                for column in range(7):
                    mass[row, column] = full_mass[row, column]
        force = (goal_position - position) * kp[0:3] + (-linear) * kd[0:3]
        error = orientation_error(goal_rotation, rotation)
        torque = error * kp[3:6] + (-angular) * kd[3:6]
        _, lambda_position, lambda_rotation, nullspace = opspace_matrices(
            mass, jacobian, position_jacobian, rotation_jacobian
        )
        wrench[0:3] = np.dot(lambda_position, force)
        wrench[3:6] = np.dot(lambda_rotation, torque)
        torques = np.dot(jacobian.T, wrench) + qfrc_bias[:7]
        torques += nullspace_torques(mass, nullspace, reset_joints, joints, velocities)
        for joint in range(7):
            ctrl[joint] = min(max(torques[joint], torque_limits[joint, 0]), torque_limits[joint, 1])
        for finger in range(2):
            action = gripper_action[finger] + gripper_direction[finger]
            action = min(max(action, -1.0), 1.0)
            gripper_action[finger] = action
            ctrl[7 + finger] = gripper_bias[finger] + gripper_weight[finger] * action
        if substep == sample_at:
            sample_before[:] = qpos
        _mj_step2(model, data)
        if substep == sample_at:
            sample_after[:] = qpos
        if layout.shape[0] > 0:
            # Forces exist only after mj_step2, for the contacts that its mj_step1 found.
            _record_substep(
                model,
                data,
                substep,
                xipos,
                xmat,
                layout,
                structure,
                arena,
                places,
                watched,
                bodies,
                columns,
                rows,
                measured,
                pairs,
                motion,
                tally,
            )


def _signature(layout: str) -> tuple[types.Type, ...]:
    integer, vector, matrix = types.int64, types.float64[::1], types.float64[:, ::1]
    theirs = types.Array(types.float64, 2, layout)
    integers, seen, vector_seen = types.int64[::1], (types.int32[::1],) * 2, vector
    return (
        *(integer,) * 5,
        *(types.boolean, integer),
        # qpos, qvel, qfrc_bias, ctrl; site_xpos, site_xmat; inertia.
        *(*(vector,) * 4, matrix, matrix, vector),
        # The goal, rest pose, gains, limits; the gripper.
        *(vector, matrix, *(vector,) * 3, matrix, *(vector,) * 4),
        # The reset pose; jacobians; samples.
        *(vector, *(types.Array(types.float64, 2, "F"),) * 2, *(theirs,) * 3, *(vector,) * 2),
        # Poses of bodies; where contacts are, which are only read; what is recorded.
        *(matrix, matrix, integers, *seen, vector_seen),
        *(types.int64[:, ::1], integers, integers, types.int32[:, ::1], matrix, types.int32[:, ::1]),
        *(types.float64[:, :, ::1], integers),
    )


keep(
    __name__,
    control_step,
    [_signature(layout) for layout in LAYOUTS],
    about="the native step",
    uses=[nullspace_torques, opspace_matrices, orientation_error],
)


def load_step(layout: str) -> None:
    """Load the machine code of a control step into this process; compile it once per machine if it is not cached.

    Args:
        layout: of `LAYOUTS`.
    """
    make_ready([*codes(control_step)[LAYOUTS.index(layout) :][:1], *rotation_code])
