"""The questions of a trial: episodes of a suite's tasks, with drawn pictures and states, and a policy asked by them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError
from pytest_vla.plan.case import Case
from pytest_vla.plan.suite import Suite
from pytest_vla.plan.task import Protocol, Task
from pytest_vla.policies.base import BatchPolicy, Episode, Observation, Policy, check_answer, is_batch_policy
from pytest_vla.policies.global_seeds import seed_globals
from pytest_vla.policies.noise import noise_generator, reseed
from pytest_vla.policies.observations import Observations
from pytest_vla.policies.view import policy_view
from pytest_vla.util.tracebacks import describe, ends_episode

Actions = NDArray[np.float64]
Ask = Callable[[int, Sequence[Observation]], list[Actions]]
"""From a control step and what each episode sees to their chunks (k, 7)."""

QUESTIONS = 3
"""Questions of a trial episode: a queue or a history shows from the second on."""

# The arm above the table, as LIBERO's episodes begin: joints (rad), end effector (m, axis-angle in rad).
_JOINTS = (0.0, -0.16, 0.0, -2.44, 0.0, 2.23, 0.79)
_POSITION, _ROTATION = (-0.2, 0.0, 1.15), (3.1, 0.0, -0.1)
_OPEN = 0.04
_PATCHES = 8

_T = TypeVar("_T")


@dataclass(frozen=True)
class Script:
    """A trial episode: a task of the suite, its noise, and what is seen at each question."""

    task: Task
    noise: int
    seen: tuple[Observation, ...]


def draw_observation(drawn: np.random.Generator, protocol: Protocol) -> dict[str, NDArray[Any]]:
    """What a policy might see: every name that a world's observation has.

    Pictures are patches of colours under noise, so that a network that averages sees a difference too; the arm is near
    its rest pose.

    Args:
        drawn: the only randomness.
        protocol: says which cameras, and how large pictures are.
    """
    height, width = protocol.image_size
    rows, columns = np.arange(height) * _PATCHES // height, np.arange(width) * _PATCHES // width
    seen: dict[str, NDArray[Any]] = {}
    for camera in protocol.cameras:
        patches = drawn.integers(0, 226, (_PATCHES, _PATCHES, 3))
        grain = drawn.integers(0, 30, (height, width, 3))
        seen[f"{camera}_image"] = (patches[rows][:, columns] + grain).astype(np.uint8)
    if protocol.vectors:
        return seen | {name: drawn.normal(0.0, 1.0, size) for name, size in protocol.vectors}
    position = np.add(_POSITION, drawn.uniform(-0.1, 0.1, 3))
    rotation = np.add(_ROTATION, drawn.normal(0, 0.05, 3))
    angle = float(np.linalg.norm(rotation))
    fingers = drawn.uniform(0.0, _OPEN) * np.array([1.0, -1.0])
    return seen | {
        "state": np.concatenate([position, rotation, fingers]),
        "robot0_eef_pos": position,
        "robot0_eef_quat": np.array([*(rotation / angle * np.sin(angle / 2)), np.cos(angle / 2)]),
        "robot0_gripper_qpos": fingers,
        "robot0_joint_pos": np.add(_JOINTS, drawn.normal(0, 0.02, len(_JOINTS))),
    }


def make_script(suite: Suite, number: int, drawn: np.random.Generator, questions: int = QUESTIONS) -> Script:
    """The episode of this number: of the suite's task of that index, with noise of its own."""
    seen = tuple(draw_observation(drawn, suite.protocol) for _ in range(questions))
    return Script(suite.tasks[number % len(suite.tasks)], number, seen)


def play_scripts(policy: Policy, scripts: Sequence[Script]) -> list[list[Actions]]:
    """The answers of each episode; several begin together, and take turns."""
    with asking(policy, scripts) as ask:
        rounds = [ask(step, seen) for step, seen in enumerate(zip(*(script.seen for script in scripts), strict=True))]
    return [list(answers) for answers in zip(*rounds, strict=True)]


@contextmanager
def asking(
    policy: Policy | BatchPolicy, scripts: Sequence[Script], took: Callable[[float], None] = lambda seconds: None
) -> Iterator[Ask]:
    """Begins an episode for each script, and ends them. What it gives asks all of them at a control step.

    Args:
        policy: one that answers in batches is asked all at once, another one after the other.
        scripts: of the episodes.
        took: called with the seconds that the policy took for each answer, or for each batch of them.

    Raises:
        EpisodeError: the policy raises, or its answers are none.
    """
    names = [f"trial {script.noise}" for script in scripts]
    noises = [noise_generator(0, name) for name in names]
    sessions: list[Any] = []

    def timed(call: Callable[[], _T]) -> _T:
        began = time.perf_counter()
        answer = _guarded("", call)
        took(time.perf_counter() - began)
        return answer

    def ask(step: int, seen: Sequence[Observation]) -> list[Actions]:
        for noise, name in zip(noises, names, strict=True):
            reseed(noise, 0, name, step)
        # Copies: a policy may write into what it is given.
        views = [policy_view({name: one[name].copy() for name in one}, "none") for one in seen]
        if is_batch_policy(policy):
            wanted = _guarded("", lambda: Observations([{name: view[name] for name in policy.reads} for view in views]))
            seed_globals(noises)
            answers = timed(lambda: list(policy.act(sessions, wanted)))
            if len(answers) != len(sessions):
                raise EpisodeError("policy-protocol", f"{len(answers)} answers to a batch of {len(sessions)} questions")
        else:
            answers = []
            for session, view, noise in zip(sessions, views, noises, strict=True):
                seed_globals([noise])
                answers.append(timed(partial(session, view)))
        return [
            check_answer(answer, script.task.protocol.action_size).actions
            for answer, script in zip(answers, scripts, strict=True)
        ]

    try:
        for script, noise in zip(scripts, noises, strict=True):
            seed_globals([noise])
            sessions.append(_guarded("at the episode's begin: ", partial(_begin, policy, script, noise)))
        yield ask
    except BaseException:
        # What broke first is what is told.
        with suppress(Exception):
            _end(sessions)
        raise
    _end(sessions)


def _begin(policy: Policy | BatchPolicy, script: Script, noise: np.random.Generator) -> Any:
    task = script.task
    case = Case(task.suite, task.name, script.noise, task_level=task.task_level)
    size = task.protocol.action_size
    episode = Episode(case.id, case.suite, case.task, task.language, case.seed, noise, action_size=size)
    if is_batch_policy(policy):
        return policy.begin(episode)
    session = cast("Policy", policy)(episode)
    if not callable(session):
        raise EpisodeError("policy-protocol", f"a policy returns a session, this one returned {type(session).__name__}")
    return session


def _end(sessions: Sequence[Any]) -> None:
    for session in sessions:
        close = getattr(session, "close", None)
        if close is not None:
            _guarded("at the episode's end: ", close)


def _guarded(moment: str, call: Callable[[], _T]) -> _T:
    try:
        return call()
    except EpisodeError:
        raise
    except BaseException as error:
        if not ends_episode(error):
            raise
        raise EpisodeError("policy-raised", f"{moment}{describe(error)}") from error
