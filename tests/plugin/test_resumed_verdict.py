"""What a run that is gone on with is judged by: how every one of its items ended, in whichever invocation."""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable

import pytest

from pytest_vla.records.store import open_store
from tests.support.data import REPOSITORY
from tests.support.runs import records_of, run_names
from tests.support.waiting import HANG, until
from tests.support.workers import ALONE, BOTH

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
STILL, STRAIGHT = "--vla-model=policies:still", "--vla-model=policies:straight"
MARK = '@pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=range(2))'
PASSING = f"import pytest\n\n{MARK}\ndef test_own(rollout):\n    assert rollout.steps == 300\n"
# Raises in every episode until the file `mended` is there.
MENDABLE = """
import numpy as np
from pathlib import Path

def policy(episode):
    if not Path("mended").exists():
        raise RuntimeError("not yet")
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
"""


@pytest.fixture
def start_in(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Start pytest in a folder of the project from now on."""

    def start(folder: str) -> None:
        monkeypatch.chdir(project.mkdir(folder))
        # The project's own modules are not found from there.
        monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))

    return start


def status(project: pytest.Pytester) -> str:
    with open_store(project.path / ".vla", create=False) as store:
        return store.run("last").status


@ALONE
def test_an_own_test_that_passed_on_a_failed_episode_has_passed(
    vla: Run, project: pytest.Pytester, workers: str
) -> None:
    project.makepyfile(test_own=PASSING)
    assert vla("test_own.py", STILL, workers).ret == 0
    assert {record.outcome for record in records_of(project.path / ".vla")} == {"failure"}
    result = vla("--vla-resume", workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["vla: nothing is left of run *, 2 episodes kept"])


def test_an_expected_failure_of_a_suites_episode_stays_one(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail)
        """
    )
    assert vla(*STOVE, STILL).ret == 0
    assert vla("--vla-resume").ret == 0


@ALONE
@pytest.mark.parametrize("judged", [(), ("--vla-min-success=0",)])
def test_a_failed_test_without_an_episode_runs_again(
    vla: Run, project: pytest.Pytester, workers: str, judged: tuple[str, ...]
) -> None:
    project.makepyfile(
        test_own="""
        from pathlib import Path

        def test_plain():
            assert Path("mended").exists()

        def test_fine(): pass
        """
    )
    arguments = ("test_own.py", *STOVE, STRAIGHT, workers, *judged)
    assert vla(*arguments).ret == pytest.ExitCode.TESTS_FAILED
    result = vla("--vla-resume", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1, deselected=0 if workers == "-n2" else 2)
    result.stdout.fnmatch_lines(["1 failed test: `pytest --vla-resume=*` runs just these"])
    (project.path / "mended").touch()
    assert vla("--vla-resume", workers).ret == 0


@ALONE
def test_a_teardown_that_fails_runs_again(vla: Run, project: pytest.Pytester, workers: str) -> None:
    project.makeconftest(
        """
        import pytest
        from pathlib import Path

        @pytest.fixture(autouse=True)
        def check():
            yield
            assert Path("mended").exists()
        """
    )
    project.makepyfile(test_own=PASSING)
    vla("test_own.py", STILL, workers).assert_outcomes(passed=2, errors=2)
    result = vla("--vla-resume", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["2 errors: `pytest --vla-resume=*` runs just these"])
    (project.path / "mended").touch()
    result = vla("--vla-resume", workers)
    assert result.ret == 0
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("judged", [(), ("--vla-min-success=0",)])
def test_errors_that_were_kept_count(vla: Run, project: pytest.Pytester, judged: tuple[str, ...]) -> None:
    project.makepyfile(mendable=MENDABLE)
    vla("--vla-suite=libero_goal", "--vla-tasks=stove", "--vla-model=mendable:policy", *judged)
    (project.path / "mended").touch()
    result = vla("--vla-resume", "-k", "turn_on")
    result.assert_outcomes(passed=1, deselected=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "vla: 2 remaining tests not collected or not selected: libero_goal::*and 1 more. The run was started as "
            "`pytest *--vla-tasks=stove*`*",
            "2 errors: `pytest --vla-resume=*` runs just these",
        ]
    )
    assert vla("--vla-resume").ret == 0


