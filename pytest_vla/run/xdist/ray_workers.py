"""``--vla-ray``: the workers of ``-n N`` on the machines of a Ray cluster; the controller's hooks.

To pytest-xdist and all code on top of it (order, crashes, ``-x``, gates, the live line) they are ordinary workers.
Three things differ: a worker comes when there is room for it (`LateWorkers`), its files come over its connection
(`pytest_vla.run.xdist.worker`), and the loss of its machine does not count as a crash of the worker.
"""

import os
import socket
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import execnet
import pytest
from execnet.gateway_bootstrap import bootstrap_exec
from xdist.workermanage import NodeManager, WorkerController

import pytest_vla
from pytest_vla import hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.records.checks import is_inside
from pytest_vla.run import time_budget
from pytest_vla.run.context import RunContext
from pytest_vla.run.progress import write_apart
from pytest_vla.run.record_transport import free_name
from pytest_vla.run.selection import Selection, task_of
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import counted, printable_lines

if TYPE_CHECKING:
    from pytest_vla.scale.nodes import NodeRequirements
    from pytest_vla.scale.ray_cluster import FarActor, RayCluster
    from pytest_vla.scale.ray_hosts import Switchboard


# Files that workers on other machines send, put into the run's folder: the controller's side of `far_side`.

_ARRAYS = ".npz"


class Incoming:
    """Writes files from far workers, part by part, into the run's folder; can be called from any thread.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._lock = run, threading.Lock()
        self._parts: dict[tuple[str, str], bytearray] = {}
        # By worker and name, the names that trajectories got here whose records have not come yet.
        self._placed: defaultdict[tuple[str, str], deque[str]] = defaultdict(deque)
        self._latest: dict[tuple[str, str], str] = {}
        self._trouble = ""

    def add(self, worker: str, name: str, part: bytes, is_last: bool) -> None:
        """Add a part of a file. A write error is raised later, by `place`, as no caller waits for this call."""
        try:
            self._add(worker, name, part, is_last)
        except (OSError, VlaError) as error:
            self._trouble = self._trouble or f"cannot write records: {error}"

    def _add(self, worker: str, name: str, part: bytes, is_last: bool) -> None:
        with self._lock:
            whole = self._parts.setdefault((worker, name), bytearray())
            whole += part
            if not is_last:
                return
            del self._parts[worker, name]
            stem = str(PurePosixPath(name).with_suffix(_ARRAYS))
            path = self._run / name
            if not is_inside(stem) or not path.resolve().is_relative_to(self._run.resolve()):
                raise OSError(f"{name!r} lies outside of the run's folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(_ARRAYS):
                # What an earlier attempt left that came to its end stays.
                found = free_name(self._run, stem.removesuffix(_ARRAYS))
                self._placed[worker, name].append(found)
                self._latest[worker, name] = found
            else:
                found = str(PurePosixPath(self._latest.get((worker, stem), stem)).with_suffix(path.suffix))
            with whole_file(self._run / found) as stream:
                stream.write(whole)

    def place(self, worker: str, name: str) -> str:
        """Return the local name of a trajectory that a worker's record names. Raises VlaError for a write error."""
        if self._trouble:
            raise VlaError(self._trouble)
        with self._lock:
            placed = self._placed.get((worker, name))
            return placed.popleft() if placed else name

    def forget(self, worker: str) -> None:
        """Drop the incomplete files of a worker that has ended."""
        with self._lock:
            for key in [key for key in self._parts if key[0] == worker]:
                del self._parts[key]


LOST_NODES = 20
"""How often an episode is run again whose worker's machine was lost: it is no fault of the episode."""

_GUARDIAN = Path(__file__).with_name("guardian.py")
_OF_MACHINE = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOSTNAME", "HOST", "PWD", "OLDPWD", "SHLVL", "_", "TERM"),
        *("TMPDIR", "TMUX", "STY", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "PATH"),
        *("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        *("HIP_VISIBLE_DEVICES", "INVOCATION_ID", "JOURNAL_STREAM"),
    )
)
_OF_MACHINES = ("RAY_", "SLURM_", "PMI", "OMPI_", "PBS_", "LSB_", "KUBERNETES_", "SSH_", "DBUS_", "XDG_SESSION_", "LC_")
"""Variables, and what names of such begin with, that say something of one machine or session: each has its own."""
_ENDED_SECONDS = 8.0
_LOST_SECONDS = 30.0
_LOOK_SECONDS, _WAITING_SECONDS = 1.0, 30.0


