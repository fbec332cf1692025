"""LIBERO-Plus's extension: its suites, its list of tasks, its kinds of variation for any task, and its report table."""

from pathlib import Path

from pytest_vla.entries import ListEntry, PaperEntry, SectionEntry, SuiteEntry, VariationEntry

_HERE = "pytest_vla.suites.libero_plus"
_FILES = ("task_classification.json",)
_NAMES = ("libero_plus_10", "libero_plus_goal", "libero_plus_object", "libero_plus_spatial")


def pytest_vla_suites() -> list[SuiteEntry]:
    """Return a suite for each manifest; the manifest is read when the suite is used."""
    here = Path(__file__).resolve().parent
    return [SuiteEntry(name, "built in", folder=here, manifest=f"{name}.toml") for name in _NAMES]


def pytest_vla_variations() -> list[VariationEntry | ListEntry]:
    """Return fifty noises, rewritten instructions, and the 10,030 tasks of the suites ``libero_plus_...``."""
    return [
        VariationEntry("libero_plus_noise", "LIBERO-Plus's picture noise", f"{_HERE}.kinds:NOISE", 71, _FILES),
        VariationEntry("libero_plus_language", "LIBERO-Plus's instructions", f"{_HERE}.kinds:LANGUAGE", 91, _FILES),
        # A level says how many models fail under it.
        ListEntry("libero_plus", "LIBERO-Plus's list", f"{_HERE}.variations:LISTING", graded=False, files=_FILES),
    ]


def pytest_vla_sections() -> list[SectionEntry]:
    """Return the report section with LIBERO-Plus's tables."""
    return [
        SectionEntry(
            "libero_plus", "the tables of LIBERO-Plus", f"{_HERE}.report:section", 50, f"{_HERE}.report:schema"
        )
    ]


def pytest_vla_papers() -> list[PaperEntry]:
    """Return the paper with its tables."""
    return [PaperEntry("libero-plus", "LIBERO-Plus, arXiv 2510.13626", f"{_HERE}.report:PAPER")]
