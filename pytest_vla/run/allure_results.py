"""``--alluredir``: what the plugin adds to Allure's results, if allure-pytest is installed and writes them.

The process that runs an item (also a worker) writes its result. The details of the episode are added there, after the
item has been torn down and its video has been drawn. The process that was started by hand adds the files that describe
the whole run, and the results of episodes whose worker died.
"""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS, VlaError
from pytest_vla.metrics.rates import BENIGN
from pytest_vla.plan.case import names_of
from pytest_vla.plan.costs import Charge, cumulative
from pytest_vla.plan.manifests import instruction_of
from pytest_vla.records.counting import INIT_STATE_DIGEST, OF_SCENE, PLACED
from pytest_vla.records.record import METRIC_SECONDS, VIDEO_SUFFIX, Record, parse_record, record_line
from pytest_vla.run.context import context_of
from pytest_vla.run.record_transport import PROPERTY
from pytest_vla.util.extras import required
from pytest_vla.util.files import whole_file
from pytest_vla.util.warnings import warn

# The Allure report's values for an episode, a run and the reason codes, without Allure itself.

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
        said |= {name: text for name, text in record.provenance.items() if name not in OF_SCENE}
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
        if name not in (PLACED, INIT_STATE_DIGEST)
    }


def _ms(seconds: float) -> int:
    return round(1000 * seconds)


INSTALL = "pip install 'pytest-vla[allure]'"

_LISTENER = "allure_listener"
_CRASH = "???"
"""The phase that pytest-xdist says in the report of an item in which a worker died."""


class AllureOfItems:
    """The Allure hooks of each process that runs items: a worker, or the only process."""

    # Inside of Allure's own, which then adds whatever is not said yet; around the runner, which draws videos.
    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        """Add the episode to the item's result after the item has been torn down; an error becomes a warning."""
        try:
            return (yield)
        finally:
            line = next((str(value) for name, value in item.user_properties if name == PROPERTY), None)
            listener = item.config.pluginmanager.get_plugin(_LISTENER)
            if line is not None and listener is not None:
                try:
                    record = parse_record(line)
                    _tell(listener.allure_logger.get_test(None), record, _attach_texts, context_of(item.config).folder)
                except Exception as error:
                    warn(f"Allure's result for {item.nodeid} lacks its episode: {error!r}")


class AllureOfRun:
    """The Allure hooks of the process that was started by hand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._records: dict[str, Record] = {}

    def pytest_vla_episode_finished(self, record: Record) -> None:
        """Keep the record of an episode that has ended."""
        self._records[record.node] = record

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Write the result of an item whose worker died and that is not run again."""
        record = self._records.get(report.nodeid)
        if report.when != _CRASH or report.outcome != "failed" or record is None:
            return
        try:
            _write_lost(record, str(report.longrepr))
        except Exception as error:
            warn(f"Allure has no result for {record.node}, whose worker died: {error!r}")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Write the categories and the environment of the whole run."""
        if self._records and self._folder.is_dir():
            try:
                _write_categories(self._folder / "categories.json")
                _write_environment(self._folder / "environment.properties", [*self._records.values()])
            except VlaError as error:
                warn(str(error))


def _tell(result: Any, record: Record, attach: Any, run: Path) -> None:
    """Add to Allure's result of an item what is known of its episode."""
    model = required("allure_commons.model2", INSTALL)
    if record.of_suite:
        result.name = title(record)
    result.labels.extend(model.Label(name=name, value=value) for name, value in labels(record))
    values, known = passing(record), {each.name: each for each in result.parameters}
    if "vla_case" in known:
        # Its parts are told one by one.
        result.parameters.remove(known["vla_case"])
    result.parameters.extend(
        model.Parameter(name=name, value=value, excluded=name in values or None)
        for name, value in parameters(record).items()
        if name not in known
    )
    for step in steps(record):
        told_of = [model.Parameter(name=name, value=value) for name, value in step.parameters.items()]
        made = model.TestStepResult(name=step.name, status=step.status, parameters=told_of)
        made.start, made.stop = step.start, step.stop
        result.steps.append(made)
    if record.outcome == "error":
        result.status = BROKEN
    attach(record, run)


