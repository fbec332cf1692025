"""Folders of this machine that people may lack: a home, a place for caches."""

import os
from pathlib import Path

from pytest_vla.errors import VlaError


def expanded(path: str | os.PathLike[str]) -> Path | None:
    """The path with ``~`` replaced; None where there is no home (a container with a foreign user id)."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return None


def cache_folder() -> Path:
    """Where compiled scenes are kept, and machine code where numba's own place is not writable. Need not exist yet.

    Raises:
        VlaError: neither ``PYTEST_VLA_CACHE`` nor ``XDG_CACHE_HOME`` nor a home says where.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = expanded(os.environ.get("PYTEST_VLA_CACHE") or Path(base) / "pytest-vla")
    if folder is None:
        raise VlaError("there is no home folder for the cache of compiled scenes: set PYTEST_VLA_CACHE or HOME")
    return folder
