"""Results of a model under changed instructions: success and PRIDE over paraphrases, with intervals.

Intervals are over paraphrases like these, for these tasks: paraphrases are clusters, and so are seeds if paraphrases
recur under several (per task: seed 3 of one task has nothing in common with seed 3 of another). Intervals over tasks
like these take each task as a cluster. Errors and invalid episodes are in no rate.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, fsum, sqrt
from typing import TypeVar

from pytest_vla.metrics.clustered import (
    FEWEST_TASKS,
    Interval,
    crossed_spread,
    no_narrower,
    rate_interval,
    student_quantile,
)
from pytest_vla.metrics.discrimination import correlation_p
from pytest_vla.metrics.language_grounding import PROBES, GroundingEstimate, Probe
from pytest_vla.metrics.pride import (
    ACTION_CATEGORIES,
    ACTION_TYPES,
    ALPHAS,
    NONE,
    OBJECT_TYPES,
    ParaphraseOutcome,
    PrideGroup,
    group,
    paraphrase_weight,
    pride_table,
)
from pytest_vla.metrics.rates import is_plain, percents
from pytest_vla.metrics.selection import Same, by_model, given_text, is_counted, run_of, that_count, twin_of
from pytest_vla.metrics.statistics import difference_interval
from pytest_vla.metrics.success import SuccessRate, start_within, success_rate, unit_of
from pytest_vla.plan.manifests import instruction_of
from pytest_vla.records.counting import protocol_of
from pytest_vla.records.record import Record

# Selection of records: for each model in a suite, its episodes under other texts.

DIMENSION, PARAPHRASE = "language", "paraphrase"
"""Of a variation: its dimension, and the kind with an object type and an action type."""


@dataclass(frozen=True)
class Subject:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        paraphrases: records of LIBERO-Para's types, of any outcome.
        others: records of other changes of the text, by kind and level.
        probes: records of `pytest_vla.metrics.language_grounding.PROBES`.
        benign: records without a variation.
        left_out: what was there and does not count, and why.
        protocol: as the paper or as upstream's code has it, where the suite has both; else empty.
        same: benign ones that are the same observation as one of `benign`, each with that one; in no number.
    """

    model: str
    suite: str
    paraphrases: tuple[Record, ...]
    others: Mapping[str, tuple[Record, ...]]
    probes: tuple[Record, ...]
    benign: tuple[Record, ...]
    left_out: tuple[str, ...]
    protocol: str = ""
    same: Same = ()

    @property
    def right(self) -> dict[tuple[str, int], Record]:
        """The records without a variation by case and run seed; of those that are the same observation, each."""
        return {run_of(record): record for record in (*self.benign, *(one for one, _ in self.same))}

    @property
    def reworded(self) -> tuple[Record, ...]:
        """All records with another text that is to be done: the probes are none."""
        return (*self.paraphrases, *(record for some in self.others.values() for record in some))

    @property
    def varied(self) -> tuple[Record, ...]:
        """All records with another text."""
        return (*self.reworded, *self.probes)


def subjects(records: Iterable[Record]) -> tuple[Subject, ...]:
    """Return the models with episodes under other texts, by suite and protocol.

    Args:
        records: from any runs, in the order of their ends; `pytest_vla.metrics.selection.that_count` selects.
    """
    found: list[Subject] = []
    for name, some in by_model(records).items():
        found += _subjects(*name, [r for r in some if not r.variation or r.variation.get("dimension") == DIMENSION])
    return tuple(found)


def pair_of(record: Record) -> tuple[str, str]:
    """Return the task's own instruction, and the instruction given to the policy."""
    original = record.variation.get("parameters", {}).get("original")
    if not isinstance(original, str):
        original = instruction_of(record.suite, record.task, record.task_level)
    return original, record.instruction


def probe_of(record: Record) -> Probe | None:
    """Return the probe in the record's variation, or None for any other variation."""
    kind = str(record.variation.get("kind"))
    return next((probe for probe in PROBES if probe == kind), None)


def text_of(record: Record) -> Hashable:
    """Return the identity of an episode's paraphrase. If texts are drawn by seed, one label has many."""
    return record.task_key, record.variation.get("label", ""), record.instruction


