"""The closest rewording that breaks a task: found exactly where tries suffice, and told how near it is where not."""

from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import RUN_SEEDS
from pytest_vla.fuzz.reword import (
    Ranked,
    Reworded,
    changed_words,
    drawn_evenly,
    find_closest,
    ranked,
    rates_by_sort,
    rewordings,
)
from pytest_vla.fuzz.trial import Trial
from pytest_vla.language.backends import template_backend
from pytest_vla.plan.manifests import load_suite

TASK = load_suite("tabletop").task("turn_on_the_stove")


@cache
def all_ranked() -> tuple[Ranked, ...]:
    return ranked(TASK, rewordings(TASK), template_backend())


def text_of(candidate: Candidate) -> str:
    return str(candidate.changes[0].params["instruction"]) if candidate.changes else TASK.language


def searched(
    breaks: Callable[[str], bool],
    tries: int = 40,
    seeds: tuple[int, ...] = (0, 1),
    fails: Callable[[Candidate, int | None], bool] = lambda candidate, run_seed: False,
) -> Reworded:
    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        failed = breaks(text_of(candidate)) or fails(candidate, run_seed)
        return Trial("fails", "it does not") if failed else Trial("passes", "it does")

    return find_closest(TASK, seeds, all_ranked(), attempt, tries, Random(0))


def words_of(text: str) -> list[str]:
    return text.lower().replace("?", "").replace(",", "").split()


def lacks(*words: str) -> Callable[[str], bool]:
    return lambda text: any(word not in words_of(text) for word in words)


def has(word: str) -> Callable[[str], bool]:
    return lambda text: word in words_of(text)


@pytest.mark.parametrize(
    "breaks",
    [lacks("stove"), has("please"), has("could"), lacks("turn"), has("stovetop"), has("gently"), has("range"),
     lambda text: len(text) > 45, lambda text: text.endswith("?") and "cooking" in text],
    ids=["no stove", "please", "could", "no turn", "stovetop", "gently", "range", "long", "two at once"],
)  # fmt: skip
def test_with_enough_tries_the_closest_is_found_as_by_brute_force(breaks: Callable[[str], bool]) -> None:
    expected = next(at for at, each in enumerate(all_ranked()) if breaks(each.rewording.text))
    seen = searched(breaks, 4 * len(all_ranked()))
    assert seen.closest is not None
    assert all_ranked()[seen.closest.place].rank == all_ranked()[expected].rank
    assert seen.untried == ()
    assert (seen.closest.failed, seen.closest.tried) == (RUN_SEEDS + 1, RUN_SEEDS + 1)
    assert (seen.closest.failed_elsewhere, seen.closest.tried_elsewhere) == (1, 1)


@pytest.mark.parametrize("breaks", [lacks("stove"), lacks("turn"), has("could")], ids=["stove", "turn", "could"])
def test_a_common_bug_is_found_at_its_closest_in_few_tries(breaks: Callable[[str], bool]) -> None:
    expected = next(at for at, each in enumerate(all_ranked()) if breaks(each.rewording.text))
    seen = searched(breaks, 40)
    assert seen.closest is not None
    assert len(seen.tried) <= 40
    assert all_ranked()[seen.closest.place].rank == all_ranked()[expected].rank, (
        "what is suspected leads there, though not all that is nearer was tried"
    )


def test_no_text_is_tried_twice_and_none_beyond_the_closest() -> None:
    seen = searched(has("stovetop"), 200)
    places = [each.place for each in seen.tried]
    assert len(set(places)) == len(places)
    assert seen.closest is not None
    walked = [each for each in seen.tried if each.way == "nearest"]
    assert all(each.place < seen.closest.place or each.outcome == "fails" for each in walked)


def test_without_a_bug_it_says_how_far_nothing_breaks() -> None:
    seen = searched(lambda text: False, 40)
    assert (seen.closest, seen.flaky, len(seen.tried)) == (None, (), 40)
    assert seen.cleared == all_ranked()[seen.untried[0]].distance
    tried = {each.place for each in seen.tried}
    assert all(place in tried for place in range(seen.untried[0]))
    everything = searched(lambda text: False, 10_000)
    assert everything.cleared is None
    assert len(everything.tried) == len(all_ranked())


def test_what_fails_under_some_run_seeds_is_told_and_not_found() -> None:
    seen = searched(
        lambda text: False,
        400,
        fails=lambda candidate, run_seed: run_seed in (None, 1) and has("range")(text_of(candidate)),
    )
    assert seen.closest is None
    assert seen.flaky
    assert {(each.failed, each.tried, each.is_flaky) for each in seen.flaky} == {(2, 4, True)}


def test_a_seed_whose_twin_fails_under_any_run_seed_is_not_searched() -> None:
    def twin(candidate: Candidate, run_seed: int | None) -> bool:
        return not candidate.changes and (candidate.seed == 3 or (candidate.seed == 5 and run_seed == 2))

    seen = searched(has("please"), 40, (3, 5, 7, 8), twin)
    assert seen.seed == 7
    assert seen.left_out == ((3, "it does not"), (5, "under run seed 2 it does not"))
    assert seen.closest is not None
    assert seen.closest.candidate.seed == 7
    assert seen.closest.tried_elsewhere == 1
    nothing = searched(has("please"), 40, (3,), twin)
    assert (nothing.seed, nothing.tried) == (None, [])


def test_what_tells_nothing_clears_nothing() -> None:
    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        return Trial("aside" if candidate.changes else "passes", "it broke")

    seen = find_closest(TASK, (0,), all_ranked(), attempt, 10, Random(0))
    assert seen.cleared == all_ranked()[0].distance
    assert rates_by_sort([seen]) == {}


def test_rates_are_of_what_was_drawn_evenly() -> None:
    seen = searched(lacks("stove"), 200)
    rates = rates_by_sort([seen, seen])
    evenly = [each for each in seen.tried if each.way == "evenly"]
    assert rates["", ""] == (2 * sum(each.outcome == "fails" for each in evenly), 2 * len(evenly))
    assert sum(number for (axis, _), (_, number) in rates.items() if axis in ("object", "words")) == 2 * len(evenly)
    assert rates["object", "addition_deletion"][0] == 0, "it leaves the name"
    assert rates["object", "same_polarity_habitual"][0] == rates["object", "same_polarity_habitual"][1]


def test_sorts_are_drawn_evenly_and_the_same_by_any_backend() -> None:
    some = drawn_evenly(all_ranked(), 60, Random(4))
    assert len(set(some)) == 60
    words = [at for at in some if all_ranked()[at].rewording.sorts[0][0] == "words"]
    assert len(words) <= 2, "there are no more"
    back = tuple(reversed(all_ranked()))
    texts = [{order[at].rewording.text for at in drawn_evenly(order, 60, Random(4))} for order in (all_ranked(), back)]
    assert texts[0] == texts[1]
    assert len(drawn_evenly(all_ranked(), 10_000, Random(4))) == len(all_ranked())


def test_ranks_are_by_distance_then_by_changed_words() -> None:
    keys = [(each.rank, each.rewording.text.lower()) for each in all_ranked()]
    assert keys == sorted(keys)
    assert [round(each.distance, 6) for each in all_ranked()] == [rank[0] for rank, _ in keys]
    assert all(each.distance > 0 for each in all_ranked())


def test_changed_words() -> None:
    assert changed_words("put the bowl on the stove", "Set the dish on the stove") == ("-put", "-bowl", "+set", "+dish")
    assert changed_words("put the bowl", "would you put the bowl?") == ("+would", "+you")
