"""Other processes, interrupts and available memory."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MOST_OF_A_LOOK = 2.0
"""The most seconds that count between two looks: this process may have been stopped itself."""


class ObservedTime:
    """The time that passes between looks at other processes, each interval bounded.

    A late look, because this process was stopped or the machine was busy, does not count against the other processes.
    """

    def __init__(self) -> None:
        self._last = time.monotonic()

    def passed(self) -> float:
        """Return the seconds since the last call, at most `MOST_OF_A_LOOK`."""
        now = time.monotonic()
        before, self._last = self._last, now
        return min(now - before, MOST_OF_A_LOOK)


def is_stopped(pid: int) -> bool:
    """Whether a process of this machine is stopped by a signal (SIGSTOP, Ctrl-Z); False if that is not known."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return state[:1] == ["T"]


# Ctrl-C while something is half written.


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """Turn SIGTERM into a KeyboardInterrupt, as SIGINT is, within the block. In the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


_noted: list[list[int]] = []


@contextmanager
def interrupts_noted() -> Iterator[None]:
    """Note within the block which signals came that interrupt: `came_without_signal`. In the main thread only."""
    numbers, came = (signal.SIGINT, signal.SIGTERM), list[int]()
    handlers = {int(number): signal.getsignal(number) for number in numbers}
    earlier = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread() or signal.SIGINT not in earlier:
        yield
        return

    def note(number: int, frame: Any) -> None:
        came.append(number)
        earlier[number](number, frame)

    _noted.append(came)
    try:
        for number in earlier:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in earlier.items():
            if signal.getsignal(number) is note:
                signal.signal(number, handler)
        _noted.remove(came)


def came_without_signal(error: BaseException) -> bool:
    """Whether an error is a KeyboardInterrupt that code raised, while no signal came; False if that is not known."""
    return isinstance(error, KeyboardInterrupt) and bool(_noted) and not _noted[-1]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C until the block has ended. In the main thread only."""
    earlier = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(earlier):
        yield
        return
    held: list[tuple[Any, ...]] = []
    signal.signal(signal.SIGINT, lambda *came: held.append(came))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)
        if held:
            earlier(*held[0])


# Available memory for further processes.

_UNLIMITED = 1 << 60  # Version 1 of cgroups reports about 2**63 if there is no limit.


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return the memory that further processes can use without swapping, also in a container, or None if unknown.

    Args:
        root: the root of the file system with ``proc`` and ``sys``.
    """
    known = [_of_machine(root / "proc" / "meminfo"), *_of_container(root / "sys" / "fs" / "cgroup")]
    return min((each for each in known if each is not None), default=None)


def _of_machine(file: Path) -> int | None:
    try:
        lines = file.read_text(encoding="ascii", errors="replace").splitlines()
        found = next(line.split() for line in lines if line.startswith("MemAvailable:"))
        return int(found[1]) * 1024
    except (OSError, StopIteration, IndexError, ValueError):
        return None


def _of_container(folder: Path) -> tuple[int | None, ...]:
    """Return the control group's free memory, by either version: its limit less its usage without reclaimable files."""
    ways = (("memory.max", "memory.current", ""), ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory"))
    return tuple(_left(folder / below, limit, used) for limit, used, below in ways)


def _left(folder: Path, limit: str, used: str) -> int | None:
    try:
        most, taken = int((folder / limit).read_text()), int((folder / used).read_text())
        lines = (line.split() for line in (folder / "memory.stat").read_text().splitlines())
        files = next((int(value) for name, value in lines if name == "inactive_file"), 0)
    except (OSError, ValueError):
        # "max" is no limit.
        return None
    return None if most >= _UNLIMITED else max(0, most - taken + files)
