"""Means of the further numbers that packages and projects keep of episodes (`pytest_vla.entries.MetricEntry`).

Over successes and failures, as rates are, by what is not to be in one rate with others. An episode that has no such
number is missing from the mean and counted beside it. Intervals are Student's over tasks and seeds, and over tasks,
within what the number can be; of shares that are 0 or 1 in each episode a rate's.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import Interval, Unit, mean_intervals, rate_intervals
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.rates import groups_of
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.success import unit_of
from pytest_vla.records.record import ASKED_DONE, CLIPPED, LARGEST_ACTION, VACATED, Record

_OURS = re.compile(rf"{ASKED_DONE}|{CLIPPED}|{LARGEST_ACTION}|{VACATED}_.+_[xyz]")

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
    mean: Estimate | None


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
    """The models with further numbers, each suite by itself.

    Args:
        records: of any runs, in the order of their ends; which count is `pytest_vla.metrics.selection.that_count`'s.
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
    """What no mean is over together: each suite's own items, by its name, and then each test of the user's."""
    suites: dict[str, list[Record]] = {}
    own: dict[str, list[Record]] = {}
    for record in records:
        if record.of_suite:
            suites.setdefault(record.suite, []).append(record)
        else:
            own.setdefault(record.node.partition("[")[0], []).append(record)
    return {suite: suites[suite] for suite in sorted(suites)} | own


def further_means(records: Sequence[Record], expected: Iterable[str] = ()) -> tuple[FurtherMean, ...]:
    """The means of all further numbers of some records that count.

    Args:
        records: of one model and suite, or of one test.
        expected: names of numbers that are told of also where no record has them.
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
    """The names of a record's numbers that others keep, and not pytest-vla itself."""
    return (name for name in record.metrics if not _OURS.fullmatch(name))


def _mean_of(name: str, group: str, records: Sequence[Record]) -> FurtherMean:
    having = [record for record in records if name in record.metrics]
    missing = tuple(record.case for record in records if name not in record.metrics)
    if not having:
        return FurtherMean(name, group, len(records), missing, None)
    values = [record.metrics[name] for record in having]
    intervals = _intervals(values, [unit_of(record) for record in having], range_of(name))
    return FurtherMean(name, group, len(records), missing, Estimate(fmean(values), *intervals))


def range_of(name: str) -> Interval:
    """The least and the largest that a number can be, as who gives it says; of others any."""
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
    """Of a mean over these tasks and over tasks like these.

    A share that is 0 or 1 in each episode has a rate's: sixteen times 0 do not make it sure. Of other numbers that are
    all alike nothing is known of how far they stray, and the mean has none.
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
