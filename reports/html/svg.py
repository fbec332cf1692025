"""Drawings of ours as inline SVG: no library, the page's colours, and a text for those who do not see them."""

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import Any, TypeVar

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pytest_vla.metrics.language_paths import TaskFailures
from pytest_vla.reports.blocks import NONE, Block, Heading, PageDrawing, Sentence
from pytest_vla.reports.figures import PALETTE, FigureKind, FigureRow, PaperFigure

_SVG = Markup('<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{inside}</svg>')
_SIZED = Markup(
    '<svg class="trend" width="{width}" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{inside}</svg>'
)
LINE = Markup('<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>')
TEXT = Markup('<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>')
_DOT = Markup('<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{r}"><title>{title}</title></circle>')
_PATH = Markup('<polyline class="{kind}" points="{points}"/>')

_WIDTH, _HEIGHT = 300, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 38, 10, 34, 26

_COLOURS = 6
"""Of a trend's lines: .m0 to .m5 of the style."""

_SHAPES = (
    (),
    ((-4, -4), (4, -4), (4, 4), (-4, 4)),
    ((0, -5), (4.8, 4), (-4.8, 4)),
    ((0, -5.4), (5.4, 0), (0, 5.4), (-5.4, 0)),
)
"""Corners of the signs of a trend's lines; none: a circle."""

SIGNS = 12
"""So many numbers of lines have a colour and a shape that no other of them has."""


def drawing(kind: str, width: float, height: float, label: str, inside: Markup) -> Markup:
    """Return a whole drawing; `label` is for readers who do not see it."""
    return _SVG.format(kind=kind, width=width, height=height, label=label, inside=inside)


def framed(title: str, below: str) -> Markup:
    """Return a drawing's title, and a line below it."""
    inside = TEXT.format(kind="title", x=8, y=14, anchor="start", text=title)
    return inside + TEXT.format(kind="tick", x=8, y=27, anchor="start", text=below)


@dataclass(frozen=True)
class Dot:
    """A measured value with its interval.

    Attributes:
        x: its place on the axis.
        y: the value.
        interval: of y, or None if it is not known.
        title: the text shown on pointing at it.
        across: the interval of x, or None if it is not known.
        is_hollow: in a trend, whether it covers only a part.
        gap: in a trend, why the line is broken before it, or empty if it is not.
    """

    x: float
    y: float
    interval: tuple[float, float] | None
    title: str
    across: tuple[float, float] | None = None
    is_hollow: bool = False
    gap: str = ""


def interval_bar(share: float | None, interval: tuple[float, float] | None) -> Markup:
    """Draw a rate, 0..1, as a bar with its interval, or nothing; the numbers stand beside it."""
    if share is None:
        return Markup()
    inside = Markup('<rect class="track" x="0" y="4" width="120" height="8" rx="2"/>')
    inside += Markup('<rect class="value" x="0" y="4" width="{:.1f}" height="8" rx="2"/>').format(120 * share)
    if interval is not None:
        low, high = (120 * end for end in interval)
        inside += LINE.format(kind="ends", x1=low, y1=8, x2=high, y2=8)
        inside += Markup().join(LINE.format(kind="ends", x1=x, y1=3, x2=x, y2=13) for x in (low, high))
    return Markup('<svg class="bar" viewBox="-2 0 124 16" aria-hidden="true">{}</svg>').format(inside)


def curve_drawing(title: str, below: str, dots: Sequence[Dot], names: Sequence[str], half: float | None) -> Markup:
    """Draw success by level.

    Args:
        title: of the drawing.
        below: a line below the title.
        dots: by level, percentages; the first is the benign twins'.
        names: of the places 0, 1, ... below.
        half: half of benign success, as a line, or None for no line.
    """
    last = max(len(names) - 1, 1)

    def x_of(level: float) -> float:
        return _LEFT + 12 + (_WIDTH - _LEFT - _RIGHT - 24) * level / last

    inside = framed(title, below)
    inside += _shares(_WIDTH - _RIGHT)
    for place, name in enumerate(names):
        inside += TEXT.format(kind="tick", x=x_of(place), y=_HEIGHT - 9, anchor="middle", text=name)
    if half is not None:
        inside += LINE.format(kind="half", x1=_LEFT, y1=_y(half), x2=_WIDTH - _RIGHT, y2=_y(half))
    points = " ".join(f"{x_of(dot.x):.1f},{_y(dot.y):.1f}" for dot in dots)
    inside += _PATH.format(kind="way", points=points)
    for dot in dots:
        inside += _whisker(x_of(dot.x), dot.interval, _y)
        inside += _DOT.format(kind="benign" if dot.x == 0 else "dot", x=x_of(dot.x), y=_y(dot.y), r=4, title=dot.title)
    told = "; ".join(dot.title for dot in dots)
    return _SVG.format(kind="chart", width=_WIDTH, height=_HEIGHT, label=f"{title}: {told}", inside=inside)


