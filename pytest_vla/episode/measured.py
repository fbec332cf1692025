"""The further numbers of an episode (`pytest_vla.entries.MetricEntry`), with what has to be recorded for them."""

import math
from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import replace
from numbers import Real
from time import perf_counter
from typing import Any

from pytest_vla import extensions
from pytest_vla.entries import HANDLING, REMAINING, SAMPLES, TOKENS, MetricEntry
from pytest_vla.episode.ended import Rollout
from pytest_vla.episode.given import given_series
from pytest_vla.errors import VlaError
from pytest_vla.metrics.uncertainty.samples import REPEATS
from pytest_vla.policies.base import Wishes
from pytest_vla.records.measured import Measured
from pytest_vla.records.record import METRIC_SECONDS
from pytest_vla.util.told import warn
from pytest_vla.util.tracebacks import describe, ends_episode


def needs_of(chosen: Collection[str]) -> frozenset[str]:
    """What has to be recorded for the metrics of these names, of `pytest_vla.entries.NEEDS`. Raises VlaError."""
    return frozenset(need for entry in _kept(chosen).values() for need in entry.needs)


def wishes_of(needs: Collection[str]) -> Wishes:
    """What a policy is asked for beside actions."""
    return Wishes(REPEATS if SAMPLES in needs else 0, TOKENS in needs)


def with_metrics(ended: Rollout, chosen: Collection[str] = ()) -> Rollout:
    """The episode with what every metric says of it; what cannot be had of one is told as a warning.

    Args:
        ended: the episode. Where a metric needs it, what the policy gave beside actions becomes series of its
            trajectory, and what metrics say of each step further ones.
        chosen: names of the metrics that are kept only on request.

    Raises:
        VlaError: a package cannot be used; a run has asked for them before its first episode.
    """
    entries = _kept(chosen)
    if not entries:
        return ended
    record, trajectory = ended.record, ended.trajectory
    if {TOKENS, SAMPLES} & needs_of(chosen):
        trajectory = trajectory.with_series(given_series(ended.answers, len(trajectory.actions)))
    # Who measures changes nothing.
    trajectory.freeze()
    found: dict[str, float] = {}
    series: dict[str, Any] = {}
    missing: dict[tuple[str, str], list[str]] = {}
    seconds: dict[str, float] = {}
    for name, entry in entries.items():
        start = perf_counter()
        try:
            function, copied = extensions.load(entry), deepcopy(record)
            # Importing it is not computing it.
            start = perf_counter()
            said = function(copied, trajectory)
        except BaseException as error:
            if not ends_episode(error):
                raise
            warn(f"metric {name}, of {entry.origin}, raised {describe(error)}: it is left out")
            continue
        if entry.on_request:
            seconds[f"{METRIC_SECONDS}{name}"] = round(perf_counter() - start, 6)
        told = said if isinstance(said, Measured) else Measured(said)
        numbers = _numbers(name, told)
        if told.missing:
            kept = ", ".join(key for key, value in numbers.items() if value is not None)
            missing.setdefault((told.missing, kept), []).append(name)
        for key, value in numbers.items():
            if (fault := _fault(value, key in record.metrics or key in found)) is not None:
                warn(f"metric {key}, of {entry.origin}, {fault}")
            elif value is not None:
                found[key] = float(value)
        try:
            more = {_series_name(name, key): array for key, array in told.series.items()}
            trajectory.with_series({**series, **more})
            series |= more
        except VlaError as error:
            warn(f"metric {name}, of {entry.origin}: {error}: its series are left out")
    if record.outcome in ("success", "failure"):
        for (what, kept), names in missing.items():
            said = f"{kept} alone is kept" if kept else "nothing is kept of them"
            warn(f"metrics {', '.join(names)}: {said}. Expected {what}")
    if found or seconds:
        told_times = {**record.timings, **seconds}
        record = replace(record, metrics={**record.metrics, **found}, timings=told_times)
    return replace(ended, record=record, trajectory=trajectory.with_series(series) if series else trajectory)


def _kept(chosen: Collection[str]) -> Mapping[str, MetricEntry]:
    return {name: entry for name, entry in extensions.metrics().items() if not entry.on_request or name in chosen}


def _numbers(name: str, told: Measured) -> dict[str, Any]:
    return {name: told.value, **{f"{name}.{key}": value for key, value in told.further.items()}}


def _fault(value: object, is_taken: bool) -> str | None:
    """Why it cannot be kept; None: it can, or there is none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        return f"gave {value!r}, no finite number"
    return "has the name of one of pytest-vla's" if is_taken else None


def _series_name(name: str, key: str) -> str:
    return (f"{name}.{key}" if key else name).lower().replace("-", "_")


def records_remaining(needs: Collection[str]) -> bool:
    """Whether it has to be recorded where the task's object is and where it is to be."""
    return REMAINING in needs


def records_handling(needs: Collection[str]) -> bool:
    """Whether it has to be recorded how near joints are to their limits, and what the arm holds and touches."""
    return HANDLING in needs
