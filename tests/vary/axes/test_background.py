"""Variations of surfaces: every arena's are found, and the level is the share of the texture that is seen."""

import dataclasses
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.world import World
from pytest_vla.vary.axes import background
from pytest_vla.vary.axes.background import FLOOR, SURFACES, TABLE, WALL, drawn_pattern, surface_geoms
from pytest_vla.vary.effects.painting import _COLOUR_ROLE, _tiling, textures_of
from pytest_vla.vary.effects.textures import FAMILIES
from pytest_vla.vary.kind import Draw
from tests.support.data import libero_data
from tests.support.worlds import libero_task, tabletop_world, world_of

Picture = npt.NDArray[np.uint8]

TASK = load_suite("tabletop").tasks[0]
KINDS = {kind.name.partition(".")[2]: kind for kind in background.KINDS}
LEVELS = background.LEVELS

ARENAS = {
    "goal": ("libero_goal", "put_the_bowl_on_the_stove"),
    "floor": ("libero_object", "pick_up_the_alphabet_soup_and_place_it_in_the_basket"),
    "kitchen": ("libero_10", "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it"),
    "living": ("libero_10", "LIVING_ROOM_SCENE2_put_both_the_alphabet_soup_and_the_tomato_sauce_in_the_basket"),
    "study": ("libero_10", "STUDY_SCENE1_pick_up_the_book_and_place_it_in_the_back_compartment_of_the_caddy"),
}
TEXTURES = {
    "goal": {TABLE: {"tex-table"}, FLOOR: {"texplane"}, WALL: {"tex-wall"}},
    "floor": {TABLE: set(), FLOOR: {"texplane"}, WALL: {"tex-wall"}},
    "kitchen": {TABLE: {"tex-table"}, FLOOR: {"texplane"}, WALL: {"tex-wall", "tex-kitchen_background"}},
    "living": {TABLE: {"tex-living_room_table"}, FLOOR: {"texplane"}, WALL: {"tex-wall", "tex-living_room"}},
    "study": {TABLE: {"tex-desk"}, FLOOR: {"texplane"}, WALL: {"tex-wall"}},
}


def drawn(name: str, level: int, seed: int = 0, task: Task = TASK) -> Variation:
    kind = KINDS[name]
    return kind.make(Draw(task, f"{kind.name}-L{level}", seed, level))


def drawn_file(surface: str, task: Task, seed: int = 0) -> Variation:
    return KINDS["file"].make(Draw(task, f"background.file.{surface}", seed, part=surface))


def picture(world: World, variation: Variation | None) -> Picture:
    assert world.switch(world.task, variation)
    found: Picture = world.reset(0, settle=False)["agentview_image"]
    return found


def pixels(world: World, texture: str) -> Picture:
    model, number = world.model, world.model.texture(texture).id
    size = model.tex_height[number] * model.tex_width[number] * model.tex_nchannel[number]
    return np.array(model.tex_data[model.tex_adr[number] : model.tex_adr[number] + size])


def names_of(world: World, variation: Variation) -> set[str]:
    (edit,) = variation.model
    assert edit.textures is not None
    return set(edit.textures(world.model, world.scene))


def test_all_families_are_drawn_and_a_pattern_is_one_of_them() -> None:
    patterns = [drawn_pattern(random.Random(seed)) for seed in range(60)]
    assert {pattern.family for pattern in patterns} == set(FAMILIES)
    assert {pattern.repeats for pattern in patterns} == {1, 2, 3}
    assert all(0 <= channel <= 255 for pattern in patterns for colour in pattern.colours for channel in colour)


@pytest.mark.parametrize("arena", ARENAS)
def test_every_surface_of_an_arena_is_found_and_no_object_is_one(arena: str) -> None:
    world = world_of(*ARENAS[arena])
    model = world.model
    for surface in SURFACES:
        geoms = surface_geoms(model, world.scene, surface)
        found = {model.texture(number).name for number in textures_of(model, geoms)}
        assert found == TEXTURES[arena][surface]
        users = {geom for geom in range(model.ngeom) if _texture_name(world, geom) in found}
        assert users == set(geoms)


