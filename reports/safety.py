"""Safety: a section with the mean cumulative cost beside the success rate, and the single charges."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_vla.metrics.clustered import CONFIDENCE, THESE_TASKS
from pytest_vla.metrics.language_grounding import GroundingEstimate, GroundingShare
from pytest_vla.metrics.rates import percents, reasons_text
from pytest_vla.metrics.safety import SAFE, Safety, SafetyRow, pareto, safety
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Cell, Column, Heading, PageDrawing, Sentence, Table, cell_text, notes
from pytest_vla.reports.figures import new_figure, png_of
from pytest_vla.reports.html.svg import Dot, plane
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import Section, Subject

if TYPE_CHECKING:
    from markupsafe import Markup

PLANE, CURVES = "safety-plane", "safety-curves"
"""Names of the pictures."""

ACCOUNTS = {
    "paper": "by the paper's rules: every literal; what is terminal once, also without success",
    "upstream": "by its code, bug for bug, as published numbers are: the first expression only, terminal only on "
    "success",
    "declared": "by your --vla-cost-file",
    "collisions": "unintended contacts of the arm and of what it holds, impacts, and what was displaced",
    "": "as the suite's own world says",
}
"""The meaning of each account."""

_MOST_LITERALS = 10
_MOST_ON_A_PAGE = 60
_MARKERS = "os^Dv<>Pp*hX"
_MOST_CURVES = 12


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if nothing has a ledger of costs."""
    found = safety(loaded.records)
    if not found:
        return None
    rows: dict[Subject, list[SafetyRow]] = {}
    for model in found:
        for each in model.rows:
            rows.setdefault((model.model, each.suite, ""), []).append(each)
    return Section(
        lambda: safety_blocks(found, SAFE, options.full),
        j.written(_METHODS, None),
        {subject: j.written(_MODELS, some) for subject, some in rows.items()},
        lambda: pictures(found),
        "Cost",
    )


_SHARE = j.row({"count": j.COUNT, "of": j.COUNT, **j.INTERVALS})
_ESTIMATE = j.row({"mean": j.NUMBER.of("value"), **j.INTERVALS})
_METHODS = j.methods(
    "safety",
    {
        "confidence": CONFIDENCE,
        "over": THESE_TASKS,
        "rates": "Wilson, episodes of one task and seed counted together",
        "costs": (
            "means over successes and failures with a ledger; Student's t over tasks and seeds, cut at 0; no "
            "interval where all are alike"
        ),
        "threshold": j.NUMBER.always(SAFE),
    },
)
_LITERAL: j.Keys = {
    "name": j.TEXT, "episodes": j.COUNT, "charged": j.COUNT, "mean": j.NUMBER, "steps": j.NUMBER,
    "force": j.maybe(j.NUMBER),
}  # fmt: skip
_ROW: j.Keys = {
    # `account` is the headline's, `safe_account` decides what is safe; costs are by account.
    "level": j.TEXT, "group": j.TEXT, "episodes": j.COUNT.of("success.of"), "account": j.TEXT, "success": _SHARE,
    "safe": _SHARE,
    "safe_account": j.TEXT.of("safe_by"), "costs": j.by_name(_ESTIMATE), "excess": _ESTIMATE,
    "unavoidable": j.maybe(j.NUMBER),
    # The dearest literals first; the mean cumulative cost after 0, 1, ... control steps.
    "literals": j.listed(j.row(_LITERAL)), "curve": j.listed(j.NUMBER),
    "errors": j.REASONS.of("counts.errors"), "invalid": j.REASONS.of("counts.invalid"),
}  # fmt: skip
_MODELS: j.Keys = {"safety": j.listed(j.row(_ROW)).of(lambda rows: rows)}

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def safety_blocks(found: Sequence[Safety], threshold: float, full: bool) -> Iterator[Block]:
    """Yield the section's blocks.

    Args:
        found: of `pytest_vla.metrics.safety`.
        threshold: the excess up to which a success is safe.
        full: whether all literals are listed.
    """
    yield Sentence(
        "Safety: mean cumulative cost (CC) beside the success rate (SR), over successes and failures that have a "
        "ledger. Safe: success whose cost beyond what an idle arm is charged in the same steps is at most "
        f"{threshold:g}. In brackets: {CONFIDENCE:.0%} intervals over these tasks"
    )
    accounts = dict.fromkeys(account for model in found for row in model.rows for account in row.costs)
    for account in accounts:
        yield Sentence(f"CC {account or '(own)'}: {ACCOUNTS.get(account, 'of a later version')}")
    for model in found:
        yield Heading(model.model, (model.model, "", ""))
        yield from notes(model.left_out)
        for suite in dict.fromkeys(row.suite for row in model.rows):
            rows = [row for row in model.rows if row.suite == suite and row.costs and row.success.of]
            if rows:
                yield PageDrawing(partial(_plane_drawing, f"{model.model}, {suite}", rows))
        yield _rates(model.rows)
        for row in model.rows:
            if reasons := reasons_text(row.counts, bounds=False):
                yield Sentence(f"in no rate of {row.title}: {reasons}")
        yield from _ledger(model, full)


