"""The parts of which JSON Schemas of reports are made (draft 2020-12), and the schema of a whole report."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from pytest_vla import extensions
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.rates import percent, percents

SCHEMA = 1
"""The version of the report's JSON; raised whenever a key changes its meaning or is removed."""

Schema = Mapping[str, Any]
"""A JSON Schema, or a part of one."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Shape:
    """A type of the report's JSON: one declaration gives the schema, and writes the values that it describes.

    Attributes:
        schema: the JSON Schema.
        write: returns a value as JSON has it.
    """

    schema: Schema
    write: Callable[[Any], Any] = _unchanged

    def of(self, get: str | Callable[[Any], Any]) -> "JsonKey":
        """Return a key with this type.

        Args:
            get: returns the key's value, given what the row is about; a text names the attribute.
        """
        return JsonKey(self, attrgetter(get) if isinstance(get, str) else get)

    def always(self, value: Any) -> "JsonKey":
        """Return a key with this type that always has the same value."""
        return JsonKey(self, lambda _: value)


@dataclass(frozen=True)
class JsonKey:
    """A key of a row.

    Attributes:
        shape: the type of its value.
        get: returns the value, given what the row is about.
    """

    shape: Shape
    get: Callable[[Any], Any]


Keys = Mapping[str, Shape | JsonKey]
"""Keys of a row by name; a type alone is that of the attribute of the same name."""

TEXT = Shape({"type": "string"})
FLAG = Shape({"type": "boolean"})
NUMBER = Shape({"type": "number"})
COUNT = Shape({"type": "integer", "minimum": 0})
SHARE = Shape({"type": "number", "minimum": 0, "maximum": 1})
PERCENT = Shape({"type": "number", "minimum": 0, "maximum": 100})


def maybe(shape: Shape) -> Shape:
    """Return that type, or null."""
    return Shape(
        {"anyOf": [shape.schema, {"type": "null"}]}, lambda value: None if value is None else shape.write(value)
    )


def listed(shape: Shape) -> Shape:
    """Return the type of any number of these."""
    return Shape({"type": "array", "items": shape.schema}, lambda values: [shape.write(value) for value in values])


def row(keys: Keys) -> Shape:
    """Return the type that has all of these keys, and no other."""
    schema = {
        "type": "object",
        "properties": {name: each.schema for name, each in shapes_of(keys).items()},
        "required": [*keys],
        "additionalProperties": False,
    }
    return Shape(schema, lambda value: written(keys, value))


def by_name(shape: Shape) -> Shape:
    """Return the type that has one value by each name, which may be anything."""
    return Shape(
        {"type": "object", "additionalProperties": shape.schema},
        lambda values: {name: shape.write(value) for name, value in dict(values).items()},
    )


def one_of(*texts: str) -> Shape:
    """Return the type of one of these words."""
    return Shape({"enum": [*texts]})


def shapes_of(keys: Keys) -> dict[str, Shape]:
    """Return the types of keys."""
    return {name: each.shape if isinstance(each, JsonKey) else each for name, each in keys.items()}


def written(keys: Keys, value: Any) -> dict[str, Any]:
    """Return the keys' values for what a row is about."""
    return {
        name: each.shape.write(each.get(value)) if isinstance(each, JsonKey) else each.write(getattr(value, name))
        for name, each in keys.items()
    }


def through(get: str | Callable[[Any], Any], keys: Keys) -> dict[str, JsonKey]:
    """Return keys that are about something within the value.

    Args:
        get: returns what the keys are about, given the value; a text names the attribute. All keys are null for None.
        keys: of it.
    """
    inner = attrgetter(get) if isinstance(get, str) else get

    def getter(name: str, each: Shape | JsonKey) -> Callable[[Any], Any]:
        own = each.get if isinstance(each, JsonKey) else attrgetter(name)

        def read(value: Any) -> Any:
            found = inner(value)
            return None if found is None else own(found)

        return read

    return {name: JsonKey(shapes_of({name: each})[name], getter(name, each)) for name, each in keys.items()}


def methods(name: str, values: Mapping[str, Any]) -> Keys:
    """Return the key that says how a section's numbers were made.

    Args:
        name: of the key.
        values: the texts, counts and shares that it holds, or their types.
    """
    return {name: row(_constants(values)).of(_unchanged)}


