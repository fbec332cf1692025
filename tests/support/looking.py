"""Episodes and paths of a policy that looks, or does not: probes without pictures or without the object."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.records.record import Record
from tests.support.varied import varied

HandPath = NDArray[np.float64]

PLACE = (0.3, 0.2, 0.9)
START = (-0.1, 0.0, 1.1)
ELSEWHERE = (0.0, -0.4, 1.1)
AT = {f"vacated_bowl_1_{axis}": value for axis, value in zip("xyz", PLACE, strict=True)}


def line(end: Sequence[float], rows: int = 80, wobble: float = 0.0, seed: int = 0) -> HandPath:
    straight = np.linspace(START, end, rows)
    return straight + np.random.default_rng(seed).normal(scale=wobble, size=straight.shape)


def probe(view: str, outcome: str | bool, seed: int, **changes: Any) -> Record:
    """An episode with black pictures, or without its object."""
    label = "layout.removed" if view == "removed" else f"camera.blackout.{view}"
    made = varied(label, outcome, seed=seed, **changes)
    kind, parameters = ("removed", {"objects": ["bowl_1"]}) if view == "removed" else ("blackout", {"view": view})
    made.variation.update(kind=kind, parameters=parameters, probe=True)  # type: ignore[attr-defined]
    return made
