"""A project to run pytest in, with a world that needs no simulator and no data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import gate_runs
from tests.support.batched import BATCHED
from tests.support.forks import forked
from tests.support.waiting import RUN_OUT

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
def own_processes() -> None:
    """A test that asks for it starts real processes: with kernels, modules and a seed of hashes of their own."""


@pytest.fixture(autouse=True)
def _forks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "own_processes" in request.fixturenames:
        return
    run = pytest.Pytester.runpytest_subprocess

    def run_forked(self: pytest.Pytester, *arguments: Any, **options: Any) -> pytest.RunResult:
        with forked():
            return run(self, *arguments, **options)

    monkeypatch.setattr(pytest.Pytester, "runpytest_subprocess", run_forked)


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
        # Hypothesis's plugin is not ours, and slow to load.
        return project.runpytest_subprocess("-p", "pytest_vla.testing", "-p", "no:hypothesispytest", *arguments)

    return run


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    """The baseline's text, once it is known."""
    return {}


@pytest.fixture
def base(vla: gate_runs.Run, project: pytest.Pytester, kept: dict[str, str]) -> Path:
    """A baseline of ten episodes that all succeed."""
    return gate_runs.base_in(project, vla, kept, *gate_runs.STOVE, gate_runs.ALL)


@pytest.fixture
def limits_that_run_out(project: pytest.Pytester) -> None:
    """The module ``run_out``, which policies of the project may import."""
    project.makepyfile(run_out=RUN_OUT)


@pytest.fixture
def batched(project: pytest.Pytester) -> Path:
    """The project's folder with the module ``batched``, a policy that answers in batches."""
    project.makepyfile(batched=BATCHED)
    return project.path
