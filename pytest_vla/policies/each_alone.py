"""A policy that is called once an episode, as one that answers in batches: of one question each."""

from collections.abc import Sequence
from typing import Any

from pytest_vla.policies.base import BatchPolicy, Episode, Policy, Session
from pytest_vla.policies.observations import Observations
from pytest_vla.policies.session import begin_session
from pytest_vla.policies.traits import traits_of


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
