"""Of each episode the first complete record counts, whatever pytest and its plugins run again."""

import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np  # noqa: F401  # Before pytester, which would have it imported twice.
import pytest

from pytest_vla.cli import main
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import digest_of, load_trajectory
from tests.support import fake_repeats
from tests.support.drawing import drawing_in
from tests.support.runs import records_of, run_names
from tests.support.workers import ALONE, BOTH

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
MODEL = "--vla-model=drawing:policy"
OWN_TEST = """
import pytest

@pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=[0, 1, 2])
def test_it(rollout):
    assert rollout.success
"""


@pytest.fixture
def draws(project: pytest.Pytester) -> Callable[..., None]:
    return drawing_in(project)


@pytest.fixture
def again(vla: Run, project: pytest.Pytester) -> Run:
    """`vla`, with ``--reruns`` and ``--count``: of the plugins themselves, where they are installed."""
    if importlib.util.find_spec("pytest_rerunfailures") and importlib.util.find_spec("pytest_repeat"):
        return vla
    project.makepyfile(fake_repeats=Path(fake_repeats.__file__).read_text())
    return lambda *arguments: vla("-p", "fake_repeats", *arguments)


def outcomes(project: pytest.Pytester, run: str = "last") -> dict[str, str]:
    """By what is recorded as run, how the record that counts in it ended."""
    return {record.node: record.outcome for record in records_of(project.path / ".vla", run)}


def attempts(project: pytest.Pytester) -> list[Record]:
    with open_store(project.path / ".vla", create=False) as store:
        return list(store.attempts(store.run("last").name))


def check_trajectory(project: pytest.Pytester, record: Record) -> None:
    """Of a record that counts the states stay, whatever ran later."""
    trajectory = load_trajectory(project.path / ".vla" / record.run / str(record.arrays))
    assert digest_of(record.outcome, record.steps, record.literals, trajectory) == record.digest


# --reruns


@BOTH
def test_reruns_turn_no_failure_into_a_success(
    again: Run, project: pytest.Pytester, draws: Callable[..., None], workers: str
) -> None:
    draws("fs", "ffs", "s", "ss")
    result = again(*STOVE, MODEL, "--vla-seeds=0-3", "--reruns=3", "--vla-min-success=0.9", workers)
    result.assert_outcomes(passed=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "libero_goal * 4 * 2/4 *50.0%*",
            "2 episodes failed at first and passed when run again; the first result counts",
            "3 repeats of 2 episodes, whose first record counts: 2 (66.7%) ended differently, 3 (100.0%) with *",
            "libero_goal: 2/4 = 50.0% * < 90%",
            "vla: failed (--vla-min-success=90%): libero_goal below 90%",
        ]
    )
    records = records_of(project.path / ".vla")
    assert {record.seed: record.outcome for record in records} == {
        0: "failure", 1: "failure", 2: "success", 3: "success"
    }  # fmt: skip
    for record in records:
        check_trajectory(project, record)
        assert record.arrays == f"libero_goal/turn_on_the_stove-seed{record.seed}.npz"
    for record in attempts(project):
        check_trajectory(project, record)
    # The run's end says the same when it is asked again, and there is nothing left of it.
    result = again("--vla-resume", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["libero_goal: 2/4 = 50.0% * < 90%", "vla: failed (*): libero_goal below 90%"])


def test_a_run_of_which_everything_passed_in_the_end_fails_where_something_failed_at_first(
    again: Run, draws: Callable[..., None]
) -> None:
    draws("fs", "s")
    result = again(*STOVE, MODEL, "--vla-seeds=0-1", "--reruns=1", "-q")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["vla: 1/2 success, 50.0% *", "1 episode failed at first and passed when run again; the first result counts"]
    )
    draws("fs", "s")
    assert again(*STOVE, MODEL, "--vla-seeds=0-1", "--reruns=1", "--vla-min-success=0.5").ret == 0


