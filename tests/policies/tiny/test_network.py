"""numpy's network against torch's, which is trained. Skipped where torch is not installed."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from pytest_vla.policies.tiny.network import control, perceive, read_text, shapes_of, token_logits
from pytest_vla.policies.tiny.weights import load_weights, save_weights
from pytest_vla.policies.tiny.words import LONGEST, NOTHING

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


def kept(path: Path, weights: dict[str, npt.NDArray[np.float32]]) -> dict[str, npt.NDArray[np.float32]]:
    """The weights as a checkpoint has them."""
    save_weights(path, weights, ("", "", *(f"word{number}" for number in range(2, WORDS))), {})
    return dict(load_weights(path).weights)


def drawn_rows(count: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Pictures of both cameras, and arms."""
    rng = np.random.default_rng(1)
    view = rng.integers(0, 256, (count, 128, 128, 3), dtype=np.uint8)
    wrist = rng.integers(0, 256, (count, 64, 64, 3), dtype=np.uint8)
    return view, wrist, (3 * rng.normal(size=(count, 17))).astype(np.float32)


def test_who_is_deaf_reads_each_instruction_as_the_empty_one(tmp_path: Path) -> None:
    from scripts.tiny_ablations import deafened
    from scripts.tiny_network import Control, exported

    torch.manual_seed(0)
    hands = Control(WORDS).eval()
    nothing = torch.full((1, LONGEST), NOTHING)
    with torch.no_grad():
        before = hands.read(nothing)[0].numpy()
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, WORDS, LONGEST) for _ in range(4)]
    hearing = exported(None, hands)
    assert not np.allclose(read_text(hearing, texts[0]), read_text(hearing, texts[1]))
    eyes = drawn_perception()
    weights = kept(tmp_path / "deaf.npz", exported(eyes, deafened(hands)))
    read = [read_text(weights, text) for text in texts]
    assert len({each.tobytes() for each in read}) == 1
    np.testing.assert_allclose(read[0], before, atol=1e-3)
    assert weights["control.0.weight"].any()
    scene, arm = rng.normal(size=(2, 40)).astype(np.float32), drawn_rows(1)[2][0]
    acted = [control(weights, each, arm, read[0])[0] for each in scene]
    assert not np.allclose(*acted), "it still sees"


def drawn_perception() -> Any:
    from scripts.tiny_network import Perception

    torch.manual_seed(0)
    return Perception().eval()


def test_who_is_blind_tells_the_mean_scene_of_any_pictures_and_any_arm(tmp_path: Path) -> None:
    from scripts.tiny_ablations import blinded, unseen
    from scripts.tiny_fit import perceived_of
    from scripts.tiny_network import Control, exported

    rows = learned_rows()
    blind = unseen(rows)
    mean = rows.scenes[:6].mean(0)
    np.testing.assert_allclose(blind.scenes, mean.expand(8, 40), atol=2e-3, err_msg="without those held out")
    assert torch.equal(blind.seen, blind.scenes[:2]), "nor is it told what a learner saw as it drove"
    eyes = blinded(blind.scenes[0])
    weights = kept(tmp_path / "blind.npz", exported(eyes, Control(WORDS)))
    with np.errstate(all="raise", under="ignore"):
        found = [perceive(weights, *row) for row in zip(*drawn_rows(3), strict=True)]
    for each in found:
        np.testing.assert_array_equal(each, blind.scenes[0])
    told = perceived_of(eyes, rows, torch.arange(len(rows.rows)))
    assert torch.equal(told, blind.scenes[rows.rows]), "what is learned from is what is told later"


def learned_rows() -> Any:
    """Eight rows, the last two of which are held out, three with pictures."""
    from scripts.tiny_fit import Rows

    torch.manual_seed(3)
    view, wrist, arms = (torch.from_numpy(array) for array in drawn_rows(8))
    held = torch.arange(8) >= 6
    known, tasks = torch.ones(8, 8, dtype=torch.bool), torch.arange(8) % 2
    shown, seen = torch.tensor([0, 3, 6]), torch.tensor([1, 2])
    pictures = view[shown], wrist[shown], shown
    scenes, chunks = torch.randn(8, 40), torch.randn(8, 8, 7)
    return Rows(scenes, arms, chunks, known, tasks, held, *pictures, torch.randn(2, 40), seen)


def test_who_learns_deaf_is_told_one_empty_text_of_each_task() -> None:
    from scripts.tiny_ablations import silent
    from scripts.tiny_fit import Words

    words = Words(torch.randint(2, WORDS, (9, LONGEST)), torch.tensor([0, 0, 0, 0, 1, 1, 1, 1, 1]))
    quiet = silent(words)
    drawn = quiet.drawn(5, torch.Generator().manual_seed(0))
    assert drawn.shape == (10, LONGEST)
    assert (drawn == NOTHING).all(), "none is forgotten, for that would be a word"
