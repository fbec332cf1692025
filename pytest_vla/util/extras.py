"""Packages of an extra: imported when they are needed, and named where they are missing."""

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from pytest_vla.errors import VlaError

INSTALL = "pip install 'pytest-vla[language]'"


def required(module: str, install: str = INSTALL) -> Any:
    """A module of an extra.

    Args:
        module: its name.
        install: what installs it; left out: the extra ``language``.

    Raises:
        VlaError: it cannot be imported; says what to install.
    """
    try:
        found: ModuleType = importlib.import_module(module)
    except ImportError as error:
        raise VlaError(f"{module} cannot be imported ({error}): {install}") from error
    return found


def is_installed(module: str) -> bool:
    """Whether a top-level module is there; it is not imported."""
    return importlib.util.find_spec(module) is not None
