"""Results of a model under variations: success by dimension, kind and level, compared with benign twins.

A pair is an episode and its twin: the same task, seed and run seed, without the variation. Errors and invalid episodes
are in no rate and in no pair; percentages are 0..100, differences are percentage points, below 0 if success is lost.
Differences are computed by `pytest_vla.metrics.differences`, wherever they are shown.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pytest_vla.metrics.clustered import Interval, Unit, rate_intervals
from pytest_vla.metrics.differences import Mean, difference_of, mean_difference
from pytest_vla.metrics.language import DIMENSION as LANGUAGE
from pytest_vla.metrics.language_grounding import PROBES, GroundingShare
from pytest_vla.metrics.rates import is_plain, percents
from pytest_vla.metrics.selection import Same, by_model, given_text, is_counted, run_of, that_count, twin_of
from pytest_vla.metrics.statistics import holm
from pytest_vla.metrics.success import SuccessRate, start_within, success_rate, unit_of
from pytest_vla.plan.case import is_joint, parts_of, within
from pytest_vla.records.counting import protocol_of
from pytest_vla.records.record import Record
from pytest_vla.util.text import counted

FEWEST_PAIRS = 5
"""Of fewer pairs, or episodes where there are none, counts are told and no rate: five of five may be one of two."""

SIGNIFICANT = 0.05
"""Of adjusted p: what is below is shown."""

Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Varied:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        episodes: records with a variation, probes of whether it listens or looks aside, and given cases.
        benign: records without one.
        left_out: what was there and does not count, and why.
        protocol: as the paper or as upstream's code has it, where the suite has both; else empty.
        same: what is the same observation as one of the others, each with that one; in no number.
    """

    model: str
    suite: str
    episodes: tuple[Record, ...]
    benign: tuple[Record, ...]
    left_out: tuple[str, ...]
    protocol: str = ""
    same: Same = ()


@dataclass(frozen=True)
class TwinPair:
    """A varied episode and its benign twin, each a success or a failure."""

    episode: Record
    twin: Record

    @property
    def difference(self) -> int:
        """1 if only the varied episode succeeded, -1 if only the twin did, 0 if both or none did."""
        return int(self.episode.outcome == "success") - int(self.twin.outcome == "success")

    @property
    def unit(self) -> Unit:
        """The task and the start, of which both are."""
        return f"{self.episode.suite}/{self.episode.task_key}", start_within(self.episode)


@dataclass(frozen=True)
class Difference:
    """Varied episodes compared with their benign twins.

    Attributes:
        pairs: their number.
        units: the number of tasks and seeds.
        benign: success rate of the twins in percent, each counted as often as it is in a pair.
        lost: pairs in which only the twin succeeded.
        gained: pairs in which only the varied episode succeeded.
        value: success of the varied episodes minus that of the twins, points.
        interval: over these tasks, points; None for a single task and seed.
        tasks_interval: over tasks like these, points; None for too few tasks.
        p: from the same t as the interval; None for a single task and seed.
        detectable: points: the smallest difference that such a run detects with 80% power, after Holm's correction in
            the table; None if none is large enough.
        telling: about how many pairs detect a difference of ten points with the same power and correction; None for a
            single task and seed.
        p_adjusted: Holm's, among all p in the table.
    """

    pairs: int
    units: int
    benign: float
    lost: int
    gained: int
    value: float
    interval: Interval | None
    tasks_interval: Interval | None
    p: float | None
    detectable: float | None
    telling: int | None
    p_adjusted: float | None = None

    @property
    def is_shown(self) -> bool:
        """Whether it is significant among all of the table."""
        return self.p_adjusted is not None and self.p_adjusted < SIGNIFICANT

    @property
    def drop(self) -> float:
        """The loss of success, points."""
        return -self.value

    @property
    def drop_interval(self) -> Interval | None:
        """The 95% interval of the loss of success, over these tasks."""
        return None if self.interval is None else (-self.interval[1], -self.interval[0])


@dataclass(frozen=True)
class RobustnessCell:
    """Episodes of one dimension, kind and level; the difference is None where there is no pair."""

    dimension: str
    kind: str
    level: int | None
    rate: SuccessRate
    difference: Difference | None

    @property
    def is_few(self) -> bool:
        """Whether it is too small for a rate: of fewer than `FEWEST_PAIRS` pairs, or episodes without twins."""
        return (self.rate.counted if self.difference is None else self.difference.pairs) < FEWEST_PAIRS


