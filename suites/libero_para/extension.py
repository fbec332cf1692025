"""What LIBERO-Para adds: its list of paraphrases, and the logs of its evaluation."""

from pytest_vla.entries import ImporterEntry, ListEntry

_HERE = "pytest_vla.suites.libero_para"


def pytest_vla_variations() -> list[ListEntry]:
    """The paraphrases of the suite ``libero_para``."""
    # The file by itself may have any name.
    files = ("libero_para_metadata.csv", "*.csv")
    return [ListEntry("libero_para", "LIBERO-Para's paraphrases", f"{_HERE}.variations:LISTING", files=files)]


def pytest_vla_importers() -> list[ImporterEntry]:
    """``pytest-vla import libero-para``."""
    return [ImporterEntry("libero-para", "logs of LIBERO-Para's evaluation", f"{_HERE}.import_log:IMPORTER")]
