"""What records tell of a model and the language: success and PRIDE over paraphrases, with intervals.

Episodes are drawn by their paraphrases and their seeds (`pytest_vla.metrics.bootstrap`). Errors and invalid episodes
are in no rate.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, fsum, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

from pytest_vla.metrics.bootstrap import CONFIDENCE, Interval, cluster_intervals
from pytest_vla.metrics.listening import PROBES, Estimate, Probe
from pytest_vla.metrics.pride import (
    ACTION_CATEGORIES,
    ACTION_TYPES,
    ALPHAS,
    NONE,
    OBJECT_TYPES,
    ROUNDING,
    Group,
    ParaphraseOutcome,
    group,
    paraphrase_weight,
    pride_table,
)
from pytest_vla.metrics.selection import (
    Same,
    by_model,
    is_counted,
    protocol_of,
    run_of,
    seed_of,
    that_count,
    twin_of,
)
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.records import Record
from pytest_vla.suite import language_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION, PARAPHRASE = "language", "paraphrase"
"""Of a variation: its dimension, and the kind with an object type and an action type."""

FEW = 10
"""Of so few failures a bootstrap's overestimation is too narrow: of 3 in 60 it held the truth in .81, not .95."""

_END = 1e-9

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Subject:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        paraphrases: records of LIBERO-Para's types, of any outcome.
        others: records of other changes of the text, by kind and level.
        probes: records of `pytest_vla.metrics.listening.PROBES`.
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


@dataclass(frozen=True)
class Measured:
    """A group of episodes; percentages are 0..100, the mean distance `pd` is 0..1.

    Where a rate is at an end a bootstrap has no width, and where too many resamples have no number there is none: the
    interval is Wilson's then, of as many trials as there are paraphrases (for PRIDE, Kish's effective number of them).
    That of the overestimation, where less than `FEW` paraphrases failed or succeeded, is how far it strays where each
    is done with Agresti and Coull's rate, whatever its distance. Without any success there is no overestimation.
    """

    n: int
    sr: Estimate
    pd: Estimate
    pride: Estimate | None
    overestimation: Estimate | None


@dataclass(frozen=True)
class Paraphrases:
    """`pytest_vla.metrics.pride.Pride` with intervals; see there."""

    backend: str
    alpha: float
    overall: Measured
    sweep: Mapping[float, Estimate | None]
    cells: Mapping[tuple[str, str], Measured]
    objects: Mapping[str, Measured]
    actions: Mapping[str, Measured]
    categories: Mapping[str, Measured]
    tasks: Mapping[str, Measured]


@dataclass(frozen=True)
class Scored:
    """Episodes with the similarities of their texts, each with its paraphrase and its seed."""

    outcomes: tuple[ParaphraseOutcome, ...]
    texts: tuple[Hashable, ...]
    seeds: tuple[Hashable, ...]

    def part(self, indices: Iterable[int]) -> "Scored":
        """Some of them."""
        some = list(indices)
        return Scored(
            tuple(self.outcomes[i] for i in some),
            tuple(self.texts[i] for i in some),
            tuple(self.seeds[i] for i in some),
        )


def subjects(records: Iterable[Record]) -> tuple[Subject, ...]:
    """The models with episodes under another text, each suite and protocol by itself.

    Args:
        records: of any runs, in the order of their ends; which count is `pytest_vla.metrics.selection.that_count`'s.
    """
    found: list[Subject] = []
    for name, some in by_model(records).items():
        found += _subjects(*name, [r for r in some if not r.variation or r.variation.get("dimension") == DIMENSION])
    return tuple(found)


def pair_of(record: Record) -> tuple[str, str]:
    """The task's own instruction, and what the policy was told."""
    original = record.variation.get("parameters", {}).get("original")
    return (original if isinstance(original, str) else language_of(record.task)), record.instruction


def probe_of(record: Record) -> Probe | None:
    """The probe that the record's variation is; None for any other."""
    kind = str(record.variation.get("kind"))
    return next((probe for probe in PROBES if probe == kind), None)


def text_of(record: Record) -> Hashable:
    """The paraphrase of an episode. Where texts are drawn by seed, one label has many."""
    return record.task, record.variation.get("label", ""), record.instruction


