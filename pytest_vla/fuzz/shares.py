"""The influence of dimensions on failures: the share of the variance that each, and each pair, explains.

Only scenes that were drawn evenly are used, as they do not depend on the results of others. The estimates:

- for a dimension ``Var(E[Y | X]) / Var(Y)``, the first-order index of Sobol (Mathematics and Computers in Simulation
  55, 2001): Y is whether the policy fails, X whether the dimension is changed, by which kind, and how much (two bins on
  each side). Over scenes as they are drawn, with one to three changes, without inconclusive ones.
- for two dimensions the part of Y that whether each is changed explains beyond any sum of one term for each: a joint
  cause that no single dimension shows. Kinds and amounts are not told apart here.

A scene changes few of all dimensions, so that one which is changed makes others a little less likely: X of different
dimensions are not independent, a little of one's effect is in the share of others, and shares need not add up to 1.

The p of a dimension does not take that for an effect: outcomes are permuted among scenes with as many other dimensions
changed. Given that number, scenes are drawn so that how X is changed does not depend on which others are, or by how
much; so a dimension without an effect of its own has a uniform p, whatever the others do.
"""

from bisect import bisect_right
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from pytest_vla.fuzz.amounts import distance
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.sampler import EVEN, Spaces
from pytest_vla.fuzz.shrink import Outcome
from pytest_vla.metrics.statistics import holm
from pytest_vla.plan.case import dimension_of
from pytest_vla.scene.variation import Params
from pytest_vla.vary.space import NUMBER, WHOLE, Parameter

# Where a search has been: of each kind, of each amount of it, and of each two dimensions how many scenes were tried.
#
# Scenes are counted one by one, so that memory does not grow with them.

BINS = 10
"""Of an amount; of whole numbers that are few, one each."""

SHARE = "largest number, of its range"
"""What an amount is called where a kind has several numbers."""


@dataclass
class CoverageTally:
    """The number of tried scenes, and of those that the policy failed, and that were inconclusive."""

    tried: int = 0
    failed: int = 0
    aside: int = 0

    @property
    def counted(self) -> int:
        """The number of scenes that the policy failed or solved."""
        return self.tried - self.aside

    def count(self, outcome: Outcome) -> None:
        """Count a scene that was tried."""
        self.tried += 1
        self.failed += outcome == "fails"
        self.aside += outcome == "aside"


@dataclass
class Both:
    """The tallies of evenly drawn scenes, and of guided ones, whose rates are no rates of a space."""

    even: CoverageTally = field(default_factory=CoverageTally)
    guided: CoverageTally = field(default_factory=CoverageTally)

    @property
    def tried(self) -> int:
        """The number of scenes in both."""
        return self.even.tried + self.guided.tried

    @property
    def failed(self) -> int:
        """The number of scenes in both that the policy failed."""
        return self.even.failed + self.guided.failed

    @property
    def aside(self) -> int:
        """The number of inconclusive scenes in both."""
        return self.even.aside + self.guided.aside

    def count(self, source: str, outcome: Outcome) -> None:
        """Count a scene that was tried."""
        (self.even if source == EVEN else self.guided).count(outcome)


@dataclass(frozen=True)
class Axis:
    """The amount of a kind, in bins.

    Attributes:
        name: of the parameter, or `SHARE`.
        unit: or an empty text.
        benign: the value that changes nothing.
        edges: of the bins, one more than bins; each bin includes its lower edge, the last one both.
        is_whole: whether each bin has one whole number, in its middle.
    """

    name: str
    unit: str
    benign: float
    edges: tuple[float, ...]
    is_whole: bool = False

    def bin_of(self, value: float) -> int:
        """Return the bin of a value, or the nearest one if it is beyond the edges."""
        return min(max(bisect_right(self.edges, value) - 1, 0), len(self.edges) - 2)


def axis_of(space: Sequence[Parameter], bins: int = BINS) -> Axis | None:
    """Return the axis of a kind's amount: its number, signed, or the largest share of several; None without one.

    Args:
        space: of the kind.
        bins: their number, over the range.
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
    """Return the amount of a change on its kind's axis."""
    if axis.name == SHARE:
        return distance([each for each in space if each.form in (NUMBER, WHOLE)], params)
    return float(params.get(axis.name, axis.benign))


