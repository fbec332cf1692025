"""Score bounds: beside published intervals, beside likelihoods maximised by brute force, and what they must not do."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import xlogy

from pytest_vla.gate.score import (
    CORRECTION,
    paired_bounds,
    paired_p,
    stratified_bounds,
    stratified_statistic,
    tango_bounds,
    tango_statistic,
    tasks_bounds,
    unpaired_bounds,
    unpaired_p,
)
from pytest_vla.metrics.clustered import Unit
from pytest_vla.metrics.differences import difference_of, mean_difference
from tests.support.examples import scaled

NORMAL = 1.959963984540054

PAIRS = st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 2), st.integers(0, 8)), min_size=2, max_size=60)


def single(n: int, task: str = "a", first: int = 0) -> list[Unit]:
    return [(task, first + seed) for seed in range(n)]


def pairs(gained: int, lost: int, n: int) -> tuple[list[int], list[Unit]]:
    return [1] * gained + [-1] * lost + [0] * (n - gained - lost), single(n)


def counts(*numbers: float) -> list[np.ndarray]:
    return [np.array([float(number)]) for number in numbers]


# Pairs


def test_tangos_interval_as_published() -> None:
    """Airway reactivity before and after a transplantation: Fagerland et al. 2014, Statistics in Medicine 33."""
    lower, upper = tango_bounds(1, 7, 21, NORMAL, correction=0.0)
    assert (round(float(lower), 3), round(float(upper), 3)) == (-0.517, -0.026)


def test_tangos_interval_as_the_same_authors_package_has_it() -> None:
    """Response before and after a therapy (Cavo et al. 2012), 6 and 16 of 161 pairs differ: R's contingencytables."""
    lower, upper = tango_bounds(6, 16, 161, NORMAL, correction=0.0)
    assert (round(float(lower), 4), round(float(upper), 4)) == (-0.1240, -0.0054)


@pytest.mark.parametrize(("gained", "lost", "n"), [(1, 7, 21), (6, 16, 161), (40, 20, 160), (12, 2, 50), (0, 1, 44)])
def test_tangos_statistic_by_brute_force(gained: int, lost: int, n: int) -> None:
    """The lost share that is likeliest at a difference, found on a fine grid."""
    for difference in (-0.4, -0.05, 0.0, 0.1, 0.5):
        shares = np.linspace(max(0.0, -difference), (1 - difference) / 2, 400_001)
        likelihood = xlogy(gained, shares + difference) + xlogy(lost, shares)
        likelihood += xlogy(n - gained - lost, np.maximum(1 - 2 * shares - difference, 0.0))
        share = shares[np.argmax(likelihood)]
        expected = (gained - lost - n * difference) / np.sqrt(n * (2 * share + difference - difference**2))
        assert float(tango_statistic(gained, lost, n, difference)) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("correction", [0.0, CORRECTION])
def test_bounds_lie_where_the_statistic_is_the_quantile(correction: float) -> None:
    gained, lost = np.array([1.0, 6, 40, 0, 2.5]), np.array([7.0, 16, 20, 1, 3.5])
    n = np.array([21.0, 161, 160, 44, 17.3])
    lower, upper = tango_bounds(gained, lost, n, 1.645, correction)
    assert tango_statistic(gained, lost, n, lower, correction) == pytest.approx(np.full(5, 1.645), abs=1e-6)
    assert tango_statistic(lost, gained, n, -upper, correction) == pytest.approx(np.full(5, 1.645), abs=1e-6)


def test_without_discordant_pairs_and_with_nothing_else() -> None:
    """As Tango shows, none of n leaves z^2 / (n + z^2) either way; the correction adds a little."""
    lower, upper = tango_bounds(0, 0, 44, NORMAL, correction=0.0)
    assert float(upper) == pytest.approx(NORMAL**2 / (44 + NORMAL**2))
    assert float(lower) == pytest.approx(-float(upper))
    found = paired_bounds(*pairs(0, 0, 44))
    assert -0.1 < found.lower < -(stats.norm.ppf(0.95) ** 2) / (44 + stats.norm.ppf(0.95) ** 2)
    assert paired_bounds(*pairs(0, 30, 30)).lower == -1
    assert paired_bounds(*pairs(30, 0, 30)).upper == 1


