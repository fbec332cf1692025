"""The machines of a cluster: their facts, the requirements of a run, and the check of them. Pure."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.data_roots import DataRoot, find_init_states, find_task_file, task_roots
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task

PACKAGES = ("pytest-vla", "mujoco", "robosuite", "numpy", "scipy", "numba", "pytest", "pytest-xdist", "execnet")
"""Whose versions have to be the same on all machines: numbers depend on them, or what machines say to each other."""

CLOCK_SECONDS = 1.0
"""By how much a clock may differ, beyond what its reading takes, before the records' times are set right."""


@dataclass(frozen=True)
class Node:
    """A machine.

    Attributes:
        name: as it is shown.
        host: its network name.
        ahead: seconds by which its clock is ahead of this machine's; 0 if the difference cannot be measured.
    """

    name: str
    host: str
    ahead: float = 0.0


@dataclass(frozen=True)
class NodeRequirements:
    """The requirements for a machine.

    Attributes:
        path: where Python finds modules.
        package: the folder of pytest_vla.
        folder: where pytest was started.
        variables: of a worker's environment; a value of None removes the variable.
        facts: of this machine, by `pytest_vla.scale.nodes.node_facts`.
        data: for `pytest_vla.scale.nodes`, or None if no data is needed.
        digest: of this machine's data.
    """

    path: Sequence[str]
    package: str
    folder: str
    variables: Mapping[str, str | None]
    facts: Mapping[str, Any]
    data: Mapping[str, Any] | None = None
    digest: Mapping[str, str] | None = None

    def table(self) -> dict[str, Any]:
        """Return the table for `node_facts` and `data_facts`, of builtin types."""
        return wanted_table(self.path, self.package, self.folder, self.variables, self.data)

    def data_trouble(self, name: str, found: Mapping[str, Any]) -> str:
        """Return the problem with a machine's data, or an empty text if there is none."""
        if "trouble" in found:
            return f"{name}: the data cannot be used there: {found['trouble']}"
        ours = self.digest or {}
        if "missing" in found and "missing" not in ours:
            return f"{name}: data is missing there: {found['missing']}"
        other = [kind for kind in ("tasks", "assets") if found.get(kind) != ours.get(kind)]
        if other:
            return (
                f"{name}: its {' and '.join(other)} differ from this machine's (by sha256 of names and contents): "
                "give all machines the same data, by a shared file system or `pytest-vla fetch libero` on each"
            )
        return ""


