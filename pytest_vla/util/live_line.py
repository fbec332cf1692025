"""A line for people who wait: nothing of what takes less than a second."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 1.0
"""Seconds until it is said what is being done."""


@contextmanager
def told_when_slow(what: str, stream: TextIO) -> Iterator[None]:
    """Says what is being done where the block takes longer than `PATIENCE`.

    On a terminal the line counts the seconds and is gone at the block's end; elsewhere it is written once.

    Args:
        what: such as ``comparing 2,352 pairs of texts``.
        stream: standard error, as results are on standard output.
    """
    ended = threading.Event()

    def tell() -> None:
        start = time.monotonic()
        if ended.wait(PATIENCE):
            return
        if not stream.isatty():
            stream.write(f"{what} ...\n")
            stream.flush()
            return
        line = ""
        while True:
            line = f"{what}: {time.monotonic() - start:.0f} s"
            stream.write(f"\r{line}")
            stream.flush()
            if ended.wait(PATIENCE):
                break
        stream.write(f"\r{' ' * len(line)}\r")
        stream.flush()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
