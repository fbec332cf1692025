"""LIBERO-Plus's tables from records: success by dimension, sub-dimension and difficulty, as its Table 10 has it.

Its rows are over episodes, not means of suites or tasks: a suite with more tasks of a dimension counts for more. Where
only a part of the list was run, a mean over what was run is no total of the list: what stands for one is weighted, each
dimension, suite and sub-dimension by the number of tasks that the list has of it.

Intervals are over these tasks: the list's entries, each with the init state that the protocol pins. Those over tasks
like these take each of LIBERO's tasks, of which entries are variations, as a cluster.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from operator import mul
from types import MappingProxyType

from pytest_vla.metrics.clustered import Interval, Unit, rate_intervals
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.records import counting
from pytest_vla.records.record import Record
from pytest_vla.suites.libero_plus.names import CATEGORIES, SUB_DIMENSIONS, SUITES, PlusTask, parse_name

LEVELS = (1, 2, 3, 4, 5, None)
"""Difficulties; None: the list does not say."""

TASKS = 10
"""Of LIBERO, in each suite."""

# By suite as in `SUITES`, of each sub-dimension in the order of `SUB_DIMENSIONS`.
_SUB_LISTED: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "camera": ((76, 82, 78, 77), (108, 105, 113, 117), (130, 132, 146, 141), (62, 77, 71, 84)),
    "robot": ((26, 34, 51, 45), (71, 77, 86, 73), (77, 92, 94, 87), (87, 98, 83, 98), (89, 97, 95, 90)),
    "language": ((390, 354, 410, 383),),
    "light": ((292, 297, 279, 274),),
    "background": ((118, 101, 123, 121), (140, 147, 158, 168)),
    "noise": ((76, 90, 80, 90), (82, 88, 82, 89), (56, 77, 67, 88), (52, 71, 60, 89), (85, 96, 90, 93)),
    "layout": ((208, 208, 240, 173), (177, 195, 185, 139)),
}
_LISTED: Mapping[str, tuple[int, ...]] = {
    dimension: tuple(map(sum, zip(*counts, strict=True))) for dimension, counts in _SUB_LISTED.items()
}

DIMENSIONS = tuple(CATEGORIES.values())
"""In the order of its leaderboard."""

TOTAL = "total"


@dataclass(frozen=True)
class Weighted:
    """A rate as if the whole list had been run, 0..1.

    Attributes:
        rate: of what was run, each dimension, suite and sub-dimension weighed by what the list has of it.
        interval: over these tasks.
        tasks_interval: over tasks like these; None of too few.
    """

    rate: float
    interval: Interval | None
    tasks_interval: Interval | None


@dataclass(frozen=True)
class PlusRates:
    """One model under one protocol.

    Attributes:
        model: the policy's name.
        protocol: of `pytest_vla.suites.libero_plus.variations.PROTOCOLS`.
        dimensions: the leaderboard's seven columns.
        total: over all episodes: no total of the list where only a part of it was run.
        levels: by difficulty.
        cells: by dimension and difficulty.
        suites: by dimension and suite of LIBERO.
        sub_dimensions: by what names tell apart within the dimensions.
        of_list: by dimension, and `TOTAL`, as if the whole list had been run; None where a suite and sub-dimension of
            it was not.
        missing: by dimension how many of its suites and sub-dimensions were not run.
        left_out: what was there and does not count, and why.
    """

    model: str
    protocol: str
    dimensions: Mapping[str, SuccessRate]
    total: SuccessRate
    levels: Mapping[int | None, SuccessRate]
    cells: Mapping[tuple[str, int | None], SuccessRate]
    suites: Mapping[tuple[str, str], SuccessRate]
    sub_dimensions: Mapping[str, SuccessRate]
    of_list: Mapping[str, Weighted | None]
    missing: Mapping[str, int]
    left_out: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all of the list was run, so that the mean over it is its total."""
        return self.total.counted == sum(entry_counts().values())


@dataclass(frozen=True)
class ModelPlus:
    """The results of a model under one protocol.

    Attributes:
        rates: its numbers.
        entries: number of different entries of the list that were run.
        unavailable: number of the list's entries in the suites run that cannot be made here, by requirement; None if
            the list is not available.
        left_out: notes on records that are not in the numbers.
    """

    rates: PlusRates
    entries: int
    unavailable: Mapping[str, int] | None
    left_out: tuple[str, ...]


def task_counts() -> Mapping[tuple[str, str], int]:
    """Return how many tasks the list has, by dimension and suite of LIBERO."""
    return MappingProxyType(
        {
            (dimension, suite): count
            for dimension, counts in _LISTED.items()
            for suite, count in zip(SUITES, counts, strict=True)
        }
    )


def dimension_counts() -> Mapping[str, int]:
    """Return the list's number of tasks, by dimension."""
    listed = task_counts()
    return {name: sum(listed[name, suite] for suite in SUITES) for name in DIMENSIONS}


def entry_counts() -> Mapping[tuple[str, str, str], int]:
    """Return the list's number of tasks, by dimension, suite of LIBERO and sub-dimension."""
    return MappingProxyType(
        {
            (dimension, suite, kind): count
            for dimension, kinds in SUB_DIMENSIONS.items()
            for kind, counts in zip(kinds, _SUB_LISTED[dimension], strict=True)
            for suite, count in zip(SUITES, counts, strict=True)
        }
    )


