"""Variations of the front camera: how far, from where and which way it looks, and how wide; the wrist's stays as it is.

It is turned about the point where its optical axis meets the height of the workspace, so that the view stays centred.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.scene.variation import ModelEdit, Variation
from pytest_vla.scene.workspaces import workspace
from pytest_vla.vary.kind import LEVELS, PICTURE, Draw, Kind

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import Scene

DIMENSION = "camera"
CAMERA = "agentview"

VIEWS = THIRD_PERSON, WRIST, ALL = ("third_person", "wrist", "all")
"""What `blackout` blinds: the cameras that look from outside, the one on the hand, or all."""

# Of level 5; a level has so many fifths of it.
MOST_FARTHER = 1.0
MOST_AZIMUTH = 75.0
MOST_ELEVATION = 30.0
MOST_TURN = 10.0
MOST_NARROWER, MOST_WIDER = 0.25, 0.5
"""Of the field of view. In a still narrower one what stands at the edge, as LIBERO-Goal's rack, would not be seen."""

_Apply = Callable[["mujoco.MjModel", "Scene", int], None]


def _sign(draw: Draw, kind: str) -> int:
    return draw.shared(f"{DIMENSION}.{kind}").choice((-1, 1))


def _moved(
    draw: Draw,
    kind: str,
    parameters: dict[str, Any],
    arrays: tuple[str, ...],
    apply: _Apply,
    again: Callable[[Draw], Variation] | None = None,
) -> Variation:
    """The variation of a kind; `again`: makes it of another draw, where anything was drawn."""
    if CAMERA not in draw.task.protocol.cameras:
        raise VlaError(f"{draw.task.suite} has no pictures of {CAMERA}, so nothing would be another")

    def edit(model: "mujoco.MjModel", scene: "Scene") -> None:
        apply(model, scene, model.camera(CAMERA).id)

    return Variation(
        draw.label,
        DIMENSION,
        kind,
        draw.level,
        parameters,
        model=(ModelEdit(arrays, edit),),
        in_sight=True,
        redraw=(lambda time: again(draw.again(time))) if again else None,
    )


def workspace_height(scene: "Scene") -> float:
    """The height (m) of a scene's table top or floor."""
    return workspace(scene.problem, scene.problem).offset[2]


def distance(draw: Draw) -> Variation:
    """So many times as far from the look-at point, in the same direction. Nothing is drawn."""
    factor = round(1 + MOST_FARTHER * draw.share, 3)

    def apply(model: "mujoco.MjModel", scene: "Scene", camera: int) -> None:
        from pytest_vla.util.rotations import farther, look_at

        point = look_at(model.cam_pos[camera], model.cam_quat[camera], workspace_height(scene))
        model.cam_pos[camera] = farther(model.cam_pos[camera], point, factor)

    return _moved(draw, "distance", {"factor": factor}, ("cam_pos",), apply)


def azimuth(draw: Draw) -> Variation:
    """Around the table, about the vertical through the look-at point; the side is drawn."""
    angle = round(_sign(draw, "azimuth") * MOST_AZIMUTH * draw.share, 3)

    def apply(model: "mujoco.MjModel", scene: "Scene", camera: int) -> None:
        from pytest_vla.util.rotations import VERTICAL, look_at, turned

        pose = model.cam_pos[camera], model.cam_quat[camera]
        point = look_at(*pose, workspace_height(scene))
        model.cam_pos[camera], model.cam_quat[camera] = turned(*pose, point, VERTICAL, math.radians(angle))

    return _moved(draw, "azimuth", {"azimuth_deg": angle}, ("cam_pos", "cam_quat"), apply, azimuth)


def elevation(draw: Draw) -> Variation:
    """Higher, about the look-at point, at the same distance. Nothing is drawn."""
    angle = round(MOST_ELEVATION * draw.share, 3)

    def apply(model: "mujoco.MjModel", scene: "Scene", camera: int) -> None:
        from pytest_vla.util.rotations import look_at, raised

        pose = model.cam_pos[camera], model.cam_quat[camera]
        point = look_at(*pose, workspace_height(scene))
        model.cam_pos[camera], model.cam_quat[camera] = raised(*pose, point, math.radians(angle))

    return _moved(draw, "elevation", {"elevation_deg": angle}, ("cam_pos", "cam_quat"), apply)


