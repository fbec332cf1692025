"""What LIBERO-Plus adds: its suites, its list, the kinds of it that any task may have, and its table in reports."""

from pathlib import Path

from pytest_vla.entries import ListEntry, SectionEntry, SuiteEntry, VariationEntry

_HERE = "pytest_vla.suites.libero_plus"
_FILES = ("task_classification.json",)
_NAMES = ("libero_plus_10", "libero_plus_goal", "libero_plus_object", "libero_plus_spatial")


def pytest_vla_suites() -> list[SuiteEntry]:
    """A suite for each manifest; what it says is read when the suite is used."""
    here = Path(__file__).resolve().parent
    return [SuiteEntry(name, "built in", folder=here, manifest=f"{name}.toml") for name in _NAMES]


def pytest_vla_variations() -> list[VariationEntry | ListEntry]:
    """Fifty noises, rewritten instructions, and the 10,030 tasks of the suites ``libero_plus_...``."""
    return [
        VariationEntry("libero_plus_noise", "LIBERO-Plus's noise of pictures", f"{_HERE}.kinds:NOISE", 71, _FILES),
        VariationEntry("libero_plus_language", "LIBERO-Plus's instructions", f"{_HERE}.kinds:LANGUAGE", 91, _FILES),
        # A level says how many models fail under it.
        ListEntry("libero_plus", "LIBERO-Plus's list", f"{_HERE}.variations:LISTING", graded=False, files=_FILES),
    ]


def pytest_vla_sections() -> list[SectionEntry]:
    """Its table."""
    return [
        SectionEntry(
            "libero_plus", "the tables of LIBERO-Plus", f"{_HERE}.section:section", 50, f"{_HERE}.schema:schema"
        )
    ]