@ALONE
def test_errors_are_what_reruns_are_for(
    again: Run, project: pytest.Pytester, draws: Callable[..., None], workers: str
) -> None:
    draws("es", "ef", "ees")
    result = again(*STOVE, MODEL, "--vla-seeds=0-2", "--reruns=1", "--vla-min-success=0.5", workers)
    assert [outcomes(project)[f"libero_goal::test_episode[turn_on_the_stove-seed{seed}]"] for seed in range(3)] == [
        "success",
        "failure",
        "error",
    ]
    result.stdout.fnmatch_lines(
        ["* 1/2 *50.0%*", "*33.3% to 66.7% with errors: 1 policy-raised", "libero_goal: 0/2 = 0.0% * (1 error: *"]
    )
    # A failure is run once more, and an error that was mended is no repeat; its success is no success of a verdict.
    result.stdout.fnmatch_lines(["vla: failed (*): *1 item failed for other reasons*"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result = again("--vla-resume", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["* 2/3 *", "libero_goal: 0/3 = 0.0% *"])


@ALONE
def test_of_the_users_own_tests_the_first_counts_too(
    again: Run, project: pytest.Pytester, draws: Callable[..., None], workers: str
) -> None:
    project.makepyfile(test_mine=OWN_TEST)
    draws("fs", "s", "es")
    result = again("test_mine.py", MODEL, "--reruns=1", workers)
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "test_mine.py::test_it * 3 * 2/3 *",
            "1 episode failed at first and passed when run again; the first result counts",
            "1 failed test: `*pytest --vla-resume=* runs just these",
        ]
    )
    draws("fs", "s", "es")
    result = again("test_mine.py", *STOVE, MODEL, "--vla-seeds=1", "--reruns=1", "--vla-min-success=1", workers)
    assert result.ret == 0, "their seeds are the command line's"
    draws("fs", "s", "es")
    result = again("test_mine.py", "libero_goal::test_episode[turn_on_the_stove-seed1]", MODEL, "--reruns=1",
                   "--vla-min-success=1", workers)  # fmt: skip
    result.stdout.fnmatch_lines(
        [
            "libero_goal: 1/1 = 100.0% * >= 100%",
            "vla: failed (*): 1 item failed for other reasons (errors, costs, other tests)",
        ]
    )


