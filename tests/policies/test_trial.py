"""What a few questions show: one policy for each thing that can be wrong with it, and one with which nothing is."""

import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError
from pytest_vla.plan.evaluators import load_evaluator
from pytest_vla.plan.manifests import Suite, load_suite, suite_with
from pytest_vla.plan.task import with_protocol
from pytest_vla.policies.base import Episode
from pytest_vla.policies.fit import FitFinding
from pytest_vla.policies.trial import Latency, measure, try_policy
from pytest_vla.testing import point_suite

TABLETOP = load_suite("tabletop")
# Small pictures: what is looked at is what the trial says, not how long it takes.
SUITE: Suite = replace(TABLETOP, protocol=replace(TABLETOP.protocol, image_size=(32, 24)))
CHUNK = 4

Act = Callable[[Episode, Any], Any]


def features(episode: Episode, observation: Any) -> np.ndarray:
    """(CHUNK, 7) in [-1, 1], of everything that a policy may look at, its own noise included."""
    pictures = observation["agentview_image"].mean() + 2 * observation["robot0_eye_in_hand_image"].mean()
    words = sum(map(ord, episode.instruction))
    phase = pictures + 10 * observation["state"].sum() + words + episode.rng.standard_normal()
    return np.asarray(np.sin(phase + np.arange(7 * CHUNK)).reshape(CHUNK, 7))


def policy_of(act: Act) -> Callable[[Episode], Callable[[Any], Any]]:
    """A policy whose sessions keep nothing."""
    return lambda episode: lambda observation: act(episode, observation)


good = policy_of(features)


class Batching:
    """Answers in batches what `features` says, after `change` has had its way with the batch."""

    max_batch, reads, replan = 4, ("agentview_image", "robot0_eye_in_hand_image", "state"), 3

    def __init__(self, change: Callable[[np.ndarray], Any] = lambda chunks: chunks, seconds: float = 0.0) -> None:
        self.change, self.seconds, self.sizes, self.ended = change, seconds, list[int](), 0

    def begin(self, episode: Episode) -> Any:
        def end() -> None:
            self.ended += 1

        return SimpleNamespace(episode=episode, close=end)

    def act(self, states: Sequence[Any], observations: Sequence[Any]) -> Any:
        assert all(set(observation) == set(self.reads) for observation in observations)
        self.sizes.append(len(states))
        time.sleep(self.seconds)
        chunks = [features(state.episode, seen) for state, seen in zip(states, observations, strict=True)]
        return self.change(np.stack(chunks))


def codes(findings: Sequence[FitFinding]) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in findings]


def only(policy: Any, code: str, severity: str, **options: Any) -> str:
    """The message of the one finding."""
    (finding,) = try_policy(policy, SUITE, **options)
    assert (finding.code, finding.severity) == (code, severity), finding
    return finding.message


@pytest.mark.parametrize("seed", range(3))
def test_a_good_policy_has_no_finding(seed: int) -> None:
    assert try_policy(good, SUITE, seed=seed) == ()
    batching = Batching()
    assert try_policy(batching, SUITE, seed=seed) == ()
    assert max(batching.sizes) == batching.max_batch
    assert batching.ended >= 10, "every episode is ended"


def test_a_policy_may_keep_a_history_and_write_into_what_it_was_given() -> None:
    def remembers(episode: Episode) -> Callable[[Any], Any]:
        seen: list[np.ndarray] = []

        def act(observation: Any) -> Any:
            seen.append(features(episode, observation))
            observation["state"][:] = 0
            observation["agentview_image"][:] = 0
            return np.mean(seen, axis=0)

        return act

    assert try_policy(remembers, SUITE) == ()


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (np.zeros(6), "VLA-P101", r"this one returned \(6,\); return an array"),
        (np.zeros((0, 7)), "VLA-P101", r"returned \(0, 7\)"),
        ("forward", "VLA-P101", "array of real numbers; this one returned str"),
        (None, "VLA-P101", "array of real numbers; this one returned NoneType"),
        (np.full((2, 7), np.nan), "VLA-P102", r"action 0 of the chunk of 2 is \[nan"),
        (np.array([0, 0, 0, np.inf, 0, 0, 0]), "VLA-P102", "check its normalisation"),
    ],
)
def test_answers_that_are_no_actions(answer: Any, code: str, message: str) -> None:
    assert re.search(message, only(policy_of(lambda episode, seen: answer), code, "error"))


