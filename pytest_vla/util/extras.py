"""Packages of the extra ``language``: imported when they are needed, and named where they are missing."""

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from pytest_vla.errors import VlaError

INSTALL = "pip install 'pytest-vla[language]'"


def required(module: str) -> Any:
    """A module of the extra.

    Raises:
        VlaError: it cannot be imported; says what to install.
    """
    try:
        found: ModuleType = importlib.import_module(module)
    except ImportError as error:
        raise VlaError(f"{module} cannot be imported ({error}): {INSTALL}") from error
    return found


def is_installed(module: str) -> bool:
    """Whether a top-level module is there; it is not imported."""
    return importlib.util.find_spec(module) is not None
