"""The controller's side of the messages between it and its workers; `pytest_vla.run.xdist.worker` is the workers' side.

It is registered only if pytest-xdist is loaded: without it, its hooks are unknown.
"""

import copy
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.errors import CRASHED, EXITED, TIMEOUT, VlaError
from pytest_vla.gate.choices import SEQUENTIAL
from pytest_vla.plan.case import Case, parse_search_id
from pytest_vla.run import time_budget
from pytest_vla.run.context import RunContext
from pytest_vla.run.gate import is_gated
from pytest_vla.run.hints import unheeded
from pytest_vla.run.marker import NOTHING_TO_RUN
from pytest_vla.run.metrics import take_prices
from pytest_vla.run.nodes import Collected
from pytest_vla.run.progress import write_apart
from pytest_vla.run.record_transport import carries_record
from pytest_vla.run.results import INTERRUPTED, Results
from pytest_vla.run.selection import as_typed
from pytest_vla.run.sharding import is_empty_shard
from pytest_vla.run.stored import lost_record
from pytest_vla.run.time_budget import is_balanced
from pytest_vla.run.xdist.messages import (
    Begin,
    CasesCollected,
    FilePart,
    MayBegin,
    Message,
    PolicyPlaces,
    Preparing,
    ShardPlanned,
    WallLimitChange,
    WhereIsPolicy,
    read_message,
    wire,
)
from pytest_vla.run.xdist.policy import PolicyOfWorkers
from pytest_vla.run.xdist.ray_workers import LOST_NODES, FarWorkers, grant_a_worker
from pytest_vla.run.xdist.worker import CHANNEL, WORKER_INPUT, Handed
from pytest_vla.util.processes import ObservedTime, is_stopped
from pytest_vla.util.text import printable_lines
from pytest_vla.util.wall_limits import GRACE

if TYPE_CHECKING:
    from pytest_vla.run.xdist.scheduler import PoolItem, VlaScheduling


RERUNS = 1
"""How often an episode is run again whose worker died."""

BY_SCOPE = ("loadscope", "loadfile", "loadgroup")
"""Values of ``--dist`` under which a worker may not die."""

OTHER_TEST_SECONDS = 1.0
"""What is taken for the time of a test that runs no episode."""

# Seconds for a worker whose pipes are closed to be gone.
_FAREWELL_SECONDS = 5.0

# Run as a file, and never imported.
_GUARDIAN = Path(__file__).with_name("guardian.py")


