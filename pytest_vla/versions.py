"""Which versions make the numbers: the supported simulator pair, and what is installed here.

A trajectory depends on MuJoCo's version (another one is up to 0.9 off after 100 steps), so the pair that LIBERO's
published package runs on is the supported one, and every record carries what ran. Nothing here imports a simulator.
"""

import ctypes
import importlib.util
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_vla.errors import VlaError

SUPPORTED = {"mujoco": "3.3.7", "robosuite": "1.4.0"}
"""The pair that reproduces upstream's LIBERO bit for bit."""

MUJOCO_END = (3, 10)
"""The first MuJoCo whose mj_fullM takes other arguments: the native control step would crash on it."""

_RECORDED = ("pytest-vla", "mujoco", "robosuite", "numpy", "scipy", "numba", "llvmlite")


def check_versions(allow: bool = False) -> dict[str, str]:
    """The installed versions of the simulator pair, by package name.

    `allow` accepts another version (`--vla-allow-versions`), but none from `MUJOCO_END` on, and never a missing
    package. Raises VlaError.
    """
    found = {name: _installed(name) for name in SUPPORTED}
    drivable = None not in found.values() and _major_minor(str(found["mujoco"])) < MUJOCO_END
    wrong = {name: v for name, v in found.items() if v != SUPPORTED[name]}
    if wrong and not (allow and drivable):
        listed = ", ".join(f"{name} {v}" if v else f"no {name}" for name, v in wrong.items())
        pins = " ".join(f"{name}=={SUPPORTED[name]}" for name in wrong)
        pair = " with ".join(f"{name} {v}" for name, v in SUPPORTED.items())
        message = f"found {listed}; supported is {pair}. Install it: {sys.executable} -m pip install {pins}"
        if drivable:
            message += "; or run with --vla-allow-versions: physics and pictures are then not upstream's"
        elif None not in found.values():
            end = ".".join(map(str, MUJOCO_END))
            message += f" (--vla-allow-versions does not help: from mujoco {end} on its functions take other arguments)"
        raise VlaError(f"{message}.")
    return {name: str(v) for name, v in found.items()}


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def installed_versions() -> dict[str, str]:
    """What a record carries of this machine's software, by name: interpreter, platform, packages, BLAS kernels.

    `blas` is there where numpy and scipy bring OpenBLAS with them: another kernel (it follows the CPU) rounds
    differently. Packages that are not installed are left out.
    """
    packages = {name: found for name in _RECORDED if (found := _installed(name)) is not None}
    kernels = ", ".join(f"{name} {kernel}" for name in ("numpy", "scipy") if (kernel := _openblas_kernel(name)))
    blas = {"blas": kernels} if kernels else {}
    return {"python": platform.python_version(), "platform": platform.platform(), **packages, **blas}


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _openblas_kernel(package: str) -> str | None:
    """The kernel that a package's own OpenBLAS chose for this CPU, such as ``SkylakeX``; None where it has none."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent
    # Wheels keep their libraries beside the package on Linux and Windows, within it on macOS.
    folders = (home.with_name(f"{package}.libs"), home / ".dylibs")
    for file in (file for folder in folders for file in sorted(folder.glob("*openblas*"))):
        try:
            library = ctypes.CDLL(str(file))
        except OSError:
            continue
        for prefix in ("scipy_", ""):
            for suffix in ("64_", ""):
                function = getattr(library, f"{prefix}openblas_get_corename{suffix}", None)
                if function is not None:
                    function.restype = ctypes.c_char_p
                    return str(function().decode())
    return None
