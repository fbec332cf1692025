"""The search of one task: even proposals, of each failure the smallest, how often it fails, and the rate of all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from pytest_vla.fuzz.amounts import distance, side
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.propose import propose
from pytest_vla.fuzz.shrink import MOST_EPISODES, Shrunk, shrink
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.task import Task
from pytest_vla.vary.chosen import Change
from pytest_vla.vary.kind import Kind
from pytest_vla.vary.registry import kind_named
from pytest_vla.vary.space import Parameter

RUN_SEEDS = 3
"""Under how many further run seeds a failure is tried again: a policy that draws may fail by luck."""


def further_seeds(own: int) -> tuple[int, ...]:
    """`RUN_SEEDS` run seeds, none of which is the search's own."""
    return tuple(seed for seed in range(RUN_SEEDS + 1) if seed != own)[:RUN_SEEDS]


class Try(Protocol):
    """Tries a candidate, under a run seed."""

    def __call__(self, candidate: Candidate, run_seed: int | None = None) -> Trial: ...


@dataclass(frozen=True)
class Found:
    """A failure, at its smallest.

    Attributes:
        first: as it was proposed.
        shrunk: what is left of it.
        failed: under how many run seeds the smallest fails, the search's own among them.
        tried: of how many.
    """

    first: Candidate
    shrunk: Shrunk
    failed: int
    tried: int

    @property
    def is_flaky(self) -> bool:
        """Whether it fails under some run seeds only: reported with its rate, and not as found."""
        return self.failed < self.tried

    @property
    def cause(self) -> tuple[tuple[str, int], ...]:
        """What it takes: kinds, and to which side of each; distinct failures have distinct ones."""
        return _cause(self.shrunk.candidate)


@dataclass
class Searched:
    """What a search has seen of a task.

    Attributes:
        proposed: scenes that were drawn evenly and tried.
        failed: of those, how many the policy fails and the expert does.
        passed: how many the policy does.
        aside: by why, how many told nothing.
        again: failures of kinds that were found before; the same change is at work, more of it.
        found: distinct failures.
        left_out: seeds whose benign twin the policy does not do, and why.
    """

    proposed: int = 0
    failed: int = 0
    passed: int = 0
    again: int = 0
    aside: dict[str, int] = field(default_factory=dict)
    found: tuple[Found, ...] = ()
    left_out: tuple[tuple[int, str], ...] = ()

    @property
    def pending(self) -> int:
        """Failures that were not looked into: the search was stopped before."""
        return self.failed - self.again - len(self.found)


def search(
    task: Task,
    seeds: Sequence[int],
    some: Sequence[Kind],
    attempt: Try,
    number: int,
    generator: Random,
    told: Callable[[Searched], None] = lambda seen: None,
    most: int = MOST_EPISODES,
    run_seeds: Sequence[int] = further_seeds(0),
) -> Searched:
    """Search one task.

    Args:
        task: as it is.
        seeds: of its cases, taken in turn; those whose benign twin does not succeed are left out.
        some: kinds to draw from.
        attempt: tries a candidate.
        number: how many scenes are proposed.
        generator: the same state gives the same proposals.
        told: called after each proposal, and after each failure that was made smaller.
        most: episodes of the policy that making a failure smaller may take.
        run_seeds: further ones, under which each smallest is tried again.

    Raises:
        VlaError: the task has no scene to propose.
    """
    seen = Searched()
    twins = {seed: attempt(Candidate(task, seed)) for seed in dict.fromkeys(seeds)}
    seen.left_out = tuple((seed, trial.why) for seed, trial in twins.items() if trial.outcome != "passes")
    usable = [seed for seed, trial in twins.items() if trial.outcome == "passes"]
    # All scenes first: making a failure smaller takes long, and a search stopped in it would count too many failures.
    failing: list[Candidate] = []
    for place in range(number if usable else 0):
        candidate = propose(task, usable[place % len(usable)], some, generator)
        trial = attempt(candidate)
        seen.proposed += 1
        if trial.outcome == "passes":
            seen.passed += 1
        elif trial.outcome == "aside":
            seen.aside[trial.why] = seen.aside.get(trial.why, 0) + 1
        else:
            seen.failed += 1
            failing.append(candidate)
        told(seen)
    for candidate in failing:
        if any(_has_more(candidate, each.shrunk.candidate) for each in seen.found):
            seen.again += 1
        else:
            _note(seen, _smallest(candidate, attempt, most, run_seeds))
        told(seen)
    return seen


def _smallest(candidate: Candidate, attempt: Try, most: int, run_seeds: Sequence[int]) -> Found:
    shrunk = shrink(candidate, lambda smaller: attempt(smaller).outcome, _space, most)
    again = [attempt(shrunk.candidate, run_seed=seed) for seed in run_seeds]
    return Found(candidate, shrunk, 1 + sum(trial.outcome == "fails" for trial in again), 1 + len(again))


def _note(seen: Searched, found: Found) -> None:
    """Of what takes the same the one that was found first stays."""
    if any(each.cause == found.cause for each in seen.found):
        seen.again += 1
    else:
        seen.found += (found,)


def _cause(candidate: Candidate) -> tuple[tuple[str, int], ...]:
    """The kinds of its changes, each with the side that its largest number is on: to the left is not to the right."""
    return tuple(sorted((change.kind, side(_space(candidate, change), change.params)) for change in candidate.changes))


def _has_more(candidate: Candidate, smaller: Candidate) -> bool:
    """Whether a candidate has all that a smaller one has, to the same side and as much, so that it fails for that."""
    params = {change.kind: change.params for change in candidate.changes}
    for change in smaller.changes:
        if change.kind not in params:
            return False
        space, there = _space(smaller, change), params[change.kind]
        if side(space, there) != side(space, change.params) or distance(space, there) < distance(space, change.params):
            return False
    return True


def _space(candidate: Candidate, change: Change) -> Sequence[Parameter]:
    return kind_named(change.kind).space(candidate.task)
