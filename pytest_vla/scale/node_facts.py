"""What a machine has of what a run needs. Sent by value to machines of which nothing is known: the standard library
alone, and no import of ours.
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
    """What this machine has.

    Args:
        wanted: ``path`` (where Python finds modules), ``package`` (the folder of pytest_vla), ``names`` (of packages),
            ``folder`` (where pytest was started), ``variables`` (see `environment`), ``data`` (for
            `pytest_vla.scale.nodes`; None: no data is needed).

    Returns:
        By name texts, numbers and tables; ``trouble``: why no more could be found out, if so.
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
    """What this machine has of the data, once it is known to have the same code.

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
    """The environment of this machine's process with these variables as they are said; None: without it.

    What changes numbers, and is not said, is not there either.
    """
    found = {name: value for name, value in os.environ.items() if not name.startswith(OF_NUMBERS)}
    for name, value in variables.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = value
    return found


def code_digest(folder: str) -> str | None:
    """sha256 (hex) of a package's Python files and tables; None: it is not there."""
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
