"""``--vla-resume``: a run that was stopped goes on with what is missing or broke."""

import os
import re
import signal
import subprocess
from collections.abc import Callable

import pytest

from pytest_vla.records.store import open_store
from tests.support.runs import records_of, run_names
from tests.support.waiting import HANG, until
from tests.support.workers import ALONE, BOTH

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
# Breaks at seed 2 until the file `mended` is there, and fails at seed 3; each episode leaves its seed in `ran`.
BREAKING = """
import signal
import numpy as np
from pathlib import Path

def policy(episode):
    with Path("ran").open("a") as file:
        file.write(f"{episode.seed}\\n")
    if episode.seed == 2 and not Path("mended").exists():
        raise RuntimeError("not yet")
    if Path("stop").exists() and episode.seed == int(Path("stop").read_text()):
        signal.raise_signal(signal.SIGINT)
    return lambda observation: np.array([[float(episode.seed != 3), 0, 0, 0, 0, 0, 0]] * 20)
"""
MODEL = "--vla-model=breaking:policy"


# What the run has recorded so far, for policies that wait for it.
STORED = """
from pathlib import Path
from pytest_vla.records.store import open_store

def seeds():
    with open_store(Path(__file__).with_name(".vla"), create=False) as store:
        return {record.seed for record in store.records(store.run("last").name)}
"""


@pytest.fixture(autouse=True)
def breaking(project: pytest.Pytester) -> None:
    project.makepyfile(breaking=BREAKING, stored=STORED)


def tell_controller(project: pytest.Pytester, more: str = "") -> None:
    """The file `controller` says which process has no workers above it, and `interrupted` is there once it was."""
    project.makeconftest(
        """
        import os
        from pathlib import Path

        HERE = Path(__file__).parent

        def pytest_configure(config):
            if not hasattr(config, "workerinput"):
                (HERE / "controller").write_text(str(os.getpid()))

        def pytest_keyboard_interrupt():
            (HERE / "interrupted").touch()
        """
        + more
    )


def ran(project: pytest.Pytester) -> list[int]:
    """The seeds that ran since this was last asked."""
    file = project.path / "ran"
    seeds = [int(line) for line in file.read_text().split()] if file.exists() else []
    file.unlink(missing_ok=True)
    return sorted(seeds)


def outcomes(project: pytest.Pytester) -> dict[int, str]:
    return {record.seed: record.outcome for record in records_of(project.path / ".vla")}


@BOTH
def test_errors_run_again_and_nothing_else(vla: Run, project: pytest.Pytester, workers: str) -> None:
    result = vla(*STOVE, MODEL, "--vla-seeds=0-4", workers)
    result.assert_outcomes(passed=3, failed=1, errors=1)
    (name,) = run_names(project.path / ".vla")
    result.stdout.fnmatch_lines([f"1 error: `pytest --vla-resume={name} -p pytest_vla.testing` runs just these"])
    assert ran(project) == [0, 1, 2, 3, 4]
    (project.path / "mended").touch()
    result = vla("--vla-resume", workers)
    assert ran(project) == [2]
    assert run_names(project.path / ".vla") == [name], "it is the same run"
    assert outcomes(project) == {0: "success", 1: "success", 2: "success", 3: "failure", 4: "success"}
    result.stdout.fnmatch_lines(
        [
            f"vla: 1 episode of libero_goal with breaking:policy*; resuming run {name}, 4 kept",
            "libero_goal * 5 * 4/5 *80.0%*",
        ]
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "the failure that was kept counts"
    assert "--vla-resume=" not in result.stdout.str(), "nothing is left"


@ALONE
def test_with_nothing_left_the_run_is_shown_and_judged(vla: Run, project: pytest.Pytester, workers: str) -> None:
    vla(*STOVE, MODEL, "--vla-seeds=0-1", "--vla-min-success=0.9")
    result = vla("--vla-resume", workers)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["libero_goal * 2 * 2/2 *", "libero_goal: 2/2 = 100.0% * >= 90%", "vla: passed (*)"])
    assert ran(project) == [0, 1]
    result = vla("--vla-resume", "--vla-min-success=0.9", workers)
    assert result.ret == 0
    vla(*STOVE, MODEL, "--vla-seeds=3")
    result = vla("--vla-resume", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in result.stdout.str()


def test_ctrl_c_keeps_what_ended_and_says_how_to_go_on(vla: Run, project: pytest.Pytester) -> None:
    (project.path / "stop").write_text("3")
    result = vla(*STOVE, MODEL, "--vla-seeds=0-5", "--vla-run-seed=7")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["3 not run, 1 error: `pytest --vla-resume=* runs just these"])
    assert ran(project) == [0, 1, 2, 3]
    (project.path / "stop").unlink()
    (project.path / "mended").touch()
    vla("--vla-resume", "-n2")
    assert ran(project) == [2, 3, 4, 5]
    assert {record.seeds["run"] for record in records_of(project.path / ".vla")} == {7}


