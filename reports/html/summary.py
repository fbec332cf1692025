"""The first screen of a page: what was run, the gate's verdict, success, what harms, what broke, and provenance."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from markupsafe import Markup

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
from pytest_vla.metrics.extra_metrics import by_origin
from pytest_vla.metrics.rates import (
    GIVEN,
    RateRow,
    ends_text,
    interval_text,
    judged_apart,
    left_out_text,
    rate_rows,
    share_text,
    suites_of,
)
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.reports.blocks import Table, table_of
from pytest_vla.reports.html.gates import GateTold
from pytest_vla.reports.html.parts import PageBlock, block_of, listed, percent_text
from pytest_vla.reports.html.svg import interval_bar
from pytest_vla.reports.runs import status_text
from pytest_vla.util.text import counted

RATES_HEAD = ("suite", "episodes", "success", "rate", "bar", "95%, these tasks", "tasks like these", "not in the rate")
_PROBE = "probe"
_SIMULATOR = ("mujoco", "robosuite", "renderer")
_NOT_VERSIONS = ("scene", "stand_ins")


@dataclass(frozen=True)
class JudgedRate:
    """A row of the summary.

    Attributes:
        model: its name in the report.
        suite: the suite, or the user's own test.
        group: of `pytest_vla.metrics.rates.judged_apart`.
        rate: with its intervals.
        records: of which it is made.
    """

    model: str
    suite: str
    group: str
    rate: SuccessRate
    records: tuple[Record, ...]


def counting_by_model(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Return by model the records that count, as in every other part of a report."""
    found: dict[str, list[Record]] = {}
    for (model, _), some in by_model(records).items():
        found.setdefault(model, []).extend(that_count(some).records)
    return found


def summary_blocks(
    runs: Sequence[Run],
    records: Sequence[Record],
    models: Sequence[Mapping[str, Any]],
    gates: Sequence[GateTold],
) -> dict[str, PageBlock]:
    """Return the cards by heading.

    Args:
        runs: that were reported.
        records: all of them.
        models: of the report's JSON.
        gates: of the runs that had one.
    """
    counting = counting_by_model(records)
    found = {"Runs": _runs_block(runs)}
    if gates:
        found["Gate"] = block_of(
            drawings=tuple(
                Markup('<p class="verdict {}">{}</p>').format("good" if gate.passed else "bad", gate.line)
                for gate in gates
            ),
            texts=tuple(gate.about for gate in gates),
            is_wide=True,
        )
    found["Success"] = _success_block(counting)
    found["Largest loss"] = _harm_block(models, any(each.variation for each in records))
    found["Errors and invalid episodes"] = _broken_block(counting)
    found["Provenance"] = _provenance_block(counting)
    return found


def rates_table(model: str, records: Sequence[Record], by_task: bool) -> Table:
    """Success of one model: by suite and what is varied, and by task."""
    of_suites = [record for record in records if record.of_suite]
    own = by_origin(record for record in records if not record.of_suite)
    rows = rate_rows(of_suites, own, by_task)
    caption = (
        f"{model}: successes of those that succeeded or failed; 95% intervals over these tasks, over tasks like these"
    )
    return table_of(
        caption, RATES_HEAD, tuple(map(_rate_cells, rows)), 1, frozenset({4, 7}), tuple(r.depth for r in rows)
    )


def _rate_cells(row: RateRow) -> tuple[str | Markup, ...]:
    rate = row.rate
    if rate is None:
        return (row.name, *[""] * (len(RATES_HEAD) - 1))
    success = f"{rate.successes}/{rate.counted}"
    if row.is_probe or row.is_given:
        apart = _PROBE if row.is_probe else GIVEN
        return (row.name, str(rate.episodes), success, apart, "", "", "", left_out_text(rate))
    by_task = "" if rate.tasks_interval is None else ends_text(rate.tasks_interval)
    bar = interval_bar(rate.rate, rate.interval)
    numbers = (success, share_text(rate), bar, interval_text(rate), by_task)
    return (row.name, str(rate.episodes), *numbers, left_out_text(rate))


def _runs_block(runs: Sequence[Run]) -> PageBlock:
    rows = tuple(
        (
            run.name,
            run.model,
            ", ".join(suites_of(run)) or "-",
            f"{run.done}/{run.planned}",
            datetime.fromisoformat(run.started).strftime("%Y-%m-%d %H:%M"),
            status_text(run) + f", {run.picked}" * bool(run.picked) + f", {run.decided} decided" * bool(run.decided),
        )
        for run in runs
    )
    head = ("run", "model", "suites", "episodes", "began, UTC", "status")
    return block_of(
        texts=(() if any(run.done for run in runs) else ("No episode has ended: there are no numbers yet.",)),
        tables=(table_of("Runs, the oldest first", head, rows, 3, frozenset({4, 5})),),
        notes=tuple(f"{run.name} was started as: {run.command}" for run in runs[:2] if run.command),
        is_wide=True,
    )


