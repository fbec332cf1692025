"""``--vla-metrics``: which metrics are kept, and the list of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_vla import extensions
from pytest_vla.entries import MetricEntry
from pytest_vla.errors import VlaError
from pytest_vla.metrics.naming import live_rule, names_by_alias
from pytest_vla.run.about import ALL
from pytest_vla.run.settings import Settings
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.metrics.alarms import Rule


def chosen_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """The metrics that are meant, by their own names, in the order of the list, with those that are kept beside them.

    Args:
        names: as typed, their own or further ones, in any case of letters; ``all``.

    Raises:
        VlaError: there is no such metric; lists those that there are.
    """
    if not names:
        return ()
    entries = extensions.metrics()
    known = names_by_alias(entries)
    found: set[str] = set()
    for name in names:
        if name.lower() == ALL:
            found |= {name for name, entry in entries.items() if entry.on_request}
        elif (meant := known.get(name.lower())) is not None:
            found.add(meant)
        else:
            listed = ", ".join(_called(entry) for entry in entries.values())
            guess = did_you_mean(name.lower(), known)
            raise VlaError(f"--vla-metrics={name}: there is no such metric.{guess} Expected some of {listed}, or {ALL}")
    found |= {beside for name in found for beside in entries[name].beside}
    return tuple(name for name in entries if name in found)


def metrics_of(settings: Settings) -> tuple[str, ...]:
    """The metrics of a run: those that ``--vla-metrics`` means, and that of ``--vla-stop-when``.

    Raises:
        VlaError: there is no such metric, or nobody can be stopped by it.
    """
    rule = stop_rule(settings)
    return chosen_metrics([*settings.metrics, *([] if rule is None else [rule[1].name])])


def stop_rule(settings: Settings) -> "tuple[Rule, MetricEntry] | None":
    """The rule of ``--vla-stop-when``, with its metric; None: there is none. Raises VlaError."""
    if settings.stop_when is None:
        return None
    from pytest_vla.metrics.alarms import parse_rule

    return live_rule(parse_rule(settings.stop_when), extensions.metrics())


def metrics_table() -> Iterator[str]:
    """The list: a metric a line, with its unit and what it needs. Raises VlaError, as `extensions.metrics`."""
    entries = extensions.metrics()
    yield f"--vla-metrics={ALL}, or some of these by either name (larger: less sure, less smooth, farther away)"
    yield ""
    yield from _rows(entries)


def _rows(entries: Mapping[str, MetricEntry]) -> Iterator[str]:
    from pytest_vla.reports.text import aligned

    rows = []
    for entry in entries.values():
        needs = f"; needs {', '.join(entry.needs)}" if entry.needs else ""
        always = "" if entry.on_request else "; always kept"
        rows.append((_called(entry), f"{entry.about}{needs}{always}"))
    yield from aligned(rows, 2, width=None)


def _called(entry: MetricEntry) -> str:
    return f"{entry.name} ({', '.join(entry.aliases)})" if entry.aliases else entry.name
