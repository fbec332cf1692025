"""A worker's side of the policy's process: a policy like any other, whose sessions live over there."""

import itertools
import os
import socket
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Episode, Observation
from pytest_vla.serving.server import PROTOCOL
from pytest_vla.serving.wire import SharedPictures, WireError, allocate, pack_noise, receive, send

DIED = "policy-server-died"
"""The reason of an error: the policy's process ended, or closed the connection."""

SLOW = "policy-timeout"
"""The reason of an error: an answer took longer than ``--vla-policy-timeout``."""

# Two cameras of 1024 x 1024 pixels, or a dozen of 256 x 256.
_MEMORY = 8 * 1024 * 1024


class ServedPolicy:
    """A policy whose weights are in another process. One question at a time; belongs to one thread."""

    def __init__(self, path: Path, secret: bytes, timeout: float) -> None:
        """Connects at the first episode.

        Args:
            path: of the server's Unix-domain socket.
            secret: the run's.
            timeout: seconds that an answer may take.
        """
        self._path, self._secret, self._timeout = path, secret, timeout
        self._numbers = itertools.count()
        self._connection: socket.socket | None = None
        self._pictures: SharedPictures | None = None
        self._reads: tuple[str, ...] = ()

    def __call__(self, episode: Episode) -> "_ServedSession":
        """Begins a session over there. Raises EpisodeError."""
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
        }
        self._connect()
        self._ask(message)
        return _ServedSession(self, number, episode.rng)

    def act(self, number: int, noise: np.random.Generator, observation: Observation) -> NDArray[np.float64]:
        """The chunk (k, 7) of a session. Raises EpisodeError."""
        if self._pictures is None:
            raise EpisodeError(DIED, "the connection to the policy's process was lost")
        places = self._pictures.write({name: observation[name] for name in self._reads})
        answer = self._ask({"do": "act", "session": number, "noise": pack_noise(noise), "places": places})
        return np.frombuffer(answer["chunk"], np.float64).reshape(answer["shape"]).copy()

    def end(self, number: int) -> None:
        """Ends a session; nothing where the connection is lost, since its sessions went with it."""
        if self._connection is not None:
            self._ask({"do": "end", "session": number})

    def close(self) -> None:
        """Closes the connection; the next episode makes a new one."""
        if self._connection is not None:
            self._connection.close()
        if self._pictures is not None:
            self._pictures.close()
        self._connection = self._pictures = None

    def _connect(self) -> None:
        if self._connection is not None:
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        descriptor = allocate(_MEMORY)
        try:
            connection.settimeout(self._timeout)
            connection.connect(str(self._path))
            send(connection, {"protocol": PROTOCOL, "secret": self._secret}, (descriptor,))
            answer, _ = receive(connection)
            if "refused" in answer:
                raise WireError(f"the policy's process refused this worker: {answer['refused']}")
        except (OSError, WireError) as error:
            os.close(descriptor)
            connection.close()
            raise EpisodeError(DIED, f"the policy's process cannot be reached: {error}") from error
        self._reads = tuple(answer["reads"])
        self._connection, self._pictures = connection, SharedPictures(descriptor)

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self._connection is not None
        try:
            send(self._connection, message)
            answer, _ = receive(self._connection)
        except TimeoutError as error:
            # What comes late would be taken for the answer to the next question.
            self.close()
            raise EpisodeError(SLOW, f"no answer from the policy's process in {self._timeout:g} s") from error
        except WireError as error:
            self.close()
            raise EpisodeError(DIED, f"the policy's process is gone: {error}") from error
        if "reason" in answer:
            raise EpisodeError(answer["reason"], answer["error"])
        return answer


class _ServedSession:
    """One episode's session, which lives in the policy's process."""

    def __init__(self, policy: ServedPolicy, number: int, noise: np.random.Generator) -> None:
        self._policy, self._number, self._noise = policy, number, noise

    def __call__(self, observation: Observation) -> NDArray[np.float64]:
        return self._policy.act(self._number, self._noise, observation)

    def close(self) -> None:
        """Ends the session over there."""
        self._policy.end(self._number)