def benign_rate(subject: Subject) -> SuccessRate | None:
    """Success with the right text, over the benign twins of the episodes under others; None where none were run."""
    same = {run_of(one): run_of(record) for one, record in subject.same}
    twins = {same.get(twin, twin) for twin in map(twin_of, subject.varied)}
    found = [record for record in subject.benign if run_of(record) in twins]
    return success_rate("benign", found, unit_of) if found else None


def types_of(record: Record) -> tuple[str, str]:
    """Return LIBERO-Para's object and action type of a record; empty if it has none."""
    said = record.variation.get("parameters", {})
    return str(said.get("object_type", "")), str(said.get("action_type", ""))


def _subjects(model: str, suite: str, records: Sequence[Record]) -> Iterator[Subject]:
    selected = that_count(records)
    left_out = (*selected.left_out, *filter(None, [given_text(selected.records)]))
    benign = tuple(filter(is_plain, selected.records))
    same = tuple((one, record) for one, record in selected.same if is_plain(one))
    by_protocol: dict[str, list[Record]] = {}
    for record in (record for record in selected.records if record.variation and not record.is_given):
        by_protocol.setdefault(protocol_of(record), []).append(record)
    for protocol in sorted(by_protocol):
        found = _subject(model, suite, by_protocol[protocol])
        yield replace(found, benign=benign, left_out=left_out, protocol=protocol, same=same)


def _subject(model: str, suite: str, records: Sequence[Record]) -> Subject:
    """Return the subject made from varied episodes only."""
    paraphrases: list[Record] = []
    probes: list[Record] = []
    others: dict[str, list[Record]] = {}
    for record in records:
        kind, level = str(record.variation.get("kind")), record.variation.get("level")
        object_type, action_type = types_of(record)
        typed = object_type in OBJECT_TYPES and action_type in ACTION_TYPES
        if probe_of(record) is not None:
            probes.append(record)
        elif kind == PARAPHRASE and typed:
            paraphrases.append(record)
        else:
            others.setdefault(kind if level is None else f"{kind} level {level}", []).append(record)
    return Subject(
        model,
        suite,
        tuple(paraphrases),
        {kind: tuple(others[kind]) for kind in sorted(others)},
        tuple(probes),
        (),
        (),
    )


OWN = "own"
"""The parameter ``texts`` of a paraphrase that is the user's, in a cell of LIBERO-Para."""

KEPT_OBJECTS = OBJECT_TYPES[:2]
"""The types that leave the object's noun as it is: none, and words that are added to it."""

