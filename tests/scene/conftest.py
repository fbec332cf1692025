"""Files that tests of scenes write."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    """Write a file of init states."""

    def write(data: bytes) -> Path:
        file = tmp_path / "task.pruned_init"
        file.write_bytes(data)
        return file

    return write
