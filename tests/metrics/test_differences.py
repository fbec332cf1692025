"""Paired differences: by hand, beside McNemar's test and scipy's t, and what pairs of one unit are worth."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.metrics.clustered import Unit
from pytest_vla.metrics.differences import POWER, PairedDifference, difference_of, lead_interval, mean_difference
from tests.support.examples import scaled


def of(differences: list[int], units: list[Unit] | None = None) -> PairedDifference:
    """Each pair of a seed of its own, unless it is said."""
    return difference_of(mean_difference(differences, units or [("a task", seed) for seed in range(len(differences))]))


def test_by_hand() -> None:
    """Six of twenty lost: with half a pair lost and half a pair won more it is Student's t."""
    found = of([-1] * 6 + [0] * 14)
    variance = np.var([-1] * 6 + [0] * 14, ddof=1) / 20
    centre = -6 / 21
    error = math.sqrt(variance * (20 / 21) ** 2 + (1 + 20 / 21 * 0.09) / 21**2)
    half = stats.t.ppf(0.975, 19) * error
    assert found.interval == pytest.approx((centre - half, centre + half))
    assert found.p == pytest.approx(2 * stats.t.sf(abs(centre / error), 19))
    assert (found.value, found.pairs, found.units, found.tasks_interval) == (-0.3, 20, 20, None)


@settings(max_examples=scaled(80))
@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 6), st.integers(0, 3)), min_size=2, max_size=60))
def test_one_interval_and_one_p(pairs: list[tuple[int, int, int]]) -> None:
    differences = [each for each, _, _ in pairs]
    units: list[Unit] = [(f"task {task}", seed) for _, task, seed in pairs]
    found = of(differences, units)
    if found.units == 1:
        assert found.interval is found.tasks_interval is found.p is found.detectable is found.telling is None
        return
    assert found.interval is not None
    assert found.p is not None
    low, high = found.interval
    assert -1 <= low <= found.value <= high <= 1
    assert (found.p < 0.05) == (not low <= 0 <= high)
    turned = of([-each for each in differences], units)
    assert turned.interval == pytest.approx((-high, -low))
    assert turned.p == pytest.approx(found.p)
    if found.tasks_interval is not None:
        assert found.tasks_interval[0] <= low
        assert high <= found.tasks_interval[1], "of other tasks no more is known than of these"


@given(st.integers(5, 80), st.integers(0, 30), st.integers(0, 30))
def test_it_agrees_with_mcnemar_where_either_is_clear(n: int, lost: int, gained: int) -> None:
    if lost + gained > n:
        return
    found = of([-1] * lost + [1] * gained + [0] * (n - lost - gained))
    assert found.p is not None
    exact = stats.binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    # It finds what the exact test, which is cautious, finds.
    assert found.p < 0.05 or exact > 0.01
    assert exact < 0.35 or found.p > 0.05


def test_pairs_of_one_task_and_seed_say_no_more_together() -> None:
    once, units = [-1, 0, 0, -1, 0, 1, 0, -1, 0, 0, -1, -1], [(f"task {n % 6}", n) for n in range(12)]
    single, fourfold = (
        of(once, units),
        of([each for each in once for _ in range(4)], [u for u in units for _ in range(4)]),
    )
    assert fourfold.pairs == 4 * single.pairs
    assert fourfold.interval == pytest.approx(single.interval)
    assert fourfold.tasks_interval == pytest.approx(single.tasks_interval)
    assert fourfold.p == pytest.approx(single.p)
    assert fourfold.detectable == pytest.approx(single.detectable, abs=0.03)


def test_a_seed_is_nested_in_its_task() -> None:
    """Seed 3 of one task is nothing to seed 3 of another."""
    differences = [-1, 0, -1, 0, -1, 0, 0, 0, -1, 0]
    same_number: list[Unit] = [(f"task {n}", 0) for n in range(10)]
    numbered: list[Unit] = [(f"task {n}", n) for n in range(10)]
    assert of(differences, same_number) == of(differences, numbered)


