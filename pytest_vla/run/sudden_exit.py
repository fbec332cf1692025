"""`os._exit` while a run goes on: a policy that calls it must not end pytest with code 0 and episodes missing."""

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

FAILED = 1
"""The exit code in the place of 0."""


def watch_exit(before: Callable[[int, str], None]) -> Callable[[], None]:
    """Have `os._exit` in this process say so first, and never end it with code 0. Children that it forks are free.

    What native code does is not seen: a policy that may do such things runs with ``-n 1``, in a process of its own.

    Args:
        before: called with the code and with the place of the call, ``FILE:LINE``.

    Returns:
        What makes `os._exit` what it was.
    """
    real, ours = os._exit, os.getpid()

    def _exit(status: int) -> NoReturn:
        if os.getpid() != ours:
            real(status)
        caller = sys._getframe(1)
        try:
            before(status, f"{caller.f_code.co_filename}:{caller.f_lineno}")
        finally:
            # A system keeps eight bits of it.
            real(status if status % 256 else FAILED)

    def undo() -> None:
        for module in modules:
            module._exit = real

    # Where `os` has it from; a policy may have it from there too.
    modules: tuple[Any, ...] = tuple(filter(None, (os, sys.modules.get(os.name))))
    for module in modules:
        module._exit = _exit
    return undo
