"""A paper's tables and figures: own models beside the rows that it prints; and its numbers, recomputed.

A paper is declared by a TOML file (see ``suites/libero_para/published.toml``), by a function that gives rows of records
for its tables, and by functions that recompute its numbers. Layout, marking, order and formats are the same for all.
"""

import argparse
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import combinations, pairwise
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pytest_vla import extensions
from pytest_vla.entries import PaperEntry
from pytest_vla.errors import VlaError
from pytest_vla.fuzz.vlatest import scene_file
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.selection import by_model, given_text, is_counted, that_count, unequal_protocols
from pytest_vla.plan.manifests import given_folders, load_suite
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import (
    NONE,
    Block,
    Cell,
    Column,
    MarkedNumber,
    Medium,
    PageDrawing,
    Sentence,
    Table,
    notes,
)
from pytest_vla.reports.figures import FIGURE_KINDS, FigureKind, FigureRow, PaperFigure, figure_png
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import Section
from pytest_vla.reports.text import first_few
from pytest_vla.util.documents import read_toml
from pytest_vla.util.text import counted, did_you_mean, printable

if TYPE_CHECKING:
    from markupsafe import Markup

Row = tuple[Cell, ...]
Rows = Mapping[str, Sequence[Row]]
"""Rows by table. A row has the first columns of its table; columns that it lacks are empty."""


@dataclass(frozen=True)
class Note:
    """A note on what limits a paper's tables.

    Attributes:
        text: of the note.
        model: which it is about; empty for all models.
        tables: the names of the tables that it is about; empty for all tables.
    """

    text: str
    model: str = ""
    tables: tuple[str, ...] = ()


Verdict = Literal["equals", "differs", "known", "cannot"]
"""``known`` is a difference that the paper's declaration explains."""

ROUNDING = 1e-9

PUBLISHED, OWN = "published", "own"

FIGURE, POINTS = "fig", ".points"
"""What the names of figures begin with, and what the names of their dots' rows end with."""


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper.

    Attributes:
        name: its number, or a range of numbers such as ``2-5``.
        title: what it shows, and the unit.
        columns: their titles.
        rows: what the paper prints.
        names: how many columns, from the left, hold names.
        form: of its numbers, as `format` takes it.
        forms: of columns whose numbers have another form, by their titles.
        beside: columns that a terminal leaves out, as the table would be too wide.
        sort: the column by which rows fall; empty to keep the paper's order.
        ranks: two columns whose ranks are compared; empty for none.
        known: why a recomputed number differs, by the number's name or the end of it after a colon.
        medium: where it is shown; a table of thousands of rows only in files.
        missing: why it cannot be made of records; empty if it can.
        run: the command that runs its episodes.
        draw: how its rows are drawn, if it is a figure.
        drawn: the columns that are drawn; if empty, all with numbers.
        points: the columns of a figure's dots, which are rows of their own: the last two are x and y, the first is the
            panel.
    """

    name: str
    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    names: int = 1
    form: str = ".1f"
    forms: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    sort: str = ""
    ranks: tuple[str, ...] = ()
    known: Mapping[str, str] = field(default_factory=dict)
    medium: Medium = "all"
    missing: str = ""
    run: str = ""
    draw: FigureKind | Literal[""] = ""
    drawn: tuple[str, ...] = ()
    points: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What a reader of the paper calls it, such as ``Table 3`` or ``Fig. 7``; `name` is ``3`` or ``fig7``.

        A table that has no number in the paper is called by its name.
        """
        number, _, part = self.name.removeprefix(FIGURE).partition("-")
        if self.is_figure or re.fullmatch(r"[0-9]+|[IVX]+", number):
            kind = "Fig." if self.is_figure else "Tables" if part.isdigit() else "Table"
            return f"{kind} {number}" + (f" to {part}" if part.isdigit() else f" ({part})" if part else "")
        return self.name.capitalize()

    @property
    def is_figure(self) -> bool:
        """Whether it is a figure."""
        return self.name.startswith(FIGURE)

    def column(self, name: str) -> Column:
        """Return the column of numbers with a title."""
        medium: Medium = "page" if name in self.beside else "all"
        return Column(name, self.forms.get(name, self.form), is_optional=True, medium=medium)

    def is_named(self, text: str) -> bool:
        """Whether a text names it, or one of its numbers."""
        text, name = _plain_name(text), _plain_name(self.name)
        first, _, last = name.partition("-")
        inside = last.isdigit() and text.isdigit() and int(first) <= int(text) <= int(last)
        return inside or text == name

    def numbers(self) -> Iterator[tuple[str, dict[str, Cell]]]:
        """Yield the printed rows: their names, joined, and their numbers by column."""
        for row in self.rows:
            yield " ".join(map(str, row[: self.names])), dict(zip(self.columns, row, strict=False))


