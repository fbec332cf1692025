"""Results from the end effector's paths under other texts: failure types, and whether the policy follows its text."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from pytest_vla.metrics.clustered import FEWEST_TASKS, no_narrower, rate_interval
from pytest_vla.metrics.dtw import exact_dtw, resample
from pytest_vla.metrics.failure_types import (
    THRESHOLDS,
    USUAL_TAU,
    Algorithm,
    FailureTypes,
    Reference,
    Tau,
    Threshold,
    failure_types,
    is_static,
    reference_of,
)
from pytest_vla.metrics.language import LanguageGroup, Paraphrases, Subject, clusters_of, probe_of, text_of
from pytest_vla.metrics.language_grounding import (
    GroundingEpisode,
    GroundingEstimate,
    Listening,
    Probe,
    Twins,
    listening,
)
from pytest_vla.metrics.rates import percents
from pytest_vla.metrics.selection import is_counted, twin_of
from pytest_vla.metrics.success import SuccessRate, start_within, unit_of
from pytest_vla.records.record import ASKED_DONE, Record
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# The task that a failure did instead: its path compared with the mean successful paths of the suite's tasks.

MARGIN = 0.55
"""From which margin on a task is named: it is more than twice as near as any other.

Measured on 99 successes of the built-in expert in tabletop, each half of them held against the means of the other: the
nearest task is right for 98; it is named for 85, never wrongly. With the path's own task taken out, so that none is
right, none is named; nor is any for 20 episodes of random actions, which come as near as .52.
"""

REST_RADIUS = 0.005
"""m. A path rests from where on it stays this close to its last point; letting go of a thing moves a hand by more."""


@dataclass(frozen=True)
class NearestTask:
    """The distance between a path and the tasks' successes.

    Attributes:
        task: the nearest task, if it is nearer than every other by `MARGIN`, otherwise None: the path belongs to no
            task.
        nearest: the task with the smallest distance.
        distance: to its mean path: exact DTW over 50 points each, m.
        margin: 1 - distance / second smallest distance, in [0, 1]: 0 if two tasks are equally near, 1 on the mean path
            itself. A ratio has no scale: a path far from all tasks is about equally far from each, so its margin is
            small.
        distances: to all tasks.
    """

    task: str | None
    nearest: str
    distance: float
    margin: float
    distances: Mapping[str, float]


def nearest_task(path: "NDArray[np.float64]", references: Mapping[str, Reference]) -> NearestTask | None:
    """Return the task whose successes are most like a path (n, 3), m, or None for a static path.

    Include the path's own task: a failure that is nearest to its own task did no other. Unlike Algorithm 1, nothing is
    cut at a task's longest success, because every task begins like some shorter one; only the rest at the path's end is
    left out (`REST_RADIUS`): a policy that has done another task waits there until the episode is over.

    Raises:
        ValueError: there are fewer than two tasks, or a path is empty or not finite.
    """
    import numpy as np

    if len(references) < 2:
        raise ValueError(f"nearest_task: {len(references)} tasks: expected at least 2, or there is no margin")
    if is_static(path):
        return None
    moving = resample(_without_rest(path))[None]
    distances = {task: float(exact_dtw(moving, known.mean_path).distances[0]) for task, known in references.items()}
    first, second = sorted(distances, key=lambda task: (distances[task], task))[:2]
    margin = 1.0 - distances[first] / distances[second] if distances[second] > 0.0 else 0.0
    named = first if margin >= MARGIN else None
    return NearestTask(named, first, distances[first], float(np.clip(margin, 0.0, 1.0)), distances)


def _without_rest(path: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Return the path up to the step at which it comes to rest."""
    import numpy as np

    away = np.flatnonzero(np.linalg.norm(path - path[-1], axis=1) > REST_RADIUS)
    return path[: away[-1] + 2] if len(away) else path[:1]


Paths = Callable[[Record], "NDArray[np.float64] | None"]
"""Gives an episode's path (n, 3), m; None where there is none."""

OTHER_TASK = "other"
"""The parameter of a probe that names the task whose instruction it is."""

NO_NOISE = (
    "the path score and its noise: no task ran twice under the right text. Run the same seeds again without variations "
    "and with another --vla-run-seed, such as --vla-run-seed=1"
)


@dataclass(frozen=True)
class FarFailure:
    """A planning failure: its `Record.case`, and the task that it is nearest to, or None if it is static."""

    case: str
    nearest: NearestTask | None


