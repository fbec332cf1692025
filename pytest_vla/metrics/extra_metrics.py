"""Means of the further numbers that packages and projects keep of episodes (`pytest_vla.entries.MetricEntry`).

Over successes and failures, as rates are, by what is not to be in one rate with others. An episode that has no such
number is missing from the mean and counted beside it. Intervals are Student's over tasks and seeds, and over tasks,
within what the number can be; of shares that are 0 or 1 in each episode a rate's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_vla import extensions
from pytest_vla.entries import MetricEntry
from pytest_vla.errors import STOPPED, VlaError
from pytest_vla.metrics.clustered import Interval, Unit, mean_intervals, rate_intervals
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.rates import groups_of
from pytest_vla.metrics.selection import by_model, is_counted, run_of, that_count
from pytest_vla.metrics.success import unit_of
from pytest_vla.records.counting import ALARM
from pytest_vla.records.record import (
    ASKED_DONE,
    BEGAN,
    CLIPPED,
    DRIFT,
    HELD_STEPS,
    LARGEST_ACTION,
    LARGEST_DRIFT,
    VACATED,
    Record,
)
from pytest_vla.util.text import counted, did_you_mean

if TYPE_CHECKING:
    from pytest_vla.metrics.alarms import AlarmRule


_OURS = re.compile(rf"{ASKED_DONE}|{CLIPPED}|{HELD_STEPS}|{LARGEST_ACTION}|{VACATED}_.+_[xyz]|{BEGAN}_.+")

_ANY = (-inf, inf)

_MOST_GROUPS = 50
"""Beyond this many, levels of a variation are together."""


@dataclass(frozen=True)
class FurtherMean:
    """The mean of one further number over the counted episodes of one group.

    Attributes:
        name: of the number.
        group: what is varied, ``benign`` where nothing is; empty where no episode is varied.
        episodes: successes and failures of the group.
        missing: the cases of those that have no such number.
        mean: of the others, in the number's own unit; None where there are none.
    """

    name: str
    group: str
    episodes: int
    missing: tuple[str, ...]
    mean: GroundingEstimate | None


@dataclass(frozen=True)
class Further:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        means: by number and group, of the suite's own items by its name and of each test of the user's by the test's:
            they may run a suite's cases again, so no mean is over both.
        left_out: what is in no mean, and why.
        records: of which the means are made.
    """

    model: str
    suite: str
    means: Mapping[str, tuple[FurtherMean, ...]]
    left_out: tuple[str, ...]
    records: tuple[Record, ...]


def further(records: Sequence[Record]) -> tuple[Further, ...]:
    """Return the models with extra metrics, each suite separately.

    Args:
        records: from any runs, in the order of their ends; `pytest_vla.metrics.selection.that_count` selects.
    """
    found: list[Further] = []
    if not any(any(further_names(record)) for record in records):
        return ()
    for (model, suite), some in by_model(records).items():
        selected = {origin: that_count(records) for origin, records in by_origin(some).items()}
        means = {origin: made for origin, each in selected.items() if (made := further_means(each.records))}
        if means:
            left_out = [
                text if origin == suite else f"{origin}: {text}"
                for origin in means
                for text in selected[origin].left_out
            ]
            counted = (record for origin in means for record in selected[origin].records if is_counted(record))
            found.append(Further(model, suite, means, tuple(left_out), tuple(counted)))
    return tuple(found)


