"""``pytest-vla bisect``: real runs of checkpoints, of which one is the first that does less."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import scipy.special  # noqa: F401  # Before pytester, which would have it imported twice.

from pytest_vla.cli import main
from pytest_vla.commands import bisect
from pytest_vla.records.store import open_store
from tests.support.forks import forked

Run = Callable[..., pytest.RunResult]

PLUGINS = ("-p", "pytest_vla.testing", "-q", "-p", "no:hypothesispytest")
ON = ("--", *PLUGINS, "--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
TEN = (*ON, "--vla-episodes=10")
MODELS = "mine:upto?file=steps/*.txt"
WIDE = ("--gate=fixed", "--margin=60", "--regression=any")

POLICIES = """
from pathlib import Path
import numpy as np

def upto(episode, file: str = ""):
    if episode.seed == 9 and Path("broken").exists():
        raise RuntimeError("no more")
    does = episode.seed < int(Path(file).read_text())
    return lambda observation: np.array([[float(does), 0, 0, 0, 0, 0, 0]] * 20)
"""


def model(step: int) -> str:
    return f"mine:upto?file=steps/{step}.txt"


@pytest.fixture(autouse=True)
def checkpoints(vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight, of which the first five do all seeds, and the others those below 2."""
    monkeypatch.syspath_prepend(project.path)
    project.makepyfile(mine=POLICIES)
    (project.path / "steps").mkdir()
    for place in range(8):
        (project.path / "steps" / f"{(place + 1) * 50}.txt").write_text("99" if place < 5 else "2")


