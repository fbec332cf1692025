"""Success by step budget against naive counts, Kaplan-Meier and log-rank against their definitions, verdicts."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.metrics.time_to_success import (
    BUDGET,
    DIFFERENT,
    MOST_POINTS,
    UNKNOWN_BUDGET,
    UNMEASURED,
    WITHIN,
    RateDifference,
    largest_budget,
    log_rank,
    rate_at,
    rate_difference,
    success_curve,
    time_to_success,
    verdict_of,
)
from pytest_vla.records.record import Record
from tests.support.varied import varied

BUDGETS = (300, 520)


def ended(step: int | None, budget: int = 300, seed: int = 0, outcome: str = "", **changes: object) -> Record:
    """An episode that succeeded at this step, or failed for None."""
    protocol = {"max_steps": budget, **changes}
    how = outcome or ("failure" if step is None else "success")
    return varied("", how, f"task_{seed % 5}", seed, protocol=protocol, success_step=None if outcome else step)


def episodes(budgets: Sequence[int]) -> st.SearchStrategy[list[Record]]:
    """Episodes with any of these budgets; one in some ends as an error."""

    def made(drawn: list[tuple[int, int | None, bool]]) -> list[Record]:
        return [
            ended(None if step is None else min(step, budget), budget, seed, "error" * broke)
            for seed, (budget, step, broke) in enumerate(drawn)
        ]

    one = st.tuples(st.sampled_from(budgets), st.none() | st.integers(1, 520), st.booleans())
    return st.lists(one, min_size=1, max_size=40).map(made)


@given(episodes([300]), st.integers(1, 300))
def test_a_shorter_budget_counts_what_had_succeeded_by_then(records: list[Record], budget: int) -> None:
    counted = [record for record in records if record.outcome != "error"]
    rate = rate_at(budget, records)
    if not counted:
        assert rate is None
        return
    assert rate is not None
    assert rate.successes == sum((record.success_step or 999) <= budget for record in counted)
    assert (rate.counted, rate.not_counted) == (len(counted), len(records) - len(counted))


@given(episodes([300]))
def test_at_its_own_budget_it_is_the_rate_with_its_intervals(records: list[Record]) -> None:
    found, meant = rate_at(300, records, "a"), success_rate("a", records, unit_of)
    assert found == (meant if meant.counted else None)
    assert rate_at(301, records) is None, "what lies beyond is not made up"


@given(episodes(BUDGETS))
def test_a_curve_never_falls_and_ends_at_the_largest_budget_that_all_have(records: list[Record]) -> None:
    curve = success_curve(records, [100, 400, 9999])
    most = largest_budget(records)
    shares = [rate.rate or 0.0 for _, rate in curve]
    assert shares == sorted(shares)
    assert len(curve) <= MOST_POINTS + 2
    assert [budget for budget, _ in curve][-1:] == ([most] if most else [])


def test_what_says_no_step_says_only_its_own_budget() -> None:
    for record in (ended(None, outcome="success"), ended(20, success="end")):
        assert rate_at(300, [record]) is not None
        assert rate_at(200, [record]) is None
        assert time_to_success([record]) is None
    unknown = varied("", True, protocol={}, success_step=20)
    assert (rate_at(200, [unknown]), largest_budget([unknown]), success_curve([unknown])) == (None, None, ())


def product_limit(records: Sequence[Record]) -> dict[int, float]:
    """Kaplan and Meier's estimate as they define it: the share that has succeeded by each step with a success."""
    times = [(r.success_step or r.protocol["max_steps"], r.outcome == "success") for r in records]
    found, left = {}, 1.0
    for step in sorted({step for step, done in times if done}):
        at_risk = sum(time >= step for time, _ in times)
        left *= 1 - sum(time == step and done for time, done in times) / at_risk
        found[step] = 1 - left
    return found


@given(episodes(BUDGETS))
def test_time_to_success_is_the_product_limit(records: list[Record]) -> None:
    counted = [record for record in records if record.outcome != "error"]
    time = time_to_success(records)
    if not counted:
        assert time is None
        return
    assert time is not None
    meant = product_limit(counted)
    assert time.steps == tuple(meant)
    assert time.shares == pytest.approx(tuple(meant.values()))
    assert (time.episodes, time.successes) == (len(counted), sum(r.outcome == "success" for r in counted))
    halves = [step for step, share in meant.items() if share >= 0.5 - 1e-12]
    assert time.quartiles[1] == (halves[0] if halves else None)
    low, high = time.interval
    if time.quartiles[1] is not None and low is not None:
        assert low <= time.quartiles[1] <= (high or time.quartiles[1])


