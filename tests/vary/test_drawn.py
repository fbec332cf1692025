"""What is drawn today is drawn tomorrow: digests of every kind's draws, so that a run can be repeated and compared.

``python -m tests.vary.test_drawn`` writes them anew, where a change of what is drawn is meant and told in CHANGELOG.md.
"""

import hashlib
import json
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.problem import format_problem, problem_of
from pytest_vla.scene.variation import Variation
from pytest_vla.vary.registry import find_variation, kinds

FILE = Path(__file__).with_name("drawn.json")
TASKS = ("put_the_bowl_on_the_plate", "turn_on_the_stove")

# What these draw from hangs on the data and the WordNet that are there.
ELSEWHERE = ("pro", "language.words", "language.words_paper")


def digest_of(variation: Variation) -> str:
    task = load_suite("tabletop").task(TASKS[0])
    problem = problem_of(task)
    for edit in variation.problem if variation.kind == "distractors" else ():
        problem = edit(problem)
    value = [
        variation.table(),
        variation.instruction,
        variation.rest_joints,
        variation.removed,
        format_problem(problem),
    ]
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def digests() -> dict[str, str]:
    """Of each kind's draws of two tasks, by label; empty: the task has none."""
    found = {}
    for kind in kinds():
        if kind.needs_files or kind.dimension in ELSEWHERE or kind.name in ELSEWHERE:
            continue
        labels = kind.labels()
        for label in labels if kind.levels else labels[:: max(1, len(labels) // 4)]:
            for name in TASKS:
                told = []
                for seed in (0, 3):
                    try:
                        first = find_variation(load_suite("tabletop").task(name), label, seed)
                    except VlaError:
                        continue
                    assert first is not None
                    told += [digest_of(each) for each in (first, *([first.redraw(2)] if first.redraw else []))]
                found[f"{label} of {name}"] = " ".join(told)
    return found


def test_what_is_drawn_is_what_was_drawn() -> None:
    expected, found = json.loads(FILE.read_text(encoding="utf-8")), digests()
    assert found.keys() == expected.keys()
    assert {name: told for name, told in found.items() if told != expected[name]} == {}


if __name__ == "__main__":
    FILE.write_text(json.dumps(digests(), indent=1) + "\n", encoding="utf-8")
