"""Which cases are run: tasks by patterns, seeds, variations, and what they are compared with. Pure."""

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.labels import parts_of
from pytest_vla.plan.suite import Suite
from pytest_vla.plan.task import Task
from pytest_vla.util.text import did_you_mean

DEFAULT_SEEDS = (0,)
"""Which seeds are run where nothing says which."""


def select_tasks(suites: Sequence[Suite], patterns: Sequence[str]) -> tuple[Task, ...]:
    """The tasks that a comma list selects, in the suites' order; all of them where the list is empty.

    A pattern is a task's name, a wildcard pattern (``*``, ``?``, ``[]``) or a part of a name; a full name selects that
    name only. Case does not matter.

    Raises:
        VlaError: a pattern selects nothing in any of the suites; names the close matches.
    """
    tasks = [task for suite in suites for task in suite.tasks]
    if not patterns:
        return tuple(tasks)
    names = {task.name for task in tasks}
    chosen: set[str] = set()
    for pattern in patterns:
        matched = _matching(pattern, names)
        if not matched and suites:
            where = ", ".join(suite.name for suite in suites)
            known = [*sorted(names), *sorted({word for name in names for word in name.split("_")})]
            raise VlaError(f"no task of {where} is {pattern!r} or contains it.{did_you_mean(pattern, known)}")
        chosen |= matched
    return tuple(task for task in tasks if task.name in chosen)


def plan(
    suites: Sequence[Suite],
    patterns: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    labels: Callable[[Task], Sequence[str]] = lambda task: ("",),
) -> tuple[Case, ...]:
    """All cases, suite by suite, task by task, variation by variation, a variation's seeds next to each other.

    Args:
        suites: whose tasks.
        patterns: as for `select_tasks`.
        seeds: None: each suite's own.
        labels: of each task's variations; the empty one: the task as it is.

    Raises:
        VlaError: as `select_tasks`.
    """
    own = {suite.name: suite.seeds or DEFAULT_SEEDS for suite in suites}
    return tuple(
        Case(task.suite, task.name, seed, label)
        for task in select_tasks(suites, patterns)
        for label in labels(task)
        for seed in seeds or own[task.suite]
    )


def with_twins(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases, and before them, once, what each is compared with: its benign twin, and of a joint one its parts."""
    joint = [(case, parts) for case in cases if len(parts := parts_of(case.variation)) > 1]
    singles = [replace(case, variation=part) for case, parts in joint for part in parts]
    return tuple(dict.fromkeys([*(case.twin for case in cases), *singles, *cases]))


def narrow(cases: Sequence[Case], patterns: Sequence[str]) -> tuple[Case, ...]:
    """Those of the cases whose tasks the patterns of `select_tasks` select; all of them where there is no pattern."""
    names = {case.task for case in cases}
    chosen = {name for pattern in patterns for name in _matching(pattern, names)} if patterns else names
    return tuple(case for case in cases if case.task in chosen)


def _matching(pattern: str, names: Iterable[str]) -> set[str]:
    lowered = pattern.lower()
    exact = {name for name in names if name.lower() == lowered}
    if exact:
        return exact
    if any(sign in pattern for sign in "*?["):
        return {name for name in names if fnmatch.fnmatchcase(name.lower(), lowered)}
    return {name for name in names if lowered in name.lower()}
