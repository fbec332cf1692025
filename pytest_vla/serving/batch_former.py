"""Form batches: keep the questions that wait for a policy, and decide which of them go to it next.

Two servers use it: the desk of a run (`pytest_vla.serving.batch_server`), whose workers share memory with it, and the
policy's thread behind the websocket server (`pytest_vla.serving.batching`). How long an incomplete batch waits for more
questions is a rule of its own (`pytest_vla.serving.dispatch`).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Generic, Protocol, TypeVar

from pytest_vla.serving.dispatch import Dispatch


class Waiting(Protocol):
    """An item that waits for the policy.

    Attributes:
        came: when it came, in seconds by the clock that `BatchFormer.take` is given.
    """

    @property
    def came(self) -> float: ...


T = TypeVar("T", bound=Waiting)


class BatchFormer(Generic[T]):
    """The questions that wait for one policy, oldest first.

    Questions form batches of at most `Dispatch.most`. An item that has to be alone takes its turn by age: it precedes
    the batch if it is older than all of the batch's questions, and also while an incomplete batch waits.
    """

    def __init__(self, rule: Dispatch) -> None:
        """Start empty; `rule` says how long an incomplete batch waits and how large a batch may be."""
        self._rule = rule
        self._together: deque[T] = deque()
        self._alone: deque[T] = deque()

    def __iter__(self) -> Iterator[T]:
        """Iterate over all that waits."""
        return chain(self._alone, self._together)

    @property
    def together(self) -> Iterable[T]:
        """The questions that may go together, oldest first."""
        return self._together

    def add(self, item: T, *, alone: bool = False) -> None:
        """Let an item wait; `alone` if it may be in no batch with others."""
        (self._alone if alone else self._together).append(item)

    def remove(self, item: T) -> None:
        """Let an item wait no longer; do nothing if it does not wait."""
        for queue in (self._alone, self._together):
            if item in queue:
                queue.remove(item)

    def take(self, now: float, *, at_once: bool = False) -> tuple[list[T], float | None]:
        """Remove and return the items that go to the policy now.

        Args:
            now: the current time.
            at_once: whether a batch goes without waiting for more questions.

        Returns:
            The questions of a batch, oldest first, or one item that has to be alone; empty if nothing goes yet. Then
            the moment at which an incomplete batch goes if nothing happens before, or None if there is no such batch.
        """
        if self._alone and (not self._together or self._alone[0].came <= self._together[0].came):
            return [self._alone.popleft()], None
        if not self._together:
            return [], None
        size = len(self._together)
        due = now if at_once or size >= self._rule.most else self._rule.until(size, now)
        if due <= now:
            return [self._together.popleft() for _ in range(min(size, self._rule.most))], None
        if self._alone:
            # The batch is not ready, and the policy would do nothing.
            return [self._alone.popleft()], None
        return [], due
