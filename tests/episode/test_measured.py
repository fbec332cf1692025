"""Metrics of an episode that has ended: what is kept, what stays as it was, and what is said to be missing."""

import dataclasses
import warnings
from typing import Any

import numpy as np
import pytest

from pytest_vla import extensions
from pytest_vla.entries import MetricEntry
from pytest_vla.episode.apply_metrics import needs_of, records_remaining, wishes_of, with_metrics
from pytest_vla.episode.result import Rollout
from pytest_vla.errors import VlaError
from pytest_vla.metrics import instability, uncertainty
from pytest_vla.metrics.extension import pytest_vla_metrics
from pytest_vla.metrics.uncertainty import action_instability
from pytest_vla.policies.base import NO_WISHES, Answer, Episode, Wishes
from pytest_vla.policies.tokens import token_statistics
from pytest_vla.records.record import MetricResult
from pytest_vla.records.trajectory import load_trajectory, save_trajectory
from tests.support.point_episodes import SLOW, run

ALL = tuple(entry.name for entry in pytest_vla_metrics())
TOKEN_METRICS = ("token_probability", "token_pcs", "token_deepgini", "token_entropy")
HANDLED = ("near_joint_limits", "regrasps", "other_contacts")
WISHED = wishes_of(needs_of(ALL))


def unsure(episode: Episode) -> Any:
    """Chunks of three, each with what is wished for beside it."""
    asked = 0

    def act(observation: Any) -> Any:
        nonlocal asked
        asked += 1
        chunk, rng = np.tile(SLOW, (3, 1)), np.random.default_rng(asked)
        if episode.wishes == NO_WISHES:
            return chunk
        draws = np.clip(chunk + 0.1 * rng.normal(size=(episode.wishes.samples, 3, 7)), -1, 1)
        told = token_statistics(rng.normal(size=(7, 11)))
        return Answer(chunk, draws, told.first, told)

    return act


def measured(ended: Rollout, *chosen: str) -> tuple[Rollout, list[str]]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = with_metrics(ended, chosen)
    return found, [str(each.message) for each in told]


def test_what_metrics_need_is_wished_for_and_nothing_else() -> None:
    assert Wishes(4, True) == WISHED
    assert wishes_of(needs_of(())) == NO_WISHES
    assert wishes_of(needs_of(["action_position_instability", "trajectory_instability"])) == NO_WISHES
    assert wishes_of(needs_of(["token_pcs"])) == Wishes(0, True)
    assert wishes_of(needs_of(["execution_variability"])) == Wishes(4, False)
    assert records_remaining(needs_of(["optimal_trajectory"]))
    assert not records_remaining(needs_of(["execution_variability"]))


def test_numbers_and_series_are_kept_and_the_episode_is_the_same() -> None:
    bare, ended = run(unsure), run(unsure, wishes=WISHED)
    found, told = measured(ended, *ALL)
    assert found.record.digest == bare.record.digest
    assert found.record.metrics.keys() > bare.record.metrics.keys()
    metrics, series, steps = found.record.metrics, found.trajectory.series, found.steps
    assert steps == 9
    for name in (*TOKEN_METRICS, "execution_variability"):
        assert series[name].shape == series[f"{name}.paper"].shape == (9,)
        assert metrics[name] == pytest.approx(series[name].mean())
    answers = [answer for _, answer in ended.answers]
    entropy = np.stack([answer.token_statistics.entropy for answer in answers])  # type: ignore[union-attr]
    assert series["token_entropy"][::3] == pytest.approx(uncertainty.token_entropy(entropy, 11))
    draws = np.concatenate([answer.samples.transpose(1, 0, 2) for answer in answers])  # type: ignore[union-attr]
    assert series["execution_variability.arm"] == pytest.approx(uncertainty.execution_variability(draws, dims="arm"))
    assert metrics["action_position_instability"] == action_instability(found.trajectory.actions, 1).mean()
    assert metrics["static_robot"] == 0.0
    # One is two rows shorter, and begins where it can.
    assert np.isnan(series["trajectory_instability"]).tolist() == [True] * 2 + [False] * 7
    assert np.isnan(series["tcp_velocity_instability.paper"]).sum() == 2
    # The point has no object that is to be brought anywhere.
    # And no joints.
    assert [line.partition(":")[0] for line in told] == [
        "metrics optimal_trajectory, object_turn",
        f"metrics {', '.join(HANDLED)}",
    ]
    assert "optimal_trajectory" not in metrics


