"""Grasps from above: things that fit between the fingers, walls, and what leaves no room."""

import mujoco
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.expert.grasps import Grasp, grasps_from_above
from pytest_vla.expert.hand import TIP_LENGTH
from pytest_vla.expert.heights import measure
from tests.support.examples import scaled

DOWN = np.array([0.0, 0.0, -1.0])
RESTING = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])


def grasps_of(geoms: str) -> list[Grasp]:
    """Grasps of the geoms that are called thing, on a table whose top is at 0."""
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><geom type="box" size="1 1 0.1" pos="0 0 -0.1"/>{geoms}</worldbody></mujoco>'
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    things = tuple(geom for geom in range(model.ngeom) if model.geom(geom).name.startswith("thing"))
    near = measure(model, data, np.zeros(2), 0.16, 0.004, ())
    around = measure(model, data, np.zeros(2), 0.24, 0.01, ())
    return grasps_from_above(near, around, things, np.zeros(2), RESTING)


def box(name: str, x: float, y: float, height: float, at: tuple[float, float] = (0.0, 0.0), turn: float = 0.0) -> str:
    """A box on the table with these full sizes (m)."""
    size, position = f"{x / 2} {y / 2} {height / 2}", f"{at[0]} {at[1]} {height / 2}"
    return f'<geom name="{name}" type="box" size="{size}" pos="{position}" euler="0 0 {turn}"/>'


def test_a_narrow_box_is_gripped_across_its_narrow_side_near_its_middle() -> None:
    best = grasps_of(box("thing", 0.2, 0.04, 0.05))[0]
    assert abs(best.rotation[:, 0] @ np.array([0.0, 1.0, 0.0])) > 0.95
    assert np.allclose(best.rotation[:, 2], DOWN)
    assert np.linalg.norm(best.position[:2]) < 0.015
    assert 0 < best.position[2] - TIP_LENGTH < 0.05 - 0.012


def test_a_box_wider_than_the_hand_opens_is_gripped_at_its_corners_if_at_all() -> None:
    found = grasps_of(box("thing", 0.2, 0.2, 0.05))
    assert all(np.abs(grasp.position[:2]).min() > 0.07 for grasp in found)


def test_a_thing_without_height_is_not_gripped() -> None:
    assert grasps_of(box("thing", 0.05, 0.05, 0.008)) == []


def test_no_finger_goes_where_something_else_stands() -> None:
    walls = box("wall1", 0.02, 0.1, 0.1, (0.055, 0.0)) + box("wall2", 0.02, 0.1, 0.1, (-0.055, 0.0))
    found = grasps_of(box("thing", 0.04, 0.04, 0.05) + walls)
    assert found
    for grasp in found:
        assert abs(grasp.rotation[1, 0]) > 0.7, "only across the walls' gap is there room"


def test_the_hand_leans_away_from_what_leaves_its_palm_no_room() -> None:
    found = grasps_of(box("thing", 0.03, 0.03, 0.05) + box("shelf", 0.6, 0.05, 0.3, (0.0, 0.05)))
    leaning = [grasp for grasp in found if grasp.rotation[2, 2] > -0.95]
    assert leaning
    for grasp in leaning:
        assert grasp.rotation[1, 2] > 0.4, "the approach points at the shelf, so the palm is away from it"


@settings(max_examples=scaled(15))
@given(st.floats(0, 180).map(lambda turn: round(turn, 6)), st.floats(0.02, 0.06))
def test_a_turned_box_is_gripped_across_as_it_lies(turn: float, width: float) -> None:
    best = grasps_of(box("thing", 0.16, width, 0.05, turn=turn))[0]
    across = np.array([-np.sin(np.deg2rad(turn)), np.cos(np.deg2rad(turn)), 0.0])
    # Yaws are 15 degrees apart, and the best may be the next but one.
    assert abs(best.rotation[:, 0] @ across) > np.cos(np.deg2rad(30))
    assert np.isclose(np.linalg.det(best.rotation), 1.0)
