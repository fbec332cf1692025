"""Limits of an episode's wall time: one raises inside Python code, one ends a process that hangs in native code.

The hard limit encloses the soft one: ``with hard_limit(...), wall_limit(...):``.
"""

import contextlib
import faulthandler
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

GRACE = 10.0
"""Seconds after a wall limit at which the process is ended if the exception could not be raised."""

REPEAT = 2.0
"""Seconds after which a wall limit is raised again if the code swallowed it."""

_RETRY = 0.001
_SHORTEST = 1e-6  # A timer of zero is none.
_MOST_OF_A_DUMP = 256 * 1024
_OURS = Path(__file__).parents[1]
_STANDARD_LIBRARY = Path(os.__file__).parent
_THREAD = re.compile(r"^(?:Current thread|Thread) 0x[0-9a-f]+.*$", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line ([0-9]+|\?\?\?) in (.*)$', re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")

# A copy, because a policy may replace time.monotonic by a function that returns no number.
_monotonic = time.monotonic

_Place = tuple[str, str, str]
"""File, line, function."""


class WallLimitReached(BaseException):
    """The exception inside a `wall_limit` block. It is no Exception, so a policy's error handling cannot catch it.

    Attributes:
        seconds: the limit.
        place: the interrupted line, ``FILE:LINE in FUNCTION``; the innermost line of the user's own code, if any.
    """

    def __init__(self, seconds: float, place: str) -> None:
        super().__init__(f"no end within {seconds:g} s; stopped at {place}")
        self.seconds, self.place = seconds, place


def wall_limit(seconds: float | None) -> "WallLimit":
    """Return a context manager that raises `WallLimitReached` in the block's Python code after so many seconds.

    It is raised again every `REPEAT` seconds while the block runs, and never after the block. Native code is
    interrupted when it returns. An earlier SIGALRM handler and timer (pytest-timeout's) stay in force in the block and
    after it; code in the block that sets a SIGALRM timer of its own (``signal.alarm``) disables the limit.

    Args:
        seconds: more than zero, or None for no limit. There is no limit outside the main thread or without SIGALRM.
    """
    return WallLimit(seconds)


class WallLimit:
    """The context manager of `wall_limit`.

    Attributes:
        reached: the text of the block's first `WallLimitReached`, even if it was swallowed, or None.
    """

    def __init__(self, seconds: float | None) -> None:
        self.reached: str | None = None
        self._seconds = seconds or 0.0
        self._applies = bool(seconds) and _can_raise()
        self._armed = self._earlier_fired = self._earlier_ran = False
        self._due = self._fired_at = 0.0
        self._earlier: Any = None
        self._earlier_due: float | None = None
        self._earlier_interval = 0.0

    # No generator: contextlib's own frames would stand between this and the block, and the alarm could hit there.
    def __enter__(self) -> Self:
        if self._applies:
            self._earlier = signal.signal(signal.SIGALRM, self._on_alarm)
            self._take_earlier_timer()
            self._due = _now() + self._seconds
            self._armed = True
            self._set_timer()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._applies:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            # An alarm that has come is handled before signal.signal returns, still by us.
            signal.signal(signal.SIGALRM, self._earlier)
            if self._earlier_fired and self._is_earliers(self._fired_at):
                self._earlier_due = self._fired_at
            if self._earlier_due is not None:
                left = max(self._earlier_due - _now(), _SHORTEST)
                signal.setitimer(signal.ITIMER_REAL, left, self._earlier_interval)

    def _on_alarm(self, signum: int, frame: FrameType | None) -> None:
        now = _now()
        if not self._armed:
            self._earlier_fired, self._fired_at = True, now
            return
        if self._is_earliers(now):
            self._earlier_due, self._earlier_ran = now, True
        if frame is None or frame.f_code in _OWN_CODE:
            # On the way in or out: raised there, it would leave a timer behind.
            signal.setitimer(signal.ITIMER_REAL, _RETRY)
            return
        due = now >= self._due
        if due:
            self._due = now + REPEAT
        if self._earlier_due is not None and now >= self._earlier_due:
            self._run_earlier(signum, frame)
        self._set_timer()
        if due:
            error = WallLimitReached(self._seconds, _place_of([*_places(frame)]))
            self.reached = self.reached or str(error)
            raise error

    def _is_earliers(self, now: float) -> bool:
        """Whether an alarm is the earlier timer's: on a busy machine it may come when that timer reads zero."""
        return self._earlier_due is None and now < self._due and not self._earlier_ran and callable(self._earlier)

    def _set_timer(self) -> None:
        due = self._due if self._earlier_due is None else min(self._due, self._earlier_due)
        # Again and again: an alarm that comes just before a system call begins does not end it.
        signal.setitimer(signal.ITIMER_REAL, max(due - _now(), _SHORTEST), REPEAT)

    def _take_earlier_timer(self) -> None:
        running, self._earlier_interval = signal.getitimer(signal.ITIMER_REAL)
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        # Linux drops an alarm that is on its way when the timer is stopped: then nothing is left, and it is due now.
        is_due = self._earlier_fired or not left
        expected = self._earlier_fired or running or self._earlier_interval
        self._earlier_due = _now() + (0.0 if is_due else left) if expected else None
        self._earlier_fired = False

    def _run_earlier(self, signum: int, frame: FrameType) -> None:
        """Run the earlier handler with its own timer restored; it may set another timer, and it may raise."""
        self._armed, self._earlier_ran = False, True
        signal.setitimer(signal.ITIMER_REAL, self._earlier_interval, self._earlier_interval)
        try:
            if callable(self._earlier):
                self._earlier(signum, frame)
            elif self._earlier == signal.SIG_DFL:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.raise_signal(signal.SIGALRM)
        finally:
            self._take_earlier_timer()
            self._armed = True
            self._set_timer()


def _now() -> float:
    now = time.monotonic()
    return now if math.isfinite(now) else _monotonic()


_OWN_CODE = frozenset(value.__code__ for value in vars(WallLimit).values() if hasattr(value, "__code__")) | {
    _now.__code__
}


def _can_raise() -> bool:
    # None: native code has installed the handler, and Python could not put it back.
    return (
        hasattr(signal, "SIGALRM")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is not None
    )


@contextlib.contextmanager
def hard_limit(seconds: float | None, grace: float, stream: int) -> Iterator[None]:
    """End this process with code 1 if the block takes too long, even if native code hangs with the GIL held.

    Nothing is cleaned up. pytest's own ``faulthandler_timeout`` uses the same single watchdog: if both are set, this
    one replaces it, and pytest's is restored with the next test.

    Args:
        seconds: the wall limit, or None for no limit.
        grace: further seconds, in which the soft limit should suffice.
        stream: the descriptor for all threads' tracebacks, from `hang_log` or `terminal_stderr`.
    """
    if not seconds:
        yield
        return
    faulthandler.dump_traceback_later(seconds + grace, exit=True, file=stream)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def lift_limits() -> None:
    """Disable the limits in force, so that a debugger's session is not interrupted."""
    faulthandler.cancel_dump_traceback_later()
    handler = signal.getsignal(signal.SIGALRM) if hasattr(signal, "SIGALRM") else None
    if isinstance(getattr(handler, "__self__", None), WallLimit):
        signal.setitimer(signal.ITIMER_REAL, 0)


def terminal_stderr() -> int:
    """Return a duplicate of stderr's descriptor, which the caller closes. Call it while pytest does not capture."""
    try:
        return os.dup(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):
        # Something in stderr's place that is no file.
        return os.dup(sys.__stderr__.fileno()) if sys.__stderr__ is not None else os.open(os.devnull, os.O_WRONLY)


@contextlib.contextmanager
def hang_log(folder: Path, worker: str) -> Iterator[int]:
    """Open the file for a worker's hang traceback, and delete it at the block's end; call it once a worker.

    Args:
        folder: the run's folder, created if absent.
        worker: the worker's id.

    Raises:
        OSError: the file cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = _hang_log_file(folder, worker)
    stream = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        yield stream
    finally:
        os.close(stream)
        file.unlink(missing_ok=True)


def hung_traceback(folder: Path, worker: str) -> str | None:
    """Return and delete the traceback of a dead worker's `hard_limit`, 256 KiB at most, or None if it did not hang."""
    file = _hang_log_file(folder, worker)
    try:
        with file.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - _MOST_OF_A_DUMP))
            dump = stream.read(_MOST_OF_A_DUMP)
        file.unlink()
    except OSError:
        return None
    return dump.decode(errors="replace") or None


