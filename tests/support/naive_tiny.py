"""tiny's network once more, in float64, written from what it is said to compute and slow where that is plainer.

It shares nothing with `pytest_vla.policies.tiny.network` but the names of weights: every size stands here as a number.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.signal import correlate2d

Array = npt.NDArray[np.float64]
Weights = Mapping[str, npt.NDArray[Any]]

# Of each convolution: the width of its kernel, and its stride. Key points are read after the third.
_VIEW = ((5, 2), (3, 2), (3, 1), (3, 2), (3, 2), (1, 1))
_WRIST = ((5, 2), (3, 2), (3, 1), (3, 2), (1, 1))


def scene_of(weights: Weights, view: npt.NDArray[np.uint8], wrist: npt.NDArray[np.uint8], arm: Array) -> Array:
    """The scene vector (40,) of pictures (128, 128, 3) and (64, 64, 3), and the arm (17,)."""
    now = arm[:11]
    far = _two_layers(weights, "view", np.append(_seen(weights, "view", view, _VIEW), now))
    near = _two_layers(weights, "wrist", np.append(_seen(weights, "wrist", wrist, _WRIST), now))
    hand, first, second = arm[:3], arm[3:6], arm[6:9]
    third = np.cross(first, second)
    scene = far[:40].copy()
    for point in range(8):
        x, y, z = near[3 * point : 3 * point + 3]
        by_hand = hand + x * first + y * second + z * third
        # The more the hand's camera is sure of a point (and the other is not), the more it is believed.
        trust = 1 / (1 + np.exp(-(near[24 + point] - far[40 + point])))
        scene[3 * point : 3 * point + 3] = (1 - trust) * scene[3 * point : 3 * point + 3] + trust * by_hand
    return scene


def text_of(weights: Weights, words: npt.NDArray[np.int64]) -> Array:
    """What an instruction says (64,): for runs of one, two and three words the most that each filter finds anywhere."""
    embedded = _float(weights, "text.embedding")[words]
    found = []
    for width in (1, 2, 3):
        kernel = _float(weights, f"text.conv{width}.weight").reshape(width, 48, 48)
        bias = _float(weights, f"text.conv{width}.bias")
        places = range(len(words) - width + 1)
        rows = [np.einsum("we,wef->f", embedded[place : place + width], kernel) + bias for place in places]
        found.append(np.max(rows, axis=0))
    return _dense(weights, "text.out", _positive(np.concatenate(found)))


def acted(weights: Weights, scene: Array, arm: Array, text: Array) -> tuple[Array, Array]:
    """The chunk (8, 7) with the gripper's logits, and the tokens' logits (7, 256)."""
    # m, as 1 in a scene vector is 0.25 m.
    ways = np.concatenate([(scene[3 * point : 3 * point + 3] - arm[:3]) * 0.25 for point in range(8)])
    turn = _dense(weights, "control.turn", text)
    # Between the fingers, of which 2 is 0.08 m.
    between = np.array([arm[9] - arm[10]])
    grips = np.tanh(between / 0.1), np.tanh(between / 0.5)
    hidden = np.concatenate([scene, arm, np.tanh(ways / 0.03), np.tanh(ways / 0.15), *grips, text])
    hidden = _positive(_dense(weights, "control.0", hidden))
    hidden = _positive(_dense(weights, "control.1", hidden) * (1 + turn[:384]) + turn[384:])
    hidden = _positive(_dense(weights, "control.2", hidden))
    codes = _positive(_dense(weights, "tokens.code", hidden)).reshape(7, 32)
    tokens = np.einsum("ac,cb->ab", codes, _float(weights, "tokens.out.weight")) + _float(weights, "tokens.bias")
    return _dense(weights, "control.out", hidden).reshape(8, 7), tokens


def _seen(weights: Weights, camera: str, picture: npt.NDArray[np.uint8], layers: tuple[tuple[int, int], ...]) -> Array:
    values, points = picture / 255 * 2 - 1, np.zeros(0)
    for number, (width, stride) in enumerate(layers):
        values = _positive(_convolved(weights, f"{camera}.{number}", values, width, stride))
        if number == 2:
            points = _middles(np.einsum("yxc,cp->yxp", values, _float(weights, f"{camera}.points.weight")))
    return np.append(points, _positive(_dense(weights, f"{camera}.map", values.ravel())))


def _middles(heat: Array) -> Array:
    """Where the heat (n, n, points) is on average, from -1 to 1: all points' x, then all points' y."""
    shares = np.exp(heat) / np.exp(heat).sum(axis=(0, 1))
    place = np.linspace(-1, 1, len(heat))
    return np.append(np.einsum("yxp,x->p", shares, place), np.einsum("yxp,y->p", shares, place))


def _convolved(weights: Weights, name: str, values: Array, width: int, stride: int) -> Array:
    kernel = _float(weights, f"{name}.weight").reshape(width, width, values.shape[2], -1)
    maps = [
        sum(correlate2d(values[:, :, i], kernel[:, :, i, o], mode="same") for i in range(values.shape[2]))
        for o in range(kernel.shape[3])
    ]
    return (np.stack(maps, axis=2) + _float(weights, f"{name}.bias"))[::stride, ::stride]


def _two_layers(weights: Weights, name: str, values: Array) -> Array:
    return _dense(weights, f"{name}.out", _positive(_dense(weights, f"{name}.dense", values)))


def _dense(weights: Weights, name: str, values: Array) -> Array:
    return np.einsum("i,io->o", values, _float(weights, f"{name}.weight")) + _float(weights, f"{name}.bias")


def _float(weights: Weights, name: str) -> Array:
    return weights[name].astype(np.float64)


def _positive(values: Array) -> Array:
    return np.where(values > 0, values, 0.0)
