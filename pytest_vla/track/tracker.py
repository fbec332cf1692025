"""What a tracker of experiments is told of a run, and what it has to have: what `TrackerEntry.load` begins."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

PROJECT = "pytest-vla"
"""The experiment or project of a run, where the tracker's own settings name none."""


@dataclass(frozen=True)
class TrackedRun:
    """A run that begins, or is gone on with.

    Attributes:
        name: of the run; no other has it.
        folder: of the run; it is made when it is needed.
        texts: what the run is: its policy, suites and options, by name.
        kept: what `Tracker.kept` was when the run began; empty: nobody has tracked it before.
    """

    name: str
    folder: Path
    texts: Mapping[str, str]
    kept: str = ""


@dataclass(frozen=True)
class Point:
    """An episode that has ended.

    Attributes:
        step: 1 for the first episode of the run that ends, and so on; a run that is gone on with counts on.
        numbers: of the episode, and of the run so far; all are finite. A ``/`` parts a name's levels.
        texts: which episode, and how it ended.
    """

    step: int
    numbers: Mapping[str, float]
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Ending:
    """How a run has ended.

    Attributes:
        finished: whether all has run that was planned.
        numbers: of the whole run, as in `Point`.
        texts: the verdict, and where the records are.
        files: that go with the run; they are gone when `Tracker.end` has returned.
    """

    finished: bool
    numbers: Mapping[str, float]
    texts: Mapping[str, str]
    files: tuple[Path, ...] = ()


class Tracker(Protocol):
    """One run in a tracker. Whatever a method raises is told once, and changes nothing of the run."""

    @property
    def kept(self) -> str:
        """What finds the run again, where it is gone on with; such as the tracker's own id of it."""

    @property
    def place(self) -> str:
        """Where people look at it: an address, a command or a folder, without passwords."""

    def about(self, texts: Mapping[str, str]) -> None:
        """Further texts of what the run is, by name: what was known when its first episode had ended."""

    def episode(self, point: Point) -> None:
        """An episode has ended."""

    def end(self, ending: Ending) -> None:
        """The run has ended, for now."""


def without_password(text: str) -> str:
    """A text whose addresses have no names and passwords in them."""
    return re.sub(r"(?<=://)[^/\s@]*@", "", text)
