"""``@pytest.mark.vla(suite=..., tasks=..., seeds=...)``: the user's own tests on selected episodes."""

import itertools
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_vla.errors import NO_CASE, VlaError
from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES
from pytest_vla.plan.case import Case, parse_task_levels
from pytest_vla.plan.manifests import named_suites
from pytest_vla.plan.select import narrow, plan
from pytest_vla.plan.task import Task
from pytest_vla.run.constants import EPISODE_FIXTURES, MARKER
from pytest_vla.run.context import context_of
from pytest_vla.run.nodes import Scope
from pytest_vla.run.selection import Selection, prepared
from pytest_vla.util.text import LAST_SEED, MAX_SEEDS, did_you_mean, parse_seeds, printable
from pytest_vla.vary.registry import labels_of, parse_vary

NAME = MARKER
KEYWORDS = ("suite", "tasks", "task_levels", "seeds", "vary", "scope", "group")
SCOPES: tuple[Scope, ...] = ("function", "class", "module")
# Of the suite that needs no data.
EXAMPLE = '@pytest.mark.vla(suite="tabletop", tasks="bowl_on", seeds=range(3))'
ABOUT = (
    f"{NAME}({', '.join(KEYWORDS)}): an episode of a robot policy. On a test of yours that takes `rollout`: run it on "
    "these episodes; suite and tasks are names or lists of them, task_levels text as in --vla-task-levels, seeds a "
    'number, several, or text as in --vla-seeds, vary text as in --vla-vary; with scope="class" or "module" the tests '
    "of a class or module that run the same case share one episode; group is a name by which a gate groups episodes "
    "(--vla-gate-by=group). Every item of a suite has it, with category and "
    "task_level where its suite has them, as in "
    "-m \"vla(category='safety', task_level='L1')\"; a varied one has dimension, kind, level and the parameters of its "
    "variation too, by which -m selects, as in -m \"vla(object_type='addition_deletion')\". Paraphrases "
    f"have object_type ({', '.join(OBJECT_TYPES)}) and action_type ({', '.join(ACTION_TYPES)})."
)
"""What ``pytest --markers`` says."""

MODELS = "--vla-model=expert, --vla-model=random, --vla-model=module:callable or --vla-model=replay:PATH"
NO_MODEL = f"no policy: add {MODELS}"
NOTHING_TO_RUN = (
    "--vla-model is given, but no test here runs an episode. Name a suite, as in --vla-suite=tabletop, or mark a "
    f"test of yours that takes `rollout`, as in {EXAMPLE}"
)


@dataclass(frozen=True)
class Marked:
    """The episodes that a test's markers select.

    Attributes:
        suites: names of suites.
        tasks: patterns as in ``--vla-tasks``; empty for all tasks.
        task_levels: task levels; empty for all levels, and for tasks without levels.
        seeds: the seeds of each task, or None if the marker names no seeds.
        vary: labels of the variations of each task; empty for unvaried tasks.
        scope: the scope within which tests on the same case share one episode.
        group: a name by which a gate can group the episodes; empty for none.
    """

    suites: tuple[str, ...]
    tasks: tuple[str, ...] = ()
    task_levels: tuple[str, ...] = ()
    seeds: tuple[int, ...] | None = None
    vary: tuple[str, ...] = ()
    scope: Scope = "function"
    group: str = ""


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Give a marked test its episodes; without a policy, one item that is skipped."""
    definition, selection = metafunc.definition, context_of(metafunc.config).selection
    markers = list(definition.iter_markers(NAME))
    if not markers:
        return
    try:
        if "vla_case" not in metafunc.fixturenames:
            _check_not_in_vain(definition)
            return
        marked = read_markers(markers)
        if marked.scope == "class" and definition.getparent(pytest.Class) is None:
            raise VlaError('scope="class": the test is in no class; put it into one, or write scope="module"')
        named = _named(selection, definition)
        cases = select_cases(marked, selection, named)
    except VlaError as error:
        file, line, name = definition.location
        raise pytest.Collector.CollectError(f"{file}:{(line or 0) + 1}: {name}: @pytest.mark.vla: {error}") from error
    skipped = [pytest.mark.skip(reason=NO_MODEL)] if selection.settings.model is None else []
    listed = metafunc.config.option.collectonly or named
    if not cases:
        # An empty parameter set would become a skip, an xfail or an error, as empty_parameter_set_mark says.
        parameters = [pytest.param(None, id=NO_CASE)]
    elif skipped and not listed:
        parameters = [pytest.param(None, id="no-model", marks=skipped)]
    else:
        several = len(marked.suites) > 1
        parameters = [pytest.param(case, id=_parameter_id(case, several), marks=skipped) for case in cases]
    # Beyond a function's scope pytest runs the tests of one case one after the other.
    metafunc.parametrize("vla_case", parameters, scope=None if marked.scope == "function" else marked.scope)


def deselect(config: pytest.Config, items: list[pytest.Item], excused: bool) -> None:
    """Deselect the tests for which ``--vla-tasks`` leaves no episode, and the tests that need no policy.

    Args:
        config: pytest's.
        items: the collected items.
        excused: whether no item may be left: the run is resumed, or a collection error was already reported.

    Raises:
        pytest.UsageError: a policy is given for a new run, and no test uses it. Workers leave this error to their
            controller.
    """
    only_episodes = context_of(config).selection.only_episodes
    others = [item for item in items if not runs_episodes(item)] if only_episodes else []
    if only_episodes and len(others) == len(items) and not excused and not hasattr(config, "workerinput"):
        raise pytest.UsageError(NOTHING_TO_RUN)
    empty = [item for item in items if NO_CASE in item.name and _case_of(item, NO_CASE) is None]
    if out := {*others, *empty}:
        config.hook.pytest_deselected(items=[item for item in items if item in out])
        items[:] = [item for item in items if item not in out]


def remember_marks(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    """Keep the marks' values of the episodes from which ``-m "vla(...)"`` is about to select, for `unmatched`."""
    if f"{NAME}(" not in config.option.markexpr:
        return
    values: dict[str, set[str]] = {}
    for mark in (mark for item in items if runs_episodes(item) for mark in item.iter_markers(NAME)):
        for name, value in mark.kwargs.items():
            values.setdefault(name, set()).add(repr(value))
    context_of(config).findings.marked_values.update(values)


