"""The search of a task as jobs: any order of results, given back ones and one that is gone on with lose nothing."""

from collections.abc import Callable
from random import Random

import pytest

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import Found
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.sampler import EVEN, Proposal, TriedProposal
from pytest_vla.fuzz.task_search import Job, Result, SearchRules, TaskSearch, perform
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.manifests import load_suite

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
# Few kinds, so that what is planted is met in few scenes.
KINDS = [kind for kind in fuzzed_kinds(TASK) if kind.name in ("camera.azimuth", "light.direction", "action.delay")]


def azimuth(candidate: Candidate) -> float:
    return float(next((c.params["azimuth_deg"] for c in candidate.changes if c.kind == "camera.azimuth"), 0.0))


def attempt(candidate: Candidate, run_seed: int | None = None) -> Trial:
    return Trial("fails" if azimuth(candidate) > 20 else "passes", "", signals={"steps": 0.3})


def hunt(rules: SearchRules | None = None, seeds: tuple[int, ...] = (0, 1)) -> TaskSearch:
    return TaskSearch(TASK, seeds, KINDS, "0", rules or SearchRules(40))


def finished(
    one: TaskSearch,
    take: Callable[[list[Job]], int] = lambda jobs: 0,
    width: int = 1,
    done: list[tuple[Job, Result]] | None = None,
) -> TaskSearch:
    """Done with so many jobs at once; `take` says which of them ends next."""
    out: list[Job] = []
    while True:
        while len(out) < width and (job := one.next()) is not None:
            out.append(job)
        if not out:
            return one
        job = out.pop(take(out))
        result = perform(job, attempt, one.rules)
        if done is not None:
            done.append((job, result))
        one.add_result(job, result)


def test_it_is_done_when_all_was_tried_and_made_smaller() -> None:
    one = hunt()
    assert not one.is_done
    finished(one)
    assert one.is_done
    assert one.next() is None
    seen = one.seen
    assert (seen.proposed, seen.guided) == (10, 30)
    assert seen.proposed == seen.passed + seen.failed
    assert [dict(each.cause) for each in seen.found] == [{"camera.azimuth": (("azimuth_deg", 1),)}]
    assert seen.pending == 0
    assert seen.failed + seen.guided_failed == seen.again + len(seen.found)


@pytest.mark.parametrize("seed", range(4))
def test_in_whatever_order_jobs_end_the_even_scenes_and_what_is_found_are_the_same(seed: int) -> None:
    generator = Random(seed)
    seen, alone = finished(hunt(), lambda jobs: generator.randrange(len(jobs)), width=5).seen, finished(hunt()).seen
    assert (seen.proposed, seen.failed, seen.passed) == (alone.proposed, alone.failed, alone.passed)
    assert {each.cause for each in seen.found} == {each.cause for each in alone.found}


def test_no_even_scene_counts_beyond_one_that_has_no_answer_yet() -> None:
    """What takes long fails more often, and would be missing at the end of a search."""
    one = hunt(SearchRules(8, guided=False))
    jobs = []
    while len(jobs) < 8:
        job = one.next()
        if job is None:
            break
        if job.what == "scene":
            jobs.append(job)
        else:
            one.add_result(job, perform(job, attempt, one.rules))
    for job in jobs[1:]:
        one.add_result(job, TriedProposal(job.proposal, "passes", ""))
    assert one.seen.proposed == 0
    one.add_result(jobs[0], TriedProposal(jobs[0].proposal, "fails", ""))
    assert (one.seen.proposed, one.seen.failed, one.seen.passed) == (8, 1, 7)


@pytest.mark.parametrize("kept", [0, 1, 2, 7, 25, 1000])
def test_gone_on_with_it_is_the_same_search(kept: int) -> None:
    done: list[tuple[Job, Result]] = []
    whole = finished(hunt(), done=done)
    again = hunt()
    again.go_on(done[:kept])
    finished(again)
    assert (again.seen.proposed, again.seen.failed, again.seen.passed) == (
        whole.seen.proposed,
        whole.seen.failed,
        whole.seen.passed,
    )
    assert {each.cause for each in again.seen.found} == {each.cause for each in whole.seen.found}
    assert again.is_done


