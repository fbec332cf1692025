"""A loaded lerobot policy as a `BatchPolicy`: batches where that changes no answer, one at a time where it would."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.policies.base import Answer, Episode, Observation
from pytest_vla.policies.fit import ACTION_SIZE, STATE_SIZE
from pytest_vla.policies.lerobot_inputs import ACTION, Inputs
from pytest_vla.policies.observations import as_observations
from pytest_vla.policies.traits import Traits
from pytest_vla.policies.view import resize_with_padding
from pytest_vla.util.tracebacks import describe

MOST = 1024
"""Questions that a policy takes at once, where it batches; ``--vla-batch`` is the limit that people set."""

# How far apart two answers to one question may be: asked alone twice, and asked alone and in a batch. A policy whose
# answers are further apart is asked one at a time.
_AGAIN, _IN_BATCH = 1e-5, 5e-2
_TRIAL_INSTRUCTION = "put the bowl on the plate"
_TRIAL_SIZE = 256

Processor = Callable[[Any], Any]


@dataclass
class LerobotSession:
    """What belongs to one episode.

    Attributes:
        instruction: what the robot is told.
        rng: the episode's; seeded anew before every question.
        samples: how many further draws of each chunk are wished for.
        memory: the attributes in which lerobot's class keeps what an episode left; empty where it keeps nothing.
    """

    instruction: str
    rng: np.random.Generator
    samples: int = 0
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Manner:
    """How a policy is asked.

    Attributes:
        chunks: by ``predict_action_chunk``; else by ``select_action``, one action a control step.
        noise: the shape of the noise that an answer is made from, which is drawn from the episode's generator and
            handed over; None: none is handed over.
        apart: it draws from torch's global generator or remembers earlier questions: before a question that generator
            is seeded from the episode's, and what the class remembers is exchanged for what the episode left.
        batches: several questions at once get the answers that each would get alone.
    """

    chunks: bool
    noise: tuple[int, int] | None = None
    apart: bool = False
    batches: bool = False


class LerobotPolicy:
    """Weights that all episodes share.

    Attributes:
        max_batch: questions at once; 1 for a class that draws its noise itself or keeps a history of the episode.
        reads: the observations that are needed.
        replan: how many steps of a chunk are executed, unless ``--vla-replan`` says otherwise.
        manner: how it is asked.
        device: where its weights are.
    """

    max_batch: int
    reads: Sequence[str]
    replan: int | None
    manner: Manner

    def __init__(
        self, model: Any, before: Processor, after: Processor, inputs: Inputs, device: str, manner: Manner
    ) -> None:
        """See `make_policy`, which finds out the manner."""
        self._model, self._before, self._after = model, before, after
        self._inputs, self.device = inputs, torch.device(device)
        self.manner = manner
        self.max_batch = MOST if manner.batches else 1
        self.reads = inputs.reads
        self.replan = _own_replan(model.config) if manner.chunks else 1
        self._fresh: dict[str, Any] = {}
        if manner.apart:
            model.reset()
            self._fresh = _plain_attributes(model)

    @property
    def traits(self) -> Traits:
        """What its config says of it; `read_inputs` has refused what does not fit."""
        return Traits(
            action_size=self._model.config.output_features[ACTION].shape[0],
            reads=tuple(self.reads),
            state_size=None if self._inputs.state is None else STATE_SIZE,
            draws=True if self.manner.noise is not None else None,
        )

    @property
    def weights(self) -> dict[str, Any]:
        """All that an answer depends on, by name: the weights, and what the processors normalise by."""
        found = {f"model.{name}": value for name, value in self._model.state_dict().items()}
        for which, pipeline in (("before", self._before), ("after", self._after)):
            for number, step in enumerate(getattr(pipeline, "steps", ())):
                state = step.state_dict() if hasattr(step, "state_dict") else {}
                found |= {f"{which}.{number}.{name}": value for name, value in state.items()}
        return found

    def begin(self, episode: Episode) -> LerobotSession:
        """A session with nothing in its memory."""
        # Weights that a memory points to are shared, not copied.
        shared = {id(part): part for part in (*self._model.modules(), *self._model.parameters())}
        # What draws its noise itself, or draws none, has no further draws that could be asked for.
        samples = episode.wishes.samples if self.manner.noise is not None else 0
        return LerobotSession(episode.instruction, episode.rng, samples, copy.deepcopy(self._fresh, shared))

    def act(
        self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]
    ) -> list[NDArray[np.float64] | Answer]:
        """The chunks (k, 7), after the policy's own postprocessor; with samples where a session wishes for some.

        Samples are asked for after the chunks, from noise that is drawn after theirs: what is executed is the same, bit
        for bit, whether samples are wished for or not.
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
        """(n, k, 7) of each session; None: it wishes for none. The same observation, as often in one question as there
        are samples, or as there are sessions where that is more, which is what a device is known to hold."""
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
        """Chunks of one question; a session that stands in it several times has new noise each time."""
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
            # The generator is put back: in the user's own process others draw from it too.
            with torch.random.fork_rng(devices=[self.device] if self.device.type == "cuda" else []), torch.no_grad():
                torch.manual_seed(int(session.rng.integers(2**63)))
                if self.manner.chunks:
                    chunk = self._model.predict_action_chunk(batch)
                else:
                    chunk = self._model.select_action(batch)[:, None]
            session.memory = {name: vars(self._model)[name] for name in session.memory}
        finally:
            # And the model has no memory of the episode: it is what it was, also to its digest.
            vars(self._model).update(before)
        return self._finish(chunk)

    def _batch(self, sessions: Sequence[LerobotSession], observations: Sequence[Observation]) -> dict[str, Any]:
        """What the preprocessor takes: pictures (B, 3, H, W) float32 in [0, 1], state (B, 8) float32, instructions."""
        batch: dict[str, Any] = {"task": [session.instruction for session in sessions]}
        together = as_observations(observations)
        for key, name in self._inputs.pictures.items():
            if key in self._inputs.sizes:
                size = self._inputs.sizes[key]
                pictures = np.stack([resize_with_padding(observation[name], *size) for observation in observations])
            else:
                pictures = together.stacked(name)
            # As bytes to the device: a quarter of the way's load.
            batch[key] = torch.from_numpy(pictures).to(self.device).permute(0, 3, 1, 2).float() / 255
        if self._inputs.state is not None:
            states = together.stacked("state").astype(np.float32)
            batch[self._inputs.state] = torch.from_numpy(states).to(self.device)
        return batch

    def _finish(self, chunk: Any) -> list[NDArray[np.float64]]:
        # Once over to the CPU, then step by step, (B, 7) each: some postprocessors take no chunks.
        chunk = chunk.cpu()
        actions = torch.stack([self._after(chunk[:, step]) for step in range(chunk.shape[1])], dim=1)
        return list(actions.float().numpy().astype(np.float64))


