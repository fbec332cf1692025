"""What records tell of a model under variations: success by dimension, kind and level, against benign twins.

A pair is an episode and its twin: the same task, seed and run seed, without the variation. Errors and invalid episodes
are in no rate and in no pair; percentages are 0..100, differences percentage points.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from pytest_vla.metrics.bootstrap import Interval, cluster_intervals
from pytest_vla.metrics.language import DIMENSION as LANGUAGE
from pytest_vla.metrics.listening import PROBES
from pytest_vla.metrics.paired import holm, mcnemar_exact, paired_interval
from pytest_vla.metrics.selection import (
    Same,
    by_model,
    counted,
    is_counted,
    protocol_of,
    run_of,
    seed_of,
    that_count,
    twin_of,
)
from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.records import Record
from pytest_vla.variation import JOINT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_WIDTH = 1e-9
"""Points: of an interval that is no wider every resample told the same, which says nothing of others."""

Value = TypeVar("Value")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Varied:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        episodes: records with a variation, the probes of whether it listens aside.
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
        """1: only the varied one succeeded; -1: only the twin did; 0: both or none."""
        return int(self.episode.outcome == "success") - int(self.twin.outcome == "success")

    @property
    def unit(self) -> tuple[str, Hashable]:
        """The task and the seed, of which both are."""
        return self.episode.task, seed_of(self.episode)


@dataclass(frozen=True)
class Difference:
    """Varied episodes against their benign twins.

    Attributes:
        pairs: how many.
        benign: percent of the twins that succeeded, each as often as it is in a pair.
        lost: pairs in which only the twin succeeded.
        gained: pairs in which only the varied episode did.
        value: success of the varied ones less that of the twins, points.
        interval: Newcombe's paired one; where episodes share a twin a bootstrap over tasks and seeds, None where that
            has no width.
        p: McNemar's exact; None where episodes share a twin, as their pairs are not independent.
        p_adjusted: Holm's, among all p of the table.
    """

    pairs: int
    benign: float
    lost: int
    gained: int
    value: float
    interval: Interval | None
    p: float | None
    p_adjusted: float | None = None


@dataclass(frozen=True)
class Cell:
    """Episodes of one dimension, kind and level; the difference is None where there is no pair."""

    dimension: str
    kind: str
    level: int | None
    rate: SuccessRate
    difference: Difference | None


def varied_models(records: Iterable[Record]) -> tuple[Varied, ...]:
    """The models with varied episodes, each suite and protocol by itself.

    What has no other variations than ungraded ones of the language is left to `pytest_vla.metrics.language`.

    Args:
        records: of any runs, in the order of their ends; which count is `pytest_vla.metrics.selection.that_count`'s.
    """
    found: list[Varied] = []
    for (model, suite), some in by_model(records).items():
        selected = that_count(some)
        counting, left_out = selected.records, selected.left_out
        varied = [record for record in counting if record.variation]
        episodes = [record for record in varied if not _is_probe(record)]
        if any(dimension_of(each) != LANGUAGE or each.variation.get("level") is not None for each in episodes):
            if probes := len(varied) - len(episodes):
                left_out = (*left_out, f"{counted(probes, 'probe')}: no dimension of harm")
            benign = tuple(record for record in counting if not record.variation)
            by_protocol = grouped(episodes, protocol_of)
            found += [
                Varied(model, suite, tuple(by_protocol[name]), benign, left_out, name, selected.same)
                for name in sorted(by_protocol)
            ]
    return tuple(found)


def dimension_of(record: Record) -> str:
    """What the record's variation changes; of a joint one all that is, with `JOINT` between."""
    return str(record.variation.get("dimension"))


def twin_pairs(varied: Varied) -> tuple[tuple[TwinPair, ...], tuple[str, ...]]:
    """The pairs, and what is in none, and why."""
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
        (alone, "episode", "without a benign twin of the same run seed (--vla-twins=auto runs it): in no difference"),
        (broken, "episode", "whose benign twin is an error or invalid: in no difference"),
        (other, "pair", "of which one had another step budget or replan length: they are compared nevertheless"),
    ]
    return tuple(pairs), tuple(f"{counted(number, noun)} {what}" for number, noun, what in left_out if number)


