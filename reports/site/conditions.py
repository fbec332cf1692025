"""Under what the episodes of a result ran, short enough to keep, and what was run: by these, trends are joined."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytest_vla.gate.baseline import CaseResult
from pytest_vla.gate.comparable import OF_DRAW, OF_SEED
from pytest_vla.gate.conditions import row_of

DRAWN = "*"
"""Stands for a condition that seeds draw: runs are not told apart by it."""

SEVERAL = "#"
"""Begins a digest of what tasks have each for themselves."""

_DIGITS = 12

Stratum = tuple[str, str, str]
"""A task's key, a variation's label, and the protocol under which an entry of a list was drawn."""


def strata_of(cases: Sequence[CaseResult]) -> dict[Stratum, list[CaseResult]]:
    """The cases of each task under each variation, in order."""
    found: dict[Stratum, list[CaseResult]] = {}
    for case in cases:
        found.setdefault((case.task_key, case.parts.variation, case.listed), []).append(case)
    return {key: found[key] for key in sorted(found)}


def selection_of(strata: Collection[Stratum]) -> str:
    """A digest of what was run: equal for the same tasks and variations, whatever the seeds."""
    return _digest(sorted(strata))


def conditions_of(cases: Sequence[CaseResult]) -> dict[str, str]:
    """By name, the conditions by which the gate refuses to compare, as texts.

    What all cases have in common is its own text; what each task or variation has for itself is `SEVERAL` and a digest;
    what differs between seeds, or may, is `DRAWN`. Those of successes and failures, where there are any.
    """
    strata = strata_of([case for case in cases if case.is_counted] or cases)
    names = {name for some in strata.values() for case in some for name in (*case.shared, *case.own)}
    found = {name: _common(name, strata) for name in sorted(names - OF_SEED) if row_of(name).effect == "refuses"}
    return {name: text for name, text in found.items() if text}


def _common(name: str, strata: Mapping[Stratum, Sequence[CaseResult]]) -> str:
    told: dict[Stratum, str] = {}
    for stratum, cases in strata.items():
        values = {_text(case.condition(name)) for case in cases}
        # Of one seed alone nobody knows what another would draw, as in the gate.
        drawn = name.startswith("world.") or (name in OF_DRAW and stratum[1])
        if len(values) > 1 or (drawn and len({case.seed for case in cases}) == 1):
            return DRAWN
        (told[stratum],) = values
    common = {*told.values()}
    return common.pop() if len(common) == 1 else SEVERAL + _digest([*map(list, told.items())])


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]
