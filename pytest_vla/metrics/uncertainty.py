"""A policy's uncertainty, from its answers: the eight uncertainty metrics of arXiv 2507.17049.

The functions of numbers return a series, one value per control step, as defined in the paper or in its code. Those
named ``episode_...`` compute the same of a recorded episode. Larger is less certain.
"""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics import instability
from pytest_vla.metrics.instability import (
    Order,
    Protocol,
    Series,
    checked_protocol,
    checked_table,
    episode_mean,
    mean_instability,
    windowed_instability,
)
from pytest_vla.records.record import MetricResult, Record
from pytest_vla.records.trajectory import Trajectory

# TB-TP, TB-PCS, TB-D and TB-E: the spread of the probabilities from which a policy chose its tokens.
#
# Source: arXiv 2507.17049, VLA_UQ. Each function has (T, t), of each control step its t tokens; nan where a step has
# fewer, and a step that has none is nan in the series. ``upstream`` maps each token's value to 0..1 by the size of
# the vocabulary and rounds it to 5 decimals; ``paper`` does neither.

DECIMALS = 5
"""To which upstream rounds each token's value."""


def token_probability(first: ArrayLike, vocabulary: ArrayLike = 0, *, protocol: Protocol = "upstream") -> Series:
    """Return the series of TB-TP: 1 - mean over tokens of the largest probability; upstream times C / (C - 1).

    Args:
        first: (T, t), the probability of the likeliest choice for each token.
        vocabulary: C, the number of choices for each token: a number, or (T,); not used by the paper's definition.
        protocol: the definition to follow.

    Returns:
        (T,), in 0..1 for upstream.

    Raises:
        VlaError: a probability is not in 0..1, or upstream's vocabulary has less than 2.
    """
    values = 1.0 - _shares(first, "probabilities of the first choice")
    if _is_upstream(protocol):
        count = _counts(vocabulary, values)
        values = np.round(values * count / (count - 1.0), DECIMALS)
    return _mean(values)


def token_pcs(first: ArrayLike, second: ArrayLike, *, protocol: Protocol = "upstream") -> Series:
    """Return the series of TB-PCS, prediction confidence score: 1 - mean over tokens of (p1 - p2).

    Args:
        first: (T, t), the probability of the likeliest choice for each token.
        second: (T, t), the probability of the next likeliest.
        protocol: the definition to follow; upstream rounds.

    Returns:
        (T,), in 0..1.

    Raises:
        VlaError: a probability is not in 0..1, or shapes differ.
    """
    one, two = _shares(first, "probabilities of the first choice"), _shares(second, "of the second choice")
    if one.shape != two.shape:
        raise VlaError(f"probabilities of the first choice are {one.shape}, of the second {two.shape}")
    values = 1.0 - (one - two)
    return _mean(np.round(values, DECIMALS) if _is_upstream(protocol) else values)


def token_deepgini(squares: ArrayLike, vocabulary: ArrayLike = 0, *, protocol: Protocol = "upstream") -> Series:
    """Return the series of TB-D, DeepGini: mean over tokens of 1 - sum p^2; upstream over 1 - 1/C.

    Args:
        squares: (T, t), the sum of squared probabilities over the vocabulary for each token.
        vocabulary: C, a number or (T,); not used by the paper's definition.
        protocol: the definition to follow.

    Returns:
        (T,), in 0..1 for upstream.

    Raises:
        VlaError: a sum is not in 0..1, or upstream's vocabulary has less than 2.
    """
    values = 1.0 - _shares(squares, "sums of squared probabilities")
    if _is_upstream(protocol):
        values = np.round(values / (1.0 - 1.0 / _counts(vocabulary, values)), DECIMALS)
    return _mean(values)


