"""A process that hangs in native code ends, and tells where it hung."""

import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from pytest_vla.util import wall_limits as limits
from pytest_vla.util.wall_limits import hang_log, hard_limit, hung_place, hung_traceback, is_users_own
from tests.support.waiting import HANG, LIMITS

LONG = HANG
"""Seconds that no test reaches unless what it tests is broken."""

HANGS = {
    # The calling thread already has the lock: it waits for itself, and no signal wakes it.
    "with_the_gil": "lock(ctypes.PyDLL(None))",
    "without_the_gil": "lock(ctypes.CDLL(None))",
    "asleep_with_the_gil": "begun(); ctypes.PyDLL(None).sleep(5000)",
    "with_a_thread_beside_it": "threading.Thread(target=beside, daemon=True).start(); lock(ctypes.PyDLL(None))",
}


def _hang(folder: Path, how: str, limit: str) -> "subprocess.CompletedProcess[bytes]":
    """A process that has come as far as a hang of `HANGS`; `limit` is its code, with SECONDS for how long it has."""
    for seconds in LIMITS:
        result = _run(folder, how, limit.replace("SECONDS", str(seconds)))
        if (folder / "begun").exists():
            return result
    raise AssertionError(f"it does not come to its hang: {result}")


def _run(folder: Path, how: str, limit: str) -> "subprocess.CompletedProcess[bytes]":
    (folder / "grübel.py").write_text(
        textwrap.dedent(f"""
        import ctypes, threading, time
        from pathlib import Path

        def begun():
            Path("begun").touch()

        def lock(library):
            begun()
            mutex = ctypes.create_string_buffer(256)
            library.pthread_mutex_lock(mutex)
            library.pthread_mutex_lock(mutex)

        def beside():
            time.sleep(5000)

        def think():
            {HANGS[how]}
        """)
    )
    script = f"""
        import os, sys
        from pathlib import Path
        from pytest_vla.util.wall_limits import *
        from grübel import think
        run = Path("results") / "run1"
        {limit}
        print("went on")
        """
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=folder, capture_output=True, timeout=LONG, check=False
    )


@pytest.mark.parametrize("how", HANGS)
def test_a_hang_in_native_code_ends_the_worker_and_tells_where(tmp_path: Path, how: str) -> None:
    limit = """with hang_log(run, "gw1") as stream, hard_limit(SECONDS, 0.2, stream): think()"""
    start = time.monotonic()
    result = _hang(tmp_path, how, limit)
    assert time.monotonic() - start > LIMITS[0] + 0.2
    assert (result.returncode, result.stdout, result.stderr) == (1, b"", b"")
    run = tmp_path / "results" / "run1"
    assert hung_traceback(run, "gw0") is None
    dump = hung_traceback(run, "gw1")
    assert dump is not None
    assert dump.startswith("Timeout (0:00:00")
    place = hung_place(dump)
    function = "think" if "asleep" in how else "lock"
    assert re.fullmatch(rf"hung at {re.escape(str(tmp_path))}/grübel\.py:[0-9]+ in {function}", place)
    assert hung_traceback(run, "gw1") is None, "told once"
    assert list(run.iterdir()) == []


def test_the_soft_limit_does_not_help_against_a_hang_in_native_code_but_the_hard_one_does(tmp_path: Path) -> None:
    limit = """with hang_log(run, "gw1") as stream, hard_limit(SECONDS, 0.3, stream), wall_limit(SECONDS): think()"""
    assert _hang(tmp_path, "with_the_gil", limit).returncode == 1
    assert "in lock" in hung_place(hung_traceback(tmp_path / "results" / "run1", "gw1") or "")


def test_a_swallowing_loop_is_ended_by_the_hard_limit(tmp_path: Path) -> None:
    limit = """
        import time
        def stubborn():
            while True:
                try: time.sleep(5000)
                except BaseException: pass
        with hang_log(run, "gw1") as stream, hard_limit(0.1, 0.3, stream), wall_limit(0.1): stubborn()"""
    assert _run(tmp_path, "with_the_gil", textwrap.dedent(limit).replace("\n", "\n" + " " * 8)).returncode == 1
    assert hung_place(hung_traceback(tmp_path / "results" / "run1", "gw1") or "").startswith("hung at")


