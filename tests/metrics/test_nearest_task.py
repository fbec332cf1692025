"""Which task was done instead: on made paths, and on the built-in expert's on tabletop.

``tabletop_paths.npz`` has the end effector's paths, in steps of 1 mm, of 99 successes of ``--vla-model=expert`` (ten
tasks, seeds 0-9; one failed) and of 20 episodes of ``--vla-model=random``.
"""

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.metrics.failure_types import Reference, reference_of
from pytest_vla.metrics.language_paths import MARGIN, nearest_task

Array = NDArray[np.float64]


def line(*corners: tuple[float, float, float], n: int = 40, seed: int = 0) -> Array:
    """Straight from corner to corner, n steps each, with 2 mm of noise."""
    path = np.concatenate([np.linspace(a, b, n) for a, b in itertools.pairwise(corners)])
    return path + np.random.default_rng(seed).normal(scale=0.002, size=path.shape)


HOME, LEFT, RIGHT, FRONT = (0.0, 0.0, 1.2), (0.0, 0.3, 0.9), (0.0, -0.3, 0.9), (0.3, 0.0, 0.9)


def references(**ends: tuple[float, float, float]) -> dict[str, Reference]:
    return {task: reference_of([line(HOME, end, n=n, seed=n) for n in range(35, 46, 2)]) for task, end in ends.items()}


TASKS = references(left=LEFT, right=RIGHT, front=FRONT)


def test_who_does_another_task_is_recognised() -> None:
    found = nearest_task(line(HOME, RIGHT, seed=7), TASKS)
    assert found is not None
    assert (found.task, found.nearest) == ("right", "right")
    assert found.distance == found.distances["right"] == min(found.distances.values())
    second = sorted(found.distances.values())[1]
    assert found.margin == pytest.approx(1 - found.distance / second)
    assert MARGIN < found.margin < 1


def test_who_then_waits_or_was_slow_is_recognised_too() -> None:
    done = line(HOME, RIGHT, seed=7)
    waiting = np.concatenate([done, np.repeat(done[-1:], 250, axis=0)])
    for path in (waiting, line(HOME, RIGHT, n=300, seed=8)):
        found = nearest_task(path, TASKS)
        assert found is not None
        assert found.task == "right"


def test_who_goes_between_two_tasks_did_neither() -> None:
    between = tuple((a + b) / 2 for a, b in zip(LEFT, FRONT, strict=True))
    found = nearest_task(line(HOME, (between[0], between[1], between[2]), seed=7), TASKS)
    assert found is not None
    assert found.task is None
    assert found.nearest in ("left", "front")
    assert found.margin < 0.2


def test_who_goes_elsewhere_did_no_task() -> None:
    found = nearest_task(line(HOME, (-0.5, 0.0, 1.6), seed=7), TASKS)
    assert found is not None
    assert found.task is None


def test_who_goes_on_to_another_place_did_not_do_what_lies_on_the_way() -> None:
    """Cut where the nearer task ends, as Algorithm 1 does, the path would be that task's."""
    tasks = TASKS | {"far_left": reference_of([line(HOME, LEFT, (0.3, 0.3, 0.9), seed=s) for s in range(4)])}
    found = nearest_task(line(HOME, LEFT, (0.3, 0.3, 0.9), seed=9), tasks)
    assert found is not None
    assert found.task == "far_left"


def test_who_does_not_move_does_nothing() -> None:
    assert nearest_task(np.repeat([HOME], 300, axis=0), TASKS) is None


def test_two_tasks_alike_give_no_margin() -> None:
    twins = {"one": TASKS["left"], "two": TASKS["left"]}
    for path in (line(HOME, LEFT, seed=5), TASKS["left"].mean_path):
        found = nearest_task(path, twins)
        assert found is not None
        assert (found.task, found.nearest, found.margin) == (None, "one", 0.0)


def test_one_task_alone_gives_no_answer() -> None:
    with pytest.raises(ValueError, match="expected at least 2"):
        nearest_task(line(HOME, LEFT), {"left": TASKS["left"]})
    with pytest.raises(ValueError, match="finite"):
        nearest_task(np.full((4, 3), np.nan), TASKS)


@pytest.fixture(scope="module")
def recorded() -> Mapping[str, Mapping[int, Array]]:
    """Paths in m by task and seed; those of random actions by ``random-`` and the task."""
    with np.load(Path(__file__).with_name("tabletop_paths.npz"), allow_pickle=False) as arrays:
        points = arrays["steps"].astype(np.int64).cumsum(axis=0) / 1000
        paths = np.split(points, arrays["lengths"].cumsum()[:-1])
        found: dict[str, dict[int, Array]] = {}
        for name, path in zip(arrays["names"].tolist(), paths, strict=True):
            task, _, seed = name.rpartition("-seed")
            found.setdefault(task, {})[int(seed)] = path
    return found


def expert(recorded: Mapping[str, Mapping[int, Array]]) -> dict[str, Mapping[int, Array]]:
    return {task: paths for task, paths in recorded.items() if not task.startswith("random-")}


def test_each_of_three_expert_episodes_a_task_is_recognised_among_all_ten(
    recorded: Mapping[str, Mapping[int, Array]],
) -> None:
    tasks = expert(recorded)
    assert len(tasks) == 10
    known = {task: reference_of([paths[seed] for seed in range(3)]) for task, paths in tasks.items()}
    for task, paths in tasks.items():
        for seed in range(3):
            found = nearest_task(paths[seed], known)
            assert found is not None
            assert found.nearest == task


def test_expert_episodes_that_the_references_do_not_know_are_named_rightly_or_not_at_all(
    recorded: Mapping[str, Mapping[int, Array]],
) -> None:
    """The numbers in `MARGIN`'s docstring."""
    tasks = expert(recorded)
    nearest = named = wrong = without = count = 0
    for half in (0, 1):
        known = {
            task: reference_of([path for seed, path in paths.items() if seed % 2 == half])
            for task, paths in tasks.items()
        }
        for task, paths in tasks.items():
            for path in (path for seed, path in paths.items() if seed % 2 != half):
                found = nearest_task(path, known)
                others = nearest_task(path, {name: known[name] for name in known if name != task})
                assert found is not None
                assert others is not None
                count += 1
                nearest += found.nearest == task
                named += found.task == task
                wrong += found.task not in (task, None)
                without += others.task is not None
    assert (count, nearest, named, wrong, without) == (99, 98, 85, 0, 0)


def test_the_wait_after_a_task_changes_nothing(recorded: Mapping[str, Mapping[int, Array]]) -> None:
    tasks = expert(recorded)
    known = {task: reference_of(list(paths.values())) for task, paths in tasks.items()}
    for paths in tasks.values():
        waiting = np.concatenate([paths[0], np.repeat(paths[0][-1:], 150, axis=0)])
        assert nearest_task(waiting, known) == nearest_task(paths[0], known)


@pytest.mark.parametrize("seeds", [3, 10])
def test_random_actions_did_no_task(recorded: Mapping[str, Mapping[int, Array]], seeds: int) -> None:
    known = {
        task: reference_of([path for seed, path in paths.items() if seed < seeds])
        for task, paths in expert(recorded).items()
    }
    wandering = [path for task, paths in recorded.items() if task.startswith("random-") for path in paths.values()]
    assert len(wandering) == 20
    found = [nearest_task(path, known) for path in wandering]
    assert [answer.task for answer in found if answer is not None] == [None] * 20
    assert max(answer.margin for answer in found if answer is not None) < 0.53
