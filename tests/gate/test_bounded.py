"""The test of pairs: beside exact tests and lots drawn by brute force, what bounds and p values say of each other."""

from collections.abc import Sequence
from math import comb
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.gate.bounded import (
    Kinds,
    UnitCounts,
    Way,
    changed_p,
    changed_ps,
    counted_units,
    no_worse_p,
    no_worse_ps,
    paired_bounds,
    tasks_bounds,
)
from pytest_vla.metrics.clustered import Unit
from pytest_vla.metrics.differences import difference_of, mean_difference
from tests.support.examples import scaled

PAIRS = st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 2), st.integers(0, 8)), min_size=2, max_size=60)


def single(n: int, task: str = "a", first: int = 0) -> list[Unit]:
    return [(task, first + seed) for seed in range(n)]


def starts(sums: Sequence[int], size: int) -> UnitCounts:
    """Units of so many pairs with these sums."""
    differences = [each for total in sums for each in [int(np.sign(total))] * abs(total) + [0] * (size - abs(total))]
    return counted_units(differences, [("a", place // size) for place in range(len(differences))])


def of(rows: list[tuple[int, int, int]]) -> tuple[list[int], list[Unit]]:
    return [d for d, _, _ in rows], [(f"task {t}", s) for _, t, s in rows]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 20))
def test_single_pairs_are_mcnemars_exact_test(lost: int, gained: int, ties: int) -> None:
    if not lost + gained + ties:
        return
    counts = starts([-1] * lost + [1] * gained + [0] * ties, 1)
    ways: list[tuple[Way, int]] = [("worse", lost), ("better", gained)]
    for way, count in ways:
        expected = stats.binomtest(count, lost + gained, alternative="greater").pvalue if lost + gained else 1.0
        assert changed_p(counts, way) == pytest.approx(expected, rel=1e-7)


def test_a_thousand_to_one_is_as_exact() -> None:
    """Deep in the tail, in whole numbers."""
    n, gained = 900, 100
    expected = sum(comb(n, k) for k in range(gained + 1)) / 2**n
    assert changed_p(starts([-1] * (n - gained) + [1] * gained, 1), "worse") == pytest.approx(expected, rel=1e-9)
    assert expected < 1e-100


@pytest.mark.parametrize(("units", "pairs"), [(1, 20), (5, 20), (5, 43), (8, 5), (20, 1)])
def test_units_that_lose_everything_halve_the_p_each(units: int, pairs: int) -> None:
    """Twenty pairs of each of five starts, all lost, are a regression at 5%: 1 / 2^5."""
    counts = starts([-pairs] * units, pairs)
    assert changed_p(counts, "worse") == pytest.approx(0.5**units, rel=1e-7)
    # Beyond a margin: one unit against (1 + margin) / (1 - margin) of its own.
    assert changed_p(counts, "worse", 0.05) == pytest.approx((1.05 / 2) ** units, rel=1e-7)
    assert changed_p(counts, "better") == 1.0


@settings(max_examples=scaled(20))
@given(st.lists(st.integers(-5, 5), min_size=2, max_size=30), st.sampled_from([0.0, 0.1]), st.integers(0, 2**31))
def test_lots_drawn_by_brute_force(sums: list[int], beyond: float, seed: int) -> None:
    """Five pairs a unit: the unseen one changes four of them, or as many as the unit that changed most."""
    lots = np.random.default_rng(seed).exponential(size=(40_000, len(sums) + 1))
    reach = max(max(map(abs, sums)), 0.8 * 5)
    fallen = lots[:, 1:] @ (-np.array(sums) - beyond * 5) <= lots[:, 0] * reach * (1 + beyond)
    expected = fallen.mean() if any(-each > beyond * 5 for each in sums) else 1.0
    assert changed_p(starts(sums, 5), "worse", beyond) == pytest.approx(expected, abs=0.012)


def test_no_worse_takes_as_many_units_as_could_hide_one_that_loses_all() -> None:
    """Of 59 units that end as before one in twenty may lose everything: .95^59 < .05; pairs of a unit add nothing."""
    for pairs in (1, 5, 50):
        assert no_worse_p(starts([0] * 59, pairs), 0.05) == pytest.approx(0.95**59, rel=1e-7)
        assert no_worse_p(starts([0] * 58, pairs), 0.05) > 0.05


def test_rare_gains_are_not_taken_for_many_small_losses() -> None:
    """One unit in twenty gains 25 pairs, the others lose one or two: whoever sees no gain sees losses alone."""
    generator = np.random.default_rng(3)
    runs = np.where(generator.random((400, 20)) < 0.05, 25, -1 - (generator.random((400, 20)) < 0.32))
    assert runs.mean() == pytest.approx(0, abs=0.25)
    kinds = Kinds(np.array([25.0, -1, -2]), np.full(3, 25.0))
    found = changed_ps(kinds, np.stack([(runs == each).sum(1) for each in (25, -1, -2)], 1), "worse")
    assert (found <= 0.05).mean() <= 0.05


@settings(max_examples=scaled(60))
@given(PAIRS, st.sampled_from([0.01, 0.05, 0.1]), st.sampled_from([0.01, 0.05, 0.3]))
def test_p_values_and_bounds_never_contradict_each_other(
    rows: list[tuple[int, int, int]], alpha: float, margin: float
) -> None:
    counts, bounds = counted_units(*of(rows)), paired_bounds(*of(rows), alpha)
    assert -1 <= bounds.lower <= bounds.value + 1e-9
    assert bounds.value - 1e-9 <= bounds.upper <= 1
    assert bounds.value == pytest.approx(np.mean([d for d, _, _ in rows]))
    said = [
        (changed_p(counts, "worse"), -bounds.upper),
        (changed_p(counts, "worse", margin), -bounds.upper - margin),
        (changed_p(counts, "better"), bounds.lower),
        (no_worse_p(counts, margin), bounds.lower + margin),
    ]
    for p, beyond in said:
        if abs(beyond) > 1e-6:
            assert (p <= alpha) == (beyond > 0), said
    worse, exceeds, better, no_worse = (p <= alpha for p, _ in said)
    assert not (worse and better)
    assert not (exceeds and no_worse)
    assert exceeds <= worse
    assert better <= no_worse


@settings(max_examples=scaled(30))
@given(PAIRS, st.randoms())
def test_ways_mirror_and_the_order_does_not_matter(rows: list[tuple[int, int, int]], random: Random) -> None:
    counts, bounds = counted_units(*of(rows)), paired_bounds(*of(rows))
    turned = [(-d, t, s) for d, t, s in rows]
    assert changed_p(counted_units(*of(turned)), "better") == pytest.approx(changed_p(counts, "worse"))
    back = paired_bounds(*of(turned))
    assert (back.lower, back.upper) == pytest.approx((-bounds.upper, -bounds.lower), abs=1e-7)
    random.shuffle(rows)
    assert changed_p(counted_units(*of(rows)), "worse") == pytest.approx(changed_p(counts, "worse"))


@settings(max_examples=scaled(60))
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=30))
def test_one_more_unit_lost_speaks_more_of_worse(sums: list[int]) -> None:
    found, lost, gained = (changed_p(starts([*sums, *more], 5), "worse") for more in ([], [-4], [4]))
    if max(map(abs, sums)) >= 4 and len(sums) > 1:
        assert lost <= found * (1 + 1e-9)
        assert gained >= found * (1 - 1e-9)


