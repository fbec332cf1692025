"""The values of a metric's series, without what fills it where there is none yet."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.entries import MetricEntry


def without_padding(series: NDArray[Any], entry: MetricEntry, key: str, begin: int = 0) -> NDArray[np.float64]:
    """A series with nan where its metric has no value yet (`MetricEntry.padding`), else as it is.

    What is looked at while an episode runs and what a report studies afterwards both come from here, so that an alarm
    rings at the same step in both.

    Args:
        series: (n,), of the control steps from `begin` + 1 on.
        entry: of the metric.
        key: which of its series.
        begin: control steps before the first that `series` is of.
    """
    values = np.array(series, dtype=np.float64)
    values[: max(dict(entry.padding).get(key, 0) - begin, 0)] = np.nan
    return values
