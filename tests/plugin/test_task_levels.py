"""Suites whose tasks come in levels: what is collected, selected, recorded and gone on with."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.records.store import open_store
from tests.support.runs import last_records, records_of
from tests.support.slow import slow

Run = Callable[..., pytest.RunResult]

SUITE = "vla_arena_dynamic_obstacles"
LEMON = "push_the_lemon_to_the_region_between_the_teapots"
LEMONS = [f"{SUITE}::test_episode[L{level}-{LEMON}-seed0]" for level in range(3)]
# Fails at level 1, and breaks at level 2 until the file `mended` is there.
BY_LEVEL = """
from pathlib import Path

def policy(episode):
    if "/L2-" in episode.case_id and not Path("mended").exists():
        raise RuntimeError("not yet")
    return lambda observation: [float("/L1-" not in episode.case_id), 0, 0, 0, 0, 0, 0]
"""


@pytest.fixture
def arena(vla: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """The fake world needs folders only."""
    for name in ("assets", "init_files", "bddl_files/safety_dynamic_obstacles"):
        (tmp_path / "arena" / name).mkdir(parents=True)
    monkeypatch.setenv("PYTEST_VLA_DATA", str(tmp_path / "arena"))
    return vla


def ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line]


def levels(result: pytest.RunResult) -> Counter[str]:
    return Counter(re.findall(r"\[(L\d)-", "\n".join(ids(result))))


def test_all_of_vla_arena_by_one_name(vla: Run) -> None:
    result = vla("--vla-suite=vla_arena", "--collect-only", "-q")
    assert levels(result) == {"L0": 60, "L1": 55, "L2": 55}
    assert len({line.partition("::")[0] for line in ids(result)}) == 11
    assert len(set(ids(result))) == 170
    assert not [line for line in ids(result) if re.fullmatch(r"\w+::test_episode\[L\d-\w+-seed0\]", line) is None]


def test_levels_are_selected_by_option_and_by_marker(vla: Run) -> None:
    by_option = vla("--vla-suite=vla_arena", "--vla-task-levels=0,L2", "--collect-only", "-q")
    assert levels(by_option) == {"L0": 60, "L2": 55}
    marked = vla("--vla-suite=vla_arena", "-m", "vla(category='safety', task_level='L1')", "--collect-only", "-q")
    assert levels(marked) == {"L1": 25}
    assert {line.partition("::")[0] for line in ids(marked)} == {
        f"vla_arena_{name}"
        for name in (
            *("static_obstacles", "cautious_grasp", "hazard_avoidance"),
            *("state_preservation", "dynamic_obstacles"),
        )
    }


def test_a_varied_item_is_selected_by_its_task_too(vla: Run) -> None:
    common = (f"--vla-suite={SUITE}", "--vla-tasks=lemon", "--vla-vary=camera.azimuth:1-2", "--collect-only", "-q")
    result = vla(*common, "-m", "vla(category='safety', task_level='L1', kind='azimuth', level=2)")
    assert ids(result) == [f"{SUITE}::test_episode[L1-{LEMON}-camera.azimuth-L2-seed0]"]


def test_upstreams_names_and_ids_are_as_good(vla: Run) -> None:
    old = "safety_dynamic_obstacles"
    assert ids(vla(old, "--vla-tasks=lemon", "--collect-only", "-q")) == LEMONS
    assert ids(vla(LEMONS[1].replace(SUITE, old), "--collect-only", "-q")) == [LEMONS[1]]
    assert ids(vla(f"--vla-suite={SUITE},{old}", f"--vla-tasks=L2-{LEMON}", "--collect-only", "-q")) == [LEMONS[2]]


def test_the_word_that_k_looks_for_may_be_of_a_task_with_commas(vla: Run) -> None:
    task = "open_the_top_drawer_then_pick_up_the_mango_on_the_plate"
    result = vla("--vla-suite=long_horizon", "-k", f"{task} or L0-close", "--collect-only", "-q")
    assert levels(result) == {"L0": 1, "L2": 1}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((f"--vla-suite={SUITE}", "--vla-task-levels=L7"), f"no task of {SUITE} has level L7: their levels are L0"),
        (("--vla-suite=tabletop", "--vla-task-levels=0"), "has level L0: their tasks have no levels"),
        ((f"--vla-suite={SUITE}", "--vla-task-levels=easy"), "'easy' is not a level or range; write L1, L0,L2 or"),
        (("--vla-suite=safety_dynamic_obstacle",), "there is no suite 'safety_dynamic_obstacle'. Did you mean safety_"),
    ],
)
def test_what_is_not_there_is_told(vla: Run, arguments: tuple[str, ...], complaint: str) -> None:
    result = vla(*arguments, "--collect-only", "-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert complaint in result.stderr.str()


def test_without_its_data_a_run_says_which_folder_to_give(vla: Run) -> None:
    result = vla(f"--vla-suite={SUITE}", "--vla-model=random")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"the task files of {SUITE} were not found. Searched: " in result.stderr.str()
    assert "Give VLA-Arena's folder" in result.stderr.str()


@pytest.mark.parametrize("workers", [pytest.param((), id="alone"), slow(("-n", "2", "--dist=load"), id="workers")])
def test_a_name_at_three_levels_is_three_records_and_three_rows(
    arena: Run, project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    project.makepyfile(levels=BY_LEVEL)
    result = arena(
        f"--vla-suite={SUITE}", "--vla-tasks=lemon", "--vla-model=levels:policy", "--vla-video=all", *workers
    )
    records = last_records(project.path / ".vla")
    assert {(record.task, record.task_level, record.outcome) for record in records.values()} == {
        (LEMON, "L0", "success"),
        (LEMON, "L1", "failure"),
        (LEMON, "L2", "error"),
    }
    assert set(records) == {f"{SUITE}/L{level}-{LEMON}[seed0]" for level in range(3)}
    assert all(record.of_suite for record in records.values())
    assert "no video" not in result.stdout.str()
    videos = {path.name for path in (project.path / ".vla").rglob("*.mp4")}
    assert videos == {f"L{level}-{LEMON}-seed0.mp4" for level in range(3)}
    for row in (rf"L0-{LEMON} +1 +1/1", rf"L1-{LEMON} +1 +0/1", rf"L2-{LEMON} +1 +0/0"):
        assert re.search(row, result.stdout.str())
    (project.path / "mended").touch()
    resumed = arena("--vla-resume", "-v", *workers)
    assert f"L2-{LEMON}" in resumed.stdout.str()
    assert not re.search(rf"L[01]-{LEMON}-seed0\] PASSED", resumed.stdout.str())
    assert {record.task_level: record.outcome for record in records_of(project.path / ".vla")} == {
        "L0": "success",
        "L1": "failure",
        "L2": "success",
    }
    with open_store(project.path / ".vla", create=False) as store:
        assert {key for _, key, _, _ in store.durations("levels:policy")} == {f"L{level}-{LEMON}" for level in range(3)}


def test_a_test_of_the_users_on_levels(arena: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine=f"""
        import pytest

        @pytest.mark.vla(suite="safety_dynamic_obstacles", tasks="lemon", task_levels="0-1")
        def test_lemon(rollout):
            assert rollout.record.task_level == ("L0" if rollout.passed else "L1")
            assert rollout.record.suite == "{SUITE}"
        """,
        levels=BY_LEVEL,
    )
    result = arena("test_mine.py", "--vla-model=levels:policy", "-v")
    result.assert_outcomes(passed=2)
    assert f"test_mine.py::test_lemon[L1-{LEMON}-seed0]" in result.stdout.str()
    arena("test_mine.py", "--vla-model=levels:policy", "--vla-task-levels=L1").assert_outcomes(passed=1)


def test_twins_and_a_sample_are_of_one_level(arena: Run, project: pytest.Pytester) -> None:
    project.makepyfile(levels=BY_LEVEL)
    vary = ("--vla-vary=action.delay:1", "--vla-twins=auto", "--vla-task-levels=0-1", "--vla-tasks=lemon")
    arena(f"--vla-suite={SUITE}", "--vla-model=levels:policy", *vary)
    records = last_records(project.path / ".vla")
    assert len(records) == 4
    for record in records.values():
        assert record.twin in records
        assert records[record.twin].task_level == record.task_level