def _rates(rows: Sequence[SafetyRow]) -> Table:
    accounts = list(dict.fromkeys(account for row in rows for account in row.costs))
    # What is safe by one account need not be by another: the one that decides is named, once if it is the same.
    deciding = {row.safe_by for row in rows}
    differ = len(deciding) > 1
    cells = tuple(
        (
            row.suite,
            row.level,
            row.group,
            row.success.of,
            _rate(row.success),
            *(row.costs.get(account) for account in accounts),
            row.excess,
            row.unavoidable or None,
            _rate(row.safe),
            (row.safe_by or "own") if differ else "",
        )
        for row in rows
    )
    columns = (
        Column("suite"),
        Column("level", is_optional=True),
        Column("variation", is_optional=True),
        Column("episodes"),
        Column("SR", ".1%"),
        *(Column(f"CC {account or '(own)'}", ".4g") for account in accounts),
        Column("beyond the unavoidable", ".4g", medium="page"),
        Column("idle", ".4g", is_optional=True),
        Column("safe" if differ or deciding <= {""} else f"safe ({min(deciding)})", ".1%"),
        Column("safe by", is_left=True, is_optional=True),
    )
    return Table("Success and cost", columns, cells, "rates", names=3, caption_medium="page")


def _rate(share: GroundingShare) -> GroundingEstimate | None:
    return GroundingEstimate(share.count / share.of, share.interval) if share.of else None


def _ledger(model: Safety, full: bool) -> Iterator[Block]:
    """Yield the dearest literals of all rows, with what they came to."""
    literals = [(row, literal) for row in model.rows for literal in row.literals]
    found = [each for each in literals if each[1].mean > 0]
    if literals:
        yield Heading(f"{model.model}: the ledger", medium="page")
    if found:
        found.sort(key=lambda each: -each[1].mean * each[1].episodes)
        shown = found if full else found[:_MOST_LITERALS]
        cells: tuple[tuple[Cell, ...], ...] = tuple(
            (
                literal.name,
                row.title,
                GroundingShare(literal.charged, literal.episodes, None),
                literal.mean,
                literal.steps,
                literal.force,
            )
            for row, literal in shown
        )
        columns = (
            *map(Column, ("charged", "in", "episodes")),
            Column("cost an episode", ".4g"),
            Column("steps", ".4g"),
            Column("largest force, N", ".1f", is_optional=True),
        )
        yield Table("What was charged, the dearest first", columns, cells, "ledger", names=2, most=_MOST_ON_A_PAGE)
        if len(shown) < len(found):
            yield from notes([f"{len(found) - len(shown)} more literals were charged; --full has all"])
    if free := len(literals) - len(found):
        yield Sentence(f"{free} were watched and cost nothing", is_note=True, medium="page")


def _plane_drawing(title: str, rows: Sequence[SafetyRow]) -> "Markup":
    names = [" ".join(filter(None, (row.level, row.group))) or "all" for row in rows]
    dots = []
    for name, row in zip(names, rows, strict=True):
        cost, share = row.costs[row.account], 100 * row.success.count / row.success.of
        ends = percents(row.success.interval)
        success = cell_text(GroundingEstimate(share, ends), Column("", ".1f"))
        told = f"{name}: success {success}%, cost {cell_text(cost, Column('', '.4g'))}"
        dots.append(Dot(cost.value, share, ends, told, cost.interval))
    return plane(f"{title}: success and cost", f"mean cost an episode ({rows[0].account})", dots, names)


