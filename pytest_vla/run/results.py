"""Records on their way: from the process that ran an episode to the one that keeps and shows them.

A worker writes the trajectory's file and hands the record over as one JSON string in the item's `user_properties`; the
controller (the only process, without xdist) puts it into the store, and beside it how each item ended.
"""

import dataclasses
import hashlib
import itertools
import os
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.gate.min_success import judge
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.records.counting import COMPLETE
from pytest_vla.records.items import Endings, Item
from pytest_vla.records.record import (
    VIDEO_SUFFIX,
    Record,
    parse_record,
    record_line,
    save_trajectory,
    trajectory_outcome,
)
from pytest_vla.records.tally import Repetition, Tally
from pytest_vla.run.invocation import invocation_of
from pytest_vla.run.nodes import counted_node, episode_node, shared_by
from pytest_vla.run.picked import picked_by
from pytest_vla.run.resume import RESUMPTION
from pytest_vla.run.selection import SELECTION
from pytest_vla.run.sudden_exit import FAILED, watch_exit
from pytest_vla.util.interrupts import uninterrupted
from pytest_vla.util.text import printable_lines

if TYPE_CHECKING:
    from pytest_vla.episode.rollout import Rollout
    from pytest_vla.plan.durations import Estimate
    from pytest_vla.records.store import Store
    from pytest_vla.run.progress import Progress

PROPERTY = "vla_record"
"""The name of the user property that carries a record."""

RUN = pytest.StashKey[Path]()
"""The run's folder; made when the first episode has ended."""

STDERR = pytest.StashKey[int]()
"""A duplicate of the terminal's stderr, for what is told while pytest captures; not in a worker."""

_EXIT_LOCK_SECONDS = 1.0

NO_POLICY = "the policy cannot be loaded: "
MISFIT = "the policy does not fit: "
"""How failures begin after which there is nothing to go on with."""

_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
"""Endings with which no run has passed, whatever its rates."""


