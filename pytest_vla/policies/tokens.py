"""Statistics of the tokens that a policy decodes, for metrics, so that whole distributions need not be stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import EpisodeError

PER_TOKEN = ("first", "second", "squares", "entropy")
"""The arrays of `TokenStatistics`."""

MOST_CHOICES = 10**9
_ROUNDING = 1e-4


@dataclass(frozen=True)
class TokenStatistics:
    """Statistics of the distribution that each token was chosen from, in decoding order.

    `token_statistics` computes them from logits.

    Attributes:
        first: (t,) the probability of the likeliest choice, in [0, 1].
        second: (t,) the probability of the second likeliest choice, in [0, first].
        squares: (t,) the sum of all squared probabilities, in [0, 1].
        entropy: (t,) in nats, in [0, ln vocabulary].
        vocabulary: the number of choices for each token, 2 or more.
    """

    first: NDArray[Any]
    second: NDArray[Any]
    squares: NDArray[Any]
    entropy: NDArray[Any]
    vocabulary: int


def token_statistics(logits: ArrayLike) -> TokenStatistics:
    """Compute the statistics of tokens from their logits.

    Args:
        logits: (t, C), one row over the vocabulary per token; -inf for an impossible choice.

    Raises:
        EpisodeError: ``policy-shape`` or ``policy-nan`` for invalid logits.
    """
    heat = np.asarray(logits, dtype=np.float64)
    if heat.ndim != 2 or heat.shape[1] < 2:
        raise EpisodeError("policy-shape", f"logits are (t, C), a row a token and C of 2 or more; got {heat.shape}")
    top = heat.max(axis=1, keepdims=True)
    if np.isnan(heat).any() or not np.isfinite(top).all():
        raise EpisodeError("policy-nan", "a token's logits are numbers, or -inf for some but not for all")
    shifted = heat - top
    shares = np.exp(shifted)
    total = shares.sum(axis=1, keepdims=True)
    shares /= total
    # p ln p is 0 if p is.
    informative = np.where(shares > 0, shifted, 0.0) - np.log(total)
    entropy = np.maximum(-(shares * informative).sum(axis=1), 0.0)
    best = np.partition(shares, heat.shape[1] - 2, axis=1)[:, -2:]
    return TokenStatistics(best[:, 1], best[:, 0], (shares**2).sum(axis=1), entropy, heat.shape[1])


def check_token_statistics(given: object) -> TokenStatistics:
    """Return statistics with float64 arrays, after checking them.

    Raises:
        EpisodeError: ``policy-dtype``, ``policy-nan`` or ``policy-shape``; the message names the invalid value.
    """
    if not isinstance(given, TokenStatistics):
        raise EpisodeError(
            "policy-dtype",
            f"token_statistics are a TokenStatistics (token_statistics(logits) makes one), not {type(given).__name__}",
        )
    size = given.vocabulary
    if not isinstance(size, int | np.integer) or isinstance(size, bool) or not 2 <= size <= MOST_CHOICES:
        raise EpisodeError(
            "policy-shape", f"a vocabulary's size is a whole number, 2 or more; this one's is {size!r:.40}"
        )
    arrays = {name: _numbers(getattr(given, name), name) for name in PER_TOKEN}
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1 or arrays["first"].ndim != 1:
        raise EpisodeError("policy-shape", f"token statistics are (t,) each, of as many tokens; got {shapes}")
    first, second, squares, entropy = arrays.values()
    bounds = {
        "first": (first, 1 / size, 1.0),
        "second": (second, 0.0, np.minimum(first, 0.5)),
        "squares": (squares, 1 / size, 1.0),
        "entropy": (entropy, 0.0, np.log(size)),
    }
    for name, (array, low, high) in bounds.items():
        wrong = (array < low - _ROUNDING) | (array > high + _ROUNDING)
        if wrong.any():
            at = int(wrong.argmax())
            raise EpisodeError(
                "policy-shape",
                f"of {size} choices, token {at} has {name} {array[at]:g}: expected probabilities with first from "
                "1/C to 1, second up to it, squares from 1/C to 1, and an entropy in nats up to ln C",
            )
    # Values that float32 rounding moved out of their bounds are moved back.
    clipped = {name: np.clip(array, 0.0, np.log(size) if name == "entropy" else 1.0) for name, array in arrays.items()}
    return TokenStatistics(**clipped, vocabulary=int(size))


def statistics_table(statistics: TokenStatistics) -> dict[str, Any]:
    """Return checked statistics as arrays and a number by name, for a message; `statistics_of` reads it."""
    return {name: getattr(statistics, name) for name in (*PER_TOKEN, "vocabulary")}


def statistics_of(table: object) -> TokenStatistics:
    """Read a table of `statistics_table` from a message, unchecked. Raises ValueError if it is not one."""
    if not isinstance(table, Mapping) or set(table) != {*PER_TOKEN, "vocabulary"}:
        raise ValueError(f"token statistics are a table of {', '.join(PER_TOKEN)} and vocabulary")
    return TokenStatistics(**table)


def _numbers(values: object, name: str) -> NDArray[np.float64]:
    try:
        array = np.array(values, dtype=np.float64)
    except Exception as error:
        raise EpisodeError("policy-dtype", f"token statistics' {name} are no array of numbers: {error}") from error
    if not np.isfinite(array).all():
        raise EpisodeError("policy-nan", f"token statistics' {name} are not finite")
    return array
