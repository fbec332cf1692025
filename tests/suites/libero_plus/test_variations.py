"""LIBERO-Plus's tasks as variations: its cameras, its arms, its protocols, and what needs files of its own."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.labels import LABEL
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.suites.libero_plus import variations as libero_plus
from pytest_vla.suites.libero_plus.listing import FILE, LIST, read_list
from pytest_vla.suites.libero_plus.names import SUITES
from pytest_vla.suites.libero_plus.scenes import NEEDS_ASSETS, NEEDS_BDDL
from pytest_vla.suites.libero_plus.variations import (
    available,
    camera_pose,
    catalogue,
    parse_name,
    robot_qpos,
    variation_of,
)
from tests.support.data import data_root, golden, libero_data

if TYPE_CHECKING:
    from pytest_vla import World

BOWL = "put_the_bowl_on_the_plate"
PLAIN = "view_0_0_100_0_0_initstate_0"
NEEDS_TASKS = "needs LIBERO's BDDL files and assets"
OTHERS = {
    "light": f"{BOWL}_light_8",
    "table": f"{BOWL}_table_3",
    "tb": f"{BOWL}_tb_2",
    "language": f"{BOWL}_language_5_{PLAIN}",
    "level": f"{BOWL}_moved_level2_sample1",
    "add": f"{BOWL}_add_9",
    "camera": f"{BOWL}_view_30_15_100_0_0_initstate_0",
    "robot": f"{BOWL}_view_0_0_100_0_0_initstate_150",
    "noise": f"{BOWL}_{PLAIN}_noise_33",
}
CATEGORY = {
    "light": "Light Conditions",
    "table": "Background Textures",
    "tb": "Background Textures",
    "language": "Language Instructions",
    "level": "Objects Layout",
    "add": "Objects Layout",
    "camera": "Camera Viewpoints",
    "robot": "Robot Initial States",
    "noise": "Sensor Noise",
}


SCENES = {
    "tabletop": "LIBERO_Tabletop_Manipulation",
    "kitchen": "libero_kitchen_tabletop_manipulation",
    "study": "libero_study_tabletop_manipulation",
    "living_room": "libero_living_room_tabletop_manipulation",
    "floor": "LIBERO_Floor_Manipulation",
    "coffee_table": "libero_coffee_table_manipulation",
}


def test_cameras_are_upstreams_to_the_last_decimal() -> None:
    poses = json.loads(golden("libero_plus_camera.json").read_text())
    assert {pose["scene"] for pose in poses} == set(SCENES)
    for pose in poses:
        for scene in (pose["scene"], SCENES[pose["scene"]]):
            position, quaternion = camera_pose(scene, pose["h"], pose["v"], pose["scale"], pose["r"], pose["e"])
            assert position == pytest.approx(pose["pos"], abs=1e-9), pose
            sign = 1.0 if np.dot(quaternion, pose["quat_wxyz"]) > 0 else -1.0
            assert np.multiply(sign, quaternion) == pytest.approx(pose["quat_wxyz"], abs=1e-9), pose


@pytest.mark.parametrize(
    ("scene", "numbers", "position", "quaternion"),
    [
        ("tabletop", (30, 0, 1, 0, 0), (0.5704, 0.3293, 1.6104), (0.4511, 0.2156, 0.3734, 0.7814)),
        ("tabletop", (0, 15, 1, 0, 0), (0.4264, 0, 1.7532), (0.6723, 0.219, 0.219, 0.6723)),
        ("tabletop", (75, 15, 1, 0, 0), (0.1104, 0.4119, 1.7532), (0.1241, 0.0404, 0.307, 0.9427)),
        ("tabletop", (0, 0, 2.0, 0, 0), (1.3172, 0, 2.4208), (0.638, 0.3048, 0.3048, 0.638)),
        ("tabletop", (0, 0, 1, 10, 350), (0.6586, 0, 1.6104), (0.549, 0.3363, 0.3795, 0.6644)),
        ("floor", (0, 0, 2, 0, 0), (1.7932, 0, 0.5), (0.6182, 0.3432, 0.3432, 0.6182)),
        ("floor", (75, 15, 1, 0, 0), (0.2342, 0.8741, 0.8872), (0.1214, 0.0479, 0.364, 0.9222)),
        # Nothing is perturbed, and yet the pose is rounded.
        ("floor", (0, 0, 1, 0, 0), (0.8966, 0, 0.65), (0.6182, 0.3432, 0.3432, 0.6182)),
    ],
)
def test_cameras_are_those_of_the_specification(
    scene: str, numbers: tuple[Any, ...], position: tuple[float, ...], quaternion: tuple[float, ...]
) -> None:
    found, turned = camera_pose(scene, *numbers)
    assert found == pytest.approx(position, abs=1e-9)
    assert np.abs(np.dot(turned, quaternion)) == pytest.approx(1.0, abs=2e-4)
    assert np.sign(turned[0]) * np.array(turned) == pytest.approx(quaternion, abs=1e-9)


@pytest.mark.parametrize(
    ("workspace", "scene"),
    [
        ("main_table", "tabletop"),
        ("kitchen_table", "kitchen"),
        ("living_room_table", "living_room"),
        ("study_table", "study"),
        ("floor", "floor"),
        ("coffee_table", "coffee_table"),
    ],
)
def test_a_scene_is_known_by_its_workspace_too(workspace: str, scene: str) -> None:
    assert camera_pose(workspace, 30, 15, 1.5, 2, 358) == camera_pose(SCENES[scene], 30, 15, 1.5, 2, 358)


def test_the_five_operations_are_rounded_one_after_another() -> None:
    position, quaternion = camera_pose("kitchen", 40, 15, 1.37, 8, 354)
    step, turned = camera_pose("kitchen", 40, 15, 1, 0, 0)
    assert position == tuple(round(p + (x - p) * 1.37, 4) for p, x in zip((0, 0, 0.8), step, strict=True))
    _, yawed = camera_pose("kitchen", 40, 15, 1, 8, 0)
    assert yawed != turned
    assert quaternion != yawed
    assert all(value == round(value, 4) for value in (*position, *quaternion))
    # E turns about y and from the left, so that the yaw before it is kept.
    half = np.radians(354) / 2
    w, x, y, z = np.array(yawed) / np.linalg.norm(yawed)
    c, s = np.cos(half), -np.sin(half)
    assert np.array([c * w - s * y, c * x + s * z, c * y + s * w, c * z - s * x]) == pytest.approx(quaternion, abs=6e-5)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("tabeltop", 0, 0, 1, 0, 0), "there is no scene 'tabeltop'. Did you mean"),
        (("tabletop", float("nan"), 0, 1, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", 0, 0, 0, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", "3", 0, 1, 0, 0), "expected degrees and a positive scale, found ('3', 0, 1, 0, 0)"),
        (("tabletop", 0, 0, 1, None, 0), "expected degrees and a positive scale"),
        (("tabletop", True, 0, 1, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", 10**400, 0, 1, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", 0, 0, 10**400, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", 0, 0, [1.0], 0, 0), "expected degrees and a positive scale"),
        ((3, 0, 0, 1, 0, 0), "expected a scene's name, tabletop, kitchen, "),
        ((None, 0, 0, 1, 0, 0), "found None"),
        (("living_room_tabel", 0, 0, 1, 0, 0), "Did you mean living_room_table, living_room"),
    ],
)
def test_no_camera_is_made_of_what_is_no_parameter(arguments: tuple[Any, ...], why: str) -> None:
    with pytest.raises(VlaError, match=re.escape(why)):
        camera_pose(*arguments)


def test_the_arms_poses_are_drawn_in_order_and_grow_by_the_hundred() -> None:
    generator = np.random.RandomState(42)
    directions = generator.randn(500, 7)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    poses = np.array([robot_qpos(number) for number in range(1, 501)])
    norms = np.repeat([0.1, 0.2, 0.3, 0.4, 0.5], 100)
    assert np.abs(poses - (np.array(REST_JOINTS) + directions * norms[:, None])).max() <= 5e-9
    assert all(value == round(value, 8) for value in poses.ravel().tolist())
    assert len({tuple(pose) for pose in poses.tolist()}) == 500
    assert np.linalg.norm(poses - REST_JOINTS, axis=1) == pytest.approx(norms, abs=1e-7)


@pytest.mark.parametrize("number", [0, 501, -1, True, 1.5, 1.0, float("nan"), "1", None])
def test_there_are_five_hundred_poses_of_the_arm(number: Any) -> None:
    with pytest.raises(VlaError, match=re.escape(f"robot_qpos({number!r}): expected 1 to 500")):
        robot_qpos(number)


def listed(folder: Path, names: dict[str, str] | None = None) -> Path:
    """A data folder with LIBERO's data and a list of some entries."""
    (folder / "libero").symlink_to(libero_data())
    package = folder / "libero_plus" / "libero" / "libero"
    (package / "benchmark").mkdir(parents=True)
    rows = [
        {"id": number, "name": name, "category": CATEGORY[key], "difficulty_level": number % 5 + 1}
        for number, (key, name) in enumerate((names or OTHERS).items(), 1)
    ]
    (package / LIST).write_text(json.dumps({"libero_goal": rows}))
    return package


