"""The other supported versions of MuJoCo, first in PYTHONPATH of tests that run anew: goldens, and upstream live."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vla.kernels import _processor_flags
from pytest_vla.versions import SUPPORTED
from tests.support.data import REPOSITORY, needs_data
from tests.support.reference import ARENA_PYTHON, PYTHON
from tests.support.traces import KERNELS, MUJOCO

pytestmark = [pytest.mark.slow, needs_data]

OTHERS = [version for version in SUPPORTED["mujoco"] if version != MUJOCO]
# Upstream is run beside us under those that people meet; 3.2.3 has the forwards of 3.3.2.
LIVE = [version for version in OTHERS if version != "3.2.3"]


def under(version: str, *arguments: str, kernels: str = "Haswell") -> str:
    """What pytest prints of these tests under another version; fails where one of them does not pass.

    Args:
        version: of MuJoCo.
        kernels: with which numbers are multiplied, where the processor has them.
    """
    folder = REPOSITORY / ".simulators" / version
    if not folder.is_dir():
        pytest.skip(f"mujoco {version} is not there (python scripts/simulators.py), or has no wheel for this Python")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), str(REPOSITORY)])}
    # Made with the kernels of AVX-512; elsewhere those traces are compared within rounding.
    if kernels != "Haswell" and "avx512f" in _processor_flags():
        environment |= {"OPENBLAS_CORETYPE": kernels, "NPY_DISABLE_CPU_FEATURES": ""}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--no-header", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("version", OTHERS)
def test_goldens(version: str) -> None:
    """Traces, frames, and (3.8.1) every array of a compiled model, of that version."""
    tests = ["tests/parity/test_golden_traces.py", "tests/sim/test_world.py::test_restore_continues_exactly"]
    if version == "3.8.1":
        tests.append("tests/parity/test_golden_models.py")
    printed = under(version, *tests, kernels=KERNELS[version])
    assert printed.count("PASSED tests/parity/test_golden_traces.py::test_trace_repeats_bit_for_bit[libero") >= 2
    assert printed.count("SKIPPED") == (1 if version == "3.8.1" else 0), "two traces of 3.3.2 lie elsewhere under 3.8.1"


@pytest.mark.parametrize(
    ("version", "kernels", "traces", "count"),
    [("3.8.1", "SkylakeX", "traces/", 24), ("3.8.1", "Haswell", "cost_traces/", 8), ("3.3.2", "Haswell", "traces_", 4)],
)
def test_arena_goldens(version: str, kernels: str, traces: str, count: int) -> None:
    """VLA-Arena's traces of that version, each with the kernels that it was made with."""
    printed = under(version, "tests/parity/test_arena_traces.py", "-k", f"repeats and {traces}", kernels=kernels)
    assert printed.count("PASSED tests/parity/test_arena_traces.py::test_trace_repeats") == count


@pytest.mark.parametrize(
    ("version", "kernels", "traces", "count"),
    [("3.8.1", "SkylakeX", "traces/", 24), ("3.8.1", "Haswell", "cost_traces/", 8), ("3.3.2", "Haswell", "traces_", 4)],
)
def test_arena_costs(version: str, kernels: str, traces: str, count: int) -> None:
    """Every verdict and charge of VLA-Arena's traces of that version, each with the kernels that it was made with."""
    printed = under(version, "tests/parity/test_arena_costs.py", "-k", f"charged and {traces}", kernels=kernels)
    assert printed.count("PASSED tests/parity/test_arena_costs.py::test_every_step") == count


@pytest.mark.study  # Its goldens, above, are in CI; and upstream live under the first version (test_live.py).
@pytest.mark.parametrize("version", LIVE)
def test_upstream_live(version: str) -> None:
    """Whole episodes, and a quarter of the scenes."""
    if not Path(PYTHON).exists():
        pytest.skip("upstream's environment is not made: make reference")
    printed = under(version, "tests/parity/test_live.py", "-k", "episodes or scenes and 0", kernels=KERNELS[version])
    assert printed.count("PASSED tests/parity/test_live.py") == 2


@pytest.mark.study
@pytest.mark.parametrize("version", LIVE)
def test_upstream_arena_live(version: str) -> None:
    """Whole episodes of VLA-Arena."""
    if not Path(ARENA_PYTHON).exists():
        pytest.skip("VLA-Arena's environment is not made: make arena")
    printed = under(version, "tests/parity/test_arena_live.py")
    assert printed.count("PASSED tests/parity/test_arena_live.py") == 1
