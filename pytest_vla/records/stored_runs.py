"""Runs as the store has them: read, and looked at, since a store may be from elsewhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.records.checks import OUTCOMES, is_run_name, is_time, parse_json
from pytest_vla.records.counting import COMPLETE, Repeats
from pytest_vla.records.database import INT, MAYBE_INT, MAYBE_TEXT, TEXT, Database, damaged
from pytest_vla.records.items import DECIDED
from pytest_vla.records.runs import Count, Run
from pytest_vla.util.text import printable

# Null: no variation, whose label would stand before the seed. Only of others the record has to be read.
PROBE = (
    "CASE WHEN case_id LIKE '%[seed%' THEN NULL ELSE"
    " (SELECT coalesce(json_extract(line, '$.variation.probe'), 0) FROM records WHERE episode = e.id) END"
)
# Of a label with parameters that a file of cases gives, as `pytest_vla.plan.labels.chosen` writes it. A task as it is
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
    """All runs, the newest first, or the one of this full name. Raises VlaError where one is none of ours."""
    whose, which = ("WHERE run = ?", "WHERE name = ?") if name else ("", "")
    counts: dict[str, list[Count]] = {}
    rows = database.rows(
        (TEXT, TEXT, INT, MAYBE_INT, INT, TEXT, MAYBE_TEXT, INT),
        f"SELECT run, suite, of_suite, {PROBE}, {GIVEN}, outcome, reason, count(*) FROM results AS e {whose}"
        " GROUP BY 1, 2, 3, 4, 5, 6, 7",
        *name,
    )
    database.check_words(OUTCOMES, (row[5] for row in rows))
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
    statement = f"SELECT {', '.join(_OF_RUNS)} FROM runs {which} ORDER BY id DESC"
    rows = database.rows([*_OF_RUNS.values()], statement, *name)
    tables = [dict(zip(_OF_RUNS, row, strict=True)) for row in rows]
    for table in tables:
        _check_run(database, table)
        table |= {"invocation": _invocation(database.file, table), "counts": tuple(counts.get(table["name"], ()))}
        table |= {"repeats": repeats.get(table["name"], Repeats()), "decided": decided.get(table["name"], 0)}
        table |= {"copies": copies.get(table["name"], 0)}
    return tuple(Run(**table) for table in tables)


def read_invocations(database: Database) -> dict[str, dict[str, Any]]:
    """Return the invocation of each run, the oldest first. Raises VlaError where one is none of ours."""
    rows = database.rows((TEXT, TEXT), "SELECT name, invocation FROM runs ORDER BY id")
    return {name: _invocation(database.file, {"name": name, "invocation": text}) for name, text in rows}


def _check_run(database: Database, table: Mapping[str, Any]) -> None:
    """Refuse a run that we have not written; its name is a folder's, and a picture's."""
    if not is_run_name(table["name"]):
        expected = "expected letters, digits, _ . and - only"
        raise damaged(database.file, f"a run is called {printable(repr(table['name'])[:60])}: {expected}")
    database.check_words(_RUN_STATUSES, [table["status"]])
    for name in ("started", "ended"):
        if table[name] is not None and not is_time(table[name]):
            raise damaged(database.file, f"run {table['name']} {name} at {printable(repr(table[name])[:60])}, no time")


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
