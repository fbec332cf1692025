"""A trial of a policy: a few questions show whether its answers are valid, repeatable and kept apart by episode.

No world is made: pictures and states are random, instructions are the suite's.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import ABSOLUTE, AS_GIVEN, ONE_OPENS, UNSCALED, picture_steps, viewed_size
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import INSTRUCTION, Protocol, Task, with_protocol
from pytest_vla.policies import fit
from pytest_vla.policies.base import (
    NO_WISHES,
    BatchPolicy,
    Episode,
    Observation,
    Observations,
    Policy,
    Session,
    Wishes,
    check_answer,
    is_batch_policy,
    one_by_one,
    own_number,
)
from pytest_vla.policies.fit import GRIPPERS, FitFinding, traits_of
from pytest_vla.policies.generators import globals_put_back, noise_generator, reseed, seed_globals
from pytest_vla.policies.session import ask_session, begin_session, close_session, own_replan
from pytest_vla.policies.view import converts_gripper, gripper_of, policy_view
from pytest_vla.util.warnings import describe, ends_episode

# The questions of a trial: episodes of a suite's tasks, with random pictures and states.

Actions = NDArray[np.float64]
Ask = Callable[[int, Sequence[Observation]], list[Actions]]
"""Maps a control step and the episodes' observations to their chunks (k, 7)."""

QUESTIONS = 3
"""Questions per trial episode: a queue or a history has an effect from the second on."""

# The arm above the table, as LIBERO's episodes begin: joints (rad), end effector (m, axis-angle in rad).
_JOINTS = (0.0, -0.16, 0.0, -2.44, 0.0, 2.23, 0.79)
_POSITION, _ROTATION = (-0.2, 0.0, 1.15), (3.1, 0.0, -0.1)
_OPEN = 0.04
_PATCHES = 8

_T = TypeVar("_T")


# The grip site's frame in the hand body's.
_GRIP_SITE = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


@dataclass(frozen=True)
class Script:
    """A trial episode: a task of the suite, the seed of its noise, and the observation at each question."""

    task: Task
    noise: int
    seen: tuple[Observation, ...]


def draw_observation(drawn: np.random.Generator, protocol: Protocol) -> dict[str, NDArray[Any]]:
    """Draw a random observation with every name that a world's observation has.

    Pictures are coloured patches with noise, so that a network that averages also sees a difference; the arm is near
    its rest pose.

    Args:
        drawn: the only source of randomness.
        protocol: defines the cameras and the picture size.
    """
    height, width = viewed_size(protocol.image_transform, protocol.image_size)
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
    x, y, z = rotation / angle
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    fingers = drawn.uniform(0.0, _OPEN) * np.array([1.0, -1.0])
    return seen | {
        "state": np.concatenate([position, rotation, fingers]),
        "robot0_eef_pos": position,
        "robot0_eef_quat": np.array([*(rotation / angle * np.sin(angle / 2)), np.cos(angle / 2)]),
        "robot0_gripper_qpos": fingers,
        "robot0_joint_pos": np.add(_JOINTS, drawn.normal(0, 0.02, len(_JOINTS))),
        "controller_pos": position,
        "controller_mat": (np.eye(3) + np.sin(angle) * cross + (1 - np.cos(angle)) * cross @ cross) @ _GRIP_SITE,
    }


def _of_size(suite: Suite, policy: object) -> Suite:
    """Return a suite whose tasks take actions of the size that the policy gives, if an episode would convert them."""
    if not fit.gives_6d(fit.traits_of(policy), suite.protocol):
        return suite
    return replace(suite, tasks=tuple(with_protocol(task, action_size=fit.POSE_6D_SIZE) for task in suite.tasks))


def make_script(suite: Suite, number: int, drawn: np.random.Generator, questions: int = QUESTIONS) -> Script:
    """Make the trial episode of this number: the suite's task of that index (modulo), with noise of its own."""
    seen = tuple(draw_observation(drawn, suite.protocol) for _ in range(questions))
    return Script(suite.tasks[number % len(suite.tasks)], number, seen)


def play_scripts(policy: Policy, scripts: Sequence[Script]) -> list[list[Actions]]:
    """Return the answers of each episode; the episodes begin together, and take turns."""
    with asking(policy, scripts) as ask:
        rounds = [ask(step, seen) for step, seen in enumerate(zip(*(script.seen for script in scripts), strict=True))]
    return [list(answers) for answers in zip(*rounds, strict=True)]


