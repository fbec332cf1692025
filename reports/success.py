"""Success of imported logs by task: a section for runs that no pytest has summed up."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.rates import left_out_text, percents
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.records.record import Record
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Cell, Column, Heading, Sentence, Table, notes, rate_cell
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import Section
from pytest_vla.util.text import printable


@dataclass(frozen=True)
class LoggedSuccess:
    """The success of one model in one suite, by logs of one evaluator.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        evaluator: by whose rules it was measured.
        rate: over all tasks.
        tasks: by task.
        left_out: which of several logs the records are from, and texts on those that do not count.
    """

    model: str
    suite: str
    evaluator: str
    rate: SuccessRate
    tasks: tuple[SuccessRate, ...]
    left_out: tuple[str, ...]


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no run is from another evaluator's log."""
    logged = [record for record in loaded.records if "imported" in record.provenance and not record.variation]
    found = [_success(*names, some, loaded.logs) for names, some in by_model(logged).items()]
    if not found:
        return None
    models = {(each.model, each.suite, ""): j.written(_MODELS, each) for each in found}
    return Section(lambda: _blocks(found), j.written(_METHODS, None), models, title="Success of imported logs")


def _success(model: str, suite: str, records: Sequence[Record], logs: Mapping[str, str]) -> LoggedSuccess:
    selected = that_count(records)
    runs = [run for run in logs if any(record.run == run for record in selected.records)]
    names = ", ".join(printable(os.path.relpath(logs[run])) for run in runs)
    told = [f"{len(runs)} logs together: {names}" if len(runs) > 1 else f"the log {names}"] if len(logs) > 1 else []
    by_task: dict[str, list[Record]] = {}
    for record in selected.records:
        by_task.setdefault(record.task_key, []).append(record)
    return LoggedSuccess(
        model,
        suite,
        ", ".join(sorted({str(record.protocol.get("evaluator", "ours")) for record in records})),
        success_rate(suite, selected.records, unit_of),
        tuple(success_rate(task, some, unit_of) for task, some in by_task.items()),
        (*told, *selected.left_out),
    )


_METHODS = j.methods("success", {"confidence": CONFIDENCE, "over": THESE_TASKS})
_RATE: j.Keys = {"name": j.TEXT, **j.through(lambda rate: rate, j.RATE)}
_MODELS: j.Keys = {
    "success": j.row(
        {"evaluator": j.TEXT, **j.through("rate", j.RATE), "tasks": j.listed(j.row(_RATE))},
    ).of(lambda found: found)
}

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def _blocks(found: Sequence[LoggedSuccess]) -> Iterator[Block]:
    yield Sentence(
        f"Success of imported logs, %. In brackets: {CONFIDENCE:.0%} intervals over {THESE_TASKS}, and over "
        f"{TASKS_LIKE_THESE}"
    )
    for each in found:
        yield Heading(f"{each.model}, {each.suite}, evaluator {each.evaluator}", (each.model, each.suite, ""))
        yield from notes(each.left_out)
        yield Table(
            "Success by task",
            (
                Column("task"),
                Column("success"),
                Column("rate, %", ".1f"),
                Column(TASKS_LIKE_THESE, ".1f", is_optional=True),
                Column("not in the rate", is_optional=True),
            ),
            tuple(_row(rate) for rate in (each.rate, *each.tasks)),
            "tasks",
            depths=(0, *(1 for _ in each.tasks)),
            caption_medium="page",
        )


def _row(rate: SuccessRate) -> tuple[Cell, ...]:
    tasks = percents(rate.tasks_interval)
    return rate.name, f"{rate.successes}/{rate.counted}", rate_cell(rate), tasks or "", left_out_text(rate)
