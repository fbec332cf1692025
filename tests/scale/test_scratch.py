"""Temporary folders of hosts."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from pytest_vla.scale.ray_hosts import Scratch
from tests.support.waiting import until


def test_it_goes_when_it_is_removed() -> None:
    scratch = Scratch()
    (scratch.path / "file").write_text("anything")
    scratch.remove()
    assert not scratch.path.exists()


def test_it_goes_when_its_process_is_killed_with_its_group() -> None:
    program = "\n".join(
        (
            "import time",
            "from pytest_vla.scale.ray_hosts import Scratch",
            "print(Scratch().path, flush=True)",
            "time.sleep(9e9)",
        )
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    with process.stdout as told:
        path = Path(told.readline().strip())
        assert path.is_dir()
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    until(lambda: not path.exists())
