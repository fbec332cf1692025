"""The smallest change that still breaks a policy: fewer dimensions, then fewer parameters, then less of each.

Delta debugging (Zeller and Hildebrandt, IEEE TSE 28(2), 2002) over the parameters' spaces: every trial is an episode,
so that subsets are tried in the order in which they save most, and numbers are bisected toward what changes nothing:
all of a change together, then each alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal, TypeVar

from pytest_vla.fuzz.amounts import Component, can_be_less, components, less, put, scaled_components, value_at, without
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.scene.variation import Params
from pytest_vla.vary.chosen import Change, change_of
from pytest_vla.vary.space import Parameter

MOST_EPISODES = 40
"""How many a failure may take."""

CLOSE = 0.1
"""Bisection ends where the largest share that passed and the smallest that failed are so near, of the latter."""

_LEAST = 0.01
"""Of what was found: what fails with so little of a change fails with any amount."""

_MOST_ROUNDS = 2

FEW_CHANGES = 3
"""Of so many all subsets are tried, the smallest first; of more, halves are taken away before."""

Outcome = Literal["fails", "passes", "aside"]
"""Of a trial: ``aside``: nothing was learned (it cannot be solved, cannot be measured, or broke)."""

Test = Callable[[Candidate], Outcome]
"""Tries a candidate."""

SpaceOf = Callable[[Candidate, Change], Sequence[Parameter]]
"""The parameters of a candidate's change."""


@dataclass(frozen=True)
class Boundary:
    """The boundary between passing and failing, of one change that is scaled as a whole, or of one number of it.

    Attributes:
        kind: of the change.
        passes: the parameters with most of the change that were tried below `fails` and passed, with all else of the
            smallest, or None if none did.
        fails: the parameters with least of it that were seen to fail.
        along: the number that alone was scaled, or None if all were together.
    """

    kind: str
    passes: Params | None
    fails: Params
    along: Component | None = None


@dataclass(frozen=True)
class Shrunk:
    """The smallest form of a candidate.

    Attributes:
        candidate: the smallest that fails.
        tried: number of candidates that were tried for it.
        boundaries: of the remaining changes that can be scaled.
        complete: whether everything was tried; else the episodes were used up.
        path: all that failed on the way, from the first to the smallest.
    """

    candidate: Candidate
    tried: int
    boundaries: tuple[Boundary, ...] = ()
    complete: bool = True
    path: tuple[Candidate, ...] = ()


_T = TypeVar("_T")


class _Spent(Exception):
    """The error that ends shrinking when the episodes are used up."""


@dataclass
class _Trials:
    """The trials so far, and the smallest that failed: only smaller candidates are tried."""

    best: Candidate
    test: Test
    space_of: SpaceOf
    most: int
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    boundaries: dict[tuple[str, Component | None], Boundary] = field(default_factory=dict)
    path: list[Candidate] = field(default_factory=list)

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
        if self.outcomes[label] == "fails" and self.best != candidate:
            self.best = candidate
            self.path.append(candidate)
        return self.best == candidate

    def passed(self, candidate: Candidate) -> bool:
        """Whether it was tried and passed; inconclusive ones did not."""
        return not candidate.label or self.outcomes.get(candidate.label) == "passes"

    def below(self, side: Boundary) -> Candidate | None:
        """Return the smallest with the passing parameters of a boundary, or None if nothing passes."""
        if side.passes is None or all(change.kind != side.kind for change in self.best.changes):
            return None
        _, params = self.change(side.kind)
        if side.along is None:
            return self.with_(side.kind, side.passes)
        return self.with_(side.kind, put(params, side.along, value_at(side.passes, side.along)))

    def as_it_is(self, side: Boundary) -> Boundary:
        """Return a boundary of the smallest; `passes` is kept only if it was tried with all else as it is now."""
        if all(change.kind != side.kind for change in self.best.changes):
            return side
        _, params = self.change(side.kind)
        below = self.below(side)
        if below is None or not self.passed(below):
            return replace(side, passes=None, fails=params)
        passes = next(change.params for change in below.changes if change.kind == side.kind)
        return replace(side, passes=passes, fails=params)

    def change(self, kind: str) -> tuple[Sequence[Parameter], Params]:
        """Return the space of a kind, and the smallest's parameters of it."""
        change = next(change for change in self.best.changes if change.kind == kind)
        return self.space_of(self.best, change), change.params

    def with_(self, kind: str, params: Params) -> Candidate:
        """Return the smallest with other parameters of a kind."""
        changed = change_of(kind, params)
        return self.best.having(tuple(changed if each.kind == kind else each for each in self.best.changes))