def test_poses_with_six_numbers_of_a_rotation_are_actions() -> None:
    def poses(episode: Episode, observation: Any) -> np.ndarray:
        chunk = features(episode, observation)
        return np.concatenate([chunk, chunk[:, :3]], axis=1)

    posing: Any = policy_of(poses)
    assert [each.code for each in try_policy(posing, SUITE)] == ["VLA-P101"]
    posing.traits = {"action_size": 10, "action_convention": "absolute", "rotation": "rotation_6d"}
    assert try_policy(posing, SUITE) == ()
    assert next(measure(posing, SUITE, [1], rounds=3)).executed == CHUNK


def test_actions_out_of_range_are_clipped_or_are_an_error_as_the_suite_says() -> None:
    wide = policy_of(lambda episode, seen: 2 * features(episode, seen))
    assert "actions are outside [-1, 1] (-2 to 2); tabletop clips them" in only(wide, "VLA-P103", "warning")
    strict = replace(SUITE, protocol=replace(SUITE.protocol, out_of_range="error"))
    (finding,) = try_policy(wide, strict)
    assert codes([finding]) == [("VLA-P103", "error")]
    assert "tabletop ends such episodes as errors" in finding.message


def test_unscaled_actions_have_no_range() -> None:
    point = point_suite()
    task = with_protocol(point.tasks[0], out_of_range="unscaled", action_bounds=((0.0, 512.0),) * 2)
    suite = replace(point, tasks=(task,), protocol=task.protocol)
    seen = []

    def far(episode: Episode) -> Callable[[Any], Any]:
        seen.append(episode.action_bounds)
        return lambda observation: 400.0 + 50 * np.tanh(observation["state"] + observation["front_image"].mean())

    assert "VLA-P103" not in {code for code, _ in codes(try_policy(far, suite))}
    assert set(seen) == {task.protocol.action_bounds}


GLOBAL = pytest.mark.parametrize("draw", [random.random, lambda: np.random.random()])


@GLOBAL
def test_a_policy_that_draws_from_a_global_generator_repeats_as_in_a_run(draw: Callable[[], float]) -> None:
    careless = policy_of(lambda episode, seen: features(episode, seen) * draw())
    assert try_policy(careless, SUITE) == ()


@GLOBAL
def test_in_a_batch_a_draw_from_a_global_generator_depends_on_the_others(draw: Callable[[], float]) -> None:
    careless = Batching(lambda chunks: np.stack([chunk * draw() for chunk in chunks]))
    assert "draws from other generators than each episode's rng" in only(careless, "VLA-P106", "error")


def test_a_policy_with_noise_of_its_own_does_not_repeat() -> None:
    noise = np.random.default_rng(0)
    own = policy_of(lambda episode, seen: features(episode, seen) * noise.random())
    assert "get different answers when repeated" in only(own, "VLA-P104", "error")
    message = only(own, "VLA-P104", "warning", served=True)
    assert "its server draws the noise" in message


def test_what_a_policy_draws_to_begin_with_changes_no_answer() -> None:
    def draws(episode: Episode) -> Callable[[Any], Any]:
        # As many as it likes: the generator is seeded anew before every question.
        episode.rng.random(random.randrange(1000))
        return lambda observation: features(episode, observation)

    assert try_policy(draws, SUITE) == ()


def test_a_queue_that_all_episodes_share_leaks() -> None:
    queue: list[np.ndarray] = []

    def leaky(episode: Episode) -> Callable[[Any], Any]:
        # As a class does that is made for one episode at a time: one that begins resets everything.
        queue.clear()

        def act(observation: Any) -> Any:
            if not queue:
                queue.extend(features(episode, observation))
            return queue.pop(0)

        return act

    message = only(leaky, "VLA-P105", "error")
    assert "if another episode asks in between; keep episode state" in message


