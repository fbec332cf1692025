"""A policy's view of the world, as the protocol's evaluator shows it: pictures, state, and its actions' gripper."""

import functools
import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.plan.choices import AS_GIVEN, CONTROLLER_6D, ONE_CLOSES, ONE_OPENS, SIGN, picture_steps
from pytest_vla.plan.task import Protocol
from pytest_vla.policies.base import Observation
from pytest_vla.policies.fit import ACTION_SIZE, OPENS, traits_of
from pytest_vla.util.extras import required

Picture = NDArray[Any]

# The world's pictures are upright (raw[::-1]). Raw turned by 180 degrees, raw[::-1, ::-1], is upright mirrored.
_TURNS: Mapping[str, Callable[[Picture], Picture]] = {
    "none": lambda upright: upright,
    "rotate_180": lambda upright: upright[:, ::-1],
    "raw": lambda upright: upright[::-1],
}

_WRIST = "robot0_eye_in_hand_image"


def policy_view(
    observation: Observation, protocol: Protocol | None = None, state: NDArray[np.float64] | None = None
) -> Observation:
    """Return the observation as the protocol shows it to a policy; pictures are rendered and changed when read.

    Args:
        observation: the world's, pictures upright.
        protocol: its `image_transform`, `wrist_transform` and `state` are applied; None changes nothing.
        state: shown instead of the observation's, or None.
    """
    return _View(observation, protocol, state)


def transformed(picture: Picture, transform: str) -> Picture:
    """Return an upright picture (h, w, 3) uint8 after the steps of a transform, `picture_steps`.

    "rotate_180" is named after its effect on MuJoCo's raw picture. Raises VlaError as `jpeg_coded`.
    """
    for name, number in picture_steps(transform):
        if name in _TURNS:
            picture = np.ascontiguousarray(_TURNS[name](picture))
        elif name == "pad":
            picture = resize_with_padding(picture, int(number), int(number))
        elif name == "jpeg":
            picture = jpeg_coded(picture, int(number))
        elif name == "lanczos":
            picture = resize_lanczos(picture, int(number), int(number))
        else:
            picture = centre_crop(picture, number)
    return picture


def as_rendered(picture: Picture, turn: str) -> Picture:
    """Return a picture (h, w, 3) as the camera rendered it, from one after a turn, one of `IMAGE_TRANSFORMS`."""
    # Each turn undoes itself.
    return np.ascontiguousarray(_TURNS["raw"](_TURNS[turn](picture)))


# The state: end-effector position (m), orientation, two finger positions (m); or X-VLA's.


def state_of(observation: Observation, form: str) -> NDArray[Any]:
    """Return the state of an observation in one of the forms `STATES`: (8,), or (10,) for the last one.

    - ``axis_angle``: robosuite's formula, with an angle in [0, 2 pi]; openpi's, OpenVLA's and GR00T's clients.
    - ``axis_angle_float32``: the same in float32, and zero where the sine of half the angle is at most 1e-10; lerobot's
      ``processor/env_processor.py``.
    - ``axis_angle_antipodal``: of the shorter turn, an angle in [0, pi]; vla-eval's ``rotation.py``.
    - ``controller_6d``: the controller's position, the six numbers of its rotation, and 0 for the gripper; X-VLA's
      client. That shows it once: later it feeds back `pose_6d` of the last action that it got, as a rollout does.
    """
    if form == CONTROLLER_6D:
        rotation = rotation_6d(observation["controller_mat"])
        return np.concatenate([observation["controller_pos"], rotation, [0.0]])
    if form == "axis_angle":
        return observation["state"]
    quaternion = observation["robot0_eef_quat"]
    if form == "axis_angle_float32":
        parts = (observation["robot0_eef_pos"], _axis_angle_float32(quaternion), observation["robot0_gripper_qpos"])
        return np.concatenate([np.asarray(part, dtype=np.float32) for part in parts])
    shorter = _shorter_axis_angle(quaternion)
    return np.concatenate([observation["robot0_eef_pos"], shorter, observation["robot0_gripper_qpos"]])


