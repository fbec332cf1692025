"""``pytest-vla cache``: shows, empties or fills this machine's cache of compiled scenes and machine code."""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pytest_vla.entries import Command
from pytest_vla.plan.manifests import Suite, load_suite
from pytest_vla.scene.cache import clear, evict, held, scene_folder
from pytest_vla.util import machine_code
from pytest_vla.util.files import cache_limit
from pytest_vla.util.text import counted

WITH_CODE = (
    "pytest_vla.sim.native",
    "pytest_vla.sim.robosuite_control",
    "pytest_vla.vary.effects.pictures",
    "pytest_vla.metrics.dtw_kernel",
)
"""The modules whose functions are kept as machine code."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "The cache is in PYTEST_VLA_CACHE, or in $XDG_CACHE_HOME/pytest-vla, or in ~/.cache/pytest-vla. "
        "PYTEST_VLA_CACHE_LIMIT limits the size of the scenes, such as 20GB (default: 5GB). Missing scenes and machine "
        "code are compiled on first use, once on a machine. Use --compile to do so in advance, for example in a "
        "container's image."
    )
    do = parser.add_mutually_exclusive_group()
    do.add_argument("--clear", action="store_true", help="remove all compiled scenes and machine code")
    do.add_argument("--trim", action="store_true", help="remove the least recently used scenes beyond the limit")
    do.add_argument(
        "--compile", nargs="*", metavar="SUITE", help="compile missing machine code, and the scenes of these suites"
    )


def run(options: argparse.Namespace) -> None:
    """Show, empty or fill the cache.

    Raises:
        VlaError: the limit cannot be understood, there is no such suite, its data is missing, or the cache cannot be
            written.
    """
    folder, limit = scene_folder(), cache_limit()
    if options.clear:
        print(f"{folder}: removed {(clear(folder) + machine_code.clear()) / 1e6:.0f} MB")
        return
    if options.trim:
        evict(folder, limit)
    if options.compile is not None:
        suites = [load_suite(name) for name in options.compile]
        _fill("machine code", "function", compile_code)
        for suite in suites:
            _fill(suite.name, "scene", partial(compile_scenes, suite))
    number, size = held(folder)
    print(f"{folder}: {counted(number, 'scene')}, {size / 1e6:.0f} MB of at most {limit / 1e6:.0f} MB")
    # Printed because it differs from the requested folder if that is not writable, and an image would lack the code.
    for place, (number, size) in (machine_code.held() or {folder: (0, 0)}).items():
        print(f"{place}: machine code of {counted(number, 'function')}, {size / 1e6:.1f} MB")


def _fill(name: str, thing: str, compile_all: Callable[[], int]) -> None:
    began = time.monotonic()
    print(f"{name}: ", end="", flush=True)
    number = compile_all()
    print(f"{counted(number, thing)} in {time.monotonic() - began:.1f} s")


def compile_code() -> int:
    """Compile all machine code that is neither shipped nor cached; return the number of compiled functions that exist.

    Raises:
        VlaError: some function cannot be compiled.
    """
    codes = _all_code()
    machine_code.require(codes)
    return len(codes)


def ship_code(folder: Path) -> None:
    """Copy all machine code into a folder of the wheel that is built. Raises VlaError if some cannot be compiled."""
    machine_code.ship(_all_code(), folder)


def compile_scenes(suite: Suite) -> int:
    """Compile those scenes of a suite's tasks that are not cached; return the number of distinct scenes.

    Raises:
        VlaError: data is missing, or a scene cannot be compiled.
    """
    from pytest_vla.plan.data_roots import task_roots
    from pytest_vla.scene.cache import compiled_scene, scene_key
    from pytest_vla.scene.problem import read_problem
    from pytest_vla.sim.gl import select_gl

    select_gl()
    done: set[str] = set()
    for task in suite.tasks:
        roots = task_roots(task)
        problem = read_problem(task, roots)
        if (key := scene_key(problem)) not in done:
            compiled_scene(problem, roots)
            done.add(key)
    return len(done)


def _all_code() -> tuple[machine_code.MachineCode, ...]:
    from pytest_vla.sim.gl import select_gl

    # MuJoCo chooses its OpenGL when it is imported, by the step's module.
    select_gl()
    return tuple(code for module in WITH_CODE for code in machine_code.codes_of(module))


COMMAND = Command(declare, run)
