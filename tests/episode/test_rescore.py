"""Recorded episodes charged anew."""

import dataclasses

import numpy as np
import pytest

from pytest_vla.episode.resimulate import rescored
from pytest_vla.errors import VlaError
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.scene.cost_rules import Charging
from pytest_vla.sim.meters import meters_of
from tests.support.records import RECORD
from tests.support.worlds import tabletop

ACTIONS = np.array([[0.4, 0.0, -1.0, 0.1, 0.0, 0.0, 1.0]] * 25)


def test_each_step_is_taken_again_from_its_recorded_state() -> None:
    world = tabletop("put_the_bowl_on_the_plate")
    world.meter(meters_of(Charging("all")))
    world.reset(2, scene_seed=3)
    states = [(world.data.qpos.copy(), world.data.qvel.copy())]
    for action in ACTIONS:
        world.step(action)
        states.append((world.data.qpos.copy(), world.data.qvel.copy()))
    world.conclude()
    live = world.charged()
    assert any(charge.force for charge in live), "it touches something"
    qpos, qvel = (np.array(each) for each in zip(*states, strict=True))
    trajectory = Trajectory(qpos, qvel, np.zeros((len(qpos), 3)), ACTIONS)
    record = dataclasses.replace(RECORD, seeds={"init_state": 2, "scene": 3}, outcome="failure", steps=len(ACTIONS))
    again = rescored(world, record, trajectory, None)
    assert (again.charges, again.drift) == (live, 0.0)
    # What was recorded elsewhere drifts by a step's own difference, and not by more with each step.
    moved = dataclasses.replace(trajectory, qpos=qpos + 1e-7)
    assert 0 < rescored(world, record, moved, None).drift < 1e-4
    with pytest.raises(VlaError, match=r"its states have \d+ coordinates, and the scene has \d+"):
        rescored(world, record, dataclasses.replace(trajectory, qpos=qpos[:, 1:]), None)
    # An episode that broke has no end to be charged for.
    broken = rescored(world, dataclasses.replace(record, outcome="error"), trajectory, None)
    assert not [charge for charge in broken.charges if charge.kind == "terminal" and charge.amount]
    world.meter(lambda world: ())
