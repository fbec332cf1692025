"""A policy that answers in batches, with workers: in one process that all share, which may die, hang or not load."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.runs import digests, last_records, run_names
from tests.support.waiting import RUN_OUT

Run = Callable[..., pytest.RunResult]
GOAL = ("--vla-suite=libero_goal", "--vla-tasks=stove", "--vla-model=batched:policy")
RACK = ("--vla-suite=libero_goal", "--vla-tasks=rack", "--vla-model=batched:policy")

# Walks to the goal line with noise of its own, and keeps a count in each session. Troubles come by the seed.
BATCHED = """
import os, signal, time
from pathlib import Path
import numpy as np
from run_out import run_out

HERE = Path(__file__).parent

class Batched:
    max_batch, reads, replan = 16, ("agentview_image", "state"), 3

    def __init__(self):
        with (HERE / "loaded.txt").open("a") as log:
            print(os.getpid(), os.environ.get("PYTEST_XDIST_WORKER", "-"), file=log)

    def begin(self, episode):
        return {"rng": episode.rng, "asked": 0, "seed": episode.seed}

    def act(self, states, observations):
        answers = []
        for state, observation in zip(states, observations):
            self.trouble(state)
            state["asked"] += 1
            chunk = np.zeros((5, 7))
            chunk[:, 0] = 0.2
            chunk[:, 1] = 0.1 * state["rng"].normal()
            chunk[:, 2] = 0.001 * state["asked"] + 1e-6 * observation["agentview_image"].mean()
            answers.append(chunk)
        with (HERE / "batches.txt").open("a") as log:
            print(len(states), file=log)
        return answers

    def trouble(self, state):
        pass

