"""Which metric a text means: its own name or a further one, and of what it keeps beside its number which."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vla.entries import MetricEntry
from pytest_vla.errors import VlaError
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    # It imports numpy, which a run without episodes has no need of.
    from pytest_vla.metrics.alarms import Rule


def names_by_alias(entries: Mapping[str, MetricEntry]) -> dict[str, str]:
    """The metric of each name, in lower case, that means one. A metric's own name is that metric's, whatever others
    are also called."""
    known = {alias.lower(): name for name, entry in entries.items() for alias in entry.aliases}
    return known | {name.lower(): name for name in entries}


def with_own_name(rule: "Rule", entries: Mapping[str, MetricEntry]) -> "Rule":
    """The rule with its metric's own name, of ``TB-E`` or ``TB-E.paper``; as it is where no metric is called so."""
    known = names_by_alias(entries)
    base, _, key = rule.metric.partition(".")
    if (whole := known.get(rule.metric.lower())) is not None:
        return replace(rule, metric=whole)
    if (name := known.get(base.lower())) is None:
        return rule
    return replace(rule, metric=f"{name}.{key}")


def entry_of(series: str, entries: Mapping[str, MetricEntry]) -> tuple[MetricEntry | None, str]:
    """The metric that a series is of, by its own name, and which of that metric's it is; None: nobody's."""
    if (whole := entries.get(series)) is not None:
        return whole, ""
    base, _, key = series.partition(".")
    return entries.get(base), key


def live_rule(rule: "Rule", entries: Mapping[str, MetricEntry]) -> "tuple[Rule, MetricEntry]":
    """A rule that can be looked at while an episode runs, with its metric's own name, and that metric.

    Raises:
        VlaError: there is no such metric, or it is known only when the episode is over; lists those that can be used.
    """
    found = with_own_name(rule, entries)
    entry, _ = entry_of(found.metric, entries)
    live = [name for name, each in entries.items() if each.looks_back]
    said = f"--vla-stop-when={rule}: "
    if entry is None:
        guess = did_you_mean(rule.metric.lower(), names_by_alias(entries))
        raise VlaError(f"{said}there is no metric {rule.metric}.{guess} Expected one of {', '.join(live)}")
    if not entry.looks_back:
        raise VlaError(
            f"{said}{entry.name} is known only when an episode is over. Expected one of {', '.join(live)}; what it "
            "would have done is told by `pytest-vla report --stop-when`"
        )
    return found, entry