def task_in(folder: Path) -> Task:
    return load_suite("libero_goal", data=folder).task(BOWL)


def bddl(package: Path, name: str, problem: str, language: str = "Put the bowl on the plate") -> Path:
    text = (libero_data() / "bddl_files" / "libero_goal" / f"{BOWL}.bddl").read_text()
    text = re.sub(r"\(problem \w+\)", f"(problem {problem})", text)
    text = re.sub(r"\(:language [^)]*\)", f"(:language {language})", text)
    file = package / "bddl_files" / "libero_goal" / f"{name.partition('_view_')[0]}.bddl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)
    return tmp_path


def test_what_needs_files_is_counted_and_the_rest_is_made(folder: Path) -> None:
    listed(folder)
    found = catalogue(task_in(folder))
    assert found.unavailable == {NEEDS_BDDL: 4}
    assert list(found.variations) == [
        *("layout-level2-sample1", "layout-add_9"),
        *("camera-view_30_15_100_0_0", "robot-150", "noise-33"),
    ]
    for label, variation in found.variations.items():
        assert variation.label == label
        assert variation.parameters["protocol"] == "paper"
        assert variation.parameters["name"] in OTHERS.values()
        assert variation.instruction is None
        assert variation.level in (1, 2, 3, 4, 5)
        assert variation.changes_world
    assert available(task_in(folder), parse_name(OTHERS["light"])) == NEEDS_BDDL
    assert available(task_in(folder), parse_name(OTHERS["camera"])) == ""
    assert libero_plus.unavailable([task_in(folder)] * 2) == {NEEDS_BDDL: 8}
    with pytest.raises(VlaError, match=r"put_the_bowl_on_the_plate_light_8 needs the BDDL files"):
        variation_of(task_in(folder), parse_name(OTHERS["light"]))


