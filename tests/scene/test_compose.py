"""Scenes composed from LIBERO's files: what is missing or wrong is named; all 130 tasks compile."""

import shutil
from pathlib import Path

import mujoco
import pytest

from pytest_vla.errors import SceneError
from pytest_vla.plan.data_roots import DataRoot, data_roots
from pytest_vla.scene.compose import compose
from pytest_vla.scene.problem import parse_problem, parse_problem_text
from pytest_vla.scene.scene import scene_from_json, scene_parts, scene_to_json
from tests.support.data import data_root, libero_data

_TASK = "libero_90/KITCHEN_SCENE5_put_the_black_bowl_on_the_plate.bddl"


@pytest.fixture
def roots() -> tuple[DataRoot, ...]:
    libero_data()
    return data_roots(data_root())


def _text() -> str:
    return (libero_data() / "bddl_files" / _TASK).read_text()


def test_parts_of_a_scene(roots: tuple[DataRoot, ...]) -> None:
    scene = compose(parse_problem_text(_text()), roots).scene
    assert [body.name for body in scene.bodies if body.is_fixture] == ["white_cabinet_1"]
    cabinet = scene.body("white_cabinet_1")
    assert cabinet is not None
    assert len(cabinet.joints) == 3
    drawer = scene.site("white_cabinet_1_top_region")
    assert drawer is not None
    assert drawer.parent == "white_cabinet_1"
    assert len(drawer.joints) == 1
    assert set(drawer.joints) < set(cabinet.joints)
    zone = next(site for site in scene.sites if site.name.startswith("kitchen_table_"))
    assert (zone.parent, zone.joints, len(zone.size)) == (None, (), 3)
    assert scene_from_json(scene_to_json(scene)) == scene


def test_a_missing_object_file_names_object_file_and_roots(roots: tuple[DataRoot, ...], tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    shutil.copytree(libero_data() / "assets" / "scenes", assets / "scenes")
    with pytest.raises(SceneError) as caught:
        compose(parse_problem_text(_text()), (DataRoot("--vla-data", assets=assets),))
    message = str(caught.value)
    assert "articulated_objects/white_cabinet.xml: not found, needed for fixture white_cabinet_1" in message
    assert f"{assets} (--vla-data)" in message


def test_a_missing_texture_is_named_too_and_found_in_a_later_root(roots: tuple[DataRoot, ...], tmp_path: Path) -> None:
    assets = tmp_path / "assets"
    plate = Path("stable_scanned_objects") / "plate"
    (assets / plate).mkdir(parents=True)
    shutil.copy(libero_data() / "assets" / plate / "plate.xml", assets / plate)
    composition = compose(parse_problem_text(_text()), (DataRoot("first", assets=assets), *roots))
    used = {name: path for origin, name, path in composition.inputs if origin == "assets"}
    assert used["stable_scanned_objects/plate/plate.xml"].is_relative_to(assets)
    assert used["stable_scanned_objects/plate/texture.png"].is_relative_to(libero_data())
    mujoco.MjModel.from_xml_string(composition.xml)
    for folder in ("scenes", "articulated_objects", "textures"):
        shutil.copytree(libero_data() / "assets" / folder, assets / folder)
    for other in ("akita_black_bowl", "plate"):
        shutil.copytree(
            libero_data() / "assets/stable_scanned_objects" / other,
            assets / "stable_scanned_objects" / other,
            dirs_exist_ok=True,
        )
    shutil.copytree(libero_data() / "assets/stable_hope_objects/ketchup", assets / "stable_hope_objects/ketchup")
    texture = assets / plate / "texture.png"
    texture.chmod(0o644)
    texture.unlink()
    with pytest.raises(SceneError, match=r"plate/texture\.png: not found, needed for texture .* Searched: "):
        compose(parse_problem_text(_text()), (DataRoot("only", assets=assets),))


def test_broken_xml_names_file_and_place(roots: tuple[DataRoot, ...], tmp_path: Path) -> None:
    plate = tmp_path / "assets" / "stable_scanned_objects" / "plate"
    plate.mkdir(parents=True)
    (plate / "plate.xml").write_text("<mujoco>\n  <worldbody\n")
    with pytest.raises(SceneError, match=r"plate\.xml:2:3: expected well-formed XML for object plate_1"):
        compose(parse_problem_text(_text()), (DataRoot("first", assets=tmp_path / "assets"), *roots))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("plate_1 - plate\n", "plate_1 - plat\n", r":\d+:\d+: unknown category 'plat'. Did you mean plate"),
        ("LIBERO_Kitchen_Tabletop_Manipulation", "LIBERO_Kichen_Tabletop_Manipulation", "Did you mean libero_kitchen"),
    ],
)
def test_unknown_names_are_located(roots: tuple[DataRoot, ...], old: str, new: str, message: str) -> None:
    text = _text()
    assert old in text
    with pytest.raises(SceneError, match=message):
        compose(parse_problem_text(text.replace(old, new), source="scene.bddl"), roots)


def test_scene_parts_leave_out_what_does_not_decide_the_model() -> None:
    libero_data()
    folder = libero_data() / "bddl_files" / "libero_goal"
    parts = [scene_parts(parse_problem(path)) for path in folder.glob("*.bddl")]
    assert len(parts) == 10
    assert all(part == parts[0] for part in parts)


@pytest.mark.slow
def test_all_130_tasks_compile(roots: tuple[DataRoot, ...]) -> None:
    from pytest_vla.scene.placement import plan_placement
    from pytest_vla.sim.verdicts import compile_goal

    models: dict[str, mujoco.MjModel] = {}
    paths = sorted((libero_data() / "bddl_files").glob("*/*.bddl"))
    assert len(paths) == 130
    for path in paths:
        problem = parse_problem(path)
        composition = compose(problem, roots)
        key = repr(scene_parts(problem))
        if key not in models:
            models.clear()
            models[key] = mujoco.MjModel.from_xml_string(composition.xml)
        model = models[key]
        plan = plan_placement(problem, composition.scene)
        assert {placer.body.name for placer in plan.placers} <= {body.name for body in composition.scene.bodies}
        goal = compile_goal(problem, composition.scene, model, mujoco.MjData(model))
        assert len(goal) == len(problem.goal) > 0
