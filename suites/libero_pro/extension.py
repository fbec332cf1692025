"""What LIBERO-PRO adds: its kinds of variation, and its tables in reports."""

from pytest_vla.entries import SectionEntry, VariationEntry

_HERE = "pytest_vla.suites.libero_pro"
_FILES = ("ood_object.yaml", "ood_spatial_relation.yaml", "ood_language.yaml", "ood_task.yaml", "ood_environment.yaml")


def pytest_vla_variations() -> list[VariationEntry]:
    """Objects, places, words, tasks and environments."""
    return [VariationEntry("libero_pro", "LIBERO-PRO's perturbations", f"{_HERE}.variations:KINDS", 10, _FILES)]


def pytest_vla_sections() -> list[SectionEntry]:
    """Its tables."""
    return [SectionEntry("libero_pro", "the tables of LIBERO-PRO", f"{_HERE}.section:section", 40)]