class Controller:
    """The controller's hooks of pytest-xdist."""

    def __init__(self, context: RunContext, results: Results, policy: PolicyOfWorkers, far: FarWorkers | None) -> None:
        self._context, self._results, self._policy, self._far = context, results, policy, far
        self._config, self._selection, self._run = context.config, context.selection, context.folder
        self._limit, self._reruns = context.limit, context.so_far.reruns
        self._cases: dict[str, Case] = {}
        # By node id, what an item's ending is recorded as, and its episode, where it shares that with others.
        self._names: dict[str, str] = {}
        self._shared: dict[str, str] = {}
        # Texts of cases that were read to their end.
        self._heard: set[str] = set()
        # What is to run again, with the report to give where it does not come to that.
        self._awaited: dict[str, Any] = {}
        # Items that have begun and whose test has ended with a record: only their teardown is left.
        self._recorded: set[str] = set()
        # By worker, what leads to it beside xdist's own.
        self._channels: dict[str, Any] = {}
        self._interrupted = False
        self._watch: WorkerWatch | None = None
        self._unheeded = unheeded(context)
        # By the name of a message, what is done with it.
        self._handlers: dict[str, Callable[[str, Any], None]] = {
            CasesCollected.NAME: self._take_cases,
            ShardPlanned.NAME: self._take_shard,
            WallLimitChange.NAME: self._take_wall_limit,
            Preparing.NAME: self._take_preparing,
            MayBegin.NAME: self._answer_may_begin,
            FilePart.NAME: self._take_file,
            WhereIsPolicy.NAME: self._answer_where_is_policy,
        }

    def pytest_sessionstart(self) -> None:
        """Refuse values of ``--dist`` under which a dying worker, a gate, a time limit or a cluster would not work."""
        how = self._config.getoption("dist")
        if self._runs_episodes and how in BY_SCOPE and self._config.pluginmanager.hasplugin("dsession"):
            raise pytest.UsageError(
                f"--dist={how} cannot recover when a worker dies, so episodes would be lost. Use --dist=load (keeps a "
                "scene on its worker) or --dist=worksteal"
            )
        if self._far is not None and how != "load":
            raise pytest.UsageError(
                f"--dist={how} waits for every worker, and one in a cluster may come an hour later: leave --dist out "
                "(--dist=load keeps a scene on its worker)"
            )
        settings = self._selection.settings
        if is_gated(self._selection) and settings.gate == SEQUENTIAL and how not in ("no", "load"):
            raise pytest.UsageError(
                f"--dist={how}: a sequential gate needs its rounds in order, which only --dist=load (or -n alone) "
                "keeps: leave --dist out, or use --vla-gate=fixed"
            )
        if self._limit is not None and how not in ("no", "load"):
            raise pytest.UsageError(
                f"--dist={how}: a run that time may end has an order, in which only --dist=load (or -n alone) runs "
                "it: leave --dist out, or --vla-max-hours and --vla-worker-hours"
            )

    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """Have a guardian start each worker, so that all processes of a worker end with it."""
        settings = self._selection.settings
        if settings.model is None:
            return
        for spec in specs:
            if spec.popen and not spec.via and not spec.far:
                spec.python = _guarded(spec.python)
        if settings.timeout is not None:
            self._watch = WorkerWatch(settings.timeout)

    def pytest_configure_node(self, node: Any) -> None:
        """Give a new worker its input and its channel."""
        served = self._policy.served(node.workerinput["workerid"])
        ahead = None if self._far is None else self._far.ahead(node.gateway.id)
        handed = Handed(str(self._run), self._context.resumption, served, ahead)
        node.workerinput[WORKER_INPUT] = json.dumps(asdict(handed))
        if self._selection.settings.model is not None or self._unheeded:
            node.workerinput[CHANNEL] = node.gateway.newchannel()
            # Called before xdist is told that the worker has collected: messages keep their order.
            node.workerinput[CHANNEL].setcallback(partial(self._hear, node.gateway.id))
            self._channels[node.gateway.id] = node.workerinput[CHANNEL]
        if self._selection.settings.model is not None:
            pid, kill = _process_of(node.gateway, self._far)
            # xdist's own way for one that does not end when all is over; its guardian has to stay to clear up.
            node.gateway._io.kill = kill
            if self._watch is not None:
                self._watch.add(node.gateway.id, pid, kill)

    # After a project's own choice, before xdist's.
    @pytest.hookimpl(trylast=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> "VlaScheduling | None":
        """Return our scheduler in place of ``--dist=load``, which is also pytest-xdist's default."""
        if not (self._runs_episodes or self._far is not None) or config.getoption("dist") != "load":
            return None
        from pytest_vla.run.xdist.scheduler import Pool, TurnPool, VlaScheduling

        in_turns = is_gated(self._selection) and self._selection.settings.gate == SEQUENTIAL
        strict = partial(TurnPool, is_strict=True)
        pool = strict if is_balanced(self._context) else TurnPool if in_turns else Pool
        is_over, waits = (lambda: not self._may_begin()), self._far is None
        return VlaScheduling(config, log, self._items_of, pool, is_over=is_over, waits=waits)

    def pytest_xdist_node_collection_finished(self, node: Any, ids: Sequence[str]) -> None:
        """Begin the run with the first worker's items; the other workers have the same."""
        from xdist.workermanage import parse_tx_spec_config

        if not ids and self._only_new_episodes and not is_empty_shard(self._context):
            pytest.exit(NOTHING_TO_RUN, returncode=pytest.ExitCode.USAGE_ERROR)
        if self._unheeded and not self._cases_of(ids):
            if (reporter := self._config.pluginmanager.getplugin("terminalreporter")) is not None:
                write_apart(reporter, self._unheeded)
            self._unheeded = ""
        workers = len(parse_tx_spec_config(self._config))
        self._results.begin(Collected(ids, self._cases_of(ids), self._names, self._shared), workers)

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: object | None) -> None:
        """Forget a worker that has ended, and keep whether Ctrl-C ended it."""
        if self._watch is not None:
            self._watch.remove(node.gateway.id)
        self._interrupted = self._interrupted or error == "keyboard-interrupt"
        if self._far is not None:
            self._far.gone(node.gateway.id, error)
        take_prices(self._context, getattr(node, "workeroutput", None))

    # After other plugins, which may have it run again: handed out twice, it would be run twice.
    @pytest.hookimpl(trylast=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any, sched: Any) -> None:
        """Run an episode again whose worker died; the second time it becomes an error.

        One that had its record by then is not run again: its outcome stands, which nobody can better by a crash.
        """
        if crashitem not in self._cases:
            return
        if self._interrupted:
            # It is left, as where there are no workers.
            report.outcome = INTERRUPTED
            return
        from pytest_vla.util.wall_limits import hung_place, hung_traceback

        # An episode that kills its worker does it twice at most.
        grant_a_worker(self._config)
        self._awaited.pop(crashitem, None)
        if report.outcome == "rerun":
            self._reruns[crashitem] += 1
            self._awaited[crashitem] = copy.copy(report)
            self._awaited[crashitem].outcome = "failed"
            return
        lost, words = (False, "") if self._far is None else self._far.ended(report.node.gateway.id)
        if words:
            report.longrepr = f"{report.longrepr}: {words}"
        dump = hung_traceback(self._run, report.node.gateway.id)
        killed = self._watch.why_killed(report.node.gateway.id) if self._watch is not None else None
        if dump is not None:
            report.sections.append(("traceback of the hang", dump))
        most = LOST_NODES if lost else RERUNS
        if crashitem in self._recorded and dump is None and killed is None:
            report.when, report.outcome, report.longrepr = "teardown", "passed", None
            return
        has_exited = self._far is None and dump is None and killed is None and _has_exited(report.node.gateway)
        if dump is None and killed is None and self._reruns[crashitem] < most and _reruns(sched, crashitem):
            if has_exited:
                # A policy must not gain by exiting where it would fail: what it did is recorded.
                self._lose(copy.copy(report), str(report.longrepr), EXITED)
            elif not lost:
                self._context.so_far.lose(self._shared.get(crashitem, self._names[crashitem]))
            self._reruns[crashitem] += 1
            self._awaited[crashitem] = copy.copy(report)
            report.outcome = "rerun"
            return
        message = str(report.longrepr)
        if self._reruns[crashitem]:
            message += ", for the second time: this counts as an error of the policy's own"
        if dump is not None or killed is not None:
            self._lose(report, killed if dump is None else hung_place(dump), TIMEOUT)
        else:
            self._lose(report, message, EXITED if has_exited else CRASHED)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Expect a record of an item, which may have had one before."""
        self._recorded.discard(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> None:
        """Stop waiting for an item's rerun, since its report has come; note whether its test ended with a record."""
        if report.outcome != "rerun":
            self._awaited.pop(report.nodeid, None)
            if report.when == "call" and carries_record(report):
                self._recorded.add(report.nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Record an error for each awaited rerun that found no worker; in a run that was stopped it is left."""
        if exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            return
        if self._limit is not None and self._limit.is_up:
            return
        for node, report in list(self._awaited.items()):
            self._reruns[node] -= 1
            limit = self._config.getoption("maxworkerrestart")
            told = f"{report.longrepr}, and no worker was left to run it again"
            self._lose(report, told if limit is None else f"{told} (--max-worker-restart={limit})", CRASHED)
            self._config.hook.pytest_runtest_logreport(report=report)

    def pytest_unconfigure(self) -> None:
        """Stop the watch over workers."""
        if self._watch is not None:
            self._watch.close()

    @property
    def _only_new_episodes(self) -> bool:
        return self._selection.only_episodes and self._context.resumption is None

    @property
    def _runs_episodes(self) -> bool:
        return bool(self._selection.settings.model_typed or self._selection.named)

    def _lose(self, report: Any, message: str | None, reason: str) -> None:
        """Record a lost episode as an error."""

        node, settings = report.nodeid, self._selection.settings
        name = self._names[node]
        command = settings.command([as_typed(name, self._config)], self._config)
        report.longrepr = printable_lines(f"error {reason}: {message}\n  run it alone: {command}")
        record = lost_record(
            self._context,
            self._cases[node],
            self._shared.get(node, name),
            reason,
            str(message),
            about=self._policy.about,
            worker=report.node.gateway.id,
        )
        self._results.keep_record(record, node)

    def _may_begin(self) -> bool:
        return self._limit is None or self._limit.may_begin(time_budget.clock())

    def _hear(self, worker: str, sent: Any) -> None:
        """Pass a worker's message to its handler. Called by execnet, in a thread of its own."""
        try:
            message = read_message(sent)
        except VlaError as error:
            # Raised here, it would close the channel, and the user would not see it.
            self._results.say_once(f"worker {worker}: {error}")
            return
        if message is not None and (handle := self._handlers.get(message.NAME)) is not None:
            handle(worker, message)

    def _take_cases(self, worker: str, message: CasesCollected) -> None:
        if message.text in self._heard:
            return
        for node, (name, shared, fields) in json.loads(message.text).items():
            self._names[node], self._cases[node] = name, Case(*fields)
            if shared is not None:
                self._shared[node] = shared
        # Now, and not before: xdist is told next that this worker has collected, and its cases are asked for.
        self._heard.add(message.text)

    def _take_shard(self, worker: str, message: ShardPlanned) -> None:
        self._context.findings.shard = json.loads(message.text)

    def _take_wall_limit(self, worker: str, message: WallLimitChange) -> None:
        if self._watch is not None:
            self._watch.episode(worker, message.in_force)

    def _take_preparing(self, worker: str, message: Preparing) -> None:
        self._results.show_preparation(worker, message.what, message.ended)

    def _answer_may_begin(self, worker: str, message: MayBegin) -> None:
        self._send(worker, Begin(self._may_begin()))

    def _take_file(self, worker: str, message: FilePart) -> None:
        if self._far is not None:
            self._far.incoming.add(worker, message.file, message.content, message.is_last)

    def _answer_where_is_policy(self, worker: str, message: WhereIsPolicy) -> None:
        self._send(worker, PolicyPlaces(self._policy.places(worker)))

    def _send(self, worker: str, message: Message) -> None:
        # A worker that is gone needs no answer.
        with suppress(OSError):
            self._channels[worker].send(wire(message))

    def _cases_of(self, ids: Sequence[str]) -> dict[str, Case]:
        return {node: self._cases[node] for node in ids if node in self._cases}

    def _items_of(self, ids: Sequence[str]) -> "list[PoolItem]":
        from pytest_vla.run.sharding import scene_names
        from pytest_vla.run.xdist.scheduler import PoolItem

        cases = self._cases_of(ids)
        scenes = scene_names(cases.values(), self._selection.settings.data)
        estimates, shared = self._context.so_far.estimates, self._context.so_far.shared
        places, items = self._results.places(ids), []
        for index, name in enumerate(ids):
            turn, place = places.get(name, (0, 0))
            if name in estimates:
                item = PoolItem(index, scenes[cases[name]], estimates[name].seconds, shared.get(name), turn, place)
            elif name in cases and name in shared:
                # It looks at the episode of another test.
                item = PoolItem(index, scenes[cases[name]], 0.0, shared[name], turn, place)
            elif parse_search_id(name):
                seconds = OTHER_TEST_SECONDS * (self._selection.settings.fuzz or 1)
                item = PoolItem(index, name, seconds, None, turn, place)
            else:
                item = PoolItem(index, None, OTHER_TEST_SECONDS, None, turn, place)
            items.append(item)
        return items


def _guarded(python: str | None) -> str | None:
    """Return the command that starts a worker's interpreter under a guardian, as a shell command.

    Args:
        python: the command without a guardian, or None for this interpreter.

    Returns:
        The command, or `python` on systems other than Linux.
    """
    if sys.platform != "linux":
        return python
    return f"{shlex.join([sys.executable, '-I', '-S', str(_GUARDIAN)])} {python or shlex.quote(sys.executable)}"


def _process_of(gateway: Any, far: FarWorkers | None) -> tuple[int | None, Callable[[], None]]:
    """Return a worker's process id, if it is on this machine, and a function that kills it."""
    if far is not None:
        return None, partial(far.kill, gateway.id)
    if not gateway.spec.popen or gateway.spec.via:
        return None, gateway._io.kill
    # Not the one that execnet started, which is the guardian.
    pid = int(gateway._rinfo().pid)

    def kill() -> None:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)

    return pid, kill


