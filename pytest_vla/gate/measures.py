"""Changes of a run beside success: steps, costs, PRIDE and numbers from other packages, each judged by itself.

Each measure of each group is the mean difference of pairs. That it changed is shown by sign flips of units
(`pytest_vla.gate.measures.flip_bounds`). That it got no worse takes a bootstrap's bound too (`mean_bounds`), since sign
flips of costs that are mostly 0 cannot account for a large cost that was not seen. All claims of a gate's measures
share its alpha evenly (Bonferroni): they are wrong together in at most about a share alpha of runs, apart from the
tests of success.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, CaseResult
from pytest_vla.gate.choices import Verdict
from pytest_vla.gate.comparable import ComparableEpisodes, Pair, distinct_pairs, matched
from pytest_vla.gate.verdicts import Terms, group_name
from pytest_vla.metrics.language import DIMENSION
from pytest_vla.plan.costs import in_order
from pytest_vla.util.text import counted

# Bounds for what is no success (costs, PRIDE, steps): sign flips of clusters of pairs, and a bootstrap over them.
#
# Clusters are flipped or drawn whole: units for these tasks, tasks for tasks like these. All take the difference of a
# pair as it is, on whatever scale.
#
# - `flip_bounds`: of a mean of differences, weighted or not. Of equal policies, whose differences are symmetric, each
#   bound is wrong in at most its alpha, however few episodes cost anything.
# - `mean_bounds`: of a mean of differences, weighted or not, studentised. PRIDE's difference is one, weighted by
#   how far a paraphrase is from the original.

DRAWS = 4000
"""A bound at 5% strays by about a fiftieth of the interval's width between such draws."""

ALL_OF = 12
"""Of so many clusters all subsets are taken, of more some are drawn."""

