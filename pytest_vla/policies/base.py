"""The protocol of a policy: a callable that is called once per episode and returns that episode's session.

A session is a callable too: it maps an observation to actions. Episodes may share weights; everything that an episode
changes (history, chunk queue, random state) belongs to its session.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.fit import ACTION_SIZE, traits_of
from pytest_vla.policies.tokens import TokenStatistics, check_token_statistics

# Observations, and the observations of a batch: one by one, or stacked in one array.

Observation = Mapping[str, NDArray[Any]]
"""`agentview_image`, `robot0_eye_in_hand_image`: (H, W, 3) uint8, rendered when read, in the form that the suite's
checkpoints were trained on (`Protocol.image_transform`); `state`: (8,) end effector position in m, axis-angle in rad,
two finger positions in m; `robot0_eef_pos`, `robot0_eef_quat` (xyzw), `robot0_gripper_qpos`, `robot0_joint_pos`;
`controller_pos` (3,) and `controller_mat` (3, 3), the end effector as robosuite's controller had it in the last substep
of 2 ms, which X-VLA reads. World frame, SI units."""


class Observations(Sequence[Observation]):
    """The observations of a batch, in the order of its questions.

    The arrays may be kept. In the policy's process, `stacked` returns memory that later batches would reuse: that
    memory is not used again while somebody holds a part of it, which takes the memory of a whole batch. Indexing
    returns a copy.
    """

    def __init__(self, observations: Sequence[Observation], stacks: Mapping[str, NDArray[Any]] | None = None) -> None:
        """Hold observations one by one.

        Args:
            observations: the observation of each question.
            stacks: the arrays that are already stacked, by name.
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
        """Return one contiguous array of a batch of n: (n, H, W, 3) for pictures, (n, 8) for ``state``.

        In the policy's process nothing is copied. If the policy uses a CUDA device, the array is pinned for torch:
        ``torch.from_numpy(array).to(device, non_blocking=True)`` returns at once.

        Raises:
            EpisodeError: the policy does not read this observation, or the arrays of the questions differ in shape,
                for example because suites of one run have different picture sizes.
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
    """Return the observations of a batch as an `Observations`, so that they can be stacked."""
    return observations if isinstance(observations, Observations) else Observations(observations)


class Lent(Sequence[Observation]):
    """Observations in memory that is written to again later: each is copied once, when it is read."""

    def __init__(self, views: Sequence[Observation]) -> None:
        """Hold `views`, which point into that memory."""
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
    """The values that metrics request from a policy besides its actions. A policy returns those that it can.

    Attributes:
        samples: the number of further draws of each chunk, made with one batched question; 0 for none.
        token_probabilities: whether to return the probability of each decoded token, and
            `Answer.token_statistics`.
    """

    samples: int = 0
    token_probabilities: bool = False


NO_WISHES = Wishes()


@dataclass(frozen=True)
class Answer:
    """Actions, with the values that were requested besides them (`Episode.wishes`).

    Attributes:
        actions: the actions as a session may return them without an `Answer`, (7,) or (k, 7).
        samples: (n, k, 7) further draws of the chunk, none of which is executed, or None if not given.
        token_probabilities: (t,) in [0, 1], of the chosen tokens in decoding order, or None if not given.
        token_statistics: statistics of the distributions that the same tokens were chosen from, which
            `pytest_vla.policies.tokens.token_statistics` computes from logits, or None if not given.
        seconds: how long it took by the policy's own clock, such as its server's, for ``--vla-realtime=measured``; None
            for the time from question to answer.
    """

    actions: NDArray[Any]
    samples: NDArray[Any] | None = None
    token_probabilities: NDArray[Any] | None = None
    token_statistics: TokenStatistics | None = None
    seconds: float | None = None

    @property
    def is_bare(self) -> bool:
        """Whether the answer has actions only."""
        return self.samples is None and self.token_probabilities is None and self.token_statistics is None


@dataclass(frozen=True)
class Episode:
    """The description of an episode that a policy gets at its begin.

    Attributes:
        case_id: the record's name of the episode, ``libero_goal/turn_on_the_stove[seed0]``.
        suite: the suite's name.
        task: the task's name.
        instruction: the instruction for the robot.
        seed: the case's seed.
        rng: the only source of randomness that a policy may use, so that an episode is reproducible. It is
            seeded before every question by the run seed, the case id and the control step.
        wishes: the values that an answer should have besides actions.
        alone: whether the episode's questions must not share a batch with other episodes.
        world: the simulator itself for a policy with ``privileged = True``, or None for any other.
        action_size: the number of values in an action: 7, except for suites with a world of their own.
        replan: the number of steps of each chunk that are executed before the next question, or None for whole
            chunks.
        prompt: the instruction in the evaluator's template for a language model (``--vla-evaluator=openvla``); the
            instruction itself for evaluators without a template.
        wrist_transform: how the wrist camera's pictures are turned; one of `pytest_vla.plan.choices.IMAGE_TRANSFORMS`.
        late: control steps from a question until its answer is used, for policies that plan for it, such as by
            real-time chunking (``--vla-realtime``); None if it is measured.
        action_bounds: the usual range of each number of an action, if the suite takes the world's own actions; empty
            for [-1, 1].
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
    prompt: str = ""
    wrist_transform: str = "rotate_180"
    late: int | None = 0
    action_bounds: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "prompt", self.prompt or self.instruction)
        # A message between processes has lists.
        object.__setattr__(self, "action_bounds", tuple((low, high) for low, high in self.action_bounds))