def wanted_table(
    path: Sequence[str],
    package: str,
    folder: str,
    variables: Mapping[str, str | None],
    data: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return the argument for `node_facts` and `data_facts`."""
    return {
        "path": list(path),
        "package": package,
        "names": list(PACKAGES),
        "folder": folder,
        "variables": dict(variables),
        "data": data,
    }


def examined(name: str, facts: Mapping[str, Any], wanted: NodeRequirements) -> tuple[Node, str]:
    """Return a machine, and the problem with it or an empty text.

    Args:
        name: as it is shown.
        facts: of `node_facts`, with ``began`` and ``ended``, the times of question and answer on this machine.
        wanted: the requirements.
    """
    if "trouble" in facts:
        return Node(name, name), f"{name}: it cannot be examined: {facts['trouble']}"
    node = Node(name, str(facts["host"]), _ahead(facts))
    if facts["code"] is None:
        return node, (
            f"{name}: pytest-vla is not installed at {wanted.package}: all machines need the same environment "
            "at the same place, from one image or on a shared file system"
        )
    ours, theirs = wanted.facts["packages"], facts["packages"]
    told = [
        f"{package} {theirs.get(package, 'is missing')} (here {ours.get(package, 'is none')})"
        for package in PACKAGES
        if ours.get(package) != theirs.get(package)
    ]
    if facts["python"] != wanted.facts["python"]:
        told.insert(0, f"Python {facts['python']} (here {wanted.facts['python']})")
    if told:
        return node, f"{name}: different versions: {', '.join(told)}. Install the same versions there"
    if facts["code"] != wanted.facts["code"]:
        return node, f"{name}: its pytest-vla at {wanted.package} has the same version but different code"
    if not facts["folder"]:
        return node, f"{name}: there is no folder {wanted.folder}, where pytest was started: share it, or copy it there"
    return node, ""


def _ahead(facts: Mapping[str, Any]) -> float:
    """Return the seconds by which a clock is ahead, or 0 if that is within the error of its reading."""
    began, ended = float(facts["began"]), float(facts["ended"])
    ahead = float(facts["time"]) - (began + ended) / 2
    return ahead if abs(ahead) > (ended - began) / 2 + CLOCK_SECONDS else 0.0


# Whether two machines have the same task files, init states and assets.

_FETCHED = "pytest-vla fetch libero"


def data_digest(tasks: Iterable[Task]) -> dict[str, str]:
    """Compute the digests of tasks' data, by ``tasks`` and ``assets``: sha256 (hex) of names and contents.

    If a task's file is missing there is also ``missing``, which explains how to get it; episodes of that task report it
    too.

    Raises:
        VlaError: a file cannot be read, or a named folder does not exist.
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
    """Whether the tasks' data is in the folder that `pytest-vla fetch libero` filled."""
    return any(root.origin == _FETCHED for task in tasks[:1] for root in task_roots(task))


def main() -> None:
    """Read suites and tasks as JSON from standard input, and write their `data_digest`, or the trouble, as JSON."""
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
    """Return tasks by suite and key. Raises VlaError if there is no such suite."""
    suites: dict[str, dict[str, Task]] = {}
    for name, _ in wanted:
        if name not in suites:
            suites[name] = {task.key: task for task in load_suite(name, data=data).tasks}
    return [suites[name][key] for name, key in wanted if key in suites[name]]


def _fetch() -> None:
    """Fetch LIBERO's data to this machine if it is missing; once, even if several processes do it at the same time."""
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


# The facts about a machine that a run needs, such as its versions and data.
#
# Sent by value to machines about which nothing is known: standard library only, no import of pytest-vla.

OF_NUMBERS = (
    *("PYTEST_", "MUJOCO_", "PYOPENGL_", "PYTHON", "NUMBA_", "OMP_", "OPENBLAS_", "MKL_", "NPY_", "HF_", "LIBERO_"),
    *("MESA_", "LIBGL_", "GALLIUM_", "TOKENIZERS_", "TRANSFORMERS_", "TORCH_", "PYTORCH_", "JAX_", "XLA_", "TF_"),
)
"""What names of variables begin with that a worker has as the process has that holds the session, or not at all."""

LONGEST_CHECK = 1800.0
"""Seconds that the check of a machine's data may take."""


def node_facts(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about this machine.

    Args:
        wanted: ``path`` (where Python finds modules), ``package`` (the folder of pytest_vla), ``names`` (of packages),
            ``folder`` (where pytest was started), ``variables`` (see `environment`), ``data`` (for
            `pytest_vla.scale.nodes`, or None if no data is needed).

    Returns:
        Texts, numbers and tables by name; ``trouble`` has the reason if no more could be found out.
    """
    facts: dict[str, Any] = {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "time": time.time(),
        "folder": os.path.isdir(wanted["folder"]),
        "packages": _versions(wanted["path"], wanted["names"]),
        "code": code_digest(wanted["package"]),
    }
    facts["cpus"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return facts


def data_facts(wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the facts about this machine's data, once its code is known to be the same.

    Args:
        wanted: as for `node_facts`.
    """
    program = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from pytest_vla.scale.nodes import main"
    done = subprocess.run(
        [sys.executable, "-P", "-c", f"{program}; main()", json.dumps(wanted["path"])],
        input=json.dumps(wanted["data"]).encode(),
        capture_output=True,
        cwd=wanted["folder"],
        env=environment(wanted["variables"]),
        timeout=LONGEST_CHECK,
    )
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = {"trouble": done.stderr.decode(errors="replace")[-1000:].strip() or f"it ended with {done.returncode}"}
    return dict(found)


def environment(variables: dict[str, str | None]) -> dict[str, str]:
    """Return this process's environment with `variables` set; a value of None removes the variable.

    Variables that change numbers (`OF_NUMBERS`) are removed unless they are in `variables`.
    """
    found = {name: value for name, value in os.environ.items() if not name.startswith(OF_NUMBERS)}
    for name, value in variables.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


def code_digest(folder: str) -> str | None:
    """Return the sha256 (hex) of a package's Python files and tables, or None if it is not there."""
    base, whole = Path(folder), hashlib.sha256()
    if not (base / "__init__.py").is_file():
        return None
    for place, folders, files in os.walk(base, followlinks=True):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", "compiled"))
        for name in sorted(files):
            if name.endswith((".py", ".toml", ".json", ".bddl")):
                path = Path(place, name)
                whole.update(f"{path.relative_to(base).as_posix()}\0".encode())
                whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def _versions(path: list[str], names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=path):
        name = str(distribution.metadata["Name"]).lower().replace("_", "-")
        if name in names:
            # The first is the one that is imported.
            found.setdefault(name, distribution.version)
    return found
