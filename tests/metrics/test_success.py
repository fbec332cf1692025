"""Rates over successes and failures, errors and invalids beside them; and the table that shows them."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from pytest_vla.metrics.rates import bounds_text, interval_text, left_out_text, percents_text, rate_table, reasons_text
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.metrics.success import (
    chance_to_reach,
    episodes_to_reach,
    fewest_to_reach,
    success_rate,
    unit_of,
)
from pytest_vla.plan.case import is_given
from pytest_vla.reports.terminal import summary_lines, summary_sentence
from tests.support.golden import check_golden

GOLDEN = Path(__file__).with_name("golden")


@dataclass(frozen=True)
class Ended:
    suite: str
    outcome: str
    reason: str | None = None
    task: str = "a_task"
    variation: Mapping[str, object] = field(default_factory=dict)
    seed: int = field(default_factory=itertools.count().__next__)
    protocol: Mapping[str, object] = field(default_factory=dict)
    init_state: int | None = None
    run_seed: int = 0

    @property
    def task_key(self) -> str:
        return self.task

    @property
    def is_probe(self) -> bool:
        return self.variation.get("kind") == "blank"

    @property
    def is_given(self) -> bool:
        return is_given(str(self.variation.get("label", "")))

    @property
    def in_no_rate(self) -> bool:
        return self.is_probe or self.is_given


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


def test_the_table() -> None:
    assert summary_lines(GOAL + OBJECT + BROKEN, {}, by_task=False) == [
        "suite          episodes  success    rate  95%, these tasks  not in the rate",
        "libero_10             1      0/0       -                 -  errors: 1 policy-raised",
        "libero_goal           7      1/3   33.3%     [6.1%, 79.2%]  14.3% to 71.4% with errors: 1 physics-nan, "
        "2 policy-nan; invalid: 1 goal-holds-at-start",
        "libero_object         1      1/1  100.0%   [20.7%, 100.0%]",
        "all                   9      2/4   50.0%    [15.0%, 85.0%]  22.2% to 77.8% with errors: 1 physics-nan, "
        "2 policy-nan, 1 policy-raised; invalid: 1 goal-holds-at-start",
    ]


SIX = [
    Ended("libero_goal", "success" if seed < 6 else "failure", task=f"task_{task}", seed=seed)
    for task in range(6)
    for seed in range(8)
]


def test_of_several_tasks_it_says_too_what_it_says_of_others() -> None:
    lines = summary_lines(SIX, {}, by_task=False)
    assert lines == [
        "suite        episodes  success   rate  95%, these tasks  tasks like these",
        "libero_goal        48    36/48  75.0%    [61.2%, 85.1%]    [53.6%, 88.6%]",
    ]
    with_tasks = summary_lines(SIX, {})
    assert not any("[" in line[60:] for line in with_tasks[2:]), "a task says nothing of others"
    narrow = summary_lines(SIX, {}, by_task=False, width=70)
    assert max(map(len, narrow)) <= 70
    assert narrow[1:] == [
        "libero_goal        48    36/48  75.0%    [61.2%, 85.1%]",
        "  tasks like these: [53.6%, 88.6%]",
    ]


def test_episodes_of_one_task_and_seed_count_together() -> None:
    """Four kinds under each of ten seeds, which fail alike: no more is known than of ten."""
    alike = [
        Ended("libero_goal", "success" if seed < 6 else "failure", task="stove", seed=seed)
        for seed in range(10)
        for _ in range(4)
    ]
    rate = success_rate("x", alike, unit_of)
    assert rate.interval is not None
    low, high = rate.interval
    assert low < wilson_interval(6, 10)[0] < 0.6 < wilson_interval(6, 10)[1] < high
    assert success_rate("x", alike[:4], unit_of).interval is None, "of one task and seed nothing is known"
    assert success_rate("x", alike[:1], unit_of).interval == wilson_interval(1, 1)
    pinned = [replace(each, protocol={"init_state": 0}, variation={"label": str(n)}) for n, each in enumerate(alike)]
    assert success_rate("x", pinned, unit_of).interval == wilson_interval(24, 40), "the init state is the task's"


def test_draws_from_a_pinned_start_are_independent_given_the_task() -> None:
    """No seed begins elsewhere, so that over these tasks the draws are what differs; over tasks like these, tasks.

    Simulated: tasks of different rates, each with one start. With starts as clusters an interval over these tasks would
    hold in all cases and be twice as wide, and of one task there would be none.
    """
    generator = np.random.default_rng(1)
    held, width, wide, runs = 0, 0.0, 0.0, 300
    for _ in range(runs):
        rates = generator.beta(0.7 * 2.3, 0.3 * 2.3, 5)
        done = generator.random((5, 10)) < rates[:, None]

        def ended(task: int, draw: int, *, by_seed: bool, done: NDArray[np.bool_] = done) -> Ended:
            seed, run_seed = (draw, 0) if by_seed else (0, draw)
            outcome = "success" if done[task, draw] else "failure"
            protocol = {"init_state": 0, "init_states": 50}
            return Ended("s", outcome, task=f"t{task}", seed=seed, run_seed=run_seed, protocol=protocol, init_state=0)

        seeds, run_seeds = (
            success_rate("x", [ended(t, d, by_seed=each) for t in range(5) for d in range(10)], unit_of)
            for each in (True, False)
        )
        assert seeds.interval == run_seeds.interval == wilson_interval(int(done.sum()), 50)
        assert seeds.tasks_interval == run_seeds.tasks_interval
        assert seeds.interval is not None
        assert seeds.tasks_interval is not None
        held += seeds.interval[0] <= rates.mean() <= seeds.interval[1]
        width += seeds.interval[1] - seeds.interval[0]
        wide += seeds.tasks_interval[1] - seeds.tasks_interval[0]
    assert held / runs > 0.94
    assert 2 * width < wide


@pytest.mark.parametrize(
    ("n", "minimum", "truth", "chance"),
    [(10, 0.8, 0.6, 0.167), (20, 0.8, 0.6, 0.051), (10, 1.0, 0.8, 0.107), (10, 0.0, 0.5, 1.0), (3, 0.5, 0.3, 0.216)],
)
def test_the_chance_to_reach_a_minimum_by_luck(n: int, minimum: float, truth: float, chance: float) -> None:
    assert chance_to_reach(n, minimum, truth) == pytest.approx(chance, abs=5e-4)


@given(st.integers(1, 60), st.floats(0.01, 1), st.booleans())
def test_the_fewest_successes_are_just_enough(n: int, minimum: float, by_lower_end: bool) -> None:
    def reached(successes: int) -> bool:
        return (wilson_interval(successes, n)[0] if by_lower_end else successes / n) >= minimum

    fewest = fewest_to_reach(n, minimum, by_lower_end)
    if fewest is None:
        assert not reached(n)
        assert chance_to_reach(n, minimum, 0.9, by_lower_end) == 0
        return
    assert reached(fewest)
    assert not fewest or not reached(fewest - 1)
    chance = sum(stats.binom.pmf(k, n, 0.7) for k in range(fewest, n + 1))
    assert chance_to_reach(n, minimum, 0.7, by_lower_end) == pytest.approx(chance)


def test_how_many_episodes_the_lower_end_takes() -> None:
    assert episodes_to_reach(0.8) == 16
    assert wilson_interval(16, 16)[0] >= 0.8 > wilson_interval(15, 15)[0]
    assert episodes_to_reach(1.0) is None


def test_one_suite_needs_no_row_over_all() -> None:
    assert [line.split()[0] for line in summary_lines(GOAL, {})] == ["suite", "libero_goal", "a_task"]


def test_tasks_have_rows_of_their_own() -> None:
    goal = [Ended("libero_goal", "success", task="stove"), Ended("libero_goal", "failure", task="a_very_long_name")]
    check_golden(GOLDEN / "tasks.txt", "\n".join(summary_lines(goal + OBJECT, {})))
    narrow = summary_lines([Ended("libero_goal", "success", task="a" * 90)], {}, width=100)
    assert all(len(line) <= 100 for line in narrow)
    assert "a…" in narrow[2]


def test_in_a_log_no_name_is_cut_and_the_table_fits_100_columns() -> None:
    long = "put_the_wine_bottle_between_the_plate_and_the_ramekin_on_top_of_the_cabinet"
    records = [*GOAL, Ended("libero_goal", "success", task=long), Ended("libero_goal", "success", task="stove")]
    lines = summary_lines(records, {}, width=100, whole_names=True)
    assert max(map(len, lines)) <= 100
    assert f"  {long}" in lines
    at = lines.index(f"  {long}")
    assert lines[at + 1].split() == ["1", "1/1", "100.0%", "[20.7%,", "100.0%]"]
    assert len(lines[at + 1]) == len(lines[0]), "its numbers stand in their columns"


def varied(outcome: str, kind: str, dimension: str = "language", level: int | None = None, **more: str) -> Ended:
    label = "camera.distance-L2+light.dim-L1" if "+" in dimension else "x"
    table = {"label": label, "dimension": dimension, "kind": kind, "level": level, "parameters": {}}
    return Ended("libero_goal", outcome, variation=table, **more)


VARIED = [
    *(Ended("libero_goal", "success", task="stove") for _ in range(3)),
    *(varied("failure", "paraphrase", task="stove") for _ in range(4)),
    varied("success", "blank", task="stove"),
    *(varied("failure", "distance", "camera", level, task="stove") for level in (1, 2, 2)),
    varied("success", "distance+dim", "camera+light", task="stove"),
    varied("error", "blank", reason="policy-raised", task="stove"),
]


def test_no_rate_is_over_benign_and_varied_episodes_nor_over_two_kinds() -> None:
    lines = summary_lines(VARIED, {}, by_task=False)
    assert [line.split()[:3] for line in lines[1:]] == [
        ["libero_goal"],
        ["benign", "3", "3/3"],
        ["camera.distance-L2+light.dim-L1", "1", "1/1"],
        ["camera.distance:1", "1", "0/1"],
        ["camera.distance:2", "2", "0/2"],
        ["language.blank", "2", "1/1"],
        ["language.paraphrase", "4", "0/4"],
    ]
    assert lines[6].split()[3:5] == ["probe", "-"], "what a probe did is no rate"
    with_tasks = summary_lines(VARIED, {})
    assert [line.split()[0] for line in with_tasks[:4]] == ["suite", "libero_goal", "benign", "stove"]
    assert sum(line.startswith("    stove ") for line in with_tasks) == 6
    assert sum(line.split()[:4] == ["stove", "2", "1/1", "probe"] for line in with_tasks) == 1
    # Over several suites, what is benign may be in one rate.
    everywhere = summary_lines([*VARIED, *OBJECT], {}, by_task=False)
    assert everywhere[-1].split()[:4] == ["all,", "benign", "4", "4/4"]
    assert not any(line.startswith("all") for line in summary_lines([*VARIED[3:], *OBJECT], {}))


def test_own_tests_have_a_row_for_each_kind_too() -> None:
    lines = summary_lines([], {"test_mine.py::test_it": VARIED[:7], "test_mine.py::test_plain": VARIED[:3]})
    assert [line.split()[:3] for line in lines[1:]] == [
        ["test_mine.py::test_it"],
        ["benign", "3", "3/3"],
        ["language.paraphrase", "4", "0/4"],
        ["test_mine.py::test_plain", "3", "3/3"],
    ]


def test_very_many_levels_are_one_row() -> None:
    many = [varied("success", f"kind{number}", level=level) for number in range(20) for level in range(1, 4)]
    assert len(summary_lines(many, {}, by_task=False)) == 1 + 1 + 20
    assert len(summary_lines(many[:30], {}, by_task=False)) == 1 + 1 + 30


def test_the_table_fits_80_columns() -> None:
    """A probe has no rate, and so no bounds; own tests stand below the suites."""
    long = [varied("failure", "paraphrase", task="put_the_wine_bottle_on_top_of_the_cabinet"), *VARIED]
    own = {"test_mine.py::test_it": VARIED[:7], "test_mine.py::test_plain": VARIED[:3]}
    lines = summary_lines([*long, *GOAL, *BROKEN], own, width=80)
    assert max(map(len, lines)) <= 80
    check_golden(GOLDEN / "varied.txt", "\n".join(lines))


def test_the_sentence() -> None:
    assert summary_sentence(OBJECT) == "vla: 1/1 success, 100.0% [20.7%, 100.0%]"
    assert summary_sentence(OBJECT + BROKEN).endswith("; 50.0% to 100.0% with errors: 1 policy-raised")
    assert summary_sentence(VARIED[:7]) == (
        "vla: benign 3/3 success, 100.0% [43.9%, 100.0%]; language.paraphrase 0/4 success, 0.0% [0.0%, 49.0%]"
    )
    assert "; language.blank 1/1 success (probe); errors: 1 policy-raised; " in summary_sentence(VARIED)


@pytest.mark.parametrize(
    ("outcomes", "bounds"),
    [
        (["success"] * 8 + ["failure"] * 2 + ["error"] * 2, (8 / 12, 10 / 12)),
        (["success", "failure", "invalid", "error"], (0.25, 0.75)),
        (["success", "failure"], None),
        (["error"], (0.0, 1.0)),
        ([], None),
    ],
)
def test_bounds_are_what_left_out_episodes_could_have_made_of_a_rate(
    outcomes: list[str], bounds: tuple[float, float] | None
) -> None:
    rate = success_rate("", [Ended("libero_goal", outcome, "why") for outcome in outcomes])
    assert rate.bounds == bounds
    assert rate.not_counted == sum(outcome in ("error", "invalid") for outcome in outcomes)


@given(st.lists(st.sampled_from(["success", "failure", "error", "invalid"]), min_size=1))
def test_a_rate_lies_within_its_bounds(outcomes: list[str]) -> None:
    rate = success_rate("", [Ended("libero_goal", outcome, "why") for outcome in outcomes])
    low, high = rate.bounds or (rate.rate, rate.rate)
    assert low is not None
    assert high is not None
    assert rate.rate is None or low - 1e-12 <= rate.rate <= high + 1e-12
    assert high - low == pytest.approx(rate.not_counted / len(outcomes))


def test_what_is_left_out_is_said_with_its_bounds() -> None:
    rate = success_rate("", [Ended("libero_goal", outcome, "why") for outcome in ["success"] * 3 + ["error"] * 2])
    assert left_out_text(rate) == "2 errors: 60.0% to 100.0%"
    assert (bounds_text(rate), reasons_text(rate)) == ("60.0% to 100.0%", "2 why; with them 60.0% to 100.0%")
    assert reasons_text(rate, bounds=False) == "2 why"
    assert rate_table(rate)["bounds"] == (60, 100)
    nothing = success_rate("", [Ended("libero_goal", "invalid", "why")])
    assert (left_out_text(nothing), reasons_text(nothing)) == ("1 invalid", "1 why"), "of no rate there are no bounds"
    assert left_out_text(success_rate("", [Ended("libero_goal", "success")])) == ""


def test_what_a_rule_has_chosen_has_bounds_and_no_interval() -> None:
    records = [Ended("s", "success", seed=seed) for seed in range(4)]
    stopped = [Ended("s", "invalid", "stopped-early", seed=seed) for seed in range(4, 6)]
    found = success_rate("s", [*records, *stopped], unit_of)
    assert (found.rate, found.interval, found.tasks_interval, found.bounds) == (1.0, None, None, (4 / 6, 1.0))
    assert not found.reaches(0.1, by_lower_end=True)
    assert rate_table(found)["interval"] is None
    assert interval_text(found) == "(66.7% to 100.0%)"
    assert percents_text(found) == "100.0 (66.7 to 100.0)"
    assert left_out_text(found) == "2 invalid"
    (line,) = [line for line in summary_lines([*records, *stopped], {}, False) if line.startswith("s ")]
    assert " ".join(line.split()) == "s 6 4/4 100.0% (66.7% to 100.0%) invalid: 2 stopped-early"
    assert success_rate("s", records, unit_of).interval is not None


def test_given_cases_have_rows_of_counts_alone() -> None:
    drawn = {"dimension": "light", "kind": "diffuse", "level": 2, "label": "light.diffuse-L2"}
    chosen = {"dimension": "light", "kind": "diffuse", "level": None, "label": "light.diffuse-x0123abcd"}
    lines = summary_lines(
        [
            *(Ended("libero_goal", "success", variation=drawn) for _ in range(6)),
            *(Ended("libero_goal", "failure", variation=chosen) for _ in range(4)),
        ],
        {},
        by_task=False,
    )
    rows = {line.split("  ")[1].strip(): line.split() for line in lines if line.startswith("  ")}
    assert rows["light.diffuse:2"][1:4] == ["6", "6/6", "100.0%"]
    assert rows["given: light.diffuse"][-4:] == ["4", "0/4", "given", "-"]
