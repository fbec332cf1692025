"""robosuite's own controller arithmetic, used as it is, so that results are bitwise its."""

from numba import types

from pytest_vla.scene.robosuite_import import quiet_robosuite
from pytest_vla.util.machine_code import codes, keep

with quiet_robosuite():
    from robosuite.utils.control_utils import (
        nullspace_torques,
        opspace_matrices,
        orientation_error,
        set_goal_orientation,
    )
    from robosuite.utils.transform_utils import (
        axisangle2quat,
        make_pose,
        mat2quat,
        pose_in_A_to_pose_in_B,
        pose_inv,
        quat2axisangle,
        quat2mat,
    )

# `set_goal_orientation` calls it, once a step.
keep(__name__, quat2mat, [(types.float64[::1],)], about="the native step")
rotation_code = codes(quat2mat)
# `pytest_vla.policies.view.axis_angle_of_6d` does.
keep(__name__, mat2quat, [(types.float64[:, ::1],)], about="rotations of six numbers")
quaternion_code = codes(mat2quat)

__all__ = [
    "axisangle2quat",
    "make_pose",
    "mat2quat",
    "nullspace_torques",
    "opspace_matrices",
    "orientation_error",
    "pose_in_A_to_pose_in_B",
    "pose_inv",
    "quat2axisangle",
    "quat2mat",
    "quaternion_code",
    "rotation_code",
    "set_goal_orientation",
]
