"""Puts a page together of the records and of the parts of the report: the same values as on a terminal and in JSON."""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
from pytest_vla.metrics.extra_metrics import by_origin
from pytest_vla.metrics.language import DIMENSION as LANGUAGE
from pytest_vla.metrics.rates import (
    GIVEN,
    RateRow,
    ends_text,
    group_of,
    interval_text,
    judged_apart,
    left_out_text,
    rate_rows,
    share_text,
    suites_of,
)
from pytest_vla.metrics.robustness import dimension_of
from pytest_vla.metrics.selection import by_model, run_of, that_count, twin_of
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.case import names_of
from pytest_vla.plan.costs import cumulative
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.reports.blocks import Table, table_of
from pytest_vla.reports.html.gates import CommandOf, GateTold, anchor_of, comparison, gate_blocks, gates_told
from pytest_vla.reports.html.media import MediaShown, media_of
from pytest_vla.reports.html.parts import (
    Page,
    PageBlock,
    PageSection,
    block_of,
    page_blocks,
    percent_text,
    script_json,
)
from pytest_vla.reports.html.svg import interval_bar
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.runs import status_text
from pytest_vla.reports.sections import Named, notes_of, section_table
from pytest_vla.reports.text import first_few
from pytest_vla.util.text import counted, digest_text

# The first screen of a page: what was run, the gate's verdict, success, what harms, what broke, and provenance.

RATES_HEAD = ("suite", "episodes", "success", "rate", "bar", "95%, these tasks", "tasks like these", "not in the rate")
_PROBE = "probe"
_SIMULATOR = ("mujoco", "robosuite", "renderer")
_NOT_VERSIONS = ("scene", "stand_ins", "compiled")


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


def _summary(
    runs: Sequence[Run],
    counting: Mapping[str, Sequence[Record]],
    dimensions: Collection[str],
    models: Sequence[Mapping[str, Any]],
    gates: Sequence[GateTold],
) -> dict[str, PageBlock]:
    """Return the cards by heading; `models` are those of the report's JSON."""
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
    found["Largest loss"] = _harm_block(models, dimensions)
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


def _harm_block(models: Sequence[Mapping[str, Any]], dimensions: Collection[str]) -> PageBlock:
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
    if not dimensions:
        return block_of(texts=(f"Nothing was varied {how}.",))
    if any("robustness" in model for model in models):
        return block_of(texts=(f"Not known: there are no benign twins to compare with {how}.",))
    if {*dimensions} == {LANGUAGE}:
        return block_of(texts=(f"Not known: only the words were varied {how}.",))
    return block_of(texts=("Not known: this page is without the section robustness (--section=robustness).",))


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
    rows = [(name, first_few(sorted(values), 4)) for name, values in _provenance(records) if values]
    table = table_of("Provenance in the episodes' records", ("field", "value"), tuple(rows), 2)
    return block_of(tables=(table,), is_wide=True)


def _provenance(records: Sequence[Record]) -> Iterator[tuple[str, set[str]]]:
    yield "policy", {f"{each.policy} {digest_text(each.policy_digest)}" for each in records}
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
    return first_few([str(low) if low == high else f"{low}-{high}" for low, high in found], 8)


def twin_places(records: Sequence[Record]) -> dict[int, int]:
    """Return the place of each varied episode's benign twin, of the same model and run seed, if it is there.

    Of several the first that counts is it, else the first.
    """
    if not any(record.variation for record in records):
        return {}
    models, counting = _standing(records)
    found: dict[tuple[str, str, int], int] = {}
    for place, record in enumerate(records):
        key = models[place], *run_of(record)
        if not record.variation and (key not in found or (counting[place] and not counting[found[key]])):
            found[key] = place
    keys = ((place, (models[place], *twin_of(record))) for place, record in enumerate(records) if record.variation)
    return {place: found[key] for place, key in keys if key in found}