@BOTH
def test_kill_9_keeps_what_ended(vla: Run, project: pytest.Pytester, workers: str) -> None:
    tell_controller(project)
    project.makepyfile(
        killing="""
        import os, signal, time
        from pathlib import Path
        import breaking, stored

        def policy(episode):
            if episode.seed == 4 and not Path("mended").exists():
                # Of the others, some may be on their way.
                while not {0, 1} <= stored.seeds():
                    time.sleep(0.01)
                os.kill(int(Path("controller").read_text()), signal.SIGKILL)
                os.kill(os.getpid(), signal.SIGKILL)
            return breaking.policy(episode)
        """
    )
    vla(*STOVE, "--vla-model=killing:policy", "--vla-seeds=0-5", workers)
    kept = outcomes(project)
    assert set(kept) >= {0, 1}
    assert 4 not in kept
    (project.path / "mended").touch()
    ran(project)
    result = vla("--vla-resume", workers)
    assert ran(project) == sorted({0, 1, 2, 3, 4, 5} - {seed for seed, outcome in kept.items() if outcome != "error"})
    assert len(outcomes(project)) == 6
    assert "INTERNALERROR" not in result.stdout.str()


def test_a_run_is_named_by_the_beginning_of_its_name(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, MODEL, "--vla-seeds=2")
    (first,) = run_names(project.path / ".vla")
    vla(*STOVE, MODEL, "--vla-seeds=0")
    (project.path / "mended").touch()
    ran(project)
    vla(f"--vla-resume={first[:-1]}")
    assert ran(project) == [2]
    result = vla("--vla-resume=1999")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*there is no run '1999'*{first}*"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--vla-model=random"], "was started with --vla-model=breaking:policy, not with random*"),
        (["--vla-seeds=0-2"], "was started without --vla-seeds, not with 0,1,2*"),
        (["--vla-suite=libero_object"], "was started with --vla-suite=libero_goal, not with libero_object*"),
        (["--vla-replan=3"], "was started without --vla-replan*"),
        (["--vla-run-seed=1"], "was started with --vla-run-seed=0, not with 1*"),
    ],
)
def test_a_run_stays_what_it_is(vla: Run, arguments: list[str], complaint: str) -> None:
    vla(*STOVE, MODEL)
    result = vla("--vla-resume", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{complaint}"])
    assert vla("--vla-resume", "--vla-model=breaking:policy", "--vla-seeds=0").ret == 0


def test_a_path_after_it_is_explained(vla: Run) -> None:
    vla(*STOVE, MODEL)
    result = vla("--vla-resume=last", "test_mine.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*repeats the run's own arguments: leave test_mine.py out*"])
    result = vla("--vla-resume", "test_mine.py")
    result.stderr.fnmatch_lines(["*there is no run 'test_mine.py'*"])


def test_without_a_run_it_says_so(vla: Run, project: pytest.Pytester) -> None:
    result = vla("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: no runs in *.vla yet*"])
    assert not (project.path / ".vla").exists()


def test_a_run_that_still_goes_on_is_left_alone(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, MODEL)
    with open_store(project.path / ".vla", create=True) as store:
        store.begin("99990101-000000-aaaa", ["a"], command="pytest", model="random")
        result = vla("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*run 99990101-000000-aaaa is still running, as process *"])