class FarWorkers:
    """The workers in a Ray cluster: starts them, and keeps how each ended."""

    def __init__(self, context: RunContext) -> None:
        self._config, self._selection, self._run = context.config, context.selection, context.folder
        self._limit = context.limit
        self.incoming = Incoming(self._run)
        self.cluster: RayCluster | None = None
        self._switchboard: Switchboard | None = None
        self._late: LateWorkers | None = None
        self._wanted: NodeRequirements | None = None
        self._actors: dict[str, FarActor] = {}
        self._connections: dict[str, socket.socket] = {}
        self._ahead: dict[str, float] = {}
        self._ends: dict[str, tuple[bool, str]] = {}
        self._active: set[str] = set()
        self._closing = threading.Event()
        # By node, until when its workers are taken for lost with it.
        self._lost: dict[str, float] = {}
        self._lock = threading.Lock()

    # Before the policy is loaded, which may be on one of the machines.
    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_setupnodes(self, specs: Sequence[Any]) -> None:
        """Join the cluster, and have pytest-xdist take its workers as they come."""
        from pytest_vla.scale.nodes import open_nodes_text
        from pytest_vla.scale.ray_hosts import Switchboard

        try:
            self.cluster = self.joined()
            self._switchboard = Switchboard(self.cluster.address, self._answer)
        except (VlaError, OSError) as error:
            raise pytest.UsageError(printable_lines(str(error))) from error
        dsession = self._config.pluginmanager.getplugin("dsession")
        self._late = LateWorkers(dsession, self._start, self.kill)
        for spec in specs:
            spec.far = True
        nodes = self.cluster.nodes
        cpus, gpus = self.cluster.resources()
        wanted, largest = self._selection.settings.ray_cpus, self.cluster.largest()
        if wanted > largest:
            raise pytest.UsageError(
                f"--vla-ray-cpus={wanted:g}: no node has that many processors (the largest has {largest:g}), so no "
                "worker could start"
            )
        room = int(cpus / wanted)
        told = f"Ray: {counted(len(nodes), 'node')}, {cpus:g} processors, {gpus:g} GPUs"
        if room < len(specs):
            told += f"; {room} of the {len(specs)} workers start now, the others when there is room"
        self._tell(told)
        if warning := open_nodes_text(nodes):
            self._tell(warning, loud=True)
        threading.Thread(target=self._look_after, name="vla-far", daemon=True).start()
        for node in nodes:
            if node.ahead:
                way = "ahead" if node.ahead > 0 else "behind"
                told = f"the clock of node {node.name} is {abs(node.ahead):.1f} s {way}"
                self._tell(f"{told}: its episodes' times are corrected")

    def joined(self) -> "RayCluster":
        """Return the cluster, joined. Raises VlaError if it cannot be joined, or its machines lack something."""
        from pytest_vla.scale.ray_cluster import RayCluster

        if self.cluster is None:
            settings = self._selection.settings
            self._wanted = wanted_of(self._selection, self._config)
            self.cluster = RayCluster(address_of(str(settings.ray)), self._wanted, self._tell)
        return self.cluster

    def ahead(self, worker: str) -> float:
        """Return the seconds by which the clock of a worker's machine is ahead of this one's."""
        return self._ahead[worker]

    def node_of(self, worker: str) -> str | None:
        """Return the id of a worker's node."""
        return self._actors[worker].node

    def kill(self, worker: str) -> None:
        """Kill a worker, wherever it hangs; from any thread."""
        assert self.cluster is not None
        self.cluster.kill(self._actors[worker])
        self._hang_up(worker)

    def gone(self, worker: str, error: object | None) -> None:
        """Free the place of an ended worker in the cluster, before another is started.

        Args:
            worker: its name.
            error: pytest-xdist's error, or None if the worker had nothing left to do.
        """
        self._active.discard(worker)
        if error is None:
            self.kill(worker)
        elif worker not in self._ends:
            self._ends[worker] = self._find_out(worker)

    def ended(self, worker: str) -> tuple[bool, str]:
        """Return how a worker ended: whether its machine was lost, and a short description."""
        return self._ends[worker]

    def _find_out(self, worker: str) -> tuple[bool, str]:
        """Ask the host how a worker ended, and copy its hang traceback into the run's folder."""
        from pytest_vla.scale.ray_cluster import ActorGone

        assert self.cluster is not None
        actor = self._actors[worker]
        self.incoming.forget(worker)
        if time.monotonic() < self._lost.get(str(actor.node), 0.0):
            return True, "its machine is gone"
        try:
            found = self.cluster.ask(actor, "ended", seconds=_ENDED_SECONDS)
        except ActorGone as error:
            # The others of that machine go at the same time, and xdist waits for this answer.
            self._lost[str(actor.node)] = time.monotonic() + _LOST_SECONDS
            return True, f"its machine is gone ({error})"
        except VlaError as error:
            return True, f"its machine does not answer ({error})"
        with suppress(VlaError, OSError):
            left: Mapping[str, bytes] = self.cluster.ask(actor, "left")
            for name, content in left.items():
                self._run.mkdir(parents=True, exist_ok=True)
                (self._run / Path(name).name).write_bytes(content)
        self.kill(worker)
        words = f"; its last words:\n{found.words}" if found.words else ""
        return False, f"its process ended with code {found.code}{words}"

    # After the policy's copies are ended, which are in the cluster too.
    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        """End all workers and leave the cluster."""
        self._closing.set()
        if self._switchboard is not None:
            self._switchboard.close()
        if self.cluster is not None:
            for worker in list(self._actors):
                self.kill(worker)
            self.cluster.close()

    def _start(self, worker: str) -> None:
        assert self.cluster is not None
        assert self._switchboard is not None
        assert self._wanted is not None
        table = {
            "name": worker,
            "host": self.cluster.address,
            "port": self._switchboard.port,
            "secret": self._switchboard.secret,
            "folder": self._wanted.folder,
            "folders": self._folders(),
            "variables": dict(self._wanted.variables),
            "guardian": str(_GUARDIAN),
        }
        # Whoever answers its call waits until it is known.
        with self._lock:
            self._actors[worker] = self.cluster.start(
                f"worker {worker}",
                "pytest_vla.scale.ray_hosts",
                "WorkerHost",
                table,
                cpus=self._selection.settings.ray_cpus,
                failed=lambda why, by_machine: self._failed(worker, why, by_machine),
            )

    def _folders(self) -> list[str]:
        """Return the folders that a worker needs before its start: pytest makes only the last part of its own."""
        factory = getattr(self._config, "_tmp_path_factory", None)
        return [] if factory is None else [str(factory.getbasetemp())]

    def _answer(self, worker: str, connection: socket.socket) -> None:
        """Take the connection of a worker's machine."""
        with self._lock:
            actor = self._actors.get(worker)
            self._connections[worker] = connection
        if actor is None or self.cluster is None or self._late is None:
            self._hang_up(worker)
            return
        try:
            self.cluster.place(actor)
            self._ahead[worker] = self.cluster.ahead(actor)
            self._late.arrived(worker, connection, lambda: self.kill(worker))
            self._active.add(worker)
        except VlaError as error:
            self.kill(worker)
            self._failed(worker, str(error), True)
        except (OSError, EOFError, KeyError) as error:
            by_machine, words = self._find_out(worker)
            self._failed(worker, f"{error}; {words}", by_machine)

    def _failed(self, worker: str, why: str, by_machine: bool) -> None:
        """Take note that a worker's actor could not be made, or was lost before the worker came."""
        if self._late is None:
            return
        # Not where it is not wanted any more, or has come.
        with suppress(KeyError):
            self._late.lost(worker, why)
            self._ends[worker] = by_machine, why
            if by_machine:
                grant_a_worker(self._config)
            else:
                self._tell(f"worker {worker} could not be started: {why}")

    def _look_after(self) -> None:
        """Report that no worker has room, and end the run if its time is up before one has."""
        idle = told = 0.0
        while not self._closing.wait(_LOOK_SECONDS):
            if self._late is None or self._active or not self._late.awaited:
                idle = told = 0.0
                continue
            idle += _LOOK_SECONDS
            limit = self._limit
            if limit is not None and not limit.may_begin(time_budget.clock()):
                settings = self._selection.settings
                self._tell(
                    f"time limit reached ({time_budget.limit_text(limit, settings)}) before a worker had room",
                    loud=True,
                )
                self._late.end()
                return
            if idle - told >= _WAITING_SECONDS:
                told = idle
                self._tell(
                    f"no room for a worker in the cluster for {idle:.0f} s: waiting for a node or for free processors "
                    "(`ray status`); Ctrl-C stops the run",
                    loud=True,
                )

    def _hang_up(self, worker: str) -> None:
        with self._lock:
            connection = self._connections.pop(worker, None)
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _tell(self, text: str, loud: bool = False) -> None:
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and (loud or self._config.get_verbosity() >= 0):
            write_apart(reporter, printable_lines(f"vla: {text}"))


