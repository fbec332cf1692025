"""Run one episode: the only place where a policy meets a world.

- `run_episode` makes the record. `pytest_vla.run.stored` passes it to `pytest_vla.records.store.Writer`, which writes
  it into the store.
- `_run_steps` is the loop over control steps: act, step, record, ask for success. It holds the step budget.
- `World.success` decides whether the task is done (`pytest_vla.sim.world`; for a simulator that a suite brings,
  `OwnWorld.success` in `pytest_vla.episode.world_pool`).
"""

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_vla.episode.apply_metrics import watch_alarm
from pytest_vla.episode.result import Rollout
from pytest_vla.episode.start import NothingToMeasure, OpenWorld, begin
from pytest_vla.episode.trace import EpisodeWorld, Trace
from pytest_vla.errors import BATCH_FAILED, POLICY_TIMEOUT, TIMEOUT, EpisodeError, VlaError, is_of_policy
from pytest_vla.metrics.alarms import AlarmRule
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import (
    ABSOLUTE,
    BLEND,
    BLENDED,
    CONTROLLER_6D,
    COSTS_ALL,
    NO_LATENCY,
    ONE_OPENS,
    SINGLE,
    SKIP,
    UNSCALED,
    WAIT,
    Realtime,
    picture_steps,
    steps_late,
    steps_to_hold,
)
from pytest_vla.plan.costs import DECLARED
from pytest_vla.plan.task import INSTRUCTION, Protocol, Task
from pytest_vla.policies.base import NO_WISHES, Answer, Episode, Observation, Policy, Session, Wishes
from pytest_vla.policies.fit import POSE_6D_SIZE, controlled, gives_6d, traits_of
from pytest_vla.policies.generators import globals_put_back, noise_generator, reseed, seed_globals
from pytest_vla.policies.session import ask_session, begin_session, begin_start, close_session, own_replan
from pytest_vla.policies.view import (
    actions_of_6d,
    axis_angle_of_6d,
    converts_gripper,
    gripper_of,
    policy_view,
    pose_6d,
    rotation_6d,
)
from pytest_vla.records.counting import REALTIME
from pytest_vla.records.record import SCHEMA, Record
from pytest_vla.records.trajectory import digest_of
from pytest_vla.scene.variation import Variation
from pytest_vla.util.processes import interrupts_noted
from pytest_vla.util.wall_limits import WallLimitReached, wall_limit
from pytest_vla.util.warnings import describe, ends_episode, full_traceback

MOST_ATTEMPTS = 4
"""The most attempts at an episode whose policy was lost in it."""


_T = TypeVar("_T")


@dataclass(frozen=True)
class Conditions:
    """The settings that all episodes of a run share.

    Attributes:
        model: the policy's name for the record.
        policy_digest: digest of everything that made the policy, or None if it is not known.
        replan: how many steps of a chunk are executed before the session is asked again, or None for the policy's
            own number (`Policy`), or else all of them.
        run_seed: seeds the policy's noise, together with the case and the step.
        timeout: seconds of wall time after which an episode is stopped, or None for no limit.
        policy_timeout: seconds of wall time that one answer of the policy may take, or None for no limit.
        feasible: whether the expert tries changed scenes first.
        premises: whether an episode needs the task's premises to hold.
        wishes: values that metrics need from answers beside actions.
        remaining: whether the positions of the task's object and its goal are recorded as series.
        handling: whether the margin to joint limits, and the things that the arm holds and touches, are recorded.
        alone: whether the policy is not to answer this episode in a batch with others.
        stop_when: the rule of an alarm that ends an episode, or None.
        realtime: how late answers are used while the world moves on.
        costs: whether collisions are charged, one of `pytest_vla.plan.choices.COSTS`.
        declared: digest of the user's declared costs (`DeclaredCosts.digest`); empty if there are none.
        run: the run's name for the record.
        worker: the process's name for the record.
    """

    model: str
    policy_digest: str | None = None
    replan: int | None = None
    run_seed: int = 0
    timeout: float | None = None
    policy_timeout: float | None = None
    feasible: bool = False
    premises: bool = True
    wishes: Wishes = NO_WISHES
    remaining: bool = False
    handling: bool = False
    alone: bool = False
    stop_when: AlarmRule | None = None
    realtime: Realtime = NO_LATENCY
    costs: str = COSTS_ALL
    declared: str = ""
    run: str = ""
    worker: str = ""

    @property
    def choices(self) -> dict[str, str]:
        """The settings on validity, latency and costs that differ from their defaults, for the provenance."""
        costs = {} if self.costs == COSTS_ALL else {"costs": self.costs}
        costs |= {DECLARED: self.declared} if self.declared else {}
        premises = {} if self.premises else {"premises": "ignored"}
        premises |= {} if self.stop_when is None else {"stop_when": str(self.stop_when)}
        premises |= {} if self.realtime == NO_LATENCY else {REALTIME: str(self.realtime)}
        return premises | ({"feasible": "tried"} if self.feasible else {}) | costs


