"""Where success was lost against a baseline: the worst tasks, and flipped cases with the commands that replay them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pytest_vla.gate.losses import Flip, TaskChange
from pytest_vla.gate.verdicts import Judgement
from pytest_vla.reports.text import aligned, wrapped
from pytest_vla.util.text import counted, printable

Replay = Callable[[Flip], str]
"""The command that runs a case alone; empty: none is known."""


class Shown(NamedTuple):
    """How many are shown at most: of tasks that lost, and of cases that flipped."""

    tasks: int
    cases: int


SHORT, LONG = Shown(3, 3), Shown(10, 20)
"""On a terminal; with ``-v``, and in a summary."""


def no_replay(flip: Flip) -> str:
    """Where no run is known that had the case."""
    return ""


def loss_lines(judgement: Judgement, replay: Replay, shown: Shown) -> Iterator[str]:
    """The worst tasks in a table, and a line for each case that flipped, the lost ones first."""
    worst, more = _worst(judgement, shown)
    if worst:
        yield from aligned([_HEAD, *map(_row, worst)], 2)
    if more:
        yield f"{more} more lost ({_where(shown)})"
    flips = judgement.flips
    if not flips:
        return
    yield from wrapped(f"{_flipped_text(flips)}; each alone:")
    # No line of these is broken: they are to be typed.
    yield from (f"  {_way(flip):6}  {replay(flip) or flip.case}" for flip in flips[: shown.cases])
    if rest := flips[shown.cases :]:
        yield f"  and {_flipped_text(rest, ' more')} ({_where(shown)})"


def loss_markdown(judgement: Judgement, replay: Replay, escaped: Callable[[str], str]) -> Iterator[str]:
    """The same for a job's summary.

    Args:
        judgement: of the run.
        replay: the command of a case.
        escaped: text that Markdown shows as it is.
    """
    worst, more = _worst(judgement, LONG)
    if worst:
        yield from ("", "#### Worst tasks", "")
        for row in (_HEAD, ["---"] * len(_HEAD), *map(_row, worst)):
            yield f"| {' | '.join(map(escaped, row))} |"
    if more:
        yield from ("", f"{more} more lost.")
    flips = judgement.flips
    if not flips:
        return
    yield from ("", "#### Flipped cases", "", f"{_flipped_text(flips)}. Each alone:", "")
    lines = []
    for flip in flips[: LONG.cases]:
        command = replay(flip)
        lines += [f"# {_way(flip)} {flip.case}", *([command] if command else [])]
    texts = [printable(line) for line in lines]
    fence = "```"
    while any(fence in text for text in texts):
        fence += "`"
    yield from (f"{fence}bash", *texts, fence)
    if rest := flips[LONG.cases :]:
        yield from ("", f"And {_flipped_text(rest, ' more')}.")


def loss_table(judgement: Judgement, replay: Replay) -> dict[str, Any]:
    """For JSON: all tasks that lost, and all cases that flipped."""
    return {
        "worst_tasks": [
            {"group": each.group, "task": each.task, "baseline": list(each.baseline), "run": list(each.new)}
            for each in judgement.tasks
            if each.lost > 0
        ],
        "flipped": [
            {"group": flip.group, "case": flip.case, "way": _way(flip), "command": replay(flip) or None}
            for flip in judgement.flips
        ],
    }


_HEAD = ("worst tasks", "group", "baseline", "run", "points")


def _worst(judgement: Judgement, shown: Shown) -> tuple[Sequence[TaskChange], str]:
    """Those that are shown, and how many more lost, such as ``2 tasks``; empty: none."""
    lost = [change for change in judgement.tasks if change.lost > 0]
    more = len(lost) - shown.tasks
    return lost[: shown.tasks], counted(more, "task") if more > 0 else ""


def _row(change: TaskChange) -> tuple[str, ...]:
    (before, of), (now, n) = change.baseline, change.new
    return change.task, change.group, f"{before}/{of}", f"{now}/{n}", f"{(now / n - before / of) * 100:+.1f}"


def _where(shown: Shown) -> str:
    return "-v has more" if shown == SHORT else "pytest-vla gate --json has all"


def _way(flip: Flip) -> str:
    return "lost" if flip.is_lost else "gained"


def _flipped_text(flips: Sequence[Flip], more: str = "") -> str:
    """``6 cases lost, 1 gained``, or ``6 cases more lost, 1 gained``."""
    lost = sum(flip.is_lost for flip in flips)
    gained = len(flips) - lost
    if not lost:
        return f"{counted(gained, 'case')}{more} gained"
    return f"{counted(lost, 'case')}{more} lost" + (f", {gained} gained" if gained else "")
