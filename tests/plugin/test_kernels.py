"""Where episodes are asked for, their arithmetic is the same on every machine; foreign projects are left alone."""

import os
from collections.abc import Callable

import pytest

from pytest_vla import kernels
from tests.support.runs import records_of
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]

VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "NPY_DISABLE_CPU_FEATURES")
EPISODE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=policies:straight")
# What a test of the project's own sees.
SEEN = "import os\ndef test_seen(): print('coretype', os.environ.get('OPENBLAS_CORETYPE'))\n"
pytestmark = [
    pytest.mark.skipif(not kernels._pins(), reason="this is no x86-64 processor with AVX2 under Linux"),
    pytest.mark.usefixtures("own_processes"),
]


@pytest.fixture(autouse=True)
def _unpinned(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def said(project: pytest.Pytester) -> set[tuple[str, str]]:
    return {(each.provenance["kernels"], each.provenance["blas"]) for each in records_of(project.path / ".vla")}


@BOTH
def test_a_run_with_episodes_is_pinned(project: pytest.Pytester, vla: Run, workers: str) -> None:
    # conftest.py, and with it what imports numpy here, is loaded after the kernels were chosen.
    project.makeconftest("pytest_plugins = ['pytest_vla.testing']\n")
    result = project.runpytest_subprocess("-p", "no:hypothesispytest", *EPISODE, "--vla-episodes=2", workers)
    result.assert_outcomes(passed=2)
    assert said(project) == {("pinned", "numpy Haswell, scipy Haswell")}
    assert "kernels" not in result.stdout.str()


def test_native_lifts_it_and_is_kept_for_a_resumption(project: pytest.Pytester, vla: Run) -> None:
    vla(*EPISODE, "--vla-kernels=native").assert_outcomes(passed=1)
    ((how, blas),) = said(project)
    assert how == "native"
    assert blas == kernels_here()
    result = vla("--vla-resume")
    result.stderr.fnmatch_lines(["ERROR: --vla-resume: run * was started with --vla-kernels=native: add it here"])


def test_the_ini_file_may_say_it(project: pytest.Pytester, vla: Run) -> None:
    project.makeini("[pytest]\nvla_kernels = native\n")
    vla(*EPISODE).assert_outcomes(passed=1)
    assert {how for how, _ in said(project)} == {"native"}


def test_where_numpy_came_first_it_is_told(project: pytest.Pytester, vla: Run) -> None:
    project.makepyfile(early="import numpy\n")
    result = vla("-p", "early", *EPISODE)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "vla: kernels are native: numpy was imported first, by early; records may differ between machines. "
            "Put OPENBLAS_CORETYPE=* before the command, or use workers (-n 1)"
        ]
    )
    assert {how for how, _ in said(project)} == {kernels.TOO_LATE}


def test_the_fake_world_that_was_asked_for_is_not_advised_against(project: pytest.Pytester) -> None:
    project.makepyfile(policies="def straight(episode): return lambda seen: [1, 0, 0, 0, 0, 0, 0]")
    asked = ("--vla-suite=tabletop", *EPISODE[1:], "--vla-episodes=1")
    result = project.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "pytest_vla.testing", *asked)
    result.assert_outcomes(passed=1)
    assert {how for how, _ in said(project)} == {kernels.TOO_LATE}, "numpy came first"
    assert "kernels are" not in result.stdout.str()


def test_a_foreign_project_is_left_alone(project: pytest.Pytester, vla: Run) -> None:
    project.makepyfile(test_mine=SEEN)
    vla("-s").stdout.fnmatch_lines(["*coretype None*"])


def test_a_project_whose_ini_file_has_a_policy_is_ours(project: pytest.Pytester, vla: Run) -> None:
    project.makepyfile(test_mine=SEEN)
    project.makeini("[pytest]\nvla_model = random\n")
    vla("-s").stdout.fnmatch_lines(["*coretype Haswell*"])


def kernels_here() -> str:
    """What numpy and scipy choose on this machine."""
    import subprocess
    import sys

    code = "from pytest_vla.versions import installed_versions; print(installed_versions()['blas'])"
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).strip()
