"""When groups of a sequential gate stop: by whole rounds, whatever ended first, and whatever broke."""

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.gate.choices import REQUIRED, STOPS
from pytest_vla.gate.order import Order, PlannedCase, draw_order
from pytest_vla.gate.sequential import complete_rounds, standings
from pytest_vla.gate.verdicts import Terms
from pytest_vla.gate.wealth import running_p
from tests.support.examples import scaled

TERMS = Terms(margin=20.0)


def order_of(groups: Mapping[str, int], tasks: int = 2, pairs: int = 1) -> Order:
    """Of each group so many seeds of each task."""
    planned = [
        PlannedCase(group, f"s/{task}", seed, f"s/{task}[{group}{pair}-seed{seed}]")
        for group, seeds in groups.items()
        for task in range(tasks)
        for seed in range(seeds)
        for pair in range(pairs)
    ]
    return draw_order(planned, random.Random(0))


def all_of(order: Order, outcome: str) -> dict[str, str]:
    return {case: outcome for group in order.rounds for case in order.all_cases(group)}


def first(order: Order, group: str, rounds: int, outcome: str) -> dict[str, str]:
    return dict.fromkeys(order.cases(group, rounds), outcome)


def test_it_stops_at_the_first_round_that_shows_it() -> None:
    order = order_of({"one": 20})
    same, lost = all_of(order, "success"), all_of(order, "failure")
    found = standings(order, same, same, TERMS, "no-regression")["one"]
    p = running_p(np.zeros((20, 2)), "no worse", 0.2)
    assert (found.verdict, found.is_decided, found.of) == ("no worse", True, 20)
    assert found.rounds == int((p > 0.05).sum()) + 1
    assert found.p_no_worse == p[found.rounds - 1]
    fallen = standings(order, same, lost, TERMS, "no-regression")["one"]
    assert (fallen.verdict, fallen.is_decided) == ("regression", True)
    assert fallen.rounds == int((running_p(-np.ones((20, 2)), "regression", 0.2) > 0.05).sum()) + 1
    assert fallen.p_beyond == pytest.approx(running_p(-np.ones((20, 2)), "regression", 0.2)[fallen.rounds - 1])
    gained = standings(order, lost, same, TERMS, "better")["one"]
    any_loss = standings(order, same, lost, replace(TERMS, regression="any"), "no-regression")["one"]
    assert any_loss.rounds == int((running_p(-np.ones((20, 2)), "regression") > 0.05).sum()) + 1 < fallen.rounds
    assert (gained.verdict, gained.rounds) == ("better", any_loss.rounds)


def test_what_ended_beyond_it_changes_nothing() -> None:
    order = order_of({"one": 20})
    same = all_of(order, "success")
    stop = standings(order, same, same, TERMS, "no-regression")["one"].rounds
    before = first(order, "one", stop, "success")
    decided = standings(order, same, before, TERMS, "no-regression")["one"]
    assert decided.is_decided
    beyond = {case: "failure" for case in order.cases("one") if case not in before}
    assert standings(order, same, {**before, **beyond}, TERMS, "no-regression")["one"] == decided


def test_a_round_counts_when_it_is_whole() -> None:
    order = order_of({"one": 20})
    same = all_of(order, "success")
    last = order.cases("one", 1)[-1]
    without = {case: outcome for case, outcome in same.items() if case != last}
    assert complete_rounds(order, "one", without) == 0
    found = standings(order, same, without, TERMS, "no-regression")["one"]
    assert (found.verdict, found.is_decided, found.rounds, found.p_no_worse) == ("undecided", False, 0, 1.0)


@pytest.mark.parametrize("required", STOPS)
def test_it_stops_where_more_would_not_change_whether_it_is_met(required: str) -> None:
    met = REQUIRED[required]
    assert set(STOPS) == set(REQUIRED)
    assert "undecided" not in STOPS[required]
    assert "regression" in STOPS[required]
    assert set(met) - {"undecided"} <= set(STOPS[required])
    order = order_of({"one": 20})
    same = all_of(order, "success")
    found = standings(order, same, same, TERMS, required)["one"]
    assert found.verdict == "no worse"
    assert found.is_decided == (required != "better")


