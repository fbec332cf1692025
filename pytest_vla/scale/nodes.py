"""The machines of a cluster: their requirements, and the check of them. Pure."""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla import hook_modules
from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.data_roots import DataRoot, find_init_states, find_task_file, task_roots
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task

PACKAGES = ("pytest-vla", "mujoco", "robosuite", "numpy", "scipy", "numba", "pytest", "pytest-xdist", "execnet")
"""Whose versions have to be the same on all machines: numbers depend on them, or what machines say to each other."""

CLOCK_SECONDS = 1.0
"""By how much a clock may differ, beyond what its reading takes, before the records' times are set right."""

OPEN_CLUSTER = "ray-open"
"""The code of the warning that whoever reaches a cluster can run code on it."""


@dataclass(frozen=True)
class Node:
    """A machine.

    Attributes:
        name: as it is shown.
        host: its network name.
        ahead: seconds by which its clock is ahead of this machine's; 0 if the difference cannot be measured.
        is_open: whether its Ray lets in everybody, without a token.
    """

    name: str
    host: str
    ahead: float = 0.0
    is_open: bool = False


@dataclass(frozen=True)
class NodeRequirements:
    """The requirements for a machine.

    Attributes:
        path: where Python finds modules.
        package: the folder of pytest_vla.
        folder: where pytest was started.
        variables: of a worker's environment; a value of None removes the variable.
        facts: of this machine, by `pytest_vla.scale.node_facts.node_facts`.
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
    node = Node(name, str(facts["host"]), _ahead(facts), bool(facts.get("open")))
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


def open_nodes_text(nodes: Iterable[Node]) -> str:
    """Return the warning of nodes whose Ray lets in everybody; empty if there are none."""
    if not (names := [node.name for node in nodes if node.is_open]):
        return ""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return (
        f"warning {OPEN_CLUSTER}: Ray on {names[0]}{more} requires no token: whoever reaches its ports can run code "
        "there. Set RAY_AUTH_MODE=token for `ray start` and for pytest"
    )


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
    """Read modules, suites and tasks as JSON from standard input; write `data_digest`, or the trouble, as JSON.

    Modules are those of the process that asks (`pytest_vla.hook_modules.read_files`), which may add the suites.
    """
    wanted: dict[str, Any] = json.loads(sys.stdin.read())
    data = None if wanted["data"] is None else Path(wanted["data"])
    try:
        hook_modules.consent_as([hook_modules.ReadFile(**each) for each in wanted["modules"]])
        tasks = tasks_of(wanted["tasks"], data)
        if wanted["fetch"]:
            _fetch()
        found: dict[str, str] = data_digest(tasks)
    except VlaError as error:
        found = {"trouble": str(error)}
    # What a module of theirs printed came before.
    print(f"\n{json.dumps(found)}")


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
