"""Records for tests of what is made of them."""

import dataclasses
from typing import Any

from pytest_vla.plan.case import Case
from pytest_vla.records.record import SCHEMA, Record

RECORD = Record(
    schema=SCHEMA,
    run="a-run",
    case="libero_goal/turn_on_the_stove[seed0]",
    node="libero_goal::test_episode[turn_on_the_stove-seed0]",
    suite="libero_goal",
    task="turn_on_the_stove",
    seed=0,
    variation={},
    attempt=1,
    worker="gw0",
    started="2026-01-02T03:04:05.678+00:00",
    instruction="turn on the stove",
    outcome="failure",
    reason=None,
    message=None,
    steps=2,
    success_step=None,
    literals={"(turnon flat_stove_1)": ((0, False), (1, True), (2, False))},
    eef_pos=(0.1, -0.2, 1.0),
    costs=(),
    metrics={},
    seeds={"run": 0, "scene": 0, "init_state": 0, "init_states": 50},
    protocol={"max_steps": 300, "cameras": ["agentview"], "init_state": None},
    replan=None,
    policy="random",
    policy_digest=None,
    provenance={"mujoco": "3.8.1"},
    timings={"wall": 1.25},
    digest="00",
    arrays=None,
)


def seeds_of(seed: int, run: int = 0) -> dict[str, int]:
    """What a record of a seed says that it began from, of a task with an init state for each."""
    return {"run": run, "scene": seed, "init_state": seed, "init_states": 10_000}


def record_of(seed: int, outcome: str = "failure", run: str = "a-run", **changes: Any) -> Record:
    """A record of a suite's own item; errors have a reason."""
    case = Case("libero_goal", "turn_on_the_stove", seed)
    reason = {"error": "policy-raised", "invalid": "goal-holds-at-start"}.get(outcome)
    about: dict[str, Any] = {
        "run": run,
        "case": case.id,
        "node": case.node_id,
        "seed": seed,
        "seeds": seeds_of(seed),
        "digest": f"{seed:02}",
        "outcome": outcome,
        "reason": reason,
    }
    return dataclasses.replace(RECORD, **(about | changes))