@settings(max_examples=scaled(60))
@given(PAIRS, st.sampled_from([0.01, 0.05, 0.1]), st.randoms())
def test_bounds_of_any_pairs(rows: list[tuple[int, int, int]], alpha: float, random: Random) -> None:
    differences, units = [d for d, _, _ in rows], [(f"task {t}", s) for _, t, s in rows]
    found = paired_bounds(differences, units, alpha)
    assert -1 <= found.lower <= found.value + 1e-9
    assert found.value - 1e-9 <= found.upper <= 1
    assert found.value == pytest.approx(np.mean(differences))
    assert 0 < found.trials <= len(rows)
    turned = paired_bounds([-each for each in differences], units, alpha)
    assert (turned.lower, turned.upper) == pytest.approx((-found.upper, -found.lower))
    wider = paired_bounds(differences, units, alpha / 2)
    assert wider.lower <= found.lower
    assert wider.upper >= found.upper
    random.shuffle(rows)
    again = paired_bounds([d for d, _, _ in rows], [(f"task {t}", s) for _, t, s in rows], alpha)
    assert again.lower == pytest.approx(found.lower, abs=1e-9)


@settings(max_examples=scaled(60))
@given(PAIRS, st.floats(0.01, 0.5))
def test_p_and_bound_agree(rows: list[tuple[int, int, int]], margin: float) -> None:
    differences, units = [d for d, _, _ in rows], [(f"task {t}", s) for _, t, s in rows]
    lower, p = paired_bounds(differences, units).lower, paired_p(differences, units, margin)
    if abs(lower + margin) > 1e-6:
        assert (p < 0.05) == (lower > -margin)


@given(st.integers(2, 60), st.data())
def test_one_more_lost_lowers_both(n: int, data: st.DataObject) -> None:
    gained = data.draw(st.integers(0, n - 1))
    lost = data.draw(st.integers(0, n - 1 - gained))
    before, after = paired_bounds(*pairs(gained, lost, n)), paired_bounds(*pairs(gained, lost + 1, n))
    assert after.lower <= before.lower + 1e-9
    assert after.upper <= before.upper + 1e-9


