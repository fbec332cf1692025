"""A search as a page (what fails, how it was found, where it has been, what matters), as lines, and as JSON."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pytest_vla.fuzz.amounts import Component, components, scaled_components, value_at
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import space_of
from pytest_vla.fuzz.found import (
    Found,
    Searched,
    aside_lines,
    excess_of,
    failure_line,
    left_out_text,
    often_text,
    params_text,
    rate_text,
    rival_text,
)
from pytest_vla.fuzz.journal import ReplayedSearch, Retold, read_head, read_lines, retell
from pytest_vla.fuzz.sampler import CROWDED, EVEN, FORESEEN, NEIGHBOUR, SOURCES
from pytest_vla.fuzz.shares import Axis, Both, Coverage, CoverageTally, DimensionShare, DimensionShares, amount_of
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.plan.case import joint_of
from pytest_vla.plan.task import Task
from pytest_vla.reports.blocks import NONE, Cell, Table, table_of
from pytest_vla.reports.html.media import picture_uri
from pytest_vla.reports.html.parts import PageBlock, PageSection, block_of, p_text, percent_text, rendered
from pytest_vla.reports.html.svg import LINE, TEXT, drawing, framed, heat_cell, heat_table, interval_bar
from pytest_vla.show.variations import SceneView, scene_pictures
from pytest_vla.util.text import counted, printable
from pytest_vla.vary.chosen import remembering
from pytest_vla.vary.space import Parameter

NOBODY = "none"
"""Shown if no scene was tried."""

HEAT = (
    "Failed / tried scenes that change two dimensions at once; on the diagonal, all that change the one dimension. "
    f"Darker: more of the evenly drawn scenes fail; without colour: none was conclusive; {NOBODY}: not tried."
)
"""Explanation of `heat_map`, shown once."""

LEGEND = Markup(
    '<ul class="legend"><li><span class="swatch done"></span>the policy does it</li>'
    '<li><span class="swatch failed"></span>it fails</li>'
    '<li><span class="swatch aside"></span>aside, not counted</li>'
    "<li>up: drawn evenly; down: guided</li><li>dashed: the least that was seen to fail</li></ul>"
)

_BAR = Markup('<rect class="bins {kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>')

_WIDTH, _HEIGHT = 300, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 36, 24


def heat_map(caption: str, coverage: Coverage) -> Markup:
    """Return a table of dimensions by dimensions, with the failed and tried scenes in each cell."""
    names = coverage.dimensions
    rows = {
        row: [
            _heat_cell(row, column, coverage.pairs[column, row]) if place <= at else Markup("<td></td>")
            for place, column in enumerate(names)
        ]
        for at, row in enumerate(names)
    }
    return heat_table(caption, "changed at once", names, rows)


def histogram(kind: str, axis: Axis, bins: Sequence[Both], marks: Sequence[float] = ()) -> Markup:
    """Draw how many scenes were tried by amount of a kind: evenly drawn above the line, guided below it.

    Args:
        kind: name.
        axis: of its amount.
        bins: as many as the axis has.
        marks: amounts of failures at their smallest.
    """
    most_even, most_guided = max(each.even.tried for each in bins), max(each.guided.tried for each in bins)
    room = _HEIGHT - _TOP - _BOTTOM
    scale = room / max(most_even + most_guided, 1)
    middle = _TOP + most_even * scale
    width = (_WIDTH - _LEFT - _RIGHT) / len(bins)

    def x_of(value: float) -> float:
        share = (value - axis.edges[0]) / (axis.edges[-1] - axis.edges[0])
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max(share, 0.0), 1.0)

    unit = f", {axis.unit}" if axis.unit else ""
    inside = framed(kind, f"{axis.name}{unit}")
    for place, both in enumerate(bins):
        inside += _bar(both, _LEFT + place * width, width, middle, scale, _bin_title(axis, place, both))
    inside += LINE.format(kind="axis", x1=_LEFT, y1=middle, x2=_WIDTH - _RIGHT, y2=middle)
    for value in marks:
        inside += LINE.format(kind="half", x1=x_of(value), y1=_TOP, x2=x_of(value), y2=_HEIGHT - _BOTTOM)
    half = 0.5 if axis.is_whole else 0.0
    for value, anchor in ((axis.edges[0] + half, "start"), (axis.edges[-1] - half, "end")):
        inside += TEXT.format(kind="tick", x=x_of(value), y=_HEIGHT - 8, anchor=anchor, text=f"{value:g}")
    if axis.edges[0] < axis.benign < axis.edges[-1]:
        inside += TEXT.format(kind="tick", x=x_of(axis.benign), y=_HEIGHT - 8, anchor="middle", text=f"{axis.benign:g}")
    for most, y in ((most_even, _TOP + 8), (most_guided, _HEIGHT - _BOTTOM)):
        if most:
            inside += TEXT.format(kind="tick", x=_LEFT - 5, y=y, anchor="end", text=str(most))
    told = "; ".join(_bin_title(axis, place, both) for place, both in enumerate(bins) if both.tried)
    return drawing("chart", _WIDTH, _HEIGHT, f"{kind}, {axis.name}{unit}: {told or 'not tried'}", inside)


def growth_curve(points: Sequence[tuple[int, int]]) -> Markup:
    """Draw the number of distinct failures over the number of episodes."""
    width, height, right = 480, 210, 14
    episodes, most = max(points[-1][0], 1), max(points[-1][1], 1)

    def x_of(number: int) -> float:
        return _LEFT + (width - _LEFT - right) * number / episodes

    def y_of(number: int) -> float:
        return _TOP + 4 + (height - _TOP - 34) * (1 - number / most)

    inside = framed("Distinct failures", "over episodes, those of making smaller and the expert's too")
    for number in sorted({0, most // 2, most}):
        inside += LINE.format(kind="grid", x1=_LEFT, y1=y_of(number), x2=width - right, y2=y_of(number))
        inside += TEXT.format(kind="tick", x=_LEFT - 5, y=y_of(number) + 4, anchor="end", text=str(number))
    for number, anchor in ((0, "start"), (episodes // 2, "middle"), (episodes, "end")):
        inside += TEXT.format(kind="tick", x=x_of(number), y=height - 9, anchor=anchor, text=f"{number:,}")
    corners = [points[0]]
    for before, after in pairwise(points):
        corners += [(after[0], before[1]), after]
    path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in corners)
    inside += Markup('<polyline class="way" points="{}"/>').format(path)
    told = "; ".join(f"{known} after {number}" for number, known in points[1:])
    return drawing("chart wide", width, height, f"Distinct failures by episodes: {told}", inside)


def bin_text(axis: Axis, place: int) -> str:
    """Return ``-75 to -60``, or the bin's one number if numbers are whole."""
    low, high = axis.edges[place : place + 2]
    return f"{(low + high) / 2:g}" if axis.is_whole else f"{low:g} to {high:g}"


