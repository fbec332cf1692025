"""The store of all runs and records: one SQLite file in the results folder, beside the runs' folders of trajectories.

Tables for people with the sqlite3 tool: ``runs``, ``items`` (each run's items, with their status in pytest),
``episodes`` (one row a record, never overwritten), ``results`` (for each item the episode that counts, by
`pytest_vla.records.counting`) and ``records`` (an episode's record, as JSON). Only the process with the pytest session
writes.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import task_key_of
from pytest_vla.records.checks import OUTCOMES, is_run_name, is_time, parse_json
from pytest_vla.records.counting import COMPLETE, Repeats, key_of, takes_over
from pytest_vla.records.database import (
    INT,
    MAYBE_INT,
    MAYBE_REAL,
    MAYBE_TEXT,
    TEXT,
    Database,
    connect,
    damaged,
    sqlite_errors,
)
from pytest_vla.records.items import DECIDED, SHARED, STATUSES, RunItem, ending_of
from pytest_vla.records.names import LAST_RUN
from pytest_vla.records.record import SCHEMA, STEPS, Record, parse_record, record_line
from pytest_vla.records.runs import Count, Run, is_alive, this_process
from pytest_vla.util.text import did_you_mean, printable, quoted

if TYPE_CHECKING:
    import sqlite3


# Reading of runs, with checks, since a store may be untrusted.

# Null: no variation, whose label would stand before the seed. Only of others the record has to be read.
PROBE = (
    "CASE WHEN case_id LIKE '%[seed%' THEN NULL ELSE"
    " (SELECT coalesce(json_extract(line, '$.variation.probe'), 0) FROM records WHERE episode = e.id) END"
)
# Of a label with parameters that a file of cases gives, as `pytest_vla.plan.case.chosen` writes it. A task as it is
# has none: the record says that a file named it, and is read of runs with such a file alone.
_HEX = "[0-9a-f]" * 8
_HAS_FILE = (
    "run IN (SELECT name FROM runs WHERE"
    " CASE WHEN json_valid(invocation) THEN json_extract(invocation, '$.settings.cases') END IS NOT NULL)"
)
GIVEN = (
    f"(case_id GLOB '*[[]*-x{_HEX}-seed*' OR case_id GLOB '*[[]*-x{_HEX}+*-seed*' OR {_HAS_FILE} AND"
    " (SELECT coalesce(json_extract(line, '$.given'), 0) FROM records WHERE episode = e.id))"
)
_RUN_STATUSES = ("running", "finished", "stopped")
# The columns of a run, with what they hold.
_OF_RUNS = {
    "name": TEXT,
    "started": TEXT,
    "ended": MAYBE_TEXT,
    "status": TEXT,
    "command": TEXT,
    "model": TEXT,
    "invocation": TEXT,
    "host": TEXT,
    "pid": INT,
    "process": MAYBE_TEXT,
    "planned": INT,
    "picked": MAYBE_TEXT,
}
COMPLETE_SQL = f"({', '.join(map(repr, COMPLETE))})"


def read_runs(database: Database, *name: str) -> tuple[Run, ...]:
    """Return all runs, the newest first, or the one with this full name. Raises VlaError if a row is invalid."""
    whose, which = ("WHERE run = ?", "WHERE name = ?") if name else ("", "")
    counts: dict[str, list[Count]] = {}
    rows = database.rows(
        (TEXT, TEXT, INT, MAYBE_INT, INT, TEXT, MAYBE_TEXT, INT),
        f"SELECT run, suite, of_suite, {PROBE}, {GIVEN}, outcome, reason, count(*) FROM results AS e {whose}"
        " GROUP BY 1, 2, 3, 4, 5, 6, 7",
        *name,
    )
    database.check_words(OUTCOMES, (row[5] for row in rows))
    _check_items(database, *name)
    for run, suite, of_suite, probe, given, outcome, reason, number in rows:
        count = Count(suite, bool(of_suite), probe is not None, bool(probe), bool(given), outcome, reason, number)
        counts.setdefault(run, []).append(count)
    repeats = {
        run: Repeats(*numbers)
        for run, *numbers in database.rows(
            (TEXT, INT, INT, INT, INT),
            "SELECT e.run, count(*), count(DISTINCT c.id), sum(e.outcome != c.outcome), sum(e.digest != c.digest)"
            " FROM episodes AS e JOIN items AS i ON i.run = e.run AND i.node = e.node"
            f" JOIN episodes AS c ON c.id = i.counting WHERE e.id != c.id AND e.outcome IN {COMPLETE_SQL}"
            f" {'AND e.run = ?' if name else ''} GROUP BY 1",
            *name,
        )
    }
    # A digest that an unvaried task has twice is a copy, unless a policy that draws did the same by luck.
    copies = dict(
        database.rows(
            (TEXT, INT),
            "SELECT run, sum(n - 1) FROM"
            f" (SELECT run, count(*) AS n FROM results AS e WHERE outcome IN {COMPLETE_SQL} AND {PROBE} IS NULL"
            f" {'AND run = ?' if name else ''} GROUP BY run, suite, task, of_suite, digest) GROUP BY 1",
            *name,
        )
    )
    decided = dict(
        database.rows(
            (TEXT, INT),
            "SELECT run, count(*) FROM items WHERE status = ? AND episode AND own IS NULL"
            f" {'AND run = ?' if name else ''} GROUP BY 1",
            *(DECIDED, *name),
        )
    )
    # Only the record has the policy's digest.
    policies = dict(
        database.rows(
            (TEXT, INT),
            "SELECT run, count(DISTINCT CASE WHEN json_valid(r.line) THEN json_extract(r.line, '$.policy_digest') END)"
            f" FROM results AS e JOIN records AS r ON r.episode = e.id WHERE outcome IN {COMPLETE_SQL}"
            f" {'AND run = ?' if name else ''} GROUP BY 1",
            *name,
        )
    )
    statement = f"SELECT {', '.join(_OF_RUNS)} FROM runs {which} ORDER BY id DESC"
    rows = database.rows([*_OF_RUNS.values()], statement, *name)
    tables = [dict(zip(_OF_RUNS, row, strict=True)) for row in rows]
    for table in tables:
        _check_run(database, table)
        table |= {"invocation": _invocation(database.file, table), "counts": tuple(counts.get(table["name"], ()))}
        table |= {"repeats": repeats.get(table["name"], Repeats()), "decided": decided.get(table["name"], 0)}
        # Digests of a log cover the outcome alone: equal ones are no copies.
        of_run = 0 if "imported" in table["invocation"] else copies.get(table["name"], 0)
        table |= {"copies": of_run, "policies": policies.get(table["name"], 0)}
    return tuple(Run(**table) for table in tables)


# A record is there twice: as JSON, which reports and gates read, and as columns, which are counted. Both have to say
# the same, and items have to name their own episodes: a store could be made to pass in one and to fail in the other.

_COLUMNS = ("outcome", "reason", "case_id", "run", "steps", "digest")
_SHOWN = ", ".join(f"e.{name}" for name in _COLUMNS)
_of_columns = attrgetter(*(name.removesuffix("_id") for name in _COLUMNS))
# The same in SQL, without reading the records: of what is counted alone, as each value costs a tenth of a listing.
_DISAGREES = "CASE WHEN json_valid(r.line) THEN json_extract(r.line, '$.schema') BETWEEN {} AND {} AND ({}) END".format(
    *(min(STEPS), SCHEMA),
    " OR ".join(
        f"json_extract(r.line, '$.{name.removesuffix('_id')}') IS NOT e.{name}" for name in (*_COLUMNS[:4], "suite")
    ),
)


def _parsed(file: Path, run: str, line: str) -> Record:
    try:
        return parse_record(line)
    except VlaError as error:
        raise VlaError(f"{file}: run {run}: {error}") from error


def check_columns(file: Path, record: Record, columns: tuple[Any, ...]) -> None:
    """Raise VlaError if a record differs from its columns: the values of `_COLUMNS`."""
    for name, value, column in zip(_COLUMNS, _of_columns(record), columns, strict=True):
        if value != column:
            shown = f"{quoted(column)}, and its record has {quoted(value)}"
            raise damaged(file, f"run {record.run}: {printable(record.case)[:200]}: its column {name} has {shown}")


def _check_items(database: Database, *name: str) -> None:
    """Raise VlaError if an item counts an episode of another item, or one whose columns its record does not have."""
    found = database.rows(
        (TEXT, TEXT, MAYBE_INT),
        "SELECT i.run, i.node, e.id FROM items AS i LEFT JOIN episodes AS o ON o.id = i.own"
        " LEFT JOIN episodes AS e ON e.id = i.counting LEFT JOIN records AS r ON r.episode = e.id"
        f" WHERE coalesce(i.own, i.counting) IS NOT NULL {'AND i.run = ?' if name else ''}"
        " AND (o.run IS NOT i.run OR o.node IS NOT i.node OR e.case_key IS NOT o.case_key"
        " OR i.own IS NOT i.counting AND (SELECT picked FROM runs WHERE name = i.run) IS NULL"
        f" OR {_DISAGREES}) LIMIT 1",
        *name,
    )
    for run, node, number in found:
        columns = f"SELECT r.line, {_SHOWN} FROM episodes AS e JOIN records AS r ON r.episode = e.id WHERE e.id = ?"
        for line, *row in database.rows((TEXT,), columns, number):
            check_columns(database.file, _parsed(database.file, run, line), tuple(row))
        raise damaged(database.file, f"run {run}: {printable(node)[:200]}: its columns are not those of its record")


def read_invocations(database: Database) -> dict[str, dict[str, Any]]:
    """Return the invocation of each run, the oldest first. Raises VlaError if one is invalid."""
    rows = database.rows((TEXT, TEXT), "SELECT name, invocation FROM runs ORDER BY id")
    return {name: _invocation(database.file, {"name": name, "invocation": text}) for name, text in rows}


def _check_run(database: Database, table: Mapping[str, Any]) -> None:
    """Refuse a run that we have not written; its name is used as a folder's and a picture's."""
    if not is_run_name(table["name"]):
        expected = "expected letters, digits, _ . and - only"
        raise damaged(database.file, f"a run is called {quoted(table['name'])}: {expected}")
    database.check_words(_RUN_STATUSES, [table["status"]])
    for name in ("started", "ended"):
        if table[name] is not None and not is_time(table[name]):
            raise damaged(database.file, f"run {table['name']} {name} at {quoted(table[name])}, no time")


def _invocation(file: Path, table: Mapping[str, Any]) -> dict[str, Any]:
    try:
        found = parse_json(table["invocation"])
    except VlaError as error:
        raise damaged(file, f"the invocation of run {table['name']}: {error}") from error
    settings = found.get("settings", {}) if isinstance(found, dict) else None
    data = settings.get("data") if isinstance(settings, dict) else 0
    if not isinstance(data, str | None) or "\0" in (data or ""):
        raise damaged(file, f"the invocation of run {table['name']} is not as pytest-vla writes it")
    return dict(found)


# Records of earlier runs that count for a run with --lf or a similar selection.


@dataclass(frozen=True)
class Earlier:
    """The record of an earlier run that counts for an item which was selected by that run's outcomes.

    Attributes:
        node: the item's id.
        record: the case's first complete record.
        status: the item's status in that run, or None if it is not known.
        equal: whether the item's own record equals it, bit for bit.
    """

    node: str
    record: Record
    status: str | None
    equal: bool


def read_earlier(
    database: Database, name: str, parsed: Callable[[Sequence[int]], Iterator[Record]]
) -> tuple[Earlier, ...]:
    """Return the items of a run (its full name) for which a record of an earlier run counts."""
    rows = database.rows(
        (TEXT, INT, TEXT, MAYBE_TEXT, INT),
        "SELECT i.node, c.id, c.run, first.status, c.digest = o.digest FROM items AS i"
        " JOIN episodes AS c ON c.id = i.counting JOIN episodes AS o ON o.id = i.own"
        " LEFT JOIN items AS first ON first.run = c.run AND first.node = c.node"
        " WHERE i.run = ? AND i.counting != i.own ORDER BY c.id",
        name,
    )
    records = parsed([number for _, number, *_ in rows])
    return tuple(
        Earlier(node, record, status, bool(equal))
        for (node, _, _, status, equal), record in zip(rows, records, strict=True)
    )


def read_before(database: Database, name: str) -> tuple[int, int]:
    """Return how many of a run's cases an earlier run had completed, and how many of these with another outcome.

    Args:
        database: the store's database.
        name: the run's full name.
    """
    ((number, otherwise),) = database.rows(
        (INT, INT),
        "SELECT count(*), ifnull(sum(first.outcome != o.outcome), 0) FROM items AS i"
        " JOIN episodes AS o ON o.id = i.own"
        " JOIN episodes AS first ON first.id = (SELECT id FROM episodes WHERE case_key = o.case_key"
        f" AND run != i.run AND id < o.id AND outcome IN {COMPLETE_SQL} ORDER BY id LIMIT 1)"
        f" WHERE i.run = ? AND o.outcome IN {COMPLETE_SQL}",
        name,
    )
    return number, otherwise


# Records that are written into the store, each with what it changes of what counts.

_EPISODE = ("run", "of_suite", "suite", "task", "seed", "attempt", "outcome", "reason", "steps", "digest", "started")


class _Before(NamedTuple):
    """The known record of an item, as a `pytest_vla.records.counting.RecordAttempt`."""

    outcome: str
    started: str
    attempt: int


def add_record(connection: "sqlite3.Connection", record: Record) -> None:
    """Write a record of a run that has begun, and update its item's record that counts; within a transaction."""
    item = (record.run, encodable(record.node))
    known = "SELECT 1 FROM items WHERE run = ? AND node = ? AND episode"
    if connection.execute(known, item).fetchone() is None:
        connection.execute(
            "INSERT INTO items (run, node, position, episode)"
            " SELECT ?, ?, ifnull(max(position), -1) + 1, 1 FROM items WHERE run = ?"
            " ON CONFLICT DO UPDATE SET episode = 1",
            (*item, record.run),
        )
        connection.execute("UPDATE runs SET planned = planned + 1 WHERE name = ?", (record.run,))
    key = key_of(record).text
    number = insert(
        connection,
        "episodes",
        node=item[1],
        case_id=record.case,
        case_key=key,
        wall=record.timings.get("wall"),
        ended=now(),
        **{name: getattr(record, name) for name in _EPISODE},
    )
    insert(connection, "records", episode=number, line=record_line(record))
    own = "SELECT own FROM items WHERE run = ? AND node = ?"
    before = connection.execute(f"SELECT outcome, started, attempt FROM episodes WHERE id = ({own})", item).fetchone()
    if before is None or takes_over(record, _Before(*before)):
        # For items selected by an earlier run's outcomes the case's first complete record counts.
        earlier = connection.execute(
            f"SELECT id FROM episodes WHERE case_key = ? AND run != ? AND outcome IN {COMPLETE_SQL}"
            " AND (SELECT picked FROM runs WHERE name = ?) IS NOT NULL ORDER BY id LIMIT 1",
            (key, record.run, record.run),
        ).fetchone()
        counting = number if earlier is None else earlier[0]
        connection.execute(
            "UPDATE items SET own = ?, counting = ? WHERE run = ? AND node = ?", (number, counting, *item)
        )


