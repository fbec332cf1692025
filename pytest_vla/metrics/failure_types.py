"""Failure types: Algorithm 1 of LIBERO-Para (arXiv 2603.28301) on end-effector paths, of one task and one model.

A failure whose path stays as near to the mean successful path as the successes do went wrong in execution (near), any
other in planning (far). What the algorithm cannot tell is named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_vla.metrics.dtw import Warping, exact_dtw, fast_dtw, resample
from pytest_vla.util.extras import is_installed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Level = Literal["near", "far"]
"""Execution level, planning level."""

Threshold = Literal["max", "p99", "p95", "p90"]
THRESHOLDS: tuple[Threshold, ...] = ("max", "p99", "p95", "p90")
"""tau: which quantile of the successes' own distances still is near. The paper's tables use the first."""

Tau = Literal["paper", "leave-one-out"]
"""What a success's own distance is to, by which tau is made.

``paper``: the mean of all successes, of which it is one, as Algorithm 1 has it. Few of them make tau too small: of
paths that are like the successes 94% count as far where there are two, 39% of five, 14% of ten. ``leave-one-out``: the
mean of the others, as a failure is compared with a mean that it is no part of. Then it is one in n + 1 of n successes:
30% of two, 17% of five, 8% of ten (``python benchmarks/intervals.py`` shows it).
"""

TAUS: tuple[Tau, ...] = ("leave-one-out", "paper")
USUAL_TAU: Tau = "leave-one-out"

FEWEST_SUCCESSES = 5
"""Of fewer there are no labels by leave-one-out: more than one in six of the paths like theirs would count as far."""

Algorithm = Literal["fastdtw", "exact"]
"""The paper's DTW, and the exact one."""

Undefined = Literal["no-success", "one-success", "few-successes"]
"""Why there are no labels: no path to compare with, one whose distance to itself is no threshold, or fewer than
`FEWEST_SUCCESSES`."""

Remark = Literal["static", "slow", "diverges-late"]
"""Where a label is not what it seems.

``static``: the end effector stayed where it began, and counts as far. ``slow``: far as the algorithm cuts it, near as a
whole. ``diverges-late``: near, but after the longest success's length, which the algorithm does not look at, it went
farther from the mean path than any success did.
"""

STATIC_RADIUS = 0.02
"""m. An end effector that never gets farther from its start than this is static; at rest it sways by millimetres."""


@dataclass(frozen=True)
class Reference:
    """The common shape of a task's successes.

    Attributes:
        mean_path: (50, 3), m: the mean of the resampled successes, the paper's pseudo ground truth.
        longest: rows of the longest success, L_max.
        reach: m: the largest distance of any success from the mean path.
    """

    mean_path: "NDArray[np.float64]"
    longest: int
    reach: float


@dataclass(frozen=True)
class FailureClassification:
    """Distances and labels by one DTW.

    Attributes:
        algorithm: which.
        successes: distance of each success to the mean path, m; by leave-one-out to that of the others.
        failures: of each failure, in the order given.
        thresholds: tau.
        levels: by threshold the label of each failure.
    """

    algorithm: Algorithm
    successes: tuple[float, ...]
    failures: tuple[float, ...]
    thresholds: Mapping[Threshold, float]
    levels: Mapping[Threshold, tuple[Level, ...]]


@dataclass(frozen=True)
class FailureTypes:
    """The labels of a task's failures.

    Attributes:
        undefined: the reason for missing labels, or None.
        reference: None without a success.
        judgement: by the requested algorithm; None if labels are undefined.
        exact: by exact DTW; None if labels are undefined.
        remarks: one for each failure, in the order given, or None for no remark.
    """

    undefined: Undefined | None
    reference: Reference | None
    judgement: FailureClassification | None
    exact: FailureClassification | None
    remarks: tuple[Remark | None, ...]

    @property
    def differing(self) -> tuple[int, ...]:
        """Indices of the failures that have another label by exact DTW, at any threshold."""
        if self.judgement is None or self.exact is None:
            return ()
        pairs = [(self.judgement.levels[name], self.exact.levels[name]) for name in THRESHOLDS]
        return tuple(i for i in range(len(self.remarks)) if any(ours[i] != exact[i] for ours, exact in pairs))


def usual_algorithm() -> Algorithm:
    """Return the paper's algorithm if its library is installed, otherwise exact DTW."""
    return "fastdtw" if is_installed("fastdtw") else "exact"


