"""Upstream live beside us: runs upstream.py in the reference environment (`make reference`)."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.data import REPOSITORY, libero_data

PYTHON = REPOSITORY / ".venv-ref" / "bin" / "python"


def run_upstream(jobs: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, np.ndarray]:
    """What upstream does for these jobs (see upstream.py): arrays by ``jobN_NAME``. Skips without its environment."""
    if not PYTHON.exists():
        pytest.skip("upstream's environment is not made: make reference")
    data = libero_data()
    folder.mkdir(parents=True, exist_ok=True)
    # Without this file LIBERO's import asks on standard input.
    names = {"benchmark_root": "", "bddl_files": "bddl_files", "init_states": "init_files", "assets": "assets"}
    config = "".join(f"{key}: {data / name}\n" for key, name in names.items())
    (folder / "config.yaml").write_text(f"{config}datasets: {folder}\n")
    (folder / "jobs.json").write_text(json.dumps({"assets": str(data / "assets"), "jobs": list(jobs)}))
    environment = os.environ | {"LIBERO_CONFIG_PATH": str(folder)}
    environment.setdefault("MUJOCO_GL", "egl")
    done = subprocess.run(
        [PYTHON, "-P", Path(__file__).with_name("upstream.py"), folder / "jobs.json", folder / "out.npz"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    with np.load(folder / "out.npz") as file:
        return dict(file)


def job(task: Path, **given: Any) -> dict[str, Any]:
    """A job for upstream with everything that is not given left out."""
    nothing = {"seed": 0, "init_state": None, "actions": [], "cameras": 0, "frames": [], "earlier": 0}
    return {"task": str(task), **nothing, **given}
