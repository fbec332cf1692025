"""A process between the controller and a worker: after the worker ends, it ends the processes that the worker left.

It is run as a file by a bare interpreter, ``python -I -S guardian.py [--parent PID] COMMAND...``, and imports nothing
of ours. Only Linux gives it the orphans of its worker, whoever started them and wherever they moved to. With
``--parent`` it also ends worker and orphans when that process, which started it, is gone, and on SIGTERM.
"""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36
"""Options of prctl(2)."""

_DECIDED = (signal.SIGINT, signal.SIGTERM)

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.001, 0.05
_TRACKER_SECONDS, _LONGEST_WAIT = 2.0, 10.0


def main(command: list[str]) -> int:
    """Run a command. Returns its exit code after all of its processes have ended."""
    libc = ctypes.CDLL(None, use_errno=True)
    # Until each side has decided on its own: Ctrl-C is for the worker.
    signal.pthread_sigmask(signal.SIG_BLOCK, _DECIDED)
    parent = None
    if command[:1] == ["--parent"]:
        parent, command = int(command[1]), command[2:]
    libc.prctl(_SET_SUBREAPER, 1, 0, 0, 0)
    guardian = os.getpid()
    worker = os.fork()
    if not worker:
        # Who kills the guardian means the worker.
        libc.prctl(_SET_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _DECIDED)
        if os.getppid() == guardian:
            try:
                os.execvp(command[0], command)
            except OSError as error:
                print(f"{command[0]}: {error}", file=sys.stderr, flush=True)
        os._exit(127)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if parent is not None:
        signal.signal(signal.SIGTERM, lambda number, frame: _kill(worker))
        libc.prctl(_SET_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            _kill(worker)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _DECIDED)
    # The controller sees the worker's end where its pipes close.
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    while True:
        pid, status = os.wait()
        if pid == worker:
            break
    _end_children()
    code = os.waitstatus_to_exitcode(status)
    # As a shell says which signal it was; an exit code of its own is never taken for one.
    return min(code, 127) if code >= 0 else 128 - code


def _end_children() -> None:
    """Kill all children, and orphans that become ours by it, until there are none or they cannot be killed."""
    began, pause = time.monotonic(), _SHORTEST_PAUSE
    while (age := time.monotonic() - began) < _LONGEST_WAIT:
        for pid in _children():
            # It unlinks what the others shared, and ends with them by itself.
            if age > _TRACKER_SECONDS or b"resource_tracker" not in _command_of(pid):
                _kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _kill(pid: int) -> None:
    with suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _children() -> list[int]:
    children = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            # The parent's number of proc(5); the command in brackets may hold anything.
            _, parent, *_ = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            if int(parent) == os.getpid():
                children.append(int(name))
    return children


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
