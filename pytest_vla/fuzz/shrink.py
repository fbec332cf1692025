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
    """Between what passes and what fails, of one change that is made less as a whole, or of one number of it.

    Attributes:
        kind: of the change.
        passes: the parameters with most of the change that were tried below `fails` and passed, what else the smallest
            has being as it is; None: none were.
        fails: the parameters with least of it that were seen to fail.
        along: the number that alone was made less; None: all were together.
    """

    kind: str
    passes: Params | None
    fails: Params
    along: Component | None = None


@dataclass(frozen=True)
class Shrunk:
    """What is left of a candidate.

    Attributes:
        candidate: the smallest that fails.
        tried: how many candidates were tried for it.
        boundaries: of the changes that are left and can be less.
        complete: whether all was tried that there is to try; otherwise the episodes were at an end.
        path: all that failed on the way, from the first to the smallest.
    """

    candidate: Candidate
    tried: int
    boundaries: tuple[Boundary, ...] = ()
    complete: bool = True
    path: tuple[Candidate, ...] = ()


_T = TypeVar("_T")


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
        """Whether it was tried, and passed; what told nothing did not."""
        return not candidate.label or self.outcomes.get(candidate.label) == "passes"

    def below(self, side: Boundary) -> Candidate | None:
        """The smallest with what passes of a boundary; None: nothing does."""
        if side.passes is None or all(change.kind != side.kind for change in self.best.changes):
            return None
        _, params = self.change(side.kind)
        if side.along is None:
            return self.with_(side.kind, side.passes)
        return self.with_(side.kind, put(params, side.along, value_at(side.passes, side.along)))

    def as_it_is(self, side: Boundary) -> Boundary:
        """A boundary of the smallest: what passes is told only where that was tried with all else as it is."""
        if all(change.kind != side.kind for change in self.best.changes):
            return side
        _, params = self.change(side.kind)
        below = self.below(side)
        if below is None or not self.passed(below):
            return replace(side, passes=None, fails=params)
        passes = next(change.params for change in below.changes if change.kind == side.kind)
        return replace(side, passes=passes, fails=params)

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
        for kind in kinds:
            _each_less(trials, kind)
        _settle(trials)
    except _Spent:
        complete = False
    left = {change.kind for change in trials.best.changes}
    boundaries = tuple(each for each in map(trials.as_it_is, trials.boundaries.values()) if each.kind in left)
    return Shrunk(trials.best, len(trials.outcomes), boundaries, complete, (found, *trials.path))


def _fewer_changes(trials: _Trials) -> None:
    """To the fewest changes: halves of many away, then of each size all subsets, in their order."""
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
    """Make as many parameters of a change benign as can be."""

    def left() -> tuple[Component, ...]:
        return components(*trials.change(kind))

    def made(kept: Sequence[Component]) -> Candidate:
        space, params = trials.change(kind)
        return trials.with_(kind, without(space, params, [each for each in left() if each not in kept]))

    _smallest_part(trials, left, made)


def _smallest_part(
    trials: _Trials, left: Callable[[], Sequence[_T]], made: Callable[[Sequence[_T]], Candidate], enough: int = 1
) -> None:
    """By ddmin: chunks alone, then all but one of them, finer and finer; until no more than `enough` are left."""
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
    """Make a change less, all its numbers together."""
    space, params = trials.change(kind)
    if can_be_less(space, params):
        _bisect(trials, kind, None)


def _each_less(trials: _Trials, kind: str) -> None:
    """Make each number of a change less, where it has several: the others stay as they are by then."""
    numbers = scaled_components(*trials.change(kind))
    if len(numbers) < 2:
        return
    # What was found of all together is not at the smallest any more.
    trials.boundaries.pop((kind, None), None)
    for number in numbers:
        _bisect(trials, kind, number)


def _settle(trials: _Trials) -> None:
    """Try what passed once more with all else at its smallest; where it fails now, go on below it."""
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
    """Toward what changes nothing, until what passes and what fails are near each other."""
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