@ALONE
def test_pytests_own_selection_is_part_of_the_run(vla: Run, project: pytest.Pytester, workers: str) -> None:
    vla(*STOVE, MODEL, "--vla-seeds=0-5", "-k", "seed2 or seed5", workers)
    assert ran(project) == [2, 5]
    (project.path / "mended").touch()
    vla("--vla-resume", workers)
    assert ran(project) == [2]


@ALONE
def test_own_tests_run_again_unless_they_passed(vla: Run, project: pytest.Pytester, workers: str) -> None:
    project.makepyfile(
        test_mine="""
        import pytest
        from pathlib import Path

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=[0, 1, 2])
        def test_it(rollout):
            assert rollout.record.seed != 1 or Path("mended").exists()

        def test_plain(): pass
        """
    )
    result = vla("test_mine.py", MODEL, workers)
    result.assert_outcomes(passed=2, failed=1, errors=1)
    assert ran(project) == [0, 1, 2]
    (project.path / "mended").touch()
    result = vla("--vla-resume", workers)
    assert ran(project) == [1, 2]
    assert result.ret == 0
    result.stdout.fnmatch_lines(["test_mine.py::test_it * 3 * 3/3 *"])


def test_the_time_is_estimated_from_earlier_runs(vla: Run, project: pytest.Pytester) -> None:
    first = vla(*STOVE, MODEL, "--vla-seeds=0-1").stdout.str()
    assert "vla: 2 episodes of libero_goal with breaking:policy, 2 distinct starts\n" in first
    again = vla(*STOVE, MODEL, "--vla-seeds=0-3", "-n2").stdout.str()
    said = r"vla: 4 episodes of libero_goal with breaking:policy on 2 workers, about \d\S* (s|min|h) by earlier runs, "
    said += r"4 distinct starts\n"
    assert re.search(said, again)


def test_a_policy_that_was_changed_meanwhile_is_told(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, MODEL, "--vla-seeds=0,2")
    project.makepyfile(breaking=BREAKING.replace("episode.seed == 2", "False"))
    result = vla("--vla-resume")
    result.stdout.fnmatch_lines(["*more than one version of the policy: it changed during the run"])


def test_what_a_retry_gained_passes_no_minimum(vla: Run, project: pytest.Pytester) -> None:
    wanted = ("--vla-min-success=70%", "--vla-seeds=0-3")
    assert vla(*STOVE, MODEL, *wanted).ret == pytest.ExitCode.TESTS_FAILED
    (project.path / "mended").touch()
    result = vla("--vla-resume", "--vla-min-success=70%")
    assert outcomes(project) == {0: "success", 1: "success", 2: "success", 3: "failure"}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*libero_goal: 2/4 = 50.0%*", "*vla: failed (--vla-min-success=70%)*"])