@given(episodes([300]))
def test_under_one_budget_it_is_the_curve_of_success(records: list[Record]) -> None:
    time = time_to_success(records)
    for step, share in zip(*((time.steps, time.shares) if time else ((), ())), strict=True):
        rate = rate_at(step, records)
        assert rate is not None
        assert rate.rate == pytest.approx(share)


def naive_log_rank(first: Sequence[Record], second: Sequence[Record]) -> float | None:
    """Mantel's sum over steps of observed less expected successes."""
    sides = [[(r.success_step or r.protocol["max_steps"], r.outcome == "success") for r in s] for s in (first, second)]
    over, variance = 0.0, 0.0
    for step in sorted({step for side in sides for step, done in side if done}):
        at_risk = [sum(time >= step for time, _ in side) for side in sides]
        done = [sum(time == step and there for time, there in side) for side in sides]
        n, d = sum(at_risk), sum(done)
        over += done[0] - d * at_risk[0] / n
        variance += d * at_risk[0] * at_risk[1] * (n - d) / (n * n * (n - 1)) if n > 1 else 0.0
    return float(chi2.sf(over * over / variance, 1)) if variance > 0 else None


@given(episodes([300]), episodes([300, 520]))
def test_the_log_rank_test_is_mantels(first: list[Record], second: list[Record]) -> None:
    sides = [[record for record in side if record.outcome != "error"] for side in (first, second)]
    meant = naive_log_rank(*sides) if all(sides) else None
    found = log_rank(first, second)
    assert found == (None if meant is None else pytest.approx(meant, abs=1e-9))


def rate_of(successes: int, n: int, interval: tuple[float, float] | None) -> SuccessRate:
    return SuccessRate("", n, successes, n, interval, {}, {})


def test_a_difference_has_newcombes_interval() -> None:
    # Newcombe 1998, Table II, contrast (a): 56/70 less 48/80, method 10.
    found = rate_difference(rate_of(56, 70, wilson_interval(56, 70)), 48 / 80, wilson_interval(48, 80))
    assert found is not None
    assert (found.value, found.interval) == (pytest.approx(0.2), pytest.approx((0.0524, 0.3339), abs=5e-5))
    assert (found.is_shown, found.is_whole) == (True, True)
    alone = rate_difference(rate_of(56, 70, wilson_interval(56, 70)), 48 / 80, None)
    assert alone is not None
    assert alone.interval is not None
    assert found.interval is not None
    assert not alone.is_whole
    assert found.interval[0] < alone.interval[0] < alone.interval[1] < found.interval[1]
    assert rate_difference(rate_of(0, 0, None), 0.5, None) is None
    none = rate_difference(rate_of(1, 2, None), 0.5, (0.4, 0.6))
    assert none is not None
    assert (none.interval, none.is_shown) == (None, False)


SAME, LESS, MORE = (RateDifference(v, (v - 0.02, v + 0.02), True) for v in (0.0, -0.1, 0.1))
NONE = RateDifference(0.1, None, True)


@pytest.mark.parametrize(
    ("own", "there", "steps", "measured", "verdict"),
    [
        (SAME, SAME, 300, 300, WITHIN),
        (SAME, None, None, 300, WITHIN),
        (MORE, SAME, 300, 600, BUDGET),
        (SAME, LESS, 300, 600, DIFFERENT),
        (MORE, MORE, 300, 600, DIFFERENT),
        (LESS, None, 600, 300, UNMEASURED),
        (MORE, None, 600, 300, DIFFERENT),
        (MORE, None, 200, 300, UNMEASURED),
        (LESS, None, 200, 300, DIFFERENT),
        (MORE, None, None, 300, UNKNOWN_BUDGET),
        (LESS, None, 300, None, UNKNOWN_BUDGET),
        (NONE, None, 300, 300, None),
        (MORE, NONE, 200, 300, None),
    ],
)
def test_verdicts(
    own: RateDifference, there: RateDifference | None, steps: int | None, measured: int | None, verdict: str | None
) -> None:
    assert verdict_of(own, there, steps, measured) == verdict
