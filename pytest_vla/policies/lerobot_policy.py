"""A loaded lerobot policy as a `BatchPolicy`: batched if batches change no answer, otherwise one question at a time."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import ABSOLUTE
from pytest_vla.policies.base import Answer, Episode, Observation, as_observations
from pytest_vla.policies.fit import ACTION_SIZE, Traits
from pytest_vla.policies.lerobot_inputs import WRIST, Inputs
from pytest_vla.policies.view import as_rendered, resize_with_padding, rotation_6d
from pytest_vla.util.warnings import describe

MOST = 1024
"""The most questions in a batch; the user's limit is ``--vla-max-batch``."""


# How far apart two answers to one question may be: asked alone twice, and asked alone and in a batch. A policy whose
# answers are further apart is asked one at a time.
_AGAIN, _IN_BATCH = 1e-5, 5e-2


_TRIAL_INSTRUCTION = "put the bowl on the plate"


_TRIAL_SIZE = 256


_TRIAL_VECTORS = {"robot0_eef_pos": (3,), "controller_mat": (3, 3)}


Processor = Callable[[Any], Any]


@dataclass
class LerobotSession:
    """The state of one episode.

    Attributes:
        instruction: the instruction for the robot.
        rng: the episode's generator; reseeded before every question.
        samples: the number of further draws of each chunk that are requested.
        memory: the attributes in which lerobot's class stores the state of an episode; empty if it stores none.
        wrist_transform: how the wrist camera's pictures are turned.
    """

    instruction: str
    rng: np.random.Generator
    samples: int = 0
    memory: dict[str, Any] = field(default_factory=dict)
    wrist_transform: str = "rotate_180"


@dataclass(frozen=True)
class Manner:
    """The way in which a policy is called.

    Attributes:
        chunks: whether ``predict_action_chunk`` is called; otherwise ``select_action``, one action per control
            step.
        noise: the shape of the noise for an answer, which is drawn from the episode's generator and passed to
            the policy, or None if the policy takes no noise.
        apart: whether it draws from torch's global generator or remembers earlier questions: before each
            question that generator is then seeded from the episode's, and the state that the class keeps is
            swapped for the episode's.
        batches: whether an answer in a batch equals the answer to the question alone.
    """

    chunks: bool
    noise: tuple[int, int] | None = None
    apart: bool = False
    batches: bool = False


