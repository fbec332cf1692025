"""Files that are written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pytest_vla.errors import VlaError


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file to write: its content takes the place of the old one at the block's end, and only if nothing is raised.

    What is no plain file (a pipe, ``/dev/stdout``) is written as it is. Raises VlaError.
    """
    try:
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                yield stream
            return
        # A link stays one.
        path = path.resolve()
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as stream:
                yield stream
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()
    except OSError as error:
        raise VlaError(f"cannot write {path}: {error.strerror or error}") from error
