"""``--vla-stop-when``: looks at a metric after each control step, and ends the episode when its rule has held."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla import extensions
from pytest_vla.episode.given import given_series
from pytest_vla.episode.start import NothingToMeasure
from pytest_vla.errors import STOPPED
from pytest_vla.metrics.naming import entry_of, live_rule
from pytest_vla.metrics.padding import without_padding
from pytest_vla.policies.base import Answer
from pytest_vla.records.measured import Measured
from pytest_vla.records.trajectory import Trajectory

if TYPE_CHECKING:
    from pytest_vla.entries import MetricEntry
    from pytest_vla.episode.trace import Trace
    from pytest_vla.metrics.alarms import Rule


def watch_alarm(trace: "Trace", rule: "Rule") -> Callable[[], None]:
    """What is called after each control step that did not end the episode.

    The metric's own function is asked of the last steps, as many as it looks back on: what it says is what its series
    will have of this step when the episode is over.

    Args:
        trace: of the episode; its answers are all there, as metrics wish for more than actions.
        rule: of a metric that can be known while an episode runs.

    Raises:
        VlaError: there is none such. What is returned raises NothingToMeasure `STOPPED` where the rule has held.
    """
    found, entry = live_rule(rule, extensions.metrics())
    _, key = entry_of(found.metric, extensions.metrics())
    value_of = partial(live_value, entry, key)
    held = 0

    def look() -> None:
        nonlocal held
        value = value_of(trace.last_actions(entry.looks_back), trace.answers, trace.steps)
        held = held + 1 if value is not None and bool(found.holds(value)) else 0
        if held >= found.steps:
            raise NothingToMeasure(STOPPED, f"{found} at control step {trace.steps}, where it is {value:.4g}")

    return look


def live_value(
    entry: "MetricEntry", key: str, actions: NDArray[np.float64], answers: list[tuple[int, Answer]], steps: int
) -> float | None:
    """What a metric's series has of the last control step; None: nothing is known of it, or it has no value yet.

    Args:
        entry: of the metric.
        key: which of its series.
        actions: (n, k), the last that were executed, as many as the metric looks back on or as there are.
        answers: of the policy, each with the control step that it was given at.
        steps: control steps so far, 1 or more.
    """
    begin = steps - len(actions)
    first = next((place for place in reversed(range(len(answers))) if answers[place][0] <= begin), 0)
    since = answers[first][0] if answers else 0
    given = given_series([(step - since, answer) for step, answer in answers[first:]], steps - since)
    series: dict[str, NDArray[Any]] = {name: each[begin - since :] for name, each in given.items()}
    nowhere = np.zeros((len(actions) + 1, 0))
    said = extensions.load(entry)(None, Trajectory(nowhere, nowhere, nowhere, actions, series))
    if not isinstance(said, Measured) or key not in said.series or not len(said.series[key]):
        return None
    value = float(without_padding(said.series[key][-1:], entry, key, steps - 1)[0])
    return None if np.isnan(value) else value
