"""The compositional gap: are two dimensions at once worse than each alone lets expect? Pure functions over records.

As LIBERO-Plus (arXiv 2510.13626, appendix F.2) has it. D_i and D_j say whether a dimension is applied, Y that the
episode succeeds, and

    gap_ij = P(D_i, D_j | Y) - P(D_i | Y) P(D_j | Y),

the covariance of D_i and D_j among successes, where each of the four combinations is run as often. So the 2x2 table has
the successes of as many episodes each: (none applied, only j), (only i, both). Here they are of the same tasks, seeds
and run seeds: a quartet is the joint episode, the two with its parts alone (same kinds, same levels) and the benign
twin, and it counts where all four are successes or failures. With success rates s the gap is

    (s_both s_none - s_i s_j) / (s_none + s_i + s_j + s_both)^2:

below 0 where the joint success is less than s_i s_j / s_none, what it would be if each dimension took its share of what
the other one leaves. That is the product of the singles where nothing fails without a variation.

Chi-square (1 degree of freedom) tests on the same table whether D_i and D_j are independent given Y. It takes the
successes for independent draws, which those of a quartet are not: what all four have in common, and rates near 1, make
it say too little rather than too much. Where several joint variations share a task and seed, and so their benign twin,
they count together as one quartet: chi-square is divided by how many there are. The intervals are bootstraps over tasks
and seeds, which keep quartets together.

Of LIBERO-Plus's Tables 7 and 8 we know neither the success counts nor the rates per cell, only the formulas: they are
recomputed nowhere.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_vla.metrics.bootstrap import Interval, cluster_intervals
from pytest_vla.metrics.paired import chi_square, chi_square_p, holm, smallest_expected
from pytest_vla.metrics.robustness import NO_WIDTH, Varied, dimension_of
from pytest_vla.metrics.selection import is_counted, seed_of
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.records import Record
from pytest_vla.variation import JOINT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROUGH = 5
"""A table in which a smaller count than this is expected has a rough chi-square."""


@dataclass(frozen=True)
class Quartet:
    """Episodes of one task, seed and run seed: without a variation, with each of two, and with both."""

    benign: Record
    first: Record
    second: Record
    joint: Record

    @property
    def all(self) -> tuple[Record, Record, Record, Record]:
        """In the order of the table's cells."""
        return self.benign, self.first, self.second, self.joint


@dataclass(frozen=True)
class Composition:
    """Two dimensions, over their kinds and levels; rates are 0..1.

    Attributes:
        dimensions: their names.
        labels: of the joint variations.
        n: quartets.
        successes: of the n benign episodes, of those with the first, with the second, and with both.
        gap: see the module's page, in [-1/4, 1/4]; None where nothing succeeded.
        gap_interval: None where resamples tell all the same or too many have none, as in all intervals but Wilson's.
        chi_square: as on the module's page; None where a margin is 0.
        p: likewise.
        p_adjusted: Holm's, among the pairs of the table.
        rough: whether a count below `ROUGH` is expected somewhere in the table.
        joint_interval: Wilson's, of the joint success.
        product: of the two single success rates.
        product_interval: bootstrap.
        expected: the joint success at which the gap is 0; None where nothing succeeded without a variation. Beyond 1
            where the singles do better than the benign twins.
        expected_interval: bootstrap.
        less_product: interval of the joint success less the product.
        less_expected: interval of the joint success less the expected one.
        undefined: why there is no chi-square; empty: there is one.
    """

    dimensions: tuple[str, str]
    labels: tuple[str, ...]
    n: int
    successes: tuple[int, int, int, int]
    gap: float | None
    gap_interval: Interval | None
    chi_square: float | None
    p: float | None
    p_adjusted: float | None
    rough: bool
    joint_interval: Interval
    product: float
    product_interval: Interval | None
    expected: float | None
    expected_interval: Interval | None
    less_product: Interval | None
    less_expected: Interval | None
    undefined: str

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """Success of the benign episodes, of those with the first, with the second, and with both."""
        benign, first, second, joint = self.successes
        return benign / self.n, first / self.n, second / self.n, joint / self.n


def compositional_gap(benign: float, first: float, second: float, joint: float) -> float | None:
    """P(D_i, D_j | Y) - P(D_i | Y) P(D_j | Y) from success rates, or counts of as many episodes each; see the page.

    Returns:
        None where all are 0: there is no success to be conditioned on.

    Raises:
        ValueError: one is negative.
    """
    if min(benign, first, second, joint) < 0:
        raise ValueError(f"compositional_gap: {benign}, {first}, {second}, {joint}: expected rates or counts")
    total = benign + first + second + joint
    if not total:
        return None
    # The same as the definition, rounded once where these are counts.
    return (benign * joint - first * second) / total**2


def compositions(varied: Varied, generator: "np.random.Generator") -> tuple[tuple[Composition, ...], tuple[str, ...]]:
    """Each pair of dimensions with joint episodes, by name; and what is in no quartet, and why."""
    found, notes = quartets(varied)
    tables = [_composition(dimensions, some, generator) for dimensions, some in sorted(found.items())]
    tested = [index for index, each in enumerate(tables) if each.p is not None]
    adjusted = holm([each.p for each in tables if each.p is not None])
    for index, p in zip(tested, adjusted, strict=True):
        tables[index] = replace(tables[index], p_adjusted=p)
    return tuple(tables), notes


