"""Writes a site: the pages of the runs that are here, ``runs.json``, and the index of all that it knows."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.metrics.rates import BENIGN, VARIED
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.records.checks import is_count, is_number, is_plain, is_run_name, parse_json
from pytest_vla.records.load import open_run, open_runs
from pytest_vla.records.names import ALL_RUNS
from pytest_vla.records.runs import Run
from pytest_vla.records.store import STORE, no_runs, open_store
from pytest_vla.reports.html.gates import GateTold, gates_told
from pytest_vla.reports.html.media import MediaShown
from pytest_vla.reports.loaded import Loaded, load
from pytest_vla.reports.site.entries import Entry, EntryVerdict, Result, digest_of, summarise
from pytest_vla.reports.site.page import PAGES_FOLDER, TITLE, index_html
from pytest_vla.util.documents import read_plain
from pytest_vla.util.files import exclusive, whole_file
from pytest_vla.util.text import counted, printable
from pytest_vla.versions import installed

MOST_BYTES = 256 * 1024 * 1024

_MENDING = "take the file of the job before, or delete it: then the index is of the runs that are here"


def read_listing(path: Path) -> dict[str, Entry]:
    """Return the runs of a site by name, the newest first; empty if there is no file.

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
    """Return the file's text, one line for each run; equal entries give equal bytes."""
    lines = ",\n".join(_json(_table(entry)) for entry in newest_first(entries).values())
    runs = f"[\n{lines}\n]" if lines else "[]"
    made_by = _json(f"pytest-vla {installed('pytest-vla')}")
    return f'{{\n"schema": {SCHEMA},\n"made_by": {made_by},\n"runs": {runs}\n}}\n'


def check_listed(entry: Entry) -> None:
    """Refuse a run that could not be read again: it would cost the site all others. Raises VlaError."""
    check_entry(json.loads(_json(_table(entry))))


