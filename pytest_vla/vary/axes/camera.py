"""Variations of the front camera: how far, from where and which way it looks, and how wide; the wrist's stays as it is.

It is turned about the point where its optical axis meets the height of the workspace, so that the view stays centred.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import NEEDS_CAMERA, Task
from pytest_vla.scene.scene import FRONT_CAMERA
from pytest_vla.scene.variation import Edits, ModelEdit, Params, part_number
from pytest_vla.vary.kind import LEVELS, PICTURE, Draw, VariationKind, always
from pytest_vla.vary.space import CHOICE, NUMBER, Parameter, Space

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec

DIMENSION = "camera"
VIEWS = THIRD_PERSON, WRIST, ALL = ("third_person", "wrist", "all")
"""What `blackout` blinds: the cameras that look from outside, the one on the hand, or all."""

# Of level 5; a level has so many fifths of it.
MOST_FARTHER = 1.0
MOST_AZIMUTH = 75.0
MOST_ELEVATION = 30.0
MOST_TURN = 10.0
MOST_NARROWER, MOST_WIDER = 0.25, 0.5
"""Of the field of view. In a still narrower one what stands at the edge, as LIBERO-Goal's rack, would not be seen."""

_NEAREST = 0.1
"""How far (m) ahead of a camera its look-at point is at least."""

_Apply = Callable[["mujoco.MjModel", "SceneSpec", int], None]


def _sign(draw: Draw, kind: str) -> int:
    return draw.shared(f"{DIMENSION}.{kind}").choice((-1, 1))


def _check_seen(task: Task) -> None:
    if task.scene is None and FRONT_CAMERA not in task.protocol.cameras:
        raise VlaError(f"{task.suite} has no camera {FRONT_CAMERA}, so nothing would change")


