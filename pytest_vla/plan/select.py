"""Which cases are run: tasks by patterns, seeds, variations, and what they are compared with. Pure."""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
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
    name only. A name may have the task's level before it, as ids have: ``L1-pick_the_apple``, ``L1-*``. Case does not
    matter.

    Raises:
        VlaError: a pattern selects nothing in any of the suites; names the close matches.
    """
    tasks = [task for suite in suites for task in suite.tasks]
    if not patterns:
        return tuple(tasks)
    names = {task.key: task.name for task in tasks}
    chosen: set[str] = set()
    for pattern in patterns:
        matched = _matching(pattern, names)
        if not matched and suites:
            where = ", ".join(suite.name for suite in suites)
            known = [*sorted({*names, *names.values()})]
            known += sorted({word for name in names.values() for word in name.split("_")})
            raise VlaError(f"no task of {where} is {pattern!r} or contains it.{did_you_mean(pattern, known)}")
        chosen |= matched
    return tuple(task for task in tasks if task.key in chosen)


def plan(
    suites: Sequence[Suite],
    patterns: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    labels: Callable[[Task], Sequence[str]] = lambda task: ("",),
    task_levels: Sequence[str] = (),
) -> tuple[Case, ...]:
    """All cases, suite by suite, task by task, variation by variation, a variation's seeds next to each other.

    Args:
        suites: whose tasks.
        patterns: as for `select_tasks`.
        seeds: None: each suite's own.
        labels: of each task's variations; the empty one: the task as it is.
        task_levels: only tasks of these levels; none: all tasks, also those of suites without levels.

    Raises:
        VlaError: as `select_tasks`; or no suite has one of the levels.
    """
    own = {suite.name: suite.seeds or DEFAULT_SEEDS for suite in suites}
    _check_levels(suites, task_levels)
    return tuple(
        Case(task.suite, task.name, seed, label, task.task_level)
        for task in select_tasks(suites, patterns)
        if not task_levels or task.task_level in task_levels
        for label in labels(task)
        for seed in seeds or own[task.suite]
    )


def with_twins(cases: Sequence[Case]) -> tuple[Case, ...]:
    """The cases, and before them, once, what each is compared with: its benign twin, and of a joint one its parts."""
    joint = [(case, parts) for case in cases if len(parts := parts_of(case.variation)) > 1]
    singles = [replace(case, variation=part) for case, parts in joint for part in parts]
    return tuple(dict.fromkeys([*(case.twin for case in cases), *singles, *cases]))


def narrow(cases: Sequence[Case], patterns: Sequence[str], task_levels: Sequence[str] = ()) -> tuple[Case, ...]:
    """Those of the cases whose tasks the patterns of `select_tasks` select, and whose tasks are of one of the levels.

    Without a pattern, or without a level, these leave none out.
    """
    cases = [case for case in cases if not task_levels or case.task_level in task_levels]
    names = {case.task_key: case.task for case in cases}
    chosen = {name for pattern in patterns for name in _matching(pattern, names)} if patterns else names
    return tuple(case for case in cases if case.task_key in chosen)


def _check_levels(suites: Sequence[Suite], task_levels: Sequence[str]) -> None:
    """Raises VlaError where no suite has one of the levels."""
    known = tuple(dict.fromkeys(level for suite in suites for level in suite.task_levels))
    for level in task_levels if suites else ():
        if level not in known:
            where = ", ".join(suite.name for suite in suites)
            told = f"their levels are {', '.join(known)}" if known else "their tasks come in no levels"
            raise VlaError(f"no task of {where} is of level {level}: {told}")


def _matching(pattern: str, names: Mapping[str, str]) -> set[str]:
    """The keys of the tasks that a pattern means; `names`: by `Task.key` their names."""
    lowered = pattern.lower()
    texts = {key: (key.lower(), name.lower()) for key, name in names.items()}
    exact = {key for key, known in texts.items() if lowered in known}
    if exact:
        return exact
    if any(sign in pattern for sign in "*?["):
        return {key for key, known in texts.items() if any(fnmatch.fnmatchcase(text, lowered) for text in known)}
    return {key for key, (text, _) in texts.items() if lowered in text}
