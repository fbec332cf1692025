"""Rates over successes and failures, errors and invalids beside them; and the table that shows them."""

from dataclasses import dataclass

from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.metrics.success import success_rate, suite_rates
from pytest_vla.reports.terminal import summary_lines, summary_sentence


@dataclass(frozen=True)
class Ended:
    suite: str
    outcome: str
    reason: str | None = None
    task: str = "a_task"


GOAL = [
    Ended("libero_goal", "success"),
    Ended("libero_goal", "failure"),
    Ended("libero_goal", "failure"),
    Ended("libero_goal", "error", "policy-nan"),
    Ended("libero_goal", "error", "policy-nan"),
    Ended("libero_goal", "error", "physics-nan"),
    Ended("libero_goal", "invalid", "goal-holds-at-start"),
]
OBJECT = [Ended("libero_object", "success")]
BROKEN = [Ended("libero_10", "error", "policy-raised")]


def test_errors_and_invalids_are_not_in_the_rate() -> None:
    rate = success_rate("libero_goal", GOAL)
    assert (rate.episodes, rate.successes, rate.counted) == (7, 1, 3)
    assert rate.rate == 1 / 3
    assert rate.interval == wilson_interval(1, 3)
    assert rate.errors == {"physics-nan": 1, "policy-nan": 2}
    assert rate.invalid == {"goal-holds-at-start": 1}


def test_a_rate_of_nothing_is_none() -> None:
    rate = success_rate("libero_10", BROKEN)
    assert (rate.rate, rate.interval, rate.counted, rate.episodes) == (None, None, 0, 1)


def test_suites_are_apart() -> None:
    assert [(rate.name, rate.episodes) for rate in suite_rates(GOAL + OBJECT)] == [
        ("libero_goal", 7),
        ("libero_object", 1),
    ]


def test_the_table() -> None:
    assert summary_lines(GOAL + OBJECT + BROKEN, {}, by_task=False) == [
        "suite          episodes  success    rate  95% Wilson interval  not in the rate",
        "libero_10             1      0/0       -                    -  errors: 1 policy-raised",
        "libero_goal           7      1/3   33.3%        [6.1%, 79.2%]  errors: 1 physics-nan, 2 policy-nan; "
        "invalid: 1 goal-holds-at-start",
        "libero_object         1      1/1  100.0%      [20.7%, 100.0%]",
        "all                   9      2/4   50.0%       [15.0%, 85.0%]  errors: 1 physics-nan, 2 policy-nan, "
        "1 policy-raised; invalid: 1 goal-holds-at-start",
    ]


def test_one_suite_needs_no_row_over_all() -> None:
    assert [line.split()[0] for line in summary_lines(GOAL, {})] == ["suite", "libero_goal", "a_task"]


def test_tasks_have_rows_of_their_own() -> None:
    goal = [Ended("libero_goal", "success", task="stove"), Ended("libero_goal", "failure", task="a_very_long_name")]
    assert [line.split() for line in summary_lines(goal + OBJECT, {})][1:4] == [
        ["libero_goal", "2", "1/2", "50.0%", "[9.5%,", "90.5%]"],
        ["a_very_long_name", "1", "0/1", "0.0%", "[0.0%,", "79.3%]"],
        ["stove", "1", "1/1", "100.0%", "[20.7%,", "100.0%]"],
    ]
    narrow = summary_lines([Ended("libero_goal", "success", task="a" * 90)], {}, width=100)
    assert all(len(line) <= 100 for line in narrow)
    assert "a…" in narrow[2]


def test_the_sentence() -> None:
    assert summary_sentence(OBJECT) == "vla: 1/1 success, 100.0% [20.7%, 100.0%]"
    assert summary_sentence(OBJECT + BROKEN).endswith("; errors: 1 policy-raised")
