"""A policy in a process that all share dies, hangs or takes too long: what is run again, and what stops the run."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.batched import BATCHED, loaded, troubled
from tests.support.runs import digests, last_records

pytestmark = pytest.mark.usefixtures("limits_that_run_out")

Run = Callable[..., pytest.RunResult]
GOAL = ("--vla-suite=libero_goal", "--vla-tasks=stove", "--vla-model=batched:policy")
RACK = ("--vla-suite=libero_goal", "--vla-tasks=rack", "--vla-model=batched:policy")


DIES_ONCE = """
        if state["seed"] == 2 and state["asked"] == 2 and not (HERE / "died").exists():
            (HERE / "died").touch()
            os.kill(os.getpid(), 9)
"""


def test_a_process_that_dies_is_started_again_and_its_open_episodes_run_again(
    vla: Run, project: pytest.Pytester, batched: Path
) -> None:
    vla(*GOAL, "-n0", "--vla-seeds=0-5").assert_outcomes(passed=18)
    expected = digests(project.path / ".vla")
    (batched / "loaded.txt").unlink()
    troubled(project, DIES_ONCE)
    result = vla(*GOAL, "-n3", "--vla-seeds=0-5")
    result.assert_outcomes(passed=18)
    assert result.ret == 0
    assert digests(project.path / ".vla") == expected
    assert loaded(batched) == ["-", "-"]
    attempts = [record.attempt for record in last_records(project.path / ".vla").values()]
    assert 1 <= attempts.count(2) <= 3
    assert attempts.count(1) == 18 - attempts.count(2)
    result.stdout.fnmatch_lines(
        ["vla: the policy's process ended with SIGKILL; it is restarted, and its open episodes run again"]
    )
    result.stdout.re_match_lines([rf"{attempts.count(2)} episodes? ran again after an error or a crashed process"])


def test_a_process_that_exits_once_gains_nothing(vla: Run, project: pytest.Pytester, batched: Path) -> None:
    troubled(project, DIES_ONCE.replace("os.kill(os.getpid(), 9)", "os._exit(5)"))
    result = vla(*RACK, "-n1", "--vla-seeds=0-3", "--vla-min-success=90%")
    records = last_records(project.path / ".vla").values()
    assert {record.outcome for record in records} == {"success"}
    assert {record.seed: record.retried for record in records if record.retried} == {2: "policy-server-died"}
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*1 episode succeeded by a retry *", "libero_goal: 3/4 = 75.0% *"])


@pytest.mark.slow
def test_a_process_that_dies_again_stops_the_run_which_can_go_on(
    vla: Run, project: pytest.Pytester, batched: Path
) -> None:
    troubled(project, '        if state["seed"] == 2:\n            os._exit(5)\n')
    result = vla(*GOAL, "-n2", "--vla-seeds=0-9")
    assert result.ret != 0
    errors = [record for record in last_records(project.path / ".vla").values() if record.outcome == "error"]
    assert {record.reason for record in errors} == {"policy-server-died"}
    assert 1 <= len(errors) <= 4, "not one error an episode"
    result.stdout.fnmatch_lines(["*the policy's process ended with exit code 5, for the second time*"])
    project.makepyfile(batched=BATCHED)
    result = vla("--vla-resume", "-n2")
    assert result.ret == 0
    assert {record.outcome for record in last_records(project.path / ".vla").values()} == {"success"}
    assert len(last_records(project.path / ".vla")) == 30


def test_an_answer_that_takes_too_long_is_an_error_and_the_process_is_replaced(
    vla: Run, project: pytest.Pytester
) -> None:
    troubled(project, '        if state["seed"] == 2:\n            run_out()\n            time.sleep(7200)\n')
    result = vla(*RACK, "-n2", "--vla-seeds=0-3", "--vla-policy-timeout=1000")
    outcomes = {record.seed: (record.outcome, record.reason) for record in last_records(project.path / ".vla").values()}
    assert outcomes.pop(2) == ("error", "policy-timeout")
    assert set(outcomes.values()) <= {("success", None), ("error", "policy-timeout")}
    assert list(outcomes.values()).count(("success", None)) >= 2
    result.stdout.fnmatch_lines(["error policy-timeout *no answer of the policy in 1000 s (--vla-policy-timeout)"])


@pytest.mark.parametrize(
    ("model", "reason"), [("in_process:policy", "policy-timeout"), ("in_process:swallowing", "policy-timeout")]
)
def test_a_policy_in_this_process_has_the_same_limit(
    vla: Run, project: pytest.Pytester, model: str, reason: str
) -> None:
    project.makepyfile(
        in_process="""
        import time
        import numpy as np
        from run_out import run_out
        def policy(episode):
            def act(observation):
                if episode.seed == 1:
                    run_out()
                    time.sleep(7200)
                return np.array([1.0, 0, 0, 0, 0, 0, -1])
            return act
        def swallowing(episode):
            inner = policy(episode)
            def act(observation):
                try:
                    return inner(observation)
                except Exception:
                    return np.zeros(7)
            return act
        """
    )
    arguments = ("--vla-suite=libero_goal", "--vla-tasks=rack", f"--vla-model={model}", "--vla-seeds=0-1")
    vla(*arguments, "--vla-policy-timeout=1000", "--vla-timeout=9999").assert_outcomes(passed=1, errors=1)
    records = {record.seed: record for record in last_records(project.path / ".vla").values()}
    assert (records[0].outcome, records[1].reason) == ("success", reason)
    # Or where it runs out, if it does so late.
    place = r"(in_process\.py:\d+ in act|run_out\.py:\d+ in run_out)"
    assert re.search(rf"no end within 1000 s; stopped at .*{place} \(--vla-policy", str(records[1].message))


def test_the_episodes_own_limit_is_told_as_such(vla: Run, project: pytest.Pytester) -> None:
    troubled(project, "        time.sleep(7200)\n")
    for workers in ("-n0", "-n1"):
        vla(*RACK, workers, "--vla-timeout=1").assert_outcomes(errors=1)
        (record,) = last_records(project.path / ".vla").values()
        assert record.reason == "timeout"


def test_a_question_that_was_broken_off_does_not_answer_the_next(vla: Run, project: pytest.Pytester) -> None:
    # The late answer of the first episode would be taken for the begin of the second one.
    project.makeconftest(
        """
        import os
        import signal
        from pathlib import Path
        from run_out import run_out

        HERE = Path(__file__).parent

        def pytest_configure(config):
            if hasattr(config, "workerinput"):
                signal.signal(signal.SIGUSR1, run_out)
                (HERE / "worker").write_text(str(os.getpid()))

        def pytest_runtest_logreport(report):
            if report.failed:
                (HERE / "broken_off").touch()
        """
    )
    troubled(
        project,
        '        if state["seed"] == 0:\n'
        '            os.kill(int((HERE / "worker").read_text()), signal.SIGUSR1)\n'
        '            while not (HERE / "broken_off").exists():\n'
        "                time.sleep(0.01)\n",
    )
    vla(*RACK, "-n1", "--vla-timeout=1000", "--vla-seeds=0-2")
    records = {record.seed: record for record in last_records(project.path / ".vla").values()}
    assert {seed: record.outcome for seed, record in records.items()} == {0: "error", 1: "success", 2: "success"}
    assert records[0].reason == "timeout"


def test_a_restart_that_takes_for_ever_is_given_up(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest("import pytest_vla.serving.replicas as replicas\nreplicas._LEAST_PATIENCE = 3.0\n")
    head = "class Batched:"
    hangs = 'if (HERE / "died").exists():\n    time.sleep(7200)\n'
    text = BATCHED.replace(head, hangs + head)
    project.makepyfile(batched=text.replace("        pass\n", DIES_ONCE.lstrip("\n")))
    result = vla(*GOAL, "-n2", "--vla-seeds=0-5")
    assert result.ret != 0
    assert "and could not be restarted: loading of the policy was cancelled" in result.stdout.str()
