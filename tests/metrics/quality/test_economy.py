"""Smoothness and economy: what they are by hand, of a real world, and that nothing stands for what is missing."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla import World, load_suite
from pytest_vla.episode.apply_metrics import needs_of, records_handling, with_metrics
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import VlaError
from pytest_vla.expert.policy import expert_policy
from pytest_vla.metrics import instability, quality
from pytest_vla.metrics.quality import GAP, expert_paths, path_ratios, spells
from pytest_vla.plan.case import Case
from pytest_vla.records.trajectory import Trajectory
from tests.support.records import RECORD
from tests.support.varied import varied

NAMES = ("hand_path", "hand_jerk", "near_joint_limits", "regrasps", "other_contacts")


def moved(path: Any, **series: Any) -> Trajectory:
    rows = np.asarray(path, dtype=float)
    named = {
        getattr(instability, name): np.asarray(values)
        for name, values in {"LIMIT_MARGIN": None, "HOLDING": None, "OTHERS_TOUCHED": None, **series}.items()
        if values is not None
    }
    return Trajectory(rows, rows, rows, np.zeros((len(rows) - 1, 7)), named)


def test_a_path_and_a_jerk_by_hand() -> None:
    steps = np.arange(12.0)
    record = dataclasses.replace(RECORD, protocol={**RECORD.protocol, "control_freq": 20})
    straight = moved(np.stack([0.01 * steps, 0 * steps, 0 * steps], axis=1))
    assert quality.hand_path(record, straight).value == pytest.approx(0.11)
    assert quality.hand_jerk(record, straight).value == pytest.approx(0, abs=1e-9)
    # The third difference of t^3 is 6 everywhere.
    cubic = moved(np.stack([1e-5 * steps**3, 0 * steps, 0 * steps], axis=1))
    assert quality.hand_jerk(record, cubic).value == pytest.approx(6e-5 * 20**3)


def test_what_the_arm_did_is_counted_by_hand() -> None:
    path = np.zeros((21, 3))
    #         taken, slips for two steps, lost for three, another thing, taken again
    holding = [-1] * 2 + [4] * 3 + [-1] * 2 + [4] * 2 + [-1] * 3 + [7] * 2 + [-1] * 3 + [4] * 3
    #  one, interrupted for two steps; another, and a third beside it for two of four steps; two at once
    touched = [0, 1, 0, 0, 1, 0, 0, 0, 1, 2, 2, 1] + [0] * 4 + [2] + [0] * 3
    trajectory = moved(path, LIMIT_MARGIN=[0.3] * 15 + [0.01] * 5, HOLDING=holding, OTHERS_TOUCHED=touched)
    again = quality.regrasps(RECORD, trajectory)
    assert (again.value, again.further) == (1.0, {"grasps": 3.0})
    near = quality.near_joint_limits(RECORD, trajectory)
    assert (near.value, near.further) == (0.25, {"margin": 0.01})
    assert near.series[""].sum() == 5
    contacts = quality.other_contacts(RECORD, trajectory)
    assert (contacts.value, contacts.further) == (5.0, {"share": 0.35})


def test_what_is_missing_is_named_and_nothing_stands_for_it() -> None:
    bare = moved(np.zeros((9, 3)))
    for function in (quality.near_joint_limits, quality.regrasps, quality.other_contacts):
        said = function(RECORD, bare)
        assert (said.value, said.further, dict(said.series)) == (None, {}, {})
        assert said.missing.startswith("joints and contacts of the robot")
    nowhere = moved(np.zeros((9, 0)))
    assert quality.hand_path(RECORD, nowhere).missing == quality.hand_jerk(RECORD, nowhere).missing == quality.NO_PATH
    # Of three positions after a step there is no third difference, of four there is one.
    assert quality.hand_jerk(RECORD, moved(np.zeros((4, 3)))).missing == quality.NO_JERK
    assert quality.NO_JERK.startswith("4 control steps or more")
    assert quality.hand_jerk(RECORD, moved(np.zeros((5, 3)))).value == 0
    lost = np.zeros((9, 3))
    lost[4] = np.nan
    assert "no finite number" in quality.hand_path(RECORD, moved(lost)).missing
    # A robot that took nothing has taken nothing again: that is known.
    assert quality.regrasps(RECORD, moved(np.zeros((9, 3)), HOLDING=[-1] * 8)).value == 0


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 5))
def test_spells_are_runs_with_their_short_gaps_closed(holds: list[bool], gap: int) -> None:
    text = "".join("x" if each else "." for each in holds).strip(".")
    expected = len([run for run in text.split("." * gap) if "x" in run])
    assert spells(holds, gap) == expected
    assert spells([*holds, *[False] * gap, *holds], gap) == 2 * expected


def test_spells_refuse_what_is_none() -> None:
    assert spells([], GAP) == 0
    with pytest.raises(VlaError, match="1 step or more"):
        spells([True], 0)
    with pytest.raises(VlaError, match=r"\(n,\) truths"):
        spells([[True]])


def test_paths_are_held_against_the_experts_successes_on_the_same_case() -> None:
    mine = [varied("", True, seed=0), varied("", True, seed=1), varied("", False, seed=2), varied("", True, seed=3)]
    experts = [
        varied("", True, seed=0, policy="expert", metrics={"hand_path": 0.5}),
        varied("", True, seed=0, policy="expert", metrics={"hand_path": 9.0}),
        varied("", False, seed=1, policy="expert", metrics={"hand_path": 0.5}),
        varied("", True, seed=2, policy="expert", metrics={"hand_path": 0.5}),
        varied("", True, seed=3, policy="other", metrics={"hand_path": 0.5}),
    ]
    found = expert_paths(experts, lambda record: record.metrics.get("hand_path"))
    assert found == {mine[0].case: 0.5, mine[2].case: 0.5}
    ratios = path_ratios(mine, found, lambda record: 1.0)
    assert [each.ratio for each in ratios] == [2.0, None, None]
    assert path_ratios(mine, found, lambda record: None) == ()
    assert path_ratios(mine[:1], {mine[0].case: 0.0}, lambda record: 1.0)[0].ratio is None


def test_the_expert_takes_the_bowl_once_and_the_episode_is_the_same() -> None:
    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    case = Case("tabletop", task.name, 0)
    assert records_handling(needs_of(["regrasps"]))
    assert not records_handling(needs_of(["hand_path", "hand_jerk"]))
    ended = run_episode(
        case, task, expert_policy, lambda task, variation: World(task), Conditions("expert", handling=True)
    )
    plain = run_episode(case, task, expert_policy, lambda task, variation: World(task), Conditions("expert"))
    assert ended.record.digest == plain.record.digest
    found = with_metrics(ended, NAMES).record.metrics
    assert (found["regrasps"], found["regrasps.grasps"]) == (0, 1)
    assert found["near_joint_limits"] < 1
    assert -0.01 < found["near_joint_limits.margin"] < 0.5
    assert 0.2 < found["hand_path"] < 3
    assert found["other_contacts"] <= ended.steps
