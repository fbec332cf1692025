"""The copies of a run's policy in a cluster: their places, the workers of each, and the replacement of lost ones."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.scale.ray_cluster import FarActor, RayCluster
from pytest_vla.serving.process import About, NotBatched, NotShared
from pytest_vla.serving.stats import ServingStats, seen_of

MOST_LOSSES = 20
"""How often a copy is replaced that was lost with its machine, or by itself."""

_FIRST_LOSSES = 3
"""Likewise while the policy is loaded for the first time."""

_OTHER_WEIGHTS = "its weights differ from the first copy's"
_LOOK_SECONDS = 1.0
_ASK_SECONDS = 30.0
_LONGEST_LOADING = 3600.0


class _Copy:
    """One copy of the policy; a replaced copy gets a new actor."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.actor: FarActor | None = None
        self.begun: Mapping[str, Any] | None = None
        self.seen = ServingStats()
        self.losses = 0
        self.workers: set[str] = set()
        self.failed: str | None = None


class FarReplicas:
    """The policy's copies in a cluster, with the interface of `pytest_vla.serving.replicas.Replicas`.

    Attributes:
        about: the policy.
        patience: seconds after which a worker without an answer gives up.
    """

    def __init__(
        self,
        cluster: RayCluster,
        spec: ModelSpec,
        most: int,
        copies: int,
        *,
        gpus: float,
        variables: Mapping[str, str | None],
        told: Callable[[float], None] = lambda seconds: None,
        notice: Callable[[str], None] = lambda text: None,
        printed: Callable[[bytes], None] = lambda text: None,
    ) -> None:
        """Start the copies, and wait until the first has loaded the policy; the others take part once they have loaded.

        Args:
            cluster: to start them in.
            spec: of the policy.
            most: questions in a batch.
            copies: number of copies.
            gpus: of the cluster that each takes. No processor is claimed.
            variables: of their processes' environment; a value of None removes the variable.
            told: called about once a second while the first loads, with the seconds that it took so far.
            notice: called from another thread with later events, for a person.
            printed: called from another thread with the policy's output.

        Raises:
            NotBatched: the policy is no `BatchPolicy`.
            VlaError: it could not be loaded.
        """
        self._cluster, self._notice, self._printed = cluster, notice, printed
        self._gpus = gpus
        self._table = {
            "spec": spec.table(),
            "most": most,
            "processes": copies,
            "host": "",
            "variables": dict(variables),
        }
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._is_first_over = threading.Event()
        self._copies = [_Copy(number) for number in range(copies)]
        self._first: Mapping[str, Any] | None = None
        try:
            for copy in self._copies:
                self._start(copy)
            self._await_first(told)
        except BaseException:
            self.close()
            raise
        for copy in self._copies:
            threading.Thread(target=self._watch, args=(copy,), name="vla-replica", daemon=True).start()

    def places(self, worker: str, node: str | None) -> dict[str, Any]:
        """Assign a worker to a copy: the one on its own machine, else the one with the fewest workers.

        Args:
            worker: its name; it is counted at that copy from now on.
            node: the id of the node that it is on.

        Returns:
            Table with ``path``, ``network``, ``near`` (whether it is the same machine); or ``lost``, the reason if all
            copies have failed for good. Empty if no copy is ready yet.
        """
        with self._lock:
            for copy in self._copies:
                copy.workers.discard(worker)
            there = [copy for copy in self._copies if copy.begun is not None and copy.actor is not None]
            if not there:
                failed = [copy.failed for copy in self._copies]
                return {"lost": failed[0]} if all(failed) else {}
            share = -(-sum(len(copy.workers) for copy in self._copies) // len(self._copies)) + 1
            near = [copy for copy in there if copy.actor.node == node and len(copy.workers) < 2 * share]  # type: ignore[union-attr]
            copy = min(near or there, key=lambda each: (len(each.workers), each.number))
            copy.workers.add(worker)
            assert copy.begun is not None
            assert copy.actor is not None
            found = {"path": copy.begun["path"], "network": copy.begun["network"]}
            return {**found, "near": copy.actor.node == node}

    def release(self, worker: str) -> None:
        """Remove a worker that is gone from its copy."""
        with self._lock:
            for copy in self._copies:
                copy.workers.discard(worker)

    def seen(self) -> tuple[ServingStats, ...]:
        """Return each copy's statistics of the run, at most about two seconds old."""
        return tuple(copy.seen for copy in self._copies)

    def close(self) -> None:
        """End all copies."""
        self._closing.set()
        for copy in self._copies:
            if copy.actor is not None:
                with suppress(VlaError):
                    self._cluster.ask(copy.actor, "close", seconds=5.0)
                self._cluster.kill(copy.actor)

    def _start(self, copy: _Copy) -> None:
        copy.begun = None
        copy.actor = self._cluster.start(
            f"copy {copy.number + 1} of the policy",
            "pytest_vla.scale.ray_hosts",
            "PolicyHost",
            self._table,
            # Else a worker that waits for room would take that of a copy that is lost, and wait for it for ever.
            cpus=0.0,
            gpus=self._gpus,
            failed=lambda why, by_machine: None,
        )

    def _await_first(self, told: Callable[[float], None]) -> None:
        began = time.monotonic()
        found: list[Mapping[str, Any] | VlaError] = []
        waiting = [threading.Thread(target=self._ask_first, args=(each, found), daemon=True) for each in self._copies]
        for thread in waiting:
            thread.start()
        while not found and any(thread.is_alive() for thread in waiting):
            waiting[0].join(_LOOK_SECONDS) if waiting[0].is_alive() else time.sleep(0.05)
            told(time.monotonic() - began)
        # Who still loads is followed by `_watch` from now on, and by nobody else.
        self._is_first_over.set()
        first = self._first
        for answer in found if first is None else ():
            if isinstance(answer, VlaError):
                raise answer
            if "not_batched" in answer:
                raise (NotShared if answer["not_shared"] else NotBatched)(answer["not_batched"])
            if "error" in answer:
                raise VlaError(answer["error"])
        if first is None:
            raise VlaError("no copy of the policy could be loaded in the cluster")
        self.about = About(**first["about"])
        self.patience: float = first["patience"]

    def _ask_first(self, copy: _Copy, found: list[Mapping[str, Any] | VlaError]) -> None:
        while True:
            try:
                found.append(self._load(copy))
            except VlaError as error:
                if self._is_first_over.is_set():
                    return
                copy.losses += 1
                if copy.losses > _FIRST_LOSSES or self._closing.is_set():
                    found.append(error)
                    return
                self._start(copy)
            else:
                return

    def _load(self, copy: _Copy) -> Mapping[str, Any]:
        """Wait until a copy has loaded, and enter it."""
        actor = copy.actor
        assert actor is not None
        answer: Mapping[str, Any] = self._cluster.ask(actor, "begun", seconds=_LONGEST_LOADING)
        if "about" not in answer:
            return answer
        self._cluster.place(actor)
        with self._lock:
            # The first that is there is what the run's records name.
            self._first = self._first or answer
            is_same = About(**answer["about"]).digest == About(**self._first["about"]).digest
            if is_same:
                copy.begun = answer
            else:
                copy.failed = _OTHER_WEIGHTS
        if not is_same:
            self._notice(f"{actor.name}: {_OTHER_WEIGHTS}; it is not used")
            self._cluster.kill(actor)
        return answer

    def _watch(self, copy: _Copy) -> None:
        """Follow a copy, and replace it if it is lost."""
        while not self._closing.wait(_LOOK_SECONDS):
            assert copy.actor is not None
            try:
                if copy.begun is None:
                    answer = self._load(copy)
                    if "about" not in answer:
                        raise VlaError(str(answer.get("error") or answer.get("not_batched")))
                if copy.failed is not None:
                    return
                state: Mapping[str, Any] = self._cluster.ask(copy.actor, "state", seconds=_ASK_SECONDS)
            except VlaError as error:
                if self._closing.is_set() or not self._replace(copy, str(error)):
                    return
                continue
            copy.seen = seen_of(state["seen"])
            for notice in state["notices"]:
                self._notice(notice)
            if state["printed"]:
                self._printed(state["printed"])
            if state["lost"] is not None:
                with self._lock:
                    copy.begun, copy.failed = None, state["lost"]
                return

    def _replace(self, copy: _Copy, why: str) -> bool:
        """Start another copy in place of a lost one; return whether one was started."""
        assert copy.actor is not None
        with self._lock:
            copy.begun = None
        copy.losses += 1
        self._cluster.kill(copy.actor)
        if copy.losses > MOST_LOSSES:
            copy.failed = f"{why}, for the {copy.losses}th time"
            self._notice(copy.failed)
            return False
        self._notice(f"{why}; another is started in its place, and its open episodes run again")
        self._start(copy)
        return True
