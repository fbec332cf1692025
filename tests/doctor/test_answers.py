"""How a policy is asked: as in a run, whatever it keeps and however many questions it takes at once."""

from dataclasses import replace
from typing import Any

import numpy as np

from pytest_vla.doctor.answers import BLOCK, ask
from pytest_vla.doctor.wirings import composed
from pytest_vla.plan.task import with_protocol
from pytest_vla.policies.base import Episode
from tests.support.knowing import KnowingPolicy, made_windows

WINDOWS = made_windows(3)
AS_WIRED = composed([])


def test_a_plain_policy_is_asked_along_one_demonstration_after_the_other() -> None:
    """One that keeps what belongs to an episode in one place works in a run, and has to work here."""
    asked: list[str] = []

    def policy(episode: Episode) -> Any:
        open_ones.add(episode.instruction)

        class Session:
            def __call__(self, observation: Any) -> Any:
                assert open_ones == {episode.instruction}
                asked.append(episode.instruction)
                return np.zeros(7)

            def close(self) -> None:
                open_ones.remove(episode.instruction)

        return Session()

    open_ones: set[str] = set()
    ask(policy, WINDOWS, AS_WIRED)
    assert asked == [each.instruction for each in WINDOWS for _ in each.rows]


def test_a_batch_is_no_larger_than_the_policy_takes() -> None:
    sizes = set()

    class Counting(KnowingPolicy):
        max_batch = 2

        def act(self, sessions: Any, observations: Any) -> Any:
            sizes.add(len(sessions))
            return super().act(sessions, observations)

    counting = Counting(WINDOWS)
    found = ask(counting, WINDOWS, AS_WIRED)
    assert sizes == {1, 2}
    plain = ask(lambda episode: lambda seen: counting.act([episode.instruction], [seen])[0], WINDOWS, AS_WIRED)
    assert all(
        np.array_equal(one, other)
        for each, others in zip(found.chunks, plain.chunks, strict=True)
        for one, other in zip(each, others, strict=True)
    )


def test_an_episode_is_described_as_in_a_run() -> None:
    """By the evaluator's prompt and turn of the wrist's picture, and the steps that are executed."""
    window, begun = WINDOWS[0], []
    task = with_protocol(window.task, prompt="do: {instruction}!", wrist_transform="raw")

    def policy(episode: Episode) -> Any:
        begun.append((episode.instruction, episode.prompt, episode.replan, episode.wrist_transform))
        return lambda seen: np.zeros((8, 7))

    policy.replan = 5  # type: ignore[attr-defined]
    ask(policy, [replace(window, task=task)], AS_WIRED)
    ask(policy, [replace(window, task=task)], AS_WIRED, replan=3)
    told = window.instruction
    assert begun == [(told, f"do: {told}!", 5, "raw"), (told, f"do: {told}!", 3, "raw")]


def test_a_shift_that_leaves_a_part_without_pairs_keeps_its_number() -> None:
    """One question more than a part has: the second part has that alone, and four steps later there is nothing."""
    count = BLOCK + 1
    short = [
        replace(each, rows=each.rows[:count], shown=each.shown[:count], actions=each.actions[: 4 * count])
        for each in WINDOWS
    ]
    answers = ask(KnowingPolicy(WINDOWS), short, AS_WIRED)
    pairs, shifted = answers.pairs(4), answers.pairs(4, 4)
    assert pairs.blocks == shifted.blocks == 2 * len(WINDOWS)
    assert shifted.block.max() == pairs.blocks - 2
