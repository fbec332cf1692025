"""``--vla-max-hours`` and ``--vla-worker-hours``: runs end in time, in an order that is balanced, and say what ran.

The clock is a file: each episode of the policy makes it longer, a byte a second.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import scipy.special  # noqa: F401  # Before pytester, which would have it imported twice.

from pytest_vla.cli import main
from pytest_vla.records.store import STORE, open_store
from tests.support.gate_runs import base_in
from tests.support.runs import run_names

Run = Callable[..., pytest.RunResult]

CLOCK = """
from pathlib import Path
import pytest_vla.run.time_budget as limits

file = Path(__file__).with_name("clock")
limits.clock = lambda: float(file.stat().st_size) if file.exists() else 0.0
"""
POLICIES = """
import signal
import numpy as np
from pathlib import Path

def run(episode, does):
    with open("begun", "a") as begun:
        begun.write(f"{episode.task} {episode.seed}\\n")
    with open("clock", "a") as clock:
        clock.write("x" * (20 if does else 60))
    return lambda observation: np.array([[float(does), 0, 0, 0, 0, 0, 0]] * 20)

def most(episode):
    return run(episode, episode.seed % 3)

def all(episode):
    return run(episode, True)

def cut(episode):
    if Path("begun").exists() and len(Path("begun").read_text().splitlines()) == 4:
        signal.raise_signal(signal.SIGINT)
    return run(episode, True)
