"""Variations of the lights: each level a fifth more, seen in the picture, undone at the next reset."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation, model_array
from pytest_vla.sim.world import World
from pytest_vla.util.rotations import axis_angle, rotated
from pytest_vla.vary.axes import light
from pytest_vla.vary.kind import Draw
from tests.support.worlds import tabletop_world, world_of

Picture = npt.NDArray[np.uint8]

TASK = load_suite("tabletop").tasks[0]
KINDS = {kind.name.partition(".")[2]: kind for kind in light.KINDS}
LEVELS = light.LEVELS
ARRAYS = (
    "light_diffuse",
    "light_specular",
    "light_pos",
    "light_dir",
    "light_castshadow",
    "light_type",
    "light_active",
    "mat_specular",
)


def kitchen() -> World:
    """The scene that has the most light of all; skips without data."""
    return world_of("libero_10", "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it")


def drawn(name: str, level: int, seed: int = 0, task: Task = TASK) -> Variation:
    kind = KINDS[name]
    return kind.make(Draw(task, f"{kind.name}-L{level}", seed, level))


def lights(variation: Variation | None, world: World | None = None) -> dict[str, npt.NDArray[np.float64]]:
    """The model's lights in an episode of a variation."""
    world = world or tabletop_world()
    assert world.switch(world.task, variation)
    world.reset(settle=False)
    return {name: model_array(world.model, name).copy() for name in ARRAYS}


def levelled_out(world: World, level: int) -> npt.NDArray[np.float64]:
    """The benign lights' diffuse colours, as far as a level has them not give more than can be shown."""
    lights(None, world)
    before = world.model.light_diffuse.copy()
    light.level_out(world.model, world.scene, level / 5)
    found: npt.NDArray[np.float64] = world.model.light_diffuse.copy()
    world.model.light_diffuse[:] = before
    return found


def picture(variation: Variation | None, world: World | None = None) -> Picture:
    world, task = (tabletop_world(), TASK) if world is None else (world, world.task)
    assert world.switch(task, variation)
    found: Picture = world.reset(0, settle=False)["agentview_image"]
    return found


@contextmanager
def shadow_map(size: int) -> Iterator[None]:
    """Shadows of so many pixels, in a graphics context of its own."""
    world = tabletop_world()
    quality = world.model.vis.quality
    before = quality.shadowsize
    world.close()
    quality.shadowsize = size
    try:
        yield
    finally:
        world.close()
        quality.shadowsize = before


@pytest.mark.parametrize("seed", range(4))
def test_the_diffuse_gain_goes_evenly_to_a_dimmer_or_brighter_tint(seed: int) -> None:
    gains = np.array([drawn("diffuse", level, seed).parameters["gain_rgb"] for level in LEVELS])
    assert np.diff(gains, axis=0) == pytest.approx(np.tile(gains[0] - 1, (4, 1)), abs=2e-4)
    strongest = gains[-1].max()
    assert strongest == pytest.approx(light.DIMMEST) or strongest == pytest.approx(light.BRIGHTEST)
    assert gains[-1].min() == pytest.approx(strongest * (1 - light.TINT), abs=2e-4)


def test_the_gain_is_what_the_lights_of_the_model_get() -> None:
    benign, varied = lights(None), lights(drawn("diffuse", 4))
    gain = varied["light_diffuse"] / benign["light_diffuse"]
    stated = np.array(drawn("diffuse", 4).parameters["gain_rgb"])
    # Tabletop's lights are a little more than can be shown, and lose it with the level, all alike.
    dimmed = gain / stated
    assert dimmed == pytest.approx(np.full_like(gain, dimmed[0, 0]), rel=1e-5)
    assert 0.8 < dimmed[0, 0] < 1


def test_a_scene_that_can_be_no_brighter_is_tinted_only_or_dimmer_from_what_can_be_shown() -> None:
    world = kitchen()
    for seed in range(3):
        gains = []
        for level in LEVELS:
            stated = drawn("diffuse", level, seed, world.task)
            found = lights(stated, world)["light_diffuse"]
            levelled = levelled_out(world, 5)
            gains.append(stated.parameters["gain_rgb_overlit"])
            assert found == pytest.approx(levelled * gains[-1], rel=1e-5)
        steps = np.diff(np.array([[1.0] * 3, *gains]), axis=0)
        assert steps == pytest.approx(np.tile(steps[0], (5, 1)), abs=2e-4)
        brighter = max(stated.parameters["gain_rgb"]) > 1
        assert max(gains[-1]) == pytest.approx(1 if brighter else light.DIMMEST)
        assert brighter or gains[-1] == stated.parameters["gain_rgb"]


