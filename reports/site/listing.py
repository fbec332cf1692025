"""``runs.json``: the runs of a site, a line each, by which those whose records are gone stay in the index."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.records.checks import parse_json
from pytest_vla.reports.site.checks import ENTRY, RATE, RESULT, SCHEMA, check_entry, check_head
from pytest_vla.reports.site.entries import Entry, Result, Verdict
from pytest_vla.util.documents import read_plain
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import printable
from pytest_vla.versions import installed

MOST_BYTES = 256 * 1024 * 1024

_MENDING = "take the file of the job before, or delete it: then the index is of the runs that are here"


def read_listing(path: Path) -> dict[str, Entry]:
    """The runs of a site by their names, the newest first; none where there is no file.

    Raises:
        VlaError: the file is damaged; names it, the run, what was expected, and what helps.
    """
    try:
        text = read_plain(path, MOST_BYTES).decode()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise _broken(path, f"it is no text (byte {error.start})") from error
    except ValueError as error:
        raise _broken(path, str(error)) from error
    except OSError as error:
        raise VlaError(f"cannot read {path}: {error.strerror or error}") from error
    found: dict[str, Entry] = {}
    try:
        for place, table in enumerate(check_head(parse_json(text, unique=True)), 1):
            try:
                check_entry(table)
            except VlaError as error:
                raise VlaError(f"{_whose(table, place)}: {error}") from error
            if table["name"] in found:
                raise VlaError(f"run {table['name']} is there twice")
            found[table["name"]] = _entry(table)
    except VlaError as error:
        raise _broken(path, str(error)) from error
    return newest_first(found.values())


def write_listing(path: Path, entries: Iterable[Entry]) -> None:
    """Write it, whole or not at all, the newest run first. Raises VlaError."""
    with whole_file(path) as stream:
        stream.write(text_of(entries).encode())


def text_of(entries: Iterable[Entry]) -> str:
    """What is in the file: equal entries are equal bytes, and a run is a line."""
    lines = ",\n".join(_json(_table(entry)) for entry in newest_first(entries).values())
    runs = f"[\n{lines}\n]" if lines else "[]"
    made_by = _json(f"pytest-vla {installed('pytest-vla')}")
    return f'{{\n"schema": {SCHEMA},\n"made_by": {made_by},\n"runs": {runs}\n}}\n'


def check_listed(entry: Entry) -> None:
    """Refuse a run that could not be read again: it would cost the site all others. Raises VlaError."""
    check_entry(json.loads(_json(_table(entry))))


def newest_first(entries: Iterable[Entry]) -> dict[str, Entry]:
    """By name."""
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.order, reverse=True)}


def _table(entry: Entry) -> dict[str, Any]:
    told = {name: value for name, value in asdict(entry).items() if name != "unknown"}
    told["results"] = [
        {name: value for name, value in result.items() if name != "unknown"} | dict(result["unknown"])
        for result in told["results"]
    ]
    return told | dict(entry.unknown)


def _entry(table: Mapping[str, Any]) -> Entry:
    known = {name: table[name] for name in ENTRY}
    verdict = known["verdict"]
    known["verdict"] = None if verdict is None else Verdict(verdict["word"], verdict["passed"], verdict["line"])
    known["results"] = tuple(map(_result, known["results"]))
    return Entry(**known, unknown={name: value for name, value in table.items() if name not in ENTRY})


def _result(table: Mapping[str, Any]) -> Result:
    known = {name: table[name] for name in RESULT}
    rate = {name: known["rate"][name] for name in RATE}
    for name in ("interval", "tasks_interval"):
        rate[name] = None if rate[name] is None else (float(rate[name][0]), float(rate[name][1]))
    known |= {"rate": SuccessRate(**rate), "policies": tuple(known["policies"])}
    return Result(**known, unknown={name: value for name, value in table.items() if name not in RESULT})


def _whose(table: Any, place: int) -> str:
    name = table.get("name") if isinstance(table, dict) else None
    return f"run {printable(name)[:80]}" if isinstance(name, str) else f"run {place} of the list"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _broken(path: Path, why: str) -> VlaError:
    return VlaError(f"{path}: not the runs of a site: {why}; {_MENDING}")
