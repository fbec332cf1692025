"""A policy that ends pytest's own process: no exit code of 0, and a run that can go on."""

from collections.abc import Callable

import pytest

from pytest_vla.records.store import open_store
from tests.support.runs import records_of

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-seeds=1-3")
# At seed 2, until the file `mended` is there.
LEAVING = """
import os, posix, threading
import numpy as np
from pathlib import Path

child = os.fork()
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0, "a child's end is its own matter"

def leave():
    os._exit({code})

def policy(episode):
    if episode.seed == 2 and not Path("mended").exists():
        {how}
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
"""
IN_THREAD = "thread = threading.Thread(target=leave); thread.start(); thread.join()"


@pytest.mark.parametrize(("code", "how", "ends_with"), [(0, IN_THREAD, 1), (7, "posix._exit(7)", 7)])
def test_a_policy_that_ends_the_process_does_not_pass(
    vla: Run, project: pytest.Pytester, code: int, how: str, ends_with: int
) -> None:
    project.makepyfile(leaving=LEAVING.format(code=code, how=how))
    result = vla(*STOVE, "--vla-model=leaving:policy")
    assert result.ret == ends_with
    with open_store(project.path / ".vla", create=False) as store:
        run = store.run("last")
    assert (run.status, run.planned, run.done) == ("stopped", 3, 2), "the episode that it ended is an error"
    result.stderr.fnmatch_lines(
        [
            "pytest-vla: os._exit was called at *leaving.py:* while 2 of 3 episodes were not run: "
            f"pytest ends with code {ends_with}; resume with `pytest --vla-resume={run.name} -p pytest_vla.testing`"
        ]
    )
    (project.path / "mended").touch()
    result = vla("--vla-resume", "--vla-min-success=90%")
    result.assert_outcomes(passed=2, deselected=1)
    assert {record.outcome for record in records_of(project.path / ".vla")} == {"success"}
    assert len(records_of(project.path / ".vla")) == 3
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "to exit where it would fail gains nothing"
    result.stdout.fnmatch_lines(["libero_goal: 2/3 = 66.7% *"])


def test_a_worker_that_ends_so_has_died(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(leaving=LEAVING.format(code=0, how="leave()"))
    result = vla(*STOVE, "--vla-model=leaving:policy", "-n1")
    result.assert_outcomes(passed=2, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [record.reason for record in records_of(project.path / ".vla") if record.seed == 2] == ["process-exited"]


@pytest.mark.parametrize(("how", "passes"), [("leave()", False), ("os.kill(os.getpid(), 9)", True)])
def test_a_worker_that_exits_once_gains_nothing_and_one_that_is_killed_runs_again(
    vla: Run, project: pytest.Pytester, how: str, passes: bool
) -> None:
    project.makepyfile(leaving=LEAVING.format(code=1, how=f"Path('mended').touch(); {how}"))
    result = vla(*STOVE, "--vla-model=leaving:policy", "-n1", "--vla-min-success=90%")
    assert {record.outcome for record in records_of(project.path / ".vla")} == {"success"}
    assert (result.ret == 0) is passes
