"""Records and endings of a run, written in their order: one by one as long as they come slowly, else in groups.

A transaction ends on the disk, which takes milliseconds whatever is in it. So there is a pause after each, and what
comes in it is written together when it is over: by the next call, or by a thread where none comes. What comes later
than that is on the disk when `Writer.put` returns. A killed process loses what came in one pause, a fraction of a
second, and of what it has no hole: whatever is on the disk, all that came before is there too.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.records.record import Record

if TYPE_CHECKING:
    from pytest_vla.records.store import Store

Ending = tuple[str, str]
"""The node id of an item, and a status as `Store.mark` takes it."""

LEAST_PAUSE, MOST_PAUSE = 0.01, 0.25
"""Seconds from one transaction's end to the next one."""

_TIMES = 4.0
"""The pause, in the time that the last transaction took: writing takes a fifth of all time at most."""


class Writer:
    """Writes into an open store; the run has begun. Whatever cannot be written raises VlaError, from the next call on.

    Of one thread, as the store is, but for `settle`.
    """

    def __init__(
        self, store: "Store", run: str, *, in_groups: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Nothing is begun.

        Args:
            store: of the caller's thread.
            run: its full name.
            in_groups: whether there are pauses; False: everything is on the disk when `put` returns.
            clock: seconds, monotonic.
        """
        self._store, self._run, self._in_groups, self._clock = store, run, in_groups, clock
        self._due = float("-inf")
        """When the pause after the last transaction is over."""
        self._pause = LEAST_PAUSE
        self._changed = threading.Condition()
        self._waiting: list[Record | Ending] = []
        self._is_writing = self._is_closed = self._is_told = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def put(self, changes: Sequence[Record | Ending], *, at_once: bool = False) -> None:
        """Write records and endings after all that came before.

        Args:
            changes: in their order.
            at_once: whether they are to be on the disk when this returns, however many come.
        """
        if not changes:
            return
        with self._changed:
            self._raise()
            self._waiting += changes
            if at_once or not self._in_groups or self._clock() >= self._due:
                self._changed.wait_for(lambda: not self._is_writing)
                self._raise()
                self._write_here()
            elif self._thread is None:
                self._thread = threading.Thread(target=self._write_what_is_left, name="vla-store", daemon=True)
                self._thread.start()
            elif len(self._waiting) == len(changes):
                self._changed.notify_all()

    def settle(self, timeout: float | None = None) -> None:
        """Return when all is on the disk that can be written, or after `timeout` seconds; raises nothing."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting and not self._is_writing, timeout)

    def close(self) -> None:
        """All is on the disk, and no thread runs any more. Raises what could not be written, unless `put` has."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        with self._changed:
            if not self._is_told:
                self._raise()
                self._write_here()

    def _raise(self) -> None:
        if self._error is not None:
            self._is_told = True
            raise self._error

    def _write_here(self) -> None:
        try:
            self._write(self._store)
        except BaseException:
            self._is_told = True
            raise

    def _fail(self, error: BaseException) -> None:
        self._error = error
        self._waiting.clear()
        self._changed.notify_all()

    def _write(self, store: "Store") -> None:
        """Write what waits. The lock is held when this is called, and not while it writes."""
        group, self._waiting = self._waiting, []
        if not group:
            return
        self._is_writing = True
        self._changed.release()
        began, error = self._clock(), None
        try:
            _write_group(store, self._run, group)
        except BaseException as raised:
            error = raised
        ended = self._clock()
        self._changed.acquire()
        self._pause = min(max(LEAST_PAUSE, _TIMES * (ended - began)), MOST_PAUSE)
        self._due, self._is_writing = ended + self._pause, False
        self._changed.notify_all()
        if error is not None:
            # Nothing is written after what could not be: there would be a hole.
            self._fail(error)
            raise error

    def _write_what_is_left(self) -> None:
        """Of a thread: write what nobody has written a pause after it could be."""
        try:
            # A connection belongs to its thread.
            with self._store.again() as store, self._changed:
                while not self._is_closed:
                    left = self._due + self._pause - self._clock()
                    if not self._waiting or self._is_writing:
                        self._changed.wait()
                    elif left > 0:
                        self._changed.wait(left)
                    else:
                        self._write(store)
        except BaseException as error:
            with self._changed:
                self._fail(error)


def _write_group(store: "Store", run: str, group: Sequence[Record | Ending]) -> None:
    try:
        store.write(run, group)
    except VlaError:
        if len(group) == 1:
            raise
        # One that cannot be written takes nothing with it that came before.
        for change in group:
            store.write(run, [change])
