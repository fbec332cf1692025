"""A run that `pytest_vla.evaluate` started: it says which run it is, and ends with who started it."""

import os
import shutil
import signal
import threading
from pathlib import Path

from pytest_vla.policies.live import Caller, find_caller, tell_run


def heed_caller(run: Path) -> None:
    """Where a script started this pytest: tell it which run this is, and stop the run when the script is gone.

    Args:
        run: its folder.

    Raises:
        VlaError: it cannot be told.
    """
    caller = find_caller()
    if caller is None:
        return
    tell_run(caller, run)
    threading.Thread(target=_end_with, args=(caller,), name="vla-caller", daemon=True).start()


def _end_with(caller: Caller) -> None:
    """Ends the run as Ctrl-C would, workers and all, as soon as the caller has died; what it left behind goes too."""
    try:
        os.read(caller.pipe, 1)
    except OSError:
        return
    shutil.rmtree(caller.folder, ignore_errors=True)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)
