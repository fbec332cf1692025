"""What two versions of robosuite do differently with the same Panda: names, goals, gripper, what a reset leaves behind.

Facts from robosuite 1.4.0 (which LIBERO runs on) and 1.5.1 (VLA-Arena), ``controllers``, ``robots``,
``environments/base.py`` and ``models/grippers/panda_gripper.py``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """A version of robosuite, as far as a world can tell.

    Attributes:
        robosuite: the version that is reproduced, whichever is installed.
        gripper, mount: what the names of the gripper's and the mount's parts begin with.
        gripper_speed: by how much the gripper's action, in [-1, 1], changes at a time.
        gripper_each_substep: whether it changes in every substep of 2 ms; else in the first of a control step.
        keeps_orientation: whether the goal orientation stays as it is where an action turns nothing; else it is based
            on the achieved one at every control step.
        goals_in_base_frame: whether goals are kept in the frame of the arm's base (which rounds otherwise), and turns
            go through quaternions of single precision.
        has_later_parts: whether the model has the parts that came later: a hull of the arm's last link, a site in its
            foot, and two idle bodies (mocap ids 0 and 1).
        forwards: how many times a substep of upstream solves the constraints before its own.
    """

    robosuite: str
    gripper: str
    mount: str
    gripper_speed: float
    gripper_each_substep: bool
    keeps_orientation: bool
    goals_in_base_frame: bool
    has_later_parts: bool
    forwards: int

    @property
    def grip_site(self) -> str:
        """The site between the fingers, which the controller moves."""
        return f"{self.gripper}grip_site"

    @property
    def robot_parts(self) -> tuple[str, ...]:
        """What the names of the robot's bodies, geoms and joints begin with."""
        return ("robot0_", self.gripper, self.mount)


ROBOSUITE_1_4 = Profile(
    robosuite="1.4.0",
    gripper="gripper0_",
    mount="mount0_",
    gripper_speed=0.01,
    gripper_each_substep=True,
    keeps_orientation=True,
    goals_in_base_frame=False,
    has_later_parts=False,
    forwards=2,
)
"""What LIBERO runs on."""

ROBOSUITE_1_5 = Profile(
    robosuite="1.5.1",
    gripper="gripper0_right_",
    mount="fixed_mount0_",
    gripper_speed=0.2,
    gripper_each_substep=False,
    keeps_orientation=False,
    goals_in_base_frame=True,
    has_later_parts=True,
    forwards=0,
)
"""What VLA-Arena runs on."""

PROFILES = (ROBOSUITE_1_4, ROBOSUITE_1_5)
