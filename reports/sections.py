"""Parts of a report, each made by itself of the same records, and how they are put together."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.reports.overlays import Overlay

Subject = tuple[str, str, str]
"""A model's name, a suite's, and the protocol's where the suite has two; else empty."""


@dataclass(frozen=True)
class Section:
    """A part of the report.

    Attributes:
        lines: for a terminal.
        table: what JSON has of the whole part, by key; no two sections have a key in common.
        models: what it has of each model, likewise.
        pictures: draws them: PNG by name, which no two sections have in common.
        overlays: of each model the paths by type of failure, which an HTML page draws; of most sections none.
    """

    lines: Callable[[], Iterable[str]]
    table: Mapping[str, Any]
    models: Mapping[Subject, Mapping[str, Any]]
    pictures: Callable[[], Mapping[str, bytes]]
    overlays: Mapping[Subject, Sequence[Overlay]] = field(default_factory=dict)


def checked(found: object, format: str) -> Section:
    """A section of which all that a format takes is made, so that what is wrong with it is known before another's.

    Args:
        found: what the part of the report returned.
        format: ``terminal``, ``json``, ``png`` or ``html``, which takes the lines and the tables.

    Raises:
        VlaError: it is no section, or has other things than a section has. And whatever the section itself raises.
    """
    if not isinstance(found, Section):
        raise VlaError(f"it returned {type(found).__name__}, expected {Section.__module__}.Section, or None")
    if format == "png":
        drawn = found.pictures()
        if not isinstance(drawn, Mapping) or not all(
            isinstance(name, str) and isinstance(picture, bytes) for name, picture in drawn.items()
        ):
            raise VlaError(f"pictures() returned {type(drawn).__name__}, expected a mapping of names to PNG as bytes")
        return replace(found, pictures=lambda: drawn)
    if format in ("json", "html"):
        _check_tables(found)
    if format == "json":
        return found
    said = found.lines()
    lines = [said] if isinstance(said, str) else list(said)
    if isinstance(said, str) or not all(isinstance(line, str) for line in lines):
        raise VlaError(f"lines() returned {type(said).__name__}, expected lines, each a text")
    return replace(found, lines=lambda: lines)


def _check_tables(section: Section) -> None:
    if not isinstance(section.table, Mapping):
        raise VlaError(f"table is {type(section.table).__name__}, expected a mapping")
    if not isinstance(section.models, Mapping):
        raise VlaError(f"models is {type(section.models).__name__}, expected a mapping")
    for subject, keys in section.models.items():
        if not (isinstance(subject, tuple) and len(subject) == 3 and all(isinstance(each, str) for each in subject)):
            raise VlaError(f"models has {subject!r}, expected the names of a model, its suite and the protocol, or ''")
        if not isinstance(keys, Mapping):
            raise VlaError(f"models has {type(keys).__name__} of {subject!r}, expected a mapping")
    try:
        json.dumps(section_table([section]))
    except (TypeError, ValueError) as error:
        raise VlaError(f"table or models cannot be written as JSON: {error}") from error


def section_lines(sections: Sequence[Section]) -> Iterator[str]:
    """All lines, with an empty one between sections."""
    for number, section in enumerate(sections):
        if number:
            yield ""
        yield from section.lines()


def section_table(sections: Sequence[Section]) -> dict[str, Any]:
    """For JSON: the sections' own keys, and ``models``, one for each model and suite; of two protocols each.

    A section's keys are there where it has something to say, and are not there elsewhere: of the whole where the report
    has that section, of a model where the section has any of it. So a model that was not told another text has
    ``model``, ``suite`` and ``robustness``, and none of the language's keys.
    """
    models: dict[Subject, dict[str, Any]] = {}
    for section in sections:
        for subject, keys in section.models.items():
            model, suite, protocol = subject
            named = {"model": model, "suite": suite} | ({"protocol": protocol} if protocol else {})
            models.setdefault(subject, named).update(keys)
    return {key: value for section in sections for key, value in section.table.items()} | {
        "models": list(models.values())
    }
