"""Rounds of collection: shards of an episode a task, made by processes side by side and kept as files.

A shard's content follows from its round, its number and the learner alone; a shard that is there is not made again.
"""

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_vla import World, load_suite
from pytest_vla.errors import VlaError
from pytest_vla.policies.tiny.network import control, perceive, read_text
from pytest_vla.sim.lazy_observation import Observation
from pytest_vla.util.files import whole_file
from scripts.tiny_collect import Drive, Labels, drawn_states, episode, pictures_of, scene_reader

Numbers = npt.NDArray[np.float32]

SUITE = "tabletop"
POINT_NOISE, JOINT_NOISE = 0.03, 0.05
"""What a learner without eyes is told wrongly: points (of 0.25 m), joints; half of it for a whole episode."""
SCENE_NOISE = np.repeat([POINT_NOISE, JOINT_NOISE], [24, 16]).astype(np.float32)
"""The same for a scene vector (40,)."""
STRANGE = 0.3
"""The share of episodes that begin where another task of the scene does: else the scene tells what is wanted."""
# Tasks after which a process is replaced, as worlds leave some memory behind.
_REPLACED = 40


@dataclass(frozen=True)
class Round:
    """What to collect.

    Attributes:
        number: of the round; 0 is the expert's own.
        shards: how many.
        pictures: the share of labels with pictures.
        tasks: an episode of each is a shard.
        learner: weights that drive, an npz of numpy's network; None: the expert drives.
        sees: whether the learner reads pictures; else it is told the scene vector, a little wrong.
        words: an npz with `words` (n, 32), the instructions' numbers, and `tasks` (n,).
    """

    number: int
    shards: int
    pictures: float
    tasks: tuple[str, ...]
    learner: str | None = None
    sees: bool = False
    words: str | None = None


def task_names() -> tuple[str, ...]:
    """The suite's tasks, in its order."""
    return tuple(task.name for task in load_suite(SUITE).tasks)


def shard_path(out: Path, number: int, shard: int) -> Path:
    """Where a shard is kept."""
    return out / f"round-{number}" / f"shard-{shard:04d}.npz"


