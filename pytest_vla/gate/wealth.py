"""Evidence that grows as episodes come in, and may be looked at after every round.

For each claim a gambler bets on each unit that it speaks for the claim; were the claim untrue, no way of betting would
be expected to win. Wealth that starts at 1 therefore ever reaches 1 / alpha in at most a share alpha of runs (Ville
1939), and one over the highest wealth so far is a p that holds whenever one stops. Source: Waudby-Smith and Ramdas
2024, Journal of the Royal Statistical Society B 86, 1-27 (capital of constant bets, and its mean over a grid of them).

Claims and what a bet of b makes of a unit whose pairs differ by x on average, new less baseline:

- ``regression``: 1 - b (x + margin), against a mean of -margin or more; of any loss the margin is 0;
- ``better``: 1 + b x, against a mean of 0 or less;
- ``no worse``: 1 + b (x + margin), against a mean of -margin or less.

Units come in *rounds*, one unit of every task, and wealth is looked at where a round is complete. Given what came
before, the units of a round are independent, with means m_t that may differ between tasks and drift from round to
round. The expected factor of a round is the product of the 1 + b (m_t + margin), which are none of them negative: by
the inequality of arithmetic and geometric means it is at most (1 + b (mean of m_t + margin))^tasks, and so at most 1
where the round's mean over tasks is null. It takes a bet that stays the same within a round, as a constant one does,
and neither the order within the round nor which task is hard matters. Within a round wealth means nothing: the tasks
that come first may be those that gain.

Where each unit is one pair and the claim is ``regression`` or ``better``, pairs that do not differ leave wealth alone,
and this is a mixture of likelihood ratios of Bernoulli variables on discordant pairs.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Claim = Literal["regression", "better", "no worse"]

BETS = 20
"""How many bets wealth is split over: in equal steps, up to what one pair could ruin.

The best bet is about the mean over the mean square: 1 where each discordant pair goes one way, .1 where one way is
hardly more frequent than the other. Nobody knows it beforehand. The middles of equal steps are the midpoint rule for
the uniform mixture: 10 or 40 of them take as many episodes, and steps that are finer near 0 take up to a sixth more
(drops of 5 to 20 points, discordance of 2% to 30%).
"""

_HALVINGS = 40

Floats = NDArray[np.float64]


def bets(claim: Claim, margin: float = 0.0) -> Floats:
    """Return the grid (`BETS`,) of bets, from 0 to where one lost pair (``regression``: a won one) takes all.

    Both ends are excluded.
    """
    return _bets(margin if claim == "no worse" else -margin)


def log_wealth(rounds: ArrayLike, claim: Claim, margin: float = 0.0) -> Floats:
    """Compute the log of wealth after each round; it is 0 before the first.

    Args:
        rounds: (..., rounds, tasks), for each task's unit in a round the mean difference of its pairs, in [-1, 1], or
            NaN if nothing was measured in it, so that nothing is bet on it.
        claim: that wealth supports.
        margin: for ``no worse`` in (0, 1), for ``regression`` in [0, 1), for ``better`` 0.

    Returns:
        (..., rounds).

    Raises:
        ValueError: a difference is out of range, the shape is wrong, or the margin does not suit the claim.
    """
    allowed = {"regression": 0.0 <= margin < 1.0, "better": margin == 0.0, "no worse": 0.0 < margin < 1.0}
    if not allowed[claim]:
        raise ValueError(
            f"log_wealth: margin {margin} for {claim!r}: expected one in 0..1, above 0 for 'no worse', 0 for 'better'"
        )
    x = _checked(rounds)
    return _log_wealth(-x, -margin) if claim == "regression" else _log_wealth(x, margin)


def running_p(rounds: ArrayLike, claim: Claim, margin: float = 0.0) -> Floats:
    """Compute after each round one over the highest wealth so far, at most 1: a p that holds whenever one stops.

    It never rises. At most a share alpha of runs in which the claim is untrue ever reach a p of alpha or less, so that
    the p values of several groups, each taken when its group stops, can be used in Holm's correction as any others
    (`pytest_vla.metrics.statistics.holm`, which needs no independence).

    Args:
        rounds: as `log_wealth`.
        claim: as `log_wealth`.
        margin: as `log_wealth`.

    Returns:
        (..., rounds), in (0, 1].

    Raises:
        ValueError: as `log_wealth`.
    """
    return _running_p(log_wealth(rounds, claim, margin))


def running_bounds(rounds: ArrayLike, alpha: float) -> tuple[float, float]:
    """Compute a lower and an upper bound of the mean difference after the last round, valid whenever one stops.

    The lower one is the highest mean against which wealth has ever reached 1 / alpha. Each is wrong in at most a share
    alpha of runs, and they agree with the p values: the lower one is above -margin if ``no worse`` has a p below alpha,
    and the upper one below 0, or below -margin, if ``regression`` of any loss, or of the margin, has.

    Args:
        rounds: (rounds, tasks), as `log_wealth`.
        alpha: of each bound, in (0, 1).

    Returns:
        Both within -1..1.

    Raises:
        ValueError: as `log_wealth`.
    """
    x = _checked(rounds)
    return -_drop_ruled_out(x, alpha), _drop_ruled_out(-x, alpha)


def _drop_ruled_out(x: Floats, alpha: float) -> float:
    """Return the smallest drop that wealth rules out at alpha, or 1 if it rules out none."""
    low, high = -1.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        # Wealth against a larger drop is never less.
        is_ruled_out = bool(len(x)) and _running_p(_log_wealth(x, middle))[-1] <= alpha
        low, high = (low, middle) if is_ruled_out else (middle, high)
    return high


def _bets(drop: float) -> Floats:
    """Up to what one pair lost could ruin, against a drop in (-1, 1)."""
    found: Floats = (np.arange(BETS) + 0.5) / BETS / (1.0 - drop)
    return found


def _checked(rounds: ArrayLike) -> Floats:
    x = np.asarray(rounds, float)
    if x.ndim < 2 or not x.shape[-1]:
        raise ValueError(f"log_wealth: differences of shape {x.shape}: expected (..., rounds, tasks), at least 1 task")
    if not (np.isnan(x) | (np.abs(x) <= 1.0)).all():
        raise ValueError("log_wealth: expected differences within -1..1")
    return x


def _log_wealth(x: Floats, drop: float) -> Floats:
    """Wealth that the mean of x is above -drop."""
    won = np.where(np.isnan(x), 0.0, x + drop)
    total = np.full(x.shape[:-1], -np.inf)
    # Differences take few values: the log of each is taken once.
    values, which = np.unique(won, return_inverse=True)
    which = which.reshape(x.shape)
    for bet in _bets(drop):
        # A bet's logs are summed over a round before its wealth is added to the others'.
        capital = np.log1p(bet * values)[which].sum(-1).cumsum(-1)
        total = np.logaddexp(total, capital)
    found: Floats = total - np.log(BETS)
    return found


def _running_p(logs: Floats) -> Floats:
    highest = np.maximum.accumulate(logs, axis=-1)
    found: Floats = np.exp(-np.maximum(highest, 0.0))
    return found