def failure_types(
    successes: "Sequence[NDArray[np.float64]]",
    failures: "Sequence[NDArray[np.float64]]",
    algorithm: Algorithm = "fastdtw",
    tau: Tau = "paper",
    fewest: int = FEWEST_SUCCESSES,
) -> FailureTypes:
    """Label the failures of one model in one task.

    Args:
        successes: paths (n, 3) of the end effector, m.
        failures: paths (n, 3) of the end effector, m; without errors and invalid episodes.
        algorithm: the paper's, or exact DTW alone.
        tau: the method for the threshold.
        fewest: the smallest number of successes, 2 or more, for which ``leave-one-out`` makes labels.

    Raises:
        ValueError: a path is empty or not finite.
        VlaError: fastdtw is requested and not installed.
    """
    if undefined := _undefined(len(successes), tau, fewest):
        known = reference_of(successes) if successes else None
        return FailureTypes(undefined, known, None, None, tuple("static" if is_static(p) else None for p in failures))
    reference = reference_of(successes)
    exact = _judge(reference, successes, failures, "exact", tau)
    judgement = exact if algorithm == "exact" else _judge(reference, successes, failures, algorithm, tau)
    whole = _distances(reference, [resample(path) for path in failures], "exact")
    remarks = tuple(
        _remark(path, reference, level, distance <= exact.thresholds["max"])
        for path, level, distance in zip(failures, judgement.levels["max"], whole, strict=True)
    )
    return FailureTypes(None, reference, judgement, exact, remarks)


def reference_of(successes: "Sequence[NDArray[np.float64]]") -> Reference:
    """Mean path, longest length and reach of a task's successes, paths (n, 3) in m. Raises ValueError without one."""
    import numpy as np

    if not successes:
        raise ValueError("reference_of: expected at least one success")
    mean_path = np.mean([resample(path) for path in successes], axis=0)
    reach = max(float(distances_to(mean_path, path).max()) for path in successes)
    return Reference(mean_path, max(len(path) for path in successes), reach)


def _of_others(successes: "Sequence[NDArray[np.float64]]") -> Iterator[Reference]:
    """Yield for each success the reference made from the other successes, without `reach`."""
    import numpy as np

    lengths = [len(path) for path in successes]
    resampled = np.stack([resample(path) for path in successes])
    total = resampled.sum(axis=0)
    for number, own in enumerate(resampled):
        longest = max(lengths[:number] + lengths[number + 1 :])
        yield Reference((total - own) / (len(successes) - 1), longest, 0.0)


def is_static(path: "NDArray[np.float64]") -> bool:
    """Whether a path (n, 3), m, stays within `STATIC_RADIUS` of its first point."""
    import numpy as np

    return bool(np.linalg.norm(path - path[0], axis=1).max() <= STATIC_RADIUS)


def distances_to(mean_path: "NDArray[np.float64]", path: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Compute the distances (n,), m, of a path's points (n, 3) to the nearest place on a mean path (k, 3)."""
    import numpy as np

    # Straight lines between the mean path's points, ten places on each.
    places = resample(mean_path, 10 * len(mean_path) - 9)
    return np.sqrt(((path[:, None, :] - places) ** 2).sum(axis=-1)).min(axis=1)  # type: ignore[no-any-return]


def cut(path: "NDArray[np.float64]", reference: Reference) -> "NDArray[np.float64]":
    """Cut the path at the longest success's length, and resample it: (50, 3)."""
    return resample(path[: reference.longest])


def _undefined(successes: int, tau: Tau, fewest: int) -> Undefined | None:
    """Why there are no labels where so many succeeded; None where there are."""
    if not successes:
        return "no-success"
    if tau == "paper":
        return "one-success" if successes == 1 else None
    return "few-successes" if successes < fewest else None


def _judge(
    reference: Reference,
    successes: "Sequence[NDArray[np.float64]]",
    failures: "Sequence[NDArray[np.float64]]",
    algorithm: Algorithm,
    tau: Tau,
) -> FailureClassification:
    import numpy as np

    def measured(paths: "Sequence[NDArray[np.float64]]", by: Reference) -> tuple[float, ...]:
        return _distances(by, [cut(path, by) for path in paths], algorithm)

    distances = measured(failures, reference)
    if tau == "paper":
        near = measured(successes, reference)
    else:
        near = tuple(measured([path], each)[0] for path, each in zip(successes, _of_others(successes), strict=True))
    quantiles = {name: 100.0 if name == "max" else float(name[1:]) for name in THRESHOLDS}
    thresholds = {name: float(np.percentile(near, quantile)) for name, quantile in quantiles.items()}
    levels: dict[Threshold, tuple[Level, ...]] = {
        name: tuple("near" if distance <= tau else "far" for distance in distances) for name, tau in thresholds.items()
    }
    return FailureClassification(algorithm, near, distances, thresholds, levels)


def _distances(
    reference: Reference,
    paths: "Sequence[NDArray[np.float64]]",
    algorithm: Algorithm,
) -> tuple[float, ...]:
    import numpy as np

    if not paths:
        return ()
    stacked = np.stack(paths)
    warping: Warping = (exact_dtw if algorithm == "exact" else fast_dtw)(stacked, reference.mean_path)
    return tuple(warping.distances.tolist())


def _remark(path: "NDArray[np.float64]", reference: Reference, level: Level, whole_is_near: bool) -> Remark | None:
    if is_static(path):
        return "static"
    if level == "far":
        return "slow" if whole_is_near else None
    late = path[reference.longest :]
    return "diverges-late" if len(late) and distances_to(reference.mean_path, late).max() > reference.reach else None
