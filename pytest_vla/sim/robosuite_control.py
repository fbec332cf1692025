"""robosuite's own controller arithmetic, used as it is, so that results are bitwise its."""

from pytest_vla.scene.robosuite_import import quiet_robosuite

with quiet_robosuite():
    from robosuite.utils.control_utils import (
        nullspace_torques,
        opspace_matrices,
        orientation_error,
        set_goal_orientation,
    )
    from robosuite.utils.transform_utils import make_pose, pose_in_A_to_pose_in_B, pose_inv, quat2axisangle

__all__ = [
    "make_pose",
    "nullspace_torques",
    "opspace_matrices",
    "orientation_error",
    "pose_in_A_to_pose_in_B",
    "pose_inv",
    "quat2axisangle",
    "set_goal_orientation",
]