def quartets(varied: Varied) -> tuple[dict[tuple[str, str], list[Quartet]], tuple[str, ...]]:
    """The quartets of each pair of dimensions, of which the first is that of `Quartet.first`; and what is in none.

    A joint variation's label is those of its parts with `JOINT` between, in the order of its dimensions.
    """
    known = {(*_place(record), _label(record)): record for record in (*varied.benign, *varied.episodes)}
    known |= {(*_place(one), _label(one)): record for one, record in varied.same}
    found: dict[tuple[str, str], list[Quartet]] = {}
    several = incomplete = uncounted = drawn = 0
    for record in varied.episodes:
        dimensions = dimension_of(record).split(JOINT)
        labels = _label(record).split(JOINT)
        if len(dimensions) == 1:
            continue
        if not len(dimensions) == len(labels) == 2:
            several += 1
            continue
        benign, *singles = (known.get((*_place(record), label)) for label in ("", *labels))
        if benign is None or singles[0] is None or singles[1] is None:
            incomplete += 1
            continue
        in_order = sorted(zip(dimensions, singles, strict=True), key=lambda each: each[0])
        (one, first), (other, second) = ((name, single) for name, single in in_order if single is not None)
        quartet = Quartet(benign, first, second, record)
        if not all(map(is_counted, quartet.all)):
            uncounted += 1
            continue
        drawn += not _drawn_alike(quartet)
        found.setdefault((one, other), []).append(quartet)
    left_out = [
        (several, "joint episodes that are not of two variations: in no pair"),
        (incomplete, "joint episodes without the benign twin and both parts alone of the same run seed: in no pair"),
        (uncounted, "joint episodes of which one of the four is an error or invalid: in no pair"),
        (drawn, "joint episodes drew other parameters than their parts alone: they are compared nevertheless"),
    ]
    return found, tuple(f"{number} {what}" for number, what in left_out if number)


def _label(record: Record) -> str:
    return str(record.variation.get("label", ""))


def _place(record: Record) -> tuple[str, Hashable]:
    return record.task, seed_of(record)


def _drawn_alike(quartet: Quartet) -> bool:
    """Whether the joint variation is made of what its parts are made of alone."""
    joint: Mapping[str, object] = quartet.joint.variation.get("parameters", {})
    alone = {
        f"{dimension_of(single)}.{single.variation.get('kind')}.{name}": value
        for single in (quartet.first, quartet.second)
        for name, value in single.variation.get("parameters", {}).items()
    }
    return dict(joint) == alone


def _composition(
    dimensions: tuple[str, str], found: Sequence[Quartet], generator: "np.random.Generator"
) -> Composition:
    n = len(found)
    benign, first, second, joint = (
        sum(record.outcome == "success" for record in column) for column in zip(*(q.all for q in found), strict=True)
    )
    table = ((benign, second), (first, joint))
    share = len({_place(quartet.joint) for quartet in found}) / n
    statistic = chi_square(table)
    if statistic is not None:
        statistic *= share
    gap, product, expected, of_product, of_expected = _intervals(found, generator)
    return Composition(
        dimensions=dimensions,
        labels=tuple(sorted({_label(quartet.joint) for quartet in found})),
        n=n,
        successes=(benign, first, second, joint),
        gap=compositional_gap(benign, first, second, joint),
        gap_interval=gap,
        chi_square=statistic,
        p=None if statistic is None else chi_square_p(statistic),
        p_adjusted=None,
        rough=share * smallest_expected(table) < ROUGH,
        joint_interval=wilson_interval(joint, n),
        product=first * second / n**2,
        product_interval=product,
        expected=first * second / (n * benign) if benign else None,
        expected_interval=expected,
        less_product=of_product,
        less_expected=of_expected,
        undefined="" if statistic is not None else _undefined(dimensions, benign, first, second, joint),
    )


def _undefined(dimensions: tuple[str, str], benign: int, first: int, second: int, joint: int) -> str:
    """Which margin is 0."""
    one, other = dimensions
    if not benign + first + second + joint:
        return "nothing succeeded"
    margins = [
        (first + joint, f"with {one}"),
        (second + joint, f"with {other}"),
        (benign + second, f"without {one}"),
        (benign + first, f"without {other}"),
    ]
    return f"nothing succeeded {' and nothing '.join(where for margin, where in margins if not margin)}"


def _intervals(found: Sequence[Quartet], generator: "np.random.Generator") -> Iterable[Interval | None]:
    """Of the gap, the product, the expected success, and the joint success less either."""
    import numpy as np

    rows = np.array([[1, *(record.outcome == "success" for record in quartet.all)] for quartet in found], np.float64)

    def statistics(sums: "NDArray[np.float64]") -> "NDArray[np.float64]":
        # A resample may be empty, or have no success.
        with np.errstate(divide="ignore", invalid="ignore"):
            benign, first, second, joint = (sums[:, 1:] / sums[:, :1]).T
            total = benign + first + second + joint
            gap = (joint * benign - first * second) / total**2
            product = first * second
            expected = np.where(benign > 0, product / benign, np.nan)
        return np.stack([gap, product, expected, joint - product, joint - expected], axis=1)

    tasks, seeds = [quartet.joint.task for quartet in found], [seed_of(quartet.joint) for quartet in found]
    intervals = cluster_intervals(rows, tasks, seeds, statistics, generator)
    return [each if each is None or each[1] - each[0] > NO_WIDTH / 100 else None for each in intervals]