@dataclass(frozen=True)
class TaskFailures:
    """A task's failures, with their labels and paths.

    Attributes:
        task: name.
        successes: number of successes with a path.
        failures: number of failures with a path.
        types: the failures' labels, in the order of `failure_paths`.
        far: the far failures; empty if no two tasks have successes to compare with.
        success_paths: (n, 3), m.
        failure_paths: (n, 3), m.
        success_cases: `Record.case` of each, in the order of `success_paths`.
        failure_cases: `Record.case` of each, in the order of `failure_paths`.
    """

    task: str
    successes: int
    failures: int
    types: FailureTypes
    far: tuple[FarFailure, ...]
    success_paths: "tuple[NDArray[np.float64], ...]"
    failure_paths: "tuple[NDArray[np.float64], ...]"
    success_cases: tuple[str, ...] = ()
    failure_cases: tuple[str, ...] = ()

    @property
    def instead(self) -> Mapping[str, tuple[float, ...]]:
        """The tasks that far failures did, most often done first, with the margin of each: their own may be one."""
        margins: dict[str, tuple[float, ...]] = {}
        for each in self.far:
            if each.nearest is not None and each.nearest.task is not None:
                margins[each.nearest.task] = (*margins.get(each.nearest.task, ()), each.nearest.margin)
        return dict(sorted(margins.items(), key=lambda item: -len(item[1])))

    @property
    def instead_margins(self) -> Mapping[str, float]:
        """The median margin of each task of `instead`."""
        return {task: median(margins) for task, margins in self.instead.items()}

    def near_far(self, threshold: Threshold, exact: bool = False) -> tuple[int, int]:
        """Count near and far failures, by the report's DTW or by the exact one."""
        judgement = self.types.exact if exact else self.types.judgement
        levels = () if judgement is None else judgement.levels[threshold]
        return levels.count("near"), levels.count("far")

    @property
    def remarks(self) -> Mapping[str, int]:
        """The number of failures with each remark, by its name."""
        known = [remark for remark in self.types.remarks if remark is not None]
        return {remark: known.count(remark) for remark in sorted(set(known))}

    @property
    def nobodys(self) -> int:
        """Far failures that did no task."""
        return len(self.far) - sum(map(len, self.instead.values()))


@dataclass(frozen=True)
class FailureTypeShares:
    """Percent of all episodes that are near and far failures, and of the failures, the far ones."""

    near: GroundingEstimate
    far: GroundingEstimate
    far_share: GroundingEstimate | None


@dataclass(frozen=True)
class FailureTypeSummary:
    """Failure types of a model.

    Attributes:
        algorithm: what the labels are by.
        tau: what a success's own distance is to, by which the thresholds are made.
        n: episodes with a path.
        sr: percent of them that are successes.
        undefined: percent of them that are failures without a label.
        levels: by threshold.
        exact: by exact DTW, at each threshold.
        differing: failures that have another label by exact DTW, at any threshold.
        tasks: in the order in which they came.
    """

    algorithm: Algorithm
    n: int
    sr: GroundingEstimate
    undefined: GroundingEstimate
    levels: Mapping[Threshold, FailureTypeShares]
    exact: Mapping[Threshold, FailureTypeShares]
    differing: int
    tasks: tuple[TaskFailures, ...]
    tau: Tau = USUAL_TAU


def text_failures(
    records: Sequence[Record], paths: Paths, algorithm: Algorithm, tau: Tau = USUAL_TAU
) -> FailureTypeSummary | None:
    """Failure types of episodes of one model and suite, under any texts; None where none has a path.

    Raises:
        VlaError: fastdtw is asked for and not installed. ValueError: a path is empty or not finite.
    """
    found = [(record, path) for record in records if is_counted(record) and (path := paths(record)) is not None]
    if not found:
        return None
    by_task: dict[str, list[int]] = {}
    for index, (record, _) in enumerate(found):
        by_task.setdefault(record.task_key, []).append(index)
    parts = {
        task: tuple([i for i in indices if found[i][0].outcome == outcome] for outcome in ("success", "failure"))
        for task, indices in by_task.items()
    }
    types = {
        task: failure_types([found[i][1] for i in done], [found[i][1] for i in failed], algorithm, tau=tau)
        for task, (done, failed) in parts.items()
    }
    references = {task: each.reference for task, each in types.items() if each.reference is not None}
    tasks = []
    for task, (done, failed) in parts.items():
        successes, failures = (tuple(found[i][1] for i in some) for some in (done, failed))
        cases = tuple(tuple(found[i][0].case for i in some) for some in (done, failed))
        far = _far(cases[1], failures, types[task], references)
        tasks.append(TaskFailures(task, len(done), len(failed), types[task], far, successes, failures, *cases))
    levels = _levels([record for record, _ in found], parts, types)
    differing = sum(len(each.differing) for each in types.values())
    return FailureTypeSummary(algorithm, len(found), *levels, differing, tuple(tasks), tau)