@contextmanager
def asking(
    policy: Policy | BatchPolicy,
    scripts: Sequence[Script],
    took: Callable[[float], None] = lambda seconds: None,
    replan: int | None = None,
) -> Iterator[Ask]:
    """Begin an episode for each script, and end them after the block; the value asks all at one control step.

    Given fewer observations than there are scripts, it asks the first ones alone.

    Args:
        policy: asked with all questions at once if it answers in batches, else with one after the other.
        scripts: the episodes.
        took: called with the seconds of each answer, or of each batch of answers.
        replan: the steps of a chunk that it is told are executed, or None for its own number.

    Raises:
        EpisodeError: the policy raises, or an answer is invalid.
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
        for noise, name in [*zip(noises, names, strict=True)][: len(seen)]:
            reseed(noise, 0, name, step)
        # Copies: a policy may write into what it is given.
        views = [policy_view({name: one[name].copy() for name in one}) for one in seen]
        if is_batch_policy(policy):
            wanted = _guarded("", lambda: Observations([{name: view[name] for name in policy.reads} for view in views]))
            seed_globals(noises[: len(views)])
            answers = timed(lambda: list(policy.act(sessions[: len(views)], wanted)))
            if len(answers) != len(views):
                raise EpisodeError("policy-protocol", f"{len(answers)} answers to a batch of {len(views)} questions")
        else:
            answers = []
            for session, view, noise in zip(sessions, views, noises, strict=False):
                seed_globals([noise])
                answers.append(timed(partial(session, view)))
        return [
            check_answer(answer, script.task.protocol.action_size).actions
            for answer, script in zip(answers, scripts, strict=False)
        ]

    try:
        for script, noise in zip(scripts, noises, strict=True):
            seed_globals([noise])
            sessions.append(_guarded("at the episode's begin: ", partial(_begin, policy, script, noise, replan)))
        yield ask
    except BaseException:
        # The first error is the one to report.
        with suppress(Exception):
            _end(sessions)
        raise
    _end(sessions)


def _begin(policy: Policy | BatchPolicy, script: Script, noise: np.random.Generator, replan: int | None) -> Any:
    task, protocol = script.task, script.task.protocol
    case = Case(task.suite, task.name, script.noise, task_level=task.task_level)
    # As a rollout describes it.
    episode = Episode(
        *(case.id, case.suite, case.task, task.language, case.seed, noise),
        action_size=protocol.action_size,
        action_bounds=protocol.action_bounds,
        replan=replan or own_number(policy, "replan"),
        prompt=protocol.prompt.replace(INSTRUCTION, task.language),
        wrist_transform=picture_steps(protocol.wrist_transform or protocol.image_transform)[0][0],
    )
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


Told = Callable[[str], None]
_Play = Callable[..., list[list[Actions]]]

_OTHERS = 3
"""The number of changed instructions, or pictures, without effect, after which they count as ignored."""

# Tolerances for equal answers: of a repeated question alone, and of one alone and in a batch, where the order of
# floating-point sums differs.
_AGAIN, _IN_BATCH = 1e-5, 5e-2
_MOST_TOGETHER = 4
_SMALL = 0.1
_PICTURE = "_image"


@dataclass(frozen=True)
class Latency:
    """The time that questions take.

    Attributes:
        batch: the number of questions at once.
        median: seconds.
        slowest: seconds; if a session keeps a queue, the median may cover answers that needed no computation.
        actions: executed actions per second, over all episodes of the batch.
        mean: seconds.
        executed: the mean number of actions of an answer that are executed.
    """

    batch: int
    median: float
    slowest: float
    actions: float
    mean: float
    executed: float


def try_policy(
    policy: Policy | BatchPolicy, suite: Suite, *, seed: int = 0, served: bool = False, told: Told = lambda line: None
) -> tuple[FitFinding, ...]:
    """Ask a policy a few dozen questions, and check its answers.

    Args:
        policy: not a privileged one, which would need the world.
        suite: provides instructions, cameras and picture size.
        seed: the seed of the observations.
        served: whether another process draws the policy's noise, which cannot be made reproducible here.
        told: called with a description of each step.

    Returns:
        Findings in the order of `fit.CODES`.

    Raises:
        VlaError: the policy's description of itself is invalid.
    """
    suite = _of_size(suite, policy)
    with globals_put_back():
        return tuple(sorted(_tried(policy, suite, seed, served, told), key=lambda finding: finding.code))


def measure(
    policy: Policy | BatchPolicy,
    suite: Suite,
    sizes: Sequence[int],
    *,
    seconds: float = 3.0,
    rounds: int = 20,
    told: Told = lambda line: None,
) -> Iterator[Latency]:
    """Measure how long questions take, after one warm-up round for each batch size.

    Args:
        policy: as for `try_policy`, without errors there.
        suite: as for `try_policy`.
        sizes: the numbers of questions at once; those above the policy's limit are left out.
        seconds: time after which no further round of a size begins; there are at least three rounds.
        rounds: the largest number of rounds.
        told: called with a description of each step.

    Raises:
        EpisodeError: the policy raises, or its answers are invalid.
    """
    most = policy.max_batch if is_batch_policy(policy) else 1
    suite = _of_size(suite, policy)
    replan = getattr(policy, "replan", None)
    for size in [size for size in sizes if size <= most] or [1]:
        told(f"measuring batch size {size}")
        drawn = np.random.default_rng(size)
        scripts = [make_script(suite, number, drawn, questions=1) for number in range(size)]
        times: list[float] = []
        executed = 0
        with asking(policy, scripts, times.append) as ask:
            seen = [script.seen[0] for script in scripts]
            ask(0, seen)
            times.clear()
            while len(times) < 3 or (len(times) < rounds and sum(times) < seconds):
                answers = ask(len(times) + 1, seen)
                executed += sum(min(len(answer), replan or len(answer)) for answer in answers)
        total, answered = sum(times), size * len(times)
        mean = total / len(times)
        yield Latency(size, statistics.median(times), max(times), executed / total, mean, executed / answered)


def _tried(policy: Policy | BatchPolicy, suite: Suite, seed: int, served: bool, told: Told) -> Iterator[FitFinding]:
    drawn = np.random.default_rng(seed)
    script, other = (make_script(suite, number, drawn) for number in range(2))
    alone = one_by_one(policy) if is_batch_policy(policy) else cast("Policy", policy)
    everything: list[Actions] = []

    def play(*scripts: Script) -> list[list[Actions]]:
        answers = play_scripts(alone, scripts)
        everything.extend(action for episode in answers for action in episode)
        return answers

    try:
        _check_numbers(policy)
        told("asking the first questions")
        (expected,) = play(script)
        told("checking that answers are repeatable")
        if not _same(expected, play(script)[0]):
            yield _not_repeatable(script, play, served)
        else:
            told("checking that episodes are independent")
            beside, _ = play(script, other)
            if not _same(expected, beside):
                yield fit.LEAK.found("an episode's answers change if another episode asks in between")
            elif not _same(expected, play(script)[0]):
                yield fit.LEAK.found("an episode's answers change after another episode")
            elif is_batch_policy(policy) and policy.max_batch > 1:
                told("checking that batches do not change answers")
                yield from _batched(policy, suite, drawn, play)
            told("checking the effect of instruction and pictures")
            yield from _ignored(script, expected[0], suite, drawn, play, traits_of(policy).reads)
    except EpisodeError as error:
        yield _broken(error)
        return
    rule = suite.protocol.gripper if converts_gripper(policy, suite.protocol) else AS_GIVEN
    yield from _seen_in(np.concatenate(everything), suite, rule)


def _check_numbers(policy: object) -> None:
    for name in ("replan", "max_batch"):
        try:
            own_number(policy, name)
        except EpisodeError:
            raise
        except VlaError as error:
            raise EpisodeError("policy-protocol", str(error)) from error


def _not_repeatable(script: Script, play: _Play, served: bool) -> FitFinding:
    said = "the same questions with the same episode.rng get different answers when repeated"
    if served:
        return fit.NOT_REPEATABLE.found(
            said,
            mend="its server draws the noise: seed the server, or treat its success rates as one draw",
            severity=fit.WARNING,
        )
    return fit.NOT_REPEATABLE.found(said)


def _batched(policy: BatchPolicy, suite: Suite, drawn: np.random.Generator, play: _Play) -> Iterator[FitFinding]:
    scripts = [
        make_script(suite, number, drawn, questions=1) for number in range(min(policy.max_batch, _MOST_TOGETHER))
    ]
    alone = [answers[0] for script in scripts for answers in play(script)]
    with asking(policy, scripts) as ask:
        try:
            together = ask(0, [script.seen[0] for script in scripts])
        except EpisodeError as error:
            if error.reason != "policy-raised":
                raise
            yield fit.BATCH.found(
                f"act raises {error.message} on a batch of {len(scripts)}; a run would repeat each such episode alone, "
                "which takes longer",
                mend="fix act for several questions, or set max_batch = 1",
                severity=fit.WARNING,
            )
            return
    for one, other in zip(alone, together, strict=True):
        if not _same([one], [other], _IN_BATCH):
            apart = (
                "has another shape than"
                if one.shape != other.shape
                else f"differs by {np.abs(one - other).max():.2g} from"
            )
            yield fit.BATCH.found(f"an answer in a batch of {len(scripts)} {apart} the answer alone")
            return
    apart_by = max(float(np.abs(one - other).max()) for one, other in zip(alone, together, strict=True))
    if apart_by:
        yield fit.BATCH_ROUNDING.found(
            f"answers in a batch of {len(scripts)} differ by up to {apart_by:.2g} from the answers alone"
        )


def _ignored(
    script: Script,
    expected: Actions,
    suite: Suite,
    drawn: np.random.Generator,
    play: _Play,
    reads: Sequence[str] | None,
) -> Iterator[FitFinding]:
    """Check whether the first answer is the same for all instructions, and for all pictures.

    A policy that `reads` no picture is expected to ignore them.
    """

    def stays(others: Sequence[Script]) -> bool:
        return all(_same([expected], play(other)[0]) for other in others)

    first = script.seen[0]
    tasks = [task for task in suite.tasks if task.language != script.task.language][:_OTHERS]
    if tasks and stays([Script(task, script.noise, (first,)) for task in tasks]):
        yield fit.IGNORES_INSTRUCTION.found(f"the policy's answers to {len(tasks) + 1} instructions are equal")
    if reads is not None and not any(name.endswith(_PICTURE) for name in reads):
        return
    others = []
    for _ in range(_OTHERS):
        fresh = draw_observation(drawn, suite.protocol)
        pictures = {name: value for name, value in fresh.items() if name.endswith(_PICTURE)}
        others.append(Script(script.task, script.noise, ({**first, **pictures},)))
    if stays(others):
        yield fit.IGNORES_PICTURES.found(
            f"the policy's answers to {_OTHERS + 1} observations with different pictures are equal"
        )


def _seen_in(actions: Actions, suite: Suite, rule: str = AS_GIVEN) -> Iterator[FitFinding]:
    """Check the range and the gripper of all actions, (n, 7) or (n, 10), by the gripper's rule of the evaluator."""
    wild = (np.abs(actions) > 1.0).any(axis=1)
    is_pose = suite.protocol.control == ABSOLUTE or suite.protocol.out_of_range == UNSCALED
    if wild.any() and not is_pose:
        clips = suite.protocol.out_of_range == "clip"
        yield fit.OUT_OF_RANGE.found(
            f"{wild.mean():.0%} of {len(actions)} actions are outside [-1, 1] ({actions.min():.3g} to "
            f"{actions.max():.3g}); {suite.name} {'clips them' if clips else 'ends such episodes as errors'}",
            severity=fit.WARNING if clips else fit.ERROR,
        )
    if suite.protocol.vectors:
        # Which value is the gripper's is not known.
        return
    largest = float(np.abs(actions[:, :6]).max())
    if largest <= _SMALL and not is_pose:
        yield fit.SMALL_ACTIONS.found(f"the arm's values are at most {largest:.3g} in {len(actions)} actions")
    # Only the sign of the gripper's value matters.
    gripper = actions[:, -1]
    if rule == ONE_OPENS and gripper.min() < -0.5:
        yield fit.GRIPPER.found(
            f"the gripper goes down to {gripper.min():.3g}, but the evaluator {suite.protocol.evaluator} takes 0 "
            "(closes) to 1 (opens)",
            mend="if -1 opens in your policy, say so in its traits: traits = {'gripper': '-1 opens, 1 closes'}",
        )
    executed = np.array([gripper_of(value, rule) for value in gripper])
    closes, opens = bool((executed > 0).any()), bool((executed < 0).any())
    if not (closes and opens):
        does = "only closes" if closes else "only opens" if opens else "does not move"
        # No negative zeros.
        low, high = gripper.min() + 0.0, gripper.max() + 0.0
        is_unsigned = rule == AS_GIVEN and 0 <= low < high <= 1
        hint = f", as a gripper of {GRIPPERS[2]!r} or the opposite would" if is_unsigned else ""
        hint += f", which the evaluator {suite.protocol.evaluator} converts" if rule != AS_GIVEN else ""
        yield fit.CONSTANT_GRIPPER.found(f"the gripper {does}: {low:.3g} to {high:.3g} in {len(gripper)} actions{hint}")