def _axis_angle_float32(quaternion: NDArray[Any]) -> NDArray[np.float32]:
    x = np.asarray(quaternion, dtype=np.float32)
    w = np.clip(x[3], np.float32(-1), np.float32(1))
    sine = np.sqrt(np.clip(np.float32(1) - w * w, np.float32(0), None))
    if sine <= 1e-10:
        return np.zeros(3, dtype=np.float32)
    return np.asarray(x[:3] / sine * (np.float32(2) * np.arccos(w)), dtype=np.float32)


def _shorter_axis_angle(quaternion: NDArray[Any]) -> NDArray[np.float32]:
    shorter = -quaternion if quaternion[3] < 0 else quaternion
    w = float(np.clip(shorter[3], -1, 1))
    sine = np.sqrt(1 - w * w)
    if sine < 1e-8:
        return np.zeros(3, dtype=np.float32)
    return np.asarray(shorter[:3] / sine * (2 * np.arccos(w)), dtype=np.float32)


# Rotations as six numbers: the first two columns of the matrix, one after the other.


def rotation_6d(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the six numbers (..., 6) of rotation matrices (..., 3, 3): the first column, then the second."""
    return np.concatenate([matrix[..., 0], matrix[..., 1]], axis=-1)


def rotation_6d_of(axis_angle: NDArray[Any]) -> NDArray[np.float64]:
    """Return the six numbers (..., 6) of rotations about an axis, (..., 3) in rad."""
    turns = np.asarray(axis_angle, dtype=np.float64)
    angle = np.linalg.norm(turns, axis=-1, keepdims=True)
    # Rodrigues' formula; np.sinc keeps it exact about 0.
    sine, cosine = np.sinc(angle / np.pi), np.sinc(angle / (2 * np.pi)) ** 2 / 2
    columns = []
    for unit in np.eye(3)[:2]:
        once = np.cross(turns, unit)
        columns.append(unit + sine * once + cosine * np.cross(turns, once))
    return np.concatenate(columns, axis=-1)


def axis_angle_of_6d(rotations: NDArray[Any]) -> NDArray[np.float64]:
    """Return rotations about an axis, (..., 3) in rad, angles from 0 to pi, from six numbers each, (..., 6).

    As X-VLA's client does it: the columns are made orthonormal up to 1e-6, and robosuite's ``mat2quat`` and
    ``quat2axisangle`` convert them, in single precision.
    """
    from pytest_vla.sim.robosuite_control import mat2quat, quat2axisangle, quaternion_code
    from pytest_vla.util.machine_code import make_ready

    make_ready(quaternion_code)
    numbers = np.asarray(rotations, dtype=np.float64)
    first = _shortened(numbers[..., :3])
    second = _shortened(numbers[..., 3:] - np.sum(first * numbers[..., 3:], axis=-1, keepdims=True) * first)
    matrices = np.stack([first, second, np.cross(first, second)], axis=-1).reshape(-1, 3, 3)
    turns = [quat2axisangle(mat2quat(matrix)) for matrix in matrices]
    return np.array(turns, dtype=np.float64).reshape(*numbers.shape[:-1], 3)


def _shortened(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return vectors (..., 3) of a length of nearly 1."""
    return np.asarray(columns / (np.linalg.norm(columns, axis=-1, keepdims=True) + 1e-6))


def pose_6d(action: NDArray[Any]) -> NDArray[np.float64]:
    """Return the pose of an absolute action (7,) or (10,) as X-VLA's state (10,): position, six numbers, 0."""
    rotation = rotation_6d_of(action[3:6]) if len(action) == ACTION_SIZE else action[3:9]
    return np.concatenate([action[:3], rotation, [0.0]])


# Actions.


def actions_of_6d(chunk: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return absolute actions (k, 7) from X-VLA's (k, 10): position, six numbers, gripper."""
    return np.concatenate([chunk[:, :3], axis_angle_of_6d(chunk[:, 3:9]), chunk[:, 9:]], axis=1)


def gripper_of(value: float, rule: str) -> float:
    """Return an action's gripper value (-1 opens, 1 closes) from a policy's, by one of `GRIPPER_RULES`.

    - ``as_given``: unchanged.
    - ``sign``: -1 below 0, else 1; vla-eval.
    - ``one_opens``: of [0, 1], where 1 opens: -1 above .5, 1 below, 0 at .5; OpenVLA and GR00T.
    - ``one_closes``: of [0, 1], where 1 closes: 1 above .5, else -1; X-VLA.
    """
    if rule == ONE_CLOSES:
        return 1.0 if value > 0.5 else -1.0
    if rule == SIGN:
        return -1.0 if value < 0 else 1.0
    if rule == ONE_OPENS:
        return -float(np.sign(2 * value - 1))
    return value


def converts_gripper(policy: object, protocol: Protocol) -> bool:
    """Whether the protocol's gripper rule applies to a policy's actions.

    It does unless the policy's traits say that -1 opens and 1 closes already, as they do for policies that were made
    for any suite.
    """
    return protocol.gripper != AS_GIVEN and not (protocol.gripper == ONE_OPENS and traits_of(policy).gripper == OPENS)


def resize_with_padding(picture: Picture, height: int, width: int) -> Picture:
    """Resize a picture (h, w, 3) uint8 to (height, width, 3), keeping its aspect ratio, with black borders.

    Bilinear interpolation by Pillow: bit for bit the same as in openpi's and vla-eval's clients.
    """
    if picture.shape[:2] == (height, width):
        return picture
    from PIL import Image

    ratio = max(picture.shape[1] / width, picture.shape[0] / height)
    inner_height, inner_width = int(picture.shape[0] / ratio), int(picture.shape[1] / ratio)
    top, left = (height - inner_height) // 2, (width - inner_width) // 2
    resized = Image.fromarray(picture).resize((inner_width, inner_height), resample=Image.Resampling.BILINEAR)
    padded = np.zeros((height, width, 3), dtype=np.uint8)
    padded[top : top + inner_height, left : left + inner_width] = np.asarray(resized)
    return padded


# The pictures of OpenVLA and OpenVLA-OFT, whose evaluation makes them with TensorFlow. Here without it, and equal to it
# within one grey level. Source: experiments/robot/libero/libero_utils.py and experiments/robot/openvla_utils.py.


def openvla_picture(picture: Picture, size: int = 224, *, crop: bool = True) -> Picture:
    """Return a picture (h, w, 3) uint8 as OpenVLA's evaluation shows it to its policy: (size, size, 3) uint8.

    It is coded as JPEG and decoded, resized by Lanczos's kernel and, with `crop`, cut to the central 90% of its area
    and resized again, which checkpoints need that were trained with random crops. The picture is turned by 180 degrees
    before, as LIBERO's suites give it. Raises VlaError as `jpeg_coded`.
    """
    return transformed(picture, f"none > jpeg 95 > lanczos {size}" + " > crop 0.9" * crop)


def jpeg_coded(picture: Picture, quality: int = 95) -> Picture:
    """Return a picture (h, w, 3) uint8 after JPEG coding and decoding, with chroma at half the resolution.

    Bit for bit as TensorFlow's ``encode_jpeg`` and ``decode_image`` do by default: they decode by the fast variant of
    the discrete cosine transform, which differs by up to 9 grey levels from what Pillow does.

    Raises:
        VlaError: the package simplejpeg is missing.
    """
    from PIL import Image

    coded = io.BytesIO()
    Image.fromarray(picture).save(coded, "JPEG", quality=quality, subsampling="4:2:0")
    simplejpeg = required("simplejpeg", "pip install 'pytest-vla[openvla]'")
    decoded: Picture = simplejpeg.decode_jpeg(coded.getvalue(), fastdct=True, fastupsample=False)
    return decoded


def resize_lanczos(picture: Picture, height: int, width: int) -> Picture:
    """Resize a picture (h, w, 3) uint8 to (height, width, 3) by Lanczos's kernel of radius 3, with antialiasing.

    As TensorFlow's ``image.resize(..., "lanczos3", antialias=True)``, rounded to uint8. Pillow's filter of that name
    rounds after each of the two directions, too.
    """
    rows, columns = _lanczos_weights(picture.shape[0], height), _lanczos_weights(picture.shape[1], width)
    return np.clip(np.rint(_resampled(rows, picture, columns)), 0, 255).astype(np.uint8)


def centre_crop(picture: Picture, area: float = 0.9) -> Picture:
    """Cut a picture (h, w, 3) uint8 to the central `area` of it, and resize that to (h, w, 3), bilinearly.

    As TensorFlow's ``image.crop_and_resize``, whose corners are the centres of the corner pixels.
    """
    side = np.sqrt(area)
    rows, columns = (_bilinear_weights(length, (1 - side) / 2, (1 + side) / 2) for length in picture.shape[:2])
    cut = _resampled(rows, picture, columns) / 255
    # TensorFlow's conversion to uint8.
    return (np.clip(cut, 0, 1) * 255.5).astype(np.uint8)


def _resampled(rows: NDArray[np.float32], picture: Picture, columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a picture (h, w, 3) as weighted sums (y, x, 3), by weights (y, h) and (x, w); two products of matrices."""
    height, width, channels = picture.shape
    lines = rows @ picture.astype(np.float32).reshape(height, width * channels)
    return columns @ lines.reshape(len(rows), width, channels)


@functools.cache
def _lanczos_weights(length: int, wanted: int) -> NDArray[np.float32]:
    """Return the weights (wanted, length) of pixels; the kernel is as much wider as the picture becomes smaller."""
    step = length / wanted
    scale = max(step, 1.0)
    centres = (np.arange(wanted) + 0.5) * step
    away = (np.arange(length) + 0.5 - centres[:, None]) / scale
    weights = np.where(np.abs(away) < 3, np.sinc(away) * np.sinc(away / 3), 0.0)
    normalised: NDArray[np.float32] = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    return normalised


@functools.cache
def _bilinear_weights(length: int, begin: float, end: float) -> NDArray[np.float32]:
    """Return the weights (length, length) that stretch the part from `begin` to `end`, shares of all, to the whole."""
    places = (begin + np.linspace(0, 1, length) * (end - begin)) * (length - 1)
    weights: NDArray[np.float32] = np.maximum(1 - np.abs(places[:, None] - np.arange(length)), 0.0).astype(np.float32)
    return weights


class _View(Mapping[str, NDArray[Any]]):
    def __init__(self, observation: Observation, protocol: Protocol | None, state: NDArray[np.float64] | None) -> None:
        self._observation, self._protocol = observation, protocol
        self._values: dict[str, NDArray[Any]] = {} if state is None else {"state": state}

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self:
            raise KeyError(f"an observation has no {key!r}; it has {', '.join(self)}")
        protocol = self._protocol
        if protocol is None or not (key.endswith("_image") or key == "state"):
            return self._observation[key]
        if key not in self._values:
            if key == "state":
                self._values[key] = state_of(self._observation, protocol.state)
            else:
                wrist = protocol.wrist_transform if key == _WRIST else ""
                self._values[key] = transformed(self._observation[key], wrist or protocol.image_transform)
        return self._values[key]

    def __contains__(self, key: object) -> bool:
        # Mapping's default is to get the value, which would render a picture.
        return key in tuple(self._observation)

    def __iter__(self) -> Iterator[str]:
        return iter(self._observation)

    def __len__(self) -> int:
        return len(self._observation)