def shrink(found: Candidate, test: Test, space_of: SpaceOf, most: int = MOST_EPISODES) -> Shrunk:
    """Find the smallest candidate that still fails.

    If several are smallest, the order of trials decides, which is fixed: equal tests give equal results.

    Args:
        found: fails; its benign twin passes.
        test: deterministic; candidates that fail only sometimes are sorted out before.
        space_of: returns the parameters of a change of it.
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
        for kind in kinds:
            _each_less(trials, kind)
        _settle(trials)
    except _Spent:
        complete = False
    left = {change.kind for change in trials.best.changes}
    boundaries = tuple(each for each in map(trials.as_it_is, trials.boundaries.values()) if each.kind in left)
    return Shrunk(trials.best, len(trials.outcomes), boundaries, complete, (found, *trials.path))


def _fewer_changes(trials: _Trials) -> None:
    """Reduce to the fewest changes: remove halves of many, then try all subsets by size, in their order."""
    _smallest_part(
        trials, lambda: trials.best.changes, lambda kept: trials.best.having(tuple(kept)), enough=FEW_CHANGES
    )
    found = trials.best
    if len(found.changes) > FEW_CHANGES:
        return
    for size in range(1, len(found.changes)):
        if any(trials.fail(found.having(changes)) for changes in combinations(found.changes, size)):
            return


def _fewer_components(trials: _Trials, kind: str) -> None:
    """Make as many parameters of a change benign as possible."""

    def left() -> tuple[Component, ...]:
        return components(*trials.change(kind))

    def made(kept: Sequence[Component]) -> Candidate:
        space, params = trials.change(kind)
        return trials.with_(kind, without(space, params, [each for each in left() if each not in kept]))

    _smallest_part(trials, left, made)


def _smallest_part(
    trials: _Trials, left: Callable[[], Sequence[_T]], made: Callable[[Sequence[_T]], Candidate], enough: int = 1
) -> None:
    """Reduce by ddmin: chunks alone, then all but one of them, finer and finer; until at most `enough` are left."""
    parts = 2
    while len(all_ := left()) > enough:
        size = -(-len(all_) // parts)
        chunks = [all_[start : start + size] for start in range(0, len(all_), size)]
        others = [tuple(each for each in all_ if each not in chunk) for chunk in chunks if len(chunks) > 2]
        candidates = [made(kept) for kept in [*chunks, *others]]
        if any(map(trials.fail, candidates)):
            parts = 2
        elif size == 1:
            return
        else:
            parts = min(2 * parts, len(all_))


def _less(trials: _Trials, kind: str) -> None:
    """Scale a change down, all its numbers together."""
    space, params = trials.change(kind)
    if can_be_less(space, params):
        _bisect(trials, kind, None)


def _each_less(trials: _Trials, kind: str) -> None:
    """Scale each number of a change down, if it has several, with the others as they are by then."""
    numbers = scaled_components(*trials.change(kind))
    if len(numbers) < 2:
        return
    # What was found of all together is not at the smallest any more.
    trials.boundaries.pop((kind, None), None)
    for number in numbers:
        _bisect(trials, kind, number)


def _settle(trials: _Trials) -> None:
    """Retry what passed with all else at its smallest; if it fails now, continue below it."""
    for _ in range(_MOST_ROUNDS):
        again = False
        for (kind, along), side in list(trials.boundaries.items()):
            below = trials.below(side)
            if below is not None and not trials.passed(below) and trials.fail(below):
                _bisect(trials, kind, along)
                again = True
        if not again:
            return


def _bisect(trials: _Trials, kind: str, along: Component | None) -> None:
    """Bisect toward benign, until passing and failing amounts are close."""
    space, params = trials.change(kind)
    passes, fails = 0.0, 1.0
    place = kind, along
    trials.boundaries[place] = boundary = Boundary(kind, None, params, along)
    while fails - passes > CLOSE * fails and fails > _LEAST:
        share = (passes + fails) / 2
        smaller = change_of(kind, less(space, params, share, along)).params
        if smaller == boundary.fails:
            # Whole numbers have nothing between.
            return
        if trials.fail(trials.with_(kind, smaller)):
            fails, boundary = share, replace(boundary, fails=smaller)
        elif trials.passed(trials.with_(kind, smaller)):
            passes, boundary = share, replace(boundary, passes=smaller)
        else:
            # Nothing is learned there, so that nothing is said of it.
            passes = share
        trials.boundaries[place] = boundary
