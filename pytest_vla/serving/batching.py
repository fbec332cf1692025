"""Questions of many episodes to one policy, answered in batches: whatever waits while the device is busy goes next.

Workers whose answers came together ask again together, but never in the same instant: so right after a batch, for up to
a quarter of the time that it took (five milliseconds at most), the next one waits for as many questions as there are
sessions. A lone question, and one that comes when nothing was asked for a while, never waits.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pytest_vla.policies.base import Answer, BatchPolicy, Observation, check_answer

_GATHERING = 0.25
_LONGEST_GATHERING = 0.005


@dataclass(frozen=True)
class Question:
    """What one session asks: its state, an observation, and where the answer goes."""

    state: Any
    observation: Observation
    answer: "Future[Answer]" = field(default_factory=Future)


@dataclass(frozen=True)
class _Call:
    """Something else that only the policy's thread may do."""

    function: Callable[[], Any]
    result: "Future[Any]" = field(default_factory=Future)


class Batcher:
    """The one thread that calls a policy.

    Attributes:
        sizes: how many batches there were of each size.
        sessions: how many sessions are open, of which each may ask one question at a time.
        busy_since: when the call began that the policy is at, by the monotonic clock; None: it is at none.
    """

    def __init__(self, policy: BatchPolicy, most: int) -> None:
        """Starts the thread.

        Args:
            policy: called in that thread only.
            most: questions in a batch; the policy's own limit holds too.
        """
        self._policy, self._most = policy, max(1, min(most, policy.max_batch))
        self._waiting: queue.SimpleQueue[Question | _Call | None] = queue.SimpleQueue()
        self.sizes: dict[int, int] = {}
        self.sessions = 0
        self.busy_since: float | None = None
        self._lock = threading.Lock()
        self._gather_until = 0.0
        self._thread = threading.Thread(target=self._run, name="vla-policy", daemon=True)
        self._thread.start()

    def count(self, more: int) -> None:
        """So many sessions were opened, or closed where it is negative."""
        with self._lock:
            self.sessions += more

    def ask(self, state: Any, observation: Observation) -> "Future[Answer]":
        """The answer to come, checked, or what the policy raised."""
        question = Question(state, observation)
        self._waiting.put(question)
        return question.answer

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
            if isinstance(item, _Call):
                self._do(item)
                continue
            batch, following, ended = self._gathered(item)
            self.busy_since = began = time.monotonic()
            self._answer(batch)
            now = time.monotonic()
            self.busy_since = None
            self._gather_until = now + min(_GATHERING * (now - began), _LONGEST_GATHERING)
            if following is not None:
                self._do(following)
            if ended:
                return

    def _gathered(self, first: Question) -> tuple[list[Question], _Call | None, bool]:
        """The next batch, what else came after its last question, and whether the end did."""
        batch = [first]
        while len(batch) < self._most:
            rest = self._gather_until - time.monotonic() if len(batch) < self.sessions else 0.0
            try:
                item = self._waiting.get(timeout=rest) if rest > 0 else self._waiting.get_nowait()
            except queue.Empty:
                break
            if not isinstance(item, Question):
                return batch, item, item is None
            batch.append(item)
        return batch, None, False

    def _answer(self, batch: Sequence[Question]) -> None:
        # A worker that gave up does not ask any more.
        batch = [question for question in batch if question.answer.set_running_or_notify_cancel()]
        if not batch:
            return
        self.sizes[len(batch)] = self.sizes.get(len(batch), 0) + 1
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
        except BaseException as error:
            question.answer.set_exception(error)

    def _do(self, call: _Call) -> None:
        self.busy_since = time.monotonic()
        try:
            call.result.set_result(call.function())
        except BaseException as error:
            call.result.set_exception(error)
        self.busy_since = None
