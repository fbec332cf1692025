"""The batch server (the desk) of a policy's process: it talks to workers and forms batches, in its own process.

One thread waits for all events: workers' messages, the policy's answers, and the moment when a batch is due
(`pytest_vla.serving.batch_former`). A question's pictures are copied once, from the worker's memory to the
batch's, while the policy computes the previous batch.
"""

import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from pytest_vla.errors import WireError
from pytest_vla.serving.batch_former import BatchFormer, Dispatch
from pytest_vla.serving.computing import ACT, BEGIN, END, TOLD_OF_EPISODE
from pytest_vla.serving.handshake import Door
from pytest_vla.serving.stats import ServingStats
from pytest_vla.serving.wire import (
    HEARD,
    WAIT,
    ImageDecompressor,
    Inbox,
    SharedPictures,
    allocate,
    framed,
    inlined,
    send,
)

# Memory that the batch server fills and the policy reads: the arrays of a batch, stacked by name.

_ALIGNMENT = 4096

_Layout = tuple[tuple[str, str, tuple[int, ...]], ...]


class Arena:
    """Memory for the arrays of one batch, filled as questions arrive, so that a batch is ready when it is due.

    Attributes:
        number: the number by which both processes know it.
        unsent: the open file of memory that the policy's process does not have yet, or None.
    """

    def __init__(self, number: int) -> None:
        """Start without memory; it is allocated when the size is known."""
        self.number, self._most = number, 1
        self.unsent: int | None = None
        self._memory: SharedPictures | None = None
        self._layout: _Layout | None = None
        self._stacks: dict[str, NDArray[Any]] = {}
        self._places: dict[str, list[Any]] = {}
        self._used = 0

    def clear(self, most: int) -> None:
        """Start a new batch of at most `most` questions."""
        self._used = 0
        if most > self._most:
            self._most, self._layout = most, None

    def put(self, arrays: Mapping[str, NDArray[Any]]) -> int | None:
        """Copy a question's arrays behind those of the previous question.

        Returns:
            The question's place in the batch, or None if the batch is full, the shapes differ from the batch's
            first question, or no memory is available.
        """
        layout = tuple((name, array.dtype.str, array.shape) for name, array in arrays.items())
        if not self._used and layout != self._layout:
            self._lay_out(layout, arrays)
        if layout != self._layout or self._used >= self._most:
            return None
        for name, array in arrays.items():
            self._stacks[name][self._used] = array
        self._used += 1
        return self._used - 1

    def stacked(self, count: int) -> dict[str, Any]:
        """Return where the first `count` questions' arrays are, stacked by name, for the policy's process."""
        places = {name: [offset, kind, [count, *shape]] for name, (offset, kind, shape) in self._places.items()}
        return {"memory": self.number, "stacked": places}

    def apart(self, questions: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, Any]:
        """Return where the arrays of questions with different shapes are, for the policy's process.

        If no memory is available, the arrays themselves are returned, for the message.
        """
        self._used, self._layout = 0, None
        needed = sum(_rounded(array.nbytes) for arrays in questions for array in arrays.values())
        if not self._has_room(needed):
            return {"memory": self.number, "inline": [inlined(arrays) for arrays in questions]}
        assert self._memory is not None
        offset, places = 0, []
        for arrays in questions:
            places.append(self._memory.write(arrays, offset))
            offset += sum(_rounded(array.nbytes) for array in arrays.values())
        return {"memory": self.number, "apart": places}

    def forget(self) -> None:
        """Leave the memory to its current user; the next batch gets new memory."""
        self.sent()
        self._stacks, self._layout = {}, None
        if self._memory is not None:
            self._memory.close()
        self._memory = None

    def sent(self) -> None:
        """Note that the policy's process has the memory."""
        if self.unsent is not None:
            os.close(self.unsent)
        self.unsent = None

    def _lay_out(self, layout: _Layout, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._layout = None
        if not self._has_room(sum(_rounded(self._most * array.nbytes) for array in arrays.values())):
            return
        assert self._memory is not None
        offset, self._places = 0, {}
        for name, kind, shape in layout:
            self._places[name] = [offset, kind, list(shape)]
            offset += _rounded(self._most * arrays[name].nbytes)
        whole = {name: [at, kind, [self._most, *shape]] for name, (at, kind, shape) in self._places.items()}
        self._stacks, self._layout = self._memory.read(whole), layout

    def _has_room(self, size: int) -> bool:
        if self._memory is None or self._memory.size < size:
            with suppress(OSError):
                descriptor = allocate(max(size, _ALIGNMENT))
                self._stacks = {}
                if self._memory is not None:
                    self._memory.close()
                self.sent()
                self._memory, self.unsent = SharedPictures(os.dup(descriptor)), descriptor
        return self._memory is not None and self._memory.size >= size


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


# The counts of a batch server during a run.

_TOLD = 64  # The number of thinking times in the statistics.
_FORGETS = 0.1


class Account:
    """Running counts of a run for its `ServingStats`. All times in seconds.

    Attributes:
        episodes: the number of sessions that have ended.
        workers: the number of connected workers.
    """

    def __init__(self, rule: Dispatch, cores: int) -> None:
        """Start at zero.

        Args:
            rule: keeps the thinking times.
            cores: the number that workers share; 0 if not known.
        """
        self._rule, self._cores = rule, cores
        self.episodes = self.workers = 0
        self._since: float | None = None
        self._busy = self._waited = 0.0
        self._questions = 0
        self._calls: dict[int, tuple[int, float]] = {}

    def began(self, now: float) -> None:
        """Count a question that has arrived."""
        if self._since is None:
            self._since = now

    def asked(self, size: int, waited: float) -> None:
        """Count a batch of `size` questions that waited for `waited` in total."""
        self._questions += size
        self._waited += waited

    def took(self, size: int, busy: float, seconds: float) -> None:
        """Count a call of the policy that took `busy`, and `seconds` with both transfers."""
        self._busy += busy
        count, mean = self._calls.get(size, (0, seconds))
        self._calls[size] = (count + 1, mean + (seconds - mean) * max(_FORGETS, 1 / (count + 1)))

    def seen(self, now: float) -> ServingStats:
        """Return all counts."""
        return ServingStats(
            seconds=0.0 if self._since is None else now - self._since,
            busy=self._busy,
            questions=self._questions,
            calls=dict(self._calls),
            waited=self._waited,
            thinking=tuple(self._rule.thinking)[-_TOLD:],
            away=tuple(self._rule.away)[-_TOLD:],
            episodes=self.episodes,
            workers=self.workers,
            cores=self._cores,
        )


_SIGN_SECONDS = 0.5
_CHUNK = 1 << 18
_FEWEST = 8  # The least number of questions that a batch's memory has room for.


@dataclass(eq=False)
class _Worker:
    """The connection of one worker.

    Attributes:
        is_near: whether the worker is on this host, and can share memory.
        sessions: our session numbers by the worker's.
        request: the open request that the worker waits for, or None.
    """

    connection: socket.socket
    is_near: bool
    inbox: Inbox = field(default_factory=Inbox)
    unsent: bytearray = field(default_factory=bytearray)
    memory: SharedPictures | None = None
    unsqueezer: ImageDecompressor = field(default_factory=ImageDecompressor)
    sessions: dict[int, int] = field(default_factory=dict)
    alone: set[int] = field(default_factory=set)
    request: "_Request | None" = None


@dataclass(eq=False)
class _Request:
    """An order or a question of a worker, or of one that is gone.

    Attributes:
        order: the order for the policy's process; for a question, its part of the batch's order.
        arrays: a question's arrays, in the worker's memory.
        place: a question's place in the batch that is being filled, or None.
    """

    worker: _Worker | None
    order: dict[str, Any]
    came: float
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    place: int | None = None


@dataclass(frozen=True)
class _Call:
    """The call that the policy is computing."""

    requests: Sequence[_Request]
    began: float
    is_act: bool


class BatchServer:
    """The server that answers workers until the policy's process ends.

    Attributes:
        account: counts what it serves.
    """

    def __init__(
        self,
        channel: socket.socket,
        listener: socket.socket,
        secret: bytes,
        reads: Sequence[str],
        most: int,
        *,
        network: socket.socket | None = None,
        cores: int = 0,
        desks: int = 1,
        beat: Callable[[ServingStats], None] = lambda seen: None,
    ) -> None:
        """Start to listen.

        Args:
            channel: the connection to the policy's process, which runs a `Computer`.
            listener: a bound Unix-domain stream socket.
            secret: the secret that workers authenticate with.
            reads: the observations that the policy needs.
            most: the most questions in a batch.
            network: a bound TCP socket for workers on other hosts, or None.
            cores: the number that workers share; 0 if not known.
            desks: the number of batch servers of the run; each serves its share of the workers, on its share of the
                cores.
            beat: called about once a second, from the thread of `run`.
        """
        self._channel = channel
        self._reads, self._beat = list(reads), beat
        self._rule = Dispatch(most, cores / desks)
        self.account = Account(self._rule, cores)
        self._answers = Inbox(trusted=True)
        self._workers: set[_Worker] = set()
        self._numbers = 0
        # Begins and ends precede all questions: they are short, and their workers continue at once.
        self._orders: deque[_Request] = deque()
        self._questions: BatchFormer[_Request] = BatchFormer(self._rule)
        self._filling, self._other = Arena(0), Arena(1)
        self._call: _Call | None = None
        self._wake: float | None = None
        self._plans = False
        self._selector = selectors.DefaultSelector()
        self._signs = self._beats = time.monotonic()
        listeners = [listener] if network is None else [listener, network]
        self._door = Door(self._selector, listeners, secret, reads, self._admit)
        self._selector.register(channel, selectors.EVENT_READ, self._take_answers)

    def run(self) -> None:
        """Serve until the policy's process ends, then raise WireError."""
        try:
            while True:
                happened = self._selector.select(0.0 if self._plans else self._rest())
                if self._plans and not happened:
                    self._plans = self._rule.plan()
                for key, events in happened:
                    if isinstance(key.data, _Worker):
                        self._tend(key.data, events)
                    else:
                        key.data()
                now = time.monotonic()
                self._look_at_clock(now)
                if self._call is None:
                    self._next_call(now)
        finally:
            self._door.close()
            self._selector.close()
            for worker in self._workers:
                worker.connection.close()

    def _rest(self) -> float:
        """Return the seconds until the next scheduled action."""
        moments = [self._beats + 1.0, self._signs + _SIGN_SECONDS]
        if self._wake is not None:
            moments.append(self._wake)
        return max(0.0, min(moments) - time.monotonic())

    def _look_at_clock(self, now: float) -> None:
        if now >= self._signs + _SIGN_SECONDS:
            self._signs = now
            self._door.look_at_clock(now)
            for worker in [each for each in self._workers if each.request is not None]:
                if now - worker.request.came >= _SIGN_SECONDS:  # type: ignore[union-attr]
                    self._send(worker, framed(WAIT))
        if now >= self._beats + 1.0:
            self._beats = now
            self.account.workers = len(self._workers)
            self._beat(self.account.seen(now))

    def _admit(self, connection: socket.socket) -> None:
        worker = _Worker(connection, connection.family == socket.AF_UNIX)
        self._workers.add(worker)
        self._selector.register(connection, selectors.EVENT_READ, worker)

    def _tend(self, worker: _Worker, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(worker)
            if events & selectors.EVENT_READ:
                data = self._read(worker)
                for message, brought in worker.inbox.messages():
                    if brought:
                        self._map(worker, brought)
                    self._hear(worker, message)
                if not data:
                    raise WireError("the worker is gone")
        except BlockingIOError:
            pass
        except (WireError, OSError):
            self._drop(worker)

    def _read(self, worker: _Worker) -> bytes:
        if worker.is_near:
            data, files, _, _ = socket.recv_fds(worker.connection, _CHUNK, 2)
            worker.inbox.add(data, files)
        else:
            data = worker.connection.recv(_CHUNK)
            worker.inbox.add(data)
        return data

    def _map(self, worker: _Worker, files: Sequence[int]) -> None:
        if worker.memory is not None:
            worker.memory.close()
        for descriptor in files:
            worker.memory = SharedPictures(descriptor)

    def _hear(self, worker: _Worker, message: dict[str, Any]) -> None:
        ways = {"begin": self._begin, "act": self._act, "end": self._end, "memory": self._remembered}
        way = ways.get(str(message.get("do")))
        if way is None or worker.request is not None:
            raise WireError(f"cannot do {message.get('do')!r}")
        try:
            way(worker, message, time.monotonic())
        except (KeyError, TypeError) as error:
            raise WireError(f"a message lacks what it needs: {error}") from error

    def _remembered(self, worker: _Worker, message: Mapping[str, Any], now: float) -> None:
        """Do nothing: the shared memory was mapped when the message arrived."""

    def _begin(self, worker: _Worker, message: Mapping[str, Any], now: float) -> None:
        told = {name: message[name] for name in (*TOLD_OF_EPISODE, "noise", "wishes")}
        self._numbers += 1
        number = worker.sessions[message["session"]] = self._numbers
        if message["alone"]:
            worker.alone.add(number)
        worker.request = _Request(worker, {"do": BEGIN, "session": number, **told}, now)
        self._orders.append(worker.request)

    def _act(self, worker: _Worker, message: Mapping[str, Any], now: float) -> None:
        number = worker.sessions[message["session"]]
        if "arrays" in message:
            arrays = worker.unsqueezer.read(message["arrays"])
        elif worker.memory is not None:
            arrays = worker.memory.read(message["places"])
        else:
            raise WireError("a worker has to bring its memory")
        if set(arrays) != set(self._reads):
            raise WireError(f"a question has {sorted(arrays)}, where the policy reads {self._reads}")
        arrays = {name: arrays[name] for name in self._reads}
        if message.get("timed"):
            self._send(worker, framed(HEARD))
        worker.request = request = _Request(worker, {"session": number, "noise": message["noise"]}, now, arrays)
        self._rule.asked(worker, now)
        self.account.began(now)
        is_alone = number in worker.alone
        if not is_alone:
            request.place = self._filling.put(arrays)
        self._questions.add(request, alone=is_alone)

    def _end(self, worker: _Worker, message: Mapping[str, Any], now: float) -> None:
        number = worker.sessions.pop(message["session"], None)
        if number is None:
            self._send(worker, framed({}))
            return
        worker.alone.discard(number)
        self._rule.ended(worker, now)
        self.account.episodes += 1
        worker.request = _Request(worker, {"do": END, "session": number}, now)
        self._orders.append(worker.request)

    def _drop(self, worker: _Worker) -> None:
        """Disconnect a worker, and end its sessions."""
        now = time.monotonic()
        self._workers.discard(worker)
        with suppress(KeyError, ValueError):
            self._selector.unregister(worker.connection)
        worker.connection.close()
        worker.inbox.close()
        self._rule.gone(worker, now)
        if worker.request is not None:
            self._questions.remove(worker.request)
        worker.request = None
        # A begin that is queued still happens, so that the end has what it ends.
        self._orders += [_Request(None, {"do": END, "session": number}, now) for number in worker.sessions.values()]
        if worker.memory is not None:
            worker.memory.close()

    def _next_call(self, now: float) -> None:
        """Order the policy's next call, if there is one."""
        self._wake = None
        if self._orders:
            request = self._orders.popleft()
            self._order([request], request.order, now, is_act=False)
        else:
            batch, self._wake = self._questions.take(now)
            if not batch:
                return
            self._ask(batch, now)
        # Plan while the policy is busy and no worker sends anything.
        self._plans = True

    def _ask(self, batch: Sequence[_Request], now: float) -> None:
        arena = self._filling
        if [request.place for request in batch] != [*range(len(batch))]:
            arena.clear(len(batch))
            for request in batch:
                request.place = arena.put(request.arrays)
        if all(request.place is not None for request in batch):
            where = arena.stacked(len(batch))
        else:
            where = arena.apart([request.arrays for request in batch])
        order = {
            "do": ACT,
            "sessions": [request.order["session"] for request in batch],
            "noise": [request.order["noise"] for request in batch],
            **where,
        }
        self.account.asked(len(batch), sum(now - request.came for request in batch))
        self._order(batch, order, now, is_act=True, arena=arena)
        self._filling, self._other = self._other, self._filling
        self._filling.clear(min(self._rule.most, max(_FEWEST, len(self._workers))))
        for request in self._questions.together:
            request.place = self._filling.put(request.arrays)

    def _order(
        self,
        requests: Sequence[_Request],
        order: Mapping[str, Any],
        now: float,
        *,
        is_act: bool,
        arena: Arena | None = None,
    ) -> None:
        files = () if arena is None or arena.unsent is None else (arena.unsent,)
        # The policy's process is waiting for it.
        self._channel.setblocking(True)
        send(self._channel, order, files)
        self._channel.setblocking(False)
        if arena is not None:
            arena.sent()
        self._call = _Call(requests, now, is_act)

    def _take_answers(self) -> None:
        data = self._channel.recv(_CHUNK)
        if not data:
            raise WireError("the policy's process is gone")
        self._answers.add(data)
        for message, _ in self._answers.messages():
            call = self._call
            assert call is not None, "an answer belongs to an order"
            if "late" in message:
                # The call continues, and its process is about to end.
                self._answer_all(call, [message["late"]] * len(call.requests))
                continue
            self._call, now = None, time.monotonic()
            if message["kept"]:
                # The other one is being filled.
                self._other.forget()
            # Answer first, then update the statistics.
            self._answer_all(call, message["answers"])
            if call.is_act:
                self._rule.took(len(call.requests), now - call.began)
                self.account.took(len(call.requests), message["seconds"], now - call.began)

    def _answer_all(self, call: _Call, answers: Sequence[bytes]) -> None:
        now = time.monotonic()
        for request, answer in zip(call.requests, answers, strict=True):
            worker = request.worker
            if worker is None or worker.request is not request:
                # The worker is gone, or has got the error for a late answer.
                continue
            worker.request = None
            if call.is_act:
                self._rule.answered(worker, now)
            self._send(worker, framed(answer))

    def _send(self, worker: _Worker, data: bytes) -> None:
        worker.unsent += data
        try:
            self._flush(worker)
        except OSError:
            # The next read finds that the worker is gone.
            worker.unsent.clear()

    def _flush(self, worker: _Worker) -> None:
        with suppress(BlockingIOError):
            while worker.unsent:
                del worker.unsent[: worker.connection.send(worker.unsent)]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if worker.unsent else 0)
        with suppress(KeyError, ValueError):
            if self._selector.get_key(worker.connection).events != events:
                self._selector.modify(worker.connection, events, worker)