@dataclass
class Coverage:
    """The coverage of a task's search: scenes by kind, amount and pair of dimensions.

    Args:
        spaces: the parameters of each kind that the task can have, by its name.
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
        """The kinds that no scene had."""
        return tuple(kind for kind, seen in self.kinds.items() if not seen.tried)

    @property
    def untried_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of dimensions that no scene had."""
        return tuple(pair for pair, seen in self.pairs.items() if pair[0] != pair[1] and not seen.tried)


def _edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    return (*(low + (high - low) * place / bins for place in range(bins)), high)


FEWEST_SCENES, FEWEST_OF_EACH = 30, 5
"""Of fewer scenes, or fewer that fail or that do not, nothing is said."""

FEWEST_OF_BOTH = 10
"""Of fewer scenes that change both, one, the other or neither nothing is said of the two: intervals would miss."""

DRAWS = 2000
"""Of the bootstrap, and of permutations."""

_SIDE_BINS = 2
_LEVEL = 0.95

Interval = tuple[float, float]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class DimensionShare:
    """The share of the variance of failures that a dimension explains, or two of them beyond each.

    Attributes:
        of: the dimension, or the two.
        share: of the variance, corrected for the bias of few scenes, so that it can be below 0. None with a reason in
            `why`.
        interval: bootstrap, 95%, over scenes that are drawn alike; within 0..1.
        p: how likely chance alone gives as much; for a single dimension, given how many others are changed.
        adjusted: p among all of its sort, by Holm.
        more: for two, whether scenes with both fail more often than the sum of what each does; else less often, for
            example if one of them is enough.
        why: the reason if there is no share, else an empty text.
    """

    of: tuple[str, ...]
    share: float | None = None
    interval: Interval | None = None
    p: float | None = None
    adjusted: float | None = None
    more: bool = False
    why: str = ""


@dataclass(frozen=True)
class DimensionShares:
    """The influence of dimensions on failures.

    Attributes:
        scenes: number of evenly drawn scenes with a conclusive outcome.
        failed: of those.
        single: of each dimension, the largest first.
        pairs: of each two dimensions, the largest first.
        why: the reason if there are too few scenes, else an empty text.
    """

    scenes: int
    failed: int
    single: tuple[DimensionShare, ...] = ()
    pairs: tuple[DimensionShare, ...] = ()
    why: str = ""


@dataclass
class Counted:
    """The scenes as counts by changed dimensions and outcome, from which shares are computed.

    Args:
        dimensions: that may be changed.
    """

    dimensions: Sequence[str]
    scenes: int = 0
    failed: int = 0
    single: dict[str, dict[Hashable, list[int]]] = field(default_factory=dict)
    strata: dict[str, dict[int, dict[Hashable, list[int]]]] = field(default_factory=dict)
    pairs: dict[tuple[str, str], Counts] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.single = {name: {} for name in self.dimensions}
        self.strata = {name: {} for name in self.dimensions}
        self.pairs = {pair: np.zeros((2, 2, 2), np.int64) for pair in combinations(self.dimensions, 2)}

    def count(self, there: Mapping[str, Hashable], fails: bool) -> None:
        """Count a scene that was tried.

        Args:
            there: kind and bin of each changed dimension.
            fails: whether the policy failed it.
        """
        self.scenes += 1
        self.failed += fails
        for name, cells in self.single.items():
            cells.setdefault(there.get(name), [0, 0])[fails] += 1
            others = len(there) - (name in there)
            self.strata[name].setdefault(others, {}).setdefault(there.get(name), [0, 0])[fails] += 1
        for (one, other), table in self.pairs.items():
            table[int(one in there), int(other in there), int(fails)] += 1


def changed(candidate: Candidate, spaces: Spaces) -> dict[str, Hashable]:
    """Return the kind and amount of each dimension that a scene changes: two bins on each side of benign."""
    found: dict[str, Hashable] = {}
    for change in candidate.changes:
        space = spaces[change.kind]
        axis = axis_of(space, 2 * _SIDE_BINS)
        place = 0
        if axis is not None:
            # On one side only of benign it has half as many.
            is_signed = axis.edges[0] < axis.benign < axis.edges[-1]
            axis = axis if is_signed else axis_of(space, _SIDE_BINS)
            assert axis is not None
            place = axis.bin_of(amount_of(axis, space, change.params))
        found[dimension_of(change.kind)] = (change.kind, place)
    return found