def run_episode(
    case: Case,
    task: Task,
    policy: Policy,
    open_world: OpenWorld,
    conditions: Conditions,
    *,
    variation: Variation | None = None,
    node: str = "",
    group: str = "",
) -> Rollout:
    """Run one episode to its end and return it; only an interrupt and ``pytest.exit`` are raised.

    Args:
        case: the episode's case.
        task: the case's task, unvaried.
        policy: called once, for the episode's session.
        open_world: opens the task's world under a variation; called once for each draw of it.
        conditions: of the run.
        variation: the case's, or None.
        node: the pytest item's id for the record; if empty, the id of the suite's own item.
        group: for the record of a user's own test.
    """
    trace = Trace(variation=variation, is_own=task.world is not None)
    instruction = task.language if variation is None or variation.instruction is None else variation.instruction
    started = datetime.now(UTC)
    limit = wall_limit(conditions.timeout)
    reason = message = None
    details = ""
    try:
        with interrupts_noted(), globals_put_back(), trace.timed("wall"), limit:
            conditions = replace(conditions, replan=conditions.replan or own_replan(policy))
            task = replace(task, protocol=controlled(task.protocol, traits_of(policy)))
            outcome = _run_session(trace, case, task, instruction, policy, open_world, conditions)
    except NothingToMeasure as error:
        outcome, reason, message = "invalid", error.reason, error.message
    except EpisodeError as error:
        outcome, reason, message = "error", error.reason, error.message
        details = full_traceback(error.__cause__) if error.__cause__ else ""
    except VlaError as error:
        outcome, reason, message = "error", "world-unusable", str(error)
    except WallLimitReached as error:
        outcome, details = "error", full_traceback(error)
    except BaseException as error:
        if not ends_episode(error):
            raise
        outcome, reason, message, details = "error", "world-raised", describe(error), full_traceback(error)
    provenance, simulator, refused = _said(trace)
    if refused is not None and outcome != "error":
        outcome, (reason, message) = "error", _reason_of(refused)
        details = "" if isinstance(refused, VlaError) else full_traceback(refused)
    if limit.reached is not None:
        # Also if the policy swallowed the exception, or raised a different one for it.
        outcome, reason, message = "error", TIMEOUT, f"{limit.reached} (--vla-timeout)"
    trajectory, literals = trace.trajectory(), trace.literals()
    record = Record(
        schema=SCHEMA,
        run=conditions.run,
        case=case.id,
        node=node or case.node_id,
        suite=case.suite,
        task=case.task,
        seed=case.seed,
        variation={} if trace.variation is None else trace.variation.table(),
        attempt=1,
        worker=conditions.worker,
        started=started.isoformat(timespec="milliseconds"),
        instruction=instruction,
        outcome=outcome,
        reason=reason,
        message=message,
        steps=trace.steps,
        success_step=trace.steps if outcome == "success" else None,
        literals=literals,
        eef_pos=trace.last_eef_pos(),
        costs=trace.costs(),
        metrics=trace.metrics(),
        seeds={"run": conditions.run_seed, "scene": case.seed, **trace.seeds},
        protocol=task.protocol.table(),
        replan=conditions.replan,
        policy=conditions.model,
        policy_digest=conditions.policy_digest,
        provenance={**provenance, **conditions.choices},
        # A policy may have changed the clock.
        timings={name: round(took, 6) if 0 <= took < math.inf else None for name, took in trace.all_seconds().items()},
        digest=digest_of(outcome, trace.steps, literals, trajectory),
        arrays=None,
        simulator=simulator,
        task_level=case.task_level,
        group=group,
        given=case.given,
    )
    frames = _kept_frames(trace.world)
    return Rollout(record, trajectory, tuple(trace.answers), trace.variation, details=details, frames=frames)


