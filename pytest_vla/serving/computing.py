"""The policy's process calls the policy, one order of the batch server after the other, and does nothing else.

The batch server (`pytest_vla.serving.batch_server`) is a separate process that talks to workers and forms batches. A
batch's pictures are in memory that both map, stacked by name; answers return in the form that workers read.
"""

import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import BATCH_FAILED, EpisodeError, WireError
from pytest_vla.policies.base import (
    Answer,
    BatchPolicy,
    Episode,
    Lent,
    Observation,
    Observations,
    Wishes,
    as_observations,
    check_answer,
    counted_answers,
)
from pytest_vla.policies.generators import seed_globals, set_noise
from pytest_vla.policies.session import as_raised_by_policy
from pytest_vla.serving.wire import SharedPictures, outlined, pack_answer, receive, send
from pytest_vla.util.warnings import describe, full_traceback

# One call of a policy for a batch: checked answers, or the error for each question.


def call_policy(
    policy: BatchPolicy,
    states: Sequence[Any],
    observations: Sequence[Observation],
    noises: Sequence[np.random.Generator],
) -> list[Answer | BaseException]:
    """Return the checked answers of a batch, or the error for each question; raise nothing.

    An error in a batch of several questions becomes an EpisodeError `BATCH_FAILED` for each: the policy may have left
    any of their states half changed, and may have drawn from their generators.

    Args:
        policy: the policy to call.
        states: the sessions' states.
        observations: the sessions' observations.
        noises: the sessions' generators, which seed the global generators.
    """
    count = len(states)
    began = time.monotonic()
    try:
        seed_globals(noises)
        given = policy.act(states, as_observations(observations))
    except BaseException as error:
        failure: BaseException = error
        if count > 1:
            failure = EpisodeError(BATCH_FAILED, f"on a batch of {count} the policy raised {describe(error)}")
            failure.__cause__ = error
        return [failure] * count
    took = max(0.0, time.monotonic() - began)
    try:
        return [_checked(answer, took) for answer in counted_answers(given, count)]
    except EpisodeError as error:
        return [error] * count


def as_episode_error(error: BaseException, moment: str = "") -> EpisodeError:
    """Convert a policy's error to an EpisodeError; `moment` names the place, such as "at the episode's begin: "."""
    if isinstance(error, EpisodeError):
        own = as_raised_by_policy(error)
        if own is not error:
            own.__cause__ = error
        return own
    raised = EpisodeError("policy-raised", f"{moment}{describe(error)}")
    raised.__cause__ = error
    return raised


def late(seconds: float) -> EpisodeError:
    """Return the EpisodeError for an answer past the policy timeout."""
    return EpisodeError("policy-timeout", f"no answer of the policy in {seconds:g} s (--vla-policy-timeout)")


def details_of(error: EpisodeError) -> str:
    """Return the traceback behind an error, to fix the policy with; empty if it has no cause."""
    return full_traceback(error.__cause__) if error.__cause__ else ""


def _checked(answer: object, took: float) -> Answer | BaseException:
    """Return an answer with the seconds of the call that gave it, in which it did not wait for its turn."""
    try:
        checked = check_answer(answer, None)
        return replace(checked, seconds=took) if checked.seconds is None else checked
    except BaseException as error:
        return error


BEGIN, ACT, END = "begin", "act", "end"
"""The orders of the batch server."""

TOLD_OF_EPISODE = (
    *("case_id", "suite", "task", "instruction", "seed", "alone", "action_size", "replan", "prompt"),
    *("wrist_transform", "late", "action_bounds"),
)
"""The attributes of an `Episode` that are sent unchanged."""