def episodes_table(
    records: Sequence[Record],
    command_of: CommandOf,
    media: Mapping[int, Any],
    twins: Mapping[int, int] | None = None,
) -> dict[str, Any]:
    """Return all episodes as the page's script reads them.

    Args:
        records: in any order.
        command_of: the command that runs an episode alone, or empty if it is not known.
        media: by the place of its record, an episode's ``pictures``, ``video`` and ``paths``.
        twins: of `twin_places`, or None if no episode has a twin.
    """
    models, counting = _standing(records)
    names = _Texts()
    literals, costs = {}, {}
    for place, record in enumerate(records):
        if record.literals:
            literals[place] = [
                [names.place(name), [[step, int(held)] for step, held in changes]]
                for name, changes in record.literals.items()
            ]
        if charged := [charge for charge in record.costs if charge.amount]:
            costs[place] = [
                [
                    names.place(charge.name),
                    names.place(charge.account),
                    _number(charge.amount),
                    _steps_text(charge.step, charge.last_step),
                    charge.by,
                    _number(charge.force),
                ]
                for charge in charged
            ]
    recipes, commands = _commands(records, command_of)
    return {
        "count": len(records),
        "columns": [*_columns(records, models, counting), *_metric_columns(records)],
        "anchors": [*map(anchor_of, records)],
        "twins": twins or {},
        "names": names.texts,
        "literals": literals,
        "costs": costs,
        "media": media,
        "recipes": recipes,
        "commands": commands,
    }


class _Texts:
    """Texts, each once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        """Return the number of a text; a new one if the text is new."""
        return self._places.setdefault(text, len(self._places))

    @property
    def texts(self) -> list[str]:
        """Return the texts by their numbers."""
        return [*self._places]


def _standing(records: Sequence[Record]) -> tuple[list[str], list[bool]]:
    """Yield each record's model in reports, and whether it is in the numbers."""
    places = {id(record): place for place, record in enumerate(records)}
    models, counting = [""] * len(records), [False] * len(records)
    for (model, _), some in by_model(records).items():
        for record in some:
            models[places[id(record)]] = model
        for record in that_count(some).records:
            counting[places[id(record)]] = True
    return models, counting


def _columns(records: Sequence[Record], models: Sequence[str], counting: Sequence[bool]) -> list[dict[str, Any]]:
    def varied(record: Record, key: str) -> Any:
        return record.variation.get(key)

    found = [
        _text_column("task", "task", [record.task_key for record in records]),
        _text_column("outcome", "outcome", [record.outcome for record in records]),
        _text_column("reason", "reason", [record.reason for record in records]),
        _text_column("variation", "variation", [_variation_text(record) for record in records]),
        _number_column("level", "level", [varied(record, "level") for record in records]),
        _number_column("seed", "seed", [record.seed for record in records]),
        _number_column("steps", "steps", [record.steps for record in records]),
        _text_column("model", "model", models),
        _text_column("suite", "suite", [record.suite for record in records]),
        _number_column("cost", "cost", [_cost(record) for record in records]),
        _text_column("instruction", "instruction", [record.instruction for record in records]),
        _text_column("run", "run", [record.run for record in records]),
        _text_column("counts", "in the rates", ["yes" if each else "no" for each in counting]),
        _text_column("message", "message", [record.message for record in records]),
        _text_column("group", "group", [group_of(record) for record in records], hidden=True),
        _text_column("twin", "benign twin", [record.twin if record.variation else None for record in records], True),
        _number_column("run_seed", "run seed", [record.seeds.get("run") for record in records], True),
        _number_column("wall", "wall time, s", [record.timings.get("wall") for record in records], True),
        _number_column("attempt", "attempt", [record.attempt if record.attempt > 1 else None for record in records]),
    ]
    told = [column for column in found if any(value not in (None, "") for value in _values(column))]
    # What is the same everywhere is said with the episode, and has no column.
    alike = ("model", "suite", "run", "counts", "variation")
    return [column | {"hidden": True} if column["name"] in alike and _is_alike(column) else column for column in told]


