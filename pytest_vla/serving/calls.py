"""One call of a policy for a batch: answers that are checked, or what is told each of those who asked."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pytest_vla.errors import BATCH_FAILED, EpisodeError
from pytest_vla.policies.base import Answer, BatchPolicy, Observation, check_answer, counted_answers
from pytest_vla.policies.global_seeds import seed_globals
from pytest_vla.policies.observations import as_observations
from pytest_vla.util.tracebacks import describe, full_traceback


def call_policy(
    policy: BatchPolicy,
    states: Sequence[Any],
    observations: Sequence[Observation],
    noises: Sequence[np.random.Generator],
) -> list[Answer | BaseException]:
    """The answers of a batch, each checked, or what is raised for it; nothing is raised here.

    Raised on a batch of several it becomes an EpisodeError `BATCH_FAILED` of each: a policy that broke off may have
    left any of their states half changed, and generators drawn from.

    Args:
        policy: that is asked.
        states: of the sessions.
        observations: of each.
        noises: of the sessions; the global generators are seeded by them.
    """
    count = len(states)
    try:
        seed_globals(noises)
        given = policy.act(states, as_observations(observations))
    except BaseException as error:
        failure: BaseException = error
        if count > 1:
            failure = EpisodeError(BATCH_FAILED, f"on a batch of {count} the policy raised {describe(error)}")
            failure.__cause__ = error
        return [failure] * count
    try:
        return [_checked(answer) for answer in counted_answers(given, count)]
    except EpisodeError as error:
        return [error] * count


def as_episode_error(error: BaseException, moment: str = "") -> EpisodeError:
    """What a policy raised as an episode's error; `moment` says where, such as "at the episode's begin: "."""
    if isinstance(error, EpisodeError):
        return error
    raised = EpisodeError("policy-raised", f"{moment}{describe(error)}")
    raised.__cause__ = error
    return raised


def late(seconds: float) -> EpisodeError:
    """That of an episode whose answer took longer than it may."""
    return EpisodeError("policy-timeout", f"no answer of the policy in {seconds:g} s (--vla-policy-timeout)")


def details_of(error: EpisodeError) -> str:
    """The traceback behind an error, for whoever has to mend the policy; empty where nothing was raised."""
    return full_traceback(error.__cause__) if error.__cause__ else ""


def _checked(answer: object) -> Answer | BaseException:
    try:
        return check_answer(answer, None)
    except BaseException as error:
        return error
