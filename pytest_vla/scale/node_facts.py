"""The facts about a machine that a run needs, such as its versions and data.

Sent by value to machines about which nothing is known: standard library only, no import of pytest-vla.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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
        "open": _is_open(),
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
        # In the last line: modules of the project, which may print, are imported before.
        found = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
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


def _is_open() -> bool:
    """Whether the Ray of this process lets in everybody, without a token; False outside of Ray or if not known."""
    # Of the node: a driver's own mode says nothing of it, as a token is ignored where none is required.
    ray = sys.modules.get("ray._raylet")
    modes, mode = getattr(ray, "AuthenticationMode", None), getattr(ray, "get_authentication_mode", None)
    return mode is not None and modes is not None and bool(mode() == modes.DISABLED)


def _versions(path: list[str], names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions(path=path):
        name = str(distribution.metadata["Name"]).lower().replace("_", "-")
        if name in names:
            # The first is the one that is imported.
            found.setdefault(name, distribution.version)
    return found
