"""Records of other stores that become a run's, in one transaction: all of them or none."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vla.records.counting import key_of, takes_over
from pytest_vla.records.items import SHARED
from pytest_vla.records.record import Record, record_line
from pytest_vla.records.runs import this_process
from pytest_vla.records.stored_runs import COMPLETE_SQL

if TYPE_CHECKING:
    import sqlite3


# Records that are written into the store, each with what it changes of what counts.

_EPISODE = ("run", "of_suite", "suite", "task", "seed", "attempt", "outcome", "reason", "steps", "digest", "started")


class _Before(NamedTuple):
    """As `pytest_vla.records.counting.Attempt`."""

    outcome: str
    started: str


def add_record(connection: "sqlite3.Connection", record: Record) -> None:
    """Write a record of a run that has begun, and which record of its item counts now; within a transaction."""
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
    own = "SELECT outcome, started FROM items AS i JOIN episodes AS e ON e.id = i.own WHERE i.run = ? AND i.node = ?"
    before = connection.execute(own, item).fetchone()
    if before is None or takes_over(record, _Before(*before)):
        # Of what an earlier run picked, the first time counts that it came to an end.
        earlier = connection.execute(
            f"SELECT id FROM episodes WHERE case_key = ? AND run != ? AND outcome IN {COMPLETE_SQL}"
            " AND (SELECT picked FROM runs WHERE name = ?) IS NOT NULL ORDER BY started, id LIMIT 1",
            (key, record.run, record.run),
        ).fetchone()
        counting = number if earlier is None else earlier[0]
        connection.execute(
            "UPDATE items SET own = ?, counting = ? WHERE run = ? AND node = ?", (number, counting, *item)
        )


def insert(connection: "sqlite3.Connection", table: str, **columns: Any) -> int | None:
    """Write a row. Returns its number."""
    marks = ", ".join("?" * len(columns))
    statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"
    return connection.execute(statement, tuple(columns.values())).lastrowid


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def encodable(text: str) -> str:
    """Names of files that are not UTF-8 have characters that SQLite does not take."""
    return text.encode(errors="backslashreplace").decode()


@dataclass(frozen=True)
class Begun:
    """The run that records are joined to, where it is new.

    Attributes:
        started: when its first part began, UTC, ISO 8601.
        command, model: see `pytest_vla.records.runs.Run`.
        items: node ids in their order, each with whether it is an episode, and whether that is several tests'.
    """

    started: str
    command: str
    model: str
    items: Sequence[tuple[str, bool, bool]]


def join(
    connection: "sqlite3.Connection",
    name: str,
    begun: Begun | None,
    records: Iterable[Record],
    statuses: Mapping[str, str],
    invocation: Mapping[str, Any],
) -> None:
    """Write records of a run, and how its items ended; within a transaction.

    Args:
        connection: to the store.
        name: of the run, which is the records' too.
        begun: where it is a new one; None: it is there.
        records: in the order in which they are to be known.
        statuses: by node id, of the items whose status is another than before.
        invocation: which the run has from now on.
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


def _begin(connection: "sqlite3.Connection", name: str, begun: Begun) -> None:
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
