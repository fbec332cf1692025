"""What lint finds beside a task's text: categories, models, init states, and what a scene does as it settles."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.episode.lint import lint_file, simulate_file
from pytest_vla.plan.manifests import suite_folder
from pytest_vla.scene.lint.reading import LintFinding
from tests.support.data import REPOSITORY, arena_data, libero_data
from tests.support.lint_tasks import changed

PLATE = "put_the_bowl_on_the_plate"
PLATE_FILE = REPOSITORY / "suites" / "tabletop" / "bddl_files" / "tabletop" / f"{PLATE}.bddl"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A data folder with one task of tabletop, and its init states."""
    suite = suite_folder("tabletop")
    assert suite is not None
    for kind, ending in (("bddl_files", "bddl"), ("init_files", "pruned_init")):
        folder = tmp_path / kind / "tabletop"
        folder.mkdir(parents=True)
        shutil.copy(suite / kind / "tabletop" / f"{PLATE}.{ending}", folder)
    return tmp_path


def task_of(home: Path) -> Path:
    return home / "bddl_files" / "tabletop" / f"{PLATE}.bddl"


def codes(found: tuple[LintFinding, ...]) -> list[str]:
    return [each.code for each in found]


def test_our_own_tasks_have_no_fault() -> None:
    files = sorted(PLATE_FILE.parent.glob("*.bddl"))
    assert len(files) >= 10
    assert [each for file in files for each in lint_file(str(file))] == []


def test_unknown_categories(tmp_path: Path) -> None:
    file = tmp_path / "put_the_butter_on_the_plate.bddl"
    file.write_text(changed("butter_1 - butter => butter_1 - buter"))
    (finding,) = [each for each in lint_file(str(file)) if each.code == "O003"]
    assert finding.message.startswith("unknown category 'buter'. Did you mean butter")
    assert (finding.line, finding.column) == (12, 13)


def test_a_category_of_ones_own_is_known_where_its_file_is(home: Path) -> None:
    file = task_of(home)
    assert lint_file(str(file)) == ()
    folder = home / "assets" / "objects" / "brick"
    text = file.read_text().replace("- dinner_plate", "- brick")
    file.write_text(text)
    assert "O003" in codes(lint_file(str(file)))
    folder.mkdir(parents=True)
    (folder / "category.toml").touch()
    assert "O003" not in codes(lint_file(str(file)))


def test_init_states_of_another_task(home: Path) -> None:
    file = task_of(home)
    assert lint_file(str(file)) == ()
    states = home / "init_files" / "tabletop" / f"{PLATE}.pruned_init"
    with states.open("wb") as stream:
        np.save(stream, np.zeros((2, 40)))
    (finding,) = lint_file(str(file))
    assert finding.code == "I002"
    assert "have 40 numbers" in finding.message
    states.write_bytes(b"nonsense")
    (finding,) = lint_file(str(file))
    assert finding.code == "I002"
    assert "cannot be used" in finding.message


def test_init_states_of_vla_arena_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its archive is looked into: another task's vector is told."""
    arena = arena_data()
    monkeypatch.setenv("PYTEST_VLA_DATA", str(arena))
    name = "long_horizon/level_0/pick_up_the_apple_and_place_it_in_the_box"
    assert codes(lint_file(str(arena / "bddl_files" / f"{name}.bddl"))) in ([], ["R003"])
    with np.load(arena / "init_states.npz") as stored:
        np.savez(tmp_path / "init_states.npz", **{name: stored[name][..., :-1]})
    copy = tmp_path / "bddl_files" / f"{name}.bddl"
    copy.parent.mkdir(parents=True)
    shutil.copy(arena / "bddl_files" / f"{name}.bddl", copy)
    assert "I002" in codes(lint_file(str(copy)))


def test_parts_that_models_do_not_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(libero_data()))
    file = tmp_path / "put_the_butter_on_the_plate.bddl"
    goal = "(On butter_1 plate_1)) => (On butter_1 plate_1) (On butter_1 wooden_cabinet_1_top_shelf)"
    file.write_text(changed(f"{goal})", "(top_region (:target => (top_shelf (:target"))
    (finding,) = [each for each in lint_file(str(file)) if each.code == "R005"]
    assert "no site top_shelf" in finding.message
    assert "top_side" in finding.message
    file.write_text(changed("(On butter_1 plate_1)) => (On butter_1 plate_1) (On butter_1 wooden_cabinet_1))"))
    (finding,) = [each for each in lint_file(str(file)) if each.code == "G006"]
    assert finding.message.endswith("(On butter_1 wooden_cabinet_1_top_side)")


