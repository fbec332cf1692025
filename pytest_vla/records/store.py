"""All runs and their records: one SQLite file in the results folder, beside the runs' folders of trajectories.

Tables for people with the sqlite3 tool: ``runs``, ``items`` (of each run, with how they ended in pytest's eyes),
``episodes`` (a row for each record, nothing is ever overwritten), ``results`` (of these, the one of each item that
counts, by `pytest_vla.records.counting`) and ``records`` (the record of an episode, as JSON). Only the process with the
pytest session writes.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.labels import task_key_of
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.database import (
    INT,
    MAYBE_INT,
    MAYBE_REAL,
    MAYBE_TEXT,
    TEXT,
    Database,
    connect,
    damaged,
    told,
)
from pytest_vla.records.items import DECIDED, SHARED, STATUSES, Item, ending_of
from pytest_vla.records.joining import Begun, add_record, encodable, insert, join, now
from pytest_vla.records.names import LAST_RUN
from pytest_vla.records.record import Record, parse_record
from pytest_vla.records.runs import Run, is_alive, this_process
from pytest_vla.records.stored_earlier import Earlier, read_before, read_earlier
from pytest_vla.records.stored_runs import PROBE, read_invocations, read_runs
from pytest_vla.util.text import did_you_mean, printable

if TYPE_CHECKING:
    import sqlite3

    from pytest_vla.records.writing import Ending

STORE = "results.sqlite"
LOCK_TIMEOUT = 30.0
"""Seconds to wait for another process that writes."""

_PAGE = 500
_DURATION_RUNS, _DURATION_EPISODES = 10, 20_000


def open_store(results: Path, *, create: bool, timeout: float = LOCK_TIMEOUT) -> "Store":
    """The store of a results folder.

    Args:
        results: the folder of all runs.
        create: make folder and file where there are none, and be ready to write.
        timeout: seconds to wait for another process that writes.

    Raises:
        VlaError: there is none and `create` is False; it cannot be opened; it is damaged, another program's, or of
            a schema that this version cannot read. A file that is refused is left as it is. One of an earlier version
            is migrated with `create`, and else read as it is.
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
        self._database = Database(results / STORE, connection, timeout)

    def __enter__(self) -> "Store":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Nothing is pending: every method that writes has written when it returns."""
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
        """Enter a new run of this process.

        Args:
            name: of the run.
            nodes: node ids of the items that run an episode, in their order.
            command, model, invocation: see `Run`.
            others: node ids of its further items.
            shared: those of `nodes` that are the episode of several of the `others`.
            picked: see `Run`. Of such a run's cases the first complete record of the whole store counts.
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
        """Make an earlier run this process's: running again, with what was planned and recorded.

        Raises:
            VlaError: there is no such run, or another process of this machine still runs it. A run of another machine
                is taken over: nobody can tell whether it goes on, and two that write lose nothing.
        """
        with self._database.transaction() as connection:
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
        with self._database.transaction() as connection:
            for record in records:
                add_record(connection, record)

    def join(
        self,
        name: str,
        begun: Begun | None,
        records: Iterable[Record],
        statuses: Mapping[str, str],
        invocation: Mapping[str, Any],
        check: Callable[[], None],
    ) -> Run:
        """Write records of other stores as those of a run, see `pytest_vla.records.joining.join`: all or none.

        Args:
            name, begun, records, statuses, invocation: as there.
            check: raises where they must not be written any more; nothing is written meanwhile.
        """
        with self._database.transaction() as connection:
            check()
            join(connection, name, begun, records, statuses, invocation)
        return self.run(name)

    def mark(self, name: str, statuses: Mapping[str, str]) -> None:
        """Note how items of a run (its full name) ended: node ids with one of `STATUSES`, or `DECIDED`."""
        self.write(name, [*statuses.items()])

    def write(self, name: str, changes: Iterable["Record | Ending"]) -> None:
        """Write records of a run (its full name), as `add` does, and endings, as `mark` does, in their order: all of
        them or, where anything is raised, none.
        """
        with self._database.transaction() as connection:
            for change in changes:
                if isinstance(change, Record):
                    add_record(connection, change)
                else:
                    node, status = change
                    marked = "UPDATE items SET status = ? WHERE run = ? AND node = ?"
                    connection.execute(marked, (status, name, encodable(node)))

    def again(self) -> "Store":
        """The same store, opened for another thread."""
        return open_store(self.results, create=True, timeout=self._database.timeout)

    def end(self, name: str, status: str) -> None:
        """Say how a run ended: ``finished`` (all its items have run) or ``stopped``."""
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
        """Forget a run that left no episode; one that left some stays."""
        with self._database.transaction() as connection:
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
        before = self._database.file.stat().st_size
        # Else each episode that goes is looked for in all items; what refers to them goes too.
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
        # Where there is no room for it, or another process reads, later records take the room that is left in the file.
        with suppress(VlaError), told(self._database.file, "write", self._database.timeout):
            self._database.connection.execute("VACUUM")
        return before - self._database.file.stat().st_size

    def counted_elsewhere(self) -> list[tuple[str, str]]:
        """Runs with other runs that count a record of theirs, see `earlier`, by their names."""
        return self._database.rows(
            (TEXT, TEXT),
            "SELECT DISTINCT e.run, i.run FROM items AS i JOIN episodes AS e ON e.id = i.counting WHERE e.run != i.run",
        )

    def text_size(self, name: str) -> int:
        """Bytes of the records of a run (its full name)."""
        ((size,),) = self._database.rows(
            (INT,),
            "SELECT ifnull(sum(length(r.line)), 0) FROM episodes AS e JOIN records AS r ON r.episode = e.id"
            " WHERE e.run = ?",
            name,
        )
        return int(size)

    def runs(self) -> tuple[Run, ...]:
        """All runs, the newest first."""
        return read_runs(self._database)

    def invocations(self) -> dict[str, dict[str, Any]]:
        """Return by run what it keeps (`Run.invocation`), the oldest first; no episode is counted for it."""
        return read_invocations(self._database)

    def run(self, text: str) -> Run:
        """The run of this name or of this beginning of a name; ``last`` is the one that began last.

        Raises:
            VlaError: there is none, with close matches, or several begin so.
        """
        names = [name for (name,) in self._database.rows((TEXT,), "SELECT name FROM runs ORDER BY id DESC")]
        if not names:
            raise no_runs(self.results)
        if text == LAST_RUN:
            found = names[:1]
        else:
            found = [text] if text in names else [name for name in names if name.startswith(text)]
        if not found:
            # Names are times: where none is alike, the latest ones help.
            near = did_you_mean(text, names) or f" The latest are {', '.join(names[:3])}."
            raise VlaError(f"there is no run {text!r} in {self._database.file}.{near}")
        if len(found) > 1:
            raise VlaError(f"{len(found)} runs in {self._database.file} begin with {text!r}: {', '.join(found[:5])}")
        runs = read_runs(self._database, found[0])
        if len(runs) != 1:
            raise damaged(self._database.file, f"run {printable(found[0])[:60]} is there {len(runs)} times")
        return runs[0]

    def records(self, name: str) -> Iterator[Record]:
        """Of each item of a run (its full name) the record that counts within the run, in the order of their ends."""
        rows = self._database.rows((INT,), "SELECT own FROM items WHERE run = ? AND own IS NOT NULL ORDER BY own", name)
        return self.parsed(name, [number for (number,) in rows])

    def attempts(self, name: str) -> Iterator[Record]:
        """All records of a run (its full name), in the order in which they ended."""
        return self.parsed(name, self.episodes(name))

    def episodes(self, name: str) -> list[int]:
        """The numbers of the episodes of `attempts`, for `lines`."""
        return [
            number
            for (number,) in self._database.rows((INT,), "SELECT id FROM episodes WHERE run = ? ORDER BY id", name)
        ]

    def dated(self, name: str) -> dict[int, str]:
        """When each episode ended, UTC, ISO 8601, by number: those of a run (its full name), and those of earlier runs
        that count instead of them.
        """
        rows = self._database.rows(
            (INT, TEXT),
            "SELECT id, ended FROM episodes WHERE run = ? UNION"
            " SELECT e.id, e.ended FROM items AS i JOIN episodes AS e ON e.id = i.counting WHERE i.run = ? ORDER BY 1",
            *(name, name),
        )
        return dict(rows)

    def earlier(self, name: str) -> tuple[Earlier, ...]:
        """The items of a run (its full name) for which a record of an earlier run counts."""
        return read_earlier(self._database, name, lambda episodes: self.parsed(name, episodes))

    def before(self, name: str) -> tuple[int, int]:
        """How many of a run's cases (its full name) had come to an end in an earlier run, and how many of these
        otherwise."""
        return read_before(self._database, name)

    def lines(self, episodes: Sequence[int]) -> Iterator[str]:
        """The records' JSON lines of episodes, by their numbers. Nothing is locked between the lines."""
        for start in range(0, len(episodes), _PAGE):
            page = episodes[start : start + _PAGE]
            marks = ", ".join("?" * len(page))
            statement = f"SELECT episode, line FROM records WHERE episode IN ({marks})"
            lines: dict[int, str] = dict(self._database.rows((INT, TEXT), statement, *page))
            for number in page:
                if number not in lines:
                    raise damaged(self._database.file, f"episode {number} has no record")
                yield lines[number]

    def items(self, name: str) -> tuple[Item, ...]:
        """The items of a run (its full name), episodes or not."""
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
        """Suite, `Case.task_key`, seed and seconds of episodes of this model in its latest runs, newest first.

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
        """The records of episodes of a run (its full name), by their numbers."""
        for line in self.lines(episodes):
            try:
                yield parse_record(line)
            except VlaError as error:
                raise VlaError(f"{self._database.file}: run {name}: {error}") from error


def _make_results_folder(results: Path) -> None:
    # A new folder of runs is kept out of git, as pytest's cache is; one that was there is the user's.
    if not results.exists():
        results.mkdir(parents=True, exist_ok=True)
        (results / ".gitignore").write_text("*\n")


def no_runs(results: Path) -> VlaError:
    """What is said of a results folder without any run."""
    return VlaError(f"no runs in {results} yet: run pytest with --vla-suite and --vla-model, or give another folder")
