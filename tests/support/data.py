"""The one place where tests find LIBERO's data and upstream's goldens."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]

# Read once, and taken out of the environment: every test then sees the same environment, wherever the data is. The
# second variable tells pytest-xdist's workers, which this process starts.
_KEPT = "VLA_TESTS_DATA"
_NAMED = os.environ.pop("PYTEST_VLA_DATA", None) or os.environ.get(_KEPT)
if _NAMED:
    os.environ[_KEPT] = _NAMED


def data_root() -> Path | None:
    """`PYTEST_VLA_DATA` as it was given to this session, then ``../shared/data``; None where neither is a folder."""
    candidates = [_NAMED, REPOSITORY.parent / "shared" / "data"]
    return next((Path(path) for path in candidates if path and Path(path).is_dir()), None)


def golden_root() -> Path | None:
    """The folder of upstream's goldens: beside the data folder."""
    root = data_root()
    return root.parent / "golden" if root and (root.parent / "golden").is_dir() else None


def libero_data() -> Path:
    """The folder with LIBERO's ``assets``, ``bddl_files`` and ``init_files``; skips the test where it is absent."""
    root = data_root()
    if root is None or not (root / "libero").is_dir():
        pytest.skip("needs LIBERO's data: set PYTEST_VLA_DATA or put it at ../shared/data")
    return root / "libero"


def golden(name: str) -> Path:
    """A golden file or folder by name; skips the test where it is absent."""
    root = golden_root()
    if root is None or not (root / name).exists():
        pytest.skip(f"needs upstream's golden {name}: put it beside the data folder")
    return root / name


needs_data = pytest.mark.skipif(data_root() is None, reason="needs PYTEST_VLA_DATA or ../shared/data")


def arena_data() -> Path:
    """The folder with VLA-Arena's ``assets``, ``bddl_files`` and init states; skips the test where it is absent."""
    root = data_root()
    if root is None or not (root / "vla_arena").is_dir():
        pytest.skip("needs VLA-Arena's data: set PYTEST_VLA_DATA or put it at ../shared/data")
    return root / "vla_arena"
