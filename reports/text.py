"""Blocks of a report as lines of a terminal: sentences that are wrapped, and tables whose columns are aligned."""

import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from pytest_vla.reports.blocks import Block, Heading, Sentence, Table, cell_text, for_medium, with_columns
from pytest_vla.util.text import printable

Rows = Sequence[Sequence[str]]

WIDTH = 100
"""Columns of a report: what is longer is broken where it can be."""


def aligned(
    rows: Rows, names: int, left: set[int] | frozenset[int] = frozenset(), width: int | None = WIDTH
) -> Iterator[str]:
    """Yield rows as columns that are as wide as they have to be: names to the left, numbers to the right.

    If that is too wide, intervals go below their numbers, and titles of numbers break at a blank. If it is still too
    wide, long names of some rows have lines of their own, with the numbers below them in their columns; else the table
    is broken into parts, each with the names and some columns; and if names leave no room for that, the names of all
    rows have lines of their own, with the numbers indented below them.

    Args:
        rows: the head's first; as many cells each, which may have several lines.
        names: how many columns of names there are.
        left: further columns whose text begins at the left.
        width: of the lines, or None for any.
    """
    head = [*rows[0][:names], *map(_halved, rows[0][names:])]
    under = [[*row[:names], *(_interval_below(cell) for cell in row[names:])] for row in rows[1:]]
    below = [head, *under]
    for each in (rows, [rows[0], *under], [head, *rows[1:]], below):
        lines = [line for some in _laid_out(each, names, left) for line in some]
        if width is None or _fits(lines, width):
            yield from lines
            return
    assert width is not None
    if (apart := _with_long_names_apart(below, names, left, width)) is not None:
        yield from apart
        return
    if not left and (parts := _in_parts(below, names, width)) is not None:
        yield from parts
        return
    further = {column - names for column in left}
    inline, stacked = (list(_laid_out([row[names:] for row in each], 0, further)) for each in (rows, below))
    numbers = inline if _fits((f"  {line}" for some in inline for line in some), width) else stacked
    for row, some in zip(rows, numbers, strict=True):
        yield from wrapped("  ".join(cell for cell in row[:names] if cell), width)
        for line in some:
            # A blank within a cell is no worse a place than one between cells.
            yield from wrapped(f"  {line}", width, "    ")


def _with_long_names_apart(rows: Rows, names: int, left: set[int] | frozenset[int], width: int) -> list[str] | None:
    """Return lines in which rows with long names have these in a line above their numbers.

    None if that is too wide, or if it is so for most rows: numbers would be far from the names of their columns.
    """
    lengths = sorted({len(cell) for row in rows for cell in row[:names]})
    for most in reversed(lengths[:-1]):
        is_long = [any(len(cell) > most for cell in row[:names]) for row in rows]
        if is_long[0] or 2 * sum(is_long) > len(rows):
            return None
        short = [[*[""] * names, *row[names:]] if long else row for row, long in zip(rows, is_long, strict=True)]
        laid = list(_laid_out(short, names, left))
        if _fits((line for some in laid for line in some), width):
            return [
                line
                for row, some, long in zip(rows, laid, is_long, strict=True)
                for line in ([*wrapped("  ".join(filter(None, row[:names])), width)] * long + some)
            ]
    return None


def _in_parts(rows: Rows, names: int, width: int) -> list[str] | None:
    """Return a table of numbers in parts below each other, or None if a part would have fewer than three columns."""
    cells = [[cell.split("\n") for cell in column] for column in zip(*rows, strict=True)]
    widths = [2 + max(len(line) for cell in column for line in cell) for column in cells]
    room = width + 2 - sum(widths[:names])
    parts: list[list[int]] = [[]]
    for place in range(names, len(widths)):
        if parts[-1] and sum(widths[each] for each in parts[-1]) + widths[place] > room:
            parts.append([])
        parts[-1].append(place)
    if len(parts) < 2 or min(map(len, parts[:-1])) < _FEWEST_IN_A_PART or max(widths[names:]) > room:
        return None
    lines: list[str] = []
    for part in parts:
        shown = [[*row[:names], *(row[place] for place in part)] for row in rows]
        lines += [""] * bool(lines) + [line for some in _laid_out(shown, names, frozenset()) for line in some]
    return lines


_FEWEST_IN_A_PART = 3


def _fits(lines: Iterable[str], width: int) -> bool:
    return all(len(line) <= width for line in lines)


