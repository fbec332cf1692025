"""The episodes that make a data set, and the errors if there are none."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.reports.dataset import frames
from pytest_vla.reports.dataset.frames import Chosen, choose
from pytest_vla.reports.export import ALL, SUCCESS
from tests.support.kept_runs import BOWL, STOVE, ended, keep
from tests.support.varied import variation_of

PROTOCOL = load_suite("libero_goal").protocol.table()


def kept(task: str, seed: int, outcome: str, steps: int = 3, **changes: Any) -> Record:
    return ended(task, seed, outcome, steps, **{"protocol": PROTOCOL, **changes})


def chosen(results: Path, *runs: str, only: str = ALL) -> Chosen:
    with open_store(results, create=False) as store:
        return choose(store, [store.run(run) for run in runs], only, None)


def cases(found: Chosen) -> list[str]:
    return [each.record.case for each in found.episodes]


def test_what_counts_and_came_to_its_end_in_the_order_of_tasks_and_seeds(tmp_path: Path) -> None:
    probe = {**variation_of("language.blank"), "probe": True}
    keep(
        *(tmp_path, "20260101-one", "mine"),
        kept(STOVE, 1, "success"),
        kept(STOVE, 0, "failure"),
        kept(BOWL, 2, "error", reason="policy-raised"),
        kept(BOWL, 3, "invalid", 0, reason="goal-holds-at-start"),
        kept(BOWL, 1, "success", variation=probe, case="libero_goal/x[language.blank-seed1]", node="x::y[z]"),
        kept(BOWL, 0, "failure", 0),
        kept(BOWL, 4, "success"),
    )
    found = chosen(tmp_path, "20260101")
    names = ("put_the_bowl_on_the_stove[seed4]", "turn_on_the_stove[seed0]", "turn_on_the_stove[seed1]")
    index = {task.name: task.index for task in load_suite("libero_goal").tasks}
    assert index[BOWL] < index[STOVE]
    assert cases(found) == [f"libero_goal/{name}" for name in names]
    assert found.left_out == {"error": 1, "invalid": 1, "only asking what the policy does": 1, "without a step": 1}
    assert found.episodes[0].file == tmp_path / "20260101-one" / f"libero_goal/{BOWL}-seed4.npz"
    assert (found.layout.control_freq, found.layout.image_size) == (20, (256, 256))
    found = chosen(tmp_path, "20260101", only=SUCCESS)
    assert cases(found) == [f"libero_goal/{names[0]}", f"libero_goal/{names[2]}"]
    assert found.left_out["failed"] == 2


def test_a_case_that_was_run_again_is_there_once(tmp_path: Path) -> None:
    keep(tmp_path, "20260101-one", "mine", kept(STOVE, 1, "failure"))
    keep(tmp_path, "20260102-two", "mine", kept(STOVE, 1, "success", started="2026-02-02T03:04:05.678+00:00"))
    found = chosen(tmp_path, "20260101", "20260102")
    assert [each.record.outcome for each in found.episodes] == ["failure"]
    assert found.left_out == {"repeated": 1}
    assert [each.record.outcome for each in chosen(tmp_path, "20260102").episodes] == ["success"]


def test_without_an_episode_it_says_what_there_was(tmp_path: Path) -> None:
    keep(tmp_path, "20260101-one", "mine", kept(STOVE, 1, "failure"), kept(BOWL, 1, "error", reason="policy-raised"))
    with pytest.raises(VlaError, match="no episode for a data set in run 20260101-one: 1 failed, 1 error"):
        chosen(tmp_path, "20260101", only=SUCCESS)


def test_episodes_without_states_are_named(tmp_path: Path) -> None:
    keep(tmp_path, "20260101-one", "mine", kept(STOVE, 1, "failure", arrays=None), kept(STOVE, 2, "success"))
    with pytest.raises(
        VlaError,
        match=r"^1 episode left no states to take again, such as libero_goal/turn_on_the_stove\[seed1\] of run "
        r"20260101-one: imported logs have none\. pytest --vla-suite=libero_goal runs episodes and keeps their states",
    ):
        chosen(tmp_path, "20260101")


def test_a_suite_that_is_another_now_is_refused(tmp_path: Path) -> None:
    keep(tmp_path, "20260101-one", "mine", kept(STOVE, 1, "failure", protocol=PROTOCOL | {"control_freq": 10}))
    with pytest.raises(VlaError, match="control_freq of libero_goal was 10 then and is 20 now"):
        chosen(tmp_path, "20260101")


def test_a_path_out_of_the_results_is_not_followed(tmp_path: Path) -> None:
    results = tmp_path / ".vla"
    keep(results, "20260101-one", "mine")
    with open_store(results, create=True) as store:
        store.begin("20260102-two", ["x"], command="", model="mine", invocation={})
        store.add(dataclasses.replace(kept(STOVE, 1, "failure"), run="20260102-two", arrays="a/b.npz"))
        store.end("20260102-two", "finished")
    (tmp_path / "elsewhere").mkdir()
    (results / "20260102-two").mkdir(exist_ok=True)
    (results / "20260102-two" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VlaError, match="is outside of the results"):
        chosen(results, "20260102")


def _otherwise(monkeypatch: pytest.MonkeyPatch, task: str, **protocol: Any) -> None:
    """A task is of another protocol, and its suite was so all along."""
    real = frames.restored_task

    def restored(record: Record, data: Path | None) -> Task:
        found = real(record, data)
        changed = dataclasses.replace(found, protocol=dataclasses.replace(found.protocol, **protocol))
        return changed if record.task == task else found

    monkeypatch.setattr(frames, "restored_task", restored)


def test_what_does_not_go_together_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _otherwise(monkeypatch, BOWL, image_size=(128, 64))
    small = kept(BOWL, 0, "success", protocol=PROTOCOL | {"image_size": [128, 64]})
    keep(tmp_path, "20260101-one", "mine", kept(STOVE, 1, "failure"), small)
    with pytest.raises(VlaError) as raised:
        chosen(tmp_path, "20260101")
    for told in ("in 256x256 pixels at 20 Hz", "in 128x64 pixels at 20 Hz", "cannot be in one data set", "Name a run"):
        assert told in str(raised.value)


def test_a_camera_s_name_is_a_folder_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _otherwise(monkeypatch, BOWL, cameras=("../up",))
    keep(tmp_path, "20260101-one", "mine", kept(BOWL, 1, "success", protocol=PROTOCOL | {"cameras": ["../up"]}))
    with pytest.raises(VlaError, match=r"a camera called '\.\./up' cannot be in a data set"):
        chosen(tmp_path, "20260101")
