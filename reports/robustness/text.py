"""A model's success under variations, as tables; `pytest_vla.reports.robustness.json` has it for programs."""

from collections.abc import Iterable, Iterator, Sequence

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS, Interval
from pytest_vla.metrics.composition import ROUGH, Composition
from pytest_vla.metrics.differences import POWER, TELLING
from pytest_vla.metrics.rates import percents, percents_text, reasons_text
from pytest_vla.metrics.robustness import FEWEST_PAIRS, SIGNIFICANT, Cell, Difference
from pytest_vla.metrics.robustness_curves import NO_DOSE, Curve, Harm
from pytest_vla.metrics.robustness_results import SEEN, DimensionFailures, ModelRobustness, says_something
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.plan.labels import is_joint, joint_of, names_of
from pytest_vla.reports.tables import aligned, notes, printed, wrapped
from pytest_vla.util.text import counted

NOT_A_DOSE = (
    "LIBERO-Plus's L1 to L5 are its difficulty: how many of OpenVLA-OFT, pi0, pi0-fast and UniVLA failed a task, and "
    "one. It is no dose of anything: success falls with it by its making"
)

_BLOCKS = "▁▂▃▄▅▆▇█"


def robustness_lines(models: Sequence[ModelRobustness], full: bool = False) -> Iterator[str]:
    """The part for a terminal, line by line. Control characters are taken out.

    Args:
        models: in their order.
        full: all rows, those too that say nothing by themselves.
    """
    yield from printed(_lines(models, full))


def _lines(models: Sequence[ModelRobustness], full: bool) -> Iterator[str]:
    yield from wrapped(
        f"Robustness; in brackets {CONFIDENCE:.0%} intervals, over {THESE_TASKS} as other seeds would have it, and, "
        f"where it stands over them, over {TASKS_LIKE_THESE}, of which these are a sample",
        indent="",
    )
    for found in models:
        yield ""
        protocol = f" as {found.protocol} has it" if found.protocol else ""
        yield f"=== {found.model}, {found.suite}{protocol}: under variations ==="
        if found.cells:
            yield from _telling_lines(found.curves)
        yield from notes(found.left_out)
        yield from _dimension_lines(found.curves)
        yield from _curve_lines(found.curves)
        if found.curves:
            measured = any(curve.rate.counted for curve in found.curves)
            yield from wrapped(_harm_sentence(found.harm, measured))
        yield from _failure_lines(found.failures, found.algorithm, found.tau)
        shown = [cell for cell in found.cells if full or says_something(cell)]
        yield from _grid_lines([cell for cell in shown if not is_joint(cell.dimension)], found.curves)
        yield from _cell_lines(shown)
        for cell in found.cells:
            if reasons := reasons_text(cell.rate):
                yield from wrapped(f"in no rate of {_name(cell, with_level=True)}: {reasons}")
        among = _among(cell.difference for cell in found.cells)
        yield from _folded_lines([cell for cell in found.cells if cell not in shown], among)
        yield from _pair_lines(found.pairs)
        if found.pooled_suites[-1:] == (found.suite,):
            yield ""
            yield from wrapped(f"Over all suites together ({', '.join(found.pooled_suites)}):", indent="")
            yield from _pair_lines(found.pooled)


def _telling_lines(curves: Sequence[Curve]) -> Iterator[str]:
    """What the run can and cannot tell, and how many episodes would."""
    compared = [(curve, curve.change) for curve in curves if curve.change is not None]
    if not compared:
        yield "cannot tell what matters: there are no benign twins to compare with (--vla-twins=auto runs them)"
        return
    known = [(curve.dimension, change) for curve, change in compared if not curve.is_few]
    shown = [f"{name} {_signed(change.value)}" for name, change in known if change.is_shown]
    open_ones = [name for name, change in known if not change.is_shown]
    few = [curve.dimension for curve, _ in compared if curve.is_few]
    yield from wrapped(f"can tell: {', '.join(shown)} points" if shown else "can tell: of no dimension that it matters")
    smallest = [change.detectable for _, change in known if change.detectable is not None]
    if open_ones:
        unseen = f"go unseen in more than {1 - POWER:.0%} of such runs"
        seen = f"changes below {_span(smallest)} points {unseen}" if smallest else f"changes of any size {unseen}"
        yield from wrapped(f"cannot tell whether these matter: {', '.join(open_ones)}; {seen}")
    if few:
        yield from wrapped(f"cannot tell anything of {', '.join(few)}: fewer than {FEWEST_PAIRS} pairs")
    telling = [change.telling for _, change in known if change.telling is not None]
    if telling:
        yield from wrapped(
            f"would tell: about {_span(telling, 10)} pairs in a dimension show a change of {100 * TELLING:.0f} points "
            f"in {POWER:.0%} of runs; here there are {_span([change.pairs for _, change in known])}"
        )


