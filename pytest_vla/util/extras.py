"""Optional packages: imported on demand, with an install hint if they are missing."""

import importlib
import importlib.util
from types import ModuleType
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.versions import DEFAULT, LIBERO

INSTALL = "pip install 'pytest-vla[language]'"

PICTURES = "pip install 'pytest-vla[pictures]'"
"""Where LIBERO's simulator is not installed: numba and OpenCV, for variations of pictures and textures."""

_EXTRAS = {**dict.fromkeys(("mujoco", "robosuite", "termcolor", "numba", "llvmlite"), LIBERO), "cv2": PICTURES}


def required(module: str, install: str = INSTALL) -> Any:
    """Import and return a module of an extra.

    Args:
        module: the module's name.
        install: the command that installs it; by default that of the extra ``language``.

    Raises:
        VlaError: it cannot be imported; the message has the command.
    """
    try:
        found: ModuleType = importlib.import_module(module)
    except ImportError as error:
        raise VlaError(f"{module} cannot be imported ({error}): {install}") from error
    return found


def is_installed(module: str) -> bool:
    """Whether a top-level module is installed; it is not imported."""
    return importlib.util.find_spec(module) is not None


def extra_of(error: ImportError) -> str | None:
    """Return the command that installs a missing module of LIBERO's simulator, or None for any other failed import."""
    return _EXTRAS.get((error.name or "").partition(".")[0]) if isinstance(error, ModuleNotFoundError) else None


# What to install if an import fails: a package, or the system libraries behind an installed one.

DEBIAN = "apt-get install libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri libosmesa6 libglib2.0-0 libxcb1"

FEDORA = "dnf install libglvnd-egl libglvnd-glx libglvnd-opengl mesa-libEGL mesa-dri-drivers glib2 libxcb"
"""The packages behind EGL and OSMesa, and libglib and libxcb, which robosuite's opencv-python loads."""

_PACKAGES = {"PIL": "pillow", "cv2": "opencv-python"}


def what_to_install(error: ImportError) -> str:
    """Return what fixes a failed import, as a sentence without its full stop."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        module, dot, _ = error.name.partition(".")
        package = _PACKAGES.get(module, module)
        pin = f"=={DEFAULT[package]}" if package in DEFAULT else ""
        # A part of an installed package is missing.
        return f"pip install {'--force-reinstall ' if dot else ''}{package}{pin}"
    return f"Where a system library is missing: {DEBIAN} (Fedora: {FEDORA})"
