"""What is known of a run: one invocation of pytest with episodes, and those that resumed it."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_vla.records.counting import Repeats
from pytest_vla.util.text import counted, printable


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


# What results are called: the folder, the newest run, all runs.

DEFAULT_RESULTS = ".vla"

LAST_RUN = "last"
"""In the place of a run's name: the run that began last."""

ALL_RUNS = "all"
"""In the place of a run's name: every run of the results folder."""


# What a run keeps of being ended by time: whether what ran is a balanced sample of all. Read as what others wrote.

ORDER, BALANCED = "order", "balanced"
"""Of an invocation: the key that says in which order its episodes run from its first on, and its value."""

SAMPLE = "sample"
"""Of an invocation that time has ended: the fields of a `TimeLimitSample`."""

FEWEST, FEWEST_A_WORKER = 40, 4
"""Episodes, in all and of each worker, that are called a balanced sample. Of fewer in all the rate is off by about a
point or more, since runs in which many fail have fewer (simulated at b9989a3). Of each worker two nearly do
there."""

_LONGEST, _MOST = 80, 1e12


@dataclass(frozen=True)
class TimeLimitSample:
    """What ran of a run when time was up.

    Attributes:
        by: the option that ended it, as it could be typed.
        done, planned: episodes.
        balanced: whether all that ran was run in the balanced order: else it is what came first.
        tasks, strata: how many tasks there are, and how many tasks under one kind of variation.
        share: of their episodes that ran.
        off: episodes that the stratum with the worst share has more or less than its share.
        workers: processes that ran episodes when time was up.
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
        """Whether these are too few for what time does at its end to be lost among them."""
        return self.done < max(FEWEST, FEWEST_A_WORKER * self.workers)

    @property
    def stands_for_all(self) -> bool:
        """Whether it is a balanced sample of all, and large enough to be called so."""
        return self.balanced and not self.is_few

    @property
    def few_text(self) -> str:
        """``few for 8 workers``."""
        return f"few for {counted(self.workers, 'worker')}"

    @property
    def text(self) -> str:
        """In a few words."""
        if not self.balanced:
            return f"stopped by time ({self.by}): {self.done} of {counted(self.planned, 'episode')}, no balanced sample"
        if self.is_few:
            return f"stopped by time ({self.by}): {self.done} of {counted(self.planned, 'episode')}, {self.few_text}"
        return f"stopped by time ({self.by}): a balanced sample of {self.done} of {counted(self.planned, 'episode')}"


def sample_table(sample: TimeLimitSample) -> dict[str, Any]:
    """As JSON has it."""
    return asdict(sample)


def sample_of(run: Run) -> TimeLimitSample | None:
    """What time left of a run; None: it was not ended by time, has gone on since, or says nothing that can be read."""
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
