"""The further numbers of an episode that packages add (`pytest_vla.entries.MetricEntry`)."""

import math
from copy import deepcopy
from dataclasses import replace
from numbers import Real

from pytest_vla import extensions
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.util.told import warn
from pytest_vla.util.tracebacks import describe, ends_episode


def with_metrics(record: Record, trajectory: Trajectory) -> Record:
    """The record with what every metric says of it; what cannot be had of one is told as a warning.

    Raises:
        VlaError: a package cannot be used; a run has asked for them before its first episode.
    """
    found: dict[str, float] = {}
    metrics = extensions.metrics()
    if metrics:
        # Who measures changes nothing.
        trajectory.freeze()
    for name, entry in metrics.items():
        try:
            value = extensions.load(entry)(deepcopy(record), trajectory)
        except BaseException as error:
            if not ends_episode(error):
                raise
            warn(f"metric {name}, of {entry.origin}, raised {describe(error)}: it is left out")
            continue
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            warn(f"metric {name}, of {entry.origin}, gave {value!r}, no finite number")
            continue
        if name in record.metrics:
            warn(f"metric {name}, of {entry.origin}, has the name of one of pytest-vla's")
            continue
        found[name] = float(value)
    return replace(record, metrics={**record.metrics, **found}) if found else record
