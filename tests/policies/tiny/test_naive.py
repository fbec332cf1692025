"""The shipped weights give what an independent float64 implementation gives of them; torch is not needed."""

import numpy as np
import pytest

from pytest_vla.policies.tiny.network import (
    CENTRE,
    VIEW,
    WRIST,
    control,
    perceive,
    proprioception,
    read_text,
    token_logits,
)
from pytest_vla.policies.tiny.weights import CHECKPOINTS, load_weights, numbered, shipped
from tests.support.naive_tiny import acted, scene_of, text_of

TEXTS = ("put the bowl on the plate", "", "Open the zvork of the top drawer, then turn on the stove")


def a_picture(rng: np.random.Generator, side: int, noise: float) -> np.ndarray:
    """Coloured slopes under noise: neither of its sides, halves or colours is like another."""
    down, across = np.mgrid[0:side, 0:side] / side
    slopes = np.stack([200 * across**2, 255 * down, 120 * (1 - across) * down + 40], axis=2)
    return np.clip(slopes + noise * rng.normal(size=slopes.shape), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
@pytest.mark.parametrize(("seed", "noise"), [(0, 4.0), (1, 60.0)])
def test_the_network_computes_what_an_independent_one_does(checkpoint: str, seed: int, noise: float) -> None:
    trained, rng = load_weights(shipped(checkpoint)), np.random.default_rng(seed)
    view, wrist = a_picture(rng, VIEW, noise), a_picture(rng, WRIST, noise)
    place, turn = CENTRE + rng.uniform(-0.2, 0.2, 3), rng.uniform(-1, 1, 3)
    state = np.concatenate([place, turn, [0.03, -0.02]])
    arm = proprioception(state, state - 0.02 * rng.normal(size=8), 1.0)
    scene, plain_scene = perceive(trained.weights, view, wrist, arm), scene_of(trained.weights, view, wrist, arm)
    np.testing.assert_allclose(scene, plain_scene, rtol=0, atol=1e-4)
    for instruction in TEXTS:
        words = numbered(instruction, trained.places)
        text, plain_text = read_text(trained.weights, words), text_of(trained.weights, words)
        np.testing.assert_allclose(text, plain_text, rtol=0, atol=1e-4)
        chunk, hidden = control(trained.weights, scene, arm, text)
        plain_chunk, plain_tokens = acted(trained.weights, plain_scene, arm.astype(np.float64), plain_text)
        np.testing.assert_allclose(chunk, plain_chunk, rtol=0, atol=1e-4)
        np.testing.assert_allclose(token_logits(trained.weights, hidden), plain_tokens, rtol=0, atol=1e-4)
