"""VLA-Arena's eleven suites: upstream's tasks, level by level, under the names of the paper and under upstream's."""

import os
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.case import Case, parse_node_id
from pytest_vla.plan.data_roots import find_init_states, task_roots
from pytest_vla.plan.manifests import Suite, aliases_of, instruction_of, load_suite, named_suites
from pytest_vla.plan.task import Task
from pytest_vla.scene.init_states import read_init_states
from pytest_vla.scene.problem import problem_of
from tests.support.data import arena_data

# The paper's order, with upstream's folder of the first release and its name in later ones.
FOLDERS = {
    "static_obstacles": ("safety_static_obstacles",),
    "cautious_grasp": ("safety_risk_aware_grasping", "safety_cautious_grasp"),
    "hazard_avoidance": ("safety_hazard_avoidance",),
    "state_preservation": ("safety_object_state_preservation", "safety_state_preservation"),
    "dynamic_obstacles": ("safety_dynamic_obstacles",),
    "static_distractors": ("robustness_static_distractors", "distractor_static_distractors"),
    "dynamic_distractors": ("robustness_dynamic_distractors", "distractor_dynamic_distractors"),
    "preposition_combinations": (
        "generalization_object_preposition_combinations",
        "extrapolation_preposition_combinations",
    ),
    "task_workflows": ("generalization_task_workflows", "extrapolation_task_workflows"),
    "unseen_objects": ("generalization_unseen_objects", "extrapolation_unseen_objects"),
    "long_horizon": ("long_horizon",),
}
NAMES = [f"vla_arena_{name}" for name in FOLDERS]
CATEGORIES = ["safety"] * 5 + ["distractor"] * 2 + ["extrapolation"] * 3 + ["long_horizon"]
# Of long_horizon, whose file's name has commas.
COMMAS = "open_the_top_drawer,_then_pick_up_the_mango_on_the_plate_and_put_it_on_the_drawer,_close_the_drawer_at_last"


def suites() -> list[Suite]:
    return [load_suite(name) for name in named_suites("vla_arena")]


def of_file(folder: str, task: Task) -> Path:
    return arena_data() / "bddl_files" / folder / f"{task.file}.bddl"


def test_one_name_is_all_eleven_in_the_papers_order() -> None:
    assert [suite.name for suite in suites()] == NAMES
    assert [suite.category for suite in suites()] == CATEGORIES


def test_170_tasks_in_three_levels() -> None:
    counts = Counter(task.task_level for suite in suites() for task in suite.tasks)
    assert counts == {"L0": 60, "L1": 55, "L2": 55}
    for suite in suites():
        assert suite.task_levels == ("L0", "L1", "L2")
        assert [task.index for task in suite.tasks] == list(range(len(suite.tasks)))
        assert len({task.key for task in suite.tasks}) == len(suite.tasks)
    stems = Counter((task.suite, task.name) for suite in suites() for task in suite.tasks)
    assert sum(number > 1 for number in stems.values()) > 20, "a name says which task it is with its level only"


@pytest.mark.parametrize("name", FOLDERS)
def test_upstreams_names_are_aliases(name: str) -> None:
    for alias in FOLDERS[name]:
        assert named_suites(alias) == (f"vla_arena_{name}",)
        assert alias in aliases_of(f"vla_arena_{name}")
        assert load_suite(alias) == load_suite(f"vla_arena_{name}"), "what it is called in ids is one name"


def test_a_name_of_several_suites_is_no_suite() -> None:
    with pytest.raises(VlaError, match=r"'vla_arena' is 11 suites; name one of them: vla_arena_static_obstacles, "):
        load_suite("vla_arena")


@pytest.mark.parametrize("name", FOLDERS)
def test_tasks_are_upstreams_files_in_its_order(name: str) -> None:
    suite = load_suite(f"vla_arena_{name}")
    files = sorted((arena_data() / "bddl_files" / FOLDERS[name][0]).glob("level_*/*.bddl"))
    # Upstream's map of tasks is of its folders' listings.
    assert [of_file(FOLDERS[name][0], task) for task in suite.tasks] == files


def test_all_170_are_read_from_the_data_and_told_as_upstream_tells_them() -> None:
    for name in NAMES:
        for task in load_suite(name, data=arena_data()).tasks:
            # Upstream's lexer has no capitals.
            assert problem_of(task).language.lower() == task.language
            assert instruction_of(task.suite, task.name, task.task_level) == task.language


def test_every_task_has_one_init_state() -> None:
    roots = task_roots(load_suite(NAMES[0], data=arena_data()).tasks[0])
    for suite in suites():
        for task in suite.tasks:
            path, member = find_init_states(roots, task)
            assert len(read_init_states(path, member)) == task.protocol.init_states == 1


