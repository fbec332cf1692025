"""Categories declared by files: what they say, what is refused, and that a new one takes files alone."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest

from pytest_vla.errors import SceneError
from pytest_vla.plan.data_roots import DataRoot, data_roots
from pytest_vla.plan.manifests import load_suite, suite_folder
from pytest_vla.plan.task import Task
from pytest_vla.scene.catalog import CATEGORIES, category_from_json, find_category, read_category
from pytest_vla.scene.compose import compose
from pytest_vla.scene.problem import parse_problem
from pytest_vla.scene.scene import scene_from_json, scene_to_json

TASKS = suite_folder("tabletop") / "bddl_files" / "tabletop"
OBJECTS = suite_folder("tabletop") / "assets" / "objects"
BOWL_ON_PLATE = "put_the_bowl_on_the_plate"


def declared(folder: Path, text: str, name: str = "mug") -> Path:
    file = folder / "assets" / "objects" / name / "category.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def roots_of(folder: Path) -> tuple[DataRoot, ...]:
    return (DataRoot("--vla-data", assets=folder / "assets"), *data_roots())


def test_an_empty_file_declares_a_plain_object(tmp_path: Path) -> None:
    kind = read_category(declared(tmp_path, ""))
    assert (kind.name, kind.model, kind.single) == ("mug", "objects/mug/mug.xml", True)
    assert (kind.articulation, kind.burner) == (None, None)
    assert kind.rotations == (("x", math.pi, math.pi),), "no turn"


def test_all_that_a_file_can_say(tmp_path: Path) -> None:
    text = """
    yaw_degrees = [-90, 180]
    burner = "flame"
    [articulation]
    open = [0.1, 0.2]
    close = [0, 0.01]
    turn_on = [0.5, 2]
    turn_off = [-0.1, 0]
    """
    kind = read_category(declared(tmp_path, text))
    assert kind.rotations == (("x", 0.0, 1.5 * math.pi),)
    assert kind.burner == "flame"
    doors = kind.articulation
    assert doors is not None
    assert [doors.is_open(position) for position in (0.1, 0.11)] == [False, True]
    assert [doors.is_close(position) for position in (0.009, 0.01)] == [True, False]
    assert [doors.is_turned_on(position) for position in (0.49, 0.5)] == [False, True]
    assert [doors.is_turned_off(position) for position in (-0.01, 0.0)] == [True, False]


def test_a_joint_may_open_downwards(tmp_path: Path) -> None:
    kind = read_category(declared(tmp_path, "[articulation]\nopen = [-0.16, -0.14]\nclose = [0.0, 0.005]"))
    assert kind.articulation == CATEGORIES["wooden_cabinet"].articulation


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("yaw_degrees = 3", r"yaw_degrees = 3: expected \[lowest, highest\], two numbers in this order"),
        ("yaw_degrees = [3, 2]", r"yaw_degrees = \[3, 2\]: expected"),
        ("yaw_degrees = [true, 2]", r"yaw_degrees = \[True, 2\]: expected"),
        ("yaw_degrees = [0, nan]", r"yaw_degrees = \[0, nan\]: expected"),
        ("yaw = [0, 1]", "unknown yaw. Known: yaw_degrees, burner, articulation"),
        ("articulation = 1", r"articulation = 1: expected a table \[articulation\]"),
        ("[articulation]\nopened = [0, 1]", r"unknown opened under \[articulation\]. Known: open, close"),
        ("[articulation]\nopen = [0, 1]", "has open or close without the other: give both or none"),
        ("[articulation]\nturn_off = [0, 1]", "has turn_on or turn_off without the other"),
        ("[articulation]\nopen = [0, 1]\nclose = [1, 2]", "overlap: move them apart"),
        (
            "[articulation]\nturn_on = [0.1, 0.2]\nturn_off = [0, 0.15]",
            r"turn_on = \[0.1, 0.2\] and turn_off .* overlap",
        ),
        ("[articulation]\nturn_on = [0, 0.1]\nturn_off = [0.2, 0.3]", "lies below turn_off = .* Turn the joint's axis"),
        ("burner = 3", "burner = 3: expected the name of a site of mug.xml"),
        ("burner = 'flame'", "burner = 'flame' needs turn_on and turn_off"),
        ("yaw_degrees = [", "cannot be read as TOML: .* Mend the file or copy it again"),
        (f"yaw_degrees = {'[' * 900}{']' * 900}", "cannot be read as TOML: it is nested deeper than 100"),
        (f"yaw_degrees = [0, {'9' * 400}]", "cannot be read as TOML: it has an integer beyond 64 bits"),
        (f"yaw_degrees = [0, {'9' * 5000}]", "cannot be read as TOML: .* Mend the file"),
        (f"yaw_degrees = [0, 0x{'f' * 9000}]", "cannot be read as TOML: it has an integer beyond 64 bits"),
        (f"{'a.' * 3000}b = 1", "cannot be read as TOML: it is nested deeper than 100"),
    ],
)
def test_a_malformed_file_is_named_with_what_was_expected(tmp_path: Path, text: str, complaint: str) -> None:
    file = declared(tmp_path, text)
    with pytest.raises(SceneError, match=complaint) as caught:
        read_category(file)
    assert str(caught.value).startswith(f"{file}: ")


def test_liberos_names_stay_liberos(tmp_path: Path) -> None:
    assert find_category("plate", "f.bddl:1:1", data_roots()) == (CATEGORIES["plate"], None)
    file = declared(tmp_path, "", name="plate")
    with pytest.raises(SceneError, match=r"plate/category.toml: LIBERO has a category 'plate'. Rename this folder"):
        find_category("plate", "f.bddl:1:1", roots_of(tmp_path))
    assert file.is_file()


def test_an_unknown_category_is_told_with_declared_ones(tmp_path: Path) -> None:
    declared(tmp_path, "", name="tea_mug")
    with pytest.raises(SceneError, match=r"f.bddl:1:2: unknown category 'teamug'. Did you mean tea_mug"):
        find_category("teamug", "f.bddl:1:2", roots_of(tmp_path))
    with pytest.raises(SceneError, match=r"unknown category '../plate'"):
        find_category("../plate", "f.bddl:1:2", roots_of(tmp_path))


def test_the_first_root_with_a_category_counts(tmp_path: Path) -> None:
    file = declared(tmp_path, "yaw_degrees = [1, 2]", name="food_box")
    kind, source = find_category("food_box", "f.bddl:1:1", roots_of(tmp_path))
    assert source == file
    ours, shipped = find_category("food_box", "f.bddl:1:1", data_roots())
    assert shipped == OBJECTS / "food_box" / "category.toml"
    assert kind != ours


@pytest.mark.parametrize("name", sorted(path.parent.name for path in OBJECTS.glob("*/category.toml")))
def test_a_category_survives_json(name: str) -> None:
    kind = read_category(OBJECTS / name / "category.toml")
    assert category_from_json(json.loads(json.dumps(dataclasses.asdict(kind)))) == kind


def test_a_scene_keeps_what_its_categories_declare() -> None:
    scene = compose(parse_problem(TASKS / f"{BOWL_ON_PLATE}.bddl"), data_roots()).scene
    assert scene_from_json(json.loads(json.dumps(scene_to_json(scene)))) == scene
    cabinet = scene.body("cabinet_1")
    assert cabinet is not None
    assert cabinet.kind == read_category(OBJECTS / "drawer_cabinet" / "category.toml")
    assert scene.burners == (("stove_1", "stove_1_burner"),)


def test_a_changed_declaration_is_another_scene(tmp_path: Path) -> None:
    """What a category declares is part of what the cache compares."""
    composition = compose(parse_problem(TASKS / f"{BOWL_ON_PLATE}.bddl"), data_roots())
    inputs = {name for origin, name, _ in composition.inputs if origin == "assets"}
    assert {"objects/drawer_cabinet/category.toml", "objects/drawer_cabinet/drawer_cabinet.xml"} <= inputs
    assert {"objects/ceramic_bowl/ceramic_bowl.obj", "scenes/table_planks.png", "scenes/tabletop.xml"} <= inputs


def test_a_new_object_and_a_new_task_take_files_alone(tmp_path: Path) -> None:
    """A user's folder with a copied box of another size, and a task file that puts it on the plate."""
    from pytest_vla import World

    brick = tmp_path / "assets" / "objects" / "brick"
    shutil.copytree(OBJECTS / "food_box", brick)
    (brick / "brick.xml").write_text(
        (brick / "food_box.xml").read_text().replace("0.039 0.025 0.019", "0.03 0.03 0.02")
    )
    (brick / "category.toml").write_text("yaw_degrees = [30, 30]\n")
    text = (TASKS / f"{BOWL_ON_PLATE}.bddl").read_text()
    text = text.replace("box_1 - food_box", "box_1 - food_box\n    brick_1 - brick")
    text = text.replace("(On box_1 main_table_box_region)", "(On box_1 main_table_box_region) (On brick_1 plate_1)")
    text = text.replace("(On bowl_1 plate_1)", "(On brick_1 plate_1)")
    problem = tmp_path / "bddl_files" / "tabletop" / "put_the_brick_on_the_plate.bddl"
    problem.parent.mkdir(parents=True)
    problem.write_text(text)
    protocol = load_suite("tabletop").protocol
    task = Task("tabletop", problem.stem, 0, "put the brick on the plate", protocol, tmp_path)
    world = World(task)
    world.reset(None, scene_seed=1)
    rotation = world.data.body("brick_1_main").xmat.reshape(3, 3)
    assert math.degrees(math.atan2(rotation[1, 0], rotation[0, 0])) == pytest.approx(30, abs=1)
    assert world.predicates() == {"(on brick_1 plate_1)": True}, "it was placed there"


