"""Success under variations: a section with curves by level, and tables by dimension, kind and pairs of dimensions."""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.composition import ROUGH, DimensionPair, compositions, pooled_compositions
from pytest_vla.metrics.differences import POWER, TELLING
from pytest_vla.metrics.failure_types import USUAL_TAU, Algorithm, Tau, usual_algorithm
from pytest_vla.metrics.language_grounding import GroundingEstimate, GroundingShare
from pytest_vla.metrics.rates import percent, percents, reasons_text
from pytest_vla.metrics.robustness import (
    FEWEST_PAIRS,
    SIGNIFICANT,
    Difference,
    Remembered,
    RobustnessCell,
    Varied,
    cells,
    grouped,
    remembered,
    twin_pairs,
    varied_models,
)
from pytest_vla.metrics.robustness_curves import (
    NO_DOSE,
    RESAMPLES,
    SEEN,
    Curve,
    DimensionFailures,
    Harm,
    ModelRobustness,
    curves,
    dimension_failures,
    says_something,
)
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.plan.case import is_joint, joint_of, names_of
from pytest_vla.reports import blocks as b
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Column, Heading, MarkedNumber, PageDrawing, Sentence, Table, estimate_text
from pytest_vla.reports.figures import draw_grid, file_names, new_figure, png_of
from pytest_vla.reports.html.svg import Dot, curve_drawing, overlay_blocks
from pytest_vla.reports.loaded import SEED, Loaded, path_loader, runs_of, unfinished_of, unread_lines
from pytest_vla.reports.sections import Section, tau_of
from pytest_vla.util.live_line import told_when_slow
from pytest_vla.util.text import counted
from pytest_vla.vary.registry import evenness_of

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOT_A_DOSE = (
    "LIBERO-Plus's L1 to L5 are its difficulty: how many of OpenVLA-OFT, pi0, pi0-fast and UniVLA failed a task, and "
    "one. It is no dose of anything: success falls with it by its making"
)

