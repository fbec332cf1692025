"""Early warning: conformal thresholds, a rule of the user's, and the policy's own confidence, in text and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from pytest_vla.metrics.alarms import Intervention, TaskAlarms, WithinTasks
from pytest_vla.metrics.calibration import CHANCE, Calibration
from pytest_vla.metrics.conformal import ALPHA, Conformal, fewest_successes
from pytest_vla.metrics.listening import Estimate
from pytest_vla.reports.tables import aligned, wrapped
from pytest_vla.util.text import counted

_MORE = (
    "A failure and a success of one task, looked at for as long as the success took: in percentage points, how much "
    "more often the alarm stops the failure; 0: it tells at most which task it is"
)

# For programs


def conformal_table(found: Sequence[Conformal]) -> list[dict[str, Any]]:
    """``conformal`` of a model and suite in JSON, one for each metric and alpha.

    ``metric``, ``alpha``, ``calibrating`` (successes), ``clusters`` (their tasks and seeds), ``threshold`` (null),
    ``held_out`` (null), as `intervention_table`.
    """
    return [
        {
            "metric": each.metric,
            "alpha": each.alpha,
            "calibrating": each.calibrating,
            "clusters": each.clusters,
            "threshold": each.threshold,
            "held_out": None if each.held_out is None else intervention_table(each.held_out),
        }
        for each in found
    ]


def intervention_table(found: Intervention) -> dict[str, Any]:
    """``stop_when`` of a model and suite in JSON, see `pytest_vla.metrics.alarms.Intervention`.

    ``rule``, ``failures``, ``successes``, ``lead`` (control steps, null), ``saved``, and ``caught``, ``cut`` and
    ``in_time`` (null) with ``share``, ``interval`` and ``tasks_interval`` (null). ``within`` (null) has ``tasks``, the
    shares ``caught``, ``in_time`` and ``cut``, and ``more`` with ``interval`` and ``tasks_interval`` (null), see
    `pytest_vla.metrics.alarms.WithinTasks`; ``by_task`` has ``task``, ``failures``, ``caught``, ``successes`` and
    ``cut``, counts.
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
        "within": None if found.within is None else _within_table(found.within),
        "by_task": [asdict(each) for each in found.by_task],
    }


def _within_table(found: WithinTasks) -> dict[str, Any]:
    return {
        "tasks": found.tasks,
        "caught": found.caught,
        "in_time": found.in_time,
        "cut": found.cut,
        "more": found.more.value,
        "interval": found.more.interval,
        "tasks_interval": found.more.tasks_interval,
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
    clock = "" if seconds is None else f", of {seconds:g} s each"
    yield from wrapped(
        "cut: of successes; caught: of failures; in time: of failures, by when half of the successes are done, as "
        "failures are the longest, and any alarm rings in them most; lead: median of control steps"
        f"{clock} from the alarm to the end of a failure"
    )
    yield from _made_of(some)
    judged = [(each.metric, each.held_out) for each in some if each.held_out is not None]
    if judged:
        yield from _within_lines(judged)


def _made_of(some: Sequence[Conformal]) -> Iterator[str]:
    """Of how many episodes thresholds are and by how many they are judged, and why there is none."""
    told: dict[str, list[str]] = {}
    for each in some:
        text = f"thresholds of {counted(each.calibrating, 'successful episode')}"
        if each.clusters < each.calibrating:
            text += f" with {each.clusters} different tasks and seeds"
        if each.held_out is not None:
            text += f"; judged by {each.held_out.successes} successes and {each.held_out.failures} failures"
        elif each.clusters < fewest_successes(each.alpha):
            needed = fewest_successes(each.alpha)
            text += f": {each.alpha:.0%} needs {needed} different tasks and seeds with a success, of every second seed"
        elif each.threshold is None:
            text += ", in which the metric has no value"
        else:
            text += "; there is no other seed to judge them"
        told.setdefault(text, []).append(each.metric)
    usual = max(told, key=lambda text: len(told[text]))
    yield from wrapped(usual)
    for text, names in told.items():
        if text != usual:
            yield from wrapped(f"of {', '.join(names)}: {text}")


def _within_lines(judged: Sequence[tuple[str, Intervention]]) -> Iterator[str]:
    """The same within tasks, and how what is cut differs from task to task."""
    inside = [(name, each.within) for name, each in judged if each.within is not None]
    yield ""
    if inside:
        yield from wrapped(f"the same within tasks that have failures and successes, their mean. {_MORE}")
        rows = [["metric, within tasks", "cut", "caught", "in time", "more in time than cut", "tasks"]]
        for name, one in inside:
            shares = [f"{share:.0%}" for share in (one.cut, one.caught, one.in_time)]
            rows.append([name, *shares, _points(one.more), str(one.tasks)])
        yield from aligned(rows, 1)
    else:
        yield from wrapped(f"within tasks nothing can be said: no task has failures and successes. {_MORE}")
    yield from wrapped(
        f"the {ALPHA:.0%} are an average over tasks, and no promise of any single one. Most is cut, of the task's "
        "held-out successes:"
    )
    worst: dict[str, list[str]] = {}
    for name, found in judged:
        if (most := _most_cut(found)) is not None:
            worst.setdefault(most.task, []).append(f"{name} {most.cut} of {most.successes}")
    for task, told in worst.items():
        yield from wrapped(f"  in {_short(task)}: {', '.join(told)}", indent="    ")
    if not worst:
        yield "  nothing is cut in any"


def intervention_lines(found: Intervention, seconds: float | None) -> Iterator[str]:
    """What `--stop-when` says would have been."""
    yield ""
    yield from wrapped(
        f"had it been stopped when {found.rule}: {_share(found.caught)} of {counted(found.failures, 'failure')} "
        f"caught, {_share(found.in_time)} in time; {_share(found.cut)} of {found.successes} successes cut; lead "
        f"{_lead(found, seconds)}; {found.saved:.0%} of control steps saved"
    )
    one = found.within
    if one is None:
        yield from wrapped(f"within tasks nothing can be said: no task has failures and successes. {_MORE}")
    else:
        yield from wrapped(
            f"within tasks, the mean of {counted(one.tasks, 'task')} with failures and successes: {one.caught:.0%} "
            f"caught, {one.in_time:.0%} in time, {one.cut:.0%} cut; {_points(one.more)} more in time than cut. {_MORE}"
        )
    if (most := _most_cut(found)) is not None:
        shares = [each.cut / each.successes for each in found.by_task if each.successes]
        yield from wrapped(
            f"cut by task: {min(shares):.0%} to {max(shares):.0%} of its successes, the most in {_short(most.task)} "
            f"({most.cut} of {most.successes})"
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


def _points(each: Estimate) -> str:
    bounds = "" if each.interval is None else " [{:+.0f}, {:+.0f}]".format(*(100 * end for end in each.interval))
    return f"{100 * each.value:+.0f}{bounds}"


def _most_cut(found: Intervention) -> TaskAlarms | None:
    """The task of whose successes the largest share is cut; None: none is."""
    some = [each for each in found.by_task if each.cut]
    return max(some, key=lambda each: (each.cut / each.successes, each.cut)) if some else None


def _short(task: str) -> str:
    """Without its suite, which stands above."""
    return task.partition("/")[2] or task


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