def _broken(error: EpisodeError) -> FitFinding:
    code = {"policy-shape": fit.ANSWER, "policy-dtype": fit.ANSWER, "policy-nan": fit.NOT_FINITE}.get(error.reason)
    return fit.RAISES.found(str(error)) if code is None else code.found(error.message)


def _same(one: Sequence[Actions], other: Sequence[Actions], tolerance: float = _AGAIN) -> bool:
    return all(
        first.shape == second.shape and np.allclose(first, second, rtol=tolerance, atol=tolerance)
        for first, second in zip(one, other, strict=True)
    )


# The cost of the values that metrics request: trial questions with and without them, in turn.

ROUNDS = 6
"""The number of timed questions of each kind, after one warm-up."""

SAMPLES, TOKENS = "samples", "token probabilities"


@dataclass(frozen=True)
class Price:
    """The cost of one wish; builtin types only, since workers send it.

    Attributes:
        wish: `SAMPLES` or `TOKENS`.
        without: s, for each question without the wish.
        beside: s, for each question with it, in the same round.
        steps: the control steps that an answer is executed for.
    """

    wish: str
    without: tuple[float, ...]
    beside: tuple[float, ...]
    steps: int

    @property
    def extra(self) -> tuple[float, ...]:
        """The additional s per control step with the wish, for each round."""
        return tuple((b - a) / self.steps for a, b in zip(self.without, self.beside, strict=True))


