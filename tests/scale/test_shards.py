"""What a run keeps of its shard comes back, and what is damaged is refused."""

import base64
import zlib
from dataclasses import replace
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.scale.merge import for_shard, without_shard
from pytest_vla.scale.shards import BUDGETS, SHARD, ShardItem, ShardPlan, shard_of

PLAN = ShardPlan(
    3,
    BUDGETS,
    (
        ShardItem("test_mine.py::test_plain", False, False, 1),
        *(ShardItem(f"x[{n}]", True, n == 4, n % 3 + 1) for n in range(9)),
    ),
)


def test_every_shard_has_the_whole_plan() -> None:
    found = shard_of({SHARD: PLAN.table(2)})
    assert found is not None
    assert (found.number, found.count, found.items) == (2, 3, 10)
    assert found.plan() == PLAN
    assert [each.node for each in PLAN.of(2)] == ["x[1]", "x[4]", "x[7]"]


def test_a_run_that_is_no_shard_says_nothing() -> None:
    assert shard_of({}) is None


def test_the_order_is_not_of_the_selection_and_the_shards_are_of_the_partition() -> None:
    shuffled = replace(PLAN, items=PLAN.items[::-1])
    assert (shuffled.selection, shuffled.partition) == (PLAN.selection, PLAN.partition)
    moved = replace(PLAN, items=(*PLAN.items[:-1], replace(PLAN.items[-1], shard=1)))
    assert moved.selection == PLAN.selection
    assert moved.partition != PLAN.partition


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("number", 4, "shard 4 of 3"),
        ("number", 0, "shard 0 of 3"),
        ("count", "3", "its shard entry is damaged"),
        ("plan", None, "its shard entry is damaged"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: Any, told: str) -> None:
    with pytest.raises(VlaError, match=told):
        shard_of({SHARD: {**PLAN.table(1), name: value}})


@pytest.mark.parametrize(
    "packed",
    [
        "no base64!",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"[[1, 2]]")).decode(),
        base64.b64encode(zlib.compress(b'[["x", true, false, 7]]')).decode(),
        base64.b64encode(zlib.compress(b'[["x", true, false, 1]]')).decode(),
        PLAN.table(1)["plan"][:-8],
    ],
)
def test_a_list_that_is_damaged_is_refused(packed: str) -> None:
    found = shard_of({SHARD: {**PLAN.table(1), "plan": packed}})
    assert found is not None
    with pytest.raises(VlaError, match="its list of the whole selection"):
        found.plan()


def test_commands_for_other_shards_and_for_one_machine() -> None:
    typed = "pytest -p mine --vla-suite=x --vla-shard 3/16 --vla-results=out/3 --vla-shard-durations=d.json 'a b.py'"
    assert for_shard(typed, 7, 16) == (
        "pytest -p mine --vla-suite=x --vla-shard-durations=d.json 'a b.py' --vla-shard=7/16"
    )
    assert without_shard(typed) == "pytest -p mine --vla-suite=x 'a b.py'"
