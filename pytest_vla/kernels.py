"""The machine code of the arithmetic, pinned so that equal actions give equal records on every x86-64 machine.

OpenBLAS (numpy's and scipy's, which the controller's matrices go through) chooses its kernels by the processor, and
AVX-512 kernels round differently from AVX2 kernels. It splits the sums of large matrices among as many threads as there
are processors, which changes the rounding too. numpy has its own transcendental functions for AVX-512, which variations
draw with. When pinned, all machines with AVX2 use the kernels of machines without AVX-512. numba's code does not depend
on its target, since LLVM neither reorders nor fuses here, and MuJoCo's wheel is compiled for one. Only libm remains,
whose version is in records. Nothing here imports numpy.
"""

import os
import platform
import shlex
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

PINNED, NATIVE = KERNELS = ("pinned", "native")
"""What ``--vla-kernels`` may say."""

TOO_LATE = "native: numpy was imported first"
"""In a record, where kernels were to be pinned and could not be."""

# Sums are split among threads, of which there are as many as processors.
_BLAS = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
# What of numpy's dispatch is beyond AVX2, by the first version; a name that a version does not know is a warning.
_NUMPY = (
    ((2, 4), "X86_V4 AVX512_ICL AVX512_SPR"),
    ((2, 3), "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"),
    ((2, 0), "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"),
)
_in_force = NATIVE


def pin() -> None:
    """Pin the kernels of this process and its child processes, as far as possible; `in_force` returns the result.

    It works on x86-64 processors with AVX2, under Linux, before numpy is imported. Variables that the user has set are
    kept.
    """
    global _in_force
    pins = _pins()
    if not pins or _in_force == PINNED:
        return
    # Whoever set them before us set them before numpy was imported.
    inherited = all(os.environ.get(name) == value for name, value in pins.items())
    for name, value in pins.items():
        os.environ.setdefault(name, value)
    others = [f"{name}={os.environ[name]}" for name, value in pins.items() if os.environ[name] != value]
    if others:
        _in_force = f"{NATIVE}: {', '.join(others)}"
    elif "numpy" in sys.modules and not inherited:
        _in_force = TOO_LATE
    else:
        _in_force = PINNED


def pinned_processes(most: int) -> "ProcessPoolExecutor":
    """Return a pool of processes with pinned kernels: one per processor, at most `most`."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pin()
    return ProcessPoolExecutor(max(1, min(processors(), most)), mp_context=get_context("spawn"))


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def how_to_pin() -> str:
    """Return the variables to put before a command if numpy is imported before `pin` can be called."""
    return " ".join(f"{name}={shlex.quote(value)}" for name, value in _pins().items())


def in_force() -> str:
    """Return the kernels of this process for records: `PINNED`, `NATIVE`, or why they are not pinned."""
    return _in_force


@cache
def libm() -> str:
    """Return the library of mathematical functions, such as ``glibc 2.36``; empty if it is not known."""
    return " ".join(platform.libc_ver()).strip()


def _pins() -> dict[str, str]:
    """Return the variables that pin the kernels on this machine; empty if they cannot be pinned."""
    flags = _processor_flags()
    if not {"avx2", "fma"} <= flags:
        return {}
    if "avx512f" not in flags:
        return dict(_BLAS)
    try:
        installed = tuple(int(part) for part in version("numpy").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return dict(_BLAS)
    beyond = next((names for beginning, names in _NUMPY if installed >= beginning), "")
    return _BLAS | ({"NPY_DISABLE_CPU_FEATURES": beyond} if beyond else {})


def _processor_flags(file: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the flags of an x86-64 processor under Linux, as in ``/proc/cpuinfo``; empty on other machines."""
    if platform.machine() not in ("x86_64", "AMD64") or not sys.platform.startswith("linux"):
        return frozenset()
    try:
        with file.open(encoding="ascii", errors="replace") as lines:
            found = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return frozenset()
    return frozenset(found.partition(":")[2].split())