def plane(title: str, x_label: str, dots: Sequence[Dot], labels: Sequence[str]) -> Markup:
    """Draw success, in percent, over a number on an axis from zero, with both intervals and a label at each dot.

    Args:
        title: of the drawing.
        x_label: of the axis below.
        dots: the measured values.
        labels: a short text for each dot.
    """
    width, height = 480, 300
    top = max([1e-9, *(max(dot.x, *(dot.across or (0,))) for dot in dots)]) * 1.08

    def x_of(value: float) -> float:
        return _LEFT + (width - _LEFT - _RIGHT - 20) * value / top

    def y_of(share: float) -> float:
        return _TOP + (height - _TOP - 46) * (1 - share / 100)

    inside = TEXT.format(kind="title", x=_LEFT, y=14, anchor="start", text=title)
    inside += _shares(width - _RIGHT, y_of)
    for value in (0, top / 2, top):
        inside += TEXT.format(kind="tick", x=x_of(value), y=height - 28, anchor="middle", text=f"{value:.3g}")
    inside += TEXT.format(kind="tick", x=width / 2, y=height - 8, anchor="middle", text=x_label)
    for dot, label in zip(dots, labels, strict=True):
        x, y = x_of(dot.x), y_of(dot.y)
        inside += _whisker(x, dot.interval, y_of)
        if dot.across is not None:
            left, right = map(x_of, dot.across)
            inside += LINE.format(kind="whisker", x1=left, y1=y, x2=right, y2=y)
        inside += _DOT.format(kind="dot", x=x, y=y, r=5, title=dot.title)
        inside += TEXT.format(kind="mark", x=x + 8, y=y - 7, anchor="start", text=label)
    told = "; ".join(dot.title for dot in dots)
    return _SVG.format(kind="chart wide", width=width, height=height, label=f"{title}: {told}", inside=inside)


def trend(title: str, below: str, lines: Mapping[int, Sequence[Sequence[Dot]]], names: Sequence[str]) -> Markup:
    """Draw percentages over places, a line for each; the numbers stand in a table beside it.

    Args:
        title: of the drawing.
        below: a line below the title.
        lines: by number, which gives a line its colour and shape, marks that are joined.
        names: of the places 0, 1, ...; as many of them are written as there is room for.
    """
    last = max(len(names) - 1, 1)
    width = max(_WIDTH + 40, min(22 * len(names) + 80, 1180))
    room = (width - _LEFT - _RIGHT - 52) / last

    def x_of(place: float) -> float:
        return _LEFT + 26 + (room * place if len(names) > 1 else room / 2)

    inside = framed(title, below) + _shares(width - _RIGHT)
    every = -(-len(names) // max(int((width - _LEFT) / 72), 1))
    for place in range(len(names) - 1, -1, -every):
        inside += TEXT.format(kind="tick", x=x_of(place), y=_HEIGHT - 9, anchor="middle", text=names[place])
    for place, (number, line) in enumerate(lines.items()):
        # Intervals of several models at one run would hide each other.
        aside = (place - (len(lines) - 1) / 2) * min(7.0, 0.7 * room / len(lines))
        inside += _trend_line(line, number, aside, x_of)
    return _SIZED.format(width=width, height=_HEIGHT, label=f"{title}: {below}", inside=inside)


def trend_key(number: int) -> Markup:
    """Draw the sign of a line of `trend`, by its number."""
    line = LINE.format(kind="way", x1=0, y1=8, x2=28, y2=8) + _sign(number, 14, 8, "", False)
    return Markup('<svg class="key m{}" viewBox="0 0 28 16" aria-hidden="true">{}</svg>').format(
        number % _COLOURS, line
    )


def _trend_line(line: Sequence[Sequence[Dot]], number: int, aside: float, place_of: Callable[[float], float]) -> Markup:
    def x_of(place: float) -> float:
        return place_of(place) + aside

    inside = Markup()
    for marks in line:
        if len(marks) > 1:
            points = " ".join(f"{x_of(mark.x):.1f},{_y(mark.y):.1f}" for mark in marks)
            # What goes on beside whole runs is not to look like their rise and fall.
            is_part = marks[0].is_hollow and not all(mark.is_hollow for some in line for mark in some)
            inside += _PATH.format(kind="part" if is_part else "way", points=points)
        for mark in marks:
            if mark.gap:
                x = x_of(mark.x) - 7
                gap = LINE.format(kind="gap", x1=x, y1=_y(100), x2=x, y2=_y(0))
                inside += Markup("<g>{}<title>{}</title></g>").format(gap, mark.gap)
            inside += _whisker(x_of(mark.x), mark.interval, _y)
            inside += _sign(number, x_of(mark.x), _y(mark.y), mark.title, mark.is_hollow)
    return Markup('<g class="m{}">{}</g>').format(number % _COLOURS, inside)


def _sign(number: int, x: float, y: float, title: str, is_hollow: bool) -> Markup:
    """Draw a circle, square, triangle or diamond, so that lines differ without their colours."""
    corners = _SHAPES[number % len(_SHAPES)]
    points = " ".join(f"{x + across:.1f},{y + down:.1f}" for across, down in corners)
    form = '<polygon class="{}" points="{}"><title>{}</title></polygon>'
    if not corners:
        return _DOT.format(kind="hollow" if is_hollow else "dot", x=x, y=y, r=4, title=title)
    return Markup(form).format("hollow" if is_hollow else "dot", points, title)


def shade(share: float) -> Markup:
    """Return the style of a heat map's cell: a colour that colour-blind readers can order."""
    return Markup("background:{};color:{}").format(*_shades(share))


def _shades(share: float) -> tuple[str, str]:
    """Return the colours of a heat map's cell, and of the text on it."""
    low, high = (253, 231, 205), (3, 61, 108)
    red, green, blue = (round(a + (b - a) * min(max(share, 0), 1)) for a, b in zip(low, high, strict=True))
    text = "#fff" if 0.299 * red + 0.587 * green + 0.114 * blue < 140 else "#111"
    return f"rgb({red} {green} {blue})", text


def heat_table(caption: str, corner: str, names: Iterable[str], rows: Mapping[str, Iterable[Markup]]) -> Markup:
    """Return a table whose cells have colours.

    Args:
        caption: above it.
        corner: the head of the names of rows.
        names: of the columns.
        rows: of each name its cells, with their tags.
    """
    head = Markup().join(Markup('<th scope="col">{}</th>').format(name) for name in (corner, *names))
    body = Markup().join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(name, Markup().join(cells)) for name, cells in rows.items()
    )
    whole = Markup(
        '<div class="scroll" tabindex="0" role="region" aria-label="{0}"><table class="heat"><caption>{0}</caption>'
        "<thead><tr>{1}</tr></thead><tbody>{2}</tbody></table></div>"
    )
    return whole.format(caption, head, body)


