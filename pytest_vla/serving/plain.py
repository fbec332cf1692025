"""A policy that answers one question after the other, as a `BatchPolicy`, so that it can be served like one."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Answer, BatchPolicy, Episode, Observation, Policy, Session, is_batch_policy

EVERYTHING = (
    *("agentview_image", "robot0_eye_in_hand_image", "state"),
    *("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos", "robot0_joint_pos"),
)
"""What a session may read, since it does not say what it does read."""


def as_batch_policy(policy: Policy | BatchPolicy) -> BatchPolicy:
    """A policy with batches of one; one that answers in batches as it is."""
    return policy if is_batch_policy(policy) else PlainPolicy(policy)  # type: ignore[arg-type]


class PlainPolicy:
    """Batches of one question; an episode's state is its session.

    Attributes:
        policy: as it was.
        replan: its own.
        digest: its own.
    """

    max_batch: int = 1
    reads: Sequence[str] = EVERYTHING

    def __init__(self, policy: Policy) -> None:
        """Asks `policy`."""
        self.policy = policy
        self.replan = getattr(policy, "replan", None)
        self.digest = getattr(policy, "digest", None)

    def begin(self, episode: Episode) -> Session:
        """The episode's session."""
        session = self.policy(episode)
        if not callable(session):
            raise EpisodeError(
                "policy-protocol", f"a policy returns a session; this one returned {type(session).__name__}"
            )
        return session

    def act(self, states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[NDArray[Any] | Answer]:
        """The sessions' answers."""
        return [session(observation) for session, observation in zip(states, observations, strict=True)]
