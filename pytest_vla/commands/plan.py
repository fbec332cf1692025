"""``pytest-vla plan``: computes how many episodes a gate needs, before they run."""

import argparse
import json
from contextlib import suppress
from math import ceil
from typing import TYPE_CHECKING

from pytest_vla.commands.baseline import declare_runs, of_runs
from pytest_vla.commands.gate import baseline_of, declare_terms, number, terms_of
from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from pytest_vla.gate.baseline import Baseline
    from pytest_vla.gate.planning import GatePlan, PlanGroup
    from pytest_vla.gate.verdicts import Terms

# Heavy imports are inside the functions, so that --help is fast.

DROP = 10.0
"""The default drop to detect, in percentage points of success."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Gates are simulated from the baseline's episodes. Without RUN, the simulation assumes that two equal policies "
        "disagree as often as two seeds of the same task. With RUN, it uses the disagreement observed between RUN and "
        "the baseline. Both policies have the baseline's success rate (with RUN, the mean of both rates), or one is "
        "worse by --drop."
    )
    declare_runs(parser, "a run of another checkpoint on the baseline's cases (default: none)")
    declare_terms(parser)
    parser.add_argument(
        "--drop",
        metavar="POINTS",
        type=number,
        default=DROP,
        help=f"drop to detect, in percentage points of success (default: {DROP:g})",
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the simulations (default: 0)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> None:
    """Simulate the gates, and print the plan. Raises VlaError: no such baseline or run, or a number out of range."""
    import numpy as np

    from pytest_vla.gate.planning import plan_group
    from pytest_vla.reports.gates import plan_lines, plan_table

    terms = terms_of(options)
    if not 0.0 < options.drop <= 100.0:
        raise VlaError(f"--drop={options.drop:g}: expected points of success above 0, at most 100, such as {DROP:g}")
    if options.seed < 0:
        raise VlaError(f"--seed={options.seed}: expected 0 or more")
    baseline = baseline_of(options)
    groups, told = _groups(options, baseline, terms)
    if not groups:
        raise VlaError("nothing can be planned: the baseline has no success or failure")
    generators = np.random.default_rng(options.seed).spawn(len(groups))
    plans = [
        plan_group(group, options.drop / 100, terms, len(groups), generator)
        for group, generator in zip(groups, generators, strict=True)
    ]
    told += [line for pair in zip(groups, plans, strict=True) if (line := _starts_told(*pair))]
    if options.json:
        print(json.dumps(plan_table(plans, terms, options.drop, bool(options.which)), indent=2))
    else:
        print("\n".join([*told, *plan_lines(plans, terms, options.drop, bool(options.which))]))


def _groups(
    options: argparse.Namespace, baseline: "Baseline", terms: "Terms"
) -> "tuple[tuple[PlanGroup, ...], list[str]]":
    """Return the groups to plan for, and the notes about the run."""
    from pytest_vla.gate.baseline import distinct_cases
    from pytest_vla.gate.comparable import distinct_pairs, paired
    from pytest_vla.gate.planning import groups_of_cases, groups_of_pairs

    if not options.which:
        copies = len(baseline.cases) - len(distinct_cases(baseline.cases))
        return groups_of_cases(baseline.cases, terms.by), _copies_told(copies, "episode")
    new, told = of_runs(options, allow_broken=True)
    found = paired(baseline, new)
    if refused := found.agreement.of("refuses"):
        raise VlaError(f"{new.model} ran under different conditions than the baseline: {refused[0].text}")
    found = distinct_pairs(found)
    return groups_of_pairs(found.pairs, terms.by), [*told, *_copies_told(found.agreement.copies, "pair")]


def _copies_told(copies: int, what: str) -> list[str]:
    if not copies:
        return []
    return [
        f"note: {counted(copies, what)} of the baseline "
        f"{'is an exact copy of another' if copies == 1 else 'are exact copies of others'}"
    ]


def _starts_told(group: "PlanGroup", plan: "GatePlan") -> str:
    """Return a note if a group needs more seeds than its tasks have starts, or an empty text if it does not."""
    from pytest_vla.plan.manifests import load_suite, suite_names
    from pytest_vla.run.preflight import starts_of

    pairs = [each[-1] for each in (plan.no_worse, plan.regression) if each[-1] is not None]
    known = [name.partition("/") for name in group.tasks]
    starts = []
    # Suites that are not installed are skipped.
    with suppress(VlaError):
        tasks = [load_suite(suite).task(task) for suite, _, task in known if suite in suite_names()]
        starts = [number for task in tasks if (number := starts_of(task)) is not None]
    if not starts or not pairs or plan.has == 0:
        return ""
    takes = ceil(max(pairs) / plan.has * group.seeds)
    if takes <= min(starts):
        return ""
    return (
        f"note: {plan.name} needs {counted(takes, 'seed')} a task, but a task has {counted(min(starts), 'start')}. "
        "Make more (pytest-vla init-states --add), or use several run seeds if the policy samples its actions"
    )


COMMAND = Command(declare, run)
