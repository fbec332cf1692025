"""Writes a site: the pages of the runs that are here, ``runs.json``, and the index of all that it knows."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.records.load import open_run, open_runs
from pytest_vla.records.names import ALL_RUNS
from pytest_vla.records.runs import Run
from pytest_vla.records.store import STORE, no_runs, open_store
from pytest_vla.reports.html.gates import GateTold, gates_told
from pytest_vla.reports.html.media import Shown
from pytest_vla.reports.loaded import Loaded, load
from pytest_vla.reports.site.cells import PAGES_FOLDER
from pytest_vla.reports.site.entries import Entry
from pytest_vla.reports.site.listing import check_listed, newest_first, read_listing, write_listing
from pytest_vla.reports.site.page import TITLE, index_html
from pytest_vla.reports.site.summarise import digest_of, summarise
from pytest_vla.util.files import whole_file
from pytest_vla.util.locks import exclusive
from pytest_vla.util.text import counted

INDEX, LISTING = "index.html", "runs.json"

_MARK = b'<meta name="generator" content="pytest-vla">'

_LOCK = ".runs.lock"

PageOf = Callable[[Loaded, str, Path, Sequence[GateTold]], tuple[bytes, list[str]]]
"""The page of a run's records, of its name, its results folder and its gates; and what is missing from it."""


@dataclass(frozen=True)
class Site:
    """What is to be written.

    Attributes:
        folder: of the site.
        which: runs, as `pytest_vla.records.load` knows them; none: all of `results`.
        results: the folder where runs are looked for by their names.
        title: of the index.
        limit: so many runs are in the index, the newest; None: all.
        force: whether pages that would be the same are made too.
        shown: of how many episodes of a run there are pictures and videos.
    """

    folder: Path
    which: tuple[str, ...]
    results: Path
    title: str = TITLE
    limit: int | None = None
    force: bool = False
    shown: Shown = field(default_factory=lambda: Shown(pictures=0))


@dataclass(frozen=True)
class Built:
    """What was written.

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
    """What is done so far; entries by name."""

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
    """The runs with their results folders, the oldest first, and each once."""
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
    """Raises VlaError: something else is in their place, also another's index, or they cannot be made."""
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
    """A run's page and its entry. Raises VlaError: it cannot be written."""
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
