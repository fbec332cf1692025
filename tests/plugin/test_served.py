"""A policy that answers in batches, with workers: in one process that all share."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.batched import BATCHED, loaded, troubled
from tests.support.runs import digests, last_records, run_names
from tests.support.workers import ALONE, BOTH

pytestmark = pytest.mark.usefixtures("limits_that_run_out")

Run = Callable[..., pytest.RunResult]
GOAL = ("--vla-suite=libero_goal", "--vla-tasks=stove", "--vla-model=batched:policy")


@pytest.mark.slow
@pytest.mark.usefixtures("own_processes")
def test_weights_are_loaded_once_and_records_are_the_same(vla: Run, project: pytest.Pytester, batched: Path) -> None:
    found: list[dict[str, str]] = []
    for way in (("-n0",), ("-n1", "--vla-max-batch=8"), ("-n4",), ("-n2", "--vla-max-batch=1")):
        (batched / "loaded.txt").unlink(missing_ok=True)
        (batched / "batches.txt").unlink(missing_ok=True)
        vla(*GOAL, *way, "--vla-seeds=0-5").assert_outcomes(passed=18)
        assert loaded(batched) == ["-"], way
        found.append(digests(project.path / ".vla"))
        if "--vla-max-batch=1" in way:
            assert set((batched / "batches.txt").read_text().split()) == {"1"}
    assert all(other == found[0] for other in found)
    records = last_records(project.path / ".vla").values()
    assert {record.replan for record in records} == {3}
    (digest,) = {record.policy_digest for record in records}
    assert digest is not None


def test_coverage_of_its_process_is_there_before_it_is_combined(
    vla: Run, project: pytest.Pytester, batched: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the place of pytest-cov, which need not be installed, and of coverage.py."""
    project.makepyfile(
        coverage="""
        import sys
        from pathlib import Path

        if "computing_process" not in str(sys.modules["__main__"].__file__):
            raise ImportError("only there")

        class Coverage:
            running = None

            def __init__(self, **options):
                self.options = options

            def start(self):
                Coverage.running = self

            def stop(self):
                self.seen = "batched" in sys.modules

            def save(self):
                Path("measured.txt").write_text(f"{self.options['source']} {self.options['data_suffix']} {self.seen}")

            @classmethod
            def current(cls):
                return cls.running
        """
    )
    project.makeconftest(
        """
        from pathlib import Path
        from types import SimpleNamespace

        import pytest

        class Measuring:
            cov_controller = SimpleNamespace(cov_source=["batched"], cov_branch=None, cov_config=".coveragerc")

            @pytest.hookimpl(wrapper=True)
            def pytest_runtestloop(self, session):
                result = yield
                print("combined:", Path("measured.txt").read_text())
                return result

        def pytest_configure(config):
            if not hasattr(config, "workerinput"):
                config.pluginmanager.register(Measuring(), "_cov")
        """
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(batched), *filter(None, [os.environ.get("PYTHONPATH")])]))
    result = vla(*GOAL, "-n1", "-s")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*combined: *'batched'* True True"])


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
    vla("--vla-suite=libero_goal", "--vla-tasks=stove", "--vla-model=plain:policy", "-n2").assert_outcomes(passed=3)


@pytest.mark.slow
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
    result.stderr.fnmatch_lines(["*without workers the policy uses one device; add -n 2"])


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


@BOTH
def test_names_of_the_ini_file(vla: Run, project: pytest.Pytester, batched: Path, workers: str) -> None:
    (batched / "below").mkdir()
    names = "vla_models =\n    ours = batched:policy\n    pi0 = policies:straight\n"
    project.makeini(f"[pytest]\n{names}vla_max_batch = 4\nvla_device = cpu\n")
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
        ("--vla-device=auto,cpu", "name each of several devices"),
        ("--vla-max-batch=0", "'0' is not a number of questions"),
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


@pytest.mark.slow
def test_an_episode_that_raises_changes_no_other_whatever_the_batches(vla: Run, project: pytest.Pytester) -> None:
    troubled(project, RAISES + "        time.sleep(0.01)\n")
    found = []
    for way in (("-n0",), ("-n4",), ("-n4", "--vla-max-batch=1")):
        vla(*GOAL, *way, "--vla-seeds=0-4").assert_outcomes(passed=12, errors=3)
        records = last_records(project.path / ".vla")
        errors = [record for record in records.values() if record.outcome == "error"]
        assert {(record.seed, record.reason) for record in errors} == {(2, "policy-raised")}
        assert {str(record.message).partition(" (")[0] for record in errors} == {"RuntimeError: a bad episode"}
        found.append(digests(project.path / ".vla"))
    assert found[1] == found[0]
    assert found[2] == found[0]


@ALONE
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            ("policy = Batched()", "class policy(Batched):\n    def __init__(self, ckpt): pass"),
            "policy is a class that needs arguments. Expose an instance (policy = policy(...))",
        ),
        (
            ('max_batch, reads, replan = 16, ("agentview_image", "state"), 3', "max_batch = 16"),
            "which lacks reads, required of a",
        ),
        (("replan = 16,", "replan = 0,"), "a policy's max_batch is a number, 1 or more; this one's is 0"),
        (('"state"), 3', '"state"), 2.5'), "a policy's replan is a number, 1 or more; this one's is 2.5"),
        (("policy = Batched()", "policy = Batched(); policy.privileged = True"), "Batches cannot access the simulator"),
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


@ALONE
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
        ["vla: *this policy does not answer in batches: each of the 2 workers loads its own copy"]
    )


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
