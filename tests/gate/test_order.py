"""The order of a sequential gate: a permutation that is drawn once, whose rounds have each task."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.comparable import matched
from pytest_vla.gate.manifest import planned_baseline
from pytest_vla.gate.order import PlannedCase, draw_order, generator_of, order_digest, planned_of
from pytest_vla.plan.case import Case
from tests.support.varied import varied

GROUPS, TASKS = ("benign", "camera", "light"), ("a", "b", "c")


def planned(numbers: dict[tuple[str, str], int], pairs: int = 1) -> list[PlannedCase]:
    """So many seeds of each group and task, with so many pairs each."""
    return [
        PlannedCase(group, task, seed, f"s/{task}[{group}{pair}-seed{seed}]")
        for (group, task), number in numbers.items()
        for seed in range(number)
        for pair in range(pairs)
    ]


SIZES = st.dictionaries(st.tuples(st.sampled_from(GROUPS), st.sampled_from(TASKS)), st.integers(1, 6), min_size=1)


@given(SIZES, st.integers(1, 2), st.integers(0, 3), st.randoms())
def test_it_is_a_permutation_in_rounds(
    sizes: dict[tuple[str, str], int], pairs: int, seed: int, luck: random.Random
) -> None:
    some = planned(sizes, pairs)
    order = draw_order(some, generator_of(seed, (each.case for each in some)))
    assert Counter(case for cases in order.sequence for case in cases) == Counter(each.case for each in some)
    by_case = {each.case: each for each in some}
    for group, rounds in order.rounds.items():
        tasks = {task for name, task in sizes if name == group}
        assert len(rounds) == min(number for (name, _), number in sizes.items() if name == group)
        for round_ in rounds:
            assert [by_case[unit[0]].task for unit in round_] == sorted(tasks), "one unit of each task"
            assert all(len({by_case[case].seed for case in unit}) == 1 for unit in round_)
            assert all(len(unit) == pairs for unit in round_)
        assert sorted(order.all_cases(group)) == sorted(each.case for each in some if each.group == group)
        assert order.pairs(group) == len(order.cases(group))
    # Every prefix of whole rounds has of each group its first rounds.
    for number in range(max(map(len, order.rounds.values()))):
        so_far = {case for cases in order.sequence[: number + 1] for case in cases}
        assert so_far == {case for group in order.rounds for case in order.cases(group, number + 1)}
    luck.shuffle(some)
    again = draw_order(some, generator_of(seed, (each.case for each in some)))
    assert again == order, "it does not matter in which order the cases came"


def test_groups_share_the_order_of_seeds() -> None:
    some = planned({(group, task): 20 for group in GROUPS for task in TASKS})
    order = draw_order(some, random.Random(1))
    seeds = [[unit[0].partition("-seed")[2] for round_ in order.rounds[group] for unit in round_] for group in GROUPS]
    assert seeds[0] == seeds[1] == seeds[2]
    assert seeds[0] != sorted(seeds[0], key=len)
    first = [case.partition("[")[0] for case in order.sequence[0]]
    assert first == [first[0]] * 3 + [first[3]] * 3 + [first[6]] * 3, "of a task one after the other"


def test_it_is_of_the_run_seed_and_the_cases() -> None:
    some = planned({("benign", "a"): 10, ("benign", "b"): 10})
    cases = [each.case for each in some]
    digests = {order_digest(draw_order(some, generator_of(seed, cases))) for seed in range(20)}
    assert len(digests) == 20
    fewer = [each for each in some if each.seed != 9]
    assert generator_of(0, cases).random() != generator_of(0, [each.case for each in fewer]).random()


def test_runs_of_earlier_versions_are_judged_by_the_same_order() -> None:
    """Stored runs name it by this digest: where it changes, they cannot be judged any more."""
    some = planned({("benign", "a"): 3, ("benign", "b"): 4, ("camera", "a"): 2}, pairs=2)
    assert order_digest(draw_order(some, generator_of(7, (each.case for each in some)))) == "0a6d7da1b3ab7106"


def test_every_first_place_is_as_likely() -> None:
    some = planned({("benign", "a"): 4})
    firsts = Counter(draw_order(some, random.Random(seed)).sequence[0][0] for seed in range(2000))
    assert sorted(firsts.values())[0] > 400


def test_what_the_baseline_could_not_measure_is_in_no_round() -> None:
    outcomes = ("success", "failure", "error", "invalid")
    baseline = baseline_of([varied("", outcome, "a", seed) for seed, outcome in enumerate(outcomes)])
    cases = [Case("libero_goal", "a", seed) for seed in range(6)]
    found = planned_of(matched(baseline, planned_baseline(cases, 0)).pairs, ("suite", "dimension"))
    assert [each.seed for each in found if each.is_measured] == [0, 1, 2]
    assert {each.group for each in found} == {"libero_goal[benign]"}
    order = draw_order(found, random.Random(0))
    (rounds,) = order.rounds.values()
    assert len(rounds) == 3
    assert order.rest["libero_goal[benign]"] == ("libero_goal/a[seed3]",)
    none = draw_order([each for each in found if not each.is_measured], random.Random(0))
    assert none.rounds == {"libero_goal[benign]": ()}
    assert none.sequence == (("libero_goal/a[seed3]",),)


def test_nothing_planned_is_no_order() -> None:
    order = draw_order([], random.Random(0))
    assert order.sequence == ()
    with pytest.raises(KeyError):
        order.pairs("benign")
