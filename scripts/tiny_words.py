"""What tiny is told in training: the suite's instructions and paraphrases of our grammar, whole cells kept out."""

import argparse
import json
import random
from collections.abc import Mapping
from pathlib import Path

from pytest_vla import load_suite
from pytest_vla.language.generator import CELLS, paraphrases
from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES
from pytest_vla.vary.axes.language import names_in

SUITE = "tabletop"
ORIGINAL = "original"
Texts = dict[str, list[tuple[str, str]]]
"""Of each task, the cell and the text of each instruction."""

_SEED, _KEPT_OUT, _FIRST_SEED = 18, 9, 10_000


def kept_out_cells(seed: int = _SEED, count: int = _KEPT_OUT) -> tuple[tuple[str, str], ...]:
    """The cells that are never trained: drawn until each type of either axis is in some cell that is.

    Cells of one axis alone are kept out too where they are drawn. The draw repeats by its seed.
    """
    rng = random.Random(seed)
    while True:
        drawn = rng.sample(CELLS, count)
        left = [cell for cell in CELLS if cell not in drawn]
        things, actions = {thing for thing, _ in left}, {action for _, action in left}
        if things >= set(OBJECT_TYPES) - {NONE} and actions >= set(ACTION_TYPES) - {NONE}:
            return tuple(sorted(drawn))


KEPT_OUT = kept_out_cells()


def texts(count: int, cells: tuple[tuple[str, str], ...], seed: int) -> Texts:
    """For each task its instruction, and up to `count` paraphrases of each cell.

    Args:
        count: of texts of a task and cell.
        cells: object type and action type.
        seed: of the draws.
    """
    tasks = load_suite(SUITE).tasks
    found: Texts = {}
    for place, task in enumerate(tasks):
        others = [other.language for other in tasks if other.name != task.name]
        rows = [(ORIGINAL, task.language)]
        for thing, action in cells:
            rng = random.Random(f"{seed} {place} {thing} {action}")
            told = paraphrases(task.language, others, rng, count, thing, action, names_in(task))
            rows += [(f"{thing}.{action}", text) for text in told]
        found[task.name] = rows
    return found


def training_texts(count: int) -> Texts:
    """What is trained: of all cells but those that are kept out."""
    return texts(count, tuple(cell for cell in CELLS if cell not in KEPT_OUT), _FIRST_SEED)


def unseen(trained: Texts, tested: Mapping[str, list[tuple[str, str]]]) -> Texts:
    """Of tested texts those that are not, word for word, among the trained ones."""
    said = {text.lower() for rows in trained.values() for _, text in rows}
    return {name: [row for row in rows if row[1].lower() not in said] for name, rows in tested.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument("--count", type=int, default=12, help="texts of a task and cell")
    options = parser.parse_args()
    found = {"kept_out": KEPT_OUT, "trained": training_texts(options.count)}
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