def heat_cell(share: float | None, text: str, told: str) -> Markup:
    """Return a cell of `heat_table`: its shade, 0..1 (none for None), its text, and what it says on pointing at it."""
    style = Markup() if share is None else shade(share)
    return Markup('<td style="{}" title="{}">{}</td>').format(style, told, text)


def _y(share: float) -> float:
    return _TOP + 8 + (_HEIGHT - _TOP - _BOTTOM - 8) * (1 - share / 100)


def _shares(right: float, y_of: Callable[[float], float] = _y) -> Markup:
    inside = Markup()
    for share in (0, 50, 100):
        inside += LINE.format(kind="grid", x1=_LEFT, y1=y_of(share), x2=right, y2=y_of(share))
        inside += TEXT.format(kind="tick", x=_LEFT - 5, y=y_of(share) + 4, anchor="end", text=f"{share}%")
    return inside


def _whisker(x: float, interval: tuple[float, float] | None, y_of: Callable[[float], float]) -> Markup:
    if interval is None:
        return Markup()
    low, high = map(y_of, interval)
    return LINE.format(kind="whisker", x1=x, y1=low, x2=x, y2=high)


# Figures of papers, as panels below each other.

_FIGURE_WIDTH, _PANEL_TOP, _PANEL_END = 760.0, 30.0, 12.0
_RECT = Markup('<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}">{inside}</rect>')
_TITLE = Markup("<title>{}</title>")
_COLOURED = Markup('<{tag} fill="{fill}" stroke="{stroke}" {places}>{inside}</{tag}>')

_Panel = tuple[float, Markup]
"""Its height, and what is drawn."""


def figure_drawing(figure: PaperFigure) -> Markup:
    """Draw a figure of a paper; its numbers stand in the table beside it."""
    inside, height = Markup(), 6.0
    for line in textwrap.wrap(figure.title, int(_FIGURE_WIDTH / 7.5)):
        inside += TEXT.format(kind="title", x=8, y=height + 10, anchor="start", text=line)
        height += 16
    told = []
    for name, rows in figure.panels.items():
        tall, drawn = _PANELS[figure.kind](figure, rows)
        head = TEXT.format(kind="mark", x=8, y=14, anchor="start", text=name) if name else Markup()
        inside += Markup('<g transform="translate(0 {:.1f})">{}{}</g>').format(height, head, drawn)
        height += tall
        told.append(f"{name or 'all'}: {', '.join(row.name for row in rows[:12])}")
    return drawing("chart figure", _FIGURE_WIDTH, height, f"{figure.title}: {'; '.join(told)}", inside)


