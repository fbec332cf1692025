"""Records and endings of a run, written in their order: one by one as long as they come slowly, else in groups.

A transaction ends on the disk, which takes milliseconds whatever is in it. While records come slowly each has one of
its own, and is on the disk when `Writer.put` returns. Those that come while the last one is being written, or sooner
after it than it took, are written by a thread, all that have come since its last transaction in the next one: `put`
returns at once. A killed process loses what came in these milliseconds, from the end: of whatever is on the disk, all
that came before is there too.
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

MOST_IN_GROUP = 256
"""Of records and endings: another process that writes waits no longer than for these."""

MOST_WAITING = 8 * MOST_IN_GROUP
"""From which on `Writer.put` waits: where the disk is slower than what comes, memory is not to fill."""


class Writer:
    """Writes into an open store; the run has begun. Whatever cannot be written raises VlaError, from the next call on.

    Of one thread, as the store is.
    """

    def __init__(
        self, store: "Store", run: str, *, in_groups: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Nothing is begun.

        Args:
            store: of the caller's thread.
            run: its full name.
            in_groups: whether a thread may write; False: everything is on the disk when `put` returns.
            clock: seconds, monotonic.
        """
        self._store, self._run, self._in_groups, self._clock = store, run, in_groups, clock
        # Of the last transaction, when it ended, and how long it took.
        self._ended, self._took = float("-inf"), 0.0
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
            is_idle = not self._waiting and not self._is_writing
            is_slow = self._clock() - self._ended >= self._took
            if not is_idle or not (is_slow or at_once or not self._in_groups):
                self._changed.wait_for(lambda: len(self._waiting) < MOST_WAITING)
                self._raise()
                self._waiting += changes
                self._changed.notify_all()
                self._start()
                if at_once:
                    self._changed.wait_for(self._is_settled)
                    self._raise()
                return
        began = self._clock()
        self._store.write(self._run, changes)
        self._ended, self._took = self._clock(), self._clock() - began

    def settle(self, timeout: float | None = None) -> None:
        """Return when all is on the disk that can be written, or after `timeout` seconds; raises nothing."""
        with self._changed:
            self._changed.wait_for(self._is_settled, timeout)

    def close(self) -> None:
        """All is on the disk, and no thread runs any more. Raises what could not be written, unless `put` has."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        if not self._is_told:
            self._raise()

    def _is_settled(self) -> bool:
        return not self._waiting and not self._is_writing

    def _raise(self) -> None:
        if self._error is not None:
            self._is_told = True
            raise self._error

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_groups, name="vla-store", daemon=True)
            self._thread.start()

    def _write_groups(self) -> None:
        try:
            # A connection belongs to its thread.
            with self._store.again() as store:
                while group := self._next_group():
                    began = self._clock()
                    self._write(store, group)
                    with self._changed:
                        self._is_writing = False
                        self._ended, self._took = self._clock(), self._clock() - began
                        self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._error, self._is_writing = error, False
                self._waiting.clear()
                self._changed.notify_all()

    def _next_group(self) -> list[Record | Ending]:
        """What to write next; nothing: all is written and no more will come."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._is_closed)
            group, self._waiting = self._waiting[:MOST_IN_GROUP], self._waiting[MOST_IN_GROUP:]
            self._is_writing = bool(group)
            self._changed.notify_all()
            return group

    def _write(self, store: "Store", group: Sequence[Record | Ending]) -> None:
        try:
            store.write(self._run, group)
        except VlaError:
            if len(group) == 1:
                raise
            # One that cannot be written takes nothing with it that came before.
            for change in group:
                store.write(self._run, [change])
