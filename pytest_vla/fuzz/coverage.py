"""Where a search has been: of each kind, of each amount of it, and of each two dimensions how many scenes were tried.

Scenes are counted one by one, so that memory does not grow with them.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement

from pytest_vla.fuzz.amounts import distance
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.guide import EVEN
from pytest_vla.fuzz.shrink import Outcome
from pytest_vla.plan.labels import dimension_of
from pytest_vla.scene.variation import Params
from pytest_vla.vary.space import NUMBER, WHOLE, Parameter

BINS = 10
"""Of an amount; of whole numbers that are few, one each."""

SHARE = "largest number, of its range"
"""What an amount is called where a kind has several numbers."""


@dataclass
class Tally:
    """How many scenes were tried, and of those how many the policy failed, and how many told nothing."""

    tried: int = 0
    failed: int = 0
    aside: int = 0

    @property
    def counted(self) -> int:
        """How many the policy failed or did."""
        return self.tried - self.aside

    def count(self, outcome: Outcome) -> None:
        """Count a scene that was tried."""
        self.tried += 1
        self.failed += outcome == "fails"
        self.aside += outcome == "aside"


@dataclass
class Both:
    """Scenes that were drawn evenly, and those that were guided: rates of these are rates of no space."""

    even: Tally = field(default_factory=Tally)
    guided: Tally = field(default_factory=Tally)

    @property
    def tried(self) -> int:
        """How many scenes, of both."""
        return self.even.tried + self.guided.tried

    @property
    def failed(self) -> int:
        """How many the policy failed, of both."""
        return self.even.failed + self.guided.failed

    @property
    def aside(self) -> int:
        """How many told nothing, of both."""
        return self.even.aside + self.guided.aside

    def count(self, source: str, outcome: Outcome) -> None:
        """Count a scene that was tried."""
        (self.even if source == EVEN else self.guided).count(outcome)


@dataclass(frozen=True)
class Axis:
    """The amount of a kind, in bins.

    Attributes:
        name: of the parameter, or `SHARE`.
        unit: empty: none.
        benign: the value that changes nothing.
        edges: of the bins, one more than there are of these; each bin has its lower edge, the last one both.
        is_whole: whether each bin is of one whole number, in its middle.
    """

    name: str
    unit: str
    benign: float
    edges: tuple[float, ...]
    is_whole: bool = False

    def bin_of(self, value: float) -> int:
        """The bin of a value; of one beyond the edges the nearest."""
        return min(max(bisect_right(self.edges, value) - 1, 0), len(self.edges) - 2)


def axis_of(space: Sequence[Parameter], bins: int = BINS) -> Axis | None:
    """The amount of a kind: its number, signed; of several the largest, as a share; None: it has none.

    Args:
        space: of the kind.
        bins: how many, over the range.
    """
    numbers = [each for each in space if each.form in (NUMBER, WHOLE) and each.benign is not None and not each.parts]
    if not numbers:
        return None
    one = numbers[0]
    if len(numbers) > 1 or one.shape:
        return Axis(SHARE, "", 0.0, _edges(0.0, 1.0, bins))
    if one.form == WHOLE and one.high - one.low < 2 * bins:
        # What is benign is no change; between others it has its place.
        first, last = int(one.low) + (one.benign == one.low), int(one.high) - (one.benign == one.high)
        return Axis(one.name, one.unit, one.benign, tuple(value - 0.5 for value in range(first, last + 2)), True)
    return Axis(one.name, one.unit, one.benign, _edges(one.low, one.high, bins))


def amount_of(axis: Axis, space: Sequence[Parameter], params: Params) -> float:
    """How much a change has of its kind's axis."""
    if axis.name == SHARE:
        return distance([each for each in space if each.form in (NUMBER, WHOLE)], params)
    return float(params.get(axis.name, axis.benign))


@dataclass
class Coverage:
    """Where the search of a task has been.

    Args:
        spaces: by the name of each kind that the task can have, its parameters.
    """

    spaces: Mapping[str, Sequence[Parameter]]

    def __post_init__(self) -> None:
        self.axes = {kind: axis_of(space) for kind, space in self.spaces.items()}
        self.kinds = {kind: Both() for kind in self.spaces}
        self.bins = {kind: [Both() for _ in axis.edges[1:]] for kind, axis in self.axes.items() if axis is not None}
        self.dimensions = tuple(dict.fromkeys(dimension_of(kind) for kind in self.spaces))
        pairs = combinations_with_replacement(self.dimensions, 2)
        self.pairs: dict[tuple[str, str], Both] = {pair: Both() for pair in pairs}

    def count(self, candidate: Candidate, source: str, outcome: Outcome) -> None:
        """Count a scene that was tried. Changes of kinds that the task does not have are ignored."""
        changes = [change for change in candidate.changes if change.kind in self.spaces]
        for change in changes:
            self.kinds[change.kind].count(source, outcome)
            axis = self.axes[change.kind]
            if axis is not None:
                amount = amount_of(axis, self.spaces[change.kind], change.params)
                self.bins[change.kind][axis.bin_of(amount)].count(source, outcome)
        there = {dimension_of(change.kind) for change in changes}
        for pair in combinations_with_replacement([each for each in self.dimensions if each in there], 2):
            self.pairs[pair].count(source, outcome)

    @property
    def untried_kinds(self) -> tuple[str, ...]:
        """Kinds that no scene had."""
        return tuple(kind for kind, seen in self.kinds.items() if not seen.tried)

    @property
    def untried_pairs(self) -> tuple[tuple[str, str], ...]:
        """Dimensions of which no scene had both."""
        return tuple(pair for pair, seen in self.pairs.items() if pair[0] != pair[1] and not seen.tried)


def _edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    return (*(low + (high - low) * place / bins for place in range(bins)), high)
