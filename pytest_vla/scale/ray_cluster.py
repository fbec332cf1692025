"""Ray: start processes on other machines, and notice when they are gone. No other module imports ray.

No results pass through it: workers have a connection of their own to the process that holds the session
(`pytest_vla.scale.ray_hosts`), so that the object store stays empty however long a run is.
"""

import math
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.scale.far_object import FarObject
from pytest_vla.scale.node_facts import data_facts, node_facts
from pytest_vla.scale.nodes import Node, NodeRequirements, examined
from pytest_vla.util.extras import required

_REACH_SECONDS = 5.0
_FACTS_SECONDS = 90.0
_LOOK_SECONDS = 0.5
_ASK_SECONDS = 10.0
_NODE_LABEL = "ray.io/node-id"
_NODE, _CLOCK = "node_id", "clock"
_READINGS = 3
_STORE_BYTES = 100_000_000


@dataclass
class FarActor:
    """An actor that pytest-vla started.

    Attributes:
        name: shown to the user.
        handle: Ray's.
        node: the id of its node, or None if it has none yet.
    """

    name: str
    handle: Any
    node: str | None = None


class ActorGone(VlaError):
    """The error for an actor that is gone, with its machine or by itself."""


class RayCluster:
    """A connection to a Ray cluster. Thread-safe.

    Attributes:
        address: of this machine, by which the others reach it.
    """

    def __init__(self, address: str | None, wanted: NodeRequirements, notice: Callable[[str], None]) -> None:
        """Connect, and examine all nodes.

        Args:
            address: ``auto``, ``local``, or HOST:PORT of the head. None joins the cluster that this machine is part of;
                if there is none, Ray is started on this machine until this object is closed.
            wanted: requirements for a node.
            notice: called later, from another thread, with events of nodes.

        Raises:
            VlaError: ray is not installed, nobody answers at the address, or nodes lack something; the message names
                them.
        """
        self._ray = _connect(address)
        self._wanted, self._notice = wanted, notice
        self._refused: dict[str, str] = {}
        self._known: dict[str, Node] = {}
        self._lock, self._examining, self._closing = threading.Lock(), threading.Lock(), threading.Event()
        self._waiting: dict[Any, tuple[FarActor, Callable[[str, bool], None]]] = {}
        self._watcher: threading.Thread | None = None
        self.address: str = self._ray.util.get_node_ip_address()
        try:
            self._examine_all()
        except BaseException:
            self.close()
            raise
        self._watcher = threading.Thread(target=self._watch, name="vla-ray", daemon=True)
        self._watcher.start()

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes that are there and can run something."""
        alive = self._alive()
        return tuple(node for key, node in self._known.items() if key in alive)

    def resources(self) -> tuple[float, float]:
        """Return the numbers of processors and GPUs of the nodes that are there."""
        found = [each["Resources"] for each in self._alive().values()]
        return sum(each.get("CPU", 0.0) for each in found), sum(each.get("GPU", 0.0) for each in found)

    def largest(self) -> float:
        """Return the number of processors of the largest node."""
        return max((float(each["Resources"].get("CPU", 0.0)) for each in self._alive().values()), default=0.0)

    def start(
        self,
        name: str,
        module: str,
        kind: str,
        table: Mapping[str, Any],
        *,
        cpus: float,
        gpus: float = 0.0,
        failed: Callable[[str, bool], None],
    ) -> FarActor:
        """Start an actor as soon as there is room for it, on a node that meets the requirements; do not wait for it.

        Args:
            name: shown to the user.
            module: of its class.
            kind: its class.
            table: arguments of the class, of builtin types.
            cpus: processors that it takes.
            gpus: GPUs that it takes.
            failed: called, from another thread, if it could not be made or is gone, with the reason, and whether its
                machine is at fault.
        """
        options: dict[str, Any] = {"num_cpus": cpus, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}
        # Heads that are to run nothing have no processor, and what claims none would be put there.
        if barred := [*self._refused, *self._idle()]:
            options |= {"label_selector": {_NODE_LABEL: f"!in({','.join(barred)})"}}
        options |= {"max_restarts": 0, "max_concurrency": 4}
        handle = self._ray.remote(FarObject).options(**options).remote(self._wanted.path, module, kind, dict(table))
        actor = FarActor(name, handle)
        with self._lock:
            self._waiting[handle.node_id.remote()] = actor, failed
        return actor

    def place(self, actor: FarActor) -> Node:
        """Return the node that an actor is on; a new node is examined first.

        Raises:
            VlaError: the actor is gone, or its node does not meet the requirements and is not used from now on.
        """
        if actor.node is None:
            actor.node = str(self.ask(actor, _NODE))
        with self._examining:
            if actor.node in self._refused:
                raise VlaError(self._refused[actor.node])
            if actor.node not in self._known:
                found = self._examine([actor.node])
                if actor.node not in found:
                    raise VlaError(f"{actor.name}: its node is gone")
                node, trouble = found[actor.node]
                if trouble:
                    self._refused[actor.node] = trouble
                    self._notice(f"{trouble}; it is not used")
                    raise VlaError(trouble)
                self._known[actor.node] = node
                self._notice(f"node {node.name} has joined")
        return self._known[actor.node]

    def ask(self, actor: FarActor, method: str, *values: Any, seconds: float = _ASK_SECONDS) -> Any:
        """Return the result of an actor's method.

        Raises:
            ActorGone: it is gone.
            VlaError: it does not answer in time, or raised.
        """
        if self._closing.is_set():
            # Ray would join some cluster anew.
            raise ActorGone(f"{actor.name}: the cluster was left")
        try:
            handle = actor.handle
            if method in (_NODE, _CLOCK):
                asked = getattr(handle, method).remote()
            else:
                asked = handle.call.remote(method, *values)
            return self._ray.get(asked, timeout=seconds)
        except (self._ray.exceptions.GetTimeoutError, self._ray.exceptions.RayTaskError) as error:
            raise VlaError(f"{actor.name}: {_told(error)}") from error
        except Exception as error:
            # Ray has two dozen kinds.
            raise ActorGone(f"{actor.name}: {_told(error)}") from error

    def ahead(self, actor: FarActor) -> float:
        """Measure the seconds by which the clock of an actor's machine is ahead of this one's, to some milliseconds.

        0 if that is less than its reading takes.

        Raises:
            VlaError: the actor is gone, or does not answer in time.
        """
        best = (math.inf, 0.0)
        for _ in range(_READINGS):
            began = time.time()
            theirs = float(self.ask(actor, _CLOCK))
            ended = time.time()
            best = min(best, (ended - began, theirs - (began + ended) / 2))
        took, ahead = best
        return ahead if abs(ahead) > took else 0.0

    def kill(self, actor: FarActor) -> None:
        """End an actor and its processes; no error if it is gone."""
        if not self._closing.is_set():
            with suppress(Exception):
                self._ray.kill(actor.handle)

    def close(self) -> None:
        """Disconnect; all actors end."""
        self._closing.set()
        if self._watcher is not None:
            self._watcher.join()
        before = signal.getsignal(signal.SIGTERM)
        with suppress(Exception):
            self._ray.shutdown()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)

    def _alive(self) -> dict[str, dict[str, Any]]:
        """Return the nodes on which anything can run, by id."""
        return {
            node["NodeID"]: node
            for node in self._ray.nodes()
            if node["Alive"] and (node["Resources"].get("CPU") or node["Resources"].get("GPU"))
        }

    def _idle(self) -> list[str]:
        """Return the ids of nodes on which nothing is to run."""
        there = self._alive()
        return [node["NodeID"] for node in self._ray.nodes() if node["Alive"] and node["NodeID"] not in there]

    def _examine_all(self) -> None:
        keys = [*self._alive()]
        if self._wanted.data is not None and len(keys) > 1:
            self._notice(f"Ray: comparing code and data of {len(keys)} nodes")
        found = self._examine(keys)
        if not found:
            raise VlaError("--vla-ray: the cluster has no node with a processor: start some with `ray start --address`")
        troubles = [trouble for _, trouble in found.values() if trouble]
        if troubles:
            raise VlaError("--vla-ray: not every node can run this:\n  " + "\n  ".join(troubles))
        self._known = {key: node for key, (node, _) in found.items()}

    def _examine(self, keys: Sequence[str]) -> dict[str, tuple[Node, str]]:
        """Return each node with its problem (or an empty text), by node id, without nodes that went away."""
        facts = self._on_each(node_facts, keys)
        found = {key: examined(self._name(key), each, self._wanted) for key, each in facts.items()}
        sound = [key for key, (_, trouble) in found.items() if not trouble]
        if self._wanted.data is not None and sound:
            data = self._on_each(data_facts, sound, seconds=2000.0)
            for key in sound:
                node, _ = found.pop(key)
                if key in data:
                    found[key] = node, self._wanted.data_trouble(node.name, data[key])
        return found

    def _on_each(
        self, function: Callable[..., Any], keys: Sequence[str], seconds: float = _FACTS_SECONDS
    ) -> dict[str, dict[str, Any]]:
        from ray import cloudpickle
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        from pytest_vla.scale import node_facts as module

        # Whatever is installed over there.
        cloudpickle.register_pickle_by_value(module)
        task = self._ray.remote(function)
        tasks: dict[str, Any] = {}
        found: dict[str, dict[str, Any]] = {}
        for key in keys:
            where = NodeAffinitySchedulingStrategy(key, soft=False)
            began = time.time()
            tasks[key] = task.options(num_cpus=0, max_retries=0, scheduling_strategy=where).remote(self._wanted.table())
            found[key] = {"began": began}
        end = time.monotonic() + seconds
        waiting = {reference: key for key, reference in tasks.items()}
        while waiting and time.monotonic() < end:
            ready, _ = self._ray.wait([*waiting], num_returns=1, timeout=1.0)
            for reference in ready:
                key = waiting.pop(reference)
                try:
                    found[key] |= {"ended": time.time(), **self._ray.get(reference)}
                except self._ray.exceptions.RayTaskError as error:
                    found[key] |= {"trouble": _told(error)}
                except Exception:
                    # The node is gone, though the cluster may not know it yet.
                    del found[key]
        for key in waiting.values():
            found[key] |= {"trouble": f"no answer within {seconds:.0f} s"}
        return found

    def _name(self, key: str) -> str:
        for node in self._ray.nodes():
            if node["NodeID"] == key:
                return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']}, {key[:8]})"
        return key[:8]

    def _watch(self) -> None:
        """Report actors that could not be made, and nodes that are gone."""
        there = self._alive().keys()
        while not self._closing.wait(_LOOK_SECONDS):
            with suppress(Exception):
                now = self._alive().keys()
                for key in there - now:
                    if key in self._known:
                        self._notice(f"node {self._known[key].name} is gone")
                there = now
                self._look_at_actors()

    def _look_at_actors(self) -> None:
        with self._lock:
            waiting = dict(self._waiting)
        if not waiting:
            return
        ready, _ = self._ray.wait([*waiting], num_returns=len(waiting), timeout=0)
        for reference in ready:
            actor, failed = waiting[reference]
            with self._lock:
                del self._waiting[reference]
            try:
                actor.node = str(self._ray.get(reference))
            except self._ray.exceptions.RayTaskError as error:
                failed(_told(error), False)
            except Exception as error:
                creation = "Error in creation" in str(error) or "creation task" in str(error)
                failed(_told(error), not creation)


_AUTHENTICATION = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def cluster_cpus(address: str | None) -> float:
    """Connect this process to a cluster, and return its number of processors. Raises VlaError if that fails."""
    return float(_connect(address).cluster_resources().get("CPU", 0.0))


def _connect(address: str | None) -> Any:
    if address == "local" and not any(name in os.environ for name in _AUTHENTICATION):
        # Ray listens at all addresses of this machine. Its own default token is in a file that others may read. Set
        # before Ray is imported, which reads it then.
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ray = required("ray", "pip install 'pytest-vla[ray]'")
    if ray.is_initialized():
        return ray
    if address is not None and address.startswith("ray://"):
        raise VlaError(
            f"--vla-ray={address}: nodes cannot reach a Ray client, and workers connect to the pytest process. Start "
            "pytest on a machine of the cluster (ssh, `ray job submit`), with --vla-ray=auto"
        )
    if address not in (None, "auto", "local"):
        _check_reached(str(address))
    before = signal.getsignal(signal.SIGTERM)
    # What we start tells nobody of it, and keeps no objects.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own = {"object_store_memory": _STORE_BYTES} if address == "local" else {}
    try:
        ray.init(address, log_to_driver=False, logging_level="critical", include_dashboard=False, **own)
    except Exception as error:
        where = "" if address is None else f"={address}"
        raise VlaError(
            f"--vla-ray{where}: no Ray cluster could be joined: {_told(error)}. Start one: `ray start --head` on one "
            "machine and `ray start --address=HOST:6379` on each other"
        ) from error
    finally:
        # Ray's own would leave the run without an end.
        signal.signal(signal.SIGTERM, before)
    # Else the logs of nodes that are gone are printed into the middle of pytest's lines.
    inner = ray._private.worker
    if hasattr(inner, "print_to_stdstream"):
        inner.print_to_stdstream = lambda *told, **more: None
    return ray


def _check_reached(address: str) -> None:
    """Raise VlaError at once if nobody answers at an address; Ray tries for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise VlaError(f"--vla-ray={address}: expected HOST:PORT of the head, such as 10.0.0.1:6379, or auto, or local")
    try:
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise VlaError(
            f"--vla-ray={address}: no answer ({error}). Check that the head runs (`ray start --head`) and that this is "
            "its address (`ray status`)"
        ) from error


def _told(error: BaseException) -> str:
    """Return the last line of one of Ray's messages, which begin with stacks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = getattr(error, "cause", None)
    if cause is not None:
        return f"{type(cause).__name__}: {cause}"
    return lines[-1][:500] if lines else type(error).__name__
