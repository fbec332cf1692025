"""The machines of a cluster: what each has to have, and whether it has it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PACKAGES = ("pytest-vla", "mujoco", "robosuite", "numpy", "scipy", "numba", "pytest", "pytest-xdist", "execnet")
"""Whose versions have to be the same on all machines: numbers depend on them, or what machines say to each other."""

CLOCK_SECONDS = 1.0
"""By how much a clock may differ, beyond what its reading takes, before the records' times are set right."""


@dataclass(frozen=True)
class Node:
    """A machine.

    Attributes:
        name: as it is shown.
        host: its name among machines.
        ahead: seconds by which its clock is ahead of this machine's; 0: not to be told apart.
    """

    name: str
    host: str
    ahead: float = 0.0


@dataclass(frozen=True)
class Wanted:
    """What a machine has to have.

    Attributes:
        path: where Python finds modules.
        package: the folder of pytest_vla.
        folder: where pytest was started.
        variables: of a worker's environment; None: without it.
        facts: of this machine, by `pytest_vla.scale.node_facts.node_facts`.
        data: for `pytest_vla.scale.data_digest`; None: no data is needed.
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
        """For `node_facts` and `data_facts`, of builtin types."""
        return wanted_table(self.path, self.package, self.folder, self.variables, self.data)

    def data_trouble(self, name: str, found: Mapping[str, Any]) -> str:
        """What a machine's data lacks; empty: nothing."""
        if "trouble" in found:
            return f"{name}: the data cannot be used there: {found['trouble']}"
        ours = self.digest or {}
        if "missing" in found and "missing" not in ours:
            return f"{name}: data is missing there: {found['missing']}"
        other = [kind for kind in ("tasks", "assets") if found.get(kind) != ours.get(kind)]
        if other:
            return (
                f"{name}: its {' and '.join(other)} are other than this machine's (by sha256 of names and contents): "
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
    """What `node_facts` and `data_facts` are asked with."""
    return {
        "path": list(path),
        "package": package,
        "names": list(PACKAGES),
        "folder": folder,
        "variables": dict(variables),
        "data": data,
    }


def examined(name: str, facts: Mapping[str, Any], wanted: Wanted) -> tuple[Node, str]:
    """A machine by its facts, and what it lacks; empty: nothing.

    Args:
        name: as it is shown.
        facts: of `node_facts`, with ``began`` and ``ended``, when this machine asked and had the answer.
        wanted: what it has to have.
    """
    if "trouble" in facts:
        return Node(name, name), f"{name}: it cannot be examined: {facts['trouble']}"
    node = Node(name, str(facts["host"]), _ahead(facts))
    if facts["code"] is None:
        return node, (
            f"{name}: no pytest-vla is at {wanted.package}: all machines need the same environment at the same place, "
            "from one image or on a shared file system"
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
        return node, f"{name}: it has {', '.join(told)}: install the same there, or no rate is of one policy"
    if facts["code"] != wanted.facts["code"]:
        return node, f"{name}: its pytest-vla at {wanted.package} is of the same version, and its code is other"
    if not facts["folder"]:
        return node, f"{name}: there is no folder {wanted.folder}, where pytest was started: share it, or copy it there"
    return node, ""


def _ahead(facts: Mapping[str, Any]) -> float:
    """By how much a clock is ahead, where that is more than its reading can be wrong by."""
    began, ended = float(facts["began"]), float(facts["ended"])
    ahead = float(facts["time"]) - (began + ended) / 2
    return ahead if abs(ahead) > (ended - began) / 2 + CLOCK_SECONDS else 0.0