def _texture_name(world: World, geom: int) -> str:
    material = world.model.geom_matid[geom]
    number = -1 if material < 0 else world.model.mat_texid[material][_COLOUR_ROLE]
    return world.model.texture(number).name if number >= 0 else ""


@pytest.mark.parametrize("arena", ["living", "study", "goal"])
def test_a_picture_covers_about_a_metre_of_a_table(arena: str) -> None:
    world = world_of(*ARENAS[arena])
    geoms = surface_geoms(world.model, world.scene, TABLE)
    (texture,) = textures_of(world.model, geoms)
    assert _tiling(world.model, geoms, texture) == {"living": 3, "study": 8, "goal": 1}[arena]


@pytest.mark.parametrize(("name", "texture"), [(TABLE, "table_planks"), (WALL, "tex-wall"), ("theme", "texplane")])
def test_pixels_differ_from_the_surface_s_own_by_a_fifth_more_with_each_level(name: str, texture: str) -> None:
    world = tabletop_world()
    picture(world, None)
    own = pixels(world, texture).astype(float)
    differences = []
    for level in LEVELS:
        variation = drawn(name, level)
        assert texture in names_of(world, variation)
        picture(world, variation)
        differences.append(pixels(world, texture) - own)
    assert np.abs(differences[-1]).mean() > 10
    for level, difference in zip(LEVELS, differences, strict=True):
        assert np.abs(difference - differences[-1] * level / 5).max() <= 1
    picture(world, None)
    assert np.array_equal(pixels(world, texture), own)


@pytest.mark.parametrize("name", [TABLE, WALL, "theme"])
def test_the_picture_changes_more_with_each_level_and_comes_back(name: str) -> None:
    world = tabletop_world()
    benign = picture(world, None)
    differences = [np.abs(picture(world, drawn(name, level, 2)).astype(int) - benign).mean() for level in LEVELS]
    assert differences[0] > 0.5
    assert differences == sorted(differences)
    assert np.array_equal(picture(world, None), benign)


def test_a_theme_has_for_each_surface_what_it_has_alone_at_all_levels() -> None:
    theme = drawn("theme", 5).parameters
    assert {name.partition("_")[0] for name in theme} == {"share", *SURFACES}
    for level in LEVELS:
        alone = drawn(TABLE, level).parameters
        assert {**alone, "share": 1.0}.items() <= theme.items()
    assert drawn("theme", 5).parameters == theme
    assert len({str(drawn(TABLE, 1, seed).parameters) for seed in range(6)}) == 6


def test_surfaces_that_are_not_there_or_not_seen_are_refused() -> None:
    with pytest.raises(VlaError, match="do not see the floor"):
        drawn(FLOOR, 1)
    protocol = dataclasses.replace(TASK.protocol, cameras=("frontview",))
    assert drawn(FLOOR, 1, task=dataclasses.replace(TASK, protocol=protocol)).parameters["share"] == 0.2
    on_the_floor = libero_task(*ARENAS["floor"])
    with pytest.raises(VlaError, match="has no table"):
        drawn(TABLE, 1, task=on_the_floor)
    assert not any(name.startswith(TABLE) for name in drawn("theme", 1, task=on_the_floor).parameters)
    assert drawn(FLOOR, 1, task=on_the_floor).model


@pytest.mark.parametrize("surface", SURFACES)
def test_a_surface_takes_a_file_of_the_asset_folder_that_is_not_its_own(surface: str) -> None:
    task = libero_task(*ARENAS["floor" if surface == FLOOR else "goal"])
    variations = [drawn_file(surface, task, seed) for seed in range(40)]
    files = {variation.parameters["file"] for variation in variations}
    assert len(files) > 10
    own = {FLOOR: "light-gray-floor-tile.png", WALL: "light-gray-plaster.png", TABLE: "martin_novak_wood_table.png"}
    assert f"textures/{own[surface]}" not in files
    assert all((libero_data() / "assets" / file).is_file() for file in files)
    world = world_of(task.suite, task.name)
    benign = picture(world, None)
    assert np.abs(picture(world, variations[0]).astype(int) - benign).mean() > 0.3
    assert np.array_equal(picture(world, None), benign)