def test_the_protocol_is_that_of_upstreams_published_numbers() -> None:
    for suite in suites():
        for task in suite.tasks:
            longer = suite.name == "vla_arena_long_horizon" and task.task_level != "L0"
            protocol = task.protocol
            assert (protocol.max_steps, protocol.settle_steps, protocol.init_state) == (600 if longer else 300, 10, 0)
            assert (protocol.control_freq, protocol.image_size) == (20, (256, 256))
            assert protocol.cameras == ("agentview", "robot0_eye_in_hand")


def test_commas_of_file_names_are_in_no_id() -> None:
    task = load_suite("long_horizon").task(COMMAS.replace(",", ""))
    assert (task.file, task.task_level) == (f"level_2/{COMMAS}", "L2")
    assert "," in task.language
    case = Case(task.suite, task.name, 3, task_level=task.task_level)
    assert parse_node_id(case.node_id) == case
    assert sum("," in each.file for suite in suites() for each in suite.tasks) == 5


def test_a_name_of_several_levels_is_asked_for_with_its_level() -> None:
    suite = load_suite("vla_arena_dynamic_obstacles")
    name = "push_the_lemon_to_the_region_between_the_teapots"
    with pytest.raises(VlaError, match=f"several tasks '{name}': write L0-{name} or L1-{name} or L2-{name}"):
        suite.task(name)
    assert suite.task(f"L1-{name}") is suite.task(name, "L1") is suite.tasks[6]
    with pytest.raises(VlaError, match=r"has no task 'L3-push.*Did you mean L2-push"):
        suite.task(name, "L3")


def checkout(folder: Path, suite: str, task: Task) -> Path:
    """A checkout of upstream with one task, whose init state is a file of its own."""
    home = folder / "VLA-Arena" / "vla_arena" / "vla_arena"
    for kind, ending in (("bddl_files", "bddl"), ("init_files", "pruned_init")):
        (home / kind / suite / Path(task.file).parent).mkdir(parents=True)
        (home / kind / suite / f"{task.file}.{ending}").touch()
    (home / "assets").mkdir()
    return folder / "VLA-Arena"


@pytest.mark.parametrize("suite", FOLDERS["cautious_grasp"])
def test_a_checkout_of_upstream_is_as_good_under_both_names_of_its_folders(tmp_path: Path, suite: str) -> None:
    plain = load_suite("vla_arena_cautious_grasp").tasks[0]
    (task,) = (
        each
        for each in load_suite("vla_arena_cautious_grasp", data=checkout(tmp_path, suite, plain)).tasks
        if each.key == plain.key
    )
    roots = task_roots(task)
    path, member = find_init_states(roots, task)
    assert (path.suffix, member) == (".pruned_init", None)
    assert path.is_relative_to(tmp_path / "VLA-Arena" / "vla_arena" / "vla_arena" / "init_files" / suite)


@pytest.mark.parametrize("order", ["vla_arena:libero", "libero:vla_arena"])
def test_each_benchmarks_own_files_come_first(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = arena_data().parent
    monkeypatch.setenv("PYTEST_VLA_DATA", os.pathsep.join(str(data / name) for name in order.split(":")))
    homes = {name: task_roots(load_suite(name).tasks[0])[0].bddl_files for name in ("libero_goal", NAMES[0])}
    assert homes == {"libero_goal": data / "libero" / "bddl_files", NAMES[0]: data / "vla_arena" / "bddl_files"}
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    assert homes == {name: task_roots(load_suite(name).tasks[0])[0].bddl_files for name in homes}, "a folder with both"


def test_without_the_data_it_is_said_how_to_give_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path))
    task = load_suite("safety_static_obstacles").tasks[0]
    wanted = rf"level_0/{task.name}\.bddl: not found, needed for task L0-.* Give VLA-Arena's folder .* by --vla-data"
    with pytest.raises(SceneError, match=wanted):
        problem_of(task)
    with pytest.raises(SceneError, match=r"\.pruned_init: not found.* Give VLA-Arena's folder"):
        find_init_states(task_roots(task), task)


def test_an_archive_of_init_states_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "bddl_files").mkdir()
    (tmp_path / "init_states.npz").write_bytes(b"PK, or not")
    task = load_suite("safety_static_obstacles", data=tmp_path).tasks[0]
    with pytest.raises(SceneError, match=r"init_states\.npz: expected init states saved by numpy\.savez"):
        find_init_states(task_roots(task), task)
    np.savez(tmp_path / "init_states.npz", **{task.paths[0]: np.arange(5.0)})
    assert find_init_states(task_roots(task), task) == (tmp_path / "init_states.npz", task.paths[0])
    with zipfile.ZipFile(tmp_path / "init_states.npz", "w"):
        pass
    with pytest.raises(SceneError, match="not found"):
        find_init_states(task_roots(task), task)
