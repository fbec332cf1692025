"""What a suite's own world says of a step: amounts become charges, numbers become arrays, the rest is told."""

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.episode.trace import Trace
from pytest_vla.episode.world_pool import RESERVED, own_charges, own_provenance, own_series
from pytest_vla.errors import EpisodeError
from pytest_vla.plan.costs import LARGEST_AMOUNT, MOST_CHARGES, Charge
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.counting import OF_PROVENANCE
from pytest_vla.testing import World
from pytest_vla.versions import installed_versions

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.floats(0, LARGEST_AMOUNT) | st.booleans() | st.integers(0, 9))
)
def test_amounts_by_name_are_charges_of_this_step(amounts: dict[str, Any]) -> None:
    expected = tuple(Charge(name, float(amount), 5) for name, amount in amounts.items())
    assert own_charges(amounts, 5) == expected
    assert own_charges([Charge(name, amount) for name, amount in amounts.items()], 5) == expected


@given(ANYTHING)
def test_nothing_breaks_but_by_its_reason(told: Any) -> None:
    for read in (own_charges, own_series):
        with suppress(EpisodeError):
            read(told, 3)
    with suppress(EpisodeError):
        own_provenance(told, {})


def test_numpys_numbers_and_earlier_steps_are_taken() -> None:
    late = Charge("force", np.float32(0.5), step=2, by="vase", unknown={"x": 1})  # type: ignore[arg-type]
    assert own_charges((each for each in [late]), 5) == (Charge("force", 0.5, 2, "vase"),)


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        ({"force": float("inf")}, "costs() gives what is no finite number: force=inf"),
        ({"force": -1e-9}, "costs() gives what is no cost, which is 0 to 1e+12: force=-1e-09"),
        ({"force": 10**400}, "costs() gives what is no finite number: force=1000"),
        ({3: 1.0}, "costs() gives 3 as a name, expected a text"),
        ([Charge("force", 1.0, by=3)], "costs() gives force with what is no text in by or text"),  # type: ignore[arg-type]
        ([Charge("force", 1.0, step=True)], "costs() gives force at step True, expected none, or 0 to 5, which is now"),
        (None, "costs() gives NoneType, expected amounts by name, or a list of charges"),
    ],
)
def test_what_is_no_cost_is_told(told: Any, complaint: str) -> None:
    with pytest.raises(EpisodeError) as raised:
        own_charges(told, 5)
    assert str(raised.value.message).startswith(complaint)


def test_series_are_arrays_within_bounds() -> None:
    found = own_series({"a": 1, "b.c": [1.5, 2.5], "d": np.True_}, 10)
    assert {name: (array.shape, array.dtype.kind) for name, array in found.items()} == {
        "a": ((), "i"),
        "b.c": ((2,), "f"),
        "d": ((), "b"),
    }
    with pytest.raises(EpisodeError, match="gives 1 series of 80000000 bytes in 10 steps, expected at most 200"):
        own_series({"a": np.zeros(1_000_000, dtype=bool)}, 10)
    with pytest.raises(EpisodeError, match="a series cannot be called qpos"):
        own_series({"qpos": 1}, 10)
    with pytest.raises(EpisodeError, match="series a is of object"):
        own_series({"a": 2**70}, 10)


class Charged(World):
    """Charges what the test says."""

    def __init__(self, task: Any, charges: list[list[Charge]]) -> None:
        super().__init__(task)
        self.charges = charges

    def costs(self) -> list[Charge]:
        return self.charges[self.steps - 1]


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (["numpy"], "provenance() gives list, expected texts by name"),
        (None, "provenance() gives NoneType, expected texts by name"),
        ({"engine": 3.1}, "provenance() gives 'engine'=3.1, expected a text: str(...) of it"),
        ({"engine": None}, "provenance() gives 'engine'=None, expected a text: str(...) of it"),
        ({3: "x"}, "provenance() gives 3 as a name, expected a text"),
        ({"numpy": "x"}, "provenance() gives 'numpy', which pytest-vla says itself (2.0): give it another name"),
        ({"blas": "x"}, "provenance() gives 'blas', which pytest-vla says itself: give it another name"),
        ({"feasible": "x"}, "provenance() gives 'feasible', which pytest-vla says itself: give it another name"),
    ],
)
def test_what_a_world_cannot_say_of_itself_is_told(told: Any, complaint: str) -> None:
    with pytest.raises(EpisodeError) as raised:
        own_provenance(told, {"numpy": "2.0"})
    assert (raised.value.reason, raised.value.message) == ("world-protocol", complaint)


def test_a_world_may_say_what_pytest_vla_says() -> None:
    assert own_provenance({"numpy": "2.0", "engine": "3"}, {"numpy": "2.0"}) == {"numpy": "2.0", "engine": "3"}


def test_every_name_that_records_have_is_taken() -> None:
    assert {*installed_versions(), *OF_PROVENANCE, "world"} <= RESERVED


def noted(*charges: list[Charge]) -> Trace:
    """Of an episode with these charges at its steps."""
    world = Charged(load_suite("libero_goal").tasks[0], [*charges])
    trace = Trace(world=world)
    trace.record_step(world.reset(0, 0, settle=True))
    for _ in charges:
        trace.record_step(world.step(np.zeros(7)), np.zeros(7))
    return trace


def test_the_ledger_says_once_what_costs_nothing() -> None:
    trace = noted(*([Charge("fall", 0.0, step), Charge("force", float(step > 1), step)] for step in (1, 2, 3)))
    assert [(charge.name, charge.step, charge.amount) for charge in trace.costs()] == [
        *(("fall", 1, 0.0), ("force", 1, 0.0), ("force", 2, 1.0), ("force", 3, 1.0))
    ]


def test_the_ledger_is_bounded() -> None:
    charge = Charge("force", 1.0, 1)
    assert len(noted([charge] * MOST_CHARGES, [Charge("force", 0.0, 2)]).costs()) == MOST_CHARGES
    with pytest.raises(EpisodeError, match="gives more than 100000 charges in an episode"):
        noted([charge] * MOST_CHARGES, [charge])