def pictures(found: Sequence[Safety]) -> dict[str, bytes]:
    """Return PNG by name: the plane, and the curves if anything was charged."""
    drawn = {PLANE: _plane(found)}
    if any(row.curve[-1] > 0 for model in found for row in model.rows):
        drawn[CURVES] = _curves(found)
    return drawn


def _plane(found: Sequence[Safety]) -> bytes:
    """Draw success over mean cost: a point for each model, suite and level, and the line that no point beats."""
    figure = new_figure(8.0, 5.5)
    axes = figure.add_subplot()
    points: list[tuple[float, float]] = []
    suites = list(dict.fromkeys(row.suite for model in found for row in model.rows))
    for number, model in enumerate(found):
        for row in model.rows:
            cost, rate = row.costs[row.account].value, row.success.count / row.success.of
            points.append((cost, rate))
            axes.errorbar(
                cost,
                100 * rate,
                xerr=_arms(cost, row.costs[row.account].interval, 1.0),
                yerr=_arms(rate, row.success.interval, 100.0),
                color=f"C{number}",
                marker=_MARKERS[suites.index(row.suite) % len(_MARKERS)],
                alpha=0.85,
                elinewidth=0.6,
            )
            axes.annotate(
                _label(row, len(found) > 1 or len(suites) > 1),
                (cost, 100 * rate),
                fontsize=6,
                alpha=0.8,
                xytext=(4, 3),
                textcoords="offset points",
            )
    front = pareto(points)
    axes.plot(
        [points[index][0] for index in front],
        [100 * points[index][1] for index in front],
        color="0.5",
        linewidth=1,
        linestyle="--",
        label="no other is as cheap and as good",
    )
    for number, model in enumerate(found):
        axes.plot([], [], color=f"C{number}", marker="o", linestyle="", label=model.model)
    axes.set_xlabel(f"mean cumulative cost of an episode ({_account(found)})")
    axes.set_ylabel("success rate, %")
    axes.set_ylim(-3, 103)
    axes.set_xlim(left=min(-0.02 * max((cost for cost, _ in points), default=1.0), -0.05))
    axes.legend(fontsize=7)
    axes.set_title("Success against what it cost; bars: 95% intervals over these tasks")
    return png_of(figure)


def _curves(found: Sequence[Safety]) -> bytes:
    """Draw how cost grows over an episode, for the rows that cost most."""
    rows = [(model.model, row) for model in found for row in model.rows if row.curve[-1] > 0]
    rows.sort(key=lambda each: -each[1].curve[-1])
    figure = new_figure(8.0, 4.5)
    axes = figure.add_subplot()
    for name, row in rows[:_MOST_CURVES]:
        axes.plot(range(len(row.curve)), row.curve, linewidth=1.2, label=f"{name}, {row.title}")
    axes.set_xlabel("control step")
    axes.set_ylabel(f"mean cumulative cost ({_account(found)})")
    axes.legend(fontsize=6)
    left_out = len(rows) - _MOST_CURVES
    axes.set_title("Cost over an episode" + (f" (the {_MOST_CURVES} dearest of {len(rows)})" if left_out > 0 else ""))
    return png_of(figure)


def _label(row: SafetyRow, several: bool) -> str:
    short = row.suite.removeprefix("vla_arena_") if several else ""
    return " ".join(filter(None, (short, row.level, row.group)))


def _account(found: Sequence[Safety]) -> str:
    return ", ".join(dict.fromkeys(row.account or "own" for model in found for row in model.rows))


def _arms(value: float, interval: tuple[float, float] | None, scale: float) -> Any:
    """Return the lengths of an error bar, down and up."""
    if interval is None:
        return None
    return [[max(value - interval[0], 0.0) * scale], [max(interval[1] - value, 0.0) * scale]]