def test_what_the_last_episode_left_leaks() -> None:
    last = [""]

    class Session:
        def __init__(self, episode: Episode) -> None:
            self.episode, self.weight = episode, 1.0 if last[0] in ("", episode.instruction) else 0.5

        def __call__(self, observation: Any) -> Any:
            return self.weight * features(self.episode, observation)

        def close(self) -> None:
            last[0] = self.episode.instruction

    assert "an episode's answers change after another episode" in only(Session, "VLA-P105", "error")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda chunks: chunks - chunks.mean(axis=0) if len(chunks) > 1 else chunks,
            "an answer in a batch of 4 differs by ",
        ),
        (lambda chunks: chunks[::-1], " from the answer alone; check padding"),
        (lambda chunks: chunks[:, : 5 - len(chunks)], "has another shape than the answer alone"),
    ],
)
def test_answers_that_depend_on_the_batch(change: Callable[[np.ndarray], Any], message: str) -> None:
    assert message in only(Batching(change), "VLA-P106", "error")


def test_a_batch_of_too_few_answers_breaks_every_episode_of_it() -> None:
    few = Batching(lambda chunks: chunks[:1])
    assert "policy-protocol: 1 answers to a batch of 4 questions" in only(few, "VLA-P110", "error")


def test_a_policy_that_does_not_listen() -> None:
    deaf = policy_of(lambda episode, seen: features(replace(episode, instruction=""), seen))
    assert "answers to 4 instructions are equal" in only(deaf, "VLA-P107", "warning")
    one_task = replace(SUITE, tasks=SUITE.tasks[:1])
    assert try_policy(deaf, one_task) == (), "where there is one instruction, nothing can be said"


def test_a_policy_that_does_not_look() -> None:
    dark = np.zeros((1, 1, 3))
    blind = policy_of(
        lambda episode, seen: features(episode, {"state": seen["state"], **dict.fromkeys(Batching.reads[:2], dark)})
    )
    assert "answers to 4 observations with different pictures are equal" in only(blind, "VLA-P108", "warning")


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({}, ["VLA-P108"]),
        ({"traits": {"reads": ["state"]}}, []),
        ({"reads": ("state",)}, []),
        ({"reads": ()}, []),
        ({"traits": {"reads": ["state", "agentview_image"]}}, ["VLA-P108"]),
    ],
)
def test_a_policy_that_says_that_it_reads_no_picture_need_not_look(said: dict[str, Any], found: list[str]) -> None:
    dark = dict.fromkeys(Batching.reads[:2], np.zeros((1, 1, 3)))
    blind = policy_of(lambda episode, seen: features(episode, {"state": seen["state"], **dark}))
    for name, value in said.items():
        setattr(blind, name, value)
    assert [finding.code for finding in try_policy(blind, SUITE)] == found


@pytest.mark.parametrize(
    ("gripper", "message"),
    [
        (lambda value: -np.ones_like(value), "the gripper only opens: -1 to -1 in"),
        (lambda value: 0.2 + 0 * value, "the gripper only closes: 0.2 to 0.2 in"),
        (lambda value: 0 * value, "the gripper does not move: 0 to 0"),
        (lambda value: (value + 1) / 2, "as a gripper of '0 opens, 1 closes' or the opposite would"),
    ],
)
def test_a_gripper_that_never_changes(gripper: Callable[[np.ndarray], np.ndarray], message: str) -> None:
    def act(episode: Episode, seen: Any) -> Any:
        chunk = features(episode, seen)
        chunk[:, 6] = gripper(chunk[:, 6])
        return chunk

    assert message in only(policy_of(act), "VLA-P109", "warning")


@pytest.mark.parametrize(
    ("evaluator", "gripper", "codes"),
    [
        ("openvla", lambda value: (value + 1) / 2, []),
        ("openvla", lambda value: 0.8 + 0 * value, ["VLA-P109"]),
        ("openvla", lambda value: value, ["VLA-P004"]),
        ("vla-eval", lambda value: (value + 1) / 2, ["VLA-P109"]),
        ("openpi", lambda value: (value + 1) / 2, ["VLA-P109"]),
    ],
)
def test_a_gripper_is_judged_after_the_evaluators_rule(
    evaluator: str, gripper: Callable[[np.ndarray], np.ndarray], codes: list[str]
) -> None:
    def act(episode: Episode, seen: Any) -> Any:
        chunk = features(episode, seen)
        chunk[:, 6] = gripper(chunk[:, 6])
        return chunk

    suite = suite_with(load_suite("libero_goal"), load_evaluator(evaluator).task)
    assert [each.code for each in try_policy(policy_of(act), suite) if each.code in ("VLA-P004", "VLA-P109")] == codes


