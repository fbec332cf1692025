"""Workers of pytest-xdist that come when there is a machine for them: none is waited for, and none has to come.

pytest-xdist starts its workers one after the other and waits for each; a worker of a cluster may come in an hour. So a
worker is entered at once, with nothing behind it, and gets what it needs when its machine calls. What of pytest-xdist's
inner parts is replaced for it stands in this module alone.
"""

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import execnet
import pytest
from execnet.gateway_bootstrap import bootstrap_exec
from xdist.workermanage import NodeManager, WorkerController

from pytest_vla.run.xdist.far_io import FarIO

PutEvent = Callable[[tuple[str, dict[str, Any]]], None]

_ARRIVED, _END = "vla_arrived", "vla_end"


@dataclass
class _Awaited:
    """What stands for the gateway of a worker that has not come."""

    spec: Any
    id: str

    def exit(self) -> None:
        """There is nothing to end."""


class LateWorkers:
    """Has a `DSession` take workers as they come.

    Args:
        dsession: pytest-xdist's plugin of this session.
        start: called with the name of a worker that is wanted, and with `arrived`'s first argument; does not wait.
        drop: called with the name of one that is not wanted any more and has not come.
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
        """How many workers have not come."""
        return len(self._awaited)

    def arrived(self, name: str, connection: socket.socket, kill: Callable[[], None]) -> None:
        """A worker's machine has called; from any thread.

        Args:
            name: of the worker.
            connection: leads to a bare interpreter, which reads it as its standard input.
            kill: ends the worker.

        Raises:
            OSError, EOFError: it is gone already.
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
        """A worker that has not come will not; another is started, as if it had crashed. From any thread.

        Raises:
            KeyError: it is not wanted any more, or has come.
        """
        node, put = self._awaited.pop(name)
        put(("errordown", {"node": node, "error": why}))

    def end(self) -> None:
        """The run is to end, though nothing has run; from any thread."""
        for _, put in [*self._awaited.values()][:1]:
            put((_END, {}))

    def _enter(self, spec: Any, putevent: PutEvent) -> WorkerController:
        spec.far = True
        node = WorkerController(self._manager, _Awaited(spec, spec.id), self._manager.config, putevent)
        self._awaited[spec.id] = node, putevent
        self._start(spec.id)
        return node

    def _take(self, node: WorkerController, gateway: execnet.Gateway) -> None:
        """In xdist's own thread: a worker is there."""
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
        """A worker ends that has done nothing."""
        node.workeroutput = {"exitstatus": int(pytest.ExitCode.OK), "shouldfail": False, "shouldstop": False}
        node._down = True
        put(("workerfinished", {"node": node}))