@dataclass(frozen=True)
class PublishedPaper:
    """What a paper prints.

    Attributes:
        source: where the numbers were read.
        tables: by name, in the paper's order.
        figures: numbers of its text and figures, by name.
        suites: patterns of the suites that it is about; empty if it is about any.
        further: other tables of the file.
    """

    source: str
    tables: Mapping[str, PublishedTable]
    figures: Mapping[str, float]
    suites: tuple[str, ...]
    further: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Check:
    """A number of a paper, and the same one recomputed.

    Attributes:
        name: of the number.
        published: as printed; None if the paper has it in a form that is not known here.
        found: recomputed; None if that cannot be done.
        within: the largest difference that rounding explains.
        why: why it cannot be recomputed, or may differ.
    """

    name: str
    published: float | str | None
    found: float | str | None
    within: float = 0.0
    why: str = ""

    def verdict(self, known: Mapping[str, str]) -> tuple[Verdict, str]:
        """Return the verdict, and its reason if it has one."""
        if self.found is None or self.published is None:
            return "cannot", self.why
        if isinstance(self.published, str) or isinstance(self.found, str):
            is_equal = self.published == self.found
        else:
            is_equal = abs(self.found - self.published) <= self.within + ROUNDING
        if is_equal:
            return "equals", ""
        why = self.why or next((text for name, text in known.items() if f": {self.name}".endswith(f": {name}")), "")
        return ("known" if why else "differs"), why


Checks = Callable[[PublishedPaper, Path | None], Iterable[Check]]
"""Recomputes numbers, given what the paper prints and the user's data folder. Raises VlaError if data is missing."""


@dataclass(frozen=True)
class Paper:
    """A paper, as `pytest_vla.entries.PaperEntry.load` names it.

    Attributes:
        file: the TOML file with what it prints.
        rows: gives the rows of records by table, and notes on what is not in them; None if no table is of records.
        checks: by table, or another name, what recomputes its numbers.
        leaderboard: gives what the paper's leaderboard keeps of each model, by model, and notes on what is not in it;
            None if it takes no files.
    """

    file: Path
    rows: Callable[[Loaded, argparse.Namespace], tuple[Rows, Sequence[Note]]] | None
    checks: Mapping[str, Checks]
    leaderboard: Callable[[Loaded], tuple[Mapping[str, Any], Sequence[Note]]] | None = None

    @property
    def published(self) -> PublishedPaper:
        """What it prints. Raises VlaError if the file is not as it should be."""
        return published_paper(self.file)


@cache
def published_paper(file: Path) -> PublishedPaper:
    """Read what a paper prints. Raises VlaError if the file cannot be read or has other keys than expected."""
    try:
        table = read_toml(file)
        run, source = table.pop("run", ""), table.pop("source")
        figures, suites = table.pop("figures", {}), tuple(table.pop("suites", ()))
        tables = {name: _published_table(name, {"run": run, **each}) for name, each in table.pop("tables", {}).items()}
        return PublishedPaper(source, tables, figures, suites, table)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VlaError(
            f"{file}: {error!r}; expected a paper's tables as in suites/libero_para/published.toml"
        ) from error


def _published_table(name: str, given: Mapping[str, Any]) -> PublishedTable:
    columns = tuple(given.get("columns", ()))
    rows = [tuple(map(_cell, row)) for row in given.get("rows", ())]
    if wide := next((row for row in rows if len(row) > len(columns)), None):
        raise ValueError(f"table {name}: {wide} has more cells than the {len(columns)} columns")
    padded = tuple((*row, *(None,) * (len(columns) - len(row))) for row in rows)
    texts = {key: tuple(given.get(key, ())) for key in ("ranks", "beside", "drawn", "points")}
    if (draw := given.get("draw", "")) not in ("", *FIGURE_KINDS):
        raise ValueError(f"table {name}: draw is {draw!r}, expected one of {', '.join(FIGURE_KINDS)}")
    return PublishedTable(name, **{**given, **texts, "columns": columns, "rows": padded})


