"""Variations of how the arm stands when an episode begins."""

from typing import TYPE_CHECKING

from pytest_vla.errors import RedrawError
from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.variation import Variation
from pytest_vla.vary.kind import Draw, Kind

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import Scene

_NORM = 0.1
_APART = 0.03
"""How near (m) the arm may be to anything: its fingers open by 0.02 m while the scene settles."""


def joints(draw: Draw) -> Variation:
    """The arm rests `level` tenths of a radian from its own pose, in a drawn direction of the seven joints' space.

    The direction is the same for all levels.
    No joint comes near its limit: the nearest is 0.62 rad away from rest.
    """
    norm, drawn = round(_NORM * draw.level, 2), draw.shared("robot.joints")
    direction = [drawn.gauss(0.0, 1.0) for _ in REST_JOINTS]
    length = sum(number * number for number in direction) ** 0.5
    offset = [round(norm * number / length, 8) for number in direction]
    pose = tuple(round(rest + moved, 8) for rest, moved in zip(REST_JOINTS, offset, strict=True))

    def place(model: "mujoco.MjModel", scene: "Scene", state: "NDArray[np.float64]") -> None:
        from pytest_vla.sim.clearance import Clearance

        state[1 : 1 + len(pose)] = pose
        if touched := Clearance(model, scene).in_robots_way(state[1 : 1 + model.nq], _APART):
            raise RedrawError(f"{draw.label}: the arm would begin in {touched}")

    return Variation(
        draw.label,
        "robot",
        "joints",
        draw.level,
        {"norm": norm, "offset": offset},
        state=(place,),
        rest_joints=pose,
        redraw=lambda time: joints(draw.again(time)),
    )


KINDS = (
    Kind(
        "robot.joints",
        "the arm begins in another pose",
        "LIBERO-Plus's range, drawn by us",
        joints,
        levels=(1, 2, 3, 4, 5),
        grades="0.1 to 0.5 rad away in joint space",
    ),
)