def test_a_failed_test_that_is_not_there_any_more_still_counts(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(test_own=PASSING.replace("== 300", "== 5"))
    vla("test_own.py", STILL).assert_outcomes(failed=2)
    project.makepyfile(test_own=PASSING.replace("test_own", "test_renamed"))
    result = vla("--vla-resume")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*not collected*test_own.py::test_own*if a test was renamed*start a new run"])


def test_a_test_that_was_to_run_and_is_gone_leaves_the_run_unfinished(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(test_own=PASSING.replace("assert", "raise KeyboardInterrupt\n    assert"), test_z=PASSING)
    vla("test_own.py", "test_z.py", STILL)
    project.makepyfile(test_own="def test_other(): pass\n")
    result = vla("--vla-resume")
    result.assert_outcomes(passed=2, deselected=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert status(project) == "stopped"
    result.stdout.fnmatch_lines(["2 not run: `pytest --vla-resume=*` runs just these"])


def test_what_was_collected_elsewhere_is_not_nothing(vla: Run, project: pytest.Pytester) -> None:
    """Where pytest's own options are missing, node ids are others."""
    project.makepyfile(mendable=MENDABLE)
    folder = project.mkdir("deep")
    # Records lie in the rootdir, which is another one where that option is missing.
    results = f"--vla-results={project.path / '.vla'}"
    (project.path / "deep" / "test_own.py").write_text(PASSING)
    vla("deep/test_own.py", "--vla-model=mendable:policy", "--rootdir=deep", results)
    result = vla("--vla-resume", results)
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    text = result.stdout.str()
    assert "nothing is left" not in text
    result.stdout.fnmatch_lines(["*2 remaining tests not collected*`pytest *--rootdir=deep *"])
    (project.path / "mended").touch()
    vla("--vla-resume", f"--rootdir={folder}", results).assert_outcomes(failed=2)


def test_ctrl_c_in_the_first_episode_leaves_the_run(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, STRAIGHT)
    project.makepyfile(
        first="""
        import signal
        import numpy as np
        from pathlib import Path

        def policy(episode):
            if not Path("mended").exists():
                signal.raise_signal(signal.SIGINT)
            return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
        """
    )
    result = vla("--vla-suite=libero_goal", "--vla-tasks=stove", "--vla-model=first:policy")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    _, new = run_names(project.path / ".vla")
    result.stdout.fnmatch_lines([f"3 not run: `pytest --vla-resume={new} -p pytest_vla.testing` runs just these"])
    assert status(project) == "stopped"
    (project.path / "mended").touch()
    vla("--vla-resume").assert_outcomes(passed=3)
    assert {record.run for record in records_of(project.path / ".vla")} == {new}


@BOTH
def test_a_policy_that_cannot_be_loaded_leaves_no_run(vla: Run, project: pytest.Pytester, workers: str) -> None:
    result = vla(*STOVE, "--vla-seeds=0-3", "--vla-model=policies:nobody", workers)
    # With workers it is told before the first of them.
    assert result.ret == (pytest.ExitCode.INTERRUPTED if workers == "-n0" else pytest.ExitCode.USAGE_ERROR)
    output = result.stdout if workers == "-n0" else result.stderr
    output.fnmatch_lines(["*the policy cannot be loaded: --vla-model=policies:nobody: *has no 'nobody'*"])
    assert run_names(project.path / ".vla") == []


@pytest.mark.parametrize("results", ["elsewhere", "with space"])
def test_the_command_that_is_shown_finds_the_results(vla: Run, project: pytest.Pytester, results: str) -> None:
    project.makepyfile(mendable=MENDABLE)
    text = vla(*STOVE, "--vla-model=mendable:policy", f"--vla-results={results}").stdout.str()
    match = re.search(r"`(pytest --vla-resume=.*)` runs just these", text)
    assert match is not None
    (project.path / "mended").touch()
    vla(*shlex.split(match[1])[1:]).assert_outcomes(passed=1)


def test_the_ini_files_model_is_relative_to_it(
    vla: Run, project: pytest.Pytester, start_in: Callable[[str], None]
) -> None:
    project.makeini("[pytest]\nvla_model = policies:straight\nvla_results = kept\n")
    start_in("sub")
    vla(*STOVE).assert_outcomes(passed=1)
    (run,) = run_names(project.path / "kept")
    project.makeini(f"[pytest]\nvla_model = replay:kept/{run}\nvla_results = kept\n")
    result = vla(*STOVE, "-n1")
    result.assert_outcomes(passed=1)


@ALONE
def test_a_run_goes_on_from_another_folder(
    vla: Run, project: pytest.Pytester, start_in: Callable[[str], None], workers: str
) -> None:
    """Its policy and its paths are relative to where it was started."""
    project.makeini("[pytest]\nvla_results = kept\n")
    project.makepyfile(test_own=PASSING.replace("assert rollout.steps == 300", "raise KeyboardInterrupt"))
    vla("test_own.py", *STOVE, STILL)
    project.makepyfile(test_own=PASSING)
    start_in("sub")
    result = vla("--vla-resume", workers)
    result.assert_outcomes(passed=2, failed=1)
    assert len(records_of(project.path / "kept")) == 3


def test_a_path_in_the_ini_file_is_no_objection(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\naddopts = test_own.py\n")
    project.makepyfile(mendable=MENDABLE, test_own=PASSING.replace("== 300", "== 5"))
    vla("--vla-model=mendable:policy").assert_outcomes(errors=2)
    (project.path / "mended").touch()
    vla("--vla-resume").assert_outcomes(passed=2)
    result = vla("--vla-resume=last", "test_mine.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*leave test_own.py test_mine.py out*"])


def test_a_video_of_an_earlier_attempt_goes_with_it(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        late="""
        import numpy as np
        from pathlib import Path

        def policy(episode):
            steps = 0

            def act(observation):
                nonlocal steps
                steps += 1
                assert steps < 3 or Path("mended").exists()
                return np.array([1.0, 0, 0, 0, 0, 0, 0])

            return act
        """
    )
    vla(*STOVE, "--vla-model=late:policy", "--vla-video=failed")
    assert len(list((project.path / ".vla").rglob("*.mp4"))) == 1
    (project.path / "mended").touch()
    result = vla("--vla-resume")
    result.assert_outcomes(passed=1)
    assert not list((project.path / ".vla").rglob("*.mp4"))
    assert "1 video in" not in result.stdout.str()


@pytest.mark.slow
def test_ctrl_c_with_workers_in_the_first_episodes_leaves_the_run(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        slow="""
        import time
        from pathlib import Path

        def policy(episode):
            Path(f"waiting{episode.seed}").touch()
            time.sleep(3600)
        """
    )
    vla("--version")
    process = subprocess.Popen(
        [
            *project._getpytestargs(),
            "-p",
            "pytest_vla.testing",
            *STOVE,
            "--vla-model=slow:policy",
            "--vla-seeds=0-5",
            "-n2",
        ],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(project.path)},
    )
    until(lambda: len(list(project.path.glob("waiting*"))) == 2)
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=HANG)
    assert "INTERNALERROR" not in text, text
    assert "6 not run: `pytest --vla-resume=" in text
    assert status(project) == "stopped"


# In each episode where it would fail, it ends otherwise: by a signal to itself, or by an error that is not its own.
EVASIVE = """
import os, signal, time
from pathlib import Path
import numpy as np
from pytest_vla.errors import EpisodeError

def policy(episode):
    tried = Path(f"tried-{episode.seed}")
    if tried.exists():
        return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
    tried.touch()
    def session(observation):
        HOW
    return session
"""


@ALONE
def test_a_policy_that_interrupts_its_run_gains_little(vla: Run, project: pytest.Pytester, workers: str) -> None:
    project.makepyfile(evasive=EVASIVE.replace("HOW", "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"))
    result = vla(*STOVE, "--vla-model=evasive:policy", "--vla-episodes=6", "--vla-min-success=0.9", workers)
    invocations = 1
    while status(project) == "stopped" and invocations < 12:
        result, invocations = vla("--vla-resume", workers), invocations + 1
    assert (status(project), result.ret) == ("finished", pytest.ExitCode.TESTS_FAILED)
    records = records_of(project.path / ".vla")
    assert [record.outcome for record in records] == ["success"] * 6
    # The first interrupt is free: with two workers it may have met two episodes.
    assert [record.retried for record in records].count("worker-crashed") >= 6 - (2 if workers == "-n2" else 1)


@pytest.mark.parametrize("reason", ["physics-nan", "policy-connection", "stopped-early"])
def test_a_policy_cannot_blame_something_else(vla: Run, project: pytest.Pytester, reason: str) -> None:
    project.makepyfile(evasive=EVASIVE.replace("HOW", f"raise EpisodeError('{reason}', 'as if')"))
    vla(*STOVE, "--vla-model=evasive:policy", "--vla-episodes=3", "--vla-min-success=0.9", "-n0")
    assert {record.reason for record in records_of(project.path / ".vla")} == {"policy-raised"}
    result = vla("--vla-resume")
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_an_action_that_breaks_the_simulation_is_the_policys(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(evasive=EVASIVE.replace("HOW", "return np.array([0, 0.125, 0, 0, 0, 0, 0])"))
    project.makeconftest(
        """
        from pytest_vla.errors import EpisodeError
        from pytest_vla.testing import World

        real = World.step
        def step(self, action):
            if action[1] == 0.125:
                raise EpisodeError("physics-nan", "broken")
            return real(self, action)
        World.step = step
        """
    )
    given = ("--vla-model=evasive:policy", "--vla-episodes=3", "--vla-min-success=0.9", "-n0")
    vla(*STOVE, *given).assert_outcomes(errors=3)
    result = vla("--vla-resume")
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
