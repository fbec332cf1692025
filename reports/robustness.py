"""A model's success under variations: for people as tables, for programs as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_vla.metrics.bootstrap import CONFIDENCE, RESAMPLES, Interval
from pytest_vla.metrics.composition import ROUGH, Composition
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.robustness import Cell, Difference
from pytest_vla.metrics.robustness_curves import Curve, Harm
from pytest_vla.reports.rates import percent, percents, percents_text, rate_table, reasons_text
from pytest_vla.reports.tables import aligned, notes, printable, wrapped
from pytest_vla.variation import JOINT

SIGNIFICANT = 0.05
"""Of adjusted p; what is below is marked with a star."""

_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class ModelRobustness:
    """What is known of one model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        runs: names of those that it was made from.
        cells: success by dimension, kind and level.
        curves: by dimension.
        harm: the largest drop; None without pairs.
        pairs: of dimensions, with their compositional gap.
        left_out: what is not in the numbers, and why.
        protocol: as the paper or as upstream's code has it, where the suite has both; else empty.
    """

    model: str
    suite: str
    runs: tuple[str, ...]
    cells: tuple[Cell, ...]
    curves: tuple[Curve, ...]
    harm: Harm | None
    pairs: tuple[Composition, ...]
    left_out: tuple[str, ...]
    protocol: str = ""


# For programs


def methods_table(seed: int) -> dict[str, Any]:
    """How the numbers were made, for JSON."""
    return {
        "confidence": CONFIDENCE,
        "rates": "Wilson",
        "differences": "Newcombe's paired interval (method 10); a bootstrap where episodes share a benign twin",
        "p": "McNemar's exact test, two-sided; of pairs of dimensions chi-square with 1 degree of freedom",
        "p_adjusted": "Holm, among the comparisons of a model and suite, and among its pairs of dimensions",
        "bootstrap": {"over": "tasks and seeds", "resamples": RESAMPLES, "seed": seed},
    }


def robustness_table(found: ModelRobustness) -> dict[str, Any]:
    """``robustness`` of a model and suite in JSON: percentages 0..100, differences in points.

    Always there, with lists empty and all else null where there is nothing:

    - ``runs``, ``left_out``: names; texts.
    - ``dimensions``: ``dimension``, ``kind``, ``level``, ``n``, ``sr``, ``interval``, ``benign`` (of its twins),
      ``difference`` (``pairs``, ``value``, ``interval``, ``p``, ``p_adjusted``, ``lost``, ``gained``), ``errors`` and
      ``invalid`` by reason.
    - ``curves``: ``dimension``, ``levels`` (``level``, 0 is benign, ``n``, ``sr``, ``interval``), ``halves_at``,
      ``why`` (not), ``drop``, ``drop_interval``.
    - ``most_harmful``: ``dimension`` (null: not told apart), ``largest``, ``drop``, ``drop_interval``,
      ``not_told_apart``, ``why``, ``levels`` (of each dimension, where they differ). Probes, and other goals, are no
      dimension that could be it.
    - ``pairs``: ``dimensions``, ``labels``, ``n``, ``benign``, ``first``, ``second``, ``joint``, ``product``,
      ``expected``, ``joint_less_product``, ``joint_less_expected``, ``gap`` (a covariance, -1/4..1/4), ``chi_square``,
      ``p``, ``p_adjusted``, ``rough``, ``undefined``; ``..._interval`` of those that have one.
    """
    harm = found.harm
    return {
        "runs": list(found.runs),
        "dimensions": [_cell_table(cell) for cell in found.cells],
        "curves": [_curve_table(curve) for curve in found.curves],
        "most_harmful": None
        if harm is None
        else {
            "dimension": None if harm.why else harm.dimension,
            "largest": harm.dimension,
            "drop": harm.drop.value,
            "drop_interval": harm.drop.interval,
            "not_told_apart": list(harm.not_told_apart),
            "why": harm.why or None,
            "levels": harm.levels or None,
        },
        "pairs": [_pair_table(pair) for pair in found.pairs],
        "left_out": list(found.left_out),
    }


def _cell_table(cell: Cell) -> dict[str, Any]:
    difference = cell.difference
    return {
        "dimension": cell.dimension,
        "kind": cell.kind,
        "level": cell.level,
        **rate_table(cell.rate),
        "benign": None if difference is None else difference.benign,
        "difference": None
        if difference is None
        else {
            "pairs": difference.pairs,
            "value": difference.value,
            "interval": difference.interval,
            "p": difference.p,
            "p_adjusted": difference.p_adjusted,
            "lost": difference.lost,
            "gained": difference.gained,
        },
        "errors": dict(cell.rate.errors),
        "invalid": dict(cell.rate.invalid),
    }


def _curve_table(curve: Curve) -> dict[str, Any]:
    return {
        "dimension": curve.dimension,
        "levels": [{"level": level, **rate_table(rate)} for level, rate in curve.points],
        "halves_at": curve.halves_at,
        "why": curve.why or None,
        "drop": None if curve.drop is None else curve.drop.value,
        "drop_interval": None if curve.drop is None else curve.drop.interval,
    }


def _pair_table(pair: Composition) -> dict[str, Any]:
    benign, first, second, joint = pair.rates
    return {
        "dimensions": list(pair.dimensions),
        "labels": list(pair.labels),
        "n": pair.n,
        "benign": 100 * benign,
        "first": 100 * first,
        "second": 100 * second,
        "joint": 100 * joint,
        "joint_interval": percents(pair.joint_interval),
        "product": 100 * pair.product,
        "product_interval": percents(pair.product_interval),
        "joint_less_product": 100 * (joint - pair.product),
        "joint_less_product_interval": percents(pair.less_product),
        "expected": percent(pair.expected),
        "expected_interval": percents(pair.expected_interval),
        "joint_less_expected": None if pair.expected is None else 100 * (joint - pair.expected),
        "joint_less_expected_interval": percents(pair.less_expected),
        "gap": pair.gap,
        "gap_interval": pair.gap_interval,
        "chi_square": pair.chi_square,
        "p": pair.p,
        "p_adjusted": pair.p_adjusted,
        "rough": pair.rough,
        "undefined": pair.undefined or None,
    }


# For people


def robustness_lines(models: Sequence[ModelRobustness]) -> Iterator[str]:
    """The part for a terminal, line by line. Control characters are taken out."""
    yield from printable(_lines(models))


def _lines(models: Sequence[ModelRobustness]) -> Iterator[str]:
    yield f"Robustness; in brackets {CONFIDENCE:.0%} intervals: Wilson's of rates, Newcombe's of differences to benign"
    yield f"twins; of drops and of two dimensions at once bootstraps over tasks and seeds, {RESAMPLES} resamples"
    for found in models:
        yield ""
        protocol = f" as {found.protocol} has it" if found.protocol else ""
        yield f"=== {found.model}, {found.suite}{protocol}: under variations ==="
        yield from notes(found.left_out)
        yield from _grid_lines([cell for cell in found.cells if JOINT not in cell.dimension])
        yield from _cell_lines(found.cells)
        yield from _curve_lines(found.curves)
        if found.curves:
            measured = any(cell.rate.counted for cell in found.cells if JOINT not in cell.dimension)
            yield from wrapped(_harm_sentence(found.harm, measured))
        yield from _pair_lines(found.pairs)


def _grid_lines(cells: Sequence[Cell]) -> Iterator[str]:
    if not cells:
        return
    levels = sorted({cell.level for cell in cells if cell.level is not None})
    columns: list[int | None] = [*levels, *([None] if any(cell.level is None for cell in cells) else [])]
    kinds: dict[str, dict[int | None, Cell]] = {}
    for cell in cells:
        kinds.setdefault(_name(cell), {})[cell.level] = cell
    rows = [("", *("no level" if level is None else f"L{level}" for level in columns))]
    rows += [(name, *(_grid_cell(by_level.get(level)) for level in columns)) for name, by_level in kinds.items()]
    yield ""
    yield f"Success, %, and the difference to benign twins, points; *: adjusted p < {SIGNIFICANT:g}"
    yield from aligned(rows, 1)


def _grid_cell(cell: Cell | None) -> str:
    if cell is None or cell.rate.rate is None:
        return "-"
    difference = cell.difference
    lost = "" if difference is None else f" {difference.value:+.0f}{_star(difference)}"
    return f"{100 * cell.rate.rate:.0f}{lost}"


def _cell_lines(cells: Sequence[Cell]) -> Iterator[str]:
    head = ("variation", "n", "success, %", "difference, points", "lost/won", "adj. p")
    rows: list[tuple[str, ...]] = [head]
    for cell in cells:
        rate, pairs = cell.rate, 0 if cell.difference is None else cell.difference.pairs
        counted = f"{rate.counted}" + f" ({pairs})" * (pairs != rate.counted)
        rows.append((_name(cell, with_level=True), counted, percents_text(rate), *_difference_cells(cell.difference)))
    yield ""
    yield "Each variation (of n so many in pairs) against benign twins: McNemar's exact test, Holm's adjustment"
    yield from aligned(rows, 1)
    for cell in cells:
        if reasons := reasons_text(cell.rate):
            yield from wrapped(f"in no rate of {_name(cell, with_level=True)}: {reasons}")
    if any(cell.difference is not None and cell.difference.p is None for cell in cells):
        yield "shared: episodes share benign twins, so that their pairs are not independent: no test"


def _difference_cells(difference: Difference | None) -> tuple[str, str, str]:
    if difference is None:
        return "-", "-", "-"
    value = f"{difference.value:+.1f}{_brackets(difference.interval)}"
    adjusted = "shared" if difference.p_adjusted is None else _p(difference.p_adjusted) + _star(difference)
    return value, f"{difference.lost}/{difference.gained}", adjusted


def _curve_lines(curves: Sequence[Curve]) -> Iterator[str]:
    if not curves:
        return
    levels = sorted({level for curve in curves for level, _ in curve.points})
    head = ("dimension", "curve", *(f"L{level}" if level else "benign" for level in levels))
    rows: list[tuple[str, ...]] = [(*head, "halves at", "mean drop, points")]
    for curve in curves:
        rates = {level: rate.rate for level, rate in curve.points if rate.rate is not None}
        marks = "".join(_BLOCKS[min(int(8 * rates[level]), 7)] if level in rates else " " for level in levels)
        shares = (f"{100 * rates[level]:.0f}" if level in rates else "-" for level in levels)
        halves = curve.why if curve.halves_at is None else f"L{curve.halves_at:.1f}"
        rows.append((curve.dimension, marks, *shares, halves, "-" if curve.drop is None else _estimate(curve.drop)))
    yield ""
    yield "Success by level, %, all kinds of a dimension together"
    yield from aligned(rows, 2)


def _harm_sentence(harm: Harm | None, measured: bool) -> str:
    if harm is None:
        why = "without benign twins (--vla-twins=auto runs them)" if measured else "as no varied episode was measured"
        return f"most harmful dimension: not known {why}"
    levels = f"; the drops are of different levels: {harm.levels}" if harm.levels else ""
    if harm.drop.value <= 0:
        return f"no dimension lowers success{levels}"
    if harm.why:
        return f"largest mean drop: {harm.dimension}, {_estimate(harm.drop)} points; {harm.why}{levels}"
    return f"most harmful dimension: {harm.dimension}, {_estimate(harm.drop)} points lost{levels}"


def _pair_lines(pairs: Sequence[Composition]) -> Iterator[str]:
    if not pairs:
        return
    rates: list[tuple[str, ...]] = [
        ("dimensions", "n", "benign", "first", "second", "both", "expected", "both - expected, points")
    ]
    gaps: list[tuple[str, ...]] = [("dimensions", "gap", "chi-square", "adjusted p", "")]
    for pair in pairs:
        name = JOINT.join(pair.dimensions)
        shares = (f"{100 * rate:.1f}" for rate in pair.rates)
        expected, less = "-", "-"
        if pair.expected is not None:
            expected = f"{100 * pair.expected:.1f}"
            less = f"{100 * (pair.rates[3] - pair.expected):+.1f}{_brackets(percents(pair.less_expected))}"
        rates.append((name, str(pair.n), *shares, expected, less))
        gap = "-" if pair.gap is None else f"{pair.gap:+.4f}"
        gap += "" if pair.gap_interval is None else " [{:+.4f}, {:+.4f}]".format(*pair.gap_interval)
        statistic = "-" if pair.chi_square is None else f"{pair.chi_square:.2f}"
        adjusted = "-" if pair.p_adjusted is None else _p(pair.p_adjusted) + "*" * (pair.p_adjusted < SIGNIFICANT)
        remark = pair.undefined or f"rough: fewer than {ROUGH} expected in a cell" * pair.rough
        gaps.append((name, gap, statistic, adjusted, remark))
    yield ""
    yield "Two dimensions at once, success, %; expected of independent ones: first x second / benign"
    yield from aligned(rates, 1)
    yield ""
    yield "Compositional gap P(Di,Dj|Y) - P(Di|Y)P(Dj|Y), below 0: worse than independent"
    yield from aligned(gaps, 1, left={4})


def _name(cell: Cell, with_level: bool = False) -> str:
    dimensions, kinds = cell.dimension.split(JOINT), cell.kind.split(JOINT)
    name = f"{cell.dimension}.{cell.kind}"
    if len(dimensions) == len(kinds):
        name = JOINT.join(f"{dimension}.{kind}" for dimension, kind in zip(dimensions, kinds, strict=True))
    return f"{name} L{cell.level}" if with_level and cell.level is not None else name


def _star(difference: Difference) -> str:
    return "*" * (difference.p_adjusted is not None and difference.p_adjusted < SIGNIFICANT)


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _estimate(estimate: Estimate) -> str:
    return f"{estimate.value:.1f}{_brackets(estimate.interval)}"


def _brackets(interval: Interval | None) -> str:
    return "" if interval is None else " [{:.1f}, {:.1f}]".format(*interval)
