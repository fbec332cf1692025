"""Waiting for what happens, on a machine however slow or busy, and limits that are reached when a test says so."""

import time
from collections.abc import Callable

HANG = 1800.0
"""Seconds after which what is waited for will never happen. No test passes or fails by how soon it does."""

LIMITS = (0.05, 0.5, 5.0, 50.0)
"""Seconds of a limit, to be tried in turn where it may hit only once something is reached: the busier, the longer."""


def until(holds: Callable[[], object]) -> None:
    """Returns once it holds. AssertionError where that takes `HANG`: it never will."""
    end = time.monotonic() + HANG
    while not holds():
        assert time.monotonic() < end, "it did not come to that"
        # Not more often: reading a store 100 times a second would starve what is waited for.
        time.sleep(0.05)


# A module of a test's own project, which other modules of it import.
RUN_OUT = '''
"""Limits that have run out where a test says so: no test waits for one, and no slow machine reaches one before."""

import faulthandler
import signal
import time

_monotonic, _dump_later = time.monotonic, faulthandler.dump_traceback_later
_armed = {}


def _arm(timeout, **options):
    _armed.update(options)
    _dump_later(timeout, **options)


# Import this before a limit is set.
faulthandler.dump_traceback_later = _arm


def run_out(*_):
    """An hour passes at once in this process, for wall limits and the policy's process's."""
    time.monotonic = lambda: _monotonic() + 3600.0
    if callable(signal.getsignal(signal.SIGALRM)):
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.1)


def run_out_for_good():
    """The hard limit, which is set, ends the process now."""
    assert _armed["exit"], "no hard limit is set"
    _dump_later(0.2, **_armed)
'''
