"""``--vla-track``: the run in experiment trackers, updated during the run by the process that keeps it.

An error in a tracker is printed once, and changes neither a record nor the exit code: the points that the tracker did
not take are kept, and sent again at the run's end.
"""

import json
import shlex
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla import extensions
from pytest_vla.entries import TrackerEntry
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.records.items import RunItem
from pytest_vla.records.record import Record
from pytest_vla.run.context import RunContext
from pytest_vla.run.gate import GateOutcome
from pytest_vla.run.options import OPTIONS
from pytest_vla.run.settings import Settings
from pytest_vla.track.tracker import Ending, final_numbers, reason_texts
from pytest_vla.util.documents import read_plain
from pytest_vla.util.extras import is_installed
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import did_you_mean, printable_lines
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    from pytest_vla.records.tally import RunTally
    from pytest_vla.track.tracker import Tracker


KEPT = "track.json"
"""The file in a run's folder that says where trackers have it."""

NONE = "none"
"""Of ``--vla-track``: no tracker, where an ini file or the run that is gone on with names one."""

_LONGEST_KEPT, _LONGEST_FILE = 1000, 100_000


def chosen_trackers(names: Sequence[str]) -> tuple[TrackerEntry, ...]:
    """Return the trackers of these names, without duplicates, after checking that their packages are installed.

    Raises:
        VlaError: there is no such tracker, or its package is missing; with the command that installs it.
    """
    known = extensions.trackers()
    found = []
    for name in dict.fromkeys(names):
        if name == NONE:
            return ()
        if name not in known:
            guess = did_you_mean(name, known)
            raise VlaError(
                f"--vla-track={name}: there is no such tracker.{guess} Expected {', '.join(known)}, or {NONE}"
            )
        entry = known[name]
        if entry.module and not is_installed(entry.module):
            install = entry.install or f"pip install 'pytest-vla[{name}]'"
            raise VlaError(f"--vla-track={name} needs the package {entry.module}, which is not installed: {install}")
        found.append(entry)
    return tuple(found)


@dataclass
class _Tracked:
    """The run in one tracker, and the calls that failed and are sent again."""

    entry: TrackerEntry
    tracker: "Tracker"
    unsent: "list[Callable[[Tracker], None]]" = field(default_factory=list)


def make_tracking(context: RunContext, tell: Callable[[str], None]) -> "Tracking | None":
    """Return the run in the trackers of ``--vla-track``, or None if there are none.

    Args:
        context: the context of the process that keeps the run.
        tell: prints a line on the terminal, once.

    Raises:
        VlaError: there is no such tracker, or its package is missing.
    """
    settings, config = context.settings, context.config
    if not settings.track or settings.model is None or config.getoption("collectonly"):
        return None
    entries = chosen_trackers(settings.track)
    command = shlex.join(["pytest", *map(str, config.invocation_params.args)])
    return Tracking(entries, settings, context.folder, command, tell) if entries else None


