"""Early warning: conformal thresholds, a rule of the user's, and the policy's own confidence, in text and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vla.metrics.alarms import Intervention
from pytest_vla.metrics.calibration import CHANCE, Calibration
from pytest_vla.metrics.conformal import ALPHA, Conformal
from pytest_vla.metrics.listening import Estimate
from pytest_vla.reports.tables import aligned, wrapped
from pytest_vla.util.text import counted

# For programs


def conformal_table(found: Sequence[Conformal]) -> list[dict[str, Any]]:
    """``conformal`` of a model and suite in JSON, one for each metric and alpha.

    ``metric``, ``alpha``, ``calibrating``, ``threshold`` (null), ``held_out`` (null), as `intervention_table`.
    """
    return [
        {
            "metric": each.metric,
            "alpha": each.alpha,
            "calibrating": each.calibrating,
            "threshold": each.threshold,
            "held_out": None if each.held_out is None else intervention_table(each.held_out),
        }
        for each in found
    ]


def intervention_table(found: Intervention) -> dict[str, Any]:
    """``stop_when`` of a model and suite in JSON, see `pytest_vla.metrics.alarms.Intervention`.

    ``rule``, ``failures``, ``successes``, ``lead`` (control steps, null), ``saved``, and ``caught``, ``cut`` and
    ``in_time`` (null) with ``share``, ``interval`` and ``tasks_interval`` (null).
    """

    def told(each: Estimate | None) -> dict[str, Any] | None:
        if each is None:
            return None
        return {"share": each.value, "interval": each.interval, "tasks_interval": each.tasks_interval}

    return {
        "rule": str(found.rule),
        "failures": found.failures,
        "caught": told(found.caught),
        "in_time": told(found.in_time),
        "successes": found.successes,
        "cut": told(found.cut),
        "lead": found.lead,
        "saved": found.saved,
    }


def confidence_table(found: Sequence[tuple[float, Calibration]]) -> list[dict[str, Any]]:
    """``confidence`` of a model and suite in JSON, one for each moment.

    ``moment``, ``episodes``, ``brier``, ``brier_interval`` (null), ``base``, ``error``, ``error_by_chance``, ``gap``,
    ``gap_interval`` (null), and ``bins``, each with ``low``, ``high``, ``episodes``, ``confidence``, ``success`` and
    ``interval`` (null); see `pytest_vla.metrics.calibration.Calibration`.
    """
    return [
        {
            "moment": moment,
            "episodes": each.episodes,
            "brier": each.brier.value,
            "brier_interval": each.brier.interval,
            "base": each.base,
            "error": each.error,
            "error_by_chance": each.error_by_chance,
            "gap": each.gap.value,
            "gap_interval": each.gap.interval,
            "bins": [
                {
                    "low": one.low,
                    "high": one.high,
                    "episodes": one.episodes,
                    "confidence": one.confidence,
                    "success": one.success.value,
                    "interval": one.success.interval,
                }
                for one in each.bins
            ],
        }
        for moment, each in found
    ]


# For people


def conformal_lines(found: Sequence[Conformal], seconds: float | None) -> Iterator[str]:
    """Of each metric the alarm that is to cut 10% of successes at most, and what it does on other seeds.

    Args:
        found: those of `ALPHA` are told.
        seconds: of a control step; None: not known.
    """
    some = [each for each in found if each.alpha == ALPHA]
    if not some:
        return
    yield ""
    yield from wrapped(
        f"an alarm beyond a threshold that is to cut {ALPHA:.0%} of successes at most: split conformal, of the largest "
        "values of successes of every second seed; what it does on the other seeds"
    )
    rows = [["metric", "threshold", "cut", "caught", "in time", "lead"]]
    for each in some:
        told = each.held_out
        shares = () if told is None else (told.cut, told.caught, told.in_time)
        numbers = ["-"] * 4 if told is None else [*map(_share, shares), _lead(told, None)]
        rows.append([each.metric, "-" if each.threshold is None else f"{each.threshold:.4g}", *numbers])
    yield from aligned(rows, 1)
    calibrating = max(each.calibrating for each in some)
    held = next((each.held_out for each in some if each.held_out is not None), None)
    others = "" if held is None else f"; judged by {held.successes} successes and {held.failures} failures"
    clock = "" if seconds is None else f", of {seconds:g} s each"
    yield from wrapped(
        "cut: of successes; caught: of failures; in time: of failures, by when half of the successes are done, as "
        "failures are the longest, and any alarm rings in them most; lead: median of control steps"
        f"{clock} from the alarm to the end of a failure. Thresholds of {counted(calibrating, 'successful episode')}"
        f"{others}"
    )


def intervention_lines(found: Intervention, seconds: float | None) -> Iterator[str]:
    """What `--stop-when` says would have been."""
    yield ""
    yield from wrapped(
        f"had it been stopped when {found.rule}: {_share(found.caught)} of {counted(found.failures, 'failure')} "
        f"caught, {_share(found.in_time)} in time; {_share(found.cut)} of {found.successes} successes cut; lead "
        f"{_lead(found, seconds)}; {found.saved:.0%} of control steps saved"
    )


def confidence_lines(found: Sequence[tuple[float, Calibration]]) -> Iterator[str]:
    """The reliability table of the first moment, and what each moment's scores are."""
    if not found:
        return
    moment, first = found[0]
    yield ""
    yield from wrapped(
        "is the policy's own confidence worth its face value? The mean probability of the tokens that it likes best, "
        f"up to {moment:.0%} of the step budget, and how many of those episodes succeed"
    )
    rows = [["confidence", "episodes", "mean", "success"]]
    rows += [
        [f"{each.low:.1f} to {each.high:.1f}", str(each.episodes), f"{each.confidence:.3f}", _share(each.success)]
        for each in first.bins
    ]
    yield from aligned(rows, 1)
    for moment, each in found:
        yield from wrapped(
            f"at {moment:.0%}: Brier's score {each.brier.value:.3f}{_bounds(each.brier.interval)}, of the base rate "
            f"alone {each.base:.3f}; confidence less success {each.gap.value:+.3f}{_bounds(each.gap.interval)}; "
            f"expected calibration error {each.error:.3f}, of a calibrated policy below {each.error_by_chance:.3f} in "
            f"{CHANCE:.0%} of draws; {counted(each.episodes, 'episode')} still running"
        )


def _share(each: Estimate | None) -> str:
    if each is None:
        return "-"
    return f"{each.value:.0%}" + ("" if each.interval is None else " [{:.0%}, {:.0%}]".format(*each.interval))


def _bounds(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else " [{:.3f}, {:.3f}]".format(*interval)


def _lead(found: Intervention, seconds: float | None) -> str:
    if found.lead is None:
        return "-"
    return f"{found.lead:g}" if seconds is None else f"{found.lead:g} steps ({found.lead * seconds:.1f} s)"
