"""A user's object and task, from files to episodes: listed, missing init states told, made, run by the expert."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.plan.manifests import suite_folder

SUITE = suite_folder("tabletop")
TASK = "put_the_brick_in_the_bowl"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """docs/how-to/scenes.md: a copied box under another name and size, and a task that is about it."""
    folder = tmp_path / "mydata"
    brick = folder / "assets" / "objects" / "brick"
    shutil.copytree(SUITE / "assets" / "objects" / "food_box", brick)
    model = (brick / "food_box.xml").read_text().replace("0.039 0.025 0.019", "0.035 0.022 0.019")
    (brick / "brick.xml").write_text(model)
    (brick / "food_box.xml").unlink()
    (brick / "category.toml").write_text("")
    text = (SUITE / "bddl_files" / "tabletop" / "put_the_box_in_the_bowl.bddl").read_text()
    task = folder / "bddl_files" / "tabletop" / f"{TASK}.bddl"
    task.parent.mkdir(parents=True)
    task.write_text(text.replace("box_1 - food_box", "brick_1 - brick").replace("box_1", "brick_1"))
    return folder


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, data: Path) -> Callable[..., pytest.RunResult]:
    """pytest in a process of its own, on the user's folder."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_VLA_DATA"):
        monkeypatch.delenv(name, raising=False)
    options = ("-p", "no:hypothesispytest", f"--vla-data={data}", "--vla-suite=tabletop")
    return lambda *arguments: pytester.runpytest_subprocess(*options, *arguments)


def test_a_users_task_is_listed_after_the_suites_own(run: Callable[..., pytest.RunResult]) -> None:
    lines = [line for line in run("--collect-only", "-q").outlines if "::" in line]
    assert len(lines) == 11
    assert lines[-1] == f"tabletop::test_episode[{TASK}-seed0]"


@pytest.mark.slow
def test_a_users_task_runs_once_its_init_states_are_made(run: Callable[..., pytest.RunResult], data: Path) -> None:
    result = run("--vla-tasks=brick", "--vla-model=random")
    result.assert_outcomes(errors=1)
    told = f"pytest-vla init-states --suite=tabletop --data={data} {TASK}"
    assert told in result.stdout.str(), "a line that can be typed as it stands"
    subprocess.run([sys.executable, "-m", "pytest_vla.cli", *told.split()[1:], "--count=2", "--hold=0.5"], check=True)
    run("--vla-tasks=brick", "--vla-model=expert", "--vla-seeds=0-1").assert_outcomes(passed=2)
    run(f"tabletop::test_episode[{TASK}-seed3]", "--vla-model=random").assert_outcomes(failed=1)


def test_an_instruction_of_a_file_is_in_the_first_lines(run: Callable[..., pytest.RunResult], data: Path) -> None:
    task = data / "bddl_files" / "tabletop" / f"{TASK}.bddl"
    task.rename(task.with_stem("CELL_0_0"))
    result = run("--vla-tasks=CELL", "--vla-model=random")
    # Without init states the episode is an error, after its first lines.
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["vla: *CELL_0_0 is no sentence, *:language ('put the box in the bowl')"])
