"""Where a run's files lie."""

import os
import time
from pathlib import Path

import pytest

RUN = pytest.StashKey[Path]()
"""The run's folder; made when the first episode has ended."""


def new_run_name() -> str:
    """The name of a new run: the local time, with a suffix that keeps runs of one second apart."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
