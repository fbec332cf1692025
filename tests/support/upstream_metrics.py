"""Upstream's own numbers of the quality and uncertainty metrics, and how near ours are."""

import json
from typing import Any

import numpy as np

from pytest_vla.metrics.instability import Order
from tests.support.data import golden

NEAR = 1e-7
ORDERS: dict[str, Order] = {"PI": 1, "VI": 2, "AI": 3}


def vectors() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(golden("uq_metric_vectors.json").read_text())
    return found


def near(found: Any, expected: Any) -> None:
    mine, theirs = np.asarray(found, float), np.asarray(expected, float)
    assert mine.shape == theirs.shape
    assert np.abs(mine - theirs).max(initial=0.0) <= NEAR