def block(folder: Path, model: str, declaration: str = "") -> Path:
    """A user's wooden block beside the bowl; returns its category.toml."""
    file = declared(folder, declaration, name="wood_block")
    (file.parent / "wood_block.xml").write_text(model)
    return file


def complaint_on(folder: Path, kind: str = "objects") -> str:
    """What a task with the block on the table is refused with."""
    text = (TASKS / f"{BOWL_ON_PLATE}.bddl").read_text()
    before = {"objects": "box_1 - food_box", "fixtures": "rack_1 - bottle_rack"}[kind]
    text = text.replace(before, f"{before}\n    block_1 - wood_block")
    text = text.replace("(On box_1", "(On block_1 main_table_box_side_region) (On box_1")
    task = folder / f"{BOWL_ON_PLATE}.bddl"
    task.write_text(text)
    with pytest.raises(SceneError) as caught:
        compose(parse_problem(task), roots_of(folder))
    return str(caught.value)


PARTS = {
    "geom": '<geom name="wood" type="box" size="0.02 0.02 0.02" group="0"/>',
    "part": '<body name="lid"><joint name="lid" type="hinge"/><geom type="box" size=".1 .1 .1" group="1"/></body>',
    "bottom": '<site name="bottom_site" pos="0 0 -0.02"/>',
    "top": '<site name="top_site" pos="0 0 0.02"/>',
    "radius": '<site name="horizontal_radius_site" pos="0.03 0 0"/>',
}


