"""Looking at other processes."""

import signal
import subprocess
import sys
import types

import pytest

from pytest_vla.util import processes
from pytest_vla.util.processes import MOST_OF_A_LOOK, ObservedTime, is_stopped
from tests.support.waiting import until


def test_a_late_look_is_not_held_against_others(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((10.0, 10.5, 3610.0, 3610.0))
    monkeypatch.setattr(processes, "time", types.SimpleNamespace(monotonic=lambda: next(times)))
    patience = ObservedTime()
    assert [patience.passed() for _ in range(3)] == [0.5, MOST_OF_A_LOOK, 0.0]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_whether_a_process_is_stopped() -> None:
    process = subprocess.Popen(["sleep", "7200"])
    try:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        until(lambda: is_stopped(process.pid))
        process.send_signal(signal.SIGCONT)
        until(lambda: not is_stopped(process.pid))
    finally:
        process.kill()
        process.wait()
    assert not is_stopped(process.pid)