def varied_models(records: Iterable[Record]) -> tuple[Varied, ...]:
    """Return the models with varied episodes, by suite and protocol.

    A model whose only variations are ungraded ones of language is left to `pytest_vla.metrics.language`.

    Args:
        records: from any runs, in the order of their ends; `pytest_vla.metrics.selection.that_count` selects.
    """
    found: list[Varied] = []
    for (model, suite), some in by_model(records).items():
        selected = that_count(some)
        counting, left_out = selected.records, selected.left_out
        varied = [record for record in counting if record.variation and not record.is_given]
        if text := given_text(counting):
            left_out = (*left_out, text)
        episodes = [record for record in varied if not _is_probe(record)]
        if any(dimension_of(each) != LANGUAGE or each.variation.get("level") is not None for each in episodes):
            if probes := len(varied) - len(episodes):
                left_out = (*left_out, f"{counted(probes, 'probe')} left out: probes measure no loss")
            benign = tuple(filter(is_plain, counting))
            same = tuple(each for each in selected.same if not each[0].is_given)
            by_protocol = grouped(episodes, protocol_of)
            found += [
                Varied(model, suite, tuple(by_protocol[name]), benign, left_out, name, same)
                for name in sorted(by_protocol)
            ]
        elif not episodes and given_text(counting):
            # Nothing but given cases: what became of them is told, and no number.
            found.append(Varied(model, suite, (), (), left_out, "", selected.same))
    return tuple(found)


def dimension_of(record: Record) -> str:
    """Return the dimension of a record's variation; for a joint one its dimensions joined by ``+``."""
    return str(record.variation.get("dimension"))


def twin_pairs(varied: Varied) -> tuple[tuple[TwinPair, ...], tuple[str, ...]]:
    """Return the pairs, and notes on episodes that are in none."""
    twins = {run_of(record): record for record in varied.benign} | {run_of(one): of for one, of in varied.same}
    pairs, alone, broken = [], 0, 0
    for record in filter(is_counted, varied.episodes):
        twin = twins.get(twin_of(record))
        if twin is None:
            alone += 1
        elif not is_counted(twin):
            broken += 1
        else:
            pairs.append(TwinPair(record, twin))
    other = sum(_budget(pair.episode) != _budget(pair.twin) for pair in pairs)
    left_out = [
        (
            alone,
            "episode",
            "without a benign twin under its run seed (--vla-twins=auto runs it): in no difference",
        ),
        (broken, "episode", "whose benign twin is an error or invalid: in no difference"),
        (other, "pair", "with different step budgets or replan lengths: still compared"),
    ]
    return tuple(pairs), tuple(f"{counted(number, noun)} {what}" for number, noun, what in left_out if number)


MEMORISER = "memoriser:"
"""The beginning of the names of policies that play a run's unvaried episodes, whatever they see and are told."""


@dataclass(frozen=True)
class Remembered:
    """A model beside a memoriser on the same cases of one dimension: what of its success takes neither eyes nor ears.

    Attributes:
        dimension: of the cases.
        cases: both were measured, as a success or a failure.
        model: the model's successes, out of the cases.
        memory: the memoriser's, out of the cases.
        shared: successes of the memoriser, out of the cases in which the model succeeds.
    """

    dimension: str
    cases: int
    model: GroundingShare
    memory: GroundingShare
    shared: GroundingShare


def remembered(varied: Varied, models: Iterable[Varied]) -> tuple[Remembered, ...]:
    """Compare a model with the memorisers of its suite, by dimension; empty without any, and for a memoriser itself.

    Args:
        varied: the model in one suite.
        models: all, as `varied_models` returns them.
    """
    if varied.model.startswith(MEMORISER):
        return ()
    memory: dict[str, Record] = {}
    for each in models:
        if each.model.startswith(MEMORISER) and (each.suite, each.protocol) == (varied.suite, varied.protocol):
            memory |= {record.case: record for record in filter(is_counted, each.episodes) if record.case not in memory}
    both = [record for record in filter(is_counted, varied.episodes) if record.case in memory]

    def share(some: Sequence[Record], of: Callable[[Record], Record]) -> GroundingShare:
        done = [float(of(record).outcome == "success") for record in some]
        ends = rate_intervals(done, [unit_of(record) for record in some]) if some else (None, None)
        return GroundingShare(int(sum(done)), len(some), *ends)

    found = []
    for name, some in sorted(grouped(both, dimension_of).items()):
        model, known = share(some, lambda record: record), share(some, lambda record: memory[record.case])
        done = [record for record in some if record.outcome == "success"]
        shared = share(done, lambda record: memory[record.case])
        found.append(Remembered(name, len(some), model, known, shared))
    return tuple(found)


