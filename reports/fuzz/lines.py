"""What a search has found, in words."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.fuzz.found import Searched
from pytest_vla.fuzz.told import aside_lines, failure_line, rate_text
from pytest_vla.util.text import counted


@dataclass(frozen=True)
class Ended:
    """How a search ended.

    Attributes:
        name: of the search.
        episodes: that it ran.
        written: cases in its file.
        stopped: whether somebody stopped it.
        is_done: whether all was done that it was to do.
    """

    name: str
    episodes: int
    written: int
    stopped: bool
    is_done: bool


def search_lines(
    searched: Mapping[str, Searched], ended: Ended, output: Path, again: str, rival: str = ""
) -> Iterator[str]:
    """What was found of all tasks, and what to do with it.

    Args:
        searched: by task.
        ended: how the search did.
        output: the file of cases.
        again: the command that runs these.
        rival: the policy that is compared; empty: none is.
    """
    for task, seen in searched.items():
        yield from task_lines(task, seen, rival)
    yield counted(ended.episodes, "episode")
    if ended.stopped or not ended.is_done:
        pending = sum(seen.pending for seen in searched.values())
        rest = f"; {counted(pending, 'failure')} not made smaller yet" * bool(pending)
        what = "stopped" if ended.stopped else "its time is over"
        yield f"{what}: what was found until then is here{rest}; `pytest-vla fuzz --resume={ended.name}` goes on"
    if ended.written:
        them = "it" if ended.written == 1 else "them"
        yield f"{output}: {counted(ended.written, 'case')}: `{again}` runs {them}"
    else:
        there = f"; {output} was there before, and is of another search" * output.exists()
        yield f"nothing was found that fails under all its run seeds, and no file was written{there}"


def task_lines(name: str, seen: Searched, rival: str = "") -> Iterator[str]:
    """What was found of a task.

    Args:
        name: of the task.
        seen: of its search.
        rival: the policy that is compared; empty: none is.
    """
    if seen.proposed or seen.guided:
        yield f"{name}: {rate_text(seen)}"
    else:
        yield f"{name}: no scene was tried"
    yield from (f"  {line}" for line in aside_lines(seen))
    yield from (f"  {failure_line(each, rival)}" for each in seen.found)