def standalone(drawn: str, style: str) -> bytes:
    """Return a drawing of a page as a file of its own, with the page's light colours; `style` is the page's sheet."""
    colours = dict(re.findall(r"(--[a-z]+):([^;}]+)", style.partition("}")[0]))
    rules = "".join(re.findall(r"\.chart [^{}]*\{[^{}]*\}", style))
    css = re.sub(r"var\((--[a-z]+)\)", lambda found: colours[found[1]], rules)
    css = f"svg{{background:#fff;font-family:sans-serif}}{css}"
    _, _, width, height = re.findall(r"[-0-9.]+", drawn.partition('viewBox="')[2].partition('"')[0])
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
    begin, end, rest = drawn.removeprefix("<svg ").partition(">")
    return f"{head}{begin}{end}<style>{css}</style>{rest}\n".encode()


def _left(rows: Sequence[FigureRow]) -> float:
    """Return the width of the rows' names."""
    return 14 + 6.2 * min(max(len(row.name) for row in rows), 40)


def _grid_panel(figure: PaperFigure, rows: Sequence[FigureRow]) -> _Panel:
    (low, high), left, tall = figure.span, _left(rows), 22.0
    wide = (_FIGURE_WIDTH - left - 8) / len(figure.columns)
    inside = Markup()
    for place, column in enumerate(figure.columns):
        x = left + wide * (place + 0.5)
        inside += TEXT.format(kind="tick", x=x, y=_PANEL_TOP, anchor="middle", text=column[: int(wide / 5.5)])
    for number, row in enumerate(rows):
        y = _PANEL_TOP + 6 + tall * number
        inside += TEXT.format(kind="tick", x=left - 6, y=y + 15, anchor="end", text=row.name)
        for place, value in enumerate(row.values):
            if value is None:
                continue
            fill, ink = _shades((value - low) / ((high - low) or 1))
            x, title = left + wide * place, _TITLE.format(f"{row.name}, {figure.columns[place]}: {value:.4g}")
            inside += _RECT.format(x=x, y=y, width=wide - 1, height=tall - 1, fill=fill, inside=title)
            text = '<text x="{:.1f}" y="{:.1f}" text-anchor="middle" style="fill:{}">{}</text>'
            inside += Markup(text).format(x + wide / 2, y + 15, ink, format(value, figure.form))
    return _PANEL_TOP + 6 + tall * len(rows) + _PANEL_END, inside


def _bars_panel(figure: PaperFigure, rows: Sequence[FigureRow]) -> _Panel:
    (low, high), left, thick = figure.span, _left(rows), 12.0

    def x_of(value: float) -> float:
        return left + (_FIGURE_WIDTH - left - 60) * (value - low) / ((high - low) or 1)

    inside, y = _legend_of(figure.columns), _PANEL_TOP + 6
    for row in rows:
        inside += TEXT.format(
            kind="tick", x=left - 6, y=y + thick * len(row.values) / 2 + 4, anchor="end", text=row.name
        )
        for place, (value, interval) in enumerate(zip(row.values, row.intervals, strict=True)):
            if value is not None:
                x, end, fill = x_of(min(value, 0)), x_of(max(value, 0)), PALETTE[place % len(PALETTE)]
                title = _TITLE.format(f"{row.name}, {figure.columns[place]}: {value:.4g}")
                inside += _RECT.format(x=x, y=y, width=max(end - x, 0.5), height=thick - 1, fill=fill, inside=title)
                ends = [x_of(each) for each in interval or ()]
                if ends:
                    inside += LINE.format(kind="axis", x1=ends[0], y1=y + 5.5, x2=ends[1], y2=y + 5.5)
                beside = max([end, *ends]) + 4
                inside += TEXT.format(kind="tick", x=beside, y=y + 9.5, anchor="start", text=format(value, figure.form))
            y += thick
        y += 7
    inside += LINE.format(kind="axis", x1=x_of(0), y1=_PANEL_TOP + 2, x2=x_of(0), y2=y)
    return y + _PANEL_END, inside


def _lines_panel(figure: PaperFigure, rows: Sequence[FigureRow]) -> _Panel:
    right, last = _FIGURE_WIDTH - _left(rows) - 20, max(len(figure.columns) - 1, 1)

    def x_of(place: float) -> float:
        return 46 + (right - 60) * place / last

    ticks = {x_of(place): column for place, column in enumerate(figure.columns)}
    bottom, y_of, inside = _plot(figure, ticks, right)
    for number, row in enumerate(rows):
        colour, dash = PALETTE[number % len(PALETTE)], "none" if number < len(PALETTE) else "5 3"
        dots = [(x_of(place), y_of(value)) for place, value in enumerate(row.values) if value is not None]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in dots)
        places = Markup('stroke-width="2" stroke-dasharray="{}" points="{}"').format(dash, points)
        title = _TITLE.format(row.name)
        inside += _COLOURED.format(tag="polyline", fill="none", stroke=colour, places=places, inside=title)
        inside += _dots(dots, colour, row.name)
        # Beside the plot, as lines may lie upon each other.
        y = _PANEL_TOP + 8 + 15 * number
        inside += _dots([(right + 12, y)], colour, "")
        inside += TEXT.format(kind="tick", x=right + 20, y=y + 4, anchor="start", text=row.name)
    return max(bottom + 28, _PANEL_TOP + 15 * len(rows)) + _PANEL_END, inside


