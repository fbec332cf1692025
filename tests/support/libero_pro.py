"""Records of LIBERO-PRO's variations."""

from typing import Any

from pytest_vla.plan.case import Case
from pytest_vla.records.record import Record
from tests.support.records import record_of


def record(
    label: str, seed: int, outcome: str, suite: str = "libero_goal", task: str = "turn_on_the_stove", **changes: Any
) -> Record:
    """A suite's own item under a variation; the label empty: as it is."""
    case = Case(suite, task, seed, label)
    level = int(label[-1]) if "-L" in label else None
    kind = changes.pop("kind", label.partition("-L")[0].split(".")[1] if label else "")
    about: dict[str, Any] = {"dimension": label.partition(".")[0], "kind": kind, "level": level, "parameters": {}}
    variation = {"label": label, **about} if label else {}
    return record_of(
        seed, outcome, suite=suite, task=task, case=case.id, node=case.node_id, variation=variation, **changes
    )


RECORDS = [
    *(record("", seed, "success") for seed in range(4)),
    *(record("pro.swap", seed, "success" if seed == 0 else "failure") for seed in range(4)),
    *(record(f"object.colour-L{level}", level, "success") for level in (1, 5)),
    record("object.size-L1", 2, "error"),
    *(record("pro.object", seed, "failure") for seed in range(2)),
    record("pro.task", 0, "failure", task="put_the_bowl_on_the_plate"),
    record("camera.orbit-L1", 0, "failure"),
    record("pro.swap", 0, "failure", suite="libero_object", task="pick_up_the_milk_and_place_it_in_the_basket"),
]
