"""LIBERO-PRO's object column: colour, texture and size of the goal's object, and nothing else, by five levels."""

import mujoco
import numpy as np
import numpy.typing as npt
import pytest

from pytest_vla import World, load_suite
from pytest_vla.errors import VlaError
from pytest_vla.scene.cache import scene_key
from pytest_vla.scene.problem import problem_of
from pytest_vla.scene.variation import changed_problem
from pytest_vla.vary.axes.object import LARGER, MOST_FRICTION, MOST_MASS, SMALLER, goals_object, object_geoms
from pytest_vla.vary.registry import find_variation, parse_vary
from tests.support.data import libero_data
from tests.support.worlds import libero_task, tabletop

BOWL = "put_the_bowl_on_the_plate"
TASK = load_suite("tabletop").task(BOWL)
Picture = npt.NDArray[np.uint8]


def picture(world: World, label: str) -> Picture:
    assert world.switch(world.task, find_variation(world.task, label, 0))
    found: Picture = world.reset(0, settle=False)["agentview_image"].copy()
    return found


def test_the_instruction_stays_and_the_object_is_the_goals() -> None:
    for label in parse_vary("object"):
        variation = find_variation(TASK, label, 3)
        assert variation is not None
        assert (variation.instruction, variation.parameters["object"]) == (None, "bowl_1")
        assert variation.level in (1, 2, 3, 4, 5)
    assert len(parse_vary("object")) == 15
    stove = load_suite("tabletop").task("turn_on_the_stove")
    assert goals_object(stove, may_be_fixture=True).startswith("stove")
    with pytest.raises(VlaError, match="is a fixture, whose parts keep their size"):
        find_variation(stove, "object.size-L1", 0)


@pytest.mark.parametrize("kind", ["colour", "texture"])
def test_only_the_object_looks_different_and_more_so_by_level(kind: str) -> None:
    world = tabletop(BOWL)
    assert world.switch(TASK)
    own = world.reset(0, settle=False)["agentview_image"].astype(int)
    changes = [np.abs(picture(world, f"object.{kind}-L{level}") - own).sum(axis=2) for level in (1, 3, 5)]
    amounts = [change.sum() for change in changes]
    assert 0 < amounts[0] < amounts[1] < amounts[2]
    rows, columns = np.nonzero(changes[2] > 12)
    assert 100 < len(rows) < 0.1 * own.shape[0] * own.shape[1], "it is the bowl that changes"
    assert np.ptp(rows) < 80
    assert np.ptp(columns) < 80
    # And it is undone.
    assert world.switch(TASK)
    assert (world.reset(0, settle=False)["agentview_image"] == own).all()


def test_a_size_scales_shape_mass_and_what_the_scene_says_and_leaves_it_where_it_stood() -> None:
    world = World(TASK)
    drawn = {seed: find_variation(TASK, "object.size-L5", seed) for seed in range(8)}
    factors = {seed: each.parameters["factor"] for seed, each in drawn.items() if each is not None}
    assert set(factors.values()) == {1 + 5 * LARGER, 1 - 5 * SMALLER}
    seed = next(seed for seed, factor in factors.items() if factor > 1)
    other = World(TASK, variation=drawn[seed])
    for each in (world, other):
        each.reset(0)
    own, large = world.scene.body("bowl_1"), other.scene.body("bowl_1")
    assert own is not None
    assert large is not None
    factor = factors[seed]
    assert (large.top, large.radius) == (pytest.approx(factor * own.top), pytest.approx(factor * own.radius))
    masses = [each.model.body(own.root_body).subtreemass[0] for each in (world, other)]
    assert masses[1] == pytest.approx(factor**3 * masses[0])
    places = [each.data.body(own.root_body).xpos for each in (world, other)]
    assert places[1][:2] == pytest.approx(places[0][:2], abs=0.005)
    assert scene_key(other.problem) != scene_key(world.problem)
    # All else is as it was.
    plates = [each.model.body(each.scene.body("plate_1").root_body).subtreemass[0] for each in (world, other)]  # type: ignore[union-attr]
    assert plates[0] == plates[1]


@pytest.mark.slow
def test_libero_meshes_are_scaled_too() -> None:
    libero_data()
    task = libero_task("libero_object", "pick_up_the_alphabet_soup_and_place_it_in_the_basket")
    variation = find_variation(task, "object.size-L5", 0)
    assert variation is not None
    name, factor = variation.parameters["object"], variation.parameters["factor"]
    assert name == "alphabet_soup_1"
    assert changed_problem(problem_of(task), variation) != problem_of(task)
    world, other = World(task), World(task, variation=variation)
    heights = []
    for each in (world, other):
        each.reset(0)
        model, body = each.model, each.scene.body(name)
        assert body is not None
        geoms = object_geoms(model, each.scene, name)
        meshes = [model.geom_dataid[geom] for geom in geoms if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH]
        vertices = np.concatenate(
            [model.mesh_vert[model.mesh_vertadr[m] :][: model.mesh_vertnum[m]] for m in meshes if m >= 0]
        )
        heights.append(np.ptp(vertices, axis=0))
    assert heights[1] == pytest.approx(factor * heights[0], rel=1e-4)


def parts_of(model: mujoco.MjModel) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    """Return every array of a model and its statistics."""
    found = {name: getattr(model, name) for name in dir(model) if not name.startswith("_")}
    found |= {name: np.array(getattr(model.stat, name)) for name in ("meaninertia", "meanmass", "extent", "center")}
    return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}


def test_mass_and_friction_are_the_objects_until_the_next_reset() -> None:
    world = World(TASK)
    world.reset(0)
    model = world.model
    root = model.body("bowl_1_main").id
    own = np.flatnonzero(model.body_rootid == root)
    of_object = np.isin(model.geom_bodyid, own)
    before = {name: value.copy() for name, value in parts_of(model).items()}
    for label in ("object.mass-L5", "object.friction-L5"):
        variation = find_variation(TASK, label, 0)
        assert variation is not None
        factor = variation.parameters["factor"]
        assert factor in ((MOST_MASS, round(1 / MOST_MASS, 4)) if label == "object.mass-L5" else (MOST_FRICTION,))
        world.switch(TASK, variation)
        world.reset(0)
        heavier = factor if label == "object.mass-L5" else 1.0
        assert model.body_mass[own] == pytest.approx(before["body_mass"][own] * heavier)
        assert model.body_subtreemass[root] == pytest.approx(before["body_subtreemass"][root] * heavier)
        rougher = np.where(of_object & (label == "object.friction-L5"), factor, 1.0)
        assert model.geom_friction[:, 0] == pytest.approx(before["geom_friction"][:, 0] * rougher)
        world.switch(TASK)
        world.reset(0)
        assert [name for name, value in parts_of(model).items() if value.tobytes() != before[name].tobytes()] == []
    world.close()
