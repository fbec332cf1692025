"""What a run keeps of being ended by time: whether what ran is a balanced sample of all. Read as what others wrote."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pytest_vla.records.runs import Run
from pytest_vla.util.text import counted, printable

ORDER, BALANCED = "order", "balanced"
"""Of an invocation: the key that says in which order its episodes run from its first on, and its value."""

SAMPLE = "sample"
"""Of an invocation that time has ended: the fields of a `Sample`."""

FEWEST, FEWEST_A_WORKER = 40, 4
"""Episodes, in all and of each worker, that are called a balanced sample. Of fewer in all the rate is off by about a
point or more, since runs in which many fail have fewer (simulated at b9989a3). Of each worker two nearly do
there."""

_LONGEST, _MOST = 80, 1e12


@dataclass(frozen=True)
class Sample:
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


def sample_table(sample: Sample) -> dict[str, Any]:
    """As JSON has it."""
    return asdict(sample)


def sample_of(run: Run) -> Sample | None:
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
    return Sample(shown, run.done, run.planned, balanced, int(tasks), int(strata), share, off, int(workers))


def _is_number(value: Any) -> bool:
    # JSON's true is a number to Python.
    return type(value) in (int, float) and 0 <= value < _MOST
