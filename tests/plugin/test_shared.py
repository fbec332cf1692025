"""One episode for several tests: ``scope="class"`` and ``"module"`` of the marker; on a world without a simulator."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.records.items import SHARED
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from tests.support import fake_repeats
from tests.support.runs import records_of

Run = Callable[..., pytest.RunResult]

STOVE = "turn_on_the_stove"
COUNTED = "--vla-model=counted:policy"
EIGHT = "".join(f"    def test_{name}(self, rollout): assert rollout.steps < 300\n" for name in "abcdefgh")


def of_class(scope: str = "class", seeds: str = "[0, 1]", tests: str = EIGHT) -> str:
    mark = f'@pytest.mark.vla(suite="libero_goal", tasks="{STOVE}", seeds={seeds}, scope="{scope}")'
    return f"import pytest\n\n{mark}\nclass TestStove:\n{tests}"


@pytest.fixture
def own(project: pytest.Pytester) -> Callable[[str], None]:
    """Writes test_own.py, the only tests of the project, beside a policy that notes each episode that it begins."""
    (project.path / "test_mine.py").unlink()
    project.makepyfile(
        counted="""
        import os
        import numpy as np

        def policy(episode):
            with open("begun.txt", "a") as file:
                file.write(f"{episode.seed} {os.environ.get('PYTEST_XDIST_WORKER', '')}\\n")
            if os.path.exists(f"die{episode.seed}"):
                os.remove(f"die{episode.seed}")
                os._exit(3)
            if os.path.exists("broken"):
                raise RuntimeError("broken")
            return lambda observation: np.array([[1.0, 0, 0, 0, 0, 0, -1]] * 5)
        """
    )

    def write(text: str) -> None:
        project.makepyfile(test_own=text)

    return write


def begun(project: pytest.Pytester) -> list[str]:
    """The seeds of the episodes that were simulated since this was last asked."""
    file = project.path / "begun.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return sorted(line.split()[0] for line in lines)


def records(project: pytest.Pytester) -> list[Record]:
    return records_of(project.path / ".vla")


def statuses(project: pytest.Pytester) -> dict[str, str | None]:
    with open_store(project.path / ".vla", create=False) as store:
        return {item.node: item.status for item in store.items(store.run("last").name)}


@pytest.mark.parametrize("flags", [(), ("-n2",), ("-p", "no:xdist", "-v")])
def test_eight_assertions_on_a_case_simulate_one_episode(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None], flags: tuple[str, ...]
) -> None:
    own(of_class())
    result = vla(COUNTED, *flags)
    result.assert_outcomes(passed=16)
    assert begun(project) == ["0", "1"]
    assert sorted(record.node for record in records(project)) == [
        f"test_own.py::TestStove[libero_goal-{STOVE}-seed{seed}]" for seed in (0, 1)
    ]
    result.stdout.fnmatch_lines(["test_own.py::TestStove * 2 * 2/2 * 100.0% *"])
    assert "repeat" not in result.stdout.str()
    assert "left" not in result.stdout.str()
    ended = statuses(project)
    assert list(ended.values()).count("passed") == 16
    assert list(ended.values()).count(SHARED) == 2
    if not flags:
        result.stdout.fnmatch_lines(["vla: 2 episodes of libero_goal with counted:policy*"])


def test_workers_get_the_tests_of_an_episode_together(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None]
) -> None:
    """Of one scene, over which workers are otherwise spread test by test."""
    own(of_class(seeds="range(6)"))
    result = vla(COUNTED, "-n3", "-v")
    result.assert_outcomes(passed=48)
    assert begun(project) == list("012345")
    ran: dict[str, set[str]] = {}
    for line in result.outlines:
        if "PASSED" in line:
            ran.setdefault(line.rpartition("-seed")[2].strip(" ]"), set()).add(line.partition("[gw")[2][0])
    assert len(ran) == 6
    assert all(len(workers) == 1 for workers in ran.values())


def test_tests_of_a_module_share_where_they_run_the_same_case(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None]
) -> None:
    def mark(seeds: str, more: str = ', scope="module"') -> str:
        return f'@pytest.mark.vla(suite="libero_goal", tasks="{STOVE}", seeds={seeds}{more})\n'

    own(
        "import pytest\n"
        + f"{mark('[0, 1]')}def test_a(rollout): assert rollout.success\n"
        + f"{mark('[1, 2]')}def test_b(rollout): assert rollout.success\n"
        + f"{mark('[1]', '')}def test_alone(rollout): assert rollout.success\n"
        + "class TestIt:\n"
        + f"    {mark('1')}    def test_c(self, rollout): assert rollout.success\n"
    )
    vla(COUNTED).assert_outcomes(passed=6)
    assert begun(project) == ["0", "1", "1", "2"]
    assert {record.node for record in records(project)} == {
        *(f"test_own.py[libero_goal-{STOVE}-seed{seed}]" for seed in (0, 1, 2)),
        f"test_own.py::test_alone[{STOVE}-seed1]",
    }


def test_each_test_fails_by_itself_and_says_how_to_run_it(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None]
) -> None:
    tests = "    def test_a(self, rollout): pass\n    def test_b(self, rollout): assert rollout.steps < 2\n"
    own(of_class(seeds="0", tests=tests + "    def test_c(self, rollout): pass\n"))
    result = vla(COUNTED)
    result.assert_outcomes(passed=2, failed=1)
    assert begun(project) == ["0"]
    assert [record.outcome for record in records(project)] == ["success"]
    command = f"pytest 'test_own.py::TestStove::test_b[[]{STOVE}-seed0[]]' {COUNTED}"
    result.stdout.fnmatch_lines(
        [f"*run it alone: {command}*", "1 failed test: `pytest --vla-resume=*` runs just these"]
    )
    vla(f"test_own.py::TestStove::test_b[{STOVE}-seed0]", COUNTED).assert_outcomes(failed=1)
    assert begun(project) == ["0"]


def test_a_run_that_is_gone_on_with_runs_what_is_left_on_one_episode(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None]
) -> None:
    own(of_class())
    own(of_class(tests=EIGHT.replace("def test_c(self, rollout): assert", "def test_c(self, rollout): assert not")))
    result = vla(COUNTED, "-x")
    result.assert_outcomes(passed=2, failed=1)
    assert begun(project) == ["0"]
    own(of_class())
    result = vla("--vla-resume")
    result.assert_outcomes(passed=14, deselected=2)
    assert begun(project) == ["0", "1"], "one of them anew, for the tests that are left"
    result.stdout.fnmatch_lines(
        ["test_own.py::TestStove * 2 * 2/2 *", "1 repeat of 1 episode, whose first record counts: *"]
    )
    assert sorted(record.seed for record in records(project)) == [0, 1]
    assert set(statuses(project).values()) == {"passed", SHARED}
    vla("--vla-resume").stdout.fnmatch_lines(["vla: nothing is left of run *, 2 episodes kept"])


@pytest.mark.parametrize("flags", [(), ("-n2",)])
def test_an_episode_that_broke_is_an_error_of_each_of_its_tests(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None], flags: tuple[str, ...]
) -> None:
    own(of_class(seeds="0"))
    (project.path / "broken").touch()
    result = vla(COUNTED, *flags)
    result.assert_outcomes(errors=8)
    assert begun(project) == ["0"]
    result.stdout.fnmatch_lines(["*errors: 1 policy-raised", "8 errors: `pytest --vla-resume=*` runs just these"])
    (project.path / "broken").unlink()
    vla("--vla-resume").assert_outcomes(passed=8)
    assert begun(project) == ["0"]
    assert [(record.outcome, record.attempt) for record in records(project)] == [("success", 2)]


def test_what_is_invalid_is_skipped_by_each(vla: Run, project: pytest.Pytester, own: Callable[[str], None]) -> None:
    own(of_class(seeds="13"))
    vla(COUNTED).assert_outcomes(skipped=8)
    assert [record.outcome for record in records(project)] == ["invalid"]


def test_a_worker_that_dies_leaves_its_episode_to_another(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None]
) -> None:
    own(of_class(seeds="range(3)"))
    (project.path / "die1").touch()
    result = vla(COUNTED, "-n2")
    result.stdout.fnmatch_lines(["test_own.py::TestStove * 3 * 3/3 *"])
    assert "24 passed" in result.stdout.str()
    assert begun(project) == ["0", "1", "1", "2"], "as one died in it"
    assert {record.outcome for record in records(project)} == {"success"}


def test_a_rerun_gives_a_new_episode_only_where_it_broke(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None]
) -> None:
    project.makepyfile(fake_repeats=Path(fake_repeats.__file__).read_text())
    once = """
        import os
        if not os.path.exists("tried"):
            open("tried", "w").close()
            assert False
