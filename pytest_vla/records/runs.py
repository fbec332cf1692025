"""What is known of a run: one invocation of pytest with episodes, and those that resumed it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla.records.counting import Repeats


@dataclass(frozen=True)
class Count:
    """How many items of a run ended in one way.

    Attributes:
        suite: name.
        of_suite: whether they are suites' own items, and not tests of the user's.
        varied: whether their tasks are varied.
        is_probe, is_given: as of a `Record`.
        outcome, reason: see `Record`.
        episodes: how many.
    """

    suite: str
    of_suite: bool
    varied: bool
    is_probe: bool
    is_given: bool
    outcome: str
    reason: str | None
    episodes: int

    @property
    def variation(self) -> Mapping[str, bool]:
        """Empty where `Record.variation` is."""
        return {"probe": self.is_probe} if self.varied else {}

    @property
    def in_no_rate(self) -> bool:
        """Whether they are probes, or given."""
        return self.is_probe or self.is_given


@dataclass(frozen=True)
class Run:
    """One invocation of pytest with episodes, and those that resumed it.

    Attributes:
        name: of the run, and of its folder of trajectories.
        started: when it began, UTC, ISO 8601.
        ended: when it ended; None: it has not, or was killed.
        status: ``running`` (or killed, see `is_alive`), ``finished`` or ``stopped``.
        command: the command line, for people.
        model: the ``--vla-model`` text.
        invocation: what a resume needs, as JSON has it.
        host: the machine of the process that writes, or wrote last.
        pid: that process.
        process: tells it from later ones of the same number; None where the system does not say.
        planned: how many of its items run an episode.
        picked: the option by which it ran what earlier runs had picked for it by their outcomes, such as ``--lf``;
            None: it did not.
        counts: the episode that counts of each item that has one, by outcome.
        repeats: its complete episodes that do not count.
        decided: how many items have no episode since a sequential gate had decided their group.
        copies: unvaried episodes that have the digest of another of their task, and may be no further observation.
    """

    name: str
    started: str
    ended: str | None
    status: str
    command: str
    model: str
    invocation: Mapping[str, Any]
    host: str
    pid: int
    process: str | None
    planned: int
    picked: str | None
    counts: tuple[Count, ...]
    repeats: Repeats
    decided: int = 0
    copies: int = 0

    @property
    def done(self) -> int:
        """How many items have an episode, whatever its outcome."""
        return sum(count.episodes for count in self.counts)

    @property
    def is_unfinished(self) -> bool:
        """Whether something is left of what was planned, and was not decided before."""
        return self.done + self.decided < self.planned


def is_alive(run: Run) -> bool | None:
    """Whether the process that writes the run is there; None where nobody can tell: on another machine."""
    if run.status != "running":
        return False
    host, _, known = this_process()
    if run.host != host or known is None:
        return None
    return run.process is not None and _process(run.pid) == run.process


def this_process() -> tuple[str, int, str | None]:
    import platform

    return platform.node(), os.getpid(), _process(os.getpid())


def _process(pid: int) -> str | None:
    """What tells a process from later ones of the same number, such as its start; None: it is not there."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # State and start of proc(5). A zombie is dead, and nobody has asked for it yet.
    return None if fields[0] in "ZX" else fields[19]
