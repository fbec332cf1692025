"""All runs and their records: one SQLite file in the results folder, beside the runs' folders of trajectories.

Tables for people with the sqlite3 tool: ``runs``, ``items`` (of each run, with how they ended in pytest's eyes),
``episodes`` (a row for each record, nothing is ever overwritten), ``results`` (of these, the last one of each item,
which counts) and ``records`` (the record of an episode, as JSON). Only the process with the pytest session writes.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pytest_vla.database import connect, told, transaction
from pytest_vla.errors import VlaError
from pytest_vla.items import Item
from pytest_vla.records import Record, parse_record, record_line
from pytest_vla.runs import Count, Run, is_alive, this_process
from pytest_vla.suite import did_you_mean

if TYPE_CHECKING:
    import sqlite3

STORE = "results.sqlite"
DEFAULT_RESULTS = ".vla"
LAST_RUN = "last"
"""In the place of a run's name: the run that began last."""
LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

_PAGE = 500
_DURATION_RUNS, _DURATION_EPISODES = 10, 20_000
_EPISODE = ("run", "of_suite", "suite", "task", "seed", "attempt", "outcome", "reason", "steps", "digest")
# Null: no variation, whose label would stand before the seed. Only of others the record has to be read.
_PROBE = (
    "CASE WHEN case_id LIKE '%[seed%' THEN NULL ELSE"
    " (SELECT coalesce(json_extract(line, '$.variation.probe'), 0) FROM records WHERE episode = e.id) END"
)
_IDS = "SELECT id FROM {} WHERE run = ? ORDER BY id"


def open_store(results: Path, *, create: bool, timeout: float = LOCK_TIMEOUT) -> "Store":
    """The store of a results folder.

    Args:
        results: the folder of all runs.
        create: make folder and file where there are none, and be ready to write.
        timeout: seconds to wait for another process that writes.

    Raises:
        VlaError: there is none and `create` is False; it cannot be opened; it is damaged, another program's, or of
            another version's schema. A file that is refused is left as it is.
    """
    try:
        if create:
            _make_results_folder(results)
        connection = connect(results / STORE, create=create, timeout=timeout)
    except OSError as error:
        raise VlaError(f"cannot open records: {error}") from error
    if connection is None:
        raise _no_runs(results)
    return Store(results, connection, timeout)