def _plain_name(text: str) -> str:
    """Return a name of a table or figure in one form: ``Fig. 7``, ``figure7`` and ``fig7`` are the same."""
    return re.sub(r"^fig(ure)?\.?\s*", FIGURE, re.sub(r"^table\s*", "", text.strip().lower()))


def printed(row: Mapping[str, Cell], column: str) -> float:
    """Return a printed number of a row. Raises VlaError if the cell has none."""
    value = _number(row[column])
    if value is None:
        raise VlaError(f"{column}: {row[column]!r} is no number")
    return value


def _cell(value: Any) -> Cell:
    """Return a cell of the file: ``-`` is nothing, and a number with letters behind it is one with a mark."""
    if value == NONE:
        return None
    if isinstance(value, str) and (marked := re.fullmatch(r"(-?[0-9.]+)( [a-zA-Z]+)", value)):
        return MarkedNumber(float(marked[1]), marked[2])
    if not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is no text and no number")
    return value


def paper_named(name: str) -> tuple[PaperEntry, Paper]:
    """Return a paper by its name. Raises VlaError if there is none, with the closest names."""
    known = extensions.papers()
    if name not in known:
        raise VlaError(
            f"there is no paper {printable(repr(name)[:80])}.{did_you_mean(name, known)} Papers: {', '.join(known)}"
        )
    return known[name], extensions.load(known[name])


def tables_named(name: str, text: str | None, known: Mapping[str, PublishedTable]) -> list[PublishedTable]:
    """Return the tables that a text names, or all without one. Raises VlaError if there is none."""
    found = [table for table in known.values() if text is None or table.is_named(text)]
    if not found:
        figure = f" Did you mean {FIGURE}{text}?" if f"{FIGURE}{text}" in known else ""
        raise VlaError(
            f"{name}: there is no table or figure {printable(repr(text)[:80])} here.{figure} Known: "
            f"{', '.join(known) or 'none'}"
        )
    return found


def chosen_tables(name: str, table: str | None) -> tuple[PaperEntry, Paper, list[PublishedTable]]:
    """Return a paper and those of its tables that are asked for, before records are read.

    Raises:
        VlaError: there is no such paper or table, or records of episodes cannot make it.
    """
    entry, paper = paper_named(name)
    if paper.rows is None:
        raise VlaError(
            f"--paper={name}: no table of it is about a policy's episodes. Use `pytest-vla reproduce {name}`"
        )
    tables = tables_named(f"--paper={name}", table, paper.published.tables)
    if table is not None and all(each.missing for each in tables):
        raise VlaError(f"{tables[0].label} of {name} is not available: {tables[0].missing}")
    return entry, paper, tables


def run_lines(tables: Sequence[PublishedTable]) -> str:
    """Return the lines that name the commands whose episodes make these tables."""
    run = dict.fromkeys(each.run for each in tables if not each.missing)
    return "\n".join(["Run its episodes:", *(f"  {each}" for each in run)])