def _metric_columns(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Yield the columns of further numbers."""
    names = sorted({name for record in records for name in record.metrics})
    return [
        _number_column(f"metric-{number}", name, [record.metrics.get(name) for record in records], True)
        for number, name in enumerate(names)
    ]


def _values(column: Mapping[str, Any]) -> Sequence[Any]:
    values: Sequence[Any] = column.get("values", column["rows"])
    return values


def _is_alike(column: Mapping[str, Any]) -> bool:
    return len({*_values(column)}) < 2


def _text_column(name: str, label: str, values: Sequence[str | None], hidden: bool = False) -> dict[str, Any]:
    texts = _Texts()
    rows = [texts.place(value or "") for value in values]
    return {"name": name, "label": label, "values": texts.texts, "rows": rows, "hidden": hidden}


def _number_column(name: str, label: str, values: Sequence[Any], hidden: bool = False) -> dict[str, Any]:
    return {"name": name, "label": label, "rows": [_number(value) for value in values], "hidden": hidden}


def _number(value: Any) -> float | int | None:
    """Return a number as JSON can have it: None if it is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def _variation_text(record: Record) -> str:
    variation = record.variation
    if not variation:
        return "benign"
    return str(variation.get("label") or names_of(str(variation.get("dimension")), str(variation.get("kind"))))


def _cost(record: Record) -> float | None:
    """Return the cost by the headline's account, or None without a ledger."""
    return cumulative(record.costs) if record.costs else None


def _steps_text(step: int | None, last: int | None) -> str | None:
    if step is None:
        return None
    return str(step) if last in (None, step) else f"{step}-{last}"


def _commands(
    records: Sequence[Record], command_of: CommandOf
) -> tuple[list[tuple[str, str]], list[tuple[int, str] | None]]:
    """Return the texts before and behind the ids, each pair once, and each episode's pair and id."""
    recipes: dict[tuple[str, str], int] = {}
    commands: list[tuple[int, str] | None] = []
    for record in records:
        command, node = command_of(record), record.node
        before, found, after = command.partition(node)
        if not command:
            commands.append(None)
        elif found:
            commands.append((recipes.setdefault((before, after), len(recipes)), node))
        else:
            commands.append((recipes.setdefault(("", ""), len(recipes)), command))
    return [*recipes], commands


_VERSION = version("pytest-vla")


@dataclass(frozen=True)
class PageRequest:
    """The runs of a page, and what the page shows beside the numbers.

    Attributes:
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
        command_of: the command that runs an episode alone, or empty if it is not known.
        shown: of how many episodes there are pictures and videos.
        index: see `Page`.
        gates: of the runs if they are known already, or None to judge the runs.
    """

    texts: tuple[str, ...]
    results: Path
    command_of: CommandOf
    shown: MediaShown = field(default_factory=lambda: MediaShown(pictures=0))
    index: str = ""
    gates: Sequence[GateTold] | None = None


def make_page(loaded: Loaded, sections: Sequence[Named], wanted: PageRequest, troubles: Sequence[str] = ()) -> Page:
    """Return the page of a report.

    Args:
        loaded: the records.
        sections: parts of the report, in their order.
        wanted: of which runs.
        troubles: what parts are missing, and why.

    Raises:
        VlaError: the runs cannot be read.
    """
    records = loaded.records
    counting = counting_by_model(records)
    runs = _runs(wanted)
    models = section_table([section for _, section in sections])
    gates = gates_told(wanted.texts, wanted.results) if wanted.gates is None else wanted.gates
    requested, usual = (
        [
            PageSection(
                f"section-{entry.name}",
                section.title or entry.about[:1].upper() + entry.about[1:],
                page_blocks(section.blocks()),
            )
            for entry, section in sections
            if entry.on_request == is_requested
        ]
        for is_requested in (True, False)
    )
    parts = [
        *_gate_sections(gates, records, wanted),
        *requested,
        *filter(None, [comparison(records, wanted.command_of)]),
        *([_tasks_section(counting)] if records else []),
        *usual,
    ]
    twins = twin_places(records)
    media, lacking = media_of(records, {run.name: run for run in runs}, loaded.folders, wanted.shown, twins)
    names = ", ".join(dict.fromkeys(run.model for run in runs))
    suites = ", ".join(sorted({record.suite for record in records})) or "no suite"
    return Page(
        title=f"{names} on {suites}",
        summary=_summary(
            runs, counting, {dimension_of(each) for each in records if each.variation}, models["models"], gates
        ),
        sections=tuple(parts),
        episodes=script_json(episodes_table(records, wanted.command_of, media, twins)),
        number=len(records),
        texts=(*troubles, *lacking, *loaded.unfinished.values(), *notes_of(loaded)),
        made_by=f"{counted(len(records), 'episode')} of {counted(len(runs), 'run')}; made by pytest-vla {_VERSION}",
        index=wanted.index,
    )


def _runs(wanted: PageRequest) -> list[Run]:
    found = [run for _, runs in open_runs(wanted.texts, wanted.results) for run in runs]
    return sorted(found, key=lambda run: (run.started, run.name))


def _tasks_section(counting: Mapping[str, Sequence[Record]]) -> PageSection:
    blocks = (block_of(model, tables=(rates_table(model, some, True),)) for model, some in counting.items())
    return PageSection("tasks", "Success by task", tuple(blocks))


def _gate_sections(gates: Sequence[GateTold], records: Sequence[Record], wanted: PageRequest) -> Iterator[PageSection]:
    if gates:
        blocks = (block for gate in gates for block in gate_blocks(gate, records, wanted.command_of))
        yield PageSection("gate", "Gate", tuple(blocks))
