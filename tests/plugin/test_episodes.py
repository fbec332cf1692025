"""Episodes as items: outcomes, records, workers; on a world without a simulator."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.records.counting import standings
from pytest_vla.records.record import Record
from pytest_vla.show.restored import restored_task
from tests.support import runs as runs_support
from tests.support.runs import records_of, run_names
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]

GOAL = ("--vla-suite=libero_goal",)
STOVE = (*GOAL, "--vla-tasks=turn_on_the_stove")
STOVE_ID = "libero_goal::test_episode[turn_on_the_stove-seed0]"


def runs(project: pytest.Pytester, folder: str = ".vla") -> list[Path]:
    """The folders of all runs, in the order of their making."""
    results = project.path / folder
    return [results / name for name in run_names(results)]


def last_records(project: pytest.Pytester) -> dict[str, Record]:
    return runs_support.last_records(project.path / ".vla")


def digests(project: pytest.Pytester) -> dict[str, str]:
    return runs_support.digests(project.path / ".vla")


def test_success_is_a_pass_with_a_record(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, "--vla-model=policies:straight")
    result.assert_outcomes(passed=1)
    (record,) = last_records(project).values()
    assert (record.outcome, record.steps, record.success_step) == ("success", 5, 5)
    assert (record.case, record.node) == ("libero_goal/turn_on_the_stove[seed0]", STOVE_ID)
    assert (record.policy, record.run, record.replan) == ("policies:straight", runs(project)[-1].name, None)
    assert record.protocol["max_steps"] == 300
    with np.load(runs(project)[-1] / str(record.arrays)) as arrays:
        assert arrays["actions"].shape == (5, 7)
        assert arrays["qpos"].shape == (6, 3)
    result.stdout.fnmatch_lines(
        [
            "*= vla =*",
            "suite *episodes *success *rate *95%, these tasks*",
            "libero_goal * 1 * 1/1 *100.0% *[[]20.7%, 100.0%[]]",
            f"records: .vla, run {record.run}",
        ]
    )


def test_a_task_not_done_is_a_failed_test_that_says_how(vla: Run, project: pytest.Pytester) -> None:
    project.mkdir("some where").joinpath("assets").mkdir()
    result = vla(*STOVE, "--vla-model=policies:still", "--vla-replan=2", "--vla-data=some where")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "*test_episode[[]turn_on_the_stove-seed0[]]*",
            "not done after 300 of 300 steps",
            "*does not hold  (beyond point_1 line_1)",
            "*holds          (is point_1)",
            "*end effector at (0.000, 0.000, 1.000) m",
            f"*run it alone: pytest '{STOVE_ID.replace('[', '[[]')}' --vla-model=policies:still "
            "'--vla-data=some where' --vla-replan=2 --vla-video=all -p pytest_vla.testing",
            f"FAILED {STOVE_ID.replace('[', '[[]')}*",
        ]
    )
    assert "assert" not in text.partition("FAILURES")[2], "no noise of pytest's own"
    assert last_records(project)["libero_goal/turn_on_the_stove[seed0]"].replan == 2


WILD = """
import numpy as np

def wild(episode):
    return lambda observation: np.full(7, -1e30)

def at_times(episode):
    steps = iter(range(1000))
    return lambda observation: np.full(7, -2.5 if next(steps) < 3 else -0.5)

def rounded(episode):
    return lambda observation: np.full(7, -1.0000001)