def hung_place(dump: str) -> str:
    """Return the place in which faulthandler's dump shows a hang, in one line; the user's innermost line, if any."""
    threads = [_frames(thread) for thread in _THREAD.split(dump)]
    # The newest thread comes first, so the main thread last.
    busy = [frames for frames in threads if any(_is_ours(file) for file, _, _ in frames)] or [*filter(None, threads)]
    return f"hung at {_place_of(busy[-1])}" if busy else "hung at a place that is not known"


def is_users_own(file: str) -> bool:
    """Whether a source file is neither ours nor Python's nor an installed package's."""
    path = Path(file)
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return not (file.startswith("<") or installed or _is_ours(file) or path.is_relative_to(_STANDARD_LIBRARY))


def _hang_log_file(folder: Path, worker: str) -> Path:
    return folder / f"hung-{worker}.txt"


def _is_ours(file: str) -> bool:
    return Path(file).is_relative_to(_OURS)


def _places(frame: FrameType | None) -> Iterator[_Place]:
    while frame is not None:
        yield frame.f_code.co_filename, str(frame.f_lineno), frame.f_code.co_name
        frame = frame.f_back


def _frames(thread: str) -> list[_Place]:
    return [(_unescaped(file), line, _unescaped(function)) for file, line, function in _FRAME.findall(thread)]


def _unescaped(text: str) -> str:
    """Replace the escapes that faulthandler writes for non-ASCII characters."""
    return _ESCAPE.sub(lambda match: chr(min(int(match[1] or match[2] or match[3], 16), sys.maxunicode)), text)


def _place_of(frames: Sequence[_Place]) -> str:
    """Return the first frame of the user's own code that we called, or the first frame; the innermost is first."""
    outermost = max((index for index, (file, _, _) in enumerate(frames) if _is_ours(file)), default=len(frames))
    file, line, function = next((place for place in frames[:outermost] if is_users_own(place[0])), frames[0])
    return f"{file}:{line} in {function}"
