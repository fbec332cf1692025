"""The expert says whether a scene can be done."""

import dataclasses

from pytest_vla.episode.start import infeasible
from pytest_vla.scene.problem import Literal
from tests.support.worlds import tabletop


def test_what_the_expert_does_is_feasible_and_the_world_is_as_before() -> None:
    world = tabletop("turn_on_the_stove")
    world.reset(0)
    before = world.data.qpos.copy()
    assert infeasible(world) == ""
    assert (world.data.qpos == before).all()
    assert world.steps == 0
    assert not world.success()


def test_what_the_expert_cannot_do_is_told() -> None:
    world = tabletop("put_the_bowl_on_the_plate")
    problem = world.problem
    world.reset(0)
    # It knows no way to lift something for its own sake, and gives up.
    world.problem = dataclasses.replace(problem, goal=(Literal("up", ("plate_1",), 1, 1),))
    try:
        assert infeasible(world) == "the expert does not do it in 300 steps: (on bowl_1 plate_1)"
    finally:
        world.problem = problem
