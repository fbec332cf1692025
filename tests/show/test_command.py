"""The command `pytest-vla show`: what it writes, and what it cannot show."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_vla.cli import main
from pytest_vla.plan.manifests import load_suite
from tests.support.coloured import ColouredWorld
from tests.support.kept_runs import BOWL, STOVE

pytestmark = pytest.mark.usefixtures("drawn")


def tasks(*names: str) -> list[Any]:
    return [load_suite("libero_goal").task(name) for name in names]


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
    assert (ColouredWorld.made, ColouredWorld.log) == ([], [])


def test_show_draws_runs(results: Path, capsys: Any) -> None:
    assert main(["show", "last"]) == 0
    assert main(["show", "20260101", "last", "--frames=3", "--tasks=turn_on", "--seeds=0"]) == 0
    assert main(["show", "20260101", "--tasks=turn_on", "-o", "x.mp4"]) == 0
    assert capsys.readouterr().out.split() == ["20260102-two.png", "20260101-one_20260102-two.png", "x.mp4"]
    assert Image.open("20260101-one_20260102-two.png").size[0] > 6 * 256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["libero_goal", "last"], "give either tasks or runs, not both"),
        (["libero_goal", "--frames=3"], "--tasks and --frames are for runs"),
        (["libero_goal/turn_on", "-o", "x.jpg"], "x.jpg: expected a name ending in .png"),
        (["last", "-o", "x.jpg"], "x.jpg: expected a name ending in .png"),
        (["last", "20260101", "-o", "x.mp4"], "a video shows one episode. Name one run"),
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