def test_protocols_differ_in_the_arm_and_in_what_is_told(folder: Path) -> None:
    listed(folder)
    paper, upstream = (catalogue(task_in(folder), protocol).variations for protocol in ("paper", "upstream"))
    assert list(paper) == list(upstream)
    assert [variation.instruction for variation in upstream.values()] == [
        "put the bowl on the plate moved level2 sample1",
        "put the bowl on the plate add 9",
        "put the bowl on the plate view 30 15 100 0 0 initstate 0",
        "put the bowl on the plate view 0 0 100 0 0 initstate 150",
        "put the bowl on the plate view 0 0 100 0 0 initstate 0 noise 33",
    ]
    one, other = paper["robot-150"], upstream["robot-150"]
    assert one.rest_joints == other.rest_joints == robot_qpos(150)
    assert (one.parameters["protocol"], other.parameters["protocol"]) == ("paper", "upstream")
    assert (one.kind, one.parameters["norm"]) == ("norm-0.2", 0.2)
    state = np.zeros(90)
    one.state[0](None, None, state)  # type: ignore[arg-type]
    assert state[1:8].tolist() == list(robot_qpos(150))
    assert not state[8:].any()
    assert state[0] == 0
    assert other.state == ()
    # Its code rounds the camera's pose in every task.
    assert [len(variation.model) for variation in paper.values()] == [0, 0, 1, 0, 0]
    assert [len(variation.model) for variation in upstream.values()] == [1] * 5
    with pytest.raises(VlaError, match="no protocol 'papers'; expected paper or upstream"):
        catalogue(task_in(folder), "papers")


