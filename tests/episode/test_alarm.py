"""--vla-stop-when in an episode: when it stops, how that is recorded, and that it sees what the series will have."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla import extensions
from pytest_vla.episode.apply_metrics import answer_series, live_value, needs_of, wishes_of, with_metrics
from pytest_vla.errors import STOPPED, VlaError
from pytest_vla.metrics.alarms import AlarmRule, first_alarm, parse_rule
from pytest_vla.metrics.extra_metrics import live_rule, with_own_name
from pytest_vla.metrics.failure_prediction import without_padding
from pytest_vla.plan.choices import Realtime
from pytest_vla.policies.base import NO_WISHES, Answer, Episode
from pytest_vla.policies.tokens import token_statistics
from pytest_vla.records.counting import is_complete
from pytest_vla.records.trajectory import Trajectory
from tests.support.point_episodes import run

LIVE = [name for name, entry in extensions.metrics().items() if entry.looks_back]
STILL = np.zeros(7)


def doubting(episode: Episode) -> Any:
    """Stands still; is sure for two chunks of three, and then not."""
    asked = 0

    def act(observation: Any) -> Any:
        nonlocal asked
        asked += 1
        logits = np.zeros((7, 11))
        logits[:, 0] = 9.0 if asked <= 2 else 0.0
        chunk = np.tile(STILL, (3, 1))
        return chunk if episode.wishes == NO_WISHES else Answer(chunk, None, None, token_statistics(logits))

    return act


def stopped_by(text: str, policy: Any = doubting, **options: Any) -> Any:
    wishes = wishes_of(needs_of(["token_entropy"]))
    return run(policy, wishes=wishes, stop_when=parse_rule(text), **options)


def test_an_episode_is_stopped_and_is_neither_a_failure_nor_a_success() -> None:
    ended = stopped_by("TB-E>0.5 for 4")
    record = ended.record
    # Unsure from the seventh step on.
    assert (record.outcome, record.reason, record.steps) == ("invalid", STOPPED, 10)
    assert record.message == "token_entropy>0.5 for 4 at control step 10, where it is 1"
    assert record.provenance["stop_when"] == "TB-E>0.5 for 4"
    assert is_complete(record.outcome), "it is not to be run again"
    kept = with_metrics(ended, ["token_entropy"])
    assert first_alarm(kept.uncertainty["token_entropy"], parse_rule("token_entropy>0.5 for 4")) == 10
    assert kept.uncertainty.keys() == {"token_entropy", "token_entropy.paper"}


def test_an_answer_that_comes_late_rings_when_it_is_executed() -> None:
    rule = "token_entropy>0.5 for 4"
    # Two steps late: asked at 0, 3 and 5, and executed from 2, 5 and 7 on. So it is unsure from the eighth step on.
    ended = stopped_by(rule, realtime=Realtime(0.1))
    assert (ended.record.outcome, ended.record.steps) == ("invalid", 11)
    kept = with_metrics(ended, ["token_entropy"])
    assert first_alarm(kept.uncertainty["token_entropy"], parse_rule(rule)) == 11


def test_where_it_never_rings_the_episode_is_the_same() -> None:
    plain, watched = run(doubting), stopped_by("token_entropy>1 for 4")
    assert watched.record.digest == plain.record.digest
    assert watched.record.outcome == "failure"
    assert "stop_when" not in plain.record.provenance
    # With its last step an episode is over, and nothing can be stopped.
    assert stopped_by("token_entropy>0.5 for 14").record.outcome == "failure"
    assert stopped_by("token_entropy>0.5 for 13").record.steps == 19
    assert plain.uncertainty == {}


def test_a_policy_that_tells_nothing_is_never_stopped() -> None:
    assert stopped_by("token_entropy>0", lambda episode: lambda seen: STILL).record.outcome == "failure"


def test_a_rule_needs_a_metric_that_is_known_in_time() -> None:
    entries = extensions.metrics()
    rule, entry = live_rule(AlarmRule("ev.arm", ">", 0.5), entries)
    assert (rule.metric, entry.name) == ("execution_variability.arm", "execution_variability")
    with pytest.raises(VlaError, match=r"there is no metric token_entrpy. Did you mean token_entropy"):
        live_rule(AlarmRule("token_entrpy", ">", 0.5), entries)
    with pytest.raises(VlaError, match="trajectory_instability is known only after an episode"):
        live_rule(AlarmRule("TI", ">", 0.5), entries)
    assert with_own_name(AlarmRule("mine.own", ">", 0.5), entries).metric == "mine.own"


@given(st.sampled_from(LIVE), st.integers(1, 24), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_what_is_looked_at_is_what_the_series_has(
    name: str, steps: int, executed: int, seed: int, unscaled: bool
) -> None:
    rng, entry = np.random.default_rng(seed), extensions.metrics()[name]
    actions = rng.uniform(-1, 1, (steps, 7))
    answers = [
        (step, Answer(np.zeros((6, 7)), rng.uniform(-1, 1, (4, 6, 7)), None, token_statistics(rng.normal(size=(3, 5)))))
        for step in range(0, steps, executed)
    ]
    nowhere = np.zeros((steps + 1, 0))
    whole = Trajectory(nowhere, nowhere, nowhere, actions, answer_series(answers, steps))
    bounds = ((-3.0, 1.0),) * 7 if unscaled else ()
    said = extensions.load(entry)(SimpleNamespace(protocol={"action_bounds": bounds}), whole)
    for key, series in said.series.items():
        for step in range(1, steps + 1):
            seen = [each for each in answers if each[0] < step]
            value = live_value(entry, key, actions[max(step - entry.looks_back, 0) : step], seen, step, bounds)
            expected = without_padding(series, entry, key)[step - 1]
            assert value == pytest.approx(expected) if np.isfinite(expected) else value is None


def restless(episode: Episode) -> Any:
    """Never the same action twice in a row."""
    steps = iter(range(99))
    return lambda seen: np.full(7, 0.3 * (-1) ** next(steps))


@pytest.mark.parametrize("which", ["", ".arm"])
def test_zeros_of_a_window_that_is_not_full_are_no_small_values(which: str) -> None:
    """Upstream's A-PI is 0 in the first seven steps, whatever the policy does."""
    assert run(restless, stop_when=parse_rule(f"A-PI{which}<0.001 for 5")).record.outcome == "failure"
    # Values begin with the eighth step.
    assert run(restless, stop_when=parse_rule(f"A-PI{which}<9 for 2")).record.steps == 9
    # The paper's is a difference of two steps, and is known with the second.
    assert run(restless, stop_when=parse_rule("A-PI.paper<9 for 2")).record.steps == 3


def test_of_another_packages_metric_the_number_alone_is_no_series() -> None:
    entry = dataclasses.replace(extensions.metrics()["token_entropy"], looks_back=1)
    assert live_value(entry, "nothing", np.zeros((1, 7)), [], 1) is None
