"""The success rates of runs, from what their rows in the store count."""

from collections.abc import Mapping
from dataclasses import replace

from pytest_vla.metrics.rates import VARIED, judged_apart
from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.records.runs import Count, Run


def rate_of(run: Run) -> SuccessRate:
    """The rate over what is not varied, or, where all is, over what is; as `rates_of`."""
    return next(iter(rates_of(run).values()), success_rate("", []))


def rates_of(run: Run) -> dict[str, SuccessRate]:
    """The rates over the suites' own episodes; over those of the user's tests where the run has no others.

    By the names of `pytest_vla.metrics.rates.judged_apart`: no rate is over benign and varied ones, and probes are in
    none. That of varied ones has no interval, as several are of one task and start, which is not known here; nor has
    any where episodes may be copies: a report knows which are.
    """
    rates = {name: success_rate(name, some) for name, some in judged_apart(_outcomes(run)).items()}
    unknown = {name for name in rates if name == VARIED or run.copies}
    return {name: replace(rate, interval=None) if name in unknown else rate for name, rate in rates.items()}


def errors_of(run: Run) -> Mapping[str, int]:
    """Of the same episodes, those that broke, by reason."""
    return success_rate("", _outcomes(run)).errors


def suites_of(run: Run) -> list[str]:
    """The suites of its episodes, by name."""
    return sorted({count.suite for count in run.counts})


def _outcomes(run: Run) -> list[Count]:
    counts = [count for count in run.counts if count.of_suite] or run.counts
    return [count for count in counts for _ in range(count.episodes)]
