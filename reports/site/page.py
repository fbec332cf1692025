"""Writes a site: the pages of its runs, and the index with the newest run, checkpoints, trends, and all runs."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from pytest_vla.errors import VlaError
from pytest_vla.gate.comparable import CONDITIONS, row_of
from pytest_vla.metrics.rates import BENIGN, ends_text, interval_text, left_out_text, percents, share_text
from pytest_vla.records.load import open_run, open_runs
from pytest_vla.records.names import ALL_RUNS
from pytest_vla.records.runs import Run
from pytest_vla.records.store import STORE, no_runs, open_store
from pytest_vla.reports.blocks import NONE, Cell, Table, table_of
from pytest_vla.reports.html.gates import GateTold, gates_told
from pytest_vla.reports.html.media import MediaShown
from pytest_vla.reports.html.parts import PageBlock, block_of, rendered
from pytest_vla.reports.html.svg import SIGNS, Dot, interval_bar, trend, trend_key
from pytest_vla.reports.loaded import Loaded, load
from pytest_vla.reports.runs import FEW_BY_TIME, STOPPED_BY_TIME
from pytest_vla.reports.site.entries import (
    DRAWN,
    NOT_JUDGED,
    SEVERAL,
    Entry,
    EntryVerdict,
    Result,
    check_listed,
    digest_of,
    newest_first,
    read_listing,
    summarise,
    write_listing,
)
from pytest_vla.reports.text import first_few
from pytest_vla.util.files import exclusive, whole_file
from pytest_vla.util.text import counted, visible_lines
from pytest_vla.versions import installed

PAGES_FOLDER = "runs"
"""Of the site: where the pages of runs are."""


def run_link(name: str, pages: Collection[str]) -> Markup:
    """Return the run's name, as a link if its page exists.

    Args:
        name: of the run.
        pages: names of runs whose pages exist.
    """
    if name not in pages:
        return Markup("{}").format(name)
    return Markup('<a href="{}/{}.html">{}</a>').format(PAGES_FOLDER, name, name)


def run_cell(entry: Entry, pages: Collection[str]) -> Markup:
    """Return `run_link` with the start time below it, and a note if the page is gone."""
    gone = "" if entry.name in pages else ", its page is not here"
    return Markup('{}<div class="note">{}{}</div>').format(run_link(entry.name, pages), began_text(entry), gone)


def began_text(entry: Entry) -> str:
    """Return ``2026-11-25 16:00 UTC``."""
    return entry.began.strftime("%Y-%m-%d %H:%M UTC")


def model_cell(model: str, contents: Collection[str]) -> Markup:
    """Return the model's name, with its content digests below."""
    told = ", ".join(dict.fromkeys(each if each != "unknown" else "content unknown" for each in contents))
    return Markup('{}<div class="note">{}</div>').format(model, told) if told else Markup("{}").format(model)


def tasks_text(result: Result) -> str:
    """Return ``10 tasks``, ``3 of 10 tasks`` or ``6 of 10 tasks, 2431 variations of them``."""
    if result.is_whole:
        told = counted(result.tasks, "task")
    else:
        told = f"{result.tasks} of {counted(result.of_tasks or 0, 'task')}"
    return told if result.group == BENIGN else f"{told}, {counted(result.variations, 'variation')} of them"


def tasks_cell(result: Result) -> Markup:
    """Return `tasks_text`, marked if it is only a part of the suite."""
    form = "{}" if result.is_whole else '<span class="plain">{}</span>'
    return Markup(form).format(tasks_text(result))


def rate_text(result: Result) -> str:
    """Return ``65.0% [43.3%, 81.9%]``, or a dash if nothing is counted."""
    rate = result.rate
    return share_text(rate) + f" {interval_text(rate)}" * (rate.interval is not None)


def success_text(result: Result) -> str:
    """Return ``13/20``."""
    return f"{result.rate.successes}/{result.rate.counted}"


def result_line(result: Result) -> Markup:
    """Return ``tabletop 65.0% [43.3%, 81.9%], 13/20, 10 tasks; not in it: 1 error: 61.9% to 66.7%``."""
    left_out = f"; not in it: {told}" if (told := left_out_text(result.rate)) else ""
    return Markup("<div>{} {}, {}, {}{}</div>").format(
        result.column, rate_text(result), success_text(result), tasks_cell(result), left_out
    )


def result_lines(entry: Entry) -> Markup:
    """Return `result_line` of all results; with several models, each model's name above its own."""
    several = len({result.model for result in entry.results}) > 1
    lines = []
    model = ""
    for result in entry.results:
        if several and result.model != model:
            model = result.model
            lines.append(Markup('<div class="note">{}</div>').format(model))
        lines.append(result_line(result))
    return Markup("").join(lines)