def by_origin(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records that may share a mean: each suite's own items, by suite, then each of the user's tests."""
    suites: dict[str, list[Record]] = {}
    own: dict[str, list[Record]] = {}
    for record in records:
        if record.of_suite:
            suites.setdefault(record.suite, []).append(record)
        else:
            own.setdefault(record.node.partition("[")[0], []).append(record)
    return {suite: suites[suite] for suite in sorted(suites)} | own


def further_means(records: Sequence[Record], expected: Iterable[str] = ()) -> tuple[FurtherMean, ...]:
    """Return the means of all extra metrics over records that count.

    Args:
        records: one model's, in one suite or one test.
        expected: names to report even if no record has them.
    """
    counted = list(filter(is_counted, records))
    names = sorted({*expected, *(name for record in counted for name in further_names(record))})
    if not names or not counted:
        return ()
    groups = groups_of(counted) if any(record.variation for record in counted) else {"": counted}
    if len(groups) > _MOST_GROUPS:
        groups = groups_of(counted, by_level=False)
    return tuple(_mean_of(name, group, some) for name in names for group, some in groups.items())


def further_names(record: Record) -> Iterator[str]:
    """Yield the names of a record's metrics that other packages or the user's code gave."""
    return (name for name in record.metrics if not _OURS.fullmatch(name))


def _mean_of(name: str, group: str, records: Sequence[Record]) -> FurtherMean:
    having = [record for record in records if name in record.metrics]
    missing = tuple(record.case for record in records if name not in record.metrics)
    if not having:
        return FurtherMean(name, group, len(records), missing, None)
    values = [record.metrics[name] for record in having]
    intervals = _intervals(values, [unit_of(record) for record in having], range_of(name))
    return FurtherMean(name, group, len(records), missing, GroundingEstimate(fmean(values), *intervals))


def range_of(name: str) -> Interval:
    """Return the least and the largest possible value that the metric declares; unbounded if it declares none."""
    if name in (DRIFT, LARGEST_DRIFT):
        return 0.0, inf
    try:
        known = extensions.metrics()
    except VlaError:
        # It is told where the metrics are asked for.
        return _ANY
    metric, _, further = (name, "", "") if name in known else name.rpartition(".")
    return known[metric].within.get(further, _ANY) if metric in known else _ANY


def _intervals(
    values: Sequence[float], units: Sequence[Unit], within: Interval
) -> tuple[Interval | None, Interval | None]:
    """Compute the intervals of a mean over these tasks and over tasks like these.

    A share that is 0 or 1 in each episode gets a rate's interval: sixteen zeros do not make it certain. If the values
    of any other metric are all alike, nothing is known about their variance, and the mean has no interval.
    """
    if within == (0.0, 1.0) and {*values} <= {0.0, 1.0}:
        return rate_intervals(values, units)
    if min(values) == max(values):
        return None, None
    over, like = mean_intervals(values, units)
    return _clipped(over, within), _clipped(like, within)


def _clipped(interval: Interval | None, within: Interval) -> Interval | None:
    if interval is None:
        return None
    return max(interval[0], within[0]), min(interval[1], within[1])


# Names of metrics: a metric's own name or an alias, and the keys of its additional numbers.


def names_by_alias(entries: Mapping[str, MetricEntry]) -> dict[str, str]:
    """Return the metric for each name, in lower case, that means one.

    A metric's own name always means that metric, even if it is also another one's alias.
    """
    known = {alias.lower(): name for name, entry in entries.items() for alias in entry.aliases}
    return known | {name.lower(): name for name in entries}


def with_own_name(rule: "AlarmRule", entries: Mapping[str, MetricEntry]) -> "AlarmRule":
    """Return the rule with its metric's own name, for ``TB-E`` or ``TB-E.paper``; unchanged for an unknown name."""
    known = names_by_alias(entries)
    base, _, key = rule.metric.partition(".")
    if (whole := known.get(rule.metric.lower())) is not None:
        return replace(rule, metric=whole)
    if (name := known.get(base.lower())) is None:
        return rule
    return replace(rule, metric=f"{name}.{key}")


def entry_of(series: str, entries: Mapping[str, MetricEntry]) -> tuple[MetricEntry | None, str]:
    """Return the metric that a series belongs to (None if unknown), and the series' key within the metric."""
    if (whole := entries.get(series)) is not None:
        return whole, ""
    base, _, key = series.partition(".")
    return entries.get(base), key


def live_rule(rule: "AlarmRule", entries: Mapping[str, MetricEntry]) -> "tuple[AlarmRule, MetricEntry]":
    """Return a rule that can be evaluated during an episode, with its metric's own name, and the metric.

    Raises:
        VlaError: there is no such metric, or it is known only after the episode; lists the usable ones.
    """
    found = with_own_name(rule, entries)
    entry, _ = entry_of(found.metric, entries)
    live = [name for name, each in entries.items() if each.looks_back]
    said = f"--vla-stop-when={rule}: "
    if entry is None:
        guess = did_you_mean(rule.metric.lower(), names_by_alias(entries))
        raise VlaError(f"{said}there is no metric {rule.metric}.{guess} Expected one of {', '.join(live)}")
    if not entry.looks_back:
        raise VlaError(
            f"{said}{entry.name} is known only after an episode. Use one of {', '.join(live)}; for the others, "
            "`pytest-vla report --stop-when` computes the effect afterwards"
        )
    return found, entry


# Notes on numbers that are not shown: metrics of records that do not count, and rules without a metric value.

_MOST_NAMED = 4


def hidden_notes(records: Sequence[Record], metric: str | None = None) -> Iterator[str]:
    """Yield a line for each run whose metrics are in no number, with the command that shows them.

    For each case the first complete record counts, even if metrics were requested only in a later run.

    Args:
        records: from any runs, in the order in which they ended.
        metric: only this one, or any if None.
    """
    names: dict[str, dict[str, None]] = {}
    episodes: dict[str, int] = {}
    for some in by_model(records).values():
        counting = that_count(some).records
        seen = {run_of(record): set(further_names(record)) for record in counting}
        ours = {id(record) for record in counting}
        for record in some:
            if id(record) in ours or run_of(record) not in seen:
                continue
            unseen = [
                name
                for name in further_names(record)
                if name not in seen[run_of(record)] and (metric is None or name == metric)
            ]
            if unseen:
                episodes[record.run] = episodes.get(record.run, 0) + 1
                names.setdefault(record.run, {}).update(dict.fromkeys(unseen))
    for run, number in episodes.items():
        told = sorted(names[run])
        more = f" and {len(told) - _MOST_NAMED} more" * (len(told) > _MOST_NAMED)
        have = "have" if number != 1 else "has"
        first = "the first records of their cases" if number != 1 else "the first record of its case"
        are = "are" if number != 1 else "is"
        yield (
            f"{counted(number, 'episode')} of run {run} {have} {', '.join(told[:_MOST_NAMED])}{more} and {are} not "
            f"{first}, which count: pytest-vla report {run}"
        )


def silent_rules(records: Sequence[Record]) -> Iterator[str]:
    """Yield a line for each rule of ``--vla-stop-when`` that could never ring, because no episode has its metric.

    Args:
        records: one run's.
    """
    ruled: dict[str, list[Record]] = {}
    for record in records:
        if ALARM in record.provenance and record.outcome != "error":
            ruled.setdefault(str(record.provenance[ALARM]), []).append(record)
    for text, some in ruled.items():
        from pytest_vla.metrics.alarms import parse_rule

        metric = parse_rule(text).metric
        if any(record.reason == STOPPED or metric in record.metrics for record in some):
            continue
        entry = extensions.metrics().get(metric.partition(".")[0])
        needs = (
            f": it needs {', '.join(entry.needs)}, which this policy or world does not provide"
            if entry and entry.needs
            else ""
        )
        never = f"no value in {len(some)} of {counted(len(some), 'episode')}, so the rule stopped none"
        yield f"--vla-stop-when={text}: {never}{needs}"