FEWEST_CLUSTERS = 5
"""Of fewer clusters too few different samples can be drawn."""

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def mean_bounds(
    differences: Sequence[float],
    clusters: Sequence[Hashable],
    generator: np.random.Generator,
    alpha: float = 0.05,
    draws: int = DRAWS,
    weights: Sequence[float] | None = None,
) -> tuple[float, float] | None:
    """Compute one-sided bounds, each at alpha, of pairs' mean difference: a bootstrap of Student's t over clusters.

    The mean is a ratio of two sums, of weighted differences and of weights, over clusters that may hold several pairs
    each; its standard error is the linearised ratio's. Samples in which nothing strays count as infinitely far out, on
    the side where their mean lies, and a bound lies no farther from the mean than the largest difference from the
    smallest: where most pairs do not differ, bounds are wide rather than wrong. Source: Efron and Tibshirani 1993, An
    Introduction to the Bootstrap, section 12.5.

    Args:
        differences: (n,), new less baseline.
        clusters: (n,), for each pair its unit, or its task.
        generator: draws the samples.
        alpha: of each bound, in (0, .5).
        draws: number of samples.
        weights: (n,), all above 0, or None if all are alike.

    Returns:
        None for fewer than `FEWEST_CLUSTERS`, and if no cluster differs from the mean, which leaves no estimate of
        spread.

    Raises:
        ValueError: there is no pair, lengths differ, or alpha or a weight is out of range.
    """
    _check(len(differences), clusters, alpha)
    index = _numbered(clusters)
    number = int(index.max()) + 1
    if number < FEWEST_CLUSTERS:
        return None
    values = np.asarray(differences, float)
    sums, counts = _sums_and_counts(differences, clusters, weights)
    mean, error = _mean_and_error(np.ones((1, number)), sums, counts)
    if not error[0]:
        return None
    times = generator.multinomial(number, np.full(number, 1 / number), size=draws).astype(float)
    means, errors = _mean_and_error(times, sums, counts)
    away = means - mean[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(away == 0, 0.0, away / errors)
    low, high = np.quantile(far, [alpha, 1 - alpha], method="nearest")
    spread = float(values.max() - values.min())
    lower = max(float(mean[0] - high * error[0]), float(mean[0]) - spread)
    return lower, min(float(mean[0] - low * error[0]), float(mean[0]) + spread)


def flip_bounds(
    differences: Sequence[float],
    clusters: Sequence[Hashable],
    generator: np.random.Generator,
    alpha: float = 0.05,
    weights: Sequence[float] | None = None,
) -> tuple[float, float]:
    """Return one-sided bounds, each at alpha, of the mean difference of pairs, by flips of the signs of clusters.

    A bound is where the test has a p of alpha. A flip of some clusters outweighs a mean of d if the mean of just these
    clusters is at most d, so the bounds are quantiles of the means of all subsets of clusters. Source: Hartigan 1969,
    Journal of the American Statistical Association 64, 1303-1317.

    Args:
        differences: as `mean_bounds`.
        clusters: as `mean_bounds`.
        generator: draws the subsets of more than `ALL_OF` clusters; for fewer clusters all subsets are taken.
        alpha: of each bound, in (0, .5).
        weights: as `mean_bounds`.

    Returns:
        Infinite if no difference is ruled out, since there are too few clusters.

    Raises:
        ValueError: as `mean_bounds`.
    """
    _check(len(differences), clusters, alpha)
    sums, counts = _sums_and_counts(differences, clusters, weights)
    number = len(sums)
    if number <= ALL_OF:
        subsets = (np.arange(2**number)[:, None] >> np.arange(number) & 1).astype(bool)
    else:
        # The sample itself, which flips none, is one of them.
        subsets = generator.random((max(DRAWS, round(20 / alpha)), number)) < 0.5
        subsets[0] = False
    some = subsets[subsets.any(1)].astype(float)
    means = some @ sums / (some @ counts)
    # Rounding leaves what is 0 a little beside.
    means = np.sort(np.where(np.abs(means) < 1e-12 * np.abs(sums).max(initial=0.0), 0.0, means))
    # As many flips of the sample may be as far out; what flips none always is.
    least = int(alpha * len(subsets) + 1e-9) - (len(subsets) - len(some))
    if least < 0:
        return -np.inf, np.inf
    return float(means[least]), float(means[-1 - least])


def _check(n: int, clusters: Sequence[Hashable], alpha: float) -> None:
    if not n or n != len(clusters):
        raise ValueError(f"{n} differences, {len(clusters)} clusters: expected as many, at least 1")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha {alpha}: expected a number between 0 and .5")


def _sums_and_counts(
    differences: Sequence[float], clusters: Sequence[Hashable], weights: Sequence[float] | None
) -> tuple[Floats, Floats]:
    """Return the weighted sum of differences of each cluster, and its weight."""
    values, index = np.asarray(differences, float), _numbered(clusters)
    weighing = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    if len(weighing) != len(values) or not (weighing > 0).all():
        raise ValueError(f"{len(weighing)} weights of {len(values)} differences: expected as many, each above 0")
    return np.bincount(index, weighing * values).astype(float), np.bincount(index, weighing).astype(float)


def _numbered(clusters: Sequence[Hashable]) -> Indices:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], dtype=np.intp)