def _points_panel(figure: PaperFigure, rows: Sequence[FigureRow]) -> _Panel:
    known = [(row.name, x, y) for row in rows for x, y in [row.values[:2]] if x is not None and y is not None]
    right, most = _FIGURE_WIDTH - 20, max([1e-9, *(x for _, x, _ in known)]) * 1.05

    def x_of(value: float) -> float:
        return 46 + (right - 60) * value / most

    bottom, y_of, inside = _plot(figure, {x_of(each): f"{each:.2g}" for each in (0, most / 2, most)}, right)
    for name, x, y in known:
        inside += _dots([(x_of(x), y_of(y))], PALETTE[0], f"{name}: {x:.3g}, {y:.4g}")
    axes = f"{figure.columns[1]} (up) by {figure.columns[0]}"
    inside += TEXT.format(kind="tick", x=right / 2, y=bottom + 30, anchor="middle", text=axes)
    return bottom + 36 + _PANEL_END, inside


def _plot(
    figure: PaperFigure, ticks: Mapping[float, str], right: float
) -> tuple[float, Callable[[float], float], Markup]:
    """Return the bottom of a plot's area, the function from values to y, and the plot's axes."""
    (low, high), top, bottom = figure.span, _PANEL_TOP, _PANEL_TOP + 220

    def y_of(value: float) -> float:
        return bottom - (bottom - top) * (value - low) / ((high - low) or 1)

    inside = Markup()
    for value in (low, (low + high) / 2, high):
        inside += LINE.format(kind="grid", x1=40, y1=y_of(value), x2=right, y2=y_of(value))
        inside += TEXT.format(kind="tick", x=36, y=y_of(value) + 4, anchor="end", text=f"{value:.3g}")
    for x, text in ticks.items():
        inside += TEXT.format(kind="tick", x=x, y=bottom + 15, anchor="middle", text=text)
    return bottom, y_of, inside


def _dots(places: Iterable[tuple[float, float]], colour: str, title: str) -> Markup:
    dot = Markup('cx="{:.1f}" cy="{:.1f}" r="4"')
    return Markup().join(
        _COLOURED.format(tag="circle", fill=colour, stroke="none", places=dot.format(x, y), inside=_TITLE.format(title))
        for x, y in places
    )


def _legend_of(names: Sequence[str]) -> Markup:
    """Draw the colours of bars, if there are several, at the right."""
    inside, x = Markup(), _FIGURE_WIDTH - 8
    for place, name in reversed([*enumerate(names)] if len(names) > 1 else []):
        x -= 6.2 * len(name) + 22
        inside += _RECT.format(x=x, y=5, width=10, height=10, fill=PALETTE[place % len(PALETTE)], inside="")
        inside += TEXT.format(kind="tick", x=x + 14, y=14, anchor="start", text=name)
    return inside


_PANELS: Mapping[FigureKind, Callable[[PaperFigure, Sequence[FigureRow]], _Panel]] = {
    "bars": _bars_panel,
    "grid": _grid_panel,
    "lines": _lines_panel,
    "points": _points_panel,
}


Found = Mapping[str, Any]

_PLOT_WIDTH, _PLOT_HEIGHT = 300, 190
_PLOT_LEFT, _PLOT_RIGHT, _PLOT_TOP, _PLOT_BOTTOM = 10, 290, 38, 164
_AXIS = 46
_AREA = Markup('<path class="{kind}" d="{way}"/>')
_SIDES = (("failures", "failed"), ("successes", "done"))


