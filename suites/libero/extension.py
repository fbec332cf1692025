"""LIBERO's extension: its suites."""

from pathlib import Path

from pytest_vla.entries import ImporterEntry, SuiteEntry

_NAMES = ("libero_10", "libero_90", "libero_goal", "libero_object", "libero_spatial")


def pytest_vla_suites() -> list[SuiteEntry]:
    """Return a suite for each manifest; the manifest is read when the suite is used."""
    here = Path(__file__).resolve().parent
    return [SuiteEntry(name, "built in", folder=here, manifest=f"{name}.toml", home="libero") for name in _NAMES]


def pytest_vla_importers() -> list[ImporterEntry]:
    """Return the importers of logs that published LIBERO evaluators write."""
    here = "pytest_vla.suites.libero.import_logs"
    return [
        ImporterEntry(
            "libero-log", "text logs of openpi, OpenVLA, OpenVLA-OFT and GR00T N1.5", f"{here}:TEXT_IMPORTER"
        ),
        ImporterEntry("lerobot", "eval_info.json of lerobot-eval", f"{here}:LEROBOT_IMPORTER"),
        ImporterEntry("vla-eval", "results of vla-eval, JSON or SQLite", f"{here}:VLA_EVAL_IMPORTER"),
        ImporterEntry("x-vla", "results.json of X-VLA's client", f"{here}:X_VLA_IMPORTER"),
    ]