def token_entropy(entropy: ArrayLike, vocabulary: ArrayLike = 0, *, protocol: Protocol = "upstream") -> Series:
    """Return the series of TB-E: mean over tokens of the entropy; upstream over ln C.

    Args:
        entropy: (T, t), nats, of the probabilities over the vocabulary for each token. Upstream adds 1e-15 in the
            logarithm, which its rounding hides.
        vocabulary: C, a number or (T,); not used by the paper's definition.
        protocol: the definition to follow.

    Returns:
        (T,): in 0..1 for upstream; in nats for the paper.

    Raises:
        VlaError: an entropy is below 0 or infinite, or upstream's vocabulary has less than 2.
    """
    values = _table(entropy, "entropies")
    if (values < 0).any() or np.isinf(values).any():
        raise VlaError("entropies are 0 or more nats, and finite")
    if _is_upstream(protocol):
        values = np.round(values / np.log(_counts(vocabulary, values)), DECIMALS)
    return _mean(values)


def _is_upstream(protocol: Protocol) -> bool:
    checked_protocol(protocol)
    return protocol == "upstream"


def _table(values: ArrayLike, what: str) -> NDArray[np.float64]:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise VlaError(f"{what} are (T, t), of each control step its tokens; got {table.shape}")
    return table


def _shares(values: ArrayLike, what: str) -> NDArray[np.float64]:
    table = _table(values, what)
    # nan is a token that a step does not have.
    if ((table < 0) | (table > 1)).any():
        raise VlaError(f"{what} are from 0 to 1")
    return table