def distributions(each: Found, below: str) -> Markup:
    """Draw the values of one metric: failures upwards, successes downwards, each as shares of its own number.

    Args:
        each: the values of one metric, as `pytest_vla.reports.foretelling` passes them.
        below: a line below the title.
    """
    middle, half = (_PLOT_TOP + _PLOT_BOTTOM) / 2, (_PLOT_BOTTOM - _PLOT_TOP) / 2 - 8
    shares = {name: [count / max(sum(each[name]["counts"]), 1) for count in each[name]["counts"]] for name, _ in _SIDES}
    most = max(max(some) for some in shares.values()) or 1.0
    span = each["high"] - each["low"]
    inside = framed(each["metric"], below)
    told = []
    for (name, kind), sign in zip(_SIDES, (-1, 1), strict=True):
        width, scale = (_PLOT_RIGHT - _PLOT_LEFT) / len(shares[name]), sign * half / most
        bars = [(_PLOT_LEFT + width * place, scale * share) for place, share in enumerate(shares[name]) if share]
        way = "".join(f"M{x:.1f} {middle:.1f}h{width - 0.6:.1f}v{tall:.1f}h{0.6 - width:.1f}z" for x, tall in bars)
        inside += _AREA.format(kind=f"bins {kind}", way=way)
        number, median = sum(each[name]["counts"]), each[name]["median"]
        if median is not None:
            x = _PLOT_LEFT + (_PLOT_RIGHT - _PLOT_LEFT) * min(max((median - each["low"]) / span, 0), 1)
            inside += LINE.format(kind=f"median {kind}", x1=x, y1=middle, x2=x, y2=middle + sign * (half + 5))
        y = middle + sign * (half + 6) + (4 if sign < 0 else 6)
        inside += TEXT.format(kind="tick", x=_PLOT_LEFT, y=y, anchor="start", text=f"{number} {name}")
        told.append(f"{number} {name}, median {NONE if median is None else f'{median:.4g}'}")
    inside += LINE.format(kind="axis", x1=_PLOT_LEFT, y1=middle, x2=_PLOT_RIGHT, y2=middle)
    for value, x, anchor in ((each["low"], _PLOT_LEFT, "start"), (each["high"], _PLOT_RIGHT, "end")):
        inside += TEXT.format(kind="tick", x=x, y=_PLOT_HEIGHT - 6, anchor=anchor, text=f"{value:.3g}")
    said = f"{each['metric']} by outcome, {each['low']:.3g} to {each['high']:.3g}: {'; '.join(told)}"
    return drawing("chart", _PLOT_WIDTH, _PLOT_HEIGHT, said, inside)


def violins(metric: str, groups: Mapping[str, Sequence[float]], failures: str) -> Markup:
    """Draw the values of one metric as violins with medians, a group beside another; of fewer than 3 values, dots.

    Args:
        metric: its name.
        groups: values by group; at least one group has some.
        failures: the group that is drawn as failures.
    """
    values = [value for some in groups.values() for value in some]
    low, high = min(values), max(values)
    span, width = high - low or 1.0, (_PLOT_RIGHT - _PLOT_LEFT) / len(groups)
    inside, told = framed(metric, f"{low:.3g} to {high:.3g}"), []

    def y_of(value: float) -> float:
        return _PLOT_BOTTOM - (_PLOT_BOTTOM - _PLOT_TOP) * (value - low) / span

    for place, (name, some) in enumerate(groups.items()):
        x, kind = _PLOT_LEFT + width * (place + 0.5), "failed" if name == failures else "done"
        inside += TEXT.format(kind="tick", x=x, y=_PLOT_HEIGHT - 6, anchor="middle", text=f"{name} {len(some)}")
        if len(some) < _LEAST_OF_VIOLIN:
            inside += Markup().join(
                _DOT.format(kind=f"end {kind}", x=x, y=y_of(value), r=3, title=f"{value:.4g}") for value in some
            )
        else:
            at, shares = density(some)
            halves = [(y_of(value), 0.45 * width * share) for value, share in zip(at, shares, strict=True)]
            points = [(x - half, y) for y, half in halves] + [(x + half, y) for y, half in reversed(halves)]
            way = "M" + "L".join(f"{across:.1f} {y:.1f}" for across, y in points) + "z"
            inside += _AREA.format(kind=f"bins {kind}", way=way)
        if some:
            y = y_of(float(np.median(some)))
            inside += LINE.format(kind="axis", x1=x - 0.3 * width, y1=y, x2=x + 0.3 * width, y2=y)
            told.append(f"{name} {len(some)}, median {np.median(some):.4g}")
    return drawing("chart", _PLOT_WIDTH, _PLOT_HEIGHT, f"{metric} by group: {'; '.join(told)}", inside)


_LEAST_OF_VIOLIN = 3


