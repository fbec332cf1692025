"""Where episodes of changed scenes start: the task's own states, with added objects, and states settled anew."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.problem import Problem, problem_of
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.start_states import origin_of
from pytest_vla.sim.world import World
from pytest_vla.vary.registry import find_variation

TASK = load_suite("tabletop").task("put_the_bowl_on_the_plate")
PROBLEM = problem_of(TASK)


def moved(problem: Problem) -> Problem:
    """The region in which the bowl begins, 5 cm to the side."""
    (literal,) = (each for each in problem.init if str(each.arguments[0]).startswith("bowl"))
    key = str(literal.arguments[1])
    regions = tuple(
        replace(each, ranges=tuple((x0, y0 + 0.05, x1, y1 + 0.05) for x0, y0, x1, y1 in each.ranges))
        if each.key == key
        else each
        for each in problem.regions
    )
    return replace(problem, regions=regions)


def test_a_changed_goal_leaves_the_init_states() -> None:
    other = problem_of(load_suite("tabletop").task("turn_on_the_stove"))
    assert origin_of(PROBLEM, PROBLEM) == "own"
    assert origin_of(PROBLEM, replace(PROBLEM, goal=other.goal)) == "own"
    assert origin_of(PROBLEM, moved(PROBLEM)) == "settled"
    assert origin_of(PROBLEM, replace(PROBLEM, name="libero_tabletop_manipulation")) == "settled"
    assert origin_of(PROBLEM, replace(PROBLEM, init=PROBLEM.init[:-1])) == "settled"


def test_of_a_region_that_stands_twice_the_last_one_counts() -> None:
    # As in hazard_avoidance's files of level 0, which are as they are.
    twice = replace(PROBLEM, regions=(*moved(PROBLEM).regions, *PROBLEM.regions))
    assert origin_of(twice, twice) == origin_of(twice, PROBLEM) == "own"
    assert origin_of(twice, moved(PROBLEM)) == "settled"


def test_added_objects_stand_beside_what_was_there() -> None:
    variation = find_variation(TASK, "layout.distractors-L3", 1)
    assert variation is not None
    with World(TASK) as plain, World(TASK, variation) as crowded:
        assert crowded.init_state_count == plain.init_state_count
        plain.reset(init_state=7, scene_seed=1, settle=False)
        crowded.reset(init_state=7, scene_seed=1, settle=False)
        assert crowded.model.nq == plain.model.nq + 3 * 7
        for joint in range(plain.model.njnt):
            name = plain.model.joint(joint).name
            assert np.array_equal(plain.data.joint(name).qpos, crowded.data.joint(name).qpos), name
        added = [body for body in crowded.scene.bodies if plain.scene.body(body.name) is None]
        assert len(added) == 3
        places = np.array([crowded.data.body(body.root_body).xpos for body in added])
        assert (places[:, 2] > 0.85).all()
        for body in plain.scene.bodies:
            apart = np.linalg.norm(places[:, :2] - crowded.data.body(body.root_body).xpos[:2], axis=1)
            assert (apart > 0.05).all(), body.name


def test_moved_things_start_where_they_come_to_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path))
    variation = Variation("layout.mine", "layout", "mine", problem=(moved,))
    with World(TASK, variation) as world:
        assert world.init_state_count == TASK.protocol.init_states
        world.reset(init_state=2, scene_seed=2, settle=False)
        first = world.data.qpos.copy()
        assert np.abs(world.data.qvel).max() == 0
        (file,) = (tmp_path / "starts").iterdir()
        made = file.stat().st_mtime_ns
    with World(TASK, variation) as world:
        world.reset(init_state=2, scene_seed=2, settle=False)
        assert np.array_equal(world.data.qpos, first)
        assert file.stat().st_mtime_ns == made
        # A damaged one is made anew, and is the same.
        file.write_bytes(b"not an array")
    with World(TASK, variation) as world:
        world.reset(init_state=2, scene_seed=2, settle=False)
        assert np.array_equal(world.data.qpos, first)
    # So is one that others may have written.
    poisoned = np.load(file)
    poisoned[2:] += 0.01
    np.save(file, poisoned)
    file.chmod(0o666)
    with World(TASK, variation) as world:
        world.reset(init_state=2, scene_seed=2, settle=False)
        assert np.array_equal(world.data.qpos, first)
        with pytest.raises(VlaError, match="init state 200: task put_the_bowl_on_the_plate has 0 to 199"):
            world.reset(init_state=200)
        bowl = world.data.body("bowl_1_main").xpos.copy()
    with World(TASK) as world:
        world.reset(init_state=2, scene_seed=2, settle=False)
        assert bowl[1] - world.data.body("bowl_1_main").xpos[1] == pytest.approx(0.05, abs=0.04)


def test_a_goal_of_another_task_from_this_ones_states() -> None:
    variation = find_variation(TASK, "language.other_goal", 0)
    assert variation is not None
    with World(TASK) as world:
        assert world.switch(TASK, variation)
        other = problem_of(load_suite("tabletop").task(str(variation.parameters["other"])))
        assert list(world.predicates()) == [str(literal) for literal in other.goal]
        world.reset(init_state=4, scene_seed=4)
        assert not world.success()


def test_what_is_asked_for_is_watched_beside_the_goal() -> None:
    variation = find_variation(TASK, "language.other_task", 0)
    assert variation is not None
    assert variation.probe
    with World(TASK, variation) as world:
        assert list(world.predicates()) == [str(literal) for literal in PROBLEM.goal]
        world.reset(init_state=4, scene_seed=4)
        assert not world.asked_done()