_SPARKS = "▁▂▃▄▅▆▇█"
_COLUMNS = 4
# Told apart by all kinds of colour vision: Okabe and Ito's palette.
_CURVE, _BENIGN = "#0072B2", "#999999"


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if nothing was varied."""
    found = make_robustness(loaded, options.failure_algorithm, tau_of(options))
    if not found:
        return None
    return Section(
        lambda: robustness_blocks(found, options.full),
        j.written(_METHODS, None),
        {(model.model, model.suite, model.protocol): j.written(_MODELS, model) for model in found},
        lambda: pictures(found),
        "Robustness",
    )


def make_robustness(
    loaded: Loaded, algorithm: Algorithm | None = None, tau: Tau = USUAL_TAU
) -> tuple[ModelRobustness, ...]:
    """Compute success under variations, for each model and suite that has any; see `pytest_vla.metrics.robustness`.

    Args:
        loaded: records of runs.
        algorithm: of the failure types, or None for fastdtw if it is installed, else exact.
        tau: how their threshold is made.

    Raises:
        VlaError: fastdtw is requested and not installed.
    """
    algorithm = algorithm or usual_algorithm()
    paths, troubles = path_loader(loaded)
    found: list[ModelRobustness] = []
    models = varied_models(loaded.records)
    for varied in models:
        # Of each model its own, so that its numbers do not depend on what else is reported.
        generator = np.random.default_rng(SEED)
        pairs, unpaired = twin_pairs(varied)
        by_level, harm, mixed = curves(varied, pairs, generator)
        joint, incomplete = compositions(varied)
        runs = runs_of(varied.episodes, loaded)
        left_out = (*varied.left_out, *unfinished_of(varied.episodes, loaded), *unpaired, *mixed, *incomplete)
        left_out += evenness_of(str(record.variation.get("label")) for record in varied.episodes)
        measured = cells(varied, pairs)
        failed = sum(record.outcome == "failure" for record in varied.episodes)
        with told_when_slow(f"failure types of {counted(failed, 'failure')}", sys.stderr):
            failures = dimension_failures(varied, paths, algorithm, tau)
        left_out += tuple(unread_lines(troubles))
        found.append(
            ModelRobustness(
                varied.model,
                varied.suite,
                runs,
                measured,
                by_level,
                harm,
                joint,
                left_out,
                varied.protocol,
                failures,
                algorithm,
                tau=tau,
                memory=remembered(varied, models),
            )
        )
    return _with_pooled(found, models)


def _with_pooled(found: Sequence[ModelRobustness], models: Sequence[Varied]) -> tuple[ModelRobustness, ...]:
    """Return the results with the pairs of dimensions over all suites of each model, if several suites have any."""
    pooled: dict[int, ModelRobustness] = {}
    together = [index for index, each in enumerate(found) if each.pairs]
    for indices in grouped(together, lambda index: (found[index].model, found[index].protocol)).values():
        if len(indices) > 1:
            pairs = pooled_compositions([models[index] for index in indices])
            suites = tuple(found[index].suite for index in indices)
            pooled |= {index: replace(found[index], pooled=pairs, pooled_suites=suites) for index in indices}
    return tuple(pooled.get(index, each) for index, each in enumerate(found))


# In JSON: percentages 0..100; differences in points, below 0 if success is lost.

_METHODS = j.methods(
    "robustness",
    {
        "confidence": CONFIDENCE,
        "over": {"interval": THESE_TASKS, "tasks_interval": TASKS_LIKE_THESE},
        "rates": "Wilson, of as many episodes as would stray as far if they were independent",
        "differences": "Student's t over tasks and seeds, with half a pair lost and half a pair won more",
        "p": "of the same t, two-sided; of pairs of dimensions chi-square with 1 degree of freedom",
        "p_adjusted": "Holm, among the variations of a model and suite, its dimensions, and its pairs of dimensions",
        "power": POWER,
        "fewest_pairs": FEWEST_PAIRS,
        "bootstrap": {
            "of": "halves_at",
            "over": "tasks and seeds",
            "resamples": RESAMPLES,
            "seed": SEED,
        },
    },
)

# The smallest difference that `power` of such runs show (`detectable`), and the pairs that show one of 10 points
# (`telling`), are by Holm's correction among all variations, or all dimensions.
_DIFFERENCE = j.maybe(
    j.row(
        {
            "pairs": j.COUNT, "units": j.COUNT, "value": j.maybe(j.NUMBER), **j.INTERVALS, "p": j.maybe(j.SHARE),
            "p_adjusted": j.maybe(j.SHARE), "lost": j.COUNT, "gained": j.COUNT, "detectable": j.maybe(j.NUMBER),
            "telling": j.maybe(j.COUNT),
        }
    )
)  # fmt: skip
_CELL: j.Keys = {
    "dimension": j.TEXT, "kind": j.TEXT, "level": j.maybe(j.COUNT), **j.through("rate", j.RATE),
    "few": j.FLAG.of("is_few"),
    "benign": j.maybe(j.PERCENT).of(lambda cell: None if cell.difference is None else cell.difference.benign),
    "difference": _DIFFERENCE, "errors": j.REASONS.of("rate.errors"), "invalid": j.REASONS.of("rate.invalid"),
}  # fmt: skip
_CURVE_KEYS: j.Keys = {
    "dimension": j.TEXT, **j.through("rate", j.RATE), "few": j.FLAG.of("is_few"),
    # Level 0 is benign.
    "levels": j.listed(
        j.row({"level": j.COUNT.of(lambda point: point[0]), **j.through(lambda point: point[1], j.RATE)})
    ).of("points"),
    "halves_at": j.maybe(j.NUMBER).of("halving.level"), "halves_at_interval": j.INTERVAL.of("halving.interval"),
    "why": j.maybe(j.TEXT).of(lambda curve: curve.halving.why or None),
    **j.through("change", {"drop": j.maybe(j.NUMBER), "drop_interval": j.INTERVAL}),
    "difference": _DIFFERENCE.of("change"),
}  # fmt: skip
# Probes, and other goals, are no dimension that could be the most harmful; `dimension` is null if none is told apart.
_HARM: j.Keys = {
    "dimension": j.maybe(j.TEXT).of(lambda harm: None if harm.why else harm.dimension),
    "largest": j.TEXT.of("dimension"),
    "drop": j.NUMBER.of("change.drop"), "drop_interval": j.INTERVAL.of("change.drop_interval"),
    "not_told_apart": j.listed(j.TEXT), "why": j.maybe(j.TEXT).of(lambda harm: harm.why or None),
    "levels": j.maybe(j.TEXT).of(lambda harm: harm.levels or None),
}  # fmt: skip
_FAILURES: j.Keys = {
    "dimension": j.TEXT, "near": j.COUNT, "far": j.COUNT, "unlabelled": j.COUNT, "without_path": j.COUNT,
    "another_task": j.COUNT.of("another"),
}  # fmt: skip


def _rate_at(place: int) -> Callable[[DimensionPair], float]:
    return lambda pair: 100 * pair.rates[place]


_PAIR: j.Keys = {
    "dimensions": j.listed(j.TEXT), "labels": j.listed(j.TEXT), "n": j.COUNT,
    **{
        name: j.PERCENT.of(_rate_at(place))
        for place, name in enumerate(("benign", "first", "second", "joint"))
    },
    "product": j.PERCENT.of(lambda pair: 100 * pair.product),
    "joint_interval": j.INTERVAL.of(lambda pair: percents(pair.joint_interval)),
    "product_interval": j.INTERVAL.of(lambda pair: percents(pair.product_interval)),
    "joint_less_product": j.NUMBER.of(lambda pair: 100 * pair.above_product),
    "joint_less_product_interval": j.INTERVAL.of(lambda pair: percents(pair.less_product)),
    "expected": j.maybe(j.NUMBER).of(lambda pair: percent(pair.expected)),
    "expected_interval": j.INTERVAL.of(lambda pair: percents(pair.expected_interval)),
    "joint_less_expected": j.maybe(j.NUMBER).of(lambda pair: percent(pair.above_expected)),
    "joint_less_expected_interval": j.INTERVAL.of(lambda pair: percents(pair.less_expected)),
    # A covariance, -1/4..1/4; the verdict is by its interval.
    "gap": j.maybe(j.NUMBER), "gap_interval": j.INTERVAL, "gap_tasks_interval": j.INTERVAL.of("tasks_gap_interval"),
    "verdict": j.TEXT, "chi_square": j.maybe(j.NUMBER), "p": j.maybe(j.SHARE), "p_adjusted": j.maybe(j.SHARE),
    "rough": j.FLAG,
    "undefined": j.maybe(j.TEXT).of(lambda pair: pair.undefined or None),
}  # fmt: skip
_SHARE = j.row({"count": j.COUNT, "of": j.COUNT, "interval": j.INTERVAL.of(lambda share: percents(share.interval))})
# The model and a memoriser on the same cases, and the memoriser where the model succeeds.
_MEMORY: j.Keys = {"dimension": j.TEXT, "cases": j.COUNT, "model": _SHARE, "memory": _SHARE, "shared": _SHARE}
_MODELS: j.Keys = {
    "robustness": j.row(
        {
            "runs": j.listed(j.TEXT), "dimensions": j.listed(j.row(_CELL)).of("cells"),
            "curves": j.listed(j.row(_CURVE_KEYS)),
            "most_harmful": j.maybe(j.row(_HARM)).of("harm"), "failures": j.listed(j.row(_FAILURES)),
            "failure_algorithm": j.maybe(j.TEXT).of("algorithm"), "failure_tau": j.TEXT.of("tau"),
            "pairs": j.listed(j.row(_PAIR)),
            # The same over all suites; empty if only one suite has pairs.
            "pooled_pairs": j.listed(j.row(_PAIR)).of("pooled"), "pooled_suites": j.listed(j.TEXT),
            "memory": j.listed(j.row(_MEMORY)),
            "left_out": j.listed(j.TEXT),
        }
    ).of(lambda model: model)
}  # fmt: skip

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def robustness_blocks(models: Sequence[ModelRobustness], full: bool = False) -> Iterator[Block]:
    """Yield the section's blocks.

    Args:
        models: in their order.
        full: whether variations are shown that say nothing by themselves.
    """
    yield Sentence(
        f"Robustness; in brackets {CONFIDENCE:.0%} intervals, over {THESE_TASKS} as other seeds would have it, and, "
        f"where it stands over them, over {TASKS_LIKE_THESE}, of which these are a sample",
        indent="",
    )
    for found in models:
        protocol = f" as {found.protocol} has it" if found.protocol else ""
        title = f"{found.model}, {found.suite}{protocol}"
        yield Heading(f"{title}: under variations", (found.model, found.suite, found.protocol))
        if found.cells:
            yield from _can_tell(found.curves)
        yield from b.notes(found.left_out)
        for each in found.curves:
            if _has_curve(each):
                yield PageDrawing(partial(_curve_drawing, each))
        yield from _dimensions(found.curves)
        yield from _memory(found.memory)
        yield from _levels(found.curves)
        if found.curves:
            yield Sentence(_harm_sentence(found.harm, any(curve.rate.counted for curve in found.curves)))
        yield from _failures(found.failures, found.algorithm, found.tau)
        shown = [cell for cell in found.cells if full or says_something(cell)]
        if shown:
            yield Heading(f"{title}: every kind and level", is_open=not found.curves, medium="page")
        yield from _grid([cell for cell in shown if not is_joint(cell.dimension)], found.curves)
        yield from _variations(shown)
        for cell in found.cells:
            if reasons := reasons_text(cell.rate):
                yield Sentence(f"in no rate of {_name(cell, with_level=True)}: {reasons}")
        among = _among(cell.difference for cell in found.cells)
        yield from _folded([cell for cell in found.cells if cell not in shown], among)
        if found.pairs:
            yield Heading(f"{title}: two dimensions at once", medium="page")
        yield from _pairs(found.pairs)
        if found.pooled_suites[-1:] == (found.suite,):
            yield Sentence(f"Over all suites together ({', '.join(found.pooled_suites)}):", is_apart=True, indent="")
            yield from _pairs(found.pooled, "pooled-")
        yield from overlay_blocks(title, {each.dimension: each.tasks for each in found.failures})


def _can_tell(curves: Sequence[Curve]) -> Iterator[Sentence]:
    """Yield what the run can and cannot tell, and how many episodes would."""
    compared = [(curve, curve.change) for curve in curves if curve.change is not None]
    if not compared:
        yield Sentence(
            "cannot tell what matters: there are no benign twins to compare with (--vla-twins=auto runs them)"
        )
        return
    known = [(curve.dimension, change) for curve, change in compared if not curve.is_few]
    shown = [f"{name} {_points(change.value)}" for name, change in known if change.is_shown]
    open_ones = [name for name, change in known if not change.is_shown]
    few = [curve.dimension for curve, _ in compared if curve.is_few]
    yield Sentence(f"can tell: {', '.join(shown)} points" if shown else "can tell: of no dimension that it matters")
    smallest = [change.detectable for _, change in known if change.detectable is not None]
    if open_ones:
        unseen = f"go unseen in more than {1 - POWER:.0%} of such runs"
        seen = f"changes below {_span(smallest)} points {unseen}" if smallest else f"changes of any size {unseen}"
        yield Sentence(f"cannot tell whether these matter: {', '.join(open_ones)}; {seen}")
    if few:
        yield Sentence(f"cannot tell anything of {', '.join(few)}: fewer than {FEWEST_PAIRS} pairs")
    telling = [change.telling for _, change in known if change.telling is not None]
    if telling:
        yield Sentence(
            f"would tell: about {_span(telling, 10)} pairs in a dimension show a change of {100 * TELLING:.0f} points "
            f"in {POWER:.0%} of runs; here there are {_span([change.pairs for _, change in known])}"
        )


_BY_TASK = Column(TASKS_LIKE_THESE, "+.1f", is_optional=True)
_LOST_WON = (Column("lost", medium="page"), Column("won", medium="page"))


def _dimensions(curves: Sequence[Curve]) -> Iterator[Table]:
    rows = [
        (curve.dimension, 0 if curve.change is None else curve.change.pairs, *_dimension(curve)) for curve in curves
    ]
    if rows:
        among = _among(curve.change for curve in curves)
        yield Table(
            "By dimension, success in % against benign twins; adj. p: Holm's; each interval stands for itself; "
            f"can show: points, in {POWER:.0%} of such runs{among}",
            (
                Column("dimension"),
                Column("pairs"),
                Column("benign", ".1f"),
                Column("varied", ".1f", is_brief=True),
                Column("change, points", "+.1f"),
                _BY_TASK,
                *_LOST_WON,
                Column("adj. p", b.P_VALUE),
                Column("can show", ".0f"),
            ),
            tuple(rows),
            "dimensions",
        )


def _dimension(curve: Curve) -> tuple[b.Cell, ...]:
    change, varied = curve.change, _rate_or_count(curve.rate)
    if change is None or curve.is_few:
        return (None, varied, *[None] * 6)
    value = GroundingEstimate(change.value, change.interval)
    lost = (GroundingShare(change.lost, change.pairs, None), GroundingShare(change.gained, change.pairs, None))
    return change.benign, varied, value, change.tasks_interval, *lost, _adjusted(change), change.detectable


def _memory(found: Sequence[Remembered]) -> Iterator[Table]:
    if found:
        yield Table(
            "How much of it takes neither eyes nor ears: a memoriser on the same cases, success in %; shared: the "
            "memoriser's where the model succeeds",
            (Column("dimension"), Column("cases"), *(Column(head, ".0%") for head in ("model", "memoriser", "shared"))),
            tuple((e.dimension, e.cases, *map(_estimate, (e.model, e.memory, e.shared))) for e in found),
            "memory",
        )


def _estimate(share: GroundingShare) -> b.Cell:
    return GroundingEstimate(share.count / share.of, share.interval) if share.of else None


def _levels(curves: Sequence[Curve]) -> Iterator[Block]:
    drawn = [curve for curve in curves if curve.points]
    if any(curve.halving.why == NO_DOSE for curve in curves):
        yield Sentence(f"no curves: {NOT_A_DOSE}", is_apart=True)
    if not drawn:
        return
    levels = sorted({level for curve in drawn for level, _ in curve.points})
    rows = []
    for curve in drawn:
        rates = {level: rate for level, rate in curve.points if rate.counted}
        large = {level: rate.rate for level, rate in rates.items() if rate.rate is not None and not _is_few(rate)}
        marks = "".join(_SPARKS[min(int(8 * large[level]), 7)] if level in large else " " for level in levels)
        shares = (_rate_or_count(rates[level]) if level in rates else None for level in levels)
        halves = None if curve.halving.level is None else GroundingEstimate(curve.halving.level, curve.halving.interval)
        rows.append((curve.dimension, marks, *shares, halves))
    columns = [Column(f"L{level}" if level else "benign", ".0f", is_brief=True) for level in levels]
    yield Table(
        "Success by level, %, all kinds of a dimension together; halves at: on a curve that does not rise",
        (Column("dimension"), Column("curve", medium="terminal"), *columns, Column("halves at, L", ".1f")),
        tuple(rows),
        "levels",
        names=2,
    )
    open_ones: dict[str, list[str]] = {}
    for curve in drawn:
        if curve.halving.why:
            open_ones.setdefault(curve.halving.why, []).append(curve.dimension)
    for why, names in open_ones.items():
        yield Sentence(f"halves at, {', '.join(names)}: {why}")


def _harm_sentence(harm: Harm | None, measured: bool) -> str:
    if harm is None:
        why = "without benign twins (--vla-twins=auto runs them)" if measured else "as no varied episode was measured"
        return f"most harmful dimension: not known {why}"
    levels = f"; the changes are of different levels: {harm.levels}" if harm.levels else ""
    change = f"{estimate_text(GroundingEstimate(harm.change.value, harm.change.interval), '+.1f')} points"
    if harm.why.startswith("not determined"):
        return f"most harmful dimension: {harm.why}"
    if harm.why:
        return f"largest change: {harm.dimension}, {change}; {harm.why}{levels}"
    return f"most harmful dimension: {harm.dimension}, {change}{levels}"


def _failures(failures: Sequence[DimensionFailures], algorithm: str, tau: str) -> Iterator[Table]:
    """Yield how the policy failed, by dimension; nothing if no failure has a path that is kept."""

    def known(each: DimensionFailures) -> int:
        return each.near + each.far + each.unlabelled

    if not any(map(known, failures)):
        return
    head = ("dimension", "failures", "near", "far", "of these on another task's path", "no label", "no path")
    yield Table(
        "How it failed: near the path of successes and missing by little, or far from it (LIBERO-Para's Algorithm 1, "
        f"{algorithm} DTW, tau by {tau}); no label: too few successes of the task",
        tuple(map(Column, head)),
        tuple(
            (e.dimension, known(e) + e.without_path, e.near, e.far, e.another, e.unlabelled, e.without_path)
            for e in sorted(failures, key=known, reverse=True)
        ),
        "failures",
    )


def _grid(cells: Sequence[RobustnessCell], curves: Sequence[Curve]) -> Iterator[Block]:
    if not cells:
        return
    levels = sorted({cell.level for cell in cells if cell.level is not None})
    columns: list[int | None] = [*levels, *([None] if any(cell.level is None for cell in cells) else [])]
    kinds: dict[str, dict[int | None, RobustnessCell]] = {}
    for cell in cells:
        kinds.setdefault(_name(cell), {})[cell.level] = cell
    yield Table(
        f"Success, %, and the difference to benign twins, points; *: adjusted p < {SIGNIFICANT:g}",
        (Column(""), *(Column("no level" if level is None else f"L{level}") for level in columns)),
        tuple((name, *(_grid_cell(by_level.get(level)) for level in columns)) for name, by_level in kinds.items()),
        "grid",
        is_digest=True,
    )
    if any(curve.halving.why == NO_DOSE for curve in curves):
        yield Sentence(NOT_A_DOSE)


def _grid_cell(cell: RobustnessCell | None) -> b.Cell:
    if cell is None or cell.rate.rate is None:
        return None
    if cell.is_few:
        return b.count_cell(cell.rate)
    difference = cell.difference
    lost = "" if difference is None else f" {difference.value:+.0f}{_star(difference)}"
    return f"{100 * cell.rate.rate:.0f}{lost}"


def _variations(cells: Sequence[RobustnessCell]) -> Iterator[Table]:
    if cells:
        yield Table(
            "Each variation (of n so many in pairs) against benign twins; Holm's adjustment of p",
            (
                Column("variation"),
                Column("n"),
                Column("in pairs", medium="page"),
                Column("success, %", ".1f"),
                Column("benign", ".1f", medium="page"),
                Column("difference, points", "+.1f"),
                _BY_TASK,
                Column("lost/won", medium="terminal"),
                *_LOST_WON,
                Column("adj. p", b.P_VALUE),
            ),
            tuple(map(_variation, cells)),
            "variations",
        )


def _variation(cell: RobustnessCell) -> tuple[b.Cell, ...]:
    difference = cell.difference
    pairs = 0 if difference is None else difference.pairs
    number = MarkedNumber(cell.rate.counted, f" ({pairs})" * (pairs != cell.rate.counted))
    flips: tuple[b.Cell, ...] = (None, None, None)
    if difference is not None:
        flips = (f"{difference.lost}/{difference.gained}", difference.lost, difference.gained)
    rate = b.count_cell(cell.rate) if cell.is_few else b.rate_cell(cell.rate)
    first = (_name(cell, with_level=True), number, pairs, rate)
    if difference is None or cell.is_few:
        return (*first, None, None, None, *flips, None)
    value = GroundingEstimate(difference.value, difference.interval)
    return (*first, difference.benign, value, difference.tasks_interval, *flips, _adjusted(difference))


def _among(differences: Iterable[Difference | None]) -> str:
    """Return among how many differences Holm's correction is: the smallest that can be shown depends on it."""
    number = sum(each is not None and each.p_adjusted is not None for each in differences)
    return f", with Holm's correction among {number}" if number > 1 else ""


