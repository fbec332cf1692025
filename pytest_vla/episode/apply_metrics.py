"""The further metrics of an episode: their recordings, their values, and the alarm of ``--vla-stop-when``."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from numbers import Real
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla import extensions
from pytest_vla.entries import HANDLING, REMAINING, SAMPLES, TOKENS, MetricEntry
from pytest_vla.episode.result import Rollout
from pytest_vla.episode.start import NothingToMeasure
from pytest_vla.errors import STOPPED, VlaError
from pytest_vla.metrics import instability
from pytest_vla.metrics.extra_metrics import entry_of, live_rule
from pytest_vla.metrics.failure_prediction import without_padding
from pytest_vla.metrics.uncertainty import REPEATS
from pytest_vla.policies.base import Answer, Wishes
from pytest_vla.records.record import METRIC_SECONDS, MetricResult
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.util.warnings import describe, ends_episode, warn

if TYPE_CHECKING:
    from pytest_vla.episode.trace import Trace
    from pytest_vla.metrics.alarms import AlarmRule


# A policy's values beside actions, as series of the trajectory: for each control step those of its action.

Array = NDArray[np.float64]


def answer_series(answers: Sequence[tuple[int, Answer]], steps: int) -> dict[str, Array]:
    """Return the series of `pytest_vla.metrics.instability` made of answers, as far as the policy gave them.

    The steps from one question to the next execute the answer's chunk from its first action on. Statistics of an
    answer's tokens apply to the whole chunk and are repeated in each of these steps.

    Args:
        answers: each with the control step at which it was given, from 0, in order; including those that have
            only actions.
        steps: how many control steps were executed.
    """
    starts = [*(step for step, _ in answers), steps]
    executed = [(first, end, answer) for (first, answer), end in zip(answers, starts[1:], strict=True) if first < end]
    found: dict[str, Array] = {}
    tokens = {
        instability.FIRST: [_of_tokens(answer, "first") for _, _, answer in executed],
        instability.SECOND: [_of_tokens(answer, "second") for _, _, answer in executed],
        instability.SQUARES: [_of_tokens(answer, "squares") for _, _, answer in executed],
        instability.ENTROPY: [_of_tokens(answer, "entropy") for _, _, answer in executed],
        instability.PROBABILITIES: [answer.token_probabilities for _, _, answer in executed],
    }
    for name, rows in tokens.items():
        if any(row is not None and len(row) for row in rows):
            most = max(len(row) for row in rows if row is not None)
            series = np.full((steps, most), np.nan)
            for (first, end, _), row in zip(executed, rows, strict=True):
                if row is not None:
                    series[first:end, : len(row)] = row
            found[name] = series
    if instability.FIRST in found:
        found[instability.VOCABULARY] = vocabulary = np.full(steps, np.nan)
        for first, end, answer in executed:
            if answer.token_statistics is not None:
                vocabulary[first:end] = answer.token_statistics.vocabulary
    draws = [(first, end, answer.samples) for first, end, answer in executed if answer.samples is not None]
    if draws:
        shape = (steps, max(len(each) for _, _, each in draws), draws[0][2].shape[2])
        found[instability.SAMPLES] = samples = np.full(shape, np.nan)
        for first, end, each in draws:
            # With latency the arm may hold after the last action, which counts on.
            rows = np.minimum(np.arange(end - first), each.shape[1] - 1)
            samples[first:end, : len(each)] = each.transpose(1, 0, 2)[rows]
    return found


def _of_tokens(answer: Answer, name: str) -> Array | None:
    return None if answer.token_statistics is None else np.asarray(getattr(answer.token_statistics, name))


def needs_of(chosen: Collection[str]) -> frozenset[str]:
    """Return the recordings (of `pytest_vla.entries.NEEDS`) that the named metrics need. Raises VlaError."""
    return frozenset(need for entry in _kept(chosen).values() for need in entry.needs)


def wishes_of(needs: Collection[str]) -> Wishes:
    """Return the values that a policy has to give beside actions."""
    return Wishes(REPEATS if SAMPLES in needs else 0, TOKENS in needs)


def with_metrics(ended: Rollout, chosen: Collection[str] = ()) -> Rollout:
    """Return the episode with the values of every metric; a value that cannot be computed gives a warning.

    Args:
        ended: the episode. If a metric needs it, the policy's values beside actions become series of its
            trajectory, and the metrics' values for each step become further series.
        chosen: names of the metrics that are kept only on request.

    Raises:
        VlaError: a package cannot be used; a run checks this before its first episode.
    """
    entries = _kept(chosen)
    if not entries:
        return ended
    record, trajectory = ended.record, ended.trajectory
    if {TOKENS, SAMPLES} & needs_of(chosen):
        trajectory = trajectory.with_series(answer_series(ended.answers, len(trajectory.actions)))
    # Metrics get copies, so that they cannot change the record.
    trajectory.freeze()
    found: dict[str, float] = {}
    series: dict[str, Any] = {}
    missing: dict[tuple[str, str], list[str]] = {}
    seconds: dict[str, float] = {}
    for name, entry in entries.items():
        start = perf_counter()
        try:
            function, copied = extensions.load(entry), deepcopy(record)
            # The import does not count as the metric's time.
            start = perf_counter()
            said = function(copied, trajectory)
        except BaseException as error:
            if not ends_episode(error):
                raise
            warn(f"metric {name} ({entry.origin}) raised {describe(error)}; its values are left out")
            continue
        if entry.on_request:
            seconds[f"{METRIC_SECONDS}{name}"] = round(perf_counter() - start, 6)
        told = said if isinstance(said, MetricResult) else MetricResult(said)
        numbers = _numbers(name, told)
        if told.missing:
            kept = ", ".join(key for key, value in numbers.items() if value is not None)
            missing.setdefault((told.missing, kept), []).append(name)
        for key, value in numbers.items():
            if (fault := _fault(value, key in record.metrics or key in found)) is not None:
                warn(f"metric {key} ({entry.origin}) {fault}")
            elif value is not None:
                found[key] = float(value)
        try:
            more = {_series_name(name, key): array for key, array in told.series.items()}
            trajectory.with_series({**series, **more})
            series |= more
        except VlaError as error:
            warn(f"metric {name} ({entry.origin}): {error}; its series are left out")
    if record.outcome in ("success", "failure"):
        for (what, kept), names in missing.items():
            said = f"only {kept} could be computed" if kept else "no value could be computed"
            warn(f"metrics {', '.join(names)}: {said}. Expected {what}")
    if found or seconds:
        told_times = {**record.timings, **seconds}
        record = replace(record, metrics={**record.metrics, **found}, timings=told_times)
    return replace(ended, record=record, trajectory=trajectory.with_series(series) if series else trajectory)


def _kept(chosen: Collection[str]) -> Mapping[str, MetricEntry]:
    return {name: entry for name, entry in extensions.metrics().items() if not entry.on_request or name in chosen}


def _numbers(name: str, told: MetricResult) -> dict[str, Any]:
    return {name: told.value, **{f"{name}.{key}": value for key, value in told.further.items()}}


def _fault(value: object, is_taken: bool) -> str | None:
    """Return why a value cannot be kept, or None if it can or is missing."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        return f"gave {value!r}, expected a finite number"
    return "has the name of a built-in metric" if is_taken else None


