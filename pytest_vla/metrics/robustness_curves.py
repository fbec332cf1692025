"""Robustness curves: what each dimension costs, success by level, where it halves, and which dimension harms most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, sqrt
from typing import TYPE_CHECKING

from pytest_vla import extensions
from pytest_vla.metrics.clustered import CONFIDENCE, Interval, Unit, student_quantile
from pytest_vla.metrics.composition import DimensionPair
from pytest_vla.metrics.differences import lead_interval
from pytest_vla.metrics.failure_types import USUAL_TAU, Algorithm, Tau
from pytest_vla.metrics.language_paths import FailureTypeSummary, Paths, TaskFailures, text_failures
from pytest_vla.metrics.robustness import (
    FEWEST_PAIRS,
    Difference,
    Remembered,
    RobustnessCell,
    TwinPair,
    Varied,
    difference_between,
    dimension_of,
    grouped,
    is_tested,
    mean_of,
    rate_of,
)
from pytest_vla.metrics.selection import is_counted, run_of, seed_of
from pytest_vla.metrics.statistics import holm
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.plan.case import is_joint
from pytest_vla.plan.manifests import varied_by
from pytest_vla.records.record import Record
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Halving: the level at which a falling curve reaches half of the success rate without a variation.
# The curve is the monotone fit, success that does not rise with the level (pooled adjacent violators: Barlow,
# Bartholomew, Bremner and Brunk 1972, Statistical Inference under Order Restrictions), straight between levels. Its
# interval, over these tasks, is a bootstrap over tasks and seeds, with two episodes more at each level that succeed
# or fail by lot, and with quantiles a little farther out for the number of tasks and seeds (Hesterberg 2015, The
# American Statistician 69, 371-386).

FEWEST = 20
"""Episodes at each level, and tasks and seeds: of fewer the interval does not hold what it says."""

RESAMPLES = 2000
_CHUNK = 250

_MORE = 2
"""Episodes at each level of a resample, each a success or a failure by lot."""


@dataclass(frozen=True)
class Halving:
    """The level at which success is half of the benign twins'.

    Attributes:
        level: interpolated on the monotone fit; None if undetermined.
        interval: the level's; None if undetermined.
        why: the reason that it is undetermined or not reached; empty otherwise.
    """

    level: float | None
    interval: Interval | None
    why: str


def halving(rows: Sequence[tuple[Unit, int, bool]], generator: "np.random.Generator") -> Halving:
    """Estimate the level at which success halves, or give the reason that it is unknown.

    It is given if all resamples but one tail agree that it is reached, and reported as not reached if they agree on
    that.

    Args:
        rows: each episode's task and seed, its level (0 for a benign twin), and its success.
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
    """Fit rates that do not rise from one level to the next, as near as possible to the measured ones.

    Args:
        successes: (..., k).
        episodes: (..., k), above 0.

    Returns:
        (..., k): for each level i the least, over a <= i, of the largest, over b >= i, of the rates of levels a to b.
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
    """Return the level in resamples of tasks and seeds; infinite if it is not reached."""
    import numpy as np

    drawn = generator.multinomial(len(done), np.full(len(done), 1 / len(done)), _CHUNK).astype(np.float64)
    shape = len(drawn), len(levels)
    # Of a level at which all succeed or all fail every resample tells the same: so many more stray.
    more = generator.binomial(_MORE, 0.5, shape)
    return _half(falling_fit(drawn @ done + more, drawn @ run + _MORE), levels)


def _half(fit: "NDArray[np.float64]", levels: Sequence[int]) -> "NDArray[np.float64]":
    """Return the level at which each fit (..., k) first falls to half, (...,) at least 1-d, else infinite."""
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
    """Return the share of resamples beyond either end, for a number of tasks and seeds."""
    from scipy.special import ndtr

    return float(ndtr(-sqrt(number / (number - 1)) * student_quantile(number - 1, CONFIDENCE)))


FEWEST_UNITS = 6
"""Of so many tasks and seeds a two-sided sign test can reach 5%; of fewer no dimension is called worse than another."""

ALIKE = 0.8
"""Where levels have fewer of their tasks and seeds in common it is told; some episodes may be errors or invalid."""

NO_DOSE = "its levels are no dose"
"""LIBERO-Plus's difficulty is how many of four models failed, and one: success falls with it by its making."""