class LerobotPolicy:
    """A lerobot policy whose weights all episodes share.

    Attributes:
        max_batch: the most questions in one batch; 1 for a class that draws its noise itself or keeps a history
            of the episode.
        reads: the observations that are needed.
        replan: the number of steps of a chunk that are executed, unless ``--vla-replan`` overrides it.
        manner: the way in which it is called.
        device: the device of its weights.
    """

    max_batch: int
    reads: Sequence[str]
    replan: int | None
    manner: Manner

    def __init__(
        self, model: Any, before: Processor, after: Processor, inputs: Inputs, device: str, manner: Manner
    ) -> None:
        """Hold the parts of a policy; `make_policy` finds the manner and calls this."""
        self._model, self._before, self._after = model, before, after
        self._inputs, self.device = inputs, torch.device(device)
        self.manner = manner
        self.max_batch = MOST if manner.batches else 1
        self.reads = inputs.reads
        self.replan = _own_replan(model.config) if manner.chunks else 1
        steps = {getattr(type(step), "_registry_name", "") for step in getattr(before, "steps", ())}
        self._normalises = inputs.is_xvla and _NORMALISES not in steps
        self._fresh: dict[str, Any] = {}
        if manner.apart:
            model.reset()
            self._fresh = _plain_attributes(model)

    @property
    def traits(self) -> Traits:
        """The traits that the config states."""
        is_xvla = self._inputs.is_xvla
        return Traits(
            action_size=self._inputs.action_size,
            action_convention=ABSOLUTE if is_xvla else None,
            image_transform="rotate_180" if is_xvla else None,
            reads=tuple(self.reads),
            state_size=self._inputs.state_size,
            draws=True if self.manner.noise is not None else None,
            cameras=tuple(f"{_short(key)}={picture}" for key, picture in self._inputs.pictures.items()),
            guessed=tuple(map(_short, self._inputs.guessed)) or None,
        )

    @property
    def weights(self) -> dict[str, Any]:
        """All arrays that an answer depends on, by name: the weights and the normalisation of the processors."""
        found = {f"model.{name}": value for name, value in self._model.state_dict().items()}
        for which, pipeline in (("before", self._before), ("after", self._after)):
            for number, step in enumerate(getattr(pipeline, "steps", ())):
                state = step.state_dict() if hasattr(step, "state_dict") else {}
                found |= {f"{which}.{number}.{name}": value for name, value in state.items()}
        return found

    def begin(self, episode: Episode) -> LerobotSession:
        """Begin a session with an empty memory."""
        # Weights that a memory points to are shared, not copied.
        shared = {id(part): part for part in (*self._model.modules(), *self._model.parameters())}
        # A policy that draws its noise itself, or draws none, cannot be asked for further draws.
        samples = episode.wishes.samples if self.manner.noise is not None else 0
        memory = copy.deepcopy(self._fresh, shared)
        return LerobotSession(episode.instruction, episode.rng, samples, memory, episode.wrist_transform)

    def act(
        self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]
    ) -> list[NDArray[np.float64] | Answer]:
        """Return the chunks (k, n) after the policy's own postprocessor, with samples for sessions that request some.

        Samples are computed after the chunks, from noise that is drawn after theirs: the executed actions are bit for
        bit the same with and without samples.
        """
        if self.manner.apart:
            (session,) = sessions
            return [*self._ask_apart(session, observations)]
        chunks = self._predict(sessions, observations)
        if not any(session.samples for session in sessions):
            return [*chunks]
        samples = self._samples(sessions, observations)
        return [Answer(chunk, some) if some is not None else chunk for chunk, some in zip(chunks, samples, strict=True)]

    def _samples(
        self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]
    ) -> list[NDArray[np.float64] | None]:
        """Return samples (n, k, 7) for each session, or None for a session that requests none.

        An observation is repeated in a question once per sample. A question has at most as many copies as samples or
        sessions, whichever is more: the device is known to hold that many.
        """
        repeated = [number for number, session in enumerate(sessions) for _ in range(session.samples)]
        most = max(len(sessions), *(session.samples for session in sessions)) if self.manner.batches else 1
        drawn: list[NDArray[np.float64]] = []
        for first in range(0, len(repeated), most):
            some = repeated[first : first + most]
            drawn += self._predict([sessions[number] for number in some], [observations[number] for number in some])
        rest = iter(drawn)
        return [
            np.stack([next(rest) for _ in range(session.samples)]) if session.samples else None for session in sessions
        ]

    def _predict(
        self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]
    ) -> list[NDArray[np.float64]]:
        """Return the chunks of one question; a session that occurs in it several times has new noise each time."""
        batch = self._before(self._batch(sessions, observations))
        options = {}
        if self.manner.noise is not None:
            drawn = [session.rng.standard_normal(self.manner.noise, dtype=np.float32) for session in sessions]
            options["noise"] = torch.from_numpy(np.stack(drawn)).to(self.device)
        with torch.no_grad():
            return self._finish(self._model.predict_action_chunk(batch, **options))

    def _ask_apart(self, session: LerobotSession, observations: Sequence[Observation]) -> list[NDArray[np.float64]]:
        batch = self._before(self._batch([session], observations))
        before = {name: vars(self._model)[name] for name in session.memory}
        vars(self._model).update(session.memory)
        try:
            # The generator is restored: in the user's own process other code draws from it too.
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []), torch.no_grad():
                torch.manual_seed(int(session.rng.integers(2**63)))
                if self.manner.chunks:
                    chunk = self._model.predict_action_chunk(batch)
                else:
                    chunk = self._model.select_action(batch)[:, None]
            session.memory = {name: vars(self._model)[name] for name in session.memory}
        finally:
            # The model's own attributes are restored, so that its digest is unchanged.
            vars(self._model).update(before)
        return self._finish(chunk)

    def _batch(self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]) -> dict[str, Any]:
        """Return the preprocessor's input: pictures (B, 3, H, W) float32 in [0, 1], state (B, s), instructions."""
        batch: dict[str, Any] = {"task": [session.instruction for session in sessions]}
        if self._inputs.is_xvla:
            turns = [session.wrist_transform for session in sessions]
            observations = [xvla_observation(*each) for each in zip(observations, turns, strict=True)]
        together = as_observations(observations)
        for key, name in self._inputs.pictures.items():
            if key in self._inputs.sizes:
                size = self._inputs.sizes[key]
                pictures = np.stack([resize_with_padding(observation[name], *size) for observation in observations])
            else:
                pictures = together.stacked(name)
            # Sent to the device as bytes, which is a quarter of the transfer.
            batch[key] = torch.from_numpy(pictures).to(self.device).permute(0, 3, 1, 2).float() / 255
            if self._normalises:
                batch[key] = (batch[key] - _MEAN.to(self.device)) / _DEVIATION.to(self.device)
        if self._inputs.state is not None:
            states = together.stacked("state").astype(np.float32)
            batch[self._inputs.state] = torch.from_numpy(states).to(self.device)
        return batch

    def _finish(self, chunk: Any) -> list[NDArray[np.float64]]:
        # Once over to the CPU, then step by step, (B, 7) each: some postprocessors take no chunks.
        chunk = chunk.cpu()
        actions = torch.stack([self._after(chunk[:, step]) for step in range(chunk.shape[1])], dim=1)
        if self._inputs.is_xvla and actions.shape[-1] != ACTION_SIZE:
            actions = torch.stack([_from_6d(chunk) for chunk in actions])
        return list(actions.float().numpy().astype(np.float64))