def benign_rate(subject: Subject) -> SuccessRate | None:
    """Success with the right text, over the benign twins of the episodes under others; None where none were run."""
    same = {run_of(one): run_of(record) for one, record in subject.same}
    twins = {same.get(twin, twin) for twin in map(twin_of, subject.varied)}
    found = [record for record in subject.benign if run_of(record) in twins]
    return success_rate("benign", found) if found else None


def scored(
    records: Sequence[Record], similarities: Mapping[tuple[str, str], tuple[float, float]], backend: str
) -> Scored:
    """Successes and failures with the similarities of their texts.

    Args:
        records: errors and invalid episodes are passed over.
        similarities: S_K and S_T by `pair_of`.
        backend: what made them.
    """
    counted = [record for record in records if is_counted(record)]
    outcomes = []
    for record in counted:
        types = record.variation["parameters"]
        outcomes.append(
            ParaphraseOutcome(
                record.outcome == "success",
                *similarities[pair_of(record)],
                object_type=types.get("object_type", NONE),
                action_type=types.get("action_type", NONE),
                task=record.task,
                backend=backend,
            )
        )
    return Scored(tuple(outcomes), tuple(map(text_of, counted)), tuple(map(seed_of, counted)))


def measure_paraphrases(found: Scored, alpha: float, generator: "np.random.Generator") -> Paraphrases:
    """The whole table. Raises ValueError as `pytest_vla.metrics.pride.pride_table` does."""
    table = pride_table(found.outcomes, alpha)
    estimates = _estimates(found, [alpha, *ALPHAS], generator)

    def of(groups: Mapping[str, Group], key: str) -> dict[str, Measured]:
        members = _members(found, lambda each: str(getattr(each, key)))
        return {name: _measured(value, found.part(members[name]), alpha, generator) for name, value in groups.items()}

    cells = _members(found, lambda each: (each.object_type, each.action_type))
    acts = [i for i, each in enumerate(found.outcomes) if each.object_type == NONE and each.action_type != NONE]
    only_acts = found.part(acts)
    categories = _members(only_acts, lambda each: ACTION_CATEGORIES[each.action_type])
    return Paraphrases(
        backend=table.backend,
        alpha=alpha,
        overall=_with_intervals(table.overall, found, alpha, estimates[0]),
        sweep={
            each: _pride_estimate(table.sweep[each], found, each, intervals[2])
            for each, intervals in zip(ALPHAS, estimates[1:], strict=True)
        },
        cells={
            name: _measured(value, found.part(cells[name]), alpha, generator) for name, value in table.cells.items()
        },
        objects=of(table.objects, "object_type"),
        actions=of(table.actions, "action_type"),
        categories={
            name: _measured(value, only_acts.part(categories[name]), alpha, generator)
            for name, value in table.categories.items()
        },
        tasks=of(table.tasks, "task"),
    )


def measure(found: Scored, alpha: float, generator: "np.random.Generator") -> Measured:
    """The numbers of some episodes, at least one."""
    return _measured(group(found.outcomes, alpha), found, alpha, generator)


def bounded(percent: float, interval: Interval | None, trials: float) -> Estimate:
    """A percentage with its interval; at an end, and where there is none, Wilson's of so many trials."""
    if interval is not None and _END < percent < 100 - _END:
        return Estimate(percent, interval)
    n = max(int(trials), 1)
    # Of weighted trials the successes are no whole number: the wider of both that are near.
    successes = round(percent * n / 100, 6)
    low, _ = wilson_interval(max(floor(successes), 0), n)
    _, high = wilson_interval(min(ceil(successes), n), n)
    return Estimate(percent, (100 * low, 100 * high))


def _subjects(model: str, suite: str, records: Sequence[Record]) -> Iterator[Subject]:
    selected = that_count(records)
    benign = tuple(record for record in selected.records if not record.variation)
    same = tuple((one, record) for one, record in selected.same if not one.variation)
    by_protocol: dict[str, list[Record]] = {}
    for record in (record for record in selected.records if record.variation):
        by_protocol.setdefault(protocol_of(record), []).append(record)
    for protocol in sorted(by_protocol):
        found = _subject(model, suite, by_protocol[protocol])
        yield replace(found, benign=benign, left_out=selected.left_out, protocol=protocol, same=same)


def _subject(model: str, suite: str, records: Sequence[Record]) -> Subject:
    """Of varied episodes alone."""
    paraphrases: list[Record] = []
    probes: list[Record] = []
    others: dict[str, list[Record]] = {}
    for record in records:
        kind, level = str(record.variation.get("kind")), record.variation.get("level")
        types = record.variation.get("parameters", {})
        typed = types.get("object_type") in OBJECT_TYPES and types.get("action_type") in ACTION_TYPES
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


