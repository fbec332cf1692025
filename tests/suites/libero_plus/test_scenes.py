"""LIBERO-Plus's own scenes: lights, textures, and how episodes in them begin."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.suites.libero_plus.names import parse_name
from pytest_vla.suites.libero_plus.scenes import NEEDS_ASSETS, NEEDS_BDDL, camera_pose, robot_qpos
from pytest_vla.suites.libero_plus.variations import available, catalogue
from tests.support.data import libero_data
from tests.support.libero_plus_lists import OTHERS, bddl, listed, task_in

if TYPE_CHECKING:
    from pytest_vla import World


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def scenes(folder: Path) -> Path:
    """A checkout whose light, table and wall are LIBERO's own other files, under LIBERO-Plus's names."""
    package = listed(folder)
    base = "LIBERO_Tabletop_Manipulation"
    bddl(package, OTHERS["light"], f"{base}_tabletop_light_sync_modified_411")
    bddl(package, OTHERS["table"], f"{base}_tabletop_table_Marble")
    bddl(package, OTHERS["tb"], f"{base}_tabletop_table_Marble_Wall_Blue")
    assets, own = package / "assets", libero_data() / "assets"
    (assets / "scenes" / "lights").mkdir(parents=True)
    (assets / "scenes" / "tabletop250").mkdir()
    (assets / "textures").symlink_to(own / "textures")
    text = (own / "scenes" / "libero_tabletop_base_style.xml").read_text()
    bright = text.replace('name="light1" diffuse=".8 .8 .8"', 'name="light1" diffuse="0.1  0.2 0.9"')
    bright = bright.replace(
        'name="light2" diffuse=".8 .8 .8" dir="0 -.15 -1"', 'name="light2" diffuse=".8 .8 .8" dir="3 0 -4"'
    )
    bright = re.sub(r'(name="light2".*?) castshadow="false"', r'\1 castshadow="true"', bright)
    (assets / "scenes" / "lights" / "tabletop_light_sync_modified_411.xml").write_text(bright)
    marble = text.replace("../textures/", "../../textures/")
    marble = re.sub(
        r'martin_novak_wood_table.png" type="cube" name="tex-table"',
        'marble_floor.png" type="cube" name="tex-table"',
        marble,
    )
    assert marble.count("marble_floor.png") == 1
    (assets / "scenes" / "tabletop250" / "tabletop_table_Marble.xml").write_text(marble)
    styles = package / "envs" / "arenas" / "style.py"
    styles.parent.mkdir(parents=True)
    styles.write_text('import os\nFLOOR_STYLE = {}\nWALL_STYLE = {"Blue": "dark_blue_wall.png"}\nraise SystemExit\n')
    return folder


def test_lights_and_textures_are_its_files(scenes: Path) -> None:
    found = catalogue(task_in(scenes))
    assert found.unavailable == {NEEDS_BDDL: 1}
    assert {label: found.variations[label].parameters["scene"] for label in list(found.variations)[:3]} == {
        "light-8": "tabletop_light_sync_modified_411.xml",
        "background-table_3": "tabletop_table_Marble.xml",
        "background-tb_2": "tabletop_table_Marble.xml, dark_blue_wall.png",
    }


def test_without_its_assets_lights_and_textures_are_missing(scenes: Path) -> None:
    package = scenes / "libero_plus" / "libero" / "libero"
    assert available(task_in(scenes), parse_name(OTHERS["tb"])) == ""
    bddl(package, OTHERS["light"], "LIBERO_Tabletop_Manipulation_tabletop_light_sync_modified_7")
    bddl(package, OTHERS["tb"], "LIBERO_Tabletop_Manipulation_tabletop_table_Marble_Wall_Red")
    found = catalogue(task_in(scenes))
    assert found.unavailable == {NEEDS_BDDL: 1, NEEDS_ASSETS: 2}
    bddl(package, OTHERS["table"], "LIBERO_Tabletop_Manipulation_else")
    with pytest.raises(
        VlaError, match=r"put_the_bowl_on_the_plate_table_3.bddl: its problem .* is not a LIBERO-Plus scene"
    ):
        available(task_in(scenes), parse_name(OTHERS["table"]))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('name="light1"', 'name="light9"', "has light light1, light light9, in which it differs from"),
        ('size="3 3 .125"', 'size="4 3 .125"', "geom floor: size is not as in"),
        ("../../textures/marble_floor.png", "../../textures/none.png", "there is no picture ../../textures/none.png"),
        ("../../textures/marble_floor.png", "../../textures/martin_novak_wood_table.png", "so it changes nothing"),
        ("<mujoco", "<mujoco <", "cannot be read as a MuJoCo scene"),
    ],
)
def test_scenes_that_differ_in_more_are_refused(scenes: Path, old: str, new: str, why: str) -> None:
    from pytest_vla.suites.libero_plus.scenes import scene_changes

    file = scenes / "libero_plus/libero/libero/assets/scenes/tabletop250/tabletop_table_Marble.xml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(VlaError, match=re.escape(why)) as raised:
        scene_changes(libero_data() / "assets" / "scenes" / "libero_tabletop_base_style.xml", file)
    assert str(raised.value).startswith(str(file))


@pytest.fixture
def world(scenes: Path) -> "World":
    from pytest_vla import World

    return World(task_in(scenes))


def test_episodes_begin_as_the_protocols_say(scenes: Path, world: "World") -> None:
    task = task_in(scenes)
    world.reset(0, settle=False)
    benign, model = world.data.qpos.copy(), world.model
    camera = model.camera("agentview").id
    table = model.texture("tex-table")
    pixels = slice(table.adr[0], table.adr[0] + table.height[0] * table.width[0] * table.nchannel[0])
    names = ("cam_pos", "cam_quat", "light_diffuse", "light_dir", "light_castshadow", "tex_data")
    before = {name: getattr(model, name).copy() for name in names}

    def begin(label: str, protocol: str) -> None:
        assert world.switch(task, catalogue(task, protocol).variations[label])
        world.reset(0, settle=False)

    begin("robot-150", "paper")
    assert world.data.qpos[:7].tolist() == list(robot_qpos(150))
    assert np.array_equal(world.data.qpos[7:], benign[7:])
    begin("robot-150", "upstream")
    assert np.array_equal(world.data.qpos, benign)
    assert model.cam_pos[camera].tolist() == list(camera_pose("tabletop", 0, 0, 1, 0, 0)[0])

    begin("camera-view_30_15_100_0_0", "paper")
    position, quaternion = camera_pose("tabletop", 30, 15, 1.0, 0, 0)
    assert model.cam_pos[camera].tolist() == list(position)
    assert np.linalg.norm(model.cam_quat[camera]) == pytest.approx(1.0, abs=1e-12)
    assert np.abs(np.dot(model.cam_quat[camera], quaternion)) == pytest.approx(1.0, abs=2e-4)

    begin("light-8", "paper")
    assert model.light_diffuse[model.light("light1").id].tolist() == pytest.approx([0.1, 0.2, 0.9])
    assert model.light_dir[model.light("light2").id].tolist() == pytest.approx([0.6, 0.0, -0.8])
    assert [bool(model.light(name).castshadow[0]) for name in ("light1", "light2")] == [False, True]

    for label in ("background-table_3", "background-tb_2"):
        begin(label, "paper")
        assert not np.array_equal(model.tex_data[pixels], before["tex_data"][pixels])
        changed = [i for i in range(model.ntex) if not np.array_equal(*_pixels(model, before["tex_data"], i))]
        assert [model.texture(i).name for i in changed] == (
            ["tex-table"] if label == "background-table_3" else ["tex-table", "tex-wall"]
        )

    assert world.switch(task)
    world.reset(0, settle=False)
    assert np.array_equal(world.data.qpos, benign)
    for name, values in before.items():
        assert np.array_equal(getattr(model, name), values), name


def _pixels(model: Any, other: Any, texture: int) -> tuple[Any, Any]:
    start = model.tex_adr[texture]
    end = start + model.tex_height[texture] * model.tex_width[texture] * model.tex_nchannel[texture]
    return model.tex_data[start:end], other[start:end]
