"""A policy's session from its begin to its end: what is asked, and what breaks on the way, as an episode's error."""

from collections.abc import Sequence
from typing import Any

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import (
    Answer,
    BatchPolicy,
    Episode,
    Observation,
    Observations,
    Policy,
    Session,
    check_answer,
    own_number,
)
from pytest_vla.policies.fit import ACTION_SIZE, traits_of
from pytest_vla.util.warnings import describe, ends_episode


def own_replan(policy: Policy) -> int | None:
    """How many steps of a chunk the policy wants executed; None: it does not say. Raises EpisodeError."""
    try:
        return own_number(policy, "replan")
    except EpisodeError:
        raise
    except VlaError as error:
        raise EpisodeError("policy-protocol", str(error)) from error


def begin_session(policy: Policy, episode: Episode) -> Session:
    """The policy's session of an episode. Raises EpisodeError ``policy-raised`` or ``policy-protocol``."""
    try:
        session = policy(episode)
    except EpisodeError:
        raise
    except BaseException as error:
        if not ends_episode(error):
            raise
        raise EpisodeError("policy-raised", f"at the episode's begin: {describe(error)}") from error
    if not callable(session):
        raise EpisodeError(
            "policy-protocol",
            f"a policy is called with an episode and returns a session that is called with observations; this one "
            f"returned {type(session).__name__}",
        )
    return session


def ask_session(session: Session, observation: Observation, action_size: int = ACTION_SIZE) -> Answer:
    """A session's checked answer, of actions of this size.

    Raises:
        EpisodeError: ``policy-raised``, or what is wrong with the answer.
    """
    try:
        answer = session(observation)
    except EpisodeError:
        raise
    except BaseException as error:
        if not ends_episode(error):
            raise
        raise EpisodeError("policy-raised", describe(error)) from error
    return check_answer(answer, action_size)


def close_session(session: Session) -> None:
    """Tell a session, where it wants to know, that its episode is over. Raises EpisodeError ``policy-raised``."""
    close = getattr(session, "close", None)
    if close is None:
        return
    try:
        close()
    except EpisodeError:
        raise
    except BaseException as error:
        if not ends_episode(error):
            raise
        raise EpisodeError("policy-raised", f"at the episode's end: {describe(error)}") from error


# A policy that is called once an episode, as one that answers in batches: of one question each.


def each_alone(policy: Policy, reads: Sequence[str]) -> BatchPolicy:
    """The policy, for workers that share it; `reads`: the observations that its sessions get."""
    return _EachAlone(policy, reads)


class _EachAlone:
    max_batch = 1

    def __init__(self, policy: Policy, reads: Sequence[str]) -> None:
        self._policy = policy
        self.reads: Sequence[str] = tuple(reads)
        # What a policy says of itself beside the protocol.
        self.replan = getattr(policy, "replan", None)
        self.traits = traits_of(policy)

    def begin(self, episode: Episode) -> Session:
        return begin_session(self._policy, episode)

    def act(self, states: Sequence[Session], observations: Observations) -> list[Any]:
        (session,), (observation,) = states, observations
        return [session(observation)]