def grant_a_worker(config: pytest.Config) -> None:
    """Raise xdist's limit of worker restarts by one, as this worker failed through no fault of its own.

    Args:
        config: the controller's.
    """
    dsession = config.pluginmanager.getplugin("dsession")
    limit = getattr(dsession, "_max_worker_restart", None)
    if limit is not None and config.getoption("maxworkerrestart") is None:
        dsession._max_worker_restart = limit + 1


def workers_of_cluster(config: pytest.Config) -> int:
    """Return the number of workers of ``-n auto``: as many as the cluster has processors for now.

    Raises:
        UsageError: it cannot be joined.
    """
    from pytest_vla.run.settings import read_settings
    from pytest_vla.scale.ray_cluster import cluster_cpus

    try:
        settings = read_settings(config)
        return max(1, int(cluster_cpus(address_of(str(settings.ray))) / settings.ray_cpus))
    except VlaError as error:
        raise pytest.UsageError(printable_lines(str(error))) from error


def address_of(said: str) -> str | None:
    """Return `RayCluster`'s address for a value of ``--vla-ray``."""
    return None if said == "auto" else said


def wanted_of(selection: Selection, config: pytest.Config) -> "NodeRequirements":
    """Return the requirements for a machine of the cluster. Raises VlaError if this machine lacks the data."""
    from pytest_vla.scale.node_facts import node_facts
    from pytest_vla.scale.nodes import NodeRequirements, data_digest, uses_fetched, wanted_table

    settings = selection.settings
    folder = str(config.invocation_params.dir)
    package = str(Path(pytest_vla.__file__).parent)
    variables = worker_variables(os.environ)
    tasks = {task.suite + "/" + task.key: task for task in (task_of(case, settings) for case in _cases(selection))}
    data = digest = None
    if tasks:
        digest = data_digest(tasks.values())
        data = {
            "data": None if settings.data is None else str(settings.data),
            "tasks": [[task.suite, task.key] for task in tasks.values()],
            "fetch": uses_fetched([*tasks.values()]),
            # They may be what adds the suites.
            "modules": [asdict(each) for each in hook_modules.read_files()],
        }
    path = [each for each in map(os.path.abspath, filter(None, sys.path)) if os.path.exists(each)]
    facts = node_facts(wanted_table(path, package, folder, variables, data))
    return NodeRequirements(path, package, folder, variables, facts, data, digest)