class Raising:
    """Raises where it is told to."""

    def __init__(self, moment: str) -> None:
        self.moment = moment

    def __call__(self, episode: Episode) -> Any:
        if self.moment == "begin":
            raise RuntimeError("no weights")
        self.episode = episode
        return "a session" if self.moment == "session" else self.Session(self)

    class Session:
        def __init__(self, policy: "Raising") -> None:
            self.policy = policy

        def __call__(self, observation: Any) -> Any:
            if self.policy.moment == "question":
                return observation["wrist_image"]
            return features(self.policy.episode, observation)

        def close(self) -> None:
            if self.policy.moment in ("question", "end"):
                raise SystemExit("done")


@pytest.mark.parametrize(
    ("moment", "message"),
    [
        ("begin", "policy-raised: at the episode's begin: RuntimeError: no weights ({file}:"),
        ("session", "policy-protocol: a policy returns a session, this one returned str"),
        ("question", "an observation has no 'wrist_image'; it has agentview_image, robot0_eye_in_hand_image, state"),
        ("end", "policy-raised: at the episode's end: SystemExit: done ({file}:"),
    ],
)
def test_a_policy_that_raises_is_told_with_its_reason_and_place(moment: str, message: str) -> None:
    assert message.format(file=__file__) in only(Raising(moment), "VLA-P110", "error")


@pytest.mark.parametrize(("name", "value"), [("replan", 0), ("replan", "5"), ("max_batch", True)])
def test_a_number_that_is_none_is_told(name: str, value: Any) -> None:
    policy = Batching()
    setattr(policy, name, value)
    assert f"policy-protocol: a policy's {name} is a number, 1 or more; this one's is {value!r}" in only(
        policy, "VLA-P110", "error"
    )


def test_an_interrupt_is_not_the_policys() -> None:
    def stop(episode: Episode, seen: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        try_policy(policy_of(stop), SUITE)


def test_the_time_is_taken_of_batches_up_to_the_policys_limit() -> None:
    batching = Batching(seconds=0.002)
    told: list[str] = []
    one, four = measure(batching, SUITE, (1, 4, 8), rounds=5, told=told.append)
    assert (one.batch, four.batch) == (1, 4)
    assert told == ["measuring batch size 1", "measuring batch size 4"]
    assert batching.sizes == [1] * 6 + [4] * 6, "a round to warm up, then five"
    for latency in (one, four):
        assert 0.002 <= latency.median <= latency.slowest
        # Three steps of each chunk are executed.
        assert latency.batch * 3 / latency.slowest <= latency.actions <= latency.batch * 3 / 0.002


def test_a_policy_that_takes_one_at_a_time_is_asked_so() -> None:
    (latency,) = measure(good, SUITE, (4, 8), rounds=3)
    assert latency.batch == 1
    assert latency.actions >= CHUNK / latency.slowest


def test_slow_answers_are_asked_for_three_times() -> None:
    slow = Batching(seconds=0.02)
    latencies: list[Latency] = list(measure(slow, SUITE, (1,), seconds=0.01))
    assert len(latencies) == 1
    assert slow.sizes == [1] * 4


def test_a_policy_that_breaks_in_a_larger_batch_says_so() -> None:
    def narrow(chunks: np.ndarray) -> Any:
        if len(chunks) > 1:
            raise MemoryError("too much")
        return chunks

    (finding,) = try_policy(Batching(narrow), SUITE)
    assert (finding.code, finding.severity) == ("VLA-P106", "warning"), "a run asks again, each alone"
    assert "act raises MemoryError: too much" in finding.message
    measured = measure(Batching(narrow), SUITE, (1, 4), rounds=3)
    assert next(measured).batch == 1
    with pytest.raises(EpisodeError, match="policy-raised: MemoryError: too much"):
        next(measured)


def test_an_arm_that_barely_moves_is_told() -> None:
    def metres(episode: Episode, observation: Any) -> Any:
        return features(episode, observation) * np.array([0.05] * 6 + [1.0])

    assert "at most 0.0" in only(policy_of(metres), "VLA-P111", "warning")


def test_rounding_of_a_batch_is_measured() -> None:
    def rounded(chunks: np.ndarray) -> Any:
        return chunks + (1e-7 if len(chunks) > 1 else 0.0)

    assert "differ by up to 1e-07" in only(Batching(rounded), "VLA-P112", "warning")
    assert codes(try_policy(Batching(), SUITE)) == []
