"""A candidate tried: what fails, and what tells nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.rollout import Conditions
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.fuzz import trial
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.trial import Property, Trials
from pytest_vla.plan.costs import Charge
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Episode
from pytest_vla.records.record import Record
from pytest_vla.scene.variation import Variation
from pytest_vla.testing import ForgetfulPointWorld, PointWorld, World, point_suite
from pytest_vla.vary.chosen import change_of

STOVE = load_suite("tabletop").task("turn_on_the_stove")
TURNED = change_of("light.direction", {"turn_deg": 20.0, "heading_deg": 5.0})
DELAYED = change_of("action.delay", {"steps": 3})


def open_world(task: Task, variation: Variation | None) -> Any:
    return World(task, variation)


def going(speed: Callable[[Episode], float]) -> Any:
    def policy(episode: Episode) -> Any:
        return lambda observation: np.array([[speed(episode), 0, 0, 0, 0, 0, 0]])

    return policy


@pytest.fixture
def ran() -> list[Record]:
    return []


def trials(policy: Any, ran: list[Record]) -> Trials:
    return Trials(policy, open_world, Conditions(model="mine", run_seed=7), ran.append)


STANDS, GOES = going(lambda episode: 0.0), going(lambda episode: 1.0)


def test_what_is_only_seen_is_solvable_as_the_twin_is(ran: list[Record]) -> None:
    attempt = trials(STANDS, ran)
    found = attempt(Candidate(STOVE, 1, (TURNED,)))
    assert found.outcome == "fails"
    assert [record.policy for record in ran] == ["mine"], "no expert is asked"
    assert len(ran) == attempt.episodes == 1
    attempt(Candidate(STOVE, 1, (TURNED,)), run_seed=8)
    assert [record.seeds["run"] for record in ran] == [7, 8]


def test_what_is_done_passes(ran: list[Record]) -> None:
    assert trials(GOES, ran)(Candidate(STOVE, 1, (DELAYED,))).outcome == "passes"
    assert len(ran) == 1


@pytest.mark.parametrize(("speed", "outcome"), [(1.0, "fails"), (0.0, "aside")])
def test_what_changes_what_can_be_done_is_shown_by_the_expert(
    monkeypatch: pytest.MonkeyPatch, ran: list[Record], speed: float, outcome: str
) -> None:
    monkeypatch.setattr(trial, "expert_policy", going(lambda episode: speed))
    found = trials(STANDS, ran)(Candidate(STOVE, 1, (DELAYED,)))
    assert found.outcome == outcome
    assert [record.policy for record in ran] == ["mine", "expert"]
    assert len({record.case for record in ran}) == 1


@pytest.mark.parametrize(
    ("world", "outcome", "why"),
    [
        (PointWorld, "fails", "the expert succeeds, and the policy fails"),
        (ForgetfulPointWorld, "aside", "the suite's own world has no expert to show that it can be done"),
    ],
)
def test_a_suites_own_expert_shows_what_can_be_done(ran: list[Record], world: Any, outcome: str, why: str) -> None:
    def policy(episode: Episode) -> Any:
        return lambda observation: np.array([[0.0, 0.0]])

    task = point_suite(world=world).tasks[0]
    pool = WorldPool(allow_versions=False)
    tried = Trials(policy, pool, Conditions(model="mine"), ran.append)(Candidate(task, 1, (DELAYED,)))
    assert (tried.outcome, tried.why) == (outcome, why)


def test_what_breaks_or_cannot_be_measured_tells_nothing(ran: list[Record]) -> None:
    def broken(episode: Episode) -> Any:
        raise RuntimeError("no weights")

    found = trials(broken, ran)(Candidate(STOVE, 1, (TURNED,)))
    assert (found.outcome, found.why.partition(":")[0]) == ("aside", "policy-raised")
    # Init state 13 holds the goal at once.
    assert trials(STANDS, ran)(Candidate(STOVE, 13, (TURNED,))).why.startswith("goal-holds-at-start: ")
    nothing = trials(STANDS, ran)(
        Candidate(STOVE, 1, (change_of("light.direction", {"turn_deg": 99.0, "heading_deg": 5.0}),))
    )
    assert (nothing.outcome, nothing.record) == ("aside", None)


def test_the_benign_twin_of_a_policy_that_does_nothing_fails(ran: list[Record]) -> None:
    assert trials(STANDS, ran)(Candidate(STOVE, 1)).outcome == "fails"


def test_an_error_of_the_policys_is_a_failure_where_that_is_asked(ran: list[Record]) -> None:
    def broken(episode: Episode) -> Any:
        raise RuntimeError("no weights")

    attempt = trials(broken, ran)
    attempt.wanted = Property(errors=True)
    found = attempt(Candidate(STOVE, 1, (TURNED,)))
    assert (found.outcome, found.why) == ("fails", "only images or the instruction are changed, and the policy breaks")


@pytest.mark.parametrize(
    ("policy", "solver", "most", "outcome", "why"),
    [
        (2.0, 0.5, 1.0, "fails", "the expert succeeds, and it costs 2, more than 1"),
        (2.0, 0.5, 2.0, "passes", "the policy succeeds"),
        (2.0, 1.5, 1.0, "aside", "the expert costs too much, too"),
        (2.0, 0.5, None, "passes", "the policy succeeds"),
    ],
)
def test_what_costs_too_much_is_a_failure_where_that_is_asked(
    monkeypatch: pytest.MonkeyPatch, ran: list[Record], policy: float, solver: float, most: float | None,
    outcome: str, why: str,
) -> None:  # fmt: skip
    costs = iter([policy, solver])
    real = trial.run_episode

    def charged(*given: Any, **named: Any) -> Any:
        ended = real(*given, **named)
        charge = Charge("sideways", next(costs), account="declared")
        return replace(ended, record=replace(ended.record, costs=(charge,)))

    monkeypatch.setattr(trial, "run_episode", charged)
    monkeypatch.setattr(trial, "expert_policy", GOES)
    attempt = trials(GOES, ran)
    attempt.wanted = Property(max_cost=most)
    found = attempt(Candidate(STOVE, 1, (DELAYED,)))
    assert (found.outcome, found.why) == (outcome, why)
    assert found.signals.get("cost") == (2.0 if outcome == "passes" else None)
