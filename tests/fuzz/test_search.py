"""The search: planted causes are found at their smallest, each once; what is no failure of the policy's is not one."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import (
    RUN_SEEDS,
    Found,
    Searched,
    boundary_text,
    excess_of,
    further_seeds,
    often_text,
    rate_text,
)
from pytest_vla.fuzz.proposals import MOST_CHANGES, fuzzed_kinds, propose
from pytest_vla.fuzz.shrink import Shrunk
from pytest_vla.fuzz.task_search import MOST_TRIES, search, told_apart
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import change_of
from pytest_vla.vary.registry import find_variation, kind_named
from pytest_vla.vary.space import complaints
from tests.support.records import record_of

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
KINDS = fuzzed_kinds(TASK, ("camera", "light", "robot", "action"))

Params = Mapping[str, Mapping[str, Any]]


def of(candidate: Candidate) -> Params:
    return {change.kind: change.params for change in candidate.changes}


def searched(
    fails: Callable[[Params], bool],
    number: int = 80,
    seed: int = 0,
    aside: Callable[[Params], bool] = lambda params: False,
    seeds: tuple[int, ...] = (0, 1),
) -> Searched:
    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        params = of(candidate)
        if aside(params):
            return Trial("aside", "the expert does not do it either")
        return Trial("fails", "it does not") if fails(params) else Trial("passes", "it does")

    return search(TASK, seeds, KINDS, attempt, number, str(seed))


def azimuth(params: Params) -> float:
    return float(params.get("camera.azimuth", {}).get("azimuth_deg", 0))


def turn(params: Params) -> float:
    return float(params.get("light.direction", {}).get("turn_deg", 0))


def test_two_sides_of_one_kind_are_two_causes() -> None:
    seen = searched(lambda params: not -20 <= azimuth(params) <= 30, 160)
    assert {each.cause for each in seen.found} == {(("camera.azimuth", (("azimuth_deg", side),)),) for side in (-1, 1)}
    by_side = {each.cause[0][1][0][1]: azimuth(of(each.shrunk.candidate)) for each in seen.found}
    assert -23 < by_side[-1] < -20
    assert 30 < by_side[1] < 34.5
    assert seen.failed == len(seen.found) + seen.again
    assert seen.proposed == seen.passed + seen.failed == 160
    assert not any(each.is_flaky for each in seen.found)


def test_one_amount_in_every_direction_is_one_failure() -> None:
    """A light that may not be turned by more than 25 degrees was three to five failures, by heading."""
    seen = searched(lambda params: turn(params) > 25, 160)
    (only,) = seen.found
    assert 25 < turn(of(only.shrunk.candidate)) < 28
    assert seen.failed == 1 + seen.again


def test_a_line_shows_of_a_texture_its_family_or_file() -> None:
    def line(kind: str, params: Mapping[str, Any]) -> str:
        first = Candidate(TASK, 0, (change_of(kind, params),))
        return boundary_text(Found(first, Shrunk(first, 0), 4, 4))

    drawn = {"share": 0.5, "table_family": "noise", "table_colours": [[1, 2, 3], [4, 5, 6]], "table_repeats": 3}
    assert line("background.table", {**drawn, "table_seed": 12}) == "background.table share=0.5 table_family=noise"
    file = {"file": "textures/marble_floor.png", "surface": "table"}
    assert line("background.file", file) == "background.file file=marble_floor.png surface=table"
    assert line("noise.fog", {"seed": 3, "share": 0.5}) == "noise.fog seed=3 share=0.5"


def test_what_only_fails_together_is_found_together() -> None:
    seen = searched(lambda params: abs(azimuth(params)) > 20 and turn(params) > 15, 400)
    assert seen.found
    for each in seen.found:
        assert {kind for kind, _ in each.cause} == {"camera.azimuth", "light.direction"}


def test_what_the_expert_does_not_do_is_no_failure() -> None:
    seen = searched(lambda params: bool(params), aside=lambda params: "action.delay" in params)
    assert seen.aside["the expert does not do it either"] > 0
    assert all("action.delay" not in dict(each.cause) for each in seen.found)
    assert seen.proposed == seen.failed + sum(seen.aside.values())


def test_a_seed_whose_twin_fails_is_left_out() -> None:
    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        return Trial("passes" if candidate.seed == 4 else "fails", f"seed {candidate.seed}")

    seen = search(TASK, (3, 4), KINDS, attempt, 5, "0")
    assert (seen.left_out, seen.proposed, seen.passed) == (((3, "seed 3"),), 5, 5)
    none = search(TASK, (3,), KINDS, attempt, 5, "0")
    assert (none.proposed, none.found) == (0, ())


def test_what_fails_under_one_run_seed_only_is_flaky() -> None:
    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        return Trial("fails" if candidate.changes and not run_seed else "passes", "")

    (found, *_) = search(TASK, (0,), KINDS, attempt, 1, "0").found
    assert (found.failed, found.tried, found.is_flaky) == (1, 1 + RUN_SEEDS, True)


def test_equal_generators_search_alike() -> None:
    def fails(params: Params) -> bool:
        return abs(azimuth(params)) > 40 or turn(params) > 30

    assert searched(fails, seed=5) == searched(fails, seed=5)
    assert searched(fails, seed=5).found[0].first != searched(fails, seed=6).found[0].first


def test_proposals_are_even_and_can_be_had() -> None:
    generator, some = Random(1), fuzzed_kinds(TASK)
    dimensions = sorted({kind.dimension for kind in some})
    counts, sizes = dict.fromkeys(dimensions, 0), [0] * (MOST_CHANGES + 1)
    for seed in range(300):
        candidate = propose(TASK, seed, some, generator)
        sizes[len(candidate.changes)] += 1
        for change in candidate.changes:
            counts[change.kind.partition(".")[0]] += 1
            assert complaints(kind_named(change.kind).space(TASK), change.params) == ()
        assert find_variation(TASK, candidate.label, seed) is not None
    assert sizes[0] == 0
    assert sizes[1] > sizes[2] > sizes[3] > 30
    # 510 changes of 8 dimensions: 64 each, with a standard deviation of 7.
    assert all(35 < number < 95 for number in counts.values()), counts


def test_dimensions_are_checked() -> None:
    assert {kind.dimension for kind in fuzzed_kinds(TASK, ("light",))} == {"light"}
    with pytest.raises(VlaError, match=r"no dimension 'lihgt' can be searched. Did you mean light"):
        fuzzed_kinds(TASK, ("lihgt",))


def test_a_search_that_is_stopped_has_the_rate_of_all_scenes_and_says_what_is_pending() -> None:
    """Scenes come first: no scene that fails takes the time of those after it."""
    noted: list[Searched] = []
    calls: list[Candidate] = []

    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        calls.append(candidate)
        if len(calls) > 1 + 30 + 5:
            raise KeyboardInterrupt
        return Trial("fails" if abs(azimuth(of(candidate))) > 20 or turn(of(candidate)) > 10 else "passes", "")

    with pytest.raises(KeyboardInterrupt):
        search(TASK, (0,), KINDS, attempt, 30, Random(3), noted.append)
    seen = noted[-1]
    assert seen.proposed == seen.passed + seen.failed == 30
    assert seen.failed > len(seen.found)
    assert seen.pending == seen.failed - seen.again - len(seen.found) > 0


def test_no_further_run_seed_is_the_searchs_own() -> None:
    assert further_seeds(0) == (1, 2, 3)
    assert further_seeds(2) == (0, 1, 3)
    assert further_seeds(99) == (0, 1, 2)
    assert all(len(further_seeds(own)) == RUN_SEEDS for own in range(9))


# A policy that draws


def drawing(chance: Callable[[Params], float], number: int = 60, key: str = "0", world: int = 0) -> Searched:
    """Searched, where a scene fails by chance, drawn anew for each run seed, benign twins too."""

    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        drawn = Random(f"{world}/{candidate.seed}/{candidate.label}/{run_seed}").random()
        record = record_of(candidate.seed, "success", digest=f"{drawn:.9f}")
        return Trial("fails" if drawn < chance(of(candidate)) else "passes", "", record)

    return search(TASK, tuple(range(8)), KINDS, attempt, number, key)


def test_a_policy_that_fails_anywhere_by_luck_has_a_base_rate_and_no_scene_to_blame() -> None:
    """It fails with p = .3 everywhere: a third of even scenes fail, and so does the task without any change."""
    certain, within = 0, 0
    for world in range(6):
        seen = drawing(lambda params: 0.3, world=world)
        assert seen.draws
        failed, tried = seen.base
        assert tried == 3 * (8 - len(seen.left_out))
        excess = excess_of(seen)
        assert excess is not None
        value, (low, high) = excess
        assert value == pytest.approx(seen.failed / seen.proposed - failed / tried)
        within += low <= 0 <= high
        certain += sum(not each.is_flaky for each in seen.found)
        assert f"without any change {failed} of {tried}" in rate_text(seen)
    assert within >= 5
    # .3 ** 7 of about 110 failing scenes: 0.02 in all.
    assert certain == 0


def test_what_fails_half_of_the_time_is_told_with_its_count_and_kept_by_no_file() -> None:
    found = [
        each
        for world in range(4)
        for each in drawing(lambda params: 0.5 if abs(azimuth(params)) > 5 else 0.0, 200, world=world).found
    ]
    assert len(found) > 10
    # One of 128 passes for one that always fails; of four run seeds one of eight did.
    assert sum(not each.is_flaky for each in found) <= 1
    for each in found:
        assert each.tried == 8
        assert f"under {each.failed} of 8 run seeds [" in often_text(each)
        assert "its benign twin under 0 of 4" in often_text(each)


def test_a_boundary_of_a_policy_that_draws_is_told_by_several_run_seeds() -> None:
    """It fails by luck once in five without any change, and always beyond 30 degrees."""
    ends, base = [], 0
    for world in range(3):
        seen = drawing(lambda params: 1.0 if abs(azimuth(params)) > 30 else 0.2, 80, world=world)
        base += seen.base[0]
        for each in seen.found:
            if not each.is_flaky:
                assert [change.kind for change in each.shrunk.candidate.changes] == ["camera.azimuth"]
                ends.append(abs(azimuth(of(each.shrunk.candidate))))
                for side in each.shrunk.boundaries:
                    assert side.passes is None or abs(float(side.passes["azimuth_deg"])) <= 30
    assert base > 0
    assert len(ends) >= 3
    assert min(ends) > 30, "what is smaller fails by luck"


def test_a_sequential_test_errs_as_seldom_as_it_says() -> None:
    generator = Random(0)

    def told(base: tuple[int, int], chance: float) -> str | None:
        outcomes: list[bool] = []
        while len(outcomes) < MOST_TRIES:
            outcomes.append(generator.random() < chance)
            if verdict := told_apart(outcomes, base):
                return verdict
        return None

    for base in ((0, 6), (2, 6), (6, 12)):
        rate = (base[0] + 1) / (base[1] + 2)
        as_the_twin = [told(base, rate) for _ in range(1000)]
        worse = [told(base, max(0.5, (1 + rate) / 2)) for _ in range(1000)]
        # 5%, and three standard deviations of 1,000.
        assert as_the_twin.count("fails") < 71
        assert worse.count("passes") < 100, "steps overshoot: few tries are coarse"
    assert told_apart([True], (0, 6)) is None
    assert told_apart([True] * 2, (0, 6)) == "fails"
    assert told_apart([False] * 5, (0, 6)) == "passes"


def test_a_policy_that_never_draws_is_tried_once_more_alone() -> None:
    """Equal digests under another run seed: the others tell nothing new."""
    tried: list[int | None] = []

    def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
        if not candidate.changes:
            tried.append(run_seed)
        fails = abs(azimuth(of(candidate))) > 30
        return Trial("fails" if fails else "passes", "", record_of(candidate.seed, "success"))

    seen = search(TASK, (0, 1), KINDS, attempt, 40, "0")
    assert tried == [None, 1, None, 1]
    assert (seen.draws, seen.base) == (False, (0, 2))
    assert "without any change" not in rate_text(seen)
    assert all(each.tried == 1 + RUN_SEEDS and "[" not in often_text(each) for each in seen.found)
