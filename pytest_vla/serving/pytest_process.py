"""A pytest that a script starts and waits for, while the script itself may hold the policy."""

import collections
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import IO, Any, Self

from pytest_vla.policies.in_memory import Caller, told_run, write_caller

_USAGE_ERROR = 4
_KEPT_LINES = 60
_ENDING_SECONDS = 60.0
"""Seconds that pytest has to end a run after Ctrl-C, before it is killed."""

# Variables of a pytest-xdist that may be running the script itself.
_NOT_INHERITED = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID", "PYTEST_CURRENT_TEST")


class PytestProcess:
    """A pytest process, as a context manager: it ends with the block, and a pending Ctrl-C is raised after it.

    Attributes:
        code: its exit code after the end, negative for a signal.
        run: the folder of its run, or None if it did not come so far.
    """

    def __init__(self, arguments: Sequence[str], caller: Caller, shown: bool) -> None:
        """Prepare the process; entering the block starts it.

        Args:
            arguments: pytest's.
            caller: the description of this process for pytest.
            shown: whether its output is shown.
        """
        self._arguments, self._caller, self._shown = list(arguments), caller, shown
        self.code = 0
        self.run: Path | None = None
        self._lines: collections.deque[str] = collections.deque(maxlen=_KEPT_LINES)
        self._interrupts: list[tuple[Any, ...]] = []
        self._earlier: Any = None
        self._handles = False

    def __enter__(self) -> Self:
        environ = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        # Flush, so that this process's output precedes pytest's.
        sys.stdout.flush()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *self._arguments],
            env=environ | write_caller(self._caller),
            stdin=subprocess.DEVNULL,
            stdout=None if self._shown else subprocess.PIPE,
            stderr=subprocess.PIPE if self._shown else subprocess.STDOUT,
            pass_fds=(self._caller.pipe,),
            # Ctrl-C reaches only this process, which forwards it once to pytest.
            start_new_session=True,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._read, name="vla-pytest", daemon=True)
        self._reader.start()
        self._handles = threading.current_thread() is threading.main_thread() and callable(
            signal.getsignal(signal.SIGINT)
        )
        if self._handles:
            self._earlier = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._process.poll() is None:
                self._end()
            self.code = self._process.wait()
            self._reader.join()
            self.run = told_run(self._caller.folder)
        finally:
            if self._handles:
                signal.signal(signal.SIGINT, self._earlier)
        if self._interrupts and error is None:
            self._earlier(*self._interrupts[0])

    def wait(self) -> None:
        """Wait until the process has ended."""
        while self._process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call a function in another thread when the process has ended."""

        def wait() -> None:
            self.wait()
            call()

        threading.Thread(target=wait, name="vla-pytest-end", daemon=True).start()

    def said(self) -> str:
        """Return how the process ended, with its last output; for a usage error, the error message alone."""
        lines = list(self._lines)
        if self.code == _USAGE_ERROR:
            first = next((number for number, line in enumerate(lines) if line.startswith("ERROR: ")), None)
            if first is not None:
                return "\n".join(line.removeprefix("ERROR: ") for line in lines[first:]).strip()
        how = f"was killed by {signal.Signals(-self.code).name}" if self.code < 0 else f"ended with {self.code}"
        words = "\n".join(lines).strip()
        if words:
            return f"the evaluation's pytest {how}; its last output:\n{words}"
        return f"the evaluation's pytest {how}" + ("; see its output above" if self._shown else "")

    def _read(self) -> None:
        stream: IO[str] | None = self._process.stderr if self._shown else self._process.stdout
        assert stream is not None
        held: list[str] = []
        begun = False
        with stream:
            for line in stream:
                self._lines.append(line.rstrip("\n"))
                # Output is held until the run exists: a run that cannot start is reported by an exception.
                begun = begun or told_run(self._caller.folder) is not None
                held.append(line)
                if self._shown and begun:
                    sys.stderr.writelines(held)
                    held.clear()
        if self._shown and self._process.wait() != _USAGE_ERROR:
            sys.stderr.writelines(held)

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        self._interrupts.append((number, frame))
        if len(self._interrupts) == 1:
            threading.Thread(target=self._end, name="vla-pytest-interrupt", daemon=True).start()
        else:
            self._signal(signal.SIGKILL)

    def _end(self) -> None:
        """Interrupt the process as Ctrl-C on a terminal does, and kill it if it does not end."""
        self._signal(signal.SIGINT)
        limit = time.monotonic() + _ENDING_SECONDS
        while self._process.poll() is None and time.monotonic() < limit:
            time.sleep(0.05)
        if self._process.poll() is None:
            self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(OSError):
            os.killpg(self._process.pid, number)
