"""Records that are written into the store, each with what it changes of what counts."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_vla.records.counting import key_of, takes_over
from pytest_vla.records.record import Record, record_line
from pytest_vla.records.stored_runs import COMPLETE_SQL

if TYPE_CHECKING:
    import sqlite3

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