def _folded(cells: Sequence[RobustnessCell], among: str) -> Iterator[Sentence]:
    if not cells:
        return
    few = sum(cell.is_few for cell in cells)
    unseen = f"a change of {SEEN} points would go unseen{among}"
    why = [(few, f"fewer than {FEWEST_PAIRS} pairs"), (len(cells) - few, unseen)]
    reasons = ", ".join(f"{number}: {text}" for number, text in why if number)
    episodes = counted(sum(cell.rate.counted for cell in cells), "episode")
    yield Sentence(
        f"{counted(len(cells), 'variation')} in {episodes} say nothing by themselves ({reasons}): they are in their "
        "dimensions only; `pytest-vla report --full` shows all",
        is_apart=True,
    )


def _pairs(pairs: Sequence[DimensionPair], prefix: str = "") -> Iterator[Table]:
    if not pairs:
        return
    rates = ("benign", "first", "second")
    yield Table(
        "Two dimensions at once, success, %; expected of independent ones: first x second / benign",
        (
            *map(Column, ("dimensions", "n")),
            *(Column(name, ".1f") for name in rates),
            Column("both", ".1f", is_brief=True),
            Column("expected", ".1f", is_brief=True),
            Column("both - expected, points", "+.1f"),
        ),
        tuple(map(_pair_rates, pairs)),
        f"{prefix}pairs",
    )
    yield Table(
        "Compositional gap P(Di,Dj|Y) - P(Di|Y)P(Dj|Y), below 0: worse than independent, if its interval is; "
        "chi-square as LIBERO-Plus prints it, which takes episodes of one task and seed for independent",
        (
            Column("dimensions"),
            Column("gap", "+.3f"),
            Column(TASKS_LIKE_THESE, "+.3f", is_optional=True),
            Column("both are", is_left=True),
            Column("chi-square", ".2f"),
            Column("its adj. p", b.P_VALUE),
            Column("remark", is_left=True, is_optional=True),
        ),
        tuple(map(_pair_gap, pairs)),
        f"{prefix}gaps",
    )


