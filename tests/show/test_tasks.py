"""`pytest-vla show` of tasks: which tasks a text names, and that the pictures are those of the right moments."""

from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.show.runs import is_run, load_runs, run_sheet
from pytest_vla.show.tasks import Drawing, find_tasks, instruction_text, task_sheet
from tests.support.coloured import ColouredWorld
from tests.support.kept_runs import BOWL, STOVE, described, tasks
from tests.support.worlds import libero_task

pytestmark = pytest.mark.usefixtures("drawn")


def test_a_task_is_named_by_its_suite_by_its_name_or_by_a_part() -> None:
    for text in ("libero_goal/turn_on_the_stove", "libero_goal/turn_on", "LIBERO_GOAL/TURN_ON".swapcase()):
        assert [(task.suite, task.name) for task in find_tasks(text)] == [("libero_goal", STOVE)]
    assert [task.name for task in find_tasks("SCENE5_put_the_red_mug_on_the_left_plate")] == [
        "LIVING_ROOM_SCENE5_put_the_red_mug_on_the_left_plate"
    ]
    assert find_tasks("libero_goal") == find_tasks("libero_goal/") == load_suite("libero_goal").tasks
    assert find_tasks("libero_goal/turn_on", Path("data"))[0].data == Path("data")


def test_a_task_that_stands_at_several_levels_is_named_with_its_level() -> None:
    lemon = "push_the_lemon_to_the_region_between_the_teapots"
    for text in (f"L1-{lemon}", f"safety_dynamic_obstacles/L1-{lemon}", "vla_arena/L1-push_the_lemon"):
        assert [task.key for task in find_tasks(text)] == [f"L1-{lemon}"]
    with pytest.raises(VlaError, match=r"matches 3 tasks: vla_arena_dynamic_obstacles/L0-.*, .*/L1-.*, .*/L2-"):
        find_tasks("push_the_lemon")
    assert len(find_tasks("vla_arena")) == 170
    assert instruction_text(find_tasks(f"L1-{lemon}")[0]) == "L1: push the lemon to the region between the teapots"
    assert instruction_text(load_suite("libero_goal").task(STOVE)) == "turn on the stove"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("libero_goal/bowl", r"matches 5 tasks: libero_goal/put_the_bowl_on_the_stove, .*Name one of them"),
        ("plate", r"matches \d+ tasks: tabletop/push_the_plate_.* and \d+ more"),
        ("turn_on_the_stov", r"matches \d+ tasks: tabletop/turn_on_the_stove, libero_10/"),
        ("turn_on_the_stove", r"matches 2 tasks: tabletop/turn_on_the_stove, libero_goal/turn_on_the_stove\."),
        ("put_the", r"matches \d+ tasks: tabletop/.* and \d+ more"),
        ("tabletp", r"is 'tabletp'[^?]*Did you mean tabletop, tabletop_safety\? [^?]*$"),
        ("", "'' names no task.*shows the tasks of a suite: tabletop, "),
        (" ", "' ' names no task"),
        ("/", "'/' names no task"),
        ("/turn_on", "there is no suite ''"),
        ("tabletp/", r"no suite 'tabletp'\. Did you mean tabletop, tabletop_safety\?"),
        ("libero_goal/stoev", r"no task of libero_goal is 'stoev'.* Did you mean stove\?"),
        (
            "libero_gaol",
            r"is 'libero_gaol'.*Did you mean libero_goal.*shows the tasks of a suite: tabletop, tabletop_safety, ",
        ),
        ("libero_gaol/bowl", r"no suite 'libero_gaol'\. Did you mean libero_goal"),
    ],
)
def test_what_names_no_task_or_several_is_told_with_what_is_near(text: str, message: str) -> None:
    with pytest.raises(VlaError, match=message):
        find_tasks(text)


def test_no_suite_and_no_task_is_taken_for_a_run() -> None:
    texts = [*suite_names(), *(task.name for name in suite_names() for task in load_suite(name).tasks)]
    assert [text for text in texts if is_run(text)] == []
    assert is_run("last")
    assert is_run("20261121-113331-1f01")
    assert is_run("2026")


