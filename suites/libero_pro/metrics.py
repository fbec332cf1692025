"""LIBERO-PRO's Tables 2 to 5 from records: success by suite under each kind of change, with intervals.

Errors and invalid episodes are in no rate. How far success falls from the original's is the report's of variations
(`pytest_vla.metrics.robustness`), of whose kinds these are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.labels import last_part
from pytest_vla.records.record import Record

DIMENSION = "pro"
"""The dimension of LIBERO-PRO's variations."""

ORIGINAL = "Ori"
"""The column of the tasks as they are."""

COLUMNS: Mapping[str, str] = {
    "Obj": "object",
    "Pos": "swap",
    "Sem": "semantic",
    "Task": "task",
    "Env": "environment",
}
"""The other columns of the paper, in its order, and the kind that each is of."""

SWEEPS = ("displace_x", "displace_y")
"""The kinds whose levels are a displacement."""

COMBINED = "combined"
"""The kind whose label ends in what is combined."""

Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class ProRow:
    """A suite, or a task of one: success by column; None where no such episode was run."""

    name: str
    rates: Mapping[str, SuccessRate | None]


@dataclass(frozen=True)
class ProTable:
    """One model.

    Attributes:
        model: the policy's name.
        suites: a row a suite, in the order in which they come.
        tasks: of each suite a row a task, by name.
        sweeps: of each suite and kind of displacement, success by level, from 1 on.
        combined: of each suite, success by what was combined, such as ``swap-object``.
        left_out: what was there and does not count, and why.
    """

    model: str
    suites: tuple[ProRow, ...]
    tasks: Mapping[str, tuple[ProRow, ...]]
    sweeps: Mapping[tuple[str, str], Mapping[int, SuccessRate]]
    combined: Mapping[str, Mapping[str, SuccessRate]]
    left_out: tuple[str, ...]

    def tasks_in(self, suite: str, column: str) -> int:
        """How many of a suite's tasks are in a column."""
        return sum(task.rates[column] is not None for task in self.tasks[suite])


@dataclass(frozen=True)
class ModelPro:
    """A model's table.

    Attributes:
        table: its numbers.
        left_out: what is not in them, and why.
        unavailable: what could not be drawn where episodes were varied, with the number of such episodes.
    """

    table: ProTable
    left_out: tuple[str, ...]
    unavailable: Mapping[str, int]


def pro_tables(records: Iterable[Record]) -> tuple[ProTable, ...]:
    """The table of each model with episodes under LIBERO-PRO's variations, in the order in which they come.

    Args:
        records: of any runs, in the order of their ends; which count is `pytest_vla.metrics.selection.that_count`'s.
    """
    models: dict[str, list[tuple[str, tuple[Record, ...], tuple[str, ...]]]] = {}
    for (model, suite), some in by_model(records).items():
        selected = that_count(some)
        ours = tuple(record for record in selected.records if not record.variation or _dimension(record) == DIMENSION)
        if any(record.variation for record in ours):
            models.setdefault(model, []).append((suite, ours, selected.left_out))
    return tuple(_table(model, suites) for model, suites in models.items())


def undrawn_in(records: Iterable[Record]) -> Counter[str]:
    """What could not be drawn where episodes were varied, with the number of such episodes."""
    found: Counter[str] = Counter()
    for record in records:
        parameters = record.variation.get("parameters", {})
        named = [parameters.get(name) for name in ("unavailable", "left_out")]
        found.update({str(each) for names in named if isinstance(names, list) for each in names})
    return found


def _table(model: str, suites: Sequence[tuple[str, tuple[Record, ...], tuple[str, ...]]]) -> ProTable:
    tasks, sweeps, combined = {}, {}, {}
    for suite, records, _ in suites:
        names = sorted({record.task_key for record in records})
        tasks[suite] = tuple(_row(name, [record for record in records if record.task_key == name]) for name in names)
        for kind in SWEEPS:
            of_kind = [record for record in records if _kind(record) == kind]
            if of_kind:
                sweeps[suite, kind] = _rates(of_kind, lambda record: int(record.variation.get("level") or 0))
        together = [record for record in records if _kind(record) == COMBINED]
        if together:
            combined[suite] = _rates(together, lambda record: last_part(str(record.variation["label"])))
    rows = tuple(_row(suite, records) for suite, records, _ in suites)
    left_out = tuple(f"{suite}: {why}" for suite, _, reasons in suites for why in reasons)
    return ProTable(model, rows, tasks, sweeps, combined, left_out)


def _row(name: str, records: Sequence[Record]) -> ProRow:
    columns = {ORIGINAL: "", **COLUMNS}
    return ProRow(name, {column: _rate(column, records, kind) for column, kind in columns.items()})


def _rate(column: str, records: Sequence[Record], kind: str) -> SuccessRate | None:
    found = [record for record in records if _kind(record) == kind]
    return success_rate(column, found, unit_of) if found else None


def _rates(records: Sequence[Record], key: Callable[[Record], Key]) -> dict[Key, SuccessRate]:
    keys = sorted({key(record) for record in records})
    return {each: success_rate(str(each), [r for r in records if key(r) == each], unit_of) for each in keys}


def _dimension(record: Record) -> str:
    return str(record.variation.get("dimension"))


def _kind(record: Record) -> str:
    """Of its variation; empty: it has none."""
    return str(record.variation.get("kind")) if record.variation else ""
