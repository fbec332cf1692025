"""A search told again from its lines: where it was, what matters, what each source gave, and when failures were found.

Lines are read one by one and none is kept, but for even scenes before which another one has no answer yet.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np

from pytest_vla.fuzz.coverage import Coverage, Tally
from pytest_vla.fuzz.found import Searched
from pytest_vla.fuzz.guide import EVEN, SOURCES, Tried
from pytest_vla.fuzz.journal import Line
from pytest_vla.fuzz.propose import fuzzed_kinds
from pytest_vla.fuzz.shares import Counted, Shares, changed, shares_of
from pytest_vla.plan.task import Task


@dataclass(frozen=True)
class Told:
    """The search of a task.

    Attributes:
        coverage: of all scenes that were tried.
        shares: of those that were drawn evenly.
        sources: by source, the scenes that it gave.
        seconds: that scenes took, of all workers together.
    """

    coverage: Coverage
    shares: Shares
    sources: Mapping[str, Tally]
    seconds: float


@dataclass(frozen=True)
class Retold:
    """A whole search.

    Attributes:
        tasks: by id.
        growth: episodes that were run, and how many distinct failures were known by then, of all tasks; a pair for each
            failure, and the end.
    """

    tasks: Mapping[str, Told]
    growth: tuple[tuple[int, int], ...]


@dataclass
class _OfTask:
    """What is counted of a task's lines, as they come."""

    coverage: Coverage
    counted: Counted
    step: int
    sources: dict[str, Tally] = field(default_factory=dict)
    seconds: float = 0.0
    waiting: dict[int, Tried] = field(default_factory=dict)
    next_even: int = 0

    def count(self, tried: Tried) -> None:
        proposal = tried.proposal
        self.coverage.count(proposal.candidate, proposal.source, tried.outcome)
        self.sources.setdefault(proposal.source, Tally()).count(tried.outcome)
        self.seconds += tried.seconds
        if proposal.source == EVEN:
            self.waiting[proposal.number] = tried
            for each in self._answered():
                if each.outcome != "aside":
                    there = changed(each.proposal.candidate, self.coverage.spaces)
                    self.counted.count(there, each.outcome == "fails")

    def _answered(self) -> Iterator[Tried]:
        """Even scenes before which all have an answer: what takes long fails more often, and comes late."""
        while self.next_even in self.waiting:
            yield self.waiting.pop(self.next_even)
            self.next_even += self.step


def retell(
    lines: Iterable[Line], seen: Mapping[str, Searched], tasks: Sequence[Task], dimensions: Sequence[str], guided: bool
) -> Retold:
    """Tell a search again.

    Args:
        lines: all that came of its jobs, in order.
        seen: of it, by the ids of tasks.
        tasks: that were searched.
        dimensions: to which the search was narrowed; none: all.
        guided: whether other than even scenes were proposed.
    """
    step = len(SOURCES) if guided else 1
    of_tasks: dict[str, _OfTask] = {}
    for task in tasks:
        coverage = Coverage({kind.name: kind.space(task) for kind in fuzzed_kinds(task, dimensions)})
        of_tasks[task.id] = _OfTask(coverage, Counted(coverage.dimensions), step)
    distinct = {name: {found.number for found in each.found} for name, each in seen.items()}
    growth, episodes = [(0, 0)], 0
    for line in lines:
        episodes = line.episodes
        if isinstance(line.result, Tried):
            of_tasks[line.task].count(line.result)
        elif line.job.what == "failure" and line.job.proposal.number in distinct.get(line.task, ()):
            growth.append((episodes, growth[-1][1] + 1))
    growth.append((episodes, growth[-1][1]))
    told = {name: _told(name, each) for name, each in of_tasks.items()}
    return Retold(told, tuple(growth))


def _told(name: str, of: _OfTask) -> Told:
    # Equal searches are told alike.
    generator = np.random.default_rng(Random(name).getrandbits(64))
    return Told(of.coverage, shares_of(of.counted, generator), of.sources, of.seconds)
