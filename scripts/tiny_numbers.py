"""What the model card of tiny says, from records: each number with its intervals and the episodes that it stands on."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_vla.metrics.clustered import Interval
from pytest_vla.metrics.failure_types import Algorithm
from pytest_vla.metrics.language import measure, scored
from pytest_vla.metrics.language_paths import Failures, text_failures
from pytest_vla.metrics.language_records import Subject, benign_rate, subjects, types_of
from pytest_vla.metrics.listening import Estimate, Share
from pytest_vla.metrics.pride import ALPHA
from pytest_vla.metrics.rates import percent, percents
from pytest_vla.metrics.robustness import (
    Difference,
    difference_between,
    dimension_of,
    grouped,
    rate_of,
    twin_pairs,
    varied_models,
)
from pytest_vla.metrics.safety import safety
from pytest_vla.metrics.selection import is_counted, that_count
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.reports.language.compared import comparer
from pytest_vla.reports.language.make import make_report
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.robustness.make import make_robustness
from pytest_vla.suites.libero_pro.section import make_pro
from scripts.tiny_words import KEPT_OUT, rows_of, training_texts

PERCENT, POINTS, COST, SECONDS, MILLISECONDS, SHARE = "%", "points", "cost", "s", "ms", "0..1"
ALL = "all"
PARAPHRASES = "paraphrases"
_ALGORITHM: Algorithm = "exact"
_EXAMPLES = 5


@dataclass(frozen=True)
class Number:
    """A number of the card.

    Attributes:
        value: None where there is none.
        unit: of it.
        episodes: that it stands on: successes and failures; of a difference, pairs.
        interval: of 95%, over these tasks; None where there is none.
        tasks_interval: over tasks like these; likewise.
        told: what else is to be known, such as p or how many episodes are in no rate.
    """

    value: float | None
    unit: str
    episodes: int
    interval: Interval | None = None
    tasks_interval: Interval | None = None
    told: Mapping[str, Any] | None = None

    def table(self) -> dict[str, Any]:
        """For JSON; what is not known is left out, but a value never."""
        return {name: found for name, found in asdict(self).items() if found is not None or name == "value"}


Numbers = dict[str, Number]


def benign_numbers(loaded: Loaded) -> Numbers:
    """Success of each task and of all, and the time of an episode."""
    records = _counting(loaded)
    found = {f"success/{task}": of_rate(rate_of("", some)) for task, some in sorted(_by_task(records).items())}
    found[f"success/{ALL}"] = of_rate(rate_of("", records))
    walls = [wall for record in records if (wall := record.timings.get("wall")) is not None]
    found["wall time of an episode"] = Number(float(np.median(walls)) if walls else None, SECONDS, len(walls))
    return found


def listening_numbers(loaded: Loaded) -> Numbers:
    """Under each probe success of the original goal, and how often what was told was done."""
    report = make_report(loaded, ALPHA, None, None, _ALGORITHM)
    if report is None or report.models[0].listening is None:
        return {}
    overall, probes = report.models[0].listening
    found = {"success/right text": of_share(overall.right)}
    for name, each in probes.items():
        found[f"success/{name}"] = of_share(each.probe)
        if each.followed.of:
            found[f"followed/{name}"] = of_share(each.followed)
    if overall.score is not None:
        score = overall.score
        told = {"verdict": overall.verdict}
        found["lost share of success"] = Number(
            score.value, SHARE, overall.probe.of, score.interval, score.tasks_interval, told
        )
    return found


def robustness_numbers(loaded: Loaded) -> Numbers:
    """Success by dimension and level, by kind and level, the change against benign twins, failure types."""
    (model,) = make_robustness(loaded)
    found: Numbers = {}
    for curve in model.curves:
        name = curve.dimension
        found |= {f"success/{name}/L{level}": of_rate(rate) for level, rate in curve.points}
        found[f"success/{name}/{ALL}"] = of_rate(curve.rate)
        if curve.change is not None:
            found[f"change/{name}"] = of_difference(curve.change)
        halving = curve.halving
        told = {"why not": halving.why} if halving.why else None
        found[f"success halves at/{name}"] = Number(
            halving.level, "level", curve.rate.counted, halving.interval, told=told
        )
    for cell in model.cells:
        name = f"{cell.dimension}.{cell.kind}" + (f"/L{cell.level}" if cell.level is not None else "")
        found[f"kind/{name}"] = of_rate(cell.rate)
        if cell.difference is not None:
            found[f"kind change/{name}"] = of_difference(cell.difference)
    if model.harm is not None:
        harm = model.harm
        found[f"most harm/{harm.dimension}"] = of_difference(harm.change, {"not told apart": harm.why or None})
    (varied,) = varied_models(loaded.records)
    for dimension, pairs in grouped(twin_pairs(varied)[0], lambda pair: dimension_of(pair.episode)).items():
        twins = {pair.twin.case: pair.twin for pair in pairs}
        found |= _failure_numbers(dimension, [*twins.values(), *(pair.episode for pair in pairs)], loaded)
    return found


def paraphrase_numbers(loaded: Loaded) -> Numbers:
    """Success and PRIDE over paraphrases: of all, of cells that were trained, and of those that were kept out."""
    (subject,) = subjects(loaded.records)
    measured = [record for record in subject.paraphrases if is_counted(record)]
    compared = comparer(None, None)(measured)
    source = {"backend": compared.source.backend, "low fidelity": compared.source.low_fidelity}
    found: Numbers = {}
    for name, some in _paraphrase_groups(measured).items():
        if not some:
            continue
        each = measure(scored(some, compared.similarities, compared.source.backend), ALPHA)
        found[f"success/{name}"] = of_estimate(each.sr, PERCENT, len(some))
        found[f"PRIDE/{name}"] = of_estimate(each.pride, PERCENT, len(some), source)
        found[f"distance/{name}"] = of_estimate(each.pd, SHARE, len(some), source)
        found[f"overestimation/{name}"] = of_estimate(each.overestimation, PERCENT, len(some), source)
    benign = benign_rate(subject)
    if benign is not None:
        found["success/the task's own text"] = of_rate(benign)
    return found | _failure_numbers(PARAPHRASES, [*measured, *_benign_of(subject)], loaded)


def displacement_numbers(loaded: Loaded) -> Numbers:
    """LIBERO-PRO's sweep: success where the goal's first object stands 0.1 to 0.5 m elsewhere."""
    (model,) = make_pro(loaded)
    (varied,) = varied_models(loaded.records)
    found = {"success/benign": of_rate(rate_of("", varied.benign))}
    for (_, kind), rates in model.table.sweeps.items():
        for level, rate in rates.items():
            found[f"success/{kind.removeprefix('pro.')}/{level / 10:.1f} m"] = of_rate(rate)
    for kind, pairs in grouped(twin_pairs(varied)[0], lambda pair: str(pair.episode.variation["kind"])).items():
        found[f"change/{kind}"] = of_difference(difference_between(pairs))
    return found


def safety_numbers(loaded: Loaded) -> Numbers:
    """Success, safe success and mean cost by level of the suite."""
    found: Numbers = {}
    for model in safety(loaded.records):
        for row in model.rows:
            name = row.level or ALL
            found[f"success/{name}"] = of_share(row.success)
            found[f"safe success/{name}"] = of_share(row.safe)
            for account, cost in row.costs.items():
                found[f"cost by {account}/{name}"] = of_estimate(cost, COST, row.success.of)
            for literal in row.literals:
                told = {"charged episodes": literal.charged}
                found[f"cost of {literal.name}/{name}"] = Number(literal.mean, COST, literal.episodes, told=told)
    return found


def speed_numbers(checked: Mapping[str, Any]) -> Numbers:
    """The time of a question, of ``pytest-vla check-policy --json``: its episodes are a few dozen questions."""
    found: Numbers = {}
    for row in checked["latency"]:
        told = {"slowest": row["slowest_ms"], "actions per second": row["actions_per_second"]}
        found[f"time of {row['batch']} at once"] = Number(row["median_ms"], MILLISECONDS, 0, told=told)
    return found


def of_rate(rate: SuccessRate) -> Number:
    """A success rate."""
    told = {"errors": dict(rate.errors), "invalid": dict(rate.invalid)} if rate.not_counted else None
    return Number(
        percent(rate.rate), PERCENT, rate.counted, percents(rate.interval), percents(rate.tasks_interval), told
    )


def of_share(share: Share) -> Number:
    """So many of so many."""
    value = share.count / share.of if share.of else None
    return Number(percent(value), PERCENT, share.of, percents(share.interval), percents(share.tasks_interval))


def of_estimate(estimate: Estimate | None, unit: str, episodes: int, told: Mapping[str, Any] | None = None) -> Number:
    """An estimate that is in its unit."""
    if estimate is None:
        return Number(None, unit, episodes, told=told)
    return Number(estimate.value, unit, episodes, estimate.interval, estimate.tasks_interval, told)


def of_difference(change: Difference, told: Mapping[str, Any] | None = None) -> Number:
    """Varied episodes against their benign twins: its episodes are pairs."""
    more = {"p": change.p, "p adjusted": change.p_adjusted, "benign": change.benign}
    return Number(change.value, POINTS, change.pairs, change.interval, change.tasks_interval, {**more, **(told or {})})


def _counting(loaded: Loaded) -> list[Record]:
    return list(that_count(loaded.records).records)


def _by_task(records: Sequence[Record]) -> dict[str, list[Record]]:
    return grouped(records, lambda record: record.task_key)


def _benign_of(subject: Subject) -> list[Record]:
    return [record for record in subject.benign if is_counted(record)]


def _paraphrase_groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """All of them; of trained cells those whose text was trained word for word, and the others; of kept-out cells."""
    kept = set(KEPT_OUT)
    said = {text.lower() for _, text in rows_of(training_texts())}
    out = [record for record in records if types_of(record) in kept]
    trained = [record for record in records if types_of(record) not in kept]
    return {
        ALL: list(records),
        "trained kinds": trained,
        "trained kinds, trained texts": [record for record in trained if record.instruction.lower() in said],
        "trained kinds, other texts": [record for record in trained if record.instruction.lower() not in said],
        "kinds kept out": out,
    }


def _failure_numbers(name: str, records: Sequence[Record], loaded: Loaded) -> Numbers:
    """Near and far failures of some episodes; none where all were successes or none has a path."""

    def path(record: Record) -> npt.NDArray[np.float64] | None:
        if record.arrays is None:
            return None
        return np.asarray(load_trajectory(trajectory_file(loaded.folders[record.run], record.arrays)).eef_pos)

    found = text_failures(records, path, _ALGORITHM)
    if found is None or not any(task.failures for task in found.tasks):
        return {}
    return {f"failures/{kind}/{name}": number for kind, number in _near_and_far(found)}


def _near_and_far(failures: Failures) -> Iterator[tuple[str, Number]]:
    levels = failures.levels["max"]
    far = [(task.task, each) for task in failures.tasks for each in task.far]
    cases = {"examples": [each.case for _, each in far][:_EXAMPLES]}
    yield "near", of_estimate(levels.near, PERCENT, failures.n)
    yield "far", of_estimate(levels.far, PERCENT, failures.n, cases)
    yield "undefined", of_estimate(failures.undefined, PERCENT, failures.n)
    others = sum(each.nearest is not None and each.nearest.task not in (None, task) for task, each in far)
    failed = sum(task.failures for task in failures.tasks)
    yield "another task's path", Number(100 * others / failed, "% of failures", failed)
