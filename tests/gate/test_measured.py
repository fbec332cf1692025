"""Measures beside success: what they are of, what is said of them, and bad input."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, CaseResult, baseline_of
from pytest_vla.gate.measures import GatedMetric, Measure, judge_measures, parse_measure
from pytest_vla.gate.verdicts import Terms
from pytest_vla.plan.costs import Charge
from tests.support.examples import scaled
from tests.support.varied import varied

TERMS = Terms(5.0, 0.05, ("suite", "dimension"))


def side(*rows: dict[str, Any], label: str = "") -> Baseline:
    """Episodes of ten tasks in turn, of each what is given beside it."""
    records = []
    for place, row in enumerate(rows):
        record = varied(label, row.pop("success", True), task=f"task_{place % 10}", seed=place // 10)
        records.append(dataclasses.replace(record, **row))
    return baseline_of(records)


def judged(baseline: Baseline, new: Baseline, *texts: str, terms: Terms = TERMS, **more: Any) -> list[GatedMetric]:
    return [*judge_measures(baseline, new, terms, [*map(parse_measure, texts)], np.random.default_rng(0), **more)]


def steps(values: "np.ndarray[Any, Any]") -> Baseline:
    return side(*({"success_step": int(value), "steps": int(value)} for value in values))


def test_steps_that_rose_are_a_regression_and_a_margin_forgives_some() -> None:
    generator = np.random.default_rng(1)
    before = generator.integers(80, 120, 40)
    slower = before + generator.integers(4, 9, 40)
    (found,) = judged(steps(before), steps(slower), "steps")
    assert (found.verdict, found.pairs, found.group) == ("regression", 40, "libero_goal[benign]")
    assert found.baseline == pytest.approx(before.mean())
    assert found.new == pytest.approx(slower.mean())
    assert found.bounds is not None
    assert found.bounds[0] < (slower - before).mean() < found.bounds[1]
    assert judged(steps(before), steps(slower), "steps=10")[0].verdict == "no worse"
    assert judged(steps(before), steps(slower), "steps=2")[0].verdict == "regression"
    assert judged(steps(slower), steps(before), "steps")[0].verdict == "better"
    assert judged(steps(before), steps(generator.permutation(before)), "steps")[0].verdict == "undecided"


def test_steps_are_of_pairs_in_which_both_succeed() -> None:
    before = side(*({"success_step": 50 + place} for place in range(20)))
    rows = [{"success_step": 60 + place} for place in range(15)]
    now = side(*rows, *({"success": False, "success_step": None} for _ in range(5)))
    assert judged(before, now, "steps")[0].pairs == 15


def test_alpha_is_shared_by_all_measures_of_all_groups() -> None:
    generator = np.random.default_rng(2)
    before = generator.integers(80, 120, 40)
    now = steps(before + generator.integers(-9, 12, 40))
    alone, shared = judged(steps(before), now, "steps")[0], judged(steps(before), now, "steps", "steps=3")[0]
    assert alone.bounds is not None
    assert shared.bounds is not None
    assert shared.bounds[0] < alone.bounds[0] < alone.bounds[1] < shared.bounds[1]


def test_a_number_of_others_has_the_way_that_the_user_says() -> None:
    generator = np.random.default_rng(3)
    jerks = generator.random(30)
    before, now = (side(*({"metrics": {"jerk": float(each) + more}} for each in jerks)) for more in (0.0, 1.0))
    rough = side(*({"metrics": {"jerk": float(each) + 1 + place / 100}} for place, each in enumerate(jerks)))
    assert judged(before, rough, "lower:jerk")[0].verdict == "regression"
    assert judged(before, rough, "higher:jerk")[0].verdict == "better"
    equal = judged(before, before, "lower:jerk=1")[0]
    assert (equal.verdict, equal.reason) == ("undecided", "all pairs are equal")
    assert judged(before, now, "lower:jerk")[0].reason.startswith("all pairs differ by the same amount")
    with pytest.raises(VlaError, match="measure smooth: no common case has a value for it; known: jerk"):
        judged(before, now, "higher:smooth")


def test_accounts_are_never_added_up() -> None:
    """``cost`` is the headline's account, which both sides have; another one is named."""

    def costs(**more: float) -> Baseline:
        accounts = (("paper", 1.91), ("upstream", 3.82), ("collisions", 1.91))
        return side(
            *(
                {
                    "costs": tuple(
                        Charge("contact", amount + more.get(account, 0.0) * (place % 3 + 1), None, account=account)
                        for account, amount in accounts
                    )
                }
                for place in range(30)
            )
        )

    before, now = costs(), costs(upstream=2.0)
    (headline,) = judged(before, now, "cost")
    assert (headline.baseline, headline.new) == pytest.approx((1.91, 1.91))
    (named,) = judged(before, now, "cost.upstream")
    assert (named.baseline, named.new) == pytest.approx((3.82, 7.82))
    assert named.verdict == "regression"