class Store:
    """An open store; see `open_store`. Whatever cannot be read or written is a VlaError, and changes nothing."""

    def __init__(self, results: Path, connection: "sqlite3.Connection", timeout: float) -> None:
        self.results = results
        self._file = results / STORE
        self._connection = connection
        self._timeout = timeout

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Nothing is pending: every method that writes has written when it returns."""
        self._connection.close()

    def begin(
        self,
        name: str,
        nodes: Sequence[str],
        *,
        command: str,
        model: str,
        invocation: Mapping[str, Any] | None = None,
        others: Sequence[str] = (),
    ) -> Run:
        """Enter a new run of this process.

        Args:
            name: of the run.
            nodes: node ids of the items that run an episode, in their order.
            command, model, invocation: see `Run`.
            others: node ids of its further items.
        """
        episodes = dict.fromkeys(map(_encodable, nodes), True)
        items = {**dict.fromkeys(map(_encodable, others), False), **episodes}
        host, pid, process = this_process()
        with self._transaction() as connection:
            _insert(
                connection,
                "runs",
                name=name,
                started=_now(),
                status="running",
                command=_encodable(command),
                model=_encodable(model),
                invocation=json.dumps(invocation or {}),
                host=host,
                pid=pid,
                process=process,
                planned=len(episodes),
            )
            connection.executemany(
                "INSERT INTO items (run, node, position, episode) VALUES (?, ?, ?, ?)",
                ((name, node, position, episode) for position, (node, episode) in enumerate(items.items())),
            )
        return self.run(name)

    def resume(self, name: str) -> Run:
        """Make an earlier run this process's: running again, with what was planned and recorded.

        Raises:
            VlaError: there is no such run, or another process of this machine still runs it. A run of another machine
                is taken over: nobody can tell whether it goes on, and two that write lose nothing.
        """
        with self._transaction() as connection:
            run = self.run(name)
            if is_alive(run) and run.pid != os.getpid():
                raise VlaError(f"run {run.name} is still running (process {run.pid}); wait for its end, or stop it")
            connection.execute(
                "UPDATE runs SET status = 'running', ended = NULL, host = ?, pid = ?, process = ? WHERE name = ?",
                (*this_process(), run.name),
            )
        return self.run(run.name)

    def add(self, record: Record) -> None:
        """Write a record of a run that has begun. Of several of one node all are kept, and the last one counts.

        An item that nobody knew to run an episode is one of the run's from now on.
        """
        self.add_all([record])

    def add_all(self, records: Iterable[Record]) -> None:
        """Write records, each as `add` does: all of them or, where anything is raised, none."""
        with self._transaction() as connection:
            for record in records:
                _add(connection, record)

    def mark(self, name: str, statuses: Mapping[str, str]) -> None:
        """Note how items of a run (its full name) ended: node ids with one of `pytest_vla.items.STATUSES`."""
        with self._transaction() as connection:
            connection.executemany(
                "UPDATE items SET status = ? WHERE run = ? AND node = ?",
                ((status, name, _encodable(node)) for node, status in statuses.items()),
            )

    def end(self, name: str, status: str) -> None:
        """Say how a run ended: ``finished`` (all its items have run) or ``stopped``."""
        with self._transaction() as connection:
            connection.execute("UPDATE runs SET status = ?, ended = ? WHERE name = ?", (status, _now(), name))

    def discard(self, name: str) -> None:
        """Forget a run that left no episode; one that left some stays."""
        with self._transaction() as connection:
            if connection.execute("SELECT 1 FROM episodes WHERE run = ?", (name,)).fetchone() is None:
                connection.execute("DELETE FROM items WHERE run = ?", (name,))
                connection.execute("DELETE FROM runs WHERE name = ?", (name,))

    def runs(self) -> tuple[Run, ...]:
        """All runs, the newest first."""
        return self._runs()

    def run(self, text: str) -> Run:
        """The run of this name or of this beginning of a name; ``last`` is the one that began last.

        Raises:
            VlaError: there is none, with close matches, or several begin so.
        """
        names = [str(name) for (name,) in self._rows("SELECT name FROM runs ORDER BY id DESC")]
        if not names:
            raise _no_runs(self.results)
        if text == LAST_RUN:
            found = names[:1]
        else:
            found = [text] if text in names else [name for name in names if name.startswith(text)]
        if not found:
            # Names are times: where none is alike, the latest ones help.
            near = did_you_mean(text, names) or f" The latest are {', '.join(names[:3])}."
            raise VlaError(f"there is no run {text!r} in {self._file}.{near}")
        if len(found) > 1:
            raise VlaError(f"{len(found)} runs in {self._file} begin with {text!r}: {', '.join(found[:5])}")
        (run,) = self._runs(found[0])
        return run

    def records(self, name: str) -> Iterator[Record]:
        """The last record of each node of a run (its full name), in the order in which they ended."""
        return self._parsed(name, self.episodes(name))

    def attempts(self, name: str) -> Iterator[Record]:
        """All records of a run (its full name), in the order in which they ended."""
        return self._parsed(name, [int(number) for (number,) in self._rows(_IDS.format("episodes"), name)])

    def episodes(self, name: str) -> list[int]:
        """The numbers of the episodes of `records`, for `lines`."""
        return [int(number) for (number,) in self._rows(_IDS.format("results"), name)]

    def lines(self, episodes: Sequence[int]) -> Iterator[str]:
        """The records' JSON lines of episodes, by their numbers. Nothing is locked between the lines."""
        for start in range(0, len(episodes), _PAGE):
            page = episodes[start : start + _PAGE]
            marks = ", ".join("?" * len(page))
            lines = dict(self._rows(f"SELECT episode, line FROM records WHERE episode IN ({marks})", *page))
            yield from (lines[number] for number in page)

    def items(self, name: str) -> tuple[Item, ...]:
        """The items of a run (its full name), episodes or not."""
        rows = self._rows(
            "SELECT i.node, i.episode, i.status, r.of_suite, r.outcome FROM items AS i LEFT JOIN results AS r"
            " ON r.run = i.run AND r.node = i.node WHERE i.run = ? ORDER BY i.position",
            name,
        )
        return tuple(
            Item(node, bool(episode), status, None if of_suite is None else bool(of_suite), outcome)
            for node, episode, status, of_suite, outcome in rows
        )

    def durations(self, model: str) -> list[tuple[str, str, int, float]]:
        """Suite, task, seed and seconds of episodes of this model in its latest runs, newest first.

        Successes and failures only, and some thousands at most.
        """
        rows = self._rows(
            "SELECT suite, task, seed, wall FROM episodes WHERE outcome IN ('success', 'failure') AND wall IS NOT NULL"
            " AND run IN (SELECT name FROM runs WHERE model = ? ORDER BY id DESC LIMIT ?) ORDER BY id DESC LIMIT ?",
            *(_encodable(model), _DURATION_RUNS, _DURATION_EPISODES),
        )
        return [(str(suite), str(task), int(seed), float(wall)) for suite, task, seed, wall in rows]

    def _runs(self, *name: str) -> tuple[Run, ...]:
        whose, which = ("WHERE run = ?", "WHERE name = ?") if name else ("", "")
        counts: dict[str, list[Count]] = {}
        for run, suite, of_suite, probe, outcome, reason, number in self._rows(
            f"SELECT run, suite, of_suite, {_PROBE}, outcome, reason, count(*) FROM results AS e {whose}"
            " GROUP BY 1, 2, 3, 4, 5, 6",
            *name,
        ):
            count = Count(suite, bool(of_suite), probe is not None, bool(probe), outcome, reason, number)
            counts.setdefault(run, []).append(count)
        columns = [field.name for field in fields(Run) if field.name != "counts"]
        rows = self._rows(f"SELECT {', '.join(columns)} FROM runs {which} ORDER BY id DESC", *name)
        tables = [dict(zip(columns, row, strict=True)) for row in rows]
        for table in tables:
            table |= {"invocation": json.loads(table["invocation"]), "counts": tuple(counts.get(table["name"], ()))}
        return tuple(Run(**table) for table in tables)

    def _parsed(self, name: str, episodes: Sequence[int]) -> Iterator[Record]:
        for line in self.lines(episodes):
            try:
                yield parse_record(line)
            except VlaError as error:
                raise VlaError(f"{self._file}: run {name}: {error}") from error

    def _rows(self, statement: str, *parameters: Any) -> list[Any]:
        with told(self._file, "read", self._timeout):
            return self._connection.execute(statement, parameters).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator["sqlite3.Connection"]:
        with told(self._file, "write", self._timeout), transaction(self._connection):
            yield self._connection


