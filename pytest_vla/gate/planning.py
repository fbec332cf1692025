"""The number of episodes that a gate needs, simulated before the run from the episodes of a baseline.

A unit is a task and a seed. The two policies' outcomes in one are drawn from the baseline's own units of the task: for
each policy by itself, since nothing is known of how alike they are, so that two equal policies differ in as many pairs
as two seeds of a task do. If a run of another checkpoint is given, its pairs with the baseline are drawn as they are,
either way round, and pairs differ as often as theirs did. Beside the units that were seen each task has one more, as
probable as any of them, that succeeds as often as the group does: a task that always succeeded may still fail.

The tests are the gate's own (`pytest_vla.gate.bounded`), which need the lost, gained and total pairs of each unit: a
simulated gate is a draw of how many units are of which type, and many are judged at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_vla.gate.baseline import CaseResult, distinct_cases
from pytest_vla.gate.bounded import Floats, Kinds, changed_ps, no_worse_ps
from pytest_vla.gate.choices import Verdict
from pytest_vla.gate.comparable import Pair, labels_of
from pytest_vla.gate.evidence import AS_THEY_ARE, GroupOutcomes, sample_of
from pytest_vla.gate.verdicts import Terms, group_name
from pytest_vla.gate.wealth import running_p
from pytest_vla.metrics.clustered import Unit
from pytest_vla.metrics.success import unit_of

# When a sequential gate would stop: simulated in whole rounds, with the p values by which it does.

STOPPING_SIMULATIONS = 200
"""Mean numbers of pairs are found within about a tenth, and shares of runs within 7 points (two standard errors)."""

_MOST_DRAWN = 100_000
"""Units in all simulations, that a plan is told at once: of long runs, which differ less, there are fewer."""


class UnitType(NamedTuple):
    """The counts that tests take of a unit: its pairs that were lost, those that were gained, and all."""

    lost: int
    gained: int
    pairs: int


class Stops(NamedTuple):
    """The results of simulated sequential gates.

    Attributes:
        pairs: mean number of pairs that they take.
        share: share of them with a right verdict.
    """

    pairs: float
    share: float


def simulated_stops(
    tasks: Sequence[Mapping[UnitType, float]],
    right: Sequence[Verdict],
    rounds: int,
    terms: Terms,
    groups: int,
    generator: np.random.Generator,
) -> Stops:
    """Simulate when a group stops if no regression is required.

    Args:
        tasks: for each the probability of each type of unit.
        right: the verdicts that are right.
        rounds: the most rounds that there are.
        terms: of the gate.
        groups: how many there are, see `pytest_vla.gate.planning.plan_group`.
        generator: draws the simulations.
    """
    kinds = sorted({kind for task in tasks for kind in task})
    means = np.array([(kind.gained - kind.lost) / kind.pairs for kind in kinds])
    runs = min(STOPPING_SIMULATIONS, max(_MOST_DRAWN // (rounds * len(tasks)), 20))
    drawn = []
    for task in tasks:
        shares = np.array([task.get(kind, 0.0) for kind in kinds])
        drawn.append(means[generator.choice(len(kinds), (runs, rounds), p=shares / shares.sum())])
    x, margin = np.stack(drawn, axis=-1), terms.margin / 100
    worse = groups * running_p(x, "regression", terms.beyond) <= terms.alpha
    better = groups * running_p(x, "better") <= terms.alpha
    within = running_p(x, "no worse", margin) <= terms.alpha if margin < 1.0 else np.ones(x.shape[:2], bool)
    stops = worse | better | within
    at = np.where(stops[:, -1], stops.argmax(axis=1), rounds - 1)
    place = np.arange(runs), at
    verdicts = np.select(
        [worse[place], better[place], within[place]], ["regression", "better", "no worse"], "undecided"
    )
    per_round = sum(share * kind.pairs for task in tasks for kind, share in task.items())
    return Stops(float((at + 1).mean() * per_round), float(np.isin(verdicts, list(right)).mean()))


POWERS = (0.8, 0.95)
"""The shares of runs in which the gate is to say what is so."""

SIMULATIONS = 2000
"""Of each number of seeds: a power of .8 is found within two points, one of .95 within one (two standard errors)."""

MOST_PAIRS = 20_000
"""Where a group takes more pairs than this, nobody is told how many."""

_DECIDED: tuple[Verdict, ...] = ("regression", "no worse", "better")

_FEW = 400
"""Of each number of seeds, for what is told of a group that is undecided: a power of .8 is found within four points."""

CLOSE = 20
"""A number of seeds is found to within one in so many."""

Outcomes = tuple[int, ...]
"""Successes (1) and failures (0) of the episodes of a unit."""


class UnitOutcomes(NamedTuple):
    """The outcomes seen in a unit.

    Attributes:
        baseline: of the baseline's policy.
        new: of the other checkpoint in the same cases, or None if there is no run of one.
    """

    baseline: Outcomes
    new: Outcomes | None = None


@dataclass(frozen=True)
class PlanGroup:
    """A group of a baseline's episodes: by task its units."""

    name: str
    tasks: Mapping[str, tuple[UnitOutcomes, ...]]

    @property
    def episodes(self) -> int:
        """The baseline's number of episodes."""
        return sum(len(seen.baseline) for some in self.tasks.values() for seen in some)

    @property
    def seeds(self) -> float:
        """The mean number of units of a task."""
        return sum(map(len, self.tasks.values())) / len(self.tasks)

    @property
    def rate(self) -> float:
        """The baseline's success."""
        return sum(sum(seen.baseline) for some in self.tasks.values() for seen in some) / self.episodes