def listening_score(
    subject: Subject, paths: Paths
) -> tuple[tuple[Listening, Mapping[Probe, Listening]] | None, tuple[str, ...]]:
    """Return a model's listening score, or None without pairs; and notes on records that are left out.

    An episode under a probe is paired with the one under the right text with the same task, seed and run seed; the
    right text under another run seed gives the policy's own noise.
    """
    # Of a policy that draws nothing the runs under two run seeds are the same: its noise is known, and is none.
    right = {run: record for run, record in subject.right.items() if is_counted(record)}
    references = _references([*subject.benign, *subject.reworded], paths) if subject.probes else {}
    twins: dict[tuple[str, int], dict[Probe, GroundingEpisode]] = {}
    alone = broken = further = 0
    for record in sorted(subject.probes, key=lambda record: record.case):
        key, probe = twin_of(record), probe_of(record)
        if probe is None or not is_counted(record):
            broken += 1
        elif key not in right:
            alone += 1
        elif probe in twins.setdefault(key, {}):
            further += 1
        else:
            twins[key][probe] = _run(record, paths, references)
    left_out = [
        (broken, "under a probe: error or invalid"),
        (alone, "under a probe, without a measured benign twin (--vla-twins=auto runs it)"),
        (further, "under a second probe of the same kind, for the same task and seed"),
    ]
    said = tuple(f"{counted(number, 'episode')} {what}" for number, what in left_out if number)
    if not any(twins.values()):
        return None, said
    pairs = []
    for (case, seed), probes in twins.items():
        again = next((r for (other, run), r in right.items() if other == case and run != seed), None)
        known = None if again is None else _run(again, paths, references)
        if probes:
            of_right = right[case, seed]
            pairs.append(Twins(_run(of_right, paths, references), probes, known, unit_of(of_right)))
    overall, each = listening(pairs)
    if overall.distance is not None and overall.noise is None:
        said += (NO_NOISE,)
    return (overall, each), said


def _levels(
    records: Sequence[Record], parts: Mapping[str, tuple[list[int], ...]], types: Mapping[str, FailureTypes]
) -> tuple[
    GroundingEstimate, GroundingEstimate, Mapping[Threshold, FailureTypeShares], Mapping[Threshold, FailureTypeShares]
]:
    """Success rate, failures without a label, and the shares at each threshold: by the algorithm, and by exact DTW."""
    unlabelled: set[int] = set()
    near: dict[tuple[str, Threshold], set[int]] = {(by, name): set() for by in ("ours", "exact") for name in THRESHOLDS}
    for task, (_, failed) in parts.items():
        judgement, exact = types[task].judgement, types[task].exact
        if judgement is None or exact is None:
            unlabelled.update(failed)
            continue
        for by, each in (("ours", judgement), ("exact", exact)):
            for name in THRESHOLDS:
                near[by, name].update(i for i, level in zip(failed, each.levels[name], strict=True) if level == "near")
    everyone = range(len(records))
    labelled = [i for i in everyone if records[i].outcome == "failure" and i not in unlabelled]

    def share(chosen: Collection[int], of: Sequence[int]) -> GroundingEstimate:
        return _estimate([records[i] for i in of], [i in chosen for i in of])

    def shares(by: str, name: Threshold) -> FailureTypeShares:
        is_near = near[by, name]
        far = set(labelled) - is_near
        return FailureTypeShares(
            share(is_near, everyone), share(far, everyone), share(far, labelled) if labelled else None
        )

    done = {i for i in everyone if records[i].outcome == "success"}
    ours, exacts = ({name: shares(by, name) for name in THRESHOLDS} for by in ("ours", "exact"))
    return share(done, everyone), share(unlabelled, everyone), ours, exacts


