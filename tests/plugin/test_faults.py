"""Workers that die or hang, disks that are full, databases that are locked: what is lost, and what is said."""

import re
import sqlite3
from collections.abc import Callable

import pytest

from pytest_vla.records.record import Record
from tests.support.runs import records_of
from tests.support.waiting import RUN_OUT
from tests.support.workers import ALONE, BOTH

Run = Callable[..., pytest.RunResult]

GOAL = "--vla-suite=libero_goal"
STOVE = (GOAL, "--vla-tasks=turn_on_the_stove")
# What is dropped into `fault` happens at seed 2: each time, or for the first time only.
FAULTY = """
import ctypes, os, signal, time
import numpy as np
from pathlib import Path
from run_out import run_out, run_out_for_good

def fault(kind):
    if kind in ("sleep", "loop"):
        run_out()
    if kind in ("swallow", "native"):
        run_out_for_good()
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif kind == "abort":
        os.abort()
    elif kind == "sleep":
        time.sleep(7200)
    elif kind == "loop":
        while True:
            pass
    elif kind == "swallow":
        while True:
            try:
                run_out()
                time.sleep(7200)
            except BaseException:
                pass
    elif kind == "native":
        # A signal would end the sleep, and the GIL is held.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        ctypes.PyDLL(None).sleep(7200)

def policy(episode):
    steps = 0

    def act(observation):
        nonlocal steps
        steps += 1
        if steps == 3 and episode.seed == 2:
            times, kind = Path("fault").read_text().split()
            before = Path("times").read_text() if Path("times").exists() else ""
            if len(before) < int(times):
                Path("times").write_text(before + "x")
                fault(kind)
        return np.array([1.0, 0, 0, 0, 0, 0, 0])

    return act
"""
MODEL = "--vla-model=faulty:policy"
# No machine is so slow; it runs out where an episode hangs.
LIMIT = "--vla-timeout=1000"


@pytest.fixture(autouse=True)
def faulty(project: pytest.Pytester) -> None:
    project.makepyfile(faulty=FAULTY, run_out=RUN_OUT)


def fault(project: pytest.Pytester, times: int, kind: str) -> None:
    (project.path / "fault").write_text(f"{times} {kind}")


def by_seed(project: pytest.Pytester) -> dict[int, Record]:
    return {record.seed: record for record in records_of(project.path / ".vla")}


@pytest.mark.parametrize("how", ["load", "worksteal"])
@pytest.mark.parametrize("kind", ["kill", "abort"])
def test_a_killed_workers_episode_runs_again_once(vla: Run, project: pytest.Pytester, kind: str, how: str) -> None:
    fault(project, 1, kind)
    result = vla(*STOVE, MODEL, "--vla-seeds=0-5", "-n2", f"--dist={how}")
    assert {seed: record.outcome for seed, record in by_seed(project).items()} == dict.fromkeys(range(6), "success")
    assert {seed: record.attempt for seed, record in by_seed(project).items()} == {**dict.fromkeys(range(6), 1), 2: 2}
    assert result.ret == 0
    result.stdout.fnmatch_lines(["1 episode ran again after an error or a crashed process", "*6 passed, 1 rerun*"])


@pytest.mark.parametrize("workers", ["-n1", "-n3"])
def test_the_second_time_it_is_an_error(vla: Run, project: pytest.Pytester, workers: str) -> None:
    fault(project, 9, "kill")
    result = vla(*STOVE, MODEL, "--vla-seeds=0-5", workers)
    records = by_seed(project)
    lost = records.pop(2)
    assert (lost.outcome, lost.reason, lost.attempt, lost.steps) == ("error", "worker-crashed", 2, 0)
    assert "crashed while running" in str(lost.message)
    assert lost.worker.startswith("gw")
    assert {record.outcome for record in records.values()} == {"success"}
    assert len(records) == 5
    assert (project.path / "times").read_text() == "xx", "twice, and not more"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "libero_goal * 6 * 5/5 *100.0%*",
            "*errors: 1 worker-crashed",
            "FAILED libero_goal::*turn_on_the_stove-seed2]*",
        ]
    )
    assert "run it alone: pytest 'libero_goal::test_episode[turn_on_the_stove-seed2]'" in result.stdout.str()


def test_an_episode_of_a_users_test_runs_again_too(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        import os, signal
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=range(4))
        def test_it(rollout):
            assert rollout.success

        def test_plain():
            os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    fault(project, 1, "kill")
    result = vla("test_mine.py", MODEL, "-n2")
    # A test that is no episode fails once, as ever.
    result.assert_outcomes(passed=4, failed=1)
    assert by_seed(project)[2].attempt == 2
    assert "test_plain" in result.stdout.str().partition("short test summary")[2]


@BOTH
@pytest.mark.parametrize("kind", ["sleep", "loop"])
def test_a_hang_in_python_is_an_error_and_the_process_goes_on(
    vla: Run, project: pytest.Pytester, kind: str, workers: str
) -> None:
    fault(project, 9, kind)
    result = vla(*STOVE, MODEL, "--vla-seeds=0-4", LIMIT, workers)
    result.assert_outcomes(passed=4, errors=1)
    late = by_seed(project)[2]
    assert (late.outcome, late.reason, late.steps, late.attempt) == ("error", "timeout", 2, 1)
    # Or where it runs out, if it does so late.
    place = r"(faulty\.py:\d+ in fault|run_out\.py:\d+ in run_out)"
    assert re.search(rf"no end within 1000 s; stopped at .*{place} \(--vla-timeout\)", str(late.message))
    result.stdout.fnmatch_lines(["error timeout after 2 of 300 steps: no end within 1000 s*"])
    assert "replacing crashed worker" not in result.stdout.str()


