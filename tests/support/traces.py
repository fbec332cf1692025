"""Stored traces of upstream: which version of MuJoCo and which kernels each was made with."""

import json
from importlib.metadata import version
from typing import Any

import numpy as np

from pytest_vla.plan.choices import INSTALLED, TRAINED
from pytest_vla.versions import installed_versions
from tests.support.data import golden, golden_root

FOLDERS = {
    "3.3.7": "libero_traces_mujoco337",
    "3.3.2": "libero_traces_mujoco332",
    "3.2.3": "libero_traces_mujoco323",
    "3.8.1": "libero_traces",
}
KERNELS = {version: "SkylakeX" if version == "3.8.1" else "Haswell" for version in FOLDERS}
TEXTURES = {version: TRAINED if version < "3.3.3" else INSTALLED for version in FOLDERS}
"""Frames are as each version draws them; before 3.3.3 that is as checkpoints were trained."""

MUJOCO = version("mujoco")
"""The version that these tests run with."""

SAME_KERNELS = installed_versions().get("blas", "").count(KERNELS.get(MUJOCO, "-")) == 2
"""Whether traces repeat bit for bit; with other kernels they hold for the first steps, within rounding."""


def stored(folder: str) -> list[str]:
    """The names of a folder of goldens."""
    root = golden_root()
    return sorted(path.stem for path in (root / folder).glob("*.npz")) if root else ["absent"]


def load(folder: str, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """A trace's arrays, and its meta; skips where it is absent."""
    with np.load(golden(folder) / f"{name}.npz") as file:
        arrays = dict(file)
    return arrays, json.loads(str(arrays["meta"]))