def tally_text(tally: CoverageTally) -> str:
    """Return ``3 of 40 fail, 2 aside``."""
    aside = f", {tally.aside} aside" * bool(tally.aside)
    return f"{tally.failed} of {tally.counted} fail{aside}"


def _heat_cell(row: str, column: str, both: Both) -> Markup:
    if not both.tried:
        return Markup('<td title="{}">{}</td>').format(f"{_both(row, column)}: not tried", NOBODY)
    told = f"{_both(row, column)}: drawn evenly {tally_text(both.even)}; guided {tally_text(both.guided)}"
    share = both.even.failed / both.even.counted if both.even.counted else None
    return heat_cell(share, f"{both.failed}/{both.tried}", told)


def _both(row: str, column: str) -> str:
    return row if row == column else f"{row} and {column}"


def _bar(both: Both, x: float, width: float, middle: float, scale: float, title: str) -> Markup:
    inside = Markup()
    for tally, sign in ((both.even, -1), (both.guided, 1)):
        y = middle
        for kind, number in (
            ("failed", tally.failed),
            ("done", tally.counted - tally.failed),
            ("aside", tally.aside),
        ):
            size = number * scale
            if number:
                top = y - size if sign < 0 else y
                inside += _BAR.format(kind=kind, x=x + 1, y=top, width=width - 2, height=size)
            y += sign * size
    return Markup("<g>{}<title>{}</title></g>").format(inside, title) if inside else inside


def _bin_title(axis: Axis, place: int, both: Both) -> str:
    return f"{bin_text(axis, place)}: drawn evenly {tally_text(both.even)}; guided {tally_text(both.guided)}"


PICTURED = 20
"""Failures with pictures at most."""

_CODE = Markup("<code>{}</code>")


@dataclass(frozen=True)
class Shot:
    """A scene as the policy first sees it.

    Attributes:
        about: what it is.
        source: address of the picture, or empty if there is none.
        why: why there is no picture, or what is wrong with it.
    """

    about: str
    source: str = ""
    why: str = ""