def _counts(vocabulary: ArrayLike, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """C beside (T, t): a number, or (T, 1)."""
    count = np.asarray(vocabulary, dtype=np.float64)
    if count.ndim > 1 or (count.ndim == 1 and len(count) != len(values)) or (count < 2).any():
        raise VlaError("upstream's values need the vocabulary's size, 2 or more: one number, or one per step")
    return count[:, None] if count.ndim else count


def _mean(values: NDArray[np.float64]) -> Series:
    there = np.isfinite(values)
    number = there.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Series = np.where(there, values, 0.0).sum(axis=1) / number
    return means


# A-PI, A-VI and A-AI: the first, second and third differences of the actions that were executed.

Dims = Literal["all", "arm"]
"""Which numbers of an action: all, as upstream, or without the gripper, whose toggle dwarfs what the arm does."""

ACTION_SIZE = 7
"""Numbers of an action with a gripper, which is the last."""

# As float32 has it, in upstream's environment.
_RIGHT_ANGLE = float(np.float32(np.pi / 2))
HIGH = np.array([1.0, 1.0, 1.0, _RIGHT_ANGLE, _RIGHT_ANGLE, _RIGHT_ANGLE, 1.0])
LOW = -HIGH
"""Upstream's bounds of an action: translation, axis-angle rotation, gripper."""


def normalised(actions: ArrayLike) -> Series:
    """Scale actions as upstream does: each number from its bounds to 0..1, clipped.

    Args:
        actions: (T, D), as sent to the environment. With 7 numbers the bounds are upstream's (`LOW`, `HIGH`), otherwise
            -1 and 1.

    Raises:
        VlaError: they are no table of finite numbers.
    """
    table = checked_table(actions)
    low, high = (LOW, HIGH) if table.shape[1] == ACTION_SIZE else (-1.0, 1.0)
    scaled: Series = np.clip((table - low) / (high - low), 0.0, 1.0)
    return scaled


def action_instability(
    actions: ArrayLike, order: Order, *, protocol: Protocol = "upstream", dims: Dims = "all"
) -> Series:
    """Return the series of A-PI (order 1), A-VI (2) or A-AI (3).

    Source: arXiv 2507.17049, VLA_UQ. ``upstream``: a window over normalised actions, see `windowed_instability`.
    ``paper``: 1/D sum |nth difference| of the unscaled actions; with `normalised` ones it has no unit.

    Args:
        actions: (T, D), as sent to the environment.
        order: of the difference.
        protocol: the definition to follow.
        dims: ``arm`` leaves out the gripper, for actions of 7 numbers only.

    Returns:
        (max(T, 7),) for upstream, with 0 in the first 7 steps, which have no value yet; (max(T - order, 0),) for the
        paper.

    Raises:
        VlaError: the actions are no such table, or another argument is invalid.
    """
    checked_protocol(protocol)
    table = checked_table(actions)
    values = chosen(normalised(table) if protocol == "upstream" else table, dims)
    return windowed_instability(values, order) if protocol == "upstream" else mean_instability(values, order)


def chosen(actions: Series, dims: str) -> Series:
    """Return the numbers of actions (..., D) that `dims` selects. Raises VlaError."""
    if dims == "all":
        return actions
    if dims != "arm":
        raise VlaError(f"dims {dims!r}: expected all or arm")
    if actions.shape[-1] != ACTION_SIZE and actions.size:
        raise VlaError(f"dims 'arm' needs actions of {ACTION_SIZE} numbers, the last for the gripper")
    return actions[..., : ACTION_SIZE - 1]


REPEATS = 4
"""Further draws of each action; the one that is executed is not among them."""


# EV: the spread of a policy's actions when it is queried again with the same observation.

FEWEST = 2
"""Fewest draws with a spread: one draw has none, whatever the policy."""


def execution_variability(samples: ArrayLike, *, protocol: Protocol = "upstream", dims: Dims = "all") -> Series:
    """Return the series of EV: the standard deviation (ddof 0) over draws of an action, mean over dimensions.

    Source: arXiv 2507.17049, VLA_UQ. ``upstream`` normalises actions first; ``paper`` uses them unscaled. With ddof 0
    it grows with N, to 0.56, 0.80 and 0.92 of a normal spread at 2, 4 and 10 draws: compare only values with the same
    N.

    Args:
        samples: (T, N, D), N draws of the action at each control step, without the executed one.
        protocol: the definition to follow.
        dims: ``arm`` leaves out the gripper, for actions of 7 numbers only.

    Returns:
        (T,); 0 for a policy that always answers the same.

    Raises:
        VlaError: the samples are no such array of finite numbers, or N is less than `FEWEST`.
    """
    checked_protocol(protocol)
    draws = np.asarray(samples, dtype=np.float64)
    if draws.ndim != 3 or (draws.size and not np.isfinite(draws).all()) or (len(draws) and not draws.shape[1]):
        raise VlaError(f"samples are (T, N, D) finite numbers, N draws of the action of each step; got {draws.shape}")
    if not draws.size:
        return np.zeros(len(draws))
    if draws.shape[1] < FEWEST:
        raise VlaError(f"1 sample of each action has no spread: expected {FEWEST} or more")
    if protocol == "upstream":
        draws = normalised(draws.reshape(-1, draws.shape[2])).reshape(draws.shape)
    spread: Series = chosen(draws, dims).std(axis=1).mean(axis=1)
    return spread


# The uncertainty metrics of a recorded episode: upstream's number and series, and beside them the paper's.
#
# Each is called with a record and its trajectory (`pytest_vla.entries.MetricEntry`). ``.paper`` is the paper's,
# ``.arm`` upstream's without the gripper. Where a chunk is executed, what is told of its tokens counts in each step.

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
TOO_FEW_SAMPLES = f"{FEWEST} samples or more of each action, in Answer.samples: one has no spread"
NO_STEP = "an executed action"


def episode_token_probability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute TB-TP; from probabilities alone the paper's, as if the likeliest tokens were chosen."""
    first, vocabulary = _tokens(trajectory, instability.FIRST)
    if first is not None and vocabulary is not None:
        return _measured(trajectory, token_probability(first, vocabulary), token_probability(first, protocol="paper"))
    alone = instability.recorded(trajectory, instability.PROBABILITIES, 2)
    if alone is None:
        return _lacking(trajectory)
    series = token_probability(alone, protocol="paper")
    return MetricResult(None, {"paper": episode_mean(series)}, {"paper": series}, ONLY_PROBABILITIES)


def episode_token_pcs(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute TB-PCS."""
    first, _ = _tokens(trajectory, instability.FIRST)
    second, _ = _tokens(trajectory, instability.SECOND)
    if first is None or second is None:
        return _lacking(trajectory)
    return _measured(trajectory, token_pcs(first, second), token_pcs(first, second, protocol="paper"))


def episode_token_deepgini(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute TB-D."""
    squares, vocabulary = _tokens(trajectory, instability.SQUARES)
    if squares is None or vocabulary is None:
        return _lacking(trajectory)
    return _measured(trajectory, token_deepgini(squares, vocabulary), token_deepgini(squares, protocol="paper"))


def episode_token_entropy(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute TB-E."""
    entropy, vocabulary = _tokens(trajectory, instability.ENTROPY)
    if entropy is None or vocabulary is None:
        return _lacking(trajectory)
    return _measured(trajectory, token_entropy(entropy, vocabulary), token_entropy(entropy, protocol="paper"))


def action_position_instability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute A-PI."""
    return _of_actions(record, trajectory, 1)


def action_velocity_instability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute A-VI."""
    return _of_actions(record, trajectory, 2)


def action_acceleration_instability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute A-AI."""
    return _of_actions(record, trajectory, 3)


def episode_execution_variability(record: Record, trajectory: Trajectory) -> MetricResult:
    """Compute EV; ``.samples`` is the number of draws per action, because EV is smaller for fewer draws."""
    draws = instability.recorded(trajectory, instability.SAMPLES, 3)
    if draws is None or np.isnan(draws).any():
        return MetricResult(None, missing=NO_SAMPLES if len(trajectory.actions) else NO_STEP)
    if draws.shape[1] < FEWEST:
        return MetricResult(None, missing=TOO_FEW_SAMPLES)
    draws = _in_range(record, draws)
    arm = None if draws.shape[2] != ACTION_SIZE else execution_variability(draws, dims="arm")
    said = _measured(
        trajectory,
        execution_variability(draws),
        execution_variability(draws, protocol="paper"),
        arm,
    )
    return replace(said, further={**said.further, "samples": float(draws.shape[1])})


def _of_actions(record: Record, trajectory: Trajectory, order: Order) -> MetricResult:
    if not len(trajectory.actions):
        return MetricResult(None, missing=NO_STEP)
    actions = _in_range(record, trajectory.actions)
    arm = action_instability(actions, order, dims="arm") if actions.shape[1] == ACTION_SIZE else None
    return _measured(
        trajectory, action_instability(actions, order), action_instability(actions, order, protocol="paper"), arm
    )


def _in_range(record: Record | None, actions: Series) -> Series:
    """Return actions (..., D) as shares of the range that a record's suite gives for unscaled ones, in [-1, 1].

    While an episode of scaled actions runs, there is no record.
    """
    bounds: Any = None if record is None else record.protocol.get("action_bounds")
    if not bounds:
        return actions
    low, high = np.asarray(bounds, dtype=np.float64).T
    scaled: Series = (2 * actions - low - high) / np.where(high > low, high - low, 1.0)
    return scaled


def _measured(trajectory: Trajectory, upstream: Series, paper: Series, arm: Series | None = None) -> MetricResult:
    steps = len(trajectory.actions)
    further = {"paper": paper} if arm is None else {"paper": paper, "arm": arm}
    return MetricResult(
        episode_mean(upstream),
        {name: episode_mean(series) for name, series in further.items()},
        {name: instability.per_step(series, steps) for name, series in {"": upstream, **further}.items()},
    )


def _tokens(trajectory: Trajectory, name: str) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    """Return a recorded series over tokens, and their vocabulary; each None if missing."""
    return instability.recorded(trajectory, name, 2), instability.recorded(trajectory, instability.VOCABULARY, 1)


def _lacking(trajectory: Trajectory) -> MetricResult:
    if not len(trajectory.actions):
        return MetricResult(None, missing=NO_STEP)
    if instability.recorded(trajectory, instability.PROBABILITIES, 2) is not None:
        return MetricResult(None, missing=ONLY_PROBABILITIES)
    some = any(name in trajectory.series for name in (instability.FIRST, instability.PROBABILITIES))
    return MetricResult(None, missing=SOME_TOKENS if some else NO_TOKENS)