def orientation(draw: Draw) -> Variation:
    """Turned in place about a drawn axis: pitch, yaw and roll mixed, of one total angle."""
    angle = round(MOST_TURN * draw.share, 3)
    axis = _unit_vector(draw)

    def apply(model: "mujoco.MjModel", scene: "Scene", camera: int) -> None:
        from pytest_vla.util.rotations import reoriented

        model.cam_quat[camera] = reoriented(model.cam_quat[camera], axis, math.radians(angle))

    parameters = {"angle_deg": angle, "axis_pitch_yaw_roll": axis}
    return _moved(draw, "orientation", parameters, ("cam_quat",), apply, orientation)


def _unit_vector(draw: Draw) -> list[float]:
    """Evenly over the sphere."""
    generator = draw.shared("camera.orientation")
    while True:
        vector = [generator.uniform(-1, 1) for _ in range(3)]
        length = math.hypot(*vector)
        if 0.1 < length <= 1:
            return [round(value / length, 4) for value in vector]


def narrower(draw: Draw) -> Variation:
    """A narrower field of view: all is larger, and what is at the edge is gone. Nothing is drawn."""
    return _field_of_view(draw, "narrower", round(1 - MOST_NARROWER * draw.share, 3))


def wider(draw: Draw) -> Variation:
    """A wider field of view: all is smaller, and more is seen around it. Nothing is drawn."""
    return _field_of_view(draw, "wider", round(1 + MOST_WIDER * draw.share, 3))


def _field_of_view(draw: Draw, kind: str, factor: float) -> Variation:
    def apply(model: "mujoco.MjModel", scene: "Scene", camera: int) -> None:
        model.cam_fovy[camera] *= factor

    return _moved(draw, kind, {"factor": factor}, ("cam_fovy",), apply)


def blackout(draw: Draw) -> Variation:
    """Black pictures, of the cameras that look from outside, of the wrist's, or of all.

    Raises:
        VlaError: the suite has none of them.
    """
    cameras = tuple(
        camera for camera in draw.task.protocol.cameras if draw.part == ALL or _view_of(camera) == draw.part
    )
    if not cameras:
        raise VlaError(f"{draw.task.suite} has no such camera; it has {', '.join(draw.task.protocol.cameras)}")

    def begin() -> "Callable[[NDArray[np.uint8], str, int], NDArray[np.uint8]]":
        return lambda picture, camera, step: picture * 0 if camera in cameras else picture

    parameters = {"view": draw.part, "cameras": list(cameras)}
    return Variation(draw.label, DIMENSION, "blackout", None, parameters, pictures=(begin,), probe=True)


def _view_of(camera: str) -> str:
    return WRIST if "eye_in_hand" in camera else THIRD_PERSON


KINDS = (
    Kind(
        "camera.distance",
        "the front camera farther from the point it looks at",
        "ours, with LIBERO-Plus's range",
        distance,
        LEVELS,
        f"{1 + MOST_FARTHER / 5:g} to {1 + MOST_FARTHER:g} times as far",
        uneven=(PICTURE,),
    ),
    Kind(
        "camera.azimuth",
        "the front camera moved around the table, to a drawn side",
        "ours, with LIBERO-Plus's range",
        azimuth,
        LEVELS,
        f"{MOST_AZIMUTH / 5:g} to {MOST_AZIMUTH:g} degrees",
        uneven=(PICTURE,),
    ),
    Kind(
        "camera.elevation",
        "the front camera higher, looking down more steeply",
        "ours; LIBERO-Plus has 15 degrees",
        elevation,
        LEVELS,
        f"{MOST_ELEVATION / 5:g} to {MOST_ELEVATION:g} degrees",
        uneven=(PICTURE,),
    ),
    Kind(
        "camera.orientation",
        "the front camera turned in place: pitch, yaw and roll in a drawn mixture",
        "ours, with LIBERO-Plus's range; it has no roll",
        orientation,
        LEVELS,
        f"{MOST_TURN / 5:g} to {MOST_TURN:g} degrees in all",
        uneven=(PICTURE,),
    ),
    Kind(
        "camera.narrower",
        "a narrower field of view, so that all is larger",
        "ours",
        narrower,
        LEVELS,
        f"{MOST_NARROWER / 5:.0%} to {MOST_NARROWER:.0%} less",
        uneven=(PICTURE,),
    ),
    Kind(
        "camera.wider",
        "a wider field of view, so that all is smaller",
        "ours",
        wider,
        LEVELS,
        f"{MOST_WIDER / 5:.0%} to {MOST_WIDER:.0%} more",
        uneven=(PICTURE,),
    ),
    Kind(
        "camera.blackout",
        "black pictures, of the cameras from outside, of the wrist's, or of all: what does the policy do unseeing?",
        "a probe, LIBERO-Plus's",
        blackout,
        parts=lambda: VIEWS,
        by_name=True,
    ),
)
