"""Records of LIBERO-Plus's entries."""

import dataclasses
from typing import Any

from pytest_vla.plan.case import Case
from pytest_vla.records.record import Record
from pytest_vla.suites.libero_plus.names import parse_name
from tests.support.records import record_of

STOVE = "turn_on_the_stove"
RAMEKIN = "pick_up_the_black_bowl_on_the_ramekin_and_place_it_on_the_plate"
PLAIN = "view_0_0_100_0_0_initstate_0"


def episode(name: str, success: bool, level: int | None = 1, protocol: str = "paper", **changes: Any) -> Record:
    entry = parse_name(name)
    suite = entry.suite.replace("libero_", "libero_plus_")
    case = Case(suite, entry.base, 0, entry.label)
    variation = {
        "label": entry.label,
        "dimension": entry.dimension,
        "kind": entry.sub_dimension,
        "level": level,
        "parameters": {**entry.parameters(), "protocol": protocol},
    }
    about = {"suite": suite, "task": entry.base, "case": case.id, "node": case.node_id, "variation": variation}
    return record_of(0, "success" if success else "failure", **{**about, **changes})


def records() -> list[Record]:
    """Seven episodes of several dimensions and levels; one is an error."""
    return [
        episode(f"{STOVE}_view_0_0_100_0_0_initstate_7", True, 1),
        episode(f"{STOVE}_view_0_0_100_0_0_initstate_8", False, 5),
        episode(f"{STOVE}_{PLAIN}_noise_11", True, 2),
        episode(f"{RAMEKIN}_view_30_15_100_0_0_initstate_0", False, 5),
        episode(f"{RAMEKIN}_view_0_0_150_0_0_initstate_0", True, 5),
        episode(f"{STOVE}_add_3", True, None),
        dataclasses.replace(episode(f"{STOVE}_light_3", False), outcome="error", reason="policy-raised"),
    ]
