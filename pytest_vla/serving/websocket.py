"""The server of ``pytest-vla serve``: openpi's websocket protocol, with extensions for pytest-vla's own clients.

Our own clients begin and end a session by message, and send its noise; for any other client, a connection is a session.
"""

import errno
import hmac
import itertools
import queue
import socket
import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError, wait
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import (
    Answer,
    BatchPolicy,
    Episode,
    Observation,
    Policy,
    Session,
    Wishes,
    is_batch_policy,
    own_number,
)
from pytest_vla.policies.fit import traits_of
from pytest_vla.policies.generators import noise_generator, reseed, seed_globals, set_noise
from pytest_vla.policies.msgpack_arrays import pack, unpack
from pytest_vla.policies.openpi_connection import (
    OBSERVATIONS,
    OURS,
    PROMPT,
    ServerInfo,
    limit_sending,
    require_websockets,
)
from pytest_vla.policies.tokens import statistics_table
from pytest_vla.serving.batch_former import BatchFormer, Dispatch
from pytest_vla.serving.computing import as_episode_error, call_policy, details_of, late
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    from websockets.http11 import Request, Response
    from websockets.sync.server import ServerConnection


# Batches for a server in this process: one thread answers the questions of many episodes to one policy.
#
# `pytest_vla.serving.batch_former` decides which questions form a batch, and when, as in a run's policy process.

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


# A policy that answers one question after the other, adapted to a `BatchPolicy` for serving.

