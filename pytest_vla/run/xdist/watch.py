"""The controller's eye on its workers: one that is past its limit and cannot end itself is killed from outside."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from pytest_vla.util.processes import Patience, is_stopped
from pytest_vla.util.wall_limits import GRACE

LATER = 5.0
"""Seconds beyond limit and grace: a worker that can end itself says where it hung, and is to come first."""

LOOK_SECONDS = 0.5


@dataclass
class _Watched:
    """A worker.

    Attributes:
        pid: its process on this machine; None: it is on another.
        kill: ends it.
        spent: seconds since its episode began; None: it is in none.
        stopped: seconds for which it has been stopped.
    """

    pid: int | None
    kill: Callable[[], None]
    spent: float | None = None
    stopped: float = 0.0


class Watch:
    """Kills workers whose episode is past limit and grace, and those that are stopped for as long, wherever they are.

    Belongs to the controller; may be told from any thread.
    """

    def __init__(self, limit: float) -> None:
        """Starts a thread.

        Args:
            limit: seconds of ``--vla-timeout``.
        """
        self._limit = limit
        self._workers: dict[str, _Watched] = {}
        self._killed: dict[str, str] = {}
        self._lock, self._closing = threading.Lock(), threading.Event()
        threading.Thread(target=self._run, name="vla-watch", daemon=True).start()

    def add(self, worker: str, pid: int | None, kill: Callable[[], None]) -> None:
        """A worker has come.

        Args:
            worker: its id.
            pid: its process on this machine; None: it is on another.
            kill: ends it, also where it is stopped.
        """
        with self._lock:
            self._workers[worker] = _Watched(pid, kill)

    def episode(self, worker: str, runs: bool) -> None:
        """A worker's episode has begun, or ended."""
        with self._lock:
            if worker in self._workers:
                self._workers[worker].spent = 0.0 if runs else None

    def remove(self, worker: str) -> None:
        """A worker is gone."""
        with self._lock:
            self._workers.pop(worker, None)

    def why_killed(self, worker: str) -> str | None:
        """Why a worker was killed; None: it was not."""
        return self._killed.get(worker)

    def close(self) -> None:
        """Ends the thread."""
        self._closing.set()

    def _run(self) -> None:
        patience = Patience()
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
