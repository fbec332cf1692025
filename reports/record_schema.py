"""The JSON Schema of a record, which is a line of ``pytest-vla export --format=jsonl``."""

from collections.abc import Mapping
from typing import Any

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
from pytest_vla.plan.costs import ACCOUNTS, KINDS
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.migrations import SCHEMA
from pytest_vla.reports.json_schema import COUNT, DIALECT, FLAG, NUMBER, TEXT, Schema, by_name, listed, maybe, one_of

_PLACE: Schema = {"type": "array", "items": NUMBER, "minItems": 3, "maxItems": 3}
_CHANGE: Schema = {"type": "array", "prefixItems": [COUNT, FLAG], "items": False, "minItems": 2}

_NOT_ALWAYS = ("task_level", "group", "given", "counts")
"""Left out where empty, or false; `counts` is of exports alone."""


def record_schema() -> dict[str, Any]:
    """Of records as this version writes them. A later one may add fields, which are no fault."""
    properties = _properties()
    return {
        "$schema": DIALECT,
        "$id": f"urn:pytest-vla:record:{SCHEMA}",
        "title": "an episode of pytest-vla",
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in _NOT_ALWAYS],
        "allOf": [
            _where("error", {"reason": one_of(*ERROR_REASONS), "success_step": {"type": "null"}}),
            _where("invalid", {"reason": one_of(*INVALID_REASONS), "success_step": {"type": "null"}}),
            _where("failure", {"reason": {"type": "null"}, "success_step": {"type": "null"}}),
            _where("success", {"reason": {"type": "null"}}),
        ],
    }


def _where(outcome: str, properties: Mapping[str, Schema]) -> Schema:
    """What holds of records of this outcome."""
    return {"if": {"properties": {"outcome": {"const": outcome}}}, "then": {"properties": dict(properties)}}


def _properties() -> dict[str, Schema]:
    charge = {
        "type": "object",
        "properties": {
            "name": TEXT, "amount": {"type": "number", "minimum": 0}, "step": maybe(COUNT), "by": TEXT, "text": TEXT,
            "account": one_of(*ACCOUNTS), "kind": one_of(*KINDS), "last_step": COUNT, "bodies": listed(TEXT),
            "force": NUMBER, "position": _PLACE,
        },
        "required": ["name", "amount", "step"],
    }  # fmt: skip
    variation = {
        "type": "object",
        "properties": {
            "label": TEXT, "dimension": TEXT, "kind": TEXT, "level": maybe({"type": "integer"}), "seed": COUNT,
            "probe": FLAG, "parameters": {"type": "object"},
        },
        # Empty where the task is as it is.
        "anyOf": [{"maxProperties": 0}, {"required": ["label"]}],
    }  # fmt: skip
    return {
        "schema": {"const": SCHEMA},
        **dict.fromkeys(("run", "case", "node", "suite", "task"), TEXT),
        "seed": COUNT,
        "variation": variation,
        "attempt": COUNT,
        **dict.fromkeys(("worker", "started", "instruction"), TEXT),
        "outcome": one_of(*OUTCOMES),
        "reason": maybe(TEXT),
        "message": maybe(TEXT),
        "steps": COUNT,
        "success_step": maybe(COUNT),
        "literals": by_name({"type": "array", "items": _CHANGE, "minItems": 1}),
        "eef_pos": maybe(_PLACE),
        "costs": listed(charge),
        "metrics": by_name(NUMBER),
        "seeds": by_name(maybe(COUNT)),
        "protocol": {"type": "object"},
        "replan": maybe(COUNT),
        "policy": TEXT,
        "policy_digest": maybe(TEXT),
        "provenance": by_name(maybe(TEXT)),
        "timings": by_name(maybe(NUMBER)),
        "digest": TEXT,
        "arrays": maybe(TEXT),
        "simulator": listed(TEXT),
        "task_level": TEXT,
        "group": TEXT,
        "given": FLAG,
        "counts": FLAG,
    }