def test_an_own_assertion_that_is_flaky_by_itself_is_not_the_policys(again: Run, project: pytest.Pytester) -> None:
    """The same episode, bit for bit, so that nothing was drawn anew."""
    project.makepyfile(
        test_mine="""
        import pytest
        from pathlib import Path

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove")
        def test_it(rollout):
            there = Path("there").exists()
            Path("there").touch()
            assert there
        """
    )
    result = again("test_mine.py", "--vla-model=policies:straight", "--reruns=1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["1 repeat of 1 episode, * 0 (0.0%) ended differently, 0 (0.0%) with another digest"])
    assert "at first" not in result.stdout.str()


# --count


@ALONE
def test_repeated_episodes_are_the_suites_and_count_once(
    again: Run, project: pytest.Pytester, draws: Callable[..., None], workers: str
) -> None:
    draws("fss", "sff", "ess")
    result = again(*STOVE, MODEL, "--vla-seeds=0-2", "--count=3", "--vla-min-success=0.6", workers)
    records = records_of(project.path / ".vla")
    assert {record.node for record in records} == {
        f"libero_goal::test_episode[turn_on_the_stove-seed{seed}]" for seed in range(3)
    }
    assert all(record.of_suite for record in attempts(project))
    assert len(attempts(project)) == 9
    assert len({record.arrays for record in attempts(project)}) == 9, "each has its own file"
    for record in attempts(project):
        check_trajectory(project, record)
    if workers == "-n0":
        result.assert_outcomes(passed=5, failed=3, errors=1)
        assert {record.seed: record.outcome for record in records} == {0: "failure", 1: "success", 2: "success"}
        result.stdout.fnmatch_lines(
            [
                "libero_goal * 3 * 2/3 *66.7%*",
                "5 repeats of 3 episodes, whose first record counts: 4 (80.0%) ended differently, 5 (100.0%) with *",
                "libero_goal: 1/3 = 33.3% * < 60%",
                "vla: failed (*): *1 item failed for other reasons*",
            ]
        )
    else:
        # Which of two at the same time began first is nobody's choice, but one of them counts.
        assert len(records) == 3
        result.stdout.fnmatch_lines(["libero_goal * 3 * ?/3 *", "5 repeats of 3 episodes, *"])
    (name,) = run_names(project.path / ".vla")
    with open_store(project.path / ".vla", create=False) as store:
        run = store.run(name)
        assert (run.planned, run.done, run.repeats.records, run.status) == (3, 3, 5, "finished")
        assert [item.node for item in store.items(name)] == [
            f"libero_goal::test_episode[turn_on_the_stove-seed{seed}]" for seed in range(3)
        ]


def test_a_pasted_id_of_a_repeat(again: Run, project: pytest.Pytester) -> None:
    node = "libero_goal::test_episode[turn_on_the_stove-seed7-2-3]"
    result = again(node, "--vla-model=policies:straight", "--count=3")
    result.assert_outcomes(passed=1)
    assert outcomes(project) == {"libero_goal::test_episode[turn_on_the_stove-seed7]": "success"}


def test_repeats_of_own_tests_count_once_and_other_parameters_are_the_tests_own(
    again: Run, project: pytest.Pytester, draws: Callable[..., None]
) -> None:
    project.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.parametrize("last", ["1-2", "2-2"])
        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=[0])
        def test_it(rollout, last):
            pass

        @pytest.mark.parametrize("first", [1])
        def test_plain(first):
            pass
        """
    )
    draws("fsfs")
    result = again("test_mine.py", MODEL, "--count=2")
    result.assert_outcomes(passed=6)
    found = [record.node for record in records_of(project.path / ".vla")]
    assert len(found) == len(set(found)) == 2
    assert all(re.fullmatch(r"test_mine\.py::test_it\[(turn_on_the_stove-seed0-.-2|.-2-turn_on_the_stove-seed0)\]", n)
               for n in found)  # fmt: skip
    result.stdout.fnmatch_lines(["test_mine.py::test_it * 2 *", "2 repeats of 2 episodes, *"])
    assert result.ret == 0


def test_a_stopped_run_of_repeats_goes_on_with_what_has_none(
    again: Run, project: pytest.Pytester, draws: Callable[..., None]
) -> None:
    draws("ss", "ee", "ss")
    again(*STOVE, MODEL, "--vla-seeds=0-2", "--count=2", "--maxfail=1")
    draws("ss", "ss", "ss")
    result = again("--vla-resume")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["libero_goal * 3 * 3/3 *"])


# What else runs episodes again


@ALONE
def test_a_resumed_run_repeats_errors_and_own_tests_whose_first_episode_counts(
    vla: Run, project: pytest.Pytester, draws: Callable[..., None], workers: str
) -> None:
    project.makepyfile(test_mine=OWN_TEST)
    draws("fs", "es", "s")
    vla("test_mine.py", MODEL, workers)
    result = vla("--vla-resume", workers)
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "test_mine.py::test_it * 3 * 2/3 *",
            "1 episode failed at first and passed when run again; the first result counts",
        ]
    )
    # That of the error is not kept.
    for record in attempts(project):
        if record.outcome != "error":
            check_trajectory(project, record)


def test_an_episode_that_another_plugin_runs_again_after_a_crash_is_handed_out_once(
    vla: Run, project: pytest.Pytester
) -> None:
    """As pytest-rerunfailures does where a worker died; given out twice it would break in its fixtures."""
    project.makeconftest(
        """
        def pytest_handlecrashitem(crashitem, report, sched):
            sched.mark_test_pending(crashitem)
            report.outcome = "rerun"
        """
    )
    project.makepyfile(
        killing="""
        import numpy as np
        import os
        import signal
        from pathlib import Path

        def policy(episode):
            if episode.seed == 1 and not Path("once").exists():
                Path("once").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
        """
    )
    result = vla(*STOVE, "--vla-model=killing:policy", "--vla-seeds=0-3", "-n2")
    result.assert_outcomes(passed=4)
    assert result.ret == 0
    assert {record.seed: record.attempt for record in attempts(project)} == {0: 1, 1: 2, 2: 1, 3: 1}
    result.stdout.fnmatch_lines(["1 episode ran again after an error or a crashed process"])


def test_a_run_of_everything_says_what_had_run_before(vla: Run, draws: Callable[..., None]) -> None:
    draws("fs", "s", "f")
    first = vla(*STOVE, MODEL, "--vla-seeds=0-2")
    assert "ran before" not in first.stdout.str()
    again = vla(*STOVE, MODEL, "--vla-seeds=0-2")
    again.stdout.fnmatch_lines(
        [
            "libero_goal * 3 * 2/3 *",
            "3 of these episodes ran before (1 ended differently); *",
        ]
    )


def test_without_pytests_cache_nothing_is_picked(vla: Run, draws: Callable[..., None]) -> None:
    draws("s", "f")
    result = vla(*STOVE, MODEL, "--vla-seeds=0-1", "-p", "no:cacheprovider", "--vla-min-success=0.5")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["libero_goal: 1/2 = 50.0% * >= *", "vla: passed (*)"])


def test_an_item_that_another_plugin_parametrizes_stays_the_suites(
    vla: Run, project: pytest.Pytester, draws: Callable[..., None]
) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(params=["warm", "cold"], autouse=True)
        def room(request):
            return request.param
        """
    )
    draws("sf")
    result = vla(*STOVE, MODEL, "--vla-min-success=1")
    assert result.ret == 0
    assert outcomes(project) == {"libero_goal::test_episode[turn_on_the_stove-seed0]": "success"}
    result.stdout.fnmatch_lines(["1 repeat of 1 episode, *", "libero_goal: 1/1 * >= *", "vla: passed (*)"])


