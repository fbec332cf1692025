"""Sections of a report: each is made by itself of the same records, and they are put together for a format."""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from pytest_vla import extensions
from pytest_vla.entries import SectionEntry
from pytest_vla.errors import VlaError
from pytest_vla.metrics.extra_metrics import hidden_notes
from pytest_vla.metrics.failure_types import USUAL_TAU, Tau
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.records.explain import notes_after
from pytest_vla.records.runs import sample_table
from pytest_vla.reports.blocks import Block
from pytest_vla.reports.json_schema import SCHEMA
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.text import WIDTH, block_lines
from pytest_vla.util.text import did_you_mean, quoted
from pytest_vla.util.warnings import describe

ALL = "all"
"""``--section=all``: also the sections that are made on request only."""

Subject = tuple[str, str, str]
"""A model's name, a suite's, and the protocol's if the suite has two, else an empty text."""


@dataclass(frozen=True)
class Section:
    """A section of the report.

    Attributes:
        blocks: returns its blocks, which a terminal, a page, CSV and LaTeX render; a text among them is a line.
        table: its keys in JSON beside ``models``; no two sections have a key in common.
        models: its keys in JSON within each model and suite; no two sections have a key in common.
        pictures: returns PNG by name; no two sections have a name in common.
        title: on a page; if empty, the section's description.
    """

    blocks: Callable[[], Iterable[Block | str]]
    table: Mapping[str, Any]
    models: Mapping[Subject, Mapping[str, Any]]
    pictures: Callable[[], Mapping[str, bytes]] = dict
    title: str = ""


Named = tuple[SectionEntry, Section]
"""A section of the report, and what it is called."""


def make_sections(loaded: Loaded, options: argparse.Namespace, format: str) -> tuple[list[Named], list[str]]:
    """Return the sections, checked for a format, and a line for each section of an extension that is left out.

    Args:
        loaded: the records.
        options: of ``pytest-vla report``.
        format: ``terminal``, ``json``, ``png``, ``svg``, ``html``, ``csv`` or ``latex``.

    Raises:
        VlaError: a built-in section raised it: the options or the records are at fault.
    """
    sections, troubles = [], []
    if format != "terminal":
        options = argparse.Namespace(**{**vars(options), "full": True})
    for entry in chosen_sections(options):
        try:
            found = extensions.load(entry)(loaded, options)
            if found is not None:
                sections.append((entry, checked(found, format)))
        except Exception as error:
            if isinstance(error, VlaError) and extensions.is_built_in(entry):
                raise
            told = str(error) if isinstance(error, VlaError) else describe(error)
            troubles.append(f"the section {entry.name}, of {entry.origin}, is left out: {' '.join(told.split())}")
    return sections, troubles


def chosen_sections(options: argparse.Namespace) -> tuple[SectionEntry, ...]:
    """Return the sections that ``--section`` names in their order; without it, all that need no request.

    Raises:
        VlaError: there is no such section.
    """
    # Programs that make a report by themselves may not know the option.
    names = [name.strip() for text in getattr(options, "section", None) or () for name in text.split(",")]
    known = {entry.name: entry for entry in extensions.sections()}
    if ALL in names:
        return tuple(known.values())
    if unknown := [name for name in names if name not in known]:
        named = quoted(unknown[0], 80)
        raise VlaError(
            f"--section: the report has no section {named}.{did_you_mean(unknown[0], known)} Sections: "
            f"{', '.join(known)}, or {ALL}"
        )
    return tuple(entry for name, entry in known.items() if name in names or not (names or entry.on_request))


def plain_options(data: Path | None) -> argparse.Namespace:
    """Return the defaults of the options of ``pytest-vla report``, for a report that nobody asked for by a command.

    Args:
        data: the folder of files that sections read; None for the default ones.
    """
    from pytest_vla.metrics.pride import ALPHA

    told = {"backend": None, "failure_algorithm": None, "full": False, "stop_when": None, "labels": None}
    return argparse.Namespace(alpha=ALPHA, data=data, **told)


def tau_of(options: argparse.Namespace) -> Tau:
    """Return ``--tau``; programs that make a report by themselves may not know the option."""
    found: Tau = getattr(options, "tau", USUAL_TAU)
    return found


def checked(found: object, format: str) -> Section:
    """Return a section with what a format takes of it computed, so that an error in it is known before the others run.

    Args:
        found: what the section's function returned.
        format: as for `make_sections`.

    Raises:
        VlaError: it is no section, or what it holds has a wrong type. Errors of the section itself pass through.
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
    said = found.blocks()
    blocks = [said] if isinstance(said, str) else list(said)
    if isinstance(said, str) or not all(isinstance(block, (str, *get_args(Block))) for block in blocks):
        raise VlaError(
            f"blocks() returned {type(said).__name__}, expected blocks of pytest_vla.reports.blocks, or lines"
        )
    return replace(found, blocks=lambda: blocks)


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


def section_lines(sections: Sequence[Section], width: int = WIDTH) -> Iterator[str]:
    """Yield the lines of all sections for a terminal, with an empty one between two sections."""
    for number, section in enumerate(sections):
        if number:
            yield ""
        yield from block_lines(section.blocks(), width)


def section_table(sections: Sequence[Section]) -> dict[str, Any]:
    """Return the JSON of all sections: their own keys, and ``models``, one for each model, suite and protocol.

    A section's keys are present only if it has something to report: beside ``models`` if the report has the section,
    within a model if the section is about it. For example, a model that was given no other text has ``model``,
    ``suite`` and ``robustness``, and none of the language's keys.
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


def report_table(sections: Sequence[Section], loaded: Loaded) -> dict[str, Any]:
    """Return all of ``pytest-vla report --format=json``.

    It has ``schema``, the keys of `section_table` and ``notes``. If time limits stopped runs it also has ``stopped``:
    the name of each, and the fields of `pytest_vla.records.runs.TimeLimitSample`.
    """
    stopped = [{"run": run, **sample_table(sample)} for run, sample in loaded.samples.items()]
    table = {"schema": SCHEMA, **section_table(sections), "notes": notes_of(loaded)}
    return {**table, "stopped": stopped} if stopped else table


def notes_of(loaded: Loaded) -> tuple[str, ...]:
    """Return the benchmarks' known defects that affect the numbers, and which metrics of records are in no number."""
    counting = (that_count(some).records for some in by_model(loaded.records).values())
    return (*notes_after(record for some in counting for record in some), *hidden_notes(loaded.records))
