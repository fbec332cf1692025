"""The ledger of costs: entries as JSON has them, and their sums."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.plan.costs import LARGEST_AMOUNT, Charge, charge_of, totals

CHARGES = st.builds(
    Charge,
    name=st.text(min_size=1, max_size=5),
    amount=st.floats(0, LARGEST_AMOUNT),
    step=st.none() | st.integers(0, 600),
    by=st.none() | st.text(max_size=5),
    text=st.none() | st.text(max_size=5),
    unknown=st.dictionaries(st.sampled_from(["severity", "room"]), st.integers() | st.lists(st.text())),
)


@given(CHARGES)
def test_a_charge_is_read_back_from_its_table(charge: Charge) -> None:
    assert charge_of(charge.table()) == charge


def test_the_sums_are_by_name_in_the_order_of_first_charges() -> None:
    charges = [Charge("force", 0.25, 3), Charge("fall", 0.0, 1), Charge("force", 0.5, 4, by="vase")]
    assert list(totals(charges).items()) == [("force", 0.75), ("fall", 0.0)]
    assert totals([]) == {}
    assert list(Charge("fall", 1.0, 2).table()) == ["name", "step", "amount"], "what is not said is left out"