def insert(connection: "sqlite3.Connection", table: str, **columns: Any) -> int | None:
    """Write a row, and return its number."""
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    return connection.execute(statement, tuple(columns.values())).lastrowid


def now() -> str:
    """Return the current time, UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def encodable(text: str) -> str:
    """Return a text that SQLite accepts; names of files may not be UTF-8."""
    return text.encode(errors="backslashreplace").decode()


# Records of other stores that become a run's, in one transaction: all of them or none.


@dataclass(frozen=True)
class NewRun:
    """A new run that records are joined to.

    Attributes:
        started: the start time of its first part, UTC, ISO 8601.
        command: `pytest_vla.records.runs.Run.command`.
        model: `pytest_vla.records.runs.Run.model`.
        items: node ids in order, each with whether it is an episode, and whether several tests share that episode.
    """

    started: str
    command: str
    model: str
    items: Sequence[tuple[str, bool, bool]]


def join(
    connection: "sqlite3.Connection",
    name: str,
    begun: NewRun | None,
    records: Iterable[Record],
    statuses: Mapping[str, str],
    invocation: Mapping[str, Any],
) -> None:
    """Write records of a run and the status of its items; within a transaction.

    Args:
        connection: the connection to the store.
        name: the name of the run, which the records have too.
        begun: the run, if it is new, or None if it is in the store.
        records: the records in order.
        statuses: by node id, the items' changed statuses.
        invocation: the run's new invocation.
    """
    if begun is not None:
        _begin(connection, name, begun)
    for record in records:
        add_record(connection, record)
    connection.executemany(
        "UPDATE items SET status = ? WHERE run = ? AND node = ?",
        ((status, name, encodable(node)) for node, status in statuses.items()),
    )
    # Also what has come without a status is left, see `pytest_vla.records.items`.
    left = connection.execute("SELECT 1 FROM items WHERE run = ? AND status IS NULL LIMIT 1", (name,)).fetchone()
    connection.execute(
        "UPDATE runs SET invocation = ?, status = ?, ended = ? WHERE name = ?",
        (json.dumps(invocation), "finished" if left is None else "stopped", now(), name),
    )


def _begin(connection: "sqlite3.Connection", name: str, begun: NewRun) -> None:
    host, pid, process = this_process()
    insert(
        connection,
        "runs",
        name=name,
        started=begun.started,
        status="stopped",
        command=encodable(begun.command),
        model=encodable(begun.model),
        invocation="{}",
        host=host,
        pid=pid,
        process=process,
        planned=sum(episode for _, episode, _ in begun.items),
    )
    connection.executemany(
        "INSERT INTO items (run, node, position, episode, status) VALUES (?, ?, ?, ?, ?)",
        (
            (name, encodable(node), position, episode, SHARED if shared else None)
            for position, (node, episode, shared) in enumerate(begun.items)
        ),
    )


STORE = "results.sqlite"
LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

_PAGE = 500
_DURATION_RUNS, _DURATION_EPISODES = 10, 20_000


def open_store(results: Path, *, create: bool, timeout: float = LOCK_TIMEOUT) -> "Store":
    """Open the store of a results folder.

    Args:
        results: the folder of all runs.
        create: create folder and file if they are missing, and prepare to write.
        timeout: seconds to wait for another writing process.

    Raises:
        VlaError: the file is missing and `create` is False; it cannot be opened; it is damaged, another program's, or
            of a schema that this version cannot read. A refused file is left unchanged. With `create`, a file of an
            earlier version is migrated; without, it is read unchanged.
    """
    try:
        if create:
            _make_results_folder(results)
        connection = connect(results / STORE, create=create, timeout=timeout)
    except OSError as error:
        raise VlaError(f"cannot open records: {error}") from error
    if connection is None:
        raise no_runs(results)
    return Store(results, connection, timeout)


class Store:
    """An open store; see `open_store`. Failed reads and writes raise VlaError and change nothing."""

    def __init__(self, results: Path, connection: "sqlite3.Connection", timeout: float) -> None:
        self.results = results
        self._database = Database(results / STORE, connection, timeout)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Nothing is pending: every writing method has written when it returns."""
        self._database.connection.close()

    def begin(
        self,
        name: str,
        nodes: Sequence[str],
        *,
        command: str,
        model: str,
        invocation: Mapping[str, Any] | None = None,
        others: Sequence[str] = (),
        shared: Iterable[str] = (),
        picked: str | None = None,
    ) -> Run:
        """Add a new run of this process, and return it.

        Args:
            name: the run's name.
            nodes: node ids of the items that run an episode, in order.
            command: `Run.command`.
            model: `Run.model`.
            invocation: `Run.invocation`.
            others: node ids of its further items.
            shared: those of `nodes` whose episode is shared by several of `others`.
            picked: `Run.picked`. For the cases of such a run the first complete record of the whole store counts.
        """
        episodes = dict.fromkeys(map(encodable, nodes), True)
        items = {**dict.fromkeys(map(encodable, others), False), **episodes}
        host, pid, process = this_process()
        with self._database.transaction() as connection:
            insert(
                connection,
                "runs",
                name=name,
                started=now(),
                status="running",
                command=encodable(command),
                model=encodable(model),
                invocation=json.dumps(invocation or {}),
                host=host,
                pid=pid,
                process=process,
                planned=len(episodes),
                picked=picked,
            )
            endings = dict.fromkeys(map(encodable, shared), SHARED)
            connection.executemany(
                "INSERT INTO items (run, node, position, episode, status) VALUES (?, ?, ?, ?, ?)",
                (
                    (name, node, position, episode, endings.get(node))
                    for position, (node, episode) in enumerate(items.items())
                ),
            )
        return self.run(name)

    def resume(self, name: str) -> Run:
        """Continue an earlier run in this process, with its plan and its records.

        Raises:
            VlaError: there is no such run, or another process of this machine still runs it. A run of another machine
                is taken over, since its state is unknown here, and two writers lose nothing.
        """
        with self._database.transaction() as connection:
            run = self.run(name)
            if is_alive(run) and run.pid != os.getpid():
                raise VlaError(f"run {run.name} is still running (process {run.pid}). Wait for its end, or stop it")
            connection.execute(
                "UPDATE runs SET status = 'running', ended = NULL, host = ?, pid = ?, process = ? WHERE name = ?",
                (*this_process(), run.name),
            )
        return self.run(run.name)

    def add(self, record: Record) -> None:
        """Write a record of a run that has begun; all records of an item are kept, and one of them counts.

        An item that was not known to run an episode becomes one of the run's.
        """
        self.add_all([record])

    def add_all(self, records: Iterable[Record]) -> None:
        """Write records as `add` does: all of them, or none if anything is raised."""
        with self._database.transaction() as connection:
            for record in records:
                add_record(connection, record)

    def join(
        self,
        name: str,
        begun: NewRun | None,
        records: Iterable[Record],
        statuses: Mapping[str, str],
        invocation: Mapping[str, Any],
        check: Callable[[], None],
    ) -> Run:
        """Write records of other stores as those of a run, all or none; see `pytest_vla.records.store.join`.

        Args:
            name: the run's name.
            begun: the run, if it is new, or None.
            records: the records in order.
            statuses: by node id, the items' changed statuses.
            invocation: the run's new invocation.
            check: called within the transaction; raises if the records must no longer be written.
        """
        with self._database.transaction() as connection:
            check()
            join(connection, name, begun, records, statuses, invocation)
        return self.run(name)

    def mark(self, name: str, statuses: Mapping[str, str]) -> None:
        """Set the status of items of a run (its full name): node ids with one of `STATUSES`, or `DECIDED`."""
        self.write(name, [*statuses.items()])

    def write(self, name: str, changes: Iterable["Record | Ending"]) -> None:
        """Write records and item statuses of a run (its full name) in order: all, or none if anything is raised."""
        with self._database.transaction() as connection:
            for change in changes:
                if isinstance(change, Record):
                    add_record(connection, change)
                else:
                    node, status = change
                    marked = "UPDATE items SET status = ? WHERE run = ? AND node = ?"
                    connection.execute(marked, (status, name, encodable(node)))

    def again(self) -> "Store":
        """Open this store once more, for another thread."""
        return open_store(self.results, create=True, timeout=self._database.timeout)

    def end(self, name: str, status: str) -> None:
        """Set the final status of a run: ``finished`` (all its items have run) or ``stopped``."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE runs SET status = ?, ended = ? WHERE name = ?", (status, now(), name))

    def set_in_invocation(self, name: str, key: str, value: Any) -> None:
        """Set a value of a run's invocation (`Run.invocation`), or remove its key if the value is None."""
        with self._database.transaction() as connection:
            invocation = {**self.run(name).invocation, key: value}
            if value is None:
                invocation.pop(key)
            connection.execute("UPDATE runs SET invocation = ? WHERE name = ?", (json.dumps(invocation), name))

    def discard(self, name: str) -> None:
        """Delete a run without episodes; a run with episodes is kept."""
        with self._database.transaction() as connection:
            if connection.execute("SELECT 1 FROM episodes WHERE run = ?", (name,)).fetchone() is None:
                connection.execute("DELETE FROM items WHERE run = ?", (name,))
                connection.execute("DELETE FROM runs WHERE name = ?", (name,))

    def remove(self, names: Sequence[str], check: Callable[[], None]) -> int:
        """Delete runs (their full names) with all their records. Files beside the store are kept.

        Args:
            names: runs none of whose records another run counts, see `counted_elsewhere`.
            check: called within the transaction; raises if the runs must not be removed.

        Returns:
            The number of bytes by which the store's file shrank.
        """
        before = self._database.file.stat().st_size
        # With foreign keys each deletion would search all items; the referring rows are deleted too.
        self._database.connection.execute("PRAGMA foreign_keys = OFF")
        try:
            with self._database.transaction() as connection:
                check()
                for name in names:
                    connection.execute(
                        "DELETE FROM records WHERE episode IN (SELECT id FROM episodes WHERE run = ?)", (name,)
                    )
                    for table, column in (("items", "run"), ("episodes", "run"), ("runs", "name")):
                        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))
        finally:
            self._database.connection.execute("PRAGMA foreign_keys = ON")
        # VACUUM fails on a full disk or with another reader; later records then reuse the free space in the file.
        with suppress(VlaError), sqlite_errors(self._database.file, "write", self._database.timeout):
            self._database.connection.execute("VACUUM")
        return before - self._database.file.stat().st_size

    def counted_elsewhere(self) -> list[tuple[str, str]]:
        """Return pairs of names: a run, and another run that counts a record of it, see `earlier`."""
        return self._database.rows(
            (TEXT, TEXT),
            "SELECT DISTINCT e.run, i.run FROM items AS i JOIN episodes AS e ON e.id = i.counting WHERE e.run != i.run",
        )

    def text_size(self, name: str) -> int:
        """Return the bytes of the records of a run (its full name)."""
        ((size,),) = self._database.rows(
            (INT,),
            "SELECT ifnull(sum(length(r.line)), 0) FROM episodes AS e JOIN records AS r ON r.episode = e.id"
            " WHERE e.run = ?",
            name,
        )
        return int(size)

    def runs(self) -> tuple[Run, ...]:
        """Return all runs, the newest first."""
        return read_runs(self._database)

    def invocations(self) -> dict[str, dict[str, Any]]:
        """Return `Run.invocation` by run, the oldest first, without counting episodes."""
        return read_invocations(self._database)

    def run(self, text: str) -> Run:
        """Return the run with this name or this beginning of a name; ``last`` is the run that began last.

        Raises:
            VlaError: there is none (with close matches), or several names begin so.
        """
        names = [name for (name,) in self._database.rows((TEXT,), "SELECT name FROM runs ORDER BY id DESC")]
        if not names:
            raise no_runs(self.results)
        if text == LAST_RUN:
            found = names[:1]
        else:
            found = [text] if text in names else [name for name in names if name.startswith(text)]
        if not found:
            # Names are times: if none is similar, show the latest.
            near = did_you_mean(text, names) or f" The latest are {', '.join(names[:3])}."
            raise VlaError(f"there is no run {text!r} in {self._database.file}.{near}")
        if len(found) > 1:
            raise VlaError(f"{len(found)} runs in {self._database.file} begin with {text!r}: {', '.join(found[:5])}")
        runs = read_runs(self._database, found[0])
        if len(runs) != 1:
            raise damaged(self._database.file, f"run {printable(found[0])[:60]} is there {len(runs)} times")
        return runs[0]

    def records(self, name: str) -> Iterator[Record]:
        """Yield the record that counts within a run (its full name) for each item, in the order of their ends."""
        rows = self._database.rows((INT,), "SELECT own FROM items WHERE run = ? AND own IS NOT NULL ORDER BY own", name)
        return self.parsed(name, [number for (number,) in rows])

    def attempts(self, name: str) -> Iterator[Record]:
        """Yield all records of a run (its full name), in the order in which they ended."""
        return self.parsed(name, self.episodes(name))

    def episodes(self, name: str) -> list[int]:
        """Return the numbers of the episodes of `attempts`, for `lines`."""
        return [
            number
            for (number,) in self._database.rows((INT,), "SELECT id FROM episodes WHERE run = ? ORDER BY id", name)
        ]

    def dated(self, name: str) -> dict[int, str]:
        """Return the end time of each episode by number, UTC, ISO 8601, for a run (its full name).

        Episodes of earlier runs that count instead of the run's own are included.
        """
        rows = self._database.rows(
            (INT, TEXT),
            "SELECT id, ended FROM episodes WHERE run = ? UNION"
            " SELECT e.id, e.ended FROM items AS i JOIN episodes AS e ON e.id = i.counting WHERE i.run = ? ORDER BY 1",
            *(name, name),
        )
        return dict(rows)

    def earlier(self, name: str) -> tuple[Earlier, ...]:
        """Return the items of a run (its full name) for which a record of an earlier run counts."""
        return read_earlier(self._database, name, lambda episodes: self.parsed(name, episodes))

    def errors_elsewhere(self, name: str) -> list[tuple[str, str, int]]:
        """Return a run's items (its full name) whose case was an error in another run before: reason and attempt."""
        rows = self._database.rows(
            (TEXT, MAYBE_TEXT, INT),
            "SELECT DISTINCT i.node, x.reason, x.attempt FROM items AS i JOIN episodes AS e ON e.id = i.own"
            " JOIN episodes AS x ON x.case_key = e.case_key AND x.run != i.run AND x.id < e.id"
            " WHERE i.run = ? AND x.outcome = 'error'",
            name,
        )
        return [(node, reason or "", attempt) for node, reason, attempt in rows]

    def before(self, name: str) -> tuple[int, int]:
        """Return how many of a run's cases an earlier run had completed, and how many of these with another outcome."""
        return read_before(self._database, name)

    def lines(self, episodes: Sequence[int]) -> Iterator[str]:
        """Yield the JSON lines of episodes by their numbers. Nothing is locked between the lines."""
        for _, line, disagrees in self._rows(episodes, _DISAGREES):
            if disagrees:
                raise damaged(self._database.file, f"an episode's columns differ from its record {line[:200]}")
            yield line

    def _rows(self, episodes: Sequence[int], what: str) -> Iterator[tuple[Any, ...]]:
        """Yield number and JSON line of each episode, and more of ``records AS r`` or ``episodes AS e``."""
        for start in range(0, len(episodes), _PAGE):
            page = episodes[start : start + _PAGE]
            marks = ", ".join("?" * len(page))
            statement = (
                f"SELECT r.episode, r.line, {what} FROM records AS r LEFT JOIN episodes AS e ON e.id = r.episode"
                f" WHERE r.episode IN ({marks})"
            )
            rows = {row[0]: row for row in self._database.rows((INT, TEXT), statement, *page)}
            for number in page:
                if number not in rows:
                    raise damaged(self._database.file, f"episode {number} has no record")
                yield rows[number]

    def items(self, name: str) -> tuple[RunItem, ...]:
        """Return the items of a run (its full name), with and without episodes."""
        rows = self._database.rows(
            (TEXT, INT, MAYBE_TEXT, MAYBE_INT, MAYBE_TEXT, MAYBE_INT),
            f"SELECT i.node, i.episode, i.status, e.of_suite, e.outcome, {PROBE} FROM items AS i"
            " LEFT JOIN episodes AS e ON e.id = i.own WHERE i.run = ? ORDER BY i.position",
            name,
        )
        self._database.check_words(
            (*STATUSES, SHARED, DECIDED), (status for _, _, status, *_ in rows if status is not None)
        )
        self._database.check_words(OUTCOMES, (outcome for *_, outcome, _ in rows if outcome is not None))
        return tuple(
            RunItem(
                node,
                bool(episode),
                # Killed after its record was written: the status follows from the outcome.
                status or (ending_of(outcome, bool(is_probe)) if of_suite else None),
                None if of_suite is None else bool(of_suite),
                outcome,
            )
            for node, episode, status, of_suite, outcome, is_probe in rows
        )

    def durations(self, model: str) -> list[tuple[str, str, int, float]]:
        """Return suite, `Case.task_key`, seed and seconds of this model's episodes in its latest runs, newest first.

        Successes and failures only, and some thousands at most.
        """
        rows = self._database.rows(
            (TEXT, TEXT, INT, MAYBE_REAL),
            "SELECT suite, case_id, seed, wall FROM episodes WHERE outcome IN ('success', 'failure')"
            " AND wall IS NOT NULL AND run IN (SELECT name FROM runs WHERE model = ? ORDER BY id DESC LIMIT ?)"
            " ORDER BY id DESC LIMIT ?",
            *(encodable(model), _DURATION_RUNS, _DURATION_EPISODES),
        )
        return [(suite, task_key_of(case, suite), seed, wall) for suite, case, seed, wall in rows]

    def parsed(self, name: str, episodes: Sequence[int]) -> Iterator[Record]:
        """Yield the records of episodes of a run (its full name), by their numbers."""
        for row in self._rows(episodes, _SHOWN):
            record = _parsed(self._database.file, name, row[1])
            if _of_columns(record) != row[2:]:
                check_columns(self._database.file, record, row[2:])
            yield record


