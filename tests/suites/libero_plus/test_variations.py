"""LIBERO-Plus's tasks as variations: its protocols, and what needs files of its own."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import LABEL
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.suites.libero_plus import variations as libero_plus
from pytest_vla.suites.libero_plus.listing import FILE, read_list
from pytest_vla.suites.libero_plus.names import SUITES, parse_name
from pytest_vla.suites.libero_plus.scenes import NEEDS_BDDL, robot_qpos
from pytest_vla.suites.libero_plus.variations import available, catalogue, variation_of
from tests.support.data import data_root
from tests.support.libero_plus_lists import BOWL, CATEGORY, OTHERS, bddl, listed, task_in

NEEDS_TASKS = "needs LIBERO's BDDL files and assets"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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
    with pytest.raises(VlaError, match=r"LIBERO-Plus's task_classification.json was not found"):
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