def test_without_workers_the_terminal_says_where_also_while_stderr_is_captured(tmp_path: Path) -> None:
    limit = """stream = terminal_stderr(); os.dup2(os.open("captured", os.O_CREAT | os.O_WRONLY), 2)
        with hard_limit(SECONDS, 0.0, stream): think()"""
    result = _hang(tmp_path, "with_the_gil", limit)
    assert result.returncode == 1
    assert "grübel.py" in limits._unescaped(result.stderr.decode())
    assert (tmp_path / "captured").read_bytes() == b""


def test_a_worker_that_hangs_nowhere_leaves_nothing(tmp_path: Path) -> None:
    run = tmp_path / ".vla" / "run1"
    with hang_log(run, "gw0") as stream:
        for _ in range(100):
            with hard_limit(LONG, 1.0, stream):
                pass
        assert [file.name for file in run.iterdir()] == ["hung-gw0.txt"]
    assert list(run.iterdir()) == []
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(stream, b"closed")
    assert hung_traceback(run, "gw0") is None


def test_a_worker_killed_by_something_else_has_not_hung(tmp_path: Path) -> None:
    script = """
        import os, signal
        with hang_log(run, "gw1") as stream, hard_limit(5000, 0.2, stream): os.kill(os.getpid(), signal.SIGKILL)"""
    assert _run(tmp_path, "with_the_gil", script).returncode == -signal.SIGKILL
    assert hung_traceback(tmp_path / "results" / "run1", "gw1") is None
    assert list((tmp_path / "results" / "run1").iterdir()) == []


def test_a_dump_is_read_bounded_and_whatever_its_bytes_are(tmp_path: Path) -> None:
    line = b'  File "/home/me/\xff\xfe.py", line 3 in think\n'
    (tmp_path / "hung-gw0.txt").write_bytes(b"Thread 0x1 (most recent call first):\n" + line * 20_000)
    dump = hung_traceback(tmp_path, "gw0")
    assert dump is not None
    assert len(dump) <= 256 * 1024
    assert hung_place(dump).endswith(".py:3 in think")


@pytest.mark.parametrize(
    "dump", ["", "Timeout (0:00:01)!\n", "Thread 0x01 (most recent call first):\n  <no Python frame>"]
)
def test_a_dump_without_frames_is_told_as_such(dump: str) -> None:
    assert hung_place(dump) == "hung at a place that is not known"


def test_of_many_threads_the_one_that_runs_the_episode_is_told() -> None:
    ours = Path(limits.__file__).parents[1]
    dump = textwrap.dedent(f"""\
        Timeout (0:00:01)!
        Thread 0x00000002 [reader] (most recent call first):
          File "/home/me/reader.py", line 7 in read
        Thread 0x00000001 (most recent call first):
          File "/usr/lib/x/site-packages/torch/nn.py", line 5 in forward
          File "{os.__file__}", line 9 in wait
          File "/home/me/p\\xf6licy.py", line 31 in <lambda>
          File "/home/me/policy.py", line 40 in step
          File "{ours}/rollout.py", line 200 in _ask
          File "{ours}/rollout.py", line 100 in run_episode
          File "/home/me/conftest.py", line 1 in pytest_runtest_call
        """)
    assert hung_place(dump) == "hung at /home/me/pölicy.py:31 in <lambda>"
    ours_alone = re.sub(r"  File \"/home/me/p.*\n", "", dump)
    assert hung_place(ours_alone) == "hung at /usr/lib/x/site-packages/torch/nn.py:5 in forward"


@pytest.mark.parametrize(
    ("file", "own"),
    [
        (__file__, True),
        ("policy.py", True),
        (limits.__file__, False),
        (pytest.__file__, False),
        (os.__file__, False),
        (threading.__file__, False),
        ("<frozen importlib._bootstrap>", False),
    ],
)
def test_whose_a_file_is(file: str, own: bool) -> None:
    assert is_users_own(file) is own
