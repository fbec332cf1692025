"""What tasks take for granted: which versions break it, who is told, and what is only a defect of the benchmark."""

from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan import premises
from pytest_vla.plan.choices import CHECK, IGNORE
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.premises import PremiseFinding, PremiseMeasurement
from pytest_vla.plan.task import Task
from pytest_vla.records.explain import notes_after
from pytest_vla.records.record import Record
from tests.support.records import record_of

SUITE = load_suite("libero_spatial")
RAMEKIN = SUITE.task("pick_up_the_black_bowl_on_the_ramekin_and_place_it_on_the_plate")
OTHER = SUITE.task("pick_up_the_black_bowl_next_to_the_plate_and_place_it_on_the_plate")
ON_RAMEKIN = "(on akita_black_bowl_1 glazed_rim_porcelain_ramekin_1)"
FALSE = "(on mug_1 shelf_1)"


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bowl slips under 3.8.1; the mug is never on its shelf in init state 3; things are thrown in 4 to 6."""
    states = {"all": frozenset(range(50)), "third": frozenset({3}), "thrown": frozenset({4, 5}), "new": frozenset({6})}
    versions = ("3.3.7", "3.8.1")
    found = PremiseMeasurement(
        versions,
        (
            PremiseFinding(RAMEKIN.name, ON_RAMEKIN, "3.8.1", states["all"]),
            *(PremiseFinding(RAMEKIN.name, FALSE, version, states["third"]) for version in versions),
        ),
        (
            *(PremiseFinding(RAMEKIN.name, "mug_1", version, states["thrown"]) for version in versions),
            PremiseFinding(OTHER.name, "mug_1", "3.8.1", states["new"]),
        ),
    )
    monkeypatch.setattr(
        premises, "measured", lambda suite: found if suite == "libero_spatial" else PremiseMeasurement()
    )


@pytest.mark.usefixtures("table")
def test_broken_is_what_holds_under_the_default_version_and_not_under_this_one() -> None:
    verdicts = {ON_RAMEKIN: False, FALSE: False, "(open drawer_1)": True}
    assert premises.broken(RAMEKIN, 0, verdicts, "3.8.1") == (ON_RAMEKIN, FALSE)
    assert premises.broken(RAMEKIN, 3, verdicts, "3.8.1") == (ON_RAMEKIN,), "the mug's is a defect of the benchmark"
    assert premises.broken(RAMEKIN, 0, verdicts, "3.3.7") == ()
    # One that was not measured is judged by what is seen.
    assert premises.broken(RAMEKIN, 0, {ON_RAMEKIN: True, FALSE: False}, "3.5.0") == (FALSE,)
    assert premises.known_broken(RAMEKIN, 3, "3.8.1") == (ON_RAMEKIN,)
    assert premises.known_broken(RAMEKIN, 3, "3.5.0") == ()
    assert premises.defects(RAMEKIN, 3) == (FALSE,)
    assert premises.defects(RAMEKIN, 0) == ()


@pytest.mark.usefixtures("table")
def test_a_run_says_before_its_first_episode_what_is_broken() -> None:
    starts = [(RAMEKIN, state) for state in range(8)] + [(OTHER, state) for state in range(8)]
    slips = f"mujoco 3.8.1: {ON_RAMEKIN} does not hold in 8 episodes of {RAMEKIN.name}, but does with 3.3.7: "
    thrown = "mujoco 3.8.1: in 1 episode more things jump at the start that rest with 3.3.7"
    cure = "published results use mujoco 3.3.7: pip install mujoco==3.3.7"
    invalid = "they end as invalid (premise-broken)"
    assert premises.notes_before(starts, "3.8.1", CHECK) == (slips + invalid, thrown, cure)
    assert premises.notes_before(starts, "3.8.1", IGNORE)[0] == f"{slips}they still count"
    assert premises.notes_before([(OTHER, 1)], "3.8.1", CHECK) == ()
    assert premises.notes_before([(OTHER, 6)], "3.8.1", CHECK) == (thrown.replace(" more", ""), cure)
    unmeasured = "mujoco 3.5.0: the tasks' premises were not measured with this version; each episode is checked"
    assert premises.notes_before(starts, "3.5.0", CHECK) == (unmeasured, cure)
    stove = load_suite("tabletop").task("turn_on_the_stove")
    assert premises.notes_before([(stove, 0)], "3.5.0", CHECK) == ()


def began(task: Task, init_state: int, **changes: Any) -> Record:
    seeds = {"run": 0, "scene": init_state, "init_state": init_state, "init_states": 50}
    of_task = {"suite": "libero_spatial", "task": task.name, "seeds": seeds, "provenance": {"mujoco": "3.3.7"}}
    return record_of(init_state, **of_task | changes)


@pytest.mark.usefixtures("table")
def test_a_report_names_the_benchmarks_own_defects() -> None:
    false, thrown = notes_after([began(RAMEKIN, state) for state in range(5)])
    assert false.startswith("1 episode of tasks whose file states a position")
    assert thrown.startswith("1 episode from init states in which objects overlap")
    other = {"mujoco": "3.8.1"}
    (line,) = notes_after([began(RAMEKIN, 0, provenance=other), began(OTHER, 6, provenance=other)])
    assert line.startswith("2 episodes started differently than under mujoco 3.3.7")
    moved = {"dimension": "camera+layout", "kind": "fov+move", "label": "x"}
    others = [
        began(OTHER, 4),
        began(RAMEKIN, 3, outcome="error"),
        began(RAMEKIN, 3, variation=moved),
        began(RAMEKIN, 3, suite="of_a_log"),
        began(RAMEKIN, 3, seeds={}),
    ]
    assert notes_after(others) == ()
    (line,) = notes_after([began(RAMEKIN, 3, variation={"dimension": "camera"})])
    assert line.startswith("1 episode of tasks whose file")


def test_a_suite_without_a_table_has_no_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(premises, "premises_file", lambda name: tmp_path / premises.FILE)
    premises.measured.cache_clear()
    assert premises.measured("libero_goal") == PremiseMeasurement()
    premises.measured.cache_clear()


@pytest.mark.parametrize(
    "text",
    [
        "measured = [",
        "false = []",
        'measured = ["3.3.7"]\n[[false]]\ntask = "a"\n',
        'measured = ["3.3.7"]\n[[thrown]]\ntask = "a"\nabout = "b"\nmujoco = ["3.3.7"]\ninit_states = "9-0"\n',
    ],
)
def test_a_table_that_cannot_be_read_is_named(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / premises.FILE).write_text(text)
    monkeypatch.setattr(premises, "premises_file", lambda name: tmp_path / premises.FILE)
    premises.measured.cache_clear()
    with pytest.raises(VlaError, match=r"premises\.toml: cannot be read: .*pytest-vla premises"):
        premises.measured("libero_goal")
    premises.measured.cache_clear()


def test_measurements_stand_beside_the_manifest() -> None:
    goal, tabletop = premises.premises_file("libero_goal"), premises.premises_file("tabletop")
    assert goal is not None
    assert tabletop is not None
    assert (goal.parent.name, goal.name) == ("libero", "libero_goal.premises.toml")
    assert (tabletop.parent.name, tabletop.name) == ("tabletop", "premises.toml")
    assert premises.measured("libero_goal").versions


def test_measurements_are_found_by_the_folder_of_a_suites_files() -> None:
    """VLA-Arena's tasks lie in folders that are called otherwise than our suites."""
    (task,) = [task for task in load_suite("vla_arena_long_horizon").tasks if "strawberry_in_the_middle" in task.name]
    assert task.files != task.suite
    assert premises.measured(task.files) == premises.measured(task.suite) != PremiseMeasurement()
    assert premises.thrown(task, 0, "3.3.7") == ("strawberry_1",)
    assert premises.measured("safety") == premises.measured("no_suite") == PremiseMeasurement()


