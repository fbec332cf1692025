"""What an alarm does within tasks: by hand, and that what knows the task alone, or nothing, gains nothing there."""

import numpy as np
import pytest

from pytest_vla.metrics.alarms import AlarmResult, AlarmRule, TaskAlarms, intervention, task_alarms, within_tasks
from pytest_vla.metrics.failure_prediction import Watched


def watches() -> list[AlarmResult]:
    return [
        AlarmResult(True, ("a", 0), 100, 40),
        AlarmResult(True, ("a", 1), 100, 60),
        AlarmResult(False, ("a", 2), 50, None),
        AlarmResult(False, ("a", 3), 40, 10),
        # Its successes are quick, and nothing rings by then.
        AlarmResult(True, ("b", 0), 100, 90),
        AlarmResult(False, ("b", 1), 30, None),
        AlarmResult(False, ("b", 2), 20, None),
        # Nothing of these can be held against another of their task.
        AlarmResult(True, ("hard", 0), 100, 1),
        AlarmResult(False, ("easy", 0), 30, 1),
    ]


def test_it_is_the_mean_of_tasks_that_have_both_by_hand() -> None:
    found = within_tasks(watches())
    assert found is not None
    # Of task a one failure is stopped by step 49, none by step 39.
    assert (found.tasks, found.caught, found.in_time, found.cut) == (2, 1.0, 0.125, 0.25)
    assert found.more.value == pytest.approx(-0.125)
    assert found.more.interval is not None
    assert found.more.interval[0] < -0.125 < found.more.interval[1]
    assert found.more.tasks_interval is None
    assert task_alarms(watches())[0] == TaskAlarms("a", 2, 2, 2, 1)
    assert [each.task for each in task_alarms(watches())] == ["a", "b", "hard", "easy"]
    assert within_tasks(watches()[7:]) is None
    assert within_tasks([]) is None


@pytest.mark.parametrize("rung", [None, 5])
def test_of_few_that_are_all_alike_little_is_known(rung: int | None) -> None:
    some = [AlarmResult(seed % 2 == 0, (str(task), seed), 20, rung) for task in range(5) for seed in range(4)]
    found = within_tasks(some)
    assert found is not None
    assert found.more.value == 0
    for interval in (found.more.interval, found.more.tasks_interval):
        assert interval is not None
        assert -1 < interval[0] < -0.3
        assert interval[1] == pytest.approx(-interval[0])


def episodes(rng: np.random.Generator, knows: float) -> list[Watched]:
    """Ten tasks, three of them hard: the metric is large in these, and larger in failures by what it `knows`."""
    found = []
    for task in range(10):
        hard = task < 3
        for seed in range(12):
            failed = bool(rng.random() < (0.7 if hard else 0.1))
            level = (0.69 if hard else 0.3) + knows * failed
            values = level + rng.normal(0, 0.1, 300 if failed else int(rng.integers(80, 120)))
            found.append(Watched(failed, (str(task), seed), 300, {"m": values}))
    return found


def test_a_metric_that_knows_only_the_task_gains_nothing_within_tasks() -> None:
    rng = np.random.default_rng(7)
    more, apart, held, gained, times = [], [], 0, 0, 40
    for _ in range(times):
        found = intervention(episodes(rng, 0.0), AlarmRule("m", ">", 0.7, 5))
        assert found is not None
        assert found.within is not None
        assert found.caught is not None
        assert found.cut is not None
        assert found.within.more.interval is not None
        apart.append(found.caught.value - found.cut.value)
        more.append(found.within.more.value)
        held += found.within.more.interval[0] <= 0 <= found.within.more.interval[1]
        telling = intervention(episodes(rng, 0.5), AlarmRule("m", ">", 0.7, 5))
        assert telling is not None
        assert telling.within is not None
        assert telling.within.more.interval is not None
        gained += telling.within.more.interval[0] > 0
    assert np.mean(apart) > 0.4, "over all tasks it looks good"
    assert abs(np.mean(more)) < 0.03
    assert held >= 0.9 * times
    assert gained > 0.5 * times, "what does tell failures from successes of a task is seen"


def test_intervals_hold_simulated_truths() -> None:
    rng = np.random.default_rng(2)
    held, times = np.zeros(2), 200
    for _ in range(times):
        some = []
        for task in range(10):
            for seed in range(8):
                failed = bool(rng.random() < 0.2 + 0.06 * task)
                rings = rng.random() < 0.05 + 0.06 * task + 0.3 * failed
                some.append(AlarmResult(failed, (str(task), seed), 300 if failed else 90, 50 if rings else None))
        found = within_tasks(some)
        assert found is not None
        for place, interval in enumerate((found.more.interval, found.more.tasks_interval)):
            assert interval is not None
            held[place] += interval[0] <= 0.3 <= interval[1]
    assert (held / times >= 0.93).all()