# What lerobot-eval does about X-VLA beside the saved processors, in its ``policies/xvla/processor_xvla.py``.

_MEAN, _DEVIATION = (torch.tensor(values).reshape(3, 1, 1) for values in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
"""ImageNet's, by which X-VLA's pictures are normalised unless a saved processor does it."""

_NORMALISES = "xvla_imagenet_normalize"


def xvla_observation(observation: Observation, wrist_transform: str) -> Observation:
    """Return an observation with X-VLA's state (20,), and with the wrist's picture as it was rendered.

    The state is the end effector's position, the six numbers of the controller's rotation, a zero, and ten zeros.
    """
    found = dict(observation)
    if WRIST in found:
        found[WRIST] = as_rendered(found[WRIST], wrist_transform)
    if "controller_mat" in found:
        pose = [found["robot0_eef_pos"], rotation_6d(found["controller_mat"])]
        found["state"] = np.concatenate([*pose, np.zeros(11)])
    return found


def _from_6d(chunk: Any) -> Any:
    """Return absolute actions (k, 7) from a chunk of X-VLA's (k, 10 or more)."""
    from lerobot.policies.xvla.utils import rotate6d_to_axis_angle

    numbers = chunk.float().numpy()
    turns = rotate6d_to_axis_angle(numbers[:, 3:9])
    gripper = np.where(numbers[:, 9:10] > 0.5, 1.0, -1.0)
    return torch.from_numpy(np.concatenate([numbers[:, :3], turns, gripper], axis=-1)).to(chunk.dtype)


def _short(key: str) -> str:
    """Return the last part of a picture's key, as in ``?cameras=``."""
    return key.rpartition(".")[2]


def make_policy(
    model: Any, before: Processor, after: Processor, inputs: Inputs, device: str, replan: int | None = None
) -> LerobotPolicy:
    """Return a policy with the best manner that it supports, as a few trial questions show.

    Args:
        model: lerobot's ``PreTrainedPolicy`` on its device.
        before: its preprocessor.
        after: its postprocessor.
        inputs: its inputs.
        device: torch's name of the device.
        replan: overrides the config's ``n_action_steps``.

    Raises:
        VlaError: it does not answer, its actions are not of the config's size, or it keeps state of an episode that
            cannot be taken out.
    """

    def policy_of(manner: Manner) -> LerobotPolicy:
        return LerobotPolicy(model, before, after, inputs, device, manner)

    # The draws of trials do not affect other code.
    with torch.random.fork_rng(devices=[torch.device(device)] if device.startswith("cuda") else []):
        policy = policy_of(_find_manner(policy_of, model.config))
    if replan is not None and policy.manner.chunks:
        policy.replan = replan
    return policy


def _find_manner(policy_of: Callable[[Manner], LerobotPolicy], config: Any) -> Manner:
    steps = Manner(chunks=False, apart=True)
    # A history needs every control step, and chunks are asked for less often.
    if (getattr(config, "n_obs_steps", 1) or 1) > 1 or getattr(config, "temporal_ensemble_coeff", None) is not None:
        return _kept_apart(policy_of, steps)
    manners = [Manner(chunks=True)]
    length, width = getattr(config, "chunk_size", None), getattr(config, "max_action_dim", None)
    if isinstance(length, int) and isinstance(width, int):
        manners.insert(0, Manner(chunks=True, noise=(length, width)))
    trouble: Exception | None = None
    for manner in manners:
        try:
            found = _repeats(policy_of, manner)
            trouble = None
        except VlaError:
            raise
        except Exception as error:
            trouble = error
            continue
        if found is not None:
            return found
    if trouble is None:
        return _kept_apart(policy_of, Manner(chunks=True, apart=True))
    try:
        # Some classes give chunks to their own select_action only, or none.
        return _kept_apart(policy_of, steps)
    except VlaError:
        raise
    except Exception:
        raise VlaError(f"the policy failed on a trial question: {describe(trouble)}") from trouble


def _repeats(policy_of: Callable[[Manner], LerobotPolicy], manner: Manner) -> Manner | None:
    """Return the manner, with its `batches`, if an answer depends on its question alone, else None."""
    policy = policy_of(manner)
    one, other = (_Trial(policy, seed) for seed in (0, 1))
    alone = one.ask()
    other.ask()
    if not np.allclose(alone, one.ask(), rtol=_AGAIN, atol=_AGAIN):
        return None
    try:
        sessions = [one.prepared(), other.prepared()]
        together, _ = map(np.asarray, policy.act(sessions, [one.observation, other.observation]))
    except Exception:
        # A class that takes one question at a time.
        return manner
    return replace(manner, batches=bool(np.allclose(alone, together, rtol=_IN_BATCH, atol=_IN_BATCH)))


def _kept_apart(policy_of: Callable[[Manner], LerobotPolicy], manner: Manner) -> Manner:
    """Return the manner if another episode in between does not change an episode's answers. Raises VlaError."""
    policy = policy_of(manner)
    alone = _Trial(policy, 0)
    expected = [alone.ask(), alone.ask()]
    one, other = _Trial(policy, 0), _Trial(policy, 1)
    for answer in expected:
        if not np.allclose(answer, one.ask(), rtol=_IN_BATCH, atol=_IN_BATCH):
            raise VlaError(
                "the policy keeps episode state that cannot be separated, so one episode would change the next"
            )
        other.ask()
    return manner


class _Trial:
    """An episode that repeats one trial question, which a seed determines."""

    def __init__(self, policy: LerobotPolicy, seed: int) -> None:
        drawn, vectors = np.random.default_rng(seed), {**_TRIAL_VECTORS, "state": policy.traits.state_size}
        self.observation = {
            name: drawn.normal(0, 0.1, vectors[name])
            if name in vectors
            else drawn.integers(0, 256, (_TRIAL_SIZE, _TRIAL_SIZE, 3), dtype=np.uint8)
            for name in policy.reads
        }
        self._policy, self._seed = policy, seed
        episode = Episode("trial", "trial", "trial", _TRIAL_INSTRUCTION, seed, np.random.default_rng(seed))
        self._session = policy.begin(episode)

    def prepared(self) -> LerobotSession:
        """Return the session with its generator reseeded, as before every question."""
        self._session.rng = np.random.default_rng(self._seed)
        return self._session

    def ask(self) -> NDArray[np.float64]:
        """Return the answer. Raises VlaError if it is no actions (k, n), or any error of the policy."""
        (given,) = self._policy.act([self.prepared()], [self.observation])
        answer, size = np.asarray(given), self._policy.traits.action_size
        if answer.ndim != 2 or answer.shape[1] != size or not len(answer):
            raise VlaError(f"the policy's actions are {answer.shape[1:]}, and its config says ({size},)")
        return answer


def _own_replan(config: Any) -> int | None:
    steps = getattr(config, "n_action_steps", None)
    return steps if isinstance(steps, int) and steps > 0 else None


def _plain_attributes(model: Any) -> dict[str, Any]:
    """Return the attributes in which a class may remember an episode: neither torch's own nor the config."""
    names = set(vars(model)) - set(vars(torch.nn.Module())) - {"config"}
    return {name: vars(model)[name] for name in sorted(names)}
