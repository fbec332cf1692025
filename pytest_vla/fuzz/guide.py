"""Which scene is tried next: evenly drawn ones always, and beside them what was seen says where failures may be.

Of four scenes one each is drawn evenly (`EVEN`), has many changes at once (`CROWDED`), is what the surrogate expects to
fail or knows least of (`FORESEEN`), and is a neighbour of one that came near (`NEIGHBOUR`). The even ones do not depend
on what came of others, so that their failure rate is one of the space.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.amounts import nearby
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import changes_nothing, has_more
from pytest_vla.fuzz.propose import checked, drawn, drawn_change, propose
from pytest_vla.fuzz.shrink import Outcome
from pytest_vla.fuzz.surrogate import Surrogate, row_of
from pytest_vla.plan.task import Task
from pytest_vla.vary.chosen import Change, change_of
from pytest_vla.vary.kind import Kind
from pytest_vla.vary.registry import kind_named

# What kinds of behaviour a search has met, and of each the scene that comes nearest to a failure of its kind.
# Cells as of MAP-Elites (Mouret and Clune, arXiv 1504.04909): a scene that is tried is kept where it is the best of
# its cell, so that the search goes on from scenes that differ in what they change and in what comes of it.

GOAL_PARTS = 4
"""Into so many parts it is told apart how far the goal got."""


@dataclass(frozen=True, order=True)
class Cell:
    """A kind of behaviour.

    Attributes:
        dimensions: what is changed.
        outcome: of the trial.
        left: the goal's literals that did not hold at the end.
        goal: how much of the goal held, of `GOAL_PARTS`.
    """

    dimensions: tuple[str, ...]
    outcome: Outcome
    left: tuple[str, ...] = ()
    goal: int = GOAL_PARTS


@dataclass
class Kept:
    """The best scene of a cell.

    Attributes:
        candidate: the scene.
        nearness: how near the policy came to failing, 1: it failed.
        trials: of the cell.
        chosen: how often the search went on from here.
    """

    candidate: Candidate
    nearness: float
    trials: int = 1
    chosen: int = 0


@dataclass
class Archive:
    """The cells that were met."""

    cells: dict[Cell, Kept] = field(default_factory=dict)

    def add(self, cell: Cell, candidate: Candidate, nearness: float) -> None:
        """Add a scene that was tried. Of equally near ones that with fewer changes is kept, then the first."""
        kept = self.cells.get(cell)
        if kept is None:
            self.cells[cell] = Kept(candidate, nearness)
            return
        kept.trials += 1
        better = nearness, -len(candidate.changes)
        if better > (kept.nearness, -len(kept.candidate.changes)):
            kept.candidate, kept.nearness = candidate, nearness

    def choose(self, generator: Random) -> Candidate | None:
        """A scene to go on from: near failing, and seldom chosen before; None: there is none."""
        some = [kept for cell, kept in self.cells.items() if cell.outcome != "aside"]
        if not some:
            return None
        weights = [(0.05 + kept.nearness) / (1 + kept.chosen) for kept in some]
        (kept,) = generator.choices(some, weights)
        kept.chosen += 1
        return kept.candidate


def cell_of(candidate: Candidate, outcome: Outcome, literals: Sequence[tuple[str, bool]]) -> Cell:
    """The cell of a trial.

    Args:
        candidate: that was tried.
        outcome: of the trial.
        literals: of the goal, and whether each held at the end; none: not known.
    """
    dimensions = tuple(sorted(candidate.dimensions))
    if outcome != "fails" or not literals:
        return Cell(dimensions, outcome)
    left = tuple(name for name, held in literals if not held)
    return Cell(dimensions, outcome, left, int(GOAL_PARTS * (1 - len(left) / len(literals))))


SOURCES = EVEN, CROWDED, FORESEEN, NEIGHBOUR = ("even", "crowded", "foreseen", "neighbour")
"""In turn. Where a guided one cannot be had, the scene is drawn as the even ones are, and counts as guided."""

NEARNESS_OF_SUCCESS = 0.6
"""The most that a trial which succeeds says of failing; one that fails says 1."""

_LEAST_OF_CROWDED = 0.6
_POOL = 12
_MOST_DRAWS = 20


@dataclass(frozen=True)
class Proposal:
    """A scene to try.

    Attributes:
        number: of its task, from 0.
        source: of `SOURCES`.
        candidate: the scene.
    """

    number: int
    source: str
    candidate: Candidate


@dataclass(frozen=True)
class Tried:
    """What came of a proposal.

    Attributes:
        proposal: that was tried.
        outcome: of the trial.
        why: in words.
        literals: of the goal, and whether each held at the end.
        signals: see `pytest_vla.fuzz.trial.Trial`.
        seconds: that it took.
    """

    proposal: Proposal
    outcome: Outcome
    why: str
    literals: tuple[tuple[str, bool], ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class Guide:
    """What is known of a task, and what is to be tried next.

    Args:
        task: as it is.
        kinds: to draw from.
        key: of the generators: equal keys and equal trials give equal proposals.
        twins: by seed, the signals of the benign twin; only of seeds whose twin succeeds; one or more.
        guided: whether other than even scenes are proposed.
        seeds: all that the search has, those without a twin that succeeds too: which scene has which does not depend
            on the policy. None given: those of the twins.
    """

    task: Task
    kinds: Sequence[Kind]
    key: str
    twins: Mapping[int, Mapping[str, float]]
    guided: bool = True
    seeds: tuple[int, ...] = ()
    archive: Archive = field(default_factory=Archive)
    known: list[Candidate] = field(default_factory=list)
    crowd: int = 0
    _surrogate: Surrogate = field(default_factory=Surrogate)

    def __post_init__(self) -> None:
        self._spaces = {kind.name: kind.space(self.task) for kind in self.kinds}
        self._by_dimension: dict[str, list[Kind]] = {}
        for kind in self.kinds:
            self._by_dimension.setdefault(kind.dimension, []).append(kind)
        # Where few scenes with all at once fail, nothing finds what breaks a policy in fewer trials.
        self.crowd = self.crowd or len(self._by_dimension)

    def propose(self, number: int) -> Proposal:
        """The proposal of a number. Raises VlaError: the task has no scene to propose."""
        source = SOURCES[number % len(SOURCES)] if self.guided else EVEN
        # Guided or not, the even scenes are the same ones.
        place = number // len(SOURCES) if self.guided else number
        generator = Random(f"{self.key}/{source}/{place}")
        seeds = self.seeds or tuple(self.twins)
        seed = seeds[place % len(seeds)]
        if seed not in self.twins:
            seed = list(self.twins)[place % len(self.twins)]
        ways: dict[str, Callable[[int, Random], Candidate | None]] = {
            CROWDED: self._crowded,
            FORESEEN: self._foreseen,
            NEIGHBOUR: self._neighbour,
        }
        way = ways.get(source)
        found = None if way is None else self._unknown(lambda: way(seed, generator), generator)
        return Proposal(number, source, found or propose(self.task, seed, self.kinds, generator))

    def add_trial(self, tried: Tried) -> None:
        """Add a trial, from which later proposals follow."""
        proposal, nearness = tried.proposal, self.nearness(tried)
        self.archive.add(cell_of(proposal.candidate, tried.outcome, tried.literals), proposal.candidate, nearness)
        self._surrogate.add(row_of(proposal.candidate, self._spaces), nearness)
        if proposal.source == CROWDED:
            # A staircase: where half of them fail, each says most.
            step = 1 if tried.outcome == "passes" else -1
            self.crowd = min(max(self.crowd + step, 2), len(self._by_dimension))

    def learn(self, smallest: Candidate) -> None:
        """A failure is known at its smallest: scenes that have all of it are not proposed by guidance any more."""
        self.known.append(smallest)

    def nearness(self, tried: Tried) -> float:
        """How near the policy came to failing, from 0 to 1: how much more than the benign twin it took or cost."""
        if tried.outcome != "passes":
            # Nothing is learned of what cannot be done: guidance is to stay away from it.
            return 1.0 if tried.outcome == "fails" else 0.0
        twin = self.twins.get(tried.proposal.candidate.seed, {})
        more = [0.0]
        for name, value in tried.signals.items():
            if name in twin and value > twin[name]:
                of = 1 - twin[name] if name == "steps" else value
                more.append((value - twin[name]) / of)
        return NEARNESS_OF_SUCCESS * min(max(more), 1.0)

    def _unknown(self, draw: Callable[[], Candidate | None], generator: Random) -> Candidate | None:
        """A scene that the task can have, and that fails for nothing that is known."""
        for _ in range(_MOST_DRAWS):
            try:
                candidate = draw()
                if candidate is None:
                    return None
                kept = _without_known(candidate, self.known, generator)
                if kept.changes:
                    return checked(kept)
            except VlaError:
                continue
        return None

    def _crowded(self, seed: int, generator: Random) -> Candidate:
        chosen = generator.sample(sorted(self._by_dimension), self.crowd)
        kinds = [generator.choice(self._by_dimension[dimension]) for dimension in chosen]
        return Candidate(
            self.task, seed, tuple(drawn_change(self.task, kind, generator, _LEAST_OF_CROWDED) for kind in kinds)
        )

    def _foreseen(self, seed: int, generator: Random) -> Candidate | None:
        if not len(self._surrogate):
            return None
        pool = [self._from_pool(place, seed, generator) for place in range(_POOL)]
        pool = [each for each in pool if not any(has_more(each, known) for known in self.known)]
        if not pool:
            return None
        expected, spread = self._surrogate.foreseen([row_of(each, self._spaces) for each in pool])
        return pool[int((expected + spread).argmax())]

    def _from_pool(self, place: int, seed: int, generator: Random) -> Candidate:
        near = self.archive.choose(generator) if place % 2 else None
        return drawn(self.task, seed, self.kinds, generator) if near is None else self._mutated(near, generator)

    def _neighbour(self, seed: int, generator: Random) -> Candidate | None:
        near = self.archive.choose(generator)
        return None if near is None else self._mutated(near, generator)

    def _mutated(self, near: Candidate, generator: Random) -> Candidate:
        """Other amounts, one change more, or one in the place of another."""
        moved = tuple(
            change_of(change.kind, nearby(self._spaces[change.kind], change.params, generator))
            for change in near.changes
        )
        way = generator.choice(("amounts", "amounts", "more", "other"))
        if way == "amounts" or (way == "other" and len(moved) < 2):
            return near.having(moved)
        dimension = generator.choice(sorted(self._by_dimension))
        new = drawn_change(self.task, generator.choice(self._by_dimension[dimension]), generator)
        if way == "other":
            moved = tuple(generator.sample(moved, len(moved) - 1))
        return near.having(_with(moved, new))


def _with(changes: Sequence[Change], new: Change) -> tuple[Change, ...]:
    """Changes of different dimensions: of the new one's it takes the place."""
    dimension = kind_named(new.kind).dimension
    return (*(each for each in changes if kind_named(each.kind).dimension != dimension), new)


def _without_known(candidate: Candidate, known: Sequence[Candidate], generator: Random) -> Candidate:
    """The scene without what changes nothing, and without what is known to break it: of each failure that it has all
    of, one change is left out."""
    candidate = candidate.having(tuple(each for each in candidate.changes if not changes_nothing(candidate, each)))
    for each in known:
        if has_more(candidate, each):
            out = generator.choice(each.changes).kind
            candidate = candidate.having(tuple(change for change in candidate.changes if change.kind != out))
    return candidate
