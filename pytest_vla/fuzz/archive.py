"""What kinds of behaviour a search has met, and of each the scene that comes nearest to a failure of its kind.

Cells as of MAP-Elites (Mouret and Clune, arXiv 1504.04909): a scene that is tried is kept where it is the best of its
cell, so that the search goes on from scenes that differ in what they change and in what comes of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.shrink import Outcome

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

    def note(self, cell: Cell, candidate: Candidate, nearness: float) -> None:
        """A scene was tried. Of those that are equally near the one with fewer changes is kept, then the first."""
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