@dataclass(frozen=True)
class GatePlan:
    """The number of pairs that a group needs.

    Attributes:
        name: of the group.
        tasks: number of its tasks.
        rate: the baseline's success.
        has: the baseline's number of episodes.
        differing: the share of pairs in which two equal policies are assumed to differ.
        no_worse: for each of `POWERS` the pairs in which a policy as good as the baseline's is called no worse, or None
            if it takes more than `MOST_PAIRS`.
        regression: for each of `POWERS` the pairs in which a policy that is worse by the drop is called a regression,
            or None if it takes more than `MOST_PAIRS` or the baseline's success is not above the drop.
        as_now: the power of either with as many seeds as the baseline has.
        sequential: the results of sequential gates with at most as many pairs as either takes for the highest power, or
            None if that is more than `MOST_PAIRS`.
    """

    name: str
    tasks: int
    rate: float
    has: int
    differing: float
    no_worse: tuple[int | None, ...]
    regression: tuple[int | None, ...]
    as_now: tuple[float, float | None]
    sequential: "Sequential | None" = None


class Sequential(NamedTuple):
    """Sequential gates of a group.

    Attributes:
        most: pairs if they do not stop early.
        equal: the results for a policy as good as the baseline's.
        fallen: the results for a policy that is worse by the drop, or None if the baseline's success is not above the
            drop.
    """

    most: int
    equal: Stops
    fallen: Stops | None


def groups_of_cases(cases: Iterable[CaseResult], by: Sequence[str]) -> tuple[PlanGroup, ...]:
    """Group a baseline's episodes, each start once, without probes, given cases, errors and invalid episodes."""
    found: dict[str, dict[Unit, list[int]]] = {}
    for case in distinct_cases(cases):
        if case.is_counted and not case.in_no_rate:
            units = found.setdefault(group_name(labels_of(case), by), {})
            units.setdefault(unit_of(case), []).append(int(case.outcome == "success"))
    return _groups(
        {name: {unit: UnitOutcomes(tuple(of)) for unit, of in units.items()} for name, units in found.items()}
    )