def _make_results_folder(results: Path) -> None:
    # A new folder of runs is kept out of git, as pytest's cache is; one that was there is the user's.
    if not results.exists():
        results.mkdir(parents=True, exist_ok=True)
        (results / ".gitignore").write_text("*\n")


def _no_runs(results: Path) -> VlaError:
    return VlaError(f"no runs in {results} yet: run pytest with --vla-suite and --vla-model, or give another folder")


def _add(connection: "sqlite3.Connection", record: Record) -> None:
    item = (record.run, _encodable(record.node))
    known = "SELECT 1 FROM items WHERE run = ? AND node = ? AND episode"
    if connection.execute(known, item).fetchone() is None:
        connection.execute(
            "INSERT INTO items (run, node, position, episode)"
            " SELECT ?, ?, ifnull(max(position), -1) + 1, 1 FROM items WHERE run = ?"
            " ON CONFLICT DO UPDATE SET episode = 1",
            (*item, record.run),
        )
        connection.execute("UPDATE runs SET planned = planned + 1 WHERE name = ?", (record.run,))
    number = _insert(
        connection,
        "episodes",
        node=item[1],
        case_id=record.case,
        wall=record.timings.get("wall"),
        ended=_now(),
        **{name: getattr(record, name) for name in _EPISODE},
    )
    _insert(connection, "records", episode=number, line=record_line(record))


def _insert(connection: "sqlite3.Connection", table: str, **columns: Any) -> int | None:
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    return connection.execute(statement, tuple(columns.values())).lastrowid


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _encodable(text: str) -> str:
    """Names of files that are not UTF-8 have characters that SQLite does not take."""
    return text.encode(errors="backslashreplace").decode()
