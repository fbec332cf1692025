"""Intervals of numbers that are made of several means, such as a ratio: the delta method over clusters of rows."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from pytest_vla.metrics.clustered import CONFIDENCE, Interval, student_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Numbers = Callable[["NDArray[np.float64]"], "tuple[NDArray[np.float64], NDArray[np.float64]]"]
"""Makes m numbers of k means, and the derivative of each by each, (m,) and (m, k)."""


def linearised_intervals(
    rows: "NDArray[np.float64]",
    clusters: Sequence[Hashable],
    numbers: Numbers,
    added: int = 0,
    confidence: float = CONFIDENCE,
    trials: float | None = None,
) -> list[Interval] | None:
    """Compute intervals for functions of the rows' means, by Student's t with clusters - 1 degrees of freedom.

    Args:
        rows: (n, k).
        clusters: (n,), each row's cluster.
        numbers: the functions of the means.
        added: for rows of 0 and 1, the number of zeros and of ones to add to each column separately (as Agresti and
            Caffo 2000, The American Statistician 54, 280-288, for two rates): rates of 0 and 1 have a variance too.
        confidence: of the two-sided intervals, in (0, 1).
        trials: the number of trials to which `added` is added; None for the effective number of clusters.

    Returns:
        One interval per number, or None for a single cluster.
    """
    import numpy as np

    names = {each: place for place, each in enumerate(dict.fromkeys(clusters))}
    n, count = len(rows), len(names)
    if count == 1:
        return None
    cluster, means = np.array([names[each] for each in clusters]), rows.mean(axis=0)
    errors = np.zeros((count, rows.shape[1]))
    np.add.at(errors, cluster, (rows - means) / n)
    covariance = count / (count - 1) * errors.T @ errors
    if added:
        trials = worth(clusters) if trials is None else trials
        kept = trials / (trials + 2 * added)
        spread = (added / 2 + 2 * added * kept * (means - 0.5) ** 2) / (trials + 2 * added) ** 2
        covariance = kept**2 * covariance + np.diag(spread)
        means = kept * means + (1 - kept) / 2
    values, slopes = numbers(means)
    half = student_quantile(count - 1, confidence) * np.sqrt(np.einsum("mi,ij,mj->m", slopes, covariance, slopes))
    return list(zip((values - half).tolist(), (values + half).tolist(), strict=True))


def worth(clusters: Sequence[Hashable]) -> float:
    """Compute Kish's effective number of clusters: the number of equally large clusters with the same variance."""
    counts = Counter(clusters).values()
    return sum(counts) ** 2 / sum(count * count for count in counts)
