"""A project that has pytest-vla installed and does not use it notices nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "scipy", "numba", "llvmlite", "mujoco", "robosuite", "cv2", "av", "filelock", "torch", "sqlite3")
TESTS = """
import sys
import pytest

@pytest.fixture
def world():
    return "their own"

@pytest.mark.parametrize("n", range(3))
def test_theirs(n, world):
    assert world == "their own"

def test_nothing_heavy_is_loaded():
    assert [name for name in {heavy} if name in sys.modules] == []

@pytest.mark.xfail
def test_expected():
    assert False

def test_skipped():
    pytest.skip("not today")
"""


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    (tmp_path / "test_theirs.py").write_text(TESTS.replace("{heavy}", repr(HEAVY)))
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers --strict-config\n")
    return tmp_path


def pytest_says(folder: Path, *arguments: str) -> tuple[int, str, str]:
    # Hypothesis's plugin is not ours, and loads much by itself.
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:cacheprovider", *arguments]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    environ["PYTHONDONTWRITEBYTECODE"] = "1"
    result = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
    # The header names every installed plugin; durations vary.
    lines = [line for line in result.stdout.splitlines() if not line.startswith("plugins:")]
    return result.returncode, re.sub(r"\d+\.\d+s", "TIME", "\n".join(lines)), result.stderr


@pytest.mark.parametrize(
    "arguments", [(), ("-v", "-rA"), ("-q", "-n", "1"), ("--collect-only", "-q"), ("--fixtures-per-test",)]
)
def test_the_output_is_the_same_with_and_without_us(foreign: Path, arguments: tuple[str, ...]) -> None:
    before = sorted(path.name for path in foreign.iterdir())
    with_us = pytest_says(foreign, *arguments)
    assert with_us[0] == 0, with_us
    assert with_us == pytest_says(foreign, *arguments, "-p", "no:vla")
    assert sorted(path.name for path in foreign.iterdir()) == before, "files were made"


def test_the_plugin_is_really_there(foreign: Path) -> None:
    """Otherwise the other tests compare nothing with nothing."""
    assert "--vla-suite" in pytest_says(foreign, "--help")[1]
    assert "--vla-suite" not in pytest_says(foreign, "--help", "-p", "no:vla")[1]


def test_without_the_plugin_a_conftest_may_have_its_hooks(foreign: Path) -> None:
    (foreign / "conftest.py").write_text("def pytest_vla_suites():\n    raise SystemExit('not without the plugin')\n")
    code, text, _ = pytest_says(foreign, "-p", "no:vla")
    assert (code, "INTERNALERROR" in text) == (0, False)
    # A name that is no hook is an error all the same.
    (foreign / "conftest.py").write_text("def pytest_vla_suits():\n    return []\n")
    assert "unknown hook 'pytest_vla_suits'" in "".join(map(str, pytest_says(foreign, "-p", "no:vla")))


def test_loading_the_plugin_imports_nothing_heavy() -> None:
    script = f"import sys, pytest_vla, pytest_vla.plugin; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
