"""The JSON Schema of a record, which is a line of ``pytest-vla export --format=jsonl``."""

from collections.abc import Mapping
from typing import Any

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
from pytest_vla.plan.costs import ACCOUNTS, KINDS
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.migrations import SCHEMA
from pytest_vla.reports.json_schema import (
    COUNT,
    DIALECT,
    FLAG,
    NUMBER,
    TEXT,
    Schema,
    Shape,
    by_name,
    listed,
    maybe,
    one_of,
)

_PLACE = Shape({"type": "array", "items": NUMBER.schema, "minItems": 3, "maxItems": 3})
_CHANGE = {"type": "array", "prefixItems": [COUNT.schema, FLAG.schema], "items": False, "minItems": 2}
_ANYTHING = Shape({"type": "object"})
_NULL = Shape({"type": "null"})

_NOT_ALWAYS = ("task_level", "group", "given", "counts")
"""Left out where empty, or false; `counts` is of exports alone."""


def record_schema() -> dict[str, Any]:
    """Return the JSON Schema of records as this version writes them; a later version may add fields."""
    properties = _properties()
    return {
        "$schema": DIALECT,
        "$id": f"urn:pytest-vla:record:{SCHEMA}",
        "title": "an episode of pytest-vla",
        "type": "object",
        "properties": _schemas(properties),
        "required": [name for name in properties if name not in _NOT_ALWAYS],
        "allOf": [
            _where("error", {"reason": one_of(*ERROR_REASONS), "success_step": _NULL}),
            _where("invalid", {"reason": one_of(*INVALID_REASONS), "success_step": _NULL}),
            _where("failure", {"reason": _NULL, "success_step": _NULL}),
            _where("success", {"reason": _NULL}),
        ],
    }


def _where(outcome: str, properties: Mapping[str, Shape]) -> Schema:
    """Return the condition on records with an outcome."""
    return {"if": {"properties": {"outcome": {"const": outcome}}}, "then": {"properties": _schemas(properties)}}


def _schemas(shapes: Mapping[str, Shape]) -> dict[str, Schema]:
    return {name: shape.schema for name, shape in shapes.items()}


def _properties() -> dict[str, Shape]:
    charge = {
        "type": "object",
        "properties": _schemas({
            "name": TEXT, "amount": Shape({"type": "number", "minimum": 0}), "step": maybe(COUNT), "by": TEXT,
            "text": TEXT,
            "account": one_of(*ACCOUNTS), "kind": one_of(*KINDS), "last_step": COUNT, "bodies": listed(TEXT),
            "force": NUMBER, "position": _PLACE,
        }),
        "required": ["name", "amount", "step"],
    }  # fmt: skip
    variation = {
        "type": "object",
        "properties": _schemas({
            "label": TEXT, "dimension": TEXT, "kind": TEXT, "level": maybe(Shape({"type": "integer"})), "seed": COUNT,
            "probe": FLAG, "parameters": _ANYTHING,
        }),
        # Empty where the task is as it is.
        "anyOf": [{"maxProperties": 0}, {"required": ["label"]}],
    }  # fmt: skip
    return {
        "schema": Shape({"const": SCHEMA}),
        **dict.fromkeys(("run", "case", "node", "suite", "task"), TEXT),
        "seed": COUNT,
        "variation": Shape(variation),
        "attempt": COUNT,
        **dict.fromkeys(("worker", "started", "instruction"), TEXT),
        "outcome": one_of(*OUTCOMES),
        "reason": maybe(TEXT),
        "message": maybe(TEXT),
        "steps": COUNT,
        "success_step": maybe(COUNT),
        "literals": by_name(Shape({"type": "array", "items": _CHANGE, "minItems": 1})),
        "eef_pos": maybe(_PLACE),
        "costs": listed(Shape(charge)),
        "metrics": by_name(NUMBER),
        "seeds": by_name(maybe(COUNT)),
        "protocol": _ANYTHING,
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