def _said(trace: Trace) -> tuple[Mapping[str, str], tuple[str, ...], BaseException | None]:
    """Return the provenance and simulator of a record, and the exception if a suite's own world raised on them."""
    try:
        return trace.provenance(), trace.simulator(), None
    except BaseException as error:
        if not ends_episode(error):
            raise
        return trace.versions(), (), error


def _reason_of(error: BaseException) -> tuple[str, str]:
    if isinstance(error, EpisodeError):
        return error.reason, error.message
    return ("world-unusable", str(error)) if isinstance(error, VlaError) else ("world-raised", describe(error))


def _kept_frames(world: EpisodeWorld | None) -> tuple[tuple[int, NDArray[np.uint8]], ...]:
    keeps = getattr(world, "kept_frames", None)
    if keeps is None:
        return ()
    try:
        found: tuple[tuple[int, NDArray[np.uint8]], ...] = keeps()
    except Exception:
        # The world broke.
        return ()
    return found


def play_until_it_counts(
    play: Callable[[Conditions], Rollout], policy: Policy, conditions: Conditions
) -> tuple[Rollout, str]:
    """Run an episode, and repeat it if it failed through no fault of its own.

    An episode is repeated if the policy's process died in it, or if the policy raised on a batch with other episodes.
    The record's `attempt` counts the runs.

    Args:
        play: runs the episode.
        policy: may have a method ``recover(reason)``, which waits until the policy can be asked again, and
            returns whether an episode that ended for this reason has to be repeated. It raises VlaError if the
            policy cannot be asked any more. If the policy's process ended by an exit of its own, its ``has_exited``
            is true from then on, and the record says so (`Record.retried`).
        conditions: of the run.

    Returns:
        The episode that counts, and why the policy cannot be asked any more, or "" if it can.
    """
    recover, own = getattr(policy, "recover", None), ""
    for attempt in range(1, MOST_ATTEMPTS + 1):
        ended = play(conditions)
        ended = replace(ended, record=replace(ended.record, attempt=attempt, retried=own))
        reason = ended.record.reason
        if reason == BATCH_FAILED:
            conditions = replace(conditions, alone=True)
            continue
        try:
            if recover is None or ended.record.outcome != "error" or not recover(reason):
                break
        except VlaError as error:
            return ended, str(error)
        if is_of_policy(reason) and getattr(policy, "has_exited", False):
            own = str(reason)
    return ended, ""


def lost_episode(
    case: Case,
    task: Task,
    conditions: Conditions,
    *,
    reason: str,
    message: str,
    variation: Variation | None = None,
    node: str = "",
) -> Record:
    """Return the record of an episode whose process died: outcome ``error``, for the given reason."""

    def die(_: Task, __: Variation | None) -> EpisodeWorld:
        raise EpisodeError(reason, message)

    conditions = replace(conditions, timeout=None)
    return run_episode(case, task, _no_policy, die, conditions, variation=variation, node=node).record


def _no_policy(episode: Episode) -> Session:
    raise AssertionError(f"{episode.case_id} is lost, so no policy is asked")


