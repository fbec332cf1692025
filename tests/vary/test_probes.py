"""Probes of whether a policy looks: black pictures, and the goal's object taken out of the world."""

import dataclasses
from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import UnfitError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Episode
from pytest_vla.records.record import VACATED
from pytest_vla.scene.problem import Literal, problem_of
from pytest_vla.scene.variation import Variation
from pytest_vla.vary.axes import layout
from pytest_vla.vary.kind import Draw
from pytest_vla.vary.registry import find_variation, parse_vary
from pytest_vla.versions import forward_warms
from tests.support.worlds import tabletop, tabletop_world

TASK = load_suite("tabletop").task("put_the_bowl_on_the_plate")
CAMERAS = TASK.protocol.cameras


def of(label: str, task: Task = TASK, seed: int = 0) -> Variation:
    found = find_variation(task, label, seed)
    assert found is not None
    return found


@pytest.mark.parametrize(("view", "black"), [("third_person", CAMERAS[:1]), ("wrist", CAMERAS[1:]), ("all", CAMERAS)])
def test_black_pictures_are_of_the_cameras_that_are_named(view: str, black: tuple[str, ...]) -> None:
    variation = of(f"camera.blackout.{view}")
    assert (variation.kind, variation.probe, variation.in_sight) == ("blackout", True, False)
    assert variation.parameters == {"view": view, "cameras": list(black)}
    world = tabletop_world()
    assert world.switch(TASK, variation)
    observation = world.reset(0)
    for camera in CAMERAS:
        picture = observation[f"{camera}_image"]
        assert picture.dtype == np.uint8
        assert (picture.max() == 0) == (camera in black)
    assert world.switch(TASK)
    assert world.reset(0)[f"{CAMERAS[0]}_image"].max() > 0


def test_a_suite_without_such_a_camera_cannot_be_blinded_there() -> None:
    one = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, cameras=CAMERAS[:1]))
    with pytest.raises(UnfitError, match="has no such camera; it has agentview"):
        find_variation(one, "camera.blackout.wrist", 0)
    assert of("camera.blackout.all", one).parameters["cameras"] == list(CAMERAS[:1])


def test_probes_come_only_where_they_are_named() -> None:
    assert not any("blackout" in label for label in parse_vary("camera"))
    assert "layout.removed" not in parse_vary("layout")
    assert parse_vary("camera.blackout") == tuple(f"camera.blackout.{v}" for v in ("third_person", "wrist", "all"))
    assert parse_vary("layout.removed,camera.blackout.all") == ("layout.removed", "camera.blackout.all")


def motion(world: World, steps: int = 40) -> np.ndarray:
    """States of an episode whose hand goes about above the table."""
    world.reset(0, scene_seed=0)
    generator, rows = np.random.default_rng(1), []
    for action in generator.uniform(-0.4, 0.4, (steps, 7)):
        action[2] = abs(action[2])
        world.step(action)
        rows.append(np.concatenate([world.data.qpos, world.data.qvel]))
    return np.array(rows)


def test_all_else_moves_bit_for_bit_as_it_does_beside_the_object() -> None:
    world = tabletop(TASK.name)
    benign = motion(world)
    assert world.switch(TASK, of("layout.removed"))
    varied = motion(world)
    joint = world.model.joint(world.scene.body("bowl_1").joints[-1])
    own = [*range(joint.qposadr[0], joint.qposadr[0] + 7)]
    own += [world.model.nq + at for at in range(joint.dofadr[0], joint.dofadr[0] + 6)]
    others = np.setdiff1d(np.arange(benign.shape[1]), own)
    # Older versions solve the contacts of all things together, to 1e-15.
    tolerance = 1e-12 if forward_warms(mujoco.__version__) else 0.0
    np.testing.assert_allclose(varied[:, others], benign[:, others], rtol=0, atol=tolerance)
    assert (benign[:, own[2]] < 2).all()
    assert (varied[:, own[2]] > 9e4).all()


def test_it_is_neither_seen_nor_touched_and_no_goal_is_reached_without_it() -> None:
    world = tabletop(TASK.name)
    world.reset(0, scene_seed=0)
    bowl = world.scene.body("bowl_1")
    bodies = [i for i in range(world.model.nbody) if world.model.body(i).name.startswith("bowl_1")]
    place = world.data.body(bowl.root_body).xpos.copy()
    assert np.isin(world.segmentation("agentview"), bodies).any()
    assert world.switch(TASK, of("layout.removed"))
    world.reset(0, scene_seed=0)
    for camera in CAMERAS:
        assert not np.isin(world.segmentation(camera), bodies).any()
    (vacated,) = world.vacated().values()
    # It had not settled yet.
    assert np.abs(np.array(vacated) - place).max() < 0.03
    for _ in range(20):
        world.step([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0])
        geoms = {int(geom) for contact in world.data.contact for geom in contact.geom}
        assert not geoms & {world.model.geom(name).id for name in bowl.contact_geoms}
    assert not world.success()
    assert world.switch(TASK)
    world.reset(0, scene_seed=0)
    assert world.vacated() == {}


def test_what_the_goal_wants_somewhere_is_taken_away_and_fixtures_are_not() -> None:
    assert of("layout.removed").removed == ("bowl_1",)
    assert of("layout.removed").parameters == {"objects": ["bowl_1"]}
    for name in ("turn_on_the_stove", "open_the_middle_drawer_of_the_cabinet"):
        with pytest.raises(UnfitError, match="the goal places no object"):
            of("layout.removed", load_suite("tabletop").task(name))


def test_what_carries_something_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(TASK)
    stacked = dataclasses.replace(problem, init=(*problem.init, Literal("on", ("box_1", "bowl_1"), 0, 0, 99)))
    monkeypatch.setattr(layout, "problem_of", lambda task: stacked)
    with pytest.raises(Exception, match="bowl_1 cannot be removed: box_1 stands on it"):
        layout.KINDS[2].make(Draw(TASK, "layout.removed", 0))


def rolled(variation: Variation, **conditions: Any) -> Rollout:
    short = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, max_steps=6))
    world = tabletop_world()

    def opened(task: Task, variation: Variation | None) -> World:
        assert world.switch(short, variation)
        return world

    def policy(episode: Episode) -> Any:
        return lambda observation: np.zeros((6, 7))

    case = Case("tabletop", TASK.name, 0, variation.label)
    return run_episode(case, short, policy, opened, Conditions("still", **conditions), variation=variation)


@pytest.mark.parametrize("label", ["layout.removed", "camera.blackout.all"])
def test_no_rule_of_an_episode_s_start_refuses_a_probe(label: str) -> None:
    ended = rolled(of(label), feasible=True)
    assert (ended.record.outcome, ended.record.is_probe, ended.passed) == ("failure", True, True)


def test_a_record_says_where_the_object_would_be() -> None:
    metrics = rolled(of("layout.removed")).record.metrics
    place = [metrics[f"{VACATED}_bowl_1_{axis}"] for axis in "xyz"]
    assert 0.8 < place[2] < 1.0
    assert abs(place[0]) < 0.5
    assert not [name for name in rolled(of("camera.blackout.all")).record.metrics if name.startswith(VACATED)]


def test_a_probe_beside_another_variation_is_one() -> None:
    both = of("camera.blackout.wrist+language.words-L1")
    assert both.probe
    assert both.pictures
    assert of("layout.removed+light.diffuse-L1").removed == ("bowl_1",)