@dataclass(frozen=True)
class Failure:
    """A failure as it is shown.

    Attributes:
        title: what is changed.
        task: id.
        often: how often it fails.
        rival: the result of the comparison policy, or empty if there is none.
        shots: without the change, with it, and as the scene was found; empty if it has no pictures.
        block: where it begins to fail.
        facts: by name.
    """

    title: str
    task: str
    often: str
    rival: str
    shots: tuple[Shot, ...]
    block: PageBlock
    facts: dict[str, Cell]


def failures_of(found: Sequence[Found], cases: str, model: str, rival: str) -> tuple[Failure, ...]:
    """Return each failure as it is shown; the first `PICTURED` with pictures.

    Args:
        found: those that always fail first.
        cases: the file of cases.
        model: the policy.
        rival: the comparison policy, or empty if there is none.
    """
    pictured = [scene for each in found[:PICTURED] for scene in _scenes_of(each)]
    scenes = scene_pictures(pictured) if pictured else []
    shots = [_shots(scenes[3 * place : 3 * place + 3]) for place in range(len(scenes) // 3)]
    shots += [()] * (len(found) - len(shots))
    return tuple(
        _failure(place, each, some, cases, model, rival)
        for place, (each, some) in enumerate(zip(found, shots, strict=True), 1)
    )


def _scenes_of(found: Found) -> tuple[Candidate, ...]:
    smallest = found.shrunk.candidate
    return smallest.having(()), smallest, found.first


def _shots(scenes: Sequence[SceneView]) -> tuple[Shot, ...]:
    abouts = "without any change", "at its smallest", "as it was found"
    return tuple(
        Shot(about, "" if scene.picture is None else picture_uri(scene.picture), scene.why)
        for about, scene in zip(abouts, scenes, strict=True)
    )


def _failure(place: int, found: Found, shots: tuple[Shot, ...], cases: str, model: str, rival: str) -> Failure:
    smallest = found.shrunk.candidate
    often = f"{'flaky, ' * found.is_flaky}fails {often_text(found)}"
    return Failure(
        title=words_of(smallest),
        task=f"{smallest.task.id}, seed {smallest.seed}",
        often=often,
        rival=rival_text(found, rival),
        shots=shots,
        block=block_of(tables=(_boundaries(place, found),) if found.shrunk.boundaries else ()),
        facts=_facts(found, cases, model),
    )


def words_of(candidate: Candidate) -> str:
    """Return each change with its amount: ``camera.azimuth azimuth_deg=23.4 with robot.joints offset[3]=-0.3 rad``."""
    told = []
    for change in candidate.changes:
        space = space_of(candidate, change)
        by_name = {each.name: each for each in space}
        amounts = components(space, change.params)
        texts = [_amount_text(by_name[each.name], each, value_at(change.params, each)) for each in amounts]
        told.append(" ".join([change.kind, *texts]))
    return " with ".join(told) or "no change"


def _amount_text(parameter: Parameter, component: Component, value: Any) -> str:
    if parameter.parts:
        # Such as an object that is added, and where; which one it is comes first.
        return f"{component}={value[0]}"
    return f"{component}={_shown(value)}{_unit(parameter)}"


def _unit(parameter: Parameter) -> str:
    return f" {parameter.unit}" if parameter.unit and not parameter.name.endswith(f"_{parameter.unit}") else ""


def _boundaries(place: int, found: Found) -> Table:
    changes = {change.kind: change for change in found.shrunk.candidate.changes}
    rows: list[tuple[Cell, ...]] = []
    for side in found.shrunk.boundaries:
        space = space_of(found.shrunk.candidate, changes[side.kind])
        units = {each.name: _unit(each) for each in space}
        for each in scaled_components(space, side.fails) if side.along is None else (side.along,):
            passes = NONE if side.passes is None else f"{_shown(value_at(side.passes, each))}{units[each.name]}"
            rows.append((side.kind, str(each), passes, f"{_shown(value_at(side.fails, each))}{units[each.name]}"))
    caption = f"Where failure {place} begins, of this seed, to this side; {NONE}: nothing less was tried that passes"
    return table_of(caption, ("change", "amount", "passes at", "fails at"), tuple(rows), names=2)


def _facts(found: Found, cases: str, model: str) -> dict[str, Cell]:
    smallest = found.shrunk.candidate
    complete = "" if found.shrunk.complete else "; not at its smallest, as its episodes ran out"
    facts: dict[str, Cell] = {
        "all of it": " with ".join(f"{change.kind} {params_text(change.params)}" for change in smallest.changes),
        "found as": f"scene {found.number}, {found.source}: {words_of(found.first)}",
        "made smaller in": f"{counted(found.shrunk.tried, 'trial')}{complete}",
    }
    if found.is_flaky:
        facts["again"] = "in no file, as it does not fail under all run seeds"
        return facts
    with remembering(smallest.changes):
        node = smallest.case.node_id
    command = f"pytest {shlex.quote(node)} --vla-cases={shlex.quote(cases)} --vla-model={shlex.quote(model)}"
    facts["again"] = _CODE.format(printable(command))
    return facts


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


DETAILED = 12
"""Tasks whose coverage and shares are shown at most; `--json` has them for all tasks."""

SHOWN_PAIRS = 8
"""Largest joint shares of two dimensions that are shown."""

_SHARES = (
    "The share of the outcome's variance that a dimension explains: whether it is changed, by which kind, how much "
    "(first-order Sobol index, corrected for the bias of few scenes). For two dimensions: what changing both explains "
    "beyond any sum of one term for each, a joint cause that no single dimension shows. Less often than the sum: one "
    "of them is enough.",
    "In brackets 95% bootstrap intervals over scenes drawn in the same way; p: how often chance does so, adjusted "
    "by Holm. A scene has few changes, so one makes others slightly less likely: shares need not add up to 100%.",
)

_NAME = re.compile(r"(\d{8}-\d{6})-[0-9a-f]+")


@dataclass(frozen=True)
class FoundSearch:
    """A search as it is shown.

    Attributes:
        file: of it; its folder is called as the search is.
        head: what that begins with.
        seen: by the ids of tasks.
        retold: from its lines.
        episodes: that were run.
        is_done: whether nothing will come any more.
    """

    file: Path
    head: Mapping[str, Any]
    seen: Mapping[str, Searched]
    retold: Retold
    episodes: int
    is_done: bool

    def option(self, name: str) -> Any:
        """Return an option that the search was begun with, or None if it has no such option."""
        return self.head.get("options", {}).get(name)


@dataclass(frozen=True)
class SearchPage:
    """All that the page has, see `page_of`."""

    title: str
    made_by: str
    summary: Mapping[str, PageBlock]
    texts: tuple[str, ...]
    failures: tuple[Failure, ...]
    sections: tuple[PageSection, ...]


def search_of(
    file: Path, seen: Mapping[str, Searched], tasks: Sequence[Task], episodes: int, is_done: bool
) -> FoundSearch:
    """Read a search from its file.

    Args:
        file: of the search.
        seen: its results, by the ids of tasks.
        tasks: that were searched.
        episodes: how many were run.
        is_done: whether the search has ended for good.

    Raises:
        VlaError: the file cannot be read.
    """
    head = read_head(file)
    options = head.get("options", {})
    lines = read_lines(file, {task.id: task for task in tasks})
    retold = retell(lines, seen, tasks, options.get("dimensions") or (), not options.get("even"))
    return FoundSearch(file, head, seen, retold, episodes, is_done)


def search_html(search: FoundSearch) -> bytes:
    """Return the page as HTML, UTF-8, with pictures drawn. Raises VlaError."""
    return rendered("fuzz.html.j2", ("style.css", "fuzz.css"), page=page_of(search))


def page_of(search: FoundSearch) -> SearchPage:
    """Return the page of a search, with pictures drawn."""
    all_found = [each for seen in search.seen.values() for each in seen.found]
    found = sorted(all_found, key=lambda each: each.is_flaky)
    model, rival = str(search.option("vla_model")), str(search.option("against") or "")
    return SearchPage(
        title=f"What breaks {model}",
        made_by=f"Search {search.file.parent.name}; made by pytest-vla {version('pytest-vla')}",
        summary={
            "How many scenes fail": _rates(search),
            "Distinct failures": _listed(found, search),
            "The search": _about(search),
        },
        texts=tuple(_failure_texts(found)),
        failures=failures_of(found, str(search.option("output")), model, rival),
        sections=tuple(_sections(search, found)),
    )


def _rates(search: FoundSearch) -> PageBlock:
    rows: list[tuple[Cell, ...]] = []
    for task, seen in search.seen.items():
        tried = seen.failed + seen.passed
        interval = wilson_interval(seen.failed, tried) if tried else None
        share = seen.failed / tried if tried else None
        rate = percent_text(None if share is None else 100 * share, interval and (100 * interval[0], 100 * interval[1]))
        guided = f"{seen.guided_failed} of {seen.guided}" if seen.guided else NONE
        aside = str(sum(seen.aside.values()))
        rows.append((task, f"{seen.failed} of {tried}", rate, interval_bar(share, interval), aside, guided))
    caption = (
        "Drawn evenly: the failure rate of the space, with 95% Wilson intervals over scenes drawn in the same way; it "
        "can be compared between checkpoints. Aside: inconclusive scenes among these. Guided: searched near likely "
        "failures, so not a rate"
    )
    head = ("task", "fail, drawn evenly", "fail, %", "interval", "aside", "fail, guided")
    left_out = [
        f"{task}: {left_out_text(seed, why)}" for task, seen in search.seen.items() for seed, why in seen.left_out
    ]
    return block_of(tables=(table_of(caption, head, tuple(rows)),), notes=tuple(left_out), is_wide=True)


def _listed(found: Sequence[Found], search: FoundSearch) -> PageBlock:
    if not found:
        return block_of(texts=("No failure was found.",))
    rows: list[tuple[Cell, ...]] = []
    for place, each in enumerate(found, 1):
        smallest = each.shrunk.candidate
        link = Markup('<a href="#failure-{}">{}</a>').format(place, printable(words_of(smallest)))
        rows.append((link, smallest.task.id, f"{each.failed} of {each.tried}", each.source, *_rival(each)))
    again = sum(seen.again for seen in search.seen.values())
    pending = sum(seen.pending for seen in search.seen.values())
    notes = [f"{counted(again, 'further scene')} failed for one of these"] * bool(again)
    notes += [f"{counted(pending, 'failure')} not looked into yet"] * bool(pending)
    compared = [f"what {search.option('against')} does"] * any(each.rival for each in found)
    head = ("at its smallest", "task", "run seeds that fail", "found by", *compared)
    table = table_of(
        "Distinct failures: they differ in kind or in direction", head, tuple(rows), left=frozenset({1, 3, 4})
    )
    return block_of(tables=(table,), notes=tuple(notes), is_wide=True)


def _rival(found: Found) -> tuple[str, ...]:
    told = {"fails": "fails too", "passes": "does it", "aside": "inconclusive"}
    return (told[found.rival],) if found.rival else ()


def _about(search: FoundSearch) -> PageBlock:
    options = {key: value for key, value in search.head.get("options", {}).items() if value not in (None, [], False)}
    rows: list[tuple[Cell, ...]] = [
        ("policy", str(search.option("vla_model"))),
        ("its content", str(search.head.get("policy_digest") or "not known")),
        ("state", "over" if search.is_done else "not over; --resume continues it"),
        ("episodes", f"{search.episodes:,}"),
        ("begun, last line", " to ".join(_times(search.file))),
        ("time of scenes, all workers", f"{sum(told.seconds for told in search.retold.tasks.values()):,.0f} s"),
        ("options", ", ".join(f"{key}={_plain(value)}" for key, value in options.items())),
        ("versions", ", ".join(f"{name} {number}" for name, number in search.head.get("versions", {}).items())),
    ]
    return block_of(
        tables=(table_of("How it was done", ("what", "value"), tuple(rows), left=frozenset({1})),), is_wide=True
    )


def _times(file: Path) -> Iterator[str]:
    match = _NAME.fullmatch(file.parent.name)
    if match is not None:
        yield f"{datetime.strptime(match[1], '%Y%m%d-%H%M%S'):%Y-%m-%d %H:%M}"
    if file.exists():
        yield f"{datetime.fromtimestamp(file.stat().st_mtime):%Y-%m-%d %H:%M}"


def _plain(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _failure_texts(found: Sequence[Found]) -> Iterator[str]:
    if not found:
        yield "None was found."
        return
    yield (
        "A failure counts if the benign twin succeeds and the expert does the task in the same scene, or if only the "
        "pictures or the text change. Each was made smaller: fewer changes, fewer parameters, smaller amounts."
    )
    if len(found) > PICTURED:
        yield f"The first {PICTURED} of {len(found)} have pictures."


def _sections(search: FoundSearch, found: Sequence[Found]) -> Iterator[PageSection]:
    yield PageSection("ways", "How they were found", _ways(search, found))
    shown = dict(list(search.retold.tasks.items())[:DETAILED])
    left = len(search.retold.tasks) - len(shown)
    further = (block_of(texts=(f"{counted(left, 'further task')}: --json has the same of them.",)),) * bool(left)
    coverage = [block for task, told in shown.items() for block in _coverage(task, told, search.seen[task].found)]
    yield PageSection("coverage", "Where the search has been", (block_of(texts=(HEAT,)), *coverage, *further))
    shares = [block for task, told in shown.items() for block in _shares(task, told)]
    yield PageSection("shares", "What matters", (block_of(texts=_SHARES), *shares, *further))
    yield PageSection("aside", "What was left aside", (_aside(search),))


def _ways(search: FoundSearch, found: Sequence[Found]) -> tuple[PageBlock, ...]:
    rows = []
    for source in SOURCES:
        tallies = [told.sources[source] for told in search.retold.tasks.values() if source in told.sources]
        if not tallies:
            continue
        whole = CoverageTally(*(sum(getattr(each, name) for each in tallies) for name in ("tried", "failed", "aside")))
        distinct = sum(each.source == source for each in found)
        rows.append((source, *_numbers(whole), str(distinct)))
    text = (
        f"Of scenes {EVEN} ones are drawn evenly, {CROWDED} ones have many changes at once, {FORESEEN} ones are what a "
        f"surrogate expects to fail or knows least of, {NEIGHBOUR} ones are near one that came near. A failure that "
        "several find is counted with the first."
    )
    table = table_of("What each source gave", ("source", "tried", "fail", "aside", "distinct failures"), tuple(rows))
    return (block_of(texts=(text,), drawings=(growth_curve(search.retold.growth),), tables=(table,)),)


def _coverage(task: str, told: ReplayedSearch, found: Sequence[Found]) -> Iterator[PageBlock]:
    coverage = told.coverage
    untried = [f"not tried: {', '.join(coverage.untried_kinds)}"] * bool(coverage.untried_kinds)
    pairs = ", ".join(" with ".join(pair) for pair in coverage.untried_pairs)
    untried += [f"not tried together: {pairs}"] * bool(pairs)
    heat = heat_map(f"{task}: failed / tried, of two dimensions at once", coverage)
    yield block_of(task, drawings=(heat,), notes=tuple(untried))
    broken = {change.kind for each in found for change in each.shrunk.candidate.changes}
    drawn = [kind for kind in coverage.bins if kind in broken]
    if drawn:
        charts = (_histogram(told, kind, found) for kind in drawn)
        yield block_of(f"{task}: how much of the kinds that break it", drawings=(LEGEND, *charts))
    rows = tuple((kind, *_numbers(both.even), *_numbers(both.guided)) for kind, both in coverage.kinds.items())
    head = ("kind", "tried evenly", "fail", "aside", "tried guided", "fail", "aside")
    table = table_of(f"{task}: scenes that have the kind, alone or with others", head, rows)
    yield block_of(f"{task}: the numbers, of every kind", tables=(table, *_amounts(task, told, drawn)), is_open=False)


def _histogram(told: ReplayedSearch, kind: str, found: Sequence[Found]) -> Markup:
    axis = told.coverage.axes[kind]
    assert axis is not None
    space = told.coverage.spaces[kind]
    smallest = [change.params for each in found for change in each.shrunk.candidate.changes if change.kind == kind]
    marks = [amount_of(axis, space, params) for params in smallest]
    return histogram(kind, axis, told.coverage.bins[kind], marks)


def _amounts(task: str, told: ReplayedSearch, kinds: Sequence[str]) -> Iterator[Table]:
    """Return the numbers of the drawn kinds; --json has those of all kinds."""
    rows: list[tuple[str, ...]] = []
    for kind in kinds:
        axis = told.coverage.axes[kind]
        assert axis is not None
        for place, both in enumerate(told.coverage.bins[kind]):
            if both.tried:
                amount = f"{axis.name} {bin_text(axis, place)} {axis.unit}".strip()
                rows.append((kind, amount, *_numbers(both.even), *_numbers(both.guided)))
    if rows:
        head = ("kind", "how much", "tried evenly", "fail", "aside", "tried guided", "fail", "aside")
        yield table_of(f"{task}: by amount, if a scene was tried", head, tuple(rows), names=2)


def _shares(task: str, told: ReplayedSearch) -> Iterator[PageBlock]:
    shares = told.shares
    if shares.why:
        yield block_of(task, texts=(f"Not known: {shares.why}.",))
        return
    text = f"The policy fails {shares.failed} of {shares.scenes} conclusive scenes that were drawn evenly."
    head = ("dimension", "share, %", "interval", "adj. p", "note")
    rows = tuple(map(_share_row, shares.single))
    single = table_of(f"{task}: what each dimension explains", head, rows, left=frozenset({2, 4}))
    known = [each for each in shares.pairs if not each.why]
    tables = [single]
    if known:
        rows = tuple(map(_share_row, known[:SHOWN_PAIRS]))
        more = f"; the {SHOWN_PAIRS} largest of {len(known)}" * (len(known) > SHOWN_PAIRS)
        caption = f"{task}: what two explain beyond each{more}"
        tables.append(
            table_of(caption, ("both", "share, %", "interval", "adj. p", "fails"), rows, left=frozenset({2, 4}))
        )
    rare = len(shares.pairs) - len(known)
    notes = (f"of {rare} pairs too few scenes change both, one or neither",) * bool(rare)
    yield block_of(task, texts=(text,), tables=tuple(tables), notes=notes)


def _share_row(each: DimensionShare) -> tuple[Cell, ...]:
    name = " with ".join(each.of)
    if each.share is None or each.interval is None:
        return name, NONE, "", NONE, each.why
    low, high = each.interval
    # What is below 0 is chance.
    share = max(each.share, 0.0)
    told = percent_text(100 * share, (100 * low, 100 * high))
    way = ""
    if len(each.of) > 1:
        way = "more often than the sum" if each.more else "less often than the sum"
    return name, told, interval_bar(share, each.interval), p_text(each.adjusted), way


def _aside(search: FoundSearch) -> PageBlock:
    rows = [
        (task, why, str(number))
        for task, seen in search.seen.items()
        for why, number in sorted(_reasons(seen.aside).items(), key=lambda each: -each[1])
    ]
    if not rows:
        return block_of(texts=("Every evenly drawn scene was conclusive.",))
    caption = "Inconclusive scenes among those drawn evenly, by reason; in no rate"
    return block_of(tables=(table_of(caption, ("task", "reason", "scenes"), tuple(rows), names=2),))


def _reasons(aside: Mapping[str, int]) -> dict[str, int]:
    """Sum the scenes by the part of the reason before the colon: the rest mostly names a single scene."""
    found: dict[str, int] = {}
    for why, number in aside.items():
        reason = why.partition(":")[0]
        found[reason] = found.get(reason, 0) + number
    return found


def _numbers(tally: CoverageTally) -> tuple[str, str, str]:
    return str(tally.tried), str(tally.failed), str(tally.aside)


# Results of a search, as lines for people and as tables for programs.


@dataclass(frozen=True)
class SearchEnd:
    """The end of a search.

    Attributes:
        name: of the search.
        episodes: how many it ran.
        written: cases in its file.
        stopped: whether somebody stopped it.
        is_done: whether it did all its work.
    """

    name: str
    episodes: int
    written: int
    stopped: bool
    is_done: bool


def search_lines(
    searched: Mapping[str, Searched], ended: SearchEnd, output: Path, again: str, rival: str = ""
) -> Iterator[str]:
    """Yield the results for all tasks, and the commands that continue.

    Args:
        searched: by task.
        ended: how the search did.
        output: the file of cases.
        again: the command that runs these.
        rival: the comparison policy, or empty if there is none.
    """
    for task, seen in searched.items():
        yield from task_lines(task, seen, rival)
    yield counted(ended.episodes, "episode")
    if ended.stopped or not ended.is_done:
        pending = sum(seen.pending for seen in searched.values())
        rest = f"; {counted(pending, 'failure')} not made smaller yet" * bool(pending)
        what = "stopped" if ended.stopped else "time limit reached"
        yield f"{what}: results so far above{rest}; `pytest-vla fuzz --resume={ended.name}` continues the search"
    if ended.written:
        them = "it" if ended.written == 1 else "them"
        yield f"{output}: {counted(ended.written, 'case')}: `{again}` runs {them}"
    else:
        there = f"; {output} is from an earlier search" * output.exists()
        yield f"no failure was found that fails under all its run seeds; no file was written{there}"


def task_lines(name: str, seen: Searched, rival: str = "") -> Iterator[str]:
    """Yield the results for one task.

    Args:
        name: of the task.
        seen: of its search.
        rival: the comparison policy, or empty if there is none.
    """
    if seen.proposed or seen.guided:
        yield f"{name}: {rate_text(seen)}"
    else:
        yield f"{name}: no scene was tried"
    yield from (f"  {line}" for line in aside_lines(seen))
    yield from (f"  {failure_line(each, rival)}" for each in seen.found)


def task_table(name: str, seen: Searched, told: ReplayedSearch) -> dict[str, Any]:
    """Return a task's search: ``fails`` counts evenly drawn ``scenes`` only, and gives the space's failure rate.

    Args:
        name: of the task.
        seen: of its search.
        told: read back from its lines.
    """
    excess = excess_of(seen)
    return {
        "task": name,
        "scenes": seen.proposed,
        "fails": seen.failed,
        "passes": seen.passed,
        "aside": dict(seen.aside),
        "guided_scenes": seen.guided,
        "guided_fails": seen.guided_failed,
        "again": seen.again,
        "pending": seen.pending,
        "twins_left_out": [{"seed": seed, "why": why} for seed, why in seen.left_out],
        "twins_fail": seen.base[0],
        "twins": seen.base[1],
        "draws": seen.draws,
        "excess": None if excess is None else excess[0],
        "excess_interval": None if excess is None else list(excess[1]),
        "found": [found_table(each) for each in seen.found],
        "sources": {source: _tally(tally) for source, tally in told.sources.items()},
        "coverage": coverage_table(told.coverage),
        "shares": shares_table(told.shares),
    }


def coverage_table(coverage: Coverage) -> dict[str, Any]:
    """Return a search's coverage: scenes as ``[tried, failed, aside]``, two dimensions under ``one+other``."""
    return {
        "kinds": {kind: _tables_both(both) | _bins(coverage, kind) for kind, both in coverage.kinds.items()},
        "dimensions": {
            joint_of(dict.fromkeys(pair)): _tables_both(both) for pair, both in coverage.pairs.items() if both.tried
        },
        "untried_kinds": list(coverage.untried_kinds),
        "untried_pairs": [joint_of(pair) for pair in coverage.untried_pairs],
    }


def shares_table(shares: DimensionShares) -> dict[str, Any]:
    """Return what each dimension explains, shares from 0 to 1; ``why`` is the reason if there are no shares."""
    return {
        "scenes": shares.scenes,
        "fails": shares.failed,
        "why": shares.why or None,
        "dimensions": [_share(each) for each in shares.single],
        "pairs": [_share(each) | {"more": each.more} for each in shares.pairs if not each.why],
    }


def _share(each: DimensionShare) -> dict[str, Any]:
    return {
        "of": joint_of(each.of),
        "share": each.share,
        "interval": None if each.interval is None else list(each.interval),
        "p": each.p,
        "p_adjusted": each.adjusted,
        "why": each.why or None,
    }


def _bins(coverage: Coverage, kind: str) -> dict[str, Any]:
    axis = coverage.axes[kind]
    if axis is None:
        return {}
    bins = [_tables_both(each) for each in coverage.bins[kind]]
    return {"amount": axis.name, "unit": axis.unit, "edges": list(axis.edges), "bins": bins}


def _tables_both(both: Both) -> dict[str, Any]:
    return {"even": _tally(both.even), "guided": _tally(both.guided)}


def _tally(tally: CoverageTally) -> list[int]:
    return [tally.tried, tally.failed, tally.aside]


def found_table(found: Found) -> dict[str, Any]:
    """Return a failure at its smallest."""
    smallest = found.shrunk.candidate
    return {
        "label": smallest.label,
        "seed": smallest.seed,
        "changes": {change.kind: dict(change.params) for change in smallest.changes},
        "first": {change.kind: dict(change.params) for change in found.first.changes},
        "source": found.source,
        "number": found.number,
        "boundaries": [
            {
                "kind": side.kind,
                "along": None if side.along is None else str(side.along),
                "passes": None if side.passes is None else dict(side.passes),
                "fails": dict(side.fails),
            }
            for side in found.shrunk.boundaries
        ],
        "episodes": found.shrunk.tried,
        "complete": found.shrunk.complete,
        "failed_run_seeds": found.failed,
        "run_seeds": found.tried,
        "run_seeds_interval": list(wilson_interval(found.failed, found.tried)) if found.draws else None,
        "twin_failed_run_seeds": found.twin[0],
        "twin_run_seeds": found.twin[1],
        "rival": found.rival,
    }
