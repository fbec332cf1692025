"""The number of episodes that a gate needs: as lines, and as a table for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_vla.gate.episodes_needed import POWER
from pytest_vla.gate.planning import MOST_PAIRS, POWERS, GatePlan, Sequential
from pytest_vla.gate.verdicts import Terms, terms_text
from pytest_vla.metrics.rates import percent
from pytest_vla.reports.text import aligned, printed, wrapped
from pytest_vla.util.text import counted

SCHEMA = 1
"""Version of the JSON; raised whenever a key changes its meaning or is removed."""

_SEEN = "as the run and the baseline do; both succeed as often as these two on average"
_INDEPENDENT = "if they are independent given the task; name a RUN of another checkpoint to use its pairs instead"


def plan_lines(plans: Sequence[GatePlan], terms: Terms, drop: float, has_run: bool) -> Iterator[str]:
    """Return a row for each group, and the assumptions of the numbers.

    Args:
        plans: of the groups.
        terms: of the gate.
        drop: in points, that is to be called a regression.
        has_run: whether pairs were observed, and not simulated as independent ones.
    """
    shares = " and ".join(f"{power * 100:g}%" for power in POWERS)
    agreed = terms_text(terms)
    about = f"episodes (pairs) that a gate takes for its verdict in {shares} of runs: {agreed}"
    lines = [*wrapped(f"{about}, {counted(len(plans), 'group')}")]
    head = ("group", "tasks", "success", "differ", "equal: no worse", f"drop of {drop:g}: regression")
    lines += aligned([head, *(_row(plan) for plan in plans)], 1)
    for plan in plans:
        lines += wrapped(f"{plan.name}: {_as_now_text(plan, drop)}")
        if plan.sequential is not None:
            lines += wrapped(f"{plan.name}: {_sequential_text(plan.sequential, drop)}")
    differ = _SEEN if has_run else _INDEPENDENT
    lines += wrapped(f"differ: the share of pairs in which two equal policies end differently, {differ}")
    if len(plans) > 1:
        lines += wrapped("with several groups, regression numbers assume the strictest step of Holm's correction")
    return printed(lines)


def plan_table(plans: Sequence[GatePlan], terms: Terms, drop: float, has_run: bool) -> dict[str, Any]:
    """Return for JSON ``schema``, ``terms``, ``drop``, ``powers``, ``pairs`` (``seen``, ``independent``), ``groups``.

    Each group, by name, has ``tasks``, ``success`` and ``differing`` in percent, ``episodes`` of the baseline,
    ``no_worse`` and ``regression`` (episodes by power; null if more than 20,000, or if no such drop is possible) and
    ``as_now``: the percentages of gates with as many episodes as the baseline that reach either verdict.
    ``sequential``: ``most`` pairs, and for ``no_worse`` and ``regression`` the mean ``pairs`` and the percentage of
    runs (``said``) with ``--vla-gate=sequential``; null if it is not known.
    """
    return {
        "schema": SCHEMA,
        "terms": {"margin": terms.margin, "alpha": terms.alpha, "by": list(terms.by), "regression": terms.regression},
        "drop": drop,
        "powers": [percent(power) for power in POWERS],
        "pairs": "seen" if has_run else "independent",
        "groups": {
            plan.name: {
                "tasks": plan.tasks,
                "success": percent(plan.rate),
                "differing": percent(plan.differing),
                "episodes": plan.has,
                "no_worse": list(plan.no_worse),
                "regression": list(plan.regression),
                "sequential": None if plan.sequential is None else _sequential_table(plan.sequential),
                "as_now": {"no_worse": percent(plan.as_now[0]), "regression": percent(plan.as_now[1])},
            }
            for plan in plans
        },
    }


def drops_line(drops: Mapping[str, int | None]) -> str:
    """Return the smallest drop that each group can detect.

    Args:
        drops: of `pytest_vla.gate.episodes_needed.smallest_drops`.
    """
    if not drops:
        return "detectable drop: unknown, as no case of this run is in the baseline"
    if len(drops) == 1:
        (drop,) = drops.values()
        what = "no drop" if drop is None else f"a drop of {drop} points or more"
        return f"this run can detect {what} ({POWER:.0%} power, simulated from the baseline)"
    found = (f"{name} {'none' if drop is None else f'{drop} points'}" for name, drop in drops.items())
    return f"this run can detect ({POWER:.0%} power, simulated from the baseline) a drop of: {', '.join(found)}"


def _sequential_table(found: Sequential) -> dict[str, Any]:
    sides = {"no_worse": found.equal, "regression": found.fallen}
    return {
        "most": found.most,
        **{
            name: None if stops is None else {"pairs": round(stops.pairs), "said": percent(stops.share)}
            for name, stops in sides.items()
        },
    }


def _sequential_text(found: Sequential, drop: float) -> str:
    equal, fallen = found.equal, found.fallen
    told = (
        f"--vla-gate=sequential of at most {counted(found.most, 'pair')} stops on average after {equal.pairs:.0f} of "
        f"an equal policy (no worse in {equal.share:.0%} of runs)"
    )
    if fallen is None:
        return told
    return f"{told}, after {fallen.pairs:.0f} of a drop of {drop:g} points (a regression in {fallen.share:.0%})"


def _row(plan: GatePlan) -> tuple[str, ...]:
    return (
        plan.name,
        str(plan.tasks),
        f"{plan.rate:.1%}",
        f"{plan.differing:.1%}",
        _numbers_text(plan.no_worse),
        "-" if plan.as_now[1] is None else _numbers_text(plan.regression),
    )


def _numbers_text(numbers: Sequence[int | None]) -> str:
    return ", ".join(f"over {MOST_PAIRS:,}" if number is None else f"{number:,}" for number in numbers)


def _as_now_text(plan: GatePlan, drop: float) -> str:
    no_worse, regression = plan.as_now
    now = f"{counted(plan.has, 'episode')}, as in the baseline"
    told = f"{now}: an equal policy is found no worse in {no_worse:.0%} of runs"
    if regression is None:
        return f"{told}; success cannot fall by {drop:g} points"
    return f"{told}, a drop of {drop:g} points is found in {regression:.0%}"
