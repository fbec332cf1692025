"""Upstream in a process of its own, so that both sides are timed in turn on the same machine in the same minutes.

Also what all benchmarks share: where LIBERO's data is, the machine in words, tables.
"""

import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pytest_vla.plan.data_roots import data_roots

REPOSITORY = Path(__file__).resolve().parents[1]
PYTHON = REPOSITORY / ".venv-ref" / "bin" / "python"


def libero_data() -> Path:
    """The folder with LIBERO's assets, task files and init states; exits with a hint where there is none."""
    beside = REPOSITORY.parent / "shared" / "data"
    if "PYTEST_VLA_DATA" not in os.environ and beside.is_dir():
        os.environ["PYTEST_VLA_DATA"] = str(beside)
    for root in data_roots():
        if root.suite is None and root.assets and root.bddl_files and root.init_files:
            return root.assets.parent
    sys.exit("benchmarks need LIBERO's data: set PYTEST_VLA_DATA")


class Upstream:
    """A worker of upstream_worker.py; `upstream("steps", n=20)` answers with its number."""

    def __init__(self) -> None:
        if not PYTHON.exists():
            sys.exit("benchmarks compare with upstream, whose environment is not made yet: make reference")
        data = libero_data()
        self._folder = tempfile.TemporaryDirectory()
        # Without this file LIBERO's import asks on standard input.
        names = {"benchmark_root": "", "bddl_files": "bddl_files", "init_states": "init_files", "assets": "assets"}
        config = "".join(f"{key}: {data / name}\n" for key, name in names.items()) + f"datasets: {data}\n"
        (Path(self._folder.name) / "config.yaml").write_text(config)
        self._process = subprocess.Popen(
            [PYTHON, Path(__file__).with_name("upstream_worker.py")],
            env={"MUJOCO_GL": "egl"} | os.environ | {"LIBERO_CONFIG_PATH": self._folder.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, do: str, **arguments: Any) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            sys.exit(f"upstream's process died at {do!r} (exit code {self._process.wait()})")
        return float(json.loads(answer))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._folder.cleanup()


def side_by_side(work: Callable[..., None], arguments: Sequence[tuple[Any, ...]], parties: int = 0) -> list[Any]:
    """What processes tell that work at once, each given its arguments, a barrier (of so many), and a queue."""
    spawn = multiprocessing.get_context("spawn")
    barrier, told = spawn.Barrier(parties or len(arguments)), spawn.Queue()
    processes = [spawn.Process(target=work, args=(*each, barrier, told)) for each in arguments]
    for process in processes:
        process.start()
    found = [told.get() for _ in processes]
    for process in processes:
        process.join()
    return found


def resident_bytes() -> int:
    """This process's resident memory (Linux)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def table(title: str, rows: list[tuple[str, ...]]) -> None:
    """Print rows in columns, the first row being the header."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    print(f"\n{title}")
    for number, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))


NO_GPU = "no GPU here"


@cache
def gpu() -> str | None:
    """The name of the first GPU that NVIDIA's driver or torch knows; None: there is none."""
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        ended = subprocess.run(asked, capture_output=True, text=True, check=False)
        if not ended.returncode and ended.stdout.strip():
            return ended.stdout.splitlines()[0].strip()
    try:
        import torch
    except ImportError:
        return None
    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None


def processor() -> str:
    """The processor's name, as the system tells it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def machine() -> str:
    """Cores, processor, GPU or none, and Python."""
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({processor()}), {gpu() or NO_GPU}, Python {platform.python_version()}"
