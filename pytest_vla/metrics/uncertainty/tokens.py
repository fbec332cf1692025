"""TB-TP, TB-PCS, TB-D and TB-E: how spread out the probabilities were from which a policy chose its tokens.

Source: arXiv 2507.17049, VLA_UQ. Each function has (T, t), of each control step its t tokens; nan where a step has
fewer, and a step that has none is nan in the series. ``upstream`` maps each token's value to 0..1 by the size of the
vocabulary and rounds it to 5 decimals; ``paper`` does neither.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.instability import Protocol, Series, checked_protocol

DECIMALS = 5
"""To which upstream rounds each token's value."""


def token_probability(first: ArrayLike, vocabulary: ArrayLike = 0, *, protocol: Protocol = "upstream") -> Series:
    """The series of TB-TP: 1 - mean over tokens of the likeliest's probability; upstream times C / (C - 1).

    Args:
        first: (T, t), the probability of the likeliest choice for each token.
        vocabulary: C, from how many each token was chosen: a number, or (T,); the paper does not ask for it.
        protocol: whose definition.

    Returns:
        (T,), in 0..1 upstream.

    Raises:
        VlaError: a probability is not in 0..1, or upstream's vocabulary has less than 2.
    """
    values = 1.0 - _shares(first, "probabilities of the first choice")
    if _is_upstream(protocol):
        count = _counts(vocabulary, values)
        values = np.round(values * count / (count - 1.0), DECIMALS)
    return _mean(values)


def token_pcs(first: ArrayLike, second: ArrayLike, *, protocol: Protocol = "upstream") -> Series:
    """The series of TB-PCS, prediction confidence score: 1 - mean over tokens of (p1 - p2).

    Args:
        first: (T, t), the probability of the likeliest choice for each token.
        second: (T, t), of the next likeliest.
        protocol: whose definition; upstream rounds.

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
    """The series of TB-D, DeepGini: mean over tokens of 1 - sum p^2; upstream over 1 - 1/C.

    Args:
        squares: (T, t), the sum of squared probabilities over the vocabulary for each token.
        vocabulary: C, a number or (T,); the paper does not ask for it.
        protocol: whose definition.

    Returns:
        (T,), in 0..1 upstream.

    Raises:
        VlaError: a sum is not in 0..1, or upstream's vocabulary has less than 2.
    """
    values = 1.0 - _shares(squares, "sums of squared probabilities")
    if _is_upstream(protocol):
        values = np.round(values / (1.0 - 1.0 / _counts(vocabulary, values)), DECIMALS)
    return _mean(values)


def token_entropy(entropy: ArrayLike, vocabulary: ArrayLike = 0, *, protocol: Protocol = "upstream") -> Series:
    """The series of TB-E: mean over tokens of the entropy; upstream over ln C.

    Args:
        entropy: (T, t), nats, of the probabilities over the vocabulary for each token. Upstream's own adds 1e-15 in
            the logarithm, which its rounding hides.
        vocabulary: C, a number or (T,); the paper does not ask for it.
        protocol: whose definition.

    Returns:
        (T,): in 0..1 upstream; nats of the paper.

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
        raise VlaError("upstream's values need the vocabulary's size: one number, or one a step, 2 or more")
    return count[:, None] if count.ndim else count


def _mean(values: NDArray[np.float64]) -> Series:
    there = np.isfinite(values)
    number = there.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Series = np.where(there, values, 0.0).sum(axis=1) / number
    return means