@ALONE
def test_a_limit_is_of_real_time(vla: Run, project: pytest.Pytester, workers: str) -> None:
    """Nothing here has to be quick: the one episode hangs in its first step, or its limit was reached before."""
    project.makepyfile(late="import time\n\ndef policy(episode):\n    return lambda observation: time.sleep(7200)\n")
    result = vla(*STOVE, "--vla-model=late:policy", "--vla-timeout=1", workers)
    result.assert_outcomes(errors=1)
    (late,) = by_seed(project).values()
    assert (late.outcome, late.reason, late.steps) == ("error", "timeout", 0)
    assert "no end within 1 s; stopped at " in str(late.message)


@pytest.fixture
def short_hard_limit(project: pytest.Pytester) -> None:
    """What sets the hard limit is known to `run_out_for_good`."""
    project.makeconftest("import run_out\n")


@pytest.mark.usefixtures("short_hard_limit")
@pytest.mark.parametrize("kind", ["native", "swallow"])
def test_a_worker_that_hangs_for_good_is_replaced(vla: Run, project: pytest.Pytester, kind: str) -> None:
    fault(project, 9, kind)
    result = vla(*STOVE, MODEL, "--vla-seeds=0-4", LIMIT, "-n2")
    records = by_seed(project)
    late = records.pop(2)
    assert (late.outcome, late.reason) == ("error", "timeout")
    assert "hung at " in str(late.message)
    assert "faulty.py:" in str(late.message)
    assert {record.outcome for record in records.values()} == {"success"}
    assert len(records) == 4
    assert (project.path / "times").read_text() == "x", "what hung is not run again"
    result.stdout.fnmatch_lines(["*replacing crashed worker*", "libero_goal * 5 * 4/4 *", "*errors: 1 timeout"])
    assert not list((project.path / ".vla").glob("*/hung*"))


@pytest.mark.usefixtures("short_hard_limit")
def test_without_workers_a_hang_for_good_ends_the_run_and_says_where(vla: Run, project: pytest.Pytester) -> None:
    fault(project, 1, "native")
    result = vla(*STOVE, MODEL, "--vla-seeds=0-4", LIMIT)
    assert result.ret != 0
    result.stderr.fnmatch_lines(["Timeout (*", "*faulty.py*in fault"])
    assert set(by_seed(project)) == {0, 1}
    vla("--vla-resume").assert_outcomes(passed=3, deselected=2)
    assert {seed: record.outcome for seed, record in by_seed(project).items()} == dict.fromkeys(range(5), "success")


@ALONE
def test_a_limit_that_nothing_reaches_changes_nothing(vla: Run, project: pytest.Pytester, workers: str) -> None:
    fault(project, 0, "kill")
    vla(*STOVE, MODEL, "--vla-seeds=0-4")
    without = {seed: record.digest for seed, record in by_seed(project).items()}
    vla(*STOVE, MODEL, "--vla-seeds=0-4", LIMIT, workers).assert_outcomes(passed=5)
    assert {seed: record.digest for seed, record in by_seed(project).items()} == without
    assert not list((project.path / ".vla").glob("*/hung*"))


@ALONE
def test_a_full_disk_stops_the_run_with_what_ended(vla: Run, project: pytest.Pytester, workers: str) -> None:
    fault(project, 0, "kill")
    # A file system with no room left, as the database sees it.
    project.makeconftest(
        """
        import pytest_vla.records.store

        opened = pytest_vla.records.store.open_store

        def open_full(results, **options):
            store = opened(results, **options)
            pages = store._database.connection.execute("PRAGMA page_count").fetchone()[0]
            store._database.connection.execute(f"PRAGMA max_page_count = {pages + 20}")
            return store

        pytest_vla.records.store.open_store = open_full
        """
    )
    result = vla(GOAL, MODEL, "--vla-seeds=10-99", workers)
    assert result.ret != 0
    said = result.stdout.str() + result.stderr.str()
    assert "results.sqlite" in said
    assert "full" in said
    assert "free space" in said
    assert "INTERNALERROR" not in said
    kept = records_of(project.path / ".vla")
    assert 0 < len(kept) < 900
    assert len({record.node for record in kept}) == len(kept)


@ALONE
def test_a_database_that_stays_locked_stops_the_run(vla: Run, project: pytest.Pytester, workers: str) -> None:
    fault(project, 0, "kill")
    project.makeconftest(
        """
        import pytest_vla.records.store
        from functools import partial

        pytest_vla.records.store.open_store = partial(pytest_vla.records.store.open_store, timeout=0.5)
        """
    )
    vla(*STOVE, MODEL)
    other = sqlite3.connect(project.path / ".vla" / "results.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    try:
        result = vla(*STOVE, MODEL, "--vla-seeds=1-3", workers)
    finally:
        other.close()
    assert result.ret != 0
    said = result.stdout.str() + result.stderr.str()
    assert "locked" in said
    assert "INTERNALERROR" not in said
    assert len(by_seed(project)) == 1
