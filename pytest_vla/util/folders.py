"""Folders of this machine that people may lack: a home, a place for caches."""

import os
import re
from pathlib import Path

from pytest_vla.errors import VlaError

DEFAULT_LIMIT = 5 * 10**9
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


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


def fetched_libero() -> Path:
    """Where `pytest-vla fetch libero` puts LIBERO's data, and where it is looked for. Need not exist.

    Raises:
        VlaError: neither ``XDG_DATA_HOME`` nor a home says where.
    """
    folder = expanded(Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "pytest-vla" / "libero")
    if folder is None:
        raise VlaError("there is no home folder for LIBERO's data: set XDG_DATA_HOME or HOME, or give a folder")
    return folder


def cache_limit() -> int:
    """The cache's size limit in bytes.

    Raises:
        VlaError: ``PYTEST_VLA_CACHE_LIMIT`` is not a size.
    """
    text = os.environ.get("PYTEST_VLA_CACHE_LIMIT", "")
    if not text:
        return DEFAULT_LIMIT
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B?)\s*", text.upper())
    if not match:
        raise VlaError(f"PYTEST_VLA_CACHE_LIMIT={text!r}: expected a size such as 5GB or 500MB")
    unit = match[2] if match[2].endswith("B") or not match[2] else f"{match[2]}B"
    return int(float(match[1]) * _UNITS[unit])