def test_pride_weighs_each_paraphrase_by_its_distance() -> None:
    far = {place: 0.1 + 0.02 * place for place in range(30)}
    label = "language.paraphrase-none-hint"
    before = side(*({} for _ in far), label=label)
    lost = [place for place in far if place % 3 == 0]
    now = side(*({"success": place not in lost} for place in far), label=label)

    def distance(case: CaseResult) -> float:
        return far[int(case.parts.task.removeprefix("task_")) + 10 * case.seed]

    (found,) = judged(before, now, "pride", distance=distance)
    assert found.baseline == pytest.approx(100.0)
    assert found.new == pytest.approx(100 * (1 - sum(far[place] for place in lost) / sum(far.values())))
    assert found.verdict == "regression"
    with pytest.raises(VlaError, match="only paraphrases have it"):
        judged(before, now, "pride")


def test_what_broke_leaves_a_good_verdict_undecided() -> None:
    before, after = np.arange(100, 140), np.arange(100, 140) - np.arange(40) % 7 - 1
    now = steps(after)
    broken = dataclasses.replace(now.cases[3], outcome="error", reason="worker-crashed", success_step=None)
    with_error = dataclasses.replace(now, cases=(*now.cases[:3], broken, *now.cases[4:]))
    assert judged(steps(before), now, "steps")[0].verdict == "better"
    found = judged(steps(before), with_error, "steps")[0]
    assert (found.verdict, found.reason) == ("undecided", "1 pair not counted (errors, invalid): better without them")


@settings(max_examples=scaled(40))
@given(st.integers(0, 2**31), st.integers(10, 40), st.integers(-20, 20))
def test_turned_around_better_and_worse_change_places(seed: int, number: int, shift: int) -> None:
    generator = np.random.default_rng(seed)
    before = generator.integers(100, 200, number)
    after = before + shift + generator.integers(-10, 11, number)
    sides = steps(before), steps(after)
    forth, back = judged(*sides, "steps")[0], judged(*reversed(sides), "steps")[0]
    turned = {"better": "regression", "regression": "better"}
    if forth.bounds is not None and min(abs(end) for end in forth.bounds) > 1:
        assert back.verdict == turned.get(forth.verdict, forth.verdict)


@pytest.mark.parametrize(
    "text", ["", "speed", "cost.", "steps=", "steps=-1", "steps=nan", "faster:jerk", "lower:", "=3"]
)
def test_bad_measures_are_refused(text: str) -> None:
    with pytest.raises(VlaError, match=r"measure .*: expected"):
        parse_measure(text)


def test_measures_are_read() -> None:
    assert parse_measure("cost.collisions.arm_contact=2.5") == Measure("cost.collisions.arm_contact", True, 2.5)
    assert parse_measure("higher:steps") == Measure("steps", False, None, True)
    assert not parse_measure("pride").lower_is_better


def test_too_few_starts_for_so_many_rows_are_not_judged() -> None:
    """Six starts that all got worse: p = 1/64, of four rows a quarter of 5% is below it."""
    before = np.array([80, 90, 100, 110, 120, 85])
    now = before + np.array([30, 41, 52, 33, 44, 35])
    assert judged(steps(before), steps(now), "steps")[0].verdict == "regression"
    rows = judged(steps(before), steps(now), "steps", "steps=3", "steps=5", "steps=8")
    assert {row.verdict for row in rows} == {"undecided"}
    assert all(row.reason.startswith("not judged (6 starts)") for row in rows)


def test_what_one_side_alone_says_is_not_comparable_and_what_nobody_says_is_an_error() -> None:
    costs = (Charge("arm_contact", 1.0, 1, account="collisions"),)
    with_costs, without = side(*({"costs": costs} for _ in range(10))), side(*({} for _ in range(10)))
    row, success_like = judged(with_costs, without, "cost.collisions", "steps")
    assert (row.verdict, row.pairs) == ("not comparable", 0)
    assert row.reason.startswith("costs that were watched differs (")
    assert success_like.verdict != "not comparable"
    with pytest.raises(VlaError, match=r"cost\.declared: no common case has a value for it"):
        judged(with_costs, without, "cost.declared")
