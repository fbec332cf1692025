"""The selection of cases: tasks by patterns, seeds, variations, and their comparison cases. Pure."""

import fnmatch
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case, parts_of
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import Task
from pytest_vla.util.text import counted, did_you_mean

DEFAULT_SEEDS = (0,)
"""Which seeds are run where nothing says which."""


def select_tasks(suites: Sequence[Suite], patterns: Sequence[str]) -> tuple[Task, ...]:
    """Return the tasks that a comma list selects, in the suites' order; all of them if the list is empty.

    A pattern is a task's name, a wildcard pattern (``*``, ``?``, ``[]``) or a part of a name; a full name selects that
    name only. A name may have the task's level before it, as ids have: ``L1-pick_the_apple``, ``L1-*``. Letter case is
    ignored.

    Raises:
        VlaError: a pattern selects nothing in any of the suites; the message has close matches.
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
            meant = _numbered(suites, pattern)
            advice = f" By its number it would be {meant}: use the name." if meant else did_you_mean(pattern, known)
            raise VlaError(f"no task of {where} is {pattern!r} or contains it.{advice}")
        chosen |= matched
    return tuple(task for task in tasks if task.key in chosen)


def numbers_as_names(suites: Sequence[Suite], patterns: Sequence[str]) -> tuple[str, ...]:
    """Return a line for each pattern that is a number: a part of names here, but a task's number elsewhere."""
    told = []
    names = {task.key: task.name for suite in suites for task in suite.tasks}
    for pattern in patterns:
        if (meant := _numbered(suites, pattern)) and (matched := _matching(pattern, names)):
            listed = ", ".join(sorted(matched)[:2]) + ", ..." * (len(matched) > 2)
            told.append(
                f"--vla-tasks={pattern} selects {counted(len(matched), 'task')} with that in the name ({listed}); "
                f"by its number it would be {meant}"
            )
    return tuple(told)


def _numbered(suites: Sequence[Suite], pattern: str) -> str:
    """Return the tasks with a number, counted from 0 in each suite's order, or an empty text if there are none."""
    if not re.fullmatch("[0-9]{1,4}", pattern):
        return ""
    return " or ".join(suite.tasks[int(pattern)].key for suite in suites if int(pattern) < len(suite.tasks))


