"""LIBERO-PRO's extension: its kinds of variation, its report tables, and a command."""

from pytest_vla.entries import CommandEntry, PaperEntry, SectionEntry, VariationEntry

_HERE = "pytest_vla.suites.libero_pro"
_FILES = ("ood_object.yaml", "ood_spatial_relation.yaml", "ood_language.yaml", "ood_task.yaml", "ood_environment.yaml")


def pytest_vla_variations() -> list[VariationEntry]:
    """Objects, places, words, tasks and environments."""
    return [VariationEntry("libero_pro", "LIBERO-PRO's perturbations", f"{_HERE}.variations:KINDS", 10, _FILES)]


def pytest_vla_sections() -> list[SectionEntry]:
    """Return the report section with LIBERO-PRO's tables."""
    return [
        SectionEntry("libero_pro", "the tables of LIBERO-PRO", f"{_HERE}.report:section", 40, f"{_HERE}.report:schema")
    ]


def pytest_vla_commands() -> list[CommandEntry]:
    """Return the command ``pytest-vla coverage``."""
    about = "which of LIBERO-PRO's varied tasks can be run, and why the others cannot"
    return [CommandEntry("coverage", about, f"{_HERE}.coverage:COMMAND")]


def pytest_vla_papers() -> list[PaperEntry]:
    """Return the paper with its tables."""
    return [PaperEntry("libero-pro", "LIBERO-PRO, arXiv 2510.03827", f"{_HERE}.report:PAPER")]
