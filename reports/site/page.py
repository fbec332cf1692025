"""The index of a site: the newest run, checkpoints by suite, trends, all runs. Values, of what is listed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_vla.metrics.rates import left_out_text
from pytest_vla.reports.blocks import NONE, Cell, table_of
from pytest_vla.reports.html.parts import PageBlock, block_of, rendered
from pytest_vla.reports.html.svg import interval_bar
from pytest_vla.reports.site.charts import (
    began_text,
    model_cell,
    rate_text,
    result_lines,
    run_cell,
    run_link,
    status_text,
    success_text,
    tasks_cell,
    trend_blocks,
)
from pytest_vla.reports.site.entries import NOT_JUDGED, Entry, EntryVerdict, Result
from pytest_vla.util.text import counted, printable_lines
from pytest_vla.versions import installed

TITLE = "Runs of robot policies"

NO_EPISODE = "No episode has ended: there are no numbers yet."

_CHECKPOINTS = 10
"""So many are shown at once."""

_VERSIONS = ("pytest-vla", "mujoco", "robosuite")
_OF_CHECKPOINTS = (
    "Success of each checkpoint: its newest run of all tasks, or of a part where there is no other; in brackets the "
    "95% interval over these tasks"
)

_OF_EARLIER = "Success of each earlier checkpoint, likewise"


@dataclass(frozen=True)
class IndexPage:
    """What the template shows.

    Attributes:
        title: of the document.
        about: the line below it.
        newest: the newest run.
        checkpoints: a table of the newest ones, and behind the block's title one of the others.
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
    """The whole document, UTF-8.

    Args:
        title: of it.
        entries: the runs that are shown, the newest first.
        pages: names of runs whose pages are there.
        texts: notes at its end.
    """
    content = rendered("index.html.j2", ("style.css", "site.css"), page=index_page(title, entries, pages, texts))
    # Cells are markup, which templates leave as it is.
    return printable_lines(content.decode()).encode()


def index_page(title: str, entries: Sequence[Entry], pages: Collection[str], texts: Sequence[str] = ()) -> IndexPage:
    """As `index_html`."""
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
    """By model and content, the newest ones first; those of a run that picked its episodes are no measure of it."""
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
    return result.is_whole and not entry.is_cut_short and result.rate.counted > 0


def _checkpoint_cell(entry: Entry, result: Result, pages: Collection[str]) -> Markup:
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
    """Whether it is good, bad, or nothing that was measured."""
    if verdict.word == NOT_JUDGED:
        return "plain"
    return "good" if verdict.passed else "bad"
