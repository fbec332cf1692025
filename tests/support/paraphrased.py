"""Records of LIBERO-Para's tasks: told in other words, probed, and with paths."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from pytest_vla.plan.case import Case
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from tests.support.records import RECORD, seeds_of

ENDS = {
    "turn_on_the_stove": (0.3, 0.2, 0.1),
    "put_the_bowl_on_the_plate": (-0.2, 0.3, 0.0),
    "put_the_bowl_on_the_stove": (0.1, -0.3, 0.2),
}
STOVE, PLATE, BOWL = ENDS


def para_record(
    task: str, seed: int, outcome: str, variation: dict[str, Any], instruction: str, **changes: Any
) -> Record:
    """A record of a case of libero_para; an empty variation is the benign twin."""
    case = Case("libero_para", task, seed, variation.get("label", ""))
    reason = {"error": "policy-raised", "invalid": "goal-holds-at-start"}.get(outcome)
    about: dict[str, Any] = {"suite": case.suite, "task": task, "case": case.id, "node": case.node_id, "seed": seed}
    about |= {"variation": variation, "instruction": instruction, "outcome": outcome, "reason": reason}
    about["seeds"] = seeds_of(seed)
    return dataclasses.replace(RECORD, **(about | changes))


def paraphrased(task: str, index: int, outcome: str, seed: int = 7, **changes: Any) -> Record:
    kind, action = changes.pop("types", ("none", "hint"))
    parameters = {"object_type": kind, "action_type": action, "index": index, "original": task.replace("_", " ")}
    label = f"{kind}.{action}.{index}"
    variation = {"label": label, "dimension": "language", "kind": "paraphrase", "level": None, "parameters": parameters}
    text = f"could you {'gladly ' * (index + 1)}{task.replace('_', ' ')}"
    return para_record(task, seed, outcome, variation, text, **changes)


def probed(task: str, kind: str, outcome: str, seed: int = 7, **parameters: Any) -> Record:
    label = f"language.{kind}"
    variation = {"label": label, "dimension": "language", "kind": kind, "level": None, "parameters": parameters}
    return para_record(task, seed, outcome, variation, "")


def path_to(end: Iterable[float], noise: float = 0.002, seed: int = 0, rows: int = 60) -> Trajectory:
    generator = np.random.default_rng(seed)
    path = np.linspace((0.0, 0.0, 0.0), tuple(end), rows) + generator.normal(scale=noise, size=(rows, 3))
    none = np.zeros((rows, 0))
    return Trajectory(none, none, path, np.zeros((rows - 1, 7)))