class Computer:
    """The loop that executes the batch server's orders. `run` is for one thread.

    Attributes:
        busy_since: the begin of the policy's current call, by the monotonic clock, or None between calls.
    """

    def __init__(self, policy: BatchPolicy, channel: socket.socket) -> None:
        """Prepare the loop.

        Args:
            policy: called in the thread of `run` only.
            channel: the connection to the batch server.
        """
        self._policy, self._channel = policy, channel
        self._states: dict[int, Any] = {}
        self._noises: dict[int, np.random.Generator] = {}
        self._memories: dict[int, SharedPictures] = {}
        self.busy_since: float | None = None
        self._lock = threading.Lock()
        self._ways: Mapping[str, Callable[[dict[str, Any]], list[bytes]]] = {
            BEGIN: self._begin,
            ACT: self._act,
            END: self._end,
        }

    def run(self) -> None:
        """Execute orders until the batch server ends, then raise WireError."""
        while True:
            order, files = receive(self._channel, files=1)
            if files:
                self._map(order["memory"], files[0])
            began = self.busy_since = time.monotonic()
            answers = self._ways[order["do"]](order)
            took = time.monotonic() - began
            memory = self._memories.get(order["memory"]) if order["do"] == ACT else None
            # If the policy keeps a view of a batch, the next batch gets other memory.
            kept = memory is not None and memory.is_held
            with self._lock:
                self.busy_since = None
                send(self._channel, {"answers": answers, "seconds": took, "kept": kept})

    def give_up(self, limit: float) -> bool:
        """Send an error to the workers whose call has taken longer than `limit` seconds; return whether there was one.

        Called from another thread.
        """
        with self._lock, suppress(WireError):
            if self.busy_since is None or time.monotonic() - self.busy_since <= limit:
                return False
            send(self._channel, {"late": trouble(late(limit))})
        return True

    def close(self) -> None:
        """End the open sessions, and release the memory, in a process that continues."""
        for session in list(self._states):
            self._end({"session": session})
        for memory in self._memories.values():
            _pin(memory, pinned=False)
            memory.close()
        self._memories.clear()

    def _begin(self, order: dict[str, Any]) -> list[bytes]:
        try:
            noise = np.random.Generator(np.random.PCG64(0))
            set_noise(noise, order["noise"])
            told = {name: order[name] for name in TOLD_OF_EPISODE}
            episode = Episode(**told, rng=noise, wishes=Wishes(**order["wishes"]))
            seed_globals([noise])
            state = self._policy.begin(episode)
        except BaseException as error:
            return [trouble(as_episode_error(error, "at the episode's begin: "))]
        self._states[order["session"]], self._noises[order["session"]] = state, noise
        return [_NOTHING]

    def _act(self, order: dict[str, Any]) -> list[bytes]:
        sessions = order["sessions"]
        noises = [self._noises[session] for session in sessions]
        for noise, packed in zip(noises, order["noise"], strict=True):
            # A policy's draws depend on the episode and the step, not on the rest of the batch.
            set_noise(noise, packed)
        stacks: dict[str, NDArray[Any]] = {}
        if "stacked" in order:
            stacks = self._memories[order["memory"]].read(order["stacked"])
            views = [{name: stack[number] for name, stack in stacks.items()} for number in range(len(sessions))]
        elif "apart" in order:
            views = [self._memories[order["memory"]].read(places) for places in order["apart"]]
        else:
            views = [outlined(arrays) for arrays in order["inline"]]
        given = call_policy(
            self._policy, [self._states[session] for session in sessions], Observations(Lent(views), stacks), noises
        )
        return [_packed(answer) for answer in given]

    def _end(self, order: dict[str, Any]) -> list[bytes]:
        state = self._states.pop(order["session"], None)
        self._noises.pop(order["session"], None)
        close = getattr(state, "close", None)
        if close is not None:
            try:
                close()
            except BaseException as error:
                return [trouble(as_episode_error(error, "at the episode's end: "))]
        return [_NOTHING]

    def _map(self, number: int, descriptor: int) -> None:
        before = self._memories.pop(number, None)
        if before is not None:
            _pin(before, pinned=False)
            before.close()
        self._memories[number] = SharedPictures(descriptor)
        _pin(self._memories[number])


_NOTHING: bytes = msgpack.packb({})


def _packed(answer: object) -> bytes:
    if isinstance(answer, BaseException):
        return trouble(as_episode_error(answer))
    packed: bytes = msgpack.packb(pack_answer(answer), use_bin_type=True)  # type: ignore[arg-type]
    return packed


def trouble(error: EpisodeError) -> bytes:
    """Encode an error for a worker."""
    packed: bytes = msgpack.packb({"reason": error.reason, "error": error.message, "details": details_of(error)})
    return packed


def _pin(memory: SharedPictures, pinned: bool = True) -> None:
    """Pin memory for transfers to a CUDA device without a copy, if the policy has imported torch."""
    torch: Any = sys.modules.get("torch")
    # Only the speed depends on it.
    with suppress(Exception):
        if torch is None or not torch.cuda.is_available():
            return
        if pinned:
            torch.cuda.cudart().cudaHostRegister(memory.address, memory.size, 0)
        else:
            torch.cuda.cudart().cudaHostUnregister(memory.address)