def test_groups_stop_each_by_themselves_and_are_corrected_together() -> None:
    order = order_of({"one": 20, **dict.fromkeys(("b", "c", "d", "other"), 20)})
    base = all_of(order, "success")
    new = {**base, **first(order, "one", 20, "failure")}
    found = standings(order, base, new, TERMS, "no-regression")
    alone = standings(order_of({"one": 20}), base, new, TERMS, "no-regression")["one"]
    assert found["one"].verdict == "regression"
    assert found["one"].rounds > alone.rounds, "of five a regression takes more"
    assert found["other"].verdict == "no worse"
    p = running_p(-np.ones((20, 2)), "regression")
    assert found["one"].p_beyond <= 0.05
    assert found["one"].p_worse == pytest.approx(5 * p[found["one"].rounds - 1])


def test_one_that_stopped_waits_for_nobody_and_a_shorter_one_keeps_its_p() -> None:
    order = order_of({"long": 30, "short": 2})
    base = all_of(order, "success")
    found = standings(order, base, base, TERMS, "no-regression")
    assert (found["short"].verdict, found["short"].is_decided, found["short"].rounds) == ("undecided", False, 2)
    assert found["long"].is_decided
    # The rest of what stopped never ends.
    decided = {**first(order, "short", 2, "success"), **first(order, "long", found["long"].rounds, "success")}
    assert standings(order, base, decided, TERMS, "no-regression") == found


def test_all_wait_for_the_slowest() -> None:
    order = order_of({"one": 20, "other": 20})
    base = all_of(order, "success")
    new = {**first(order, "one", 20, "failure"), **first(order, "other", 2, "success")}
    found = standings(order, base, new, TERMS, "no-regression")
    assert found["one"].rounds == found["other"].rounds == 2


def test_errors_hide_nothing() -> None:
    order = order_of({"one": 40})
    base = all_of(order, "success")
    broken = {**base, **dict.fromkeys([unit[0] for round_ in order.rounds["one"] for unit in round_[:1]][::2], "error")}
    found = standings(order, base, broken, TERMS, "no-regression")["one"]
    assert (found.verdict, found.is_decided) == ("undecided", False)
    assert found.reason == "errors: undecided if they count as failures, no worse if they count as successes"
    few = {**base, order.cases("one")[0]: "error", order.cases("one")[3]: "invalid"}
    few_found = standings(order, base, few, TERMS, "no-regression")["one"]
    whole = standings(order, base, base, TERMS, "no-regression")["one"]
    assert (few_found.verdict, few_found.is_decided) == ("no worse", True)
    assert few_found.rounds > whole.rounds, "all that broke is taken for failed too"
    of_baseline = standings(order, broken, base, TERMS, "no-regression")["one"]
    assert of_baseline.verdict == "undecided"


def test_nothing_measured_shows_nothing() -> None:
    order = order_of({"one": 5})
    base = all_of(order, "success")
    found = standings(order, base, all_of(order, "error"), TERMS, "no-regression")["one"]
    assert found.verdict == "undecided"
    assert (found.p_worse, found.p_better, found.p_no_worse) == pytest.approx((1.0, 1.0, 1.0))


@settings(max_examples=scaled(60))
@given(st.data())
def test_decisions_do_not_depend_on_what_ends_first(data: st.DataObject) -> None:
    """Any order of arrival, and any looks on the way: what was decided once is what all records say."""
    order = order_of({"one": 12, "other": 9}, pairs=data.draw(st.integers(1, 2)))
    cases = sorted(all_of(order, ""))
    share = data.draw(st.sampled_from([0.1, 0.5, 0.95]))
    luck = random.Random(data.draw(st.integers(0, 1000)))
    base = {case: luck.choices(["success", "failure", "error"], [0.8, 0.17, 0.03])[0] for case in cases}
    new = {case: luck.choices(["success", "failure", "error"], [share, 0.98 - share, 0.02])[0] for case in cases}
    required = data.draw(st.sampled_from(sorted(STOPS)))
    final = standings(order, base, new, TERMS, required)
    luck.shuffle(cases)
    so_far: dict[str, str] = {}
    for number, case in enumerate(cases):
        so_far[case] = new[case]
        if number % 7 == 0:
            for group, found in standings(order, base, so_far, TERMS, required).items():
                assert found.rounds <= final[group].rounds
                if found.is_decided:
                    assert found == final[group]
    assert standings(order, base, so_far, TERMS, required) == final