def test_two_run_seeds_of_a_policy_that_draws_nothing_are_one_observation(
    vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (*STOVE, "--vla-model=policies:straight", "--vla-seeds=0-4", "--vla-vary=action.delay:1")
    for seed in (0, 1):
        vla(*arguments, "--vla-twins=auto", f"--vla-run-seed={seed}").assert_outcomes(passed=10)
    monkeypatch.chdir(project.path)
    capsys.readouterr()
    assert main(["report", "--format=json"]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    (cell,) = model["robustness"]["dimensions"]
    assert (cell["n"], cell["sr"], cell["difference"]["pairs"]) == (5, 100, 5)
    told = "20 episodes, 10 distinct starts: 10 episodes repeat another and count in no rate"
    assert any(line.startswith(told) for line in model["robustness"]["left_out"])


@BOTH
def test_seeds_that_share_a_start_are_one_observation(vla: Run, project: pytest.Pytester, workers: str) -> None:
    """Of a policy that draws nothing; a fake world has fifty init states, and tells nothing else of a seed."""
    result = vla(*STOVE, "--vla-model=policies:straight", "--vla-seeds=0,50,100", "--vla-min-success=.5", workers)
    assert len({record.digest for record in records_of(project.path / ".vla", "last")}) == 1
    result.stdout.fnmatch_lines(
        [
            "libero_goal * 1 * 1/1 *20.7%, 100.0%*",
            "3 episodes, 1 distinct start: 2 episodes repeat another and count in no rate *",
            "libero_goal: 1/1 = 100.0% * >= 50%",
        ]
    )


def test_one_episode_a_task_is_said_to_tell_little(vla: Run) -> None:
    alone = vla("--vla-suite=libero_goal", "--vla-model=policies:straight")
    alone.stdout.fnmatch_lines(["1 episode per task is few (10 tasks): * 24% to 76%; *=10, 40% to 60%"])
    more = vla(*STOVE, "--vla-model=policies:straight", "--vla-seeds=0-1")
    more.stdout.no_fnmatch_line("*per task is few*")
