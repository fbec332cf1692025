"""The episode: the only place where policy meets world."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.mishaps import describe, ends_episode, full_traceback
from pytest_vla.plan import Case, init_state_of
from pytest_vla.policies.base import ACTION_SIZE, Episode, Observation, Policy, Session, check_actions, episode_rng
from pytest_vla.policies.view import policy_view
from pytest_vla.records import SCHEMA, Record, Trajectory, digest_of
from pytest_vla.suite import Task
from pytest_vla.versions import installed_versions

GOAL_AT_START = "goal-holds-at-start"
"""The reason of an invalid episode: there was nothing left to do after settling."""


class State(Protocol):
    """MuJoCo's data, as far as a trajectory needs it."""

    @property
    def qpos(self) -> NDArray[Any]: ...
    @property
    def qvel(self) -> NDArray[Any]: ...


class EpisodeWorld(Protocol):
    """What an episode needs of a world; `pytest_vla.World` is one."""

    @property
    def data(self) -> State: ...
    @property
    def init_state_count(self) -> int: ...
    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Observation: ...
    def step(self, action: NDArray[np.float64]) -> Observation: ...
    def success(self) -> bool: ...
    def predicates(self) -> Mapping[str, bool]: ...
    def provenance(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class Rollout:
    """An episode that has ended: what the `rollout` fixture gives to a test.

    Attributes:
        record: what is written to the run's records.
        trajectory: states and actions, step by step.
        command: the command line that runs just this episode; may be empty.
        details: the traceback of what broke the episode; empty where nothing raised.
    """

    record: Record
    trajectory: Trajectory = field(repr=False)
    command: str = ""
    details: str = field(default="", repr=False)

    @property
    def success(self) -> bool:
        """Whether the policy did the task."""
        return self.record.outcome == "success"

    @property
    def steps(self) -> int:
        """Control steps taken, settling not counted."""
        return self.record.steps

    @property
    def explanation(self) -> str:
        """How the episode ended, in a few lines: steps, goal literals, end effector, how to run it again."""
        return explain(self.record, self.command)

    def __repr__(self) -> str:
        return f"<Rollout {self.record.case}: {_headline(self.record)}>"


def run_episode(
    case: Case,
    task: Task,
    policy: Policy,
    open_world: Callable[[Task], EpisodeWorld],
    *,
    model: str,
    replan: int | None = None,
    run_seed: int = 0,
    run: str = "",
    node: str = "",
) -> Rollout:
    """Run one episode to its end, whatever that is: nothing but an interrupt and ``pytest.exit`` is raised.

    Args:
        case: which episode.
        task: the case's task.
        policy: called once, for the episode's session.
        open_world: gives the task's world; called once.
        model: the policy's name for the record.
        replan: how many steps of a chunk are executed before the session is asked again; None: all of them.
        run_seed: seeds the policy's noise, together with the case.
        run: the run's name for the record.
        node: the pytest item's id for the record; empty: the id of the suite's own item.
    """
    trace = _Trace()
    reason = message = None
    details = ""
    with trace.timed("wall"):
        try:
            outcome = _roll(trace, case, task, policy, open_world, replan, run_seed)
            reason = GOAL_AT_START if outcome == "invalid" else None
            message = "the goal holds already after settling" if reason else None
        except EpisodeError as error:
            outcome, reason, message = "error", error.reason, error.message
            details = full_traceback(error.__cause__) if error.__cause__ else ""
        except VlaError as error:
            outcome, reason, message = "error", "world-unusable", str(error)
        except BaseException as error:
            if not ends_episode(error):
                raise
            outcome, reason, message, details = "error", "world-raised", describe(error), full_traceback(error)
        # After physics broke, MuJoCo has put a state of its own in place.
        literals = {} if outcome == "error" else trace.literals()
    trajectory = trace.trajectory()
    record = Record(
        schema=SCHEMA,
        run=run,
        case=case.id,
        node=node or case.node_id,
        suite=case.suite,
        task=case.task,
        seed=case.seed,
        instruction=task.language,
        outcome=outcome,
        reason=reason,
        message=message,
        steps=trace.steps,
        success_step=trace.steps if outcome == "success" else None,
        literals=literals,
        eef_pos=trace.last_eef_pos(),
        seeds={"run": run_seed, "scene": case.seed, **trace.seeds},
        protocol=asdict(task.protocol),
        replan=replan,
        policy=model,
        provenance=trace.provenance(),
        timings={name: round(seconds, 6) for name, seconds in trace.seconds.items()},
        digest=digest_of(outcome, trace.steps, literals, trajectory),
        arrays=None,
    )
    return Rollout(record, trajectory, details=details)


def lost_episode(case: Case, task: Task, message: str, *, model: str, replan: int | None, run: str) -> Record:
    """The record of an episode whose process died before it could tell: ``error``, ``worker-crashed``."""

    def die(_: Task) -> EpisodeWorld:
        raise EpisodeError("worker-crashed", message)

    return run_episode(case, task, _no_policy, die, model=model, replan=replan, run=run).record


def _no_policy(episode: Episode) -> Session:
    raise AssertionError(f"{episode.case_id} is lost, so no policy is asked")


def explain(record: Record, command: str = "") -> str:
    """A record in a few lines, for a person: what happened comes first, since pytest shows the first line twice."""
    lines = [_headline(record)]
    lines += [f"  {'holds' if held else 'does not hold':13}  {literal}" for literal, held in record.literals.items()]
    if record.eef_pos is not None:
        lines.append("  end effector at ({:.3f}, {:.3f}, {:.3f}) m".format(*record.eef_pos))
    if command:
        lines.append(f"  run it alone: {command}")
    return "\n".join(lines)


def _headline(record: Record) -> str:
    steps = f"{record.steps} of {record.protocol['max_steps']} steps"
    if record.outcome == "failure":
        return f"not done after {steps}"
    if record.reason is None:
        return f"{record.outcome} after {steps}"
    return f"{record.outcome} {record.reason} after {steps}: {record.message}"


def _roll(
    trace: "_Trace",
    case: Case,
    task: Task,
    policy: Policy,
    open_world: Callable[[Task], EpisodeWorld],
    replan: int | None,
    run_seed: int,
) -> str:
    with trace.timed("reset"):
        trace.world = world = open_world(task)
        init_state = init_state_of(case.seed, world.init_state_count)
        trace.seeds = {"init_state": init_state, "init_states": world.init_state_count}
        observation = world.reset(init_state=init_state, scene_seed=case.seed, settle=True)
        trace.note(observation)
    if world.success():
        return "invalid"
    with trace.timed("policy"):
        session = _begin(policy, case, task, run_seed)
    try:
        outcome = _drive(trace, session, world, observation, task, replan)
    except BaseException:
        # What broke first is what is told.
        with suppress(Exception):
            _close(session)
        raise
    _close(session)
    return outcome


def _drive(
    trace: "_Trace", session: Session, world: EpisodeWorld, observation: Observation, task: Task, replan: int | None
) -> str:
    while trace.steps < task.protocol.max_steps:
        with trace.timed("policy"):
            chunk = _ask(session, policy_view(observation, task.protocol.image_transform))
        with trace.timed("world"):
            for action in chunk[: replan or len(chunk)][: task.protocol.max_steps - trace.steps]:
                observation = world.step(action)
                trace.note(observation, action)
                if world.success():
                    return "success"
    return "failure"


def _begin(policy: Policy, case: Case, task: Task, run_seed: int) -> Session:
    episode = Episode(case.id, case.suite, case.task, task.language, case.seed, episode_rng(run_seed, case.id))
    try:
        session = policy(episode)
    except EpisodeError:
        raise
    except BaseException as error:
        if not ends_episode(error):
            raise
        raise EpisodeError("policy-raised", f"at the episode's begin: {describe(error)}") from error
    if not callable(session):
        raise EpisodeError(
            "policy-protocol",
            f"a policy is called with an episode and returns a session that is called with observations; this one "
            f"returned {type(session).__name__}",
        )
    return session


def _ask(session: Session, observation: Observation) -> NDArray[np.float64]:
    try:
        answer = session(observation)
    except EpisodeError:
        raise
    except BaseException as error:
        if not ends_episode(error):
            raise
        raise EpisodeError("policy-raised", describe(error)) from error
    return check_actions(answer)


def _close(session: Session) -> None:
    close = getattr(session, "close", None)
    if close is None:
        return
    try:
        close()
    except BaseException as error:
        if not ends_episode(error):
            raise
        raise EpisodeError("policy-raised", f"at the episode's end: {describe(error)}") from error


@cache
def _versions() -> dict[str, str]:
    return installed_versions()


@dataclass
class _Trace:
    """What has been seen of an episode so far; complete at any time, since an episode may break at any time."""

    world: EpisodeWorld | None = None
    seeds: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    _qpos: list[NDArray[np.float64]] = field(default_factory=list)
    _qvel: list[NDArray[np.float64]] = field(default_factory=list)
    _eef_pos: list[NDArray[np.float64]] = field(default_factory=list)
    _actions: list[NDArray[np.float64]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return len(self._actions)

    def note(self, observation: Observation, action: NDArray[np.float64] | None = None) -> None:
        assert self.world is not None
        self._qpos.append(np.array(self.world.data.qpos, dtype=np.float64))
        self._qvel.append(np.array(self.world.data.qvel, dtype=np.float64))
        self._eef_pos.append(np.array(observation["robot0_eef_pos"], dtype=np.float64))
        if action is not None:
            self._actions.append(action)

    def literals(self) -> dict[str, bool]:
        if self.world is None or not self._qpos:
            return {}
        try:
            return {name: bool(held) for name, held in self.world.predicates().items()}
        except Exception:
            # Of a world that broke, the literals may not be computable; what broke is already told.
            return {}

    def last_eef_pos(self) -> tuple[float, float, float] | None:
        if not self._eef_pos or not np.isfinite(self._eef_pos[-1]).all():
            return None
        x, y, z = (float(value) for value in self._eef_pos[-1])
        return x, y, z

    def provenance(self) -> dict[str, str]:
        return {**_versions(), **(self.world.provenance() if self.world else {})}

    def trajectory(self) -> Trajectory:
        rows, none = len(self._qpos), np.empty(0)
        return Trajectory(
            np.array(self._qpos or none).reshape(rows, -1 if rows else 0),
            np.array(self._qvel or none).reshape(rows, -1 if rows else 0),
            np.array(self._eef_pos or none).reshape(rows, 3),
            np.array(self._actions or none).reshape(self.steps, ACTION_SIZE),
        )

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
