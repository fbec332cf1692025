"""Samples: even over dimensions first, then kinds, levels and tasks; nested in each other; the same for a seed."""

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.select import SamplingStratum, numbers_as_names, plan, sample, select_tasks
from pytest_vla.vary.registry import parse_vary, parts_told_apart
from tests.support.examples import scaled

GOAL = load_suite("libero_goal")
SEVEN = parse_vary("layout,background,light,camera,robot,noise,language")


def stratum(case: Case) -> SamplingStratum:
    return SamplingStratum(*parts_told_apart(case.variation), case.task)


def varied(seeds: int) -> tuple[Case, ...]:
    return plan([GOAL], (), range(seeds), lambda task: SEVEN)


def spread(counts: Counter[object]) -> int:
    return max(counts.values()) - min(counts.values())


@pytest.mark.parametrize("seeds", [1, 10])
def test_paraphrases_do_not_swamp_the_rest(seeds: int) -> None:
    """43 paraphrases of ten tasks are 430 of its cells, and one of seven dimensions."""
    drawn = sample(varied(seeds), 170, 0, stratum)
    assert len(drawn) == len(set(drawn)) == 170
    dimensions = Counter(stratum(case).dimension for case in drawn)
    assert sorted(dimensions.values()) == [24, 24, 24, 24, 24, 25, 25]
    for name in dimensions:
        of_it = [stratum(case) for case in drawn if stratum(case).dimension == name]
        assert spread(Counter(each.kind for each in of_it)) <= 1
        if name != "language":
            # Each kind's levels go first: a kind that has had four of five gets the fifth.
            assert spread(Counter(each.level for each in of_it)) <= 2, "levels too, whatever the kind"
        assert spread(Counter(each.task for each in of_it)) <= 2
        assert len({each.task for each in of_it}) == 10
    # The same tasks and seeds in every dimension, so that there are few benign twins.
    units = {(case.task, case.seed) for case in drawn}
    assert len(units) <= (10 if seeds == 1 else max(dimensions.values()) + 2)


def test_a_sample_is_part_of_every_larger_one() -> None:
    cases = varied(3)
    samples = [set(sample(cases, count, 5, stratum)) for count in (0, 7, 50, 51, 170, 400)]
    for smaller, larger in itertools.pairwise(samples):
        assert smaller <= larger
    assert sample(cases, 50, 5, stratum) == sample(cases, 50, 5, stratum) != sample(cases, 50, 6, stratum)


def test_it_is_in_the_cases_order() -> None:
    cases = varied(1)
    places = [cases.index(case) for case in sample(cases, 60, 0, stratum)]
    assert places == sorted(places)


def test_what_is_not_varied_is_drawn_evenly_over_tasks() -> None:
    drawn = sample(plan([GOAL], (), range(50)), 34, 0)
    assert sorted(Counter(case.task for case in drawn).values()) == [3] * 6 + [4] * 4


def test_joint_variations_are_dimensions_of_their_own() -> None:
    labels = (*parse_vary("camera,light"), *parse_vary("camera+light:3"))
    drawn = sample(plan([GOAL], (), range(5), lambda task: labels), 31, 0, stratum)
    assert Counter(stratum(case).dimension for case in drawn).keys() == {"camera", "light", "light+camera"}
    assert spread(Counter(stratum(case).dimension for case in drawn)) == 1


def test_what_has_few_gives_all_and_the_rest_is_shared() -> None:
    labels = ("robot.joints-L1", *parse_vary("camera"))
    drawn = sample(plan([GOAL], ("turn_on",), (0,), lambda task: labels), 20, 0, stratum)
    assert Counter(stratum(case).dimension for case in drawn) == {"robot": 1, "camera": 19}


def test_where_tasks_are_not_told_apart_all_cases_are_as_likely() -> None:
    """LIBERO-Plus's entries: what is drawn of a sub-dimension is a simple random sample of it."""
    cases = [Case("s", "a" if number < 90 else "b", 0, f"x.{number}") for number in range(100)]
    share = [
        sum(case.task == "b" for case in sample(cases, 20, seed, lambda case: SamplingStratum("x", "x")))
        for seed in range(200)
    ]
    assert 1.6 < sum(share) / len(share) < 2.4, "a tenth of the entries, and not a half"


CASES = st.lists(
    st.tuples(st.sampled_from("ABC"), st.sampled_from("xyz"), st.sampled_from("123"), st.sampled_from(["s", "t"])),
    min_size=1,
    max_size=60,
)


@settings(max_examples=scaled(60))
@given(CASES, st.integers(0, 70), st.integers(0, 5))
def test_no_dimension_gets_more_while_another_has_some_left(
    parts: list[tuple[str, str, str, str]], count: int, seed: int
) -> None:
    cases = [Case("suite", task, number, f"{d}.{k}-{level}") for number, (d, k, level, task) in enumerate(parts)]
    strata = {case: SamplingStratum(d, k, level, task) for case, (d, k, level, task) in zip(cases, parts, strict=True)}
    drawn = sample(cases, count, seed, strata.__getitem__)
    assert len(set(drawn)) == len(drawn) == min(count, len(cases))

    def fair(key: str, among: list[Case]) -> None:
        all_of = Counter(getattr(strata[case], key) for case in among)
        got = Counter(getattr(strata[case], key) for case in drawn if case in among)
        for one, other in ((a, b) for a in all_of for b in all_of):
            assert got[one] <= got[other] + 1 or got[other] == all_of[other]

    fair("dimension", cases)
    for dimension in "ABC":
        of_it = [case for case in cases if strata[case].dimension == dimension]
        fair("kind", of_it)
        for kind in "xyz":
            fair("level", [case for case in of_it if strata[case].kind == kind])


def test_a_number_is_a_part_of_names_and_told_so() -> None:
    ninety = load_suite("libero_90")
    (told,) = numbers_as_names([ninety, GOAL], ["5", "stove"])
    assert f"selects {sum('5' in task.key for task in ninety.tasks)} tasks" in told
    assert told.endswith(f"by its number it would be {ninety.tasks[5].key} or {GOAL.tasks[5].key}")
    assert numbers_as_names([GOAL], ["stove", "*5*"]) == numbers_as_names([ninety], ["99"]) == ()
    with pytest.raises(VlaError, match=f"By its number it would be {GOAL.tasks[5].key}"):
        select_tasks([GOAL], ["5"])
    with pytest.raises(VlaError, match="no task of libero_goal is '77' or contains it"):
        select_tasks([GOAL], ["77"])
