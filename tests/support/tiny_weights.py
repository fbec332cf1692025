"""Weights of tiny that nobody trained: numbers drawn by a seed, in the shapes that are expected."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from pytest_vla.policies.tiny.network import Weights, shapes_of
from pytest_vla.policies.tiny.weights import save_weights

VOCABULARY = ("", "", "bowl", "on", "plate", "put", "the")


def drawn_weights(seed: int = 0) -> dict[str, npt.NDArray[np.float32]]:
    """Small numbers (float16 holds them exactly) by name."""
    rng = np.random.default_rng(seed)
    shapes = shapes_of(len(VOCABULARY))
    scaled = {name: rng.normal(size=shape) / max(1, shape[0]) ** 0.5 for name, shape in shapes.items()}
    return {name: values.astype(np.float16).astype(np.float32) for name, values in scaled.items()}


def written_weights(path: Path, weights: Weights | None = None) -> Path:
    """A file of drawn weights."""
    save_weights(path, drawn_weights() if weights is None else weights, VOCABULARY, {"name": "drawn"})
    return path