@given(st.lists(st.integers(0, 30), min_size=6, max_size=6).filter(any), st.sampled_from([0.0, 0.05, 0.3]))
def test_many_gates_at_once_say_what_each_says(numbers: list[int], margin: float) -> None:
    units = [(-3, 3), (-1, 1), (0, 2), (0, 3), (1, 2), (2, 3)]
    kinds = Kinds(*np.array(units, float).T)
    rows = [numbers, numbers[::-1], [n + 1 for n in numbers]]
    together = changed_ps(kinds, rows, "worse", margin), no_worse_ps(kinds, rows, margin or 0.1)
    for place, row in enumerate(rows):
        alone = UnitCounts(0, 0, {kind: n for kind, n in zip(units, row, strict=True) if n})
        assert together[0][place] == pytest.approx(changed_p(alone, "worse", margin), rel=1e-3)
        assert together[1][place] == pytest.approx(no_worse_p(alone, margin or 0.1), rel=1e-3)


def test_a_margin_of_everything_is_never_exceeded() -> None:
    counts = starts([-1] * 20, 1)
    assert changed_p(counts, "worse", 1.0) == 1.0
    assert no_worse_p(counts, 1.0) == 0.0


def test_tasks_like_these_are_what_reports_show() -> None:
    generator = np.random.default_rng(1)
    differences = generator.choice([-1, 0, 1], p=[0.2, 0.7, 0.1], size=60).tolist()
    units: list[Unit] = [(f"task {number % 6}", number // 6) for number in range(60)]
    mean = mean_difference(differences, units)
    assert tasks_bounds(differences, units, 0.025) == pytest.approx(difference_of(mean).tasks_interval)
    lower, upper = tasks_bounds(differences, units) or (0, 0)
    wide = difference_of(mean).tasks_interval
    assert wide is not None
    assert wide[0] < lower < upper < wide[1]
    assert tasks_bounds(differences[:4], units[:4]) is None


@pytest.mark.parametrize(("differences", "units"), [([], []), ([1], []), ([2], single(1)), ([0.5], single(1))])
def test_bad_pairs(differences: list[int], units: list[Unit]) -> None:
    with pytest.raises(ValueError, match="expected"):
        paired_bounds(differences, units)


@pytest.mark.parametrize("alpha", [0.0, 0.5, -0.1])
def test_bad_alpha(alpha: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        paired_bounds([1, -1], single(2), alpha)