def _run_session(
    trace: Trace,
    case: Case,
    task: Task,
    instruction: str,
    policy: Policy,
    open_world: OpenWorld,
    conditions: Conditions,
) -> str:
    """Begin the episode, run its steps with a session of the policy, and return the outcome."""
    bring = getattr(policy, "start", None)
    if bring is not None:
        with trace.timed("policy"):
            trace.started = _limited(lambda: begin_start(bring, case), conditions.policy_timeout)
    with trace.timed("reset"):
        wanted = {"feasible": conditions.feasible, "premises": conditions.premises}
        observation = begin(trace, case, task, open_world, **wanted)
    world = trace.world
    assert world is not None, "the episode has begun in one"
    trace.watch(conditions.remaining, conditions.handling)
    latency, slower = conditions.realtime, 0.0 if trace.variation is None else trace.variation.latency or 0.0
    is_late = latency != NO_LATENCY or slower > 0
    if is_late:
        if trace.started is not None:
            raise EpisodeError("replay-unfit", f"{trace.started.of} cannot be played back with latency")
        trace.held = 0
    noise = noise_generator(conditions.run_seed, case.id)
    with trace.timed("policy"):
        # For a suite's own world, the suite's object.
        seen = getattr(world, "inner", world) if getattr(policy, "privileged", False) else None
        names = (case.id, case.suite, case.task, instruction, case.seed)
        is_6d = gives_6d(traits_of(policy), task.protocol)
        size = POSE_6D_SIZE if is_6d else task.protocol.action_size
        prompt = task.protocol.prompt.replace(INSTRUCTION, instruction)
        turn = picture_steps(task.protocol.wrist_transform or task.protocol.image_transform)[0][0]
        wanted_of = conditions.wishes, conditions.alone
        late = None if latency.seconds is None else steps_late(latency.seconds + slower, task.protocol.control_freq)
        bounds = task.protocol.action_bounds
        episode = Episode(*names, noise, *wanted_of, seen, size, conditions.replan, prompt, turn, late, bounds)
        seed_globals([noise])
        session = _limited(lambda: begin_session(policy, episode), conditions.policy_timeout)

    converts = converts_gripper(policy, task.protocol)

    def converted(chunk: NDArray[np.float64]) -> NDArray[np.float64]:
        _refuse_gripper(chunk, task.protocol)
        return np.array([[*row[:-1], gripper_of(row[-1], task.protocol.gripper)] for row in chunk])

    fed: NDArray[np.float64] | None = None

    def ask(observation: Observation) -> _Reply:
        nonlocal fed
        reseed(noise, conditions.run_seed, case.id, trace.steps)
        view = policy_view(observation, task.protocol, fed)
        if is_late:
            view = _TimedView(view)
        # A policy should draw from its episode's generator; one that does not shall still be repeatable.
        seed_globals([noise])
        began = perf_counter()
        answer = _limited(lambda: ask_session(session, view, size), conditions.policy_timeout)
        seconds = slower
        if isinstance(view, _TimedView):
            measured = max(0.0, perf_counter() - began - view.seconds)
            took = measured if answer.seconds is None else answer.seconds
            trace.thinking.append(took)
            seconds += took if latency.seconds is None else latency.seconds
        if task.protocol.state == CONTROLLER_6D:
            fed = pose_6d(answer.actions[-1])
        actions = actions_of_6d(answer.actions) if is_6d else answer.actions
        if task.protocol.action_precision == SINGLE:
            # Before the gripper's rule, as X-VLA's client and GR00T's script do it.
            actions = actions.astype(np.float32).astype(np.float64)
        actions = converted(actions) if converts else actions
        if task.protocol.out_of_range == "error" and task.protocol.control != ABSOLUTE:
            _refuse_out_of_range(actions)
        return _Reply(actions, answer, steps_late(seconds, task.protocol.control_freq))

    def note(answer: Answer, skipped: int) -> None:
        """Keep an answer for metrics, from the step on at which the first of its actions that count is executed."""
        # If metrics requested values, keep answers without them too: their steps do not belong to the previous answer.
        if not answer.is_bare or conditions.wishes != NO_WISHES:
            samples = None if answer.samples is None else answer.samples[:, skipped:]
            trace.answers.append((trace.steps, replace(answer, samples=samples) if skipped else answer))

    try:
        rule = conditions.stop_when
        alarm = None if rule is None else watch_alarm(trace, rule, task.protocol.action_bounds)
        # After the last recorded action there is nothing to play.
        steps = task.protocol.max_steps if trace.started is None else len(trace.started.states)
        protocol = replace(task.protocol, max_steps=min(steps, task.protocol.max_steps))
        play = _player(trace, ask, note, _holding(world, protocol), conditions.replan, latency.client)
        done = _run_steps(trace, play, world, observation, protocol, alarm)
        trace.conclude()
    except BaseException:
        # The first error is the one to report.
        with suppress(Exception):
            close_session(session)
        raise
    close_session(session)
    return "success" if done else "failure"