def status_text(entry: Entry) -> str:
    """Return ``finished`` or ``stopped, 3 of 10 episodes``, with the selection and the gate's decisions."""
    told = entry.status
    told += f", {entry.done} of {counted(entry.planned, 'episode')}" * entry.is_cut_short
    return told + f", {entry.picked}" * bool(entry.picked) + f", {entry.decided} decided" * bool(entry.decided)


_LONGEST = 80
_JOINED_SHOWN = 3


class TrendPoint(NamedTuple):
    """A run in a trend."""

    entry: Entry
    result: Result


@dataclass(frozen=True)
class JoinedRuns:
    """A run on a trend line, and how it joins the runs before it.

    Attributes:
        point: the run.
        before: name of the run that it is not joined to; empty if it is joined, is the first, or is alone.
        why: the reason why it is not joined; empty if it is joined, or the first.
        is_break: whether a line ends before it.
    """

    point: TrendPoint
    before: str = ""
    why: str = ""
    is_break: bool = False

    @property
    def is_hollow(self) -> bool:
        """Whether it is of a part of the tasks or of the episodes."""
        return self.point.entry.is_cut_short or not self.point.result.is_whole

    @property
    def text(self) -> str:
        """The note ``B is not joined to A: 10 tasks before, 1 here``; empty if the run is joined."""
        name = self.point.entry.name
        to = f" to {self.before}" if self.before else ""
        return f"{name} is not joined{to}: {self.why}" if self.why else ""


def lines_of(points: Sequence[TrendPoint]) -> list[list[JoinedRuns]]:
    """Return the lines of a model in a suite, each with the runs that are joined; lines of whole runs come first.

    Runs of all tasks follow each other, whatever parts ran between them; runs of a part follow those of the same part.

    Args:
        points: of a model, the oldest first.
    """
    alone: list[list[JoinedRuns]] = []
    lanes: dict[str, list[list[JoinedRuns]]] = {"": []}
    last: TrendPoint | None = None
    for point in points:
        if point.entry.is_cut_short:
            alone.append([JoinedRuns(point, why=_cut_short(point.entry))])
            continue
        lane = lanes.setdefault("" if point.result.is_whole else point.result.selection, [])
        joined = JoinedRuns(point)
        before = lane[-1][-1].point if lane else last
        if before is not None and (why := difference(before.result, point.result)):
            joined = replace(joined, before=before.entry.name, why=why, is_break=bool(lane))
        if lane and not joined.why:
            lane[-1].append(joined)
        else:
            lane.append([joined])
        last = point
    return [line for lane in lanes.values() for line in lane] + alone


def difference(before: Result, here: Result) -> str:
    """Return why two results of a model and suite cannot be joined, or an empty text if they can."""
    if before.selection != here.selection:
        if before.tasks != here.tasks:
            return f"{counted(before.tasks, 'task')} before, {here.tasks} here"
        if before.variations != here.variations:
            return f"{counted(before.variations, 'variation')} before, {here.variations} here"
        return "different tasks, or different variations of them"
    told = [*_differing(before, here)]
    more = f"; and {len(told) - _JOINED_SHOWN} more" if len(told) > _JOINED_SHOWN else ""
    return "; ".join(told[:_JOINED_SHOWN]) + more


def _differing(before: Result, here: Result) -> Iterator[str]:
    rows = [row.name for row in CONDITIONS]
    names = [name for name in {*before.conditions, *here.conditions} if row_of(name).effect == "refuses"]
    for name in sorted(names, key=lambda name: (rows.index(row_of(name).name), name)):
        row, values = row_of(name), [side.conditions.get(name) for side in (before, here)]
        unknown = row.unsaid != "differs" and None in values
        if values[0] == values[1] or DRAWN in values or unknown:
            continue
        if any(value is not None and value.startswith(SEVERAL) for value in values):
            yield f"{row.about} ({name}): differs for some tasks: {row.why}"
        else:
            yield f"{row.about} ({name}): {_shown(values[0])} before, {_shown(values[1])} here: {row.why}"


def _shown(value: str | None) -> str:
    if value is None:
        return "unknown"
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."


def _cut_short(entry: Entry) -> str:
    told = f"{entry.done} of {counted(entry.planned, 'episode')}"
    if entry.decided:
        return f"{told}: a sequential gate skipped the others, so its rate is biased"
    if entry.status == STOPPED_BY_TIME:
        return f"{told}, a balanced sample (stopped by a time limit)"
    if entry.status == FEW_BY_TIME:
        return f"{told}, few for its workers (stopped by a time limit)"
    return f"{told}: the first episodes are not a sample of all"


