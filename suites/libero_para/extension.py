"""LIBERO-Para's extension: its list of paraphrases, and the import of its evaluation's logs."""

from pytest_vla.entries import CommandEntry, ImporterEntry, ListEntry, PaperEntry

_HERE = "pytest_vla.suites.libero_para"


def pytest_vla_variations() -> list[ListEntry]:
    """Return the list of paraphrases for the suite ``libero_para``."""
    # The file by itself may have any name.
    files = ("libero_para_metadata.csv", "*.csv")
    return [ListEntry("libero_para", "LIBERO-Para's paraphrases", f"{_HERE}.variations:LISTING", files=files)]


def pytest_vla_importers() -> list[ImporterEntry]:
    """Return the importer ``pytest-vla import libero-para``."""
    return [
        ImporterEntry(
            "libero-para", "a folder of LIBERO-Para's eval0.json to eval9.json", f"{_HERE}.import_log:IMPORTER"
        )
    ]


def pytest_vla_commands() -> list[CommandEntry]:
    """Return the command ``pytest-vla own-texts``."""
    about = "check your own paraphrases, put them into LIBERO-Para's cells, and compute two raters' agreement"
    return [CommandEntry("own-texts", about, f"{_HERE}.own_texts:COMMAND")]


def pytest_vla_papers() -> list[PaperEntry]:
    """Return the paper with its tables."""
    return [PaperEntry("libero-para", "LIBERO-Para, arXiv 2603.28301", f"{_HERE}.report:PAPER")]