# The actions of an episode, in step with the world: see `pytest_vla.plan.choices.Realtime`.

Action = NDArray[np.float64]


class _Reply(NamedTuple):
    """A policy's answer.

    Attributes:
        actions: (k, n), as they are executed.
        answer: with what metrics need.
        late: how many control steps pass before it can be used.
    """

    actions: NDArray[np.float64]
    answer: Answer
    late: int


class _TimedView(Mapping[str, NDArray[Any]]):
    """An observation that knows how long reading it took: a robot's cameras do not wait for the policy to look."""

    def __init__(self, view: Observation) -> None:
        self._view, self.seconds = view, 0.0

    def __getitem__(self, key: str) -> NDArray[Any]:
        began = perf_counter()
        try:
            return self._view[key]
        finally:
            self.seconds += perf_counter() - began

    def __contains__(self, key: object) -> bool:
        return key in self._view

    def __iter__(self) -> Iterator[str]:
        return iter(self._view)

    def __len__(self) -> int:
        return len(self._view)


_REMEMBERED = 10
"""The answers whose latest is expected again, where each is as late as it took: so does real-time chunking."""


def _player(
    trace: Trace,
    ask: Callable[[Observation], _Reply],
    note: Callable[[Answer, int], None],
    hold: Callable[[Observation, Action | None], Action],
    replan: int | None,
    client: str,
) -> Callable[[Observation], Action]:
    """Return a function that takes the observation of each step, in order, and returns the action of that step.

    It asks the policy when a question is due, one at a time. Without latency, whole chunks are executed, or the first
    `replan` actions of each.

    Args:
        trace: has the number of the present step, and counts those in which the arm holds.
        ask: returns the policy's reply to an observation.
        note: called with each answer whose actions begin to be executed, and how many of them are left out.
        hold: returns the action that keeps the arm where it is, from the last one.
        replan: how many actions of a chunk are executed before the next one; None for all.
        client: one of `pytest_vla.plan.choices.CLIENTS`.
    """
    rest: deque[Action] = deque()
    coming: tuple[int, _Reply] | None = None
    lags: deque[int] = deque(maxlen=_REMEMBERED)
    # Of the present chunk: how many actions are to be executed, and were; and how many were since the last question.
    wanted = played = since = 0
    last: Action | None = None

    def take(asked: int, reply: _Reply) -> None:
        nonlocal coming, wanted, played
        # Of a chunk whose time has passed altogether, the last action is left.
        skipped = min(since, len(reply.actions) - 1) if client in (SKIP, BLEND) else 0
        fresh = [*reply.actions[skipped:]]
        if client == BLEND and skipped == since > 0:
            fresh[: len(rest)] = [BLENDED * old + (1 - BLENDED) * new for old, new in zip(rest, fresh, strict=False)]
        wanted, played, coming = min(replan or len(fresh), len(fresh)), 0, None
        rest.clear()
        rest.extend(fresh[:wanted] if client == WAIT else fresh)
        if asked:
            note(reply.answer, skipped)

    def play(observation: Observation) -> Action:
        nonlocal coming, played, since, last
        if coming is not None and coming[0] + coming[1].late <= trace.steps:
            take(*coming)
        ahead = 0 if client == WAIT else max(lags, default=0)
        if coming is None and (not rest or (client != WAIT and played + ahead >= wanted)):
            reply = ask(observation)
            coming, since = (trace.steps, reply), 0
            lags.append(reply.late)
            if not trace.steps:
                # The steps before the first answer is used count as its own.
                note(reply.answer, 0)
            if not reply.late:
                take(*coming)
        if rest:
            last, played, since = rest.popleft(), played + 1, since + 1
        else:
            last = hold(observation, last)
            trace.held = (trace.held or 0) + 1
        return last

    return play


