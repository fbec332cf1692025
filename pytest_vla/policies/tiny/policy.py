"""``--vla-model=tiny``: the small learned policy that ships, as a `BatchPolicy`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Answer, Episode, Observation
from pytest_vla.policies.fit import ACTION_SIZE, Traits
from pytest_vla.policies.tiny.network import (
    CHUNK,
    HIDDEN,
    REPLAN,
    VIEW,
    WRIST,
    control,
    control_samples,
    perceive,
    proprioception,
    read_text,
    small,
    token_logits,
)
from pytest_vla.policies.tiny.weights import Trained, numbered
from pytest_vla.policies.tokens import token_statistics

Array = npt.NDArray[np.float32]

DROPOUT = 0.1
"""The share of hidden values that a sample drops, as in training."""
_AGENTVIEW, _EYE_IN_HAND, _STATE = "agentview_image", "robot0_eye_in_hand_image", "state"
_STATE_SIZE = 8


@dataclass
class TinySession:
    """The state of one episode.

    Attributes:
        episode: the episode.
        text: (64,) the embedding of its instruction.
        before: the state at the previous question, or None at the first.
        gripper: the gripper value of the last executed action; initially -1.
    """

    episode: Episode
    text: Array
    before: npt.NDArray[np.float64] | None = field(default=None)
    gripper: float = -1.0

    @property
    def steps(self) -> int:
        """The number of steps of a chunk that are executed."""
        return min(self.episode.replan or REPLAN, CHUNK)


class TinyPolicy:
    """The policy tiny, whose weights all episodes share.

    Attributes:
        max_batch: the most questions in one batch; each is computed on its own, so the batch does not matter.
        reads: the observations that are needed.
        replan: the number of steps of a chunk that are executed, unless ``--vla-replan`` overrides it.
        digest: the digest of the weights' file.
        trained: the checkpoint.
    """

    max_batch = 64
    reads: Sequence[str] = (_AGENTVIEW, _EYE_IN_HAND, _STATE)
    replan = REPLAN
    traits = Traits(
        action_size=ACTION_SIZE,
        action_convention="relative",
        rotation="axis_angle",
        gripper="-1 opens, 1 closes",
        reads=(_AGENTVIEW, _EYE_IN_HAND, _STATE),
        image_size=(256, 256),
        image_transform="rotate_180",
        state_size=_STATE_SIZE,
        state_layout="eef_pos, axis_angle, gripper_qpos",
        control_freq=20.0,
        language=True,
        chunk=CHUNK,
        draws=False,
    )

    def __init__(self, trained: Trained) -> None:
        self.trained = trained
        self.digest = trained.digest

    def begin(self, episode: Episode) -> TinySession:
        """Begin a session, and embed its instruction."""
        words = numbered(episode.instruction, self.trained.places)
        return TinySession(episode, read_text(self.trained.weights, words))

    def act(self, sessions: Sequence[TinySession], observations: Sequence[Observation]) -> list[Answer]:
        """Return the chunks (8, 7), with samples, token probabilities and statistics for sessions that request them.

        Raises:
            EpisodeError: ``policy-input``: pictures or a state are missing, or have another form than required.
        """
        return [self._answer(*pair) for pair in zip(sessions, observations, strict=True)]

    def _answer(self, session: TinySession, observation: Observation) -> Answer:
        weights, wishes = self.trained.weights, session.episode.wishes
        state = _checked_state(observation)
        arm = proprioception(state, session.before, session.gripper, session.steps)
        view = _brought(observation, _AGENTVIEW, VIEW)
        wrist = _brought(observation, _EYE_IN_HAND, WRIST)
        scene = perceive(weights, view, wrist, arm)
        logits, hidden = control(weights, scene, arm, session.text)
        chunk = _actions(logits)
        samples = None
        if wishes.samples:
            drawn = session.episode.rng.random((wishes.samples, 3, HIDDEN)) >= DROPOUT
            masks = drawn.astype(np.float32) / np.float32(1.0 - DROPOUT)
            samples = _actions(control_samples(weights, scene, arm, session.text, masks))
        statistics = token_statistics(token_logits(weights, hidden)) if wishes.token_probabilities else None
        session.before, session.gripper = state, float(chunk[session.steps - 1, 6])
        return Answer(chunk, samples, None if statistics is None else statistics.first, statistics)


def _actions(logits: Array) -> npt.NDArray[np.float64]:
    """Return chunks (..., 8, 7) from the network's output: the gripper as -1 or 1, the rest clipped to [-1, 1]."""
    chunk = np.clip(logits.astype(np.float64), -1.0, 1.0)
    chunk[..., 6] = np.where(logits[..., 6] > 0, 1.0, -1.0)
    return chunk


def _checked_state(observation: Observation) -> npt.NDArray[np.float64]:
    """Return the state (8,). Raises EpisodeError if it is missing, or not finite numbers."""
    given = _given(observation, _STATE)
    try:
        state = np.asarray(given)
    except ValueError:  # rows of different lengths
        state = np.array(None)
    if state.shape != (_STATE_SIZE,) or state.dtype.kind not in "fiu":
        kind = f"{state.dtype} {state.shape}" if state.shape else type(given).__name__
        raise EpisodeError("policy-input", f"tiny takes a state ({_STATE_SIZE},) of numbers; this one is {kind}")
    if not np.isfinite(state).all():
        raise EpisodeError("policy-input", f"tiny takes a state of finite numbers; this one is {state.tolist()}")
    return state.astype(np.float64)


def _brought(observation: Observation, name: str, side: int) -> npt.NDArray[np.uint8]:
    """Return a picture at the network's size. Raises EpisodeError if means over blocks cannot produce it."""
    picture: object = _given(observation, name)
    if (
        not isinstance(picture, np.ndarray)
        or picture.dtype != np.uint8
        or picture.shape != (*picture.shape[:1] * 2, 3)
        or not picture.size
        or len(picture) % side
    ):
        kind = f"{picture.dtype} {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
        raise EpisodeError(
            "policy-input",
            f"tiny takes {name} as a square of uint8 colours whose side is a multiple of {side}; this one is {kind}. "
            "Run it on a suite whose pictures are 256 x 256, such as tabletop",
        )
    return small(picture, side)


def _given(observation: Observation, name: str) -> object:
    """Return an observation's value of this name. Raises EpisodeError if it is missing."""
    if name not in observation:
        needed = ", ".join(TinyPolicy.reads)
        raise EpisodeError("policy-input", f"tiny takes {needed}; this observation has no {name}")
    return observation[name]