def _pair_rates(pair: DimensionPair) -> tuple[b.Cell, ...]:
    name = joint_of(pair.dimensions)
    if pair.n < FEWEST_PAIRS:
        return (name, pair.n, *(GroundingShare(done, pair.n, None) for done in pair.successes), None, None)
    benign, first, second, joint = (100 * rate for rate in pair.rates)
    expected, less = None, None
    if pair.expected is not None and pair.above_expected is not None:
        expected = GroundingEstimate(100 * pair.expected, percents(pair.expected_interval))
        less = GroundingEstimate(100 * pair.above_expected, percents(pair.less_expected))
    return name, pair.n, benign, first, second, GroundingEstimate(joint, percents(pair.joint_interval)), expected, less


def _pair_gap(pair: DimensionPair) -> tuple[b.Cell, ...]:
    name = joint_of(pair.dimensions)
    if pair.n < FEWEST_PAIRS:
        return name, None, None, "not determined", None, None, f"fewer than {FEWEST_PAIRS} quartets"
    gap = None if pair.gap is None else GroundingEstimate(pair.gap, pair.gap_interval)
    remark = pair.undefined or f"rough: fewer than {ROUGH} expected" * pair.rough
    return name, gap, pair.tasks_gap_interval, pair.verdict, pair.chi_square, pair.p_adjusted, remark