def unmatched(config: pytest.Config) -> str:
    """Return the line for ``-m "vla(...)"`` that has left no episode: the values that there are; empty without any."""
    values = context_of(config).findings.marked_values
    if not values:
        return ""
    expression = config.option.markexpr
    lines = []
    for name in dict.fromkeys(re.findall(r"(\w+)\s*=", expression)):
        if name in values:
            lines.append(f"{name} is {_some(values[name])}")
        else:
            lines.append(f"no episode has {name!r}, they have {_some(values)}")
    return f'vla: -m "{printable(expression)}" selects no episode: ' + "; ".join(lines)


def _some(names: Iterable[str], most: int = 12) -> str:
    every = sorted(names)
    return ", ".join(every[:most]) + f", ... ({len(every)} in all)" * (len(every) > most)


def runs_episodes(item: pytest.Item) -> bool:
    """Whether a test needs a policy."""
    return not EPISODE_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))


def read_markers(markers: Iterable[pytest.Mark]) -> Marked:
    """Return what the markers of a test select; if several set a keyword, the marker nearest to the test wins.

    Raises:
        VlaError: with what was expected.
    """
    keywords: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            raise VlaError(f"expected keywords, not {', '.join(map(repr, marker.args))}; for example {EXAMPLE}")
        for name in marker.kwargs:
            if name not in KEYWORDS:
                raise VlaError(f"unknown keyword {name!r}.{did_you_mean(name, KEYWORDS)} Known: {', '.join(KEYWORDS)}")
        keywords = {**marker.kwargs, **keywords}
    if keywords.get("suite") is None:
        raise VlaError(f"no suite is named: expected, for example, {EXAMPLE}")
    tasks, seeds, vary = keywords.get("tasks"), keywords.get("seeds"), keywords.get("vary")
    levels = keywords.get("task_levels")
    return Marked(
        tuple(dict.fromkeys(suite for name in _names("suite", keywords["suite"]) for suite in named_suites(name))),
        () if tasks is None else _names("tasks", tasks),
        () if levels is None else parse_task_levels(",".join(_names("task_levels", levels))),
        None if seeds is None else _seeds(seeds),
        () if vary is None else parse_vary(",".join(_names("vary", vary))),
        _scope(keywords.get("scope")),
        _group(keywords.get("group")),
    )


def group_of(item: pytest.Item) -> str:
    """Return the group that a test's marker names for its episodes; empty for no group and for a suite's own item."""
    named = (mark.kwargs["group"] for mark in item.iter_markers(NAME) if "group" in mark.kwargs)
    return _group(next(named, None))


