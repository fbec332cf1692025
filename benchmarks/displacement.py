"""How often `layout.displacement` finds a free place, level by level: uncompiled draws on a suite's own init states.

``python benchmarks/displacement.py [--suite tabletop] [--seeds 5]``. Episodes of which no draw is free are ``invalid``.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from pytest_vla.errors import RedrawError, VlaError
from pytest_vla.plan.case import init_state_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.world import World
from pytest_vla.vary.kind import MOST_DRAWS
from pytest_vla.vary.registry import find_variation

LEVELS = (1, 2, 3, 4, 5)


def draws(variation: Variation) -> Iterator[Variation]:
    """A variation, and it drawn anew as often as an episode does."""
    yield variation
    if variation.redraw is not None:
        yield from map(variation.redraw, range(1, MOST_DRAWS))


def why_not(world: World, variation: Variation, seed: int) -> str:
    """Why no draw is free; an empty text where one is."""
    state = np.array(world.init_states[init_state_of(seed, world.init_state_count)])
    why = ""
    for drawn in draws(variation):
        try:
            for edit in drawn.state:
                edit(world.model, world.scene, state.copy())
        except RedrawError as error:
            why = why or str(error).rpartition(": ")[2]
        else:
            return ""
    return why


def measured(tasks: Sequence[Task], seeds: int) -> Iterator[str]:
    """The table's lines."""
    cases, none = Counter[int](), Counter[int]()
    reasons = Counter[str]()
    without = []
    for task in tasks:
        with World(task) as world:
            for level in LEVELS:
                for seed in range(seeds):
                    try:
                        variation = find_variation(task, f"layout.displacement-L{level}", seed)
                    except VlaError:
                        without.append(task.name)
                        continue
                    assert variation is not None
                    world.reset(init_state_of(seed, world.init_state_count), scene_seed=seed, settle=False)
                    why = why_not(world, variation, seed)
                    cases[level] += 1
                    none[level] += bool(why)
                    reasons.update([why] if why else [])
    yield "level  cases  none free"
    for level in LEVELS:
        yield f"{level:5}  {cases[level]:5}  {none[level]:9}"
    yield f"first reasons: {', '.join(f'{why} ({number})' for why, number in reasons.most_common()) or 'none'}"
    yield f"tasks about no object on the workspace: {', '.join(dict.fromkeys(without)) or 'none'}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="tabletop")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    for line in measured(load_suite(options.suite).tasks, options.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