def test_pairs_that_are_all_alike_count_once() -> None:
    """Forty units of five pairs each that go one way are worth forty pairs; five that go their own way, two hundred."""
    generator = np.random.default_rng(0)
    units: list[Unit] = [("a", number // 5) for number in range(200)]
    alike = np.repeat(generator.choice([-1, 0, 1], p=[0.2, 0.6, 0.2], size=40), 5).tolist()
    assert paired_bounds(alike, units).trials == pytest.approx(40, rel=0.05)
    assert paired_bounds([0] * 200, units).trials == pytest.approx(40)
    own = generator.choice([-1, 0, 1], p=[0.2, 0.6, 0.2], size=200).tolist()
    assert paired_bounds(own, units).trials > 120
    assert paired_bounds(own, single(200)).trials == 200


def test_no_difference_at_all_is_no_worse_of_enough_pairs() -> None:
    assert paired_p(*pairs(0, 0, 60), margin=0.05) > 0.05
    assert paired_p(*pairs(0, 0, 100), margin=0.05) < 0.05


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


@pytest.mark.parametrize(("differences", "units"), [([], []), ([1], []), ([2], single(1))])
def test_bad_pairs(differences: list[int], units: list[Unit]) -> None:
    with pytest.raises(ValueError, match="expected"):
        paired_bounds(differences, units)


@pytest.mark.parametrize("alpha", [0.0, 0.5, -0.1])
def test_bad_alpha(alpha: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        paired_bounds(*pairs(1, 1, 10), alpha)


# Without pairs


@pytest.mark.parametrize(
    ("table", "published"),
    [((56, 70, 48, 80), (0.0528, 0.3382)), ((9, 10, 3, 10), (0.1700, 0.8406)), ((10, 10, 0, 20), (0.7156, 1.0))],
)
def test_miettinen_and_nurminens_interval_as_published(table: tuple[int, ...], published: tuple[float, float]) -> None:
    """Newcombe 1998, Statistics in Medicine 17, 873-890, table II: method 6."""
    _, lower, upper = stratified_bounds(*counts(*table), np.asarray(NORMAL), 0.0)
    assert (round(float(lower), 4), round(float(upper), 4)) == published


@settings(max_examples=scaled(100))
@given(st.integers(1, 30), st.integers(1, 30), st.floats(-0.9, 0.9), st.data())
def test_the_statistic_by_brute_force(n: int, m: int, difference: float, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    rates = np.linspace(max(0.0, -difference), min(1.0, 1 - difference), 20_001)
    above = np.clip(rates + difference, 0, 1)
    likelihood = xlogy(x, above) + xlogy(n - x, 1 - above) + xlogy(y, rates) + xlogy(m - y, 1 - rates)
    best = np.argmax(likelihood)
    variance = above[best] * (1 - above[best]) / n + rates[best] * (1 - rates[best]) / m
    expected = (x / n - y / m - difference) / np.sqrt(max(variance * (n + m) / (n + m - 1), 1e-12))
    found = float(stratified_statistic(*counts(x, n, y, m), difference))
    if variance > 1e-3:
        assert found == pytest.approx(expected, rel=0.02, abs=0.01)


def test_tasks_that_never_change_tell_more_than_they_would_pooled() -> None:
    """Five tasks done always and five never, by both: nothing was lost, and pooled it would look like luck."""
    units = [(f"task {task}", seed) for task in range(10) for seed in range(20)]
    others: list[Unit] = [(task, seed + 100) for task, seed in units]
    done = [int(task in {f"task {each}" for each in range(5)}) for task, _ in units]
    apart = unpaired_bounds(done, units, done, others)
    pooled = unpaired_bounds(done, single(200), done, single(200, first=500))
    assert apart.value == pooled.value == 0
    assert apart.lower > -0.04
    assert pooled.lower < -0.07


@settings(max_examples=scaled(40))
@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(2, 12), st.integers(2, 12))
def test_bounds_of_any_sides(seed: int, tasks: int, n: int, m: int) -> None:
    generator = np.random.default_rng(seed)
    rates = generator.random(tasks)
    ours: list[Unit] = [(f"task {task}", s // 2) for task in range(tasks) for s in range(n)]
    theirs: list[Unit] = [(f"task {task}", 100 + s) for task in range(tasks) for s in range(m)]
    new = (generator.random(len(ours)) < np.repeat(rates, n)).astype(int).tolist()
    baseline = (generator.random(len(theirs)) < np.repeat(rates, m)).astype(int).tolist()
    found = unpaired_bounds(new, ours, baseline, theirs)
    assert -1 <= found.lower <= found.value + 1e-9
    assert found.value - 1e-9 <= found.upper <= 1
    assert found.value == pytest.approx(np.mean(new) - np.mean(baseline))
    turned = unpaired_bounds(baseline, theirs, new, ours)
    assert (turned.lower, turned.upper) == pytest.approx((-found.upper, -found.lower))
    p = unpaired_p(new, ours, baseline, theirs, 0.1)
    if abs(found.lower + 0.1) > 1e-6:
        assert (p < 0.05) == (found.lower > -0.1)


def test_a_task_on_one_side_is_refused() -> None:
    with pytest.raises(ValueError, match="b: expected each task on both sides"):
        unpaired_bounds([1, 0], [("a", 0), ("b", 0)], [1], [("a", 1)])