def _halved(title: str) -> str:
    """Return a title in two lines, broken at the blank that leaves the longer one shortest."""
    blanks = [place for place, letter in enumerate(title) if letter == " "]
    if not blanks or "\n" in title:
        return title
    best = min(blanks, key=lambda place: max(place, len(title) - place - 1))
    return f"{title[:best]}\n{title[best + 1 :]}"


def _interval_below(cell: str) -> str:
    return cell.replace(" [", "\n[")


def _laid_out(rows: Rows, names: int, left: set[int] | frozenset[int]) -> Iterator[list[str]]:
    """Yield each row's lines; in the head short cells stand low, in other rows high."""
    cells = [[cell.split("\n") for cell in row] for row in rows]
    widths = [max(len(line) for cell in column for line in cell) for column in zip(*cells, strict=True)]
    for number, row in enumerate(cells):
        height = max(map(len, row), default=1)
        placed = [[*[""] * (height - len(cell)), *cell] for cell in row] if number == 0 else row
        yield [
            "  ".join(
                text.ljust(width) if index < names or index in left else text.rjust(width)
                for index, (text, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in zip_longest(*placed, fillvalue="")
        ]


def wrapped(text: str, width: int | None = WIDTH, indent: str = "  ") -> list[str]:
    """Return a text in lines, all but the first indented, or no line for an empty text. Words are never broken."""
    if width is None or len(text) <= width:
        return [text] if text else []
    return textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, replace_whitespace=False
    )


def terminal_width() -> int:
    """Return the columns of the terminal, or of ``COLUMNS``, where that is narrower than `WIDTH`."""
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 1)).columns)


def block_lines(blocks: Iterable[Block | str], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines of blocks, without control characters; a text among them is a line as it is."""
    return printed(_lines(blocks, width))


def _lines(blocks: Iterable[Block | str], width: int) -> Iterator[str]:
    is_first = True
    for block in blocks:
        lines = (
            [block]
            if isinstance(block, str)
            else [line for one in for_medium([block], "terminal") for line in _block(one, width)]
        )
        # Nothing is above the first line to be kept apart from.
        yield from lines[1:] if is_first and lines[:1] == [""] else lines
        is_first = is_first and not lines


def _block(block: Block, width: int) -> Iterator[str]:
    if isinstance(block, Heading):
        yield from ("", f"=== {block.text} ===")
    elif isinstance(block, Sentence):
        yield from [""] * block.is_apart
        text, indent = (f"note: {block.text}", "      ") if block.is_note else (block.text, block.indent)
        yield from wrapped(text, width, indent)
    elif isinstance(block, Table):
        yield from [] if block.caption_medium == "page" else ["", *wrapped(block.caption, width, "")]
        yield from table_lines(block, width)


def table_lines(table: Table, width: int = WIDTH) -> Iterator[str]:
    """Yield the lines of a table, without its caption."""
    head, *rows = _texts(table)
    left = {place for place, column in enumerate(table.columns) if column.is_left}
    yield from aligned([tuple(map(_broken, head)), *rows], table.names, left, width)


def markdown_table(table: Table) -> Iterator[str]:
    """Yield the lines of a table in Markdown, without its caption, and an empty one before it."""
    head, *rows = _texts(table)
    yield ""
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(map(markdown_text, row))} |"


def markdown_text(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return "".join(f"\\{each}" if each in "\\`*_{}<>#|[]" else each for each in printable(text))


def _texts(table: Table) -> list[tuple[str, ...]]:
    """Return the titles and the cells that a terminal shows."""
    shown = with_columns(table, "terminal")
    return [
        tuple(column.head for column in shown.columns),
        *(
            tuple(cell_text(cell, column, not column.is_brief) for cell, column in zip(row, shown.columns, strict=True))
            for row in shown.rows
        ),
    ]


def _broken(head: str) -> str:
    """Return a title in two lines if it is long and has an underscore to break it at: its column is narrower."""
    return "_\n".join(head.rsplit("_", 1)) if len(head) > 16 else head


def first_few(texts: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first few texts, and how many more there are."""
    return between.join(texts[:most]) + f" and {len(texts) - most} more" * (len(texts) > most)


def note_lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield lines on what is missing from a report's numbers."""
    for text in texts:
        yield from wrapped(f"note: {text}", indent="      ")


def printed(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without control characters, which a terminal would obey, and without blanks at their ends."""
    return (printable(line).rstrip() for line in lines)
