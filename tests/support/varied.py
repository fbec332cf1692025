"""Records of episodes under variations, for tests of what is made of them."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_vla.plan.case import Case
from pytest_vla.records.record import Record
from tests.support.records import RECORD, seeds_of


def variation_of(label: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The table of a label such as ``camera.distance-L3`` or ``camera.distance-L3+light.diffuse-L3``; empty: benign."""
    if not label:
        return {}
    matches = [re.fullmatch(r"(\w+)\.([\w.]+?)(?:-L(\d+))?", part) for part in label.split("+")]
    parts = [(match[1], match[2], int(match[3]) if match[3] else None) for match in matches if match is not None]
    levels = {level for _, _, level in parts}
    return {
        "label": label,
        "dimension": "+".join(dimension for dimension, _, _ in parts),
        "kind": "+".join(kind for _, kind, _ in parts),
        "level": levels.pop() if len(levels) == 1 else None,
        "parameters": dict(parameters or {}),
    }


def varied(
    label: str,
    outcome: str | bool,
    task: str = "turn_on_the_stove",
    seed: int = 0,
    run_seed: int = 0,
    parameters: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Record:
    """A record of a suite's own item under a variation; truth is success."""
    case = Case("libero_goal", task, seed, label)
    if isinstance(outcome, bool):
        outcome = "success" if outcome else "failure"
    about: dict[str, Any] = {
        "case": case.id,
        "node": case.node_id,
        "task": task,
        "seed": seed,
        "seeds": seeds_of(seed, run_seed),
        "variation": variation_of(label, parameters),
        "outcome": outcome,
        "reason": {"error": "policy-raised", "invalid": "goal-holds-at-start"}.get(outcome),
    }
    return dataclasses.replace(RECORD, **(about | changes))


def episodes(rates: Sequence[float], seeds: int, labels: Sequence[str] = ("",)) -> list[Record]:
    """Of each task the first seeds succeed, under all labels."""
    return [
        varied(label, seed < round(rate * seeds), task=f"task_{task}", seed=seed)
        for task, rate in enumerate(rates)
        for seed in range(seeds)
        for label in labels
    ]
