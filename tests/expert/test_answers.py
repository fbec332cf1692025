"""The expert's answers: from any state of a world, without phases that are remembered."""

import mujoco
import numpy as np
import pytest

from pytest_vla import World, load_suite
from pytest_vla.errors import VlaError
from pytest_vla.expert.answers import Answers, Carry
from pytest_vla.expert.rehearsal import next_literal
from tests.support.slow import all_slow_but
from tests.support.worlds import tabletop

TASKS = [task.name for task in load_suite("tabletop").tasks]
MOST = 280
FAST = ("turn_on_the_stove", "put_the_bowl_on_the_plate")


def driven(world: World, answers: Answers, steps: int = MOST) -> int | None:
    """Steps until the goal holds; None: it never did."""
    for step in range(steps):
        world.step(answers())
        if world.success():
            return step
    return None


@pytest.mark.parametrize("task", all_slow_but(FAST, TASKS))
def test_each_task_is_done_by_answers_alone(task: str) -> None:
    world = tabletop(task)
    world.reset(init_state=1)
    assert driven(world, Answers(world)) is not None


@pytest.mark.slow
def test_an_answer_changes_nothing_and_is_the_same_again() -> None:
    world = tabletop("put_the_bowl_on_the_plate")
    world.reset(init_state=0)
    before = world.save()
    first = Answers(world)()
    qpos = np.array(world.data.qpos)
    again = Answers(world)()
    assert np.array_equal(first, again)
    assert np.array_equal(world.data.qpos, qpos)
    world.restore(before)
    assert np.array_equal(Answers(world)(), first)


@pytest.mark.slow
def test_who_comes_when_the_thing_is_in_the_hand_goes_on_with_it() -> None:
    world = tabletop("put_the_bowl_on_the_plate")
    world.reset(init_state=0)
    answers = Answers(world)
    bowl = world.model.body("bowl_1_main").id
    height = float(world.data.xpos[bowl][2])
    while world.data.xpos[bowl][2] < height + 0.05:
        world.step(answers())
    late = Answers(world)
    for _ in range(10):
        action = late()
        assert action[6] > 0, "the hand stays closed"
        world.step(action)
    assert driven(world, late) is not None


def test_what_was_pushed_aside_meanwhile_is_found_where_it_is() -> None:
    world = tabletop("put_the_bowl_on_the_stove")
    world.reset(init_state=0)
    answers, rng = Answers(world), np.random.default_rng(0)
    driven(world, answers, 25)
    for _ in range(12):
        world.step(np.append(rng.uniform(-1, 1, 6), 1.0))
    assert driven(world, answers) is not None


def test_a_thing_that_is_not_round_is_gripped_as_it_was_tried_on_a_copy() -> None:
    world = tabletop("put_the_box_in_the_bowl")
    world.reset(init_state=2)
    answers = Answers(world)
    answers()
    aim = answers._aim  # what was planned is not to be seen otherwise
    assert isinstance(aim, Carry)
    assert not aim.round
    literal = next_literal(world.problem, world.scene, world.model, world.data)
    assert literal is not None
    assert answers._tried(aim, literal) is None, "it came far enough"


@pytest.mark.slow
def test_what_its_place_is_as_high_as_is_dragged_there() -> None:
    world = tabletop("push_the_plate_to_the_front_of_the_stove")
    plate = int(world.model.body("plate_1_main").id)
    for state in (0, 3, 7):
        world.reset(init_state=state)
        answers, high = Answers(world), []
        stood = float(world.data.xpos[plate][2])
        for _ in range(MOST):
            world.step(answers())
            high.append(float(world.data.xpos[plate][2]) - stood)
            if world.success():
                break
        aim = answers._aim
        assert isinstance(aim, Carry)
        assert aim.drags
        assert world.success()
        assert max(high) < 0.03, "a plate that is lifted slips out of the hand"


@pytest.mark.parametrize("task", ["put_the_bowl_on_the_plate", "turn_on_the_stove"])
def test_what_comes_next_is_tried_on_a_copy(task: str) -> None:
    world = tabletop(task)
    world.reset(init_state=0)
    answers = Answers(world)
    for _ in range(6):
        before = np.array(world.data.qpos)
        actions, reached = answers.ahead(8)
        assert np.array_equal(world.data.qpos, before), "the world stays as it is"
        assert actions.shape == (8, 7)
        assert not reached
        for action in actions:
            np.testing.assert_array_equal(answers(), action)
            world.step(action)


@pytest.mark.slow
def test_what_comes_next_ends_with_the_goal_or_where_another_literal_begins() -> None:
    world = tabletop("open_the_top_drawer_and_put_the_bowl_inside")
    world.reset(init_state=0)
    answers, lengths = Answers(world), set()
    for _ in range(MOST):
        actions, reached = answers.ahead(8)
        if reached:
            for action in actions:
                assert not world.success()
                world.step(action)
            break
        lengths.add(len(actions))
        world.step(actions[0])
    assert world.success()
    assert lengths > {1, 8}, "the drawer is open before the bowl is in it"


@pytest.mark.slow
def test_the_first_grasp_that_works_is_taken_where_the_best_meets_something(monkeypatch: pytest.MonkeyPatch) -> None:
    world = tabletop("open_the_middle_drawer_of_the_cabinet")
    state = np.array(world.init_states[0])
    bowl = 1 + int(world.model.joint("bowl_1_joint0").qposadr[0])
    # The palm meets the bowl where the handle is gripped at its edge.
    state[bowl : bowl + 2] = -0.1, 0.0
    world.reset(state)
    assert driven(world, Answers(world)) is not None
    monkeypatch.setattr("pytest_vla.expert.answers._TRIED", 1)
    world.reset(state)
    assert driven(world, Answers(world)) is None


def test_where_no_skill_is_for_the_goal_it_is_said() -> None:
    world = tabletop("put_the_box_in_the_bowl")
    world.reset(init_state=0)
    # Under the table no hand comes to the box.
    joint = world.model.body("box_1_main").jntadr[0]
    world.data.qpos[world.model.jnt_qposadr[joint] + 2] = 0.2
    mujoco.mj_forward(world.model, world.data)
    with pytest.raises(VlaError, match="the expert has no skill for"):
        Answers(world)()
