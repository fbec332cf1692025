"""Ctrl-C at moments when half of something is written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """SIGTERM is a KeyboardInterrupt, as SIGINT is; afterwards it is as before. In the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the block has ended; then it does what it would have done. In the main thread only."""
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
