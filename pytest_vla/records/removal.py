"""Removal of runs: checks, sizes, and deletion. Files that may not be a run's own are kept."""

import os
import re
import shutil
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.records.runs import Run, is_alive, running_file
from pytest_vla.records.store import Store
from pytest_vla.util.processes import uninterrupted

_NAME = re.compile(r"[\w+][\w.+-]*", re.ASCII)


def refusals(store: Store, runs: Sequence[Run], *, elsewhere: bool = False) -> dict[str, str]:
    """Return the runs that must not be removed, by name, with the reason, if all are removed together.

    Args:
        store: the runs' store.
        runs: the runs to remove.
        elsewhere: whether to allow unfinished runs of other machines, which may still be running there.
    """
    found = {run.name: why for run in runs if (why := _why_not(store.results, run, elsewhere))}
    users: dict[str, list[str]] = {}
    for run, user in store.counted_elsewhere():
        users.setdefault(run, []).append(user)
    while True:
        going = {run.name for run in runs} - set(found)
        kept = {name: [user for user in users.get(name, ()) if user not in going] for name in going}
        if not any(kept.values()):
            return found
        # Without a case's first record a later one would count, so removing failures would improve the rate.
        found |= {
            name: f"run {', '.join(some)} selected episodes from it (such as by --lf) and counts its records. Remove "
            "both or none"
            for name, some in kept.items()
            if some
        }


def size_of(store: Store, run: Run) -> int:
    """Return the bytes of a run's files and records; unreadable files count as 0."""
    return sum(_sizes(store.results / run.name)) + store.text_size(run.name)


def remove_runs(store: Store, runs: Sequence[Run], *, elsewhere: bool = False) -> int:
    """Remove runs: all their records in one transaction, then their folders. Ctrl-C is deferred until that is done.

    Args:
        store: the runs' store.
        runs: the runs to remove.
        elsewhere: as for `refusals`.

    Returns:
        The number of bytes by which the results folder shrank.

    Raises:
        VlaError: a run must not be removed, or the store cannot be written; then nothing is removed. Or a folder cannot
            be deleted whose records are removed; all other folders are deleted then.
    """
    names = [run.name for run in runs]

    def check() -> None:
        # A run may have been resumed since the first check.
        now = [run for run in store.runs() if run.name in names]
        if lost := set(names) - {run.name for run in now}:
            raise VlaError(f"nothing is removed: run {', '.join(sorted(lost))} no longer exists")
        if against := refusals(store, now, elsewhere=elsewhere):
            raise refused(against)

    stuck, freed = [], 0
    with uninterrupted():
        freed += store.remove(names, check)
        for folder in (store.results / name for name in names):
            bytes_ = sum(_sizes(folder))
            try:
                running_file(folder).unlink(missing_ok=True)
                shutil.rmtree(folder)
                freed += bytes_
            except FileNotFoundError:
                pass
            except OSError as error:
                stuck.append(f"{error.filename or folder}: {error.strerror or error}")
    if stuck:
        raise VlaError(f"records are removed, but not all folders: {'; '.join(stuck)}. Delete these yourself")
    return freed


def refused(against: Mapping[str, str]) -> VlaError:
    """Return the error that says that nothing is removed, with the reasons."""
    return VlaError(f"nothing is removed: {'; '.join(f'{name!r}: {why}' for name, why in against.items())}")


def _why_not(results: Path, run: Run, elsewhere: bool) -> str:
    alive = is_alive(run)
    if alive:
        return f"it is still running, as process {run.pid}"
    if alive is None and not elsewhere:
        return f"it may still run on {run.host}; remove it there, or add --elsewhere"
    # A store may be untrusted, and its names are used as paths.
    if _NAME.fullmatch(run.name) is None:
        return "its name is not a valid folder name"
    folder = results / run.name
    try:
        kind = folder.lstat().st_mode
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
    return "" if stat.S_ISDIR(kind) else f"{folder} is a link or a file, not a folder; move it away"


def _sizes(folder: Path) -> list[int]:
    sizes = []
    for parent, _, files in () if folder.is_symlink() else os.walk(folder):
        for file in files:
            with suppress(OSError):
                sizes.append(os.lstat(os.path.join(parent, file)).st_size)
    return sizes
