"""action.yml, tried as GitHub would: its shell runs in a model's repository, against a baseline that is kept there."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_vla.gate.choices import REQUIRED
from pytest_vla.run.options import OPTIONS
from tests.support.data import REPOSITORY

ACTION: dict[str, Any] = yaml.safe_load((REPOSITORY / "action.yml").read_text())
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
TASK = "turn_on_the_stove"
SEEDS = 6

POLICY = """
import numpy as np

ACTIONS = np.load("actions.npz")

def policy(episode):
    actions = ACTIONS[str(episode.seed)]
    return lambda observation: actions
"""
"""What was learned: of each seed all actions."""

WORSE = POLICY.replace("return lambda", "actions = np.zeros_like(actions)\n    return lambda")
"""The next checkpoint, which forgot it."""


@dataclass(frozen=True)
class Ended:
    """What a job sees of the action."""

    code: int
    summary: str
    outputs: Mapping[str, str]
    log: str


def in_place(text: str, inputs: Mapping[str, str]) -> str:
    """An expression of a workflow, for what this action uses of them."""
    return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: inputs[found[1]], text)


def run_action(workspace: Path, runner: Path, **given: str) -> Ended:
    """The action's shell, step by step, with the inputs that are given; pip installs nothing."""
    given = {name.replace("_", "-"): text for name, text in given.items()}
    assert given.keys() <= ACTION["inputs"].keys()
    inputs = {name: given.get(name, about.get("default", "")) for name, about in ACTION["inputs"].items()}
    files = {name: runner / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.write_text("")
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    environ |= {name: os.environ[name] for name in ("PYTEST_VLA_CACHE",) if name in os.environ}
    environ |= {name: str(file) for name, file in files.items()}
    environ |= {"GITHUB_WORKSPACE": str(workspace), "GITHUB_ACTION_PATH": str(REPOSITORY), "RUNNER_TEMP": str(runner)}
    environ["PATH"] = f"{program(runner)}{os.pathsep}{environ['PATH']}"
    code, log = 0, ""
    for step in STEPS:
        if "run" not in step or code:
            continue
        assert step["shell"] == "bash"
        script = runner / "script.sh"
        script.write_text(step["run"])
        own = {name: in_place(text, inputs) for name, text in step.get("env", {}).items()}
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=workspace / in_place(step.get("working-directory", "."), inputs),
            env=environ | own,
            capture_output=True,
            text=True,
        )
        code, log = ended.returncode, log + ended.stdout + ended.stderr
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return Ended(code, files["GITHUB_STEP_SUMMARY"].read_text(), outputs, log)