def shares_of(counted: Counted, generator: np.random.Generator) -> DimensionShares:
    """Compute the shares of dimensions, or the reason why there are none.

    Args:
        counted: the scenes.
        generator: of permutations and of the bootstrap.
    """
    scenes, failed = counted.scenes, counted.failed
    passed = scenes - failed
    if scenes < FEWEST_SCENES or min(failed, passed) < FEWEST_OF_EACH:
        why = (
            f"the policy fails {failed} of {scenes} conclusive evenly drawn scenes: at least {FEWEST_SCENES} are "
            f"needed, with {FEWEST_OF_EACH} failures and {FEWEST_OF_EACH} successes"
        )
        return DimensionShares(scenes, failed, why=why)
    single = []
    for name, cells in counted.single.items():
        strata = [np.array([*some.values()], np.int64) for _, some in sorted(counted.strata[name].items())]
        single.append(_single(name, np.array([*cells.values()], np.int64), strata, generator))
    pairs = [_pair(pair, table, generator) for pair, table in counted.pairs.items()]
    return DimensionShares(scenes, failed, _ordered(single), _ordered(pairs))


def explained(table: Counts) -> NDArray[np.float64]:
    """Compute the share of the variance between cells, corrected for the bias of few scenes: Kelley's epsilon squared.

    The correction is the mean over all permutations of the outcomes, ``(cells - 1) / (scenes - 1)``. Source: Kelley,
    Proceedings of the National Academy of Sciences 21(9), 1935.

    Args:
        table: (..., cells, 2) counts of passes and of failures.

    Returns:
        (...); 0 if all scenes end alike, or each has a cell of its own.
    """
    raw, chance = _raw(table), _by_chance(table)
    is_told = (chance < 1) & table.sum(-2).all(-1)
    return np.where(is_told, (raw - chance) / np.where(is_told, 1 - chance, 1.0), 0.0)


def beyond(table: Counts) -> NDArray[np.float64]:
    """Compute the share of the variance that two explain beyond a sum of one term for each, corrected for bias.

    Args:
        table: (..., 2, 2, 2) counts: whether one is changed, whether the other is, whether it fails.

    Returns:
        (...); 0 if a cell is empty or all scenes end alike.
    """
    number, contrast, weight = _contrast(table)
    rate = table[..., 1] / np.maximum(number, 1)
    noise = (rate * (1 - rate) / np.maximum(number - 1, 1)).sum((-2, -1))
    return np.asarray((contrast**2 - noise) * weight / _squares(table.reshape(*table.shape[:-3], 4, 2)))


def _single(name: str, table: Counts, strata: Sequence[Counts], generator: np.random.Generator) -> DimensionShare:
    scenes, cells = int(table.sum()), len(table)
    if cells < 2:
        return DimensionShare((name,), why="no scene changes it, or all do")
    if scenes < 3 * cells:
        return DimensionShare((name,), why=f"{scenes} scenes are too few for its {cells} ways to be changed")
    share = float(explained(table))
    p = stratified_p(strata, generator)
    drawn = generator.multinomial(scenes, (table / scenes).ravel(), DRAWS).reshape(DRAWS, cells, 2)
    return DimensionShare((name,), share, _interval(share, float(_raw(table)), explained(drawn)), p)


def stratified_p(strata: Sequence[Counts], generator: np.random.Generator) -> float:
    """Compute the probability that chance gives cells that differ as much, by permutation of outcomes within strata.

    Args:
        strata: a table (cells, 2) each, of passes and of failures.
        generator: of the permutations.
    """
    seen, by_chance = 0.0, np.zeros(DRAWS)
    for table in strata:
        number, failed = table.sum(1), int(table[:, 1].sum())
        seen += float(_between(number, table[:, 1]))
        by_chance += _between(number, generator.multivariate_hypergeometric(number, failed, DRAWS))
    return _p(by_chance >= seen - 1e-9)