def _estimate(records: Sequence[Record], chosen: Sequence[bool]) -> GroundingEstimate:
    """Percent that is chosen, over paraphrases like these."""
    tasks, success = [record.task_key for record in records], [float(each) for each in chosen]
    interval = rate_interval(
        success, *clusters_of([text_of(r) for r in records], tasks, [start_within(r) for r in records])
    )
    by_task = rate_interval(success, tasks) if len(set(tasks)) >= FEWEST_TASKS else None

    return GroundingEstimate(
        100 * sum(success) / len(success), percents(interval), percents(no_narrower(by_task, interval))
    )


def _far(
    cases: Sequence[str],
    paths: "Sequence[NDArray[np.float64]]",
    types: FailureTypes,
    references: Mapping[str, Reference],
) -> tuple[FarFailure, ...]:
    if types.judgement is None or len(references) < 2:
        return ()
    labelled = zip(cases, paths, types.judgement.levels["max"], strict=True)
    return tuple(FarFailure(case, nearest_task(path, references)) for case, path, level in labelled if level == "far")


def _references(records: Sequence[Record], paths: Paths) -> dict[str, Reference]:
    """Return the reference made from each task's successes."""
    done: dict[str, list[NDArray[np.float64]]] = {}
    for record in records:
        path = paths(record) if record.outcome == "success" else None
        if path is not None:
            done.setdefault(record.task_key, []).append(path)
    return {task: reference_of(some) for task, some in done.items()}


def _run(record: Record, paths: Paths, references: Mapping[str, Reference]) -> GroundingEpisode:
    path = paths(record)
    if probe_of(record) == "other_goal":
        # Its success is at the other goal: of this task's it says nothing.
        return GroundingEpisode(None, path, obeyed=record.outcome == "success")
    told = record.variation.get("parameters", {}).get(OTHER_TASK)
    followed = None
    if ASKED_DONE in record.metrics:
        followed = record.metrics[ASKED_DONE] > 0
    elif path is not None and isinstance(told, str) and told in references and len(references) > 1:
        nearest = nearest_task(path, references)
        followed = nearest is not None and nearest.task == told
    return GroundingEpisode(record.outcome == "success", path, followed)


# The language results of all models, as a report shows them.


@dataclass(frozen=True)
class Source:
    """The source of one score's similarities.

    Attributes:
        backend: name and version.
        low_fidelity: whether it is an approximation.
        passed_over: better backends, with the reasons against them.
    """

    backend: str
    low_fidelity: bool
    passed_over: Mapping[str, str]


@dataclass(frozen=True)
class OtherChange:
    """Success and distance under another change of the text than a paraphrase of LIBERO-Para's types."""

    source: Source
    measured: LanguageGroup


@dataclass(frozen=True)
class ModelResults:
    """The language results of one model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's name.
        runs: names of the runs used.
        seeds: seeds of the episodes under paraphrases.
        benign: success with the right text; None if no benign twin was run.
        counts: episodes under another text that are in no rate, by outcome and reason.
        paraphrases: those with LIBERO-Para's types only; None without any.
        of_list: estimated success rate and PRIDE for LIBERO-Para's whole list; None for other suites, and if one of its
            cells has no episode.
        source: the source of the paraphrases' similarities; None without paraphrases.
        others: other texts, by kind.
        failures: failures under any rewording, without probes; None without paths.
        listening: overall and by probe; None without probes.
        left_out: notes on records that are not in the numbers.
        left_out_of_types: the same of the failure types alone.
        left_out_of_listening: the same of the listening score alone.
        protocol: paper or upstream's code, if the suite has both; otherwise empty.
        rate: success under paraphrases; None without any.
    """

    model: str
    suite: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    benign: SuccessRate | None
    counts: SuccessRate
    paraphrases: Paraphrases | None
    source: Source | None
    others: Mapping[str, OtherChange]
    failures: FailureTypeSummary | None
    listening: tuple[Listening, Mapping[Probe, Listening]] | None
    left_out: tuple[str, ...]
    left_out_of_types: tuple[str, ...] = ()
    left_out_of_listening: tuple[str, ...] = ()
    protocol: str = ""
    rate: SuccessRate | None = None
    of_list: tuple[GroundingEstimate, GroundingEstimate | None] | None = None

    @property
    def all_left_out(self) -> tuple[str, ...]:
        """All notes on records that are not in the numbers."""
        return (*self.left_out, *self.left_out_of_types, *self.left_out_of_listening)


@dataclass(frozen=True)
class LanguageReport:
    """All of a report.

    Attributes:
        alpha: weight of S_K.
        models: one for each model and suite.
    """

    alpha: float
    models: tuple[ModelResults, ...]