# Tables of records, beside what is printed.


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section with a paper's tables, or None without ``--paper``.

    Raises:
        VlaError: there is no such paper or table, or no record is of it; names the command that runs its episodes.
    """
    name = getattr(options, "paper", None)
    if name is None:
        return None
    entry, paper, tables = chosen_tables(name, options.table)
    assert paper.rows is not None
    loaded, unequal = _comparable(_of_suites(loaded, paper.published.suites))
    rows, further = paper.rows(loaded, options)
    about = _note_texts([*further, *_other_budgets(loaded.records)], tables, paper.published.tables)
    left_out = [*unequal, *about, *unequal_protocols(loaded.records)]
    own = {each.name: [row for row in rows.get(each.name, ()) if _is_filled(each, row)] for each in tables}
    if not any(own.values()):
        what = "its tables" if options.table is None else tables[0].label
        others = _other_runs(loaded, options, paper.published.suites, tables)
        lines = [*others, run_lines(tables), *(f"note: {text}" for text in left_out)]
        raise VlaError("\n".join([f"--paper={name}: these records have nothing for {what}", *lines]))
    made = [
        Made(table, _joined(table, own[table.name]), list(map(tuple, rows.get(table.name + POINTS, ()))))
        for table in tables
        if not table.missing
    ]
    figures = {f"{name}-{each.table.name}": each for each in made if each.table.draw and _figure(each).panels}
    episodes = _episodes_text(loaded.records)
    shown = {"name": name, "source": paper.published.source, "left_out": list(left_out)}
    return Section(
        lambda: _blocks(
            entry, paper.published, tables, made, episodes, left_out, bool(getattr(options, "intervals", False))
        ),
        {"paper": {**shown, "tables": [table for each in made for table in _as_json(each)]}},
        {},
        lambda: {file: figure_png(_figure(each)) for file, each in figures.items()},
        title=entry.about,
    )


def _other_runs(
    loaded: Loaded, options: argparse.Namespace, patterns: Sequence[str], tables: Sequence[PublishedTable]
) -> Iterator[str]:
    """Yield a line that names the other runs of the results folder which may have these tables' episodes."""
    needs_varied = all("--vla-vary" in each.run for each in tables if not each.missing)
    stores = dict.fromkeys(str(folder.parent) for folder in loaded.folders.values())
    found = [
        run.name if store.results.resolve() == options.results.resolve() else str(store.results / run.name)
        for store, runs in open_runs([*stores], options.results)
        for run in runs
        if run.name not in loaded.folders
        and any(
            _is_about(patterns, each.suite) and each.varied >= needs_varied and each.outcome in ("success", "failure")
            for each in run.counts
        )
    ]
    if found:
        words = ["pytest-vla", "report", *found[-4:], f"--paper={options.paper}"]
        words += [f"--table={options.table}"] * (options.table is not None)
        yield (
            f"{counted(len(found), 'other run')} beside {'has' if len(found) == 1 else 'have'} episodes of its suites. "
            f"Try `{shlex.join(words)}`"
        )


def _is_about(patterns: Sequence[str], suite: str) -> bool:
    return not patterns or any(fnmatchcase(suite, one) for one in patterns)


def _is_filled(table: PublishedTable, row: Row) -> bool:
    """Whether a row has a number, or is a place in a grid, whose rows are a scale."""
    return table.draw == "grid" or any(cell is not None for cell in row[table.names :])


def _of_suites(loaded: Loaded, patterns: Sequence[str]) -> Loaded:
    """Return the records of suites that a paper is about: other ones have no place in its tables and notes."""
    kept = (each for each in loaded.records if _is_about(patterns, each.suite))
    return replace(loaded, records=tuple(kept))


def _episodes_text(records: Sequence[Record]) -> str:
    """Return how many episodes succeeded or failed, by suite and model."""
    found: dict[str, dict[int, list[str]]] = {}
    for (model, suite), some in by_model(records).items():
        number = sum(map(is_counted, that_count(some).records))
        found.setdefault(suite, {}).setdefault(number, []).append(model)
    suites: dict[str, list[str]] = {}
    for suite, numbers in found.items():
        told = (f"{number} of {'each of ' * (len(some) > 1)}{first_few(some, 4)}" for number, some in numbers.items())
        suites.setdefault(", ".join(told), []).append(suite)
    return "; ".join(f"{first_few(some, 4)}: {'each ' * (len(some) > 1)}{text}" for text, some in suites.items())


def _other_budgets(records: Sequence[Record]) -> Iterator[Note]:
    """Yield notes on episodes that had another number of steps than the suite gives, as printed rows did not."""
    found: dict[tuple[str, Any, int], dict[str, None]] = {}
    for record in filter(is_counted, records):
        given, own = record.protocol.get("max_steps"), _own_budget(record.suite, record.task_key)
        if given is not None and own is not None and given != own:
            found.setdefault((record.policy, given, own), {})[record.suite] = None
    for (model, given, own), suites in found.items():
        text = f"at most {given} control steps in {first_few([*suites], 4)}; published rows have the suite's {own}"
        yield Note(text, model)


@cache
def _own_budget(suite: str, task: str) -> int | None:
    try:
        return load_suite(suite).task(task).protocol.max_steps
    except (VlaError, ValueError, KeyError):
        return None


def _note_texts(
    given: Iterable[Note], chosen: Sequence[PublishedTable] = (), known: Mapping[str, PublishedTable] | None = None
) -> Iterator[str]:
    """Yield each note's text once for all models that have it, without notes on other tables.

    Args:
        given: the notes.
        chosen: the tables that are shown.
        known: all of the paper's, by name.
    """
    shown = {each.name for each in chosen}
    found: dict[tuple[tuple[str, ...], str], dict[str, None]] = {}
    for each in given:
        if not each.tables or not shown.isdisjoint(each.tables):
            found.setdefault((each.tables, each.text), {})[each.model] = None
    for (tables, text), models in found.items():
        about = ", ".join((known or {})[name].label for name in tables)
        yield ": ".join(filter(None, (about, first_few([*filter(None, models)], 4), text)))


