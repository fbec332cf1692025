"""A policy that ends pytest's own process: no exit code of 0, and a run that can go on."""

from collections.abc import Callable

import pytest

from pytest_vla.errors import is_of_policy
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


# Kills its process, as often as the file `times` says, in each episode.
KILLED = """
import os, signal
import numpy as np
from pathlib import Path

def policy(episode):
    tried = Path(f"tried{episode.seed}")
    before = tried.read_text() if tried.exists() else ""
    tried.write_text(before + "x")
    if len(before) < int(Path("times").read_text()):
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
"""


@pytest.mark.parametrize("workers", ["-n2", "-n0"])
def test_a_run_may_lose_one_process_to_a_signal_and_gains_nothing_by_more(
    vla: Run, project: pytest.Pytester, workers: str
) -> None:
    """Nobody can tell a signal from outside from one of the policy's own: it would be free to try again."""
    project.makepyfile(killed=KILLED)
    (project.path / "times").write_text("1")
    result = vla(*STOVE, "--vla-model=killed:policy", workers)
    for _ in range(3 if workers == "-n0" else 0):
        # pytest's own process was killed.
        result = vla("--vla-resume", workers)
    found = {record.seed: record for record in records_of(project.path / ".vla")}
    assert {record.outcome for record in found.values()} == {"success"}
    assert sorted(record.retried for record in found.values()) == ["", "worker-crashed", "worker-crashed"]
    result.stdout.fnmatch_lines(["2 episodes succeeded by a retry after the policy*s own error: gates take them*"])
    result = vla("--vla-resume", "--vla-min-success=90%", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["libero_goal: 1/3 = 33.3% *"])
    assert not list((project.path / ".vla").glob("*.running"))


def test_an_episode_that_loses_its_worker_twice_is_the_policys_own_error(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(killed=KILLED)
    (project.path / "times").write_text("2")
    seed = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-seeds=1")
    result = vla(*seed, "--vla-model=killed:policy", "-n1")
    (lost,) = records_of(project.path / ".vla")
    assert (lost.reason, lost.attempt) == ("worker-crashed", 2)
    assert "for the second time: this counts as an error of the policy's own" in str(lost.message)
    assert is_of_policy(lost.reason, lost.attempt)
    result = vla("--vla-resume", "--vla-min-success=90%", "-n1")
    result.stdout.fnmatch_lines(["libero_goal: 0/1 = 0.0% *"])
    assert [record.outcome for record in records_of(project.path / ".vla")] == ["success"]
    assert result.ret == pytest.ExitCode.TESTS_FAILED
