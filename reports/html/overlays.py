"""The hand's paths of failures by type, seen from above, over those of successes: one small drawing a type."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from typing import TypeVar

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from pytest_vla.metrics.language_paths import TaskFailures
from pytest_vla.reports.blocks import Block, Heading, PageDrawing, Sentence
from pytest_vla.reports.html.svg import drawing, framed

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
