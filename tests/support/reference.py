"""Upstream live beside us, in environments of its own: LIBERO's (`make reference`) and VLA-Arena's (`make arena`)."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from tests.support.data import REPOSITORY, arena_data, libero_data

PYTHON = REPOSITORY / ".venv-ref" / "bin" / "python"
LEROBOT_PYTHON = REPOSITORY / ".venv-lerobot-latest" / "bin" / "python"
"""The newest lerobot, with its own LIBERO environment."""

ARENA_PYTHON = REPOSITORY / ".venv-arena" / "bin" / "python"


def run_upstream(jobs: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, np.ndarray]:
    """What upstream does for these jobs (see upstream.py): arrays by ``jobN_NAME``. Skips without its environment."""
    return _run_reference("upstream.py", {"assets": str(libero_data() / "assets"), "jobs": list(jobs)}, folder)


def _run_reference(script: str, work: Mapping[str, Any], folder: Path, python: Path = PYTHON) -> dict[str, np.ndarray]:
    if not PYTHON.exists():
        pytest.skip("upstream's environment is not made: make reference")
    data = libero_data()
    folder.mkdir(parents=True, exist_ok=True)
    # Without this file LIBERO's import asks on standard input.
    names = {"benchmark_root": "", "bddl_files": "bddl_files", "init_states": "init_files", "assets": "assets"}
    config = "".join(f"{key}: {data / name}\n" for key, name in names.items())
    (folder / "config.yaml").write_text(f"{config}datasets: {folder}\n")
    (folder / "jobs.json").write_text(json.dumps(work))
    return _run([python, "-P", Path(__file__).with_name(script)], folder, {"LIBERO_CONFIG_PATH": str(folder)})


def run_loops(jobs: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, np.ndarray]:
    """What published evaluators' loops do for these jobs (see evaluator_loops.py): arrays by ``jobN_NAME``."""
    data = libero_data()
    work = {"assets": str(data / "assets"), "bddl": str(data / "bddl_files"), "jobs": list(jobs)}
    is_lerobots = all(each["evaluator"] == "lerobot" and not each.get("blind") for each in jobs)
    python = LEROBOT_PYTHON if is_lerobots and LEROBOT_PYTHON.exists() else PYTHON
    return _run_reference("evaluator_loops.py", work, folder, python)


def run_upstream_arena(jobs: Sequence[Mapping[str, Any]], folder: Path) -> dict[str, np.ndarray]:
    """What VLA-Arena's upstream does for these jobs (see upstream_arena.py): arrays by ``jobN_NAME``."""
    if not ARENA_PYTHON.exists():
        pytest.skip("VLA-Arena's environment is not made: make arena")
    assets = [str(data / "assets") for data in (arena_data(), libero_data())]
    folder.mkdir(parents=True, exist_ok=True)
    work = {"assets": assets, "folder": str(folder / "upstream"), "jobs": list(jobs)}
    (folder / "jobs.json").write_text(json.dumps(work))
    return _run([ARENA_PYTHON, "-P", Path(__file__).with_name("upstream_arena.py")], folder, {})


def _run(command: list[str | Path], folder: Path, variables: Mapping[str, str]) -> dict[str, np.ndarray]:
    environment = os.environ | variables
    environment.setdefault("MUJOCO_GL", "egl")
    done = subprocess.run(
        [*command, folder / "jobs.json", folder / "out.npz"],
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
    nothing |= {"absolute_from": None, "dtype": "float64"}
    return {"task": str(task), **nothing, **given}


def smooth_actions(seed: int, steps: int) -> list[list[float]]:
    """Smooth random motion that reaches down, with steps without rotation and a gripper that opens and closes."""
    generator = np.random.default_rng(seed)
    velocity, rows = np.zeros(6), []
    for step in range(steps):
        if step % 20 == 0:
            target = generator.uniform(-1.2, 1.2, 6) * [1, 1, 1, 0.3, 0.3, 0.3]
            target[2] = -0.9 if (step // 20) % 2 == 0 else 0.5
        velocity = 0.8 * velocity + 0.2 * target + generator.normal(0, 0.05, 6)
        if step % 9 == 4:
            velocity = np.concatenate([velocity[:3], np.zeros(3)])
        rows.append([*velocity, 1.0 if (step // 30) % 2 else -1.0])
    return rows


def smooth_poses(seed: int, steps: int, position: np.ndarray, matrix: np.ndarray) -> list[list[float]]:
    """Poses about one, in m and rad, that move smoothly, reach down, turn by up to half a turn, and jump at times.

    Args:
        seed: of the draws.
        steps: how many.
        position, matrix: the pose to begin with, (3,) and (3, 3).
    """
    generator = np.random.default_rng(seed)
    rows, wanted, turn = [], np.array(position), np.zeros(3)
    target, turned = wanted, turn
    for step in range(steps):
        if step % 15 == 0:
            target = position + generator.uniform([-0.2, -0.25, -0.35], [0.25, 0.25, 0.1])
            turned = generator.normal(0, 0.5, 3) * [0.5, 0.5, 2.0]
        wanted, turn = wanted + 0.15 * (target - wanted), turn + 0.15 * (turned - turn)
        rotation = (Rotation.from_rotvec(turn) * Rotation.from_matrix(matrix)).as_rotvec()
        if step % 37 == 30:
            # No turn at all, which robosuite tells by the angle.
            rotation = np.zeros(3)
        rows.append([*wanted, *rotation, 1.0 if (step // 20) % 2 else -1.0])
    return rows