"""


def test_actions_that_are_clipped_are_told(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(wild=WILD)
    seeds = "--vla-seeds=0-1"
    result = vla(*STOVE, seeds, "--vla-model=wild:wild")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "not done after 300 of 300 steps, 100% of actions clipped",
            "*actions clipped to [[]-1, 1[]]: 300 of 300, the largest value 1e+30",
            "100% of actions clipped to [[]-1, 1[]] in 2 of 2 episodes, the largest value 1e+30: *check-policy*",
        ]
    )
    assert (
        "100% of actions clipped to [-1, 1] in 2 of 2 episodes"
        in vla(*STOVE, seeds, "--vla-model=wild:wild", "-q").stdout.str()
    )
    # A few are said where somebody looks for why; what is a rounding beyond is not said at all.
    text = vla(*STOVE, "--vla-model=wild:at_times").stdout.str()
    assert "  actions clipped to [-1, 1]: 3 of 300, the largest value 2.5" in text
    assert "% of actions clipped" not in text
    assert "actions clipped" not in vla(*STOVE, "--vla-model=wild:rounded").stdout.str()
    (record,) = last_records(project).values()
    assert record.metrics["clipped_actions"] == 300.0


def test_another_step_budget_is_a_condition_of_the_episode(vla: Run, project: pytest.Pytester) -> None:
    given = ("--vla-steps=7", "--vla-settle-steps=3")
    result = vla(*STOVE, "--vla-model=policies:still", *given)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "vla: step budget 7 differs from the suite's own (libero_goal 300)*",
            "vla: settle steps 3 differs from the suite's own (libero_goal 10)*",
            "not done after 7 of 7 steps",
            "*--vla-steps=7 --vla-settle-steps=3 *",
        ]
    )
    (record,) = last_records(project).values()
    assert (record.steps, record.protocol["max_steps"], record.protocol["settle_steps"]) == (7, 7, 3)
    task = restored_task(record, None)
    assert (task.protocol.max_steps, task.protocol.settle_steps) == (7, 3)
    # Another case than with the suite's own numbers: none of the two counts as a repeat of the other.
    vla(*STOVE, "--vla-model=policies:still").assert_outcomes(failed=1)
    (own,) = last_records(project).values()
    assert [status.how for status in standings([record, own])] == ["counts", "counts"]
    # What the suite has anyway is no change.
    same = vla(*STOVE, "--vla-model=policies:still", "--vla-steps=300", "--vla-settle-steps=10")
    assert "step budget" not in same.stdout.str()
    (again,) = last_records(project).values()
    assert again.protocol == own.protocol


def test_the_command_that_is_shown_runs_just_that_item(vla: Run, project: pytest.Pytester) -> None:
    shown = vla(*GOAL, "--vla-model=policies:still", "--vla-tasks=bowl", "--vla-seeds=3").stdout.str()
    command = re.findall(r"run it alone: pytest '([^']+)' (\S+)", shown)[1]
    result = vla(*command)
    result.assert_outcomes(failed=1)
    assert [record.node for record in last_records(project).values()] == [command[0]]


def test_a_policy_that_breaks_is_an_error_and_not_a_failure(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, "--vla-model=policies:shapeless", "--vla-seeds=0-1")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_episode[[]turn_on_the_stove-seed0[]]*",
            "error policy-shape after 0 of 300 steps: a session returns an action (7,)*this one returned (3,)",
            "libero_goal * 2 * 0/0 * - * errors: 2 policy-shape",
        ]
    )
    assert "rollout.py" not in result.stdout.str(), "no traceback of ours"
    assert {record.reason for record in last_records(project).values()} == {"policy-shape"}


def test_a_world_that_cannot_be_built_is_an_error_of_its_episodes_alone(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*GOAL, "--vla-model=policies:straight")
    result.assert_outcomes(passed=9, errors=1)
    result.stdout.fnmatch_lines(["error world-unusable *fake world of pytest_vla.testing does not make this task*"])
    assert last_records(project)["libero_goal/put_the_bowl_on_the_plate[seed0]"].arrays is None


def test_nothing_to_measure_is_a_skip(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, "--vla-model=policies:straight", "--vla-seeds=12-14", "-rs")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "libero_goal * 3 * 2/2 *100.0% *",
            "*invalid: 1 goal-holds-at-start",
            "SKIPPED*invalid goal-holds-at-start after 0 of 300 steps*",
        ]
    )
    assert last_records(project)["libero_goal/turn_on_the_stove[seed13]"].outcome == "invalid"


MIXED = (*GOAL, "--vla-model=random", "--vla-seeds=0-2,13")


@pytest.mark.slow
@pytest.mark.usefixtures("own_processes")
def test_records_repeat_on_workers_and_in_any_order(vla: Run, project: pytest.Pytester) -> None:
    """Errors, failures, successes and invalids, all with the digest that they have in one process."""
    vla(*MIXED)
    alone = last_records(project)
    assert len(alone) == 40
    assert {record.outcome for record in alone.values()} == {"success", "failure", "error", "invalid"}
    for workers in ("-n1", "-n4"):
        vla(*MIXED, workers)
        assert digests(project) == {case: record.digest for case, record in alone.items()}
    assert len(runs(project)) == 3
    project.makeconftest("def pytest_collection_modifyitems(items): items.reverse()\n")
    vla(*MIXED)
    assert digests(project) == {case: record.digest for case, record in alone.items()}
    assert list(digests(project)) == list(alone)[::-1]


def test_workers_hand_over_and_the_controller_writes(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, "--vla-model=policies:straight", "--vla-seeds=0-5", "-n2")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines(["libero_goal * 6 * 6/6 *100.0% *[[]61.0%, 100.0%[]]", "records: .vla, run *"])
    (run,) = runs(project)
    assert {record.run for record in last_records(project).values()} == {run.name}
    assert len(list((run / "libero_goal").glob("*.npz"))) == 6


def test_a_replayed_run_has_the_same_digests(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, "--vla-model=random", "--vla-seeds=0-3")
    first, folder = digests(project), runs(project)[-1]
    vla(*STOVE, f"--vla-model=replay:{folder}", "--vla-seeds=1-4", "-n2")
    records = last_records(project)
    missing = records.pop("libero_goal/turn_on_the_stove[seed4]")
    assert (missing.outcome, missing.reason) == ("error", "replay-missing")
    for case, record in records.items():
        assert record.digest == first[case]


def test_replan(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        counting="""
        import numpy as np
        def policy(episode):
            asked = 0
            def act(observation):
                nonlocal asked
                asked += 1
                return np.tile([0, asked / 1000, 0, 0, 0, 0, 0], (10, 1))
            return act
        """
    )
    vla(*STOVE, "--vla-model=counting:policy", "--vla-replan=4").assert_outcomes(failed=1)
    (record,) = last_records(project).values()
    with np.load(runs(project)[-1] / str(record.arrays)) as arrays:
        assert arrays["actions"][:, 1].tolist() == [(1 + step // 4) / 1000 for step in range(300)]


NO_WEIGHTS = "*importing heavy raised RuntimeError: no weights at /weights (*heavy.py:1)*"


def test_a_policy_that_cannot_be_loaded_stops_the_run(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(heavy="raise RuntimeError('no weights at /weights')")
    result = vla(*GOAL, "--vla-model=heavy:policy", "--vla-seeds=0-9", "-n0")
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    result.stdout.fnmatch_lines([NO_WEIGHTS])
    assert result.parseoutcomes()["errors"] == 1, "not one error an episode"
    assert "INTERNALERROR" not in result.stdout.str()
    assert runs(project) == []


def test_a_policy_that_cannot_be_loaded_stops_the_run_before_there_are_workers(
    vla: Run, project: pytest.Pytester
) -> None:
    project.makepyfile(heavy="raise RuntimeError('no weights at /weights')")
    result = vla(*GOAL, "--vla-model=heavy:policy", "--vla-seeds=0-9", "-n2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: the policy cannot be loaded: {NO_WEIGHTS}"])
    assert "Traceback" not in result.stderr.str()
    assert "created" not in result.stdout.str()
    assert runs(project) == []


def test_the_last_failed_are_run_again_and_nothing_else(vla: Run, project: pytest.Pytester) -> None:
    vla(*GOAL, "--vla-model=policies:straight", "--vla-seeds=0-1").assert_outcomes(passed=18, errors=2)
    result = vla(*GOAL, "--vla-model=policies:straight", "--vla-seeds=0-1", "--lf")
    result.assert_outcomes(errors=2, deselected=18)


def test_stopping_early_keeps_what_ended(vla: Run, project: pytest.Pytester) -> None:
    vla(*GOAL, "--vla-model=policies:still", "-x").assert_outcomes(failed=1)
    assert len(last_records(project)) == 1


def test_a_killed_run_keeps_what_ended(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        killer="""
        import os, signal
        import numpy as np
        def policy(episode):
            if episode.seed == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
        """
    )
    vla(*STOVE, "--vla-model=killer:policy", "--vla-seeds=0-4")
    assert sorted(record.seed for record in last_records(project).values()) == [0, 1]


def test_results_go_where_they_are_wanted(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, "--vla-model=policies:straight", "--vla-results=out/here")
    (run,) = runs(project, "out/here")
    assert len(records_of(run.parent)) == 1
    assert (project.path / "out" / "here" / ".gitignore").exists()
    result.stdout.fnmatch_lines([f"records: out/here, run {run.name}"])


@BOTH
def test_a_results_folder_that_cannot_be_made_stops_the_run(vla: Run, project: pytest.Pytester, workers: str) -> None:
    project.makepyfile(
        taker="import shutil\nimport numpy as np\nfrom pathlib import Path\n\n"
        "def policy(episode):\n"
        "    if Path('taken').is_dir():\n"
        "        Path('taken').rename('away')\n"
        "        Path('taken').write_text('a file')\n"
        "    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])\n"
    )
    result = vla(*GOAL, "--vla-model=taker:policy", "--vla-results=taken", "--vla-seeds=0-9", workers)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*cannot write records: *taken*"])
    assert result.parseoutcomes().get("errors", 0) <= 4
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_an_episode_whose_worker_is_killed_is_an_error_that_counts(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        killer="import os, signal\nimport numpy as np\n\n"
        "def policy(episode):\n"
        "    if 'stove' in episode.task:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])\n"
    )
    result = vla(*GOAL, "--vla-tasks=turn_on_the_stove,middle_drawer,wine", "--vla-model=killer:policy", "-n2")
    records = last_records(project)
    assert len(records) == 4
    lost = records.pop("libero_goal/turn_on_the_stove[seed0]")
    assert (lost.outcome, lost.reason, lost.steps) == ("error", "worker-crashed", 0)
    assert "crashed" in str(lost.message)
    assert {record.outcome for record in records.values()} == {"success"}
    result.stdout.fnmatch_lines(["libero_goal*4*3/3*100.0%*", "*errors: 1 worker-crashed"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_test_of_the_users_cannot_ask_for_a_rollout_of_nothing(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(test_theirs="def test_theirs(rollout): pass\n")
    result = vla("test_theirs.py", "--vla-model=random")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["`rollout` needs an episode: mark the test, as in @pytest.mark.vla(suite=*, or run a suite*--vla-model"]
    )


def test_a_world_is_kept_for_the_next_episode_of_its_scene(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        "def pytest_sessionfinish(session):\n    from pytest_vla.testing import World\n    print('MADE', World.made)\n"
    )
    result = vla(
        "--vla-suite=libero_goal,libero_object",
        "--vla-tasks=turn_on_the_stove,middle_drawer,pick_up_the_milk*",
        "--vla-seeds=0-4",
        "--vla-model=policies:straight",
        "-s",
    )
    result.assert_outcomes(passed=15)
    result.stdout.fnmatch_lines(["*MADE 2"])


def test_without_xdist_it_works(vla: Run) -> None:
    vla(*STOVE, "--vla-model=policies:straight", "-p", "no:xdist").assert_outcomes(passed=1)
