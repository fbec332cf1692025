"""The evidence of a group's successes and failures against a baseline: tests, bounds and rates, without a verdict."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_vla.gate.baseline import CaseResult
from pytest_vla.gate.bounded import Bounds, changed_p, counted_units, no_worse_p, paired_bounds, tasks_bounds
from pytest_vla.gate.comparable import ComparedStratum, Pair
from pytest_vla.gate.score import unpaired_bounds, unpaired_change_p, unpaired_p
from pytest_vla.metrics.clustered import Interval, Unit, no_narrower
from pytest_vla.metrics.success import unit_of


@dataclass(frozen=True)
class Evidence:
    """The test results of a group; differences are the run's success less the baseline's, -1..1.

    Attributes:
        pairs: number of pairs, or for unpaired episodes the run's episodes.
        baseline_rate: success of the baseline in them.
        new_rate: success of the run.
        lost: pairs in which only the baseline succeeded; 0 for unpaired episodes.
        gained: pairs in which only the run succeeded; 0 for unpaired episodes.
        bounds: the difference with a bound each way at alpha, over these tasks.
        tasks_bounds: the same over tasks like these, no narrower, or None for too few tasks and for unpaired episodes.
        p_worse: p value of "success did not fall".
        p_beyond: p value of "it did not fall by more than the margin".
        p_better: p value of "it did not rise".
        p_no_worse: p value of "it fell by the margin or more"; a small one supports no worse.
        starts: number of different tasks and seeds; for unpaired episodes the run's.
    """

    pairs: int
    baseline_rate: float
    new_rate: float
    lost: int
    gained: int
    bounds: Bounds
    tasks_bounds: Interval | None
    p_worse: float
    p_beyond: float
    p_better: float
    p_no_worse: float
    starts: int


@dataclass(frozen=True)
class GroupOutcomes:
    """Successes (1) and failures (0) of a group; `units` go with them.

    Of pairs both sides have as many, in the same order, and the units are the same.
    """

    new: tuple[int, ...]
    new_units: tuple[Unit, ...]
    baseline: tuple[int, ...]
    baseline_units: tuple[Unit, ...]


Fills = tuple[int | None, int | None]
"""What an error or invalid episode is taken for, of the run and of the baseline; None: it is left out."""

AS_THEY_ARE: Fills = (None, None)
WORST: Fills = (0, 1)
BEST: Fills = (1, 0)


def sample_of(sources: Iterable[Pair | ComparedStratum], fills: Fills) -> GroupOutcomes:
    """Return the successes and failures of pairs or strata, without pairs that are invalid on both sides."""
    new: list[tuple[int, Unit]] = []
    baseline: list[tuple[int, Unit]] = []
    for source in sources:
        if isinstance(source, Pair):
            if source.new.outcome == source.baseline.outcome == "invalid":
                continue
            ours, theirs = _filled(source.new, fills[0]), _filled(source.baseline, fills[1])
            if ours is not None and theirs is not None:
                new.append((ours, source.unit))
                baseline.append((theirs, source.unit))
        else:
            for cases, fill, found in ((source.new, fills[0], new), (source.baseline, fills[1], baseline)):
                filled = ((_filled(case, fill), unit_of(case)) for case in cases)
                found += [(success, unit) for success, unit in filled if success is not None]
    return GroupOutcomes(
        tuple(success for success, _ in new),
        tuple(unit for _, unit in new),
        tuple(success for success, _ in baseline),
        tuple(unit for _, unit in baseline),
    )


def lost_all(sample: GroupOutcomes) -> GroupOutcomes:
    """Return the sample as if the new policy had failed in every episode."""
    return replace(sample, new=(0,) * len(sample.new))


def evidence_of(sample: GroupOutcomes, margin: float, alpha: float, is_paired: bool) -> Evidence | None:
    """Compute the evidence of a sample, or None if a side is empty or no task is on both.

    Args:
        sample: of a group.
        margin: the tolerated drop, 0..1.
        alpha: of each bound.
        is_paired: whether both sides have the same cases.
    """
    new, baseline = sample.new, sample.baseline
    if not new or not baseline:
        return None
    rates = sum(baseline) / len(baseline), sum(new) / len(new)
    if not is_paired:
        common = {task for task, _ in sample.new_units} & {task for task, _ in sample.baseline_units}
        if not common:
            return None
        sides = _of_tasks(new, sample.new_units, common), _of_tasks(baseline, sample.baseline_units, common)
        both = (*sides[0], *sides[1])
        return Evidence(
            len(sides[0][0]),
            sum(sides[1][0]) / len(sides[1][0]),
            sum(sides[0][0]) / len(sides[0][0]),
            0,
            0,
            unpaired_bounds(*both, alpha),
            None,
            unpaired_change_p(*both, "worse"),
            unpaired_change_p(*both, "worse", margin),
            unpaired_change_p(*both, "better"),
            unpaired_p(*both, margin) if margin < 1.0 else 0.0,
            len(set(sides[0][1])),
        )
    differences = [ours - theirs for ours, theirs in zip(new, baseline, strict=True)]
    counts = counted_units(differences, sample.new_units)
    bounds = paired_bounds(differences, sample.new_units, alpha)
    of_tasks = tasks_bounds(differences, sample.new_units, alpha)
    return Evidence(
        len(differences),
        *rates,
        differences.count(-1),
        differences.count(1),
        bounds,
        None if of_tasks is None else no_narrower(of_tasks, (bounds.lower, bounds.upper)),
        changed_p(counts, "worse"),
        changed_p(counts, "worse", margin),
        changed_p(counts, "better"),
        no_worse_p(counts, margin),
        len(set(sample.new_units)),
    )


def _filled(case: CaseResult, fill: int | None) -> int | None:
    return int(case.outcome == "success") if case.is_counted else fill


def _of_tasks(
    successes: Sequence[int], units: Sequence[Unit], tasks: set[str]
) -> tuple[tuple[int, ...], tuple[Unit, ...]]:
    kept = [(success, unit) for success, unit in zip(successes, units, strict=True) if unit[0] in tasks]
    return tuple(success for success, _ in kept), tuple(unit for _, unit in kept)
