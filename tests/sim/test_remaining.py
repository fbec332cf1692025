"""Where the object of a task is and where it is to be, read of a real world; tasks of which that cannot be told."""

import numpy as np
import pytest

from pytest_vla import World, load_suite
from pytest_vla.episode.apply_metrics import with_metrics
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.expert.policy import expert_policy
from pytest_vla.metrics import instability
from pytest_vla.plan.case import Case
from pytest_vla.sim.contacts import watch_remaining


def test_the_expert_brings_the_bowl_to_the_plate() -> None:
    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    case, conditions = Case("tabletop", task.name, 0), Conditions("expert", remaining=True)
    plain = run_episode(case, task, expert_policy, lambda task, variation: World(task), Conditions("expert"))
    ended = run_episode(case, task, expert_policy, lambda task, variation: World(task), conditions)
    assert ended.success
    assert ended.record.digest == plain.record.digest
    assert not plain.trajectory.series
    series = ended.trajectory.series
    source, goal, held = series[instability.SOURCE], series[instability.GOAL], series[instability.HELD]
    assert source.shape == goal.shape == (ended.steps, 2, 3)
    # What is after a step is before the next one.
    assert np.array_equal(source[1:, 0], source[:-1, 1])
    assert not held[0].any()
    assert held.any()
    # It ends on the plate, some centimetres from its middle at most, and the plate stays where it is.
    assert np.linalg.norm((source - goal)[-1, 1, :2]) < 0.05
    assert np.abs(goal - goal[0, 0]).max() < 0.01
    found = with_metrics(ended, ("optimal_trajectory", "object_turn"))
    metrics = found.record.metrics
    assert series[instability.TURN].shape == (ended.steps, 2, 4)
    assert 0 <= metrics["object_turn.tilt"] < 45, "the bowl leans as it lands on the plate, where the episode ends"
    assert metrics["object_turn.tilt"] <= metrics["object_turn"] + 1e-9 < 180
    assert metrics["optimal_trajectory"] < 0.5
    assert 0.5 < metrics["optimal_trajectory.net"] <= 1
    # The mean telescopes to what is gone between the first step and the last.
    left = found.trajectory.series["optimal_trajectory.remaining"]
    start = float(np.linalg.norm(ended.trajectory.eef_pos[0] - source[0, 0]) + np.linalg.norm((source - goal)[0, 0]))
    expected = 0.5 + (left[-1] - left[0]) / start / (2 * ended.steps)
    assert metrics["optimal_trajectory"] == pytest.approx(expected)


def test_of_a_knob_there_is_nothing_to_bring() -> None:
    with World(load_suite("tabletop").task("turn_on_the_stove")) as world:
        world.reset(0)
        assert watch_remaining(world) is None
