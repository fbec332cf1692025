"""Does a policy look? What it does with black pictures, and where the goal's object is taken away, beside its twins.

A twin is the benign episode of the same task, seed and run seed, which the policy saw as it is. Black pictures (camera
blackout of LIBERO-Plus, appendix) tell which camera its success hangs on. Without the object nothing can be done: there
it is asked whether the hand goes where it would have gone all the same (LIBERO-PRO, figure 1). Nothing here is in a
rate of the suite. Intervals are over these tasks; pairs of one task and seed count together.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from pytest_vla.metrics.clustered import CONFIDENCE as CONFIDENCE
from pytest_vla.metrics.clustered import Unit, mean_intervals, rate_intervals
from pytest_vla.metrics.differences import difference_of, mean_difference
from pytest_vla.metrics.dtw import POINTS, exact_dtw, resample
from pytest_vla.metrics.language_grounding import GroundingEstimate, GroundingShare
from pytest_vla.metrics.rates import is_plain
from pytest_vla.metrics.selection import Selected, by_model, is_counted, run_of, that_count, twin_of
from pytest_vla.metrics.success import unit_of
from pytest_vla.records.record import VACATED, Record
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLACKOUT, REMOVED = "blackout", "removed"
"""Kinds of the probes."""

BLINDED = "blackout, third person", "blackout, wrist", "blackout, all"
GONE = "object removed"
PROBES = (*BLINDED, GONE)
"""As reports call them, in their order."""

NEAR = 0.03
"""m: a hand that comes no farther from where the object would be than its twin did, by this much, went there."""

Paths = Callable[[Record], "NDArray[np.float64] | None"]
"""The end effector's path (n, 3), m, of an episode; None where it has none."""


@dataclass(frozen=True)
class Looking:
    """The results for one visual probe of a model in one suite.

    Attributes:
        probe: one of `PROBES`.
        pairs: episodes with a twin, both a success or a failure.
        right: success of the twins.
        blind: success under the probe; empty if the object is removed, because then the task cannot be done.
        difference: success under the probe minus that of the twins, -1..1, with the interval of
            `pytest_vla.metrics.differences`; None if the object is removed.
        lost: pairs in which only the twin succeeded.
        gained: pairs in which only the probe succeeded.
        apart: m: mean distance between a path and its twin's: exact DTW over 50 points each, divided by 50; the path is
            cut at its twin's length. With Student's interval. None without paths.
        usual: m: the same between the benign episodes of a task under different seeds; None if no task has two.
        noise: m: the same between runs of one benign episode under two run seeds; None without such runs.
        same: pairs whose paths are no farther apart than the twin is from its task's other benign episodes (median),
            out of the pairs that have such episodes.
        went: out of pairs with a removed object whose twin did the task, those in which the hand came as near to the
            object's former place as the twin's hand did, up to `NEAR`.
    """

    probe: str
    pairs: int
    right: GroundingShare
    blind: GroundingShare
    difference: GroundingEstimate | None
    lost: int
    gained: int
    apart: GroundingEstimate | None
    usual: float | None
    noise: float | None
    same: GroundingShare
    went: GroundingShare


@dataclass(frozen=True)
class Looked:
    """One model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        probes: what each that was run tells.
        left_out: what is in no pair, and why.
        records: of the probes.
    """

    model: str
    suite: str
    probes: tuple[Looking, ...]
    left_out: tuple[str, ...]
    records: tuple[Record, ...]


@dataclass(frozen=True)
class _Pair:
    probe: Record
    twin: Record


def looked(records: Iterable[Record], paths: Paths) -> tuple[Looked, ...]:
    """Return the models with visual probes, by suite.

    Args:
        records: from any runs, in the order of their ends; `pytest_vla.metrics.selection.that_count` selects.
        paths: the end effector's.
    """
    found = []
    for (model, suite), some in by_model(records).items():
        selected = that_count(some)
        probes = tuple(record for record in selected.records if probe_of(record) is not None and not record.is_given)
        if probes:
            each, unpaired = _looked(probes, selected, paths)
            found.append(Looked(model, suite, each, (*selected.left_out, *unpaired), probes))
    return tuple(found)