def test_they_can_be_made_again_of_what_was_kept(tmp_path: Any) -> None:
    found, _ = measured(run(unsure, wishes=WISHED), *ALL)
    save_trajectory(tmp_path / "a.npz", found.trajectory)
    again = load_trajectory(tmp_path / "a.npz")
    for entry in pytest_vla_metrics():
        said = extensions.load(entry)(found.record, again)
        assert said.value == found.record.metrics.get(entry.name)
        for key, value in said.further.items():
            assert value == found.record.metrics[f"{entry.name}.{key}"]


def test_where_nothing_is_chosen_nothing_is_done() -> None:
    ended = run(unsure)
    assert measured(ended) == (ended, [])
    assert ended.answers == ()
    found, told = measured(ended, "action_velocity_instability")
    assert told == []
    assert found.trajectory.series.keys() == {f"action_velocity_instability{which}" for which in ("", ".paper", ".arm")}


def test_what_is_missing_is_named_and_not_zero() -> None:
    found, told = measured(run(lambda episode: lambda seen: SLOW, wishes=WISHED), *ALL)
    tokens_told, samples_told, goal_told, joints_told = told
    assert tokens_told.startswith(
        f"metrics {', '.join(TOKEN_METRICS)}: no value could be computed. Expected token prob"
    )
    assert "flow-matching" in tokens_told
    assert "Expected samples: further draws of each action" in samples_told
    assert "Expected one object that is to be brought to one place" in goal_told
    assert "Expected joints and contacts of the robot" in joints_told
    assert not {*TOKEN_METRICS, "execution_variability", "optimal_trajectory"} & found.record.metrics.keys()
    assert not any(name.startswith(("answer.", "token_")) for name in found.trajectory.series)


def test_tokens_with_some_answers_only_are_told_as_that() -> None:
    def policy(episode: Episode) -> Any:
        told = iter([token_statistics(np.zeros((7, 11)))])
        return lambda seen: Answer(SLOW, token_statistics=next(told, None))

    _, (line,) = measured(run(policy, wishes=WISHED), "token_entropy")
    assert "this policy gave them with some answers only" in line
    assert "flow-matching" not in line


def test_why_a_series_is_not_there_is_said_with_what_to_add() -> None:
    found, _ = measured(run(unsure, wishes=WISHED), "token_entropy")
    assert found.uncertainty["token_entropy"].shape == (9,)
    assert "TB-D" not in found.uncertainty
    assert found.uncertainty.get("token_pcs") is None
    with pytest.raises(VlaError, match="the run did not ask for it: add --vla-metrics=token_deepgini"):
        found.uncertainty["TB-D"]
    with pytest.raises(VlaError, match=r"no metric of answers or actions has this name\. Did you mean token_entropy"):
        found.uncertainty["token_entrpy"]
    with pytest.raises(VlaError, match=r"token_entropy has the series token_entropy, token_entropy\.paper"):
        found.uncertainty["token_entropy.arm"]
    bare, _ = measured(run(lambda episode: lambda seen: SLOW, wishes=WISHED), "token_entropy")
    with pytest.raises(VlaError, match="it needs token probabilities, which this policy did not give"):
        bare.uncertainty["token_entropy"]


def test_of_probabilities_alone_the_papers_first_metric_is_kept() -> None:
    def policy(episode: Episode) -> Any:
        return lambda seen: Answer(SLOW, token_probabilities=np.array([0.5, 1.0]))

    found, told = measured(run(policy, wishes=WISHED), *TOKEN_METRICS)
    assert {name: value for name, value in found.record.metrics.items() if "token" in name} == {
        "token_probability.paper": 0.25
    }
    first, others = told
    assert first.startswith(
        "metrics token_probability: only token_probability.paper could be computed. Expected more of the tok"
    )
    assert others.startswith(
        "metrics token_pcs, token_deepgini, token_entropy: no value could be computed. Expected more of"
    )