@dataclass(frozen=True)
class RecordedStart:
    """Where a policy has an episode begin that plays back a recorded one (`Policy`, ``start``), and what was recorded.

    The episode begins without settling, and ends with the last recorded state.

    Attributes:
        of: what was recorded, for messages: ``FILE: data/demo_3``.
        states: (n, 1+nq+nv), [time in s, qpos, qvel] before each action; the episode begins from the first.
        joints: the names of the model's joints, in the order of qpos; empty if no model was recorded: then it is taken
            for the task's, with the fixtures where the seed places them.
        bodies: the pose of each body in its parent (7,), position in m and quaternion wxyz, by the body's name in the
            model; those of fixtures are used.
        gripper: the gripper's command in the first action, -1 opens.
    """

    of: str
    states: NDArray[np.float64]
    joints: tuple[str, ...]
    bodies: Mapping[str, NDArray[np.float64]]
    gripper: float


class Session(Protocol):
    """One episode of a policy. It may have a method ``close()``, which is called after the episode."""

    def __call__(self, observation: Observation, /) -> NDArray[Any] | Answer:
        """Return the next action (7,) or a chunk of actions (k, 7), in [-1, 1]; as an `Answer` if more is requested.

        Suites with a world of their own define how many values an action has (`Episode.action_size`), and what they
        mean.

        An action is a translation (x, y, z; 1 is 0.05 m), a rotation (axis-angle; 1 is 0.5 rad), and the gripper (-1
        opens, 1 closes), for one control step. The observation is the current one; its pictures cannot be read later.
        """


class Policy(Protocol):
    """A callable that is called once per episode and returns the episode's session.

    It may describe itself by attributes of these names:
        privileged: if true, the policy gets the world as `Episode.world`, and must not step, reset or change it.
        replan: the number of steps of a chunk that are executed before the session is asked again, unless
            ``--vla-replan`` overrides it.
        digest: a text that identifies its content, such as its weights, for the record; without it, the file of its
            module is hashed.
        traits: the policy's requirements on a suite; see `pytest_vla.policies.fit`.
        start: called with the episode's `pytest_vla.plan.case.Case` before it begins; returns a `RecordedStart` from
            which the episode begins, instead of the task's init state.
    """

    def __call__(self, episode: Episode, /) -> Session:
        """Begin an episode."""


class BatchPolicy(Protocol):
    """A policy that answers the questions of many episodes at once, as a network on a device does.

    Attributes:
        max_batch: the largest number of questions in one batch; 1 for one question after the other.
        reads: the observations that it reads, such as ``agentview_image`` and ``state``; only these are
            rendered.
    """

    max_batch: int
    reads: Sequence[str]

    def begin(self, episode: Episode, /) -> Any:
        """Begin an episode: return the state that belongs to it alone. Weights are shared, this state is not."""

    def act(self, states: Sequence[Any], observations: Observations, /) -> Sequence[NDArray[Any] | Answer]:
        """Return the chunks (k, 7) of a batch, or an `Answer` for each: one per state.

        `observations` is a sequence, one for each state, and ``observations.stacked("agentview_image")`` is one array
        (n, H, W, 3) for the whole batch, for which nothing is copied in the policy's process.

        An answer may depend on its own state and observation only, not on the rest of the batch. If the method raises,
        the episodes of the batch run again, each alone, so that one episode's error does not affect the others.
        """


def is_batch_policy(policy: object) -> TypeGuard[BatchPolicy]:
    """Return whether a policy answers in batches: whether it has all attributes of `BatchPolicy`."""
    return all(hasattr(policy, name) for name in ("begin", "act", "max_batch", "reads"))


def own_number(policy: object, name: str) -> int | None:
    """Return a policy's attribute of this name, a number of 1 or more, or None if the policy does not have it.

    Raises:
        VlaError: the attribute has another value.
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
    """Adapt a policy that answers in batches to one question at a time, in this process."""
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
    """Return the answers of a batch after checking their number.

    Raises:
        EpisodeError: there are not as many answers as questions.
    """
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
    """Return a session's answer as a chunk (k, `size`) of float64, k >= 1; with `size` None, actions may have any size.

    Raises:
        EpisodeError: ``policy-dtype`` (not an array of real numbers), ``policy-shape`` or ``policy-nan`` (a
            value is not finite).
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
    """Return a session's answer as an `Answer` whose actions passed `check_actions`.

    Raises:
        EpisodeError: as for `check_actions`; ``policy-shape`` or ``policy-nan`` for samples that are not (n, k,
            7) and finite, probabilities that are not (t,) in [0, 1], or invalid token statistics.
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
    seconds = answer.seconds
    if seconds is not None:
        if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise EpisodeError("policy-dtype", f"an answer's seconds are {seconds!r:.60}, expected a number, 0 or more")
        seconds = float(seconds)
    return Answer(actions, samples, probabilities, statistics, seconds)


def _numbers(values: object, name: str) -> NDArray[np.float64]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except Exception as error:
        raise EpisodeError("policy-dtype", f"{name} are no array of numbers: {error}") from error
    if not np.isfinite(array).all():
        raise EpisodeError("policy-nan", f"{name} are not finite")
    return array