RECURRING = 2
"""Paraphrases and seeds cross where one of either is seen with so many of the other, on the average."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class LanguageGroup:
    """A group of episodes; percentages are 0..100, the mean distance `pd` is 0..1.

    Intervals are over paraphrases like these, of these tasks; None where there is but one paraphrase told more than
    once. The success rate and PRIDE are rates, PRIDE of paraphrases that weigh as much as they are distant
    (`pytest_vla.metrics.clustered.rate_interval`). The overestimation strays as far as the delta method says, and at
    least as far as it would where success does not hang on the distance: of few failures the former is too narrow.
    Without any success there is no overestimation, nor of a single paraphrase, whose PRIDE is its success rate
    whatever the model does.
    """

    n: int
    sr: GroundingEstimate
    pd: GroundingEstimate
    pride: GroundingEstimate | None
    overestimation: GroundingEstimate | None


@dataclass(frozen=True)
class ObjectGap:
    """Success in percent where the object's noun is kept and where it is replaced: Fig. 7 of LIBERO-Para.

    Attributes:
        preserved: object types `KEPT_OBJECTS`.
        paraphrased: the other object types.
        difference: the first less the second, in points, with `difference_interval`.
    """

    preserved: GroundingEstimate
    paraphrased: GroundingEstimate
    difference: GroundingEstimate


@dataclass(frozen=True)
class CellCorrelation:
    """Pearson's correlation of the mean distance of cells with their success rate: Fig. 16 of LIBERO-Para.

    Attributes:
        r: -1..1.
        p: two-sided, by Student's t.
        n: cells.
    """

    r: float
    p: float
    n: int


@dataclass(frozen=True)
class Paraphrases:
    """`pytest_vla.metrics.pride.Pride` with intervals; see there.

    Attributes:
        words: by cell, the mean distances 1 - S_K and 1 - S_T.
        object_gap: None if the episodes have only one of both kinds.
    """

    backend: str
    alpha: float
    overall: LanguageGroup
    sweep: Mapping[float, GroundingEstimate | None]
    cells: Mapping[tuple[str, str], LanguageGroup]
    objects: Mapping[str, LanguageGroup]
    actions: Mapping[str, LanguageGroup]
    categories: Mapping[str, LanguageGroup]
    tasks: Mapping[str, LanguageGroup]
    words: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    object_gap: ObjectGap | None = None


@dataclass(frozen=True)
class Scored:
    """Episodes with the similarities of their texts, each with its paraphrase and its seed, nested in its task."""

    outcomes: tuple[ParaphraseOutcome, ...]
    texts: tuple[Hashable, ...]
    seeds: tuple[Hashable, ...]

    def part(self, indices: Iterable[int]) -> "Scored":
        """Return some of the episodes."""
        some = list(indices)
        return Scored(
            tuple(self.outcomes[i] for i in some),
            tuple(self.texts[i] for i in some),
            tuple(self.seeds[i] for i in some),
        )


def scored(
    records: Sequence[Record], similarities: Mapping[tuple[str, str], tuple[float, float]], backend: str
) -> Scored:
    """Return successes and failures with the similarities of their texts.

    Args:
        records: errors and invalid episodes are skipped.
        similarities: S_K and S_T by `pair_of`.
        backend: the backend that computed them.
    """
    counted = [record for record in records if is_counted(record)]
    outcomes = []
    for record in counted:
        types = types_of(record)
        outcomes.append(
            ParaphraseOutcome(
                record.outcome == "success",
                *similarities[pair_of(record)],
                object_type=types[0] if types[0] in OBJECT_TYPES else NONE,
                action_type=types[1] if types[1] in ACTION_TYPES else NONE,
                task=record.task_key,
                backend=backend,
            )
        )
    return Scored(tuple(outcomes), tuple(map(text_of, counted)), tuple(map(start_within, counted)))


def measure_paraphrases(found: Scored, alpha: float) -> Paraphrases:
    """Compute the whole table. Raises ValueError as `pytest_vla.metrics.pride.pride_table` does."""
    table = pride_table(found.outcomes, alpha)

    def of(groups: Mapping[str, PrideGroup], key: str) -> dict[str, LanguageGroup]:
        members = _members(found, lambda each: str(getattr(each, key)))
        return {name: _measured(value, found.part(members[name]), alpha) for name, value in groups.items()}

    cells = _members(found, lambda each: (each.object_type, each.action_type))
    acts = [i for i, each in enumerate(found.outcomes) if each.object_type == NONE and each.action_type != NONE]
    only_acts = found.part(acts)
    categories = _members(only_acts, lambda each: ACTION_CATEGORIES[each.action_type])
    return Paraphrases(
        backend=table.backend,
        alpha=alpha,
        overall=_measured(table.overall, found, alpha),
        sweep={each: _pride_estimate(table.sweep[each], found, each) for each in ALPHAS},
        cells={name: _measured(value, found.part(cells[name]), alpha) for name, value in table.cells.items()},
        objects=of(table.objects, "object_type"),
        actions=of(table.actions, "action_type"),
        categories={
            name: _measured(value, only_acts.part(categories[name]), alpha) for name, value in table.categories.items()
        },
        tasks=of(table.tasks, "task"),
        words={name: _distances([found.outcomes[i] for i in cells[name]]) for name in table.cells},
        object_gap=object_gap(found),
    )


def _distances(outcomes: Sequence[ParaphraseOutcome]) -> tuple[float, float]:
    return group(outcomes, alpha=1.0).pd, group(outcomes, alpha=0.0).pd


def object_gap(found: Scored) -> ObjectGap | None:
    """Compare paraphrases that keep the object's noun with those that replace it; None without one of both."""
    kept = [i for i, each in enumerate(found.outcomes) if each.object_type in KEPT_OBJECTS]
    rest = [i for i, each in enumerate(found.outcomes) if each.object_type not in KEPT_OBJECTS]
    if not (kept and rest):
        return None
    one, other = (_rate_estimate(group(part.outcomes).sr, part, None) for part in map(found.part, (kept, rest)))
    return ObjectGap(one, other, rate_difference(one, other))


