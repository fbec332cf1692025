"""What a policy is: a callable that is called once an episode and returns that episode's session.

A session is a callable too: observation in, actions out. Weights may be shared between episodes; whatever an episode
changes (history, chunk queue, random state) belongs to its session.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.fit import ACTION_SIZE, traits_of
from pytest_vla.policies.tokens import TokenStatistics, check_token_statistics

# What a policy observes, and the observations of a batch: each by itself, or one array of all.

Observation = Mapping[str, NDArray[Any]]
"""`agentview_image`, `robot0_eye_in_hand_image`: (H, W, 3) uint8, drawn when read, in the form that the suite's
checkpoints were trained on (`Protocol.image_transform`); `state`: (8,) end effector position in m, axis-angle in rad,
two finger positions in m; `robot0_eef_pos`, `robot0_eef_quat` (xyzw), `robot0_gripper_qpos`, `robot0_joint_pos`.
World frame, SI units."""


class Observations(Sequence[Observation]):
    """A batch's, in the order of its questions.

    What they give may be kept. In the policy's process `stacked` gives memory that the next batches would lie in: it is
    not used again while somebody holds a part of it, which takes the memory of a whole batch. An index gives a copy.
    """

    def __init__(self, observations: Sequence[Observation], stacks: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Observations one by one.

        Args:
            observations: of each question.
            stacks: what is stacked already.
        """
        self._observations, self._stacks = observations, dict(stacks or {})

    @overload
    def __getitem__(self, index: int) -> Observation: ...
    @overload
    def __getitem__(self, index: slice) -> "Observations": ...
    def __getitem__(self, index: int | slice) -> "Observation | Observations":
        if isinstance(index, slice):
            return Observations(self._observations[index], {name: all_[index] for name, all_ in self._stacks.items()})
        return self._observations[index]

    def __len__(self) -> int:
        return len(self._observations)

    def stacked(self, name: str) -> NDArray[Any]:
        """One array of a batch of n, contiguous: (n, H, W, 3) of pictures, (n, 8) of ``state``.

        In the policy's process nothing is copied for it, and where the policy uses a CUDA device, `torch.from_numpy` of
        it is pinned: ``.to(device, non_blocking=True)`` goes at once.

        Raises:
            EpisodeError: the policy does not read it, or the questions' arrays differ in shape, as suites with other
                picture sizes in one run do.
        """
        if name not in self._stacks:
            if self._observations and name not in (there := self._observations[0]):
                told = f"{name} is no observation that the policy reads ({', '.join(there)}): add it to its `reads`"
                raise EpisodeError("policy-protocol", told)
            arrays = [observation[name] for observation in self._observations]
            shapes = sorted({array.shape for array in arrays})
            if len(shapes) > 1:
                told = ", ".join(map(str, shapes))
                raise EpisodeError("policy-protocol", f"{name} of a batch cannot be stacked: its shapes are {told}")
            self._stacks[name] = np.stack(arrays)
        return self._stacks[name]


def as_observations(observations: Sequence[Observation]) -> Observations:
    """A batch's observations, of which each may be had stacked."""
    return observations if isinstance(observations, Observations) else Observations(observations)


class Lent(Sequence[Observation]):
    """Observations in memory that others will write to again: each is copied when it is asked for, once."""

    def __init__(self, views: Sequence[Observation]) -> None:
        """`views`: into that memory."""
        self._views = views
        self._copies: dict[int, Observation] = {}

    @overload
    def __getitem__(self, index: int) -> Observation: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Observation]: ...
    def __getitem__(self, index: int | slice) -> Observation | Sequence[Observation]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        if number not in self._copies:
            self._copies[number] = {name: array.copy() for name, array in self._views[number].items()}
        return self._copies[number]

    def __len__(self) -> int:
        return len(self._views)


@dataclass(frozen=True)
class Wishes:
    """What metrics want of a policy's answers beside actions. A policy gives of it what it can.

    Attributes:
        samples: how many further draws of each chunk, by one batched question; 0: none.
        token_probabilities: whether the probability of each token that was decoded, and `Answer.token_statistics`.
    """

    samples: int = 0
    token_probabilities: bool = False


NO_WISHES = Wishes()


