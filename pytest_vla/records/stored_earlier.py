"""What counts for a run of what earlier runs did: records of theirs, where it ran what they had picked for it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pytest_vla.records.database import INT, MAYBE_TEXT, TEXT, Database
from pytest_vla.records.record import Record
from pytest_vla.records.stored_runs import COMPLETE_SQL


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


def read_earlier(
    database: Database, name: str, parsed: Callable[[Sequence[int]], Iterator[Record]]
) -> tuple[Earlier, ...]:
    """The items of a run (its full name) for which a record of an earlier run counts."""
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
    """How many of a run's cases (its full name) had come to an end in an earlier run, and how many of these
    otherwise."""
    ((number, otherwise),) = database.rows(
        (INT, INT),
        "SELECT count(*), ifnull(sum(first.outcome != o.outcome), 0) FROM items AS i"
        " JOIN episodes AS o ON o.id = i.own"
        " JOIN episodes AS first ON first.id = (SELECT id FROM episodes WHERE case_key = o.case_key"
        f" AND run != i.run AND started < o.started AND outcome IN {COMPLETE_SQL} ORDER BY started, id LIMIT 1)"
        f" WHERE i.run = ? AND o.outcome IN {COMPLETE_SQL}",
        name,
    )
    return number, otherwise
