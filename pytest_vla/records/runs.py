"""Runs: one invocation of pytest with episodes, and those that resumed it; and samples that a time limit left."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_vla.records.counting import Repeats
from pytest_vla.util.text import counted, printable


@dataclass(frozen=True)
class Count:
    """The number of a run's items with one outcome.

    Attributes:
        suite: the suite's name.
        of_suite: whether they are suites' own items, and not tests of the user's.
        varied: whether their tasks are varied.
        is_probe: `Record.is_probe`.
        is_given: `Record.is_given`.
        outcome: `Record.outcome`.
        reason: `Record.reason`.
        episodes: the number of items.
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
        """A stand-in for `Record.variation`, empty if that is empty."""
        return {"probe": self.is_probe} if self.varied else {}

    @property
    def in_no_rate(self) -> bool:
        """Whether they are excluded from rates, as probes or as given cases."""
        return self.is_probe or self.is_given


@dataclass(frozen=True)
class Run:
    """One invocation of pytest with episodes, and those that resumed it.

    Attributes:
        name: the name of the run, and of its folder of trajectories.
        started: the start time, UTC, ISO 8601.
        ended: the end time, or None if the run has not ended or was killed.
        status: ``running`` (or killed, see `is_alive`), ``finished`` or ``stopped``.
        command: the command line, for people.
        model: the ``--vla-model`` text.
        invocation: the data that a resume needs, in JSON form.
        host: the machine of the process that writes, or wrote last.
        pid: the id of that process.
        process: distinguishes it from later processes with the same id; None if the system does not provide it.
        planned: the number of items with an episode.
        picked: what selected items by the outcomes of earlier runs, ``--lf``, ``--sw`` or ``replay.txt``, or None.
        counts: the numbers of items by the outcome of the episode that counts.
        repeats: the complete episodes that do not count.
        decided: the number of items without an episode because a sequential gate had decided their group.
        copies: the number of unvaried episodes with the digest of another of their task, which may add no observation.
        policies: the number of versions of the policy, by digest, that its complete episodes are from.
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
    policies: int = 0

    @property
    def done(self) -> int:
        """The number of items with an episode, of any outcome."""
        return sum(count.episodes for count in self.counts)

    @property
    def is_unfinished(self) -> bool:
        """Whether some planned items have no episode, apart from those that a gate decided."""
        return self.done + self.decided < self.planned


def running_file(folder: Path) -> Path:
    """Return the file beside a run's folder that names the episode of pytest's own process, only while that runs."""
    return folder.with_name(f"{folder.name}.running")


def is_alive(run: Run) -> bool | None:
    """Return whether the process that writes the run exists, or None if that is unknown, as on another machine."""
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
    """Return what distinguishes a process from later ones with its id, or None if it does not exist."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    # State and start of proc(5). A zombie is dead, and nobody has asked for it yet.
    return None if fields[0] in "ZX" else fields[19]


# Runs that a time limit ended, and whether their episodes are a balanced sample. The stored fields are untrusted.

ORDER, BALANCED = "order", "balanced"
"""The key of an invocation for the order of its episodes, and its value."""

SAMPLE = "sample"
"""The key of an invocation that a time limit ended, for the fields of a `TimeLimitSample`."""

FEWEST, FEWEST_A_WORKER = 40, 4
"""Episodes, in all and of each worker, that are called a balanced sample. Of fewer in all the rate is off by about a
point or more, since runs in which many fail have fewer (simulated at b9989a3). Of each worker two nearly do
there."""

_LONGEST, _MOST = 80, 1e12


@dataclass(frozen=True)
class TimeLimitSample:
    """The part of a run that was done when a time limit ended it.

    Attributes:
        by: the option that ended it, as typed on the command line.
        done: episodes that ran.
        planned: episodes that were planned.
        balanced: whether all of them ran in the balanced order; if not, they are the first ones of the selection.
        tasks: the number of tasks.
        strata: the number of pairs of task and kind of variation.
        share: the share of their episodes that ran.
        off: the largest difference, in episodes, of a stratum from its share.
        workers: the number of processes that ran episodes when time was up.
    """

    by: str
    done: int
    planned: int
    balanced: bool
    tasks: int
    strata: int
    share: float
    off: float
    workers: int

    @property
    def is_few(self) -> bool:
        """Whether there are too few episodes for the bias of the time limit to be negligible."""
        return self.done < max(FEWEST, FEWEST_A_WORKER * self.workers)

    @property
    def stands_for_all(self) -> bool:
        """Whether it is a balanced sample of all episodes, and large enough to be called so."""
        return self.balanced and not self.is_few

    @property
    def few_text(self) -> str:
        """A text such as ``few for 8 workers``."""
        return f"few for {counted(self.workers, 'worker')}"

    @property
    def text(self) -> str:
        """A short description of the sample."""
        if not self.balanced:
            return (
                f"stopped by time ({self.by}): {self.done} of {counted(self.planned, 'episode')}, not a balanced sample"
            )
        if self.is_few:
            return f"stopped by time ({self.by}): {self.done} of {counted(self.planned, 'episode')}, {self.few_text}"
        return f"stopped by time ({self.by}): a balanced sample of {self.done} of {counted(self.planned, 'episode')}"


def sample_table(sample: TimeLimitSample) -> dict[str, Any]:
    """Return the sample in JSON form."""
    return asdict(sample)


def sample_of(run: Run) -> TimeLimitSample | None:
    """Return the sample that a time limit left, or None if no limit ended the run or it continued since.

    None, too, if the invocation's entry is invalid.
    """
    found = run.invocation.get(SAMPLE)
    if run.status != "stopped" or not run.is_unfinished or not isinstance(found, Mapping):
        return None
    by, balanced = found.get("by"), found.get("balanced")
    numbers = [found.get(name) for name in ("tasks", "strata", "share", "off", "workers")]
    if not isinstance(by, str) or not isinstance(balanced, bool) or not all(map(_is_number, numbers)):
        return None
    tasks, strata, share, off, workers = (float(str(number)) for number in numbers)
    shown = printable(by)[:_LONGEST]
    return TimeLimitSample(shown, run.done, run.planned, balanced, int(tasks), int(strata), share, off, int(workers))


def _is_number(value: Any) -> bool:
    # JSON's true is a number to Python.
    return type(value) in (int, float) and 0 <= value < _MOST
