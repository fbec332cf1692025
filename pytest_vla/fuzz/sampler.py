"""The choice of the next scene: evenly drawn ones always, and others guided by the results so far.

Of four scenes one each is drawn evenly (`EVEN`), has many changes at once (`CROWDED`), is expected to fail or least
known by the surrogate (`FORESEEN`), and is a neighbour of one that came near failing (`NEIGHBOUR`). The even ones do
not depend on results, so that their failure rate is one of the space.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.fuzz.amounts import nearby
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import changes_nothing, has_more
from pytest_vla.fuzz.proposals import checked, drawn, drawn_change, propose
from pytest_vla.fuzz.shrink import Outcome
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Params
from pytest_vla.vary.chosen import Change, change_of
from pytest_vla.vary.kind import VariationKind
from pytest_vla.vary.registry import kind_named
from pytest_vla.vary.space import ANGLE, CHOICE, NUMBER, WHOLE, Parameter

# What is foreseen of a scene that was not tried: how near the policy comes to failing in it, and how sure that is.
#
# A Gaussian process whose kernel adds up what single changes do and what pairs of them do (Duvenaud, Nickisch and
# Rasmussen, Additive Gaussian Processes, NeurIPS 2011, equation 7, first and second degree): most of what breaks a
# policy is one change or two, whatever else is in the scene.

Spaces = Mapping[str, Sequence[Parameter]]
"""By the name of a kind, its parameters."""

Row = Mapping[str, NDArray[np.float64]]
"""A scene as numbers: of each kind that it has, an array."""

_LENGTH = 0.4
"""Over how much of a parameter's range trials say something of each other, standard deviation of the kernel."""

_SINGLE, _PAIR, _NOISE = 0.1, 0.1, 0.02
"""Variances, of numbers from 0 to 1."""

MOST_ROWS = 300
"""So many scenes are kept: each that is foreseen is compared with all."""

_MOST_CHOICES = 12


def row_of(candidate: Candidate, spaces: Spaces) -> Row:
    """Return a scene as numbers: amounts as shares of their ranges, angles as points of a circle, choices one-hot."""
    return {change.kind: np.array(_numbers(spaces[change.kind], change.params)) for change in candidate.changes}