def probe_of(record: Record) -> str | None:
    """Return the member of `PROBES` in the record's variation, or None for any other or a joint variation."""
    kind, parameters = record.variation.get("kind"), record.variation.get("parameters", {})
    if not record.is_probe or kind not in (BLACKOUT, REMOVED):
        return None
    name = GONE if kind == REMOVED else f"blackout, {str(parameters.get('view')).replace('_', ' ')}"
    return name if name in PROBES else None


def looked_by_change(
    records: Iterable[Record], paths: Paths, change_of: Callable[[Record], str | None]
) -> dict[str, tuple[tuple[Looking, ...], tuple[str, ...]]]:
    """Compare episodes under any change with their benign twins, for each model over all suites (LIBERO-PRO, Fig. 1).

    Args:
        records: from any runs, in the order of their ends; `pytest_vla.metrics.selection.that_count` selects.
        paths: the end effector's.
        change_of: the change's name of a varied episode, or None for an episode that is not compared.

    Returns:
        By model the numbers by change, whose `Looking.probe` is the change's name, in order of occurrence; and what is
        in no pair, and why. Models without a change are left out.
    """
    models: dict[str, list[Selected]] = {}
    for (model, _), some in by_model(records).items():
        models.setdefault(model, []).append(that_count(some))
    found = {}
    for model, parts in models.items():
        varied = [each for part in parts for each in part.records if each.variation and not each.is_given]
        if changed := [each for each in varied if change_of(each) is not None]:
            records_of = tuple(each for part in parts for each in part.records)
            same = tuple(each for part in parts for each in part.same)
            found[model] = _compared(changed, Selected(records_of, same, ()), paths, change_of, ())
    return found


def _looked(probes: Sequence[Record], selected: Selected, paths: Paths) -> tuple[tuple[Looking, ...], tuple[str, ...]]:
    return _compared(probes, selected, paths, probe_of, PROBES)


def _compared(
    probes: Sequence[Record],
    selected: Selected,
    paths: Paths,
    name_of: Callable[[Record], str | None],
    order: Sequence[str],
) -> tuple[tuple[Looking, ...], tuple[str, ...]]:
    """Return the numbers by name, in an order or else as they occur, and notes on episodes in no pair."""
    benign = [record for record in selected.records if is_plain(record) and is_counted(record)]
    again = [record for record, _ in selected.same if is_plain(record)]
    twins = {run_of(record): record for record in (*benign, *again)}
    pairs: dict[str, list[_Pair]] = {}
    broken = alone = 0
    for record in probes:
        twin, name = twins.get(twin_of(record)), name_of(record)
        if not is_counted(record):
            broken += 1
        elif twin is None:
            alone += 1
        elif name is not None:
            pairs.setdefault(name, []).append(_Pair(record, twin))
    under = "a visual probe" if order else "a change whose paths are compared"
    left_out = [
        (broken, f"under {under}: error or invalid"),
        (alone, f"under {under}, without a measured benign twin (--vla-twins=auto runs it)"),
    ]
    distances = _Distances(paths)
    return (
        tuple(_looking(name, pairs[name], benign, again, distances) for name in order or pairs if name in pairs),
        tuple(f"{counted(number, 'episode')} {what}" for number, what in left_out if number),
    )


class _Distances:
    """Between paths, m; each path is read once, and each pair of them compared once."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._read: dict[tuple[str, int], NDArray[np.float64] | None] = {}
        self._known: dict[tuple[tuple[str, int], tuple[str, int]], float | None] = {}

    def path(self, record: Record) -> "NDArray[np.float64] | None":
        """Return the end effector's path (n, 3), m, or None if unknown."""
        key = run_of(record)
        if key not in self._read:
            self._read[key] = self._paths(record)
        return self._read[key]

    def between(self, record: Record, twin: Record) -> float | None:
        """Compute the distance between a path, cut at the twin's length, and the twin's; None if one is missing."""
        key = run_of(record), run_of(twin)
        if key not in self._known:
            one, other = self.path(record), self.path(twin)
            self._known[key] = None
            if one is not None and other is not None:
                self._known[key] = path_distance(one[: len(other)], other)
        return self._known[key]


def path_distance(path: "NDArray[np.float64]", other: "NDArray[np.float64]") -> float:
    """Compute the mean distance (m) between two paths (n, 3): exact DTW over 50 points each, divided by 50."""
    return float(exact_dtw(resample(path)[None], resample(other)).distances[0]) / POINTS