def _holding(world: EpisodeWorld, protocol: Protocol) -> Callable[[Observation, Action | None], Action]:
    """Return a function from an observation and the last action to the action that keeps the arm where it is.

    A relative one moves nothing, with the gripper's last command; of poses the last one is kept. Before the first
    action it is the settle action, or the pose that the controller has. A suite's own world says it itself.
    """
    own: Callable[[Action | None], Action] | None = getattr(world, "hold", None)
    settled = np.array(protocol.settle_action, dtype=np.float64)

    def hold(observation: Observation, last: Action | None) -> Action:
        if own is not None:
            return own(last)
        if protocol.control != ABSOLUTE:
            return settled if last is None else np.append(np.zeros(len(last) - 1), np.clip(last[-1], -1.0, 1.0))
        if last is not None:
            return last
        turn = axis_angle_of_6d(rotation_6d(observation["controller_mat"]))
        return np.concatenate([observation["controller_pos"], turn, settled[-1:]])

    return hold


def _run_steps(
    trace: Trace,
    play: Callable[[Observation], Action],
    world: EpisodeWorld,
    observation: Observation,
    protocol: Protocol,
    alarm: Callable[[], None] | None = None,
) -> bool:
    """Run control steps until the task is done, nothing more can happen, or the step budget is taken.

    Args:
        trace: records each step.
        play: returns the next action, for the observation of the present step.
        world: reset.
        observation: of the world's current state.
        protocol: the task's, which has the step budget, and says when the task is done and what actions are.
        alarm: called after each step that did not end the episode; it may raise NothingToMeasure.

    Returns:
        Whether the task is done.
    """
    changes = [start() for start in trace.variation.actions] if trace.variation is not None else []
    clips = protocol.control != ABSOLUTE and protocol.out_of_range != UNSCALED
    if changes and protocol.control == ABSOLUTE:
        raise VlaError("actions are poses, but the variation changes relative actions: use a policy with relative ones")
    over, max_steps = getattr(world, "over", None), protocol.max_steps
    # None: the goal has to hold at the end. A policy can lose again what it has reached.
    wanted_steps, held = steps_to_hold(protocol.success), 0
    while trace.steps < max_steps:
        with trace.timed("policy"):
            wanted = play(observation)
        with trace.timed("world"):
            action = np.clip(wanted, -1.0, 1.0) if clips else wanted.copy()
            if not np.array_equal(action, wanted):
                trace.record_clipped(wanted)
            executed = action
            for change in changes:
                executed = change(executed)
            observation = world.step(executed)
            trace.record_step(observation, action)
            held = held + 1 if world.success() else 0
            if held and trace.first_success is None:
                trace.first_success = trace.steps
            if wanted_steps is not None and held >= wanted_steps:
                return True
            if over is not None and over():
                return wanted_steps is None and held > 0
            if alarm is not None and trace.steps < max_steps:
                alarm()
    return wanted_steps is None and held > 0


def _limited(call: Callable[[], _T], seconds: float | None) -> _T:
    """Return the result of a call to the policy, within its limit of wall time."""
    limit = wall_limit(seconds)
    try:
        with limit:
            return call()
    except WallLimitReached as error:
        if limit.reached is None:
            # The episode's own limit.
            raise
        raise EpisodeError(POLICY_TIMEOUT, f"{limit.reached} (--vla-policy-timeout)") from error


def _refuse_gripper(chunk: NDArray[np.float64], protocol: Protocol) -> None:
    """Refuse a gripper of -1, where the evaluator expects 0 to 1: it would do the opposite of what the policy means."""
    if protocol.gripper == ONE_OPENS and (chunk[:, -1] < -0.5).any():
        raise EpisodeError(
            "policy-range",
            f"the gripper is {chunk[:, -1].min():g}, but the evaluator {protocol.evaluator} takes 0 (closes) to 1 "
            "(opens); if -1 opens in your policy, say so in its traits: traits = {'gripper': '-1 opens, 1 closes'}",
        )


def _refuse_out_of_range(chunk: NDArray[np.float64]) -> None:
    wild = (np.abs(chunk) > 1.0).any(axis=1)
    if wild.any():
        row = int(wild.argmax())
        raise EpisodeError(
            "policy-range", f"action {row} of the chunk of {len(chunk)} is not in [-1, 1]: {chunk[row].tolist()}"
        )
