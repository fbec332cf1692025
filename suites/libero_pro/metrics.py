"""LIBERO-PRO's Tables 2 to 5 from records: success by suite under each kind of change, with intervals.

Errors and invalid episodes are in no rate. How far success falls from the original's is the report's of variations
(`pytest_vla.metrics.robustness`), of whose kinds these are.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pytest_vla.metrics.robustness import dimension_of
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.case import UPSTREAM, last_part
from pytest_vla.records.record import Record
from pytest_vla.util.text import counted

DIMENSION = "pro"
"""The dimension of LIBERO-PRO's variations."""

ORIGINAL = "Ori"
"""The column of the tasks as they are."""

ATTRIBUTES = "object"
"""The dimension of the object's colour, texture and size."""

COLUMNS: Mapping[str, tuple[str, str]] = {
    "Obj": (ATTRIBUTES, ""),
    "Pos": (DIMENSION, "swap"),
    "Sem": (DIMENSION, "semantic"),
    "Task": (DIMENSION, "task"),
    "Env": (DIMENSION, "environment"),
}
"""The other columns of the paper, in its order, and the dimension and kind of each; without a kind, all kinds."""

REPLACED = "object"
"""The kind of upstream's code, objects of other categories: in no column of the paper's."""

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
        sweeps: of each suite and kind of displacement, success by level; level 0 is the task as it is. Over the tasks
            that have all levels which were run, so that levels differ in nothing else.
        replaced: of each suite, success with objects of other categories.
        combined: of each suite, success by what was combined, such as ``swap-object``.
        left_out: what was there and does not count, and why.
    """

    model: str
    suites: tuple[ProRow, ...]
    tasks: Mapping[str, tuple[ProRow, ...]]
    sweeps: Mapping[tuple[str, str], Mapping[int, SuccessRate]]
    replaced: Mapping[str, SuccessRate]
    combined: Mapping[str, Mapping[str, SuccessRate]]
    left_out: tuple[str, ...]

    def tasks_in(self, suite: str, column: str) -> int:
        """Count a suite's tasks in a column."""
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
    """Return the table of each model with episodes under LIBERO-PRO's variations, in order of occurrence.

    Args:
        records: from any runs, in the order of their ends; `pytest_vla.metrics.selection.that_count` selects.
    """
    models: dict[str, list[tuple[str, tuple[Record, ...], tuple[str, ...]]]] = {}
    for (model, suite), some in by_model(records).items():
        selected = that_count(some)
        ours = tuple(record for record in selected.records if not record.variation or is_ours(record))
        if any(record.variation for record in ours):
            models.setdefault(model, []).append((suite, ours, selected.left_out))
    return tuple(_table(model, suites) for model, suites in models.items())


def undrawn_in(records: Iterable[Record]) -> Counter[str]:
    """Count episodes for which a variation could not be drawn, by reason."""
    found: Counter[str] = Counter()
    for record in records:
        parameters = record.variation.get("parameters", {})
        named = [parameters.get(name) for name in ("unavailable", "left_out")]
        found.update({str(each) for names in named if isinstance(names, list) for each in names})
    return found


def _table(model: str, suites: Sequence[tuple[str, tuple[Record, ...], tuple[str, ...]]]) -> ProTable:
    tasks, sweeps, replaced, combined = {}, {}, {}, {}
    unswept: list[str] = []
    for suite, records, _ in suites:
        names = sorted({record.task_key for record in records})
        tasks[suite] = tuple(_row(name, [record for record in records if record.task_key == name]) for name in names)
        for kind in SWEEPS:
            of_kind = _of(records, DIMENSION, kind)
            if of_kind:
                sweeps[suite, kind], lacking = _sweep(of_kind, records)
                if lacking:
                    unswept.append(
                        f"{suite}, {kind}: {counted(lacking, 'task')} without an episode of every level that was run: "
                        "in no column"
                    )
        if others := _of(records, DIMENSION, REPLACED):
            replaced[suite] = success_rate(REPLACED, others, unit_of)
        if together := _of(records, DIMENSION, COMBINED):
            combined[suite] = _rates(together, lambda record: last_part(str(record.variation["label"])))
    rows = tuple(_row(suite, records) for suite, records, _ in suites)
    left_out = tuple(f"{suite}: {why}" for suite, _, reasons in suites for why in reasons)
    return ProTable(model, rows, tasks, sweeps, replaced, combined, (*left_out, *unswept))


def _sweep(of_kind: Sequence[Record], records: Sequence[Record]) -> tuple[dict[int, SuccessRate], int]:
    """Success by level over the tasks that have all levels, and how many tasks have not."""

    def level_of(record: Record) -> int:
        return int(record.variation.get("level") or 0)

    levels = {level_of(record) for record in of_kind}
    by_task: dict[str, set[int]] = {}
    for record in filter(is_counted, of_kind):
        by_task.setdefault(record.task_key, set()).add(level_of(record))
    whole = {task for task, known in by_task.items() if known == levels}
    benign = [record for record in records if not record.variation and record.task_key in whole]
    swept = [record for record in of_kind if record.task_key in whole]
    return _rates([*benign, *swept], level_of), len({record.task_key for record in of_kind} - whole)


def _row(name: str, records: Sequence[Record]) -> ProRow:
    found = {ORIGINAL: [record for record in records if not record.variation]}
    found |= {column: _of(records, *which) for column, which in COLUMNS.items()}
    # A model has one protocol's: of two, the default's.
    found["Env"] = found["Env"] or _of(records, DIMENSION, f"{COLUMNS['Env'][1]}_{UPSTREAM}")
    return ProRow(
        name, {column: success_rate(column, some, unit_of) if some else None for column, some in found.items()}
    )


def _of(records: Sequence[Record], dimension: str, kind: str = "") -> list[Record]:
    """Return the records in a dimension and, if named, of a kind."""
    return [record for record in records if dimension_of(record) == dimension and kind in ("", _kind(record))]


def _rates(records: Sequence[Record], key: Callable[[Record], Key]) -> dict[Key, SuccessRate]:
    keys = sorted({key(record) for record in records})
    return {each: success_rate(str(each), [r for r in records if key(r) == each], unit_of) for each in keys}


def is_ours(record: Record) -> bool:
    """Whether a record's variation is in these tables."""
    return dimension_of(record) in (DIMENSION, ATTRIBUTES)


def _kind(record: Record) -> str:
    """Return the kind of a record's variation, or empty without a variation."""
    return str(record.variation.get("kind")) if record.variation else ""