def _cases(selection: Selection) -> list[Any]:
    """Return one case of each task."""
    return [*{(case.suite, case.task_key): case for cases in selection.cases.values() for case in cases}.values()]


def worker_variables(variables: Mapping[str, str]) -> dict[str, str | None]:
    """Return the environment for far workers: all variables but those of one machine or session."""
    return {
        name: value
        for name, value in variables.items()
        if name not in _OF_MACHINE and not name.startswith(_OF_MACHINES)
    }


# A connection to a worker on another machine, as execnet wants one.


class FarIO:
    """A socket with execnet's interface for reading and writing.

    Args:
        connection: connected, blocking; belongs to this object.
        execmodel: execnet's.
        kill: kills the worker at the other end.
    """

    def __init__(self, connection: socket.socket, execmodel: Any, kill: Callable[[], None]) -> None:
        self.execmodel, self.kill = execmodel, kill
        self._connection, self._stream = connection, connection.makefile("rb")

    def read(self, numbytes: int) -> bytes:
        """Read exactly `numbytes` bytes. Raises EOFError if the connection is closed."""
        try:
            found = self._stream.read(numbytes)
        except (OSError, ValueError) as error:
            raise EOFError(f"the connection is broken: {error}") from error
        if len(found) < numbytes:
            raise EOFError(f"expected {numbytes} bytes, got {len(found)}")
        return found

    def write(self, data: bytes) -> None:
        """Send all of the data. Raises OSError."""
        self._connection.sendall(data)

    def close_read(self) -> None:
        """Close the reading side."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)

    def close_write(self) -> None:
        """Close the writing side."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def wait(self) -> None:
        """Do nothing: the host waits for the worker's process."""


# Workers of pytest-xdist that come when there is a machine for them: none is waited for, and none has to come.
#
# pytest-xdist starts its workers one after the other and waits for each; a worker of a cluster may come in an hour.
# So a worker is entered at once, with nothing behind it, and gets what it needs when its machine calls. What of
# pytest-xdist's inner parts is replaced for it stands in this module alone.