def _name(cell: RobustnessCell, with_level: bool = False) -> str:
    name = names_of(cell.dimension, cell.kind)
    return f"{name} L{cell.level}" if with_level and cell.level is not None else name


def _is_few(rate: SuccessRate) -> bool:
    return rate.counted < FEWEST_PAIRS


def _rate_or_count(rate: SuccessRate) -> b.Cell:
    return b.count_cell(rate) if _is_few(rate) or rate.rate is None else b.rate_cell(rate)


def _star(difference: Difference) -> str:
    return "*" * difference.is_shown


def _adjusted(difference: Difference) -> MarkedNumber:
    return MarkedNumber(difference.p_adjusted, _star(difference))


def _points(value: float) -> str:
    return b.number(value, Column("", "+.1f"))


def _span(values: Sequence[float], step: int = 1) -> str:
    """Return ``27``, or ``27 to 31``, each rounded up to a multiple of `step`."""
    ends = [-(-value // step) * step for value in (min(values), max(values))]
    return " to ".join(f"{end:.0f}" for end in dict.fromkeys(ends))


def _has_curve(found: Curve) -> bool:
    return not found.is_few and any(level for level, rate in found.points if rate.rate is not None)


def _curve_drawing(found: Curve) -> "Markup":
    known = [(level, b.rate_cell(rate), rate) for level, rate in found.points if rate.rate is not None]
    column = Column("", ".1f")
    dots = []
    for level, cell, rate in known:
        name = f"L{level}" if level else "benign twins"
        title = f"{name}: {b.cell_text(cell, column)}% of {rate.counted}"
        dots.append(Dot(level, 100 * (rate.rate or 0.0), percents(rate.interval), title))
    benign = next((100 * rate.rate for level, _, rate in known if level == 0 and rate.rate is not None), None)
    # The whole reason is in a sentence below.
    why = found.halving.why.partition(":")[0]
    halves = why if found.halving.level is None else f"at L{found.halving.level:.1f}"
    names = ["benign", *(f"L{level}" for level in range(1, max(level for level, _, _ in known) + 1))]
    return curve_drawing(
        found.dimension, f"half lost: {halves or b.NONE}", dots, names, None if benign is None else benign / 2
    )


def pictures(models: Sequence[ModelRobustness]) -> dict[str, bytes]:
    """Return the pictures as PNG by name: for each model ``...-robustness``, its curves, and ``...-pairs``."""
    return {name: png_of(figure) for name, figure in _figures(models)}


def _figures(models: Sequence[ModelRobustness]) -> Iterator[tuple[str, "Figure"]]:
    names = file_names([(each.model, "-".join(filter(None, (each.suite, each.protocol)))) for each in models])
    for found, name in zip(models, names, strict=True):
        curves = [
            curve
            for curve in found.curves
            if any(rate.counted >= FEWEST_PAIRS for level, rate in curve.points if level)
        ]
        if curves:
            yield f"{name}-robustness", _curves_figure(found, curves)
        if found.pairs:
            yield f"{name}-pairs", _pairs_figure(found, found.pairs)


def _curves_figure(found: ModelRobustness, curves: Sequence[Curve]) -> "Figure":
    columns = min(_COLUMNS, len(curves))
    rows = ceil(len(curves) / columns)
    figure = new_figure(3.4 * columns + 0.6, 2.8 * rows + 0.8)
    last = max(level for curve in curves for level, _ in curve.points)
    for place, curve in enumerate(curves):
        axes = figure.add_subplot(rows, columns, place + 1)
        _draw(axes, curve)
        axes.set(xlim=(-0.2, last + 0.2), ylim=(-3, 103), xticks=range(last + 1))
        axes.set_xticklabels(["benign", *(f"L{level}" for level in range(1, last + 1))], fontsize=7)
        axes.tick_params(axis="y", labelsize=7)
        if place % columns == 0:
            axes.set_ylabel("success, %", fontsize=8)
    harm = found.harm
    worst = "" if harm is None or harm.why else f"; most harmful: {harm.dimension}"
    suite = f"{found.suite} {found.protocol}".rstrip()
    figure.suptitle(
        f"{found.model}, {suite}: success by level, {CONFIDENCE:.0%} intervals over {THESE_TASKS}{worst}", fontsize=9
    )
    return figure


def curve_title(curve: Curve) -> tuple[str, str]:
    """Return a curve's title: its dimension, and the level at which it halves or why none is known."""
    level, why = curve.halving.level, curve.halving.why
    return curve.dimension, f"half of benign success: {why if level is None else f'at L{level:.1f}'}"


def _draw(axes: "Axes", curve: Curve) -> None:
    # Of a few episodes there is no rate, and no point.
    measured = [(level, rate) for level, rate in curve.points if rate.counted >= FEWEST_PAIRS]
    known = [(level, rate.rate, rate.interval) for level, rate in measured if rate.rate is not None]
    levels, values = [level for level, _, _ in known], [100 * rate for _, rate, _ in known]
    bounds = [
        (value, 100 * interval[0], 100 * interval[1])
        for value, (_, _, interval) in zip(values, known, strict=True)
        if interval is not None
    ]
    errors = [[value - low for value, low, _ in bounds], [high - value for value, _, high in bounds]]
    axes.errorbar(levels, values, yerr=errors, color=_CURVE, marker="o", markersize=4, linewidth=1.5, capsize=2)
    if levels[0] == 0:
        axes.axhline(values[0] / 2, color=_BENIGN, linestyle=":", linewidth=1)
    halving = curve.halving
    if halving.level is not None and halving.interval is not None:
        axes.axvline(halving.level, color=_BENIGN, linestyle=":", linewidth=1)
        axes.axvspan(*halving.interval, color=_BENIGN, alpha=0.15, linewidth=0)
    axes.set_title("\n".join(curve_title(curve)), fontsize=8)


def _pairs_figure(found: ModelRobustness, pairs: Sequence[DimensionPair]) -> "Figure":
    """Draw a grid: above the diagonal the joint success that independence predicts, below it the measured one."""

    names = sorted({name for pair in pairs for name in pair.dimensions})
    cells: dict[tuple[str, str], tuple[float, str]] = {}
    for pair in pairs:
        first, second = pair.dimensions
        joint = 100 * pair.rates[3]
        star = "*" * (pair.verdict != "not determined")
        cells[second, first] = (joint, f"{joint:.0f}{star}\n(n={pair.n})")
        cells[first, second] = (np.nan, "-")
        if pair.expected is not None:
            # Beyond 100 where the singles did better than the benign twins.
            cells[first, second] = (min(100 * pair.expected, 100), f"{100 * pair.expected:.0f}")
    size = 1.1 * len(names) + 2.2
    figure = new_figure(max(size, 6), max(size - 0.8, 4.5))
    axes = figure.add_subplot()
    image = draw_grid(axes, names, names, cells, cmap="viridis", vmin=0, vmax=100)
    figure.colorbar(image, ax=axes, label="success, %")
    axes.set_title(
        f"{found.model}, {found.suite}: two dimensions at once\nbelow the diagonal measured, above it expected of "
        "independent ones; *: the interval of the gap excludes 0",
        fontsize=8,
    )
    return figure
