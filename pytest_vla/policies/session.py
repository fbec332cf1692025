"""The calls of a policy's session from its begin to its end, with failures as an episode's errors."""

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_vla.errors import OF_THE_POLICY, EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.policies.base import (
    Answer,
    BatchPolicy,
    Episode,
    Observation,
    Observations,
    Policy,
    RecordedStart,
    Session,
    check_answer,
    own_number,
)
from pytest_vla.policies.fit import ACTION_SIZE, traits_of
from pytest_vla.util.wall_limits import is_users_own
from pytest_vla.util.warnings import describe, ends_episode


def own_replan(policy: Policy) -> int | None:
    """Return the number of steps of a chunk that the policy wants executed, or None. Raises EpisodeError."""
    try:
        return own_number(policy, "replan")
    except EpisodeError:
        raise
    except VlaError as error:
        raise EpisodeError("policy-protocol", str(error)) from error


def as_raised_by_policy(error: EpisodeError) -> EpisodeError:
    """Return an EpisodeError from a policy's call as it is, or as ``policy-raised`` if the policy's own code raised it.

    Only pytest-vla knows that the simulator broke, or that a server went away: a policy must not claim it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or not is_users_own(frames[-1].filename) or error.reason in OF_THE_POLICY:
        return error
    return EpisodeError("policy-raised", f"EpisodeError {error.reason}: {error.message}")


@contextmanager
def _reasons(when: str = "") -> Iterator[None]:
    """Give what a policy raises its reason. Raises EpisodeError, and whatever ends more than the episode."""
    try:
        yield
    except EpisodeError as error:
        if (own := as_raised_by_policy(error)) is not error:
            raise own from error
        raise
    except BaseException as error:
        if not ends_episode(error):
            raise
        raise EpisodeError("policy-raised", f"{when}{describe(error)}") from error


def begin_start(start: Callable[[Case], object], case: Case) -> RecordedStart:
    """Return where a policy has an episode begin. Raises EpisodeError ``policy-raised`` or ``policy-protocol``."""
    with _reasons("at the episode's start: "):
        found = start(case)
    if not isinstance(found, RecordedStart):
        raise EpisodeError("policy-protocol", f"start returns a RecordedStart; this one's is {type(found).__name__}")
    return found


def begin_session(policy: Policy, episode: Episode) -> Session:
    """Begin the policy's session for an episode. Raises EpisodeError ``policy-raised`` or ``policy-protocol``."""
    with _reasons("at the episode's begin: "):
        session = policy(episode)
    if not callable(session):
        raise EpisodeError(
            "policy-protocol",
            f"a policy is called with an episode and returns a session that is called with observations; this one "
            f"returned {type(session).__name__}",
        )
    return session


def ask_session(session: Session, observation: Observation, action_size: int = ACTION_SIZE) -> Answer:
    """Return a session's checked answer, with actions of this size.

    Raises:
        EpisodeError: ``policy-raised``, or the reason for which the answer is invalid.
    """
    with _reasons():
        answer = session(observation)
    return check_answer(answer, action_size)


def close_session(session: Session) -> None:
    """Call a session's ``close()``, if it has one. Raises EpisodeError ``policy-raised``."""
    close = getattr(session, "close", None)
    if close is None:
        return
    with _reasons("at the episode's end: "):
        close()


# A policy that is called once per episode, as a `BatchPolicy` with batches of one question.


def each_alone(policy: Policy, reads: Sequence[str]) -> BatchPolicy:
    """Adapt a policy for workers that share it: batches of one, with the observations `reads` for its sessions."""
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
