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

Whether there is a gap is said by its interval: delta method over tasks and seeds, with a success and a failure more in
each of the four (as Agresti and Caffo 2000, The American Statistician 54, 280-288), and Student's t. It keeps quartets
together, and those that share a task and seed.

Beside it stands the chi-square that the paper prints (its appendix, "Chi-square test", 1 degree of freedom): Pearson's
with Yates' continuity correction, the default of scipy, for the 2x2 table of success counts. A cell's expected count is
its row total times its column total over all successes. In the paper each cell has 2,000 episodes and the benign rate
is .971. The test treats successes as independent draws, which those of a quartet are not.

The paper pools its four suites. `pooled_compositions` does so; `compositions` keeps each suite by itself.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pytest_vla.metrics.clustered import (
    FEWEST_TASKS,
    Interval,
    Unit,
    linearised_intervals,
    no_narrower,
    rate_interval,
    worth,
)
from pytest_vla.metrics.robustness import Varied, dimension_of
from pytest_vla.metrics.selection import is_counted, seed_of
from pytest_vla.metrics.statistics import chi_square, chi_square_p, holm, smallest_expected
from pytest_vla.metrics.success import start_within
from pytest_vla.plan.case import parts_of
from pytest_vla.records.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Verdict = Literal["worse", "better", "not determined"]
"""What the gap's interval says: than independent dimensions would be."""

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
        """The four records in the order of the table's cells."""
        return self.benign, self.first, self.second, self.joint


@dataclass(frozen=True)
class DimensionPair:
    """The composition of two dimensions, over their kinds and levels; rates are 0..1.

    Attributes:
        dimensions: their names.
        labels: labels of the joint variations.
        n: quartets.
        successes: of the n benign episodes, of those with the first, with the second, and with both variations.
        gap: see the module, in [-1/4, 1/4]; None if nothing succeeded.
        gap_interval: over these tasks; None for a single task and seed, and if nothing succeeded, as are all below.
        tasks_gap_interval: over tasks like these; also None for too few tasks.
        chi_square: with Yates' correction, as the paper prints it; None if a margin is 0.
        p: the chi-square's.
        p_adjusted: Holm's, among the pairs of the table.
        rough: whether an expected count in the table is below `ROUGH`.
        joint_interval: the joint success rate's.
        product: the product of the two single success rates.
        product_interval: the product's.
        expected: the joint success rate at which the gap is 0; None if nothing succeeded without a variation. Above 1
            if the single variations do better than the benign twins.
        expected_interval: the expected rate's.
        less_product: interval of the joint success rate minus the product.
        less_expected: interval of the joint success rate minus the expected one.
        undefined: the reason for a missing chi-square, or empty.
    """

    dimensions: tuple[str, str]
    labels: tuple[str, ...]
    n: int
    successes: tuple[int, int, int, int]
    gap: float | None
    gap_interval: Interval | None
    tasks_gap_interval: Interval | None
    chi_square: float | None
    p: float | None
    p_adjusted: float | None
    rough: bool
    joint_interval: Interval | None
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

    @property
    def above_product(self) -> float:
        """The joint success less the product; `less_product` is its interval."""
        return self.rates[3] - self.product

    @property
    def above_expected(self) -> float | None:
        """The joint success less the expected one; `less_expected` is its interval."""
        return None if self.expected is None else self.rates[3] - self.expected

    @property
    def verdict(self) -> Verdict:
        """The verdict that follows from the gap's interval."""
        low, high = self.gap_interval or (-1.0, 1.0)
        return "worse" if high < 0 else "better" if low > 0 else "not determined"


def compositional_gap(benign: float, first: float, second: float, joint: float) -> float | None:
    """Compute P(D_i, D_j | Y) - P(D_i | Y) P(D_j | Y) from success rates, or counts over equally many episodes.

    Returns:
        None if all are 0: there is no success to condition on.

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


def compositions(varied: Varied) -> tuple[tuple[DimensionPair, ...], tuple[str, ...]]:
    """Return each pair of dimensions with joint episodes, by name; and notes on episodes that are in no quartet."""
    found, notes = quartets(varied)
    return _tested(found), notes


def pooled_compositions(models: Iterable[Varied]) -> tuple[DimensionPair, ...]:
    """Return each pair of dimensions over all suites of one model, as LIBERO-Plus's Table 7 pools them.

    Args:
        models: one model in its suites, all of one protocol.
    """
    found: dict[tuple[str, str], list[Quartet]] = {}
    for varied in models:
        for dimensions, some in quartets(varied)[0].items():
            found.setdefault(dimensions, []).extend(some)
    return _tested(found)


def _tested(found: Mapping[tuple[str, str], Sequence[Quartet]]) -> tuple[DimensionPair, ...]:
    """Return the table of each pair of dimensions, by name, with Holm's adjustment over all of them."""
    tables = [_composition(dimensions, some) for dimensions, some in sorted(found.items())]
    tested = [index for index, each in enumerate(tables) if each.p is not None]
    adjusted = holm([each.p for each in tables if each.p is not None])
    for index, p in zip(tested, adjusted, strict=True):
        tables[index] = replace(tables[index], p_adjusted=p)
    return tuple(tables)


