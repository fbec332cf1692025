"""`pytest-vla show` of runs: recorded states are drawn as they were, under their variations."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.records.record import Record, parse_record, record_line
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import Trajectory, save_trajectory
from pytest_vla.show.runs import is_run, load_runs, run_sheet, run_video
from pytest_vla.show.tasks import Drawing
from pytest_vla.vary.registry import find_variation
from tests.support.coloured import ColouredWorld
from tests.support.kept_runs import BOWL, STOVE, described, ended, keep, tasks

pytestmark = pytest.mark.usefixtures("drawn")


def test_videos_have_as_many_frames_as_the_run_s_own(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_vla.records.record.VIDEO_EVERY", 3)
    run_video(load_runs(["20260101"], results)[0], ("turn_on",), (1,), tmp_path / "x.mp4", Drawing(size=(64, 64)))
    assert [entry[2] for entry in ColouredWorld.log if entry[0] == "show"] == [10.0, 13.0, 16.0, 17.0]


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
    resets = [entry for entry in ColouredWorld.log if entry[0] == "reset"]
    assert resets == [("reset", STOVE, 0, 70, False)] * 2, "fixtures stand where they stood, and nothing settles again"
    assert len(ColouredWorld.made) == 1


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
    monkeypatch.setattr(ColouredWorld, "predicates", None)
    real = ColouredWorld.__init__

    def spy(self: ColouredWorld, task: Any, *variation: Any, **options: Any) -> None:
        used.append(task.data)
        real(self, task, *variation, **options)

    monkeypatch.setattr(ColouredWorld, "__init__", spy)
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


def test_a_record_without_its_seeds_is_told(results: Path, tmp_path: Path) -> None:
    (run,) = load_runs(["20260101"], results)
    records = tuple(dataclasses.replace(record, seeds={"init_state": 1, "run": 0}) for record in run.records)
    run = dataclasses.replace(run, records=records)
    with pytest.raises(VlaError, match=r"seed1\] cannot be drawn: its record has no seeds\.scene"):
        run_video(run, ("turn_on",), (1,), tmp_path / "x.mp4", Drawing(size=(64, 64)))
    with pytest.raises(VlaError, match=r"cannot be drawn: its record has no seeds\.scene"):
        run_sheet([run], (), None, 1, Drawing())


def test_the_video_of_one_episode_is_drawn_afterwards(results: Path, tmp_path: Path) -> None:
    runs = load_runs(["20260101"], results)
    run_video(runs[0], ("turn_on",), (1,), tmp_path / "x.mp4", Drawing(size=(64, 64)))
    assert (tmp_path / "x.mp4").stat().st_size > 0
    assert [entry[2] for entry in ColouredWorld.log if entry[0] == "show"] == [10.0, 12.0, 14.0, 16.0, 17.0]
    with pytest.raises(
        VlaError, match=r"has 2 with all tasks, seeds 0, 1: .*Name one with --tasks, --seeds and --vary"
    ):
        run_video(runs[0], (), (0, 1), tmp_path / "x.mp4", Drawing())
    with pytest.raises(VlaError, match=r"has 0 with all tasks, seeds 5\. Name"):
        run_video(runs[0], (), (5,), tmp_path / "x.mp4", Drawing())
    with pytest.raises(VlaError, match=r"has no states to draw: world-broke"):
        run_video(runs[0], (BOWL,), None, tmp_path / "x.mp4", Drawing())


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
    resets = [entry[5:] for entry in ColouredWorld.log if entry[0] == "reset"]
    assert [[each.label for each in entry] for entry in resets] == [[], [DISTANCE], [], [JOINT]]
    assert resets[3][0] == find_variation(tasks(STOVE)[0], JOINT, 0), "what was drawn is the same"
    shown = [entry[3] for entry in ColouredWorld.log if entry[0] == "show"]
    assert shown == [0, 0, 4] * 4, "noise of pictures goes by the step"


def test_a_record_s_variation_may_have_been_drawn_anew(results: Path) -> None:
    first = find_variation(tasks(STOVE)[0], "robot.joints-L2", 0)
    assert first is not None
    assert first.redraw is not None
    again = first.redraw(3)
    assert again != first
    keep(results, "20260105-varied", "expert", varied("robot.joints-L2", 0, variation=again.table()))
    run_sheet(load_runs(["last"], results), (), None, 1, Drawing())
    assert [entry[5] for entry in ColouredWorld.log if entry[0] == "reset"] == [again]


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
    assert "factor: expected 1 to 2, found 9.0; the record is from another version of pytest-vla" in texts[0]
    assert "it cannot be drawn: there is no variation 'camera.none-L3'" in texts[1]
    with pytest.raises(VlaError, match="factor: expected 1 to 2, found 9"):
        run_video(run, (), None, tmp_path / "x.mp4", Drawing(), (DISTANCE,))


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
    ColouredWorld.log.clear()
    run_video(runs[0], (), (2,), tmp_path / "x.mp4", Drawing(size=(64, 64)), (DISTANCE,))
    assert [entry[5].label for entry in ColouredWorld.log if entry[0] == "reset"] == [DISTANCE]
