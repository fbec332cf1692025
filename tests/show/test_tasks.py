"""`pytest-vla show`: which tasks and runs a text names, and that the pictures are those of the right moments."""

import dataclasses
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from pytest_vla.cli import main
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.records.record import Record, parse_record, record_line
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import Trajectory, save_trajectory
from pytest_vla.scene.variation import Variation
from pytest_vla.show import runs as run_sheets
from pytest_vla.show import tasks as sheets
from pytest_vla.show.runs import is_run, load_runs, run_sheet, run_video
from pytest_vla.show.sheet import Cell
from pytest_vla.show.tasks import Drawing, find_tasks, task_sheet
from pytest_vla.vary.registry import find_variation
from tests.support.records import record_of
from tests.support.worlds import libero_task

STOVE, BOWL = "turn_on_the_stove", "put_the_bowl_on_the_stove"
CAMERAS = ("agentview", "robot0_eye_in_hand", "frontview")


class World:
    """A world whose pictures are of one colour: task, what it was reset to or shown, camera."""

    made: ClassVar[list[str]] = []
    log: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, task: Any, variation: Variation | None = None, *, allow_versions: bool = False) -> None:
        self.task, self.variation, self.allow_versions, self.init_state_count = task, variation, allow_versions, 3
        type(self).made.append(task.name)

    def switch(self, task: Any, variation: Variation | None = None) -> bool:
        same = bool(task.suite == self.task.suite)
        self.task, self.variation = (task, variation) if same else (self.task, self.variation)
        return same

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Mapping[str, Any]:
        under = [] if self.variation is None else [self.variation]
        self.log.append(("reset", self.task.name, init_state, scene_seed, settle, *under))
        return self._pictures(100 + init_state)

    def show(self, qpos: np.ndarray, step: int) -> Mapping[str, Any]:
        if len(qpos) != 1:
            raise VlaError("a recorded state is qpos")
        self.log.append(("show", self.task.name, float(qpos[0]), step))
        return self._pictures(int(qpos[0]))

    def predicates(self) -> dict[str, bool]:
        return {"(on bowl_1 plate_1)": False}

    def _pictures(self, colour: int) -> Mapping[str, Any]:
        height, width = self.task.protocol.image_size
        unknown = set(self.task.protocol.cameras) - set(CAMERAS)
        if unknown:
            return Unknown()
        return {
            f"{camera}_image": np.full((height, width, 3), (colour, CAMERAS.index(camera), 250), np.uint8)
            for camera in self.task.protocol.cameras
        }

    def close(self) -> None:
        self.log.append(("close",))


class Unknown(dict[str, Any]):
    """What MuJoCo says where a model has no such camera."""

    def __missing__(self, name: str) -> Any:
        raise KeyError("Invalid name 'fly'. Valid names: ['agentview', 'frontview']")


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The fake world in the simulator's place, and what was asked of the sheet."""
    module: Any = types.ModuleType("pytest_vla.sim.world")
    module.World = World
    monkeypatch.setitem(sys.modules, "pytest_vla.sim.world", module)
    World.made, World.log = [], []
    asked: dict[str, Any] = {}
    real = sheets.sheet

    def spy(rows: Any, **texts: Any) -> Any:
        asked.update(rows=rows, **texts)
        return real(rows, **texts)

    for module_of_sheets in (sheets, run_sheets):
        monkeypatch.setattr(module_of_sheets, "sheet", spy)
    return asked


def described(cell: Cell | None) -> tuple[int, int, str, str] | None:
    """A fake picture's colour and camera, and the cell's texts: ``name: label``."""
    if cell is None:
        return None
    colour, camera, _ = cell.picture[0, 0]
    return int(colour), int(camera), ": ".join(filter(None, (cell.name, cell.label))), cell.tone


def tasks(*names: str) -> list[Any]:
    return [load_suite("libero_goal").task(name) for name in names]


