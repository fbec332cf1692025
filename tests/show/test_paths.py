"""Paths of what the goal names, looked up in recorded states."""

import numpy as np

from pytest_vla import World
from pytest_vla.plan.manifests import load_suite
from pytest_vla.show.runs import _object_paths


def test_objects_and_drawers_are_where_the_states_have_them() -> None:
    task = load_suite("tabletop").task("open_the_top_drawer_and_put_the_bowl_inside")
    with World(task) as world:
        world.reset(init_state=0, scene_seed=0)
        poses = np.repeat(world.data.qpos[None].copy(), 3, axis=0)
        (bowl,), (drawer,) = (
            world.scene.body("bowl_1").joints,
            [j for j in world.scene.body("cabinet_1").joints if "top" in j],
        )
        place = world.model.joint(bowl).qposadr[0]
        poses[1:, place + 2] += 0.1
        poses[2, world.model.joint(drawer).qposadr[0]] -= 0.15
        before = world.data.qpos.copy()
        found = _object_paths(world, poses)
        assert (world.data.qpos == before).all()
    assert set(found) == {"bowl_1", "cabinet_1_top_region"}
    assert np.allclose(found["bowl_1"] - found["bowl_1"][0], [[0, 0, 0], [0, 0, 0.1], [0, 0, 0.1]])
    moved = np.linalg.norm(found["cabinet_1_top_region"] - found["cabinet_1_top_region"][0], axis=1)
    assert np.allclose(moved, [0, 0, 0.15])