def rate_difference(one: GroundingEstimate, other: GroundingEstimate) -> GroundingEstimate:
    """Return one rate less another of other episodes, in percent, with `difference_interval`."""

    def interval(first: Interval | None, second: Interval | None) -> Interval | None:
        if first is None or second is None:
            return None
        low, high = difference_interval(one.value, first, other.value, second)
        return max(low, -100.0), min(high, 100.0)

    of_tasks = interval(one.tasks_interval, other.tasks_interval)
    return GroundingEstimate(one.value - other.value, interval(one.interval, other.interval), of_tasks)


def cell_correlation(cells: Sequence[tuple[float, float]]) -> CellCorrelation | None:
    """Correlate mean distances of cells with success rates; None of under 3 cells, or if either is constant."""
    import numpy as np

    if len(cells) < 3 or any(len(set(values)) == 1 for values in zip(*cells, strict=True)):
        return None
    r = float(np.clip(np.corrcoef(np.array(cells).T)[0, 1], -1.0, 1.0))
    return CellCorrelation(r, correlation_p(r, len(cells)), len(cells))


def sweep_slope(found: Paraphrases) -> float | None:
    """Return the slope of PRIDE over alpha by least squares, in points from 0 to 1; None of under two numbers.

    Fig. 13 of LIBERO-Para: below 0 if success depends on words more than on structure.
    """
    import numpy as np

    known = [(alpha, each.value) for alpha, each in found.sweep.items() if each is not None]
    return float(np.polyfit([x for x, _ in known], [y for _, y in known], 1)[0]) if len(known) > 1 else None


def measure(found: Scored, alpha: float) -> LanguageGroup:
    """Compute the numbers for a group of episodes, at least one."""
    return _measured(group(found.outcomes, alpha), found, alpha)


def of_list(
    found: Scored, alpha: float, counts: Mapping[tuple[str, str], int], tasks: int = 1
) -> tuple[GroundingEstimate, GroundingEstimate | None] | None:
    """Estimate success rate and PRIDE for a whole list of paraphrases, from a sample in each of its cells.

    Each episode's weight is its cell's number of paraphrases in the list per sampled episode.

    Args:
        found: episodes.
        alpha: weight of S_K.
        counts: number of paraphrases in the list by object type and action type; 0 for none.
        tasks: number of tasks in the list.

    Returns:
        None if a cell or a task in the list has no episode, so that nothing is known about it.
    """
    if len({each.task for each in found.outcomes}) < tasks:
        return None
    told = Counter((each.object_type, each.action_type) for each in found.outcomes)
    if any(count and not told[cell] for cell, count in counts.items()):
        return None
    standing = [counts.get(cell := (e.object_type, e.action_type), 0) / told[cell] for e in found.outcomes]
    success = [float(each.success) for each in found.outcomes]
    weights = [share * weight for share, weight in zip(standing, _weights(found, alpha), strict=True)]

    def rate(weighing: Sequence[float]) -> float:
        return 100 * fsum(w for w, done in zip(weighing, success, strict=True) if done) / fsum(weighing)

    pride = _rate_estimate(rate(weights), found, weights) if fsum(weights) > 0 else None
    return _rate_estimate(rate(standing), found, standing), pride


def _measured(value: PrideGroup, found: Scored, alpha: float) -> LanguageGroup:
    return LanguageGroup(
        n=value.n,
        sr=_rate_estimate(value.sr, found, None),
        pd=_distance_estimate(value.pd, found, alpha),
        pride=_pride_estimate(value.pride, found, alpha),
        overestimation=_overestimation(value, found, alpha),
    )


def _pride_estimate(value: float | None, found: Scored, alpha: float) -> GroundingEstimate | None:
    return None if value is None else _rate_estimate(value, found, _weights(found, alpha))


def _rate_estimate(value: float, found: Scored, weights: Sequence[float] | None) -> GroundingEstimate:
    success = [float(each.success) for each in found.outcomes]
    clusters, crossed = _clusters_of(found)
    tasks = [each.task for each in found.outcomes]
    interval = rate_interval(success, clusters, crossed, weights)
    by_task = rate_interval(success, tasks, weights=weights) if len(set(tasks)) >= FEWEST_TASKS else None
    return GroundingEstimate(value, percents(interval), percents(no_narrower(by_task, interval)))