def _dimension_lines(curves: Sequence[Curve]) -> Iterator[str]:
    rows: list[tuple[str, ...]] = [
        ("dimension", "pairs", "benign", "varied", "change, points", TASKS_LIKE_THESE, "adj. p", "can show")
    ]
    for curve in curves:
        change, varied = curve.change, _rate_or_count(curve.rate, curve.is_few)
        if change is None:
            rows.append((curve.dimension, "0", "-", varied, "-", "-", "-", "-"))
        elif curve.is_few:
            rows.append((curve.dimension, str(change.pairs), "-", varied, "-", "-", "-", "-"))
        else:
            by_task = "-" if change.tasks_interval is None else _brackets(change.tasks_interval).strip()
            least = "-" if change.detectable is None else f"{change.detectable:.0f}"
            value = f"{_signed(change.value)}{_brackets(change.interval)}"
            numbers = (f"{change.benign:.1f}", varied, value, by_task, _adjusted(change), least)
            rows.append((curve.dimension, str(change.pairs), *numbers))
    if len(rows) == 1:
        return
    rows = _told(rows)
    yield ""
    yield "By dimension, success in % against benign twins; adj. p: Holm's; each interval stands for itself;"
    yield f"can show: points, in {POWER:.0%} of such runs{_among(curve.change for curve in curves)}"
    yield from aligned(rows, 1)


def _grid_lines(cells: Sequence[Cell], curves: Sequence[Curve]) -> Iterator[str]:
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
    if any(curve.halving.why == NO_DOSE for curve in curves):
        yield from wrapped(NOT_A_DOSE)


def _grid_cell(cell: Cell | None) -> str:
    if cell is None or cell.rate.rate is None:
        return "-"
    if cell.is_few:
        return _count(cell.rate)
    difference = cell.difference
    lost = "" if difference is None else f" {difference.value:+.0f}{_star(difference)}"
    return f"{100 * cell.rate.rate:.0f}{lost}"


def _cell_lines(cells: Sequence[Cell]) -> Iterator[str]:
    if not cells:
        return
    head = ("variation", "n", "success, %", "difference, points", TASKS_LIKE_THESE, "lost/won", "adj. p")
    rows: list[tuple[str, ...]] = [head]
    for cell in cells:
        pairs = 0 if cell.difference is None else cell.difference.pairs
        number = f"{cell.rate.counted}" + f" ({pairs})" * (pairs != cell.rate.counted)
        success = _count(cell.rate) if cell.is_few else percents_text(cell.rate)
        rows.append((_name(cell, with_level=True), number, success, *_difference_cells(cell)))
    yield ""
    yield "Each variation (of n so many in pairs) against benign twins; Holm's adjustment of p"
    yield from aligned(_told(rows), 1)


def _difference_cells(cell: Cell) -> tuple[str, str, str, str]:
    difference = cell.difference
    if difference is None or cell.is_few:
        return "-", "-", "-" if difference is None else f"{difference.lost}/{difference.gained}", "-"
    value = f"{_signed(difference.value)}{_brackets(difference.interval)}"
    by_task = "-" if difference.tasks_interval is None else _brackets(difference.tasks_interval).strip()
    return value, by_task, f"{difference.lost}/{difference.gained}", _adjusted(difference)


def _among(differences: Iterable[Difference | None]) -> str:
    """Of how many differences Holm's correction is, by which the smallest that can be shown goes."""
    number = sum(each is not None and each.p_adjusted is not None for each in differences)
    return f", with Holm's correction among {number}" if number > 1 else ""