class Tracking:
    """A plugin that gets every episode by pytest-vla's own hook, and sends it to the trackers.

    Args:
        entries: the result of `chosen_trackers`; not empty.
        settings: the settings of the invocation.
        run: the run's folder.
        command: the command line, for people.
        tell: prints a line on the terminal, once.
    """

    def __init__(
        self,
        entries: Sequence[TrackerEntry],
        settings: Settings,
        run: Path,
        command: str,
        tell: Callable[[str], None],
    ) -> None:
        from pytest_vla.track.tracker import SoFarRates

        self._entries, self._settings, self._run, self._command, self._tell = entries, settings, run, command, tell
        self._tracked: list[_Tracked] = []
        self._rates, self._step = SoFarRates(), 0
        self._tally: RunTally | None = None
        self._is_kept = False
        # Of suites whose protocol was told.
        self._known: set[str] = set()

    def begin(self, cases: Sequence[Case]) -> None:
        """Begin the run in every tracker, or resume it there.

        Args:
            cases: the cases of the episodes to run.

        Raises:
            UsageError: a tracker refuses the run.
        """
        try:
            self._begin(sorted({case.suite for case in cases}), len(cases))
        except VlaError as error:
            raise pytest.UsageError(printable_lines(str(error))) from error

    def _begin(self, suites: Sequence[str], episodes: int) -> None:
        from pytest_vla.track.tracker import TrackedRun, without_password

        texts, kept = self._texts(suites, episodes), _kept(self._run / KEPT)
        for entry in self._entries:
            try:
                run = TrackedRun(self._run.name, self._run, texts, kept.get(entry.name, ""))
                with _unwarned():
                    self._tracked.append(_Tracked(entry, extensions.load(entry)(run)))
            except (Exception, SystemExit) as error:
                told = str(error) if isinstance(error, VlaError) else describe(error)
                raise VlaError(
                    f"--vla-track={entry.name}: tracking could not start: {without_password(told)}. Fix this, or leave "
                    f"{entry.name} out"
                ) from error

    def go_on(self, tally: "RunTally", ended: int) -> None:
        """Take over a run that has just been stored.

        Args:
            tally: knows which records count, now and later.
            ended: the number of records of earlier invocations.
        """
        self._tally, self._step = tally, ended
        for record in tally.records.values():
            self._rates.add(record)

    def pytest_vla_episode_finished(self, record: Record) -> None:
        """Send an episode to the trackers after its record is stored."""
        from pytest_vla.track.tracker import Point, episode_numbers, episode_texts, texts_of

        if not self._tracked or self._tally is None:
            return
        self._rates.add(self._tally.records[record.node])
        self._step += 1
        if record.suite not in self._known:
            # One that broke early does not know all of it.
            self._known |= {record.suite} if record.outcome != "error" else set()
            texts = texts_of(record)
            self._send(lambda tracker: tracker.about(texts))
        point = Point(self._step, self._rates.numbers() | episode_numbers(record), episode_texts(record))
        self._send(lambda tracker: tracker.episode(point))
        if not self._is_kept:
            self._keep()

    def end(self, ending: "Ending", files: Callable[[Path], Iterator[Path]]) -> tuple[str, ...]:
        """End the run in the trackers, for this invocation.

        Args:
            ending: the run's end, without files.
            files: makes the run's files in a folder.

        Returns:
            A line for each tracker.
        """
        from dataclasses import replace

        lines: list[str] = []
        with tempfile.TemporaryDirectory(prefix="pytest-vla-") as folder:
            made: tuple[Path, ...] = ()
            if any(each.entry.takes_files for each in self._tracked):
                made = tuple(files(Path(folder)))
            for each in self._tracked:
                told = replace(ending, files=made if each.entry.takes_files else ())
                with self._told(each):
                    while each.unsent:
                        each.unsent[0](each.tracker)
                        del each.unsent[0]
                    each.tracker.end(told)
                    lines.append(f"{each.entry.name}: {each.tracker.place}")
        self._tracked.clear()
        return tuple(lines)

    def _send(self, what: "Callable[[Tracker], None]") -> None:
        for each in self._tracked:
            if each.unsent:
                # In their order, and no episode waits for what is gone.
                each.unsent.append(what)
                continue
            with self._told(each, what):
                what(each.tracker)

    @contextmanager
    def _told(self, tracked: _Tracked, what: "Callable[[Tracker], None] | None" = None) -> Iterator[None]:
        from pytest_vla.track.tracker import without_password

        name = tracked.entry.name
        try:
            with _unwarned():
                yield
        except (Exception, SystemExit) as error:
            told = without_password(str(error) if isinstance(error, VlaError) else describe(error))
            told = " ".join(told.split())[:300]
            if what is not None:
                tracked.unsent.append(what)
                self._tell(
                    f"{name} does not track this run: {told}. The run continues with complete records; all points "
                    "are sent again at its end"
                )
            else:
                self._tell(f"{name} lacks part of this run: {told}. The records are complete: {self._run.parent}")

    def _texts(self, suites: Sequence[str], episodes: int) -> dict[str, str]:
        settings = self._settings
        texts = {"run": self._run.name, "model": str(settings.model), "command": self._command}
        if settings.model_text != settings.model:
            texts["model_text"] = str(settings.model_text)
        texts |= {"suites": ", ".join(suites), "episodes": str(episodes), "records": str(self._run.parent)}
        said = ((option, getattr(settings, option.attribute)) for option in OPTIONS if option.into is None)
        return texts | {
            f"option.{option.name}": option.text(value)
            for option, value in said
            if value != option.default and option.name not in ("model", "results", "resume") and value is not None
        }

    def _keep(self) -> None:
        self._is_kept = True
        kept = _kept(self._run / KEPT) | {each.entry.name: each.tracker.kept for each in self._tracked}
        with suppress(OSError, VlaError):
            self._run.mkdir(parents=True, exist_ok=True)
            with whole_file(self._run / KEPT) as stream:
                stream.write(json.dumps(kept, indent=2).encode() + b"\n")


