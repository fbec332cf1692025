"""The Allure report's values for an episode, a run and the reason codes, without Allure itself."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
from pytest_vla.metrics.rates import BENIGN
from pytest_vla.plan.case import names_of
from pytest_vla.plan.costs import Charge, cumulative
from pytest_vla.records.counting import PLACED
from pytest_vla.records.record import METRIC_SECONDS, Record, record_line

BROKEN, FAILED, PASSED, SKIPPED = "broken", "failed", "passed", "skipped"
"""Allure's words: broken is a rollout in which policy or simulation broke, and is never a failed one."""

STATUSES: Mapping[str, str] = {"success": PASSED, "failure": FAILED, "error": BROKEN, "invalid": SKIPPED}
"""Of a suite's own item by the outcome of its episode; a test of the user's ends as its assertions say, or broken."""

OURS = "vla."
"""How our names in ``environment.properties`` begin."""


@dataclass(frozen=True)
class Step:
    """A part of an episode: from when to when, ms since 1970, with what is known of it."""

    name: str
    start: int
    stop: int
    status: str
    parameters: Mapping[str, str]


@dataclass(frozen=True)
class Attachment:
    """A text that goes with an episode; its ending says which kind it is."""

    name: str
    ending: str
    text: str


def title(record: Record) -> str:
    """Return the episode's title: ``turn_on_the_stove, seed 3, light.night-L3``."""
    label = record.variation.get("label")
    return f"{record.task_key}, seed {record.seed}" + (f", {label}" if label else "")


def labels(record: Record) -> Iterator[tuple[str, str]]:
    """Yield Allure's labels: suites for a suite's own item, the dimension of a variation as a feature, and tags."""
    variation = record.variation
    dimension, kind, level = (variation.get(name) for name in ("dimension", "kind", "level"))
    named = names_of(str(dimension), str(kind)) if variation else BENIGN
    if record.of_suite:
        yield "parentSuite", record.suite
        yield "suite", record.task_key
        yield "subSuite", named
    yield "feature", str(dimension) if variation else BENIGN
    yield "story", named
    yield "tag", record.suite
    if record.task_level:
        yield "tag", record.task_level
    if level is not None:
        yield "tag", f"level {level}"
    if record.reason is not None:
        yield "tag", record.reason
    if record.group:
        yield "tag", record.group


def parameters(record: Record) -> dict[str, str]:
    """Return the episode's parameters. All but those of `passing` identify the episode in Allure's history."""
    varied = {"variation": str(record.variation["label"])} if record.variation else {}
    return {"suite": record.suite, "task": record.task_key, "seed": str(record.seed), **varied, **passing(record)}


def passing(record: Record) -> dict[str, str]:
    """Return the parameters that change from run to run, so that a case keeps its history over checkpoints."""
    found = {"model": record.policy, "policy digest": record.policy_digest, "run": record.run}
    cost = cumulative(record.costs)
    found |= {"steps": f"{record.steps} of {record.protocol.get('max_steps')}"}
    found |= {} if cost is None else {"cost": f"{cost:g}"}
    return {name: text for name, text in found.items() if text}


def steps(record: Record) -> Iterator[Step]:
    """Yield the parts of the episode whose times the record has: the reset, the rollout, each requested metric.

    The rollout alternates between policy and world; their shares of its time are its parameters.
    """
    reset, wall = record.timings.get("reset"), record.timings.get("wall")
    if reset is None or wall is None:
        return
    begin = datetime.fromisoformat(record.started).timestamp()
    broke = record.outcome == "error"
    settled = {"settling steps": str(record.protocol.get("settle_steps"))} | _numbers(record.seeds)
    in_reset = broke and not record.steps
    yield Step(
        "reset and settle", _ms(begin), _ms(begin + reset), STATUSES[record.outcome] if in_reset else PASSED, settled
    )
    if record.steps or not broke:
        shares = {
            name: f"{seconds:.3f} s"
            for name in ("policy", "world")
            if (seconds := record.timings.get(name)) is not None
        }
        told = {"control steps": str(record.steps), **shares}
        if record.success_step is not None:
            told["success after step"] = str(record.success_step)
        yield Step("roll out", _ms(begin + reset), _ms(begin + wall), STATUSES[record.outcome], told)
    at = begin + wall
    for name, seconds in record.timings.items():
        if name.startswith(METRIC_SECONDS) and seconds is not None:
            metric = name.removeprefix(METRIC_SECONDS)
            found = {metric: f"{record.metrics[metric]:g}"} if metric in record.metrics else {}
            yield Step(f"metric {metric}", _ms(at), _ms(at + seconds), PASSED, found)
            at += seconds


def attachments(record: Record, instruction: str | None = None) -> Iterator[Attachment]:
    """Yield the record, and if there are any the goal over time, the cost ledger and a changed instruction.

    Args:
        record: of the episode.
        instruction: the task's own, or None if it is not known.
    """
    if instruction is not None and instruction != record.instruction:
        yield Attachment("instruction", "txt", f"task: {instruction}\ntold: {record.instruction}\n")
    if record.literals:
        yield Attachment("goal", "txt", "\n".join((*_goal_lines(record), "")))
    if record.costs:
        yield Attachment("costs", "csv", _ledger(record.costs))
    yield Attachment("record", "json", json.dumps(json.loads(record_line(record)), indent=2))


def categories() -> list[dict[str, Any]]:
    """Return Allure's ``categories.json``: not done, then each reason code of errors and of invalid episodes."""
    found: list[dict[str, Any]] = [
        {"name": "not done by the policy", "matchedStatuses": [FAILED], "messageRegex": r"(?s).*\bnot done after \d.*"}
    ]
    for outcome, status, reasons in (("error", BROKEN, ERROR_REASONS), ("invalid", SKIPPED, INVALID_REASONS)):
        found += [
            {
                "name": f"{outcome}: {code}",
                "description": meaning,
                "matchedStatuses": [status],
                "messageRegex": rf"(?s).*\b{outcome} {code}\b.*",
            }
            for code, meaning in reasons.items()
        ]
    return found


def environment(records: Sequence[Record]) -> dict[str, str]:
    """Return Allure's ``environment.properties``: the runs' names, policies, suites and versions."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        said = {"model": record.policy, "suite": record.suite, "run": record.run}
        said |= {"policy_digest": record.policy_digest} if record.policy_digest else {}
        said |= {name: text for name, text in record.provenance.items() if name not in ("scene", "stand_ins")}
        for name, text in said.items():
            found.setdefault(name, {})[text] = None
    return {f"{OURS}{name}": ", ".join(texts) for name, texts in found.items()}


def _goal_lines(record: Record) -> Iterator[str]:
    """Each literal, how it ended, and from which steps on it held or did not."""
    for literal, changes in record.literals.items():
        over_time = ", ".join(f"{'holds' if held else 'does not hold'} from step {step}" for step, held in changes)
        yield f"{'holds' if record.held[literal] else 'does not hold':13}  {literal}: {over_time}"


def _ledger(costs: Sequence[Charge]) -> str:
    stream = io.StringIO()
    columns = ("account", "name", "amount", "step", "last_step", "by", "bodies", "force", "text")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for charge in costs:
        cells = (getattr(charge, column) for column in columns)
        writer.writerow(" ".join(cell) if isinstance(cell, tuple) else cell for cell in cells)
    return stream.getvalue()


def _numbers(seeds: Mapping[str, int]) -> dict[str, str]:
    return {
        f"seed of {name}" if name != "init_states" else "init states": str(value)
        for name, value in seeds.items()
        if name != PLACED
    }


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
