"""Sessions at a policy that others ask from afar, and what goes wrong in them: the same behind every kind of server."""

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Answer, BatchPolicy, Episode, Observation
from pytest_vla.policies.global_seeds import seed_globals
from pytest_vla.serving.batching import Batcher
from pytest_vla.serving.calls import as_episode_error

_T = TypeVar("_T")

LOOK_SECONDS = 0.5
"""How often somebody who waits for an answer is looked after."""


@dataclass(frozen=True, eq=False)
class Session:
    """An episode's; belongs to it alone.

    Attributes:
        state: what the policy made at its begin.
        noise: its generator.
        alone: whether its questions are in no batch with others'.
    """

    state: Any
    noise: np.random.Generator
    alone: bool = False


class Sessions:
    """Begins, asks and ends sessions. May be used by many threads, each with sessions of its own.

    Args:
        policy: called in the batcher's thread only.
        batcher: the policy's.
    """

    def __init__(self, policy: BatchPolicy, batcher: Batcher) -> None:
        self._policy, self._batcher = policy, batcher

    def begin(self, episode: Episode, waiting: Callable[[], None]) -> Session:
        """A session of an episode, whose generator becomes the session's.

        Args:
            episode: that begins.
            waiting: called every `LOOK_SECONDS` while there is no answer; what it raises ends the wait.

        Raises:
            EpisodeError: the policy's own, or ``policy-raised``.
        """

        def begin() -> Any:
            seed_globals([episode.rng])
            return self._policy.begin(episode)

        begun = self._batcher.call(begin)
        session = Session(_awaited(begun, waiting, "at the episode's begin: "), episode.rng, episode.alone)
        self._batcher.begin(session)
        return session

    def ask(self, session: Session, observation: Observation, waiting: Callable[[], None]) -> Answer:
        """The answer to a session's question. As `begin`."""
        question = self._batcher.ask(session.state, observation, session, alone=session.alone, noise=session.noise)
        return _awaited(question, waiting, "")

    def end(self, session: Session, waiting: Callable[[], None]) -> None:
        """Ends a session. As `begin`."""
        self._batcher.end(session)
        close = getattr(session.state, "close", None)
        if close is not None:
            _awaited(self._batcher.call(close), waiting, "at the episode's end: ")

    def abandon(self, session: Session) -> None:
        """Ends a session whose episode is gone; nobody waits for it."""
        self._batcher.end(session)
        close = getattr(session.state, "close", None)
        if close is not None:
            self._batcher.call(close)


def _awaited(future: "Future[_T]", waiting: Callable[[], None], moment: str) -> _T:
    """What a call gives; what the policy raised becomes an EpisodeError that says where."""
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