def make_policy(
    model: Any, before: Processor, after: Processor, inputs: Inputs, device: str, replan: int | None = None
) -> LerobotPolicy:
    """A policy that is asked in the best manner that it allows, as a few trial questions show.

    Args:
        model: lerobot's ``PreTrainedPolicy`` on its device.
        before: its preprocessor.
        after: its postprocessor.
        inputs: what it sees.
        device: torch's name.
        replan: instead of the config's ``n_action_steps``.

    Raises:
        VlaError: it does not answer, its actions are not (k, 7), or it keeps state of an episode where it cannot be
            taken out.
    """

    def policy_of(manner: Manner) -> LerobotPolicy:
        return LerobotPolicy(model, before, after, inputs, device, manner)

    # What trials draw is nobody else's.
    with torch.random.fork_rng(devices=[torch.device(device)] if device.startswith("cuda") else []):
        policy = policy_of(_find_manner(policy_of, model.config))
    if replan is not None and policy.manner.chunks:
        policy.replan = replan
    return policy


def _find_manner(policy_of: Callable[[Manner], LerobotPolicy], config: Any) -> Manner:
    steps = Manner(chunks=False, apart=True)
    # A history is of every control step, and chunks are asked for less often.
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
        raise VlaError(f"the policy does not answer a trial question: {describe(trouble)}") from trouble


def _repeats(policy_of: Callable[[Manner], LerobotPolicy], manner: Manner) -> Manner | None:
    """The manner, and whether it batches, where an answer depends on nothing but its question; else None."""
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
    """The manner, where an episode's answers do not show that another episode was in between. Raises VlaError."""
    policy = policy_of(manner)
    alone = _Trial(policy, 0)
    expected = [alone.ask(), alone.ask()]
    one, other = _Trial(policy, 0), _Trial(policy, 1)
    for answer in expected:
        if not np.allclose(answer, one.ask(), rtol=_IN_BATCH, atol=_IN_BATCH):
            raise VlaError(
                "the policy keeps what it knows of an episode where it cannot be taken out, so that one episode would "
                "change the next"
            )
        other.ask()
    return manner


class _Trial:
    """An episode of trial questions, all the same one, which follows from a seed."""

    def __init__(self, policy: LerobotPolicy, seed: int) -> None:
        drawn = np.random.default_rng(seed)
        self.observation = {
            name: drawn.normal(0, 0.1, STATE_SIZE)
            if name == "state"
            else drawn.integers(0, 256, (_TRIAL_SIZE, _TRIAL_SIZE, 3), dtype=np.uint8)
            for name in policy.reads
        }
        self._policy, self._seed = policy, seed
        episode = Episode("trial", "trial", "trial", _TRIAL_INSTRUCTION, seed, np.random.default_rng(seed))
        self._session = policy.begin(episode)

    def prepared(self) -> LerobotSession:
        """The session as it is before every question: its generator seeded anew."""
        self._session.rng = np.random.default_rng(self._seed)
        return self._session

    def ask(self) -> NDArray[np.float64]:
        """The answer. Raises VlaError where it is no actions (k, 7), or whatever the policy raises."""
        (given,) = self._policy.act([self.prepared()], [self.observation])
        answer = np.asarray(given)
        if answer.ndim != 2 or answer.shape[1] != ACTION_SIZE or not len(answer):
            raise VlaError(f"the policy's actions are {answer.shape[1:]}, expected ({ACTION_SIZE},)")
        return answer


def _own_replan(config: Any) -> int | None:
    steps = getattr(config, "n_action_steps", None)
    return steps if isinstance(steps, int) and steps > 0 else None


def _plain_attributes(model: Any) -> dict[str, Any]:
    """What a class may remember: its attributes that are neither torch's own nor its config."""
    names = set(vars(model)) - set(vars(torch.nn.Module())) - {"config"}
    return {name: vars(model)[name] for name in sorted(names)}