def _mean_and_error(times: Floats, sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Mean and standard error (samples,) of clusters that are drawn so many times (samples, clusters)."""
    number, pairs = len(sums), times @ counts
    means = times @ sums / pairs
    strays = times @ sums**2 - 2 * means * (times @ (sums * counts)) + means**2 * (times @ counts**2)
    # Rounding leaves what is 0 a little beside.
    strays = np.where(strays < 1e-12 * (times @ sums**2), 0.0, strays)
    return means, np.sqrt(number / (number - 1) * strays) / pairs


# The numbers that a gate can judge beside success, as they are asked for.

STEPS, COST, PRIDE = "steps", "cost", "pride"
USAGE = (
    "steps, cost, cost.ACCOUNT, cost.ACCOUNT.NAME, pride, lower:NAME or higher:NAME, each with a margin as in steps=10"
)

_WAYS = {"lower": True, "higher": False}


@dataclass(frozen=True)
class Measure:
    """A number of an episode.

    Attributes:
        name: as it was asked for.
        lower_is_better: whether a rise is bad.
        margin: the tolerated loss in the measure's own unit, or None if no worse is not claimed.
        is_own: whether it is a metric of another package (`pytest_vla.entries.MetricEntry`), by its name.
    """

    name: str
    lower_is_better: bool
    margin: float | None = None
    is_own: bool = False

    @property
    def text(self) -> str:
        """The measure as written in the option; `parse_measure` reads it."""
        way = ("lower:" if self.lower_is_better else "higher:") if self.is_own else ""
        return f"{way}{self.name}{'' if self.margin is None else f'={self.margin:g}'}"

    @property
    def is_of_costs(self) -> bool:
        """Whether it is of what was charged."""
        return not self.is_own and self.name.partition(".")[0] == COST


def parse_measure(text: str) -> Measure:
    """Parse a measure such as ``steps``, ``cost.collisions`` or ``lower:jerk=0.1``. Raises VlaError."""
    named, sign, number = text.partition("=")
    margin = _margin(number) if sign else None
    way, colon, own = named.partition(":")
    if (sign and margin is None) or not named:
        raise VlaError(f"measure {text!r}: expected a margin above 0 after its =, such as steps=10")
    if colon:
        if way not in _WAYS or not own:
            raise VlaError(f"measure {text!r}: expected {USAGE}")
        return Measure(own, _WAYS[way], margin, is_own=True)
    if named in (STEPS, PRIDE) or (named.partition(".")[0] == COST and all(named.split("."))):
        return Measure(named, named != PRIDE, margin)
    raise VlaError(f"measure {text!r}: expected {USAGE}")


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Parse several measures. Raises VlaError if one cannot be read, or is named twice."""
    found: dict[tuple[str, bool], Measure] = {}
    for measure in map(parse_measure, texts):
        if (key := (measure.name, measure.is_own)) in found:
            raise VlaError(f"measure {measure.name}: given twice; expected each once")
        found[key] = measure
    return tuple(found.values())


def _margin(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and found > 0 else None


Distance = Callable[[CaseResult], float | None]
"""How far a case's text is from its task's own, 0..1; None: it is no paraphrase."""


@dataclass(frozen=True)
class GatedMetric:
    """The result of one measure in one group.

    Attributes:
        group: the group's name.
        measure: the judged measure.
        verdict: on it.
        reason: the reason for the verdict, or an empty text if the numbers show it.
        pairs: number of pairs in which both sides have the measure; baseline, new and bounds cover these.
        baseline: the baseline's mean, weighted if pairs are, or None without pairs.
        new: the run's mean, weighted if pairs are, or None without pairs.
        bounds: of the mean difference, run less baseline, each way at the share of alpha, or None if too few units
            differ.
    """

    group: str
    measure: Measure
    verdict: Verdict
    reason: str
    pairs: int
    baseline: float | None = None
    new: float | None = None
    bounds: tuple[float, float] | None = None


def check_measures(cases: Sequence[CaseResult], measures: Iterable[Measure]) -> None:
    """Check measures against a baseline's cases before a run. Raises VlaError if no case has a value of one."""
    for measure in measures:
        if measure.name == PRIDE and not measure.is_own:
            said = any(case.variation.get("dimension") == DIMENSION for case in cases)
        else:
            value = _value_of(measure, None)
            said = any(case.is_counted and value(case, case) is not None for case in cases)
        if not said and measure.name != STEPS:
            raise VlaError(f"measure {measure.name}: no baseline case has a value for it{_known(measure, cases)}")


def judge_measures(
    baseline: Baseline,
    new: Baseline,
    terms: Terms,
    measures: Sequence[Measure],
    generator: np.random.Generator,
    distance: Distance | None = None,
) -> tuple[GatedMetric, ...]:
    """Judge each measure in each group with pairs of it, ordered by measure and group.

    Args:
        baseline: with which the run is compared.
        new: the run.
        terms: alpha and groups; the margin applies to success.
        measures: to judge.
        generator: draws the bootstraps' samples.
        distance: of paraphrases; required for PRIDE.

    Raises:
        VlaError: no pair has a measure, or there are no pairs.
    """
    found = distinct_pairs(matched(baseline, new))
    groups: dict[str, list[Pair]] = {}
    for pair in found.pairs:
        groups.setdefault(group_name(pair.labels, terms.by), []).append(pair)
    if not groups:
        raise VlaError("measures need pairs, and no case is in both the baseline and the run")
    rows = []
    for measure in measures:
        value = _value_of(measure, distance)
        some: dict[str, Observed] = {name: _observed(pairs, value) for name, pairs in sorted(groups.items())}
        # Where one side never succeeds there are no steps, which is no reason to say nothing else.
        is_said = measure.name == STEPS and not measure.is_own
        some = {name: each for name, each in some.items() if each or is_said}
        sides = ((pair.baseline, pair.new) for pair in found.pairs)
        if not some and any(value(one, one) is not None or value(other, other) is not None for one, other in sides):
            # What one side alone says, as where costs are switched off, keeps no other row from being judged.
            some = dict.fromkeys(sorted(groups), ())
        if not some:
            known = _known(measure, [pair.new for pair in found.pairs])
            raise VlaError(f"measure {measure.name}: no common case has a value for it{known}")
        rows += [(measure, name, each) for name, each in some.items()]
    alpha = terms.alpha / len(rows)
    draws = generator.spawn(len(rows))
    return tuple(
        _judged(measure, name, each, groups[name], found.agreement, alpha, source)
        for (measure, name, each), source in zip(rows, draws, strict=True)
    )


Observed = Sequence[tuple[Pair, float, float, float]]
"""Pairs, with the number of the baseline, that of the run, and the pair's weight."""

_Value = Callable[[CaseResult, CaseResult], tuple[float, float] | None]
"""A case's number and its weight, beside the case on the other side; None: it has none."""


def _judged(
    measure: Measure,
    name: str,
    observed: Observed,
    pairs: Sequence[Pair],
    agreement: ComparableEpisodes,
    alpha: float,
    generator: np.random.Generator,
) -> GatedMetric:
    cases = [pair.case for pair in pairs]
    refused = [*agreement.of("refuses", cases)]
    refused += agreement.of("refuses costs", cases) if measure.is_of_costs else ()
    if refused:
        return GatedMetric(name, measure, "not comparable", refused[0].text, len(observed))
    if not observed and not (measure.name == STEPS and not measure.is_own):
        return GatedMetric(name, measure, "not comparable", "only one side has a value", 0)
    if not observed:
        return GatedMetric(name, measure, "undecided", "no pair in which both succeed", 0)
    weights = [weight for *_, weight in observed]
    before = _mean([value for _, value, _, _ in observed], weights)
    now = _mean([value for _, _, value, _ in observed], weights)
    differences = [new - baseline for _, baseline, new, _ in observed]
    units = [pair.unit for pair, *_ in observed]
    drawn = mean_bounds(differences, units, generator, alpha, weights=weights)
    if drawn is None:
        few = len({*units}) < FEWEST_CLUSTERS
        told = (
            f"fewer than {FEWEST_CLUSTERS} init states"
            if few
            else "all pairs differ by the same amount, so chance cannot be estimated"
        )
        equal = "all pairs are equal" if not any(differences) else told
        return GatedMetric(name, measure, "undecided", equal, len(observed), before, now)
    bounds = _joined(drawn, flip_bounds(differences, units, generator, alpha, weights=weights))
    verdict = _verdict(bounds, measure)
    broken = sum(not (pair.new.is_counted and pair.baseline.is_counted) for pair in pairs)
    if broken and verdict in ("better", "no worse"):
        reason = f"{counted(broken, 'pair')} not counted (errors, invalid): {verdict} without them"
        return GatedMetric(name, measure, "undecided", reason, len(observed), before, now, bounds)
    starts = len({*units})
    if verdict == "undecided" and 0.5**starts > alpha:
        # Of sign flips; alpha is shared out among the rows.
        reason = f"not judged ({counted(starts, 'start')}): too few to show even a change in all of them"
        return GatedMetric(name, measure, "undecided", reason, len(observed), before, now, bounds)
    return GatedMetric(name, measure, verdict, "", len(observed), before, now, bounds)


def _joined(drawn: tuple[float, float], flipped: tuple[float, float]) -> tuple[float, float]:
    """Return the bounds of flips where these show a change, else the wider ones."""
    lower = flipped[0] if flipped[0] > 0 else min(drawn[0], 0.0, *(end for end in flipped[:1] if math.isfinite(end)))
    upper = flipped[1] if flipped[1] < 0 else max(drawn[1], 0.0, *(end for end in flipped[1:] if math.isfinite(end)))
    return lower, upper


def _verdict(bounds: tuple[float, float], measure: Measure) -> Verdict:
    # As for success: more is better.
    lower, upper = (-bounds[1], -bounds[0]) if measure.lower_is_better else bounds
    is_within = measure.margin is not None and lower > -measure.margin
    if upper < 0 and not is_within:
        return "regression"
    if lower > 0:
        return "better"
    return "no worse" if is_within else "undecided"


def _observed(pairs: Iterable[Pair], value: _Value) -> Observed:
    found = []
    for pair in pairs:
        if pair.new.is_counted and pair.baseline.is_counted:
            before, now = value(pair.baseline, pair.new), value(pair.new, pair.baseline)
            if before is not None and now is not None:
                found.append((pair, before[0], now[0], now[1]))
    return found


def _value_of(measure: Measure, distance: Distance | None) -> _Value:
    """Return the function that reads a measure's number from a case."""
    first, *rest = measure.name.split(".")

    def steps(case: CaseResult, other: CaseResult) -> tuple[float, float] | None:
        # Of episodes that both did: one that failed has all the steps that there are.
        return None if case.success_step is None else (float(case.success_step), 1.0)

    def cost(case: CaseResult, other: CaseResult) -> tuple[float, float] | None:
        # Accounts are never added up: unless one is named it is the headline's of those that both have.
        account = rest[0] if rest else next(iter(in_order(case.costs.keys() & other.costs.keys())), None)
        if account is None or account not in case.costs:
            return None
        named = [amount for name, amount in case.costs[account].items() if rest[1:] in ([], [name])]
        return (math.fsum(named), 1.0) if named else None

    def pride(case: CaseResult, other: CaseResult) -> tuple[float, float] | None:
        far = None if distance is None else distance(case)
        return (100.0 * (case.outcome == "success"), far) if far else None

    def own(case: CaseResult, other: CaseResult) -> tuple[float, float] | None:
        number = case.metrics.get(measure.name)
        return None if number is None or not math.isfinite(number) else (float(number), 1.0)

    if measure.is_own:
        return own
    return {STEPS: steps, PRIDE: pride, COST: cost}[first]


def _known(measure: Measure, cases: Iterable[CaseResult]) -> str:
    """Return the list of known metric names, for an error message."""
    names: Mapping[str, None]
    if measure.is_of_costs:
        names = dict.fromkeys(
            f"{COST}.{account}.{name}" for case in cases for account, some in case.costs.items() for name in some
        )
    elif measure.is_own:
        names = dict.fromkeys(name for case in cases for name in case.metrics)
    else:
        return ": only paraphrases have it (--vla-vary=language.paraphrase)"
    return f"; known: {', '.join(sorted(names))}" if names else "; none is recorded"


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / math.fsum(weights)
