"""Guidance: even scenes are what they are whatever was seen; others go where failures are, and not to known ones."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import has_more
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.sampler import CROWDED, EVEN, NEARNESS_OF_SUCCESS, SOURCES, Proposal, Sampler, TriedProposal
from pytest_vla.fuzz.shrink import Outcome
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import change_of
from pytest_vla.vary.registry import find_variation

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
KINDS = fuzzed_kinds(TASK)
TWINS: Mapping[int, Mapping[str, float]] = {0: {"steps": 0.4}, 3: {"steps": 0.5}}


def azimuth(candidate: Candidate) -> float:
    return float(next((c.params["azimuth_deg"] for c in candidate.changes if c.kind == "camera.azimuth"), 0.0))


def guided(
    number: int, outcome: Callable[[Candidate], Outcome], known: tuple[Candidate, ...] = (), **options: Any
) -> tuple[Sampler, list[TriedProposal]]:
    guide = Sampler(TASK, KINDS, "0", TWINS, **options)
    for each in known:
        guide.learn(each)
    found = []
    for place in range(number):
        proposal = guide.propose(place)
        found.append(TriedProposal(proposal, outcome(proposal.candidate), "", signals={"steps": 0.5}))
        guide.add_trial(found[-1])
    return guide, found


def evens(tried: list[TriedProposal]) -> list[Candidate]:
    return [each.proposal.candidate for each in tried if each.proposal.source == EVEN]


def test_even_scenes_do_not_depend_on_what_comes_of_others() -> None:
    _, passing = guided(24, lambda candidate: "passes")
    known = (Candidate(TASK, 0, (change_of("camera.azimuth", {"azimuth_deg": 1.0}),)),)
    _, failing = guided(24, lambda candidate: "fails", known)
    _, alone = guided(6, lambda candidate: "passes", guided=False)
    assert evens(passing) == evens(failing) == evens(alone)
    assert [each.proposal.source for each in passing] == [*SOURCES] * 6
    assert {each.seed for each in evens(passing)} == {0, 3}


def test_equal_trials_give_equal_proposals_that_the_task_can_have() -> None:
    def outcome(candidate: Candidate) -> Outcome:
        return "fails" if azimuth(candidate) > 10 else "passes"

    _, once = guided(40, outcome)
    _, again = guided(40, outcome)
    assert once == again
    for each in once:
        candidate = each.proposal.candidate
        assert find_variation(TASK, candidate.label, candidate.seed) is not None
        assert len(set(candidate.dimensions)) == len(candidate.changes) > 0


def test_crowded_scenes_are_as_full_as_half_of_them_fail_with() -> None:
    easy, tried = guided(12, lambda candidate: "passes")
    dimensions = {kind.dimension for kind in KINDS}
    assert easy.crowd == len(dimensions)
    assert len(next(t for t in tried if t.proposal.source == CROWDED).proposal.candidate.changes) == len(dimensions)
    hard, tried = guided(60, lambda candidate: "fails" if len(candidate.changes) > 3 else "passes")
    assert hard.crowd in (3, 4, 5)
    sizes = [len(t.proposal.candidate.changes) for t in tried if t.proposal.source == CROWDED]
    assert sizes[-4:] != sizes[:4]


def test_what_is_known_is_not_looked_for_again_but_evenly() -> None:
    known = Candidate(TASK, 0, (change_of("camera.azimuth", {"azimuth_deg": 5.0}),))
    _, tried = guided(80, lambda candidate: "fails" if azimuth(candidate) >= 5 else "passes", (known,))
    again = [each for each in tried if has_more(each.proposal.candidate, known)]
    assert {each.proposal.source for each in again} <= {EVEN}


def test_guidance_goes_where_failures_are() -> None:
    def share(source_is_even: bool) -> float:
        tried = guided(160, lambda candidate: "fails" if azimuth(candidate) > 30 else "passes")[1]
        some = [each for each in tried if (each.proposal.source == EVEN) == source_is_even]
        return sum(each.outcome == "fails" for each in some) / len(some)

    assert share(False) > 3 * share(True)


@pytest.mark.parametrize(
    ("outcome", "signals", "nearness"),
    [
        ("fails", {}, 1.0),
        ("aside", {"steps": 0.9}, 0.0),
        ("passes", {"steps": 0.4}, 0.0),
        ("passes", {"steps": 0.3}, 0.0),
        ("passes", {"steps": 0.7}, NEARNESS_OF_SUCCESS / 2),
        ("passes", {"steps": 1.0}, NEARNESS_OF_SUCCESS),
        ("passes", {"cost": 3.0}, 0.0),
    ],
)
def test_nearness_is_how_much_more_than_the_twin_it_took(
    outcome: Outcome, signals: Mapping[str, float], nearness: float
) -> None:
    guide = Sampler(TASK, KINDS, "0", TWINS)
    scene = Candidate(TASK, 0, (change_of("camera.azimuth", {"azimuth_deg": 5.0}),))
    assert guide.nearness(TriedProposal(Proposal(0, EVEN, scene), outcome, "", signals=signals)) == pytest.approx(
        nearness
    )
