"""The policy's process, for tests of what it does; its address is removed after each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vla.serving.process import PolicyAddress, PolicyProcess
from tests.support.policy_processes import ADDRESSES, POLICIES, start
from tests.support.waiting import RUN_OUT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served_policies.py").write_text(POLICIES)
    (tmp_path / "run_out.py").write_text(RUN_OUT)
    return tmp_path


@pytest.fixture
def process(folder: Path) -> Iterator[PolicyProcess]:
    process = start("served_policies:counting", folder, 8)
    yield process
    process.close()
    assert not process.is_alive()


@pytest.fixture(autouse=True)
def addresses() -> Iterator[list[PolicyAddress]]:
    yield ADDRESSES
    while ADDRESSES:
        ADDRESSES.pop().remove()
