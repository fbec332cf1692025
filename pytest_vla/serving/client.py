"""A worker's client of the policy's process: a policy like any other, whose sessions live in that process."""

import itertools
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import POLICY_TIMEOUT, SERVER_DIED, EpisodeError, VlaError, WireError
from pytest_vla.policies.base import Answer, Episode, Observation
from pytest_vla.policies.generators import pack_noise
from pytest_vla.serving.handshake import HELLO_SECONDS, Welcome, greet
from pytest_vla.serving.network import NetworkAddress, connect, is_this_host
from pytest_vla.serving.process import About, PolicyAddress
from pytest_vla.serving.replicas import exit_file, lost_file
from pytest_vla.serving.wire import (
    HEARD,
    WAIT,
    ImageCompressor,
    SharedPictures,
    allocate,
    inlined,
    known_codecs,
    receive,
    send,
    unpack_answer,
)
from pytest_vla.util.warnings import ServerTraceback, warn

# The transfer of a worker's pictures over one connection: by shared memory, raw, or compressed, whichever is faster.
# Whether a network is faster than two processors depends on their other load, and cannot be known beforehand. So some
# questions are sent raw and some compressed, each timed until the batch server has the pictures.

TIMED = 3
"""The number of timed questions of each kind before a choice."""

PAUSE = 256
"""The number of questions before the next choice: the load of networks changes."""

_WARM_UP = 2  # Questions in which the compressor chooses its differences.


class Link:
    """The choice between raw and compressed pictures on one connection.

    Attributes:
        is_timed: whether `took` has to be called for the question that was packed last.
        squeezes: whether pictures are compressed, or None before the first choice.
    """

    def __init__(self, squeezer: ImageCompressor | None) -> None:
        """Start without a choice; if `squeezer` is None, pictures are never compressed."""
        self._squeezer = squeezer
        self._times: dict[bool, list[float]] = {False: [], True: []}
        self._ways = self._each()
        self._is_squeezed = self.is_timed = False
        self.squeezes: bool | None = None if squeezer else False

    def packed(self, arrays: Mapping[str, NDArray[Any]], is_first: bool) -> dict[str, list[Any]]:
        """Return a question's arrays as values for a message; `is_first` for the first question of an episode."""
        if self._squeezer is None:
            return inlined(arrays)
        self._is_squeezed, self.is_timed = next(self._ways)
        return self._squeezer.squeezed(arrays, is_first) if self._is_squeezed else inlined(arrays)

    def took(self, seconds: float) -> None:
        """Note the seconds from before packing until the batch server had the arrays."""
        self._times[self._is_squeezed].append(seconds)

    def _each(self) -> Iterator[tuple[bool, bool]]:
        """Yield for each question whether it is compressed, and whether it is timed."""
        yield from [(True, False)] * _WARM_UP
        while True:
            for times in self._times.values():
                times.clear()
            yield from [(False, True), (True, True)] * TIMED
            raw, squeezed = (statistics.median(times) for times in self._times.values())
            self.squeezes = squeezed < raw
            yield from itertools.repeat((self.squeezes, False), PAUSE)


_ALIGNMENT = 4096
_NO_MEMORY = "no memory can be shared with the policy's process ({}): pictures are sent by message, which is slower"
_RETRY_SECONDS = 0.2
_GRACE_SECONDS = 12.0  # Beyond the process's own limit.
_PATIENCE = 600.0

Places = PolicyAddress | NetworkAddress | tuple[PolicyAddress | NetworkAddress, ...]
"""The address of a policy's process; of several, the first that can be reached from here is used."""