def _folded_lines(cells: Sequence[Cell], among: str) -> Iterator[str]:
    if not cells:
        return
    few = sum(cell.is_few for cell in cells)
    unseen = f"a change of {SEEN} points would go unseen{among}"
    why = [(few, f"fewer than {FEWEST_PAIRS} pairs"), (len(cells) - few, unseen)]
    reasons = ", ".join(f"{number}: {text}" for number, text in why if number)
    episodes = counted(sum(cell.rate.counted for cell in cells), "episode")
    further = counted(len(cells), "variation")
    yield ""
    yield from wrapped(
        f"{further} in {episodes} say nothing by themselves ({reasons}): they are in their dimensions only; "
        "`pytest-vla report --full` shows all"
    )


def _curve_lines(curves: Sequence[Curve]) -> Iterator[str]:
    drawn = [curve for curve in curves if curve.points]
    for curve in curves:
        if curve.halving.why == NO_DOSE:
            yield ""
            yield from wrapped(f"no curves: {NOT_A_DOSE}")
            break
    if not drawn:
        return
    levels = sorted({level for curve in drawn for level, _ in curve.points})
    head = ("dimension", "curve", *(f"L{level}" if level else "benign" for level in levels))
    rows: list[tuple[str, ...]] = [(*head, "halves at")]
    for curve in drawn:
        rates = {level: rate for level, rate in curve.points if rate.counted}
        large = {level: rate.rate for level, rate in rates.items() if rate.rate is not None and not _is_few(rate)}
        marks = "".join(_BLOCKS[min(int(8 * large[level]), 7)] if level in large else " " for level in levels)
        shares = (_rate_or_count(rates[level], _is_few(rates[level]), 0) if level in rates else "-" for level in levels)
        rows.append((curve.dimension, marks, *shares, _halving(curve)))
    yield ""
    yield "Success by level, %, all kinds of a dimension together; halves at: on a curve that does not rise"
    yield from aligned(rows, 2)
    open_ones: dict[str, list[str]] = {}
    for curve in drawn:
        if curve.halving.why:
            open_ones.setdefault(curve.halving.why, []).append(curve.dimension)
    for why, names in open_ones.items():
        yield from wrapped(f"halves at, {', '.join(names)}: {why}")


def _halving(curve: Curve) -> str:
    found = curve.halving
    if found.level is None or found.interval is None:
        return "-"
    return "L{:.1f} [{:.1f}, {:.1f}]".format(found.level, *found.interval)


def _harm_sentence(harm: Harm | None, measured: bool) -> str:
    if harm is None:
        why = "without benign twins (--vla-twins=auto runs them)" if measured else "as no varied episode was measured"
        return f"most harmful dimension: not known {why}"
    levels = f"; the changes are of different levels: {harm.levels}" if harm.levels else ""
    change = f"{_signed(harm.change.value)}{_brackets(harm.change.interval)} points"
    if harm.why.startswith("not determined"):
        return f"most harmful dimension: {harm.why}"
    if harm.why:
        return f"largest change: {harm.dimension}, {change}; {harm.why}{levels}"
    return f"most harmful dimension: {harm.dimension}, {change}{levels}"


def _failure_lines(failures: Sequence[DimensionFailures], algorithm: str, tau: str) -> Iterator[str]:
    """How it failed, by dimension."""
    if not any(each.near + each.far + each.unlabelled for each in failures):
        # No failure, or none whose path is kept.
        return
    head: tuple[str, ...] = (
        "dimension",
        "failures",
        "near",
        "far",
        "of these on another task's path",
        "no label",
        "no path",
    )
    rows = [head]
    for each in sorted(failures, key=lambda each: -(each.near + each.far + each.unlabelled)):
        counts = each.near + each.far + each.unlabelled + each.without_path, each.near, each.far, each.another
        rows.append((each.dimension, *map(str, counts), str(each.unlabelled), str(each.without_path)))
    yield ""
    yield from wrapped(
        "How it failed: near the path of successes and missing by little, or far from it (LIBERO-Para's Algorithm 1, "
        f"{algorithm} DTW, tau by {tau}); no label: too few successes of the task",
        indent="",
    )
    yield from aligned(rows, 1)


