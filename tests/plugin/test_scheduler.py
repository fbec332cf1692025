"""Episodes on real workers: which worker runs what and in which order, and that every run comes to its end."""

import functools
import itertools
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.store import STORE
from tests.support.runs import records_of
from tests.support.waiting import HANG

Run = Callable[..., pytest.RunResult]

GOAL = "--vla-suite=libero_goal"
STOVE = (GOAL, "--vla-tasks=turn_on_the_stove")
MODEL = "--vla-model=noting:policy"
# Notes what is started where. `times` says how long episodes take, and `fatal` in which a worker is killed how often.
NOTING = """
import json, os, signal, time
import numpy as np
from pathlib import Path

def told(name):
    return json.loads(Path(name).read_text()) if Path(name).exists() else {}

def policy(episode):
    with open("notes", "a") as notes:
        notes.write(f"{os.environ.get('PYTEST_XDIST_WORKER', '')} {episode.suite} {episode.task} {episode.seed}\\n")
    times, fatal = told("times"), told("fatal")
    key = f"{episode.task}-{episode.seed}"
    time.sleep(times.get(key, times.get(episode.task, times.get("all", 0.02))))
    if fatal.get(key):
        Path("fatal").write_text(json.dumps({**fatal, key: fatal[key] - 1}))
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])

def still(episode):
    policy(episode)
    return lambda observation: np.zeros((50, 7))
"""

Note = tuple[str, str, str, int]


