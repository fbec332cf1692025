"""The process that has the policy: it listens to workers, keeps each session apart, and asks the policy in batches."""

import hmac
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from pytest_vla.errors import EpisodeError, WireError
from pytest_vla.policies.base import BatchPolicy, Episode, Wishes
from pytest_vla.policies.noise import set_noise
from pytest_vla.serving.batching import Batcher
from pytest_vla.serving.sessions import Session, Sessions, details_of
from pytest_vla.serving.wire import SharedPictures, pack_answer, receive, send

PROTOCOL = 1


WAIT = {"wait": True}
"""What a worker is sent now and then while it waits for an answer."""


class Server:
    """Answers workers until it is closed.

    Attributes:
        batcher: asks the policy.
    """

    def __init__(
        self,
        policy: BatchPolicy,
        listener: socket.socket,
        secret: bytes,
        most: int,
        *,
        limit: float | None = None,
        hung: Callable[[], None] = lambda: None,
    ) -> None:
        """Starts to listen.

        Args:
            policy: called by one thread only, for `begin` as for `act`.
            listener: a Unix-domain stream socket that is bound; the server closes it.
            secret: what a worker has to know.
            most: questions in a batch.
            limit, hung: see `Batcher`.
        """
        self._policy, self._listener, self._secret = policy, listener, secret
        self.batcher = Batcher(policy, most, limit=limit, hung=hung)
        self._sessions = Sessions(policy, self.batcher)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        listener.listen(256)
        threading.Thread(target=self._accept, name="vla-accept", daemon=True).start()

    def close(self) -> None:
        """Ends all connections and the policy's thread."""
        with suppress(OSError):
            # Wakes the thread that waits for a connection.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.batcher.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), name="vla-worker", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        pictures: SharedPictures | None = None
        try:
            hello, files = receive(connection, files=1)
            if not files:
                raise WireError("a worker has to bring its memory")
            pictures = SharedPictures(files[0])
            if hello.get("protocol") != PROTOCOL or not self._knows(hello.get("secret")):
                send(connection, {"refused": "another protocol, or not this run's secret"})
                return
            send(connection, {"reads": list(self._policy.reads)})
            worker = _Worker(connection, pictures, self._sessions)
            try:
                worker.run()
            finally:
                worker.leave()
        except (WireError, TimeoutError):
            # A worker that is gone takes its sessions with it.
            pass
        finally:
            if pictures is not None:
                pictures.close()
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _knows(self, secret: object) -> bool:
        return isinstance(secret, bytes) and hmac.compare_digest(secret, self._secret)


class _Worker:
    """One connection: its sessions, and what it asks of them, one question after the other."""

    def __init__(self, connection: socket.socket, pictures: SharedPictures, sessions: Sessions) -> None:
        self._connection, self._pictures, self._policy = connection, pictures, sessions
        self._sessions: dict[int, Session] = {}
        self._ways: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "begin": self._begin,
            "act": self._act,
            "end": self._end,
        }

    def leave(self) -> None:
        """The worker is gone, and its sessions with it."""
        for session in self._sessions.values():
            self._policy.abandon(session)
        self._sessions.clear()

    def run(self) -> None:
        """Answers until the worker is gone: WireError."""
        while True:
            message, _ = receive(self._connection)
            way = self._ways.get(str(message.get("do")))
            if way is None:
                raise WireError(f"cannot do {message.get('do')!r}")
            try:
                answer = way(message)
            except EpisodeError as error:
                answer = {"reason": error.reason, "error": error.message, "details": details_of(error)}
            except (KeyError, TypeError) as error:
                raise WireError(f"a message lacks what it needs: {error}") from error
            send(self._connection, answer)

    def _begin(self, message: dict[str, Any]) -> dict[str, Any]:
        noise = np.random.Generator(np.random.PCG64(0))
        set_noise(noise, message["noise"])
        names = ("case_id", "suite", "task", "instruction", "seed", "alone", "replan")
        told = {name: message[name] for name in names}
        episode = Episode(**told, rng=noise, wishes=Wishes(**message["wishes"]))
        self._sessions[message["session"]] = self._policy.begin(episode, self._still_waiting)
        return {}

    def _act(self, message: dict[str, Any]) -> dict[str, Any]:
        session = self._sessions[message["session"]]
        # What a policy draws follows from the episode and the step, whoever else is in the batch.
        set_noise(session.noise, message["noise"])
        # Copied: what a session keeps of it must not change with the next question.
        observation = {name: array.copy() for name, array in self._pictures.read(message["places"]).items()}
        return pack_answer(self._policy.ask(session, observation, self._still_waiting))

    def _end(self, message: dict[str, Any]) -> dict[str, Any]:
        session = self._sessions.pop(message["session"], None)
        if session is not None:
            self._policy.end(session, self._still_waiting)
        return {}

    def _still_waiting(self) -> None:
        """Tells the worker that this process is alive; WireError where the worker is not."""
        send(self._connection, WAIT)
