"""Halving by verdicts: every first bad checkpoint is found, in as few gates as there need be."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_vla.commands.bisect import FINDINGS, Finding, at_most, in_order, next_to_try, suspects
from pytest_vla.gate.choices import REQUIRED


def search(number: int, first_bad: int, undecided: frozenset[int]) -> tuple[dict[int, Finding], int]:
    """What is found of so many checkpoints, the first of which is good and the last bad, and by how many gates."""
    found: dict[int, Finding] = {0: "good", number - 1: "bad"}
    gates = 0
    while (place := next_to_try(found)) is not None:
        assert place not in found
        found[place] = "undecided" if place in undecided else "bad" if place >= first_bad else "good"
        gates += 1
    return found, gates


@given(st.data(), st.integers(2, 300))
def test_the_first_bad_one_is_found_by_halving(data: st.DataObject, number: int) -> None:
    first_bad = data.draw(st.integers(1, number - 1))
    found, gates = search(number, first_bad, frozenset())
    assert [*suspects(found)] == [first_bad]
    assert gates <= at_most(number - 1)


@given(st.data(), st.integers(2, 60))
def test_undecided_ones_stay_among_the_suspects(data: st.DataObject, number: int) -> None:
    first_bad = data.draw(st.integers(1, number - 1))
    undecided = data.draw(st.frozensets(st.integers(1, max(1, number - 2))))
    found, _ = search(number, first_bad, undecided)
    left = suspects(found)
    assert first_bad in left
    assert all(found.get(place) == "undecided" for place in left[:-1])


def test_names_are_ordered_by_their_numbers() -> None:
    names = ["ckpt/step-12000.npz", "ckpt/step-800.npz", "ckpt/step-800.npz", "ckpt/final.npz", "ckpt/step-1000.npz"]
    assert in_order(names) == [
        "ckpt/final.npz",
        "ckpt/step-800.npz",
        "ckpt/step-1000.npz",
        "ckpt/step-12000.npz",
    ]


@given(st.lists(st.text("ab1²0٣-", max_size=6)))
@example(["0", "00"])
def test_any_names_have_an_order(names: list[str]) -> None:
    found = in_order(names)
    assert sorted(found) == sorted(set(names))
    assert in_order(reversed(found)) == found


def test_without_a_good_one_before_a_bad_one_there_is_nothing_to_find() -> None:
    with pytest.raises(ValueError, match="good checkpoint before a bad one"):
        suspects({0: "bad", 1: "good"})
    with pytest.raises(ValueError, match="good checkpoint before a bad one"):
        next_to_try({0: "good"})


def test_each_verdict_but_not_comparable_is_a_finding() -> None:
    assert {*FINDINGS} == {verdict for met in REQUIRED.values() for verdict in met} | {"regression"}
