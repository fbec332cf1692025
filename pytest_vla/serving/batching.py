"""Questions of many episodes to one policy, answered in batches: whatever waits while the device is busy goes next.

Workers whose answers came together ask again together, but never in the same instant. So a batch that is not full waits
for those who will soon ask again, as far as that pays (`Returns`). A question that nobody is expected to join goes at
once, and none waits for others longer than a batch takes.
"""

import queue
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_vla.policies.base import Answer, BatchPolicy, Observation, check_answer

_FORGETS_RETURNS = 0.1
_FORGETS_COSTS = 0.05
_LATE = 6.0  # Mean deviations after which one that was expected is no longer waited for.
_LEAST_DEVIATION = 1e-4


class Returns:
    """Who was answered and will ask again, when, and how long it pays to wait for them. All times in seconds.

    A batch of n costs a fixed time and something for each question. One more question in it saves the fixed time of
    another batch and costs those that wait their time: waiting w for j more pays while n w < j times the fixed time.
    """

    def __init__(self) -> None:
        self._answered: dict[Hashable, float] = {}
        # How long sessions were away.
        self._mean: float | None = None
        self._deviation = 0.0
        # Of batches, the older the less: how many, sums of size, seconds, size squared, and size times seconds.
        self._sums: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
        self._last = 0.0

    def answered(self, session: Hashable, now: float) -> None:
        """A session has its answer; None: one whose return is not waited for."""
        if session is not None:
            self._answered[session] = now

    def asked(self, session: Hashable, now: float) -> None:
        """A session asks, again or for the first time."""
        answered = self._answered.pop(session, None)
        if answered is None:
            return
        took = now - answered
        if self._mean is None:
            self._mean, self._deviation = took, took / 2
        # Who was long away, as for another scene, counts as one that was late: the others are as quick as before.
        off = min(took, self._latest) - self._mean
        self._mean += _FORGETS_RETURNS * off
        self._deviation += _FORGETS_RETURNS * (abs(off) - self._deviation)

    def forget(self, session: Hashable) -> None:
        """A session has ended, and will not ask again."""
        self._answered.pop(session, None)

    def took(self, size: int, seconds: float) -> None:
        """A batch of so many questions took so long."""
        new = (1.0, size, seconds, size * size, size * seconds)
        self._sums = tuple((1 - _FORGETS_COSTS) * old + more for old, more in zip(self._sums, new, strict=True))
        self._last = seconds

    @property
    def _latest(self) -> float:
        """How long after its answer a session is waited for."""
        assert self._mean is not None
        return self._mean + _LATE * max(self._deviation, self._mean / 10, _LEAST_DEVIATION)

    @property
    def fixed(self) -> float:
        """What a batch costs beside its questions: by least squares, and no more than the last one took in all."""
        weight, sizes, seconds, squares, products = self._sums
        if not weight:
            return 0.0
        spread = weight * squares - sizes * sizes
        # Batches of one size do not tell.
        each = max(0.0, (weight * products - sizes * seconds) / spread) if spread > 1e-6 * squares * weight else 0.0
        return min(max(0.0, (seconds - each * sizes) / weight), self._last)

    def worth_waiting(self, size: int, room: int, since: float, now: float) -> float:
        """Until when a batch should wait for more.

        Args:
            size: questions that it has.
            room: how many more it may have.
            since: when it could have gone: its first question was there, and the policy idle.
            now: the time.

        Returns:
            A moment, no later than `since` and a batch's time; `now` or earlier: it should go.
        """
        if self._mean is None:
            return now
        fixed, latest = self.fixed, self._latest
        until = now
        expected = sorted(answered for answered in self._answered.values() if answered + latest > now)
        for more, answered in enumerate(expected[:room], 1):
            if size * (answered + self._mean - now) < more * fixed:
                until = min(answered + latest, now + more * fixed / size)
        return min(until, since + fixed)


@dataclass(frozen=True)
class Question:
    """What one session asks: its state, an observation, who it is, and where the answer goes."""

    state: Any
    observation: Observation
    session: Hashable = None
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


