"""Baselines of made-up outcomes, and the one group of a judgement, for tests of the gate."""

from collections.abc import Sequence
from typing import Any

from pytest_vla.gate.baseline import Baseline, baseline_of
from pytest_vla.gate.verdicts import GateGroup, GateJudgement
from tests.support.varied import varied

TASKS = tuple(f"task_{number}" for number in range(10))


def side(outcomes: Sequence[bool | str], label: str = "", first: int = 0, **changes: Any) -> list[Any]:
    """Records of ten tasks in turn, a seed after the other."""
    return [
        varied(label, outcome, task=TASKS[place % 10], seed=first + place // 10, **changes)
        for place, outcome in enumerate(outcomes)
    ]


def made(*sides: list[Any]) -> Baseline:
    return baseline_of([record for some in sides for record in some])


def only(judgement: GateJudgement) -> GateGroup:
    (group,) = judgement.groups
    return group
