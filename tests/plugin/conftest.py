"""A project to run pytest in, with a world that needs no simulator and no data."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.forks import forked

# Straight to the goal line, and standing still.
POLICIES = """
import numpy as np

def straight(episode):
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])

def still(episode):
    return lambda observation: np.zeros((50, 7))

def broken(episode):
    return lambda observation: 1 / 0

def shapeless(episode):
    return lambda observation: np.zeros(3)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with two tests of the user's own, policies, and no ini file."""
    pytester.makepyfile(test_mine="def test_one(): pass\n\ndef test_two(): pass\n", policies=POLICIES)
    return pytester


@pytest.fixture
def vla(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., pytest.RunResult]:
    """Run pytest in the project, in a process of its own, on the fake world."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_AUTO_NUM_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    # Folders are all that the fake world needs of LIBERO's data.
    data = tmp_path_factory.mktemp("data")
    for kind in ("assets", "bddl_files", "init_files"):
        (data / kind).mkdir()
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))

    def run(*arguments: Any) -> pytest.RunResult:
        with forked():
        # Hypothesis's plugin is not ours, and slow to load.
            return project.runpytest_subprocess("-p", "pytest_vla.testing", "-p", "no:hypothesispytest", *arguments)

    return run