def quartets(varied: Varied) -> tuple[dict[tuple[str, str], list[Quartet]], tuple[str, ...]]:
    """Return the quartets by pair of dimensions, in the order of `Quartet.first`; and notes on episodes in none.

    A joint variation's label is its parts' labels joined by ``+``, in the order of its dimensions.
    """
    known = {(*_place(record), _label(record)): record for record in (*varied.benign, *varied.episodes)}
    known |= {(*_place(one), _label(one)): record for one, record in varied.same}
    found: dict[tuple[str, str], list[Quartet]] = {}
    several = incomplete = uncounted = drawn = 0
    for record in varied.episodes:
        dimensions = parts_of(dimension_of(record))
        labels = parts_of(_label(record))
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
        (several, "joint episodes with more than two variations: in no pair"),
        (
            incomplete,
            "joint episodes without benign twin and single variations under the same run seed: in no pair",
        ),
        (uncounted, "joint episodes with an error or invalid episode among the four: in no pair"),
        (drawn, "joint episodes drew different parameters than their single variations: still compared"),
    ]
    return found, tuple(f"{number} {what}" for number, what in left_out if number)


def _label(record: Record) -> str:
    return str(record.variation.get("label", ""))


def _place(record: Record) -> tuple[str, object]:
    return record.task_key, seed_of(record)


def _drawn_alike(quartet: Quartet) -> bool:
    """Whether the joint variation is made of what its parts are made of alone."""
    joint: Mapping[str, object] = quartet.joint.variation.get("parameters", {})
    alone = {
        f"{dimension_of(single)}.{single.variation.get('kind')}.{name}": value
        for single in (quartet.first, quartet.second)
        for name, value in single.variation.get("parameters", {}).items()
    }
    return dict(joint) == alone


def composition(
    dimensions: tuple[str, str],
    outcomes: Sequence[Sequence[bool]],
    units: Sequence[Unit],
    labels: Sequence[str] = (),
) -> DimensionPair:
    """Compute the composition of two dimensions from quartets' outcomes.

    Args:
        dimensions: their names.
        outcomes: (n, 4), success of the benign episode, of those with the first and with the second variation, and of
            the joint one; at least one quartet.
        units: (n,), each quartet's task and seed.
        labels: labels of the joint variations.
    """
    n = len(outcomes)
    benign, first, second, joint = (sum(map(bool, column)) for column in zip(*outcomes, strict=True))
    table = ((benign, second), (first, joint))
    statistic = chi_square(table, yates=True)
    gap, product, expected, of_product, of_expected = _intervals(outcomes, units)
    tasks = [task for task, _ in units]
    by_task = _intervals(outcomes, tasks, worth(units))[0] if len(set(tasks)) >= FEWEST_TASKS else None
    some = any((benign, first, second, joint))
    return DimensionPair(
        dimensions=dimensions,
        labels=tuple(labels),
        n=n,
        successes=(benign, first, second, joint),
        gap=compositional_gap(benign, first, second, joint),
        gap_interval=gap if some else None,
        tasks_gap_interval=no_narrower(by_task, gap) if some else None,
        chi_square=statistic,
        p=None if statistic is None else chi_square_p(statistic),
        p_adjusted=None,
        rough=smallest_expected(table) < ROUGH,
        joint_interval=rate_interval([float(each[3]) for each in outcomes], units),
        product=first * second / n**2,
        product_interval=product,
        expected=first * second / (n * benign) if benign else None,
        expected_interval=expected if benign else None,
        less_product=of_product,
        less_expected=of_expected if benign else None,
        undefined="" if statistic is not None else _undefined(dimensions, benign, first, second, joint),
    )


def _composition(dimensions: tuple[str, str], found: Sequence[Quartet]) -> DimensionPair:
    outcomes = [[record.outcome == "success" for record in quartet.all] for quartet in found]
    units = [(f"{quartet.joint.suite}/{quartet.joint.task}", start_within(quartet.joint)) for quartet in found]
    return composition(dimensions, outcomes, units, sorted({_label(quartet.joint) for quartet in found}))


def _undefined(dimensions: tuple[str, str], benign: int, first: int, second: int, joint: int) -> str:
    """Return a text that names the margin that is 0."""
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


def _intervals(
    outcomes: Sequence[Sequence[bool]], clusters: Sequence[Hashable], trials: float | None = None
) -> list[Interval | None]:
    """Compute intervals for the gap, the product, the expected success, and the joint success minus either."""
    import numpy as np

    intervals = linearised_intervals(np.array(outcomes, np.float64), clusters, _of_rates, added=1, trials=trials)
    if intervals is None:
        return [None] * len(_LIMITS)
    limited = zip(intervals, _LIMITS, strict=True)
    return [(max(low, least), min(high, most)) for (low, high), (least, most) in limited]


_LIMITS = ((-0.25, 0.25), (0.0, 1.0), (0.0, float("inf")), (-1.0, 1.0), (-float("inf"), 1.0))
"""Of what `_of_rates` gives."""


def _of_rates(rates: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    """Return the five numbers of four success rates above 0, and their derivatives by each, (5, 4)."""
    import numpy as np

    benign, first, second, joint = rates.tolist()
    total, excess = benign + first + second + joint, joint * benign - first * second
    product, expected = first * second, first * second / benign
    of_gap = np.array([joint, -second, -first, benign]) / total**2 - 2 * excess / total**3
    of_product = np.array([0.0, second, first, 0.0])
    of_expected = np.array([-expected, second, first, 0.0]) / benign
    of_joint = np.array([0.0, 0.0, 0.0, 1.0])
    values = np.array([excess / total**2, product, expected, joint - product, joint - expected])
    return values, np.stack([of_gap, of_product, of_expected, of_joint - of_product, of_joint - of_expected])
