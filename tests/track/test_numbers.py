"""What trackers are given, against the table that closes a run."""

from dataclasses import replace
from typing import Any

import pytest

from pytest_vla.metrics.success import success_rate, unit_of
from pytest_vla.plan.costs import Charge
from pytest_vla.records.record import Record
from pytest_vla.track.tracker import (
    SoFarRates,
    episode_numbers,
    episode_texts,
    final_numbers,
    reason_texts,
    texts_of,
    without_password,
)
from tests.support.records import record_of

NIGHT = {"dimension": "light", "kind": "night", "level": 3, "label": "light.night-L3", "seed": 0}


def varied(record: Record, **more: Any) -> Record:
    node = record.node.replace("-seed", "-light.night-L3-seed")
    return replace(record, variation=NIGHT | more, node=node, case=record.case.replace("[", "[light.night-L3-"))


def test_rates_go_with_what_counts() -> None:
    rates = SoFarRates()
    for record in (record_of(0, "success"), record_of(1, "failure"), record_of(2, "error"), record_of(3, "invalid")):
        rates.add(record)
    assert rates.numbers() == {
        "success_rate": 0.5, "success_rate/libero_goal": 0.5,
        "count/successes": 1, "count/failures": 1, "count/errors": 1, "count/invalid": 1, "count/episodes": 4,
    }  # fmt: skip
    rates.add(record_of(2, "success"))
    numbers = rates.numbers()
    assert numbers["success_rate"] == pytest.approx(2 / 3)
    assert (numbers["count/errors"], numbers["count/episodes"]) == (0, 4)


def test_no_rate_is_over_benign_and_varied_episodes_probes_and_own_tests() -> None:
    rates = SoFarRates()
    own = replace(record_of(4, "success"), node="test_mine.py::test_it[libero_goal-turn_on_the_stove-seed4]")
    for record in (record_of(0, "success"), varied(record_of(1)), varied(record_of(2, "success"), probe=True), own):
        rates.add(record)
    numbers = {name: value for name, value in rates.numbers().items() if name.startswith("success_rate")}
    assert numbers == {
        "success_rate": 1, "success_rate/libero_goal": 1, "success_rate/test_mine.py::test_it": 1,
        "success_rate_varied": 0, "success_rate_varied/libero_goal": 0,
    }  # fmt: skip


def test_the_last_numbers_are_the_table_s() -> None:
    benign = [record_of(seed, "success" if seed < 3 else "failure") for seed in range(5)] + [record_of(5, "error")]
    night = [varied(record_of(seed)) for seed in range(3)]
    charged = [replace(record, costs=(Charge("force", 2.0, step=1),)) for record in benign]
    found = final_numbers([*charged, *night])
    rate = success_rate("", charged, unit_of)
    assert rate.interval is not None
    at = "final/success_rate/libero_goal/benign"
    assert {name: value for name, value in found.items() if name.startswith(at)} == {
        at: rate.rate, f"{at}/low": rate.interval[0], f"{at}/high": rate.interval[1],
        f"{at}/episodes": 6, f"{at}/errors": 1, f"{at}/invalid": 0,
    }  # fmt: skip
    assert found["final/success_rate/libero_goal/light.night:3"] == 0
    costs = {name: value for name, value in found.items() if name.startswith(("final/cost/", "final/safe"))}
    assert 2.0 in costs.values()
    assert reason_texts(benign) == {"not_counted": "1 policy-raised"}
    assert reason_texts(night) == {}


def test_an_episode_s_numbers_are_finite_and_its_texts_are_there() -> None:
    record = replace(record_of(0, "error"), metrics={"far": float("inf"), "way": 2.0}, timings={"wall": None})
    assert episode_numbers(record) == {"episode/steps": 2, "episode/metrics/way": 2}
    assert episode_texts(record)["episode/reason"] == "policy-raised"
    assert texts_of(replace(record, provenance={"mujoco": "3.3.7", "scene": "abc"}))["provenance.mujoco"] == "3.3.7"
    assert "provenance.scene" not in texts_of(replace(record, provenance={"scene": "abc"}))


def test_addresses_have_no_passwords() -> None:
    assert without_password("at http://me:word@host/x, and a@b") == "at http://host/x, and a@b"
