"""Success of tiny, or of its teacher, on init states that are drawn afresh: what may be looked at before weights ship.

    python scripts/tiny_fresh.py --weights build/hands/final.npz      # with its eyes, twelve states of each task
    python scripts/tiny_fresh.py --told                               # the weights that ship, told the true scene
    python scripts/tiny_fresh.py --teacher --tasks put_the_box_in_the_bowl --each 24

The states that the suite ships are for evaluation alone; nothing is chosen by them.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

# Run as a file it is, whose folder Python knows, and not the checkout's.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_vla import World, load_suite
from pytest_vla.errors import VlaError
from pytest_vla.expert.answers import Answers
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.policies.tiny.inputs import REPLAN, proprioception
from pytest_vla.policies.tiny.network import control, perceive, read_text
from pytest_vla.policies.tiny.weights import load_weights, shipped
from pytest_vla.policies.tiny.words import numbered
from pytest_vla.sim.observation import Observation
from scripts.tiny_collect import pictures_of
from scripts.tiny_rounds import SUITE, task_names
from scripts.tiny_states import SceneReader, drawn_states, scene_reader

SEED = 31000
"""Of the states; those of training are drawn by seeds of 1000 and a little more."""
EYES, TOLD, TEACHER = "with its eyes", "told the true scene", "teacher"

Act = Callable[[Observation], npt.NDArray[np.float64]]
"""From an observation an action (7,)."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, default=shipped(""), help="(default: those that ship)")
    parser.add_argument("--each", type=int, default=12, help="states of each task (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the states (default: %(default)s)")
    parser.add_argument("--tasks", type=lambda text: text.split(","), default=list(task_names()), help="(default: all)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: %(default)s)")
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--told", action="store_const", dest="mode", const=TOLD, default=EYES, help="by its hands alone")
    who.add_argument("--teacher", action="store_const", dest="mode", const=TEACHER, help="the expert's answers")
    options = parser.parse_args(arguments)
    work = partial(done_of, mode=options.mode, weights=options.weights, each=options.each, seed=options.seed)
    total: list[bool] = []
    try:
        with ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn")) as processes:
            for name, done in zip(options.tasks, processes.map(work, options.tasks), strict=True):
                missed = [str(number) for number, success in enumerate(done) if not success]
                print(f"{name}: {sum(done)} of {len(done)}", *(["; not states", *missed] if missed else []), flush=True)
                total += done
    except VlaError as error:
        sys.exit(str(error))
    low, high = (100 * end for end in wilson_interval(sum(total), len(total)))
    rate = 100 * sum(total) / len(total)
    print(f"{options.mode}: {sum(total)} of {len(total)}, {rate:.1f}% [{low:.1f}, {high:.1f}]")
    return 0


def done_of(name: str, *, mode: str, weights: Path, each: int, seed: int) -> list[bool]:
    """Whether a task was done from each of its fresh states.

    Args:
        name: of the task.
        mode: who drives: `EYES`, `TOLD` or `TEACHER`.
        weights: of tiny.
        each: how many states.
        seed: of the states.
    """
    suite = load_suite(SUITE)
    first = suite.tasks[0].name
    world = World(suite.task(first))
    states = drawn_states(world, [name], each, seed)[name]
    # The reader looks at closed drawers.
    world.switch(suite.task(first))
    world.reset(init_state=0)
    reader = scene_reader(world)
    world.switch(suite.task(name))
    found = []
    for state in states:
        observation = world.reset(state)
        act = taught(world) if mode == TEACHER else learned(world, weights, reader if mode == TOLD else None)
        for _ in range(world.task.protocol.max_steps):
            observation = world.step(act(observation))
            if world.success():
                break
        found.append(world.success())
    return found


def taught(world: World) -> Act:
    """What the teacher does; where it has no answer, nothing."""
    answers = Answers(world)

    def act(_: Observation) -> npt.NDArray[np.float64]:
        try:
            return answers()
        except VlaError:
            return np.zeros(7)

    return act


def learned(world: World, path: Path, reader: SceneReader | None) -> Act:
    """What tiny does with its eyes; or, of a reader, told the true scene."""
    trained = load_weights(path)
    text = read_text(trained.weights, numbered(world.task.language, trained.places))
    chunk: npt.NDArray[np.float64] = np.zeros((0, 7))
    before: npt.NDArray[np.float64] | None = None
    gripper, at = -1.0, REPLAN

    def act(observation: Observation) -> npt.NDArray[np.float64]:
        nonlocal chunk, before, gripper, at
        if at == REPLAN:
            state = np.array(observation["state"])
            arm = proprioception(state, before, gripper)
            told = perceive(trained.weights, *pictures_of(observation), arm) if reader is None else reader(world.data)
            chunk, before, at = control(trained.weights, told, arm, text)[0].astype(np.float64), state, 0
        action: npt.NDArray[np.float64] = np.clip(chunk[at], -1.0, 1.0)
        action[6] = gripper = 1.0 if chunk[at, 6] > 0 else -1.0
        at += 1
        return action

    return act


if __name__ == "__main__":
    sys.exit(main())