def _pair_lines(pairs: Sequence[Composition]) -> Iterator[str]:
    if not pairs:
        return
    rates: list[tuple[str, ...]] = [
        ("dimensions", "n", "benign", "first", "second", "both", "expected", "both - expected, points")
    ]
    head = ("dimensions", "gap", TASKS_LIKE_THESE, "both are", "chi-square", "its adj. p", "")
    gaps: list[tuple[str, ...]] = [head]
    for pair in pairs:
        name = joint_of(pair.dimensions)
        if pair.n < FEWEST_PAIRS:
            rates.append((name, str(pair.n), *(f"{done}/{pair.n}" for done in pair.successes), "-", "-"))
            gaps.append((name, "-", "-", "not determined", "-", "-", f"fewer than {FEWEST_PAIRS} quartets"))
            continue
        shares = (f"{100 * rate:.1f}" for rate in pair.rates)
        expected, less = "-", "-"
        if pair.expected is not None and pair.above_expected is not None:
            expected = f"{100 * pair.expected:.1f}"
            less = f"{_signed(100 * pair.above_expected)}{_brackets(percents(pair.less_expected))}"
        rates.append((name, str(pair.n), *shares, expected, less))
        gap = "-" if pair.gap is None else f"{pair.gap:+.3f}"
        gap += "" if pair.gap_interval is None else f" {_small(pair.gap_interval)}"
        by_task = "-" if pair.tasks_gap_interval is None else _small(pair.tasks_gap_interval)
        statistic = "-" if pair.chi_square is None else f"{pair.chi_square:.2f}"
        adjusted = "-" if pair.p_adjusted is None else _p(pair.p_adjusted)
        remark = pair.undefined or f"rough: fewer than {ROUGH} expected" * pair.rough
        gaps.append((name, gap, by_task, pair.verdict, statistic, adjusted, remark))
    yield ""
    yield "Two dimensions at once, success, %; expected of independent ones: first x second / benign"
    yield from aligned(rates, 1)
    yield ""
    yield "Compositional gap P(Di,Dj|Y) - P(Di|Y)P(Dj|Y), below 0: worse than independent, if its interval is;"
    yield "chi-square as LIBERO-Plus prints it, which takes episodes of one task and seed for independent"
    gaps = _told(gaps)
    yield from aligned(gaps, 1, left={gaps[0].index("both are"), len(gaps[0]) - 1})


def _told(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows without the column of tasks like these, where none has anything in it."""
    place = rows[0].index(TASKS_LIKE_THESE)
    if any(row[place] != "-" for row in rows[1:]):
        return list(rows)
    return [(*row[:place], *row[place + 1 :]) for row in rows]


def _name(cell: Cell, with_level: bool = False) -> str:
    name = names_of(cell.dimension, cell.kind)
    return f"{name} L{cell.level}" if with_level and cell.level is not None else name


def _is_few(rate: SuccessRate) -> bool:
    return rate.counted < FEWEST_PAIRS


def _count(rate: SuccessRate) -> str:
    return f"{rate.successes}/{rate.counted}"


def _rate_or_count(rate: SuccessRate, few: bool, digits: int = 1) -> str:
    return _count(rate) if few or rate.rate is None else f"{100 * rate.rate:.{digits}f}"


def _star(difference: Difference) -> str:
    return "*" * difference.is_shown


def _adjusted(difference: Difference) -> str:
    return "-" if difference.p_adjusted is None else _p(difference.p_adjusted) + _star(difference)


def _p(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _signed(points: float) -> str:
    """With its sign; what rounds to 0 has none."""
    return f"{round(points, 1) + 0.0:+.1f}"


def _brackets(interval: Interval | None) -> str:
    return "" if interval is None else " [{:.1f}, {:.1f}]".format(*interval)


def _small(interval: Interval) -> str:
    return "[{:+.3f}, {:+.3f}]".format(*interval)


def _span(values: Sequence[float], step: int = 1) -> str:
    """``27``, or ``27 to 31``, to a multiple of `step` that is no smaller."""
    ends = [-(-value // step) * step for value in (min(values), max(values))]
    return " to ".join(f"{end:.0f}" for end in dict.fromkeys(ends))
