"""Questions of many episodes to one policy in this process, answered in batches by a thread of its own.

When a batch goes is said by `pytest_vla.serving.dispatch`, as in the policy's process of a run.
"""

import collections
import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pytest_vla.policies.base import Answer, BatchPolicy, Observation
from pytest_vla.serving.calls import call_policy, late
from pytest_vla.serving.dispatch import Dispatch

_PARTS = 4  # Of a plan, before a call.
_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5


@dataclass(frozen=True)
class Question:
    """What one session asks: its state, an observation, who it is, its generator, and where the answer goes."""

    state: Any
    observation: Observation
    session: Hashable = None
    alone: bool = False
    noise: np.random.Generator | None = None
    asked: float = field(default_factory=time.monotonic)
    answer: "Future[Answer]" = field(default_factory=Future)


@dataclass(frozen=True)
class _Ended:
    """A session has ended."""

    session: Hashable


@dataclass(frozen=True)
class _Call:
    """Something else that only the policy's thread may do."""

    function: Callable[[], Any]
    result: "Future[Any]" = field(default_factory=Future)


_Item = Question | _Call | _Ended | None


class Batcher:
    """The one thread that calls a policy.

    Attributes:
        sizes: how many batches there were of each size.
        sessions: how many sessions are open.
        busy_since: when the call began that the policy is at, by the monotonic clock; None: it is at none.
    """

    def __init__(
        self,
        policy: BatchPolicy,
        most: int,
        *,
        limit: float | None = None,
        hung: Callable[[], None] = lambda: None,
    ) -> None:
        """Starts the thread.

        Args:
            policy: called in that thread only.
            most: questions in a batch; the policy's own limit holds too.
            limit: seconds that one call of the policy may take; who is in it then gets ``policy-timeout``.
            hung: called after that, from another thread: the policy's thread is lost.
        """
        self._policy, self._most = policy, max(1, min(most, policy.max_batch))
        self._waiting: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        # Taken from the queue before its turn.
        self._held: collections.deque[_Item] = collections.deque()
        self.sizes: dict[int, int] = {}
        self.busy_since: float | None = None
        self.sessions = 0
        self._lock = threading.Lock()
        self._rule = Dispatch(self._most)
        # What the policy is at: who gets its answer.
        self._current: tuple[Future[Any], ...] = ()
        self._thread = threading.Thread(target=self._run, name="vla-policy", daemon=True)
        self._thread.start()
        if limit is not None:
            threading.Thread(target=self._watch, args=(limit, hung), name="vla-watch", daemon=True).start()

    def begin(self, session: Hashable) -> None:
        """A session is open; it may ask one question at a time."""
        with self._lock:
            self.sessions += 1

    def ask(
        self,
        state: Any,
        observation: Observation,
        session: Hashable = None,
        *,
        alone: bool = False,
        noise: np.random.Generator | None = None,
    ) -> "Future[Answer]":
        """The answer to come, checked, or what the policy raised.

        Raised on a batch of several it becomes an EpisodeError `BATCH_FAILED` of each.

        Args:
            state: of the session.
            observation: what it sees.
            session: who asks; None: somebody whose return is not waited for.
            alone: in a batch of its own.
            noise: of the session; the global generators are seeded by those of a batch's questions.
        """
        question = Question(state, observation, session, alone, noise)
        self._waiting.put(question)
        return question.answer

    def end(self, session: Hashable) -> None:
        """A session has ended, and will not ask again."""
        with self._lock:
            self.sessions -= 1
        self._waiting.put(_Ended(session))

    def call(self, function: Callable[[], Any]) -> "Future[Any]":
        """What a function will give in the policy's thread, between two batches, or what it raises."""
        call = _Call(function)
        self._waiting.put(call)
        return call.result

    def close(self) -> None:
        """Ends the thread after what was asked of it."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._held.popleft() if self._held else self._waiting.get()) is not None:
            if isinstance(item, _Ended):
                self._rule.gone(item.session, time.monotonic())
            elif isinstance(item, _Call):
                self._do(item)
            else:
                self._answer(self._gathered(item))

    def _gathered(self, first: Question) -> list[Question]:
        """The next batch."""
        self._rule.asked(first.session, first.asked)
        batch = [first]
        while len(batch) < self._most and not first.alone:
            try:
                item = self._next(len(batch))
            except queue.Empty:
                break
            if isinstance(item, _Ended):
                self._rule.gone(item.session, time.monotonic())
                # Its question may be in this very batch: whoever gave up will not return.
                batch = [replace(other, session=None) if other.session is item.session else other for other in batch]
            elif isinstance(item, Question) and not item.alone:
                self._rule.asked(item.session, item.asked)
                batch.append(item)
            else:
                self._held.append(item)
                break
        return batch

    def _next(self, size: int) -> _Item:
        """What comes next, as long as a batch of this size should wait for it; queue.Empty."""
        while True:
            try:
                return self._waiting.get_nowait()
            except queue.Empty:
                now = time.monotonic()
                rest = self._rule.until(size, now) - now
                if rest <= 0:
                    raise
            with suppress(queue.Empty):
                return self._waiting.get(timeout=rest)

    def _answer(self, batch: Sequence[Question]) -> None:
        # A worker that gave up does not ask any more.
        batch = [question for question in batch if question.answer.set_running_or_notify_cancel()]
        if not batch:
            return
        for _ in range(_PARTS):
            if not self._rule.plan():
                break
        self.sizes[len(batch)] = self.sizes.get(len(batch), 0) + 1
        self._begin_call([question.answer for question in batch])
        began = time.monotonic()
        answers = call_policy(
            self._policy,
            [question.state for question in batch],
            [question.observation for question in batch],
            [question.noise for question in batch if question.noise is not None],
        )
        self._end_call()
        now = time.monotonic()
        self._rule.took(len(batch), now - began)
        for question, answer in zip(batch, answers, strict=True):
            if isinstance(answer, BaseException):
                _refuse(question.answer, answer)
                continue
            with suppress(InvalidStateError):
                question.answer.set_result(answer)
            if question.session is not None:
                self._rule.answered(question.session, now)

    def _do(self, call: _Call) -> None:
        if not call.result.set_running_or_notify_cancel():
            return
        self._begin_call([call.result])
        try:
            result = call.function()
        except BaseException as error:
            _refuse(call.result, error)
        else:
            with suppress(InvalidStateError):
                call.result.set_result(result)
        self._end_call()

    def _begin_call(self, answers: Sequence["Future[Any]"]) -> None:
        self._current = tuple(answers)
        self.busy_since = time.monotonic()

    def _end_call(self) -> None:
        self.busy_since = None
        self._current = ()

    def _watch(self, limit: float, hung: Callable[[], None]) -> None:
        while self._thread.is_alive():
            time.sleep(min(max(limit / 8, _SHORTEST_LOOK), _LONGEST_LOOK))
            # In this order: what is current is no older than the call.
            since, current = self.busy_since, self._current
            if since is not None and time.monotonic() - since > limit:
                for answer in current:
                    _refuse(answer, late(limit))
                hung()
                return


def _refuse(answer: "Future[Any]", error: BaseException) -> None:
    # One that was late may have its refusal already.
    with suppress(InvalidStateError):
        answer.set_exception(error)