@dataclass(frozen=True)
class Curve:
    """A dimension, its kinds together.

    Attributes:
        dimension: name.
        rate: of all its episodes.
        points: the rate at each level that was run; level 0 is that of the benign twins, where there are any. None
            where levels are no dose.
        halving: where success is half of the twins'.
        change: success of all its episodes less that of their twins; None without pairs.
    """

    dimension: str
    rate: SuccessRate
    points: tuple[tuple[int, SuccessRate], ...]
    halving: Halving
    change: Difference | None

    @property
    def is_few(self) -> bool:
        """Whether it is too small for a rate."""
        return (self.rate.counted if self.change is None else self.change.pairs) < FEWEST_PAIRS


@dataclass(frozen=True)
class Harm:
    """The dimension with the largest loss.

    Attributes:
        dimension: name.
        change: change of its success, points.
        not_told_apart: other dimensions whose loss may be as large.
        why: the reason that it is not called the most harmful; empty if it is.
        levels: the levels behind each dimension's change, if they differ; otherwise empty.
    """

    dimension: str
    change: Difference
    not_told_apart: tuple[str, ...]
    why: str
    levels: str = ""


def curves(
    varied: Varied, pairs: Sequence[TwinPair], generator: "np.random.Generator"
) -> tuple[tuple[Curve, ...], Harm | None, tuple[str, ...]]:
    """Return each dimension's curve, without joint variations; the most harmful dimension or None; and notes.

    If a dimension has kinds with levels, its kinds without levels are on no curve. Holm's adjustment is over the
    dimensions.

    Args:
        varied: one model's.
        pairs: its pairs.
        generator: draws the resamples for the level at which success halves.
    """
    single = [record for record in varied.episodes if not is_joint(dimension_of(record))]
    by_dimension = _by_dimension(pairs)
    changes = _changes(by_dimension)
    found, mixing, notes = [], [], []
    for dimension, records in sorted(grouped(single, dimension_of).items()):
        graded = [record for record in records if _level(record) is not None]
        dosed = [record for record in graded if is_dosed(record)]
        on_curve = [pair for pair in by_dimension.get(dimension, []) if pair.episode.variation.get("level") is not None]
        found.append(
            Curve(
                dimension,
                rate_of(dimension, records),
                _points(dosed, on_curve) if dosed else (),
                _halving(graded, dosed, on_curve, generator),
                changes.get(dimension),
            )
        )
        if dosed and len(dosed) < len(records):
            number = counted(len(records) - len(dosed), "episode")
            notes.append(f"{dimension}: {number} without a level: not on the curve")
        if dosed and _common(dosed) < ALIKE:
            mixing.append(dimension)
    if mixing:
        of_others = "the levels mix different tasks, seeds and kinds"
        notes.append(f"{', '.join(mixing)}: {of_others}")
    return tuple(found), _harm(by_dimension, changes), tuple(notes)


def most_harmful(pairs: Sequence[TwinPair]) -> Harm | None:
    """Return the dimension with the largest loss, without joint variations, as `curves` does; None without pairs."""
    by_dimension = _by_dimension(pairs)
    return _harm(by_dimension, _changes(by_dimension))


def is_dosed(record: Record) -> bool:
    """Whether the level of a record's variation is how much is varied, and not how many models fail under it."""
    entry = extensions.lists().get(varied_by(record.suite))
    return entry is None or entry.graded


def _by_dimension(pairs: Sequence[TwinPair]) -> dict[str, list[TwinPair]]:
    single = (pair for pair in pairs if not is_joint(dimension_of(pair.episode)))
    return dict(sorted(grouped(single, lambda pair: dimension_of(pair.episode)).items()))


def _level(record: Record) -> int | None:
    level: int | None = record.variation.get("level")
    return level