def new_run_name() -> str:
    """The name of a new run: the local time, with a suffix that keeps runs of one second apart."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def attach(item: pytest.Item, run: Path, rollout: "Rollout") -> "Rollout":
    """Write an episode's trajectory and put its record on the item. Returns the rollout with the file's name.

    Raises:
        OSError: the file cannot be written.
    """
    record = rollout.record
    name = _free_name(run, f"{record.suite}/{_file_stem(item, record)}")
    # What an earlier attempt left is not this one's.
    (run / name).with_suffix(VIDEO_SUFFIX).unlink(missing_ok=True)
    if len(rollout.trajectory.qpos):
        save_trajectory(run / name, rollout.trajectory, record.outcome)
        record = dataclasses.replace(record, arrays=name)
    else:
        (run / name).unlink(missing_ok=True)
    others = [(key, value) for key, value in item.user_properties if key != PROPERTY]
    item.user_properties[:] = [*others, (PROPERTY, record_line(record))]
    return dataclasses.replace(rollout, record=record)


def _file_stem(item: pytest.Item, record: Record) -> str:
    """Of an item's files; several tests of the user's own may run the same case, and items may be repeated."""
    if record.of_suite:
        decorated = item.name.partition("[")[2].removesuffix("]")
        is_name = item.nodeid != record.node and re.fullmatch(r"[\w.+-]+", decorated)
        return decorated if is_name else record.parameter_id
    return f"{record.parameter_id}-{hashlib.sha256(item.nodeid.encode()).hexdigest()[:12]}"


def _free_name(run: Path, stem: str) -> str:
    """The name of a trajectory's file. That of a complete episode stays, since it may count; that of an error does not.

    Workers need not agree: an item runs on one at a time.
    """
    names = (f"{stem}{f'-repeat{number}' if number > 1 else ''}.npz" for number in itertools.count(1))
    return next(name for name in names if trajectory_outcome(run / name) not in COMPLETE)


class Results:
    """The controller's plugin: keeps a record when its episode has ended, shows how the run goes, and judges it."""

    def __init__(self, config: pytest.Config, arguments: Sequence[str]) -> None:
        """Nothing is written before the first episode is known.

        Args:
            config: with `SELECTION`, `RUN` and `RESUMPTION` in its stash.
            arguments: the paths and ids that the user gave to pytest, as they were typed.
        """
        self._config, self._arguments = config, arguments
        self._selection, self._run = config.stash[SELECTION], config.stash[RUN]
        self._resumption = config.stash[RESUMPTION]
        self.estimates: dict[str, Estimate] = {}
        """By node id, how long each episode of this invocation is likely to take."""
        self.reruns: Counter[str] = Counter()
        """By node id, how often an episode was run again because its worker died."""
        self._store: Store | None = None
        # By the node ids of this invocation's items with an episode, those under which their endings are recorded.
        self._names: dict[str, str] = {}
        # By the node ids of tests that share an episode, what that is recorded as.
        self.shared: dict[str, str] = {}
        self._episodes: frozenset[str] = frozenset()
        self._kept = 0
        # What has ended in this invocation: by node id, and as it is recorded.
        self._ended: set[str] = set()
        self._new: dict[str, None] = {}
        self._further = 0
        self._tally = Tally()
        # By node id, the record of the attempt that is going on.
        self._current: dict[str, Record] = {}
        self._lines: dict[str, int] = {}
        self._endings = Endings()
        self._statuses: dict[str, str] = {}
        self._items: tuple[Item, ...] = ()
        self._repetition = Repetition()
        # How often reports of an item's failed, and how many of these are of failed episodes and nothing else.
        self._failures: Counter[str] = Counter()
        self._excused = 0
        self._without_policy = False
        self._verdict: tuple[str, ...] = ()
        self._progress: Progress | None = None
        self._unwatch: Callable[[], None] = lambda: None
        # What was said of other packages' hooks.
        self._told: set[str] = set()

    def begin(
        self,
        nodes: Sequence[str],
        cases: Mapping[str, Case],
        workers: int,
        names: Mapping[str, str] | None = None,
        shared: Mapping[str, str] | None = None,
    ) -> None:
        """The items of this invocation are known: note the run, and say what is to come.

        Args:
            nodes: ids of all items.
            cases: by node id, of those that run an episode.
            workers: how many processes run them.
            names: by node id, what those are recorded as that are repetitions of an item.
            shared: by node id of tests that share an episode, what that is recorded as.
        """
        settings = self._selection.settings
        if self._store is not None or settings.model is None or self._config.getoption("collectonly"):
            return
        if not cases and self._resumption is None:
            return
        from pytest_vla.records.store import open_store

        self._names.update({node: node for node in cases} | dict(names or {}))
        self.shared.update(shared or {})
        own = [name for node, name in self._names.items() if node not in self.shared]
        self._further = len(own) - len(set(own))
        # The episode runs with the first of the tests that share it.
        first = {self.shared.get(node, node): node for node in reversed(list(cases))}
        alone = {node: case for node, case in cases.items() if first[self.shared.get(node, node)] == node}
        try:
            self._store = store = open_store(settings.results, create=True)
            self._unwatch = watch_exit(self._exited)
            self._enter(store, nodes, cases)
            items = store.items(self._run.name)
            self._episodes = frozenset(item.node for item in items if item.episode)
            self.estimates = dict(zip(alone, self._estimate(tuple(alone.values()), store), strict=True))
        except VlaError as error:
            self._stop(error)
        self._say_what_comes(nodes, alone, workers)

    def show_preparation(self, worker: str, what: str, ended: bool) -> None:
        """Show what a worker, or this process, is at before an episode can begin; from any thread."""
        if self._progress is not None:
            self._progress.prepare(worker, None if ended else what)

    # After pytest has said how many items it collected.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers, the session knows its items."""
        items = session.items
        names, shared = names_of_items(items), shared_of_items(items)
        self.begin([item.nodeid for item in items], cases_of_items(items), 1, names, shared)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """An item's phase has ended: a record may come with it, and with the last one how the item ended."""
        # Else an episode could be there of which it is not known that its item has ended.
        with uninterrupted():
            self._take_report(report)

    def _take_report(self, report: pytest.TestReport) -> None:
        self._take_record(report)
        if self._store is None:
            return
        node, record = report.nodeid, self._current.get(report.nodeid)
        self._without_policy |= report.failed and str(report.longrepr).startswith((NO_POLICY, MISFIT))
        if report.failed and not hasattr(report, "wasxfail"):
            # As pytest counts them in `Session.testsfailed`.
            self._failures[self._names.get(node, node)] += 1
            self._excused += (
                report.when == "call" and record is not None and record.of_suite and record.outcome == "failure"
            )
        ended = self._endings.add(report)
        status = ended or self._endings.of_attempt(report) or self._endings.before_teardown(report)
        if status is not None:
            self._note_ending(self._names.get(node, node), record, status)
        if ended is not None or self._endings.is_rerun(report):
            self._current.pop(node, None)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, Any] | None:
        """A rerun is a status of its own; where a line shows how the run goes, its episodes have no dots."""
        if report.outcome == "rerun":
            return "rerun", "R", ("RERUN", {"yellow": True})
        if self._progress is None or not self._progress.in_place or report.nodeid not in self._names:
            return None
        if report.when != "call" and report.passed:
            return "", "", ""
        return "error" if report.when != "call" and report.failed else report.outcome, "", ""

    def keep(self, record: Record, node: str) -> None:
        """Put a record into the store, and show how the run goes. Stops the session where it cannot be written.

        Args:
            record: of an episode that has ended.
            node: id of the item that ran it.
        """
        before = self._tally.records.get(record.node)
        errors = before.attempt if before is not None and before.outcome == "error" else 0
        record = dataclasses.replace(record, attempt=max(record.attempt + self.reruns[node], errors + 1))
        if record.node not in self._episodes:
            # Its item was not known to run an episode, which no reason is to lose it.
            case = Case(record.suite, record.task, record.seed, str(record.variation.get("label", "")))
            self.begin([node], {node: case}, 1, {node: record.node})
            self._episodes |= {record.node}
        if node not in self.shared:
            self._names[node] = record.node
        if self._store is not None:
            self._guarded(self._store.add, record)
        self._current[node] = record
        self._tally.keep(record)
        self._ended.add(node)
        self._new[record.node] = None
        self._show_progress(node)
        for trouble in extensions.episode_finished(record):
            self._tell_once(trouble)

    def _tell_once(self, text: str) -> None:
        from pytest_vla.run.progress import write_apart

        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if text not in self._told and reporter is not None:
            write_apart(reporter, f"vla: {text}", yellow=True)
        self._told.add(text)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """How all items of the run ended decides; with a wanted success rate, that stands for the failed episodes."""
        self._end(session)
        settings = self._selection.settings
        if self._config.option.collectonly:
            return
        # Where no suite is asked for, the user's tests have all episodes that there are.
        all_own = settings.min_success_typed and not self._selection.named
        all_own = all_own and not any(record.of_suite for record in self.records)
        records = [record for record in self.records if record.of_suite or all_own]
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._resumption and not self._resumption.left:
            session.exitstatus = pytest.ExitCode.OK
        failed = [item for item in self._repetition.judged(self._items) if item.failed]
        # Of earlier invocations, and those that passed when they were run again, which does not count.
        unseen = [item for item in failed if not self._failures[item.node]]
        # Such as those that were not collected again, or whose worker died and left nobody to run them.
        unended = any(item.status is None for item in self._items)
        # In the ini file it is for runs of suites, and the project's other tests are run as ever.
        if settings.min_success is not None and (settings.min_success_typed or self._selection.named or records):
            # pytest's own number has also what cannot be collected, and what other plugins object to.
            others = session.testsfailed - self._excused + sum(not item.is_failed_episode for item in unseen)
            stopped = bool(session.shouldstop or session.shouldfail or unended) or session.exitstatus in _CUT_SHORT
            minimum, by_lower_end = settings.min_success
            has_policy = settings.model is not None
            self._verdict, passed = judge(records, minimum, others, stopped, by_lower_end, has_policy)
        else:
            passed = not (session.testsfailed or failed or unended)
        # Interrupted, a usage error, nothing collected: that stays.
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A table of rates; one line with -q, nothing with -qq, nothing where no episode ran. The verdict always."""
        verbosity = self._config.get_verbosity()
        lines: tuple[str, ...] = ()
        if self._items and verbosity >= -1:
            from pytest_vla.reports.terminal.summary import closing_lines

            width = terminalreporter._tw.fullwidth if terminalreporter.isatty else None
            typed = self._config.getoption("vla_results")
            resume = shlex.join(
                ["pytest", f"--vla-resume={self._run.name}", *([f"--vla-results={typed}"] if typed else [])]
            )
            lines = closing_lines(self.records, self._run, self._items, resume, verbosity, width, self._repetition)
        if verbosity >= 0 and (lines or self._verdict):
            terminalreporter.section("vla")
        for line in (*lines, *self._verdict):
            terminalreporter.write_line(printable_lines(line))

    @property
    def records(self) -> tuple[Record, ...]:
        """Of each of the run's items the record that counts."""
        return tuple((self._tally.records | self._repetition.records).values())

    def _enter(self, store: "Store", nodes: Sequence[str], cases: Mapping[str, Case]) -> None:
        settings = self._selection.settings
        episodes = tuple(dict.fromkeys(self.shared.get(node, self._names[node]) for node in cases))
        if self._resumption is None:
            store.begin(
                self._run.name,
                episodes,
                command=shlex.join(["pytest", *map(str, self._config.invocation_params.args)]),
                model=str(settings.model),
                invocation=invocation_of(settings, self._arguments, self._config.invocation_params.dir),
                others=[self._names.get(node, node) for node in nodes if node not in cases or node in self.shared],
                shared=self.shared.values(),
                picked=picked_by(self._config, nodes),
            )
            return
        store.resume(self._run.name)
        statuses = {item.node: item.status for item in store.items(self._run.name)}
        kept = list(store.records(self._run.name))
        self._tally = Tally((record, statuses.get(record.node)) for record in kept)
        self._kept = sum(record.node not in episodes for record in kept)

    def _take_record(self, report: pytest.TestReport) -> None:
        """The record comes with the report of the phase in which the episode ran, and again with later ones."""
        line = next((str(value) for name, value in report.user_properties if name == PROPERTY), None)
        if line is None:
            return
        record = parse_record(line)
        if self._lines.get(report.nodeid) != hash(line):
            self._lines[report.nodeid] = hash(line)
            self.keep(record, report.nodeid)
        # Reports go on to JUnit files and the like, where a whole record would be in the way.
        shown = {"vla_case": record.case, "vla_outcome": record.outcome, "vla_steps": record.steps}
        others = [(name, value) for name, value in report.user_properties if name != PROPERTY]
        report.user_properties[:] = [*others, *shown.items()]

    def _note_ending(self, name: str, record: Record | None, status: str) -> None:
        """What stands of an attempt's ending is written; of other tests, which may be many and quick, later."""
        # Of a shared episode each test ends by itself.
        stands = self._tally.end(name, None if record is None or record.node != name else record, status)
        if stands is None:
            return
        self._statuses[name] = stands
        if (name in self._episodes or name in self.shared) and self._store is not None:
            self._guarded(self._write_statuses, self._store)

    def _say_what_comes(self, nodes: Sequence[str], cases: Mapping[str, Case], workers: int) -> None:
        from pytest_vla.reports.terminal.summary import opening_line, uncollected_line
        from pytest_vla.run.progress import Progress

        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is None:
            return
        if self._config.get_verbosity() >= 0:
            settings = self._selection.settings
            model = str(settings.model)
            if self._resumption is not None and settings.model_text != model:
                # Not what the results call it alone.
                model += f" = {settings.model_text}"
            resumed = None if self._resumption is None else (self._run.name, self._kept)
            left = () if self._resumption is None else self._resumption.left
            estimates = tuple(self.estimates.values())
            reporter.ensure_newline()
            reporter.write_line(opening_line(tuple(cases.values()), model, workers, estimates, resumed, bool(left)))
            collected = {self._names.get(node, node) for node in nodes}
            if self._resumption is not None and (missing := set(left) - collected):
                reporter.write_line(uncollected_line(sorted(missing), self._resumption.command))
        self._progress = Progress(reporter, {node: expected.seconds for node, expected in self.estimates.items()})
        self._show_progress(None)

    def _estimate(self, cases: Sequence[Case], store: "Store") -> "tuple[Estimate, ...]":
        from pytest_vla.plan.durations import estimate

        settings = self._selection.settings
        measured = store.durations(str(settings.model))
        # A suite that was measured once may be gone.
        suites = {case.suite for case in cases} | ({suite for suite, *_ in measured} & set(suite_names()))
        max_steps = {name: load_suite(name, data=settings.data).protocol.max_steps for name in suites}
        return estimate(cases, measured, max_steps)

    def _show_progress(self, node: str | None) -> None:
        if self._progress is None:
            return
        new = tuple(map(self._tally.records.__getitem__, self._new))
        # Items that are run several times are so many to come, of which one counts.
        done = self._kept + len(self._ended)
        # Of a shared episode there are more where its tests are run by several workers.
        self._progress.show(node, new, done, max(len(self._episodes) + self._further, done))

    def _end(self, session: pytest.Session) -> None:
        store, self._store = self._store, None
        if store is None:
            return
        self._unwatch()
        try:
            self._write_statuses(store)
            items = store.items(self._run.name)
            nothing_left = self._without_policy or not any(item.is_left for item in items)
            if nothing_left and not self.records and self._resumption is None:
                # Such as a policy that could not be loaded, or --setup-plan: there is nothing to go on with.
                store.discard(self._run.name)
                return
            self._items = items
            run = store.run(self._run.name)
            mended, picked = frozenset(self._tally.mended), run.picked is not None
            self._repetition = Repetition(
                run.repeats,
                mended,
                run.picked,
                store.earlier(run.name) if picked else (),
                (0, 0) if picked else store.before(run.name),
            )
            store.end(self._run.name, "finished" if all(item.status for item in items) else "stopped")
        except VlaError as error:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            reporter = self._config.pluginmanager.getplugin("terminalreporter")
            if reporter is not None:
                reporter.ensure_newline()
                reporter.write_line(printable_lines(f"pytest-vla: {error}"))
        finally:
            store.close()

    def _exited(self, code: int, place: str) -> None:
        """`os._exit` was called in the middle of the run, in whatever thread."""
        from pytest_vla.records.store import open_store

        left = sum(node not in self._tally.records for node in self._episodes)
        code = code if code % 256 else FAILED
        told = (
            f"\npytest-vla: os._exit was called at {place} while {left} of {len(self._episodes)} episodes were not run:"
            f" pytest ends with code {code}; `pytest --vla-resume={self._run.name}` goes on\n"
        )
        with suppress(OSError):
            os.write(self._config.stash.get(STDERR, 2), told.encode(errors="replace"))
        # A connection belongs to its thread.
        with suppress(VlaError), open_store(self._run.parent, create=False, timeout=_EXIT_LOCK_SECONDS) as store:
            store.end(self._run.name, "stopped")

    def _write_statuses(self, store: "Store") -> None:
        store.mark(self._run.name, self._statuses)
        self._statuses.clear()

    def _guarded(self, write: Any, *arguments: Any) -> None:
        try:
            write(*arguments)
        except VlaError as error:
            self._stop(error)

    def _stop(self, error: VlaError) -> None:
        pytest.exit(printable_lines(str(error)), returncode=pytest.ExitCode.INTERNAL_ERROR)


def cases_of_items(items: Sequence[pytest.Item]) -> dict[str, Case]:
    """By node id, the cases of those items that run one."""
    cases = {item.nodeid: item.callspec.params.get("vla_case") for item in items if hasattr(item, "callspec")}
    return {node: case for node, case in cases.items() if isinstance(case, Case)}


def shared_of_items(items: Sequence[pytest.Item]) -> dict[str, str]:
    """By node id of those items that share an episode, what that is recorded as."""
    by_node = {item.nodeid: item for item in items}
    return {node: episode_node(by_node[node]) for node in cases_of_items(items) if shared_by(by_node[node])}


def names_of_items(items: Sequence[pytest.Item]) -> dict[str, str]:
    """By node id of those items that run an episode, what its ending is recorded as."""
    by_node = {item.nodeid: item for item in items}
    return {node: counted_node(by_node[node]) for node in cases_of_items(items)}
