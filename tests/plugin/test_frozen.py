"""Processes that are frozen (SIGSTOP), and what a worker's policy leaves behind: nothing hangs, nothing lives on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.records.record import Record
from tests.support.runs import records_of
from tests.support.waiting import until

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
MODEL = "--vla-model=freezing:policy"
# No machine is so slow. Hours pass for whoever watches once the file `frozen` is there.
LIMIT = "--vla-timeout=1000"
HOURS_PASS = """
import time
import types
from pathlib import Path
import pytest_vla.util.processes as processes

FROZEN = Path(__file__).with_name("frozen")

def monotonic():
    if FROZEN.exists():
        monotonic.later += 3600.0
    return time.monotonic() + monotonic.later

monotonic.later = 0.0

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        processes.MOST_OF_A_LOOK = 1e9
        processes.time = types.SimpleNamespace(monotonic=monotonic)
"""
ENDS_WITH_WORKER = """
def pytest_testnodedown(node):
    FROZEN.unlink(missing_ok=True)
"""
# Freezes its process at seed 1 until the file `mended` is there.
FREEZING = """
import os, signal
import numpy as np
from pathlib import Path

HERE = Path(__file__).parent

def freeze():
    (HERE / "frozen").touch()
    os.kill(os.getpid(), signal.SIGSTOP)

def policy(episode):
    def act(observation):
        if episode.seed == 1 and not (HERE / "mended").exists():
            freeze()
        return np.array([1.0, 0, 0, 0, 0, 0, 0])
    return act
"""


@pytest.fixture(autouse=True)
def freezing(project: pytest.Pytester) -> None:
    project.makepyfile(freezing=FREEZING)


def by_seed(project: pytest.Pytester) -> dict[int, Record]:
    return {record.seed: record for record in records_of(project.path / ".vla")}


def test_a_worker_that_is_frozen_in_an_episode_is_killed(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(HOURS_PASS + ENDS_WITH_WORKER)
    result = vla(*STOVE, MODEL, "--vla-seeds=0-2", LIMIT, "-n1")
    result.assert_outcomes(passed=2, failed=1)
    late = by_seed(project)[1]
    assert (late.outcome, late.reason, late.attempt) == ("error", "timeout", 1)
    assert "1000 s and 10 s of grace; the worker was killed (--vla-timeout)" in str(late.message)
    result.stdout.fnmatch_lines(["*replacing crashed worker*"])
    assert not list((project.path / ".vla").glob("*/hung*"))
    (project.path / "mended").touch()
    vla("--vla-resume", "-n1").assert_outcomes(passed=1)
    assert {record.outcome for record in by_seed(project).values()} == {"success"}


def test_a_worker_that_is_frozen_outside_of_an_episode_is_killed(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        HOURS_PASS
        + ENDS_WITH_WORKER
        + """
def pytest_runtest_setup(item):
    if item.name == "test_two":
        import freezing
        freezing.freeze()
"""
    )
    result = vla("test_mine.py", *STOVE, MODEL, LIMIT, "-n1")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*crashed while running 'test_mine.py::test_two'*"])


def test_a_policys_process_that_is_frozen_is_replaced(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(HOURS_PASS)
    project.makepyfile(
        batched="""
        import numpy as np
        import freezing

        class Batched:
            max_batch, reads = 4, ("state",)

            def begin(self, episode):
                return episode.seed

            def act(self, states, observations):
                if 1 in states and not (freezing.HERE / "mended").exists():
                    (freezing.HERE / "mended").touch()
                    freezing.freeze()
                return [np.array([1.0, 0, 0, 0, 0, 0, 0]) for state in states]

        # Once it is loaded again, time passes as ever.
        (freezing.HERE / "frozen").unlink(missing_ok=True)
        policy = Batched()
        """
    )
    arguments = (*STOVE, "--vla-model=batched:policy", "--vla-seeds=0-3", "--vla-policy-timeout=1000", "-n2")
    result = vla(*arguments)
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        ["vla: the policy's process gave no sign of life for 1015 s, 15 s beyond --vla-policy-timeout, and *"]
    )
    assert by_seed(project)[1].attempt == 2


LEAVING = """
import os, subprocess, sys, threading, time
import numpy as np
from pathlib import Path

HERE = Path(__file__).parent
LEFT = "import time; time.sleep(7200)"

def fork(name):
    child = os.fork()
    if not child:
        time.sleep(7200)
    (HERE / name).write_text(str(child))

def policy(episode):
    fork("left-fork")
    thread = threading.Thread(target=fork, args=("left-thread",))
    thread.start()
    thread.join()
    other = subprocess.Popen([sys.executable, "-c", LEFT], start_new_session=True, env={})
    (HERE / "left-session").write_text(str(other.pid))
    how = (HERE / "how").read_text()
    if how != "ends":
        os.kill(os.getpid(), int(how))
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
"""


@pytest.mark.parametrize("how", ["ends", "9"])
def test_what_a_policy_started_ends_with_its_worker(vla: Run, project: pytest.Pytester, how: str) -> None:
    project.makepyfile(leaving=LEAVING)
    (project.path / "how").write_text(how)
    # A worker's pipes are inherited: with a child that lives on, nobody would see its end.
    result = vla(*STOVE, "--vla-model=leaving:policy", "-n1")
    assert result.ret == (0 if how == "ends" else pytest.ExitCode.TESTS_FAILED)
    left = [int(file.read_text()) for file in project.path.glob("left-*")]
    assert len(left) == 3
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left))
