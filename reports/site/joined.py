"""Which runs of a trend a line joins, and of the others why not: by the gate's own table of conditions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_vla.gate.conditions import CONDITIONS, row_of
from pytest_vla.reports.runs import FEW_BY_TIME, STOPPED_BY_TIME
from pytest_vla.reports.site.conditions import DRAWN, SEVERAL
from pytest_vla.reports.site.entries import Entry, Result
from pytest_vla.util.text import counted

_LONGEST = 80
_SHOWN = 3


class Point(NamedTuple):
    """A run in a trend."""

    entry: Entry
    result: Result


@dataclass(frozen=True)
class Joined:
    """A run on a line, and how it follows on what came before.

    Attributes:
        point: the run.
        before: name of the run that it is not joined to; empty: it is joined, is the first, or stands alone.
        why: it is not; empty: it is joined, or the first.
        is_break: whether a line ends before it.
    """

    point: Point
    before: str = ""
    why: str = ""
    is_break: bool = False

    @property
    def is_hollow(self) -> bool:
        """Whether it is of a part of the tasks or of the episodes."""
        return self.point.entry.is_cut_short or not self.point.result.is_whole

    @property
    def text(self) -> str:
        """``B is not joined to A: 10 tasks before, 1 here``; empty: there is nothing to say."""
        name = self.point.entry.name
        to = f" to {self.before}" if self.before else ""
        return f"{name} is not joined{to}: {self.why}" if self.why else ""


def lines_of(points: Sequence[Point]) -> list[list[Joined]]:
    """The lines of a model in a suite: each of runs that are joined; those of whole runs first.

    Runs of all tasks follow each other, whatever parts ran between them; runs of a part follow those of the same part.

    Args:
        points: of a model, the oldest first.
    """
    alone: list[list[Joined]] = []
    lanes: dict[str, list[list[Joined]]] = {"": []}
    last: Point | None = None
    for point in points:
        if point.entry.is_cut_short:
            alone.append([Joined(point, why=_cut_short(point.entry))])
            continue
        lane = lanes.setdefault("" if point.result.is_whole else point.result.selection, [])
        joined = Joined(point)
        before = lane[-1][-1].point if lane else last
        if before is not None and (why := difference(before.result, point.result)):
            joined = replace(joined, before=before.entry.name, why=why, is_break=bool(lane))
        if lane and not joined.why:
            lane[-1].append(joined)
        else:
            lane.append([joined])
        last = point
    return [line for lane in lanes.values() for line in lane] + alone


def difference(before: Result, here: Result) -> str:
    """Why two results of a model and suite cannot be joined; empty: they can be."""
    if before.selection != here.selection:
        if before.tasks != here.tasks:
            return f"{counted(before.tasks, 'task')} before, {here.tasks} here"
        if before.variations != here.variations:
            return f"{counted(before.variations, 'variation')} before, {here.variations} here"
        return "other tasks, or other variations of them"
    told = [*_differing(before, here)]
    more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return "; ".join(told[:_SHOWN]) + more


def _differing(before: Result, here: Result) -> Iterator[str]:
    rows = [row.name for row in CONDITIONS]
    names = [name for name in {*before.conditions, *here.conditions} if row_of(name).effect == "refuses"]
    for name in sorted(names, key=lambda name: (rows.index(row_of(name).name), name)):
        row, values = row_of(name), [side.conditions.get(name) for side in (before, here)]
        unknown = row.must_be_known and None in values
        if values[0] == values[1] or DRAWN in values or unknown:
            continue
        if any(value is not None and value.startswith(SEVERAL) for value in values):
            yield f"{row.about} ({name}): another of some tasks: {row.why}"
        else:
            yield f"{row.about} ({name}): {_shown(values[0])} before, {_shown(values[1])} here: {row.why}"


def _shown(value: str | None) -> str:
    if value is None:
        return "not said"
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."


def _cut_short(entry: Entry) -> str:
    told = f"{entry.done} of {counted(entry.planned, 'episode')}"
    if entry.decided:
        return f"{told}: a sequential gate skipped the others, and its rate is off"
    if entry.status == STOPPED_BY_TIME:
        return f"{told}, a balanced sample of them, as time ended it"
    if entry.status == FEW_BY_TIME:
        return f"{told}, few for its workers, as time ended it"
    return f"{told}: what ran first is no sample of the rest"
