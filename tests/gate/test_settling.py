"""How many episodes more settle a group: as the gate itself says of so many more, and near to what planning says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.evidence import Sample, evidence_of
from pytest_vla.gate.planning import groups_of_cases, plan_group
from pytest_vla.gate.settling import MOST_MORE, more_of
from pytest_vla.gate.verdicts import Terms, verdict_of
from tests.support.examples import scaled
from tests.support.varied import varied


def sample(lost: int, gained: int, same: int, per_unit: int = 1) -> Sample:
    """Pairs one after the other, so many of a unit."""
    new = [0] * lost + [1] * gained + [1] * same
    baseline = [1] * lost + [0] * gained + [1] * same
    units = tuple(("suite/task", place // per_unit) for place in range(len(new)))
    return Sample(tuple(new), units, tuple(baseline), units)


def verdict(sample: Sample, terms: Terms, *, is_paired: bool = True) -> str:
    found = evidence_of(sample, terms.margin / 100, terms.alpha, is_paired)
    assert found is not None
    return verdict_of(found.p_worse, found.p_better, found.p_no_worse, terms)


def test_four_pairs_that_end_alike_take_as_many_more_as_the_page_says() -> None:
    """docs/how-to/gate.md: 70 that end alike are no worse by a margin of 5 points."""
    assert [more_of(sample(0, 0, number), 0.05) for number in (1, 4, 10, 69)] == [69, 66, 60, 1]
    assert more_of(sample(7, 7, 126), 0.05) == 6, "146 of which one in ten differs: 14.6; of 144 with 14 it is settled"


@settings(max_examples=scaled(60))
@given(
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(1, 25),
    st.sampled_from([5.0, 10.0, 20.0]),
    st.sampled_from([1, 2]),
)
def test_so_many_times_as_many_like_these_are_settled_and_fewer_are_not(
    lost: int, gained: int, same: int, margin: float, per_unit: int
) -> None:
    some, terms = sample(lost * per_unit, gained * per_unit, same * per_unit, per_unit), Terms(margin)
    if verdict(some, terms) != "undecided":
        return
    pairs = len(some.new)
    more = more_of(some, margin / 100)
    assert more is not None
    times = -(-more // pairs)
    for number in {times, times - 1} - {0}:
        many = sample(*(each * per_unit * (number + 1) for each in (lost, gained, same)), per_unit)
        assert (verdict(many, terms) != "undecided") is (number * pairs >= more)


def test_of_several_groups_a_change_takes_more() -> None:
    assert more_of(sample(4, 0, 6), 0.05, groups=10) > more_of(sample(4, 0, 6), 0.05)  # type: ignore[operator]


def test_what_never_settles_has_no_number() -> None:
    """A drop of just the margin is neither; and of what falls a little, 100,000 more do not say it."""
    assert more_of(sample(0, 0, 4), 1e-6) is None
    assert more_of(sample(500, 499, 9001), 0.00011) is None
    assert MOST_MORE == 100_000


def test_unpaired_episodes_take_more_of_either_side() -> None:
    def seeds(number: int) -> Sample:
        mine, theirs = (tuple(("suite/task", first + seed) for seed in range(number)) for first in (0, 1000))
        return Sample((1,) * number, mine, (1,) * number, theirs)

    more = more_of(seeds(4), 0.05, is_paired=False)
    assert more is not None
    assert verdict(seeds(4 + more), Terms(), is_paired=False) == "no worse"
    assert verdict(seeds(4 + more - 8), Terms(), is_paired=False) == "undecided"


@pytest.mark.parametrize("rate", [0.9, 0.5])
def test_it_is_near_to_what_planning_says(rate: float) -> None:
    """Pairs that go on as planning draws them are settled in half of runs; four of five take 2.28 times as many.

    Of a normal statistic: ((1.645 + 0.842) / 1.645) squared.
    """
    records = [varied("", seed < rate * 20, task=f"task_{task}", seed=seed) for task in range(5) for seed in range(20)]
    (group,) = groups_of_cases(baseline_of(records).cases, ("suite", "dimension"))
    plan = plan_group(group, 0.1, Terms(), 1, np.random.default_rng(1))
    assert plan.no_worse[0] is not None
    half = round(plan.differing * 50)
    more = more_of(sample(half, half, 100 - 2 * half), 0.05)
    assert more is not None
    assert plan.no_worse[0] == pytest.approx(2.28 * (100 + more), rel=0.15)