def cells(varied: Varied, pairs: Sequence[TwinPair], generator: "np.random.Generator") -> tuple[Cell, ...]:
    """Success and differences by dimension, kind and level, joint variations last; Holm's adjustment is over all."""
    episodes = grouped(varied.episodes, _cell_of)
    paired = grouped(pairs, lambda pair: _cell_of(pair.episode))
    found = []
    for key in sorted(episodes, key=lambda key: (JOINT in key[0], key[0], key[1], key[2] or 0)):
        difference = _difference(paired[key], generator) if key in paired else None
        found.append(Cell(*key, success_rate(key[0], episodes[key]), difference))
    tested = [i for i, cell in enumerate(found) if cell.difference is not None and cell.difference.p is not None]
    adjusted = holm([each.p for i in tested if (each := found[i].difference) is not None and each.p is not None])
    for index, p in zip(tested, adjusted, strict=True):
        cell = found[index]
        if cell.difference is not None:
            found[index] = replace(cell, difference=replace(cell.difference, p_adjusted=p))
    return tuple(found)


def outcomes(pairs: Iterable[TwinPair]) -> tuple[int, int, int, int]:
    """Pairs in which both succeeded, only the twin, only the varied one, none."""
    found = [(pair.twin.outcome == "success", pair.episode.outcome == "success") for pair in pairs]
    ways = ((True, True), (True, False), (False, True), (False, False))
    both, lost, gained, neither = (found.count(way) for way in ways)
    return both, lost, gained, neither


def grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    """The values by their keys, in the order in which they come."""
    groups: dict[Key, list[Value]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups


def _is_probe(record: Record) -> bool:
    return record.is_probe or any(part in PROBES for part in str(record.variation.get("kind")).split(JOINT))


def _budget(record: Record) -> tuple[object, object]:
    return record.protocol.get("max_steps"), record.replan


def _cell_of(record: Record) -> tuple[str, str, int | None]:
    dimension, kind, level = dimension_of(record), str(record.variation.get("kind")), record.variation.get("level")
    if JOINT in dimension and level is None:
        # Of parts with levels of their own: they are in the label only.
        parts = zip(dimension.split(JOINT), str(record.variation.get("label")).split(JOINT), strict=False)
        kind = JOINT.join(label.removeprefix(f"{name}.") for name, label in parts)
    return dimension, kind, level


def _difference(pairs: Sequence[TwinPair], generator: "np.random.Generator") -> Difference:
    both, lost, gained, neither = outcomes(pairs)
    n = len(pairs)
    interval: Interval | None
    if len({run_of(pair.twin) for pair in pairs}) == n:
        low, high = paired_interval(both, lost, gained, neither)
        interval, p = (100 * low, 100 * high), mcnemar_exact(lost, gained)
        return Difference(n, 100 * (both + lost) / n, lost, gained, 100 * (gained - lost) / n, interval, p)
    interval = _bootstrapped(pairs, generator)
    return Difference(n, 100 * (both + lost) / n, lost, gained, 100 * (gained - lost) / n, interval, None)


def _bootstrapped(pairs: Sequence[TwinPair], generator: "np.random.Generator") -> Interval | None:
    import numpy as np

    rows = np.array([[1, pair.difference] for pair in pairs], dtype=np.float64)
    units = [pair.unit for pair in pairs]

    def mean(sums: "NDArray[np.float64]") -> "NDArray[np.float64]":
        # A resample may be empty.
        with np.errstate(divide="ignore", invalid="ignore"):
            return 100 * sums[:, 1:] / sums[:, :1]

    (interval,) = cluster_intervals(rows, [task for task, _ in units], [seed for _, seed in units], mean, generator)
    return None if interval is None or interval[1] - interval[0] < NO_WIDTH else interval