def price_of(
    policy: Policy | BatchPolicy,
    suite: Suite,
    wishes: Wishes,
    replan: int | None = None,
    *,
    rounds: int = ROUNDS,
    clock: Callable[[], float] = perf_counter,
) -> tuple[Price, ...]:
    """Measure the cost of each wish for a policy, asked alone; empty if there are no wishes.

    The sessions are its own and the observations random, so that no episode is affected. Each round asks every kind of
    question once, so that other load on the machine affects all kinds equally.

    Args:
        policy: not a privileged one, which would need the world.
        suite: defines the pictures.
        wishes: the run's.
        replan: the steps of a chunk that are executed, or None for the policy's own number, or all.
        rounds: 2 or more.
        clock: returns seconds.

    Raises:
        VlaError: the policy raises, or an answer is invalid; its episodes report more.
    """
    if rounds < 2:
        raise VlaError(f"{rounds} rounds: expected 2 or more, for a standard deviation")
    kinds = {SAMPLES: Wishes(samples=wishes.samples), TOKENS: Wishes(token_probabilities=wishes.token_probabilities)}
    kinds = {name: each for name, each in kinds.items() if each != NO_WISHES}
    if not kinds:
        return ()
    alone = one_by_one(policy) if is_batch_policy(policy) else cast("Policy", policy)
    script = make_script(_of_size(suite, policy), 0, np.random.default_rng(0), questions=1)
    times: dict[str, list[float]] = {"": [], **{name: [] for name in kinds}}
    with globals_put_back():
        sessions = {name: _begun(alone, script, kinds.get(name, NO_WISHES)) for name in times}
        try:
            steps = _executed(alone, sessions[""], script, replan, clock)
            for number in range(rounds + 1):
                for name, session in sessions.items():
                    took, _ = _asked(session, script, clock)
                    if number:
                        times[name].append(took)
        finally:
            for session in sessions.values():
                close_session(session)
    return tuple(Price(name, tuple(times[""]), tuple(times[name]), steps) for name in kinds)


