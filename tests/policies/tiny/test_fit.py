"""What tiny's hands are asked to learn: labels that wait, and rows that are told nothing; where torch is."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from pytest_vla.policies.tiny.network import CHUNK, PROPRIOCEPTION, SCENE
from pytest_vla.policies.tiny.weights import LONGEST, NOTHING, UNKNOWN

torch = pytest.importorskip("torch", reason="torch is needed to train tiny (make lerobot)")

CLOSED, OPEN = 1.0, -1.0
MOVE = 0.8


def rows(chunk: list[tuple[float, float]], *, fingers: float = 0.0, gripper: float = CLOSED, known: int = CHUNK) -> Any:
    """One row, whose chunk goes so far (each of six) with such a gripper."""
    from scripts.tiny_fit import Rows

    arm = np.zeros((1, PROPRIOCEPTION), np.float32)
    arm[0, 14:16], arm[0, 16] = fingers, gripper
    chunks = np.array([[[way] * 6 + [grip] for way, grip in chunk]], np.float32)
    none, flags = torch.zeros(0), torch.arange(CHUNK)[None] < known
    return Rows(
        torch.zeros(1, SCENE),
        torch.from_numpy(arm),
        torch.from_numpy(chunks),
        flags,
        torch.zeros(1, dtype=torch.long),
        torch.zeros(1, dtype=torch.bool),
        none,
        none,
        none,
        torch.zeros(0, SCENE),
        none,
    )


WAITS = [(0.0, CLOSED)] * 3
MOVES = [(MOVE, CLOSED)] * (CHUNK - 3)


def test_a_label_that_waits_begins_where_it_moves() -> None:
    from scripts.tiny_fit import without_waits

    found = without_waits(rows([*WAITS, *MOVES]))
    assert found.known[0].tolist() == [True] * (CHUNK - 3) + [False] * 3
    assert found.chunks[0, : CHUNK - 3, 0].tolist() == pytest.approx([MOVE] * (CHUNK - 3))


@pytest.mark.parametrize("known", [CHUNK, 2])
def test_a_label_that_only_waits_asks_for_nothing(known: int) -> None:
    from scripts.tiny_fit import without_waits

    assert not without_waits(rows([(0.0, CLOSED)] * CHUNK, known=known)).known.any()


@pytest.mark.parametrize(
    "kept",
    [
        rows([*WAITS, *MOVES], fingers=0.1),
        rows([*WAITS, *MOVES], gripper=OPEN),
        rows(MOVES + [(MOVE, CLOSED)] * 3),
    ],
    ids=["fingers that still move", "an open hand", "no wait"],
)
def test_other_labels_are_as_they_were(kept: Any) -> None:
    from scripts.tiny_fit import without_waits

    found = without_waits(kept)
    assert torch.equal(found.chunks, kept.chunks)
    assert torch.equal(found.known, kept.known)


def test_what_leads_to_an_open_hand_is_kept() -> None:
    """It lets go after a wait: nothing but the wait says when."""
    from scripts.tiny_fit import without_waits

    kept = rows([*WAITS, *[(0.0, OPEN)] * (CHUNK - 3)])
    assert torch.equal(without_waits(kept).known, kept.known)


def test_nothing_is_told_by_an_empty_text_or_by_words_that_were_never_learned() -> None:
    from scripts.tiny_fit import Words

    words = Words(torch.full((1, LONGEST), 7), torch.zeros(1, dtype=torch.long))
    found = words.meaningless(40, torch.Generator().manual_seed(0))
    assert found.shape == (40, LONGEST)
    assert (found[0] == NOTHING).all()
    lengths = (found == UNKNOWN).sum(1)
    assert lengths[1:].min() >= 1
    assert len(lengths.unique()) > 5
    for row, length in zip(found, lengths, strict=True):
        assert (row[:length] == UNKNOWN).all()
        assert (row[length:] == NOTHING).all()


def test_told_nothing_it_stays_and_holds_what_it_holds() -> None:
    from scripts.tiny_fit import resting

    arms = torch.randn(2, PROPRIOCEPTION)
    arms[:, -1] = torch.tensor([CLOSED, OPEN])
    found = resting(arms)
    assert found.shape == (2, CHUNK, 7)
    assert not found[..., :6].any()
    assert found[..., 6].tolist() == [[CLOSED] * CHUNK, [OPEN] * CHUNK]


def test_hands_learn_to_rest_where_they_are_told_nothing() -> None:
    """A fit of rows that all move: after it, it moves by its text, and rests without one."""
    from scripts.tiny_fit import Words, fit_control

    torch.set_num_threads(1)
    many = rows([(MOVE, CLOSED)] * CHUNK)
    columns = {name: getattr(many, name) for name in ("scenes", "arms", "chunks", "known", "tasks", "held_out")}
    grown = dataclasses.replace(
        many, **{name: value.repeat(64, *[1] * (value.dim() - 1)) for name, value in columns.items()}
    )
    words = Words(torch.full((1, LONGEST), 2), torch.zeros(1, dtype=torch.long))
    network = fit_control(grown, words, 3, 150, batch=64, untold=0.3)
    empty = torch.full((1, LONGEST), NOTHING)
    with torch.no_grad():
        moved, _ = network(grown.scenes[:1], grown.arms[:1], network.read(words.words))
        rested, _ = network(grown.scenes[:1], grown.arms[:1], network.read(empty))
    assert float(moved[0, :, :6].mean()) > 0.7 * MOVE
    assert float(rested[0, :, :6].abs().mean()) < 0.3 * MOVE
