"""Drawings of a search: dimensions by dimensions, amounts in bins, and how many failures were known by when."""

from collections.abc import Sequence
from itertools import pairwise

from markupsafe import Markup

from pytest_vla.fuzz.coverage import Axis, Both, Coverage, Tally
from pytest_vla.reports.html.svg import LINE, TEXT, drawing, framed, shade

NOBODY = "none"
"""Stands where no scene was tried."""

HEAT = (
    "Of scenes that change two dimensions at once it says failed / tried; on the diagonal of all that change the one. "
    f"Darker: of those that were drawn evenly more fail; without colour: none told something; {NOBODY}: nobody tried."
)
"""What is to be said of `heat_map` once."""

LEGEND = Markup(
    '<ul class="legend"><li><span class="swatch done"></span>the policy does it</li>'
    '<li><span class="swatch failed"></span>it fails</li>'
    '<li><span class="swatch aside"></span>aside, nothing is learned</li>'
    "<li>up: drawn evenly; down: guided</li><li>dashed: the least that was seen to fail</li></ul>"
)

_HEAT = Markup(
    '<div class="scroll" tabindex="0" role="region" aria-label="{0}"><table class="heat"><caption>{0}</caption>'
    '<thead><tr><th scope="col">changed at once</th>{1}</tr></thead><tbody>{2}</tbody></table></div>'
)
_BAR = Markup('<rect class="bins {kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>')

_WIDTH, _HEIGHT = 300, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 8, 36, 24


def heat_map(caption: str, coverage: Coverage) -> Markup:
    """A table of dimensions by dimensions; in each cell how many of its scenes fail, of how many that were tried."""
    names = coverage.dimensions
    head = Markup().join(Markup('<th scope="col">{}</th>').format(name) for name in names)
    rows = Markup().join(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            row,
            Markup().join(
                _heat_cell(row, column, coverage.pairs[column, row])
                if names.index(column) <= at
                else Markup("<td></td>")
                for column in names
            ),
        )
        for at, row in enumerate(names)
    )
    return _HEAT.format(caption, head, rows)


def histogram(kind: str, axis: Axis, bins: Sequence[Both], marks: Sequence[float] = ()) -> Markup:
    """How many scenes were tried with how much of a kind: above the line drawn evenly, below it guided.

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
    return drawing("chart", _WIDTH, _HEIGHT, f"{kind}, {axis.name}{unit}: {told or 'nobody tried'}", inside)


def growth_curve(points: Sequence[tuple[int, int]]) -> Markup:
    """How many distinct failures were known after so many episodes."""
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
    """``-75 to -60``; of whole numbers the one that the bin is of."""
    low, high = axis.edges[place : place + 2]
    return f"{(low + high) / 2:g}" if axis.is_whole else f"{low:g} to {high:g}"


def tally_text(tally: Tally) -> str:
    """``3 of 40 fail, 2 aside``."""
    aside = f", {tally.aside} aside" * bool(tally.aside)
    return f"{tally.failed} of {tally.counted} fail{aside}"


def _heat_cell(row: str, column: str, both: Both) -> Markup:
    if not both.tried:
        return Markup('<td title="{}">{}</td>').format(f"{_both(row, column)}: nobody tried", NOBODY)
    told = f"{_both(row, column)}: drawn evenly {tally_text(both.even)}; guided {tally_text(both.guided)}"
    style = shade(both.even.failed / both.even.counted) if both.even.counted else Markup()
    return Markup('<td style="{}" title="{}">{}/{}</td>').format(style, told, both.failed, both.tried)


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