def _changes(by_dimension: Mapping[str, Sequence[TwinPair]]) -> dict[str, Difference]:
    among = sum(map(is_tested, by_dimension.values()))
    found = {name: difference_between(pairs, among) for name, pairs in by_dimension.items()}
    tested = [(name, each.p) for name, each in found.items() if each.p is not None and each.pairs >= FEWEST_PAIRS]
    for (name, _), p in zip(tested, holm([p for _, p in tested]), strict=True):
        found[name] = replace(found[name], p_adjusted=p)
    return found


def _halving(
    graded: Sequence[Record], dosed: Sequence[Record], pairs: Sequence[TwinPair], generator: "np.random.Generator"
) -> Halving:
    if not graded:
        return Halving(None, None, "it has no levels")
    if not dosed:
        return Halving(None, None, NO_DOSE)
    if not any(map(is_counted, dosed)):
        return Halving(None, None, "no varied episode was measured")
    if not pairs:
        return Halving(None, None, "no benign twin was measured")
    twins = {run_of(pair.twin): pair for pair in pairs}
    rows = [(pair.unit, 0, pair.twin.outcome == "success") for pair in twins.values()]
    rows += [(pair.unit, _level(pair.episode) or 0, pair.episode.outcome == "success") for pair in pairs]
    return halving(rows, generator)


def _common(records: Sequence[Record]) -> float:
    """Return the share of tasks, seeds and kinds that were measured at all of the levels."""
    levels = grouped(filter(is_counted, records), _level).values()
    units = [{(record.task_key, seed_of(record), record.variation.get("kind")) for record in some} for some in levels]
    return len(set.intersection(*units)) / len(set.union(*units)) if units else 1.0


def _points(records: Sequence[Record], pairs: Sequence[TwinPair]) -> tuple[tuple[int, SuccessRate], ...]:
    twins = {run_of(pair.twin): pair.twin for pair in pairs}
    levels = grouped(records, lambda record: _level(record) or 0)
    benign = [(0, rate_of("benign", list(twins.values())))] if twins else []
    return (*benign, *((level, rate_of(f"L{level}", levels[level])) for level in sorted(levels)))


def _harm(by_dimension: Mapping[str, Sequence[TwinPair]], changes: Mapping[str, Difference]) -> Harm | None:
    if not changes:
        return None
    # Of a few pairs nothing is said: one of two may be all that there was.
    enough = [name for name, change in changes.items() if change.units >= FEWEST_UNITS]
    worst = min(enough or changes, key=lambda name: changes[name].value)
    change, means = changes[worst], {name: mean_of(pairs) for name, pairs in by_dimension.items()}
    leads: dict[str, Interval | None] = {
        name: lead_interval(means[name], means[worst]) for name in changes if name != worst
    }
    near = tuple(
        name
        for name, lead in leads.items()
        if lead is None or lead[0] <= 0 or min(changes[name].units, change.units) < FEWEST_UNITS
    )
    if change.units < FEWEST_UNITS:
        why = f"not determined: fewer than {FEWEST_UNITS} tasks and seeds"
    elif change.interval is None or change.interval[1] >= 0:
        why = "not determined: its loss may be zero"
    elif not leads:
        why = "it is the only one"
    elif near:
        why = f"not distinguishable from {', '.join(near)}"
    else:
        why = ""
    return Harm(worst, change, near, why, _different_levels(by_dimension))


def _different_levels(by_dimension: Mapping[str, Sequence[TwinPair]]) -> str:
    """Return the levels of each dimension if they differ, else an empty text."""
    names = {}
    for dimension, pairs in by_dimension.items():
        levels = {_level(pair.episode) if is_dosed(pair.episode) else None for pair in pairs}
        graded = [f"L{level}" for level in sorted(level for level in levels if level is not None)]
        names[dimension] = ", ".join([*graded, *(["no level"] if None in levels else [])])
    together = grouped(names, names.__getitem__)
    return "; ".join(f"{', '.join(some)} {levels}" for levels, some in together.items()) if len(together) > 1 else ""


