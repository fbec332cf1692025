"""Whether the native step has to be compiled, which takes long."""

import os
from pathlib import Path

import pytest

from pytest_vla.sim import native


class Stats:
    def __init__(self, cache_path: Path | None) -> None:
        self.cache_path = cache_path


class Step:
    def __init__(self, cache_path: Path | None) -> None:
        self.stats = Stats(cache_path)


def test_it_is_known_before_whether_it_will_be_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "control_step", Step(tmp_path))
    assert not native.is_compiled()
    index = tmp_path / "native.control_step-37.py311.nbi"
    index.touch()
    assert native.is_compiled()
    os.utime(index, (0, 0))
    assert not native.is_compiled(), "the source is newer"
    monkeypatch.setattr(native, "control_step", Step(None))
    assert not native.is_compiled(), "nothing is cached"