MODELS = 6
"""Of a chart: as many as there are colours."""

CHARTS = 3
"""Of a suite."""

_WIDE = 22
"""From more runs than these on a chart takes a whole row."""

_SHOWN, _NOTES = 4, 6

_HEAD = ("run", "model", "content", "tasks", "success", "rate", "95%, these tasks", "tasks like these")
_BOX = Markup(
    '<figure class="chart-box"><div class="scroll" tabindex="0" role="region" aria-label="{label}">{chart}</div>'
    '<figcaption><ul class="legend">{legend}</ul></figcaption></figure>'
)


def trend_blocks(entries: Sequence[Entry], pages: Collection[str]) -> tuple[PageBlock, ...]:
    """Return a block for each suite, by name, benign episodes before varied ones.

    Args:
        entries: the runs, the newest first. Runs of episodes picked by earlier outcomes are in no trend.
        pages: names of runs whose pages exist.
    """
    found: dict[tuple[str, str], list[TrendPoint]] = {}
    numbers: dict[str, int] = {}
    for entry in reversed(entries):
        for result in () if entry.picked else entry.results:
            found.setdefault((result.suite, result.group), []).append(TrendPoint(entry, result))
            numbers.setdefault(result.model, len(numbers))
    return tuple(_block(found[key], numbers, pages) for key in sorted(found))


def _block(points: Sequence[TrendPoint], numbers: Mapping[str, int], pages: Collection[str]) -> PageBlock:
    title = points[0].result.column
    newest = [*dict.fromkeys(point.result.model for point in reversed(points) if point.result.rate.counted)]
    lines = {
        model: lines_of([point for point in points if point.result.model == model and point.result.rate.counted])
        for model in newest[: MODELS * CHARTS]
    }
    drawings, most = [], 0
    for first in range(0, len(lines), MODELS):
        signs = _signs([*lines][first : first + MODELS], numbers)
        place = first // MODELS + 1
        some = {number: lines[model] for model, number in signs.items()}
        runs = _runs_of(some.values())
        most = max(most, len(runs))
        label = f"Chart of {title}, {place}"
        drawings.append(_BOX.format(label=label, chart=_chart(title, some, runs), legend=_legend(signs, some)))
    notes = [*_notes([joined for some in lines.values() for line in some for joined in line])]
    if left := len(newest) - len(lines):
        notes.append(f"{counted(left, 'earlier model')} in the table only")
    return block_of(
        title,
        drawings=tuple(drawings),
        tables=(_numbers_table(title, points, pages),),
        notes=tuple(notes),
        is_wide=most > _WIDE,
    )


def _signs(models: Sequence[str], numbers: Mapping[str, int]) -> dict[str, int]:
    """Return the number of each model's colour and shape in a chart: the same in all charts if it is free."""
    found: dict[str, int] = {}
    for model in sorted(models, key=numbers.__getitem__):
        own = numbers[model] % SIGNS
        found[model] = next(number for number in (*range(own, SIGNS), *range(own)) if number not in found.values())
    return found


def _runs_of(lines: Collection[Sequence[Sequence[JoinedRuns]]]) -> list[Entry]:
    """Return the runs of a chart, the oldest first."""
    found = {joined.point.entry.name: joined.point.entry for some in lines for line in some for joined in line}
    return sorted(found.values(), key=lambda entry: entry.order)


def _chart(title: str, lines: Mapping[int, Sequence[Sequence[JoinedRuns]]], runs: Sequence[Entry]) -> Markup:
    places = {entry.name: place for place, entry in enumerate(runs)}
    marks = {
        number: [[_mark(joined, places[joined.point.entry.name]) for joined in line] for line in some]
        for number, some in lines.items()
    }
    below = f"{counted(len(runs), 'run')}, the oldest first; with 95% intervals"
    return trend(f"Success of {title}", below, marks, [entry.began.strftime("%m-%d %H:%M") for entry in runs])


def _mark(joined: JoinedRuns, place: int) -> Dot:
    entry, result = joined.point
    rate = result.rate
    told = f"{entry.name}, {result.model} ({_content(result.content)}): {rate_text(result)}, {success_text(result)}"
    title = "; ".join(filter(None, (f"{told}, {tasks_text(result)}", joined.text)))
    gap = joined.text if joined.is_break else ""
    return Dot(place, 100 * (rate.rate or 0), percents(rate.interval), title, is_hollow=joined.is_hollow, gap=gap)