@dataclass(frozen=True)
class Answer:
    """Actions, and what was wished for beside them (`Episode.wishes`).

    Attributes:
        actions: as a session may return them by themselves, (7,) or (k, 7).
        samples: (n, k, 7) further draws of the chunk, none of which is executed; None: not given.
        token_probabilities: (t,) in [0, 1], of the chosen tokens in the order of decoding; None: not given.
        token_statistics: of the distributions that the same tokens were chosen from, as
            `pytest_vla.policies.tokens.token_statistics` makes it of logits; None: not given.
    """

    actions: NDArray[Any]
    samples: NDArray[Any] | None = None
    token_probabilities: NDArray[Any] | None = None
    token_statistics: TokenStatistics | None = None

    @property
    def is_bare(self) -> bool:
        """Whether it has actions only."""
        return self.samples is None and self.token_probabilities is None and self.token_statistics is None


@dataclass(frozen=True)
class Episode:
    """What a policy learns when an episode begins.

    Attributes:
        case_id: the record's name of the episode, ``libero_goal/turn_on_the_stove[seed0]``.
        suite: the suite's name.
        task: the task's name.
        instruction: what the robot is told.
        seed: the case's seed.
        rng: the only source of randomness that a policy may use, so that an episode repeats. It is seeded before
            every question, by the run seed, the case id and the control step.
        wishes: what an answer should have beside actions.
        alone: whether its questions are to be in no batch with others'.
        world: the simulator itself, for a policy that says ``privileged = True`` of itself; None for any other.
        action_size: how many numbers an action has: 7, but for suites with a world of their own.
        replan: how many steps of each chunk are executed before the next question; None: whole chunks.
    """

    case_id: str
    suite: str
    task: str
    instruction: str
    seed: int
    rng: np.random.Generator
    wishes: Wishes = NO_WISHES
    alone: bool = False
    world: object | None = None
    action_size: int = ACTION_SIZE
    replan: int | None = None


class Session(Protocol):
    """One episode of a policy. May have a method ``close()``, called when the episode has ended."""

    def __call__(self, observation: Observation, /) -> NDArray[Any] | Answer:
        """The next action (7,), or a chunk of them (k, 7), each in [-1, 1]; in an `Answer` with what else is wished.

        Suites with a world of their own say how many numbers an action has (`Episode.action_size`), and what they mean.

        An action is a translation (x, y, z; 1 is 0.05 m), a rotation (axis-angle; 1 is 0.5 rad), and the gripper
        (-1 opens, 1 closes), for one control step. The observation is of now; its pictures cannot be read later.
        """


class Policy(Protocol):
    """Called once an episode; returns the episode's session.

    It may say of itself, by attributes of these names:
        privileged: true: it gets the world as `Episode.world`, and must not step, reset or change it.
        replan: how many steps of its chunks are executed before the session is asked again, unless ``--vla-replan``
            says otherwise.
        digest: a text that names what it is made of, such as its weights, for the record; else the file of its module
            is taken.
        traits: what it expects of a suite; see `pytest_vla.policies.fit`.
    """

    def __call__(self, episode: Episode, /) -> Session:
        """Begin an episode."""


class BatchPolicy(Protocol):
    """A policy that answers the questions of many episodes at once, as a network on a device does.

    Attributes:
        max_batch: questions that it takes at once; 1: one after the other.
        reads: the observations that it wants, such as ``agentview_image`` and ``state``; no others are made.
    """

    max_batch: int
    reads: Sequence[str]

    def begin(self, episode: Episode, /) -> Any:
        """Begin an episode: everything that belongs to it alone. Weights are shared, this is not."""

    def act(self, states: Sequence[Any], observations: Observations, /) -> Sequence[NDArray[Any] | Answer]:
        """The chunks (k, 7) of a batch, one for each of its episodes' states; or an `Answer` each.

        `observations` is a sequence, one for each state, and ``observations.stacked("agentview_image")`` is
        (n, H, W, 3), one array of all, for which nothing is copied in the policy's process.
        An answer may depend on its own state and observation only, not on who else is in the batch. Where it raises,
        the episodes of the batch run again, each alone, so that one's trouble is no other's.
        """


def is_batch_policy(policy: object) -> TypeGuard[BatchPolicy]:
    """Whether a policy answers in batches: it has all that `BatchPolicy` asks for."""
    return all(hasattr(policy, name) for name in ("begin", "act", "max_batch", "reads"))


def own_number(policy: object, name: str) -> int | None:
    """What a policy says of itself in an attribute that is a number of 1 or more; None: it does not say.

    Raises:
        VlaError: it is something else.
    """
    value = getattr(policy, name, None)
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise VlaError(f"a policy's {name} is a number, 1 or more; this one's is {value!r}")
    return number


def one_by_one(policy: BatchPolicy) -> Policy:
    """A policy that answers in batches as one that is asked by one episode at a time, in this process."""
    return _OneByOne(policy)