def model_of(body: str = "object", **parts: str) -> str:
    """The block's model, with some of its parts replaced."""
    geom, part, *sites = (PARTS | parts).values()
    return (
        f'<mujoco><worldbody><body><body name="{body}">{geom}{part}</body>{"".join(sites)}</body></worldbody></mujoco>'
    )


@pytest.mark.parametrize("kind", ["objects", "fixtures"])
@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (model_of(body="block"), 'expected the model in <worldbody><body><body name="object">'),
        (model_of(bottom=""), "expected a site bottom_site (the lowest point) with a pos of three numbers"),
        (model_of(top='<site name="top_site"/>'), "expected a site top_site"),
        (model_of(top='<site name="top_site" pos="0 0 up"/>'), "expected a site top_site"),
        (model_of(radius='<site name="radius" pos="1 0 0"/>'), "expected a site horizontal_radius_site (its x is"),
        (
            model_of(geom='<geom name="wood" type="box" size="1 1 1"/>'),
            "geom 'wood' has group None: expected group=\"0\"",
        ),
        (model_of(part='<site pos="0 0 0"/>'), "expected a name for every site"),
        (model_of(part='<body name="lid"><joint type="slide"/></body>'), "expected a name for every joint"),
        ("<mujoco>", "expected well-formed XML"),
        (model_of(part="<body name='x'>" * 3000 + "</body>" * 3000), "it is nested deeper than 100"),
    ],
)
def test_a_model_that_cannot_be_used_is_named(tmp_path: Path, model: str, complaint: str, kind: str) -> None:
    file = block(tmp_path, model)
    told = complaint_on(tmp_path, kind)
    assert told.startswith(f"{file.with_name('wood_block.xml')}:")
    assert complaint in told


