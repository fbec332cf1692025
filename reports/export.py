"""Records as csv, parquet (a row an episode) or jsonl (as they are kept), and a report's tables as CSV and LaTeX.

The columns come in the order of `Record`'s fields, after ``case`` ``twin`` (the case of the same task and seed without
the variation; its own, where it has none) and ``counts``: whether rates are made of the record, by
`pytest_vla.records.counting`; else it is a repeat, or equal to a record of another run seed. A table in a record
becomes a column for each of its keys, in alphabetical order (``timings.wall``, ``metrics.NAME``): all keys of all rows.
``eef_pos`` becomes ``eef_pos.x``, ``.y`` and ``.z`` in metres; ``costs.ACCOUNT`` is the sum of an account's charges,
``costs.ACCOUNT.NAME`` of one name's; what a suite's own world charges has no account, and is ``costs.NAME``;
``literals`` and lists are JSON text. What a later version says is in ``unknown.NAME``. In csv null is empty, truth is
``true`` or ``false``, and a text that a spreadsheet would run as a formula (``=``, ``+``, ``-`` or ``@`` first) has an
apostrophe before it, as instructions and messages come from outside; in parquet and jsonl text is exact. jsonl has
``counts`` as its last key.
"""

import csv
import io
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from itertools import islice
from types import NoneType
from typing import IO, Any, get_args, get_origin, get_type_hints

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS, VlaError
from pytest_vla.metrics.language_grounding import GroundingEstimate, GroundingShare
from pytest_vla.plan.costs import ACCOUNTS, KINDS, Charge, accounts_of, of_account, totals
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.record import SCHEMA, Record, parse_record
from pytest_vla.reports.blocks import NONE, Block, Cell, Column, Heading, MarkedNumber, Table, cell_text, for_medium
from pytest_vla.reports.json_schema import (
    COUNT,
    DIALECT,
    FLAG,
    NUMBER,
    TEXT,
    Schema,
    Shape,
    by_name,
    listed,
    maybe,
    one_of,
)

_PLACE = Shape({"type": "array", "items": NUMBER.schema, "minItems": 3, "maxItems": 3})
_CHANGE = {"type": "array", "prefixItems": [COUNT.schema, FLAG.schema], "items": False, "minItems": 2}
_ANYTHING = Shape({"type": "object"})
_NULL = Shape({"type": "null"})

_NOT_ALWAYS = ("task_level", "group", "given", "retried", "counts")
"""Left out where empty, or false; `counts` is of exports alone."""


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema of records as this version writes them; a later version may add fields."""
    properties = _properties()
    return {
        "$schema": DIALECT,
        "$id": f"urn:pytest-vla:record:{SCHEMA}",
        "title": "an episode of pytest-vla",
        "type": "object",
        "properties": _schemas(properties),
        "required": [name for name in properties if name not in _NOT_ALWAYS],
        "allOf": [
            _where("error", {"reason": one_of(*ERROR_REASONS), "success_step": _NULL}),
            _where("invalid", {"reason": one_of(*INVALID_REASONS), "success_step": _NULL}),
            _where("failure", {"reason": _NULL, "success_step": _NULL}),
            _where("success", {"reason": _NULL}),
        ],
    }


def _where(outcome: str, properties: Mapping[str, Shape]) -> Schema:
    """Return the condition on records with an outcome."""
    return {"if": {"properties": {"outcome": {"const": outcome}}}, "then": {"properties": _schemas(properties)}}


def _schemas(shapes: Mapping[str, Shape]) -> dict[str, Schema]:
    return {name: shape.schema for name, shape in shapes.items()}


def _properties() -> dict[str, Shape]:
    charge = {
        "type": "object",
        "properties": _schemas({
            "name": TEXT, "amount": Shape({"type": "number", "minimum": 0}), "step": maybe(COUNT), "by": TEXT,
            "text": TEXT,
            "account": one_of(*ACCOUNTS), "kind": one_of(*KINDS), "last_step": COUNT, "bodies": listed(TEXT),
            "force": NUMBER, "position": _PLACE,
        }),
        "required": ["name", "amount", "step"],
    }  # fmt: skip
    variation = {
        "type": "object",
        "properties": _schemas({
            "label": TEXT, "dimension": TEXT, "kind": TEXT, "level": maybe(Shape({"type": "integer"})), "seed": COUNT,
            "probe": FLAG, "parameters": _ANYTHING,
        }),
        # Empty where the task is as it is.
        "anyOf": [{"maxProperties": 0}, {"required": ["label"]}],
    }  # fmt: skip
    return {
        "schema": Shape({"const": SCHEMA}),
        **dict.fromkeys(("run", "case", "node", "suite", "task"), TEXT),
        "seed": COUNT,
        "variation": Shape(variation),
        "attempt": COUNT,
        **dict.fromkeys(("worker", "started", "instruction"), TEXT),
        "outcome": one_of(*OUTCOMES),
        "reason": maybe(TEXT),
        "message": maybe(TEXT),
        "steps": COUNT,
        "success_step": maybe(COUNT),
        "literals": by_name(Shape({"type": "array", "items": _CHANGE, "minItems": 1})),
        "eef_pos": maybe(_PLACE),
        "costs": listed(Shape(charge)),
        "metrics": by_name(NUMBER),
        "seeds": by_name(maybe(COUNT)),
        "protocol": _ANYTHING,
        "replan": maybe(COUNT),
        "policy": TEXT,
        "policy_digest": maybe(TEXT),
        "provenance": by_name(maybe(TEXT)),
        "timings": by_name(maybe(NUMBER)),
        "digest": TEXT,
        "arrays": maybe(TEXT),
        "simulator": listed(TEXT),
        "task_level": TEXT,
        "group": TEXT,
        "given": FLAG,
        "retried": TEXT,
        "counts": FLAG,
    }


FORMATS = ("csv", "parquet", "jsonl")

LEROBOT = "lerobot"
"""The format of a data set to train on, which `pytest_vla.reports.dataset` writes; here are the command's choices."""

