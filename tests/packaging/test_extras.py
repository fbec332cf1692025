"""The core has no simulator: what each extra brings, and what runs without any."""

import ast
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.util.extras import LIBERO, PICTURES, extra_of
from pytest_vla.versions import DEFAULT
from tests.support import evaluator_logs
from tests.support.data import REPOSITORY
from tests.support.own_worlds import CONFTEST

PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

BLOCKED = ("mujoco", "robosuite", "numba", "llvmlite", "termcolor", "cv2")
BLOCKING = f"""
import sys

blocked = set({BLOCKED!r})

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())

import importlib.metadata, importlib.util
has, version = importlib.util.find_spec, importlib.metadata.version
def found(name):
    if name in blocked:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = found
importlib.util.find_spec = lambda name, *more: None if name in blocked else has(name, *more)
"""
RUNS = """
import pytest
from pytest_vla.cli import main

def played(*arguments):
    return int(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *arguments]))

def told(*arguments):
    print(">", *arguments)
    return main(["-p", "conftest", *arguments])

POINT = ("--vla-suite=point", "--vla-tasks=push_the_point", "--vla-model=expert", "--vla-vary=action.delay:5")
codes = {
    "foreign": played(),
    "kinds": played("--vla-vary=list"),
    "run": played(*POINT, "--vla-twins=auto", "--vla-seeds=0", "--vla-video=all"),
    "tabletop": played("--vla-suite=tabletop", "--vla-model=random"),
    "noise": played("--vla-suite=point", "--vla-model=random", "--vla-vary=noise"),
    "report": told("report", "--full"),
    "page": told("report", "-o", "page.html"),
    "pictures": told("show", "last", "-o", "last.png"),
    "baseline": told("baseline", "save"),
    "gate": told("gate"),
    "fuzz": told("fuzz", "--vla-suite=tabletop", "--vla-model=random"),
    "log": told("import", "openpi.log", "--evaluator=openpi"),
    "shard": played(*POINT, "--vla-shard=1/2"),
    "other": played(*POINT, "--vla-shard=2/2"),
    "merge": told("merge"),
    "runs": told("runs"),
    "compile": told("cache", "--compile"),
}
print("", sorted(blocked & set(sys.modules)), codes, sep="\\n")
"""


def names_of(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9._-]", each, maxsplit=1)[0].lower() for each in requirements}


def test_the_core_pins_nothing_and_has_no_simulator() -> None:
    core = PROJECT["dependencies"]
    assert [each for each in core if "==" in each or "<" in each] == []
    assert names_of(core).isdisjoint({"mujoco", "robosuite", "numba", "termcolor", "gymnasium", "huggingface-hub"})
    assert [name for name in names_of(core) if name.startswith("opencv")] == []


def test_the_extra_libero_has_the_supported_pair() -> None:
    assert {f"{name}=={version}" for name, version in DEFAULT.items()} <= set(EXTRAS["libero"])
    assert any("libero" in each for each in EXTRAS["dev"]), "make installs it"


def test_no_extra_brings_both_packages_of_opencv() -> None:
    """robosuite requires opencv-python, lerobot the headless one: their files are the same."""
    assert [name for name, each in EXTRAS.items() if "opencv-python" in names_of(each)] == []
    assert [name for name, each in EXTRAS.items() if "opencv-python-headless" in names_of(each)] == ["pictures"]
    assert "pictures" not in EXTRAS["all"][0]


def test_every_extra_is_in_the_docs() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "simulators.md").read_text()
    (table,) = re.findall(r"^\| extra \| for \|\n(.*?)\n\n", page, re.MULTILINE | re.DOTALL)
    first = [row.split("|")[1] for row in table.splitlines()[1:]]
    assert {name for cell in first for name in re.findall("`([^`]+)`", cell)} == EXTRAS.keys()


def test_every_extra_that_a_text_names_is_there() -> None:
    folders = ("pytest_vla", "suites", "reports", "fixtures", "docs", "scripts")
    files = [*(REPOSITORY / "README.md", REPOSITORY / "action.yml")]
    files += [path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.suffix in (".py", ".md")]
    named = {
        name
        for file in files
        for some in re.findall(r"pytest-vla\[([a-z0-9,-]+)\]", file.read_text())
        for name in some.split(",")
    }
    assert named - EXTRAS.keys() == set()


@pytest.mark.parametrize(
    ("module", "cure"), [("mujoco", LIBERO), ("numba.core", LIBERO), ("cv2", PICTURES), ("numpy", None), (None, None)]
)
def test_the_cure_of_a_missing_simulator_is_its_extra(module: str | None, cure: str | None) -> None:
    assert extra_of(ModuleNotFoundError(name=module)) == cure
    assert extra_of(ImportError(name=module)) is None


def test_without_a_simulator_everything_but_its_scenes_works(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(textwrap.dedent(CONFTEST))
    (tmp_path / "test_theirs.py").write_text("def test_theirs():\n    pass\n")
    log = evaluator_logs.text_log("openpi", "libero_goal", evaluator_logs.outcomes("libero_goal"))
    (tmp_path / "openpi.log").write_text(log)
    command = [sys.executable, "-c", BLOCKING + RUNS]
    environ = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    *_, loaded, codes = done.stdout.splitlines()
    refused = {"tabletop": 4, "noise": 4, "fuzz": 1, "compile": 1}
    assert {name: code for name, code in ast.literal_eval(codes).items() if code != refused.get(name, 0)} == {}, done
    assert loaded == "[]"
    assert done.stderr.count("pip install 'pytest-vla[libero]'") == 3
    assert done.stderr.count("pip install 'pytest-vla[pictures]'") == 1
