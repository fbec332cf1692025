"""Whether two machines have the same task files, init states and assets."""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.data_roots import DataRoot, find_init_states, find_task_file, task_roots
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task

_FETCHED = "pytest-vla fetch libero"


def data_digest(tasks: Iterable[Task]) -> dict[str, str]:
    """What the data of tasks is, by ``tasks`` and ``assets``: sha256 (hex) of names and contents.

    ``missing`` is there where a task's file is not, and says how to come by it: episodes of that task will say so too.

    Raises:
        VlaError: a file cannot be read, or a folder that was named is none.
    """
    files: dict[str, Path] = {}
    missing = ""
    roots: dict[Path, None] = {}
    known: dict[tuple[str, str | None], tuple[DataRoot, ...]] = {}
    for task in tasks:
        if task.world is not None:
            # A simulator of its own: what it reads is its own matter.
            continue
        place = str(task.data), task.suite
        found = known.get(place)
        if found is None:
            found = known[place] = task_roots(task)
        try:
            files[f"{task.key}.bddl"] = find_task_file(found, task)
        except SceneError as error:
            missing = missing or str(error)
        with contextlib.suppress(VlaError):
            # Some suites draw their own.
            files[f"{task.key}.init"] = find_init_states(found, task)[0]
        roots |= dict.fromkeys(root.assets for root in found if root.assets is not None and root.suite is None)
    try:
        digests = {"tasks": _digest(sorted(files.items())), "assets": _digest(_assets([*roots]))}
        return digests | ({"missing": missing} if missing else {})
    except OSError as error:
        raise VlaError(f"{error.filename}: cannot be read: {error.strerror}") from error


def uses_fetched(tasks: Sequence[Task]) -> bool:
    """Whether the tasks' data is what `pytest-vla fetch libero` brought."""
    return any(root.origin == _FETCHED for task in tasks[:1] for root in task_roots(task))


def main() -> None:
    """Reads suites and tasks as JSON from standard input, and writes their `data_digest`, or the trouble, as JSON."""
    wanted: dict[str, Any] = json.loads(sys.stdin.read())
    data = None if wanted["data"] is None else Path(wanted["data"])
    try:
        tasks = tasks_of(wanted["tasks"], data)
        if wanted["fetch"]:
            _fetch()
        found: dict[str, str] = data_digest(tasks)
    except VlaError as error:
        found = {"trouble": str(error)}
    print(json.dumps(found))


def tasks_of(wanted: Iterable[Sequence[str]], data: Path | None) -> list[Task]:
    """Tasks by suite and key. Raises VlaError: there is no such suite."""
    suites: dict[str, dict[str, Task]] = {}
    for name, _ in wanted:
        if name not in suites:
            suites[name] = {task.key: task for task in load_suite(name, data=data).tasks}
    return [suites[name][key] for name, key in wanted if key in suites[name]]


def _fetch() -> None:
    """Brings LIBERO's data to this machine where it is not there; once, whoever else does it at the same time."""
    import subprocess

    order = [sys.executable, "-P", "-m", "pytest_vla.cli", "fetch", "libero", "--yes"]
    done = subprocess.run(order, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ))
    if done.returncode:
        raise VlaError(f"pytest-vla fetch libero: {done.stdout.decode(errors='replace')[-600:].strip()}")


def _assets(folders: Sequence[Path]) -> Iterable[tuple[str, Path]]:
    for number, base in enumerate(folders):
        for place, names, files in os.walk(base, followlinks=True):
            names.sort()
            for name in sorted(files):
                path = Path(place, name)
                yield f"{number}/{path.relative_to(base).as_posix()}", path


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    whole = hashlib.sha256()
    for name, path in files:
        with path.open("rb") as opened:
            whole.update(f"{name}\0".encode() + hashlib.file_digest(opened, "sha256").digest())
    return whole.hexdigest()