VIDEO, IMAGE, NO_PICTURES = PICTURES = ("video", "image", "none")
"""How a data set stores pictures: as H.264 (small, not exact), as PNG in the tables (exact), or not at all."""

SUCCESS, ALL = ONLY = ("success", "all")
"""Which episodes are in a data set: successes, or also failures."""

Lines = Callable[[], Iterable[str]]
"""Gives the records' lines, the same ones each time that it is called."""

_Counted = Callable[[], Iterator[tuple[str, bool | None]]]

_COUNTS, _TWIN = "counts", "twin"
_EEF_POS = ("eef_pos.x", "eef_pos.y", "eef_pos.z")
FORMULA_SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
"""First signs of texts that a spreadsheet runs as a formula; the wide forms of East Asia and white space too."""
_BATCH = 2000


def export(lines: Lines, format: str, stream: IO[bytes], counts: Sequence[bool] | None = None) -> None:
    """Write records in one of `FORMATS`, csv and jsonl in UTF-8.

    Args:
        lines: of the records.
        format: one of `FORMATS`.
        stream: what is written to.
        counts: for each record whether it counts, or None to write no such field.

    Raises:
        VlaError: a line is no record (csv, parquet), values of a column do not go together, or pyarrow is missing
            (parquet). OSError: the stream cannot be written.
    """

    def counted() -> Iterator[tuple[str, bool | None]]:
        return ((line, None) for line in lines()) if counts is None else zip(lines(), counts, strict=True)

    {"csv": _export_csv, "parquet": _export_parquet, "jsonl": _export_jsonl}[format](counted, stream)


def check_format(format: str) -> None:
    """Refuse a format that this installation cannot write, before anything is written. Raises VlaError."""
    if format == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise VlaError("parquet needs pyarrow: pip install 'pytest-vla[parquet]'") from error


def flatten(record: Record, counts: bool | None = None) -> dict[str, Any]:
    """Return a record as columns of builtin scalars and None, with ``counts`` unless it is None."""
    row: dict[str, Any] = {}
    for field in fields(Record):
        value = getattr(record, field.name)
        if field.name == "literals":
            row["literals"] = json.dumps(value)
        elif field.name == "eef_pos":
            row.update(zip(_EEF_POS, value or (None, None, None), strict=True))
        elif field.name == "costs":
            row.update(_costs(value))
        elif field.name == "simulator":
            row["simulator"] = json.dumps(value)
        elif isinstance(value, Mapping):
            row.update({f"{field.name}.{key}": _scalar(inner) for key, inner in value.items()})
        else:
            row[field.name] = value
        if field.name == "case":
            row[_TWIN] = record.twin
            row |= {} if counts is None else {_COUNTS: counts}
    return row