def _begun(policy: Policy, script: Script, wishes: Wishes) -> Session:
    task = script.task
    noise = noise_generator(0, "price")
    size = task.protocol.action_size
    episode = Episode("price", task.suite, task.name, task.language, 0, noise, wishes, action_size=size)
    seed_globals([noise])
    return begin_session(policy, episode)


def _executed(policy: Policy, session: Session, script: Script, replan: int | None, clock: Callable[[], float]) -> int:
    _, length = _asked(session, script, clock)
    return min(replan or own_replan(policy) or length, length)


def _asked(session: Session, script: Script, clock: Callable[[], float]) -> tuple[float, int]:
    """Return the seconds that an answer took, and its number of actions."""
    # Copies: a policy may write into what it is given.
    view = policy_view({name: value.copy() for name, value in script.seen[0].items()})
    seed_globals([noise_generator(0, "price")])
    start = clock()
    answer = ask_session(session, view, script.task.protocol.action_size)
    return clock() - start, len(answer.actions)


def price_table(prices: Sequence[Price]) -> list[tuple[str, tuple[float, ...], tuple[float, ...], int]]:
    """Return prices as builtin types, for another process; `read_prices` reads them."""
    return [(each.wish, each.without, each.beside, each.steps) for each in prices]


def read_prices(table: Sequence[Sequence[object]]) -> tuple[Price, ...]:
    """Read prices from a table of `price_table`."""
    return tuple(
        Price(str(wish), tuple(cast("Sequence[float]", a)), tuple(cast("Sequence[float]", b)), int(cast("int", steps)))
        for wish, a, b, steps in table
    )