def plan(
    suites: Sequence[Suite],
    patterns: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
    labels: Callable[[Task], Sequence[str]] = lambda task: ("",),
    task_levels: Sequence[str] = (),
    own_seeds: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> tuple[Case, ...]:
    """Return all cases, suite by suite, task by task, variation by variation, a variation's seeds next to each other.

    Args:
        suites: whose tasks.
        patterns: as for `select_tasks`.
        seeds: or None for each suite's own.
        own_seeds: by suite, to be used instead of its own.
        labels: of each task's variations; an empty label means the unvaried task.
        task_levels: only tasks of these levels; if empty all tasks, also those of suites without levels.

    Raises:
        VlaError: as `select_tasks`; or no suite has one of the levels.
    """
    own = {suite.name: own_seeds.get(suite.name) or suite.seeds or DEFAULT_SEEDS for suite in suites}
    _check_levels(suites, task_levels)
    return tuple(
        Case(task.suite, task.name, seed, label, task.task_level)
        for task in select_tasks(suites, patterns)
        if not task_levels or task.task_level in task_levels
        for label in labels(task)
        for seed in seeds or own[task.suite]
    )


def with_twins(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Return the cases, each after its comparison cases, once: its benign twin, and the parts of a joint one."""
    joint = [(case, parts) for case in cases if len(parts := parts_of(case.variation)) > 1]
    singles = [replace(case, variation=part) for case, parts in joint for part in parts]
    return tuple(dict.fromkeys([*(case.twin for case in cases), *singles, *cases]))


def narrow(cases: Sequence[Case], patterns: Sequence[str], task_levels: Sequence[str] = ()) -> tuple[Case, ...]:
    """Return the cases whose tasks the patterns of `select_tasks` select, and whose tasks are on one of the levels.

    Without a pattern, or without a level, these leave none out.
    """
    cases = [case for case in cases if not task_levels or case.task_level in task_levels]
    names = {case.task_key: case.task for case in cases}
    chosen = {name for pattern in patterns for name in _matching(pattern, names)} if patterns else names
    return tuple(case for case in cases if case.task_key in chosen)


def _check_levels(suites: Sequence[Suite], task_levels: Sequence[str]) -> None:
    """Raise VlaError if no suite has one of the levels."""
    known = tuple(dict.fromkeys(level for suite in suites for level in suite.task_levels))
    for level in task_levels if suites else ():
        if level not in known:
            where = ", ".join(suite.name for suite in suites)
            told = f"their levels are {', '.join(known)}" if known else "their tasks have no levels"
            raise VlaError(f"no task of {where} has level {level}: {told}")


def _matching(pattern: str, names: Mapping[str, str]) -> set[str]:
    """Return the keys of the tasks that match a pattern; `names` has their names by `Task.key`."""
    lowered = pattern.lower()
    texts = {key: (key.lower(), name.lower()) for key, name in names.items()}
    exact = {key for key, known in texts.items() if lowered in known}
    if exact:
        return exact
    if any(sign in pattern for sign in "*?["):
        return {key for key, known in texts.items() if any(fnmatch.fnmatchcase(text, lowered) for text in known)}
    return {key for key, (text, _) in texts.items() if lowered in text}


# Which cases a sample has, where not all that are asked for are run. Pure: no simulator, no pytest.


@dataclass(frozen=True)
class SamplingStratum:
    """The stratum of a case in a sample. A sample is spread evenly over the attributes, in this order.

    Empty texts are not distinguished.

    Attributes:
        dimension: of the variation, such as ``camera``, or ``camera+light``.
        kind: of the variation, within the dimension.
        level: of the variation, or one of a kind's several; the level of the task if it is not varied.
        task: its `Case.task_key`.
    """

    dimension: str = ""
    kind: str = ""
    level: str = ""
    task: str = ""


def of_task(case: Case) -> SamplingStratum:
    """Return the stratum of an unvaried case."""
    return SamplingStratum(level=case.task_level, task=case.task_key)


def sample(
    cases: Sequence[Case], count: int, seed: int, stratum: Callable[[Case], SamplingStratum] = of_task
) -> tuple[Case, ...]:
    """Draw cases that are spread evenly over dimensions first, then over kinds, levels and tasks; in the cases' order.

    They are drawn one by one from where there are fewest yet: the dimension, its kind, that kind's level, that level's
    task. Ties go to the level, the task, and the task and seed that the dimension has least of. Next, a task and seed
    that another dimension has is preferred: its benign twin is run already, and dimensions are compared on the same
    episodes. Remaining ties are drawn by lot. A stratum with fewer cases than its share gives all of them.

    A sample is part of every larger one that is drawn from the same cases by the same seed.

    Args:
        cases: to draw from.
        count: the most cases to draw.
        seed: of the lot.
        stratum: of a case.
    """
    if count >= len(cases):
        return tuple(cases)
    lot = random.Random(seed)
    strata, numbers = [stratum(case) for case in cases], [lot.random() for _ in cases]
    leaves: dict[tuple[str, str, str], list[int]] = {}
    for index, each in enumerate(strata):
        leaves.setdefault((each.dimension, each.kind, each.level), []).append(index)
    nodes = {node for leaf in leaves for node in (leaf[:1], leaf[:2], leaf)}
    number = {node: lot.random() for node in sorted(nodes)}
    nested: Counter[tuple[str, ...]] = Counter()
    levels: Counter[tuple[str, str]] = Counter()
    tasks: Counter[tuple[str, str]] = Counter()
    units: Counter[tuple[str, str, int]] = Counter()
    anywhere: set[tuple[str, int]] = set()

    def of_leaf(leaf: tuple[str, str, str]) -> tuple[float, ...]:
        dimension, _, level = leaf
        # A dimension's number before its kinds' counts: kinds are compared within one dimension only.
        first, second = ((nested[node], number[node]) for node in (leaf[:1], leaf[:2]))
        return (*first, *second, nested[leaf], levels[dimension, level], number[leaf])

    def of_case(index: int) -> tuple[float, ...]:
        each, case = strata[index], cases[index]
        if not each.task:
            return (numbers[index],)
        unit, dimension = (each.task, case.seed), each.dimension
        within = nested[dimension, each.kind, each.level, each.task]
        counts = within, tasks[dimension, each.task], units[dimension, *unit]
        return (*counts, unit not in anywhere, numbers[index])

    chosen = []
    for _ in range(count):
        leaf = min(leaves, key=of_leaf)
        index = min(leaves[leaf], key=of_case)
        chosen.append(index)
        leaves[leaf].remove(index)
        if not leaves[leaf]:
            del leaves[leaf]
        task, case_seed = strata[index].task, cases[index].seed
        nested.update([leaf[:1], leaf[:2], leaf, (*leaf, task)])
        levels[leaf[0], leaf[2]] += 1
        tasks[leaf[0], task] += 1
        units[leaf[0], task, case_seed] += 1
        anywhere.add((task, case_seed))
    return tuple(cases[index] for index in sorted(chosen))