def leaderboard_files(name: str | None, loaded: Loaded) -> tuple[dict[str, str], Sequence[str]]:
    """Return the JSON files that a paper's leaderboard takes, by file name, one for each model, and notes.

    Raises:
        VlaError: no such paper is named, its leaderboard takes no files, or no record is of it.
    """
    known = {each: paper_named(each)[1] for each in extensions.papers()}
    takes = [each for each, paper in known.items() if paper.leaderboard is not None]
    paper = known.get(name) if name is not None else None
    if paper is None or paper.leaderboard is None:
        if name is not None:
            paper_named(name)
        names = ", ".join(takes)
        raise VlaError(f"--format=leaderboard requires the --paper of a leaderboard that takes files: {names}")
    records, given = _measured(_of_suites(loaded, paper.published.suites).records)
    models, further = paper.leaderboard(replace(loaded, records=tuple(records)))
    left_out = [*given, *_note_texts([*further, *_other_budgets(records)])]
    if not models:
        run = dict.fromkeys(each.run for each in paper.published.tables.values() if not each.missing)
        lines = ["Run its episodes:", *(f"  {each}" for each in run), *(f"note: {text}" for text in left_out)]
        raise VlaError("\n".join([f"--paper={name}: these records have nothing for its leaderboard", *lines]))
    files = {}
    for model, table in models.items():
        stem = re.sub(r"[^a-z0-9._-]+", "-", model.lower()).lstrip("._-") or "model"
        while f"{stem}.json" in files:
            stem += "-2"
        files[f"{stem}.json"] = json.dumps(table, indent=2) + "\n"
    return files, left_out


def _comparable(loaded: Loaded) -> tuple[Loaded, list[str]]:
    """Return records whose models stay apart by digest and have the same cases of each suite, and notes on the others.

    A case that a model has is one with a success or a failure: an episode that broke off is in no rate. Cases without
    a variation are compared by themselves, as a model may have run nothing else.
    """
    records, found = _measured(loaded.records)
    groups: dict[tuple[str, bool], dict[str, set[str]]] = {}
    for (model, suite), some in by_model(records).items():
        for record in filter(is_counted, some):
            groups.setdefault((suite, bool(record.variation)), {}).setdefault(model, set()).add(record.case)
    shared: dict[tuple[str, bool], set[str]] = {}
    for (suite, is_varied), models in groups.items():
        both = set.intersection(*models.values())
        name = (
            f"{suite}, {'with' if is_varied else 'without'} a variation" if (suite, not is_varied) in groups else suite
        )
        if not both:
            found.append(f"{name}: no case was run with all of {counted(len(models), 'model')}: each row has its own")
        elif others := {model: len(cases - both) for model, cases in models.items() if cases - both}:
            told = counted(len(both), "case")
            found.append(
                f"{name}: models are compared on the {told} that all of them have; left out: {_of_models(others)}. "
                "Name the runs to leave a model out"
            )
            shared[suite, is_varied] = both
    kept = (
        each
        for each in records
        if not is_counted(each) or each.case in shared.get((each.suite, bool(each.variation)), (each.case,))
    )
    return replace(loaded, records=tuple(kept)), found


def _measured(records: Sequence[Record]) -> tuple[list[Record], list[str]]:
    """Return records without given cases, which were chosen, with names that tell versions apart; and notes.

    The notes are on given cases, and on episodes that broke off.

    A policy's name has its digest if there are several. Elsewhere two versions of a policy have one name as long as no
    case was run by both.
    """
    left_out = [text for text in [given_text(records)] if text]
    records = [record for record in records if not record.is_given]
    digests: dict[str, set[str]] = {}
    for record in records:
        if record.policy_digest:
            digests.setdefault(record.policy, set()).add(record.policy_digest)
    records = [
        replace(record, policy=f"{record.policy} (policy {record.policy_digest[:8]})")
        if record.policy_digest and len(digests[record.policy]) > 1
        else record
        for record in records
    ]
    broken: dict[str, dict[str, int]] = {}
    for (model, suite), some in by_model(records).items():
        if number := sum(not is_counted(record) for record in that_count(some).records):
            broken.setdefault(suite, {})[model] = number
    for suite, numbers in broken.items():
        left_out.append(f"{suite}: {_of_models(numbers)} had errors or could not be measured: in no rate")
    return records, left_out