def _distance_estimate(value: float, found: Scored, alpha: float) -> GroundingEstimate:
    distances, n = _weights(found, alpha), len(found.outcomes)
    squares = fsum((each - value) ** 2 for each in distances) / n
    clusters, crossed = _clusters_of(found)
    ways = [clusters] if crossed is None else [clusters, crossed]
    spread = crossed_spread([(each - value) / n for each in distances], [1 / n] * n, squares, ways)
    if spread is None:
        return GroundingEstimate(value, None)
    if not value:
        return GroundingEstimate(value, (0.0, 0.0))
    # Symmetric for the logarithm: distances are skewed, and none is below 0.
    factor = exp(student_quantile(spread.freedom) * sqrt(spread.variance) / value)
    return GroundingEstimate(value, (value / factor, min(value * factor, 1.0)))


def _overestimation(value: PrideGroup, found: Scored, alpha: float) -> GroundingEstimate | None:
    over = value.overestimation
    if over is None or value.pride is None or len(set(found.texts)) == 1:
        return None
    clusters, crossed = _clusters_of(found)
    tasks = [each.task for each in found.outcomes]
    interval = _overestimation_interval(value, found, alpha, [clusters] if crossed is None else [clusters, crossed])
    by_task = _overestimation_interval(value, found, alpha, [tasks]) if len(set(tasks)) >= FEWEST_TASKS else None
    return GroundingEstimate(over, interval, no_narrower(by_task, interval))


def _overestimation_interval(
    value: PrideGroup, found: Scored, alpha: float, ways: Sequence[Sequence[Hashable]]
) -> Interval | None:
    weights, n = _weights(found, alpha), value.n
    total, rate = fsum(weights), value.sr / 100
    # PRIDE and the success rate weigh the same paraphrases: only where they weigh them unequally do they differ.
    unequal = [weight / total - 1 / n for weight in weights]
    kept = (value.pride or 0.0) / value.sr
    influence = [
        (weight / total * (each.success - (value.pride or 0.0) / 100) - kept * (each.success - rate) / n) / rate
        for weight, each in zip(weights, found.outcomes, strict=True)
    ]
    spread = crossed_spread(influence, [1 / n] * n, 0.0, ways)
    if spread is None:
        return None
    quantile = student_quantile(spread.freedom)
    # As if each were done with Agresti and Coull's rate, whatever its distance.
    texts: dict[Hashable, float] = {}
    for text, weight in zip(found.texts, unequal, strict=True):
        texts[text] = texts.get(text, 0.0) + weight
    number = len(texts)
    shrunk = (rate * number + quantile**2 / 2) / (number + quantile**2)
    whatever = (1 - shrunk) / shrunk * fsum(weight * weight for weight in texts.values())
    half = 100 * quantile * sqrt(max(spread.variance, whatever))
    over = 100 * (1 - kept)
    return over - half, min(over + half, 100.0)


def clusters_of(
    texts: Sequence[Hashable], tasks: Sequence[str], seeds: Sequence[Hashable]
) -> tuple[Sequence[Hashable], Sequence[Hashable] | None]:
    """Return the episodes' clusters (n,): paraphrases, and each task's seeds if paraphrases recur under them.

    If most clusters of one kind contain a single cluster of the other, both would count the same chance twice. For a
    task with one seed nothing is known about other seeds.
    """
    nested = list(zip(tasks, seeds, strict=True))
    numbers = len(set(texts)), len(set(nested))
    one_each = numbers[1] == len(set(tasks))
    crosses = not one_each and len(set(zip(texts, nested, strict=True))) >= RECURRING * max(numbers)
    return texts, nested if crosses else None


def _clusters_of(found: Scored) -> tuple[Sequence[Hashable], Sequence[Hashable] | None]:
    return clusters_of(found.texts, [each.task for each in found.outcomes], found.seeds)


def _weights(found: Scored, alpha: float) -> list[float]:
    """Return the distance of each paraphrase; published similarities may exceed 1 by rounding."""
    return [max(paraphrase_weight(each.keyword, each.structural, alpha), 0.0) for each in found.outcomes]


def _members(found: Scored, key: Callable[[ParaphraseOutcome], Key]) -> dict[Key, list[int]]:
    members: dict[Key, list[int]] = {}
    for index, each in enumerate(found.outcomes):
        members.setdefault(key(each), []).append(index)
    return members
