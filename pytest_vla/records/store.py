"""All runs and their records: one SQLite file in the results folder, beside the runs' folders of trajectories.

Tables for people with the sqlite3 tool: ``runs``, ``items`` (of each run, with how they ended in pytest's eyes),
``episodes`` (a row for each record, nothing is ever overwritten), ``results`` (of these, the one of each item that
counts, by `pytest_vla.records.counting`) and ``records`` (the record of an episode, as JSON). Only the process with the
pytest session writes.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vla.errors import VlaError
from pytest_vla.records.checks import OUTCOMES, is_run_name, is_time, parse_json
from pytest_vla.records.counting import COMPLETE, Repeats, key_of, takes_over
from pytest_vla.records.database import (
    INT,
    MAYBE_INT,
    MAYBE_REAL,
    MAYBE_TEXT,
    TEXT,
    checked,
    connect,
    damaged,
    told,
    transaction,
)
from pytest_vla.records.items import SHARED, STATUSES, Item, ending_of
from pytest_vla.records.names import LAST_RUN
from pytest_vla.records.record import Record, parse_record, record_line
from pytest_vla.records.runs import Count, Run, is_alive, this_process
from pytest_vla.util.text import did_you_mean, printable

if TYPE_CHECKING:
    import sqlite3

STORE = "results.sqlite"
LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

_PAGE = 500
_DURATION_RUNS, _DURATION_EPISODES = 10, 20_000
_EPISODE = ("run", "of_suite", "suite", "task", "seed", "attempt", "outcome", "reason", "steps", "digest", "started")
# Null: no variation, whose label would stand before the seed. Only of others the record has to be read.
_PROBE = (
    "CASE WHEN case_id LIKE '%[seed%' THEN NULL ELSE"
    " (SELECT coalesce(json_extract(line, '$.variation.probe'), 0) FROM records WHERE episode = e.id) END"
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
_COMPLETE = f"({', '.join(map(repr, COMPLETE))})"


@dataclass(frozen=True)
class Earlier:
    """What counts for an item of a run that ran what an earlier one picked for it: a record of an earlier run.

    Attributes:
        node: the item's id.
        record: the first complete one of the case.
        status: how its item ended in its run; None: that is not known.
        equal: whether the item's own record is equal to it, bit for bit.
    """

    node: str
    record: Record
    status: str | None
    equal: bool


class _Before(NamedTuple):
    """As `pytest_vla.records.counting.Attempt`."""

    outcome: str
    started: str


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
        raise no_runs(results)
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
        shared: Iterable[str] = (),
        picked: str | None = None,
    ) -> Run:
        """Enter a new run of this process.

        Args:
            name: of the run.
            nodes: node ids of the items that run an episode, in their order.
            command, model, invocation: see `Run`.
            others: node ids of its further items.
            shared: those of `nodes` that are the episode of several of the `others`.
            picked: see `Run`. Of such a run's cases the first complete record of the whole store counts.
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
                picked=picked,
            )
            endings = dict.fromkeys(map(_encodable, shared), SHARED)
            connection.executemany(
                "INSERT INTO items (run, node, position, episode, status) VALUES (?, ?, ?, ?, ?)",
                (
                    (name, node, position, episode, endings.get(node))
                    for position, (node, episode) in enumerate(items.items())
                ),
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
        """Write a record of a run that has begun. Of several of one node all are kept; `pytest_vla.records.counting`
        says which counts.

        An item that nobody knew to run an episode is one of the run's from now on.
        """
        self.add_all([record])

    def add_all(self, records: Iterable[Record]) -> None:
        """Write records, each as `add` does: all of them or, where anything is raised, none."""
        with self._transaction() as connection:
            for record in records:
                _add(connection, record)

    def mark(self, name: str, statuses: Mapping[str, str]) -> None:
        """Note how items of a run (its full name) ended: node ids with one of `pytest_vla.records.items.STATUSES`."""
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

    def remove(self, names: Sequence[str], check: Callable[[], None]) -> int:
        """Forget runs (their full names) with all their records. Files beside the store are left.

        Args:
            names: of runs of which no other run counts a record, see `counted_elsewhere`.
            check: raises where they must not be removed; nothing is written meanwhile.

        Returns:
            How many bytes smaller the store's file is.
        """
        before = self._file.stat().st_size
        # Else each episode that goes is looked for in all items; what refers to them goes too.
        self._connection.execute("PRAGMA foreign_keys = OFF")
        try:
            with self._transaction() as connection:
                check()
                for name in names:
                    connection.execute(
                        "DELETE FROM records WHERE episode IN (SELECT id FROM episodes WHERE run = ?)", (name,)
                    )
                    for table, column in (("items", "run"), ("episodes", "run"), ("runs", "name")):
                        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))
        finally:
            self._connection.execute("PRAGMA foreign_keys = ON")
        # Where there is no room for it, or another process reads, later records take the room that is left in the file.
        with suppress(VlaError), told(self._file, "write", self._timeout):
            self._connection.execute("VACUUM")
        return before - self._file.stat().st_size

    def counted_elsewhere(self) -> list[tuple[str, str]]:
        """Runs with other runs that count a record of theirs, see `earlier`, by their names."""
        return self._rows(
            (TEXT, TEXT),
            "SELECT DISTINCT e.run, i.run FROM items AS i JOIN episodes AS e ON e.id = i.counting WHERE e.run != i.run"
        )

    def text_size(self, name: str) -> int:
        """Bytes of the records of a run (its full name)."""
        ((size,),) = self._rows(
            (INT,),
            "SELECT ifnull(sum(length(r.line)), 0) FROM episodes AS e JOIN records AS r ON r.episode = e.id"
            " WHERE e.run = ?",
            name,
        )
        return int(size)

    def runs(self) -> tuple[Run, ...]:
        """All runs, the newest first."""
        return self._runs()

    def run(self, text: str) -> Run:
        """The run of this name or of this beginning of a name; ``last`` is the one that began last.

        Raises:
            VlaError: there is none, with close matches, or several begin so.
        """
        names = [name for (name,) in self._rows((TEXT,), "SELECT name FROM runs ORDER BY id DESC")]
        if not names:
            raise no_runs(self.results)
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
        runs = self._runs(found[0])
        if len(runs) != 1:
            raise damaged(self._file, f"run {printable(found[0])[:60]} is there {len(runs)} times")
        return runs[0]

    def records(self, name: str) -> Iterator[Record]:
        """Of each item of a run (its full name) the record that counts within the run, in the order of their ends."""
        rows = self._rows((INT,), "SELECT own FROM items WHERE run = ? AND own IS NOT NULL ORDER BY own", name)
        return self.parsed(name, [number for (number,) in rows])

    def attempts(self, name: str) -> Iterator[Record]:
        """All records of a run (its full name), in the order in which they ended."""
        return self.parsed(name, self.episodes(name))

    def episodes(self, name: str) -> list[int]:
        """The numbers of the episodes of `attempts`, for `lines`."""
        return [number for (number,) in self._rows((INT,), "SELECT id FROM episodes WHERE run = ? ORDER BY id", name)]

    def dated(self, name: str) -> dict[int, str]:
        """When each episode ended, UTC, ISO 8601, by number: those of a run (its full name), and those of earlier runs
        that count instead of them.
        """
        rows = self._rows(
            (INT, TEXT),
            "SELECT id, ended FROM episodes WHERE run = ? UNION"
            " SELECT e.id, e.ended FROM items AS i JOIN episodes AS e ON e.id = i.counting WHERE i.run = ? ORDER BY 1",
            *(name, name),
        )
        return dict(rows)

    def earlier(self, name: str) -> tuple[Earlier, ...]:
        """The items of a run (its full name) for which a record of an earlier run counts."""
        rows = self._rows(
            (TEXT, INT, TEXT, MAYBE_TEXT, INT),
            "SELECT i.node, c.id, c.run, first.status, c.digest = o.digest FROM items AS i"
            " JOIN episodes AS c ON c.id = i.counting JOIN episodes AS o ON o.id = i.own"
            " LEFT JOIN items AS first ON first.run = c.run AND first.node = c.node"
            " WHERE i.run = ? AND i.counting != i.own ORDER BY c.id",
            name,
        )
        records = self.parsed(name, [number for _, number, *_ in rows])
        return tuple(
            Earlier(node, record, status, bool(equal))
            for (node, _, _, status, equal), record in zip(rows, records, strict=True)
        )

    def before(self, name: str) -> tuple[int, int]:
        """How many of a run's cases (its full name) had come to an end in an earlier run, and how many of these
        otherwise."""
        ((number, otherwise),) = self._rows(
            (INT, INT),
            "SELECT count(*), ifnull(sum(first.outcome != o.outcome), 0) FROM items AS i"
            " JOIN episodes AS o ON o.id = i.own"
            " JOIN episodes AS first ON first.id = (SELECT id FROM episodes WHERE case_key = o.case_key"
            f" AND run != i.run AND started < o.started AND outcome IN {_COMPLETE} ORDER BY started, id LIMIT 1)"
            f" WHERE i.run = ? AND o.outcome IN {_COMPLETE}",
            name,
        )
        return number, otherwise

    def lines(self, episodes: Sequence[int]) -> Iterator[str]:
        """The records' JSON lines of episodes, by their numbers. Nothing is locked between the lines."""
        for start in range(0, len(episodes), _PAGE):
            page = episodes[start : start + _PAGE]
            marks = ", ".join("?" * len(page))
            statement = f"SELECT episode, line FROM records WHERE episode IN ({marks})"
            lines: dict[int, str] = dict(self._rows((INT, TEXT), statement, *page))
            for number in page:
                if number not in lines:
                    raise damaged(self._file, f"episode {number} has no record")
                yield lines[number]

    def items(self, name: str) -> tuple[Item, ...]:
        """The items of a run (its full name), episodes or not."""
        rows = self._rows(
            (TEXT, INT, MAYBE_TEXT, MAYBE_INT, MAYBE_TEXT, MAYBE_INT),
            f"SELECT i.node, i.episode, i.status, e.of_suite, e.outcome, {_PROBE} FROM items AS i"
            " LEFT JOIN episodes AS e ON e.id = i.own WHERE i.run = ? ORDER BY i.position",
            name,
        )
        self._check_words((*STATUSES, SHARED), (status for _, _, status, *_ in rows if status is not None))
        self._check_words(OUTCOMES, (outcome for *_, outcome, _ in rows if outcome is not None))
        return tuple(
            Item(
                node,
                bool(episode),
                # Killed after its record was written: a suite's own item is its episode.
                status or (ending_of(outcome, bool(is_probe)) if of_suite else None),
                None if of_suite is None else bool(of_suite),
                outcome,
            )
            for node, episode, status, of_suite, outcome, is_probe in rows
        )

    def durations(self, model: str) -> list[tuple[str, str, int, float]]:
        """Suite, task, seed and seconds of episodes of this model in its latest runs, newest first.

        Successes and failures only, and some thousands at most.
        """
        return self._rows(
            (TEXT, TEXT, INT, MAYBE_REAL),
            "SELECT suite, task, seed, wall FROM episodes WHERE outcome IN ('success', 'failure') AND wall IS NOT NULL"
            " AND run IN (SELECT name FROM runs WHERE model = ? ORDER BY id DESC LIMIT ?) ORDER BY id DESC LIMIT ?",
            *(_encodable(model), _DURATION_RUNS, _DURATION_EPISODES),
        )

    def _runs(self, *name: str) -> tuple[Run, ...]:
        whose, which = ("WHERE run = ?", "WHERE name = ?") if name else ("", "")
        counts: dict[str, list[Count]] = {}
        rows = self._rows(
            (TEXT, TEXT, INT, MAYBE_INT, TEXT, MAYBE_TEXT, INT),
            f"SELECT run, suite, of_suite, {_PROBE}, outcome, reason, count(*) FROM results AS e {whose}"
            " GROUP BY 1, 2, 3, 4, 5, 6",
            *name,
        )
        self._check_words(OUTCOMES, (row[4] for row in rows))
        for run, suite, of_suite, probe, outcome, reason, number in rows:
            count = Count(suite, bool(of_suite), probe is not None, bool(probe), outcome, reason, number)
            counts.setdefault(run, []).append(count)
        repeats = {
            run: Repeats(*numbers)
            for run, *numbers in self._rows(
                (TEXT, INT, INT, INT, INT),
                "SELECT e.run, count(*), count(DISTINCT c.id), sum(e.outcome != c.outcome), sum(e.digest != c.digest)"
                " FROM episodes AS e JOIN items AS i ON i.run = e.run AND i.node = e.node"
                f" JOIN episodes AS c ON c.id = i.counting WHERE e.id != c.id AND e.outcome IN {_COMPLETE}"
                f" {'AND e.run = ?' if name else ''} GROUP BY 1",
                *name,
            )
        }
        statement = f"SELECT {', '.join(_OF_RUNS)} FROM runs {which} ORDER BY id DESC"
        rows = self._rows([*_OF_RUNS.values()], statement, *name)
        tables = [dict(zip(_OF_RUNS, row, strict=True)) for row in rows]
        for table in tables:
            self._check_run(table)
            table |= {"invocation": self._invocation(table), "counts": tuple(counts.get(table["name"], ()))}
            table["repeats"] = repeats.get(table["name"], Repeats())
        return tuple(Run(**table) for table in tables)

    def _check_run(self, table: Mapping[str, Any]) -> None:
        """Refuse a run that we have not written; its name is a folder's, and a picture's."""
        if not is_run_name(table["name"]):
            expected = "expected letters, digits, _ . and - only"
            raise damaged(self._file, f"a run is called {printable(repr(table['name'])[:60])}: {expected}")
        self._check_words(_RUN_STATUSES, [table["status"]])
        for name in ("started", "ended"):
            if table[name] is not None and not is_time(table[name]):
                raise damaged(self._file, f"run {table['name']} {name} at {printable(repr(table[name])[:60])}, no time")

    def _check_words(self, known: Sequence[str], found: Iterable[str]) -> None:
        for word in set(found) - set(known):
            raise damaged(self._file, f"expected one of {', '.join(known)}, found {printable(repr(word)[:60])}")

    def _invocation(self, table: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found = parse_json(table["invocation"])
        except VlaError as error:
            raise damaged(self._file, f"the invocation of run {table['name']}: {error}") from error
        settings = found.get("settings", {}) if isinstance(found, dict) else None
        data = settings.get("data") if isinstance(settings, dict) else 0
        if not isinstance(data, str | None) or "\0" in (data or ""):
            raise damaged(self._file, f"the invocation of run {table['name']} is not as pytest-vla writes it")
        return dict(found)

    def parsed(self, name: str, episodes: Sequence[int]) -> Iterator[Record]:
        """The records of episodes of a run (its full name), by their numbers."""
        for line in self.lines(episodes):
            try:
                yield parse_record(line)
            except VlaError as error:
                raise VlaError(f"{self._file}: run {name}: {error}") from error

    def _rows(self, kinds: Sequence[tuple[type, ...]], statement: str, *parameters: Any) -> list[Any]:
        """Rows whose columns hold what is said of them; raises VlaError where they hold anything else."""
        with told(self._file, "read", self._timeout):
            rows = self._connection.execute(statement, parameters).fetchall()
        checked(self._file, rows, kinds)
        return rows

    @contextmanager
    def _transaction(self) -> Iterator["sqlite3.Connection"]:
        with told(self._file, "write", self._timeout), transaction(self._connection):
            yield self._connection


def _make_results_folder(results: Path) -> None:
    # A new folder of runs is kept out of git, as pytest's cache is; one that was there is the user's.
    if not results.exists():
        results.mkdir(parents=True, exist_ok=True)
        (results / ".gitignore").write_text("*\n")


def no_runs(results: Path) -> VlaError:
    """What is said of a results folder without any run."""
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
    key = key_of(record).text
    number = _insert(
        connection,
        "episodes",
        node=item[1],
        case_id=record.case,
        case_key=key,
        wall=record.timings.get("wall"),
        ended=_now(),
        **{name: getattr(record, name) for name in _EPISODE},
    )
    _insert(connection, "records", episode=number, line=record_line(record))
    own = "SELECT outcome, started FROM items AS i JOIN episodes AS e ON e.id = i.own WHERE i.run = ? AND i.node = ?"
    before = connection.execute(own, item).fetchone()
    if before is None or takes_over(record, _Before(*before)):
        # Of what an earlier run picked, the first time counts that it came to an end.
        earlier = connection.execute(
            f"SELECT id FROM episodes WHERE case_key = ? AND run != ? AND outcome IN {_COMPLETE}"
            " AND (SELECT picked FROM runs WHERE name = ?) IS NOT NULL ORDER BY started, id LIMIT 1",
            (key, record.run, record.run),
        ).fetchone()
        counting = number if earlier is None else earlier[0]
        connection.execute(
            "UPDATE items SET own = ?, counting = ? WHERE run = ? AND node = ?", (number, counting, *item)
        )


def _insert(connection: "sqlite3.Connection", table: str, **columns: Any) -> int | None:
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    return connection.execute(statement, tuple(columns.values())).lastrowid


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _encodable(text: str) -> str:
    """Names of files that are not UTF-8 have characters that SQLite does not take."""
    return text.encode(errors="backslashreplace").decode()