def test_a_task_is_named_by_its_suite_by_its_name_or_by_a_part() -> None:
    for text in ("libero_goal/turn_on_the_stove", "libero_goal/turn_on", "LIBERO_GOAL/TURN_ON".swapcase()):
        assert [(task.suite, task.name) for task in find_tasks(text)] == [("libero_goal", STOVE)]
    assert [task.name for task in find_tasks("SCENE5_put_the_red_mug_on_the_left_plate")] == [
        "LIVING_ROOM_SCENE5_put_the_red_mug_on_the_left_plate"
    ]
    assert find_tasks("libero_goal") == find_tasks("libero_goal/") == load_suite("libero_goal").tasks
    assert find_tasks("libero_goal/turn_on", Path("data"))[0].data == Path("data")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("libero_goal/bowl", r"in the names of 5 tasks: libero_goal/put_the_bowl_on_the_stove, .*Write one of them"),
        ("plate", r"in the names of \d+ tasks: tabletop/push_the_plate_.*, libero_10/.* and \d+ more"),
        ("turn_on_the_stov", r"in the names of \d+ tasks: tabletop/turn_on_the_stove, libero_10/"),
        ("turn_on_the_stove", r"in the names of 2 tasks: tabletop/turn_on_the_stove, libero_goal/turn_on_the_stove\."),
        ("put_the", r"in the names of \d+ tasks: tabletop/.* and \d+ more"),
        ("tabletp", r"is 'tabletp'[^?]*Did you mean tabletop\? [^?]*$"),
        ("", "'' names no task.*shows the tasks of a suite: tabletop, "),
        (" ", "' ' names no task"),
        ("/", "'/' names no task"),
        ("/turn_on", "there is no suite ''"),
        ("tabletp/", r"no suite 'tabletp'\. Did you mean tabletop\?"),
        ("libero_goal/stoev", r"no task of libero_goal is 'stoev'.* Did you mean stove\?"),
        (
            "libero_gaol",
            r"is 'libero_gaol'.*Did you mean libero_goal.*shows the tasks of a suite: tabletop, libero_10, libero_90",
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
    assert World.log == [("reset", STOVE, 0, 0, True), ("reset", STOVE, 1, 4, True), ("close",)]


def test_several_tasks_have_a_picture_each_of_one_world(drawn: dict[str, Any]) -> None:
    task_sheet(load_suite("libero_goal").tasks, None, Drawing())
    cells = [described(cell) for row in drawn["rows"] for cell in row]
    names = [task.language for task in load_suite("libero_goal").tasks]
    assert cells == [(100, 0, name, "plain") for name in names]
    assert len(World.made) == 1
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
    assert World.log == []


def test_too_large_a_sheet_is_refused_before_a_picture_is_drawn(results: Path) -> None:
    for draw in (
        lambda: task_sheet(tasks(STOVE), range(16), Drawing(size=(4096, 4096))),
        lambda: task_sheet(tasks(STOVE, BOWL), range(100), Drawing(size=(2000, 2000))),
        lambda: run_sheet(load_runs(["20260101", "last"], results), (), None, 2, Drawing(size=(9999, 9999))),
    ):
        with pytest.raises(VlaError, match="pixels is too large: take fewer tasks, seeds or cameras, or smaller"):
            draw()
    assert (World.made, World.log) == ([], [])


def test_videos_have_as_many_frames_as_the_run_s_own(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_vla.records.record.VIDEO_EVERY", 3)
    run_video(load_runs(["20260101"], results)[0], ("turn_on",), (1,), tmp_path / "x.webm", Drawing(size=(64, 64)))
    assert [entry[2] for entry in World.log if entry[0] == "show"] == [10.0, 13.0, 16.0, 17.0]


def keep(results: Path, run: str, model: str, *records: Record, **settings: Any) -> None:
    """A run with these records and a trajectory of each: the colours are step + 10 x seed."""
    with open_store(results, create=True) as store:
        nodes = [record.node for record in records]
        store.begin(run, nodes, command="", model=model, invocation={"settings": settings})
        for record in records:
            if record.arrays is not None:
                rows = np.arange(record.steps + 1.0)[:, None] + 10 * record.seed
                save_trajectory(results / run / record.arrays, Trajectory(rows, rows, rows, rows[1:]))
            store.add(dataclasses.replace(record, run=run))
        store.end(run, "finished")


def ended(task: str, seed: int, outcome: str, steps: int, **changes: Any) -> Record:
    case = Case("libero_goal", task, seed)
    seeds = {"run": 0, "scene": 70 + seed, "init_state": seed % 3, "init_states": 3}
    about = {"task": task, "case": case.id, "node": case.node_id, "steps": steps, "seeds": seeds}
    return record_of(seed, outcome, **({"arrays": f"libero_goal/{task}-seed{seed}.npz"} | about | changes))


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs: of an expert (one episode broke before its first state), and at random (one task only)."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".vla"
    keep(
        *(folder, "20260101-one", "expert"),
        *(ended(STOVE, 1, "success", 7), ended(STOVE, 0, "success", 4)),
        ended(BOWL, 2, "error", 0, arrays=None, reason="world-broke"),
        ended(STOVE, 0, "failure", 9, node="test_mine.py::test_it[x]", arrays="libero_goal/x.npz"),
    )
    keep(folder, "20260102-two", "random", ended(STOVE, 0, "failure", 9))
    return folder


def test_runs_stand_side_by_side_with_the_start_and_the_end_of_each_task(results: Path, drawn: dict[str, Any]) -> None:
    run_sheet(load_runs(["20260101", "last"], results), (), None, 2, Drawing())
    (first, second) = [[described(cell) for cell in row] for row in drawn["rows"]]
    assert first[0] is not None
    broke = "put the bowl on the stove: seed 2, error, world-broke, after 0 steps"
    assert first[0][2:] == (broke, "bad"), "a grey picture says it"
    assert first[1:] == [None, None, None]
    assert second == [
        (0, 0, "turn on the stove: seed 0, step 0", "plain"),
        (4, 0, "success after 4 steps", "good"),
        (0, 0, "step 0", "plain"),
        (9, 0, "failure after 9 steps", "bad"),
    ]
    assert drawn["heads"] == ["expert", "", "random", ""]
    assert drawn["title"] == "libero_goal"
    assert drawn["subtitle"].splitlines() == [
        "expert: 2/2 = 100.0% [34.2%, 100.0%], 1 error: 66.7% to 100.0%   (run 20260101-one)",
        "random: 0/1 = 0.0% [0.0%, 79.3%]   (run 20260102-two)",
    ]
    resets = [entry for entry in World.log if entry[0] == "reset"]
    assert resets == [("reset", STOVE, 0, 70, False)] * 2, "fixtures stand where they stood, and nothing settles again"
    assert len(World.made) == 1


def test_moments_lie_evenly_over_the_episode(results: Path, drawn: dict[str, Any]) -> None:
    run_sheet(load_runs(["last"], results), (), None, 4, Drawing())
    assert [described(cell)[0] for cell in drawn["rows"][0]] == [0, 3, 6, 9]  # type: ignore[index]
    run_sheet(load_runs(["last"], results), (), None, 1, Drawing())
    assert not any(drawn["heads"]), "the subtitle says which run it is"
    assert [described(cell) for cell in drawn["rows"][0]] == [
        (9, 0, "turn on the stove: seed 0, failure after 9 steps", "bad")
    ]


def test_episodes_are_chosen_by_task_and_seed(results: Path, drawn: dict[str, Any]) -> None:
    runs = load_runs(["20260101-one"], results)
    run_sheet(runs, ("turn_on",), (0, 1), 1, Drawing(cameras=("frontview",), size=(20, 20)))
    assert [[described(cell) for cell in row] for row in drawn["rows"]] == [
        [
            (4, 2, "turn on the stove: seed 0, success after 4 steps", "good"),
            (17, 2, "turn on the stove: seed 1, success after 7 steps", "good"),
        ]
    ]
    with pytest.raises(VlaError, match=r"run 20260101-one: no episode with all tasks, seeds 7, 8"):
        run_sheet(runs, (), (7, 8), 1, Drawing())
    with pytest.raises(VlaError, match="no task of libero_goal is 'fly'"):
        run_sheet(runs, ("fly",), None, 1, Drawing())
    with pytest.raises(VlaError, match="pictures are too many"):
        run_sheet(runs, (), (0, 1), 501, Drawing())


def test_runs_of_one_model_are_told_apart_by_their_names(results: Path, drawn: dict[str, Any]) -> None:
    keep(results, "20260103-three", "random", ended(STOVE, 0, "failure", 9))
    run_sheet(load_runs(["20260102", "20260103"], results), (), None, 1, Drawing())
    assert drawn["heads"] == ["20260102-two", "20260103-three"]


def test_the_data_is_the_run_s_own_unless_another_is_given(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(results, "20260103-three", "random", ended(STOVE, 0, "failure", 9), data="/data/of/run")
    used: list[Path | None] = []
    monkeypatch.setattr(World, "predicates", None)
    real = World.__init__

    def spy(self: World, task: Any, *variation: Any, **options: Any) -> None:
        used.append(task.data)
        real(self, task, *variation, **options)

    monkeypatch.setattr(World, "__init__", spy)
    run_sheet(load_runs(["last"], results), (), None, 1, Drawing())
    run_sheet(load_runs(["last"], results), (), None, 1, Drawing(data=Path("mine")))
    assert used == [Path("/data/of/run"), Path("mine")]


def test_a_run_is_its_folder_too(results: Path) -> None:
    assert is_run(".vla/20260102-two")
    assert not is_run(".vla")
    (run,) = load_runs([".vla/20260102-two"], Path("elsewhere"))
    assert (run.run.name, run.folder) == ("20260102-two", results / "20260102-two")
    with pytest.raises(VlaError, match="there is no run '3'"):
        load_runs(["3"], results)
    with open_store(results, create=True) as store:
        store.begin("20260103-empty", [], command="", model="random")
    with pytest.raises(VlaError, match="run 20260103-empty has no episode yet"):
        load_runs(["last"], results)


def test_states_that_are_gone_are_told_by_their_file(results: Path) -> None:
    (results / "20260102-two" / "libero_goal" / f"{STOVE}-seed0.npz").unlink()
    with pytest.raises(VlaError, match=r"turn_on_the_stove-seed0\.npz: expected an npz file"):
        run_sheet(load_runs(["last"], results), (), None, 1, Drawing())


def test_the_video_of_one_episode_is_drawn_afterwards(results: Path, tmp_path: Path) -> None:
    runs = load_runs(["20260101"], results)
    run_video(runs[0], ("turn_on",), (1,), tmp_path / "x.webm", Drawing(size=(64, 64)))
    assert (tmp_path / "x.webm").stat().st_size > 0
    assert [entry[2] for entry in World.log if entry[0] == "show"] == [10.0, 12.0, 14.0, 16.0, 17.0]
    with pytest.raises(
        VlaError, match=r"has 2 with all tasks, seeds 0, 1: .*Name one with --tasks, --seeds and --vary"
    ):
        run_video(runs[0], (), (0, 1), tmp_path / "x.webm", Drawing())
    with pytest.raises(VlaError, match=r"has 0 with all tasks, seeds 5\. Name"):
        run_video(runs[0], (), (5,), tmp_path / "x.webm", Drawing())
    with pytest.raises(VlaError, match=r"left no states to draw: world-broke"):
        run_video(runs[0], (BOWL,), None, tmp_path / "x.webm", Drawing())


# Episodes of varied cases.

DISTANCE, JOINT, WORDS = "camera.distance-L3", "robot.joints-L2+noise.fog-L2", "language.words-L1"


def varied(label: str, seed: int, outcome: str = "success", **changes: Any) -> Record:
    """The record of an episode under a variation, as it is read back."""
    found = find_variation(tasks(STOVE)[0], label, seed)
    assert found is not None
    record = ended(STOVE, seed, outcome, 4, variation=found.table(), arrays=f"libero_goal/{label}-{seed}.npz")
    told = {"instruction": found.instruction} if found.instruction is not None else {}
    case = Case("libero_goal", STOVE, seed, label)
    record = dataclasses.replace(record, **({"case": case.id, "node": case.node_id} | told | changes))
    return parse_record(record_line(record))


@pytest.fixture
def varied_run(results: Path) -> Path:
    """A run with a task as it is, under a variation with two seeds, under a joint one and in other words."""
    records = [ended(STOVE, 0, "success", 4), varied(DISTANCE, 2, "failure"), varied(DISTANCE, 1)]
    keep(results, "20260105-varied", "expert", *records, varied(JOINT, 0), varied(WORDS, 0))
    return results


def test_episodes_are_drawn_under_their_variations(varied_run: Path, drawn: dict[str, Any]) -> None:
    run_sheet(load_runs(["last"], varied_run), (), None, 2, Drawing(cameras=("frontview",)))
    cells = [described(cell) for row in drawn["rows"] for cell in row]
    told = find_variation(tasks(STOVE)[0], WORDS, 0)
    assert told is not None
    assert [cell[2] for cell in cells[::2] if cell] == [
        "turn on the stove: seed 0, step 0",
        "turn on the stove: camera.distance-L3, seed 1, step 0",
        f"{told.instruction}: language.words-L1, seed 0, step 0",
        "turn on the stove: robot.joints-L2+noise.fog-L2, seed 0, step 0",
    ], "the lowest seed of each"
    resets = [entry[5:] for entry in World.log if entry[0] == "reset"]
    assert [[each.label for each in entry] for entry in resets] == [[], [DISTANCE], [], [JOINT]]
    assert resets[3][0] == find_variation(tasks(STOVE)[0], JOINT, 0), "what was drawn is the same"
    shown = [entry[3] for entry in World.log if entry[0] == "show"]
    assert shown == [0, 0, 4] * 4, "noise of pictures goes by the step"


def test_a_record_s_variation_may_have_been_drawn_anew(results: Path) -> None:
    first = find_variation(tasks(STOVE)[0], "robot.joints-L2", 0)
    assert first is not None
    assert first.redraw is not None
    again = first.redraw(3)
    assert again != first
    keep(results, "20260105-varied", "expert", varied("robot.joints-L2", 0, variation=again.table()))
    run_sheet(load_runs(["last"], results), (), None, 1, Drawing())
    assert [entry[5] for entry in World.log if entry[0] == "reset"] == [again]


def test_a_variation_that_cannot_be_made_again_leaves_a_blank_with_the_reason(
    results: Path, tmp_path: Path, drawn: dict[str, Any]
) -> None:
    other = {**varied(DISTANCE, 0).variation, "parameters": {"factor": 9.0}}
    gone = {"label": "camera.none-L3", "dimension": "camera", "kind": "none", "level": 3, "parameters": {}}
    node = Case("libero_goal", STOVE, 0, "camera.none-L3").node_id
    records = [ended(STOVE, 0, "success", 4), varied(DISTANCE, 0, variation=other)]
    keep(results, "20260105-varied", "expert", *records, varied(DISTANCE, 0, variation=gone, node=node))
    (run,) = load_runs(["last"], results)
    run_sheet([run], (), None, 2, Drawing())
    benign, *others = [described(cell) for row in drawn["rows"] for cell in row[::2]]
    assert benign == (0, 0, "turn on the stove: seed 0, step 0", "plain")
    texts = sorted(cell[2] for cell in others if cell)
    assert "success after 4 steps; it cannot be drawn: camera.distance-L3 of libero_goal/turn_on_the_stove" in texts[0]
    assert "factor: expected 1 to 2, found 9.0; the record is of another version of pytest-vla" in texts[0]
    assert "it cannot be drawn: there is no variation 'camera.none-L3'" in texts[1]
    with pytest.raises(VlaError, match="factor: expected 1 to 2, found 9"):
        run_video(run, (), None, tmp_path / "x.webm", Drawing(), (DISTANCE,))


def test_the_states_of_another_scene_leave_a_blank_too(results: Path, drawn: dict[str, Any]) -> None:
    record = varied(DISTANCE, 0)
    keep(results, "20260105-varied", "expert", record)
    assert record.arrays is not None
    rows = np.zeros((5, 2))
    save_trajectory(results / "20260105-varied" / record.arrays, Trajectory(rows, rows, rows, rows[1:]))
    run_sheet(load_runs(["last"], results), (), None, 1, Drawing())
    ((cell,),) = drawn["rows"]
    assert cell.label == f"{DISTANCE}, seed 0, success after 4 steps; it cannot be drawn: a recorded state is qpos"


def test_episodes_are_chosen_by_their_variations(varied_run: Path, tmp_path: Path, drawn: dict[str, Any]) -> None:
    runs = load_runs(["last"], varied_run)
    run_sheet(runs, (), (1, 2), 1, Drawing(), ("CAMERA.*",))
    assert [described(cell)[2] for row in drawn["rows"] for cell in row] == [  # type: ignore[index]
        f"turn on the stove: {DISTANCE}, seed 1, success after 4 steps",
        f"turn on the stove: {DISTANCE}, seed 2, failure after 4 steps",
    ]
    run_sheet(runs, (), None, 1, Drawing(), ("benign", JOINT))
    assert [described(cell)[2].split(":")[1] for row in drawn["rows"] for cell in row] == [  # type: ignore[index]
        " seed 0, success after 4 steps",
        f" {JOINT}, seed 0, success after 4 steps",
    ]
    with pytest.raises(
        VlaError, match=r"no variation of run 20260105-varied is 'camera.distanc'\. Did you mean camera"
    ):
        run_sheet(runs, (), None, 1, Drawing(), ("camera.distanc",))
    with pytest.raises(VlaError, match=r"no episode with all tasks, variations camera\*, seeds 7"):
        run_sheet(runs, (), (7,), 1, Drawing(), ("camera*",))
    World.log.clear()
    run_video(runs[0], (), (2,), tmp_path / "x.webm", Drawing(size=(64, 64)), (DISTANCE,))
    assert [entry[5].label for entry in World.log if entry[0] == "reset"] == [DISTANCE]


# The command.


def test_show_writes_a_sheet_and_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", "libero_goal/turn_on", "--size=24x32", "--seeds=0-2", "--cameras=frontview"]) == 0
    assert capsys.readouterr().out == f"{STOVE}.png\n"
    picture = np.asarray(Image.open(f"{STOVE}.png"))
    assert int((picture == (102, 2, 250)).all(axis=2).sum()) == 24 * 32
    assert main(["show", "libero_goal"]) == 0
    assert main(["show", "libero_goal/turn_on", "libero_spatial", "-o", "both.png", "--size=20"]) == 0
    assert capsys.readouterr().out == "libero_goal.png\nboth.png\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.png", "libero_goal.png", f"{STOVE}.png"]


def test_show_lists_the_variations_that_there_are(capsys: Any) -> None:
    assert main(["show", "tabletop", "--vary=list"]) == 0
    assert "  camera.wider:1-5" in capsys.readouterr().out


def test_the_sheet_of_several_tasks_is_named_by_them_and_lies_in_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "libero_goal").mkdir()
    assert main(["show", f"libero_goal/{STOVE}", f"libero_goal/{BOWL}", "--size=20"]) == 0
    assert main(["show", "libero_goal/", f"libero_goal/{BOWL}", "--size=20"]) == 0
    names = [f"{STOVE}_{BOWL}.png", f"libero_goal_{BOWL}.png"]
    assert capsys.readouterr().out.split() == names
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["libero_goal", *names])