EVERYTHING = (
    *("agentview_image", "robot0_eye_in_hand_image", "state"),
    *("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "robot0_joint_pos"),
    *("controller_pos", "controller_mat"),
)
"""All observations: a session does not declare which of them it reads."""


def as_batch_policy(policy: Policy | BatchPolicy) -> BatchPolicy:
    """Adapt a policy to batches of one, unless it already answers in batches."""
    return policy if is_batch_policy(policy) else PlainPolicy(policy)  # type: ignore[arg-type]


class PlainPolicy:
    """An unbatched policy as a `BatchPolicy` with batches of one; an episode's state is its session.

    Attributes:
        policy: the original policy.
        replan: the policy's own.
        digest: the policy's own.
    """

    max_batch: int = 1
    reads: Sequence[str] = EVERYTHING

    def __init__(self, policy: Policy) -> None:
        """Wrap `policy`."""
        self.policy = policy
        self.replan = getattr(policy, "replan", None)
        self.digest = getattr(policy, "digest", None)

    def begin(self, episode: Episode) -> Session:
        """Begin the episode's session."""
        session = self.policy(episode)
        if not callable(session):
            raise EpisodeError(
                "policy-protocol", f"a policy returns a session; this one returned {type(session).__name__}"
            )
        return session

    def act(self, states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[NDArray[Any] | Answer]:
        """Return the sessions' answers."""
        return [session(observation) for session, observation in zip(states, observations, strict=True)]


# The sessions of a served policy, and their errors.

_T = TypeVar("_T")

LOOK_SECONDS = 0.5
"""Seconds between two checks of a client that waits for an answer."""


@dataclass(frozen=True, eq=False)
class ClientSession:
    """A client's session of one episode.

    Attributes:
        state: the state that the policy's `begin` returned.
        noise: the session's generator.
        alone: whether its questions must not share a batch with other sessions.
    """

    state: Any
    noise: np.random.Generator
    alone: bool = False


class Sessions:
    """The sessions of one policy. May be used by many threads, each with sessions of its own.

    Args:
        policy: called in the batcher's thread only.
        batcher: the policy's.
    """

    def __init__(self, policy: BatchPolicy, batcher: Batcher) -> None:
        self._policy, self._batcher = policy, batcher

    def begin(self, episode: Episode, waiting: Callable[[], None]) -> ClientSession:
        """Begin a session for an episode, whose generator becomes the session's.

        Args:
            episode: the episode.
            waiting: called every `LOOK_SECONDS` until the answer; an exception from it ends the wait.

        Raises:
            EpisodeError: the policy's own, or ``policy-raised``.
        """

        def begin() -> Any:
            seed_globals([episode.rng])
            return self._policy.begin(episode)

        begun = self._batcher.call(begin)
        session = ClientSession(_awaited(begun, waiting, "at the episode's begin: "), episode.rng, episode.alone)
        self._batcher.begin(session)
        return session

    def ask(self, session: ClientSession, observation: Observation, waiting: Callable[[], None]) -> Answer:
        """Return the answer to a session's question; arguments and errors as for `begin`."""
        question = self._batcher.ask(session.state, observation, session, alone=session.alone, noise=session.noise)
        return _awaited(question, waiting, "")

    def end(self, session: ClientSession, waiting: Callable[[], None]) -> None:
        """End a session; arguments and errors as for `begin`."""
        self._batcher.end(session)
        close = getattr(session.state, "close", None)
        if close is not None:
            _awaited(self._batcher.call(close), waiting, "at the episode's end: ")

    def abandon(self, session: ClientSession) -> None:
        """End a session whose client is gone, without waiting."""
        self._batcher.end(session)
        close = getattr(session.state, "close", None)
        if close is not None:
            self._batcher.call(close)


def _awaited(future: "Future[_T]", waiting: Callable[[], None], moment: str) -> _T:
    """Return the result of a call; turn the policy's error into an EpisodeError that names the moment."""
    while not wait([future], LOOK_SECONDS).done:
        try:
            waiting()
        except BaseException:
            future.cancel()
            raise
    try:
        return future.result()
    except CancelledError as error:
        raise EpisodeError("policy-connection", "the question was given up") from error
    except BaseException as error:
        raise as_episode_error(error, moment) from error.__cause__ if isinstance(error, EpisodeError) else error


# The requests of clients of `pytest-vla serve`: untrusted, and checked before they are used.

MAX_REQUEST = 16 * 1024 * 1024
"""The most bytes of a request: two pictures of 1536 x 1536 pixels."""

MAX_SIDE = 4096
"""The most pixels of a picture's height and width."""

_LONGEST_REQUEST_TEXT = 10_000
_MOST_NUMBERS = 100_000
_MOST_SAMPLES = 1000
_NAMES_SHOWN = 20


class BadRequest(VlaError):
    """An invalid request; the client gets the message."""


def read_request(frame: str | bytes) -> dict[Any, Any]:
    """Return the table in a websocket frame. Raises BadRequest."""
    if isinstance(frame, str):
        raise BadRequest("a request is a binary frame of msgpack; this one is text")
    try:
        request = unpack(frame)
    except ValueError as error:
        raise BadRequest(f"{len(frame)} bytes that are no request: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest(f"a request is a dict, not {type(request).__name__}")
    return request


def read_episode(request: Mapping[Any, Any]) -> Episode:
    """Return the episode that one of our clients begins, with a generator of its own. Raises BadRequest."""
    names = ("case_id", "suite", "task", "instruction")
    case_id, suite, task, instruction = (_text(request.get(name), name) for name in names)
    seed, wishes = request.get("seed"), request.get("wishes")
    if type(seed) is not int:
        raise BadRequest(f"seed: expected an integer, got {_short(seed)}")
    noise = np.random.Generator(np.random.PCG64(0))
    read_noise(noise, request)
    alone = request.get("alone", False)
    if not isinstance(alone, bool):
        raise BadRequest(f"alone: expected true or false, got {_short(alone)}")
    replan = request.get("replan")
    if not (replan is None or (type(replan) is int and replan >= 1)):
        raise BadRequest(f"replan: expected a number of steps, or none, got {_short(replan)}")
    late = request.get("late", Episode.late)
    if not (late is None or (type(late) is int and late >= 0)):
        raise BadRequest(f"late: expected a number of steps, or none, got {_short(late)}")
    prompt = _text(request.get("prompt", instruction), "prompt")
    turn = _text(request.get("wrist_transform", Episode.wrist_transform), "wrist_transform")
    names_and_seed = (case_id, suite, task, instruction, seed)
    asked = _wishes(wishes), alone
    return Episode(*names_and_seed, noise, *asked, replan=replan, prompt=prompt, wrist_transform=turn, late=late)


def read_noise(noise: np.random.Generator, request: Mapping[Any, Any]) -> None:
    """Set a generator to the state that one of our clients sends with each question. Raises BadRequest."""
    try:
        set_noise(noise, request.get("noise"))
    except VlaError as error:
        raise BadRequest(f"noise: {error}") from error


def read_observation(request: Mapping[Any, Any], reads: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    """Return the observation of one of our clients: exactly `reads`, or anything if that is None. Raises BadRequest."""
    sent = request.get("observation")
    if not isinstance(sent, dict) or not all(isinstance(name, str) for name in sent):
        raise BadRequest(f"observation: expected a dict of arrays, got {_short(sent)}")
    if reads is not None and set(sent) != set(reads):
        raise BadRequest(f"observation: expected {', '.join(reads)}, got {_names(sent)}")
    return {name: _array(name, name, value) for name, value in sent.items()}


def read_libero_request(request: Mapping[Any, Any], reads: Sequence[str] | None) -> tuple[dict[str, NDArray[Any]], str]:
    """Return the observation and the prompt in a request of openpi's LIBERO client. Raises BadRequest.

    Args:
        request: may lack pictures that the policy does not read.
        reads: the observations that the policy reads, or None for those that there are.
    """
    unknown = set(reads or ()) - set(OBSERVATIONS.values())
    if unknown:
        raise BadRequest(
            f"this policy reads {', '.join(sorted(unknown))}, which openpi's protocol has no place for: only "
            "pytest-vla's own client can ask it"
        )
    wanted = {
        sent: name for sent, name in OBSERVATIONS.items() if (sent in request if reads is None else name in reads)
    }
    missing = [sent for sent in (*wanted, PROMPT) if sent not in request]
    if missing:
        raise BadRequest(f"the request lacks {', '.join(missing)}; it has {_names(request)}")
    observation = {name: _array(sent, name, request[sent]) for sent, name in wanted.items()}
    return observation, _text(request[PROMPT], PROMPT)


def _array(label: str, name: str, value: object) -> NDArray[Any]:
    expected, fits = _expected(name)
    if not isinstance(value, np.ndarray) or not fits(value):
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else _short(value)
        raise BadRequest(f"{label[:100]!r}: expected {expected}, got {got}")
    # A copy, which a policy may write to, in this machine's byte order.
    return value.astype(value.dtype.newbyteorder("="), order="C", copy=True)


def _expected(name: str) -> tuple[str, Callable[[NDArray[Any]], bool]]:
    if name.endswith("_image"):
        return f"a picture (H, W, 3) of uint8, sides up to {MAX_SIDE}", _is_picture
    if name == "state":
        # 10 of X-VLA's evaluator.
        return "8 or 10 real numbers", lambda array: array.shape in ((8,), (10,)) and array.dtype.kind in "fiu"
    return (
        f"an array of up to {_MOST_NUMBERS} real numbers",
        lambda array: array.size <= _MOST_NUMBERS and array.dtype.kind in "bfiu",
    )


def _is_picture(array: NDArray[Any]) -> bool:
    sides = array.shape[:2]
    return (
        array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == 3 and 0 < min(sides) <= max(sides) <= MAX_SIDE
    )


def _wishes(table: object) -> Wishes:
    if isinstance(table, dict) and set(table) == {"samples", "token_probabilities"}:
        samples, probabilities = table["samples"], table["token_probabilities"]
        if type(samples) is int and 0 <= samples <= _MOST_SAMPLES and isinstance(probabilities, bool):
            return Wishes(samples, probabilities)
    raise BadRequest(
        f"wishes: expected up to {_MOST_SAMPLES} samples, and token_probabilities or not, got {_short(table)}"
    )


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_REQUEST_TEXT:
        raise BadRequest(f"{name}: expected a text of up to {_LONGEST_REQUEST_TEXT} characters, got {_short(value)}")
    return value


def _names(table: Mapping[Any, Any]) -> str:
    """Return the first of a table's keys, with a bounded length: a key may have megabytes."""
    shown = [_short(key) for key in itertools.islice(table, _NAMES_SHOWN)]
    return f"[{', '.join(sorted(shown))}]" + f" and {len(table) - len(shown)} more" * (len(table) > len(shown))


def _short(value: object) -> str:
    # Not its whole repr: it may be large.
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} {value.shape}"
    if isinstance(value, str | bytes):
        value = value[:100]
    text = repr(value) if not isinstance(value, dict) else f"a dict of {len(value)}"
    return text if len(text) <= 100 else f"{text[:97]}..."


HEALTH = "/healthz"

_BAD_REQUEST, _POLICY_RAISED = 1008, 1011  # Websocket's codes.
_CLOSE_SECONDS = 1.0
_SEND_SECONDS = 30.0
_PING_SECONDS = 30.0
_PONG_SECONDS = 120.0  # A client that compiles a scene may block its interpreter for long.
_POLL_SECONDS = 0.5
_LONGEST_TEXT = 100_000
_MOST_PIECES = 1000
_MOST_THREADS = 1500  # Three per connection.


class WebsocketServer:
    """A websocket server that answers clients until it is closed.

    Attributes:
        batcher: calls the policy.
        port: the port that it listens on.
    """

    def __init__(
        self,
        policy: BatchPolicy,
        listener: socket.socket,
        *,
        key: str = "",
        most: int = 1,
        run_seed: int = 0,
        digest: str | None = None,
        told: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Start to listen.

        Args:
            policy: called by one thread only; a `PlainPolicy` gets all observations that a client has.
            listener: a bound TCP socket, which the server takes over.
            key: the key that a client needs; empty for none.
            most: the most questions in a batch.
            run_seed: seeds, with the numbers of connection and request, the noise of clients that send none.
            digest: the digest of the policy's content.
            told: called, from any thread, with a line for the operator of the server.

        Raises:
            VlaError: the package websockets is missing, or the policy's description of itself is invalid.
            OSError: it cannot listen there.
        """
        require_websockets("serving a policy")
        from websockets.sync.server import serve

        replan = own_number(policy, "replan")
        self._key, self._run_seed, self._told = key, run_seed, told
        self._reads = None if isinstance(policy, PlainPolicy) else tuple(policy.reads)
        traits = traits_of(policy.policy if isinstance(policy, PlainPolicy) else policy)
        self._greeting = pack(ServerInfo(self._reads, replan, digest, traits).metadata())
        self._numbers = itertools.count(1)
        self._lock, self._open = threading.Lock(), 0
        listener.listen(128)
        self.port: int = listener.getsockname()[1]
        self.batcher = Batcher(policy, most)
        self._sessions = Sessions(policy, self.batcher)
        self._server = serve(
            self._serve,
            sock=_Listener(fileno=listener.detach()),
            process_request=self._admit,
            # Otherwise a web page in a browser could reach a server on loopback.
            origins=[None],
            compression=None,
            max_size=MAX_REQUEST,
            max_queue=2,
            ping_interval=_PING_SECONDS,
            ping_timeout=_PONG_SECONDS,
            close_timeout=_CLOSE_SECONDS,
        )
        threading.Thread(target=self._server.serve_forever, name="vla-accept", daemon=True).start()

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        return self._open

    def close(self, seconds: float = 3.0) -> bool:
        """End all connections and the policy's thread; return whether all ended in time, as a policy may hang."""

        def end() -> None:
            self._server.shutdown()
            self.batcher.close()

        closing = threading.Thread(target=end, daemon=True)
        closing.start()
        closing.join(seconds)
        return not closing.is_alive()

    def _admit(self, connection: "ServerConnection", request: "Request") -> "Response | None":
        if request.path.partition("?")[0] == HEALTH:
            return connection.respond(HTTPStatus.OK, "OK\n")
        given = request.headers.get_all("Authorization")
        if self._key and not (len(given) == 1 and _is_same(given[0], f"Api-Key {self._key}")):
            self._told(f"{_peer(connection)}: refused, {'wrong key' if given else 'no key'}")
            return connection.respond(HTTPStatus.UNAUTHORIZED, "this server requires a key\n")
        return None

    def _serve(self, connection: "ServerConnection") -> None:
        from websockets.exceptions import ConnectionClosed

        with self._lock:
            self._open += 1
            number = next(self._numbers)
        talk = _Conversation(connection, number, self._sessions, self._reads, self._run_seed)
        peer = _peer(connection)
        try:
            limit_sending(connection, _SEND_SECONDS)
            connection.send(self._greeting)
            while True:
                try:
                    reply = pack(talk.answer(read_request(_next_message(connection))))
                except BadRequest as error:
                    self._told(f"{peer}: {error}")
                    connection.send(_sendable(str(error)))
                    connection.close(_BAD_REQUEST, "the error is in the previous frame")
                except EpisodeError as error:
                    self._told(_sendable(f"{peer}: {error}"))
                    connection.send(_sendable(_traceback(error)))
                    connection.close(_POLICY_RAISED, "the traceback is in the previous frame")
                else:
                    if talk.mishap is not None:
                        self._told(_sendable(f"{peer}: {talk.mishap}"))
                    connection.send(reply)
        except ConnectionClosed:
            # The client is gone; `leave` ends its session.
            pass
        except Exception as error:
            # An internal error ends this connection only.
            self._told(f"{peer}: {describe(error)}")
        finally:
            with self._lock:
                self._open -= 1
            talk.leave()


def _next_message(connection: "ServerConnection") -> str | bytes:
    """Return a client's next message. Raises BadRequest if it has too many fragments, and ConnectionClosed."""
    pieces: list[Any] = []
    for piece in connection.recv_streaming():
        # Empty fragments do not add to the length, and could continue for ever.
        if len(pieces) == _MOST_PIECES:
            raise BadRequest(f"a request comes in up to {_MOST_PIECES} pieces")
        pieces.append(piece)
    joined: str | bytes = pieces[0][:0].join(pieces)
    return joined


class _Listener(socket.socket):
    """A listener that waits while connections cannot be accepted; websockets' server would stop accepting for good."""

    def accept(self) -> tuple[socket.socket, Any]:
        self.settimeout(1.0)
        while True:
            if self.fileno() >= 0 and threading.active_count() > _MOST_THREADS:
                time.sleep(_POLL_SECONDS)
                continue
            try:
                return super().accept()
            except TimeoutError:
                continue
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED):
                    raise
                time.sleep(_POLL_SECONDS)


class _Conversation:
    """One connection: its session, and its questions one after the other.

    Attributes:
        mishap: the error that the last answer reported to one of our clients, or None.
    """

    def __init__(
        self,
        connection: "ServerConnection",
        number: int,
        sessions: Sessions,
        reads: tuple[str, ...] | None,
        run_seed: int,
    ) -> None:
        self._connection, self._sessions, self._reads = connection, sessions, reads
        self._number, self._run_seed, self._requests = number, run_seed, itertools.count()
        self._session: ClientSession | None = None
        # The prompt of the session of a client without begin messages.
        self._prompt: str | None = None
        self.mishap: EpisodeError | None = None

    def answer(self, request: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the reply. Raises BadRequest, and EpisodeError for clients that are not ours."""
        self.mishap = None
        if OURS not in request:
            return self._infer(request)
        ways: Mapping[str, Callable[[Mapping[Any, Any]], dict[str, Any]]] = {
            "begin": self._begin,
            "act": self._act,
            "end": self._end,
        }
        way = request[OURS]
        if not isinstance(way, str) or way not in ways:
            raise BadRequest(f"{OURS}: expected one of {', '.join(ways)}, got {str(way)[:100]!r}")
        try:
            return ways[way](request)
        except EpisodeError as error:
            self.mishap = error
            told = {"message": _sendable(error.message), "details": _sendable(details_of(error))}
            return {"reason": error.reason, **told}

    def leave(self) -> None:
        """Abandon the session of a client that is gone."""
        if self._session is not None:
            self._sessions.abandon(self._session)

    def _infer(self, request: Mapping[Any, Any]) -> dict[str, Any]:
        """Answer a request in openpi's own protocol."""
        observation, prompt = read_libero_request(request, self._reads)
        name = f"connection {self._number}"
        if self._session is None or self._prompt != prompt:
            self._close()
            noise = noise_generator(self._run_seed, name)
            self._session = self._sessions.begin(Episode(name, "", "", prompt, self._number, noise), self._waiting)
            self._prompt = prompt
        reseed(self._session.noise, self._run_seed, name, next(self._requests))
        return self._asked(self._session, observation)

    def _begin(self, request: Mapping[Any, Any]) -> dict[str, Any]:
        episode = read_episode(request)
        self._close()
        self._session = self._sessions.begin(episode, self._waiting)
        return {}

    def _act(self, request: Mapping[Any, Any]) -> dict[str, Any]:
        if self._session is None:
            raise BadRequest("a question before the episode's begin")
        observation = read_observation(request, self._reads)
        # A policy's draws depend on the episode and the step, not on the rest of the batch.
        read_noise(self._session.noise, request)
        return self._asked(self._session, observation)

    def _end(self, request: Mapping[Any, Any]) -> dict[str, Any]:
        self._close()
        return {}

    def _asked(self, session: ClientSession, observation: Mapping[str, Any]) -> dict[str, Any]:
        began = time.perf_counter()
        answer = self._sessions.ask(session, observation, self._waiting)
        spent = 1000 * (time.perf_counter() - began)
        given = {name: value for name, value in vars(answer).items() if value is not None}
        if answer.token_statistics is not None:
            given["token_statistics"] = statistics_table(answer.token_statistics)
        # openpi's answer has no seconds beside these.
        return {
            **{name: value for name, value in given.items() if name != "seconds"},
            "server_timing": {"infer_ms": spent},
        }

    def _waiting(self) -> None:
        from websockets.protocol import State

        if self._connection.state is not State.OPEN:
            raise EpisodeError("policy-connection", "the client is gone")

    def _close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._sessions.end(session, self._waiting)


def _traceback(error: EpisodeError) -> str:
    """Return the text that openpi's server would send: the traceback, or else its last line."""
    return details_of(error) or str(error)


def _sendable(text: str) -> str:
    """Return the end of an exception's text, with a bounded length, in a form that can be encoded."""
    return text[-_LONGEST_TEXT:].encode(errors="backslashreplace").decode()


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="surrogateescape"), expected.encode(errors="surrogateescape"))


def _peer(connection: "ServerConnection") -> str:
    try:
        host, port = connection.remote_address[:2]
    except OSError:
        return "a client that is gone"
    return f"{host}:{port}"
