"""Sentences that the instructions' variations make, to be read by a person, each beside its task's own and its scene.

Tasks are drawn evenly over tabletop and, where LIBERO's data is at hand, its suites; a sentence is printed once. What
to count as bad: it makes another task of it; it could mean another thing of the scene; it is no English; a noun is not
what the thing is.

    python benchmarks/sentences.py language.words:2 --seed 7
    python benchmarks/sentences.py language.paraphrase --seed 7 --count 200
"""

import argparse
import random

from pytest_vla.errors import VlaError
from pytest_vla.language.scene_names import SceneNames
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.vary.axes.language import names_in
from pytest_vla.vary.parse import parse_vary
from pytest_vla.vary.registry import find_variation

SUITES = ("tabletop", "libero_goal", "libero_spatial", "libero_object", "libero_10", "libero_90")

TRIES = 50
"""Draws for each sentence that is asked for; a level that few tasks have runs dry before."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vary", help="as for --vla-vary")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    parser.add_argument("--count", type=int, default=200, help="sentences (default: 200)")
    options = parser.parse_args()
    tasks = _tasks()
    labels = parse_vary(options.vary)
    drawn = random.Random(options.seed)
    told: dict[tuple[str, str], str] = {}
    refused: dict[str, set[str]] = {}
    for _ in range(options.count * TRIES):
        if len(told) == options.count:
            break
        task, label, seed = drawn.choice(tasks), drawn.choice(labels), drawn.randrange(10_000)
        try:
            variation = find_variation(task, label, seed)
        except VlaError:
            refused.setdefault(label, set()).add(f"{task.suite}/{task.name}")
            continue
        if variation is not None and variation.instruction is not None:
            told.setdefault((task.language, variation.instruction), f"{task.suite}: {_listed(names_in(task))}")
    for number, ((own, text), scene) in enumerate(told.items(), 1):
        print(f"{number:3}  {text}\n     {own}   [{scene}]")
    print(f"{len(told)} sentences of {options.vary}, seed {options.seed}, over {len(tasks)} tasks")
    for label, names in sorted(refused.items()):
        print(f"  {label}: {len(names)} of the tasks that were drawn have none")


def _tasks() -> list[Task]:
    found: list[Task] = []
    for name in SUITES:
        tasks = load_suite(name).tasks
        if names_in(tasks[0]).things:
            found += tasks
    return found


def _listed(scene: SceneNames) -> str:
    return ", ".join(thing.names[0] for thing in scene.things)


if __name__ == "__main__":
    main()