def test_made_layouts_say_so_and_can_be_drawn_again(folder: Path) -> None:
    listed(folder)
    found = catalogue(task_in(folder)).variations
    for label in ("layout-level2-sample1", "layout-add_9"):
        variation = found[label]
        assert variation.parameters["regenerated"] is True
        # What the list has counts, wherever its rule puts things.
        assert not variation.in_sight
        assert variation.redraw is not None
        again = variation.redraw(1)
        assert again.label == label
        assert again.parameters != variation.parameters
        assert again.redraw is not None
        assert again.redraw(1).parameters == again.parameters
    assert found["layout-level2-sample1"].parameters["radius"] == 0.04


@pytest.mark.parametrize("protocol", libero_plus.PROTOCOLS)
def test_an_added_layout_begins_with_the_arm_exactly_at_rest(folder: Path, protocol: str) -> None:
    from pytest_vla import World

    listed(folder)
    task = task_in(folder)
    with World(task, catalogue(task, protocol).variations["layout-add_9"]) as world:
        for init_state in (0, 7):
            world.reset(init_state, settle=False)
            assert world.data.qpos[:7].tolist() == list(REST_JOINTS)
            own = world.init_states[init_state]
            assert np.abs(own[1:8] - REST_JOINTS).max() > 0.001, "the task's own have noise, which goes"
            bowl = int(world.model.joint("akita_black_bowl_1_joint0").qposadr[0])
            assert world.data.qpos[7:bowl].tolist() == own[8 : 1 + bowl].tolist(), "nothing else of it does"


def test_the_start_of_a_layouts_own_file_keeps_its_arm(folder: Path) -> None:
    package = listed(folder)
    bddl(package, OTHERS["add"], "LIBERO_Tabletop_Manipulation")
    (edit,) = catalogue(task_in(folder)).variations["layout-add_9"].state
    state = np.ones(90)
    edit(None, None, state)  # type: ignore[arg-type]
    assert state[1:8].tolist() == list(REST_JOINTS)
    start = package / "init_files" / "libero_newobj" / "libero_goal" / f"{OTHERS['add']}.pruned_init"
    start.parent.mkdir(parents=True)
    with start.open("wb") as stream:
        np.save(stream, np.arange(5.0))
    taken = variation_of(task_in(folder), parse_name(OTHERS["add"]))
    assert taken.init_states is not None
    assert taken.state == ()


def test_a_checkouts_layouts_are_taken_as_they_are(folder: Path) -> None:
    package = listed(folder)
    file = bddl(package, OTHERS["level"], "LIBERO_Tabletop_Manipulation")
    start = package / "init_files" / "libero_newobj" / "libero_goal" / f"{OTHERS['level']}.pruned_init"
    start.parent.mkdir(parents=True)
    with start.open("wb") as stream:
        np.save(stream, np.arange(5.0))
    strange = bddl(package, OTHERS["add"], "LIBERO_Tabletop_Manipulation")
    strange.write_text(
        strange.read_text().replace("plate_1 - plate", "plate_1 - plate\n    yogurt_1 - box_of_yogurt__1")
    )
    found = catalogue(task_in(folder)).variations
    taken = found["layout-level2-sample1"]
    assert taken.parameters["file"] == file.name
    assert "regenerated" not in taken.parameters
    assert not taken.in_sight
    assert taken.init_states is not None
    assert taken.init_states().tolist() == [[0, 1, 2, 3, 4]]
    # It declares what only LIBERO-Plus's assets have.
    assert found["layout-add_9"].parameters["regenerated"] is True


def test_rewritten_instructions_are_its_files(folder: Path) -> None:
    names = {"language": OTHERS["language"]}
    package = listed(folder, names)
    bddl(package, OTHERS["language"], "LIBERO_Tabletop_Manipulation", "Could  you set the Bowl atop the plate")
    for protocol in libero_plus.PROTOCOLS:
        variation = catalogue(task_in(folder), protocol).variations["language-5"]
        assert variation.instruction == "could you set the bowl atop the plate"
        assert variation.parameters["file"] == f"{BOWL}_language_5.bddl"
        assert "defect" not in variation.parameters