def test_a_task_s_sheet_has_each_seed_and_camera_as_a_policy_first_sees_them(drawn: dict[str, Any]) -> None:
    task_sheet(tasks(STOVE), (0, 4), Drawing())
    assert [[described(cell) for cell in row] for row in drawn["rows"]] == [
        [
            (100, 0, "seed 0, agentview", "plain"),
            (100, 1, "seed 0, robot0_eye_in_hand", "plain"),
        ],
        [
            # Seed 4 is init state 4 mod 3.
            (101, 0, "seed 4, agentview", "plain"),
            (101, 1, "seed 4, robot0_eye_in_hand", "plain"),
        ],
    ]
    assert drawn["title"] == "turn on the stove"
    assert drawn["subtitle"] == "libero_goal/turn_on_the_stove\ngoal: (on bowl_1 plate_1)"
    assert ColouredWorld.log == [("reset", STOVE, 0, 0, True), ("reset", STOVE, 1, 4, True), ("close",)]


def test_several_tasks_have_a_picture_each_of_one_world(drawn: dict[str, Any]) -> None:
    task_sheet(load_suite("libero_goal").tasks, None, Drawing())
    cells = [described(cell) for row in drawn["rows"] for cell in row]
    names = [task.language for task in load_suite("libero_goal").tasks]
    assert cells == [(100, 0, name, "plain") for name in names]
    assert len(ColouredWorld.made) == 1
    assert len(drawn["rows"]) == 2
    assert drawn["title"] == "LIBERO-Goal"
    assert drawn["subtitle"] == "libero_goal: 10 tasks, seed 0, agentview"


def test_cameras_size_data_and_versions_are_as_asked(drawn: dict[str, Any]) -> None:
    drawing = Drawing(cameras=("frontview",), size=(40, 50), data=Path("x"), allow_versions=True)
    task_sheet(tasks(STOVE, BOWL), (1, 2), drawing)
    cells = [cell for row in drawn["rows"] for cell in row]
    assert [described(cell)[2] for cell in cells[:3]] == [  # type: ignore[index]
        "turn on the stove: seed 1, frontview",
        "turn on the stove: seed 2, frontview",
        "put the bowl on the stove: seed 1, frontview",
    ]
    assert {cell.picture.shape for cell in cells} == {(40, 50, 3)}
    with pytest.raises(
        VlaError, match=r"libero_goal/turn_on_the_stove has no camera fly: .*Valid names: \['agentview'"
    ):
        task_sheet(tasks(STOVE), None, Drawing(cameras=("fly",)))


def test_too_many_pictures_are_refused_before_one_is_drawn() -> None:
    with pytest.raises(VlaError, match="1002 pictures are too many"):
        task_sheet(tasks(STOVE), range(501), Drawing())
    assert ColouredWorld.log == []


def test_too_large_a_sheet_is_refused_before_a_picture_is_drawn(results: Path) -> None:
    for draw in (
        lambda: task_sheet(tasks(STOVE), range(16), Drawing(size=(4096, 4096))),
        lambda: task_sheet(tasks(STOVE, BOWL), range(100), Drawing(size=(2000, 2000))),
        lambda: run_sheet(load_runs(["20260101", "last"], results), (), None, 2, Drawing(size=(9999, 9999))),
    ):
        with pytest.raises(VlaError, match=r"pixels is too large\. Use fewer tasks, seeds or cameras, or smaller"):
            draw()
    assert (ColouredWorld.made, ColouredWorld.log) == ([], [])


@pytest.mark.slow
def test_libero_s_own_scene_is_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, drawn: dict[str, Any]) -> None:
    task = libero_task("libero_goal", STOVE)
    monkeypatch.undo()
    task_sheet([task], (0, 1), Drawing(cameras=("agentview", "birdview"), size=(64, 80)))
    with pytest.raises(VlaError, match=r"has no camera fly: .*birdview"):
        task_sheet([task], (0,), Drawing(cameras=("fly",)))
