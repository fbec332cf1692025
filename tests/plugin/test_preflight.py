"""What is known to be wrong stops the run before its first episode, once."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.run.marker import EXAMPLE, NOTHING_TO_RUN
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, vla: Run) -> Run:
    """`vla` where nothing says where LIBERO's data is."""
    monkeypatch.delenv("PYTEST_VLA_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LIBERO_CONFIG_PATH", str(tmp_path))
    return vla


def stops_with(result: pytest.RunResult, complaint: str) -> None:
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([complaint])
    assert result.stderr.str().count("ERROR: ") == 1


@BOTH
def test_no_data(no_data: Run, workers: str) -> None:
    result = no_data(*STOVE, "--vla-model=random", workers)
    stops_with(result, "ERROR: LIBERO's assets were not found. *--vla-data or PYTEST_VLA_DATA*")


def test_a_data_folder_without_a_kind(no_data: Run, tmp_path: Path) -> None:
    (tmp_path / "data" / "assets").mkdir(parents=True)
    (tmp_path / "data" / "bddl_files").mkdir()
    result = no_data(*STOVE, "--vla-model=random", f"--vla-data={tmp_path / 'data'}")
    stops_with(result, "ERROR: LIBERO's init_files were not found.*")


def test_a_suite_that_brings_its_own_data_wants_none(no_data: Run) -> None:
    tabletop = ("--vla-suite=tabletop", "--vla-tasks=turn_on_the_stove")
    no_data(*tabletop, "--vla-model=policies:straight").assert_outcomes(passed=1)


def test_without_a_policy_every_kind_that_needs_no_server_is_named(no_data: Run) -> None:
    kinds = ("expert", "random", "module:callable", "replay:PATH")
    named = " or ".join((", ".join(f"--vla-model={kind}" for kind in kinds[:-1]), f"--vla-model={kinds[-1]}"))
    stops_with(no_data("--vla-suite=tabletop"), f"ERROR: tabletop: no policy is given. Add {named} (*")


@pytest.mark.parametrize("suite", sorted(set(re.findall(r"suite=\W?(\w+)", NOTHING_TO_RUN + EXAMPLE))))
def test_a_suite_in_an_example_needs_no_data(no_data: Run, suite: str) -> None:
    (tasks,) = re.findall('tasks="([a-z_]+)"', EXAMPLE)
    result = no_data(f"--vla-suite={suite}", f"--vla-tasks={tasks}_the_stove", "--vla-model=policies:straight")
    result.assert_outcomes(passed=1)


def test_its_data_is_not_taken_for_liberos(no_data: Run) -> None:
    result = no_data("--vla-suite=tabletop,libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=random")
    stops_with(result, "ERROR: LIBERO's assets were not found. Searched: nothing, *--vla-data or PYTEST_VLA_DATA*")


def test_data_of_another_benchmark_is_not_liberos(no_data: Run, tmp_path: Path) -> None:
    (tmp_path / "libero_para_metadata.csv").touch()
    result = no_data(*STOVE, "--vla-model=random", f"--vla-data={tmp_path}")
    stops_with(result, "ERROR: LIBERO's assets were not found. *, not LIBERO's own data: give that by PYTEST_VLA_DATA*")


def test_a_data_folder_that_is_none(vla: Run) -> None:
    stops_with(vla(*STOVE, "--vla-model=random", "--vla-data=nowhere"), "ERROR: *nowhere: --vla-data names a folder *")


def test_data_is_not_wanted_for_collection(no_data: Run) -> None:
    assert no_data(*STOVE, "--collect-only").ret == 0


def test_another_simulator_is_refused_unless_allowed(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(probe="from pytest_vla import versions\nversions.SUPPORTED['mujoco'] = ('3.5.0', '3.4.0')\n")
    refused = vla(*STOVE, "--vla-model=policies:straight", "-p", "probe")
    stops_with(refused, "ERROR: found mujoco *; supported is mujoco 3.5.0 (or 3.4.0) *--vla-allow-versions*")
    allowed = vla(*STOVE, "--vla-model=policies:straight", "-p", "probe", "--vla-allow-versions")
    allowed.assert_outcomes(passed=1)