@contextmanager
def _unwarned() -> Iterator[None]:
    """Ignore warnings of a tracker's package, which are no errors of the tests, even with ``-W error``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _kept(file: Path) -> dict[str, str]:
    """Return the text that an earlier invocation kept for each tracker; invalid contents are ignored."""
    try:
        found = json.loads(read_plain(file, _LONGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: text
        for name, text in found.items()
        if isinstance(text, str) and text.isprintable() and len(text) <= _LONGEST_KEPT
    }


# What goes into trackers when a run has ended: how it ended, and files of its numbers, its episodes and its page.


def run_ending(
    records: Sequence[Record],
    items: Sequence[RunItem],
    verdict: Sequence[str],
    gated: GateOutcome | None,
    code: int,
    run: Path,
) -> Ending:
    """Return the end of a run, without files.

    Args:
        records: for each item the record that counts.
        items: the run's items.
        verdict: the verdict's lines.
        gated: the end of a run with a gate, or None without a gate.
        code: pytest's exit code.
        run: the run's folder.
    """
    texts = {"exit_code": str(code), "records": f"{run.parent}, run {run.name}", **reason_texts(records)}
    if verdict:
        texts["verdict"] = "\n".join(verdict)
    if gated is not None:
        judged = gated.judged
        texts["gate"] = judged.against or "not judged" if judged.judgement is None else judged.judgement.verdict
        texts["baseline"] = gated.gate.name
    left = any(item.is_left or item.status is None for item in items)
    return Ending(not left, final_numbers(records), texts)


def run_files(
    run: Path, data: Path | None, page: Path | None, tell: Callable[[str], None]
) -> Callable[[Path], Iterator[Path]]:
    """Return a function that makes the files of an ended run in a folder.

    ``run.json`` has the output of ``pytest-vla runs --json``, ``episodes.csv`` that of ``pytest-vla export``,
    ``report.json`` that of ``pytest-vla report --format=json``, if the report has any section.

    Args:
        run: the run's folder.
        data: the folder of ``--vla-data``.
        page: the file of ``--vla-report``, if there is one.
        tell: is called with the reason why a file cannot be made; the other files are made.
    """

    def files(folder: Path) -> Iterator[Path]:
        for make in (_run_file, _episodes_file, _report_file):
            try:
                file = make(run, folder, data)
            except (VlaError, OSError) as error:
                tell(f"a file of this run is not tracked: {error}")
                continue
            if file is not None:
                yield file
        if page is not None and page.is_file():
            yield Path(shutil.copy(page, folder / page.name))

    return files


def _run_file(run: Path, folder: Path, data: Path | None) -> Path | None:
    from pytest_vla.records.store import open_store
    from pytest_vla.reports.runs import runs_json

    file = folder / "run.json"
    with open_store(run.parent, create=False) as store:
        file.write_text(runs_json([store.run(run.name)]) + "\n")
    return file


def _episodes_file(run: Path, folder: Path, data: Path | None) -> Path | None:
    from pytest_vla.records.store import open_store
    from pytest_vla.reports.export import export
    from pytest_vla.reports.loaded import counted_episodes

    file = folder / "episodes.csv"
    with open_store(run.parent, create=False) as store, file.open("wb") as stream:
        episodes = counted_episodes(store, [run.name])
        export(lambda: store.lines([*episodes]), "csv", stream, [*episodes.values()])
    return file


def _report_file(run: Path, folder: Path, data: Path | None) -> Path | None:
    from pytest_vla.reports.loaded import load
    from pytest_vla.reports.sections import make_sections, plain_options, report_table

    loaded = load([run.name], run.parent)
    sections, _ = make_sections(loaded, plain_options(data), "json")
    if not sections:
        return None
    file = folder / "report.json"
    file.write_text(json.dumps(report_table([section for _, section in sections], loaded), indent=2) + "\n")
    return file
