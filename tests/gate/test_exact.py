"""Exact tests: beside scipy's, beside every flip and every lot counted out, and what they must not depend on."""

from itertools import combinations, product
from math import comb
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.gate.exact import Way, sign_flip_p, stratified_p
from pytest_vla.metrics.clustered import Unit
from tests.support.examples import scaled

PAIRS = st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=40)
SIDE = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=30)


def single(n: int, task: str = "a", first: int = 0) -> list[Unit]:
    return [(task, first + seed) for seed in range(n)]


def split(rows: list[tuple[int, int, int]], first: int = 0) -> tuple[list[int], list[Unit]]:
    return [value for value, _, _ in rows], [(f"task {task}", first + seed) for _, task, seed in rows]


# Pairs


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 20))
def test_single_pairs_are_the_binomial_test_of_discordant_ones(lost: int, gained: int, ties: int) -> None:
    differences = [-1] * lost + [1] * gained + [0] * ties
    if not differences:
        return
    ways: list[tuple[Way, int]] = [("worse", lost), ("better", gained)]
    for way, count in ways:
        found = sign_flip_p(differences, single(len(differences)), way)
        expected = stats.binomtest(count, lost + gained, alternative="greater").pvalue if lost + gained else 1.0
        assert found == pytest.approx(expected, rel=1e-9)


def test_a_thousand_to_one_is_as_exact() -> None:
    """Deep in the tail, in whole numbers."""
    n, gained = 900, 100
    expected = sum(comb(n, k) for k in range(gained + 1)) / 2**n
    assert sign_flip_p([-1] * (n - gained) + [1] * gained, single(n)) == pytest.approx(expected, rel=1e-9)
    assert expected < 1e-100


@settings(max_examples=scaled(60))
@given(st.lists(st.tuples(st.integers(-1, 1), st.integers(0, 8)), min_size=1, max_size=40))
def test_every_flip_counted_out(pairs: list[tuple[int, int]]) -> None:
    sums: dict[int, int] = {}
    for difference, seed in pairs:
        sums[seed] = sums.get(seed, 0) + difference
    flips = [
        sum(sign * each for sign, each in zip(signs, sums.values(), strict=True))
        for signs in product((-1, 1), repeat=len(sums))
    ]
    total = sum(sums.values())
    differences, units = [difference for difference, _ in pairs], [("a", seed) for _, seed in pairs]
    assert sign_flip_p(differences, units) == pytest.approx(np.mean([flip <= total for flip in flips]), rel=1e-9)
    assert sign_flip_p(differences, units, "better") == pytest.approx(
        np.mean([flip >= total for flip in flips]), rel=1e-9
    )


@given(PAIRS, st.randoms())
def test_order_does_not_matter_and_ways_mirror(pairs: list[tuple[int, int, int]], random: Random) -> None:
    differences, units = split(pairs)
    found = sign_flip_p(differences, units)
    assert 0 < found <= 1
    assert sign_flip_p([-each for each in differences], units, "better") == found
    assert found + sign_flip_p(differences, units, "better") >= 1 - 1e-12
    random.shuffle(pairs)
    assert sign_flip_p(*split(pairs)) == pytest.approx(found, rel=1e-12)


@given(PAIRS)
def test_one_more_unit_lost_speaks_more_of_worse(pairs: list[tuple[int, int, int]]) -> None:
    differences, units = split(pairs)
    more = [*units, ("another", 0)]
    found, tied, lost, gained = (
        sign_flip_p(differences, units),
        sign_flip_p([*differences, 0], more),
        sign_flip_p([*differences, -1], more),
        sign_flip_p([*differences, 1], more),
    )
    assert tied == pytest.approx(found, rel=1e-12)
    assert lost <= found * (1 + 1e-12)
    assert gained >= found * (1 - 1e-12)


def test_pairs_of_one_unit_count_once() -> None:
    """Five pairs of each of eight seeds, all lost: 1 / 2^8, not 1 / 2^40."""
    units: list[Unit] = [("a", seed) for seed in range(8) for _ in range(5)]
    assert sign_flip_p([-1] * 40, units) == pytest.approx(1 / 2**8)
    assert sign_flip_p([-1] * 40, single(40)) == pytest.approx(1 / 2**40)


@pytest.mark.parametrize("each", [1, 5])
def test_ten_thousand_pairs(each: int) -> None:
    """Beside the normal approximation."""
    generator = np.random.default_rng(2)
    differences = generator.choice([-1, 0, 1], p=[0.21, 0.6, 0.19], size=10_000)
    sums = differences.reshape(-1, each).sum(1)
    found = sign_flip_p(differences.tolist(), [("a", number // each) for number in range(10_000)])
    z = (sums.sum() + 1) / np.sqrt((sums**2).sum())
    assert found == pytest.approx(stats.norm.cdf(z), rel=0.02)


@pytest.mark.parametrize(("differences", "units"), [([], []), ([1], []), ([2], [("a", 0)]), ([0.5], [("a", 0)])])
def test_bad_pairs(differences: list[int], units: list[Unit]) -> None:
    with pytest.raises(ValueError, match="expected"):
        sign_flip_p(differences, units)


# Without pairs


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
