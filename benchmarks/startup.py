"""What the plugin costs a project that has it and does not use it; and how soon a process makes its first step.

    python benchmarks/startup.py
    python benchmarks/startup.py --worlds 1 8 32 [--suite=tabletop]

The first runs ``pytest --collect-only`` in pairs, with the plugin and with ``-p no:vla``, and prints the least
processor time of each and their difference: what is least is what nothing else on the machine has disturbed. Wanted:
under 50 ms.

The second starts so many processes at once, each of which imports pytest-vla, opens a world, resets it and makes one
step. With ``empty`` caches nothing is compiled and nothing is shipped; with ``code`` machine code is there, as in a
wheel that ships it or after ``pytest-vla cache --compile``, and the scene is not; ``warm`` has both. Wanted: ``code``
within 3 times ``warm``, for any number at once. Where cores are fewer than processes, times are long and ratios tell.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from upstream import table

PAIRS = 20
WITHOUT = ("-p", "no:vla")

FIRST_STEP = """
import sys, time
import numpy as np
import pytest_vla.sim.world
from pytest_vla import World, load_suite
from pytest_vla.util import machine_code
# Of a checkout in which tests were run.
machine_code.SHIPPED = machine_code.Path("/nowhere")
task = load_suite(sys.argv[1]).tasks[0]
begin = time.perf_counter()
world = World(task)
opened = time.perf_counter()
world.reset(0)
world.step(np.full(7, 0.1))
print(opened - begin, time.perf_counter() - begin)
"""
"""Print the seconds of a world's opening, and those until it has made a step; the imports are not in them."""


def processor_seconds(folder: Path, *arguments: str) -> float:
    """User and system time of one ``pytest --collect-only``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments]
    # Compiled modules are kept, as they are everywhere but where somebody forbids it.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def foreign_project() -> None:
    """Print the least processor time of each, and the difference."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_foreign.py").write_text("def test_one():\n    pass\n")
        # Once for the compiled modules.
        processor_seconds(folder)
        pairs = [(processor_seconds(folder), processor_seconds(folder, *WITHOUT)) for _ in range(PAIRS)]
    used, unused = (1000 * min(column) for column in zip(*pairs, strict=True))
    print(f"pytest --collect-only: {unused:.0f} ms without the plugin, {used:.0f} ms with it: {used - unused:+.0f} ms")


def at_once(number: int, suite: str, folder: Path) -> tuple[float, float, float]:
    """Seconds until the last of so many processes has ended; the longest opening of a world, and to its first step."""
    environ = os.environ | {"PYTEST_VLA_CACHE": str(folder / "cache"), "NUMBA_CACHE_DIR": str(folder / "numba")}
    begin = time.perf_counter()
    processes = [
        subprocess.Popen([sys.executable, "-c", FIRST_STEP, suite], env=environ, stdout=subprocess.PIPE, text=True)
        for _ in range(number)
    ]
    said = [process.communicate()[0].split() for process in processes]
    whole = time.perf_counter() - begin
    assert not any(process.returncode for process in processes)
    return whole, max(float(opened) for opened, _ in said), max(float(stepped) for _, stepped in said)


def first_steps(numbers: Sequence[int], suite: str) -> None:
    """Print a row for each number of processes and each state of the caches."""
    rows = [("at once", "caches", "World, s", "first step, s", "process, s", "World : warm", "process : warm")]
    with tempfile.TemporaryDirectory() as name:
        # Once for Python's compiled modules and the files that are read.
        at_once(1, suite, Path(name))
    for number in numbers:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found = {"empty": at_once(number, suite, folder)}
            kept = folder / "cache" / "machine_code"
            if kept.is_dir():
                kept.rename(folder / "kept")
                shutil.rmtree(folder / "cache")
                (folder / "cache").mkdir()
                (folder / "kept").rename(kept)
                found["code"] = at_once(number, suite, folder)
            found["warm"] = min(at_once(number, suite, folder) for _ in range(2))
        for state, times in found.items():
            seconds = (f"{each:.1f}" for each in (times[1], times[2], times[0]))
            ratios = (f"{times[place] / found['warm'][place]:.1f}" for place in (1, 0))
            rows.append((str(number), state, *seconds, *ratios))
    table(f"the first control step of {suite}, {os.cpu_count()} cores", rows)


def main() -> None:
    """Print one or the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--worlds", nargs="+", type=int, metavar="N", help="the first step of so many processes at once"
    )
    parser.add_argument("--suite", default="tabletop")
    options = parser.parse_args()
    if options.worlds:
        first_steps(options.worlds, options.suite)
    else:
        foreign_project()


if __name__ == "__main__":
    main()