def _content(content: str) -> str:
    return "content unknown" if content == "unknown" else content


def _legend(signs: Mapping[str, int], lines: Mapping[int, Sequence[Sequence[JoinedRuns]]]) -> Markup:
    items = [Markup("{} {}").format(trend_key(number), model) for model, number in signs.items()]
    marks = [joined for some in lines.values() for line in some for joined in line]
    if any(joined.is_hollow for joined in marks):
        items.append(Markup("hollow: a part of the tasks or episodes"))
    if any(joined.is_break for joined in marks):
        items.append(Markup("dashed: not comparable with what came before"))
    return Markup("").join(Markup("<li>{}</li>").format(item) for item in items)


def _notes(marks: Sequence[JoinedRuns]) -> Iterator[str]:
    """Why lines end: a line for each reason, that of the newest run first."""
    by_reason: dict[str, list[str]] = {}
    for joined in sorted(marks, key=lambda joined: joined.point.entry.order, reverse=True):
        if joined.why:
            to = f" to {joined.before}" if joined.before else ""
            by_reason.setdefault(joined.why, []).append(joined.point.entry.name + to)
    for why, names in [*by_reason.items()][:_NOTES]:
        yield f"not joined: {first_few(names, _SHOWN)}: {why}"
    if (left := len(by_reason) - _NOTES) > 0:
        yield f"{counted(left, 'further reason')} why runs are not joined: point at the runs' marks"


def _numbers_table(title: str, points: Sequence[TrendPoint], pages: Collection[str]) -> Table:
    rows = []
    for entry, result in reversed(points):
        rate = result.rate
        rows.append(
            (
                run_link(entry.name, pages),
                result.model,
                result.content,
                tasks_cell(result),
                success_text(result),
                share_text(rate),
                NONE if rate.interval is None else ends_text(rate.interval),
                "" if rate.tasks_interval is None else ends_text(rate.tasks_interval),
                left_out_text(rate),
            )
        )
    caption = f"The numbers of the chart of {title}, the newest first"
    return table_of(caption, (*_HEAD, "not in the rate"), tuple(rows), 4, frozenset({8}))


TITLE = "Runs of robot policies"

NO_EPISODE = "No episode has ended: there are no numbers yet."

_CHECKPOINTS = 10
"""So many are shown at once."""

_VERSIONS = ("pytest-vla", "mujoco", "robosuite")
_OF_CHECKPOINTS = (
    "Success of each checkpoint: its newest run of all tasks, or of a part where there is no other; in brackets the "
    "95% interval over these tasks"
)

_OF_EARLIER = "Success of each earlier checkpoint, chosen in the same way"


@dataclass(frozen=True)
class IndexPage:
    """The contents of the index template.

    Attributes:
        title: of the document.
        about: the line below it.
        newest: the newest run.
        checkpoints: a table of the newest ones, and a table of the earlier ones behind the block's title.
        trends: of each suite.
        runs: all of them.
        texts: of the notes at the end.
    """

    title: str
    about: str
    newest: PageBlock
    checkpoints: PageBlock
    trends: tuple[PageBlock, ...]
    runs: PageBlock
    texts: tuple[str, ...] = ()


def index_html(title: str, entries: Sequence[Entry], pages: Collection[str], texts: Sequence[str] = ()) -> bytes:
    """Return the whole document, UTF-8.

    Args:
        title: of it.
        entries: the runs that are shown, the newest first.
        pages: names of runs whose pages exist.
        texts: notes at its end.
    """
    content = rendered("index.html.j2", ("style.css", "site.css"), page=index_page(title, entries, pages, texts))
    # Cells are markup, which templates leave as it is.
    return visible_lines(content.decode()).encode()


def index_page(title: str, entries: Sequence[Entry], pages: Collection[str], texts: Sequence[str] = ()) -> IndexPage:
    """Return the index's contents; the arguments are those of `index_html`."""
    models = len({entry.model for entry in entries})
    made_by = f"made by pytest-vla {installed('pytest-vla')}"
    return IndexPage(
        title,
        f"{counted(len(entries), 'run')} of {counted(models, 'model')}; {made_by}",
        _newest(entries, pages),
        _checkpoints(entries, pages),
        trend_blocks(entries, pages),
        _runs(entries, pages),
        tuple(texts),
    )


