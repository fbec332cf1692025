"""Robustness curves: success of each dimension by level, where it halves, and which dimension harms most."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

from pytest_vla.metrics.bootstrap import Interval, cluster_intervals
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.paired import paired_interval
from pytest_vla.metrics.robustness import NO_WIDTH, TwinPair, Varied, dimension_of, grouped, outcomes
from pytest_vla.metrics.selection import counted, is_counted, run_of, seed_of
from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.records import Record
from pytest_vla.variation import JOINT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST = 6
"""Of so many tasks and seeds a two-sided sign test can reach 5%; of fewer no dimension is called worse than another."""


ALIKE = 0.8
"""Where levels have fewer of their tasks and seeds in common it is told; some episodes may be errors or invalid."""


@dataclass(frozen=True)
class Curve:
    """A dimension's success by level, its kinds together.

    Attributes:
        dimension: name.
        points: the rate at each level that was run; level 0 is that of the benign twins, where there are any.
        halves_at: the level at which success is half of the twins', interpolated between levels.
        why: that there is none; empty where there is one.
        drop: points by which success falls from the twins', the mean over its levels, of which episodes without a level
            are one more. None without pairs.
    """

    dimension: str
    points: tuple[tuple[int, SuccessRate], ...]
    halves_at: float | None
    why: str
    drop: Estimate | None


@dataclass(frozen=True)
class Harm:
    """The dimension with the largest drop.

    Attributes:
        dimension: name.
        drop: its mean drop, points.
        not_told_apart: others whose drop may be as large.
        why: that it is not called the most harmful; empty: it is.
        levels: which levels each dimension's drop is of, where they differ; else empty.
    """

    dimension: str
    drop: Estimate
    not_told_apart: tuple[str, ...]
    why: str
    levels: str = ""


def curves(
    varied: Varied, pairs: Sequence[TwinPair], generator: "np.random.Generator"
) -> tuple[tuple[Curve, ...], Harm | None, tuple[str, ...]]:
    """Each dimension's curve, joint variations aside; the most harmful one, None without pairs; what to know of them.

    Where a dimension has kinds with levels, those without are on no curve.
    """
    single = [record for record in varied.episodes if JOINT not in dimension_of(record)]
    paired = (pair for pair in pairs if JOINT not in dimension_of(pair.episode))
    by_dimension = dict(sorted(grouped(paired, lambda pair: dimension_of(pair.episode)).items()))
    drops, harm = _drops(by_dimension, generator)
    found, mixing, notes = [], [], []
    for dimension, records in sorted(grouped(single, dimension_of).items()):
        graded = [record for record in records if _level(record) is not None]
        points = _points(graded, [pair for pair in by_dimension.get(dimension, []) if _level(pair.episode) is not None])
        if not graded:
            halves_at, why = None, "it has no levels"
        elif not any(map(is_counted, graded)):
            halves_at, why = None, "no varied episode was measured"
        else:
            halves_at, why = halving_level(points)
        found.append(Curve(dimension, points, halves_at, why, drops.get(dimension)))
        if graded and len(graded) < len(records):
            number = counted(len(records) - len(graded), "episode")
            notes.append(f"{dimension}: {number} without a level: on no curve; in the mean drop as one level more")
        if graded and _common(graded) < ALIKE:
            mixing.append(dimension)
    if mixing:
        of_others = "levels were measured on different tasks, seeds and kinds, which the curve mixes"
        notes.append(f"{', '.join(mixing)}: {of_others}")
    return tuple(found), harm, tuple(notes)


def halving_level(points: Sequence[tuple[int, SuccessRate]]) -> tuple[float | None, str]:
    """Where success first comes down to half of level 0's, on straight lines between levels; or why nowhere.

    Args:
        points: levels, in order, with their rates; those of which nothing was counted are passed over.
    """
    known = [(level, rate.rate) for level, rate in points if rate.rate is not None]
    if not known or known[0][0] != 0:
        return None, "no benign twin was measured"
    half = known[0][1] / 2
    if half == 0:
        return None, "benign success is 0"
    for (level, rate), (further, lower) in itertools.pairwise(known):
        if lower <= half:
            return level + (rate - half) / (rate - lower) * (further - level), ""
    return None, f"not reached up to L{known[-1][0]}" if known[-1][0] else "no level was measured"


def _level(record: Record) -> int | None:
    level: int | None = record.variation.get("level")
    return level


def _common(records: Sequence[Record]) -> float:
    """The share of tasks, seeds and kinds that were measured at all of the levels."""
    levels = grouped(filter(is_counted, records), _level).values()
    units = [{(record.task, seed_of(record), record.variation.get("kind")) for record in some} for some in levels]
    return len(set.intersection(*units)) / len(set.union(*units)) if units else 1.0


def _points(records: Sequence[Record], pairs: Sequence[TwinPair]) -> tuple[tuple[int, SuccessRate], ...]:
    twins = {run_of(pair.twin): pair.twin for pair in pairs}
    levels = grouped(records, lambda record: _level(record) or 0)
    benign = [(0, success_rate("benign", list(twins.values())))] if twins else []
    return (*benign, *((level, success_rate(f"L{level}", levels[level])) for level in sorted(levels)))


def _drops(
    by_dimension: Mapping[str, Sequence[TwinPair]], generator: "np.random.Generator"
) -> tuple[dict[str, Estimate], Harm | None]:
    """The mean drop of each dimension, and the largest one; intervals are of the same resamples of tasks and seeds."""
    import numpy as np

    groups = [
        (dimension, some)
        for dimension, pairs in by_dimension.items()
        for some in grouped(pairs, lambda pair: _level(pair.episode)).values()
    ]
    if not groups:
        return {}, None
    names = list(by_dimension)
    rows, units = [], []
    for column, (_, some) in enumerate(groups):
        for pair in some:
            row = np.zeros(2 * len(groups))
            row[2 * column : 2 * column + 2] = 1, -pair.difference
            rows.append(row)
            units.append(pair.unit)
    # The mean over a dimension's levels, of which each weighs the same, and so does what has none.
    weights = np.array([[float(name == dimension) for name in names] for dimension, _ in groups])
    weights /= weights.sum(axis=0)

    def drops(sums: "NDArray[np.float64]") -> "NDArray[np.float64]":
        # A resample may lack a level.
        with np.errstate(divide="ignore", invalid="ignore"):
            by_level = 100 * sums[:, 1::2] / sums[:, ::2]
        known = np.where(np.isnan(by_level), 0, by_level) @ weights
        return np.where(np.isnan(by_level).astype(float) @ weights > 0, np.nan, known)

    stacked = np.array(rows)
    values = drops(stacked.sum(axis=0)[None])[0]
    largest = int(np.argmax(values))

    def with_leads(sums: "NDArray[np.float64]") -> "NDArray[np.float64]":
        found = drops(sums)
        return np.concatenate([found, found[:, largest : largest + 1] - found], axis=1)

    tasks, seeds = [task for task, _ in units], [seed for _, seed in units]
    intervals = cluster_intervals(stacked, tasks, seeds, with_leads, generator)
    estimates = {}
    for index, name in enumerate(names):
        interval = intervals[index]
        if interval is None or interval[1] - interval[0] < NO_WIDTH:
            interval = _without_resamples([some for dimension, some in groups if dimension == name])
        estimates[name] = Estimate(float(values[index]), interval)
    leads = dict(zip(names, intervals[len(names) :], strict=True))
    return estimates, _harm(names[largest], estimates, leads, by_dimension)


def _without_resamples(levels: Sequence[Sequence[TwinPair]]) -> Interval:
    """The mean of Newcombe's intervals of a dimension's levels: at least as wide as one of their mean has to be."""
    intervals = [paired_interval(*outcomes({pair.unit: pair for pair in some}.values())) for some in levels]
    low, high = (fsum(-100 * interval[bound] for interval in intervals) / len(intervals) for bound in (1, 0))
    return low, high


def _harm(
    dimension: str,
    drops: Mapping[str, Estimate],
    leads: Mapping[str, Interval | None],
    by_dimension: Mapping[str, Sequence[TwinPair]],
) -> Harm:
    units = {name: len({pair.unit for pair in pairs}) for name, pairs in by_dimension.items()}
    others = [name for name in drops if name != dimension]
    near = []
    for name in others:
        lead = leads[name]
        if lead is None or lead[0] <= 0 or min(units[name], units[dimension]) < FEWEST:
            near.append(name)
    interval = drops[dimension].interval
    if interval is None or interval[0] <= 0:
        why = "its drop may be none"
    elif not others:
        why = "there is no other"
    elif near:
        why = f"not told apart from {', '.join(near)}"
        few = [name for name in (dimension, *near) if units[name] < FEWEST]
        why += f" (fewer than {FEWEST} tasks and seeds)" if few else ""
    else:
        why = ""
    return Harm(dimension, drops[dimension], tuple(near), why, _different_levels(by_dimension))


def _different_levels(by_dimension: Mapping[str, Sequence[TwinPair]]) -> str:
    """The levels of each dimension, where they are not the same; else an empty text."""
    names = {}
    for dimension, pairs in by_dimension.items():
        levels = {_level(pair.episode) for pair in pairs}
        graded = [f"L{level}" for level in sorted(level for level in levels if level is not None)]
        names[dimension] = ", ".join([*graded, *(["no level"] if None in levels else [])])
    return "; ".join(f"{name} {levels}" for name, levels in names.items()) if len(set(names.values())) > 1 else ""
