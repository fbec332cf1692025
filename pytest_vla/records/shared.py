"""What records of one run have alike, kept once: most of a record's tables are those of all others. Pure."""

import dataclasses
from sys import intern
from typing import Any

from pytest_vla.records.counting import share_conditions
from pytest_vla.records.record import Record

_TEXTS = ("run", "suite", "task", "worker", "instruction", "outcome", "policy", "policy_digest", "task_level", "group")
_KEYED = ("metrics", "timings")
_TABLES = ("seeds", "provenance")

_MOST = 10_000
"""Tables that are remembered: of a run in which each differs they would be a second copy of all."""


class SharedParts:
    """Gives records that hold the same objects where they are equal: a quarter of the memory of a run's records."""

    def __init__(self) -> None:
        self._tables: dict[Any, Any] = {}
        self._conditions: dict[Any, Any] = {}

    def of(self, record: Record) -> Record:
        """An equal record. Its tables are not to be changed, as no record's are."""
        values: dict[str, Any] = {}
        for name in _TEXTS:
            if type(text := getattr(record, name)) is str:
                values[name] = intern(text)
        for name in _KEYED:
            values[name] = {intern(key): value for key, value in getattr(record, name).items()}
        for name in _TABLES:
            table = getattr(record, name)
            values[name] = self._one_of((name, *table.items()), table)
        values["protocol"] = self._one_of(("protocol", repr(record.protocol)), record.protocol)
        if not record.variation:
            values["variation"] = self._one_of("variation", record.variation)
        record = dataclasses.replace(record, **values)
        if len(self._conditions) < _MOST:
            share_conditions(record, self._conditions)
        return record

    def _one_of(self, key: Any, table: Any) -> Any:
        if len(self._tables) >= _MOST:
            return self._tables.get(key, table)
        return self._tables.setdefault(key, table)
