"""From the tables of an earlier version to those of the next: a function a version step, in one transaction."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.records.counting import key_of
from pytest_vla.records.record import parse_record

if TYPE_CHECKING:
    import sqlite3


def _own_simulators_tell_cases_apart(connection: "sqlite3.Connection") -> None:
    """To schema 4: what a suite's own world says of its simulator is part of ``episodes.case_key``; tables stay."""
    rows = connection.execute(
        "SELECT episode, line FROM records WHERE CASE WHEN typeof(line) = 'text' AND json_valid(line)"
        " THEN json_extract(line, '$.provenance.world') END IS NOT NULL"
    )
    for episode, line in rows:
        try:
            key = key_of(parse_record(line)).text
        except VlaError:
            # Whoever reads the record is told.
            continue
        connection.execute("UPDATE episodes SET case_key = ? WHERE id = ?", (key, episode))


STEPS: Mapping[int, Callable[["sqlite3.Connection"], None]] = {3: _own_simulators_tell_cases_apart}
"""From each schema that can be read to the one after it."""

OLDEST = min(STEPS)
