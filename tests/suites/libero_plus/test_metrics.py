"""LIBERO-Plus's tables: which records count where, and how means are weighted."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.suites.libero_plus.names import SUITES, parse_name
from pytest_vla.suites.libero_plus.report import DIMENSIONS, TOTAL, entry_counts, plus_rates, protocol_of, task_counts
from tests.support.data import data_root
from tests.support.libero_plus import PLAIN, RAMEKIN, STOVE, episode, records
from tests.support.records import record_of


def counts(rates: Mapping[Any, Any]) -> dict[Any, tuple[int, int]]:
    return {key: (rate.successes, rate.counted) for key, rate in rates.items() if rate.counted}


def test_episodes_count_in_their_rows() -> None:
    (found,) = plus_rates(records())
    assert (found.model, found.protocol, found.left_out) == ("random", "paper", ())
    assert (
        tuple(found.dimensions)
        == DIMENSIONS
        == ("camera", "robot", "language", "light", "background", "noise", "layout")
    )
    assert counts(found.dimensions) == {"camera": (1, 2), "robot": (1, 2), "noise": (1, 1), "layout": (1, 1)}
    assert (found.total.successes, found.total.counted, found.total.episodes) == (4, 6, 7)
    assert found.total.interval == wilson_interval(4, 6)
    assert found.dimensions["light"].errors == {"policy-raised": 1}
    assert found.dimensions["light"].rate is None
    assert counts(found.levels) == {1: (1, 1), 2: (1, 1), 5: (1, 3), None: (1, 1)}
    assert found.levels[3].rate is None
    assert counts(found.cells) == {
        ("camera", 5): (1, 2),
        ("robot", 1): (1, 1),
        ("robot", 5): (0, 1),
        ("noise", 2): (1, 1),
        ("layout", None): (1, 1),
    }
    assert counts(found.suites) == {
        ("camera", "libero_spatial"): (1, 2),
        ("robot", "libero_goal"): (1, 2),
        ("noise", "libero_goal"): (1, 1),
        ("layout", "libero_goal"): (1, 1),
    }
    assert counts(found.sub_dimensions) == {
        "C1-distance": (1, 1),
        "C2-azimuth-elevation": (0, 1),
        "norm-0.1": (1, 2),
        "N2-gaussian": (1, 1),
        "O1-add": (1, 1),
    }
    assert set(found.of_list.values()) == {None}
    # Of 16 suites and sub-dimensions of the camera two were run.
    assert found.missing["camera"] == 14


def test_models_and_protocols_stand_by_themselves() -> None:
    name = f"{STOVE}_light_3"
    records = [
        episode(name, True),
        episode(name, False, protocol="upstream"),
        episode(name, False, policy="other"),
        record_of(0),
        record_of(
            0, suite="libero_para", variation={"label": "x", "dimension": "language", "parameters": {"protocol": 1}}
        ),
    ]
    found = {(rates.model, rates.protocol): rates.total.rate for rates in plus_rates(records)}
    assert found == {("random", "paper"): 1.0, ("random", "upstream"): 0.0, ("other", "paper"): 0.0}
    assert [protocol_of(record) for record in records] == ["paper", "upstream", "paper", None, None]


def test_of_one_case_the_first_one_counts() -> None:
    name = f"{STOVE}_light_3"
    (found,) = plus_rates([episode(name, False), episode(name, True)])
    assert (found.total.successes, found.total.counted) == (0, 1)
    assert found.left_out == (
        "libero_plus_goal: 1 repeat of 1 episode, whose first record counts: 1 (100.0%) ended differently, 0 (0.0%) "
        "with another digest",
    )


def test_what_was_run_is_weighed_by_what_the_list_has() -> None:
    names = {
        "libero_spatial": f"{RAMEKIN}_language_5_{PLAIN}",
        "libero_object": f"pick_up_the_milk_and_place_it_in_the_basket_language_5_{PLAIN}",
        "libero_goal": f"{STOVE}_language_5_{PLAIN}",
        "libero_10": f"KITCHEN_SCENE8_put_both_moka_pots_on_the_stove_language_5_{PLAIN}",
    }
    records = [episode(name, suite in ("libero_spatial", "libero_10")) for suite, name in names.items()]
    (found,) = plus_rates(records)
    assert found.dimensions["language"].rate == 0.5
    weighted = found.of_list["language"]
    assert weighted is not None
    assert weighted.rate == pytest.approx((390 + 383) / 1537)
    assert weighted.interval is not None
    assert weighted.interval[0] < weighted.rate < weighted.interval[1]
    assert found.of_list[TOTAL] is None


CAMERA = {"C1-distance": "0_0_150_0_0", "C2-azimuth": "30_0_100_0_0", "C2-azimuth-elevation": "30_15_100_0_0"}
CAMERA["C3-orientation"] = "0_0_100_2_350"


def test_sub_dimensions_weigh_what_the_list_has_of_them() -> None:
    """One of four fails in every suite, and was run nine times as often as the others."""
    bases = {
        "libero_spatial": RAMEKIN,
        "libero_object": "pick_up_the_milk_and_place_it_in_the_basket",
        "libero_goal": STOVE,
        "libero_10": "KITCHEN_SCENE8_put_both_moka_pots_on_the_stove",
    }
    records = []
    for base in bases.values():
        for kind, view in CAMERA.items():
            views = [view]
            if kind == "C1-distance":
                views = [f"0_0_{150 + number}_0_0" for number in range(9)]
            records += [episode(f"{base}_view_{each}_initstate_0", kind != "C1-distance") for each in views]
    (found,) = plus_rates(records)
    assert found.dimensions["camera"].rate == pytest.approx(12 / 48), "of what was run most fails"
    weighted = found.of_list["camera"]
    assert weighted is not None
    assert weighted.rate == pytest.approx(1 - 313 / 1599), "of the list a fifth does"
    assert weighted.interval is not None
    assert weighted.interval[1] - weighted.interval[0] > 0.15, "sixteen cells of which twelve were run once"
    assert found.missing["camera"] == 0
    (fewer,) = plus_rates(records[1:-1])
    assert (fewer.of_list["camera"], fewer.missing["camera"]) == (None, 1)


def test_the_counts_are_the_lists(libero_plus_list: list[str]) -> None:
    counts = Counter((task.dimension, task.suite, task.sub_dimension) for task in map(parse_name, libero_plus_list))
    assert dict(entry_counts()) == dict(counts)


@pytest.fixture
def libero_plus_list() -> list[str]:
    root = data_root()
    if root is None or not (root / "libero_plus").is_dir():
        pytest.skip("needs LIBERO-Plus's list: put it at ../shared/data/libero_plus")
    listed = json.loads((root / "libero_plus" / "task_classification.json").read_text())
    return [entry["name"] for entries in listed.values() for entry in entries]


def test_weights_are_the_lists() -> None:
    listed = task_counts()
    for suite, count in zip(SUITES, (2402, 2518, 2591, 2519), strict=True):
        assert sum(listed[name, suite] for name in DIMENSIONS) == count
    assert sum(listed.values()) == 10_030
    assert {name: sum(listed[name, suite] for suite in SUITES) for name in DIMENSIONS} == {
        "camera": 1599,
        "robot": 1550,
        "language": 1537,
        "light": 1142,
        "background": 1076,
        "noise": 1601,
        "layout": 1525,
    }