def select_cases(marked: Marked, selection: Selection, named: Sequence[str]) -> tuple[Case, ...]:
    """Return the episodes of a marked test.

    ``--vla-tasks`` narrows the marker's tasks, ``--vla-seeds`` and ``--vla-episodes`` replace its seeds, ``--vla-vary``
    replaces its variations. Values of the ini file apply to tests whose marker sets none. An id among pytest's
    arguments always selects its episode.

    Args:
        marked: the selection of the test's markers.
        selection: the selection of this invocation.
        named: the texts in the brackets of those arguments that are ids of this test.

    Raises:
        VlaError: no such suite or task.
    """
    settings = selection.settings
    suites = [settings.load_suite(name) for name in marked.suites]

    def labels(task: Task) -> tuple[str, ...]:
        vary = settings.vary if settings.vary_typed or not marked.vary else marked.vary
        return labels_of(task, vary, settings.protocol)

    planned = plan(suites, marked.tasks, settings.seeds or marked.seeds, labels, marked.task_levels)
    asked = narrow(planned, settings.tasks, settings.task_levels)
    of_suites = [(suite, [case for case in asked if case.suite == suite.name]) for suite in suites]
    cases = [case for suite, found in of_suites for case in prepared(found, suite.tasks, settings)]
    found = [int(seed) for text in named for seed in re.findall(r"-seed(\d{1,10})(?!\d)", text)]
    seeds = tuple(dict.fromkeys(seed for seed in found if seed <= LAST_SEED))
    several = len(suites) > 1
    pasted = [
        case
        for case in (plan(suites, marked.tasks, seeds, labels, marked.task_levels) if seeds else ())
        if any(f"-{_parameter_id(case, several)}-" in f"-{text}-" for text in named)
    ]
    return tuple(dict.fromkeys([*cases, *pasted]))


def _check_not_in_vain(definition: pytest.Function) -> None:
    # On a class or a module the marker may stand for other tests; another plugin's `vla` has other keywords.
    if any(mark.name == NAME and not mark.kwargs.keys().isdisjoint(KEYWORDS) for mark in definition.own_markers):
        raise VlaError("the test takes no episode: give it the argument `rollout`")


def _names(keyword: str, value: object) -> tuple[str, ...]:
    given: list[Any] = list(value) if isinstance(value, list | tuple | set) else [value]
    if not all(isinstance(part, str) for part in given):
        raise VlaError(f"{keyword}={value!r}: expected a name or a list of names")
    # A set has another order in every process, and workers must agree.
    parts: list[str] = sorted(given) if isinstance(value, set) else given
    names = tuple(dict.fromkeys(name.strip() for part in parts for name in part.split(",") if name.strip()))
    if not names:
        raise VlaError(f"{keyword}={value!r} names nothing: expected a name or a list of names")
    return names


def _scope(value: object) -> Scope:
    found = "function" if value is None else value
    for scope in SCOPES:
        if found == scope:
            return scope
    close = did_you_mean(found, SCOPES) if isinstance(found, str) else ""
    raise VlaError(f"scope={value!r}: expected {', '.join(SCOPES)}.{close}")


def _group(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or re.fullmatch(r"[\w][\w .-]{0,79}", value) is None:
        raise VlaError(f'group={value!r}: expected a name of letters, digits, _, -, . and blanks, such as "pouring"')
    return value


def _seeds(value: object) -> tuple[int, ...]:
    if isinstance(value, str):
        return parse_seeds(value)
    if isinstance(value, Iterator):
        raise VlaError(f"seeds={value!r}: it can be read only once, by one test; expected a list or a range")
    if isinstance(value, Iterable):
        seeds = tuple(dict.fromkeys(_seed(part, value) for part in itertools.islice(value, MAX_SEEDS + 1)))
    else:
        seeds = (_seed(value, value),)
    if not seeds:
        raise VlaError(f"seeds={value!r}: it has no seed")
    if len(seeds) > MAX_SEEDS:
        raise VlaError(f"seeds={value!r}: more than {MAX_SEEDS} seeds")
    return seeds


def _seed(part: Any, value: object) -> int:
    try:
        seed = -1 if isinstance(part, bool) else operator.index(part)
    except TypeError:
        seed = -1
    if not 0 <= seed <= LAST_SEED:
        raise VlaError(
            f'seeds={value!r}: expected a number (0 to {LAST_SEED}), a list or range of them, or text as "0-4,10"'
        )
    return seed


def _parameter_id(case: Case, several: bool) -> str:
    return f"{case.suite}-{case.parameter_id}" if several else case.parameter_id


def _named(selection: Selection, definition: pytest.Function) -> list[str]:
    """Return the texts in the brackets of those arguments that are ids of this test."""
    config, own = definition.config, definition.nodeid.partition("::")[2]
    found = []
    for argument in selection.arguments:
        path, _, names = argument.partition("::")
        name, bracket, inside = names.partition("[")
        if not bracket or name != own:
            continue
        # With --pyargs it may be a module's name.
        if config.option.pyargs or (config.invocation_params.dir / path).resolve() == definition.path.resolve():
            found.append(inside.removesuffix("]"))
    return found


def _case_of(item: pytest.Item, otherwise: object) -> object:
    return item.callspec.params.get("vla_case", otherwise) if hasattr(item, "callspec") else otherwise
