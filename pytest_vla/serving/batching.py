"""Batches for a server in this process: one thread answers the questions of many episodes to one policy.

`pytest_vla.serving.batch_former` decides which questions form a batch, and when, as in a run's policy process.
"""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pytest_vla.policies.base import Answer, BatchPolicy, Observation
from pytest_vla.serving.batch_former import BatchFormer
from pytest_vla.serving.computing import call_policy, late
from pytest_vla.serving.dispatch import Dispatch

_PARTS = 4  # The most parts of a plan before a call.
_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5


@dataclass(eq=False)
class Question:
    """A question of one session.

    Attributes:
        state: the session's state.
        observation: the observation.
        session: the session that asks, or None if its next question is not waited for.
        alone: whether it must not share a batch.
        noise: the session's generator.
        came: the time of the question, by the monotonic clock.
        answer: receives the answer.
    """

    state: Any
    observation: Observation
    session: Hashable = None
    alone: bool = False
    noise: np.random.Generator | None = None
    came: float = field(default_factory=time.monotonic)
    answer: "Future[Answer]" = field(default_factory=Future)


@dataclass(frozen=True)
class _Ended:
    """The end of a session."""

    session: Hashable


@dataclass(eq=False)
class _Call:
    """Another call that only the policy's thread may make."""

    function: Callable[[], Any]
    alone: ClassVar[bool] = True
    came: float = field(default_factory=time.monotonic)
    result: "Future[Any]" = field(default_factory=Future)


_Work = Question | _Call


class Batcher:
    """The one thread that calls a policy.

    Attributes:
        sizes: the number of batches by size.
        sessions: the number of open sessions.
        busy_since: the begin of the policy's current call, by the monotonic clock, or None between calls.
    """

    def __init__(
        self,
        policy: BatchPolicy,
        most: int,
        *,
        limit: float | None = None,
        hung: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the thread.

        Args:
            policy: called in that thread only.
            most: the most questions in a batch; the policy's own limit also applies.
            limit: seconds that one call of the policy may take; its questions then get ``policy-timeout``.
            hung: called after that, from another thread: the policy's thread is lost.
        """
        self._policy = policy
        # Work that the thread has not received yet; None ends the thread.
        self._sent: queue.SimpleQueue[_Work | _Ended | None] = queue.SimpleQueue()
        self._is_closing = False
        self.sizes: dict[int, int] = {}
        self.busy_since: float | None = None
        self.sessions = 0
        self._lock = threading.Lock()
        self._rule = Dispatch(max(1, min(most, policy.max_batch)))
        self._former: BatchFormer[_Work] = BatchFormer(self._rule)
        # The futures of the policy's current call.
        self._current: tuple[Future[Any], ...] = ()
        self._thread = threading.Thread(target=self._run, name="vla-policy", daemon=True)
        self._thread.start()
        if limit is not None:
            threading.Thread(target=self._watch, args=(limit, hung), name="vla-watch", daemon=True).start()

    def begin(self, session: Hashable) -> None:
        """Open a session; it may ask one question at a time."""
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
        """Return a future for the checked answer, or for the policy's error.

        An error in a batch of several questions becomes an EpisodeError `BATCH_FAILED` for each.

        Args:
            state: the session's state.
            observation: the observation.
            session: the session that asks, or None if its next question is not waited for.
            alone: whether it gets a batch of its own.
            noise: the session's generator; those of a batch's questions seed the global generators.
        """
        question = Question(state, observation, session, alone, noise)
        self._sent.put(question)
        return question.answer

    def end(self, session: Hashable) -> None:
        """Close a session, which will not ask again."""
        with self._lock:
            self.sessions -= 1
        self._sent.put(_Ended(session))

    def call(self, function: Callable[[], Any]) -> "Future[Any]":
        """Return a future for the result of a function that the policy's thread calls between two batches."""
        call = _Call(function)
        self._sent.put(call)
        return call.result

    def close(self) -> None:
        """End the thread after the work that was already submitted."""
        self._sent.put(None)
        self._thread.join()

    def _run(self) -> None:
        rest: float | None = None
        while True:
            self._take_in(rest)
            batch, due = self._former.take(time.monotonic(), at_once=self._is_closing)
            if batch:
                self._do(batch)
                # More may be ready already.
                rest = 0.0
            elif self._is_closing:
                return
            else:
                rest = None if due is None else max(0.0, due - time.monotonic())

    def _take_in(self, seconds: float | None) -> None:
        """Take in all that was sent, after waiting up to `seconds` for the first of it; None to wait without limit."""
        with suppress(queue.Empty):
            sent = self._sent.get(timeout=seconds)
            while True:
                if sent is None:
                    self._is_closing = True
                elif isinstance(sent, _Ended):
                    self._forget(sent.session)
                else:
                    if isinstance(sent, Question):
                        self._rule.asked(sent.session, sent.came)
                    self._former.add(sent, alone=sent.alone)
                sent = self._sent.get_nowait()

    def _forget(self, session: Hashable) -> None:
        self._rule.gone(session, time.monotonic())
        for work in self._former:
            if isinstance(work, Question) and work.session is session:
                # A session that gave up while its question waits will not ask again.
                work.session = None

    def _do(self, batch: Sequence[_Work]) -> None:
        first = batch[0]
        if isinstance(first, _Call):
            self._make(first)
        else:
            self._answer([each for each in batch if isinstance(each, Question)])

    def _answer(self, batch: Sequence[Question]) -> None:
        # Leave out questions whose worker gave up.
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

    def _make(self, call: _Call) -> None:
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
            # In this order, so that `current` is not older than the call.
            since, current = self.busy_since, self._current
            if since is not None and time.monotonic() - since > limit:
                for answer in current:
                    _refuse(answer, late(limit))
                hung()
                return


def _refuse(answer: "Future[Any]", error: BaseException) -> None:
    # A late question may already have its error.
    with suppress(InvalidStateError):
        answer.set_exception(error)
