"""numpy's network against torch's, which is trained. Skipped where torch is not installed."""

import numpy as np
import pytest

from pytest_vla.policies.tiny.network import control, perceive, read_text, shapes_of, token_logits
from pytest_vla.policies.tiny.weights import LONGEST

torch = pytest.importorskip("torch", reason="torch is needed to train tiny, and for this comparison")

WORDS = 60


def test_both_compute_the_same_and_weights_have_the_expected_names_and_shapes() -> None:
    from scripts.tiny_network import Control, Perception, exported

    torch.manual_seed(0)
    eyes, hands = Perception(), Control(WORDS)
    for _ in range(3):
        eyes(torch.randn(8, 3, 128, 128), torch.randn(8, 3, 64, 64), torch.randn(8, 17))
    eyes.eval()
    hands.eval()
    weights = exported(eyes, hands)
    assert {name: values.shape for name, values in weights.items()} == shapes_of(WORDS)
    rng = np.random.default_rng(0)
    view = rng.integers(0, 256, (128, 128, 3), dtype=np.uint8)
    wrist = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    arm, words = rng.normal(size=17).astype(np.float32), rng.integers(0, WORDS, LONGEST)
    pictures = [torch.tensor(picture).permute(2, 0, 1)[None].float() * (2 / 255) - 1 for picture in (view, wrist)]
    with torch.no_grad():
        scene, *_ = eyes(*pictures, torch.tensor(arm)[None])
        text = hands.read(torch.tensor(words)[None])
        chunk, tokens = hands(scene, torch.tensor(arm)[None], text)
    found = perceive(weights, view, wrist, arm)
    said = read_text(weights, words)
    acted, hidden = control(weights, found, arm, said)
    np.testing.assert_allclose(found, scene[0], atol=1e-4)
    np.testing.assert_allclose(said, text[0], atol=1e-5)
    np.testing.assert_allclose(acted, chunk[0], atol=1e-4)
    np.testing.assert_allclose(token_logits(weights, hidden), tokens[0], atol=1e-4)