def _of_models(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{number} of {model}" for model, number in numbers.items())


@dataclass(frozen=True)
class Made:
    """A table with the rows of records beside those that are printed.

    Attributes:
        table: what the paper has.
        rows: in their order, each with `PUBLISHED` or `OWN`.
        points: of a figure's dots.
    """

    table: PublishedTable
    rows: list[tuple[str, Row]]
    points: list[Row]


def _joined(table: PublishedTable, own: Iterable[Row]) -> list[tuple[str, Row]]:
    """Return published and own rows: sorted if the paper sorts them, or each own row below those it stands beside."""
    width = len(table.columns)
    found = [(PUBLISHED, row) for row in table.rows] + [(OWN, (*row, *(None,) * (width - len(row)))) for row in own]
    if table.sort:
        place = table.columns.index(table.sort)
        return sorted(found, key=lambda each: -_or(_number(each[1][place]), -inf))
    beside = list(dict.fromkeys(row[: table.names - 1] for _, row in found))
    return sorted(found, key=lambda each: beside.index(each[1][: table.names - 1]))


def _number(cell: Cell) -> float | None:
    if isinstance(cell, GroundingEstimate | MarkedNumber):
        return cell.value
    return float(cell) if isinstance(cell, int | float) else None


def _or(value: float | None, other: float) -> float:
    return other if value is None else value


def _blocks(
    entry: PaperEntry,
    published: PublishedPaper,
    tables: Sequence[PublishedTable],
    made: Sequence[Made],
    episodes: str,
    left_out: Sequence[str],
    with_intervals: bool,
) -> Iterator[Block]:
    yield Sentence(
        f"{entry.about}. Rows marked {PUBLISHED} are from {published.source}; rows marked {OWN} are from your runs"
    )
    yield Sentence(
        f"Episodes behind your rows: {episodes}" + ". --intervals says how sure they are" * (not with_intervals)
    )
    yield from notes(left_out)
    for each in made:
        table, rows = each.table, each.rows
        columns = (
            *map(Column, table.columns[: table.names]),
            Column("from"),
            *map(table.column, table.columns[table.names :]),
        )
        cells = tuple(
            (*row[: table.names], mark, *(cell if with_intervals else _plain(cell) for cell in row[table.names :]))
            for mark, row in rows
        )
        anchor = table.name if table.is_figure else f"table-{table.name}"
        if rows:
            yield Table(f"{table.label}. {table.title}", columns, cells, anchor, table.names + 1, medium=table.medium)
        else:
            yield Sentence(f"{table.label}. {table.title}", is_apart=True)
        if table.draw and _figure(each).panels:
            yield PageDrawing(partial(_drawn, each), name=f"{entry.name}-{table.name}")
        if each.points:
            dots = (*map(Column, table.points[:-2]), *map(table.column, table.points[-2:]))
            yield Table(
                f"{table.label}: dots", dots, tuple(each.points), anchor + POINTS, len(dots) - 2, medium="files"
            )
        if crossings := list(_crossings(table, rows)):
            yield Sentence(f"Lines cross: {first_few(crossings, 8, '; ')}")
        if changes := list(_rank_changes(table, rows)):
            yield Sentence(f"Rank by {' and by '.join(table.ranks)} differs: {', '.join(changes)}")
        if not any(mark == OWN for mark, _ in rows):
            yield Sentence(f"these runs have no number for this table. Run its episodes: {table.run}", is_note=True)
    for number, table in enumerate(each for each in tables if each.missing):
        yield Sentence(f"{table.label}: not available: {table.missing}", is_apart=not number)


def _drawn(made: Made) -> "Markup":
    from pytest_vla.reports.html.svg import figure_drawing

    return figure_drawing(_figure(made))


def _figure(made: Made) -> PaperFigure:
    """Return what a figure is drawn of: its rows' numbers with the intervals of records, or its dots."""
    table, title = made.table, f"{made.table.label}. {made.table.title}"
    if table.points:
        rows = [_figure_row(str(row[0]), " x ".join(map(str, row[1:-2])), row[-2:]) for row in made.points]
        return PaperFigure("points", title, table.points[-2:], tuple(rows))
    columns = table.drawn or table.columns[table.names :]
    if table.draw == "bars":
        # A legend of a colour that no bar has would mislead.
        columns = tuple(
            each for each in columns if any(row[table.columns.index(each)] is not None for _, row in made.rows)
        )
    places = [table.columns.index(column) for column in columns]
    rows = []
    for mark, row in made.rows:
        names = [*map(str, row[: table.names])]
        own = " (own)" if mark == OWN else ""
        if len(names) > 1 and table.draw != "lines":
            panel, name = names[0] + own, ": ".join(names[1:])
        else:
            panel, name = "", ", ".join(names) + own
        rows.append(_figure_row(panel, name, [row[place] for place in places]))
    assert table.draw, table.name
    return PaperFigure(table.draw, title, tuple(columns), tuple(rows), table.form)


def _figure_row(panel: str, name: str, cells: Sequence[Cell]) -> FigureRow:
    return FigureRow(panel, name, tuple(map(_number, cells)), tuple(getattr(cell, "interval", None) for cell in cells))


def _crossings(table: PublishedTable, rows: Sequence[tuple[str, Row]]) -> Iterator[str]:
    """Yield the pairs of a figure's lines that change their order, and between which columns.

    Only models are compared: lines that differ in their last name alone.
    """
    if table.draw != "lines":
        return
    columns = table.drawn or table.columns[table.names :]
    places = [table.columns.index(column) for column in columns]
    lines = [(tuple(map(str, row[: table.names])), [_number(row[place]) for place in places]) for _, row in rows]
    for (one, mine), (other, others) in combinations(lines, 2):
        if one[:-1] != other[:-1]:
            continue
        apart = [
            (column, first - second)
            for column, first, second in zip(columns, mine, others, strict=True)
            if first is not None and second is not None and first != second
        ]
        for (before, least), (after, most) in pairwise(apart):
            if (least < 0) != (most < 0):
                yield f"{', '.join(one)} and {', '.join(other)} between {before} and {after}"


def _plain(cell: Cell) -> Cell:
    return cell.value if isinstance(cell, GroundingEstimate) else cell


def _rank_changes(table: PublishedTable, rows: Sequence[tuple[str, Row]]) -> Iterator[str]:
    """Yield the models whose ranks by two columns differ, the largest number being first."""
    if not table.ranks:
        return
    ranks = []
    for name in table.ranks:
        values = [_or(_number(row[table.columns.index(name)]), -inf) for _, row in rows]
        ranks.append([1 + sum(other > value for other in values) for value in values])
    for (_, row), first, second in zip(rows, *ranks, strict=True):
        if first != second:
            yield f"{row[0]} {first} -> {second}"


def _as_json(made: Made) -> Iterator[dict[str, Any]]:
    table = made.table
    yield _table_json(table.name, table.title, table.columns, made.rows)
    if made.points:
        yield _table_json(table.name + POINTS, table.title, table.points, [(OWN, row) for row in made.points])


def _table_json(name: str, title: str, columns: Sequence[str], rows: Sequence[tuple[str, Row]]) -> dict[str, Any]:
    return {
        "table": name,
        "title": title,
        "columns": list(columns),
        "rows": [
            {
                "from": mark,
                "cells": [_number(cell) if _number(cell) is not None else cell for cell in row],
                "marks": [cell.mark.strip() if isinstance(cell, MarkedNumber) else "" for cell in row],
                "intervals": [_interval(cell) for cell in row],
            }
            for mark, row in rows
        ],
    }


def _interval(cell: Cell) -> list[float] | None:
    interval = cell.interval if isinstance(cell, GroundingEstimate) else None
    return None if interval is None else list(interval)


def schema() -> j.SectionSchema:
    """Return the schema of the key ``paper``."""
    cell = j.Shape({"type": ["string", "number", "null"]})
    rows = j.row({
        "from": j.one_of(PUBLISHED, OWN), "cells": j.listed(cell), "marks": j.listed(j.TEXT),
        "intervals": j.listed(j.INTERVAL),
    })  # fmt: skip
    table: j.Keys = {"table": j.TEXT, "title": j.TEXT, "columns": j.listed(j.TEXT), "rows": j.listed(rows)}
    paper: j.Keys = {
        "name": j.TEXT, "source": j.TEXT, "left_out": j.listed(j.TEXT), "tables": j.listed(j.row(table)),
    }  # fmt: skip
    return j.SectionSchema({"paper": j.row(paper)}, {})


# Numbers, recomputed.


@dataclass(frozen=True)
class Reproduced:
    """The recomputed numbers of one table: each with its verdict and the reason for it."""

    table: str
    checks: tuple[tuple[Check, Verdict, str], ...]

    def count(self, *verdicts: Verdict) -> int:
        """Count numbers with one of the verdicts."""
        return sum(verdict in verdicts for _, verdict, _ in self.checks)


def reproduce(name: str, table: str | None = None, data: Path | None = None) -> Iterator[Reproduced]:
    """Recompute the numbers that a paper prints, table by table.

    Args:
        name: the paper's.
        table: one of its tables, or None for all.
        data: a folder with published data, beside ``PYTEST_VLA_DATA``.

    Raises:
        VlaError: there is no such paper or table, or what `table` needs is not there.
    """
    _, paper = paper_named(name)
    published = paper.published
    known = {each: published.tables.get(each, PublishedTable(each)) for each in paper.checks}
    for each in tables_named(name, table, known):
        try:
            found = list(paper.checks[each.name](published, data))
        except VlaError as error:
            if table is not None:
                raise
            found = [Check("all", None, None, why=str(error))]
        yield Reproduced(each.name, tuple((check, *check.verdict(each.known)) for check in found))


def reproduced_blocks(name: str, found: Sequence[Reproduced]) -> Iterator[Block]:
    """Yield a table for each of a paper's tables, and the sum of the verdicts."""
    for each in found:
        rows = tuple(
            (check.name, _shown(check.published), _shown(check.found), _verdict_text(check, verdict))
            for check, verdict, _ in each.checks
        )
        columns = (Column("number"), Column("published"), Column("recomputed"), Column("", is_left=True))
        yield Table(f"{name}: {PublishedTable(each.table).label}", columns, rows, f"table-{each.table}")
        reasons: dict[str, list[str]] = {}
        for check, _, why in each.checks:
            reasons.setdefault(why, []).append(check.name)
        yield from notes(f"{first_few(some, 4)}: {why}" for why, some in reasons.items() if why)
    sums = {verdict: sum(each.count(verdict) for each in found) for verdict in ("equals", "known", "differs", "cannot")}
    yield Sentence(
        f"{name}: {counted(sum(sums.values()), 'number')}: {sums['equals']} equal, {sums['known']} differ for a known "
        f"reason, {sums['differs']} differ without one, {sums['cannot']} cannot be recomputed",
        is_apart=True,
    )


def _shown(value: float | str | None) -> Cell:
    # Digests are long, and their beginnings are enough to tell them apart.
    return value[:12] if isinstance(value, str) else None if value is None else f"{value:.6g}"


def _verdict_text(check: Check, verdict: Verdict) -> str:
    if verdict in ("cannot", "equals"):
        return verdict
    numbers = (check.found, check.published)
    if not all(isinstance(each, int | float) for each in numbers):
        return "differs"
    return f"differs by {float(check.found or 0) - float(check.published or 0):.3g}"


def published_file(name: str, data: Path | None, what: str) -> Path:
    """Return a file of published data: in the data folders, in folders in them, or in ``golden`` beside them.

    Args:
        name: the file's, which may begin with a folder's.
        data: a folder, beside ``PYTEST_VLA_DATA``.
        what: what it holds, for the error.

    Raises:
        VlaError: there is none.
    """
    for folder in given_folders(data):
        places = [folder / name, *sorted(folder.glob(f"*/{name}"))]
        places += [parent / "golden" / name for parent in (folder, folder.parent, folder.parent.parent)]
        for place in places:
            if place.exists():
                return place
    raise VlaError(f"needs {name}, {what}: give its folder by --data or PYTEST_VLA_DATA")


# VLATest's scene files, from their seeds.


def _scene_digests(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    for name, digest in published.further["scenes"].items():
        task, number, most, seed = re.fullmatch(r"t-(.+)_n-(\d+)_o-m(\d+)_s-(\d+)", name).groups()  # type: ignore[union-attr]
        made = scene_file(task, int(seed), int(number), int(most))
        yield Check(f"{name}.json", digest, hashlib.sha256(made.encode()).hexdigest())


VLATEST = Paper(Path(__file__).with_name("vlatest.toml"), None, {"scenes": _scene_digests})