class Batcher:
    """The one thread that calls a policy.

    Attributes:
        sizes: how many batches there were of each size.
        sessions: how many sessions are open.
        busy_since: when the call began that the policy is at, by the monotonic clock; None: it is at none.
    """

    def __init__(self, policy: BatchPolicy, most: int) -> None:
        """Starts the thread.

        Args:
            policy: called in that thread only.
            most: questions in a batch; the policy's own limit holds too.
        """
        self._policy, self._most = policy, max(1, min(most, policy.max_batch))
        self._waiting: queue.SimpleQueue[Question | _Call | _Ended | None] = queue.SimpleQueue()
        self.sizes: dict[int, int] = {}
        self.busy_since: float | None = None
        self.sessions = 0
        self._lock = threading.Lock()
        self._returns, self._idle_since = Returns(), 0.0
        self._thread = threading.Thread(target=self._run, name="vla-policy", daemon=True)
        self._thread.start()

    def begin(self, session: Hashable) -> None:
        """A session is open; it may ask one question at a time."""
        with self._lock:
            self.sessions += 1

    def ask(self, state: Any, observation: Observation, session: Hashable = None) -> "Future[Answer]":
        """The answer to come, checked, or what the policy raised.

        Args:
            state: of the session.
            observation: what it sees.
            session: who asks; None: somebody whose return is not waited for.
        """
        question = Question(state, observation, session)
        self._waiting.put(question)
        return question.answer

    def end(self, session: Hashable) -> None:
        """A session has ended, and will not ask again."""
        with self._lock:
            self.sessions -= 1
        self._waiting.put(_Ended(session))

    def call(self, function: Callable[[], Any]) -> Any:
        """What a function gives in the policy's thread, between two batches; raises what it raises."""
        call = _Call(function)
        self._waiting.put(call)
        return call.result.result()

    def close(self) -> None:
        """Ends the thread after what was asked of it."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            if isinstance(item, _Ended):
                self._returns.forget(item.session)
                continue
            if isinstance(item, _Call):
                self._do(item)
                continue
            batch, following, ended = self._gathered(item)
            self.busy_since = time.monotonic()
            self._answer(batch)
            self.busy_since = None
            self._idle_since = time.monotonic()
            if following is not None:
                self._do(following)
            if ended:
                return

    def _gathered(self, first: Question) -> tuple[list[Question], _Call | None, bool]:
        """The next batch, what else came after its last question, and whether the end did."""
        batch: list[Question] = []
        since = max(first.asked, self._idle_since)
        item: Question | _Call | _Ended | None = first
        while item is not None and not isinstance(item, _Call):
            if isinstance(item, Question):
                self._returns.asked(item.session, item.asked)
                batch.append(item)
            else:
                self._returns.forget(item.session)
                # Its question may be in this very batch: whoever gave up will not return.
                batch = [replace(other, session=None) if other.session is item.session else other for other in batch]
            if len(batch) == self._most:
                return batch, None, False
            try:
                item = self._next(len(batch), since)
            except queue.Empty:
                return batch, None, False
        return batch, item, item is None

    def _next(self, size: int, since: float) -> Question | _Call | _Ended | None:
        """What comes next, as long as a batch of this size should wait for it; queue.Empty."""
        try:
            return self._waiting.get_nowait()
        except queue.Empty:
            now = time.monotonic()
            rest = self._returns.worth_waiting(size, self._most - size, since, now) - now
            return self._waiting.get(timeout=max(0.0, rest))

    def _answer(self, batch: Sequence[Question]) -> None:
        # A worker that gave up does not ask any more.
        batch = [question for question in batch if question.answer.set_running_or_notify_cancel()]
        if not batch:
            return
        self.sizes[len(batch)] = self.sizes.get(len(batch), 0) + 1
        began = time.monotonic()
        try:
            answers = self._policy.act(
                [question.state for question in batch], [question.observation for question in batch]
            )
            if len(answers) != len(batch):
                raise ValueError(f"the policy gave {len(answers)} answers to a batch of {len(batch)}")
        except BaseException as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
                return
            # One episode's trouble is not the others': each is asked alone.
            for question in batch:
                self._alone(question)
            return
        self._returns.took(len(batch), time.monotonic() - began)
        for question, answer in zip(batch, answers, strict=True):
            self._check(question, answer)

    def _alone(self, question: Question) -> None:
        try:
            (answer,) = self._policy.act([question.state], [question.observation])
        except BaseException as error:
            question.answer.set_exception(error)
            return
        self._check(question, answer)

    def _check(self, question: Question, answer: object) -> None:
        try:
            question.answer.set_result(check_answer(answer))
            self._returns.answered(question.session, time.monotonic())
        except BaseException as error:
            question.answer.set_exception(error)

    def _do(self, call: _Call) -> None:
        self.busy_since = time.monotonic()
        try:
            call.result.set_result(call.function())
        except BaseException as error:
            call.result.set_exception(error)
        self.busy_since = None