@pytest.mark.parametrize(
    ("declaration", "part", "complaint"),
    [
        (
            "burner = 'b'\n[articulation]\nturn_on = [0.5, 2]\nturn_off = [-0.1, 0]",
            PARTS["part"] + '<site name="flame"/>',
            "burner = 'b': wood_block.xml has no such site in <body name=\"object\">. Add it there or name another: fl",
        ),
        (
            "[articulation]\nopen = [1, 2]\nclose = [0, 0.1]",
            "",
            "[articulation] needs a joint, but wood_block.xml has none",
        ),
        (
            "[articulation]\nopen = [1, 2]\nclose = [0, 0.1]",
            '<body name="lid"><joint name="swivel" type="ball"/></body>',
            "joint 'swivel' of wood_block.xml is of type ball",
        ),
    ],
)
def test_a_declaration_that_its_model_does_not_fit_is_named(
    tmp_path: Path, declaration: str, part: str, complaint: str
) -> None:
    file = block(tmp_path, model_of(part=part), declaration)
    told = complaint_on(tmp_path, "fixtures")
    assert told.startswith(f"{file}: ")
    assert complaint in told


def test_what_robosuite_cannot_read_is_told_as_a_file(tmp_path: Path) -> None:
    block(tmp_path, model_of(geom='<geom class="wood" group="0"/>'))
    told = complaint_on(tmp_path)
    assert told.startswith(
        f"{tmp_path / 'assets' / 'objects' / 'wood_block' / 'wood_block.xml'}: expected a model such as"
    )


def test_missing_files_of_an_own_category_are_not_asked_of_libero(tmp_path: Path) -> None:
    file = declared(tmp_path, "", name="wood_block")
    told = complaint_on(tmp_path)
    assert "assets/objects/wood_block/wood_block.xml: not found, needed for object block_1" in told
    assert f"{file} declares this category: put its model wood_block.xml beside it." in told
    assert "fetch libero" not in told
    for name, place in (("a.png", "assets/objects/wood_block/"), ("../../textures/a.png", "assets/textures/")):
        image = f'<asset><texture name="grain" type="2d" file="{name}"/></asset>'
        file.with_name("wood_block.xml").write_text(model_of().replace("<mujoco>", f"<mujoco>{image}"))
        told = complaint_on(tmp_path)
        assert f"{place}a.png: not found, needed for texture 'block_1_grain' of the scene" in told
        assert f"mend the file name in {file.with_name('wood_block.xml')}." in told
        assert "fetch libero" not in told


def test_liberos_own_missing_model_still_asks_for_libero(tmp_path: Path) -> None:
    text = (TASKS / f"{BOWL_ON_PLATE}.bddl").read_text().replace("box_1 - food_box", "box_1 - red_coffee_mug")
    task = tmp_path / f"{BOWL_ON_PLATE}.bddl"
    task.write_text(text)
    with pytest.raises(SceneError, match=r"red_coffee_mug.xml: not found, .*pytest-vla fetch libero"):
        compose(parse_problem(task), tuple(root for root in data_roots() if root.suite))
