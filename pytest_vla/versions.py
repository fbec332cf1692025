"""The software versions behind the numbers: the supported simulators, and the installed packages.

A trajectory depends on MuJoCo's version, and so do pictures and settled init states. Each supported version gives
upstream's numbers under that version, bit for bit. The settled scenes of the first version are those that published
checkpoints were trained and measured on. Every record has the versions that ran. Nothing here imports a simulator.
"""

import ctypes
import importlib.util
import platform
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType

from pytest_vla.errors import VlaError
from pytest_vla.kernels import in_force, libm

SUPPORTED = {"mujoco": ("3.3.7", "3.3.2", "3.2.3", "3.8.1"), "robosuite": ("1.4.0",)}
"""By package, the versions that reproduce upstream's LIBERO bit for bit, the default first."""

DEFAULT = {name: versions[0] for name, versions in SUPPORTED.items()}
"""The pair that published numbers were made on, as far as settled scenes and pictures go."""

LIBERO = "pip install 'pytest-vla[libero]'"
"""The command that installs the pair, and what else LIBERO's scenes need."""

MUJOCO_END = (3, 10)
"""The first MuJoCo whose mj_fullM takes other arguments: the native control step would crash on it."""

MUJOCO_BEGIN = (3, 2)
"""The first MuJoCo that was tried; before 3.0 the Python package lacks what is used."""

_RECORDED = ("pytest-vla", "mujoco", "robosuite", "numpy", "scipy", "numba", "llvmlite")

RECORDED_NAMES = ("python", "platform", *_RECORDED, "blas", "kernels", "libm")
"""Names that `installed_versions` may have, here or on another machine."""


def check_versions(allow: bool = False) -> dict[str, str]:
    """Return the installed versions of the simulator pair, by package name, after checking that they are supported.

    Args:
        allow: accept another version (``--vla-allow-versions``), but none before `MUJOCO_BEGIN` or from `MUJOCO_END`
            on, and never a missing package.

    Raises:
        VlaError: the pair is not supported; with the command that installs a supported one.
    """
    found = {name: installed(name) for name in SUPPORTED}
    if missing := [name for name, v in found.items() if v is None]:
        raise VlaError(
            f"not installed: {', '.join(missing)}. LIBERO's scenes (tabletop, libero_goal, ...) need the extra libero: "
            f"{sys.executable} -m {LIBERO}. It pins {_pins(SUPPORTED)}: if another package here needs other "
            "versions, use a separate environment"
        )
    drivable = MUJOCO_BEGIN <= _major_minor(str(found["mujoco"])) < MUJOCO_END
    wrong = {name: v for name, v in found.items() if v not in SUPPORTED[name]}
    if wrong and not (allow and drivable):
        listed = ", ".join(f"{name} {v}" for name, v in wrong.items())
        first, *others = SUPPORTED["mujoco"]
        pair = f"mujoco {first} (or {', '.join(others)}) with robosuite {DEFAULT['robosuite']}"
        message = f"found {listed}; supported is {pair}. Install it: {sys.executable} -m pip install {_pins(wrong)}"
        if drivable:
            message += "; or run with --vla-allow-versions: physics and pictures are not verified against upstream's"
        else:
            begin, end = (".".join(map(str, bound)) for bound in (MUJOCO_BEGIN, MUJOCO_END))
            message += f" (--vla-allow-versions does not help: it takes mujoco from {begin} on and before {end})"
        raise VlaError(f"{message}.")
    return {name: str(v) for name, v in found.items()}


def _pins(names: Iterable[str]) -> str:
    return " ".join(f"{name}=={DEFAULT[name]}" for name in names)


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def forward_warms(mujoco: str) -> bool:
    """Whether this version's ``mj_forward`` changes the start of the next constraint solve: true before 3.3.6."""
    return tuple(int(part) for part in mujoco.split(".")[:3]) < (3, 3, 6)


def installed_versions() -> dict[str, str]:
    """Return this machine's software for records, by name: interpreter, platform, packages, BLAS kernels.

    `blas` is there if numpy and scipy bring OpenBLAS with them: another kernel rounds differently; `kernels` tells
    whether they are pinned, and `libm` is the library of mathematical functions, if it is known. Packages that are not
    installed are left out.
    """
    packages = {name: found for name in _RECORDED if (found := installed(name)) is not None}
    kernels = ", ".join(f"{name} {kernel}" for name in ("numpy", "scipy") if (kernel := _openblas_kernel(name)))
    blas = {"blas": kernels} if kernels else {}
    arithmetic = {**blas, "kernels": in_force(), **({"libm": libm()} if libm() else {})}
    return {"python": platform.python_version(), "platform": platform.platform(), **packages, **arithmetic}


@cache
def recorded_versions() -> Mapping[str, str]:
    """Return `installed_versions` as every record of this process has them: the first result."""
    return MappingProxyType(installed_versions())


def installed(name: str) -> str | None:
    """Return the version of an installed package, or None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _openblas_kernel(package: str) -> str | None:
    """Return the kernel of a package's own OpenBLAS on this CPU, such as ``SkylakeX``, or None if it has none."""
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
