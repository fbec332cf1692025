"""``--alluredir``: what the plugin adds to Allure's results, if allure-pytest is installed and writes them.

The process that runs an item (also a worker) writes its result. The details of the episode are added there, after the
item has been torn down and its video has been drawn. The process that was started by hand adds the files that describe
the whole run, and the results of episodes whose worker died.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import instruction_of
from pytest_vla.records.record import VIDEO_SUFFIX, Record, parse_record
from pytest_vla.reports import allure as told
from pytest_vla.run.context import context_of
from pytest_vla.run.record_transport import PROPERTY
from pytest_vla.util.extras import required
from pytest_vla.util.files import whole_file
from pytest_vla.util.warnings import warn

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
        result.name = told.title(record)
    result.labels.extend(model.Label(name=name, value=value) for name, value in told.labels(record))
    passing, known = told.passing(record), {each.name: each for each in result.parameters}
    if "vla_case" in known:
        # Its parts are told one by one.
        result.parameters.remove(known["vla_case"])
    result.parameters.extend(
        model.Parameter(name=name, value=value, excluded=name in passing or None)
        for name, value in told.parameters(record).items()
        if name not in known
    )
    for step in told.steps(record):
        told_of = [model.Parameter(name=name, value=value) for name, value in step.parameters.items()]
        made = model.TestStepResult(name=step.name, status=step.status, parameters=told_of)
        made.start, made.stop = step.start, step.stop
        result.steps.append(made)
    if record.outcome == "error":
        result.status = told.BROKEN
    attach(record, run)


def _attach_texts(record: Record, run: Path) -> None:
    """Attach the episode's texts, its video and the video's first and last picture to the latest item's result."""
    attach, types = required("allure", INSTALL).attach, required("allure_commons.types", INSTALL).AttachmentType
    instruction = None
    with suppress(VlaError):
        instruction = instruction_of(record.suite, record.task, record.task_level)
    for each in told.attachments(record, instruction):
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
    result = model.TestResult(name=name, uuid=utils.uuid4(), start=now, stop=now, status=told.BROKEN)
    result.fullName, result.testCaseId = full, utils.md5(full)
    result.statusDetails = model.StatusDetails(message=message)
    host = [model.Label(name="host", value=utils.host_tag()), model.Label(name="thread", value=record.worker)]
    result.labels.extend(host)

    def attach(record: Record, run: Path) -> None:
        for each in told.attachments(record):
            file = model.ATTACHMENT_PATTERN.format(prefix=utils.uuid4(), ext=each.ending)
            mime = required("allure_commons.types", INSTALL).AttachmentType[_TYPES[each.ending]].mime_type
            result.attachments.append(model.Attachment(name=each.name, source=file, type=mime))
            hook.report_attached_data(body=each.text, file_name=file)

    _tell(result, record, attach, Path())
    hook.report_result(result=result)


def _write_categories(file: Path) -> None:
    """Write our categories into the file, and keep the user's own. Raises VlaError."""
    ours = told.categories()
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
        lines = [line for line in file.read_text().splitlines() if not line.startswith(told.OURS)]
    lines += [f"{_property(name)}={_property(text, value=True)}" for name, text in told.environment(records).items()]
    with whole_file(file) as stream:
        stream.write("\n".join((*lines, "")).encode("latin-1", errors="backslashreplace"))


def _property(text: str, value: bool = False) -> str:
    """Escape a key, or a value, for a Java properties file."""
    text = " ".join(text.split()).replace("\\", "\\\\")
    return text if value else text.replace(" ", "\\ ").replace("=", "\\=").replace(":", "\\:")