def program(runner: Path) -> Path:
    """A folder with a `python` that is this one, but for pip, which notes what it was to install."""
    folder = runner / "bin"
    folder.mkdir(exist_ok=True)
    python = folder / "python"
    note = f'printf "%s\\n" "${{@: -1}}" >> "{runner}/installed"'
    python.write_text(
        f'#!/bin/bash\nif [[ "$1 $2 $3" == "-m pip install" ]]; then {note}; exit; fi\nexec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    return folder


def shell(folder: Path, *words: str) -> None:
    subprocess.run(words, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model's repository: a policy that does its task, the baseline that was made of it, and its commit."""
    folder = tmp_path_factory.mktemp("model")
    episodes = ("--vla-suite=tabletop", f"--vla-tasks={TASK}", f"--vla-episodes={SEEDS}", "-q")
    pytest_ = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *episodes)
    shell(folder, *pytest_, "--vla-model=expert", "--vla-results=taught")
    script = (
        "import sys, numpy as np; from pathlib import Path; "
        "files = {f.stem.rpartition('seed')[2]: f for f in Path('taught').rglob('*.npz')}; "
        "np.savez('actions.npz', **{seed: np.load(f)['actions'] for seed, f in files.items()})"
    )
    shell(folder, sys.executable, "-c", script)
    shutil.rmtree(folder / "taught")
    (folder / "mine.py").write_text(POLICY)
    shell(folder, *pytest_, "--vla-model=mine:policy")
    shell(folder, sys.executable, "-m", "pytest_vla.cli", "baseline", "save")
    shutil.rmtree(folder / ".vla")
    (folder / ".gitignore").write_text(".vla/\n__pycache__/\n")
    shell(folder, "git", "init", "-q")
    shell(folder, "git", "add", "-A")
    shell(folder, "git", *("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "-m", "a policy"))
    return folder


@pytest.fixture
def checkout(made: Path, tmp_path: Path) -> Path:
    """As actions/checkout leaves it."""
    shell(tmp_path, "git", "clone", "-q", str(made), "checkout")
    return tmp_path / "checkout"


ASKED = {"suite": "tabletop", "model": "mine:policy", "episodes": str(SEEDS), "workers": "0", "margin": "80"}
ARGS = f"--vla-tasks={TASK} -p 'no:cacheprovider'"


@pytest.mark.slow
def test_a_checkpoint_that_does_as_well_passes(checkout: Path, tmp_path: Path) -> None:
    ended = run_action(checkout, tmp_path, **ASKED, args=ARGS, require="no-worse")
    assert ended.code == 0, ended.log
    assert (tmp_path / "installed").read_text() == f"{REPOSITORY}[libero]\n", "the action's own source"
    assert ended.outputs["verdict"] == "no worse"
    assert ended.summary.startswith("### gate: no worse (margin 80 points, alpha 5% per side)\n")
    assert "- vla: passed (--vla-baseline=baseline.vla.json)" in ended.summary
    assert json.loads(Path(ended.outputs["json"]).read_text())["verdict"] == "no worse"
    assert (checkout / ".vla" / "junit.xml").is_file()
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=checkout, capture_output=True, text=True)
    assert changed.stdout == "", "nothing is left beside .vla"


@pytest.mark.slow
def test_one_that_forgot_its_task_fails_and_says_how_to_see_it(checkout: Path, tmp_path: Path) -> None:
    (checkout / "mine.py").write_text(WORSE)
    # Six starts cannot show a loss beyond a margin as wide as that.
    ended = run_action(checkout, tmp_path, **ASKED, args=ARGS, regression="any")
    assert ended.code == 1, ended.log
    assert ended.outputs["verdict"] == "regression"
    assert ended.summary.startswith("### gate: regression")
    row = f"| tabletop/{TASK} | tabletop[benign] | {SEEDS}/{SEEDS} | 0/{SEEDS} | -100.0 |"
    assert row in ended.summary.replace("\\", "")
    (first, *others) = re.findall(r"^pytest .*$", ended.summary, re.M)
    assert len(others) == SEEDS - 1
    assert first == f"pytest 'tabletop::test_episode[{TASK}-seed0]' --vla-model=mine:policy --vla-video=all"


def test_a_baseline_that_is_not_there_is_told(tmp_path: Path) -> None:
    workspace = tmp_path / "empty"
    workspace.mkdir()
    asked = ASKED | {"model": "random"}
    ended = run_action(workspace, tmp_path, **asked, package="pytest-vla==9", args="-p no:cacheprovider")
    assert ended.code == int(pytest.ExitCode.USAGE_ERROR), ended.log
    assert (tmp_path / "installed").read_text() == "pytest-vla==9\n"
    assert "there is no baseline" in ended.log
    assert ended.outputs["verdict"] == "not judged"
    assert ended.summary == "### gate: not judged (pytest ended with 4; its output says why)\n"


def test_arguments_are_quoted_as_in_a_shell_and_are_no_shell(tmp_path: Path) -> None:
    workspace = tmp_path / "empty"
    workspace.mkdir()
    given = ASKED | {"model": "$(touch owned)", "baseline": "`touch owned`.json"}
    ended = run_action(workspace, tmp_path, **given, args="'--vla-tasks=a b' --no-such-option=$(touch owned)")
    assert ended.code == int(pytest.ExitCode.USAGE_ERROR)
    assert "--no-such-option=$(touch" in ended.log
    assert not [*tmp_path.rglob("owned")]


def test_the_action_is_as_github_wants_it() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in STEPS:
        assert ("run" in step) is not ("uses" in step)
        assert "${{" not in step.get("run", ""), "what stands in an input would be shell"
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"])
    text = (REPOSITORY / "action.yml").read_text()
    named = set(re.findall(r"inputs\.([\w-]+)", text))
    assert named == ACTION["inputs"].keys()
    assert all("default" in about or about.get("required") for about in ACTION["inputs"].values())
    assert set(re.findall(r"--vla-[a-z-]*[a-z]", text)) <= {option.flag for option in OPTIONS}
    assert ACTION["inputs"]["require"]["default"] in REQUIRED
    ids = {step.get("id") for step in STEPS}
    for output in ACTION["outputs"].values():
        (of,) = re.findall(r"\$\{\{ steps\.(\w+)\.outputs\.\w+ \}\}", output["value"])
        assert of in ids