_Intervals = tuple[Interval | None, Interval | None, Interval | None, Interval | None]
"""Of success rate, mean distance, PRIDE and overestimation."""


def _measured(value: Group, found: Scored, alpha: float, generator: "np.random.Generator") -> Measured:
    return _with_intervals(value, found, alpha, _estimates(found, [alpha], generator)[0])


def _with_intervals(value: Group, found: Scored, alpha: float, intervals: _Intervals) -> Measured:
    sr, pd, _, overestimation = intervals
    return Measured(
        n=value.n,
        sr=bounded(value.sr, sr, len(set(found.texts))),
        pd=Estimate(value.pd, pd),
        pride=_pride_estimate(value.pride, found, alpha, intervals[2]),
        overestimation=_overestimation(value, found, alpha, overestimation),
    )


def _pride_estimate(value: float | None, found: Scored, alpha: float, interval: Interval | None) -> Estimate | None:
    if value is None:
        return None
    weights = _weights(found, alpha).values()
    return bounded(value, interval, fsum(weights) ** 2 / fsum(w * w for w in weights))


def _overestimation(value: Group, found: Scored, alpha: float, interval: Interval | None) -> Estimate | None:
    over = value.overestimation
    # PRIDE of one text is its success rate, whatever the model does.
    if over is None or len(set(found.texts)) == 1:
        return None
    weights, episodes = _weights(found, alpha), Counter(found.texts)
    if interval is not None and min(value.sr, 100 - value.sr) / 100 * len(weights) >= FEW:
        return Estimate(over, interval)
    total = fsum(weights.values())
    # PRIDE and the success rate weigh the same paraphrases: only where they weigh them unequally do they differ.
    spread = sqrt(fsum((weight / total - episodes[text] / value.n) ** 2 for text, weight in weights.items()))
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    rate = (value.sr / 100 * len(weights) + z * z / 2) / (len(weights) + z * z)
    half = 100 * z * sqrt((1 - rate) / rate) * spread
    return Estimate(over, (over - half, min(over + half, 100.0)))


def _weights(found: Scored, alpha: float) -> dict[Hashable, float]:
    """The distance of each paraphrase, as often as it was told."""
    weights: dict[Hashable, float] = {}
    for text, each in zip(found.texts, found.outcomes, strict=True):
        weights[text] = weights.get(text, 0.0) + paraphrase_weight(each.keyword, each.structural, alpha)
    return weights


def _estimates(found: Scored, alphas: Sequence[float], generator: "np.random.Generator") -> list[_Intervals]:
    """The intervals at each alpha, all of the same resamples."""
    import numpy as np

    success = np.array([each.success for each in found.outcomes], dtype=np.float64)
    distances = np.array([[paraphrase_weight(e.keyword, e.structural, a) for a in alphas] for e in found.outcomes])
    rows = np.column_stack([np.ones(len(success)), success, distances, distances * success[:, None]])
    count = len(alphas)

    def statistics(sums: "NDArray[np.float64]") -> "NDArray[np.float64]":
        n, done, total, weighted = sums[:, :1], sums[:, 1:2], sums[:, 2 : 2 + count], sums[:, 2 + count :]
        # A resample may have no episode, no distance or no success: that number is nan there.
        with np.errstate(divide="ignore", invalid="ignore"):
            sr = np.repeat(100 * done / n, count, axis=1)
            pd = np.maximum(total / n, 0)
            pride = np.where(total >= ROUNDING * n, 100 * weighted / total, np.nan)
            over = np.where(sr > 0, 100 * (sr - pride) / sr, np.nan)
        return np.concatenate([sr, pd, pride, over], axis=1)

    intervals = cluster_intervals(rows, found.texts, found.seeds, statistics, generator)
    sr, pd, pride, over = (intervals[start : start + count] for start in range(0, 4 * count, count))
    return list(zip(sr, pd, pride, over, strict=True))


def _members(found: Scored, key: Callable[[ParaphraseOutcome], Key]) -> dict[Key, list[int]]:
    members: dict[Key, list[int]] = {}
    for index, each in enumerate(found.outcomes):
        members.setdefault(key(each), []).append(index)
    return members