class _OneByOne:
    def __init__(self, policy: BatchPolicy) -> None:
        self._policy = policy
        # What a policy says of itself beside the protocol.
        self.replan = getattr(policy, "replan", None)
        self.digest = getattr(policy, "digest", None)
        self.traits = traits_of(policy)

    def __call__(self, episode: Episode) -> Session:
        return _Alone(self._policy, self._policy.begin(episode))


def counted_answers(answers: Any, questions: int) -> Sequence[Any]:
    """A batch's answers. Raises EpisodeError where there are not as many as questions."""
    if not hasattr(answers, "__len__") or len(answers) != questions:
        given = str(len(answers)) if hasattr(answers, "__len__") else type(answers).__name__
        raise EpisodeError(
            "policy-protocol", f"act gives an answer to each question of a batch; this one gave {given} to {questions}"
        )
    return answers  # type: ignore[no-any-return]


class _Alone:
    def __init__(self, policy: BatchPolicy, state: Any) -> None:
        self._policy, self._state = policy, state

    def __call__(self, observation: Observation) -> NDArray[Any] | Answer:
        wanted = Observations([{name: observation[name] for name in self._policy.reads}])
        answer: NDArray[Any] | Answer = counted_answers(self._policy.act([self._state], wanted), 1)[0]
        return answer

    def close(self) -> None:
        close = getattr(self._state, "close", None)
        if close is not None:
            close()


def check_actions(answer: object, size: int | None = ACTION_SIZE) -> NDArray[np.float64]:
    """A session's answer as a chunk (k, `size`) of float64, k >= 1; None: actions may have any size.

    Raises:
        EpisodeError: ``policy-dtype`` (not an array of real numbers), ``policy-shape`` or ``policy-nan`` (a value is
            not finite).
    """
    try:
        actions = np.asarray(answer)
    except Exception as error:
        raise EpisodeError("policy-dtype", f"{type(answer).__name__} is no array: {error}") from error
    if callable(answer):
        raise EpisodeError(
            "policy-dtype",
            f"a session returns an array of real numbers; this one returned a {type(answer).__name__} that can be "
            "called. What is called once to load a policy is given its arguments: module:load?checkpoint=PATH",
        )
    if actions.dtype.kind not in "fiu":
        raise EpisodeError(
            "policy-dtype",
            f"a session returns an array of real numbers; this one returned {type(answer).__name__} of {actions.dtype}",
        )
    if actions.ndim not in (1, 2) or (size is not None and actions.shape[-1] != size) or not actions.size:
        size = ACTION_SIZE if size is None else size
        raise EpisodeError(
            "policy-shape",
            f"a session returns an action ({size},) or a chunk (k, {size}); this one returned {actions.shape}",
        )
    chunk = np.atleast_2d(actions).astype(np.float64)
    broken = ~np.isfinite(chunk).all(axis=1)
    if broken.any():
        row = int(broken.argmax())
        raise EpisodeError("policy-nan", f"action {row} of the chunk of {len(chunk)} is {chunk[row].tolist()}")
    return chunk


def check_answer(answer: object, size: int | None = ACTION_SIZE) -> Answer:
    """A session's answer with its actions as `check_actions` gives them.

    Raises:
        EpisodeError: as `check_actions`; ``policy-shape`` or ``policy-nan`` for samples that are not (n, k, 7) and
            finite, probabilities that are not (t,) in [0, 1], or token statistics that are none.
    """
    if not isinstance(answer, Answer):
        return Answer(check_actions(answer, size))
    actions, samples = check_actions(answer.actions, size), answer.samples
    probabilities = answer.token_probabilities
    if samples is not None:
        samples = _numbers(samples, "samples")
        if samples.ndim != 3 or samples.shape[1:] != actions.shape:
            raise EpisodeError("policy-shape", f"samples of a chunk {actions.shape} are {samples.shape}")
    if probabilities is not None:
        probabilities = _numbers(probabilities, "token probabilities")
        if probabilities.ndim != 1 or not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise EpisodeError("policy-shape", "token probabilities are (t,), each from 0 to 1")
    statistics = None if answer.token_statistics is None else check_token_statistics(answer.token_statistics)
    if statistics is not None and probabilities is not None and len(statistics.first) != len(probabilities):
        tokens = f"{len(probabilities)} token probabilities, and statistics of {len(statistics.first)} tokens"
        raise EpisodeError("policy-shape", f"{tokens}: expected both of the same")
    return Answer(actions, samples, probabilities, statistics)


def _numbers(values: object, name: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except Exception as error:
        raise EpisodeError("policy-dtype", f"{name} are no array of numbers: {error}") from error
    if not np.isfinite(array).all():
        raise EpisodeError("policy-nan", f"{name} are not finite")
    return array