def _starts(suite: str) -> list[tuple[Task, int]]:
    return [(task, state) for task in load_suite(suite).tasks for state in range(50)]


def _count(suite: str, found: Any) -> int:
    return sum(bool(found(task, state)) for task, state in _starts(suite))


FOUR = ("libero_spatial", "libero_object", "libero_goal", "libero_10")


def test_the_tables_have_what_others_measured() -> None:
    """Others: ../shared/spec/simulator_versions.md, lerobot PR 4465, LIBERO 131."""
    broken = {
        version: [start for suite in FOUR for start in _starts(suite) if premises.known_broken(*start, version)]
        for version in ("3.3.2", "3.2.3", "3.8.1")
    }
    assert broken["3.3.2"] == broken["3.2.3"] == []
    assert broken["3.8.1"] == [(RAMEKIN, state) for state in range(50)]
    assert sum(_count(suite, lambda task, state: premises.thrown(task, state, "3.3.7")) for suite in FOUR) == 22
    assert sum(_count(suite, premises.defects) for suite in FOUR) == 0
    microwave = {task.name for task, state in _starts("libero_90") if premises.defects(task, state)}
    assert microwave == {
        "KITCHEN_SCENE7_open_the_microwave",
        "KITCHEN_SCENE7_put_the_white_bowl_on_the_plate",
        "KITCHEN_SCENE7_put_the_white_bowl_to_the_right_of_the_plate",
    }
