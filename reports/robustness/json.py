"""A model's success under variations for programs."""

from typing import Any

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.composition import Composition
from pytest_vla.metrics.differences import POWER
from pytest_vla.metrics.rates import percent, percents, rate_table
from pytest_vla.metrics.robustness import FEWEST_PAIRS, Cell, Difference
from pytest_vla.metrics.robustness_curves import RESAMPLES, Curve
from pytest_vla.metrics.robustness_results import ModelRobustness


def methods_table(seed: int) -> dict[str, Any]:
    """How the numbers were made, for JSON."""
    return {
        "confidence": CONFIDENCE,
        "over": {"interval": THESE_TASKS, "tasks_interval": TASKS_LIKE_THESE},
        "rates": "Wilson, of as many episodes as would stray as far if they were independent",
        "differences": "Student's t over tasks and seeds, with half a pair lost and half a pair won more",
        "p": "of the same t, two-sided; of pairs of dimensions chi-square with 1 degree of freedom",
        "p_adjusted": "Holm, among the variations of a model and suite, its dimensions, and its pairs of dimensions",
        "power": POWER,
        "fewest_pairs": FEWEST_PAIRS,
        "bootstrap": {"of": "halves_at", "over": "tasks and seeds", "resamples": RESAMPLES, "seed": seed},
    }


def robustness_table(found: ModelRobustness) -> dict[str, Any]:
    """``robustness`` of a model and suite in JSON: percentages 0..100, differences in points, below 0 where success is
    lost.

    Always there, with lists empty and all else null where there is nothing:

    - ``runs``, ``left_out``: names; texts.
    - ``dimensions``: ``dimension``, ``kind``, ``level``, ``n``, ``sr``, ``interval``, ``tasks_interval``, ``few``
      (whether it is too small for a rate), ``benign`` (of its twins), ``difference`` (``pairs``, ``units``: tasks and
      seeds, ``value``, ``interval`` over these tasks, ``tasks_interval`` over tasks like these, ``p``, ``p_adjusted``,
      ``lost``, ``gained``, ``detectable``: the smallest that ``power`` of such runs show, ``telling``: pairs that show
      one of 10 points, both by Holm's correction among all variations, or all dimensions), ``errors`` and ``invalid``
      by reason.
    - ``curves``: ``dimension``, a rate and ``few`` of all its episodes, ``levels`` (``level``, 0 is benign, ``n``,
      ``sr``, ``interval``, ``tasks_interval``), ``halves_at``, ``halves_at_interval``, ``why`` (not), ``drop``,
      ``drop_interval`` (points lost), ``difference``: as above, of all its episodes.
    - ``most_harmful``: ``dimension`` (null: not told apart), ``largest``, ``drop``, ``drop_interval``,
      ``not_told_apart``, ``why``, ``levels`` (of each dimension, where they differ). Probes, and other goals, are no
      dimension that could be it.
    - ``failures``: ``dimension``, ``near``, ``far``, ``unlabelled`` (too few successes of the task to tell),
      ``without_path``, ``another_task`` (far ones on another task's path); by ``failure_algorithm``
      and ``failure_tau`` (what thresholds are made of: leave-one-out, or paper).
    - ``pairs``: ``dimensions``, ``labels``, ``n``, ``benign``, ``first``, ``second``, ``joint``, ``product``,
      ``expected``, ``joint_less_product``, ``joint_less_expected``, ``gap`` (a covariance, -1/4..1/4), ``verdict`` (by
      its interval: worse, better, not determined), ``chi_square`` (as LIBERO-Plus prints it), ``p``, ``p_adjusted``,
      ``rough``, ``undefined``; ``..._interval`` of those that have one.
    - ``pooled_pairs``: the same over all suites in ``pooled_suites``; both empty if only one suite has pairs.
    """
    harm = found.harm
    return {
        "runs": list(found.runs),
        "dimensions": [_cell_table(cell) for cell in found.cells],
        "curves": [_curve_table(curve) for curve in found.curves],
        "most_harmful": None
        if harm is None
        else {
            "dimension": None if harm.why else harm.dimension,
            "largest": harm.dimension,
            "drop": harm.change.drop,
            "drop_interval": harm.change.drop_interval,
            "not_told_apart": list(harm.not_told_apart),
            "why": harm.why or None,
            "levels": harm.levels or None,
        },
        "failures": [
            {
                "dimension": each.dimension,
                "near": each.near,
                "far": each.far,
                "unlabelled": each.unlabelled,
                "without_path": each.without_path,
                "another_task": each.another,
            }
            for each in found.failures
        ],
        "failure_algorithm": found.algorithm,
        "failure_tau": found.tau,
        "pairs": [_pair_table(pair) for pair in found.pairs],
        "pooled_pairs": [_pair_table(pair) for pair in found.pooled],
        "pooled_suites": list(found.pooled_suites),
        "left_out": list(found.left_out),
    }


def _cell_table(cell: Cell) -> dict[str, Any]:
    difference = cell.difference
    return {
        "dimension": cell.dimension,
        "kind": cell.kind,
        "level": cell.level,
        **rate_table(cell.rate),
        "few": cell.is_few,
        "benign": None if difference is None else difference.benign,
        "difference": None if difference is None else _difference_table(difference),
        "errors": dict(cell.rate.errors),
        "invalid": dict(cell.rate.invalid),
    }


def _difference_table(difference: Difference) -> dict[str, Any]:
    return {
        "pairs": difference.pairs,
        "units": difference.units,
        "value": difference.value,
        "interval": difference.interval,
        "tasks_interval": difference.tasks_interval,
        "p": difference.p,
        "p_adjusted": difference.p_adjusted,
        "lost": difference.lost,
        "gained": difference.gained,
        "detectable": difference.detectable,
        "telling": difference.telling,
    }


def _curve_table(curve: Curve) -> dict[str, Any]:
    change = curve.change
    return {
        "dimension": curve.dimension,
        **rate_table(curve.rate),
        "few": curve.is_few,
        "levels": [{"level": level, **rate_table(rate)} for level, rate in curve.points],
        "halves_at": curve.halving.level,
        "halves_at_interval": curve.halving.interval,
        "why": curve.halving.why or None,
        "drop": None if change is None else change.drop,
        "drop_interval": None if change is None else change.drop_interval,
        "difference": None if change is None else _difference_table(change),
    }


def _pair_table(pair: Composition) -> dict[str, Any]:
    benign, first, second, joint = pair.rates
    return {
        "dimensions": list(pair.dimensions),
        "labels": list(pair.labels),
        "n": pair.n,
        "benign": 100 * benign,
        "first": 100 * first,
        "second": 100 * second,
        "joint": 100 * joint,
        "joint_interval": percents(pair.joint_interval),
        "product": 100 * pair.product,
        "product_interval": percents(pair.product_interval),
        "joint_less_product": 100 * pair.above_product,
        "joint_less_product_interval": percents(pair.less_product),
        "expected": percent(pair.expected),
        "expected_interval": percents(pair.expected_interval),
        "joint_less_expected": percent(pair.above_expected),
        "joint_less_expected_interval": percents(pair.less_expected),
        "gap": pair.gap,
        "gap_interval": pair.gap_interval,
        "gap_tasks_interval": pair.tasks_gap_interval,
        "verdict": pair.verdict,
        "chi_square": pair.chi_square,
        "p": pair.p,
        "p_adjusted": pair.p_adjusted,
        "rough": pair.rough,
        "undefined": pair.undefined or None,
    }
