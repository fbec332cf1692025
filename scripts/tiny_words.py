"""What tiny is told in training: the suite's instructions and paraphrases of our grammar, whole cells kept out."""

import random
from collections.abc import Collection
from functools import cache

from pytest_vla import load_suite
from pytest_vla.language.generator import CELLS, paraphrases
from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES
from pytest_vla.vary.axes.language import names_in
from pytest_vla.vary.registry import find_variation, parse_vary

SUITE = "tabletop"
KIND = "language.paraphrase"
ORIGINAL = "original"
"""Stands for the cell of a task's own instruction, which is always trained."""
COUNT = 12
"""Texts of a task and cell, where the cell has so many."""

Texts = dict[str, list[tuple[str, str]]]
"""Of each task, the cell (``OBJECT_TYPE.ACTION_TYPE``) and the text of each instruction."""

_SEED, _KEPT_OUT, _FIRST_SEED = 18, 9, 10_000


def kept_out_cells(seed: int = _SEED, count: int = _KEPT_OUT) -> tuple[tuple[str, str], ...]:
    """The cells that are never trained: drawn until each type of either axis is in some cell that is.

    Cells of one axis alone are kept out too where they are drawn. The draw repeats by its seed.
    """
    rng = random.Random(seed)
    while True:
        drawn = rng.sample(CELLS, count)
        left = [cell for cell in CELLS if cell not in drawn]
        if {thing for thing, _ in left} == set(OBJECT_TYPES) and {action for _, action in left} == set(ACTION_TYPES):
            return tuple(sorted(drawn))


KEPT_OUT = kept_out_cells()


def texts(count: int, cells: Collection[tuple[str, str]], seed: int, without: Collection[str] = ()) -> Texts:
    """For each task its instruction, and up to `count` paraphrases of each cell.

    Args:
        count: of texts of a task and cell; a small cell has fewer.
        cells: object type and action type.
        seed: of the draws.
        without: texts in small letters that are left out.
    """
    tasks = load_suite(SUITE).tasks
    found: Texts = {}
    for place, task in enumerate(tasks):
        others = [other.language for other in tasks if not other.is_asked_as(task)]
        rows = [(ORIGINAL, task.language)]
        for thing, action in cells:
            rng = random.Random(f"{seed} {place} {thing} {action}")
            told = paraphrases(task.language, others, rng, count, thing, action, names_in(task))
            rows += [(f"{thing}.{action}", text) for text in told if text.lower() not in without]
        found[task.name] = rows
    return found


def training_texts(count: int = COUNT) -> Texts:
    """What is trained: of all cells but those that are kept out, and no text that a run tells as one of these."""
    kept = {".".join(cell) for cell in KEPT_OUT}
    tested = {text.lower() for cell, text in rows_of(evaluated_texts()) if cell in kept}
    return texts(count, tuple(cell for cell in CELLS if cell not in KEPT_OUT), _FIRST_SEED, tested)


@cache
def evaluated_texts(seed: int = 0) -> Texts:
    """What a run with ``--vla-vary=language.paraphrase`` tells under a seed: a text of each task and cell."""
    found: Texts = {}
    for task in load_suite(SUITE).tasks:
        drawn = [(label, find_variation(task, label, seed)) for label in parse_vary(KIND)]
        found[task.name] = [
            (label.removeprefix(f"{KIND}."), variation.instruction)
            for label, variation in drawn
            if variation is not None and variation.instruction is not None
        ]
    return found


def rows_of(found: Texts) -> list[tuple[str, str]]:
    """Cells and texts of all tasks."""
    return [row for rows in found.values() for row in rows]
