"""The pictures of a language report: which there are, and that they show what they say."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pytest_vla.errors import VlaError
from pytest_vla.reports.figures import check_matplotlib, write_pictures
from pytest_vla.reports.language import make_report, pictures
from pytest_vla.reports.loaded import load
from tests.support.paraphrased import BOWL, ENDS, PLATE, STOVE, para_record, paraphrased, path_to, probed
from tests.support.reports import RESULTS, write


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def made(*models: str) -> dict[str, bytes]:
    """Draw three tasks with successes, and a near and two far failures of the first; a run for each model."""
    for number, model in enumerate(models):
        records = [
            (paraphrased(task, index, "success", policy=model), path_to(end, noise=0.01, seed=index))
            for task, end in ENDS.items()
            for index in range(4)
        ]
        for index, end in enumerate([ENDS[STOVE], ENDS[PLATE], ENDS[BOWL]], start=4):
            records.append((paraphrased(STOVE, index, "failure", policy=model), path_to(end, noise=0.001)))
        records.append((paraphrased("open_the_drawer", 0, "failure", policy=model), path_to((0.2, 0.2, 0.2))))
        write(records, run=f"run{number}")
    report = make_report(load([], RESULTS), 0.5, None, "template", "exact")
    assert report is not None
    return pictures(report)


def test_grids_sweep_and_paths_are_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'pytest-vla[report]')")
    files = write_pictures(made("my:model", "my/model"), tmp_path / "new" / "folder")
    assert [file.name for file in files] == [
        "sweep.png",
        "my_model-libero_para-grids.png",
        "my_model-libero_para-paths.png",
        "my_model-libero_para-2-grids.png",
        "my_model-libero_para-2-paths.png",
    ]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(f.name for f in files)
    for file in files:
        pixels = np.asarray(Image.open(file).convert("RGB"))
        assert min(pixels.shape[:2]) > 300
    paths = np.asarray(Image.open(files[2]).convert("RGB")).astype(int)
    # Near failures orange, far ones blue; lines are half transparent.
    red, green, blue = paths.transpose(2, 0, 1)
    assert ((red - blue > 60) & (red > green + 20)).sum() > 20
    assert ((blue - red > 60) & (blue > green)).sum() > 20


def test_there_has_to_be_something_to_draw(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'pytest-vla[report]')")
    write([para_record(STOVE, 7, "success", {}, "turn on the stove"), probed(STOVE, "blank", "failure")])
    report = make_report(load([], RESULTS), 0.5, None, None, "exact")
    assert report is not None
    with pytest.raises(VlaError, match="nothing to draw: no model has successes and failures"):
        write_pictures(pictures(report), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'pytest-vla[report]')")
    (tmp_path / "file").write_text("")
    with pytest.raises(VlaError, match="file is no folder for pictures"):
        write_pictures(made("m"), tmp_path / "file")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(VlaError, match=r"png needs matplotlib: pip install 'pytest-vla\[report\]'"):
        check_matplotlib()
