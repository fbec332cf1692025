"""tiny's network in numpy: from pictures to a scene vector, and from it to a chunk of actions.

Each sample is computed on its own, by matrix products whose shapes do not depend on the batch: an answer is
bit for bit the same in any batch.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

# The inputs of tiny's network: proprioception scaled to values near 1, and pictures at its size.

Floats = npt.NDArray[np.floating]

CENTRE = np.array([-0.1, 0.0, 1.0])
"""The middle of the workspace (m, world frame), the origin of positions."""
SCALE = 0.25
"""Metres per unit."""
REPLAN = 4
"""Steps of a chunk that are executed in training, and by default."""
PROPRIOCEPTION = 17
"""Position 3, rotation 6, fingers 2, change of position 3, change of fingers 2, the last gripper command 1."""
PERCEIVED = 11
"""The number of leading values that perception reads: the current ones."""
_FINGER, _CHANGE = 0.04, 0.05


def proprioception(
    state: Floats, before: Floats | None, gripper: float, steps: int = REPLAN
) -> npt.NDArray[np.float32]:
    """Compute the network's view of the arm.

    Args:
        state: (8,): end effector position, m; axis-angle, rad; finger positions, m.
        before: the state some steps ago, or None at the first question.
        gripper: the gripper value of the last executed action, -1 or 1; initially -1.
        steps: the number of steps since `before`; changes are scaled to `REPLAN` steps.

    Returns:
        (17,), see `PROPRIOCEPTION`.
    """
    state = np.asarray(state, dtype=np.float64)
    change = np.zeros(8) if before is None else (state - np.asarray(before, dtype=np.float64)) * (REPLAN / steps)
    return np.concatenate(
        [
            (state[:3] - CENTRE) / SCALE,
            rotation_of(state[3:6])[:, :2].T.ravel(),
            state[6:8] / _FINGER,
            change[:3] / _CHANGE,
            change[6:8] / _FINGER,
            [gripper],
        ]
    ).astype(np.float32)


def rotation_of(vector: Floats) -> npt.NDArray[np.float64]:
    """Compute the rotation matrix (3, 3) of an axis-angle (3,), rad."""
    angle = float(np.sqrt((vector * vector).sum()))
    if angle < 1e-9:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross))


def small(picture: npt.NDArray[np.uint8], side: int) -> npt.NDArray[np.uint8]:
    """Reduce a picture (k side, k side, 3) to (side, side, 3) by rounded means over blocks."""
    blocks = picture.shape[0] // side
    means = picture.reshape(side, blocks, side, blocks, 3).mean(axis=(1, 3), dtype=np.float32)
    return np.asarray(np.rint(means), dtype=np.uint8)


Array = npt.NDArray[np.float32]
Weights = Mapping[str, Array]

POINTS = 8
"""Points in the first 24 values of a scene vector (40,): centres of bowl, plate, bottle, box, three handles, knob."""
SCENE = 40
CHUNK, ACTION, BINS = 8, 7, 256
TEXT, HIDDEN = 64, 384
TOKEN = 32
"""The size of the code that the bins of one dimension are decoded from."""
VIEW, WRIST = 128, 64
# Scales in metres for the fine and the coarse encoding of the distance from hand to point.
FINE, COARSE = 0.03, 0.15
# Scales for the encoding of the finger opening, whose range is 2: the thinnest grasped part is a rim.
FINGERS_FINE, FINGERS_COARSE = 0.1, 0.5


class Conv(NamedTuple):
    """A convolution of a branch: its name, channels in and out, width of its kernel, and stride."""

    name: str
    inputs: int
    outputs: int
    width: int
    stride: int


VIEW_STEM = (Conv("view.0", 3, 16, 5, 2), Conv("view.1", 16, 32, 3, 2), Conv("view.2", 32, 48, 3, 1))
VIEW_TOP = (Conv("view.3", 48, 64, 3, 2), Conv("view.4", 64, 64, 3, 2), Conv("view.5", 64, 32, 1, 1))
WRIST_STEM = (Conv("wrist.0", 3, 16, 5, 2), Conv("wrist.1", 16, 32, 3, 2), Conv("wrist.2", 32, 48, 3, 1))
WRIST_TOP = (Conv("wrist.3", 48, 48, 3, 2), Conv("wrist.4", 48, 24, 1, 1))
VIEW_POINTS, WRIST_POINTS = 32, 24
VIEW_MAP, WRIST_MAP = 96, 96
VIEW_DENSE, WRIST_DENSE = 256, 192
EMBEDDING, FILTERS, TEXT_WIDTHS = 48, 48, (1, 2, 3)


def shapes_of(words: int) -> dict[str, tuple[int, ...]]:
    """Return the name and shape of every weight, for a vocabulary of this size."""
    shapes: dict[str, tuple[int, ...]] = {}

    def dense(name: str, inputs: int, outputs: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (inputs, outputs), (outputs,)

    for name, side, stem, top, points, size in (
        ("view", VIEW, VIEW_STEM, VIEW_TOP, VIEW_POINTS, VIEW_MAP),
        ("wrist", WRIST, WRIST_STEM, WRIST_TOP, WRIST_POINTS, WRIST_MAP),
    ):
        for layer in (*stem, *top):
            dense(layer.name, layer.width**2 * layer.inputs, layer.outputs)
            side //= layer.stride
        shapes[f"{name}.points.weight"] = (stem[-1].outputs, points)
        dense(f"{name}.map", side * side * top[-1].outputs, size)
    dense("view.dense", 2 * VIEW_POINTS + VIEW_MAP + PERCEIVED, VIEW_DENSE)
    dense("view.out", VIEW_DENSE, SCENE + POINTS)
    dense("wrist.dense", 2 * WRIST_POINTS + WRIST_MAP + PERCEIVED, WRIST_DENSE)
    dense("wrist.out", WRIST_DENSE, 4 * POINTS)
    shapes["text.embedding"] = (words, EMBEDDING)
    for width in TEXT_WIDTHS:
        dense(f"text.conv{width}", width * EMBEDDING, FILTERS)
    dense("text.out", len(TEXT_WIDTHS) * FILTERS, TEXT)
    dense("control.turn", TEXT, 2 * HIDDEN)
    dense("control.0", SCENE + PROPRIOCEPTION + 6 * POINTS + 2 + TEXT, HIDDEN)
    dense("control.1", HIDDEN, HIDDEN)
    dense("control.2", HIDDEN, HIDDEN)
    dense("control.out", HIDDEN, CHUNK * ACTION)
    dense("tokens.code", HIDDEN, ACTION * TOKEN)
    shapes["tokens.out.weight"], shapes["tokens.bias"] = (TOKEN, BINS), (ACTION, BINS)
    return shapes


def perceive(weights: Weights, view: npt.NDArray[np.uint8], wrist: npt.NDArray[np.uint8], arm: Array) -> Array:
    """Compute the scene vector (40,) from pictures.

    Args:
        weights: by name, float32, as `load_weights` returns them.
        view: (128, 128, 3), the third person's camera.
        wrist: (64, 64, 3), the hand's camera.
        arm: (17,), see `pytest_vla.policies.tiny.network.proprioception`.
    """
    arm = arm[:PERCEIVED]
    seen = relu(
        linear(weights, "view.dense", np.concatenate([_branch(weights, view, VIEW_STEM, VIEW_TOP, "view"), arm]))
    )
    told = linear(weights, "view.out", seen)
    near = np.concatenate([_branch(weights, wrist, WRIST_STEM, WRIST_TOP, "wrist"), arm])
    close = linear(weights, "wrist.out", relu(linear(weights, "wrist.dense", near)))
    points = told[: 3 * POINTS].reshape(POINTS, 3)
    first, second = arm[3:6], arm[6:9]
    hand = np.stack([first, second, np.cross(first, second)], axis=1)
    by_hand = arm[:3] + (hand[None] * close[: 3 * POINTS].reshape(POINTS, 1, 3)).sum(2)
    trust = 1.0 / (1.0 + np.exp(told[SCENE:] - close[3 * POINTS :]))
    fused = points + trust[:, None] * (by_hand - points)
    return np.concatenate([fused.ravel(), told[3 * POINTS : SCENE]]).astype(np.float32)


def read_text(weights: Weights, words: npt.NDArray[np.int64]) -> Array:
    """Compute the embedding (64,) of an instruction.

    Args:
        weights: by name.
        words: (n,) numbers of words, 0 for padding.
    """
    embedded = weights["text.embedding"][words]
    parts = []
    for width in TEXT_WIDTHS:
        kernel = weights[f"text.conv{width}.weight"]
        stacked = np.concatenate([embedded[k : len(words) - width + 1 + k] for k in range(width)], axis=1)
        parts.append((stacked @ kernel + weights[f"text.conv{width}.bias"]).max(0))
    return linear(weights, "text.out", relu(np.concatenate(parts)))


def control(weights: Weights, scene: Array, arm: Array, text: Array) -> tuple[Array, Array]:
    """Compute the chunk (8, 7), with the gripper as logits, and the hidden state (384,) for the tokens.

    Args:
        weights: by name.
        scene: (40,).
        arm: (17,).
        text: (64,).
    """
    hidden = relu(linear(weights, "control.0", _told(scene, arm, text)))
    turn = linear(weights, "control.turn", text)
    hidden = relu(linear(weights, "control.1", hidden) * (1.0 + turn[:HIDDEN]) + turn[HIDDEN:])
    hidden = relu(linear(weights, "control.2", hidden))
    return linear(weights, "control.out", hidden).reshape(CHUNK, ACTION), hidden


def control_samples(weights: Weights, scene: Array, arm: Array, text: Array, masks: Array) -> Array:
    """Compute chunks (n, 8, 7) for one question with dropout, in one pass.

    The samples share the inputs and the first layer before its mask.

    Args:
        weights, scene, arm, text: as for `control`.
        masks: (n, 3, 384), the factors of the three hidden layers, for each sample.
    """
    hidden = relu(linear(weights, "control.0", _told(scene, arm, text))) * masks[:, 0]
    turn = linear(weights, "control.turn", text)
    hidden = relu(linear(weights, "control.1", hidden) * (1.0 + turn[:HIDDEN]) + turn[HIDDEN:]) * masks[:, 1]
    hidden = relu(linear(weights, "control.2", hidden)) * masks[:, 2]
    return linear(weights, "control.out", hidden).reshape(len(masks), CHUNK, ACTION)


def _told(scene: Array, arm: Array, text: Array) -> Array:
    """Return the input of the control layers."""
    ways = (scene[: 3 * POINTS].reshape(POINTS, 3) - arm[:3]) * np.float32(SCALE)
    between = arm[9:10] - arm[10:11]
    fingers = np.tanh(between / np.float32(FINGERS_FINE)), np.tanh(between / np.float32(FINGERS_COARSE))
    told = np.concatenate([scene, arm, np.tanh(ways / FINE).ravel(), np.tanh(ways / COARSE).ravel(), *fingers, text])
    return told.astype(np.float32)


def token_logits(weights: Weights, hidden: Array) -> Array:
    """Compute logits (7, 256) for the bins of the first action, from -1 to 1, from the hidden state (384,)."""
    codes = relu(linear(weights, "tokens.code", hidden)).reshape(ACTION, TOKEN)
    return np.asarray(codes @ weights["tokens.out.weight"] + weights["tokens.bias"])


def relu(values: Array) -> Array:
    """Compute the positive part."""
    return np.maximum(values, np.float32(0))


def linear(weights: Weights, name: str, values: Array) -> Array:
    """Apply a dense layer to (n,)."""
    return values @ weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _branch(
    weights: Weights, picture: npt.NDArray[np.uint8], stem: tuple[Conv, ...], top: tuple[Conv, ...], name: str
) -> Array:
    """Return the key point positions and the map of a picture as one vector."""
    values = picture.astype(np.float32) * np.float32(2 / 255) - np.float32(1)
    for layer in stem:
        values = relu(_convolve(weights, layer, values))
    heat = values.reshape(-1, values.shape[2]) @ weights[f"{name}.points.weight"]
    heat = np.exp(heat - heat.max(0))
    heat /= heat.sum(0)
    side = values.shape[0]
    place = np.linspace(-1, 1, side, dtype=np.float32)
    across, down = np.tile(place, side), np.repeat(place, side)
    for layer in top:
        values = relu(_convolve(weights, layer, values))
    return np.concatenate([across @ heat, down @ heat, relu(linear(weights, f"{name}.map", values.ravel()))])


def _convolve(weights: Weights, layer: Conv, values: Array) -> Array:
    """Convolve (h, w, c) with zero padding."""
    width, stride = layer.width, layer.stride
    kernel, bias = weights[f"{layer.name}.weight"], weights[f"{layer.name}.bias"]
    height, across, channels = values.shape
    rows, columns = height // stride, across // stride
    if width == 1:
        return (values.reshape(-1, channels) @ kernel + bias).reshape(rows, columns, -1)
    border = width // 2
    framed = np.zeros((height + 2 * border, across + 2 * border, channels), dtype=np.float32)
    framed[border:-border, border:-border] = values
    patches = np.empty((rows, columns, width, width, channels), dtype=np.float32)
    for down in range(width):
        for right in range(width):
            patches[:, :, down, right] = framed[
                down : down + rows * stride : stride, right : right + columns * stride : stride
            ]
    return (patches.reshape(rows * columns, -1) @ kernel + bias).reshape(rows, columns, -1)
