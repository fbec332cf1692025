"""What a search has found: failures at their smallest, and how many of the scenes fail."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import Cause, cause_of
from pytest_vla.fuzz.guide import EVEN
from pytest_vla.fuzz.shrink import Outcome, Shrunk

RUN_SEEDS = 3
"""Under how many further run seeds a failure is tried again: a policy that draws may fail by luck."""


RUN_SEEDS_OF_DRAWS = 7
"""The same for a policy that draws: what fails half of the time fails under all of them in one search of 128."""


def further_seeds(own: int) -> tuple[int, ...]:
    """`RUN_SEEDS` run seeds, none of which is the search's own."""
    return tuple(seed for seed in range(RUN_SEEDS + 1) if seed != own)[:RUN_SEEDS]


@dataclass(frozen=True)
class Found:
    """A failure, at its smallest.

    Attributes:
        first: as it was proposed.
        shrunk: what is left of it.
        failed: under how many run seeds the smallest fails, the search's own among them.
        tried: of how many.
        number: of the proposal.
        source: of the proposal, see `pytest_vla.fuzz.guide.SOURCES`.
        rival: what comes of the smallest with the policy that is compared; None: there is none.
        twin: under how many run seeds its benign twin fails, and of how many; of none where it was tried under one.
        draws: whether the policy draws, so that run seeds are observations.
    """

    first: Candidate
    shrunk: Shrunk
    failed: int
    tried: int
    number: int = 0
    source: str = EVEN
    rival: Outcome | None = None
    twin: tuple[int, int] = (0, 0)
    draws: bool = False

    @property
    def is_flaky(self) -> bool:
        """Whether it fails under some run seeds only: reported with its rate, and not as found."""
        return self.failed < self.tried

    @property
    def cause(self) -> Cause:
        """What it takes: kinds, their numbers, and to which side of each."""
        return cause_of(self.shrunk.candidate)


@dataclass(frozen=True)
class Searched:
    """What a search has seen of a task.

    Attributes:
        proposed: scenes that were drawn evenly and tried.
        failed: of those, how many the policy fails and the expert does.
        passed: how many the policy does.
        aside: by why, how many told nothing.
        guided: scenes that were chosen by what was seen of others.
        guided_failed: how many of these fail; no rate of any space.
        guided_passed: how many the policy does.
        again: failures of kinds that were found before; the same change is at work, more of it.
        pending: failures that were not looked into: the search was stopped before.
        found: distinct failures.
        left_out: seeds whose benign twin the policy does not do, and why.
        base: of the benign twins of the seeds that are searched, under further run seeds, how many fail, and of how
            many. The own run seed is not among them, since seeds are searched whose twin succeeds under it.
        draws: whether the policy draws.
    """

    proposed: int = 0
    failed: int = 0
    passed: int = 0
    aside: Mapping[str, int] = field(default_factory=dict)
    guided: int = 0
    guided_failed: int = 0
    guided_passed: int = 0
    again: int = 0
    pending: int = 0
    found: tuple[Found, ...] = ()
    left_out: tuple[tuple[int, str], ...] = ()
    base: tuple[int, int] = (0, 0)
    draws: bool = False

    @property
    def told_something(self) -> bool:
        """Whether the policy did or failed any scene, so that something was learned of it."""
        return bool(self.passed or self.failed or self.guided_passed or self.guided_failed)
