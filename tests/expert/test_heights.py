"""Maps of heights: what rays from above meet, looked up by place."""

import mujoco
import numpy as np
import pytest

from pytest_vla.expert.heights import Heights, disc, measure

# A plate at 0.1 m, a block on it up to 0.3 m, transparent as LIBERO's collision geoms are, and a picture of nothing.
SCENE = """
<mujoco><worldbody>
  <geom name="floor" type="box" size="0.5 0.5 0.05" pos="0 0 0.05"/>
  <geom name="block" type="box" size="0.04 0.02 0.1" pos="0.1 0 0.2" rgba="0 0 0 0"/>
  <geom name="shown" type="box" size="0.1 0.1 0.3" pos="-0.2 0 0.4" group="1" contype="0" conaffinity="0"/>
</worldbody></mujoco>
"""


@pytest.fixture(scope="module")
def scene() -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = mujoco.MjModel.from_xml_string(SCENE)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def test_a_map_has_the_highest_surface_that_collides_and_whose_it_is(
    scene: tuple[mujoco.MjModel, mujoco.MjData],
) -> None:
    heights = measure(*scene, np.zeros(2), 0.3, 0.01, ())
    assert heights.at(np.array([0.1, 0.0])) == pytest.approx(0.3)
    assert heights.at(np.array([0.1, 0.05])) == pytest.approx(0.1)
    assert heights.at(np.array([-0.2, 0.0])) == pytest.approx(0.1)
    assert heights.geom[heights.index(np.array([0.1, 0.0]))] == scene[0].geom("block").id
    assert np.isfinite(heights.height).all()


def test_what_is_left_out_is_looked_through_and_the_model_is_as_before(
    scene: tuple[mujoco.MjModel, mujoco.MjData],
) -> None:
    model, data = scene
    group, colours = model.geom_group.copy(), model.geom_rgba.copy()
    heights = measure(model, data, np.zeros(2), 0.2, 0.01, [model.geom("block").id])
    assert heights.at(np.array([0.1, 0.0])) == pytest.approx(0.1)
    assert np.array_equal(model.geom_group, group)
    assert np.array_equal(model.geom_rgba, colours)


def test_beyond_everything_there_is_no_height(scene: tuple[mujoco.MjModel, mujoco.MjData]) -> None:
    heights = measure(*scene, np.array([0.5, 0.0]), 0.1, 0.02, ())
    assert heights.at(np.array([0.58, 0.0])) == -np.inf
    assert heights.geom[heights.index(np.array([0.58, 0.0]))] == -1


def test_the_highest_near_a_place_and_along_a_way(scene: tuple[mujoco.MjModel, mujoco.MjData]) -> None:
    heights = measure(*scene, np.zeros(2), 0.3, 0.01, ())
    assert heights.highest_near(np.array([0.1, 0.06]), 0.03) == pytest.approx(0.1)
    assert heights.highest_near(np.array([0.1, 0.06]), 0.05) == pytest.approx(0.3)
    start, end = np.array([-0.1, -0.1]), np.array([0.3, 0.1])
    assert heights.highest_along(start, end, 0.02) == pytest.approx(0.3)
    assert heights.highest_along(start, np.array([-0.1, 0.2]), 0.02) == pytest.approx(0.1)


def test_a_place_beyond_the_map_has_the_height_of_its_edge() -> None:
    heights = Heights(np.zeros(2), 0.1, np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros((2, 2), np.int32))
    assert heights.at(np.array([[5.0, 5.0], [-1.0, 0.1]])).tolist() == [4.0, 2.0]


def test_a_disc_is_filled() -> None:
    points = disc(0.05, 0.01)
    assert np.linalg.norm(points, axis=1).max() <= 0.05 + 1e-9
    assert len(points) == pytest.approx(np.pi * 25, rel=0.1)