policy = Batched()
"""


@pytest.fixture(autouse=True)
def limits_that_run_out(project: pytest.Pytester) -> None:
    project.makepyfile(run_out=RUN_OUT)


@pytest.fixture
def batched(project: pytest.Pytester) -> Path:
    project.makepyfile(batched=BATCHED)
    return project.path


def troubled(project: pytest.Pytester, trouble: str) -> None:
    project.makepyfile(
        batched=BATCHED.replace(
            "    def trouble(self, state):\n        pass\n", f"    def trouble(self, state):\n{trouble}"
        )
    )


def loaded(folder: Path) -> list[str]:
    """For each time that the policy was loaded, the worker that did, or ``-``."""
    return [line.split()[1] for line in (folder / "loaded.txt").read_text().splitlines()]


def test_weights_are_loaded_once_and_records_are_the_same(vla: Run, project: pytest.Pytester, batched: Path) -> None:
    found: list[dict[str, str]] = []
    for way in (("-n0",), ("-n1",), ("-n4",), ("-n4", "--vla-batch=1"), ("-n2", "--vla-batch=8")):
        (batched / "loaded.txt").unlink(missing_ok=True)
        (batched / "batches.txt").unlink(missing_ok=True)
        vla(*GOAL, *way, "--vla-seeds=0-5").assert_outcomes(passed=18)
        assert loaded(batched) == ["-"], way
        found.append(digests(project.path / ".vla"))
        if "--vla-batch=1" in way:
            assert set((batched / "batches.txt").read_text().split()) == {"1"}
    assert all(other == found[0] for other in found)
    records = last_records(project.path / ".vla").values()
    assert {record.replan for record in records} == {3}
    (digest,) = {record.policy_digest for record in records}
    assert digest is not None


def test_loading_is_told(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(batched=BATCHED.replace("HERE =", "time.sleep(2.2)\nHERE ="))
    result = vla(*GOAL, "-n1", "--vla-device=cpu")
    result.stdout.re_match_lines(
        [r"vla: loading batched:policy on cpu", r"vla: loaded batched:policy on cpu in \d+\.\d s"]
    )
    assert "vla: load" not in vla(*GOAL, "-n1", "-q").stdout.str()


def test_a_plain_policy_is_each_workers_own(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        plain="""
        import os
        import numpy as np
        def policy(episode):
            assert os.environ["PYTEST_XDIST_WORKER"]
            return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])
        """
    )
    result = vla("--vla-suite=libero_goal", "--vla-tasks=stove", "--vla-model=plain:policy", "-n2")
    result.assert_outcomes(passed=3)
    assert "vla: load" not in result.stdout.str()


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
        ["vla: the policy's process ended with SIGKILL; it is started again, and its open episodes run again"]
    )
    result.stdout.re_match_lines([rf"{attempts.count(2)} episodes? ran again after an error, or as a process had died"])


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


def test_several_devices_are_several_processes(vla: Run, project: pytest.Pytester, batched: Path) -> None:
    project.makepyfile(
        batched=BATCHED.replace('os.environ.get("PYTEST_XDIST_WORKER", "-")', 'os.environ["PYTEST_VLA_DEVICE"]')
    )
    vla(*GOAL, "-n3", "--vla-device=cuda:0,cuda:1", "--vla-seeds=0-2").assert_outcomes(passed=9)
    assert sorted(loaded(batched)) == ["cuda:0", "cuda:1"]
    (batched / "loaded.txt").unlink()
    vla(*GOAL, "-n1", "--vla-device=cuda:0,cuda:1").assert_outcomes(passed=3)
    assert loaded(batched) == ["cuda:0"]
    result = vla(*GOAL, "--vla-device=cuda:0,cuda:1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*without workers the policy is in this process, on one device; add -n 2"])


def test_nothing_of_the_process_is_left(vla: Run, project: pytest.Pytester, batched: Path, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    os.environ["TMPDIR"], before = str(place), os.environ.get("TMPDIR")
    shared = set(os.listdir("/dev/shm"))
    try:
        vla(*GOAL, "-n2").assert_outcomes(passed=3)
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
    (pid,) = [int(line.split()[0]) for line in (batched / "loaded.txt").read_text().splitlines()]
    assert not Path(f"/proc/{pid}").exists()
    assert list(place.glob("pytest-vla-*")) == []
    assert not [name for name in set(os.listdir("/dev/shm")) - shared if "vla" in name]


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_names_of_the_ini_file(vla: Run, project: pytest.Pytester, batched: Path, workers: str) -> None:
    (batched / "below").mkdir()
    names = "vla_models =\n    ours = batched:policy\n    pi0 = policies:straight\n"
    project.makeini(f"[pytest]\n{names}vla_batch = 4\nvla_device = cpu\n")
    arguments = ("--vla-suite=libero_goal", "--vla-tasks=stove", workers)
    vla(*arguments, "--vla-model=ours").assert_outcomes(passed=3)
    assert {record.policy for record in last_records(project.path / ".vla").values()} == {"ours"}
    vla(*arguments, "--vla-model=pi0").assert_outcomes(passed=3)
    assert len(run_names(project.path / ".vla")) == 2


def test_a_line_of_names_that_is_none(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_models =\n    ours: batched:policy\n")
    result = vla(*GOAL)
    result.stderr.fnmatch_lines(["*vla_models: expected NAME = POLICY, got 'ours: batched:policy'*"])


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--vla-device=cuda:zero", "'cuda:zero' is not a device"),
        ("--vla-device=auto,cpu", "of several devices each is named"),
        ("--vla-batch=0", "'0' is not a number of questions"),
        ("--vla-policy-timeout=soon", "'soon' is not a time"),
    ],
)
def test_options_that_cannot_be_meant(vla: Run, option: str, words: str) -> None:
    result = vla(*GOAL, option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{words}*"])


def test_actions_out_of_range_are_clipped_and_counted(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        wild="import numpy as np\npolicy = lambda episode: lambda observation: np.array([1.5, 0, 0, 0, 0, 0, -3.0])\n"
    )
    vla("--vla-suite=libero_goal", "--vla-tasks=rack", "--vla-model=wild:policy").assert_outcomes(passed=1)
    (record,) = last_records(project.path / ".vla").values()
    assert record.metrics["clipped_actions"] == record.steps > 0


RAISES = """
        state["rng"].normal()
        if state["seed"] == 2 and state["asked"] == 2:
            raise RuntimeError("a bad episode")