def groups_of_pairs(pairs: Iterable[Pair], by: Sequence[str]) -> tuple[PlanGroup, ...]:
    """Group pairs, without those with an error or invalid episode on a side."""
    found: dict[str, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(group_name(pair.labels, by), []).append(pair)
    return tuple(_group_of(name, sample_of(found[name], AS_THEY_ARE)) for name in sorted(found))


def group_of_sample(sample: GroupOutcomes, *, is_of_baseline: bool = False) -> PlanGroup:
    """Return a sample of pairs as a group, or of its baseline's episodes alone."""
    group = _group_of("", sample)
    if not is_of_baseline:
        return group
    return PlanGroup(
        "", {task: tuple(UnitOutcomes(seen.baseline) for seen in some) for task, some in group.tasks.items()}
    )


def _group_of(name: str, sample: GroupOutcomes) -> PlanGroup:
    of: dict[Unit, tuple[list[int], list[int]]] = {}
    for unit, theirs, ours in zip(sample.baseline_units, sample.baseline, sample.new, strict=True):
        sides = of.setdefault(unit, ([], []))
        sides[0].append(theirs)
        sides[1].append(ours)
    seen = {unit: UnitOutcomes(tuple(theirs), tuple(ours)) for unit, (theirs, ours) in of.items()}
    (group,) = _groups({name: seen})
    return group


def plan_group(group: PlanGroup, drop: float, terms: Terms, groups: int, generator: np.random.Generator) -> GatePlan:
    """Compute how many pairs a group needs.

    Args:
        group: of a baseline.
        drop: of success, in (0, 1], that has to be called a regression.
        terms: of the gate.
        groups: how many there are: a regression is claimed at alpha over all of them, and here at alpha over so many
            for each, the hardest that Holm's correction gets.
        generator: draws the simulations.
    """
    equal = _Simulation(_kinds(group, 0.0), ("no worse", "better"), terms, groups, generator)
    rate = success_of(group)
    fallen = None
    if drop < rate:
        fallen = _Simulation(_kinds(group, drop / rate), ("regression",), terms, groups, generator)
    now = max(round(group.seeds), 1)
    no_worse = tuple(equal.fewest(power) for power in POWERS)
    regression = tuple(None if fallen is None else fallen.fewest(power) for power in POWERS)
    return GatePlan(
        group.name,
        len(group.tasks),
        group.rate,
        group.episodes,
        equal.differing,
        no_worse,
        regression,
        (equal.power(now), None if fallen is None else fallen.power(now)),
        _sequential(equal, fallen, no_worse[-1], regression[-1], terms, groups, generator),
    )


def _sequential(
    equal: "_Simulation",
    fallen: "_Simulation | None",
    no_worse: int | None,
    regression: int | None,
    terms: Terms,
    groups: int,
    generator: np.random.Generator,
) -> Sequential | None:
    if no_worse is None or (fallen is not None and regression is None):
        return None
    most = max(no_worse, regression or 0)
    rounds = max(round(most / equal.per_seed), 1)
    stops = [
        None if each is None else simulated_stops(each.tasks, each.right, rounds, terms, groups, generator)
        for each in (equal, fallen)
    ]
    assert stops[0] is not None
    return Sequential(most, stops[0], stops[1])


class _Simulation:
    """Gates in which what is so is known.

    Args:
        tasks: of each the probability of each kind of unit.
        right: the verdicts that are right.
        terms: of the gates.
        groups: as `gates_on`.
        generator: of what is drawn.
        simulations: how many gates of each number of seeds.
    """

    def __init__(
        self,
        tasks: Sequence[Mapping[UnitType, float]],
        right: tuple[Verdict, ...],
        terms: Terms,
        groups: int,
        generator: np.random.Generator,
        simulations: int | None = None,
    ) -> None:
        self._kinds = tuple(sorted({kind for task in tasks for kind in task}))
        shares = [np.array([task.get(kind, 0.0) for kind in self._kinds]) for task in tasks]
        self._shares = [each / each.sum() for each in shares]
        self.tasks, self.right = tasks, right
        self._terms, self._groups, self._generator = terms, groups, generator
        self._simulations = simulations or SIMULATIONS
        self._powers: dict[int, float] = {}
        total = np.sum(shares, axis=0)
        pairs = np.array([kind.pairs for kind in self._kinds])
        self.differing = float(total @ [kind.lost + kind.gained for kind in self._kinds] / (total @ pairs))
        """The share of pairs that differ."""
        self.per_seed = float(total @ pairs)
        """Pairs of a seed of each task."""

    def power(self, seeds: int) -> float:
        """Return the share of gates with so many seeds of each task whose verdict is right."""
        if seeds not in self._powers:
            of_tasks = [self._generator.multinomial(seeds, each, self._simulations) for each in self._shares]
            rows, times = np.unique(np.sum(of_tasks, axis=0), axis=0, return_counts=True)
            said = gates_on(self._kinds, rows.astype(float), self._terms, self._groups)
            self._powers[seeds] = float(times @ np.isin(said, self.right) / self._simulations)
        return self._powers[seeds]

    def fewest(self, power: float) -> int | None:
        """Return the pairs of the fewest seeds of each task that have the power, or None if above `MOST_PAIRS`."""
        low, high = 0, 1
        while self.power(high) < power:
            low, high = high, high * 2
            if high * self.per_seed > MOST_PAIRS:
                return None
        while high - low > max(high // CLOSE, 1):
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(middle) >= power else (middle, high)
        return round(high * self.per_seed)


def gates_on(kinds: Sequence[UnitType], counts: Floats, terms: Terms, groups: int) -> NDArray[np.str_]:
    """Return the verdicts (gates,) of gates on so many units of each kind, as `pytest_vla.gate.verdicts.verdict_of`.

    Args:
        kinds: of units.
        counts: (gates, kinds).
        terms: of the gates.
        groups: among how many of which the others show nothing: the hardest that Holm's correction gets.
    """
    of = Kinds(np.array([each.gained - each.lost for each in kinds], float), np.array([k.pairs for k in kinds], float))
    margin, mean = terms.margin / 100, counts @ of.totals / np.maximum(counts @ of.sizes, 1.0)

    def shown(is_open: NDArray[np.bool_], p: Callable[[Floats], Floats]) -> NDArray[np.bool_]:
        """Return which gates make a claim; the slow p is computed only for gates whose mean is on the claim's side."""
        found = np.zeros(len(counts), bool)
        if is_open.any():
            found[is_open] = p(counts[is_open]) <= terms.alpha
        return found

    # A p of a third and more, which alpha may be, is found on the other side too.
    slack = 0.0 if terms.alpha <= 0.3 else 1.0
    worse = shown(mean < -terms.beyond + slack, lambda some: groups * changed_ps(of, some, "worse", terms.beyond))
    better = shown(~worse & (mean > -slack), lambda some: groups * changed_ps(of, some, "better"))
    within = shown(~worse & ~better & (mean >= -margin - slack), lambda some: no_worse_ps(of, some, margin))
    return np.select([worse, better, within], ["regression", "better", "no worse"], "undecided")


def fresh_pairs(sample: GroupOutcomes, terms: Terms, groups: int, generator: np.random.Generator) -> int | None:
    """Return how many pairs a new comparison needs to be decided in four of five runs, if its pairs are like a sample.

    Any verdict but undecided counts as a decision. Beside the units of the sample each task has one that was not seen,
    as in `plan_group`.

    Args:
        sample: of pairs.
        terms: of the gate.
        groups: as `gates_on`.
        generator: draws the simulations.

    Returns:
        None if more than `MOST_PAIRS` are needed.
    """
    simulation = _Simulation(_kinds(group_of_sample(sample), 0.0, False), _DECIDED, terms, groups, generator, _FEW)
    return simulation.fewest(POWERS[0])


def _groups(units: Mapping[str, Mapping[Unit, UnitOutcomes]]) -> tuple[PlanGroup, ...]:
    found = []
    for name in sorted(units):
        tasks: dict[str, list[UnitOutcomes]] = {}
        for (task, _), seen in sorted(units[name].items(), key=lambda each: str(each[0])):
            tasks.setdefault(task, []).append(seen)
        found.append(PlanGroup(name, {task: tuple(some) for task, some in tasks.items()}))
    return tuple(found)


def _drawn(group: PlanGroup, side: int) -> list[list[tuple[Outcomes, float]]]:
    """Return, for each task, the units that one policy is drawn from, with probabilities.

    `side` is an index of `UnitOutcomes`.
    """
    everything = [seen[side] or () for some in group.tasks.values() for seen in some]
    rate = (sum(map(sum, everything)) + 0.5) / (sum(map(len, everything)) + 1)
    found = []
    for some in group.tasks.values():
        share = 1 / (len(some) + 1)
        units = [(seen[side] or (), share) for seen in some]
        size = round(sum(len(unit) for unit, _ in units) / len(units))
        found.append([*units, ((1,) * size, share * rate), ((0,) * size, share * (1 - rate))])
    return found


def _joint(group: PlanGroup, is_equal: bool = True) -> list[list[tuple[Outcomes, Outcomes, float]]]:
    """Return for each task what two policies do in a unit, with its probability: equal ones, or two as were seen."""
    sides = _drawn(group, 0), _drawn(group, 0 if _is_of_one(group) else 1)
    found = []
    for some, one, other in zip(group.tasks.values(), *sides, strict=True):
        if _is_of_one(group):
            ways = product(_together(one), _together(other))
            found.append([(u, tuple(np.resize(v, len(u)).tolist()), p * q) for (u, p), (v, q) in ways])
            continue
        seen = [(each.baseline, each.new or (), one[0][1]) for each in some]
        # The unit that was not seen, of either policy by itself.
        unseen = [(u, v, p * q / one[0][1]) for (u, p), (v, q) in product(one[-2:], other[-2:])]
        if is_equal:
            found.append([(*way, p / 2) for u, v, p in (*seen, *unseen) for way in ((u, v), (v, u))])
        else:
            found.append([*seen, *unseen])
    return found


def _together(units: Iterable[tuple[Outcomes, float]]) -> list[tuple[Outcomes, float]]:
    """Return units with equal outcomes as one, their probabilities added up."""
    found: dict[Outcomes, float] = {}
    for outcomes, share in units:
        found[outcomes] = found.get(outcomes, 0.0) + share
    return [*found.items()]


def _is_of_one(group: PlanGroup) -> bool:
    return any(seen.new is None for some in group.tasks.values() for seen in some)


def success_of(group: PlanGroup) -> float:
    """Success of each of two equal policies."""
    drawn = [each for task in _joint(group) for each in task]
    return float(sum(p * sum(v) for _, v, p in drawn) / sum(p * len(v) for _, v, p in drawn))


def _kinds(group: PlanGroup, lost: float, is_equal: bool = True) -> list[dict[UnitType, float]]:
    """Return, for each task, the probability of each type of unit if the share `lost` of success is lost.

    Success is lost by units: all pairs of an init state, or none.
    """
    found = []
    for kept, gone in kept_and_gone(group, is_equal):
        kinds: dict[UnitType, float] = {}
        for some, part in ((kept, 1 - lost), (gone, lost)):
            for kind, share in some.items():
                kinds[kind] = kinds.get(kind, 0.0) + share * part
        found.append({kind: share for kind, share in kinds.items() if share > 0.0})
    return found


def kept_and_gone(group: PlanGroup, is_equal: bool = True) -> list[tuple[dict[UnitType, float], dict[UnitType, float]]]:
    """Return for each task the probability of each type of unit: for two equal policies, and if the new one fails."""
    found = []
    for task in _joint(group, is_equal):
        kept: dict[UnitType, float] = {}
        gone: dict[UnitType, float] = {}
        for baseline, new, share in task:
            for kinds, ours in ((kept, new), (gone, (0,) * len(new))):
                lost = sum(theirs > mine for mine, theirs in zip(ours, baseline, strict=True))
                gained = sum(theirs < mine for mine, theirs in zip(ours, baseline, strict=True))
                kind = UnitType(lost, gained, len(baseline))
                kinds[kind] = kinds.get(kind, 0.0) + share
        found.append((kept, gone))
    return found
