"""The texts that tiny is trained with, and those that it is not."""

import pytest

from pytest_vla import load_suite
from pytest_vla.language.generator import CELLS
from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES
from scripts import tiny_words
from scripts.tiny_words import (
    KEPT_OUT,
    ORIGINAL,
    Texts,
    evaluated_texts,
    kept_out_cells,
    rows_of,
    texts,
    training_texts,
)

NAMES = {".".join(cell) for cell in KEPT_OUT}


@pytest.fixture(name="trained", scope="module")
def trained_texts() -> Texts:
    return training_texts(2)


def test_nine_cells_are_kept_out_and_every_type_is_trained() -> None:
    assert len(set(KEPT_OUT)) == 9
    trained = set(CELLS) - set(KEPT_OUT)
    assert {thing for thing, _ in trained} == set(OBJECT_TYPES)
    assert {action for _, action in trained} == set(ACTION_TYPES)


def test_kept_out_cells_are_of_several_types_of_either_axis_and_the_weights_that_ship_never_saw_them() -> None:
    assert {thing for thing, _ in KEPT_OUT} == set(OBJECT_TYPES)
    assert len({action for _, action in KEPT_OUT}) >= 5
    assert kept_out_cells() == KEPT_OUT
    assert kept_out_cells(seed=1) != KEPT_OUT
    # What is named here was kept out when tiny was trained: another draw takes another training.
    assert ("none", "need_statement") in KEPT_OUT
    assert ("same_polarity_contextual", "hint") in KEPT_OUT


def test_each_task_is_trained_with_its_own_text_and_with_all_cells_but_those(trained: Texts) -> None:
    tasks = load_suite("tabletop").tasks
    assert list(trained) == [task.name for task in tasks]
    for task in tasks:
        assert trained[task.name][0] == (ORIGINAL, task.language)
        cells = {cell for cell, _ in trained[task.name]} - {ORIGINAL}
        assert cells == {".".join(cell) for cell in CELLS} - NAMES
        assert len({text for _, text in trained[task.name]}) == len(trained[task.name])


@pytest.mark.slow
def test_no_text_that_a_run_tells_of_a_kept_out_cell_is_trained() -> None:
    trained = {text.lower() for _, text in rows_of(training_texts())}
    told = [(cell, text) for cell, text in rows_of(evaluated_texts()) if cell in NAMES]
    assert len(told) == 90
    assert not trained & {text.lower() for _, text in told}


def test_a_text_that_is_tested_is_left_out_of_those_that_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    name, rows = next(iter(texts(1, [CELLS[0]], 0).items()))
    (_, own), (_, drawn) = rows
    monkeypatch.setattr(tiny_words, "CELLS", (CELLS[0],))
    monkeypatch.setattr(tiny_words, "KEPT_OUT", (CELLS[1],))
    monkeypatch.setattr(tiny_words, "_FIRST_SEED", 0)
    monkeypatch.setattr(tiny_words, "evaluated_texts", lambda: {name: [(".".join(CELLS[1]), drawn.upper())]})
    assert training_texts(1)[name] == [(ORIGINAL, own)]


def test_a_run_tells_a_text_of_each_of_43_cells_and_ten_tasks_and_another_seed_others() -> None:
    assert {name: len(rows) for name, rows in evaluated_texts().items()} == {
        task.name: len(CELLS) for task in load_suite("tabletop").tasks
    }
    assert evaluated_texts() != evaluated_texts(1)


def test_draws_repeat_by_their_seed(trained: Texts) -> None:
    assert training_texts(2) == trained
    assert texts(2, KEPT_OUT, 1) == texts(2, KEPT_OUT, 1) != texts(2, KEPT_OUT, 2)
    assert {cell for cell, _ in rows_of(texts(1, KEPT_OUT, 0))} == NAMES | {ORIGINAL}