def _success_block(counting: Mapping[str, Sequence[Record]]) -> PageBlock:
    rows = [
        (each.model, each.suite, each.group or "all", *_rate_cells(RateRow(each.suite, each.rate))[1:])
        for each in judged_rates(counting)
    ]
    if not rows:
        return block_of(texts=("No episode has ended.",), is_wide=True)
    head = ("model", "suite or test", "tasks", *RATES_HEAD[1:])
    caption = "Successes of those that succeeded or failed; 95% intervals over these tasks, and over tasks like these"
    return block_of(tables=(table_of(caption, head, tuple(rows), 3, frozenset({6, 9})),), is_wide=True)


def judged_rates(counting: Mapping[str, Sequence[Record]]) -> Iterator[JudgedRate]:
    """Yield the success rates of each model and suite or own test; varied episodes have their own."""
    for model, records in counting.items():
        suites: dict[str, list[Record]] = {}
        for record in records:
            suites.setdefault(record.suite if record.of_suite else record.node.partition("[")[0], []).append(record)
        for suite, some in sorted(suites.items()):
            for group, ended in judged_apart(some).items():
                yield JudgedRate(model, suite, group, success_rate(suite, ended, unit_of), tuple(ended))


def _harm_block(models: Sequence[Mapping[str, Any]], is_varied: bool) -> PageBlock:
    told = []
    for model in models:
        harm = model.get("robustness", {}).get("most_harmful")
        if harm is not None:
            lost = f"{percent_text(harm['drop'], harm['drop_interval'])} points of success against benign twins"
            named = f"{model['model']}, {_suite(model)}: {harm['largest']}"
            beside = f", not distinguishable from {', '.join(harm['not_told_apart'])}" * bool(harm["not_told_apart"])
            why = f"; {harm['why']}" if harm["why"] else ""
            told.append(f"{named} takes {lost}{beside}{why}.")
    if told:
        return block_of(texts=tuple(told))
    how = "(--vla-vary=camera,light,robot --vla-twins=auto)"
    if not is_varied:
        return block_of(texts=(f"Nothing was varied {how}.",))
    varied = any("robustness" in model for model in models)
    why = "there are no benign twins to compare with" if varied else "only the words were varied"
    return block_of(texts=(f"Not known: {why} {how}.",))


def _suite(model: Mapping[str, Any]) -> str:
    return f"{model['suite']} {model.get('protocol', '')}".rstrip()


def _broken_block(counting: Mapping[str, Sequence[Record]]) -> PageBlock:
    found = Counter(
        (model, record.outcome, str(record.reason))
        for model, records in counting.items()
        for record in records
        if record.outcome in ("error", "invalid")
    )
    total = sum(map(len, counting.values()))
    if not found:
        return block_of(texts=(f"None: all of {counted(total, 'episode')} succeeded or failed." if total else "-",))
    about = {**ERROR_REASONS, **INVALID_REASONS}
    rows = tuple(
        (reason, outcome, model, str(number), about.get(reason, ""))
        for (model, outcome, reason), number in found.most_common()
    )
    caption = f"Episodes in no rate (of {total}), by reason"
    return block_of(
        tables=(table_of(caption, ("reason", "outcome", "model", "episodes", "meaning"), rows, 3, frozenset({4})),)
    )


def _provenance_block(counting: Mapping[str, Sequence[Record]]) -> PageBlock:
    records = [record for some in counting.values() for record in some]
    rows = [(name, listed(sorted(values))) for name, values in _provenance(records) if values]
    table = table_of("Provenance in the episodes' records", ("field", "value"), tuple(rows), 2)
    return block_of(tables=(table,), is_wide=True)


def _provenance(records: Sequence[Record]) -> Iterator[tuple[str, set[str]]]:
    yield "policy", {f"{each.policy} {(each.policy_digest or 'of unknown content')[:12]}" for each in records}
    yield "seeds", {_ranges({record.seed for record in records})} if records else set()
    yield "run seeds", {str(record.seeds["run"]) for record in records if "run" in record.seeds}
    budgets = {(record.suite, record.protocol["max_steps"]) for record in records if "max_steps" in record.protocol}
    yield "step budget", {f"{suite} {steps}" for suite, steps in budgets}
    yield "steps of a chunk", {"all" if record.replan is None else str(record.replan) for record in records}
    yield "simulator", {_versions(record, _SIMULATOR) for record in records} - {""}
    names = sorted({name for record in records for name in record.provenance} - {*_SIMULATOR, *_NOT_VERSIONS})
    yield "versions", {_versions(record, names) for record in records} - {""}
    yield "scenes", {str(record.provenance["scene"])[:8] for record in records if "scene" in record.provenance}


def _versions(record: Record, names: Sequence[str]) -> str:
    return ", ".join(f"{name} {record.provenance[name]}" for name in names if name in record.provenance)


def _ranges(seeds: set[int]) -> str:
    """``0-9, 20``."""
    found: list[list[int]] = []
    for seed in sorted(seeds):
        if found and seed == found[-1][1] + 1:
            found[-1][1] = seed
        else:
            found.append([seed, seed])
    return listed([str(low) if low == high else f"{low}-{high}" for low, high in found], 8)