def test_geoms_that_do_not_collide(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(libero_data()))
    file = tmp_path / "put_the_butter_on_the_plate.bddl"
    file.write_text(changed("Fall plate_1 => CheckGripperContactPart plate_1 (0 1 77)"))
    (finding,) = [each for each in lint_file(str(file)) if each.code == "C008"]
    assert "no geom of plate_1 that collides has the number 0 or 77; expected some of (1 2 3 " in finding.message


def test_small_regions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(libero_data()))
    file = tmp_path / "put_the_butter_on_the_plate.bddl"
    file.write_text(changed("((-0.1 -0.1 0.1 0.1)) => ((-0.01 -0.01 0.01 0.01))"))
    (finding,) = [each for each in lint_file(str(file)) if each.code == "R003"]
    assert "butter_1 is wider than the region left" in finding.message


def test_measured_premises_of_suites() -> None:
    task = "pick_up_the_black_bowl_on_the_ramekin_and_place_it_on_the_plate"
    found = lint_file(str(libero_data() / "bddl_files" / "libero_spatial" / f"{task}.bddl"))
    (finding,) = [each for each in found if each.code == "I001"]
    assert "in 50 init states under mujoco 3.8.1" in finding.message


def test_a_scene_without_fault_settles(home: Path) -> None:
    assert simulate_file(str(task_of(home)), states=2) == ()


def test_a_goal_that_holds_at_the_start(home: Path) -> None:
    """By the scene, not by what :init says."""
    file = task_of(home)
    file.write_text(
        file.read_text().replace("(:goal (And (On bowl_1 plate_1)))", "(:goal (On plate_1 main_table_plate_region))")
    )
    found = simulate_file(str(file), states=2)
    assert codes(found) == ["G003"]
    assert "in 2 of 2 init states here" in found[0].message


def test_costs_of_an_arm_that_does_nothing(home: Path) -> None:
    """What holds from the start, and what a success would be charged; not what is far, nor what no step changes."""
    file = task_of(home)
    cost = "(CheckDistance box_1 bowl_1 1) (InContact box_1 bowl_1) (On bowl_1 main_table_bowl_region)"
    literals = f"{cost} (Up box_1) (NotOn box_1 plate_1) (CheckGripperContact box_1) (Fall rack_1)"
    file.write_text(file.read_text().replace("(:goal", f"(:cost (And {literals}))\n(:goal"))
    found = simulate_file(str(file), states=1)
    assert {each.code for each in found} == {"C004"}
    told = {each.message.split(") ")[0]: each.message for each in found}
    on, apart = "(on bowl_1 main_table_bowl_region", "(checkdistance box_1 bowl_1 1"
    assert set(told) == {on, apart, "(noton box_1 plate_1"}
    assert "is charged in 30 of the first 30 control steps" in told[apart]
    assert "would be charged for any success" in told["(noton box_1 plate_1"]


def test_a_scene_that_cannot_be_built(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = task_of(home)
    file.write_text(file.read_text().replace("- dinner_plate", "- brick"))
    assert codes(simulate_file(str(file))) == ["I004"]
    outside = tmp_path_factory.mktemp("outside") / "a.bddl"
    outside.write_text(changed())
    (finding,) = simulate_file(str(outside))
    assert finding.code == "I004"
    assert "bddl_files/SUITE" in finding.message
    assert simulate_file(str(outside.with_name("gone.bddl"))) == ()


@pytest.mark.slow
def test_an_idle_arm_is_charged_where_the_specification_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 15 tasks of hazard avoidance; and by the drop in which they settle, the obstacles of levels 1 and 2."""
    folder = arena_data() / "bddl_files"
    monkeypatch.setenv("PYTEST_VLA_DATA", os.pathsep.join(map(str, (arena_data(), libero_data()))))
    hazards = sorted((folder / "safety_hazard_avoidance").rglob("*.bddl"))
    assert [file.name for file in hazards if "C004" not in codes(simulate_file(str(file), states=1))] == []
    assert len(hazards) == 15
    for level, charged in ((0, 0), (1, 1), (2, 2)):
        for file in (folder / "safety_static_obstacles" / f"level_{level}").glob("*.bddl"):
            found = [each for each in simulate_file(str(file), states=1) if each.code == "C004"]
            assert len(found) == charged, file.name
            assert all(each.message.startswith("(fall ") for each in found)