def cells(varied: Varied, pairs: Sequence[TwinPair]) -> tuple[RobustnessCell, ...]:
    """Success and differences by dimension, kind and level, joint variations last; Holm's adjustment is over all.

    What is of fewer than `FEWEST_PAIRS` pairs is not tested, and so is not adjusted for either.
    """
    episodes = grouped(varied.episodes, _cell_of)
    paired = grouped(pairs, lambda pair: _cell_of(pair.episode))
    among = sum(map(is_tested, paired.values()))
    found = []
    for key in sorted(episodes, key=lambda key: (is_joint(key[0]), key[0], key[1], key[2] or 0)):
        difference = difference_between(paired[key], among) if key in paired else None
        found.append(RobustnessCell(*key, rate_of(key[0], episodes[key]), difference))
    return adjusted(found)


def adjusted(found: Sequence[RobustnessCell]) -> tuple[RobustnessCell, ...]:
    """Return the cells with Holm's adjustment over those that are large enough to be tested."""
    tested = {
        index: cell.difference
        for index, cell in enumerate(found)
        if cell.difference is not None and cell.difference.p is not None and not cell.is_few
    }
    with_p = [(index, each, each.p) for index, each in tested.items() if each.p is not None]
    by_index = {
        index: replace(each, p_adjusted=p)
        for (index, each, _), p in zip(with_p, holm([p for _, _, p in with_p]), strict=True)
    }
    return tuple(
        replace(cell, difference=by_index[index]) if index in by_index else cell for index, cell in enumerate(found)
    )


def rate_of(name: str, records: Sequence[Record]) -> SuccessRate:
    """Success of some episodes, of which several may be of one task and seed."""
    return success_rate(name, records, unit_of)


def is_tested(pairs: Sequence[TwinPair]) -> bool:
    """Whether pairs are enough for a p that Holm's adjustment takes."""
    return len(pairs) >= FEWEST_PAIRS and len({pair.unit for pair in pairs}) > 1


def difference_between(pairs: Sequence[TwinPair], among: int = 1) -> Difference:
    """Return varied episodes against their twins, at least one pair, as one of so many differences that are tested."""
    found = difference_of(mean_of(pairs), among=max(among, 1))
    both, lost, gained, _ = outcomes(pairs)
    return Difference(
        pairs=len(pairs),
        units=found.units,
        benign=100 * (both + lost) / len(pairs),
        lost=lost,
        gained=gained,
        value=100 * found.value,
        interval=percents(found.interval),
        tasks_interval=percents(found.tasks_interval),
        p=found.p,
        detectable=None if found.detectable is None else 100 * found.detectable,
        telling=found.telling,
    )


def mean_of(pairs: Sequence[TwinPair]) -> Mean:
    """Return the pairs' mean difference, before its interval is computed."""
    return mean_difference([pair.difference for pair in pairs], [pair.unit for pair in pairs])


def outcomes(pairs: Iterable[TwinPair]) -> tuple[int, int, int, int]:
    """Count pairs in which both succeeded, only the twin, only the varied episode, or none."""
    found = [(pair.twin.outcome == "success", pair.episode.outcome == "success") for pair in pairs]
    ways = ((True, True), (True, False), (False, True), (False, False))
    both, lost, gained, neither = (found.count(way) for way in ways)
    return both, lost, gained, neither


def grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    """Group values by their keys, in the order of the keys' first occurrence."""
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def _is_probe(record: Record) -> bool:
    return record.is_probe or any(part in PROBES for part in parts_of(str(record.variation.get("kind"))))


def _budget(record: Record) -> tuple[object, object]:
    return record.protocol.get("max_steps"), record.replan


def _cell_of(record: Record) -> tuple[str, str, int | None]:
    dimension, kind, level = dimension_of(record), str(record.variation.get("kind")), record.variation.get("level")
    if is_joint(dimension) and level is None:
        # Of parts with levels of their own: they are in the label only.
        kind = within(dimension, str(record.variation.get("label")))
    return dimension, kind, level
