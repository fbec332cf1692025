"""Score bounds: beside published intervals, beside likelihoods maximised by brute force, and what they must not do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

from pytest_vla.gate import score
from pytest_vla.gate.score import (
    stratified_bounds,
    stratified_statistic,
    unpaired_bounds,
    unpaired_p,
)
from pytest_vla.metrics.clustered import Unit
from tests.support.examples import scaled

NORMAL = 1.959963984540054


def single(n: int, task: str = "a", first: int = 0) -> list[Unit]:
    return [(task, first + seed) for seed in range(n)]


def counts(*numbers: float) -> list[np.ndarray]:
    return [np.array([float(number)]) for number in numbers]


@pytest.mark.parametrize(
    ("table", "published"),
    [((56, 70, 48, 80), (0.0528, 0.3382)), ((9, 10, 3, 10), (0.1700, 0.8406)), ((10, 10, 0, 20), (0.7156, 1.0))],
)
def test_miettinen_and_nurminens_interval_as_published(
    table: tuple[int, ...], published: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newcombe 1998, Statistics in Medicine 17, 873-890, table II: method 6, without our correction."""
    monkeypatch.setattr(score, "CORRECTION", 0.0)
    _, lower, upper = stratified_bounds(*counts(*table), np.asarray(NORMAL))
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