def test_a_scene_is_overlit_where_none_of_its_table_can_be_brighter() -> None:
    # Tabletop's is so in the middle only.
    for world, overlit in ((kitchen(), True), (tabletop_world(), False)):
        lights(None, world)
        assert light.is_overlit(world.model, world.scene) == overlit
        before, levelled = world.model.light_diffuse.copy(), levelled_out(world, 5)
        assert (levelled < before).all()
        world.model.light_diffuse[:] = levelled
        try:
            assert not light.is_overlit(world.model, world.scene)
        finally:
            world.model.light_diffuse[:] = before


def test_lights_that_give_too_much_are_dimmed_to_what_can_be_shown_and_no_further() -> None:
    world = tabletop_world()
    assert world.switch(TASK, None)
    world.reset(settle=False)
    model, scene = world.model, world.scene
    before = model.light_diffuse.copy()
    try:
        for share, dimmer in ((0.0, False), (0.5, True), (1.0, True)):
            model.light_diffuse[:] = before
            light.level_out(model, scene, share)
            assert (model.light_diffuse < before).all() == dimmer
        levelled = model.light_diffuse.copy()
        light.level_out(model, scene)
        assert model.light_diffuse == pytest.approx(levelled, rel=1e-6)
        model.light_diffuse[:] = 0.1 * before
        light.level_out(model, scene)
        assert model.light_diffuse == pytest.approx(0.1 * before)
    finally:
        model.light_diffuse[:] = before


above = st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.5, 4))


@given(above, st.floats(0, 360), st.floats(1, 60))
def test_a_light_is_turned_by_the_angle_and_not_below_the_table_where_that_can_be(
    source: tuple[float, float, float], heading: float, angle: float
) -> None:
    after = rotated(axis_angle(light.axis_of_turn(source, heading), math.radians(angle)), source)
    length = math.hypot(*source)
    assert math.acos(min(float(after @ source) / length**2, 1)) == pytest.approx(math.radians(angle), abs=1e-6)
    # From any height it can be turned to where it is high enough, if need be over the top.
    assert after[2] / length >= math.sin(math.radians(light.LOWEST_ELEVATION)) - 1e-9 or source[2] / length < 0.35


def test_a_light_right_above_is_turned_to_the_drawn_side() -> None:
    turn = axis_angle(light.axis_of_turn((0.0, 0.0, 2.0), 90.0), math.radians(30))
    assert rotated(turn, [0, 0, 2]) == pytest.approx([0, 1, math.sqrt(3)], abs=1e-9)


def test_lights_turn_about_the_middle_of_the_table_by_a_fifth_more_with_each_level() -> None:
    benign, middle = lights(None), np.array([0, 0, 0.9])
    turns = []
    for level in LEVELS:
        varied = lights(drawn("direction", level, seed=2))
        for name, origin in (("light_pos", middle), ("light_dir", np.zeros(3))):
            before, after = benign[name] - origin, varied[name] - origin
            assert np.linalg.norm(after, axis=1) == pytest.approx(np.linalg.norm(before, axis=1), rel=1e-5)
        before, after = benign["light_pos"][0] - middle, varied["light_pos"][0] - middle
        turns.append(math.degrees(math.acos(before @ after / (np.linalg.norm(before) * np.linalg.norm(after)))))
    assert turns == pytest.approx([12, 24, 36, 48, 60], rel=1e-4)


def test_highlights_grow_evenly_while_the_light_spread_evenly_shrinks() -> None:
    found = [drawn("specular", level, 1).parameters for level in LEVELS]
    added = np.array([each["added_rgb"] for each in found])
    assert added == pytest.approx(np.outer(range(1, 6), added[0]), abs=3e-4)
    assert added[-1].max() == pytest.approx(light.MOST_HIGHLIGHT)
    assert [each["diffuse_gain"] for each in found] == pytest.approx([0.9, 0.8, 0.7, 0.6, 0.5])
    model = lights(drawn("specular", 5, 1))
    assert model["mat_specular"] == pytest.approx(1)


def test_the_main_light_casts_shadows_and_one_that_was_off_gives_the_rest_from_its_place() -> None:
    world, benign = tabletop_world(), lights(None)
    for level in LEVELS:
        found = lights(drawn("shadow", level))
        assert found["light_castshadow"].tolist() == [True, False, False]
        assert found["light_active"].tolist() == [True, True, level < 5]
        assert found["light_pos"][2].tolist() == benign["light_pos"][0].tolist()
        assert np.array_equal(found["light_pos"][:2], benign["light_pos"][:2])
        levelled = levelled_out(world, level)
        assert found["light_diffuse"][0] == pytest.approx(level / 5 * levelled[0], rel=1e-5)
        assert found["light_diffuse"][2] == pytest.approx((1 - level / 5) * levelled[0], rel=1e-5)
        assert found["light_diffuse"][1] == pytest.approx(levelled[1])
    back = lights(None)
    assert all(np.array_equal(back[name], benign[name]) for name in ARRAYS)


