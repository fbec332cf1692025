"""Records of LIBERO-Plus's entries."""

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