class ServedPolicy:
    """A policy whose weights are in another process. One question at a time; for one thread.

    Attributes:
        timeout: seconds that an answer may take, from the begin of the policy's call: the policy's process
            measures it.
        replan: the policy's own.
        traits: the policy's own.
    """

    def __init__(
        self,
        address: Places,
        timeout: float,
        about: About | None = None,
        patience: float = _PATIENCE,
        where: Callable[[], Places] | None = None,
    ) -> None:
        """Prepare a client, which connects at the first episode.

        Args:
            address: where the process listens.
            timeout: seconds that an answer may take.
            about: the policy's description of itself.
            patience: seconds to wait for a process that died.
            where: returns the current address for each later connection, since another process may have replaced it
                on another host; an empty tuple if there is none yet. It raises VlaError, with the reason, if there
                will be none. Without this function the address does not change.
        """
        about = about or About()
        self.timeout, self.replan, self.traits = timeout, about.replan, about.traits
        self._places, self._where, self._patience = address, where, patience
        self._is_first = True
        self._numbers = itertools.count()
        self._connection: socket.socket | None = None
        self._pictures: SharedPictures | None = None
        self._shares, self._is_near = True, True
        self._link, self._last_session = Link(None), -1
        self._reads: tuple[str, ...] = ()
        self.has_exited = False
        """Whether a process of the policy on this machine has ended by an exit of its own, as found by `recover`."""

    def __call__(self, episode: Episode) -> "_ServedSession":
        """Begin a session in the policy's process. Raises EpisodeError."""
        number = next(self._numbers)
        message = {
            "do": "begin",
            "session": number,
            "case_id": episode.case_id,
            "suite": episode.suite,
            "task": episode.task,
            "instruction": episode.instruction,
            "seed": episode.seed,
            "noise": pack_noise(episode.rng),
            "wishes": asdict(episode.wishes),
            "alone": episode.alone,
            "action_size": episode.action_size,
            "replan": episode.replan,
            "prompt": episode.prompt,
            "wrist_transform": episode.wrist_transform,
            "late": episode.late,
            "action_bounds": episode.action_bounds,
        }
        try:
            self._connect()
        except EpisodeError:
            raise
        except VlaError as error:
            raise EpisodeError(SERVER_DIED, str(error)) from error
        self._ask(message)
        return _ServedSession(self, number, episode.rng)

    def recover(self, reason: str | None) -> bool:
        """Wait until the process answers again, after it died.

        Args:
            reason: the reason for which an episode ended as an error.

        Returns:
            Whether the episode is to be run again.

        Raises:
            VlaError: the process is lost for good, or not back in time, with the reason.
        """
        if reason != SERVER_DIED:
            return False
        began = time.monotonic()
        while True:
            if (lost := self._lost()) is not None:
                raise VlaError(lost)
            try:
                self._connect()
            except EpisodeError as error:
                if time.monotonic() - began > self._patience:
                    raise VlaError(
                        f"the policy's process did not come back within {self._patience:.0f} s: {error.message}"
                    ) from error
                time.sleep(_RETRY_SECONDS)
            else:
                self.has_exited = any(
                    exit_file(address).exists()
                    for address in _listed(self._places)
                    if isinstance(address, PolicyAddress)
                )
                return True

    def act(self, number: int, noise: np.random.Generator, observation: Observation) -> Answer:
        """Return the answer to a session's question. Raises EpisodeError."""
        if self._connection is None:
            raise EpisodeError(SERVER_DIED, "the connection to the policy's process was lost")
        arrays = {name: np.asarray(observation[name]) for name in self._reads}
        message = {"do": "act", "session": number, "noise": pack_noise(noise)}
        memory = self._memory_for(sum(-(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays.values()))
        if memory is not None:
            return unpack_answer(self._ask({**message, "places": memory.write(arrays)}))
        is_first, self._last_session = number != self._last_session, number
        began = time.perf_counter()
        message["arrays"] = self._link.packed(arrays, is_first)
        message["timed"] = self._link.is_timed
        return unpack_answer(self._ask(message, heard=lambda: self._link.took(time.perf_counter() - began)))

    def end(self, number: int) -> None:
        """End a session; a no-op if the connection is lost, which ended its sessions."""
        if self._connection is not None:
            self._ask({"do": "end", "session": number})

    def close(self) -> None:
        """Close the connection; the next episode opens a new one."""
        if self._connection is not None:
            self._connection.close()
        if self._pictures is not None:
            self._pictures.close()
        self._connection = self._pictures = None

    def _memory_for(self, size: int) -> SharedPictures | None:
        """Return shared memory of at least `size` bytes, or None if none is available."""
        assert self._connection is not None
        if not self._is_near:
            return None
        if self._shares and (self._pictures is None or self._pictures.size < size):
            try:
                descriptor = allocate(max(size, _ALIGNMENT))
            except OSError as error:
                self._shares = False
                warn(_NO_MEMORY.format(error))
                return None
            self._send({"do": "memory"}, (descriptor,))
            if self._pictures is not None:
                self._pictures.close()
            self._pictures = SharedPictures(descriptor)
        return self._pictures if self._shares else None

    def _lost(self) -> str | None:
        """Return why the process will not come back, or None if it may (or if `where` reports the reason)."""
        addresses = _listed(self._places)
        for address in addresses:
            if isinstance(address, PolicyAddress):
                try:
                    return lost_file(address).read_text(encoding="utf-8")
                except FileNotFoundError:
                    if self._where is None and len(addresses) == 1 and not address.path.parent.is_dir():
                        return "the policy's process has ended"
        return None

    def _connect(self) -> None:
        """Connect if not connected. Raises EpisodeError, or VlaError if there is no process left to connect to."""
        if self._connection is not None:
            return
        if self._where is not None and not self._is_first:
            self._places = self._where()
        self._is_first = False
        trouble = EpisodeError(SERVER_DIED, "the policy's process cannot be reached: it listens nowhere yet")
        for address in _listed(self._places):
            try:
                self._connection, welcome = self._connected(address)
            except EpisodeError as error:
                trouble = error
            else:
                self._is_near, self._reads = isinstance(address, PolicyAddress), welcome.reads
                self._link = Link(None if self._is_near else _squeezer(self._connection, welcome))
                return
        raise trouble

    def _connected(self, address: PolicyAddress | NetworkAddress) -> tuple[socket.socket, Welcome]:
        """Return a new connection and its welcome. Raises EpisodeError."""
        # The process sends a sign of life now and then.
        silence = self.timeout + _GRACE_SECONDS
        is_near = isinstance(address, PolicyAddress)
        place = "" if is_near else f" at {address}"
        connection: socket.socket | None = None
        try:
            if isinstance(address, PolicyAddress):
                connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connection.settimeout(silence)
                connection.connect(str(address.path))
            else:
                connection = connect(address, min(silence, HELLO_SECONDS))
            welcome = greet(connection, address.secret)
            connection.settimeout(silence)
        except (OSError, WireError) as error:
            if connection is not None:
                connection.close()
            if isinstance(error, TimeoutError) and is_near:
                raise self._silent() from error
            raise EpisodeError(SERVER_DIED, f"the policy's process cannot be reached{place}: {error}") from error
        return connection, welcome

    def _silent(self) -> EpisodeError:
        told = f"no sign of life from the policy's process in {self.timeout:g} s (--vla-policy-timeout)"
        return EpisodeError(POLICY_TIMEOUT, told)

    def _ask(self, message: dict[str, Any], heard: Callable[[], None] = lambda: None) -> dict[str, Any]:
        assert self._connection is not None
        connection = self._connection
        with self._lost_with_it():
            send(connection, message)
            answer, _ = receive(connection)
            while answer in (WAIT, HEARD):
                if answer == HEARD:
                    heard()
                answer, _ = receive(connection)
        if "reason" in answer:
            details = answer.get("details")
            raise EpisodeError(answer["reason"], answer["error"]) from (ServerTraceback(details) if details else None)
        return answer

    def _send(self, message: dict[str, Any], files: tuple[int, ...]) -> None:
        assert self._connection is not None
        with self._lost_with_it():
            send(self._connection, message, files)

    @contextmanager
    def _lost_with_it(self) -> Iterator[None]:
        """Guard a block of messages: an error in it becomes an EpisodeError, and closes the connection."""
        try:
            yield
        except BaseException as error:
            # A late answer would be taken for the answer to the next question.
            self.close()
            if isinstance(error, TimeoutError):
                raise self._silent() from error
            if isinstance(error, WireError):
                raise EpisodeError(SERVER_DIED, f"the policy's process is gone: {error}") from error
            raise


class _ServedSession:
    """The session of one episode, whose state is in the policy's process."""

    def __init__(self, policy: ServedPolicy, number: int, noise: np.random.Generator) -> None:
        self._policy, self._number, self._noise = policy, number, noise

    def __call__(self, observation: Observation) -> Answer:
        return self._policy.act(self._number, self._noise, observation)

    def close(self) -> None:
        """End the session in the policy's process."""
        self._policy.end(self._number)


def _squeezer(connection: socket.socket, welcome: Welcome) -> ImageCompressor | None:
    """Return a compressor for a connection, or None on one host (memory is faster) or without a common codec."""
    common = [codec for codec in welcome.codecs if codec in known_codecs()]
    return None if is_this_host(connection) or not common else ImageCompressor(common[0])


def _listed(places: Places) -> tuple[PolicyAddress | NetworkAddress, ...]:
    return places if isinstance(places, tuple) else (places,)
