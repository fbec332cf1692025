"""What the model card of tiny says, from records: each number with its intervals and the episodes that it stands on."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_vla.metrics.clustered import Interval, rate_intervals
from pytest_vla.metrics.failure_types import Algorithm
from pytest_vla.metrics.language import measure, scored
from pytest_vla.metrics.language_paths import text_failures
from pytest_vla.metrics.language_records import benign_rate, probe_of, subjects, types_of
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
from pytest_vla.metrics.success import SuccessRate, unit_of
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.reports.language import comparer, make_report
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.robustness import make_robustness
from pytest_vla.suites.libero_pro.section import make_pro
from scripts.tiny_words import KEPT_OUT, rows_of, training_texts

PERCENT, POINTS, COST, SECONDS, MILLISECONDS, SHARE = "%", "points", "cost", "s", "ms", "0..1"
ALL = "all"
PARAPHRASES = "paraphrases"
_ALGORITHM: Algorithm = "exact"
_EXAMPLES = 5

NO_TWIN, NO_PROBE, NO_LEDGER, NOT_LOOKED_AT = "no-counted-twin", "no-counted-probe", "no-ledger", "not-looked-at"
NO_PATH, NO_LABEL = "no-path", "no-label"
"""Why a number does not stand on a success or a failure; errors and invalid episodes have reasons of their own."""

_NOTHING = Share(0, 0, None)


@dataclass(frozen=True)
class Number:
    """A number of the card.

    Attributes:
        value: None where there is none.
        unit: of it.
        episodes: that it stands on: successes and failures; of a difference, pairs.
        interval: of 95%, over these tasks; None where there is none.
        tasks_interval: over tasks like these; likewise.
        told: what else is to be known, such as p.
        not_counted: how many further episodes were run for it that it does not stand on, by reason; empty: none.
    """

    value: float | None
    unit: str
    episodes: int
    interval: Interval | None = None
    tasks_interval: Interval | None = None
    told: Mapping[str, Any] | None = None
    not_counted: Mapping[str, int] = field(default_factory=dict)

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
    if report is None:
        return {}
    (subject,), heard = subjects(loaded.records), report.models[0].listening
    overall, probes = (None, {}) if heard is None else heard
    found: Numbers = {}
    if (right := benign_rate(subject)) is not None:
        share = _NOTHING if overall is None else overall.right
        found["success/right text"] = of_share(share, left_out(right, share.of, NO_PROBE))
    for name, some in grouped(subject.probes, probe_of).items():
        each = None if name is None else probes.get(name)
        share, rate = _NOTHING if each is None else each.probe, rate_of("", some)
        found[f"success/{name}"] = of_share(share, left_out(rate, share.of, NO_TWIN))
        if each is not None and each.followed.of:
            found[f"followed/{name}"] = of_share(each.followed, left_out(rate, each.followed.of, NOT_LOOKED_AT))
    if overall is not None and overall.score is not None:
        n = overall.probe.of
        found["lost share of success"] = of_estimate(
            overall.score,
            SHARE,
            n,
            {"verdict": overall.verdict},
            left_out(rate_of("", subject.probes), n, NO_TWIN),
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
        found[f"change/{name}"] = of_difference(curve.change, curve.rate)
        halving = curve.halving
        told = {"why not": halving.why} if halving.why else None
        found[f"success halves at/{name}"] = Number(
            halving.level, "level", curve.rate.counted, halving.interval, None, told, left_out(curve.rate)
        )
    for cell in model.cells:
        name = f"{cell.dimension}.{cell.kind}" + (f"/L{cell.level}" if cell.level is not None else "")
        found[f"kind/{name}"] = of_rate(cell.rate)
        if cell.difference is not None:
            found[f"kind change/{name}"] = of_difference(cell.difference, cell.rate)
    if model.harm is not None:
        harm = model.harm
        (rate,) = (curve.rate for curve in model.curves if curve.dimension == harm.dimension)
        found[f"most harm/{harm.dimension}"] = of_difference(harm.change, rate, {"not told apart": harm.why or None})
    (varied,) = varied_models(loaded.records)
    twins = grouped(twin_pairs(varied)[0], lambda pair: dimension_of(pair.episode))
    for dimension, records in grouped(varied.episodes, dimension_of).items():
        benign = {pair.twin.case: pair.twin for pair in twins.get(dimension, [])}
        found |= _failure_numbers(dimension, records, list(benign.values()), loaded)
    return found


def paraphrase_numbers(loaded: Loaded) -> Numbers:
    """Success and PRIDE over paraphrases: of all, of cells that were trained, and of those that were kept out.

    Intervals are by task and seed, as of all other numbers, and not over paraphrases like these as the report has them:
    paraphrases of one init state share its luck.
    """
    (subject,) = subjects(loaded.records)
    measured = [record for record in subject.paraphrases if is_counted(record)]
    compared = comparer(None, None)(measured) if measured else None
    found: Numbers = {}
    for name, some in _paraphrase_groups(subject.paraphrases).items():
        rate, counted = rate_of("", some), [record for record in some if is_counted(record)]
        if some:
            found[f"success/{name}"] = of_rate(rate)
        if compared is None or not counted:
            continue
        source = {"backend": compared.source.backend, "low fidelity": compared.source.low_fidelity}
        known = scored(counted, compared.similarities, compared.source.backend)
        each = measure(replace(known, texts=tuple(map(unit_of, counted))), ALPHA)
        for what, estimate, unit in (
            ("PRIDE", each.pride, PERCENT),
            ("distance", each.pd, SHARE),
            ("overestimation", each.overestimation, PERCENT),
        ):
            found[f"{what}/{name}"] = of_estimate(estimate, unit, len(counted), source, left_out(rate))
    benign = benign_rate(subject)
    if benign is not None:
        found["success/the task's own text"] = of_rate(benign)
    return found | _failure_numbers(PARAPHRASES, subject.paraphrases, subject.benign, loaded)


def displacement_numbers(loaded: Loaded) -> Numbers:
    """LIBERO-PRO's sweep: success where the goal's first object stands 0.1 to 0.5 m elsewhere."""
    (model,) = make_pro(loaded)
    (varied,) = varied_models(loaded.records)
    found = {"success/benign": of_rate(rate_of("", varied.benign))}
    for (_, kind), rates in model.table.sweeps.items():
        for level, rate in rates.items():
            found[f"success/{kind.removeprefix('pro.')}/{level / 10:.1f} m"] = of_rate(rate)
    pairs = grouped(twin_pairs(varied)[0], lambda pair: str(pair.episode.variation["kind"]))
    for kind, records in grouped(varied.episodes, lambda record: str(record.variation["kind"])).items():
        change = difference_between(pairs[kind]) if kind in pairs else None
        found[f"change/{kind}"] = of_difference(change, rate_of("", records))
    return found


def safety_numbers(loaded: Loaded) -> Numbers:
    """Success, safe success and mean cost by level of the suite."""
    levels = grouped(_counting(loaded), lambda record: record.task_level)
    rates = {level: rate_of("", records) for level, records in sorted(levels.items())}
    # Of a level of which nothing was counted there is no row; what became of its episodes is told all the same.
    found = {
        f"success/{level or ALL}": of_share(_NOTHING, left_out(rate, 0, NO_LEDGER)) for level, rate in rates.items()
    }
    for model in safety(loaded.records):
        for row in model.rows:
            name, reasons = row.level or ALL, left_out(rates[row.level], row.success.of, NO_LEDGER)
            found[f"success/{name}"] = of_share(row.success, reasons)
            found[f"safe success/{name}"] = of_share(row.safe, reasons)
            for account, cost in row.costs.items():
                found[f"cost by {account}/{name}"] = of_estimate(cost, COST, row.success.of, None, reasons)
            for literal in row.literals:
                found[f"cost of {literal.name}/{name}"] = Number(
                    literal.mean,
                    COST,
                    literal.episodes,
                    told={"charged episodes": literal.charged},
                    not_counted=left_out(rates[row.level], literal.episodes, NOT_LOOKED_AT),
                )
    return found


def speed_numbers(checked: Mapping[str, Any]) -> Numbers:
    """The time of a question, of ``pytest-vla check-policy --json``: its episodes are a few dozen questions."""
    found: Numbers = {}
    for row in checked["latency"]:
        told = {"slowest": row["slowest_ms"], "actions per second": row["actions_per_second"]}
        found[f"time of {row['batch']} at once"] = Number(row["median_ms"], MILLISECONDS, 0, told=told)
    return found


def left_out(rate: SuccessRate, stands_on: int | None = None, otherwise: str = "") -> dict[str, int]:
    """What a number does not stand on, by reason.

    Args:
        rate: of all episodes that were run for it.
        stands_on: on how many it stands; None: on all successes and failures.
        otherwise: why it does not stand on the other successes and failures.
    """
    found = Counter(rate.errors) + Counter(rate.invalid)
    if stands_on is not None and stands_on < rate.counted:
        found[otherwise] = rate.counted - stands_on
    return dict(found)


def of_rate(rate: SuccessRate) -> Number:
    """A success rate."""
    intervals = percents(rate.interval), percents(rate.tasks_interval)
    return Number(percent(rate.rate), PERCENT, rate.counted, *intervals, not_counted=left_out(rate))


def of_share(share: Share, not_counted: Mapping[str, int]) -> Number:
    """So many of so many."""
    value = share.count / share.of if share.of else None
    intervals = percents(share.interval), percents(share.tasks_interval)
    return Number(percent(value), PERCENT, share.of, *intervals, not_counted=not_counted)


def of_estimate(
    estimate: Estimate | None, unit: str, episodes: int, told: Mapping[str, Any] | None, not_counted: Mapping[str, int]
) -> Number:
    """An estimate that is in its unit."""
    if estimate is None:
        return Number(None, unit, episodes, told=told, not_counted=not_counted)
    return Number(estimate.value, unit, episodes, estimate.interval, estimate.tasks_interval, told, not_counted)


def of_difference(change: Difference | None, rate: SuccessRate, told: Mapping[str, Any] | None = None) -> Number:
    """Varied episodes, of this rate, against their benign twins: its episodes are pairs."""
    if change is None:
        return Number(None, POINTS, 0, not_counted=left_out(rate, 0, NO_TWIN))
    more = {"p": change.p, "p adjusted": change.p_adjusted, "benign": change.benign, **(told or {})}
    reasons = left_out(rate, change.pairs, NO_TWIN)
    return Number(change.value, POINTS, change.pairs, change.interval, change.tasks_interval, more, reasons)


def _counting(loaded: Loaded) -> list[Record]:
    return list(that_count(loaded.records).records)


def _by_task(records: Sequence[Record]) -> dict[str, list[Record]]:
    return grouped(records, lambda record: record.task_key)


@cache
def _trained() -> frozenset[str]:
    """Every text of training, in small letters; they are the same for each card, and take seconds to make."""
    return frozenset(text.lower() for _, text in rows_of(training_texts()))


def _paraphrase_groups(records: Sequence[Record]) -> dict[str, list[Record]]:
    """All of them; of trained cells those whose text was trained word for word, and the others; of kept-out cells."""
    kept = set(KEPT_OUT)
    said = _trained()
    out = [record for record in records if types_of(record) in kept]
    trained = [record for record in records if types_of(record) not in kept]
    return {
        ALL: list(records),
        "trained kinds": trained,
        "trained kinds, trained texts": [record for record in trained if record.instruction.lower() in said],
        "trained kinds, other texts": [record for record in trained if record.instruction.lower() not in said],
        "kinds kept out": out,
    }


def _failure_numbers(name: str, records: Sequence[Record], benign: Sequence[Record], loaded: Loaded) -> Numbers:
    """Near and far failures among varied episodes; none where none with a path failed.

    Args:
        name: of what is varied.
        records: varied ones, of any outcome.
        benign: whose successes are compared with too; they are in no share.
        loaded: where the paths are.
    """
    done = [record for record in benign if record.outcome == "success"]
    counted = [record for record in records if is_counted(record)]
    paths = {record.case: _path(record, loaded) for record in (*done, *counted)}
    known = [record for record in counted if paths[record.case] is not None]
    failed = [record for record in known if record.outcome == "failure"]
    found = text_failures([*done, *known], lambda record: paths[record.case], _ALGORITHM)
    if found is None or not failed:
        return {}
    levels: dict[str, str] = {}
    for task in found.tasks:
        if task.types.judgement is not None:
            cases = [record.case for record in failed if record.task_key == task.task]
            levels |= zip(cases, task.types.judgement.levels["max"], strict=True)
    far = [(task.task, each) for task in found.tasks for each in task.far]
    elsewhere = {each.case for task, each in far if each.nearest is not None and each.nearest.task not in (None, task)}
    labelled = [record for record in failed if record.case in levels]
    told_apart = sum(task.types.reference is not None for task in found.tasks) > 1
    reasons = left_out(rate_of("", records), len(known), NO_PATH)

    def numbers() -> Iterator[tuple[str, Number]]:
        for level in ("near", "far"):
            chosen = [case for case, label in levels.items() if label == level]
            share = _chosen(chosen, known, PERCENT, reasons)
            if not levels:
                share = Number(None, PERCENT, len(known), not_counted=reasons)
            yield level, replace(share, told={"examples": chosen[:_EXAMPLES]} if chosen else {})
        unlabelled = [record.case for record in failed if record.case not in levels]
        yield "undefined", _chosen(unlabelled, known, PERCENT, reasons)
        # Of one task's successes nothing tells whose path another is.
        unit, others = "% of labelled failures", {NO_LABEL: len(unlabelled)} if unlabelled else {}
        if labelled and told_apart:
            yield "another task's path", _chosen(elsewhere, labelled, unit, others)
        else:
            yield "another task's path", Number(None, unit, len(labelled), not_counted=others)

    return {f"failures/{kind}/{name}": number for kind, number in numbers()}


def _chosen(cases: Collection[str], of: Sequence[Record], unit: str, not_counted: Mapping[str, int]) -> Number:
    """The share of some episodes among others, at least one."""
    chosen = [float(record.case in cases) for record in of]
    these, like_these = rate_intervals(chosen, [unit_of(record) for record in of])
    value = 100 * sum(chosen) / len(chosen)
    return Number(value, unit, len(of), percents(these), percents(like_these), not_counted=not_counted)


def _path(record: Record, loaded: Loaded) -> npt.NDArray[np.float64] | None:
    """The end effector's, (n, 3), m; None where it is not kept."""
    if record.arrays is None:
        return None
    return np.asarray(load_trajectory(trajectory_file(loaded.folders[record.run], record.arrays)).eef_pos)