def test_what_is_no_instruction_is_run_as_published_and_marked(folder: Path) -> None:
    package = listed(folder, {"language": OTHERS["language"]})
    told = "Here are 20 variations of the given instruction while maintaining its core meaning"
    bddl(package, OTHERS["language"], "LIBERO_Tabletop_Manipulation", told)
    variation = catalogue(task_in(folder)).variations["language-5"]
    assert variation.instruction == told.lower()
    assert "beginning of a language model's answer" in variation.parameters["defect"]


def test_without_libero_only_layouts_are_missing(tmp_path: Path, folder: Path) -> None:
    rows = [{"id": 1, "name": OTHERS[key], "category": CATEGORY[key], "difficulty_level": None} for key in OTHERS]
    (tmp_path / FILE).write_text(json.dumps({"libero_goal": rows}))
    found = catalogue(task_in(folder))
    assert found.unavailable == {NEEDS_BDDL: 4, NEEDS_TASKS: 2}
    assert list(found.variations) == ["camera-view_30_15_100_0_0", "robot-150", "noise-33"]


def test_a_list_without_a_task_is_told(folder: Path) -> None:
    listed(folder)
    with pytest.raises(VlaError, match=r"has nothing of libero_goal/turn_on_the_stove; expected LIBERO-Plus's"):
        catalogue(load_suite("libero_goal", data=folder).task("turn_on_the_stove"))


def test_no_list_is_told(folder: Path) -> None:
    with pytest.raises(VlaError, match=r"LIBERO-Plus's task_classification.json is nowhere"):
        catalogue(task_in(folder))


def test_composite_names_are_one_variation(folder: Path) -> None:
    listed(folder)
    entry = parse_name(f"{BOWL}_add_9_view_30_0_100_0_0_initstate_150_noise_12")
    made = variation_of(task_in(folder), entry)
    assert made.dimension == "layout+camera+robot+noise"
    assert made.rest_joints == robot_qpos(150)
    # The arm is at rest in a layout's start, and then where the robot's part puts it.
    assert [len(edits) for edits in (made.problem, made.model, made.state, made.pictures)] == [1, 1, 2, 1]
    state = np.zeros(90)
    for edit in made.state:
        edit(None, None, state)  # type: ignore[arg-type]
    assert state[1:8].tolist() == list(robot_qpos(150))
    assert made.redraw is not None
    assert made.redraw(1).rest_joints == robot_qpos(150)


def test_the_published_list_is_made_as_far_as_it_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    root = data_root()
    if root is None or not (root / "libero_plus" / FILE).is_file():
        pytest.skip(f"needs LIBERO-Plus's {FILE} in the data folder")
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)
    entries = {entry.name: entry for found in read_list(root / "libero_plus" / FILE).values() for entry in found}
    made = 0
    tasks = [task for suite in SUITES for task in load_suite(suite, data=root).tasks]
    for task in tasks:
        found = catalogue(task).variations
        made += len(found)
        for label, variation in found.items():
            entry = entries[variation.parameters["name"]]
            assert re.fullmatch(LABEL, label)
            assert (variation.dimension, variation.kind) == (entry.dimension, entry.sub_dimension)
            assert variation.level == entry.difficulty
    assert made == 10_030 - 1_537 - 1_142 - 1_076
    assert libero_plus.unavailable(tasks) == {NEEDS_BDDL: 1_537 + 1_142 + 1_076}


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
    with pytest.raises(VlaError, match=r"put_the_bowl_on_the_plate_table_3.bddl: its problem .* is no scene"):
        available(task_in(scenes), parse_name(OTHERS["table"]))


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('name="light1"', 'name="light9"', "has light light1, light light9, in which it differs from"),
        ('size="3 3 .125"', 'size="4 3 .125"', "geom floor: size is not as in"),
        ("../../textures/marble_floor.png", "../../textures/none.png", "there is no picture ../../textures/none.png"),
        ("../../textures/marble_floor.png", "../../textures/martin_novak_wood_table.png", "so it changes nothing"),
        ("<mujoco", "<mujoco <", "cannot be read as a scene"),
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
