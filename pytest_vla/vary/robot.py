"""Variations of how the arm stands when an episode begins."""

from typing import TYPE_CHECKING

from pytest_vla.errors import RedrawError
from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.scene.workspaces import workspace
from pytest_vla.variation import Variation
from pytest_vla.vary.kind import LEVELS, Draw, Kind
from pytest_vla.vary.layout_objects import in_picture

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import Scene

_NORM = 0.1
_APART = 0.03
"""How near (m) the arm may be to anything: its fingers open by 0.02 m while the scene settles."""
_PICTURE = 0.9
"""How far from the middle of the front camera's picture the hand may be, of half its side: it stays to be seen."""


def joints(draw: Draw) -> Variation:
    """The arm rests `level` tenths of a radian from its own pose, in a drawn direction of the seven joints' space.

    The direction is the same for all levels: one in which at every level the hand is in the picture and nothing is in
    the arm's way. No joint comes near its limit: the nearest is 0.62 rad away from rest.
    """
    drawn = draw.shared("robot.joints")
    direction = [drawn.gauss(0.0, 1.0) for _ in REST_JOINTS]
    length = sum(number * number for number in direction) ** 0.5
    offsets = {
        level: [round(round(_NORM * level, 2) * number / length, 8) for number in direction] for level in LEVELS
    }
    poses = {
        level: tuple(round(rest + moved, 8) for rest, moved in zip(REST_JOINTS, offset, strict=True))
        for level, offset in offsets.items()
    }
    pose = poses[draw.level]

    def place(model: "mujoco.MjModel", scene: "Scene", state: "NDArray[np.float64]") -> None:
        from pytest_vla.sim.clearance import Clearance

        clearance, camera = Clearance(model, scene), workspace(scene.problem, scene.problem).cameras[0]
        qpos = state[1 : 1 + model.nq].copy()
        for level, other in poses.items():
            qpos[: len(other)] = other
            if not all(in_picture(camera, point.tolist(), _PICTURE) for point in clearance.hand(qpos)):
                raise RedrawError(f"{draw.label}: the hand would begin outside of the picture at level {level}")
            if touched := clearance.in_robots_way(qpos, _APART):
                raise RedrawError(f"{draw.label}: the arm would begin in {touched} at level {level}")
        state[1 : 1 + len(pose)] = pose

    return Variation(
        draw.label,
        "robot",
        "joints",
        draw.level,
        {"norm": round(_NORM * draw.level, 2), "offset": offsets[draw.level]},
        state=(place,),
        rest_joints=pose,
        redraw=lambda time: joints(draw.again(time)),
    )


KINDS = (
    Kind(
        "robot.joints",
        "the arm begins in another pose, the hand in the picture",
        "LIBERO-Plus's range, drawn by us",
        joints,
        levels=LEVELS,
        grades="0.1 to 0.5 rad away in joint space, the hand 3 to 14 cm on average",
    ),
)