def plus_rates(records: Iterable[Record]) -> tuple[PlusRates, ...]:
    """Compute the tables for each model and protocol, in order of occurrence.

    Args:
        records: from any runs, in the order of their ends; benign records and those of other suites are skipped.
            `pytest_vla.metrics.selection.that_count` selects, under each protocol.
    """
    return tuple(_rates(model, protocol, found) for (model, protocol), found in by_protocol(records).items())


def by_protocol(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """Group the records of entries in LIBERO-Plus's list by model and protocol, in order of occurrence."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for (model, _), some in by_model(records).items():
        for record in some:
            if (protocol := protocol_of(record)) is not None:
                groups.setdefault((model, protocol), []).append(record)
    return groups


def protocol_of(record: Record) -> str | None:
    """Return the protocol under which an entry of LIBERO-Plus's list was run, or None for any other record."""
    return (counting.protocol_of(record) or None) if record.suite.startswith("libero_plus_") else None


def entry_name(record: Record) -> str:
    """Return the name of a record's entry in the list; empty if the record does not name one."""
    return str(record.variation.get("parameters", {}).get("name", ""))


def _rates(model: str, protocol: str, records: Sequence[Record]) -> PlusRates:
    counted: list[tuple[Record, PlusTask]] = []
    left_out: list[str] = []
    for (_, suite), found in by_model(records).items():
        selected = that_count(found)
        counted += [(record, parse_name(entry_name(record))) for record in selected.records]
        left_out += [f"{suite}: {each}" for each in selected.left_out]

    def rate(
        name: str, dimension: str = "", suite: str = "", kind: str = "", levels: Sequence[int | None] = LEVELS
    ) -> SuccessRate:
        chosen = [
            record
            for record, task in counted
            if dimension in ("", task.dimension)
            and suite in ("", task.suite)
            and kind in ("", task.sub_dimension)
            and record.variation.get("level") in levels
        ]
        return success_rate(name, chosen, _entry_of)

    pairs = [(name, kind) for name, kinds in SUB_DIMENSIONS.items() for kind in kinds]
    cells = {
        (name, level): rate(f"{name} {_level(level)}", name, levels=[level]) for name in DIMENSIONS for level in LEVELS
    }
    suites = {(name, suite): rate(f"{name} {suite}", name, suite) for name in DIMENSIONS for suite in SUITES}
    of_list, missing = _of_list(counted)
    if any(of_list.values()):
        left_out += _of_part(counted)
    return PlusRates(
        model,
        protocol,
        {name: rate(name, name) for name in DIMENSIONS},
        rate(TOTAL),
        {level: rate(_level(level), levels=[level]) for level in LEVELS},
        {key: each for key, each in cells.items() if each.episodes},
        {key: each for key, each in suites.items() if each.episodes},
        {kind: each for name, kind in pairs if (each := rate(kind, name, kind=kind)).episodes},
        of_list,
        missing,
        tuple(left_out),
    )


def _of_part(counted: Sequence[tuple[Record, PlusTask]]) -> Iterator[str]:
    """Yield notes if only some tasks or difficulties were run, because each cell of the list has some of all."""
    tasks = {(task.suite, record.task_key) for record, task in counted}
    suites = {suite for suite, _ in tasks}
    levels = {record.variation.get("level") for record, _ in counted} - {None}
    told = []
    if len(tasks) < TASKS * len(suites):
        told.append(f"{len(tasks)} of {TASKS * len(suites)} tasks")
    if lacking := sorted(set(filter(None, LEVELS)) - levels):
        told.append(f"no difficulty {', '.join(map(str, lacking))}")
    if told:
        yield f"only {' and '.join(told)} were run; 'whole list' assumes the same rates for the rest"


def _of_list(counted: Sequence[tuple[Record, PlusTask]]) -> tuple[dict[str, Weighted | None], dict[str, int]]:
    """Return the weighted rate for each dimension and for all, and the number of missing cells by dimension."""
    measured = [(record, (task.dimension, task.suite, task.sub_dimension)) for record, task in counted]
    measured = [(record, cell) for record, cell in measured if is_counted(record)]
    listed, run = entry_counts(), Counter(cell for _, cell in measured)
    found: dict[str, Weighted | None] = dict.fromkeys((*DIMENSIONS, TOTAL))
    missing = {name: sum(cell[0] == name and not run[cell] for cell in listed) for name in DIMENSIONS}
    for name in (*DIMENSIONS, TOTAL):
        if any(lacking for each, lacking in missing.items() if name in (each, TOTAL)):
            continue
        some = [(record, cell) for record, cell in measured if name in (cell[0], TOTAL)]
        weights = [listed[cell] / run[cell] for _, cell in some]
        successes = [float(record.outcome == "success") for record, _ in some]
        rate = fsum(map(mul, weights, successes)) / fsum(weights)
        found[name] = Weighted(rate, *rate_intervals(successes, [_entry_of(record) for record, _ in some], weights))
    return found, missing


def _entry_of(record: Record) -> Unit:
    """Return an episode's task of LIBERO, and its entry of the list."""
    return f"{record.suite}/{record.task_key}", record.case


def _level(level: int | None) -> str:
    return "no level" if level is None else f"L{level}"
