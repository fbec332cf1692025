"""Cumulative cost beside success: sums, curves, safe success, what no other beats; against other arithmetic."""

from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.metrics.safety import Safety, SafetyRow, cost_curve, excess_cost, pareto, safety
from pytest_vla.plan.costs import Charge, Ledger
from pytest_vla.records.record import Record
from tests.support.records import record_of

VASE, DONE = "(incontact bowl_1 vase_1)", "(fall vase_1)"


def priced(seed: int, cost: float, outcome: str = "success", task: str = "a_task", **changes: object) -> Record:
    """An episode of 100 steps that touched a vase in `cost` of them, by the paper; by upstream it cost 10 more."""
    charges = (
        [Charge(VASE, cost, 3, account="paper", kind="instant", last_step=2 + int(cost), force=cost)]
        if cost
        else [Charge(VASE, 0.0, account="paper", kind="instant")]
    )
    charges.append(Charge(VASE, cost + 10.0, 3, account="upstream", kind="instant"))
    return record_of(seed, outcome, costs=tuple(charges), steps=100, task=task, task_level="L1", **changes)


def row_of(records: list[Record], **given: object) -> SafetyRow:
    (model,) = safety(records, **given)  # type: ignore[arg-type]
    (row,) = model.rows
    return row


def test_costs_are_means_over_successes_and_failures_by_account() -> None:
    records = [priced(0, 0), priced(1, 4, "failure"), priced(2, 8), record_of(3, "error", task_level="L1")]
    row = row_of(records)
    assert (row.account, row.level, row.success.count, row.success.of, row.safe.count) == ("paper", "L1", 2, 3, 1)
    assert {account: estimate.value for account, estimate in row.costs.items()} == {"paper": 4.0, "upstream": 14.0}


def test_what_a_probe_cost_is_in_no_row() -> None:
    probes = [priced(seed, 50, "failure", variation={"label": "language.blank", "probe": True}) for seed in (1, 2)]
    row = row_of([priced(0, 4), *probes])
    assert (row.success.count, row.success.of, row.costs["paper"].value) == (1, 1, 4.0)


def test_intervals_of_independent_episodes_are_students() -> None:
    costs = [0, 3, 1, 7, 5, 2, 2, 9]
    interval = row_of([priced(seed, cost) for seed, cost in enumerate(costs)]).costs["paper"].interval
    assert interval is not None
    low, high = stats.t.interval(0.95, len(costs) - 1, np.mean(costs), stats.sem(costs))
    assert interval == pytest.approx((max(low, 0), high))


def test_costs_that_are_all_alike_have_no_interval() -> None:
    assert row_of([priced(seed, 0) for seed in range(9)]).costs["paper"].interval is None


def test_what_an_idle_arm_costs_is_no_fault() -> None:
    row = row_of([priced(0, 6), priced(1, 9)], unavoidable=lambda record, account: 6.0 if account == "paper" else 0.0)
    assert (row.safe.count, row.excess.value, row.unavoidable) == (1, 1.5, 6.0)


def test_a_threshold_is_kept_within_rounding() -> None:
    tenths = tuple(Charge(VASE, 0.1, step, account="paper") for step in range(1, 11))
    row = row_of([record_of(0, "success", costs=tenths, steps=20)], threshold=1.0)
    assert row.safe.count == 1


def test_literals_say_how_often_how_long_and_how_hard() -> None:
    (literal,) = row_of([priced(0, 0), priced(1, 4), priced(2, 8)]).literals
    assert (literal.name, literal.episodes, literal.charged, literal.mean, literal.steps, literal.force) == (
        VASE, 3, 2, 4.0, 4.0, 8.0
    )  # fmt: skip


def test_levels_and_variations_have_rows_of_their_own() -> None:
    varied = {"label": "camera.angle-L1", "dimension": "camera", "kind": "angle", "level": 1}
    records = [priced(0, 0), priced(1, 4, variation=varied), record_of(2, "success", costs=priced(0, 1).costs)]
    (model,) = safety(records)
    assert [(row.level, row.group, row.success.of) for row in model.rows] == [
        ("", "benign", 1), ("L1", "benign", 1), ("L1", "camera.angle", 1)
    ]  # fmt: skip


def test_episodes_without_a_ledger_are_told_of() -> None:
    (model,) = safety([priced(0, 1), record_of(1, "success", task_level="L1", suite=priced(0, 1).suite)])
    assert isinstance(model, Safety)
    assert any("1 of 2 episodes have no ledger" in text for text in model.left_out)
    assert safety([record_of(0, "success")]) == ()


@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0, 10.0]), min_size=2, max_size=2), max_size=30),
)
def test_the_curve_of_a_ledger_is_the_running_sum_of_what_was_charged(charged: list[list[float]]) -> None:
    ledger = Ledger()
    for step, amounts in enumerate(charged, 1):
        for name, amount in zip("ab", amounts, strict=True):
            if amount:
                ledger.charge(step, name, amount, account="paper", kind="instant")
    curve = cost_curve(ledger.entries(), len(charged))
    assert len(curve) == len(charged) + 1
    assert np.allclose(curve, np.concatenate([[0.0], np.cumsum([sum(amounts) for amounts in charged])]))


def test_a_curve_keeps_charges_of_the_reset_and_of_unknown_steps() -> None:
    assert cost_curve([Charge("a", 2.0, 0), Charge("b", 3.0)], 3) == (2.0, 2.0, 2.0, 5.0)


def test_an_episode_that_has_ended_costs_no_more() -> None:
    short = record_of(0, "success", costs=(Charge("a", 4.0, 1, account="paper"),), steps=2, task_level="")
    long = record_of(1, "success", costs=(Charge("a", 2.0, 4, account="paper"),), steps=4, task_level="")
    assert row_of([short, long]).curve == (0.0, 2.0, 2.0, 2.0, 3.0)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20))
def test_the_front_is_what_no_other_beats(points: list[tuple[int, int]]) -> None:
    def is_beaten(point: tuple[int, int]) -> bool:
        return any(other != point and other[0] <= point[0] and other[1] >= point[1] for other in points)

    front = pareto([(float(cost), float(rate)) for cost, rate in points])
    assert sorted(front) == [index for index, point in enumerate(points) if not is_beaten(point)]
    assert [points[index][0] for index in front] == sorted(points[index][0] for index in front)


def test_excess_is_never_below_nothing() -> None:
    assert excess_cost(priced(0, 3), "paper", lambda record, account: 5.0) == 0.0
    assert isclose(excess_cost(priced(0, 3), "paper"), 3.0)
    assert excess_cost(priced(0, 3), "declared") == 0.0


def test_errors_are_in_no_rate_and_are_counted_beside_it() -> None:
    broken = [priced(seed, 0.0, outcome="error", reason="policy-raised") for seed in (2, 3)]
    row = row_of([priced(1, 0.0), *broken])
    assert (row.success.count, row.success.of, sum(row.counts.errors.values())) == (1, 1, 2)
