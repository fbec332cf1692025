"""Files and folders that are written whole or not at all, default folders, and a lock."""

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pytest_vla.errors import VlaError


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to write, and replace the old content at the block's end, unless the block raises.

    Anything but a plain file (a pipe, ``/dev/stdout``) is written directly. Raises VlaError.
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
    """Make a temporary folder to write into, and rename it to `path` at the block's end, unless the block raises.

    The temporary folder is beside `path`, with a name that begins with a dot, and is removed if the block raises.

    Raises:
        VlaError: `path` exists and is not an empty folder, or the folder cannot be written.
    """
    # A link stays one.
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise VlaError(f"{path} exists already, and is not overwritten. Name a new folder, or an empty one")
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


# Whose a cached file is: content that other users may have written is made again.

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH

USER = os.geteuid() if hasattr(os, "geteuid") else "own"
"""A name for this user in the names of folders that are not shared."""


def is_safe(status: os.stat_result) -> bool:
    """Return whether only this user and root may write what has this status."""
    if not hasattr(os, "geteuid"):
        return True
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & _WRITABLE_BY_OTHERS


def is_trusted(path: Path) -> bool:
    """Return whether a path exists, is no link, and only this user and root may write it."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return not stat.S_ISLNK(status.st_mode) and is_safe(status)


def trusted_content(path: Path) -> bytes:
    """Return a file's content, or nothing if it is missing, a link, or writable by other users."""
    try:
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            # Checked on the open file, because its name may be reused.
            return file.read() if is_safe(os.fstat(file.fileno())) else b""
    except OSError:
        return b""


# Default folders of this machine, which needs a home or a cache folder.

DEFAULT_LIMIT = 5 * 10**9
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def expanded(path: str | os.PathLike[str]) -> Path | None:
    """Return the path with ``~`` replaced, or None if there is no home (a container with a foreign user id)."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return None


def cache_folder() -> Path:
    """Return the folder of compiled scenes and, if numba's own is not writable, machine code. It may not exist yet.

    Raises:
        VlaError: there is neither ``PYTEST_VLA_CACHE`` nor ``XDG_CACHE_HOME`` nor a home.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = expanded(os.environ.get("PYTEST_VLA_CACHE") or Path(base) / "pytest-vla")
    if folder is None:
        raise VlaError("there is no home folder for the cache of compiled scenes. Set PYTEST_VLA_CACHE or HOME")
    return folder


def fetched_libero() -> Path:
    """Return the default folder of LIBERO's data, used by `pytest-vla fetch libero` and by suites. It may not exist.

    Raises:
        VlaError: there is neither ``XDG_DATA_HOME`` nor a home.
    """
    folder = expanded(Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "pytest-vla" / "libero")
    if folder is None:
        raise VlaError("there is no home folder for LIBERO's data: set XDG_DATA_HOME or HOME, or give a folder")
    return folder


def cache_limit() -> int:
    """Return the cache's size limit in bytes.

    Raises:
        VlaError: ``PYTEST_VLA_CACHE_LIMIT`` is not a size.
    """
    text = os.environ.get("PYTEST_VLA_CACHE_LIMIT", "")
    if not text:
        return DEFAULT_LIMIT
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B?)\s*", text.upper())
    if not match:
        raise VlaError(f"PYTEST_VLA_CACHE_LIMIT={text!r}: expected a size such as 5GB or 500MB")
    unit = match[2] if match[2].endswith("B") or not match[2] else f"{match[2]}B"
    return int(float(match[1]) * _UNITS[unit])


# Whose a file is.


def why_foreign(path: Path) -> str:
    """Return why another user may have written a path, or an empty text if only this user can. Raises OSError."""
    if not hasattr(os, "geteuid"):
        return ""
    about = path.stat()
    if about.st_uid != os.geteuid():
        return f"{path} belongs to another user"
    others = stat.S_IWOTH if _is_private(about.st_gid) else stat.S_IWOTH | stat.S_IWGRP
    return f"{path} can be written by other users" if about.st_mode & others else ""


def check_no_link(results: Path, *places: Path) -> None:
    """Raise VlaError if a file or folder to write, or anything in it, is a link that leads out of the results."""
    inside = results.resolve()
    for place in places:
        below = (Path(parent, each) for parent, *names in os.walk(place) for each in (*names[0], *names[1]))
        for each in (place, *below):
            if each.is_symlink() and not each.resolve().is_relative_to(inside):
                raise VlaError(f"{each} is a link out of the results {results}, so nothing is written there. Remove it")


def _is_private(group: int) -> bool:
    """Whether a group has this user alone, as many systems make one for each user and let it write."""
    import grp
    import pwd

    try:
        name, about = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return about.gr_name == name and {*about.gr_mem} <= {name}


# A lock, so that only one of several workers does the same slow work.


NO_LOCKS = "its file system has no file locks"


def lacks_locks(error: OSError) -> bool:
    """Return whether a lock failed because the file system has none, as some network disks."""
    return error.errno in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP)


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock on a file (created if absent, and kept) until the block or the process ends.

    If the file cannot be created or locked, the block runs without a lock, and slow work may be done more than once; a
    warning says so if the file system has no locks.
    """
    # Imported here, because most processes need no lock.
    import filelock

    from pytest_vla.util.warnings import warn

    with contextlib.ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # filelock's soft lock, a file's existence, would outlive a killed process.
            stack.enter_context(filelock.FileLock(path, fallback_to_soft=False))
        except OSError as error:
            if lacks_locks(error):
                warn(f"{path.parent}: {NO_LOCKS}, so several processes may do the same work at once")
        yield
