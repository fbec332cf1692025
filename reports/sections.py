"""Parts of a report, each made by itself of the same records, and how they are put together."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
    """

    lines: Callable[[], Iterable[str]]
    table: Mapping[str, Any]
    models: Mapping[Subject, Mapping[str, Any]]
    pictures: Callable[[], Mapping[str, bytes]]


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