@pytest.fixture
def run(vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`vla`, of which a run that never ends is a failure."""
    project.makepyfile(noting=NOTING)
    limited = functools.partial(project.runpytest_subprocess, timeout=HANG)
    monkeypatch.setattr(project, "runpytest_subprocess", limited)
    return vla


def notes(project: pytest.Pytester) -> list[Note]:
    """Worker, suite, task and seed of the episodes, in the order in which they were started."""
    lines = (project.path / "notes").read_text().splitlines()
    return [(worker, suite, task, int(seed)) for worker, suite, task, seed in map(str.split, lines)]


def by_worker(started: Sequence[Note]) -> dict[str, list[Note]]:
    return {worker: [note for note in started if note[0] == worker] for worker, *_ in started}


def outcomes(project: pytest.Pytester) -> dict[str, str]:
    return {record.case: record.outcome for record in records_of(project.path / ".vla")}


def test_each_scene_stays_on_its_worker(run: Run, project: pytest.Pytester) -> None:
    (project.path / "times").write_text('{"all": 0.1}')
    suites = "--vla-suite=libero_object,libero_spatial,libero_10"
    result = run(suites, "--vla-tasks=*milk*,*cream*,*stove*", "--vla-seeds=0-2", MODEL, "-n2", "-v")
    result.stdout.fnmatch_lines(["*scheduling tests via VlaScheduling*"])
    count = result.parseoutcomes()["passed"]
    started = by_worker(notes(project))
    assert sum(len(own) for own in started.values()) == count
    assert len({own[0][1] for own in started.values()}) == 2, "two workers begin with two scenes"
    for own in started.values():
        scenes = [suite for _, suite, _, _ in own]
        changes = sum(one != other for one, other in itertools.pairwise(scenes))
        assert changes == len(set(scenes)) - 1, f"a scene that was left is not gone back to: {scenes}"


def test_scenes_are_what_the_task_files_say(
    run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten tasks of two scenes, in an order in which every other is of the other scene."""
    folder = Path(os.environ["PYTEST_VLA_DATA"]) / "bddl_files" / "libero_goal"
    folder.mkdir()
    scene = {}
    for number, task in enumerate(load_suite("libero_goal").tasks):
        scene[task.name] = ("akita_black_bowl", "plate")[number % 2]
        (folder / f"{task.name}.bddl").write_text(
            "(define (problem LIBERO_Tabletop_Manipulation) (:domain robosuite) (:language do it)"
            f"(:fixtures main_table - table) (:objects x_1 - {scene[task.name]}) (:goal (And (On x_1 main_table))))"
        )
    result = run(GOAL, MODEL, "-n1", "--vla-seeds=0-1", "-k", "not bowl_on_the_plate")
    result.assert_outcomes(passed=18)
    order = [scene[task] for _, _, task, _ in notes(project)]
    assert sum(one != other for one, other in itertools.pairwise(order)) == 1


def test_one_scene_is_split_over_all_workers(run: Run, project: pytest.Pytester) -> None:
    (project.path / "times").write_text('{"all": 0.2}')
    run(GOAL, "-k", "not bowl_on_the_plate", MODEL, "-n4", "--maxprocesses=3").assert_outcomes(passed=9)
    counts = [len(own) for own in by_worker(notes(project)).values()]
    assert len(counts) == 3
    assert min(counts) >= 2


def test_the_longest_is_begun_first_by_earlier_runs(run: Run, project: pytest.Pytester) -> None:
    run(*STOVE, "--vla-seeds=0-4", MODEL, "-n1").assert_outcomes(passed=5)
    with closing(sqlite3.connect(project.path / ".vla" / STORE)) as store:
        store.execute("UPDATE episodes SET wall = CASE seed WHEN 3 THEN 12 WHEN 1 THEN 6 ELSE 1 END")
        store.commit()
    run(*STOVE, "--vla-seeds=0-4", MODEL, "-n1").assert_outcomes(passed=5)
    seeds = [seed for *_, seed in notes(project)]
    assert seeds[:5] == [0, 1, 2, 3, 4], "nothing is measured yet"
    assert seeds[5:7] == [3, 1]


@pytest.mark.parametrize(
    ("arguments", "scheduler"),
    [
        ((*STOVE, MODEL, "--dist=worksteal"), "WorkStealingScheduling"),
        (("test_mine.py",), "LoadScheduling"),
        (("test_mine.py", MODEL), "VlaScheduling"),
    ],
)
def test_which_scheduler(run: Run, arguments: tuple[str, ...], scheduler: str) -> None:
    result = run(*arguments, "-n1", "-v")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*scheduling tests via {scheduler}*"])


def test_a_projects_own_scheduler_goes_before(run: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        "def pytest_xdist_make_scheduler(config, log):\n"
        "    from xdist.scheduler import LoadScheduling\n"
        "    return LoadScheduling(config, log)\n"
    )
    run(*STOVE, MODEL, "-n1", "-v").stdout.fnmatch_lines(["*scheduling tests via LoadScheduling*"])


def test_tests_of_the_users_own_run_beside_episodes(run: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="stove", seeds=range(2))
        @pytest.mark.parametrize("speed", ["slow", "fast"])
        def test_near(rollout, speed):
            assert rollout.success

        @pytest.mark.parametrize("number", range(20))
        def test_plain(number):
            pass
        """
    )
    result = run("test_own.py", "test_mine.py", MODEL, "--vla-suite=libero_object", "-n2")
    result.assert_outcomes(passed=12 + 20 + 2 + 10)
    assert len(outcomes(project)) == 6 + 10, "three tasks with two seeds, and a suite"


def test_the_other_items_of_killed_workers_are_run(run: Run, project: pytest.Pytester) -> None:
    (project.path / "fatal").write_text('{"turn_on_the_stove-0": 9, "turn_on_the_stove-3": 1}')
    run(*STOVE, "--vla-seeds=0-9", MODEL, "-n2")
    found = outcomes(project)
    assert len(found) == 10
    assert found.pop("libero_goal/turn_on_the_stove[seed0]") == "error"
    assert set(found.values()) == {"success"}
    assert [seed for *_, seed in notes(project)].count(0) == 2
    assert [seed for *_, seed in notes(project)].count(3) == 2


@pytest.mark.parametrize("workers", ["-n1", "-n3"])
def test_a_crash_in_the_last_item_when_all_others_were_told_to_end(
    run: Run, project: pytest.Pytester, workers: str
) -> None:
    """xdist has begun to shut down by then."""
    (project.path / "times").write_text('{"turn_on_the_stove-2": 1.0}')
    (project.path / "fatal").write_text('{"turn_on_the_stove-2": 1}')
    result = run(*STOVE, "--vla-seeds=0-2", MODEL, workers)
    assert result.ret == 0
    assert outcomes(project) == {f"libero_goal/turn_on_the_stove[seed{seed}]": "success" for seed in range(3)}


def test_without_replacements_the_run_ends_with_what_was_handed_out(run: Run, project: pytest.Pytester) -> None:
    (project.path / "fatal").write_text('{"turn_on_the_stove-0": 9}')
    result = run(*STOVE, "--vla-seeds=0-9", MODEL, "-n1", "--max-worker-restart=0")
    result.stdout.fnmatch_lines(["*worker gw0 crashed and worker restarting disabled*"])
    result.stdout.no_fnmatch_line("*INTERNALERROR*")


def test_a_replacement_that_finds_other_items_is_told_and_ends_the_run(run: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        "from pathlib import Path\n\n"
        "def pytest_collection_modifyitems(items):\n"
        "    if Path('notes').exists():\n"
        "        del items[4:]\n"
    )
    (project.path / "fatal").write_text('{"turn_on_the_stove-1": 1}')
    result = run(*STOVE, "--vla-seeds=0-9", MODEL, "-n1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "*ERROR collecting gw1*",
            "Different tests were collected between the first worker and gw1*",
            "9 items were not run: no worker is left to run them",
        ]
    )
    result.stdout.no_fnmatch_line("*INTERNALERROR*")
    assert outcomes(project)["libero_goal/turn_on_the_stove[seed0]"] == "success"


def test_workers_that_find_different_items_run_nothing(run: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        "import os\n\n"
        "def pytest_collection_modifyitems(items):\n"
        "    if os.environ.get('PYTEST_XDIST_WORKER') == 'gw1':\n"
        "        del items[4:]\n"
    )
    result = run(*STOVE, "--vla-seeds=0-9", MODEL, "-n2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["Different tests were collected between gw* and gw*"])
    assert not (project.path / "notes").exists()


@pytest.mark.parametrize("stop", ["-x", "--maxfail=3"])
def test_stopping_early_hands_out_nothing_more(run: Run, project: pytest.Pytester, stop: str) -> None:
    result = run(*STOVE, "--vla-seeds=0-29", "--vla-model=noting:still", "-n2", stop)
    assert result.ret in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert len(notes(project)) <= 3 + 2 * 3
    result.stdout.no_fnmatch_line("*items were not run*")


@pytest.mark.slow
def test_fewer_items_than_workers(run: Run, project: pytest.Pytester) -> None:
    run(*STOVE, MODEL, "-n3").assert_outcomes(passed=1)
    nothing = run(*STOVE, MODEL, "-n3", "-k", "nothing_of_that_name")
    assert nothing.ret == pytest.ExitCode.NO_TESTS_COLLECTED
