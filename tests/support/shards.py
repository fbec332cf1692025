"""Results folders of shards, without running any."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_vla.plan.case import Case
from pytest_vla.records.store import open_store
from pytest_vla.scale.shards import BUDGETS, SHARD, ShardItem, ShardPlan, with_uncollected
from tests.support.records import record_of

SETTINGS = {"replan": None, "shard": [1, 3], "typed": ["shard", "model"], "given": ["--vla-results=out/1"]}
NODES = [Case("libero_goal", "turn_on_the_stove", seed).node_id for seed in range(9)]
PLAN = ShardPlan(3, BUDGETS, tuple(ShardItem(node, True, False, seed % 3 + 1) for seed, node in enumerate(NODES)))
STATUS = {"success": "passed", "failure": "failed", "error": "error"}


def write_shard(
    place: Path,
    number: int,
    name: str,
    outcomes: Mapping[int, str],
    plan: ShardPlan = PLAN,
    model: str = "random",
    settings: Mapping[str, Any] | None = None,
    end: bool = True,
    kept: Mapping[str, Any] | None = None,
    failures: Mapping[str, str] | None = None,
    **changes: Any,
) -> Path:
    """A run of a shard, with the outcomes of seeds, what it keeps besides, and what could not be collected.

    Returns:
        The results folder.
    """
    command = f"pytest --vla-suite=libero_goal --vla-shard={number}/{plan.count} --vla-results={place}"
    invocation = {
        "settings": {**SETTINGS, **(settings or {})},
        SHARD: with_uncollected(plan.table(number), failures or {}),
        **(kept or {}),
        "arguments": [],
        "folder": str(place),
    }
    with open_store(place, create=True) as store:
        nodes = [each.node for each in plan.of(number)]
        store.begin(name, nodes, command=command, model=model, invocation=invocation)
        add(store, name, place, outcomes, **changes)
        if end:
            store.end(name, "finished")
    return place


def add(store: Any, name: str, place: Path, outcomes: Mapping[int, str], **changes: Any) -> None:
    records = []
    for seed, outcome in outcomes.items():
        arrays = None if outcome == "error" else f"libero_goal/seed{seed}.npz"
        records.append(record_of(seed, outcome, name, **{"arrays": arrays, "digest": f"{outcome}-{seed}", **changes}))
        if arrays is not None:
            file = place / name / arrays
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{name} {outcome}")
            file.with_suffix(".mp4").write_text(f"video of {name}")
    store.add_all(records)
    store.mark(name, {NODES[seed]: STATUS[outcome] for seed, outcome in outcomes.items()})