def test_a_folder_that_is_not_there_is_told_before_anything_is_drawn(results: Path, capsys: Any) -> None:
    for what in ("libero_goal", "last"):
        assert main(["show", what, "-o", "missing/x.png"]) == 1
        assert "cannot write missing/x.png: " in capsys.readouterr().err
    assert (World.made, World.log) == ([], [])


def test_show_draws_runs(results: Path, capsys: Any) -> None:
    assert main(["show", "last"]) == 0
    assert main(["show", "20260101", "last", "--frames=3", "--tasks=turn_on", "--seeds=0"]) == 0
    assert main(["show", "20260101", "--tasks=turn_on", "-o", "x.webm"]) == 0
    assert capsys.readouterr().out.split() == ["20260102-two.png", "20260101-one_20260102-two.png", "x.webm"]
    assert Image.open("20260101-one_20260102-two.png").size[0] > 6 * 256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["libero_goal", "last"], "show either tasks or runs, not both"),
        (["libero_goal", "--frames=3"], "--tasks and --frames are for runs"),
        (["libero_goal/turn_on", "-o", "x.jpg"], "x.jpg: a picture's name ends in .png"),
        (["last", "-o", "x.jpg"], "x.jpg: a picture's name ends in .png"),
        (["last", "20260101", "-o", "x.webm"], "a video is of one episode: name one run"),
        (["last", "-o", "missing/x.png"], "cannot write"),
    ],
)
def test_what_cannot_be_shown_is_one_line(results: Path, capsys: Any, arguments: list[str], message: str) -> None:
    assert main(["show", *arguments]) == 1
    out, err = capsys.readouterr()
    assert message in err
    assert (out, err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--seeds=x"],
        ["--size=0x"],
        ["--size=0"],
        ["--size=8x0"],
        ["--size=big"],
        ["--frames=0"],
        ["--frames=²"],
        ["--cameras=,"],
    ],
)
def test_arguments_that_are_none_exit_with_2(arguments: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as left:
        main(["show", "libero_goal", *arguments])
    assert left.value.code == 2
    assert arguments[0].partition("=")[0] in capsys.readouterr().err


def test_libero_s_own_scene_is_drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, drawn: dict[str, Any]) -> None:
    task = libero_task("libero_goal", STOVE)
    monkeypatch.undo()
    task_sheet([task], (0, 1), Drawing(cameras=("agentview", "birdview"), size=(64, 80)))
    with pytest.raises(VlaError, match=r"has no camera fly: .*birdview"):
        task_sheet([task], (0,), Drawing(cameras=("fly",)))
