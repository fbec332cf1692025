"""Files and folders that are written whole or not at all."""

import os
import shutil
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


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder to write into: at the block's end it is renamed to `path`, and only if nothing is raised.

    What lies beside it meanwhile begins with a dot, and is gone where something is raised.

    Raises:
        VlaError: `path` is there and is no empty folder, or the folder cannot be written.
    """
    # A link stays one.
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise VlaError(f"{path} is there already, and nothing is overwritten: name a new folder, or an empty one")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        try:
            yield temporary
            if path.exists():
                # Only an empty one can be removed so.
                path.rmdir()
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise VlaError(f"cannot write {path}: {error.strerror or error}") from error
