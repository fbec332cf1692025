"""What the README shows works as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vla.cli import COMMANDS
from pytest_vla.plan.manifests import suite_names
from pytest_vla.run.marker import EXAMPLE
from pytest_vla.run.options import MODELS_KEY, OPTIONS
from pytest_vla.util.install import DEBIAN
from tests.support.data import REPOSITORY

README = (REPOSITORY / "README.md").read_text()


def example(containing: str) -> str:
    (found,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if containing in block]
    return str(found)


def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run([sys.executable, *arguments], cwd=folder, env=environ, capture_output=True, text=True)


def test_the_world_example_runs(tmp_path: Path) -> None:
    result = run(tmp_path, "-c", example("World(task)"))
    assert result.returncode == 0, result.stderr


def test_the_examples_of_a_policy_and_of_records_run(tmp_path: Path) -> None:
    (tmp_path / "my_policy.py").write_text(example("def policy("))
    options = ("--vla-suite=tabletop", "--vla-tasks=turn_on_the_stove", "--vla-model=my_policy:policy")
    result = run(tmp_path, "-m", "pytest", *options)
    assert "not done after 300 of 300 steps" in result.stdout, result.stdout + result.stderr
    result = run(tmp_path, "-c", example("open_store"))
    assert result.stdout.startswith("tabletop/turn_on_the_stove[seed0] failure 300 {"), result.stdout + result.stderr


def test_the_example_of_a_policy_that_batches_runs_in_one_process_and_fits(tmp_path: Path) -> None:
    text = f"import numpy as np\n{example('class MyPolicy')}\n{example('policy.traits')}"
    (tmp_path / "my_policy.py").write_text(text)
    options = ("--vla-suite=tabletop", "--vla-tasks=turn_on_the_stove", "--vla-model=my_policy:policy", "-n1")
    result = run(tmp_path, "-m", "pytest", *options)
    assert "vla: loaded my_policy:policy" in result.stdout, result.stdout + result.stderr
    assert "not done after 300 of 300 steps" in result.stdout, result.stdout + result.stderr
    result = run(tmp_path, "-m", "pytest_vla.cli", "check-policy", "--vla-model=my_policy:policy")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "error" not in result.stdout


def test_the_marker_example_passes_with_the_expert(tmp_path: Path) -> None:
    """Its first seed here; all of its seeds keep far from the bound."""
    (tmp_path / "test_bowl.py").write_text(example("@pytest.mark.vla"))
    (shown,) = re.findall(r"`(test_bowl\.py::[^`]+)`", README)
    result = run(tmp_path, "-m", "pytest", "--vla-model=expert", "--vla-seeds=0", "-rA")
    assert f"PASSED {shown}" in result.stdout.splitlines(), result.stdout + result.stderr
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_marker_example_is_the_error_s() -> None:
    assert EXAMPLE in example("@pytest.mark.vla")


def test_every_option_in_it_exists() -> None:
    shown = set(re.findall(r"--vla-[a-z-]+", README))
    assert shown <= {option.flag for option in OPTIONS}
    ini = {MODELS_KEY, *(option.key for option in OPTIONS if option.ini is not None)}
    assert set(re.findall(r"`(vla_[a-z_]+)", README)) <= ini


def test_every_command_in_it_exists() -> None:
    shown = set(re.findall(r"pytest-vla ([a-z][a-z-]*)", re.sub(r"apt-get.*|pip install.*", "", README)))
    assert shown == {command.name for command in COMMANDS}


def test_every_suite_is_named() -> None:
    assert {name for name in suite_names() if f"`{name}`" not in README} == set()


@pytest.mark.parametrize("target", re.findall(r"`?make ([a-z]+)`?\s", README))
def test_every_make_target_in_it_exists(target: str) -> None:
    assert f"\n{target}:" in (REPOSITORY / "Makefile").read_text()


def test_every_picture_in_it_is_there_and_small() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert shown
    assert [name for name in shown if not 0 < (REPOSITORY / name).stat().st_size <= 300_000] == []


def test_every_link_in_it_leads_to_a_section() -> None:
    titles = re.findall(r"^###? (.+)$", README, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}
    linked = re.findall(r"\]\(#([^)]+)\)", README)
    assert linked
    assert set(linked) <= anchors


def test_the_system_packages_are_the_error_s() -> None:
    assert DEBIAN in README