def _has_exited(gateway: Any) -> bool:
    """Whether a worker on this machine ended by an exit of its own and not by a signal; False if it is not known."""
    started = getattr(getattr(gateway, "_io", None), "popen", None)
    try:
        # Of the guardian, which says 128 and more for a signal, or of the worker itself.
        return started is not None and 0 <= started.wait(_FAREWELL_SECONDS) < 128
    except subprocess.TimeoutExpired:
        return False


def _reruns(sched: Any, node: str) -> bool:
    """Have a scheduler hand out a crashed item again. Returns whether it will."""
    try:
        sched.mark_test_pending(node)
    except NotImplementedError:
        return False
    return True


# The controller's eye on its workers: one that is past its limit and cannot end itself is killed from outside.

LATER = 5.0
"""Seconds beyond limit and grace: a worker that can end itself says where it hung, and is to come first."""

LOOK_SECONDS = 0.5


@dataclass
class _Watched:
    """A worker under watch.

    Attributes:
        pid: its process id, or None if it is on another machine.
        kill: kills it.
        spent: seconds since its episode began, or None if it is in none.
        stopped: seconds for which it has been stopped (SIGSTOP).
    """

    pid: int | None
    kill: Callable[[], None]
    spent: float | None = None
    stopped: float = 0.0