def _moved(task: Task, arrays: tuple[str, ...], apply: _Apply) -> Edits:
    """Return edits that write to the front camera's entries in the model's arrays."""
    _check_seen(task)

    def edit(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        apply(model, scene, camera_id(model, scene))

    return Edits(model=(ModelEdit(arrays, edit),))


def camera_id(model: "mujoco.MjModel", scene: "SceneSpec") -> int:
    """Return the number of the camera that looks from outside. Raises VlaError if the model has none of its name."""
    return part_number(model, "camera", scene.camera)


def look_at_point(model: "mujoco.MjModel", scene: "SceneSpec", camera: int) -> "NDArray[np.float64]":
    """Return where a camera's optical axis meets the height of the workspace, (3,) in m.

    In a suite's own world, whose camera may look along the table, it is the axis' nearest point to the middle.
    """
    from pytest_vla.util.rotations import look_at, view_direction

    position, quaternion = model.cam_pos[camera], model.cam_quat[camera]
    if scene.own is None:
        return look_at(position, quaternion, scene.middle[2])
    direction = view_direction(quaternion)
    ahead = float((scene.middle - position) @ direction)
    found: NDArray[np.float64] = position + max(ahead, _NEAREST) * direction
    return found


def farther_away(task: Task, params: Params) -> Edits:
    """Return edits that multiply the camera's distance from the look-at point by ``factor``."""

    def apply(model: "mujoco.MjModel", scene: "SceneSpec", camera: int) -> None:
        from pytest_vla.util.rotations import farther

        point = look_at_point(model, scene, camera)
        model.cam_pos[camera] = farther(model.cam_pos[camera], point, params["factor"])

    return _moved(task, ("cam_pos",), apply)


def draw_azimuth(draw: Draw) -> Params:
    """Draw the side to which the camera moves."""
    return {"azimuth_deg": round(_sign(draw, "azimuth") * MOST_AZIMUTH * draw.share, 3)}


def around(task: Task, params: Params) -> Edits:
    """Return edits that move the camera around the table, about the vertical through the look-at point."""

    def apply(model: "mujoco.MjModel", scene: "SceneSpec", camera: int) -> None:
        from pytest_vla.util.rotations import VERTICAL, turned

        pose, point = (model.cam_pos[camera], model.cam_quat[camera]), look_at_point(model, scene, camera)
        angle = math.radians(params["azimuth_deg"])
        model.cam_pos[camera], model.cam_quat[camera] = turned(*pose, point, VERTICAL, angle)

    return _moved(task, ("cam_pos", "cam_quat"), apply)


def higher(task: Task, params: Params) -> Edits:
    """Return edits that raise the camera about the look-at point, at the same distance."""

    def apply(model: "mujoco.MjModel", scene: "SceneSpec", camera: int) -> None:
        from pytest_vla.util.rotations import raised

        pose, point = (model.cam_pos[camera], model.cam_quat[camera]), look_at_point(model, scene, camera)
        angle = math.radians(params["elevation_deg"])
        model.cam_pos[camera], model.cam_quat[camera] = raised(*pose, point, angle)

    return _moved(task, ("cam_pos", "cam_quat"), apply)


def draw_orientation(draw: Draw) -> Params:
    """Draw the rotation axis, a mixture of pitch, yaw and roll; the total angle follows from the level."""
    return {"angle_deg": round(MOST_TURN * draw.share, 3), "axis_pitch_yaw_roll": _unit_vector(draw)}


def turned_in_place(task: Task, params: Params) -> Edits:
    """Return edits that rotate the camera in place about ``axis_pitch_yaw_roll``."""

    def apply(model: "mujoco.MjModel", scene: "SceneSpec", camera: int) -> None:
        from pytest_vla.util.rotations import reoriented

        angle = math.radians(params["angle_deg"])
        model.cam_quat[camera] = reoriented(model.cam_quat[camera], params["axis_pitch_yaw_roll"], angle)

    return _moved(task, ("cam_quat",), apply)


def _unit_vector(draw: Draw) -> list[float]:
    """Draw a unit vector, uniform over the sphere."""
    generator = draw.shared("camera.orientation")
    while True:
        vector = [generator.uniform(-1, 1) for _ in range(3)]
        length = math.hypot(*vector)
        if 0.1 < length <= 1:
            return [round(value / length, 4) for value in vector]


def field_of_view(task: Task, params: Params) -> Edits:
    """Return edits that multiply the camera's field of view by ``factor``."""

    def apply(model: "mujoco.MjModel", scene: "SceneSpec", camera: int) -> None:
        model.cam_fovy[camera] *= params["factor"]

    return _moved(task, ("cam_fovy",), apply)


def blinded(task: Task, params: Params) -> Edits:
    """Return edits that blacken the pictures of the outside cameras, the wrist camera, or all.

    Raises:
        VlaError: the suite has none of these cameras.
    """
    view = params["view"]
    cameras = tuple(camera for camera in task.protocol.cameras if view in (ALL, _view_of(task, camera)))
    if not cameras:
        raise VlaError(f"{task.suite} has no such camera; it has {', '.join(task.protocol.cameras)}")

    def begin() -> "Callable[[NDArray[np.uint8], str, int], NDArray[np.uint8]]":
        return lambda picture, camera, step: picture * 0 if camera in cameras else picture

    return Edits(pictures=(begin,), told={"view": view, "cameras": list(cameras)})


def _view_of(task: Task, camera: str) -> str:
    if task.scene is not None:
        return THIRD_PERSON if camera in task.scene.views else WRIST
    return WRIST if "eye_in_hand" in camera else THIRD_PERSON


def _of(*parameters: Parameter) -> Space:
    """Return the parameter space for the camera's pose, for any task that has the camera."""

    def space(task: Task) -> tuple[Parameter, ...]:
        _check_seen(task)
        return parameters

    return space


_MOVED = partial(VariationKind, levels=LEVELS, uneven=(PICTURE,), needs=(NEEDS_CAMERA,), in_sight=True)

KINDS = (
    _MOVED(
        "camera.distance",
        "the front camera farther from its look-at point",
        "ours, with LIBERO-Plus's range",
        lambda draw: {"factor": round(1 + MOST_FARTHER * draw.share, 3)},
        farther_away,
        _of(Parameter("factor", NUMBER, 1.0, 1 + MOST_FARTHER, 1.0)),
        grades=f"{1 + MOST_FARTHER / 5:g} to {1 + MOST_FARTHER:g} times the distance",
    ),
    _MOVED(
        "camera.azimuth",
        "the front camera moved around the table, to a random side",
        "ours, with LIBERO-Plus's range",
        draw_azimuth,
        around,
        _of(Parameter("azimuth_deg", NUMBER, -MOST_AZIMUTH, MOST_AZIMUTH, 0.0, unit="deg")),
        grades=f"{MOST_AZIMUTH / 5:g} to {MOST_AZIMUTH:g} degrees",
        again=always,
    ),
    _MOVED(
        "camera.elevation",
        "the front camera raised, looking down more steeply",
        "ours (LIBERO-Plus has 15 degrees)",
        lambda draw: {"elevation_deg": round(MOST_ELEVATION * draw.share, 3)},
        higher,
        _of(Parameter("elevation_deg", NUMBER, 0.0, MOST_ELEVATION, 0.0, unit="deg")),
        grades=f"{MOST_ELEVATION / 5:g} to {MOST_ELEVATION:g} degrees",
    ),
    _MOVED(
        "camera.orientation",
        "the front camera rotated in place, by a random mixture of pitch, yaw and roll",
        "ours, with LIBERO-Plus's range (LIBERO-Plus has no roll)",
        draw_orientation,
        turned_in_place,
        _of(
            Parameter("angle_deg", NUMBER, 0.0, MOST_TURN, 0.0, unit="deg"),
            Parameter("axis_pitch_yaw_roll", NUMBER, -1.0, 1.0, shape=(3,)),
        ),
        grades=f"{MOST_TURN / 5:g} to {MOST_TURN:g} degrees in total",
        again=always,
    ),
    _MOVED(
        "camera.narrower",
        "a narrower field of view: everything looks larger",
        "ours",
        lambda draw: {"factor": round(1 - MOST_NARROWER * draw.share, 3)},
        field_of_view,
        _of(Parameter("factor", NUMBER, 1 - MOST_NARROWER, 1.0, 1.0)),
        grades=f"{MOST_NARROWER / 5:.0%} to {MOST_NARROWER:.0%} narrower",
    ),
    _MOVED(
        "camera.wider",
        "a wider field of view: everything looks smaller",
        "ours",
        lambda draw: {"factor": round(1 + MOST_WIDER * draw.share, 3)},
        field_of_view,
        _of(Parameter("factor", NUMBER, 1.0, 1 + MOST_WIDER, 1.0)),
        grades=f"{MOST_WIDER / 5:.0%} to {MOST_WIDER:.0%} wider",
    ),
    VariationKind(
        "camera.blackout",
        "black pictures from the third-person cameras, the wrist camera, or all: does the policy need vision?",
        "LIBERO-Plus (probe)",
        lambda draw: {"view": draw.part},
        blinded,
        lambda task: (Parameter("view", CHOICE, choices=VIEWS),),
        parts=lambda: VIEWS,
        by_name=True,
        probe=True,
        part_is="view",
        needs=(),
    ),
)
