"""What sharing out and merging cost: LIBERO-Plus's list into shards, and the records of shards as one run.

    python benchmarks/shards.py partition [--count=64]
    python benchmarks/shards.py merge [--count=16] [--records=2000]

The first needs LIBERO-Plus's data. The second writes shards' stores with records as an episode leaves them, of 50 kB
trajectories, and merges them.
"""

import argparse
import dataclasses
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from pytest_vla.plan.case import Case
from pytest_vla.plan.durations import estimate
from pytest_vla.plan.manifests import load_suite, named_suites
from pytest_vla.plan.select import plan as planned_cases
from pytest_vla.records.migrations import SCHEMA
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.run.scenes import scene_names
from pytest_vla.run.sharding import step_budgets
from pytest_vla.scale.merge import merge
from pytest_vla.scale.partition import Unit, loads, partition
from pytest_vla.scale.shards import BUDGETS, SHARD, Plan, Planned
from pytest_vla.vary.registry import labels_of, unavailable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("partition", "merge"))
    parser.add_argument("--count", type=int)
    parser.add_argument("--records", type=int, default=2000)
    options = parser.parse_args()
    if options.what == "partition":
        share_out(options.count or 64)
    else:
        make_one(options.count or 16, options.records)


def share_out(count: int) -> None:
    names = [name for each in ("spatial", "object", "goal", "10") for name in named_suites(f"libero_plus_{each}")]
    suites = [load_suite(name) for name in names]
    cases = planned_cases(suites, (), None, lambda task: labels_of(task, (), "ours"), ())
    began = time.perf_counter()
    scenes = scene_names(cases)
    after_scenes = time.perf_counter()
    lacking = sum(unavailable([task for suite in suites for task in suite.tasks]).values())
    if lacking:
        # Scenes of their own, which need files of a checkout that is not here.
        print(f"{lacking} more cases of the list need a LIBERO-Plus checkout: taken as a scene each")
    more = [Case("libero_plus_10", f"lacking_{number}", 0) for number in range(lacking)]
    cases, scenes = (*cases, *more), {**scenes, **{case: case.task for case in more}}
    seconds = [each.seconds for each in estimate(cases, (), step_budgets(names, None))]
    rng = np.random.default_rng(0)
    measured = [each * rng.uniform(0.3, 1.0) for each in seconds]
    print(f"{len(cases)} cases, {len(set(scenes.values()))} scenes; scenes found in {after_scenes - began:.2f} s")
    for what, times in (("step budgets", seconds), ("measured, 0.3 to 1 of the budget", measured)):
        units = [Unit(case.node_id, scenes[case], taken) for case, taken in zip(cases, times, strict=True)]
        began = time.perf_counter()
        shards = partition(units, count)
        took = time.perf_counter() - began
        found = loads(units, shards, count)
        of: dict[str, set[int]] = {}
        for unit in units:
            of.setdefault(unit.scene, set()).add(shards[unit.name])
        split = [len(some) for some in of.values() if len(some) > 1]
        print(
            f"{what}: {took * 1e3:.0f} ms, longest shard {max(found) / statistics.mean(found):.4f} of the mean, "
            f"{len(split)} scenes split into {sum(split)} pieces"
        )
    rows = tuple(Planned(case.node_id, True, False, shards[case.node_id]) for case in cases)
    size = len(Plan(count, BUDGETS, rows).table(1)["plan"])
    print(f"the list of the whole selection, as each shard keeps it: {size / 1000:.0f} kB")


def make_one(count: int, number: int) -> None:
    cases = [Case("libero_goal", "turn_on_the_stove", seed) for seed in range(number)]
    plan = Plan(count, BUDGETS, tuple(Planned(c.node_id, True, False, i % count + 1) for i, c in enumerate(cases)))
    with tempfile.TemporaryDirectory() as folder:
        shards = Path(folder) / "shards"
        trajectory = np.random.default_rng(0).bytes(50_000)
        for shard in range(1, count + 1):
            place, name = shards / f"{shard}-of-{count}", f"run-{shard}"
            own = [case for case, item in zip(cases, plan.items, strict=True) if item.shard == shard]
            with open_store(place, create=True) as store:
                nodes = [case.node_id for case in own]
                store.begin(name, nodes, command="pytest", model="tiny", invocation={SHARD: plan.table(shard)})
                store.add_all([record(case, name) for case in own])
                store.mark(name, dict.fromkeys(nodes, "passed"))
                store.end(name, "finished")
            for case in own:
                file = place / name / f"{case.suite}/{case.parameter_id}.npz"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(trajectory)
        for what in ("merged", "merged again"):
            began = time.perf_counter()
            found = merge([shards], Path(folder) / "all", (), ())
            print(
                f"{what}: {found.records} records, {found.files} files of {count} shards: "
                f"{time.perf_counter() - began:.2f} s, {len(found.left)} shards with something left"
            )


def record(case: Case, run: str) -> Record:
    """As an episode of some hundred steps leaves it: 2 kB."""
    return dataclasses.replace(
        _RECORD,
        run=run,
        case=case.id,
        node=case.node_id,
        seed=case.seed,
        arrays=f"{case.suite}/{case.parameter_id}.npz",
    )


_RECORD = Record(
    schema=SCHEMA,
    run="",
    case="",
    node="",
    suite="libero_goal",
    task="turn_on_the_stove",
    seed=0,
    variation={},
    attempt=1,
    worker="gw0",
    started="2026-01-02T03:04:05.678+00:00",
    instruction="turn on the stove",
    outcome="success",
    reason=None,
    message=None,
    steps=120,
    success_step=120,
    literals={"(turnon flat_stove_1)": ((0, False), (120, True))},
    eef_pos=(0.1, -0.2, 1.0),
    costs=(),
    metrics={f"metric_{number}": number / 7 for number in range(20)},
    seeds={"run": 0, "scene": 0, "init_state": 0, "init_states": 50},
    protocol={"max_steps": 300, "cameras": ["agentview"], "init_state": None, "settle_steps": 10},
    replan=None,
    policy="tiny",
    policy_digest="0" * 64,
    provenance={"mujoco": "3.8.1", "kernels": "pinned", "pytest-vla": "0.1.0", "scene": "0" * 64},
    timings={"wall": 1.25, "reset": 0.2, "policy": 0.5, "world": 0.4},
    digest="0" * 64,
    arrays=None,
)


if __name__ == "__main__":
    main()