def test_of_one_further_draw_there_is_no_spread() -> None:
    def policy(draws: int) -> Any:
        return lambda episode: (
            lambda seen: Answer(SLOW, samples=np.zeros((draws, 1, 7)) + np.arange(draws)[:, None, None])
        )

    found, told = measured(run(policy(1), wishes=WISHED), "execution_variability")
    assert "execution_variability" not in found.record.metrics
    (line,) = told
    assert "no value could be computed. Expected 2 samples or more of each action" in line
    found, told = measured(run(policy(2), wishes=WISHED), "execution_variability")
    assert told == []
    assert found.record.metrics["execution_variability"] > 0
    assert found.record.metrics["execution_variability.samples"] == 2.0
    assert "execution_variability.samples" not in found.trajectory.series


def test_of_few_steps_the_papers_jerk_alone_is_kept() -> None:
    found, told = measured(run(lambda episode: lambda seen: 9 * SLOW, wishes=WISHED), "trajectory_instability")
    assert 4 <= found.steps < 7, "quickly done"
    (line,) = told
    assert line.startswith(
        "metrics trajectory_instability: only trajectory_instability.paper could be computed. Expected 7 control"
    )
    assert "trajectory_instability.paper" in found.record.metrics


def test_an_answer_without_what_others_have_leaves_the_episode_without_a_number() -> None:
    def policy(episode: Episode) -> Any:
        act, asked = unsure(episode), iter(range(99))
        return lambda seen: np.tile(SLOW, (3, 1)) if next(asked) == 1 else act(seen)

    found, told = measured(run(policy, wishes=WISHED), "token_pcs", "execution_variability")
    assert len(told) == 2
    assert "token_pcs" not in found.record.metrics
    # What there was is kept, with gaps.
    assert (
        np.isnan(found.trajectory.series[instability.FIRST]).all(axis=1).tolist()
        == [False] * 3 + [True] * 3 + [False] * 3
    )


def test_an_episode_that_broke_is_measured_as_far_as_it_went_and_tells_nothing() -> None:
    def policy(episode: Episode) -> Any:
        raise ValueError("no weights")

    found, told = measured(run(policy, wishes=WISHED), *ALL)
    assert (found.record.outcome, told) == ("error", [])
    assert "token_entropy" not in found.record.metrics
    assert "action_position_instability" not in found.record.metrics


def measuring(monkeypatch: pytest.MonkeyPatch, said: Any) -> tuple[Rollout, list[str]]:
    entry = MetricEntry("Mine-1", "a number", "x:y", "a test")
    monkeypatch.setattr(extensions, "metrics", lambda: {entry.name: entry})
    monkeypatch.setattr(extensions, "load", lambda entry: lambda record, trajectory: said)
    return measured(run(unsure))


def test_other_packages_may_say_more_than_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    said = MetricResult(2, {"most": 3.0, "none": None}, {"": np.arange(9.0), "each": np.zeros((9, 2), bool)})
    found, told = measuring(monkeypatch, said)
    assert told == []
    assert {name: value for name, value in found.record.metrics.items() if "Mine" in name} == {
        "Mine-1": 2.0,
        "Mine-1.most": 3.0,
    }
    assert found.trajectory.series["mine_1"].tolist() == [*range(9)]
    assert found.trajectory.series["mine_1.each"].shape == (9, 2)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        (True, "gave True, expected a finite number"),
        (MetricResult(float("nan")), "gave nan, expected a finite number"),
        (MetricResult(1.0, {"more": "much"}), "metric Mine-1.more (a test) gave 'much'"),  # type: ignore[dict-item]
        (
            MetricResult(1.0, series={"": np.zeros(3)}),
            "expected (9, ...): a row a control step; its series are left out",
        ),
        (MetricResult(1.0, series={"A b": np.zeros(9)}), "is no name of a series"),
    ],
)
def test_what_is_no_number_and_no_series_is_told(monkeypatch: pytest.MonkeyPatch, said: object, complaint: str) -> None:
    found, told = measuring(monkeypatch, said)
    assert len(told) == 1
    assert complaint in told[0]
    assert dict(found.trajectory.series) == {}


def test_a_series_of_an_own_world_is_not_written_over() -> None:
    ended = run(unsure, wishes=WISHED)
    taken = dataclasses.replace(ended, trajectory=ended.trajectory.with_series({"token_pcs": np.zeros(9)}))
    found, told = measured(taken, "token_pcs")
    assert "already has a series token_pcs" in told[0]
    assert found.record.metrics["token_pcs"] > 0
    assert not found.trajectory.series["token_pcs"].any()
    with pytest.raises(VlaError, match="has a series answer"):
        with_metrics(dataclasses.replace(found, answers=ended.answers), ("token_pcs",))
