"""Makes all parts of a report, each by itself: what one of them cannot say takes no other away."""

import argparse
from pathlib import Path

from pytest_vla import extensions
from pytest_vla.entries import SectionEntry
from pytest_vla.errors import VlaError
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import Section, checked
from pytest_vla.util.tracebacks import describe

Named = tuple[SectionEntry, Section]
"""A part of the report, and what it is called."""


def make_sections(loaded: Loaded, options: argparse.Namespace, format: str) -> tuple[list[Named], list[str]]:
    """The sections with all that the format takes of them, and a line for each that others add and that has not.

    Args:
        loaded: the records.
        options: of ``pytest-vla report``.
        format: ``terminal``, ``json``, ``png`` or ``html``.

    Raises:
        VlaError: of a part of ours: what was typed, or the records, are at fault.
    """
    sections, troubles = [], []
    for entry in extensions.sections():
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


def plain_options(data: Path | None) -> argparse.Namespace:
    """The options of ``pytest-vla report`` as they are where none is typed, for a report that nobody typed.

    Args:
        data: the folder of files that sections read; None: the default ones.
    """
    from pytest_vla.metrics.pride import ALPHA

    told = {"backend": None, "failure_algorithm": None, "full": False, "stop_when": None, "labels": None}
    return argparse.Namespace(alpha=ALPHA, data=data, **told)