def call(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    capfd.readouterr()
    with forked():
        assert main(["bisect", *arguments]) == code
    out, err = capfd.readouterr()
    return str(out if code == 0 else out + err)


def runs(project: pytest.Pytester) -> int:
    """How many runs are kept."""
    found = 0
    for folder in (project.path / ".vla" / "bisect").iterdir():
        with open_store(folder, create=True) as store:
            found += len(store.runs())
    return found


def test_the_first_bad_checkpoint_is_found_and_runs_are_kept(
    project: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    typed = (f"--good={model(50)}", f"--bad={model(400)}", f"--models={MODELS}", "--json", "--gate=fixed", *TEN)
    wide = ("--margin=60", "--regression=any", *typed)
    out = call(capfd, *wide)
    assert f"first bad: {model(300)}; the last good one is {model(250)}" in out
    found = json.loads(out.splitlines()[-1])
    assert found["first_bad"] == [model(300)]
    assert found["wrong_at_most"] == pytest.approx(0.2), "four gates at 5%"
    assert found["found"] == {
        **dict.fromkeys((model(50), model(200), model(250)), "good"),
        **dict.fromkeys((model(300), model(400)), "bad"),
    }
    assert runs(project) == 5
    again = call(capfd, *wide)
    assert json.loads(again.splitlines()[-1]) == found
    assert runs(project) == 5, "what was run is not run again"
    assert "$ pytest" not in again


def test_undecided_checkpoints_are_stepped_over(capfd: pytest.CaptureFixture[str]) -> None:
    typed = (f"--good={model(150)}", f"--bad={model(300)}", f"--models={MODELS}", "--gate=fixed", *TEN)
    out = call(capfd, *typed, code=1)
    assert f"bisect: {model(200)}: undecided (libero_goal[benign] undecided" in out
    assert f"first bad: one of {', '.join(map(model, (200, 250, 300)))}; the last good one is {model(150)}" in out


def test_a_search_that_was_stopped_goes_on(project: pytest.Pytester, capfd: pytest.CaptureFixture[str]) -> None:
    typed = (
        f"--good={model(250)}",
        f"--bad={model(300)}",
        f"--models={MODELS}",
        "--gate=fixed",
        "--margin=60",
        "--regression=any",
        *TEN,
    )
    (project.path / "conftest.py").write_text(
        "from pathlib import Path\nimport pytest\n\n"
        "def pytest_runtest_logreport(report):\n"
        "    if Path('stop').exists() and 'seed4' in report.nodeid and report.when == 'teardown':\n"
        "        raise KeyboardInterrupt\n"
    )
    (project.path / "stop").touch()
    told = call(capfd, *typed, code=2)
    assert f"{model(250)}: pytest exited with code 2" in told
    (project.path / "stop").unlink()
    out = call(capfd, *typed)
    assert re.search(r"bisect: \$ pytest --vla-resume '--vla-model=\S+' -p pytest_vla.testing -q", out)
    assert f"first bad: {model(300)}" in out


def test_a_good_one_that_broke_is_no_baseline_before_it_is_mended(
    project: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    typed = (
        f"--good={model(250)}",
        f"--bad={model(300)}",
        f"--models={MODELS}",
        "--gate=fixed",
        "--margin=60",
        "--regression=any",
        *TEN,
    )
    (project.path / "broken").touch()
    told = call(capfd, *typed, code=2)
    assert "1 of its 10 episodes ended as errors (policy-raised). Run the same command again to resume" in told
    assert runs(project) == 1
    (project.path / "broken").unlink()
    assert f"first bad: {model(300)}" in call(capfd, *typed)
    assert runs(project) == 2, "what broke is run again in the run that it broke in"


def test_a_bad_one_that_is_not_worse_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    told = call(capfd, f"--good={model(50)}", f"--bad={model(200)}", f"--models={MODELS}", "--gate=fixed", *TEN, code=2)
    assert f"--bad={model(200)} is worse than {model(50)}" in told


def test_bad_input(capfd: pytest.CaptureFixture[str]) -> None:
    ends = (f"--good={model(50)}", f"--bad={model(400)}")
    assert "no such file. Expected a pattern" in call(capfd, *ends, "--models=tiny:nothing/*", *TEN, code=2)
    assert "expected pytest's options after --" in call(capfd, *ends, f"--models={MODELS}", code=2)
    told = call(capfd, *ends, f"--models={MODELS}", *TEN, "--vla-model=tiny", code=2)
    assert "--vla-model is set by bisect for each run" in told
    turned = (f"--good={model(400)}", f"--bad={model(50)}")
    assert "the good one must come before the bad one" in call(capfd, *turned, f"--models={MODELS}", *TEN, code=2)
    assert "margin 0: expected points of success" in call(
        capfd, *ends, f"--models={MODELS}", "--margin=0", *TEN, code=2
    )


def test_good_and_bad_need_match_no_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for step in (1000, 200, 50):
        Path(f"{step}.npz").touch()
    found = bisect.models_of("tiny", "tiny@early", ["tiny:*.npz"])
    assert found == ("tiny", "tiny:50.npz", "tiny:200.npz", "tiny:1000.npz", "tiny@early")
    assert bisect.models_of("tiny:50.npz", "tiny:1000.npz", ["tiny:*.npz"]) == found[1:4]


def test_display_options_change_no_folder_and_the_gate_is_fixed(
    project: pytest.Pytester, capfd: pytest.CaptureFixture[str]
) -> None:
    typed = (f"--good={model(250)}", f"--bad={model(300)}", f"--models={MODELS}", "--margin=60", "--regression=any")
    out = call(capfd, *typed, *TEN)
    assert f"first bad: {model(300)}" in out
    assert "sequential" not in out
    folders = {*(project.path / ".vla" / "bisect").iterdir()}
    again = call(capfd, *typed, *TEN, "-rs", "--tb", "short", "--color", "no", "--tb=long", "-vv")
    assert "$ pytest" not in again
    assert {*(project.path / ".vla" / "bisect").iterdir()} == folders
    assert runs(project) == 2
    for found in folders:
        with open_store(found, create=False) as store:
            assert [run.done for run in store.runs()] == [10], "no run is stopped by its outcomes"


def test_only_display_options_are_left_out_of_a_folders_name() -> None:
    options = ["--vla-suite=tabletop", "-n", "2", "-p", "mine", "--vla-episodes=3", "-k", "short"]
    shown = ["-q", "--tb", "short", *options, "-vv", "--tb=short", "-rs", "-r", "a", "--color=no", "--color", "no"]
    assert bisect._decisive(shown) == options