class Surrogate:
    """The prediction of failures from the scenes that were tried, of which it holds `MOST_ROWS` at most."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._seen: list[float] = []
        self._within = np.zeros((0, 0))

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row, seen: float) -> None:
        """Add a scene that was tried; `seen` is how near the policy came to failing, 0..1."""
        if len(self._rows) >= MOST_ROWS:
            self._keep(self._best())
        across = _kernel([row], self._rows)
        self._within = np.block([[self._within, across.T], [across, np.full((1, 1), _own(row))]])
        self._rows.append(row)
        self._seen.append(seen)

    def foreseen(self, asked: Sequence[Row]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predict how near the policy comes to failing in scenes, with its standard deviation: (len(asked),) each.

        Raises:
            ValueError: nothing was tried yet.
        """
        if not self._rows:
            raise ValueError("nothing was tried, so nothing is foreseen")
        numbers = np.array(self._seen)
        mean = float(numbers.mean())
        across = _kernel(asked, self._rows)
        factor = cho_factor(self._within + _NOISE * np.eye(len(numbers)), lower=True)
        expected = mean + across @ cho_solve(factor, numbers - mean)
        own = np.array([_own(row) for row in asked])
        spread = own - np.einsum("ij,ji->i", across, cho_solve(factor, across.T))
        return expected, np.sqrt(np.maximum(spread, 0.0))

    def _best(self) -> list[int]:
        """Return the places to keep: the latest half, and of the rest those nearest to failing."""
        half = MOST_ROWS // 2
        latest = range(len(self._rows) - half, len(self._rows))
        older = sorted(range(latest.start), key=lambda at: -self._seen[at])
        return [*sorted(older[: half // 2]), *latest]

    def _keep(self, places: Sequence[int]) -> None:
        self._rows = [self._rows[at] for at in places]
        self._seen = [self._seen[at] for at in places]
        self._within = self._within[np.ix_(places, places)]


def _kernel(first: Sequence[Row], second: Sequence[Row]) -> NDArray[np.float64]:
    single, squares = np.zeros((len(first), len(second))), np.zeros((len(first), len(second)))
    columns_of: dict[str, list[int]] = {}
    for place, row in enumerate(second):
        for name in row:
            columns_of.setdefault(name, []).append(place)
    rows_of: dict[str, list[int]] = {}
    for place, row in enumerate(first):
        for name in row:
            rows_of.setdefault(name, []).append(place)
    for name, rows in rows_of.items():
        columns = columns_of.get(name)
        if not columns:
            continue
        one, other = np.array([first[at][name] for at in rows]), np.array([second[at][name] for at in columns])
        # Of all pairs at once the squared distances.
        apart = np.square(one).sum(axis=1)[:, None] + np.square(other).sum(axis=1) - 2 * one @ other.T
        alike = np.exp(-np.maximum(apart, 0.0) / (2 * _LENGTH**2 * max(one.shape[1], 1)))
        both = np.ix_(rows, columns)
        single[both] += alike
        squares[both] += alike**2
    return _SINGLE * single + _PAIR * (single**2 - squares) / 2


def _own(row: Row) -> float:
    """Return the kernel of each scene with itself."""
    return _SINGLE * len(row) + _PAIR * len(row) * (len(row) - 1) / 2


def _numbers(space: Sequence[Parameter], params: Params) -> list[float]:
    found: list[float] = []
    for each in space:
        value = params.get(each.name)
        if each.parts or each.many:
            found.append(float(bool(value)))
        elif each.form in (NUMBER, WHOLE) and each.benign is not None:
            found += [_share(each, one) for one in _flat(each, value)]
        elif each.form == ANGLE:
            turns = [math.tau * (one - each.low) / (each.high - each.low) for one in _flat(each, value)]
            found += [part for turn in turns for part in (math.sin(turn), math.cos(turn))]
        elif each.form == CHOICE and len(each.choices) <= _MOST_CHOICES:
            found += [float(value == choice) for choice in each.choices]
    return found


def _share(parameter: Parameter, value: float) -> float:
    end = parameter.high if value > parameter.benign else parameter.low
    return float((value - parameter.benign) / (abs(end - parameter.benign) or 1.0))


def _flat(parameter: Parameter, value: Any) -> list[Any]:
    """Return as many values as the parameter has, the benign one for one that is left out."""
    if value is None:
        return [parameter.benign or 0.0] * math.prod(parameter.shape)
    return list(np.ravel(value)) if parameter.shape else [value]


# What kinds of behaviour a search has met, and of each the scene that comes nearest to a failure of its kind.
# Cells as of MAP-Elites (Mouret and Clune, arXiv 1504.04909): a scene that is tried is kept where it is the best of
# its cell, so that the search goes on from scenes that differ in what they change and in what comes of it.

GOAL_PARTS = 4
"""Into so many parts it is told apart how far the goal got."""


@dataclass(frozen=True, order=True)
class BehaviourCell:
    """A kind of behaviour.

    Attributes:
        dimensions: that are changed.
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
        nearness: how near the policy came to failing; 1 if it failed.
        trials: of the cell.
        chosen: how often the search continued from here.
    """

    candidate: Candidate
    nearness: float
    trials: int = 1
    chosen: int = 0


@dataclass
class Archive:
    """The behaviours that were met, with the best scene of each."""

    cells: dict[BehaviourCell, Kept] = field(default_factory=dict)

    def add(self, cell: BehaviourCell, candidate: Candidate, nearness: float) -> None:
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
        """Draw a scene to continue from, near failing and seldom chosen before, or return None if there is none."""
        some = [kept for cell, kept in self.cells.items() if cell.outcome != "aside"]
        if not some:
            return None
        weights = [(0.05 + kept.nearness) / (1 + kept.chosen) for kept in some]
        (kept,) = generator.choices(some, weights)
        kept.chosen += 1
        return kept.candidate


def cell_of(candidate: Candidate, outcome: Outcome, literals: Sequence[tuple[str, bool]]) -> BehaviourCell:
    """Return the cell of a trial.

    Args:
        candidate: that was tried.
        outcome: of the trial.
        literals: of the goal, and whether each held at the end; empty if unknown.
    """
    dimensions = tuple(sorted(candidate.dimensions))
    if outcome != "fails" or not literals:
        return BehaviourCell(dimensions, outcome)
    left = tuple(name for name, held in literals if not held)
    return BehaviourCell(dimensions, outcome, left, int(GOAL_PARTS * (1 - len(left) / len(literals))))


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
class TriedProposal:
    """The result of a proposal.

    Attributes:
        proposal: that was tried.
        outcome: of the trial.
        why: in words.
        literals: of the goal, and whether each held at the end.
        signals: see `pytest_vla.fuzz.trial.Trial`.
        seconds: its duration.
    """

    proposal: Proposal
    outcome: Outcome
    why: str
    literals: tuple[tuple[str, bool], ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class Sampler:
    """The state of a task's search that the next proposal depends on.

    Args:
        task: as it is.
        kinds: to draw from.
        key: of the generators: equal keys and equal trials give equal proposals.
        twins: the benign twins' signals, by seed; only seeds whose twin succeeds; at least one.
        guided: whether other than even scenes are proposed.
        seeds: all seeds of the search, including those without a twin that succeeds, so that a scene's number gives its
            seed independently of the policy. By default those of the twins.
    """

    task: Task
    kinds: Sequence[VariationKind]
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
        self._by_dimension: dict[str, list[VariationKind]] = {}
        for kind in self.kinds:
            self._by_dimension.setdefault(kind.dimension, []).append(kind)
        # Where few scenes with all at once fail, nothing finds what breaks a policy in fewer trials.
        self.crowd = self.crowd or len(self._by_dimension)

    def source_of(self, number: int) -> str:
        """Return the source of the proposal of a number."""
        return SOURCES[number % len(SOURCES)] if self.guided else EVEN

    def propose(self, number: int) -> Proposal:
        """Return the proposal of a number. Raises VlaError if the task has no scene to propose."""
        source = self.source_of(number)
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

    def add_trial(self, tried: TriedProposal) -> None:
        """Add a trial, which later proposals depend on."""
        proposal, nearness = tried.proposal, self.nearness(tried)
        self.archive.add(cell_of(proposal.candidate, tried.outcome, tried.literals), proposal.candidate, nearness)
        self._surrogate.add(row_of(proposal.candidate, self._spaces), nearness)
        if proposal.source == CROWDED:
            # A staircase: where half of them fail, each says most.
            step = 1 if tried.outcome == "passes" else -1
            self.crowd = min(max(self.crowd + step, 2), len(self._by_dimension))

    def learn(self, smallest: Candidate) -> None:
        """Add a failure at its smallest: guided proposals no longer include all of it."""
        self.known.append(smallest)

    def nearness(self, tried: TriedProposal) -> float:
        """Return how near the policy came to failing, 0..1: the extra steps or costs over the benign twin."""
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
        """Draw a scene that the task can have, and that includes no known failure."""
        for _ in range(_MOST_DRAWS):
            try:
                candidate = draw()
                if candidate is None:
                    return None
                kept = _without_known(candidate, self.known, generator)
                if kept.changes:
                    return checked(kept)
            except EpisodeError:
                raise
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
        """Return a scene with other amounts, one change more, or one change replaced."""
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
    """Return changes with a new one, which replaces that of its dimension."""
    dimension = kind_named(new.kind).dimension
    return (*(each for each in changes if kind_named(each.kind).dimension != dimension), new)


def _without_known(candidate: Candidate, known: Sequence[Candidate], generator: Random) -> Candidate:
    """Return the scene without changes that change nothing, and without known failures.

    For each known failure that it includes, one of that failure's changes is left out.
    """
    candidate = candidate.having(tuple(each for each in candidate.changes if not changes_nothing(candidate, each)))
    for each in known:
        if has_more(candidate, each):
            out = generator.choice(each.changes).kind
            candidate = candidate.having(tuple(change for change in candidate.changes if change.kind != out))
    return candidate
