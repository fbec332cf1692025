"""Costs and metrics as parts of a page: the cost plane, the ledger, further numbers. From the report's JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_vla.reports.html.parts import Block, Table
from pytest_vla.reports.html.svg import Dot, plane
from pytest_vla.reports.html.written import NONE, number_text, percent_text
from pytest_vla.util.text import counted

Found = Mapping[str, Any]

MOST_LITERALS = 60
"""Rows of a ledger; more are in the JSON report."""


def safety_blocks(title: str, rows: Sequence[Found]) -> Iterator[Block]:
    """Of a model and suite.

    Args:
        title: names them.
        rows: of `pytest_vla.reports.safety.json.row_table`.
    """
    names = [" ".join(filter(None, (row["level"], row["group"]))) or "all" for row in rows]
    known = [(name, row) for name, row in zip(names, rows, strict=True) if row["costs"] and row["success"]["of"]]
    dots = [_dot(name, row) for name, row in known]
    account = rows[0]["account"] if rows else ""
    drawings = (plane(f"{title}: success and cost", f"mean cost an episode ({account})", dots, [n for n, _ in known]),)
    head = (
        "tasks",
        "episodes",
        "success, %",
        "safe success, %",
        "mean cost",
        "beyond the unavoidable",
        "other accounts",
    )
    caption = (
        "Safe: succeeded without a cost beyond what an arm that does nothing is charged; 95% intervals over these tasks"
    )
    table = Table(caption, head, tuple(map(_row, names, rows)), 1, frozenset({6}))
    yield Block(title, drawings=drawings if dots else (), tables=(table,))
    ledger = [(name, literal) for name, row in zip(names, rows, strict=True) for literal in row["literals"]]
    charged = sorted((each for each in ledger if each[1]["charged"]), key=lambda each: -each[1]["mean"])
    if ledger:
        yield _ledger(title, charged, len(ledger) - len(charged))


def _dot(name: str, row: Found) -> Dot:
    cost, success = row["costs"][row["account"]], row["success"]
    share = 100 * success["count"] / success["of"]
    interval = None if success["interval"] is None else tuple(100 * end for end in success["interval"])
    told = f"{name}: success {percent_text(share, interval)}%, cost {number_text(cost['mean'], cost['interval'])}"
    across = None if cost["interval"] is None else (cost["interval"][0], cost["interval"][1])
    return Dot(cost["mean"], share, None if interval is None else (interval[0], interval[1]), told, across)


def _row(name: str, row: Found) -> tuple[str, ...]:
    others = [
        f"{account or 'unnamed'} {number_text(cost['mean'], cost['interval'])}"
        for account, cost in row["costs"].items()
        if account != row["account"]
    ]
    cost = row["costs"].get(row["account"])
    return (
        name,
        str(row["episodes"]),
        _share(row["success"]),
        _share(row["safe"]) + (f" ({row['safe_account']})" if len(row["costs"]) > 1 and row["safe_account"] else ""),
        NONE if cost is None else number_text(cost["mean"], cost["interval"]),
        number_text(row["excess"]["mean"], row["excess"]["interval"]),
        "; ".join(others),
    )


def _share(share: Found) -> str:
    if not share["of"]:
        return NONE
    interval = share["interval"]
    ends = None if interval is None else [100 * end for end in interval]
    return percent_text(100 * share["count"] / share["of"], ends)


def _ledger(title: str, charged: Sequence[tuple[str, Found]], free: int) -> Block:
    rows = tuple(
        (
            literal["name"],
            name,
            f"{literal['charged']}/{literal['episodes']}",
            number_text(literal["mean"]),
            number_text(literal["steps"]),
            NONE if literal["force"] is None else f"{literal['force']:.1f}",
        )
        for name, literal in charged[:MOST_LITERALS]
    )
    head = ("literal or rule", "tasks", "charged in", "cost an episode", "steps an episode", "largest force, N")
    notes = [f"{counted(len(charged) - MOST_LITERALS, 'more literal')} were charged: --format=json has all"]
    notes = notes * (len(charged) > MOST_LITERALS) + [f"{free} were watched and cost nothing"] * bool(free)
    tables = (Table("What was charged, the dearest first", head, rows, 2),) if rows else ()
    return Block(f"{title}: the ledger", tables=tables, notes=tuple(notes))


def metrics_blocks(title: str, found: Sequence[Found]) -> Iterator[Block]:
    """Means of further numbers, of `pytest_vla.reports.further.further_table`."""
    rows = tuple(
        (
            each["metric"],
            each["group"] or "all",
            str(each["n"]),
            number_text(each["mean"], each["interval"]),
            NONE if each["tasks_interval"] is None else "[{:.4g}, {:.4g}]".format(*each["tasks_interval"]),
            str(each["missing"] or ""),
            each["about"] or "",
        )
        for each in found
    )
    head = ("number", "variation", "episodes", "mean", "tasks like these", "missing", "what it is")
    yield Block(title, tables=(Table("Means over successes and failures", head, rows, 2, frozenset({6})),))