# Failures under each dimension of variation: near the path of successes, or elsewhere.
# LIBERO-Para's Algorithm 1 (see `pytest_vla.metrics.failure_types`), whose successes are the benign ones and those of
# the dimension, task by task.


@dataclass(frozen=True)
class DimensionFailures:
    """The failures of a dimension: near, far and unlabelled ones are all that have a path.

    Attributes:
        dimension: its name.
        near: failed near the path of successes: what went wrong is how it was done.
        far: went elsewhere.
        unlabelled: of tasks with too few successes, of which nothing tells near from far.
        without_path: whose trajectory is not kept.
        another: of the far ones, those whose path is nearest to that of another task's successes.
        tasks: their paths with those of the successes.
    """

    dimension: str
    near: int
    far: int
    unlabelled: int
    without_path: int
    another: int
    tasks: tuple[TaskFailures, ...] = field(default=(), compare=False)


def dimension_failures(
    varied: Varied, paths: Paths, algorithm: Algorithm, tau: Tau = USUAL_TAU
) -> tuple[DimensionFailures, ...]:
    """Label the failures of each dimension that has any, in order of occurrence, without probes.

    Raises:
        VlaError: fastdtw is requested and not installed.
    """
    done = [record for record in varied.benign if record.outcome == "success"]
    by_dimension: dict[str, list[Record]] = {}
    for record in filter(is_counted, varied.episodes):
        by_dimension.setdefault(dimension_of(record), []).append(record)
    found = []
    for dimension, records in by_dimension.items():
        failed = [record for record in records if record.outcome == "failure"]
        if failed:
            typed = text_failures([*done, *records], paths, algorithm, tau)
            found.append(_of(dimension, failed, typed, paths))
    return tuple(found)


def _of(dimension: str, failed: Sequence[Record], typed: FailureTypeSummary | None, paths: Paths) -> DimensionFailures:
    near = far = another = 0
    tasks = () if typed is None else typed.tasks
    for task in tasks:
        some_near, some_far = task.near_far("max")
        near, far = near + some_near, far + some_far
        another += sum(each.nearest is not None and each.nearest.task not in (None, task.task) for each in task.far)
    without = sum(paths(record) is None for record in failed)
    return DimensionFailures(dimension, near, far, len(failed) - without - near - far, without, another, tasks)


SEEN = 50
"""Points: a row that cannot show a change of so much, and whose interval holds 0, says nothing by itself."""


# The robustness results of all models, as a report shows them.


@dataclass(frozen=True)
class ModelRobustness:
    """The robustness results of one model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's name.
        runs: names of the runs used.
        cells: success by dimension, kind and level.
        curves: by dimension.
        harm: the largest loss; None without pairs.
        pairs: pairs of dimensions, with their compositional gap.
        left_out: notes on records that are not in the numbers.
        protocol: paper or upstream's code, if the suite has both; otherwise empty.
        failures: labelled failures, by dimension.
        algorithm: the algorithm that separates near failures from far ones.
        tau: the method for its threshold.
        pooled: the pairs of dimensions over all suites of the model; empty if fewer than two suites have any.
        pooled_suites: the names of these suites.
        memory: by dimension, the model beside a memoriser on the same cases; empty without any.
    """

    model: str
    suite: str
    runs: tuple[str, ...]
    cells: tuple[RobustnessCell, ...]
    curves: tuple[Curve, ...]
    harm: Harm | None
    pairs: tuple[DimensionPair, ...]
    left_out: tuple[str, ...]
    protocol: str = ""
    failures: tuple[DimensionFailures, ...] = ()
    algorithm: str = ""
    pooled: tuple[DimensionPair, ...] = ()
    pooled_suites: tuple[str, ...] = ()
    tau: Tau = USUAL_TAU
    memory: tuple[Remembered, ...] = ()


def says_something(cell: RobustnessCell) -> bool:
    """Whether a row tells more than that there are too few episodes of it."""
    if cell.is_few:
        return False
    change = cell.difference
    if change is None:
        return True
    if change.interval is not None and not change.interval[0] <= 0 <= change.interval[1]:
        return True
    return change.detectable is not None and change.detectable <= SEEN