def test_what_was_in_work_when_it_was_killed_comes_again() -> None:
    done: list[tuple[Job, Result]] = []
    finished(hunt(), lambda jobs: len(jobs) - 1, width=4, done=done)
    numbers = [job.proposal.number for job, _ in done if job.what == "scene"]
    lost = [each for each in done if each[0].what != "twin" and each[0].proposal.number in (3, 4, 8)]
    again = hunt()
    again.go_on([each for each in done if each not in lost])
    asked = []
    while (job := again.next()) is not None:
        asked.append(job)
        again.add_result(job, perform(job, attempt, again.rules))
    scenes = [job for job in asked if job.what == "scene"]
    assert {job.proposal.number for job in scenes} == {3, 4, 8}
    before = {job.proposal.number: job.proposal for job, _ in lost}
    assert all(job.proposal == before[job.proposal.number] for job in scenes if job.proposal.source == EVEN)
    assert again.seen.proposed + again.seen.guided == len(numbers)


def test_a_job_that_nobody_did_comes_again() -> None:
    one = hunt(SearchRules(6, guided=False))
    given: dict[tuple[str, int], int] = {}
    while (job := one.next()) is not None:
        name = job.what, job.proposal.number
        given[name] = given.get(name, 0) + 1
        if given[name] == 1:
            one.give_back(job)
        else:
            one.add_result(job, perform(job, attempt, one.rules))
    assert set(given.values()) == {2}
    assert one.is_done
    assert one.seen.proposed == 6


def test_without_a_twin_that_succeeds_there_is_nothing_to_do() -> None:
    one = hunt(seeds=(4, 5))
    while (job := one.next()) is not None:
        assert job.what == "twin"
        one.add_result(job, Trial("fails", f"seed {job.proposal.candidate.seed}"))
    assert one.is_done
    assert one.seen.left_out == ((4, "seed 4"), (5, "seed 5"))


def test_it_ends_when_nothing_new_came_for_long() -> None:
    one = finished(hunt(SearchRules(None, patience=30)))
    assert one.is_done
    assert len(one.seen.found) == 1
    total = one.seen.proposed + one.seen.guided
    assert 30 <= total < 200


def test_the_policy_that_is_compared_is_asked_about_the_smallest_and_its_twin() -> None:
    asked: list[int] = []

    def rival(candidate: Candidate, run_seed: int | None = None) -> Trial:
        asked.append(len(candidate.changes))
        return Trial("passes", "")

    one = hunt()
    while (job := one.next()) is not None:
        one.add_result(job, perform(job, attempt, one.rules, rival))
    assert [each.rival for each in one.seen.found] == ["passes"]
    assert asked[:2] == [0, 1]
    (found,) = one.seen.found
    job = Job("failure", Proposal(found.number, found.source, found.first))
    again = perform(job, attempt, one.rules, lambda candidate, run_seed=None: Trial("fails", ""))
    assert isinstance(again, Found)
    assert again.rival == "aside", "who fails the twin tells nothing of the change"


def lucky(candidate: Candidate, run_seed: int | None = None) -> Trial:
    """Fails a little azimuth under the search's own run seed alone, and much of it always."""
    by_luck = azimuth(candidate) > 0 and run_seed is None
    return Trial("fails" if by_luck or azimuth(candidate) > 40 else "passes", "", signals={"steps": 0.3})


def test_what_fails_by_luck_hides_nothing_that_always_does() -> None:
    one = hunt(SearchRules(120, run_seeds=(1, 2, 3)))
    while (job := one.next()) is not None:
        one.add_result(job, perform(job, lucky, one.rules))
    certain = [each for each in one.seen.found if not each.is_flaky]
    assert len(certain) == 1
    assert azimuth(certain[0].shrunk.candidate) > 40
    assert certain[0].failed == 4
    assert not certain[0].shrunk.complete, "what is smaller fails by luck"
    assert {each.failed for each in one.seen.found if each.is_flaky} == {1}


def test_which_scene_has_which_seed_does_not_depend_on_which_twins_fail() -> None:
    def scenes(failing: int | None) -> dict[int, tuple[int, object]]:
        one = hunt(SearchRules(30, guided=False), seeds=(0, 1, 2))
        found = {}
        while (job := one.next()) is not None:
            if job.what == "scene":
                found[job.proposal.number] = (job.proposal.candidate.seed, job.proposal.candidate.changes)
            outcome = "fails" if job.what == "twin" and job.proposal.candidate.seed == failing else "passes"
            trial = Trial(outcome, "", signals={})  # type: ignore[arg-type]
            one.add_result(job, TriedProposal(job.proposal, "passes", "") if job.what == "scene" else trial)
        return found

    every, some = scenes(None), scenes(1)
    assert {number for number in every if every[number] != some[number]} == {
        number for number, (seed, _) in every.items() if seed == 1
    }