class WorkerWatch:
    """The controller's watch: kills workers whose episode is past limit and grace, and those stopped for as long.

    Its methods can be called from any thread.
    """

    def __init__(self, limit: float) -> None:
        """Start the watch's thread.

        Args:
            limit: seconds of ``--vla-timeout``.
        """
        self._limit = limit
        self._workers: dict[str, _Watched] = {}
        self._killed: dict[str, str] = {}
        self._lock, self._closing = threading.Lock(), threading.Event()
        threading.Thread(target=self._run, name="vla-watch", daemon=True).start()

    def add(self, worker: str, pid: int | None, kill: Callable[[], None]) -> None:
        """Watch a worker.

        Args:
            worker: its id.
            pid: its process id, or None if it is on another machine.
            kill: kills it, even if it is stopped.
        """
        with self._lock:
            self._workers[worker] = _Watched(pid, kill)

    def episode(self, worker: str, runs: bool) -> None:
        """Start or stop the clock of a worker's episode."""
        with self._lock:
            if worker in self._workers:
                self._workers[worker].spent = 0.0 if runs else None

    def remove(self, worker: str) -> None:
        """Stop watching a worker."""
        with self._lock:
            self._workers.pop(worker, None)

    def why_killed(self, worker: str) -> str | None:
        """Return the reason why a worker was killed, or None if it was not."""
        return self._killed.get(worker)

    def close(self) -> None:
        """End the thread."""
        self._closing.set()

    def _run(self) -> None:
        patience = ObservedTime()
        while not self._closing.wait(LOOK_SECONDS):
            self._look(patience.passed())

    def _look(self, passed: float) -> None:
        with self._lock:
            for name, worker in list(self._workers.items()):
                worker.stopped = worker.stopped + passed if worker.pid and is_stopped(worker.pid) else 0.0
                if worker.spent is not None:
                    worker.spent += passed
                if (told := self._trouble(worker)) is None:
                    continue
                self._killed[name] = f"{told}; the worker was killed (--vla-timeout)"
                del self._workers[name]
                worker.kill()

    def _trouble(self, worker: _Watched) -> str | None:
        allowed = f"{self._limit:g} s and {GRACE:g} s of grace"
        if worker.stopped > self._limit + GRACE:
            return f"its process was stopped (SIGSTOP) for more than {allowed}"
        if worker.spent is not None and worker.spent > self._limit + GRACE + LATER:
            return f"no sign of life within {allowed}"
        return None
