"""`pytest-vla export --format=lerobot`: a folder, whole or not at all, and what is said of it."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.cli import main
from pytest_vla.records.trajectory import load_trajectory, save_trajectory
from pytest_vla.reports.dataset import frames, lerobot
from tests.support.dataset_runs import PLATE, RUN, STOVE, record_run

STEPS = 3
FORMAT = "--format=lerobot"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder: two episodes, one of which succeeded, as its record says, and one that broke."""
    results = tmp_path_factory.mktemp("recorded") / ".vla"
    success = {1: {"outcome": "success", "success_step": STEPS}}
    record_run(results, [(PLATE, 1, ""), (STOVE, 0, ""), (STOVE, 3, "")], STEPS, changes=success)
    return results


@pytest.fixture
def here(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with these results."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(recorded, tmp_path / ".vla")
    return tmp_path


def told(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["export", *arguments]) == code
    out, err = capfd.readouterr()
    return err if code else out


def info(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "meta", "info.json").read_text())
    return found


def test_the_last_run_becomes_a_folder(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = told(capfd, FORMAT, "-o", "new/folder")
    assert said == (
        "2 episodes (1 succeeded), 6 control steps; left out: 1 error; states were reproduced bit for bit\nnew/folder\n"
    )
    assert (info("new/folder")["total_episodes"], info("new/folder")["fps"]) == (2, 20)
    assert len(list(Path("new/folder").rglob("*.mp4"))) == 2
    assert os.listdir("new") == ["folder"]


def test_of_successes_without_pictures_into_an_empty_folder(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    said = told(capfd, RUN, FORMAT, "-o", "empty", "--only=success", "--pictures=none")
    assert said.startswith(
        "1 episode (1 succeeded), 3 control steps; left out: 1 failed, 1 error; states were reproduced bit"
    )
    assert info("empty")["video_path"] is None
    assert not [name for name in info("empty")["features"] if "image" in name]
    assert not list(Path("empty").rglob("*.mp4"))


def test_successes_are_played_under_variations_and_what_succeeds_is_exported(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytest is played, too: of two varied episodes one succeeds, and another one is held out."""
    varied, calls = "20260102-varied", []

    def play(command: list[str], check: bool) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        success = {seed: {"outcome": "success", "success_step": STEPS} for seed in (1, 4)}
        labels = ["camera.distance-L1", "camera.distance-L1", ""]
        cases = [(PLATE, seed, label) for seed, label in zip((1, 2, 4), labels, strict=True)]
        record_run(here / ".vla", cases, STEPS, run=varied, changes=success)
        return subprocess.CompletedProcess(command, 1)

    monkeypatch.setattr(subprocess, "run", play)
    Path("test.txt").write_text(f"tabletop::test_episode[{PLATE}-seed4]\n")
    options = ["--vary=camera.distance", "--pytest=-n 2 --vla-run-seed=1", "--held-out=test.txt", "--pictures=none"]
    said = told(capfd, RUN, FORMAT, "-o", "out", *options).splitlines()[-2]
    assert said.startswith("1 episode (1 succeeded), 3 control steps; left out: 1 failed, 1 held out; states were")
    (command,) = calls
    assert command[1:3] == ["-m", "pytest"]
    assert command[3:8] == [
        "--vla-suite=tabletop",
        f"--vla-tasks={PLATE}",
        "--vla-seeds=1",
        f"--vla-model=memoriser:{Path('.vla', RUN)}",
        "--vla-vary=camera.distance",
    ]
    assert command[-3:] == ["-n", "2", "--vla-run-seed=1"]


def test_only_the_run_that_was_played_is_exported(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where pytest made no run, the newest one is another."""
    monkeypatch.setattr(subprocess, "run", lambda command, check: subprocess.CompletedProcess(command, 1))
    assert main(["export", RUN, FORMAT, "-o", "out", "--vary=camera.distance", "--pictures=none"]) == 1
    assert "found 0" in capfd.readouterr().err
    assert not Path("out").exists()


def test_pytest_that_fails_leaves_no_folder(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda command, check: subprocess.CompletedProcess(command, 4))
    assert "pytest exited with code 4" in told(capfd, FORMAT, "-o", "out", "--vary=camera", code=1)
    assert os.listdir(".") == [".vla"]


def test_nothing_is_overwritten(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("full").mkdir()
    Path("full", "mine").touch()
    Path("file").touch()
    for name in ("full", "file"):
        assert f"{name} exists already, and is not overwritten" in told(capfd, FORMAT, "-o", name, code=1)
    assert os.listdir("full") == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([FORMAT], "lerobot writes a folder. Name a new one with -o FOLDER"),
        ([FORMAT, "-o", "-"], "lerobot writes a folder"),
        (["--pictures=none"], "require --format=lerobot"),
        (["--only=all", "-o", "x.csv"], "--pictures, --only, --data and --allow-versions require --format=lerobot"),
        (["--data=."], "require --format=lerobot"),
        (["nobody", FORMAT, "-o", "x"], "no run 'nobody'"),
        (["--vary=camera"], "--vary, --held-out and --pytest require --format=lerobot"),
        ([FORMAT, "-o", "x", "--pytest=-n 2"], "--pytest has options for the episodes of --vary"),
        ([FORMAT, "-o", "x", "--vary=camera", "--only=all"], "Leave out --only=all"),
        ([FORMAT, "-o", "x", "--held-out=nobody"], "no run 'nobody'"),
    ],
)
def test_what_cannot_be_meant(
    here: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert message in told(capfd, *arguments, code=1)
    assert os.listdir(".") == [".vla"]


def test_an_interrupt_leaves_nothing_behind(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = frames.frames_of, []

    def interrupted(*arguments: Any, **options: Any) -> Iterator[Any]:
        for number, frame in enumerate(real(*arguments, **options)):
            begun.extend(here.glob(".out.*.tmp/videos/*"))
            if number == 2:
                raise KeyboardInterrupt
            yield frame

    monkeypatch.setattr(frames, "frames_of", interrupted)
    assert "interrupted" in told(capfd, FORMAT, "-o", "out", code=1)
    assert begun, "it was on its way"
    assert os.listdir(".") == [".vla"]


def test_a_full_disk_is_one_line_and_leaves_nothing(
    here: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lerobot, "_write_json", full)
    said = told(capfd, FORMAT, "-o", "out", "--pictures=none", code=1)
    assert said.splitlines()[-1].endswith("out: No space left on device")
    assert os.listdir(".") == [".vla"]


@pytest.mark.parametrize(
    ("module", "pictures", "message"),
    [
        ("pyarrow.parquet", "none", "a data set needs pyarrow: pip install 'pytest-vla[parquet]'"),
        ("av", "video", "pip install --force-reinstall av; or export with --pictures=image"),
    ],
)
def test_without_a_package_it_says_what_to_install(
    here: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    pictures: str,
    message: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    assert message in told(capfd, FORMAT, "-o", "out", f"--pictures={pictures}", code=1)
    assert os.listdir(".") == [".vla"]


def test_a_missing_trajectory_is_named(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (gone,) = Path(".vla", RUN).rglob(f"{STOVE}-seed0.npz")
    gone.unlink()
    assert f"{gone}: expected an npz file" in told(capfd, FORMAT, "-o", "out", "--pictures=none", code=1)
    assert os.listdir(".") == [".vla"]


def _rewritten(results: Path, **arrays: Any) -> Path:
    """The trajectory of an episode, with other arrays."""
    (file,) = (results / RUN).rglob(f"{STOVE}-seed0.npz")
    save_trajectory(file, dataclasses.replace(load_trajectory(file), **arrays))
    return file


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"actions": np.zeros((STEPS, 6))}, f"actions of shape ({STEPS}, 6), and its record says ({STEPS}, 7)"),
        ({"actions": np.zeros((STEPS + 1, 7))}, f"actions of shape ({STEPS + 1}, 7), and its record says"),
        ({"actions": np.zeros((STEPS, 7))}, f"/{STOVE}-seed0.npz: this is not what was recorded of"),
        ({"qpos": np.zeros((STEPS + 1, 2))}, "do not give the digest of its record"),
    ],
    ids=["narrow", "long", "others", "another scene"],
)
def test_a_trajectory_of_something_else_is_named(
    here: Path, capfd: pytest.CaptureFixture[str], arrays: dict[str, Any], message: str
) -> None:
    _rewritten(here / ".vla", **arrays)
    said = told(capfd, FORMAT, "-o", "out", "--pictures=none", code=1)
    assert message in said
    assert len(said.splitlines()) == 1
    assert os.listdir(".") == [".vla"]


def test_actions_that_were_changed_a_little_are_no_recorded_ones(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (file,) = Path(".vla", RUN).rglob(f"{STOVE}-seed0.npz")
    _rewritten(here / ".vla", actions=load_trajectory(file).actions * 0.9)
    said = told(capfd, FORMAT, "-o", "out", "--pictures=none", code=1)
    assert f"{file}: this is not what was recorded of tabletop/{STOVE}[seed0] in run {RUN}" in said
    assert os.listdir(".") == [".vla"]