"""
TWO = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove,open_the_middle_drawer_of_the_cabinet")
TEN = (*TWO, "--vla-episodes=10")
MOST, ALL, CUT = (f"--vla-model=timed:{name}" for name in ("most", "all", "cut"))


@pytest.fixture(autouse=True)
def timed(project: pytest.Pytester) -> None:
    """Policies whose failures take a minute and whose successes take a third of it."""
    project.makeconftest(CLOCK)
    project.makepyfile(timed=POLICIES)


def begun(project: pytest.Pytester) -> list[str]:
    file = project.path / "begun"
    return file.read_text().splitlines() if file.exists() else []


def start_clock(project: pytest.Pytester) -> None:
    (project.path / "clock").unlink(missing_ok=True)


def by_task(lines: list[str]) -> Counter[str]:
    return Counter(line.split()[0] for line in lines)


def test_a_run_ends_in_time_and_goes_on_in_the_same_order(
    vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    result = vla(*TEN, MOST, "--vla-max-hours=3m", "--vla-min-success=20%")
    first = begun(project)
    assert result.ret == 0, "the rate of what ran is high enough"
    assert sorted(by_task(first).values()) in ([2, 2], [2, 3], [3, 3])
    (name,) = run_names(project.path / ".vla")
    share = len(first) / 20
    result.stdout.fnmatch_lines(
        [
            "vla: stops after 3:00 (--vla-max-hours=3m); episodes run in an order that is balanced at any time",
            f"vla: time limit reached (--vla-max-hours=3m): {len(first)} of 20 episodes ran, few for 1 worker: the "
            f"rate of so short a run can be off by points; resume with `pytest --vla-resume={name}*`",
        ]
    )
    capsys.readouterr()
    assert main(["runs"]) == 0
    assert "stopped by time: few episodes for its workers" in capsys.readouterr().out
    assert main(["runs", "--json"]) == 0
    (run,) = json.loads(capsys.readouterr().out)
    assert run["status"] == "stopped"
    sample = run["sample"]
    assert (sample["by"], sample["balanced"], sample["tasks"]) == ("--vla-max-hours=3m", True, 2)
    assert (sample["done"], sample["planned"], sample["share"]) == (len(first), 20, share)
    assert main(["baseline", "save", "-o", "base.json"]) != 0
    few = f"was stopped by time (--vla-max-hours=3m): {len(first)} of 20 episodes, few for 1 worker"
    assert few in capsys.readouterr().err
    assert main(["report", "--format=html", "-o", "report.html"]) == 0
    page = Path("report.html").read_text()
    assert f"run {name} {few}" in page

    start_clock(project)
    assert vla("--vla-resume", "--vla-max-hours=.05", "-n2").ret == 0
    second = begun(project)
    assert len(second) > len(first)
    assert max(by_task(second).values()) - min(by_task(second).values()) <= 2
    # A run from its beginning on has the same order.
    start_clock(project)
    (project.path / "begun").rename(project.path / "kept")
    vla(*TEN, MOST, "--vla-max-hours=100", "--vla-results=other")
    whole = begun(project)
    assert whole[: len(first)] == first
    assert len(whole) == len(set(whole)) == 20
    (project.path / "begun").write_text("")
    vla("--vla-resume", "--vla-results=.vla")
    assert sorted([*second, *begun(project)]) == sorted(whole), "each once, and the rest without a limit"
    with open_store(project.path / ".vla", create=False) as store:
        (run,) = store.runs()
        assert run.status == "finished"


def test_workers_share_a_budget(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*TEN, ALL, "--vla-worker-hours=4m", "-n2", "-q")
    ran = begun(project)
    # Both note their time in one file: two minutes of it are six episodes, and a worker may have begun another.
    assert 6 <= len(ran) <= 8
    assert result.ret == 0
    result.assert_outcomes(passed=len(ran))
    result.stdout.fnmatch_lines(
        [f"vla: time limit reached (--vla-worker-hours=4m): {len(ran)} of 20 episodes ran, few for 2 workers: *"]
    )
    assert max(by_task(ran).values()) - min(by_task(ran).values()) <= 2


def test_nothing_is_begun_that_cannot_end(vla: Run, project: pytest.Pytester) -> None:
    assert vla(*TWO, "--vla-episodes=1", ALL).ret == 0
    with closing(sqlite3.connect(project.path / ".vla" / STORE)) as store:
        store.execute("UPDATE episodes SET wall = 100")
        store.commit()
    (project.path / "begun").unlink()
    start_clock(project)
    result = vla(*TEN, ALL, "--vla-max-hours=150s")
    # At 60 s a hundred more would be too many; at 40 they are not.
    assert len(begun(project)) == 3
    (project.path / "begun").unlink()
    start_clock(project)
    result = vla(*TEN, ALL, "--vla-max-hours=90s", "test_mine.py")
    assert begun(project) == []
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "vla: no episode was run: the time limit (--vla-max-hours=90s) was reached first: starting took "
            "0:00, and an episode may take 1:40; give more time"
        ]
    )


def test_gates_are_not_judged_or_undecided(vla: Run, project: pytest.Pytester) -> None:
    base_in(project, vla, {}, *TEN, ALL)
    (project.path / "begun").unlink()
    start_clock(project)
    gate = ("--vla-baseline=base.json", "--vla-margin=60", "--vla-max-hours=65s")
    fixed = vla(*TEN, ALL, *gate)
    assert len(begun(project)) == 4
    assert fixed.ret == 1
    fixed.stdout.fnmatch_lines(["*the gate was not judged: 16 of 20 episodes were not run*"])
    start_clock(project)
    sequential = vla(*TEN, ALL, *gate, "--vla-gate=sequential")
    sequential.stdout.fnmatch_lines(
        [
            "vla: stops after 1:05 * in the gate's order",
            "vla: time limit reached *, in the gate's order; *",
            "gate: undecided *",
        ]
    )
    assert sequential.ret == 0, "undecided is no regression"


def test_what_else_stops_a_run_leaves_no_balanced_sample(
    vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    vla(*TEN, CUT, "--vla-max-hours=10m")
    start_clock(project)
    vla(*TEN, MOST, "--vla-max-hours=10m", "-x", "--vla-results=failed")
    start_clock(project)
    capsys.readouterr()
    for results in (".vla", "failed"):
        assert main(["runs", f"--vla-results={results}"]) == 0
        assert "stopped by time" not in capsys.readouterr().out
    # Ctrl-C has cut an episode: it comes first when the run goes on, and all is balanced again.
    (project.path / "begun").unlink()
    assert vla("--vla-resume", "--vla-results=.vla", "--vla-max-hours=65s").ret in (0, 2)


def test_a_scheduler_without_an_order_is_refused(vla: Run) -> None:
    result = vla(*TEN, ALL, "--vla-max-hours=1", "-n1", "--dist=worksteal")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--dist=worksteal: a run that time may end has an order*"])


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_tests_that_share_an_episode_all_run(vla: Run, project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=range(6), scope="class")
        class TestStove:
            def test_a(self, rollout): pass
            def test_b(self, rollout): pass
        """
    )
    result = vla("test_own.py", "test_mine.py", ALL, "--vla-max-hours=65s", *workers)
    # Of the fourth the first test begins at 60 s, and the other comes at 80.
    assert len(begun(project)) == 4
    result.assert_outcomes(passed=2 + 8)
    assert result.ret == 0
