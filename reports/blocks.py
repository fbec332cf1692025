"""The blocks that sections of a report are made of: headings, sentences, tables and drawings, rendered by each format.

A section yields them in their order. `pytest_vla.reports.text` renders them for a terminal, `pytest_vla.reports.html`
as a part of a page, and `pytest_vla.reports.export` renders the tables as CSV and LaTeX.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pytest_vla.metrics.language_grounding import GroundingEstimate, GroundingShare
from pytest_vla.metrics.rates import percent, percents, percents_text
from pytest_vla.metrics.success import SuccessRate

if TYPE_CHECKING:
    from markupsafe import Markup

NONE = "-"
"""Printed where there is no number."""

Medium = Literal["all", "terminal", "page", "files"]
"""Where a block or a column is shown: everywhere; on a terminal; on a page, in CSV and LaTeX; or in the files only."""


@dataclass(frozen=True)
class MarkedNumber:
    """A number with a sign behind it, such as a star.

    Attributes:
        value: the number; None if there is none.
        mark: the sign; empty if the number has none.
    """

    value: float | None
    mark: str


Cell = str | int | float | tuple[float, float] | GroundingEstimate | GroundingShare | MarkedNumber | None
"""A text, a number, an interval, a number with its interval, a count out of a total, or nothing."""

P_VALUE = "p"
"""The form of a column of p-values."""


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        head: its title.
        form: of its numbers, as `format` takes it, or `P_VALUE`; empty for integers and texts as they are.
        scale: what numbers are multiplied by, such as 100 for shares that are shown in percent.
        is_left: whether texts begin at the left, as names do.
        is_optional: whether it is left out if no row has anything in it.
        is_brief: whether a terminal shows its numbers without their intervals.
        is_rate: whether shares are shown as a rate, with the count below it.
        medium: where it is shown.
    """

    head: str
    form: str = ""
    scale: float = 1.0
    is_left: bool = False
    is_optional: bool = False
    is_brief: bool = False
    is_rate: bool = False
    medium: Medium = "all"


@dataclass(frozen=True)
class Table:
    """A table with typed columns.

    Attributes:
        caption: the sentence above it.
        columns: in their order.
        rows: a cell for each column.
        name: stable, unique within its section; empty for tables of a page that are not exported.
        names: how many columns, from the left, hold names; numbers are aligned to the right.
        depths: for each row, how deep it is nested below the rows above it; empty if no row is.
        is_digest: whether another table has the same numbers, so that CSV leaves this one out.
        most: how many of its rows a page shows at most, or 0 for all of them.
        caption_medium: where the caption is shown; a terminal needs none if the sentence before it says enough.
        medium: where the table is shown.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    name: str = ""
    names: int = 1
    depths: tuple[int, ...] = ()
    is_digest: bool = False
    most: int = 0
    caption_medium: Medium = "all"
    medium: Medium = "all"


@dataclass(frozen=True)
class Heading:
    """The title of the blocks that follow.

    Attributes:
        text: the title.
        subject: model, suite and protocol that the following tables are about; empty texts for all of them.
        is_open: whether a page shows what follows at once; else behind the title.
        medium: where it is shown.
    """

    text: str
    subject: tuple[str, str, str] | None = None
    is_open: bool = True
    medium: Medium = "all"


@dataclass(frozen=True)
class Sentence:
    """A paragraph.

    Attributes:
        text: without line breaks.
        is_note: whether it says what is missing from the numbers, and why.
        is_apart: whether a terminal has an empty line before it.
        indent: of its second and further lines on a terminal.
        medium: where it is shown.
    """

    text: str
    is_note: bool = False
    is_apart: bool = False
    indent: str = "  "
    medium: Medium = "all"


@dataclass(frozen=True)
class PageDrawing:
    """A drawing of a page, which a terminal does not show.

    Attributes:
        draw: returns SVG or HTML of ours, with a text for readers who do not see it.
        name: of its file in ``--format=svg``; empty for the section's name and a number.
    """

    draw: Callable[[], "Markup"]
    medium: Medium = "page"
    name: str = ""


Block = Heading | Sentence | Table | PageDrawing


def notes(texts: Iterable[str]) -> Iterator[Sentence]:
    """Yield sentences on what is missing from a report's numbers."""
    return (Sentence(text, is_note=True) for text in texts)


