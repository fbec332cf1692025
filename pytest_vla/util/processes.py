"""Other processes: whether they are stopped, and how long they have been still."""

import time
from pathlib import Path

MOST_OF_A_LOOK = 2.0
"""Seconds that count between two looks, however long it was: this process may have been stopped itself."""


class Patience:
    """Time as it passes for somebody who looks at others now and then.

    A look that comes late, as this process was stopped or the machine was busy, is not held against those.
    """

    def __init__(self) -> None:
        self._last = time.monotonic()

    def passed(self) -> float:
        """Seconds since this was last asked, `MOST_OF_A_LOOK` at most."""
        now = time.monotonic()
        before, self._last = self._last, now
        return min(now - before, MOST_OF_A_LOOK)


def is_stopped(pid: int) -> bool:
    """Whether a process of this machine is stopped by a signal (SIGSTOP, Ctrl-Z). False where nobody can tell."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    return state[:1] == ["T"]