def _looking(
    name: str, pairs: Sequence[_Pair], benign: Sequence[Record], again: Sequence[Record], distances: _Distances
) -> Looking:
    done = [(pair.twin.outcome == "success", pair.probe.outcome == "success") for pair in pairs]
    apart = [(pair, d) for pair in pairs if (d := distances.between(pair.probe, pair.twin)) is not None]
    usual = {run_of(pair.twin): _usual(pair.twin, benign, distances) for pair in pairs}
    known = [each for each in usual.values() if each is not None]
    noise = [d for pair in pairs for d in _again(pair.twin, (*benign, *again), distances)]
    lost, gained = done.count((True, False)), done.count((False, True))
    units = [unit_of(pair.twin) for pair in pairs]
    difference = None
    if name != GONE:
        mean = mean_difference([int(blind) - int(right) for right, blind in done], units)
        difference = GroundingEstimate(mean.value, difference_of(mean).interval)
    near = [
        (unit_of(pair.twin), d <= usually) for pair, d in apart if (usually := usual[run_of(pair.twin)]) is not None
    ]
    went = [(unit_of(pair.twin), went) for pair in pairs for went in _went(pair, distances)]
    return Looking(
        probe=name,
        pairs=len(pairs),
        right=_share(zip(units, (right for right, _ in done), strict=True)),
        blind=_share(zip(units, (blind for _, blind in done), strict=True) if name != GONE else ()),
        difference=difference,
        lost=lost,
        gained=gained,
        apart=_mean([(unit_of(pair.twin), d) for pair, d in apart]),
        usual=fmean(known) if known else None,
        noise=fmean(noise) if noise else None,
        same=_share(near),
        went=_share(went),
    )


def _usual(twin: Record, benign: Iterable[Record], distances: _Distances) -> float | None:
    """Return the median distance of a benign episode from those of other seeds of its task, or None."""
    task = twin.suite, twin.task_key
    others = [each for each in benign if (each.suite, each.task_key) == task and each.seed != twin.seed]
    known = [d for each in others if (d := distances.between(each, twin)) is not None]
    return median(known) if known else None


def _again(twin: Record, benign: Iterable[Record], distances: _Distances) -> list[float]:
    """Distances of a benign episode from itself under other run seeds."""
    others = [each for each in benign if each.case == twin.case and run_of(each) != run_of(twin)]
    return [d for each in others if (d := distances.between(each, twin)) is not None]


def _went(pair: _Pair, distances: _Distances) -> list[bool]:
    """Return whether the hand came as near to the removed object's place as its twin's; empty if unknown."""
    path, other, places = distances.path(pair.probe), distances.path(pair.twin), vacated(pair.probe)
    if path is None or other is None or not places or pair.twin.outcome != "success":
        return []
    return [_nearest(path, places) <= _nearest(other, places) + NEAR]


def _nearest(path: "NDArray[np.float64]", places: Iterable[Sequence[float]]) -> float:
    import numpy as np

    return min(float(np.linalg.norm(path - np.array(place), axis=1).min()) for place in places)


def vacated(record: Record) -> tuple[tuple[float, ...], ...]:
    """Return the places of removed objects, (x, y, z) in m."""
    names = [name for name in record.metrics if name.startswith(f"{VACATED}_") and name.endswith("_x")]
    places = ([record.metrics.get(f"{name[:-1]}{axis}") for axis in "xyz"] for name in names)
    return tuple(tuple(each for each in place if each is not None) for place in places if None not in place)


def _share(outcomes: Iterable[tuple[Unit, bool]]) -> GroundingShare:
    found = list(outcomes)
    if not found:
        return GroundingShare(0, 0, None)
    values = [float(each) for _, each in found]
    return GroundingShare(int(sum(values)), len(found), *rate_intervals(values, [unit for unit, _ in found]))


def _mean(values: Sequence[tuple[Unit, float]]) -> GroundingEstimate | None:
    """Compute the mean with Student's interval over tasks and seeds, cut at 0; None for a single one."""
    if not values:
        return None
    distances = [value for _, value in values]
    interval, _ = mean_intervals(distances, [unit for unit, _ in values])
    return GroundingEstimate(fmean(distances), None if interval is None else (max(interval[0], 0.0), interval[1]))
