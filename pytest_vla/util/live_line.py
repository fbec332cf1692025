"""A progress line for work that takes more than a second."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

from pytest_vla.util.text import printable

PATIENCE = 1.0
"""Seconds until the work is reported."""

REDRAW_EVERY, LOG_EVERY = 1.0, 30.0
"""Seconds from one line of `progress` to the next, on a terminal and elsewhere."""


@contextmanager
def told_when_slow(what: str, stream: TextIO) -> Iterator[None]:
    """Print what is being done if the block takes longer than `PATIENCE`.

    On a terminal the line counts the seconds and is erased at the block's end; elsewhere it is written once.

    Args:
        what: the work, such as ``comparing 2,352 pairs of texts``.
        stream: standard error, since results are on standard output.
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


@contextmanager
def progress(stream: TextIO, of_all: bool = False) -> Iterator[Callable[[str], None]]:
    """Print what is being done if it takes long: rewritten on a terminal, a line now and then elsewhere.

    Args:
        stream: standard error, since results are on standard output.
        of_all: whether the printed seconds count from the block's start, and not from the last change of the line.

    Yields:
        A function that takes a text about the current work.
    """
    in_place = stream.isatty()
    began = time.monotonic()
    now = ("", began)
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(REDRAW_EVERY if in_place else LOG_EVERY):
            line, since = now
            if not line:
                # Nothing was told yet.
                continue
            text = printable(f"{line}, {time.monotonic() - (began if of_all else since):.0f} s so far")
            stream.write(f"\r\x1b[K{text}" if in_place else f"{text}\n")
            stream.flush()

    def told(line: str) -> None:
        nonlocal now
        now = (line, time.monotonic())

    shown = threading.Thread(target=show, name="vla-progress", daemon=True)
    shown.start()
    try:
        yield told
    finally:
        ended.set()
        shown.join()
        if in_place:
            stream.write("\r\x1b[K")
            stream.flush()


# Slow preparations of an episode, reported as log records, which the runner may show.

LOGGER = logging.getLogger("pytest_vla.preparing")
"""The logger of `preparing`; its records have the attributes `preparing` (the work) and `ended` (whether it ended)."""


@contextmanager
def preparing(what: str) -> Iterator[None]:
    """Log the start and the end of slow work.

    Args:
        what: the work, such as ``compiling the scene of turn_on_the_stove``.
    """
    LOGGER.info("%s", what, extra={"preparing": what, "ended": False})
    began = time.monotonic()
    try:
        yield
    finally:
        LOGGER.info("%s: %.1f s", what, time.monotonic() - began, extra={"preparing": what, "ended": True})


@contextmanager
def output_aside() -> Iterator[None]:
    """Send standard output to standard error within the block: that of Python, of libraries in C and of children."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 1)
        os.close(kept)