def table_of(
    caption: str,
    head: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    names: int = 1,
    left: Iterable[int] = (),
    depths: Sequence[int] = (),
) -> Table:
    """Return a table whose cells are texts.

    Args:
        caption: above it.
        head: the columns' titles.
        rows: a cell for each column.
        names: how many columns hold names.
        left: further columns whose texts begin at the left.
        depths: as `Table.depths`.
    """
    columns = tuple(Column(title, is_left=place in {*left}) for place, title in enumerate(head))
    return Table(caption, columns, tuple(map(tuple, rows)), names=names, depths=tuple(depths))


def for_medium(blocks: Iterable[Block], medium: Medium) -> Iterator[Block]:
    """Yield the blocks that a medium shows, and of their tables the columns that it shows and that are not empty."""
    for block in blocks:
        if not _is_for(block.medium, medium):
            continue
        yield with_columns(block, medium) if isinstance(block, Table) else block


def _is_for(shown: Medium, medium: Medium) -> bool:
    return shown in ("all", medium) or (shown, medium) == ("page", "files")


def with_columns(table: Table, medium: Medium) -> Table:
    """Return a table with the columns that a medium shows and that are not empty."""
    kept = [
        place
        for place, column in enumerate(table.columns)
        if _is_for(column.medium, medium)
        and not (column.is_optional and all(is_empty(row[place]) for row in table.rows))
    ]
    return replace(
        table,
        columns=tuple(table.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in table.rows),
        names=sum(place < table.names for place in kept),
    )


def is_empty(cell: Cell) -> bool:
    """Whether nothing is shown in the cell, or a dash."""
    return cell is None or cell in ("", NONE) or (isinstance(cell, MarkedNumber) and cell.value is None)


def number(value: float, column: Column) -> str:
    """Return a number as the column shows it; what rounds to 0 has no minus."""
    if column.form == P_VALUE:
        return "<0.001" if value < 0.001 else f"{value:.3f}"
    form = column.form.replace(".", "z.", 1) if column.form[-1:] in ("f", "%") else column.form
    return format(value if column.scale == 1.0 else value * column.scale, form)


def cell_text(cell: Cell, column: Column, with_interval: bool = True) -> str:
    """Return what a terminal and a page show in a cell."""
    if cell is None:
        return NONE
    if isinstance(cell, str):
        return cell
    if isinstance(cell, tuple):
        return _ends(cell, column)
    if isinstance(cell, MarkedNumber):
        return NONE if cell.value is None else number(cell.value, column) + cell.mark
    if isinstance(cell, int | float):
        return number(cell, column)
    if isinstance(cell, GroundingShare) and not cell.of:
        return NONE
    if isinstance(cell, GroundingShare) and column.is_rate:
        rate = cell_text(GroundingEstimate(cell.count / cell.of, cell.interval), column, with_interval)
        return f"{rate}{chr(10) if with_interval else ' '}{cell.count}/{cell.of}"
    text = f"{cell.count}/{cell.of}" if isinstance(cell, GroundingShare) else number(cell.value, column)
    return f"{text} {_ends(cell.interval, column)}" if with_interval and cell.interval is not None else text


def _ends(interval: tuple[float, float], column: Column) -> str:
    return f"[{number(interval[0], column)}, {number(interval[1], column)}]"


def estimate_text(estimate: GroundingEstimate | None, form: str, scale: float = 1.0) -> str:
    """Return a number with its interval, for a sentence, or a dash."""
    return cell_text(estimate, Column("", form, scale))


def rate_cell(rate: SuccessRate) -> Cell:
    """Return a success rate in percent; a text if a rule chose which episodes were counted, or None."""
    value = percent(rate.rate)
    if value is None:
        return None
    if rate.is_chosen and rate.bounds is not None:
        return percents_text(rate)
    return GroundingEstimate(value, percents(rate.interval), percents(rate.tasks_interval))


def share_cell(rate: SuccessRate | None) -> Cell:
    """Return the successes out of the episodes with the rate's interval, or None if nothing was counted."""
    return None if rate is None or rate.rate is None else GroundingShare(rate.successes, rate.counted, rate.interval)


def count_cell(rate: SuccessRate) -> GroundingShare:
    """Return the successes out of the episodes, for a rate of too few."""
    return GroundingShare(rate.successes, rate.counted, None)
