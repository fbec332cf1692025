"""Charges in words."""

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge, cost_of, cumulative
from pytest_vla.records.explain import charge_text, cost_lines, over_text


@pytest.mark.parametrize(
    ("charge", "text"),
    [
        (
            Charge("arm_contact", 1.0, 41, "vase_1", bodies=("robot0_link5", "vase_1"), force=12.34),
            "robot0_link5 touched vase_1 at step 41, 12.3 N",
        ),
        (
            Charge("(incontact cup_1 vase_1)", 3.0, 4, bodies=("cup_1", "vase_1"), last_step=6),
            "cup_1 touched vase_1 at steps 4 to 6",
        ),
        (Charge("(fall vase_1)", 10.0, 300), "vase_1 fell at step 300"),
        (
            Charge("displaced", 10.0, 9, bodies=("cup_1",), text="moved 30 mm"),
            "cup_1 was displaced at step 9, moved 30 mm",
        ),
        (Charge("gentle", 1.0, 2, bodies=("table",), force=71.0), "gentle (table) at step 2, 71.0 N"),
        (Charge("(noton ball_1 cup_1)", 10.0, 3), "(noton ball_1 cup_1) at step 3"),
        (Charge("sideways", 0.5), "sideways"),
        (Charge("touch", 1.0, 2, by="vase"), "touch (vase) at step 2"),
    ],
)
def test_what_was_charged_is_told(charge: Charge, text: str) -> None:
    assert charge_text(charge) == text


LEDGER = (
    Charge("(fall a)", 0.0, 0, account="paper"),
    *(Charge(f"(incontact a b{number})", float(number), number, account="paper") for number in range(1, 8)),
    Charge("(fall a)", 50.0, 9, account="upstream"),
)


def test_the_headlines_largest_charges_come_first() -> None:
    lines = cost_lines(LEDGER)
    assert lines[0] == "  cost 28 (paper):"
    assert lines[1].split() == ["7", "a", "touched", "b7", "at", "step", "7"]
    assert lines[-1] == "    and 2 more charges"
    assert cost_lines(LEDGER[:1]) == cost_lines(()) == []


def test_a_cost_that_is_too_much() -> None:
    for charges, most, free in ((LEDGER, 28, 0), ((), 0, 0), (LEDGER, 10, 18)):
        assert over_text(charges, most, "paper", free) == ""
    told = over_text(LEDGER, 20, "paper")
    assert told.startswith("cost 28 (paper), more than --vla-max-cost=20: a touched b7 at step 7; ")
    told = over_text(LEDGER, 5, "paper", 8)
    assert told.startswith("cost 20 (paper) (28 less 8, which is unavoidable), more than --vla-max-cost=5")


@pytest.mark.parametrize(
    ("name", "account", "cost"),
    [
        ("(Fall  A)", None, 0.0),
        ("fall", None, 0.0),
        ("FALL", "upstream", 50.0),
        ("in_contact", None, 28.0),
        ("InContact", "paper", 28.0),
        ("(incontact a b3)", None, 3.0),
    ],
)
def test_costs_by_name(name: str, account: str | None, cost: float) -> None:
    assert cost_of(LEDGER, name, account) == cost


def test_a_headline_is_one_account_and_unknown_names_are_told() -> None:
    assert cumulative(LEDGER) == 28.0
    assert cumulative(LEDGER, "upstream") == 50.0
    assert cumulative(LEDGER, "declared") is None
    assert cumulative(()) is None
    with pytest.raises(VlaError, match=r"no cost is called 'fal' .*\(fall a\), \(incontact a b1\)"):
        cost_of(LEDGER, "fal")
    with pytest.raises(VlaError, match="no cost account 'declared'; it has 'paper', 'upstream'"):
        cost_of(LEDGER, "fall", "declared")