def test_tasks_that_differ_are_in_the_interval_over_tasks_like_these() -> None:
    """Two of ten tasks lose all, the others nothing: of these tasks more is known than of others."""
    units: list[Unit] = [(f"task {task}", seed) for task in range(10) for seed in range(10)]
    found = of([-1 if task < 2 else 0 for task in range(10) for _ in range(10)], units)
    assert found.interval is not None
    assert found.tasks_interval is not None
    assert found.interval[1] < 0 < found.tasks_interval[1]
    assert of([-1] * 40, units[:40]).tasks_interval is None


def test_what_a_run_can_show_is_what_so_many_of_such_runs_show() -> None:
    generator, n = np.random.default_rng(0), 40

    def drawn(drop: float) -> list[int]:
        common = generator.normal(size=n)
        twins, varied = (
            stats.norm.cdf(0.6 * common + 0.8 * generator.normal(size=n)) < rate for rate in (0.85, 0.85 - drop)
        )
        return (varied.astype(int) - twins.astype(int)).tolist()

    found = [of(drawn(0.1)) for _ in range(60)]
    detectable = float(np.median([each.detectable or 1 for each in found]))
    telling = int(np.median([each.telling or 0 for each in found]))
    assert 0.2 < detectable < 0.4
    shown = np.mean([(of(drawn(detectable)).p or 1) < 0.05 for _ in range(300)])
    assert POWER - 0.08 < shown < 0.98
    n = telling
    shown = np.mean([(of(drawn(0.1)).p or 1) < 0.05 for _ in range(300)])
    assert POWER - 0.15 < shown < POWER + 0.12


def test_of_several_differences_each_shows_less() -> None:
    """Holm's correction: as one of twenty a difference that single runs show in four of five has to be larger."""
    generator = np.random.default_rng(3)
    differences = generator.choice([-1, 0, 1], p=[0.15, 0.75, 0.1], size=200).tolist()
    mean = mean_difference(differences, [("a", seed) for seed in range(200)])
    alone, of_twenty = difference_of(mean), difference_of(mean, among=20)
    assert alone.detectable is not None
    assert of_twenty.detectable is not None
    assert alone.telling is not None
    assert of_twenty.telling is not None
    # Standard errors: 1.96 + .84 alone, 3.02 + .84 at a twentieth of alpha.
    assert of_twenty.detectable == pytest.approx(alone.detectable * 3.86 / 2.80, rel=0.08)
    assert of_twenty.telling > 1.6 * alone.telling
    assert (of_twenty.p, of_twenty.interval) == (alone.p, alone.interval)


def test_a_few_pairs_can_show_nothing() -> None:
    assert of([0, 0, -1, 1, 0]).detectable is None
    assert (of([0] * 8).detectable or 0) > 0.6, "eight that agree are not all"


def test_a_lead_knows_what_dimensions_have_in_common() -> None:
    """Both lose on the same tasks and seeds: which loses more is known better than how much either does."""
    units: list[Unit] = [("a task", seed) for seed in range(40)]
    worse, better = [-1] * 20 + [0] * 20, [-1] * 16 + [0] * 24
    apart: list[Unit] = [("another task", seed) for seed in range(40)]
    same = lead_interval(mean_difference(better, units), mean_difference(worse, units))
    other = lead_interval(mean_difference(better, apart), mean_difference(worse, units))
    assert same is not None
    assert other is not None
    assert same[1] - same[0] < 0.75 * (other[1] - other[0])
    assert same[0] < 0.1 < same[1]
    assert lead_interval(mean_difference([1], units[:1]), mean_difference([1], units[:1])) is None


def test_there_has_to_be_a_pair() -> None:
    for differences, units in (([], []), ([1], [])):
        with pytest.raises(ValueError, match="expected as many, at least 1"):
            mean_difference(differences, units)