def test_what_was_skipped_passes_no_minimum(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            items[2].add_marker(pytest.mark.skip)
            items[3].add_marker(pytest.mark.xfail(run=False))
        """
    )
    result = vla(*STOVE, MODEL, "--vla-seeds=0-3", "--vla-min-success=70%")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*libero_goal: 2/2 = 100.0%*", "judged as failed: *skipped (2)", "vla: failed *below 70% of what was planned"]
    )
    assert vla(*STOVE, MODEL, "--vla-seeds=0-3", "--vla-min-success=50%").ret == 0


def test_the_command_that_is_shown_works_as_typed(vla: Run, project: pytest.Pytester) -> None:
    shown = vla(*STOVE, MODEL, "--vla-seeds=2").stdout.str()
    match = re.search(r"`pytest (--vla-resume=\S+) -p pytest_vla.testing` runs just these", shown)
    assert match is not None
    (project.path / "mended").touch()
    vla(match[1]).assert_outcomes(passed=1)


def test_ctrl_c_at_a_terminal_loses_nothing(vla: Run, project: pytest.Pytester) -> None:
    """Ctrl-C goes to controller and workers at once, as from a terminal."""
    project.makepyfile(
        slow="""
        import time
        import numpy as np
        from pathlib import Path

        def policy(episode):
            if episode.seed >= 2:
                Path(f"waiting{episode.seed}").touch()
                time.sleep(3600)
            return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
        """
    )
    vla("--version")
    arguments = ["-p", "pytest_vla.testing", *STOVE, "--vla-model=slow:policy", "--vla-seeds=0-5", "-n2"]
    process = subprocess.Popen(
        [*project._getpytestargs(), *arguments],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(project.path)},
    )
    until(lambda: len(list(project.path.glob("waiting*"))) == 2 and len(outcomes(project)) == 2)
    os.killpg(process.pid, signal.SIGINT)
    text, _ = process.communicate(timeout=HANG)
    assert "INTERNALERROR" not in text, text
    assert set(outcomes(project)) == {0, 1}
    assert "4 not run: `pytest --vla-resume=" in text


@ALONE
@pytest.mark.parametrize("seed", [1, 3])
def test_ctrl_c_while_a_video_is_drawn_keeps_the_episode(
    vla: Run, project: pytest.Pytester, seed: int, workers: str
) -> None:
    """It is done once its record is stored, whether it succeeded or failed."""
    tell_controller(
        project,
        f"""
        import signal
        import time
        import pytest_vla.show.video
        import stored

        def drawing(world, qpos, file, **options):
            if file.stem.endswith("seed{seed}"):
                while {seed} not in stored.seeds():
                    time.sleep(0.01)
                os.kill(int((HERE / "controller").read_text()), signal.SIGINT)
                while not (HERE / "interrupted").exists():
                    time.sleep(0.01)

        pytest_vla.show.video.write_video = drawing
        """,
    )
    stopped = vla(*STOVE, MODEL, f"--vla-seeds={seed},4-6", "--vla-video=all", workers)
    assert stopped.ret == pytest.ExitCode.INTERRUPTED
    done = outcomes(project)
    assert seed in done
    missing = 4 - len(done)
    left = [line for line in stopped.outlines if "runs just these" in line]
    assert [line.split(":")[0] for line in left] == ([f"{missing} not run"] if missing else [])
    if workers == "-n0":
        stopped.stdout.fnmatch_lines([f"*no video of *seed{seed}*: interrupted; `pytest-vla show * -o FILE.mp4` *"])
    ran(project)
    vla("--vla-resume", "--vla-video=none", workers)
    assert ran(project) == sorted({4, 5, 6} - set(done))


def test_under_another_simulator_a_run_is_not_gone_on_with(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, MODEL, "--vla-seeds=2,0")
    (name,) = run_names(project.path / ".vla")
    with open_store(project.path / ".vla", create=False) as store:
        known = next(iter(store.records(name))).provenance["mujoco"]
    project.makeconftest("import pytest_vla.run.resume\npytest_vla.run.resume.installed = lambda name: '3.0.0'")
    result = vla("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*run {name} used mujoco {known}, but 3.0.0 is installed. *"])


def test_a_driver_that_is_killed_while_records_come_fast_leaves_no_half(vla: Run, project: pytest.Pytester) -> None:
    # In the middle of a group: nothing has been told to wait for the disk.
    project.makeconftest(
        """
        import os, signal
        from pathlib import Path

        import pytest

        reports = []

        @pytest.hookimpl(trylast=True)
        def pytest_runtest_logreport(report):
            reports.append(report)
            if len(reports) == 50 and "PYTEST_XDIST_WORKER" not in os.environ and not Path("mended").exists():
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    vla(*STOVE, MODEL, "--vla-seeds=10-69", "-n2")
    results = project.path / ".vla"
    before = records_of(results)
    # Each has three reports, and two are at it.
    assert 0 < len(before) <= 18
    with open_store(results, create=False) as store:
        items = store.items(store.run("last").name)
    assert {item.node for item in items if item.status is not None} == {record.node for record in before}
    (project.path / "mended").touch()
    ended = vla("--vla-resume", "-n2").parseoutcomes()
    # The goal may hold at the start.
    assert ended["passed"] + ended.get("skipped", 0) == 60 - len(before)
    after = records_of(results)
    assert sorted(record.seed for record in after) == [*range(10, 70)]
    assert [record for record in after if record.node in {each.node for each in before}] == before
    with open_store(results, create=False) as store:
        assert [record.attempt for record in store.attempts(store.run("last").name)] == [1] * 60
