"""Tables of a report as CSV and LaTeX: each number with its full digits in CSV, and as a page shows it in LaTeX."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_vla.metrics.language_grounding import GroundingEstimate, GroundingShare
from pytest_vla.reports.blocks import NONE, Block, Cell, Column, Heading, MarkedNumber, Table, cell_text, for_medium
from pytest_vla.reports.export import FORMULA_SIGNS

_ABOUT = ("model", "suite", "protocol")

_NEEDS = "% needs \\usepackage[T1]{fontenc}, \\usepackage{textcomp} and \\usepackage{booktabs}\n"

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    # Within a tabular a bracket after a line's end would be its argument.
    "[": "{[}",
    "]": "{]}",
    # Hyphens and quotes must not join to dashes and other quotes.
    "-": "{-}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
}


@dataclass(frozen=True)
class NamedTable:
    """A table of a section, with what it is about.

    Attributes:
        name: the section's and the table's, such as ``robustness.dimensions``.
        subject: model, suite and protocol; empty texts if the table is about several.
        table: as a page shows it.
    """

    name: str
    subject: tuple[str, str, str]
    table: Table


def named_tables(section: str, blocks: Iterable[Block | str]) -> Iterator[NamedTable]:
    """Yield the tables of a section's blocks, each with the subject of the heading above it."""
    subject = ("", "", "")
    numbers: dict[str, int] = {}
    for block in for_medium((block for block in blocks if not isinstance(block, str)), "files"):
        if isinstance(block, Heading) and block.subject is not None:
            subject = block.subject
        if isinstance(block, Table) and block.rows:
            name = block.name or f"table-{len(numbers) + 1}"
            numbers[name] = numbers.get(name, 0) + 1
            yield NamedTable(f"{section}.{name}", subject, block)


def csv_files(tables: Iterable[NamedTable]) -> dict[str, str]:
    """Return CSV by table name: tables of one name are joined, and say in their first columns what they are about.

    An estimate has further columns for the ends of its interval, a share for its total. Texts that a spreadsheet would
    run as a formula have an apostrophe before them.
    """
    found: dict[str, list[NamedTable]] = {}
    for each in tables:
        if not each.table.is_digest:
            found.setdefault(each.name, []).append(each)
    return {name: _csv(some) for name, some in found.items()}


def _csv(tables: Sequence[NamedTable]) -> str:
    about = [place for place in range(len(_ABOUT)) if any(each.subject[place] for each in tables)]
    rows = []
    for each in tables:
        for cells in each.table.rows:
            row: dict[str, str | float | None] = {_ABOUT[place]: each.subject[place] for place in about}
            for column, cell in zip(each.table.columns, cells, strict=True):
                row.update(_cells(column, cell))
            rows.append(row)
    # A column may have an interval in some tables only: it stands behind its number all the same.
    head = [_ABOUT[place] for place in about]
    for each in tables:
        for column in each.table.columns:
            keys = [key for key in _keys(column) if any(row.get(key) is not None for row in rows)]
            head += [key for key in keys or [column.head] if key not in head]
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(csv_text, head))
    writer.writerows([csv_text(row.get(key)) for key in head] for row in rows)
    return text.getvalue()


def _keys(column: Column) -> tuple[str, ...]:
    return (column.head, *(f"{column.head} {end}".strip() for end in ("count", "of", "low", "high")))


def _cells(column: Column, cell: Cell) -> Iterator[tuple[str, str | float | None]]:
    name, count, of, low, high = _keys(column)
    if isinstance(cell, GroundingShare) and column.is_rate:
        yield from (
            (name, _scaled(cell.count / cell.of, column) if cell.of else None),
            (count, cell.count),
            (of, cell.of),
        )
    elif isinstance(cell, GroundingShare):
        yield from ((name, cell.count), (of, cell.of))
    elif isinstance(cell, GroundingEstimate | MarkedNumber):
        yield name, _scaled(cell.value, column)
    elif not isinstance(cell, tuple):
        yield name, _scaled(cell, column)
    ends = cell if isinstance(cell, tuple) else getattr(cell, "interval", None)
    if ends is not None:
        yield from zip((low, high), (_scaled(end, column) for end in ends), strict=True)


def _scaled(value: str | float | None, column: Column) -> str | float | None:
    return value if value is None or isinstance(value, str) or column.scale == 1.0 else value * column.scale


def joined(files: Mapping[str, str], format: str) -> str:
    """Return tables one after another: each of CSV below a line with its name, and an empty line between two."""
    if format == "latex":
        # One remark on the package is enough.
        return _NEEDS + "\n".join(text.removeprefix(_NEEDS) for text in files.values())
    return "\n".join(f"# {name}\n{text}" for name, text in files.items())


def csv_text(value: object) -> object:
    """Return a value as CSV has it: nothing for None and dashes, and no text that begins as a formula."""
    if value is None or value == NONE:
        return ""
    if isinstance(value, str):
        # A line's end would be one in the file too, which some programs do not read.
        value = re.sub(r"[\r\n]+", " ", value)
        return f"'{value}" if value.startswith(FORMULA_SIGNS) else value
    return value


def latex_text(text: str) -> str:
    """Return a text so that LaTeX prints it as it is; control characters and line ends become blanks."""
    return "".join(_LATEX.get(sign, sign if sign.isprintable() else " ") for sign in text)


def latex_files(tables: Iterable[NamedTable]) -> dict[str, str]:
    """Return LaTeX by table name: a ``table`` for each subject, with ``\\caption``, ``\\label`` and booktabs' rules."""
    found: dict[str, list[str]] = {}
    for each in tables:
        found.setdefault(each.name, []).append(_latex(each))
    return {name: _NEEDS + "\n".join(some) for name, some in found.items()}


def _latex(named: NamedTable) -> str:
    table = named.table
    about = ", ".join(filter(None, named.subject))
    caption = ": ".join(filter(None, (about, table.caption)))
    label = re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(filter(None, (named.name, *named.subject))))
    aligned = "".join("l" if place < table.names or c.is_left else "r" for place, c in enumerate(table.columns))
    head = _latex_row(latex_text(column.head) for column in table.columns)
    rows = [_latex_row(map(_latex_cell, row, table.columns)) for row in table.rows]
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{latex_text(caption)}}}",
            rf"\label{{tab:{label}}}",
            rf"\begin{{tabular}}{{{aligned}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def _latex_cell(cell: Cell, column: Column) -> str:
    text = cell_text(cell, column)
    # A number's sign is a minus, a text's a hyphen.
    return latex_text(text) if isinstance(cell, str) or text == NONE else latex_text(text).replace("{-}", "$-$")


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"
