"""The ledger: consecutive equal charges are one entry, and from the entries alone all of the curve can be had."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.plan import costs as module
from pytest_vla.plan.costs import Charge, Ledger, of_account, totals

# By step: what is charged, an amount each, in eighths so that sums are exact.
NAMES = st.sampled_from(["touch", "fall", "force"])
BODIES = st.sampled_from([("arm", "vase"), ("arm", "cup")])
STEP = st.dictionaries(st.tuples(NAMES, BODIES), st.integers(0, 16), max_size=4)
EPISODES = st.lists(STEP, max_size=20)
Charges = list[dict[tuple[str, tuple[str, str]], int]]


def written(episode: Charges, ledger: Ledger | None = None, first: int = 1) -> Ledger:
    ledger = ledger or Ledger()
    for step, charges in enumerate(episode, first):
        for (name, bodies), eighths in charges.items():
            ledger.charge(step, name, eighths / 8, account="declared", kind="rule", bodies=bodies, force=eighths / 4)
    return ledger


@given(EPISODES)
def test_the_sum_of_the_entries_is_the_sum_of_the_charges(episode: Charges) -> None:
    expected: Counter[str] = Counter()
    for charges in episode:
        for (name, _), eighths in charges.items():
            expected[name] += eighths
    assert totals(written(episode).entries()) == {name: eighths / 8 for name, eighths in expected.items()}


@given(EPISODES)
def test_every_step_of_the_curve_is_in_the_entries(episode: Charges) -> None:
    entries = written(episode).entries()
    for step, charges in enumerate(episode, 1):
        now = [each for each in entries if each.step is not None and each.step <= step < each.step + each.steps]
        each_step = {(each.name, each.bodies): each.amount / each.steps for each in now}
        assert each_step == {what: eighths / 8 for what, eighths in charges.items()}
    assert [each.step for each in entries] == sorted(each.step or 0 for each in entries)


@given(EPISODES, EPISODES)
def test_a_copy_goes_on_by_itself(before: Charges, after: Charges) -> None:
    ledger = written(before)
    copy, kept = ledger.copy(), ledger.entries()
    written(after, copy, len(before) + 1)
    assert ledger.entries() == kept
    assert copy.entries() == written([*before, *after]).entries()


def test_an_entry_has_the_largest_force_and_where_that_was() -> None:
    ledger = Ledger()
    for step, force in ((3, 2.0), (4, 9.0), (5, None), (6, 4.0)):
        place = None if force is None else (force, 0.0, 0.0)
        ledger.charge(step, "touch", 0.1, account="collisions", kind="instant", force=force, position=place)
    (entry,) = ledger.entries()
    assert (entry.step, entry.last_step, entry.steps) == (3, 6, 4)
    assert (entry.amount, entry.force, entry.position) == (0.4, 9.0, (9.0, 0.0, 0.0))


def test_two_things_touched_in_turns_are_an_entry_each_as_long_as_they_are_touched() -> None:
    ledger = Ledger()
    for step in (1, 2, 3):
        ledger.charge(step, "touch", 1.0, account="collisions", kind="instant", bodies=("arm", "vase"))
        if step != 2:
            ledger.charge(step, "touch", 1.0, account="collisions", kind="instant", bodies=("arm", "cup"))
    assert [(each.bodies[1], each.step, each.last_step) for each in ledger.entries()] == [
        ("vase", 1, 3),
        ("cup", 1, None),
        ("cup", 3, None),
    ]


def test_accounts_are_apart_and_a_ledger_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHARGES", 2)
    ledger = Ledger()
    ledger.charge(1, "fall", 10.0, account="paper", kind="terminal")
    ledger.charge(1, "fall", 10.0, account="upstream", kind="terminal")
    assert of_account(ledger.entries(), "paper") == (Charge("fall", 10.0, 1, account="paper", kind="terminal"),)
    with pytest.raises(OverflowError, match="more than 2 charges"):
        ledger.charge(2, "fall", 20.0, account="paper", kind="terminal")
