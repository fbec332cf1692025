"""Records of other stores that become a run's, in one transaction: all of them or none."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vla.records.adding import add_record, encodable, insert, now
from pytest_vla.records.items import SHARED
from pytest_vla.records.record import Record
from pytest_vla.records.runs import this_process

if TYPE_CHECKING:
    import sqlite3


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
