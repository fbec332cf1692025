"""Pages that several tests look at, made once."""

from pathlib import Path

import pytest

from tests.support.page import two_models
from tests.support.reports import report


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with runs of two models, ``report.html`` of both, and ``report.json`` with the same numbers."""
    folder = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTEST_VLA_CACHE", str(folder / "cache"))
        two_models()
        report("-o", "report.html")
        report("-o", "report.json")
    return folder