def _constants(values: Mapping[str, Any]) -> Keys:
    return {name: _constant(value) for name, value in values.items()}


def _constant(value: Any) -> Shape | JsonKey:
    if isinstance(value, Shape | JsonKey):
        return value
    if isinstance(value, Mapping):
        return row(_constants(value)).always(None)
    if isinstance(value, tuple):
        return listed(TEXT if isinstance(value[0], str) else SHARE).always(value)
    return (TEXT if isinstance(value, str) else COUNT if isinstance(value, int) else SHARE).always(value)


INTERVAL = maybe(Shape({"type": "array", "items": NUMBER.schema, "minItems": 2, "maxItems": 2}))
"""Both ends, in the unit of what they belong to; null if none can be given."""

REASONS = by_name(COUNT)
"""How many by each reason code, or by each text."""

RATE: Mapping[str, JsonKey] = {
    "n": COUNT.of("counted"),
    "sr": maybe(PERCENT).of(lambda rate: percent(rate.rate)),
    "interval": INTERVAL.of(lambda rate: percents(rate.interval)),
    "tasks_interval": INTERVAL.of(lambda rate: percents(rate.tasks_interval)),
    "not_counted": COUNT.of("not_counted"),
    "bounds": INTERVAL.of(lambda rate: percents(rate.bounds)),
}
"""The keys of `pytest_vla.metrics.rates.rate_table`."""

INTERVALS: Keys = {"interval": INTERVAL, "tasks_interval": INTERVAL}
"""The intervals of an estimate or a share: over these tasks, and over tasks like these."""


def estimate(
    name: str, value: Shape = NUMBER, get: str | Callable[[Any], GroundingEstimate | None] | None = None
) -> dict[str, JsonKey]:
    """Return the keys of a number with its two intervals, all null if there is no estimate.

    Args:
        name: the number's key.
        value: its type.
        get: returns the estimate, given what the row is about; default: the attribute called `name`.
    """
    keys = {"value": maybe(value), "interval": INTERVAL, "tasks_interval": INTERVAL}
    found = through(get or name, keys)
    return {
        name: found["value"],
        f"{name}_interval": found["interval"],
        f"{name}_tasks_interval": found["tasks_interval"],
    }


@dataclass(frozen=True)
class SectionSchema:
    """The keys of a section in JSON: all of them are there if it has anything to report.

    Attributes:
        table: beside ``models``.
        models: within each model and suite that the section is about.
    """

    table: Keys
    models: Keys


_STOPPED: Keys = {
    "run": TEXT, "by": TEXT, "done": COUNT, "planned": COUNT, "balanced": FLAG, "tasks": COUNT, "strata": COUNT,
    "share": SHARE, "off": NUMBER, "workers": COUNT,
}  # fmt: skip


def report_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``pytest-vla report --format=json``, with the sections that are installed.

    A section whose package gives no schema may have any keys: others are then allowed. Raises VlaError if a section
    cannot be used.
    """
    parts, is_closed = [], True
    for entry in extensions.sections():
        if entry.schema:
            parts.append(extensions.load_named(entry, entry.schema)())
        else:
            is_closed = False
    named = {"model": TEXT, "suite": TEXT, "protocol": TEXT}
    of_models = _schemas(part.models for part in parts)
    model = {
        "type": "object",
        "properties": of_models | _schemas([named]),
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
            "models": {"type": "array", "items": model},
            "notes": listed(TEXT).schema,
            "stopped": listed(row(_STOPPED)).schema,
            **_schemas(part.table for part in parts),
        },
        "required": ["schema", "models", "notes"],
        "dependentRequired": _together(part.table for part in parts),
        "additionalProperties": not is_closed,
    }


def _schemas(parts: Iterable[Keys]) -> dict[str, Schema]:
    return {name: shape.schema for keys in parts for name, shape in shapes_of(keys).items()}


def _together(parts: Iterable[Keys]) -> dict[str, list[str]]:
    """Return for each key of a section the other keys that must be there with it."""
    return {key: [other for other in part if other != key] for part in parts if len(part) > 1 for key in part}