PutEvent = Callable[[tuple[str, dict[str, Any]]], None]

_ARRIVED, _END = "vla_arrived", "vla_end"


@dataclass
class _Awaited:
    """A stand-in for the gateway of a worker that has not come yet."""

    spec: Any
    id: str

    def exit(self) -> None:
        """Do nothing: there is no process yet."""


class LateWorkers:
    """Has a `DSession` take workers as they come.

    Args:
        dsession: pytest-xdist's plugin of this session.
        start: called with the name of a worker that is wanted; does not wait.
        drop: called with the name of a worker that is not wanted any more and has not come.
    """

    def __init__(self, dsession: Any, start: Callable[[str], None], drop: Callable[[str], None]) -> None:
        self._dsession, self._start, self._drop = dsession, start, drop
        self._awaited: dict[str, tuple[WorkerController, PutEvent]] = {}
        manager: NodeManager = dsession.nodemanager
        self._manager = manager
        manager.setup_node = self._enter
        setattr(dsession, f"worker_{_ARRIVED}", self._take)
        setattr(dsession, f"worker_{_END}", self._trigger_shutdown)
        self._shut_down = dsession.triggershutdown
        dsession.triggershutdown = self._trigger_shutdown

    @property
    def awaited(self) -> int:
        """The number of workers that have not come yet."""
        return len(self._awaited)

    def arrived(self, name: str, connection: socket.socket, kill: Callable[[], None]) -> None:
        """Take a worker whose machine has called; from any thread.

        Args:
            name: the worker's name.
            connection: leads to a bare interpreter, which reads it as its standard input.
            kill: kills the worker.

        Raises:
            OSError, EOFError: the worker is gone already.
            KeyError: it is not wanted any more.
        """
        spec: Any = execnet.XSpec(f"popen//id={name}//execmodel=main_thread_only")
        spec.far = True
        io = FarIO(connection, self._manager.group.execmodel, kill)
        bootstrap_exec(io, spec)
        gateway = execnet.Gateway(io, spec)
        # xdist asks for it from its own thread, which is not to wait.
        gateway._rinfo()
        node, put = self._awaited[name]
        put((_ARRIVED, {"node": node, "gateway": gateway}))

    def lost(self, name: str, why: str) -> None:
        """Give up a worker that will not come; another is started, as after a crash. From any thread.

        Raises:
            KeyError: it is not wanted any more, or has come.
        """
        node, put = self._awaited.pop(name)
        put(("errordown", {"node": node, "error": why}))

    def end(self) -> None:
        """End the run although nothing has run; from any thread."""
        for _, put in [*self._awaited.values()][:1]:
            put((_END, {}))

    def _enter(self, spec: Any, putevent: PutEvent) -> WorkerController:
        spec.far = True
        node = WorkerController(self._manager, _Awaited(spec, spec.id), self._manager.config, putevent)
        self._awaited[spec.id] = node, putevent
        self._start(spec.id)
        return node

    def _take(self, node: WorkerController, gateway: execnet.Gateway) -> None:
        """Enter a worker that has come, in xdist's own thread."""
        name = gateway.id
        self._manager.group._register(gateway)
        # At once: another thread may tell at this moment that it is lost.
        _, put = self._awaited.pop(name, (None, None))
        if put is None:
            gateway.exit()
            return
        gateway.node = node  # type: ignore[attr-defined]
        node.gateway = gateway
        if self._dsession.shuttingdown:
            self._drop(name)
            self._leave(node, put)
            return
        self._manager.config.hook.pytest_xdist_newgateway(gateway=gateway)
        try:
            node.setup()
        except (OSError, EOFError) as error:
            put(("errordown", {"node": node, "error": str(error)}))

    def _trigger_shutdown(self) -> None:
        self._shut_down()
        for name in list(self._awaited):
            # It may be lost at this moment, and then is told so.
            node, put = self._awaited.pop(name, (None, None))
            self._drop(name)
            if node is not None and put is not None:
                self._leave(node, put)

    def _leave(self, node: WorkerController, put: PutEvent) -> None:
        """Report the end of a worker that has done nothing."""
        node.workeroutput = {"exitstatus": int(pytest.ExitCode.OK), "shouldfail": False, "shouldstop": False}
        node._down = True
        put(("workerfinished", {"node": node}))