def _attach_texts(record: Record, run: Path) -> None:
    """Attach the episode's texts, its video and the video's first and last picture to the latest item's result."""
    attach, types = required("allure", INSTALL).attach, required("allure_commons.types", INSTALL).AttachmentType
    instruction = None
    with suppress(VlaError):
        instruction = instruction_of(record.suite, record.task, record.task_level)
    for each in attachments(record, instruction):
        attach(each.text, name=each.name, attachment_type=types[_TYPES[each.ending]], extension=each.ending)
    video = None if record.arrays is None else (run / record.arrays).with_suffix(VIDEO_SUFFIX)
    if video is not None and video.is_file():
        from pytest_vla.show.video import first_and_last

        for name, picture in zip(("start", "end"), first_and_last(video), strict=True):
            attach(picture, name=name, attachment_type=types.PNG, extension="png")
        attach.file(str(video), name="video", attachment_type=types.MP4, extension="mp4")


_TYPES = {"txt": "TEXT", "csv": "CSV", "json": "JSON"}


def _write_lost(record: Record, message: str) -> None:
    """Write an Allure result for an episode whose worker died."""
    model, utils = required("allure_commons.model2", INSTALL), required("allure_commons.utils", INSTALL)
    hook = required("allure_commons", INSTALL).plugin_manager.hook
    now = utils.now()
    place, _, name = record.node.partition("::")
    full = f"{place.removesuffix('.py').replace('/', '.')}#{name.partition('[')[0]}"
    result = model.TestResult(name=name, uuid=utils.uuid4(), start=now, stop=now, status=BROKEN)
    result.fullName, result.testCaseId = full, utils.md5(full)
    result.statusDetails = model.StatusDetails(message=message)
    host = [model.Label(name="host", value=utils.host_tag()), model.Label(name="thread", value=record.worker)]
    result.labels.extend(host)

    def attach(record: Record, run: Path) -> None:
        for each in attachments(record):
            file = model.ATTACHMENT_PATTERN.format(prefix=utils.uuid4(), ext=each.ending)
            mime = required("allure_commons.types", INSTALL).AttachmentType[_TYPES[each.ending]].mime_type
            result.attachments.append(model.Attachment(name=each.name, source=file, type=mime))
            hook.report_attached_data(body=each.text, file_name=file)

    _tell(result, record, attach, Path())
    hook.report_result(result=result)


def _write_categories(file: Path) -> None:
    """Write our categories into the file, and keep the user's own. Raises VlaError."""
    ours = categories()
    names = {each["name"] for each in ours}
    theirs: list[Any] = []
    with suppress(OSError, ValueError):
        found = json.loads(file.read_bytes())
        theirs = [each for each in found if not (isinstance(each, dict) and each.get("name") in names)]
    with whole_file(file) as stream:
        stream.write(json.dumps([*theirs, *ours], indent=2).encode() + b"\n")


def _write_environment(file: Path, records: list[Record]) -> None:
    """Write our lines into the file, and keep the user's own. Raises VlaError."""
    lines: list[str] = []
    with suppress(OSError, ValueError):
        lines = [line for line in file.read_text().splitlines() if not line.startswith(OURS)]
    lines += [f"{_property(name)}={_property(text, value=True)}" for name, text in environment(records).items()]
    with whole_file(file) as stream:
        stream.write("\n".join((*lines, "")).encode("latin-1", errors="backslashreplace"))


def _property(text: str, value: bool = False) -> str:
    """Escape a key, or a value, for a Java properties file."""
    text = " ".join(text.split()).replace("\\", "\\\\")
    return text if value else text.replace(" ", "\\ ").replace("=", "\\=").replace(":", "\\:")
