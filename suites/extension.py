"""The suites of this folder: each folder with a suite.toml is one. Benchmarks of several suites name theirs."""

from pathlib import Path

from pytest_vla.entries import MANIFEST, SuiteEntry


def pytest_vla_suites() -> list[SuiteEntry]:
    """Return a suite for every folder with a manifest; the manifest is read when the suite is used."""
    import pytest_vla.suites

    # An editable install adds an entry that is no folder.
    homes = [folder for path in pytest_vla.suites.__path__ if (folder := Path(path).resolve()).is_dir()]
    folders = {file.parent.name: file.parent for home in reversed(homes) for file in sorted(home.glob(f"*/{MANIFEST}"))}
    return [SuiteEntry(name, "built in", folder=folder) for name, folder in sorted(folders.items())]
