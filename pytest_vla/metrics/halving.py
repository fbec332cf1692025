"""Where success halves: the level at which a falling curve comes down to half of what it is without a variation.

The curve is the monotone fit, success that does not rise with the level (pooled adjacent violators: Barlow,
Bartholomew, Bremner and Brunk 1972, Statistical Inference under Order Restrictions), straight between levels. Its
interval, over these tasks, is a bootstrap over tasks and seeds, with two episodes more at each level that succeed or
fail by lot, and with quantiles a little farther out for the number of tasks and seeds (Hesterberg 2015, The American
Statistician 69, 371-386).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import TYPE_CHECKING

from pytest_vla.metrics.clustered import CONFIDENCE, Interval, Unit, student_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST = 20
"""Episodes at each level, and tasks and seeds: of fewer the interval does not hold what it says."""

RESAMPLES = 2000
_CHUNK = 250

_MORE = 2
"""Episodes at each level of a resample, each a success or a failure by lot."""


@dataclass(frozen=True)
class Halving:
    """Where success is half of the benign twins'.

    Attributes:
        level: interpolated on the monotone fit; None where that is not determined.
        interval: of the level; None likewise.
        why: that it is not determined, or not reached; empty where it is.
    """

    level: float | None
    interval: Interval | None
    why: str


def halving(rows: Sequence[tuple[Unit, int, bool]], generator: "np.random.Generator") -> Halving:
    """Where success halves, or why that is not known.

    It is given where the resamples agree that it is reached, all but one tail of them; it is said not to be reached
    where they agree on that.

    Args:
        rows: of each episode its task and seed, its level, 0 for a benign twin, and whether it succeeded.
        generator: draws the resamples.
    """
    import numpy as np

    levels, units = sorted({level for _, level, _ in rows}), list(dict.fromkeys(unit for unit, _, _ in rows))
    if levels[0] != 0:
        return Halving(None, None, "no benign twin was measured")
    done, run = np.zeros((2, len(units), len(levels)))
    unit_number, level_number = ({each: number for number, each in enumerate(some)} for some in (units, levels))
    for unit, level, success in rows:
        done[unit_number[unit], level_number[level]] += success
        run[unit_number[unit], level_number[level]] += 1
    last = f"L{levels[-1]}"
    if not done[:, 0].any():
        return Halving(None, None, "benign success is 0")
    if len(levels) == 1:
        return Halving(None, None, "no level was measured")
    if len(units) < FEWEST or run.sum(axis=0).min() < FEWEST:
        return Halving(None, None, f"not determined: fewer than {FEWEST} episodes at a level")
    found = np.concatenate([_resampled(done, run, levels, generator) for _ in range(RESAMPLES // _CHUNK)])
    tail = _tail(len(units))
    low, high = np.quantile(found, tail, method="lower"), np.quantile(found, 1 - tail, method="higher")
    halved = float(_half(falling_fit(done.sum(axis=0), run.sum(axis=0)), levels)[0])
    if low == inf:
        return Halving(None, None, f"not reached up to {last}")
    if high == inf or halved == inf:
        beyond = f", beyond L{low:.1f}" if low >= levels[1] else ""
        return Halving(None, None, f"not determined{beyond}")
    if low < levels[1]:
        # Flat later levels pull the fit of the first one up; a fall to nothing crosses half here, and none before.
        low = levels[1] / 2
    return Halving(halved, (min(float(low), halved), max(float(high), halved)), "")


def falling_fit(successes: "NDArray[np.float64]", episodes: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Rates that do not rise from one level to the next, as near to the measured ones as such rates can be.

    Args:
        successes: (..., k).
        episodes: (..., k), above 0.

    Returns:
        (..., k): of each level i the least, over a <= i, of the largest, over b >= i, of the rates of levels a to b.
    """
    import numpy as np

    rates, count = np.empty(successes.shape), successes.shape[-1]
    for i in range(count):
        pooled = [
            [successes[..., a : b + 1].sum(axis=-1) / episodes[..., a : b + 1].sum(axis=-1) for b in range(i, count)]
            for a in range(i + 1)
        ]
        rates[..., i] = np.min([np.max(some, axis=0) for some in pooled], axis=0)
    return rates


def _resampled(
    done: "NDArray[np.float64]", run: "NDArray[np.float64]", levels: Sequence[int], generator: "np.random.Generator"
) -> "NDArray[np.float64]":
    """The level in resamples of tasks and seeds; infinite where it is not reached."""
    import numpy as np

    drawn = generator.multinomial(len(done), np.full(len(done), 1 / len(done)), _CHUNK).astype(np.float64)
    shape = len(drawn), len(levels)
    # Of a level at which all succeed or all fail every resample tells the same: so many more stray.
    more = generator.binomial(_MORE, 0.5, shape)
    return _half(falling_fit(drawn @ done + more, drawn @ run + _MORE), levels)


def _half(fit: "NDArray[np.float64]", levels: Sequence[int]) -> "NDArray[np.float64]":
    """Where each of the fits (..., k) first comes down to half of its beginning, (...,) at least 1-d; else infinite."""
    import numpy as np

    fit = np.atleast_2d(fit)
    half, found = fit[:, 0] / 2, np.full(len(fit), inf)
    for i in range(len(levels) - 1, 0, -1):
        above, below = fit[:, i - 1], fit[:, i]
        crosses = (below <= half) & (above > half)
        fall = np.where(crosses, above - below, 1.0)
        found = np.where(crosses, levels[i - 1] + (above - half) / fall * (levels[i] - levels[i - 1]), found)
    # Without any success it is halved at once.
    return np.where(half == 0, 0.0, found)


def _tail(number: int) -> float:
    """The share of resamples beyond either end, for so many tasks and seeds."""
    from scipy.special import ndtr

    return float(ndtr(-sqrt(number / (number - 1)) * student_quantile(number - 1, CONFIDENCE)))