def _newest(entries: Sequence[Entry], pages: Collection[str]) -> PageBlock:
    if not entries:
        return block_of(texts=("There is no run.",))
    entry = entries[0]
    told = Markup("<p>{}: {}, {}, began {}.</p>").format(
        run_link(entry.name, pages), entry.model, status_text(entry), began_text(entry)
    )
    if entry.verdict is not None:
        told += Markup('<p class="verdict {}">{}</p>').format(_kind(entry.verdict), entry.verdict.line)
    told += result_lines(entry) or Markup("<p>{}</p>").format(NO_EPISODE)
    return block_of(drawings=(told,))


def _checkpoints(entries: Sequence[Entry], pages: Collection[str]) -> PageBlock:
    """Return success by model and content, the newest first, without runs that picked episodes by outcome."""
    found: dict[tuple[str, tuple[str, ...]], dict[tuple[str, str], tuple[Entry, Result]]] = {}
    for entry in entries:
        for result in () if entry.picked else entry.results:
            row = found.setdefault((result.model, result.policies), {})
            column = result.suite, result.group
            before = row.get(column)
            if before is None or (_is_whole(entry, result) and not _is_whole(*before)):
                row[column] = (entry, result)
    if not found:
        return block_of(texts=("There is none yet: no episode has ended.",))
    columns = {column: result.column for row in found.values() for column, (_, result) in row.items()}
    head = ("model, content", *(columns[column] for column in sorted(columns)))
    rows: list[tuple[Cell, ...]] = []
    for row in found.values():
        (_, of) = next(iter(row.values()))
        told = [_checkpoint_cell(*row[column], pages) if column in row else NONE for column in sorted(columns)]
        rows.append((model_cell(of.model, (of.content,)), *told))
    tables = [table_of(_OF_CHECKPOINTS, head, tuple(rows[:_CHECKPOINTS]), len(head))]
    if further := rows[_CHECKPOINTS:]:
        tables.append(table_of(_OF_EARLIER, head, tuple(further), len(head)))
    title = counted(len(rows) - _CHECKPOINTS, "earlier checkpoint") if len(tables) > 1 else ""
    return block_of(title, tables=tuple(tables))


def _is_whole(entry: Entry, result: Result) -> bool:
    return result.is_whole and not entry.is_cut_short and not entry.decided and result.rate.counted > 0


def _checkpoint_cell(entry: Entry, result: Result, pages: Collection[str]) -> Markup:
    if entry.decided:
        # Stopping by outcomes biases the rate, so it is not shown among rates of fixed samples.
        ran = f"stopped by its gate after {entry.done} of {counted(entry.planned, 'episode')}: rate not comparable"
        return Markup('<div class="note">{}, {}</div>').format(ran, run_link(entry.name, pages))
    cut = Markup()
    if entry.is_cut_short:
        cut = Markup(', <span class="plain">{} of {}</span>').format(entry.done, counted(entry.planned, "episode"))
    told = Markup("<div>{} {}</div><div>{}, {}{}, {}</div>").format(
        interval_bar(result.rate.rate, result.rate.interval),
        rate_text(result),
        success_text(result),
        tasks_cell(result),
        cut,
        run_link(entry.name, pages),
    )
    if left_out := left_out_text(result.rate):
        told += Markup('<div class="note">not in it: {}</div>').format(left_out)
    return told


def _runs(entries: Sequence[Entry], pages: Collection[str]) -> PageBlock:
    head = ("run", "model, content", "success", "gate", "status", "versions")
    rows = tuple(
        (
            run_cell(entry, pages),
            model_cell(entry.model, [result.content for result in entry.results]),
            result_lines(entry) or NONE,
            NONE if entry.verdict is None else _verdict_cell(entry.verdict),
            status_text(entry),
            ", ".join(f"{name} {entry.versions[name]}" for name in _VERSIONS if name in entry.versions) or NONE,
        )
        for entry in entries
    )
    return block_of(tables=(table_of("Runs, the newest first", head, rows, len(head)),))


def _verdict_cell(verdict: EntryVerdict) -> Markup:
    passed = "" if verdict.word == NOT_JUDGED else ": passed" if verdict.passed else ": failed"
    form = '<span class="{}" title="{}">{}{}</span>'
    return Markup(form).format(_kind(verdict), verdict.line, verdict.word, passed)


def _kind(verdict: EntryVerdict) -> str:
    """Return ``good``, ``bad``, or ``plain`` if the run was not judged."""
    if verdict.word == NOT_JUDGED:
        return "plain"
    return "good" if verdict.passed else "bad"


# Writes a site: the pages of the runs that are here, ``runs.json``, and the index of all that it knows.

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
    found = [*_build_runs(site)]
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


def _build_runs(site: Site) -> Iterator[tuple[Path, Run]]:
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