def _between(number: Counts, failed: Counts) -> NDArray[np.float64]:
    """Return the squares between cells, for (cells,) scenes of which (..., cells) fail."""
    mean = failed.sum(-1, keepdims=True) / number.sum()
    return np.asarray((number * (failed / number - mean) ** 2).sum(-1))


def _pair(pair: tuple[str, str], table: Counts, generator: np.random.Generator) -> DimensionShare:
    number, contrast, weight = _contrast(table)
    if number.min() < FEWEST_OF_BOTH:
        return DimensionShare(
            pair,
            why=f"{int(number[1, 1])} scenes change both: {FEWEST_OF_BOTH} are needed, also with one alone and neither",
        )
    share = float(beyond(table))
    # Without anything joint each cell would fail as the sum of one term for each says.
    sign = np.array([[1.0, -1.0], [-1.0, 1.0]])
    summed = np.clip(table[..., 1] / number - sign * contrast * weight / number, 0.0, 1.0)
    failed = generator.binomial(number, summed, (DRAWS, 2, 2))
    _, by_chance, _ = _contrast(np.stack([number - failed, failed], -1))
    drawn = generator.multinomial(int(number.sum()), (table / number.sum()).ravel(), DRAWS).reshape(DRAWS, 2, 2, 2)
    raw = float(contrast**2 * weight / _squares(table.reshape(4, 2)))
    interval = _interval(share, raw, beyond(drawn))
    return DimensionShare(pair, share, interval, _p(abs(by_chance) >= abs(contrast) - 1e-12), more=bool(contrast > 0))


def _interval(share: float, raw: float, drawn: NDArray[np.float64]) -> Interval:
    """Return the bootstrap interval: in its world the raw share is true, and `drawn` differ from it by the error.

    Errors of small shares are skewed: of the basic interval and the one that is not mirrored the wider ends are taken.
    Simulated with 60 to 1000 scenes these cover the truth 92 to 100 times of 100 (for two dimensions, with 600 scenes,
    91 to 100), where each alone does 63 to 100.
    """
    low, high = np.quantile(drawn - raw, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    ends = share + min(low, -high), share + max(high, -low)
    return float(np.clip(ends[0], 0.0, 1.0)), float(np.clip(ends[1], 0.0, 1.0))


def _p(as_much: NDArray[np.bool_]) -> float:
    return (1 + int(as_much.sum())) / (1 + len(as_much))


def _raw(table: Counts) -> NDArray[np.float64]:
    number = table.sum(-1)
    mean = table[..., 1].sum(-1, keepdims=True) / number.sum(-1, keepdims=True)
    rate = table[..., 1] / np.maximum(number, 1)
    return np.asarray((number * (rate - mean) ** 2).sum(-1) / _squares(table))


def _by_chance(table: Counts) -> NDArray[np.float64]:
    number = table.sum(-1)
    return np.asarray(((number > 0).sum(-1) - 1) / np.maximum(number.sum(-1) - 1, 1))


def _squares(table: Counts) -> NDArray[np.float64]:
    """Return the squared deviations of all scenes from their mean; not 0."""
    passed, failed = table[..., 0].sum(-1), table[..., 1].sum(-1)
    return np.asarray(np.maximum(passed * failed / (passed + failed), 1e-12))


def _contrast(table: Counts) -> tuple[Counts, NDArray[np.float64], NDArray[np.float64]]:
    """Return scenes by cell, the excess of both over the sum of each, and its square's weight: 0 if one is empty."""
    number: Counts = table.sum(-1)
    rate = table[..., 1] / np.maximum(number, 1)
    contrast = rate[..., 1, 1] - rate[..., 1, 0] - rate[..., 0, 1] + rate[..., 0, 0]
    weight = np.where(number.min((-2, -1)) > 0, 1 / (1 / np.maximum(number, 1)).sum((-2, -1)), 0.0)
    return number, contrast, weight


def _ordered(some: Sequence[DimensionShare]) -> tuple[DimensionShare, ...]:
    """Return the largest first, those without a share last; each p adjusted among all of them."""
    told = [each for each in some if each.p is not None]
    adjusted = holm([each.p for each in told if each.p is not None])
    found = [replace(each, adjusted=p) for each, p in zip(told, adjusted, strict=True)]
    return (*sorted(found, key=lambda each: -(each.share or 0.0)), *(each for each in some if each.p is None))
