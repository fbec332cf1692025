"""Which device `auto` is."""

import sys
import types
from pathlib import Path

import pytest

from pytest_vla.policies.devices import resolved


def a_torch(*there: str) -> types.ModuleType:
    module = types.ModuleType("torch")
    cuda, mps = (types.SimpleNamespace(is_available=lambda name=name: name in there) for name in ("cuda", "mps"))
    module.cuda, module.backends = cuda, types.SimpleNamespace(mps=mps)  # type: ignore[attr-defined]
    return module


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Linux without torch; gives a folder of devices with none in it."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if not (Path(path) / "torch").exists()])
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("there", "device"), [(("cuda", "mps"), "cuda"), (("cuda",), "cuda"), (("mps",), "mps"), ((), "cpu")]
)
def test_it_is_the_first_that_torch_has(
    there: tuple[str, ...], device: str, no_torch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", a_torch(*there))
    assert resolved("auto", no_torch) == device


def test_a_device_that_is_named_is_taken_as_it_is(no_torch: Path) -> None:
    assert resolved("cuda:1", no_torch) == "cuda:1"


def test_torch_is_imported_only_where_there_may_be_a_device(no_torch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = no_torch / "project"
    project.mkdir()
    (project / "torch.py").write_text(
        "import types\ncuda = types.SimpleNamespace(is_available=lambda: True)\n"
        "backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: False))\n"
    )
    monkeypatch.syspath_prepend(project)
    assert resolved("auto", no_torch) == "cpu"
    assert "torch" not in sys.modules
    (no_torch / "nvidia0").touch()
    assert resolved("auto", no_torch) == "cuda"
    del sys.modules["torch"]
    (project / "torch.py").write_text("raise OSError('libtorch.so is missing')\n")
    assert resolved("auto", no_torch) == "cpu"


def test_without_torch_it_is_what_the_driver_shows(no_torch: Path) -> None:
    assert resolved("auto", no_torch, {}) == "cpu"
    (no_torch / "nvidiactl").touch()
    assert resolved("auto", no_torch, {}) == "cpu"
    (no_torch / "nvidia0").touch()
    assert resolved("auto", no_torch, {}) == "cuda"
    assert resolved("auto", no_torch, {"CUDA_VISIBLE_DEVICES": "1"}) == "cuda"
    assert resolved("auto", no_torch, {"CUDA_VISIBLE_DEVICES": ""}) == "cpu"


# A project's own torch, so that the test needs none.
TORCH = """
from types import SimpleNamespace

cuda = SimpleNamespace(is_available=lambda: False)
backends = SimpleNamespace(mps=SimpleNamespace(is_available=lambda: True))
"""
POLICY = """
import os
import pathlib

import numpy as np

pathlib.Path("told").write_text(os.environ["PYTEST_VLA_DEVICE"])

def policy(episode):
    return lambda observation: np.zeros(7)
"""


@pytest.mark.slow
def test_a_users_own_policy_is_told_the_device(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(torch=TORCH, mine=POLICY)
    pytester.makeconftest("import torch")
    pytester.makepyfile(test_it="def test_it(vla_policy): pass\n")
    for given, told in ((), "mps"), (("--vla-device=cpu",), "cpu"):
        pytester.runpytest_subprocess("test_it.py", "--vla-model=mine:policy", *given).assert_outcomes(passed=1)
        assert (pytester.path / "told").read_text() == told