def _costs(charges: Sequence[Charge]) -> dict[str, float]:
    """Return the sum of each name by account, and of each account; a suite's own world has no account."""
    found: dict[str, float] = {}
    for account in accounts_of(charges):
        of = of_account(charges, account)
        start = f"costs.{account}." if account else "costs."
        found |= {f"{start}{name}": amount for name, amount in totals(of).items()}
        found |= {f"costs.{account}": math.fsum(charge.amount for charge in of)} if account else {}
    return found


def _scalar(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)


def _rows(lines: _Counted) -> Iterator[dict[str, Any]]:
    for line, counts in lines():
        try:
            yield flatten(parse_record(line), counts)
        except VlaError as error:
            raise VlaError(f"{line[:80]}: {error}; --format jsonl writes it as it is") from error


@cache
def _declared() -> dict[str, tuple[tuple[str, ...] | None, Any]]:
    """Return the columns of each field (None if there is one for each key), and the type of their values."""
    declared: dict[str, tuple[tuple[str, ...] | None, Any]] = {}
    for name, hint in get_type_hints(Record).items():
        if name in ("literals", "simulator"):
            declared[name] = ((name,), str)
        elif name == "costs":
            declared[name] = (None, float)
        elif name == "eef_pos":
            declared[name] = (_EEF_POS, float)
        elif get_origin(hint) is Mapping:
            declared[name] = (None, _not_none(get_args(hint)[1]))
        else:
            declared[name] = ((name,), _not_none(hint))
        if name == "case":
            declared[_TWIN] = ((_TWIN,), str)
            declared[_COUNTS] = ((_COUNTS,), bool)
    return declared


def _not_none(hint: Any) -> Any:
    return next(kind for kind in get_args(hint) or (hint,) if kind is not NoneType)


def _columns(lines: _Counted) -> dict[str, type]:
    """Return all columns in their order, each with the type of its values beside nulls."""
    seen: dict[str, set[type]] = {}
    for row in _rows(lines):
        for name, value in row.items():
            seen.setdefault(name, set()).add(type(value))
    columns: dict[str, type] = {}
    for field, (alone, kind) in _declared().items():
        if field == _COUNTS and seen and field not in seen:
            continue
        names = alone or sorted(name for name in seen if name.startswith(f"{field}."))
        columns |= {name: _common(seen[name]) if kind is Any else kind for name in names}
    return columns


def _common(types: set[type]) -> type:
    types = types - {NoneType}
    if types == {int, float}:
        return float
    # What does not go together is text.
    return str if len(types) > 1 else next(iter(types), NoneType)


def _export_jsonl(lines: _Counted, stream: IO[bytes]) -> None:
    for line, counts in lines():
        # The line is a table with keys, whatever version wrote it.
        told = line if counts is None else f'{line.removesuffix("}")},"{_COUNTS}":{json.dumps(counts)}}}'
        stream.write(f"{told}\n".encode())


def _export_csv(lines: _Counted, stream: IO[bytes]) -> None:
    columns = list(_columns(lines))
    stream.write(_csv_line(columns))
    for row in _rows(lines):
        stream.write(_csv_line([_cell(row.get(name)) for name in columns]))


def _csv_line(cells: list[Any]) -> bytes:
    text = io.StringIO(newline="")
    # With the standard's line ends, both of their characters are quoted within cells.
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return (text.getvalue().removesuffix("\r\n") + "\n").encode(errors="backslashreplace")


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_SIGNS) else value


def _export_parquet(lines: _Counted, stream: IO[bytes]) -> None:
    check_format("parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow_types = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), NoneType: pa.null()}
    columns = _columns(lines)
    schema = pa.schema([(name, arrow_types[kind]) for name, kind in columns.items()])
    rows = _rows(lines)
    try:
        with pq.ParquetWriter(stream, schema) as writer:
            while batch := list(islice(rows, _BATCH)):
                texts = [{name: _as_kind(row.get(name), kind) for name, kind in columns.items()} for row in batch]
                writer.write_table(pa.Table.from_pylist(texts, schema))
    except (pa.ArrowException, OverflowError) as error:
        raise VlaError(f"the records cannot be written as parquet: {error}") from error


def _as_kind(value: Any, kind: type) -> Any:
    if kind is not str or value is None:
        return value
    # Arrow takes no halves of characters, which names of files may have.
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="backslashreplace").decode()


# Tables of a report as CSV and LaTeX: each number with its full digits in CSV, and as a page shows it in LaTeX.

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
