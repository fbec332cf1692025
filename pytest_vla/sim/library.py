"""MuJoCo's shared library: where it lies, and what of it the Python package does not offer in every version."""

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

import mujoco

from pytest_vla.errors import VlaError


def library_file() -> Path:
    """MuJoCo's shared library, beside its Python package. Raises VlaError where it is missing."""
    folder = Path(mujoco.__file__).parent
    patterns = {"darwin": "libmujoco*.dylib", "win32": "mujoco.dll"}
    found = sorted(folder.glob(patterns.get(sys.platform, "libmujoco.so*")))
    if not found:
        raise VlaError(f"{folder}: MuJoCo's shared library is missing; reinstall the package: pip install mujoco")
    return found[0]


def copy_data(target: mujoco.MjData, model: mujoco.MjModel, source: mujoco.MjData) -> None:
    """Makes `target` equal to `source`, in place; both belong to `model`.

    `mujoco.mj_copyData` is not in the package before 3.4.
    """
    _copy_data()(target._address, model._address, source._address)


@cache
def _copy_data() -> Any:
    function = ctypes.CDLL(str(library_file())).mj_copyData
    function.argtypes = [ctypes.c_void_p] * 3
    function.restype = ctypes.c_void_p
    return function