"""
    # Behind the last test of a class pytest tears down what it shares before the test is run again.
    test_b = "    def test_b(self, rollout): pass\n"
    own(of_class(seeds="0", tests=f"    def test_a(self, rollout):{once}{test_b}"))
    result = vla("-p", "fake_repeats", COUNTED, "--reruns=1")
    result.assert_outcomes(passed=2)
    assert begun(project) == ["0"], "the assertion is tried again on the episode that there is"
    (project.path / "broken").touch()
    project.makeconftest(
        """
        import os
        import pytest

        def pytest_runtest_logreport(report):
            if report.when == "setup" and report.outcome == "rerun":
                os.remove("broken")
        """
    )
    result = vla("-p", "fake_repeats", COUNTED, "--reruns=2")
    result.assert_outcomes(passed=2)
    assert begun(project) == ["0", "0"]
    # Each of several repetitions has its own.
    own(of_class(seeds="0"))
    vla("-p", "fake_repeats", COUNTED, "--count=3").assert_outcomes(passed=24)
    assert begun(project) == ["0"] * 3


def test_no_test_changes_what_another_one_sees(vla: Run, own: Callable[[str], None]) -> None:
    own(of_class(seeds="0", tests="    def test_a(self, rollout): rollout.trajectory.actions[:] = 0\n"))
    result = vla(COUNTED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*ValueError: assignment destination is read-only"])


def test_the_rate_of_a_suite_beside_it_is_its_own(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None]
) -> None:
    own(of_class(seeds="0"))
    result = vla("test_own.py", "--vla-suite=libero_goal", f"--vla-tasks={STOVE}", COUNTED, "--vla-min-success=1")
    result.assert_outcomes(passed=9)
    assert begun(project) == ["0", "0"]
    result.stdout.fnmatch_lines(
        ["libero_goal * 1 * 1/1 *", "test_own.py::TestStove * 1 * 1/1 *", "libero_goal: 1/1 *", "vla: passed *"]
    )


def test_runs_and_exports_have_one_episode(
    vla: Run, project: pytest.Pytester, own: Callable[[str], None], capfd: pytest.CaptureFixture[str]
) -> None:
    from pytest_vla.cli import main

    own(of_class())
    vla(COUNTED)
    capfd.readouterr()
    assert main(["runs", "--json", f"--results={project.path / '.vla'}"]) == 0
    (run,) = json.loads(capfd.readouterr().out)
    assert (run["planned"], run["done"], run["status"], run["rate"]) == (2, 2, "finished", 1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (of_class("clas"), "@pytest.mark.vla: scope='clas': expected function, class, module. Did you mean class?"),
        (of_class("session"), "scope='session': expected function, class, module."),
        (
            of_class().replace("class TestStove:", "def test_it(rollout): pass").partition("    def")[0],
            'scope="class": the test is in no class; put it into one, or write scope="module"',
        ),
    ],
)
def test_a_scope_that_is_none_is_told(vla: Run, own: Callable[[str], None], text: str, said: str) -> None:
    own(text)
    result = vla(COUNTED)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert said in result.stdout.str()


def test_without_a_model_each_test_is_one_skip(vla: Run, own: Callable[[str], None]) -> None:
    own(of_class())
    vla().assert_outcomes(skipped=8)
