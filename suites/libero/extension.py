"""LIBERO's extension: its suites."""

from pathlib import Path

from pytest_vla.entries import SuiteEntry

_NAMES = ("libero_10", "libero_90", "libero_goal", "libero_object", "libero_spatial")


def pytest_vla_suites() -> list[SuiteEntry]:
    """Return a suite for each manifest; the manifest is read when the suite is used."""
    here = Path(__file__).resolve().parent
    return [SuiteEntry(name, "built in", folder=here, manifest=f"{name}.toml", home="libero") for name in _NAMES]