def density(values: Sequence[float], points: int = 41) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return places from the least to the largest value, and the density there as a share of the largest density.

    Its kernel is Gaussian, of Scott's width (standard deviation times n^(-1/5)).
    """
    known = np.asarray(values, dtype=np.float64)
    at = np.linspace(known.min(), known.max(), points)
    if not known.std() > 0:
        return at, np.ones(points)
    from scipy.stats import gaussian_kde

    found = gaussian_kde(known)(at)
    return at, found / found.max()


def courses(each: Found) -> Markup | None:
    """Draw one metric over time, medians and the middle half; None if no part has enough episodes."""
    known = [ends for name, _ in _SIDES for ends in each[name]["quartiles"] if ends is not None]
    if not known:
        return None
    low, high = min(ends[0] for ends in known), max(ends[2] for ends in known)
    span = high - low or 1.0
    inside = framed(f"{each['metric']} over time", "")
    for share in (0.0, 1.0):
        y = _PLOT_BOTTOM - (_PLOT_BOTTOM - _PLOT_TOP) * share
        inside += LINE.format(kind="grid", x1=_AXIS, y1=y, x2=_PLOT_RIGHT, y2=y)
        inside += TEXT.format(kind="tick", x=_AXIS - 4, y=y + 4, anchor="end", text=f"{low + span * share:.3g}")
    parts = len(each["failures"]["quartiles"])
    for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        x = _AXIS + (_PLOT_RIGHT - _AXIS) * share
        text = f"{share:.0%}" + " of the steps" * (share == 1)
        inside += TEXT.format(kind="tick", x=x, y=_PLOT_HEIGHT - 6, anchor=anchor, text=text)
    told = []
    for name, kind in _SIDES:
        points = [
            (
                _AXIS + (_PLOT_RIGHT - _AXIS) * (place + 0.5) / parts,
                *(_PLOT_BOTTOM - (_PLOT_BOTTOM - _PLOT_TOP) * (end - low) / span for end in ends),
            )
            for place, ends in enumerate(each[name]["quartiles"])
            if ends is not None
        ]
        if not points:
            continue
        inside += _AREA.format(kind=f"band {kind}", way=_band(points))
        inside += _AREA.format(kind=f"trend {kind}", way=_line([(x, y) for x, _, y, _ in points]))
        medians = [ends[1] for ends in each[name]["quartiles"] if ends is not None]
        told.append(f"{name} from {medians[0]:.3g} to {medians[-1]:.3g}, {100 * len(medians) // parts}% of the time")
    inside += _legend()
    said = f"{each['metric']} over time: {'; '.join(told) or NONE}"
    return drawing("chart", _PLOT_WIDTH, _PLOT_HEIGHT, said, inside)


def budget_drawing(
    title: str,
    below: str,
    points: Sequence[tuple[int, float, tuple[float, float] | None]],
    marks: Mapping[int, str],
) -> Markup:
    """Draw success by step budget, with its interval as a band.

    Args:
        title: of the drawing.
        below: a line below the title.
        points: step budget, success in percent and its interval, by budget.
        marks: texts at some budgets.
    """
    width, last = 480, max([1, *(steps for steps, _, _ in points)])

    def x_of(steps: float) -> float:
        return _LEFT + (width - _LEFT - _RIGHT) * steps / last

    inside = framed(title, below) + _shares(width - _RIGHT)
    ends = [
        (x_of(steps), _y((span or (rate, rate))[1]), 0.0, _y((span or (rate, rate))[0])) for steps, rate, span in points
    ]
    if points:
        inside += _AREA.format(kind="band done", way=_band(ends))
        inside += _AREA.format(kind="trend done", way=_line([(x_of(steps), _y(rate)) for steps, rate, _ in points]))
    for place, (steps, text) in enumerate(marks.items()):
        x = x_of(steps)
        inside += LINE.format(kind="half", x1=x, y1=_y(100), x2=x, y2=_y(0))
        # Budgets may lie close together.
        inside += TEXT.format(kind="mark", x=x - 4, y=_y(8 + 9 * (place % 5)), anchor="end", text=text)
    for steps in (0, last):
        anchor = "end" if steps else "start"
        inside += TEXT.format(kind="tick", x=x_of(steps), y=_HEIGHT - 9, anchor=anchor, text=f"{steps} steps")
    told = "; ".join(f"{rate:.1f}% at {steps}" for steps, rate, _ in points[:: max(1, len(points) // 12)])
    return drawing("chart wide", width, _HEIGHT, f"{title}, {below}: {told}", inside)


def _legend() -> Markup:
    inside = Markup()
    for (name, kind), x in zip(_SIDES, (8, 100), strict=True):
        inside += LINE.format(kind=f"trend {kind}", x1=x, y1=23, x2=x + 22, y2=23)
        inside += TEXT.format(kind="tick", x=x + 26, y=27, anchor="start", text=name)
    return inside


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _band(points: Sequence[tuple[float, ...]]) -> str:
    there = [(x, first) for x, first, _, _ in points]
    back = [(x, third) for x, _, _, third in reversed(points)]
    return f"{_line([*there, *back])}z"


MOST = 50
"""Episodes of a type; tasks take turns."""

SUCCESSES, NEAR, FAR, UNLABELLED = "successes", "near", "far", "no label"
TYPES = (SUCCESSES, NEAR, FAR, UNLABELLED)

_Each = TypeVar("_Each")


@dataclass(frozen=True)
class Way:
    """One path.

    Attributes:
        case: of the episode.
        path: (n, 3), m, in the world's frame.
    """

    case: str
    path: NDArray[np.float64]


@dataclass(frozen=True)
class Overlay:
    """Paths that belong together.

    Attributes:
        title: what was varied.
        ways: by each of `TYPES` that there is, at most `MOST`.
        numbers: of each of them how many there are in all.
    """

    title: str
    ways: Mapping[str, tuple[Way, ...]]
    numbers: Mapping[str, int]


def overlay(title: str, tasks: Sequence[TaskFailures]) -> Overlay:
    """Return the paths for one dimension of variation, or for other words.

    Args:
        title: names it.
        tasks: with failures or without; the successes of those with failures are there.
    """
    found: dict[str, list[list[Way]]] = {}
    for task in tasks:
        if not task.failures:
            continue
        by_type: dict[str, list[Way]] = {SUCCESSES: _ways(task.success_cases, task.success_paths)}
        judgement = task.types.judgement
        levels = [UNLABELLED] * task.failures if judgement is None else judgement.levels["max"]
        for level, way in zip(levels, _ways(task.failure_cases, task.failure_paths), strict=True):
            by_type.setdefault(level, []).append(way)
        for name, ways in by_type.items():
            found.setdefault(name, []).append(ways)
    kept = {name: tuple(chain.from_iterable(found[name])) for name in TYPES if name in found}
    numbers = {name: len(ways) for name, ways in kept.items() if ways}
    return Overlay(title, {name: tuple(_turns(found[name]))[:MOST] for name in numbers}, numbers)


def _ways(cases: Sequence[str], paths: Sequence[NDArray[np.float64]]) -> list[Way]:
    return [Way(case, path) for case, path in zip(cases, paths, strict=True)]


def _turns(some: Iterable[Sequence[_Each]]) -> Iterator[_Each]:
    """Yield the first of each, then the second of each."""
    return (each for turn in zip_longest(*some) for each in turn if each is not None)


POINTS = 24
"""Of a path."""

_SIZE, _PATHS_TOP, _EDGE = 220, 32, 8
_WAY = Markup('<polyline class="{kind}" points="{points}"><title>{title}</title></polyline>')
_PLAIN = Markup('<polyline points="{points}"/>')
_MARK = Markup('<circle class="end {kind}" cx="{x}" cy="{y}" r="2.5"/>')
_KINDS = {SUCCESSES: "done", NEAR: "failed", FAR: "failed", UNLABELLED: "failed"}
_ABOUT = {
    SUCCESSES: "that succeeded",
    NEAR: "near the path of successes",
    FAR: "far from it",
    UNLABELLED: "no label: too few successes",
}


def overlay_blocks(title: str, varied: Mapping[str, Sequence[TaskFailures]]) -> Iterator[Block]:
    """Yield the blocks for a model and suite; none if no failure has a path.

    Args:
        title: names them.
        varied: the tasks, by the name of what was varied.
    """
    some = {name: tasks for name, tasks in varied.items() if any(task.failures for task in tasks)}
    if not some:
        return
    yield Heading(f"{title}: paths by failure type", is_open=False, medium="page")
    yield Sentence(
        "The hand's path from above, of failures by their type, over those of successes of the same tasks in grey: x "
        "to the right and y up, one scale for all of a row; a dot is where it ended. Of a type 50 at most, tasks take "
        "turns.",
        medium="page",
    )
    for name, tasks in some.items():
        yield PageDrawing(partial(_lane, name, tasks))


def _lane(name: str, tasks: Sequence[TaskFailures]) -> Markup:
    return Markup('<div class="lane">{}</div>').format(Markup().join(_drawings(overlay(name, tasks))))


def _drawings(overlay: Overlay) -> list[Markup]:
    everything = np.concatenate([way.path[:, :2] for ways in overlay.ways.values() for way in ways])
    low, high = everything.min(0), everything.max(0)
    span = max(float((high - low).max()), 1e-3)
    corner = (low + high) / 2 - span / 2
    scale = (_SIZE - 2 * _EDGE) / span

    def placed(path: NDArray[np.float64]) -> list[tuple[int, int]]:
        rows = np.unique(np.linspace(0, len(path) - 1, POINTS).round().astype(int))
        points = _EDGE + (path[rows, :2] - corner) * scale
        return [(round(float(x)), round(float(_PATHS_TOP + _SIZE - y))) for x, y in points]

    behind = Markup().join(_PLAIN.format(points=_text(placed(w.path))) for w in overlay.ways.get(SUCCESSES, ()))
    grey = Markup('<g class="behind">{}</g>').format(behind)
    return [
        _panel(overlay, name, [(way, placed(way.path)) for way in ways], Markup() if name == SUCCESSES else grey)
        for name, ways in overlay.ways.items()
    ]


def _panel(overlay: Overlay, name: str, placed: Sequence[tuple[Way, list[tuple[int, int]]]], behind: Markup) -> Markup:
    kind, number = _KINDS[name], overlay.numbers[name]
    of = f"{len(placed)} of {number}" if len(placed) < number else str(number)
    inside = framed(overlay.title, f"{of} {_ABOUT[name]}") + behind
    for way, points in placed:
        x, y = points[-1]
        inside += _WAY.format(kind=f"path {kind}", points=_text(points), title=way.case)
        inside += _MARK.format(kind=kind, x=x, y=y)
    label = f"{overlay.title}: paths of the hand from above, {of} {_ABOUT[name]}"
    return drawing("chart panel", _SIZE, _SIZE + _PATHS_TOP + 4, label, inside)


def _text(points: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