def test_where_no_light_is_off_the_weakest_one_gives_the_rest_from_in_between() -> None:
    world, nearest = world_of("libero_goal", "turn_on_the_stove"), []
    benign = lights(None, world)
    for level in LEVELS:
        found = lights(drawn("shadow", level), world)
        given = light.shares(world.model, world.scene)
        levelled = levelled_out(world, level)
        whole = light.shares(world.model, world.scene) @ levelled
        assert given @ found["light_diffuse"] == pytest.approx(whole, rel=1e-5)
        (main,) = np.flatnonzero(found["light_castshadow"])
        assert np.array_equal(found["light_pos"][main], benign["light_pos"][main])
        assert found["light_diffuse"][main] == pytest.approx(level / 5 * levelled[main], rel=1e-5)
        (other,) = set(range(world.model.nlight)) - {int(main)}
        nearest.append(np.linalg.norm(found["light_pos"][other] - benign["light_pos"][main]))
    # The more of its light is the main one's, the more it comes from there; with nothing of it, it stays.
    assert nearest == sorted(nearest)
    assert nearest[0] < nearest[4]
    assert found["light_pos"][other] == pytest.approx(benign["light_pos"][other])


def test_shadows_get_darker_with_the_level() -> None:
    with shadow_map(1024):
        pictures = [picture(drawn("shadow", level)).astype(float) for level in LEVELS]
    darkest = [float((pictures[0] - other).clip(0).mean()) for other in pictures]
    assert darkest[1] > 0.2
    assert darkest == sorted(darkest)
    assert darkest[4] > 2 * darkest[1]
    # They are shadows of some things, not a darker picture: what is too much for it goes with the level.
    assert np.median(np.abs(pictures[4] - pictures[0])) <= 8


def test_the_picture_under_shadows_differs_more_with_each_level() -> None:
    with shadow_map(1024):
        benign = picture(None)
        differences = [np.abs(picture(drawn("shadow", level)).astype(int) - benign).mean() for level in LEVELS]
    assert differences == sorted(differences)
    assert differences[0] < 0.35 * differences[4]
    assert np.diff(differences) == pytest.approx(differences[4] / 5, rel=0.25)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "shadow"])
def test_the_picture_changes_more_with_each_level_and_comes_back(name: str) -> None:
    benign = picture(None)
    differences = [np.abs(picture(drawn(name, level, 1)).astype(int) - benign).mean() for level in LEVELS]
    assert differences[0] > 1
    assert differences == sorted(differences)
    assert np.array_equal(picture(None), benign)


# Seeds: a brighter and a dimmer light, and one that levels turned to different sides.
@pytest.mark.parametrize(
    ("name", "seed", "least"), [("diffuse", 0, 5), ("diffuse", 1, 20), ("direction", 1, 5), ("specular", 0, 5)]
)
def test_levels_are_even_in_a_kitchen_that_has_more_light_than_can_be_shown(name: str, seed: int, least: float) -> None:
    world = kitchen()
    benign = picture(None, world)
    pictures = [picture(drawn(name, level, seed, world.task), world).astype(int) for level in LEVELS]
    differences = np.array([0, *(np.abs(each - benign).mean() for each in pictures)])
    assert differences[5] > least
    assert differences[1] > 0.1 * differences[5]
    assert (np.diff(differences) > 0).all()
    assert np.diff(differences).max() < 0.45 * differences[5]
    assert np.array_equal(picture(None, world), benign)


@pytest.mark.parametrize("name", KINDS)
def test_equal_draws_are_equal_and_other_seeds_are_others(name: str) -> None:
    several = [drawn(name, 2, seed).parameters for seed in range(6)]
    assert [drawn(name, 2, seed).parameters for seed in range(6)] == several
    # A shadow's strength is all that there is to it.
    assert (len({str(each) for each in several}) > 1) == (name != "shadow")


def test_a_scene_of_one_light_has_no_shadows_of_a_given_strength() -> None:
    model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><light/></worldbody></mujoco>")
    (edit,) = drawn("shadow", 1).model
    with pytest.raises(VlaError, match="needs two lights"):
        edit.apply(model, tabletop_world().scene)
