"""The means of further numbers: against Student's interval, by what is varied, and what is missing from them."""

import dataclasses
import math
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.metrics.clustered import mean_intervals
from pytest_vla.metrics.extra_metrics import further, further_means
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.records.record import Record
from pytest_vla.reports.further import _MODELS, further_blocks
from pytest_vla.reports.json_schema import written
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.text import block_lines
from tests.support.examples import scaled
from tests.support.varied import varied


def valued(value: float | None, seed: int = 0, label: str = "", task: str = "a", outcome: str = "success") -> Record:
    own = {"clipped_actions": 3.0, "largest_action": 1.2, "asked_done": 1.0, "vacated_bowl_1_x": 0.1}
    return varied(label, outcome, task, seed, metrics=own if value is None else {**own, "way": value})


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30))
@settings(max_examples=scaled(50))
def test_the_interval_of_single_episodes_is_students(values: Sequence[float]) -> None:
    interval, by_task = mean_intervals(values, [("a", seed) for seed in range(len(values))])
    assert by_task is None, "of one task nothing is said of others"
    assert interval is not None
    mean, error = math.fsum(values) / len(values), float(stats.sem(values))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * error
    assert interval == pytest.approx((mean - half, mean + half), abs=1e-6)


def test_episodes_of_one_task_and_seed_count_together_and_tasks_need_five() -> None:
    units = [(task, seed) for task in "abcde" for seed in range(2)]
    values = [float(number) for number in range(10)]
    over, like = mean_intervals([*values, *values], [*units, *units])
    assert over is not None
    assert like is not None
    assert like[0] <= over[0] < over[1] <= like[1]
    assert over == pytest.approx(mean_intervals(values, units)[0]), "seen twice is not known better"
    assert mean_intervals(values[:8], units[:8])[1] is None
    assert mean_intervals([1.0, 2.0], [("a", 0), ("a", 0)]) == (None, None)


def test_means_are_over_counted_episodes_by_what_is_varied() -> None:
    records = [
        valued(1.0, 0),
        valued(3.0, 1, outcome="failure"),
        valued(100.0, 2, outcome="error"),
        valued(100.0, 3, outcome="invalid"),
        valued(None, 4),
        valued(7.0, 0, "camera.distance-L3"),
    ]
    (found,) = further(records)
    assert [(each.name, each.group, each.episodes) for each in found.means["libero_goal"]] == [
        ("way", "benign", 3),
        ("way", "camera.distance:3", 1),
    ]
    benign, camera = found.means["libero_goal"]
    assert benign.mean is not None
    assert camera.mean is not None
    assert (benign.mean.value, camera.mean.value, camera.mean.interval) == (2.0, 7.0, None)
    assert benign.missing == (records[4].case,)
    assert len(found.records) == 4


def test_a_number_that_is_nowhere_is_missing_and_no_zero() -> None:
    records = [valued(None, seed) for seed in range(3)]
    assert further(records) == ()
    (mean,) = further_means(records, ["way"])
    assert (mean.mean, mean.episodes, len(mean.missing)) == (None, 3, 3)
    assert further_means([valued(None, outcome="error")], ["way"]) == ()


def test_a_repeat_is_in_no_mean() -> None:
    records = [valued(1.0), valued(9.0)]
    (found,) = further(records)
    (way,) = found.means["libero_goal"]
    assert way.mean is not None
    assert (way.episodes, way.mean.value) == (1, 1.0)
    assert any("1 repeat" in text for text in found.left_out)


def test_a_test_of_the_users_has_a_mean_of_its_own_beside_the_suites() -> None:
    """It may run the suite's cases again, and they count for both."""
    of_test = [dataclasses.replace(valued(0.3, seed), node=f"test_l.py::test_l[a-seed{seed}]") for seed in range(3)]
    for suites in [[valued(0.2)], [valued(0.2, 0, "camera.distance-L3"), valued(0.2)]]:
        (found,) = further([*of_test, *suites])
        told = {
            title: [(each.episodes, None if each.mean is None else each.mean.value) for each in means]
            for title, means in found.means.items()
        }
        assert told == {"libero_goal": [(1, 0.2)] * len(suites), "test_l.py::test_l": [(3, pytest.approx(0.3))]}
        assert (found.left_out, len(found.records)) == ((), 3 + len(suites))
        assert {row["of"] for row in written(_MODELS, found)["metrics"]} == {"libero_goal", "test_l.py::test_l"}
    lines = list(block_lines(further_blocks([found], Loaded((), {}, {}))))
    assert any(re.match(r"way +test_l.py::test_l .* 3 +0.3", line) for line in lines), lines


def bounds_of(name: str, values: Sequence[float]) -> tuple[float, float] | None:
    records = [varied("", True, seed=seed, metrics={name: value}) for seed, value in enumerate(values)]
    (found,) = further_means(records)
    assert found.mean is not None
    return found.mean.interval


def test_intervals_are_of_what_a_number_can_be() -> None:
    assert bounds_of("other_contacts", [0] * 15 + [1]) == (0.0, pytest.approx(0.195, abs=0.01))
    assert bounds_of("token_entropy", [0.9, 1.0, 1.0, 0.95])[1] == 1.0  # type: ignore[index]
    paper = bounds_of("token_entropy.paper", [3.0, 5.0, 4.0])
    assert paper is not None
    assert paper[1] > 5
    mine = bounds_of("mine", [0.0, 0.0, 1.0])
    assert mine is not None
    assert mine[0] < 0, "nobody said what it can be"
    assert bounds_of("near_joint_limits.margin", [-0.1, 0.1]) != (0.0, 1.0)


def test_sixteen_times_nothing_is_not_sure() -> None:
    assert bounds_of("static_robot", [0.0] * 16) == pytest.approx(wilson_interval(0, 16))
    assert bounds_of("static_robot", [1.0, 0.0, 1.0]) == pytest.approx(wilson_interval(2, 3))
    assert bounds_of("regrasps", [0.0] * 16) is None
    assert bounds_of("mine", [2.5] * 16) is None