@pytest.fixture
def textures_of_mine(tmp_path: Path) -> Callable[[str, Picture | bytes], Path]:
    """Writes a file into the textures of a data folder of one's own, and gives the folder."""

    def write(name: str, content: Picture | bytes) -> Path:
        file = tmp_path / "assets" / "textures" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            Image.fromarray(content).save(file)
        return tmp_path

    return write


def test_a_file_of_one_s_own_is_shown_as_it_is(textures_of_mine: Callable[[str, Picture | bytes], Path]) -> None:
    folder = textures_of_mine("red.png", np.full((4, 4, 3), (255, 0, 0), np.uint8))
    world = World(load_suite("tabletop", data=folder).tasks[0], image_size=(64, 64))
    picture(world, _only(folder, "red.png"))
    assert (pixels(world, "table_planks").reshape(-1, 3) == (255, 0, 0)).all()


def test_a_file_that_is_no_picture_is_an_error_that_names_it(
    textures_of_mine: Callable[[str, Picture | bytes], Path],
) -> None:
    folder = textures_of_mine("broken.png", b"no picture")
    world = World(load_suite("tabletop", data=folder).tasks[0], image_size=(64, 64))
    with pytest.raises(VlaError, match=r"broken\.png: expected a picture"):
        picture(world, _only(folder, "broken.png"))


def _only(folder: Path, name: str) -> Variation:
    """A variation with the folder's own file, whatever other folders this machine has."""
    task = load_suite("tabletop", data=folder).tasks[0]
    variations = (drawn_file(TABLE, task, seed) for seed in range(1000))
    return next(each for each in variations if each.parameters["file"] == f"textures/{name}")


def test_a_copy_of_the_surface_s_own_file_is_not_drawn(
    textures_of_mine: Callable[[str, Picture | bytes], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = textures_of_mine("wall_plaster.png", np.zeros((2, 2, 3), np.uint8))
    shutil.copy(folder / "assets" / "textures" / "wall_plaster.png", folder / "assets" / "textures" / "copy.png")
    textures_of_mine("other.png", np.ones((2, 2, 3), np.uint8))
    place = background._place(TASK)
    found = background._other_files(folder, place, WALL)
    assert "other.png" in found
    assert not {"wall_plaster.png", "copy.png"} & set(found)


_SMALL = """
<mujoco>
  <asset>
    <texture name="sides" type="cube" builtin="flat" rgb1="1 1 1" width="8" height="48"/>
    <texture name="clear" type="2d" builtin="flat" rgb1="1 1 1" width="8" height="4" nchannel="4"/>
    <material name="sides" texture="sides"/>
    <material name="clear" texture="clear"/>
    <material name="plain" rgba="1 1 1 1"/>
  </asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" group="1" material="clear"/>
    <geom name="wall_rear_visual" type="box" size="1 1 1" group="1"/>
    <geom name="wall_left_visual" type="box" size="1 1 1" group="1" material="plain"/>
    <body name="table"><geom name="top" type="box" size="1 1 1" group="1" material="sides"/></body>
  </worldbody>
</mujoco>
"""


def test_cubes_clear_textures_and_surfaces_without_a_texture_are_painted_too() -> None:
    model = mujoco.MjModel.from_xml_string(_SMALL)
    model.tex_data[:] = 255
    scene = tabletop_world().scene
    (edit,) = drawn("theme", 5).model
    assert edit.textures is not None
    assert edit.textures(model, scene) == ("sides", "clear")
    edit.apply(model, scene)
    sides, clear = (
        model.tex_data[model.tex_adr[number] :][: model.tex_height[number] * model.tex_width[number] * channels]
        for number, channels in ((model.texture("sides").id, 3), (model.texture("clear").id, 4))
    )
    faces = sides.reshape(6, 8, 8, 3)
    assert (faces == faces[0]).all()
    assert faces.min() < 250
    assert (clear.reshape(-1, 4)[:, 3] == 255).all()
    assert clear.reshape(-1, 4)[:, :3].min() < 250
    wall = model.geom_rgba[model.geom("wall_rear_visual").id]
    assert not np.allclose(wall[:3], 0.5)
    assert model.mat_rgba[model.material("plain").id] == pytest.approx(wall)
    assert wall[3] == 1
