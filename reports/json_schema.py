"""The parts of which JSON Schemas of reports are made (draft 2020-12), and the schema of a whole report."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_vla import extensions
from pytest_vla.reports.programs import SCHEMA

Schema = Mapping[str, Any]
"""A JSON Schema, or a part of one."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"

TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
PERCENT: Schema = {"type": "number", "minimum": 0, "maximum": 100}


def maybe(schema: Schema) -> Schema:
    """That, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    """Any number of these."""
    return {"type": "array", "items": schema}


def row(keys: Mapping[str, Schema]) -> Schema:
    """All of these keys, and no other."""
    return {
        "type": "object",
        "properties": dict(keys),
        "required": [*keys],
        "additionalProperties": False,
    }


def by_name(schema: Schema) -> Schema:
    """One by each name, which may be anything."""
    return {"type": "object", "additionalProperties": schema}


def one_of(*texts: str) -> Schema:
    """One of these words."""
    return {"enum": [*texts]}


ENDS: Schema = {"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}
INTERVAL = maybe(ENDS)
"""Both ends, in the unit of what they are of; null where none can be given."""

REASONS = by_name(COUNT)
"""How many by each reason code, or by each text."""

RATE: Mapping[str, Schema] = {
    "n": COUNT,
    "sr": maybe(PERCENT),
    "interval": INTERVAL,
    "tasks_interval": INTERVAL,
    "not_counted": COUNT,
    "bounds": INTERVAL,
}
"""The keys of `pytest_vla.metrics.rates.rate_table`."""


def estimate(name: str, value: Schema = NUMBER) -> dict[str, Schema]:
    """The keys of a number with its two intervals."""
    return {name: maybe(value), f"{name}_interval": INTERVAL, f"{name}_tasks_interval": INTERVAL}


@dataclass(frozen=True)
class SectionSchema:
    """What a part of the report has in JSON, where it has anything: all of these keys.

    Attributes:
        table: beside ``models``.
        models: of each model and suite that the part has something of.
    """

    table: Mapping[str, Schema]
    models: Mapping[str, Schema]


_STOPPED = {
    "run": TEXT, "by": TEXT, "done": COUNT, "planned": COUNT, "balanced": FLAG, "tasks": COUNT, "strata": COUNT,
    "share": SHARE, "off": NUMBER, "workers": COUNT,
}  # fmt: skip


def report_schema() -> dict[str, Any]:
    """Of ``pytest-vla report --format=json``, with the parts that are installed.

    A part whose package gives no schema may have any keys: others are then allowed. Raises VlaError: a part cannot be
    used.
    """
    parts, is_closed = [], True
    for entry in extensions.sections():
        if entry.schema:
            parts.append(extensions.load_named(entry, entry.schema)())
        else:
            is_closed = False
    named = {"model": TEXT, "suite": TEXT, "protocol": TEXT}
    of_models = {key: schema for part in parts for key, schema in part.models.items()}
    model = {
        "type": "object",
        "properties": of_models | named,
        "required": ["model", "suite"],
        "dependentRequired": _together(part.models for part in parts),
        "additionalProperties": not is_closed,
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:pytest-vla:report:{SCHEMA}",
        "title": "pytest-vla report --format=json",
        "type": "object",
        "properties": {
            "schema": {"const": SCHEMA},
            "models": listed(model),
            "notes": listed(TEXT),
            "stopped": listed(row(_STOPPED)),
            **{key: schema for part in parts for key, schema in part.table.items()},
        },
        "required": ["schema", "models", "notes"],
        "dependentRequired": _together(part.table for part in parts),
        "additionalProperties": not is_closed,
    }


def _together(parts: Any) -> dict[str, list[str]]:
    """Where one key of a part is there, all are."""
    return {key: [other for other in part if other != key] for part in parts if len(part) > 1 for key in part}
