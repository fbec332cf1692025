"""The uncertainty metrics of a recorded episode: upstream's number and series, and beside them the paper's.

Each is called with a record and its trajectory (`pytest_vla.entries.MetricEntry`). ``.paper`` is the paper's,
``.arm`` upstream's without the gripper. Where a chunk is executed, what is told of its tokens counts in each step.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pytest_vla.metrics import inputs
from pytest_vla.metrics.instability import Order, Series, episode_mean
from pytest_vla.metrics.uncertainty import samples, tokens
from pytest_vla.metrics.uncertainty.samples import ACTION_SIZE, action_instability
from pytest_vla.records.measured import Measured
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory

NO_TOKENS = (
    "token probabilities: Answer.token_statistics, made by pytest_vla.policies.tokens.token_statistics(logits); a "
    "flow-matching or diffusion policy has none, and these metrics are not meaningful for it"
)
SOME_TOKENS = (
    "Answer.token_statistics with every answer, of as many tokens each: this policy gave them with some answers only, "
    "or of fewer tokens, and a number over a part of the steps is none of the episode"
)
ONLY_PROBABILITIES = (
    "more of the tokens than Answer.token_probabilities: their vocabulary and second choices, as "
    "Answer.token_statistics has them"
)
NO_SAMPLES = "samples: further draws of each action, in Answer.samples"
TOO_FEW_SAMPLES = f"{samples.FEWEST} samples or more of each action, in Answer.samples: one has no spread"
NO_STEP = "an executed action"


def token_probability(record: Record, trajectory: Trajectory) -> Measured:
    """TB-TP. Of probabilities alone the paper's, as if the likeliest tokens were chosen."""
    first, vocabulary = _tokens(trajectory, inputs.FIRST)
    if first is not None and vocabulary is not None:
        return _measured(
            trajectory, tokens.token_probability(first, vocabulary), tokens.token_probability(first, protocol="paper")
        )
    alone = inputs.recorded(trajectory, inputs.PROBABILITIES, 2)
    if alone is None:
        return _lacking(trajectory)
    series = tokens.token_probability(alone, protocol="paper")
    return Measured(None, {"paper": episode_mean(series)}, {"paper": series}, ONLY_PROBABILITIES)


def token_pcs(record: Record, trajectory: Trajectory) -> Measured:
    """TB-PCS."""
    first, _ = _tokens(trajectory, inputs.FIRST)
    second, _ = _tokens(trajectory, inputs.SECOND)
    if first is None or second is None:
        return _lacking(trajectory)
    return _measured(trajectory, tokens.token_pcs(first, second), tokens.token_pcs(first, second, protocol="paper"))


def token_deepgini(record: Record, trajectory: Trajectory) -> Measured:
    """TB-D."""
    squares, vocabulary = _tokens(trajectory, inputs.SQUARES)
    if squares is None or vocabulary is None:
        return _lacking(trajectory)
    return _measured(
        trajectory, tokens.token_deepgini(squares, vocabulary), tokens.token_deepgini(squares, protocol="paper")
    )


def token_entropy(record: Record, trajectory: Trajectory) -> Measured:
    """TB-E."""
    entropy, vocabulary = _tokens(trajectory, inputs.ENTROPY)
    if entropy is None or vocabulary is None:
        return _lacking(trajectory)
    return _measured(
        trajectory, tokens.token_entropy(entropy, vocabulary), tokens.token_entropy(entropy, protocol="paper")
    )


def action_position_instability(record: Record, trajectory: Trajectory) -> Measured:
    """A-PI."""
    return _of_actions(trajectory, 1)


def action_velocity_instability(record: Record, trajectory: Trajectory) -> Measured:
    """A-VI."""
    return _of_actions(trajectory, 2)


def action_acceleration_instability(record: Record, trajectory: Trajectory) -> Measured:
    """A-AI."""
    return _of_actions(trajectory, 3)


def execution_variability(record: Record, trajectory: Trajectory) -> Measured:
    """EV; ``.samples``: over how many draws of each action it is, as of fewer it is smaller."""
    draws = inputs.recorded(trajectory, inputs.SAMPLES, 3)
    if draws is None or np.isnan(draws).any():
        return Measured(None, missing=NO_SAMPLES if len(trajectory.actions) else NO_STEP)
    if draws.shape[1] < samples.FEWEST:
        return Measured(None, missing=TOO_FEW_SAMPLES)
    arm = None if draws.shape[2] != ACTION_SIZE else samples.execution_variability(draws, dims="arm")
    said = _measured(
        trajectory,
        samples.execution_variability(draws),
        samples.execution_variability(draws, protocol="paper"),
        arm,
    )
    return replace(said, further={**said.further, "samples": float(draws.shape[1])})


def _of_actions(trajectory: Trajectory, order: Order) -> Measured:
    actions = trajectory.actions
    if not len(actions):
        return Measured(None, missing=NO_STEP)
    arm = action_instability(actions, order, dims="arm") if actions.shape[1] == ACTION_SIZE else None
    return _measured(
        trajectory, action_instability(actions, order), action_instability(actions, order, protocol="paper"), arm
    )


def _measured(trajectory: Trajectory, upstream: Series, paper: Series, arm: Series | None = None) -> Measured:
    steps = len(trajectory.actions)
    further = {"paper": paper} if arm is None else {"paper": paper, "arm": arm}
    return Measured(
        episode_mean(upstream),
        {name: episode_mean(series) for name, series in further.items()},
        {name: inputs.per_step(series, steps) for name, series in {"": upstream, **further}.items()},
    )


def _tokens(trajectory: Trajectory, name: str) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """What is told of tokens, and their vocabulary."""
    return inputs.recorded(trajectory, name, 2), inputs.recorded(trajectory, inputs.VOCABULARY, 1)


def _lacking(trajectory: Trajectory) -> Measured:
    if not len(trajectory.actions):
        return Measured(None, missing=NO_STEP)
    if inputs.recorded(trajectory, inputs.PROBABILITIES, 2) is not None:
        return Measured(None, missing=ONLY_PROBABILITIES)
    some = any(name in trajectory.series for name in (inputs.FIRST, inputs.PROBABILITIES))
    return Measured(None, missing=SOME_TOKENS if some else NO_TOKENS)