def _series_name(name: str, key: str) -> str:
    return (f"{name}.{key}" if key else name).lower().replace("-", "_")


def records_remaining(needs: Collection[str]) -> bool:
    """Whether the positions of the task's object and its goal have to be recorded."""
    return REMAINING in needs


def records_handling(needs: Collection[str]) -> bool:
    """Whether the margin to joint limits, and the things that the arm holds and touches, have to be recorded."""
    return HANDLING in needs


# ``--vla-stop-when``: computes a metric after each control step, and ends the episode when its rule has held.


def watch_alarm(trace: "Trace", rule: "AlarmRule", bounds: tuple[tuple[float, float], ...] = ()) -> Callable[[], None]:
    """Return a function to call after each control step that did not end the episode.

    It calls the metric's own function on the last steps, as many as the metric looks back on. The value equals the one
    that the metric's series has for this step after the episode.

    Args:
        trace: of the episode; all of its answers are kept, as the metrics need more than actions.
        rule: of a metric that can be computed while an episode runs.
        bounds: of unscaled actions, as the suite's `Protocol` has them.

    Raises:
        VlaError: there is no such metric. The returned function raises NothingToMeasure `STOPPED` once the rule
            has held.
    """
    found, entry = live_rule(rule, extensions.metrics())
    _, key = entry_of(found.metric, extensions.metrics())
    value_of = partial(live_value, entry, key, bounds=bounds)
    held = 0

    def look() -> None:
        nonlocal held
        value = value_of(trace.last_actions(entry.looks_back), trace.answers, trace.steps)
        held = held + 1 if value is not None and bool(found.holds(value)) else 0
        if held >= found.steps:
            raise NothingToMeasure(STOPPED, f"{found} at control step {trace.steps}, where it is {value:.4g}")

    return look


def live_value(
    entry: "MetricEntry",
    key: str,
    actions: NDArray[np.float64],
    answers: list[tuple[int, Answer]],
    steps: int,
    bounds: tuple[tuple[float, float], ...] = (),
) -> float | None:
    """Compute the value of a metric's series for the last control step, or None if it has no value yet.

    Args:
        entry: of the metric.
        key: the name of the series within the metric.
        actions: (n, k), the last executed ones, as many as the metric looks back on or as there are.
        answers: of the policy, each with the control step at which it was given.
        steps: control steps so far, 1 or more.
        bounds: of unscaled actions, as the suite's `Protocol` has them.
    """
    # There is no record yet: built-in metrics ask it for these alone.
    record = SimpleNamespace(protocol={"action_bounds": bounds}) if bounds else None
    begin = steps - len(actions)
    first = next((place for place in reversed(range(len(answers))) if answers[place][0] <= begin), 0)
    since = answers[first][0] if answers else 0
    given = answer_series([(step - since, answer) for step, answer in answers[first:]], steps - since)
    series: dict[str, NDArray[Any]] = {name: each[begin - since :] for name, each in given.items()}
    nowhere = np.zeros((len(actions) + 1, 0))
    said = extensions.load(entry)(record, Trajectory(nowhere, nowhere, nowhere, actions, series))
    if not isinstance(said, MetricResult) or key not in said.series or not len(said.series[key]):
        return None
    value = float(without_padding(said.series[key][-1:], entry, key, steps - 1)[0])
    return None if np.isnan(value) else value
