"""The smallest drop that a run finds: the gate's own verdicts on simulated units, and what planning says of it."""

from collections.abc import Sequence

import numpy as np
import pytest

from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.episodes_needed import smallest_drop, smallest_drops
from pytest_vla.gate.planning import PlanGroup, UnitType, gates_on, groups_of_cases, plan_group
from pytest_vla.gate.verdicts import Terms
from pytest_vla.plan.case import Case
from pytest_vla.records.record import Record
from tests.support.varied import episodes


def group_of(records: Sequence[Record]) -> PlanGroup:
    (group,) = groups_of_cases(baseline_of(records).cases, ("suite", "dimension"))
    return group


def drop_of(group: PlanGroup, terms: Terms, groups: int = 1, seed: int = 0) -> int | None:
    return smallest_drop(group, terms, groups, np.random.default_rng(seed))


ALONE = (UnitType(0, 0, 1), UnitType(0, 1, 1), UnitType(1, 0, 1))
TOGETHER = (
    UnitType(0, 0, 2),
    UnitType(0, 0, 3),
    UnitType(0, 2, 3),
    UnitType(1, 0, 2),
    UnitType(1, 1, 3),
    UnitType(3, 0, 3),
)


@pytest.mark.parametrize("margin", [1.0, 5.0, 30.0, 100.0])
@pytest.mark.parametrize("kinds", [ALONE, TOGETHER])
def test_many_gates_at_once_say_what_each_says(kinds: Sequence[UnitType], margin: float) -> None:
    generator = np.random.default_rng(1)
    rows = generator.integers(0, generator.integers(2, 60, (80, len(kinds))))
    rows = rows[rows.any(1)]
    expected = [gates_on(kinds, row[None].astype(float), Terms(margin), 3)[0] for row in rows]
    assert gates_on(kinds, rows.astype(float), Terms(margin), 3).tolist() == expected
    assert len({*expected}) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("labels", [("",), tuple(f"light.diffuse-L{level}" for level in range(1, 5))])
def test_planning_finds_it_in_four_of_five_runs_and_one_that_is_two_points_smaller_less_often(
    labels: Sequence[str],
) -> None:
    group = group_of(episodes((1.0, 0.9, 0.6, 0.8), 25, labels))
    drop = drop_of(group, Terms(), 2)
    assert drop is not None
    shares = [
        plan_group(group, each / 100, Terms(), 2, np.random.default_rng(4)).as_now[1] for each in (drop, drop - 2)
    ]
    assert shares[0] == pytest.approx(0.83, abs=0.06)
    assert shares[1] is not None
    assert shares[1] < 0.8


def test_more_episodes_find_less_and_more_groups_and_a_wider_margin_find_more() -> None:
    some, many = (group_of(episodes((1.0, 0.9, 0.8, 0.9), seeds)) for seeds in (10, 40))
    drops = drop_of(many, Terms()), drop_of(some, Terms()), drop_of(some, Terms(), 10), drop_of(some, Terms(20))
    assert all(drops)
    few, more, of_ten, wide = (drop or 0 for drop in drops)
    assert few < more < of_ten
    assert wide >= more


def test_what_so_few_episodes_cannot_find_is_none() -> None:
    assert drop_of(group_of(episodes((1.0, 1.0), 2)), Terms()) is None
    assert drop_of(group_of(episodes((0.1, 0.0), 20)), Terms()) is None
    assert drop_of(group_of(episodes((0.0, 0.0), 20)), Terms()) is None
    assert drop_of(group_of(episodes((1.0, 1.0), 20)), Terms(100)) is None


def test_only_what_runs_is_simulated() -> None:
    """Half of the baseline's cases, of one of its two dimensions."""
    labels = ("", "light.diffuse-L1")
    baseline = baseline_of(episodes((1.0, 1.0), 40, labels))

    def drops(first: int) -> dict[str, int | None]:
        seeds = range(first, first + 20)
        cases = [Case("libero_goal", f"task_{task}", seed, "") for task in range(2) for seed in seeds]
        return smallest_drops(baseline, cases, 0, Terms(), np.random.default_rng(0))

    found = drops(0)
    assert list(found) == ["libero_goal[benign]"]
    assert found == drops(0), "the same generator tells the same"
    whole = smallest_drop(group_of(episodes((1.0, 1.0), 40)), Terms(), 1, np.random.default_rng(0))
    assert whole is not None
    drop = found["libero_goal[benign]"]
    assert drop is not None
    assert drop > whole
    assert drops(100) == {}, "no case is in both"
