"""The trends of a site: by suite, success over runs, a line a model, with the reasons why lines end."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from markupsafe import Markup

from pytest_vla.metrics.rates import ends_text, left_out_text, share_text
from pytest_vla.reports.blocks import Table, table_of
from pytest_vla.reports.html.parts import PageBlock, block_of
from pytest_vla.reports.html.svg import SIGNS, Mark, trend, trend_key
from pytest_vla.reports.html.written import NONE
from pytest_vla.reports.site.cells import rate_text, run_link, success_text, tasks_cell, tasks_text
from pytest_vla.reports.site.entries import Entry
from pytest_vla.reports.site.joined import Joined, Point, lines_of
from pytest_vla.util.text import counted

MODELS = 6
"""Of a chart: as many as there are colours."""

CHARTS = 3
"""Of a suite."""

_WIDE = 22
"""From more runs than these on a chart takes a whole row."""

_SHOWN, _NOTES = 4, 6

_HEAD = ("run", "model", "content", "tasks", "success", "rate", "95%, these tasks", "tasks like these")
_BOX = Markup(
    '<figure class="chart-box"><div class="scroll" tabindex="0" role="region" aria-label="{label}">{chart}</div>'
    '<figcaption><ul class="legend">{legend}</ul></figcaption></figure>'
)


def trend_blocks(entries: Sequence[Entry], pages: Collection[str]) -> tuple[PageBlock, ...]:
    """A block for each suite, by name, its benign episodes before its varied ones.

    Args:
        entries: the runs, the newest first. Those of what earlier runs had picked are in no trend.
        pages: names of runs whose pages are there.
    """
    found: dict[tuple[str, str], list[Point]] = {}
    numbers: dict[str, int] = {}
    for entry in reversed(entries):
        for result in () if entry.picked else entry.results:
            found.setdefault((result.suite, result.group), []).append(Point(entry, result))
            numbers.setdefault(result.model, len(numbers))
    return tuple(_block(found[key], numbers, pages) for key in sorted(found))


def _block(points: Sequence[Point], numbers: Mapping[str, int], pages: Collection[str]) -> PageBlock:
    title = points[0].result.column
    newest = [*dict.fromkeys(point.result.model for point in reversed(points) if point.result.rate.counted)]
    lines = {
        model: lines_of([point for point in points if point.result.model == model and point.result.rate.counted])
        for model in newest[: MODELS * CHARTS]
    }
    drawings, most = [], 0
    for first in range(0, len(lines), MODELS):
        signs = _signs([*lines][first : first + MODELS], numbers)
        place = first // MODELS + 1
        some = {number: lines[model] for model, number in signs.items()}
        runs = _runs_of(some.values())
        most = max(most, len(runs))
        label = f"Chart of {title}, {place}"
        drawings.append(_BOX.format(label=label, chart=_chart(title, some, runs), legend=_legend(signs, some)))
    notes = [*_notes([joined for some in lines.values() for line in some for joined in line])]
    if left := len(newest) - len(lines):
        notes.append(f"{counted(left, 'earlier model')} in the table only")
    return block_of(
        title,
        drawings=tuple(drawings),
        tables=(_numbers_table(title, points, pages),),
        notes=tuple(notes),
        is_wide=most > _WIDE,
    )


def _signs(models: Sequence[str], numbers: Mapping[str, int]) -> dict[str, int]:
    """Of each model of a chart the number of its colour and shape: its own of the whole site, where it is free."""
    found: dict[str, int] = {}
    for model in sorted(models, key=numbers.__getitem__):
        own = numbers[model] % SIGNS
        found[model] = next(number for number in (*range(own, SIGNS), *range(own)) if number not in found.values())
    return found


def _runs_of(lines: Collection[Sequence[Sequence[Joined]]]) -> list[Entry]:
    """The runs of a chart, the oldest first."""
    found = {joined.point.entry.name: joined.point.entry for some in lines for line in some for joined in line}
    return sorted(found.values(), key=lambda entry: entry.order)


def _chart(title: str, lines: Mapping[int, Sequence[Sequence[Joined]]], runs: Sequence[Entry]) -> Markup:
    places = {entry.name: place for place, entry in enumerate(runs)}
    marks = {
        number: [[_mark(joined, places[joined.point.entry.name]) for joined in line] for line in some]
        for number, some in lines.items()
    }
    below = f"{counted(len(runs), 'run')}, the oldest first; with 95% intervals"
    return trend(f"Success of {title}", below, marks, [entry.began.strftime("%m-%d %H:%M") for entry in runs])


def _mark(joined: Joined, place: int) -> Mark:
    entry, result = joined.point
    rate, interval = result.rate, result.rate.interval
    told = f"{entry.name}, {result.model} ({_content(result.content)}): {rate_text(result)}, {success_text(result)}"
    title = "; ".join(filter(None, (f"{told}, {tasks_text(result)}", joined.text)))
    return Mark(
        place,
        100 * (rate.rate or 0),
        None if interval is None else (100 * interval[0], 100 * interval[1]),
        title,
        joined.is_hollow,
        joined.text if joined.is_break else "",
    )


def _content(content: str) -> str:
    return "content unknown" if content == "unknown" else content


def _legend(signs: Mapping[str, int], lines: Mapping[int, Sequence[Sequence[Joined]]]) -> Markup:
    items = [Markup("{} {}").format(trend_key(number), model) for model, number in signs.items()]
    marks = [joined for some in lines.values() for line in some for joined in line]
    if any(joined.is_hollow for joined in marks):
        items.append(Markup("hollow: a part of the tasks or episodes"))
    if any(joined.is_break for joined in marks):
        items.append(Markup("dashed: not comparable with what came before"))
    return Markup("").join(Markup("<li>{}</li>").format(item) for item in items)


def _notes(marks: Sequence[Joined]) -> Iterator[str]:
    """Why lines end: a line for each reason, that of the newest run first."""
    by_reason: dict[str, list[str]] = {}
    for joined in sorted(marks, key=lambda joined: joined.point.entry.order, reverse=True):
        if joined.why:
            to = f" to {joined.before}" if joined.before else ""
            by_reason.setdefault(joined.why, []).append(joined.point.entry.name + to)
    for why, names in [*by_reason.items()][:_NOTES]:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        yield f"not joined: {', '.join(names[:_SHOWN])}{more}: {why}"
    if (left := len(by_reason) - _NOTES) > 0:
        yield f"{counted(left, 'further reason')} why runs are not joined: the runs' marks say them"


def _numbers_table(title: str, points: Sequence[Point], pages: Collection[str]) -> Table:
    rows = []
    for entry, result in reversed(points):
        rate = result.rate
        rows.append(
            (
                run_link(entry.name, pages),
                result.model,
                result.content,
                tasks_cell(result),
                success_text(result),
                share_text(rate),
                NONE if rate.interval is None else ends_text(rate.interval),
                "" if rate.tasks_interval is None else ends_text(rate.tasks_interval),
                left_out_text(rate),
            )
        )
    caption = f"The numbers of the chart of {title}, the newest first"
    return table_of(caption, (*_HEAD, "not in the rate"), tuple(rows), 4, frozenset({8}))
