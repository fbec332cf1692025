"""Kernels are pinned where episodes are asked for and before numpy is imported, and the record says so."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vla import kernels
from pytest_vla.kernels import KERNELS, NATIVE, PINNED, TOO_LATE

VARIABLES = ("OPENBLAS_CORETYPE", "OPENBLAS_NUM_THREADS", "NPY_DISABLE_CPU_FEATURES")
BLAS = {"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}
can_pin = pytest.mark.skipif(not kernels._pins(), reason="this is no x86-64 processor with AVX2 under Linux")


@pytest.fixture(autouse=True)
def _unpinned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a user's shell; our own tests run with pinned kernels."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(kernels, "_in_force", NATIVE)
    yield
    for name in VARIABLES:
        os.environ.pop(name, None)


def printed(code: str, **environ: str) -> str:
    """What a Python of its own prints."""
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, check=True).stdout.strip()


REPORT = "print(kernels.in_force(), '|', installed_versions()['blas'], '|', 'numpy' in sys.modules)"
BEGIN = "import sys; from pytest_vla import kernels; from pytest_vla.versions import installed_versions\n"


@can_pin
def test_pinned_before_numpy() -> None:
    assert printed(f"{BEGIN}kernels.pin(); {REPORT}") == "pinned | numpy Haswell, scipy Haswell | False"


@can_pin
def test_how_many_processors_there_are_changes_no_bit() -> None:
    """Of large matrices, whose sums OpenBLAS would split among them."""
    code = (
        "import hashlib, os\nos.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{most}])\n"
        f"{BEGIN}kernels.pin()\nimport numpy as np\nrng = np.random.default_rng(0)\n"
        "a, b = (rng.normal(size=size).astype(np.float32) for size in ((1024, 1200), (1200, 256)))\n"
        "print(hashlib.sha256((a @ b).tobytes() + (b.T @ a.T).tobytes() + (a[0] @ b).tobytes()).hexdigest())"
    )
    assert printed(code.replace("{most}", "1")) == printed(code.replace("{most}", "64"))


@can_pin
def test_numpy_knows_every_name_that_it_is_given() -> None:
    """A name that it does not know is a warning, which is an error here."""
    code = f"{BEGIN}kernels.pin(); import numpy; from numpy._core._multiarray_umath import __cpu_features__ as has\n"
    assert printed(f"{code}print(any(on for name, on in has.items() if name in ('X86_V4', 'AVX512_SKX')))") == "False"


@can_pin
def test_too_late_is_told_and_children_are_pinned() -> None:
    code = (
        f"import os, subprocess\n{BEGIN}import numpy; kernels.pin(); print(kernels.in_force())\n"
        f"print(subprocess.check_output([sys.executable, '-c', {(BEGIN + 'kernels.pin(); ' + REPORT)!r}], text=True))"
    )
    first, *rest = printed(code).splitlines()
    assert first == TOO_LATE
    assert rest[0] == "pinned | numpy Haswell, scipy Haswell | False"


@can_pin
def test_what_the_user_has_set_stands() -> None:
    said = printed(f"{BEGIN}kernels.pin(); {REPORT}", OPENBLAS_CORETYPE="Sandybridge")
    assert said == "native: OPENBLAS_CORETYPE=Sandybridge | numpy Sandybridge, scipy Sandybridge | False"


@can_pin
def test_one_that_was_pinned_by_its_parent_is_pinned_though_numpy_is_there() -> None:
    assert printed(f"{BEGIN}import numpy; kernels.pin(); print(kernels.in_force())", **kernels._pins()) == PINNED


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor: 0\nflags\t\t: fpu avx2 fma\nflags\t\t: other\n", {"fpu", "avx2", "fma"}),
        ("Features : asimd\n", set()),
        ("", set()),
    ],
)
def test_processor_flags(text: str, expected: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    (tmp_path / "cpuinfo").write_text(text)
    assert kernels._processor_flags(tmp_path / "cpuinfo") == expected
    assert kernels._processor_flags(tmp_path / "missing") == frozenset()
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert kernels._processor_flags(tmp_path / "cpuinfo") == frozenset()


@pytest.mark.parametrize("flags", [{"avx2"}, {"sse2", "fma"}, set()])
def test_nothing_is_pinned_on_a_processor_without_avx2(flags: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_processor_flags", lambda: frozenset(flags))
    kernels.pin()
    assert kernels.in_force() == NATIVE
    assert not set(VARIABLES) & set(os.environ)


@pytest.mark.parametrize(
    ("installed", "beyond"),
    [
        ("2.0.2", "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"),
        ("2.3.5", "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR"),
        ("2.10.0", "X86_V4 AVX512_ICL AVX512_SPR"),
    ],
)
def test_numpys_names_are_those_of_its_version(installed: str, beyond: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "version", lambda name: installed)
    monkeypatch.setattr(kernels, "_processor_flags", lambda: frozenset({"avx2", "fma", "avx512f"}))
    assert kernels._pins() == {**BLAS, "NPY_DISABLE_CPU_FEATURES": beyond}
    monkeypatch.setattr(kernels, "_processor_flags", lambda: frozenset({"avx2", "fma"}))
    assert kernels._pins() == BLAS


def test_there_are_two_ways() -> None:
    assert KERNELS == (PINNED, NATIVE) == ("pinned", "native")
