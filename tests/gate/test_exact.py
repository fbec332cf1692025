"""The exact test of unpaired episodes: beside scipy's, beside every lot counted out, and what it must not depend on."""

from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.gate.bounded import Way
from pytest_vla.gate.score import stratified_p
from pytest_vla.metrics.clustered import Unit
from tests.support.examples import scaled

SIDE = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30)


def single(n: int, task: str = "a", first: int = 0) -> list[Unit]:
    return [(task, first + seed) for seed in range(n)]


def split(rows: list[tuple[int, int, int]], first: int = 0) -> tuple[list[int], list[Unit]]:
    return [value for value, _, _ in rows], [(f"task {task}", first + seed) for _, task, seed in rows]


@given(st.integers(1, 25), st.integers(1, 25), st.data())
def test_one_task_of_single_episodes_is_fishers_test(n: int, m: int, data: st.DataObject) -> None:
    ours, theirs = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    new, baseline = [1] * ours + [0] * (n - ours), [1] * theirs + [0] * (m - theirs)
    ways: list[tuple[Way, str]] = [("worse", "less"), ("better", "greater")]
    for way, alternative in ways:
        found = stratified_p(new, single(n), baseline, single(m, first=100), way)
        table = [[ours, n - ours], [theirs, m - theirs]]
        assert found == pytest.approx(stats.fisher_exact(table, alternative=alternative).pvalue, rel=1e-8)


@settings(max_examples=scaled(60))
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.integers(0, 3), st.booleans()), min_size=2, max_size=16)
)
def test_every_lot_counted_out(rows: list[tuple[int, int, int, bool]]) -> None:
    """Of two tasks, with units of several episodes."""
    sides = [split([(s, t, seed + 10 * side) for s, t, seed, ours in rows if ours == bool(side)]) for side in (1, 0)]
    if not all(successes for successes, _ in sides):
        return
    strata: dict[tuple[str, int], list[list[int]]] = {}
    for number, (successes, units) in enumerate(sides):
        for unit in dict.fromkeys(units):
            mine = [success for success, other in zip(successes, units, strict=True) if other == unit]
            strata.setdefault((unit[0], len(mine)), [[], []])[number].append(sum(mine))
    lots = [0]
    for ours, theirs in strata.values():
        lots = [lot + sum(chosen) for lot in lots for chosen in combinations(ours + theirs, len(ours))]
    seen = sum(sides[0][0])
    (new, new_units), (baseline, baseline_units) = sides
    found = stratified_p(new, new_units, baseline, baseline_units)
    assert found == pytest.approx(np.mean([lot <= seen for lot in lots]), rel=1e-9)
    found = stratified_p(new, new_units, baseline, baseline_units, "better")
    assert found == pytest.approx(np.mean([lot >= seen for lot in lots]), rel=1e-9)


@settings(max_examples=scaled(40))
@given(SIDE, SIDE, st.randoms())
def test_sides_mirror(ours: list[tuple[int, int, int]], theirs: list[tuple[int, int, int]], random: Random) -> None:
    new, new_units = split(ours)
    baseline, baseline_units = split(theirs, 100)
    found = stratified_p(new, new_units, baseline, baseline_units)
    assert stratified_p(baseline, baseline_units, new, new_units, "better") == pytest.approx(found, rel=1e-9)
    random.shuffle(ours)
    assert stratified_p(*split(ours), baseline, baseline_units) == pytest.approx(found, rel=1e-9)


def test_tasks_that_differ_are_strata() -> None:
    """Pooled, an easy task that the new policy has more episodes of would hide what it lost."""
    new = [1] * 36 + [0] * 4 + [0] * 10
    new_units = [*single(40, "easy"), *single(10, "hard")]
    baseline = [1] * 10 + [1] * 16 + [0] * 24
    baseline_units = [*single(10, "easy", 100), *single(40, "hard", 100)]
    apart = stratified_p(new, new_units, baseline, baseline_units)
    pooled = stratified_p(new, single(50), baseline, single(50, first=100))
    assert apart < 0.02
    assert pooled > 0.95


@pytest.mark.parametrize(
    ("new", "new_units", "baseline", "baseline_units"),
    [
        ([], [], [1], single(1)),
        ([1], single(1), [1], []),
        ([-1], single(1), [1], single(1, first=5)),
        ([1], single(1), [1], single(1)),
    ],
)
def test_bad_sides(new: list[int], new_units: list[Unit], baseline: list[int], baseline_units: list[Unit]) -> None:
    with pytest.raises(ValueError, match="expected"):
        stratified_p(new, new_units, baseline, baseline_units)
