"""Which cases share a scene: by what their task files declare, and never by how their tasks are called."""

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.select import plan
from pytest_vla.run.sharding import scene_names
from tests.support.data import libero_data, needs_data

PROBLEM = """(define (problem LIBERO_Tabletop_Manipulation)
  (:domain robosuite)
  (:language push it)
  (:fixtures main_table - table)
  (:objects {objects})
  (:goal (And (On {name} main_table))))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder on a machine without other data."""
    for name, value in (("LIBERO_CONFIG_PATH", "none"), ("HOME", "home")):
        monkeypatch.setenv(name, str(tmp_path / value))
    data = tmp_path / "data"
    for kind in ("assets", "bddl_files", "init_files"):
        (data / kind).mkdir(parents=True)
    return data


def write(folder: Path, suite: str, task: str, text: str) -> Case:
    path = folder / "bddl_files" / suite / f"{task}.bddl"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return Case(suite, task, 0)


def test_tasks_with_the_same_parts_share_a_scene_across_suites(folder: Path) -> None:
    bowl = PROBLEM.format(objects="bowl_1 bowl_2 - akita_black_bowl", name="bowl_1")
    other_goal = PROBLEM.format(objects="bowl_1 bowl_2 - akita_black_bowl", name="bowl_2")
    plate = PROBLEM.format(objects="plate_1 - plate", name="plate_1")
    one, two = write(folder, "a", "one", bowl), write(folder, "b", "two", other_goal)
    three = write(folder, "a", "three", plate)
    names = scene_names([one, Case("a", "one", 7), two, three], folder)
    assert names[one] == names[Case("a", "one", 7)] == names[two]
    assert names[three] != names[one]


def test_tasks_without_a_usable_file_share_their_suites_name(folder: Path) -> None:
    cases = [write(folder, "a", "broken", "(define"), Case("a", "missing", 0), Case("b", "missing", 0)]
    cases.append(write(folder, "b", "no_such_class", PROBLEM.format(objects="", name="x").replace("Tabletop", "Moon")))
    (folder / "bddl_files" / "a" / "folder.bddl").mkdir()
    cases.append(Case("a", "folder", 0))
    names = scene_names(cases, folder)
    assert [names[case] for case in cases] == ["a", "a", "b", "b", "a"]


def test_a_data_folder_that_is_none_is_left_for_the_episodes_to_tell(folder: Path) -> None:
    case = write(folder, "a", "one", PROBLEM.format(objects="plate_1 - plate", name="plate_1"))
    assert scene_names([case], folder / "nowhere") == {case: "a"}
    assert scene_names([case]) == {case: "a"}


def test_each_task_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_vla.run import sharding as affinity

    write(folder, "a", "one", PROBLEM.format(objects="plate_1 - plate", name="plate_1"))
    read, parse = [], affinity.parse_problem
    monkeypatch.setattr(affinity, "parse_problem", lambda path: (read.append(path), parse(path))[1])
    names = scene_names([Case("a", task, seed) for seed in range(50) for task in ("one", "none")], folder)
    assert len(names) == 100
    assert [path.name for path in read] == ["one.bddl"]


@needs_data
def test_liberos_scenes() -> None:
    suites = [load_suite(name) for name in ("libero_goal", "libero_spatial", "libero_object", "libero_10", "libero_90")]
    names = scene_names(plan(suites), libero_data())
    scenes = {suite.name: {names[case] for case in names if case.suite == suite.name} for suite in suites}
    assert {name: len(found) for name, found in scenes.items()} == {
        "libero_goal": 1,
        "libero_spatial": 1,
        "libero_object": 10,
        "libero_10": 9,
        "libero_90": 20,
    }
    assert len(scenes["libero_10"] & scenes["libero_90"]) == 9, "the ten long tasks are of the ninety's scenes"


@needs_data
def test_it_needs_no_simulator() -> None:
    script = (
        "import sys; from pathlib import Path; from pytest_vla.plan.case import Case;"
        "from pytest_vla.run.sharding import scene_names;"
        f"names = scene_names([Case('libero_goal', 'turn_on_the_stove', 0)], Path({str(libero_data())!r}));"
        "assert 'libero_goal' not in names.values(); print(sorted({'mujoco', 'numpy'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ended.stdout.strip(), ended.stderr) == ("[]", "")
