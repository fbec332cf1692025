"""The smallest change that still breaks a policy: fewer dimensions, then fewer parameters, then less of each.

Delta debugging (Zeller and Hildebrandt, IEEE TSE 28(2), 2002) over the parameters' spaces: every trial is an episode,
so that subsets are tried in the order in which they save most, and numbers are bisected toward what changes nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

from pytest_vla.fuzz.amounts import can_be_less, components, less, without
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.scene.variation import Params
from pytest_vla.vary.chosen import Change, change_of
from pytest_vla.vary.space import Parameter

MOST_EPISODES = 40
"""How many a failure may take."""

CLOSE = 0.1
"""Bisection ends where the largest share that passed and the smallest that failed are so near, of the latter."""

Outcome = Literal["fails", "passes", "aside"]
"""Of a trial: ``aside``: nothing was learned (it cannot be solved, cannot be measured, or broke)."""

Test = Callable[[Candidate], Outcome]
"""Tries a candidate."""

SpaceOf = Callable[[Candidate, Change], Sequence[Parameter]]
"""The parameters of a candidate's change."""


@dataclass(frozen=True)
class Boundary:
    """Between what passes and what fails, of one change that is made less as a whole.

    Attributes:
        kind: of the change.
        passes: the parameters with most of the change that were tried below `fails` and did not fail; None: none were.
        fails: the parameters with least of it that were seen to fail.
    """

    kind: str
    passes: Params | None
    fails: Params


@dataclass(frozen=True)
class Shrunk:
    """What is left of a candidate.

    Attributes:
        candidate: the smallest that fails.
        tried: how many candidates were tried for it.
        boundaries: of the changes that are left and can be less.
        complete: whether all was tried that there is to try; otherwise the episodes were at an end.
    """

    candidate: Candidate
    tried: int
    boundaries: tuple[Boundary, ...] = ()
    complete: bool = True


class _Spent(Exception):
    """The episodes are at an end."""


@dataclass
class _Trials:
    """What was tried, and the smallest that failed so far: only what is smaller than it is ever tried."""

    best: Candidate
    test: Test
    space_of: SpaceOf
    most: int
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    boundaries: dict[str, Boundary] = field(default_factory=dict)

    def fail(self, candidate: Candidate) -> bool:
        """Whether it fails, so that it is the smallest now; each candidate is tried once."""
        label = candidate.label
        # Of the benign twin it is known that it passes.
        if not label:
            return False
        if label not in self.outcomes:
            if len(self.outcomes) >= self.most:
                raise _Spent
            self.outcomes[label] = self.test(candidate)
        if self.outcomes[label] == "fails":
            self.best = candidate
        return self.best == candidate

    def change(self, kind: str) -> tuple[Sequence[Parameter], Params]:
        """The space of a kind, and the parameters that the smallest has of it."""
        change = next(change for change in self.best.changes if change.kind == kind)
        return self.space_of(self.best, change), change.params

    def with_(self, kind: str, params: Params) -> Candidate:
        """The smallest with other parameters of a kind."""
        changed = change_of(kind, params)
        return self.best.having(tuple(changed if each.kind == kind else each for each in self.best.changes))


def shrink(found: Candidate, test: Test, space_of: SpaceOf, most: int = MOST_EPISODES) -> Shrunk:
    """The smallest candidate that still fails.

    Which it is depends on the order of trials where several are smallest: the order is fixed, so equal tests give equal
    ones.

    Args:
        found: fails; its benign twin passes.
        test: deterministic: that which fails only now and then is told apart before.
        space_of: gives the parameters of a change of it.
        most: episodes.
    """
    trials, complete = _Trials(found, test, space_of, most), True
    try:
        _fewer_changes(trials)
        kinds = [change.kind for change in trials.best.changes]
        for kind in kinds:
            _fewer_components(trials, kind)
        for kind in kinds:
            _less(trials, kind)
    except _Spent:
        complete = False
    left = {change.kind for change in trials.best.changes}
    boundaries = tuple(each for kind, each in trials.boundaries.items() if kind in left)
    return Shrunk(trials.best, len(trials.outcomes), boundaries, complete)


def _fewer_changes(trials: _Trials) -> None:
    """To the fewest changes: of each size, in their order."""
    found = trials.best
    for size in range(1, len(found.changes)):
        if any(trials.fail(found.having(changes)) for changes in combinations(found.changes, size)):
            return


def _fewer_components(trials: _Trials, kind: str) -> None:
    """Make as many parameters of a change benign as can be, by ddmin: chunks alone, then all but one of them."""
    parts = 2
    while len(left := components(*trials.change(kind))) > 1:
        size = -(-len(left) // parts)
        chunks = [left[start : start + size] for start in range(0, len(left), size)]
        others = [tuple(each for each in left if each not in chunk) for chunk in chunks if len(chunks) > 2]
        space, params = trials.change(kind)
        made = (
            trials.with_(kind, without(space, params, [each for each in left if each not in kept]))
            for kept in [*chunks, *others]
        )
        if any(map(trials.fail, made)):
            parts = 2
        elif size == 1:
            return
        else:
            parts = min(2 * parts, len(left))


def _less(trials: _Trials, kind: str) -> None:
    """Make a change less, all its numbers together, by bisection toward what changes nothing."""
    space, params = trials.change(kind)
    if not can_be_less(space, params):
        return
    passes, fails = 0.0, 1.0
    trials.boundaries[kind] = boundary = Boundary(kind, None, params)
    while fails - passes > CLOSE * fails:
        share = (passes + fails) / 2
        smaller = change_of(kind, less(space, params, share)).params
        if smaller == boundary.fails:
            # Whole numbers have nothing between.
            return
        if trials.fail(trials.with_(kind, smaller)):
            fails, boundary = share, replace(boundary, fails=smaller)
        else:
            passes, boundary = share, replace(boundary, passes=smaller)
        trials.boundaries[kind] = boundary
