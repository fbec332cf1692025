"""Paths of failures by type, seen from above, each over those of the successes: one small drawing a type."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pytest_vla.reports.html.parts import Block
from pytest_vla.reports.html.svg import drawing, framed
from pytest_vla.reports.overlays import FAR, NEAR, SUCCESSES, UNLABELLED, Overlay, Way

POINTS = 24
"""Of a path."""

_SIZE, _TOP, _EDGE = 220, 32, 8
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


def overlays_block(title: str, overlays: Sequence[Overlay]) -> Block | None:
    """Of a model and suite; None: nothing failed that has a path.

    Args:
        title: names them.
        overlays: of what was varied, one each.
    """
    row = Markup('<div class="lane">{}</div>')
    drawings = tuple(row.format(Markup().join(_drawings(each))) for each in overlays if each.ways)
    if not drawings:
        return None
    told = (
        "The hand's path from above, of failures by their type, over those of successes of the same tasks in grey: x "
        "to the right and y up, one scale for all of a row; a dot is where it ended. Of a type 50 at most, tasks take "
        "turns.",
    )
    return Block(f"{title}: paths by failure type", told, drawings, is_open=False)


def _drawings(overlay: Overlay) -> list[Markup]:
    everything = np.concatenate([way.path[:, :2] for ways in overlay.ways.values() for way in ways])
    low, high = everything.min(0), everything.max(0)
    span = max(float((high - low).max()), 1e-3)
    corner = (low + high) / 2 - span / 2
    scale = (_SIZE - 2 * _EDGE) / span

    def placed(path: NDArray[np.float64]) -> list[tuple[int, int]]:
        rows = np.unique(np.linspace(0, len(path) - 1, POINTS).round().astype(int))
        points = _EDGE + (path[rows, :2] - corner) * scale
        return [(round(float(x)), round(float(_TOP + _SIZE - y))) for x, y in points]

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
    return drawing("chart panel", _SIZE, _SIZE + _TOP + 4, label, inside)


def _text(points: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{x},{y}" for x, y in points)