def draw_pool(out: Path, workers: int, count: int, names: tuple[str, ...]) -> None:
    """Init states, at least `count` of each task in 8 files or, where they are fewer, in as many."""
    parts = min(8, count)
    paths = [(part, out / f"states-{part}.npz") for part in range(parts)]
    todo = [(str(out), part, -(-count // parts), names) for part, path in paths if not path.exists()]
    _run(_draw, todo, workers, "init states")


def _draw(out: str, part: int, count: int, names: tuple[str, ...]) -> None:
    world = World(load_suite(SUITE).task(names[0]))
    _keep(Path(out) / f"states-{part}.npz", drawn_states(world, names, count, 1000 + 10 * (part % 4) + part // 4))


def pool(out: Path, names: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
    """The init states of each of these tasks (n, size)."""
    parts = [np.load(path) for path in sorted(out.glob("states-*.npz"))]
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def collect(out: Path, wanted: Round, workers: int) -> None:
    """Make the round's shards that are not there yet."""
    shards = [n for n in range(wanted.shards) if not shard_path(out, wanted.number, n).exists()]
    todo = [(str(out), wanted, shard) for shard in shards]
    _run(_collect, todo, workers, f"round {wanted.number}")


def _collect(out: str, wanted: Round, shard: int) -> None:
    names, suite = wanted.tasks, load_suite(SUITE)
    states = pool(Path(out), names)
    world = World(suite.task(names[0]))
    world.reset(states[names[0]][0])
    reader = scene_reader(world)
    weights = None if wanted.learner is None else dict(np.load(wanted.learner))
    words = None if wanted.words is None else np.load(wanted.words)
    labels, outcomes = Labels(), []
    for task, name in enumerate(names):
        rng = np.random.default_rng([18, wanted.number, shard, task])
        world.switch(suite.task(name))
        drive = None
        if weights is not None and words is not None:
            said = words["words"][rng.choice(np.flatnonzero(words["tasks"] == task))]
            drive = learner(weights, read_text(weights, said), rng, sees=wanted.sees)
        start = start_of(world, states, rng)
        number = shard * len(names) + task
        outcomes.append(episode(world, reader, task, number, start, rng, labels, drive=drive, pictures=wanted.pictures))
    path = shard_path(Path(out), wanted.number, shard)
    path.parent.mkdir(parents=True, exist_ok=True)
    _keep(path, {**labels.arrays(), "outcomes": np.array(outcomes)})


def start_of(
    world: World, states: Mapping[str, npt.NDArray[np.float64]], rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    """Where an episode of the world's task begins: in a state of its own; in a share of `STRANGE`, of another task's.

    Of other tasks' states one is drawn that leaves something to be done; where none does, it is one of its own.

    Args:
        world: at its task; it is reset.
        states: of each task (n, size).
        rng: draws the tasks and the states.
    """

    def drawn(name: str) -> npt.NDArray[np.float64]:
        found: npt.NDArray[np.float64] = states[name][int(rng.integers(len(states[name])))]
        return found

    others = [name for name in states if name != world.task.name]
    if rng.random() < STRANGE:
        for place in rng.permutation(len(others)):
            state = drawn(others[place])
            world.reset(state)
            if not world.success():
                return state
    return drawn(world.task.name)


def outcomes_of(out: Path, number: int, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Of each task, how many episodes of a round there were, and in how many of them the task was done."""
    shards = []
    for path in sorted((out / f"round-{number}").glob("shard-????.npz")):
        with np.load(path) as shard:
            shards.append(shard["outcomes"])
    done = np.sum(shards, axis=0)
    return {name: {"episodes": len(shards), "done": int(done[task])} for task, name in enumerate(names)}


def learner(weights: dict[str, Numbers], text: Numbers, rng: np.random.Generator, *, sees: bool) -> Drive:
    """A learner that drives: what it answers to what it sees, or to what it is told a little wrong."""
    lasting = rng.normal(size=40).astype(np.float32) * SCENE_NOISE * 0.7

    def drive(scene: Numbers, arm: Numbers, observation: Observation) -> tuple[Numbers, Numbers | None]:
        if sees:
            seen = perceive(weights, *pictures_of(observation), arm)
            return control(weights, seen, arm, text)[0], seen
        scene = scene + lasting + rng.normal(size=40).astype(np.float32) * SCENE_NOISE * 0.7
        return control(weights, scene, arm, text)[0], None

    return drive


def _keep(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    with whole_file(path) as stream:
        np.savez(stream, **dict(arrays))  # type: ignore[arg-type]


def _run(work: Callable[..., None], todo: Sequence[tuple[object, ...]], workers: int, what: str) -> None:
    """Do the work in processes, with a progress line. Raises VlaError where one of them died."""
    started, done = time.monotonic(), 0
    context = multiprocessing.get_context("spawn")
    # Python 3.11's `max_tasks_per_child` waits for ever once a process has had all its tasks while others are queued.
    for first in range(0, len(todo), _REPLACED * workers):
        processes = ProcessPoolExecutor(workers, mp_context=context)
        try:
            for result in [processes.submit(work, *item) for item in todo[first : first + _REPLACED * workers]]:
                result.result()
                done += 1
                print(f"\r{what}: {done}/{len(todo)} after {time.monotonic() - started:.0f} s", end="", flush=True)
        except BrokenProcessPool as error:
            raise VlaError(
                f"{what}: a process died after {done} of {len(todo)}, killed perhaps for want of memory; what is done "
                "is kept: run this again to go on, with fewer --workers if memory is short"
            ) from error
        finally:
            processes.shutdown(cancel_futures=True)
    if todo:
        print()