def newest_first(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the entries by name, the newest first."""
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
    known["verdict"] = None if verdict is None else EntryVerdict(verdict["word"], verdict["passed"], verdict["line"])
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


SCHEMA = 1
"""Of the files that this version writes."""


def check_head(table: Any) -> list[Any]:
    """Refuse a file whose runs cannot be read.

    Args:
        table: as JSON has it.

    Returns:
        Its runs, which `check_entry` looks at.

    Raises:
        VlaError: it is no table, or of a later schema, or has no list of runs.
    """
    if not isinstance(table, dict):
        raise VlaError(f"expected a table, found {type(table).__name__}")
    schema = table.get("schema")
    if type(schema) is int and schema > SCHEMA:
        by = printable(table["made_by"])[:60] if isinstance(table.get("made_by"), str) else "a later version"
        raise VlaError(
            f"expected schema {SCHEMA}, found {schema}, of {by}: upgrade pytest-vla (pip install -U pytest-vla)"
        )
    if schema is not True and schema == SCHEMA and isinstance(runs := table.get("runs"), list):
        return runs
    raise VlaError(f"expected schema {SCHEMA} and a list of runs, found schema {_told(schema)}")


def check_entry(table: Any) -> None:
    """Refuse a run whose fields are not there, not of their types, or contradict each other. Raises VlaError."""
    _check(table, ENTRY)
    if table["verdict"] is not None:
        _within("verdict", lambda: _check(table["verdict"], VERDICT))
    columns = set()
    for place, result in enumerate(table["results"], 1):
        _within(f"results, {place}", lambda result=result: _check_result(result))  # type: ignore[misc]
        columns.add((result["model"], result["suite"], result["group"]))
    if len(columns) < len(table["results"]):
        raise VlaError("results: expected one of each model, suite and group, found two")


def _check_result(table: Any) -> None:
    _check(table, RESULT)
    of_tasks = table["of_tasks"]
    if of_tasks is not None and of_tasks < table["tasks"]:
        raise VlaError(f"of_tasks: expected tasks, {table['tasks']}, or more, found {of_tasks}")
    rate = table["rate"]
    _within("rate", lambda: _check(rate, RATE))
    if rate["successes"] > rate["counted"]:
        raise VlaError(f"rate: successes: expected up to counted, {rate['counted']}, found {rate['successes']}")
    others = sum(rate["errors"].values()) + sum(rate["invalid"].values())
    if rate["counted"] + others != rate["episodes"]:
        raise VlaError(f"rate: episodes: expected {rate['counted'] + others}, as there are, found {rate['episodes']}")
    if rate["interval"] is not None and not rate["counted"]:
        raise VlaError("rate: interval: expected null where nothing is counted")


def _within(place: str, check: Callable[[], None]) -> None:
    try:
        check()
    except VlaError as error:
        raise VlaError(f"{place}: {error}") from error


def _check(table: Any, fields: "Fields") -> None:
    if not isinstance(table, dict):
        raise VlaError(f"expected a table, found {type(table).__name__}")
    if missing := [name for name in fields if name not in table]:
        raise VlaError(f"fields missing: {', '.join(missing)}")
    for name, value in table.items():
        expected, fits = fields.get(name, _FURTHER)
        if not fits(value):
            raise VlaError(f"{printable(name)[:60]}: expected {expected}, found {_told(value)}")


def _told(value: object) -> str:
    return printable(repr(value)[:60])


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_time(value: object) -> bool:
    try:
        datetime.fromisoformat(value).astimezone(UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return False
    return True


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_text_table(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_count_table(value: object) -> bool:
    return isinstance(value, dict) and all(map(is_count, value.values()))


def _is_interval(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(is_number(end) and type(end) is not bool for end in value)
        and 0 <= value[0] <= value[1] <= 1
    )


def _or_null(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


Fields = Mapping[str, tuple[str, Callable[[object], bool]]]

_FURTHER = ("numbers, texts, lists and tables, not too deep", is_plain)
_TEXT = ("a text", _is_text)
_TEXT_OR_NULL = ("a text or null", _or_null(_is_text))
_COUNT = ("an integer from 0", is_count)
_TABLE = ("a table", lambda value: isinstance(value, dict))
_INTERVAL = ("two shares, the lower first, or null", _or_null(_is_interval))

ENTRY: Fields = {
    "name": ("the name of a run", is_run_name),
    "started": ("a time, ISO 8601", _is_time),
    "ended": ("a time, ISO 8601, or null", _or_null(_is_time)),
    "status": _TEXT,
    "model": _TEXT,
    "picked": _TEXT_OR_NULL,
    **dict.fromkeys(("planned", "done", "decided"), _COUNT),
    "verdict": ("a table or null", _or_null(lambda value: isinstance(value, dict))),
    "versions": ("a table of texts", _is_text_table),
    "results": ("a list of results", _is_list),
    "made_from": _TEXT,
}
VERDICT: Fields = {"word": _TEXT, "passed": ("true or false", lambda value: isinstance(value, bool)), "line": _TEXT}
RESULT: Fields = {
    "model": _TEXT,
    "policies": ("a list of texts", _is_texts),
    "suite": _TEXT,
    "group": (f"{BENIGN} or {VARIED}", lambda value: value in (BENIGN, VARIED)),
    "rate": _TABLE,
    "tasks": _COUNT,
    "of_tasks": ("an integer from 0, or null", _or_null(is_count)),
    "variations": _COUNT,
    "selection": _TEXT,
    "conditions": ("a table of texts", _is_text_table),
}
RATE: Fields = {
    "name": _TEXT,
    **dict.fromkeys(("episodes", "successes", "counted"), _COUNT),
    **dict.fromkeys(("interval", "tasks_interval"), _INTERVAL),
    **dict.fromkeys(("errors", "invalid"), ("a table of integers from 0", _is_count_table)),
}


INDEX, LISTING = "index.html", "runs.json"

_MARK = b'<meta name="generator" content="pytest-vla">'

_LOCK = ".runs.lock"

PageOf = Callable[[Loaded, str, Path, Sequence[GateTold]], tuple[bytes, list[str]]]
"""The page of a run's records, of its name, its results folder and its gates; and what is missing from it."""


@dataclass(frozen=True)
class Site:
    """The site to write.

    Attributes:
        folder: of the site.
        which: runs, as `pytest_vla.records.load` knows them; all of `results` if empty.
        results: the folder where runs are looked for by their names.
        title: of the index.
        limit: how many of the newest runs are in the index, or None for all.
        force: whether unchanged pages are made too.
        shown: of how many episodes of a run there are pictures and videos.
    """

    folder: Path
    which: tuple[str, ...]
    results: Path
    title: str = TITLE
    limit: int | None = None
    force: bool = False
    shown: MediaShown = field(default_factory=lambda: MediaShown(pictures=0))


@dataclass(frozen=True)
class Built:
    """The result of writing a site.

    Attributes:
        made: runs whose pages are new, the oldest first.
        unchanged: runs whose pages would have been the same.
        listed: how many runs ``runs.json`` has.
        troubles: what is missing from the site, and why.
    """

    made: tuple[str, ...]
    unchanged: tuple[str, ...]
    listed: int
    troubles: tuple[str, ...]


@dataclass
class _Work:
    """The site's entries, by name, and the runs handled so far."""

    entries: dict[str, Entry]
    made: list[str]
    unchanged: list[str]
    troubles: list[str]
    left_out: list[str]


def build_site(site: Site, page_of: PageOf, tell: Callable[[str], None]) -> Built:
    """Write it: pages, then ``runs.json``, the index last, each whole or not at all. Nothing is deleted.

    Args:
        site: what is wanted.
        page_of: makes the page of a run.
        tell: takes what is being done.

    Raises:
        VlaError: there are no runs and none were listed, ``runs.json`` is damaged, or the folder cannot be written. A
            run that cannot be read raises nothing: it is among `Built.troubles`.
    """
    found = [*_runs(site)]
    if not found and not (site.folder / LISTING).exists():
        raise no_runs(site.results)
    _make_folders(site.folder)
    tell(f"waiting for another that writes into {site.folder}")
    with exclusive(site.folder / _LOCK):
        work = _Work(read_listing(site.folder / LISTING), [], [], [], [])
        try:
            for place, (results, run) in enumerate(found, 1):
                tell(f"page {place} of {len(found)}, run {run.name}")
                _add(site, work, results, run, page_of)
        except BaseException:
            # What is made is not to be made again.
            if work.made:
                with suppress(VlaError):
                    write_listing(site.folder / LISTING, work.entries.values())
            raise
        tell("the index")
        write_listing(site.folder / LISTING, work.entries.values())
        _write_index(site, work, not found)
    return Built(tuple(work.made), tuple(work.unchanged), len(work.entries), tuple(work.troubles))


def _runs(site: Site) -> Iterator[tuple[Path, Run]]:
    """Return the runs with their results folders, each once, the oldest first."""
    if not site.which or set(site.which) == {ALL_RUNS}:
        if not (site.results / STORE).is_file():
            return
        with open_store(site.results, create=False) as store:
            found = [(store.results, run) for run in store.runs()]
    else:
        found = [(store.results, run) for store, runs in open_runs(site.which, site.results) for run in runs]
    seen = set()
    for results, run in sorted(found, key=lambda each: (each[1].started, each[1].name)):
        if (key := (results.resolve(), run.name)) not in seen:
            seen.add(key)
            yield results, run


def _make_folders(folder: Path) -> None:
    """Make the site's folders. Raises VlaError if something else, or another site's index, is in their place."""
    index = folder / INDEX
    if index.is_file() and not (folder / LISTING).exists() and _MARK not in index.read_bytes()[:4096]:
        raise VlaError(f"-o {folder}: {index} is not pytest-vla's, and would be overwritten; name another folder")
    for each in (folder, folder / PAGES_FOLDER):
        if each.exists() and not each.is_dir():
            raise VlaError(f"-o {folder}: {each} is no folder; name a folder, such as -o public")
    try:
        (folder / PAGES_FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VlaError(f"-o {folder}: cannot make the folder {error.filename}: {error.strerror}") from error


def _add(site: Site, work: _Work, results: Path, run: Run, page_of: PageOf) -> None:
    """Add a run's page and entry. Raises VlaError if they cannot be written."""
    before = work.entries.get(run.name)
    try:
        with open_run(run.name, results) as (store, _):
            made_from = digest_of(store, run, site.shown)
        if run.name in (*work.made, *work.unchanged):
            if before is not None and before.made_from != made_from:
                raise VlaError(f"it is another run in {results} than in a folder before; name one of the two")
            return
        is_same = before is not None and before.made_from == made_from
        if is_same and not site.force and _page(site, run.name).is_file():
            work.unchanged.append(run.name)
            return
        loaded = load([run.name], results)
        gates = gates_told([run.name], results)
        entry = summarise(run, loaded, gates, made_from, site.shown.data)
        check_listed(entry)
        content, missing = page_of(loaded, run.name, results, gates)
    except VlaError as error:
        work.troubles.append(f"run {run.name} is left out: {error}")
        if run.name not in (*work.made, *work.unchanged):
            work.left_out.append(run.name)
        return
    with whole_file(_page(site, run.name)) as stream:
        stream.write(content)
    # What a later version knew of it was of other records, or will be made by that version again.
    work.entries[run.name] = entry
    work.made.append(run.name)
    work.troubles += [f"run {run.name}: {text}" for text in missing]


def _write_index(site: Site, work: _Work, is_bare: bool) -> None:
    entries = [*newest_first(work.entries.values()).values()]
    shown = entries[: site.limit]
    pages = {entry.name for entry in shown if _page(site, entry.name).is_file()}
    texts = [f"{site.results} has no run: the index is of runs that were listed before"] * is_bare
    if older := len(entries) - len(shown):
        texts.append(f"{counted(older, 'older run')} not shown (--limit={site.limit})")
    for name in dict.fromkeys(work.left_out):
        # Why is for the job's log: it names files.
        stands = "its page and numbers are of before" if name in work.entries else "it is not here"
        texts.append(f"run {name} could not be read: {stands}")
    with whole_file(site.folder / INDEX) as stream:
        stream.write(index_html(site.title, shown, pages, texts))


def _page(site: Site, name: str) -> Path:
    return site.folder / PAGES_FOLDER / f"{name}.html"