"""


def test_an_episode_that_raises_changes_no_other_whatever_the_batches(vla: Run, project: pytest.Pytester) -> None:
    troubled(project, RAISES + "        time.sleep(0.01)\n")
    found = []
    for way in (("-n0",), ("-n4",), ("-n4", "--vla-batch=1")):
        vla(*GOAL, *way, "--vla-seeds=0-4").assert_outcomes(passed=12, errors=3)
        records = last_records(project.path / ".vla")
        errors = [record for record in records.values() if record.outcome == "error"]
        assert {(record.seed, record.reason) for record in errors} == {(2, "policy-raised")}
        assert {str(record.message).partition(" (")[0] for record in errors} == {"RuntimeError: a bad episode"}
        found.append(digests(project.path / ".vla"))
    assert found[1] == found[0]
    assert found[2] == found[0]


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("policy = Batched()", "policy = Batched"), "is type, a class; name an object of it, policy = Batched()"),
        (
            ('max_batch, reads, replan = 16, ("agentview_image", "state"), 3', "max_batch = 16"),
            "which lacks reads of a",
        ),
        (("replan = 16,", "replan = 0,"), "a policy's max_batch is a number, 1 or more; this one's is 0"),
        (('"state"), 3', '"state"), 2.5'), "a policy's replan is a number, 1 or more; this one's is 2.5"),
        (("policy = Batched()", "policy = Batched(); policy.privileged = True"), "these see no simulator"),
        (("replan = 16,", "replan = None,"), "its max_batch is None"),
    ],
)
def test_what_is_wrong_with_a_policy_is_told_before_its_first_episode(
    vla: Run, project: pytest.Pytester, workers: str, change: tuple[str, str], complaint: str
) -> None:
    project.makepyfile(batched=BATCHED.replace(*change))
    result = vla(*GOAL, workers, "--vla-seeds=0-9")
    assert result.ret != 0
    told = result.stdout.str() + result.stderr.str()
    assert complaint in told
    assert told.count(complaint) <= 3, "not one error an episode"
    assert run_names(project.path / ".vla") == []


def test_numbers_of_numpy_are_numbers(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(batched=BATCHED.replace('"state"), 3', '"state"), np.int64(3)'))
    for workers in ("-n0", "-n2"):
        vla(*GOAL, workers).assert_outcomes(passed=3)
        assert {record.replan for record in last_records(project.path / ".vla").values()} == {3}


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_wrong_number_of_answers_is_told_as_such(vla: Run, project: pytest.Pytester, workers: str) -> None:
    project.makepyfile(batched=BATCHED.replace("return answers", "return answers * 2"))
    vla(*GOAL, workers).assert_outcomes(errors=3)
    records = last_records(project.path / ".vla").values()
    assert {record.reason for record in records} == {"policy-protocol"}
    assert all("act gives an answer to each question" in str(record.message) for record in records)


def test_loading_in_vain_is_told_where_it_took_long(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        plain="""
        import time
        import numpy as np
        time.sleep(2.5)
        policy = lambda episode: lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])
        """
    )
    result = vla("--vla-suite=libero_goal", "--vla-tasks=rack", "--vla-model=plain:policy", "-n2")
    result.stdout.fnmatch_lines(
        ["vla: *this policy does not answer in batches: each of the 2 workers loads it for itself"]
    )


def test_a_restart_that_takes_for_ever_is_given_up(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest("import pytest_vla.serving.replicas as replicas\nreplicas._LEAST_PATIENCE = 3.0\n")
    head = "class Batched:"
    hangs = 'if (HERE / "died").exists():\n    time.sleep(7200)\n'
    text = BATCHED.replace(head, hangs + head)
    project.makepyfile(batched=text.replace("        pass\n", DIES_ONCE.lstrip("\n")))
    result = vla(*GOAL, "-n2", "--vla-seeds=0-5")
    assert result.ret != 0
    assert "and could not be started again: the policy's process was given up while it loaded" in result.stdout.str()


def test_what_the_policy_prints_is_in_the_runs_folder(vla: Run, project: pytest.Pytester) -> None:
    troubled(project, '        print("thinking")\n')
    result = vla(*GOAL, "-n1")
    assert "thinking" not in result.stdout.str() + result.stderr.str()
    (name,) = run_names(project.path / ".vla")
    assert "thinking" in (project.path / ".vla" / name / "policy.log").read_text()


@pytest.mark.parametrize("model", ["ourz", "ourz:x"])
def test_names_of_the_ini_file_are_among_those_that_may_be_meant(
    vla: Run, project: pytest.Pytester, batched: Path, model: str
) -> None:
    project.makeini("[pytest]\nvla_models =\n    ours = batched:policy\n")
    result = vla("--vla-suite=libero_goal", f"--vla-model={model}")
    result.stderr.fnmatch_lines(["*Did you mean ours? Known: ours, expert, *"])
