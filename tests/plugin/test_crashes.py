"""Workers that die: no episode is lost without a word, and none is run more often than twice."""

from collections.abc import Callable

import pytest

from pytest_vla.plan.manifests import suite_folder
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from tests.support.runs import records_of
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
# Kills its process in each episode, as often as the file `times` says; the file `ran` has a line an attempt.
KILLING = """
import os, signal
import numpy as np
from pathlib import Path

def policy(episode):
    name = f"{episode.task}-{episode.seed}"
    with Path("ran").open("a") as file:
        file.write(name + "\\n")
    if Path("ran").read_text().split().count(name) <= int(Path("times").read_text()):
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
"""
MODEL = "--vla-model=killing:policy"
OWN = """
import pytest

@pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=range({seeds}))
def test_own(rollout):
    assert rollout.success
"""


@pytest.fixture(autouse=True)
def killing(project: pytest.Pytester) -> None:
    project.makepyfile(killing=KILLING)
    times(project, 99)


def times(project: pytest.Pytester, number: int) -> None:
    (project.path / "times").write_text(str(number))


def attempts(project: pytest.Pytester) -> list[str]:
    return (project.path / "ran").read_text().split()


def records(project: pytest.Pytester) -> list[Record]:
    return records_of(project.path / ".vla")


@pytest.fixture
def twins(project: pytest.Pytester) -> None:
    """A test on a task that a second suite has under the same name."""
    goal = suite_folder("libero_goal")
    assert goal is not None
    twin = project.path / "more" / "twin"
    twin.mkdir(parents=True)
    (twin / "suite.toml").write_text((goal / "libero_goal.toml").read_text())
    (twin.parent / "libero.toml").write_text((goal.parent / "libero.toml").read_text())
    project.makeconftest(
        f"""
        from pathlib import Path
        from pytest_vla.entries import SuiteEntry

        def pytest_vla_suites():
            return [SuiteEntry("twin", "LIBERO-Goal once more", folder=Path({str(twin)!r}))]
        """
    )
    project.makepyfile(test_own=OWN.format(seeds=2))


@pytest.mark.usefixtures("twins")
@BOTH
def test_own_tests_are_recorded_where_two_suites_have_the_task(
    vla: Run, project: pytest.Pytester, workers: str
) -> None:
    times(project, 0)
    result = vla("test_own.py", MODEL, workers)
    assert result.ret == 0
    assert [(record.case, record.outcome) for record in sorted(records(project), key=lambda record: record.seed)] == [
        (f"libero_goal/turn_on_the_stove[seed{seed}]", "success") for seed in (0, 1)
    ]
    result.stdout.fnmatch_lines(["vla: 2 episodes of libero_goal *"])
    vla("test_own.py", *STOVE, MODEL, workers)
    with open_store(project.path / ".vla", create=False) as store:
        run = store.run("last")
    assert (run.planned, run.done) == (3, 3)


@pytest.mark.usefixtures("twins")
def test_a_crash_of_such_a_test_is_run_again(vla: Run, project: pytest.Pytester) -> None:
    times(project, 1)
    assert vla("test_own.py", MODEL, "-n2").ret == 0
    assert {record.attempt for record in records(project)} == {2}


def test_an_episode_whose_worker_dies_after_it_ended_stands(vla: Run, project: pytest.Pytester) -> None:
    times(project, 0)
    project.makeconftest(
        """
        import os, signal
        from pathlib import Path

        def pytest_runtest_teardown(item):
            if not Path("died").exists():
                Path("died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    result = vla(*STOVE, MODEL, "-n1", "--vla-episodes=2")
    assert (result.ret, len((project.path / "ran").read_text().split())) == (0, 2)
    assert (project.path / "died").exists()
    assert {record.attempt for record in records(project)} == {1}
    with open_store(project.path / ".vla", create=False) as store:
        run = store.run("last")
        assert (run.planned, run.done, len([*store.attempts(run.name)])) == (2, 2, 2)


def test_an_item_that_nobody_knew_to_run_an_episode_is_recorded(vla: Run, project: pytest.Pytester) -> None:
    """Whatever another plugin does to the parameters on the workers."""
    times(project, 0)
    project.makeconftest(
        """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_collection_finish(session):
            for item in session.items:
                if hasattr(item, "callspec"):
                    item.callspec.params.pop("vla_case", None)

        @pytest.fixture
        def vla_case():
            from pytest_vla.plan.case import Case

            return Case("libero_goal", "turn_on_the_stove", 0)
        """
    )
    project.makepyfile(test_own="def test_own(rollout): assert rollout.success\n")
    vla("test_own.py", MODEL).assert_outcomes(passed=1)
    assert [record.node for record in records(project)] == ["test_own.py::test_own"]
    with open_store(project.path / ".vla", create=False) as store:
        assert (store.run("last").planned, store.run("last").done) == (1, 1)


@pytest.mark.parametrize("judged", [(), ("--vla-min-success=0",)])
def test_an_episode_that_nobody_is_left_to_run_again_is_an_error(
    vla: Run, project: pytest.Pytester, judged: tuple[str, ...]
) -> None:
    result = vla(*STOVE, MODEL, "-n1", "--max-worker-restart=0", "-q", *judged)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (lost,) = records(project)
    assert (lost.outcome, lost.reason, lost.attempt) == ("error", "worker-crashed", 1)
    assert "no worker was left to run it again (--max-worker-restart=0)" in str(lost.message)
    result.stdout.fnmatch_lines(
        [
            "*1 error: `pytest --vla-resume=* runs just these",
            "FAILED libero_goal::*turn_on_the_stove-seed0]*error worker-*",
        ]
    )


def test_own_tests_that_nobody_is_left_to_run_fail_the_run(vla: Run, project: pytest.Pytester) -> None:
    times(project, 1)
    project.makepyfile(test_own=OWN.format(seeds=4))
    result = vla("test_own.py", MODEL, "-n2", "--max-worker-restart=0")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [record.reason for record in records(project) if record.outcome == "error"] == ["worker-crashed"] * 2
    times(project, 0)
    vla("--vla-resume", "-n2").assert_outcomes(passed=4)
    assert {record.outcome for record in records(project)} == {"success"}


@pytest.mark.parametrize(("number", "outcome", "episodes"), [(1, "success", 5), (99, "error", 3)])
def test_a_policy_that_kills_its_worker_in_every_episode_uses_up_no_limit(
    vla: Run, project: pytest.Pytester, number: int, outcome: str, episodes: int
) -> None:
    """With one worker, xdist's own limit is four: here five and six die."""
    times(project, number)
    result = vla(*STOVE, MODEL, f"--vla-seeds=0-{episodes - 1}", "-n1")
    assert [(record.outcome, record.attempt) for record in records(project)] == [(outcome, 2)] * episodes
    assert len(attempts(project)) == 2 * episodes
    assert result.ret == (0 if outcome == "success" else pytest.ExitCode.TESTS_FAILED)
    assert "maximum crashed workers" not in result.stdout.str()


@pytest.mark.parametrize("how", ["loadscope", "loadfile", "loadgroup"])
def test_what_cannot_go_on_after_a_crash_is_refused(vla: Run, project: pytest.Pytester, how: str) -> None:
    result = vla(*STOVE, MODEL, "-n2", f"--dist={how}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --dist={how} cannot recover when a worker dies*"])
    assert not (project.path / ".vla").exists()
    times(project, 0)
    assert vla(*STOVE, MODEL, "-n0", f"--dist={how}").ret == 0, "without workers it is of no importance"
    vla(f"--dist={how}", "-n2", "test_mine.py").assert_outcomes(passed=2)
