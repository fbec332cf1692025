"""``--vla-metrics``: the selected metrics, the list of all metrics, and the time that metrics cost."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_vla import extensions
from pytest_vla.entries import MetricEntry
from pytest_vla.errors import VlaError
from pytest_vla.metrics.extra_metrics import live_rule, names_by_alias
from pytest_vla.run.constants import ALL
from pytest_vla.run.context import RunContext
from pytest_vla.run.settings import Settings
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from pytest_vla.episode.rollout import Conditions
    from pytest_vla.metrics.alarms import AlarmRule
    from pytest_vla.plan.manifests import Suite
    from pytest_vla.policies.base import Policy
    from pytest_vla.policies.trial import Price


def chosen_metrics(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the selected metrics, and of those that accompany them, in the order of the list.

    Args:
        names: names or aliases, in upper or lower case; or ``all``.

    Raises:
        VlaError: there is no such metric; lists the known ones.
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
    """Return the metrics of a run: those of ``--vla-metrics``, and that of ``--vla-stop-when``.

    Raises:
        VlaError: there is no such metric, or no episode can be stopped by it.
    """
    rule = stop_rule(settings)
    return chosen_metrics([*settings.metrics, *([] if rule is None else [rule[1].name])])


def stop_rule(settings: Settings) -> "tuple[AlarmRule, MetricEntry] | None":
    """Return the rule of ``--vla-stop-when`` with its metric, or None if there is no rule. Raises VlaError."""
    if settings.stop_when is None:
        return None
    from pytest_vla.metrics.alarms import parse_rule

    return live_rule(parse_rule(settings.stop_when), extensions.metrics())


def metrics_table() -> Iterator[str]:
    """Yield the list of metrics: a metric a line, with its unit and its needs. Raises VlaError."""
    entries = extensions.metrics()
    yield f"--vla-metrics={ALL}, or some of these, by either name."
    yield "Larger values mean less certain, less smooth or farther from the goal."
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


# What metrics cost a run: asked of the policy once, by its first process, and told at the run's end.

WORKER_OUTPUT = "vla_prices"
"""Under which a worker sends it."""

FIRST_WORKER = "gw0"


def note_prices(context: RunContext, policy: "Policy", suite: "Suite", conditions: "Conditions") -> None:
    """Measure the cost of repeated samples before the first episode that needs them; of several workers, only one does.

    A policy that cannot answer the trial has no price: its episodes show why.
    """
    config, findings = context.config, context.findings
    output = getattr(config, "workeroutput", None)
    is_other = output is not None and getattr(config, "workerinput", {}).get("workerid") != FIRST_WORKER
    if findings.prices is not None or is_other or not conditions.wishes.samples or getattr(policy, "privileged", False):
        return
    from pytest_vla.policies.trial import price_of, price_table
    from pytest_vla.util.wall_limits import WallLimitReached, wall_limit

    found: tuple[Price, ...] = ()
    try:
        with wall_limit(conditions.policy_timeout or conditions.timeout):
            found = price_of(policy, suite, conditions.wishes, conditions.replan)
    except (VlaError, WallLimitReached):
        pass
    findings.prices = found
    if output is not None:
        output[WORKER_OUTPUT] = price_table(found)


def take_prices(context: RunContext, output: object) -> None:
    """Keep the costs that a worker sends when it ends; most workers measure none."""
    if isinstance(output, dict) and WORKER_OUTPUT in output:
        from pytest_vla.policies.trial import read_prices

        context.findings.prices = read_prices(output[WORKER_OUTPUT])