def _make_results_folder(results: Path) -> None:
    # A new folder of runs is kept out of git, as pytest's cache is; an existing one is the user's.
    if not results.exists():
        results.mkdir(parents=True, exist_ok=True)
        (results / ".gitignore").write_text("*\n")


def no_runs(results: Path) -> VlaError:
    """Return the error for a results folder without runs."""
    return VlaError(f"no runs in {results} yet. Run pytest with --vla-suite and --vla-model, or give another folder")


# The writer of a run's records and endings: in order, one by one if they come slowly, else in groups.
#
# A transaction ends on the disk, which takes milliseconds whatever is in it. So there is a pause after each, and what
# comes in it is written together when it is over: by the next call, or by a thread where none comes. What comes later
# than that is on the disk when `Writer.put` returns. A killed process loses what came in one pause, a fraction of a
# second, and of what it has no hole: whatever is on the disk, all that came before is there too.

Ending = tuple[str, str]
"""The node id of an item, and its status, as for `Store.mark`."""

LEAST_PAUSE, MOST_PAUSE = 0.01, 0.25
"""The shortest and the longest pause between transactions, in seconds."""

_TIMES = 4.0
"""The pause as a multiple of the last transaction's time, so that writing takes at most a fifth of the time."""


class Writer:
    """Writes records and endings into an open store, in groups; errors raise VlaError, in later calls too.

    Only `settle` may be called from another thread.
    """

    def __init__(
        self, store: "Store", run: str, *, in_groups: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare to write; the run has begun.

        Args:
            store: a store of the caller's thread.
            run: the run's full name.
            in_groups: whether to pause between transactions; if False, everything is on the disk when `put` returns.
            clock: a monotonic clock in seconds.
        """
        self._store, self._run, self._in_groups, self._clock = store, run, in_groups, clock
        self._due = float("-inf")
        """When the pause after the last transaction is over."""
        self._pause = LEAST_PAUSE
        self._changed = threading.Condition()
        self._waiting: list[Record | Ending] = []
        self._is_writing = self._is_closed = self._is_told = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def put(self, changes: Sequence[Record | Ending], *, at_once: bool = False) -> None:
        """Write records and endings after all earlier ones.

        Args:
            changes: the records and endings, in order.
            at_once: whether they must be on the disk when this returns.
        """
        if not changes:
            return
        with self._changed:
            self._raise()
            self._waiting += changes
            if at_once or not self._in_groups or self._clock() >= self._due:
                self._changed.wait_for(lambda: not self._is_writing)
                self._raise()
                self._write_here()
            elif self._thread is None:
                self._thread = threading.Thread(target=self._write_what_is_left, name="vla-store", daemon=True)
                self._thread.start()
            elif len(self._waiting) == len(changes):
                self._changed.notify_all()

    def settle(self, timeout: float | None = None) -> None:
        """Wait until everything writable is on the disk, or for `timeout` seconds; raises nothing."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_writing, timeout)

    def close(self) -> None:
        """Write everything, and end the thread. Raises the error of a failed write, unless `put` has raised it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        with self._changed:
            if not self._is_told:
                self._raise()
                self._write_here()

    def _raise(self) -> None:
        if self._error is not None:
            self._is_told = True
            raise self._error

    def _write_here(self) -> None:
        try:
            self._write(self._store)
        except BaseException:
            self._is_told = True
            raise

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._waiting.clear()
        self._changed.notify_all()

    def _write(self, store: "Store") -> None:
        """Write the waiting changes. The lock is held on entry, and released while writing."""
        group, self._waiting = self._waiting, []
        if not group:
            return
        self._is_writing = True
        self._changed.release()
        began, error = self._clock(), None
        try:
            _write_group(store, self._run, group)
        except BaseException as raised:
            error = raised
        ended = self._clock()
        self._changed.acquire()
        self._pause = min(max(LEAST_PAUSE, _TIMES * (ended - began)), MOST_PAUSE)
        self._due, self._is_writing = ended + self._pause, False
        self._changed.notify_all()
        if error is not None:
            # Nothing is written after a failed write, which would leave a gap.
            self._fail(error)
            raise error

    def _write_what_is_left(self) -> None:
        """Write, in a thread, the changes that no call has written one pause after they were due."""
        try:
            # A connection belongs to its thread.
            with self._store.again() as store, self._changed:
                while not self._is_closed:
                    left = self._due + self._pause - self._clock()
                    if not self._waiting or self._is_writing:
                        self._changed.wait()
                    elif left > 0:
                        self._changed.wait(left)
                    else:
                        self._write(store)
        except BaseException as error:
            with self._changed:
                self._fail(error)


def _write_group(store: "Store", run: str, group: Sequence[Record | Ending]) -> None:
    try:
        store.write(run, group)
    except VlaError:
        if len(group) == 1:
            raise
        # A change that cannot be written must not affect earlier ones.
        for change in group:
            store.write(run, [change])
