"""The selection of an invocation: modules and cases of suites, from options, names and paths."""

import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_vla.entries import MANIFEST
from pytest_vla.errors import UnfitError, VlaError
from pytest_vla.fuzz.case_file import listed_cases
from pytest_vla.plan.case import Case, but_last_part, parse_node_id, parse_search_id
from pytest_vla.plan.choices import DRAWN
from pytest_vla.plan.evaluators import load_evaluator
from pytest_vla.plan.manifests import (
    Suite,
    is_suite,
    load_suite,
    named_suites,
    suite_folder,
    suite_manifest,
    suite_names,
)
from pytest_vla.plan.select import SamplingStratum, narrow, of_task, plan, sample, select_tasks, with_twins
from pytest_vla.plan.task import Task, check_unvaried
from pytest_vla.reports.text import first_few
from pytest_vla.run import suite_items
from pytest_vla.run.constants import SUITES
from pytest_vla.run.settings import Settings
from pytest_vla.util.text import counted, printable_lines
from pytest_vla.vary.registry import find_variation, labels_of, listing, name_of, parts_told_apart, unavailable


@dataclass(frozen=True)
class Selection:
    """The suites' part of an invocation's collection.

    Attributes:
        settings: the settings of the invocation.
        arguments: pytest's arguments, with files for the names of suites.
        named: suites that are named by an option or an id.
        paths_given: whether the user gave paths or ids.
        cases: by suite, its cases, as far as they had to be known before collection.
        by_ids: whether every named suite is named by ids of cases, such as pasted ids of failures.
        searches: by suite, the keys of its tasks to search.
    """

    settings: Settings
    arguments: tuple[str, ...]
    named: tuple[str, ...]
    paths_given: bool
    cases: Mapping[str, tuple[Case, ...]]
    by_ids: bool = False
    searches: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def only_episodes(self) -> bool:
        """Whether tests without episodes are deselected: a policy is given, and neither suites nor paths are."""
        return self.settings.model_typed and not self.named and not self.paths_given

    def cases_of(self, suite: str) -> tuple[Case, ...]:
        """Return the cases of a suite, or none if none of its tasks is selected. Raises VlaError."""
        if suite in self.cases:
            return self.cases[suite]
        return planned([self.settings.load_suite(suite)], self.settings)[suite]


def planned(suites: Sequence[Suite], settings: Settings) -> dict[str, tuple[Case, ...]]:
    """Return the cases that the options select, by suite; none for a suite whose tasks cannot have a variation.

    Raises:
        VlaError: as `prepared`; or no suite has a task that can have a variation.
    """
    lacking = unavailable([task for suite in suites for task in suite.tasks])
    for need, number in lacking.items():
        warnings.warn(pytest.PytestWarning(f"unavailable: {number} of the list: {need}"), stacklevel=2)
    cases: dict[str, list[Case]] = {suite.name: [] for suite in suites}
    for case in plan(
        suites,
        settings.tasks,
        settings.seeds,
        lambda task: labels_of(task, settings.vary, settings.protocol),
        settings.task_levels,
        _usual_seeds(suites, settings) if settings.seeds is None else {},
    ):
        cases[case.suite].append(case)
    found: dict[str, tuple[Case, ...]] = {}
    refused: list[UnfitError] = []
    for suite in suites:
        try:
            found[suite.name] = prepared(cases[suite.name], suite.tasks, settings)
        except UnfitError as error:
            found[suite.name] = ()
            refused.append(error)
    if refused and not any(found.values()):
        raise refused[0]
    return found


def _usual_seeds(suites: Sequence[Suite], settings: Settings) -> dict[str, tuple[int, ...]]:
    """Return the seeds by suite where the options give none: the baseline's, else the typed evaluator's episodes."""
    evaluator = None if settings.evaluator is None else load_evaluator(str(settings.evaluator))
    episodes = tuple(range(evaluator.episodes or 0)) if evaluator is not None else ()
    of_evaluator = {suite.name: episodes for suite in suites if evaluator and suite.name in evaluator.max_steps}
    return {suite: seeds for suite, seeds in {**of_evaluator, **_seeds_of_baseline(settings)}.items() if seeds}


def _seeds_of_baseline(settings: Settings) -> dict[str, tuple[int, ...]]:
    """Return the seeds by suite that the run's baseline file has in its rates, so that a gate compares all its cases.

    Empty without a baseline, for a run as a baseline (``last`` would be another one for a resumed run), and if the file
    cannot be read: the gate's plan says why.
    """
    if settings.baseline is None or not settings.baseline.is_file():
        return {}
    from pytest_vla.reports.baselines import baseline_named

    found: dict[str, set[int]] = {}
    with suppress(VlaError):
        for case in baseline_named(str(settings.baseline), settings.results).cases:
            if not case.in_no_rate:
                found.setdefault(case.suite, set()).add(case.seed)
    return {suite: tuple(sorted(seeds)) for suite, seeds in found.items()}


def prepared(cases: Sequence[Case], tasks: Sequence[Task], settings: Settings) -> tuple[Case, ...]:
    """Return the cases of one suite to run: the possible ones, a sample of these, and their twins.

    Args:
        cases: the selected cases.
        tasks: the suite's tasks.
        settings: the settings of this invocation.

    Raises:
        VlaError: a variation changes nothing in a task, or no task can have any.
    """
    drawn = [task for task in tasks if task.protocol.starts == DRAWN]
    if drawn and any(case.variation for case in cases):
        raise VlaError(
            f"the evaluator {drawn[0].protocol.evaluator} draws where things stand, but variations start from init "
            "states: leave the variations out, or use another evaluator"
        )
    by_name = {task.key: task for task in tasks if not task.varied}
    chosen = _possible(cases, by_name) if by_name and any(case.variation for case in cases) else tuple(cases)
    if settings.sample is not None:
        varied = {task.key: task for task in tasks if task.varied}
        chosen = sample(chosen, settings.sample, settings.run_seed, lambda case: _stratum(case, varied))
    return with_twins(chosen) if settings.twins == "auto" else chosen


def _possible(cases: Sequence[Case], tasks: Mapping[str, Task]) -> tuple[Case, ...]:
    """Return the cases whose tasks can have the variation. Raises VlaError if one has no effect, or none is left."""
    kept: list[Case] = []
    refused: list[UnfitError] = []
    for case in cases:
        try:
            find_variation(tasks[case.task_key], case.variation, case.seed)
        except UnfitError as error:
            refused.append(error)
        else:
            kept.append(case)
    if cases and not kept:
        raise refused[0]
    for line in _told(refused):
        warnings.warn(pytest.PytestWarning(printable_lines(line)), stacklevel=2)
    return tuple(kept)


def _told(refused: Sequence[UnfitError]) -> Iterable[str]:
    """Yield the lines on cases that are left out, a line for each reason, with their kinds and tasks."""
    kinds: dict[str, dict[str, None]] = {}
    tasks: dict[str, dict[str, None]] = {}
    for error in refused:
        kinds.setdefault(error.reason, {})[name_of(error.label)] = None
        tasks.setdefault(error.reason, {})[error.task] = None
    for reason, names in kinds.items():
        first, *others = tasks[reason]
        more = f" and {len(others)} more" if others else ""
        yield f"left out: {first_few([*names], 8)} of {first}{more}: {reason}"


def _stratum(case: Case, varied: Mapping[str, Task]) -> SamplingStratum:
    """Return the stratum of a case, for the even spread of a sample."""
    if not case.variation:
        return of_task(case)
    if case.task_key not in varied:
        return SamplingStratum(*parts_told_apart(case.variation), case.task_key)
    found = find_variation(varied[case.task_key], case.variation, case.seed)
    if found is None:
        return of_task(case)
    if listing(varied[case.task_key].varied).by_lot:
        # Difficulties and tasks are as many as the list has, which is what a total of the list is made of.
        return SamplingStratum(found.dimension, found.kind)
    return SamplingStratum(found.dimension, but_last_part(case.variation), "", case.task_key)


def task_of(case: Case, settings: Settings) -> Task:
    """Return the task of a case, as this invocation runs it. Raises VlaError."""
    return searched_task(case.suite, case.task_key, settings)


def select(settings: Settings, arguments: Sequence[str], paths_given: bool, folder: Path) -> Selection:
    """Return what to collect. The result depends on options and arguments alone, since workers replay these.

    Args:
        settings: the settings of this invocation.
        arguments: pytest's: paths, and ids such as ``libero_goal::test_episode[turn_on_the_stove-seed0]``.
        paths_given: whether the user gave the arguments; if not, the selected suites replace them.
        folder: the folder for relative paths.

    Raises:
        VlaError: no such suite or task, or a path that would hide a suite.
    """
    translated = [each for argument in arguments for each in _translate(argument, folder)]
    wanted = tuple(dict.fromkeys(suite for name in settings.suite for suite in named_suites(name)))
    in_arguments = [argument.suite for argument in translated if argument.suite]
    plain = not settings.suite and settings.cases is None
    _check_searches(settings, [argument.search for argument in translated if argument.search])
    kept = [argument.text for argument in translated] if paths_given or plain else []
    below = _suites_in(kept, folder)
    listed = () if settings.cases is None else listed_cases(settings.cases, settings.data)
    if in_arguments and not wanted:
        # The file is there to say what the ids mean.
        listed = tuple(case for case in listed if case.suite in in_arguments)
    listed = narrow(listed, settings.tasks, settings.task_levels)
    whole = tuple(dict.fromkeys([*wanted, *in_arguments]))
    named = tuple(dict.fromkeys([*whole, *(case.suite for case in listed)]))
    added = [name for name in named if name not in in_arguments]
    if not named and not settings.tasks and not settings.task_levels and settings.fuzz is None:
        return Selection(settings, tuple(kept), named, paths_given, {})
    for name in added:
        _check_not_hidden(str(_manifest_collected(name) or suite_argument(name)), kept, folder)
    # pytest would collect those a second time that it meets by their manifests.
    files = [suite_argument(name) for name in added if not (name in below and _manifest_collected(name))]
    suites = {name: settings.load_suite(name) for name in named}
    for name in (name for name in below if name not in named):
        # Whoever gives a folder need not have what each suite below it needs.
        try:
            suite = settings.load_suite(name)
            labels_of(suite.tasks[0], settings.vary, settings.protocol)
            suites[name] = suite
        except VlaError as error:
            warnings.warn(pytest.PytestWarning(printable_lines(f"{name} is left out: {error}")), stacklevel=2)
    # Of suites that only the file of cases names, nothing but these runs.
    of_options = [suite for name, suite in suites.items() if name in whole or name in below]
    searches = searched_tasks(of_options, settings) if settings.fuzz is not None else {}
    # What is searched runs no episodes beside.
    of_cases = [] if settings.fuzz is not None else of_options
    cases = {name: dict.fromkeys(found) for name, found in planned(of_cases, settings).items()}
    for case in with_twins(listed) if settings.twins == "auto" else listed:
        cases.setdefault(case.suite, {}).setdefault(case)
    # An id names its case, whatever tasks and seeds are selected beside it.
    for case in (argument.case for argument in translated if argument.case):
        find_variation(suites[case.suite].task(case.task_key), case.variation, case.seed)
        cases.setdefault(case.suite, {}).setdefault(case)
    found = {name: tuple(cases.get(name, ())) for name in dict.fromkeys([*named, *below])}
    for name in (name for name in named if not (found[name] or name in searches) and (searches or any(found.values()))):
        line = f"{name} runs nothing: {_why_nothing(suites[name], suites.values(), settings)}"
        warnings.warn(pytest.PytestWarning(printable_lines(line)), stacklevel=2)
    by_ids = bool(in_arguments) and not wanted and all(argument.case for argument in translated if argument.suite)
    return Selection(settings, tuple(dict.fromkeys([*kept, *files])), named, paths_given, found, by_ids, searches)


def searched_tasks(suites: Sequence[Suite], settings: Settings) -> dict[str, tuple[str, ...]]:
    """Return the tasks that ``--vla-fuzz`` searches, by suite. Raises VlaError for no suite, or for a varied one."""
    if not suites:
        raise VlaError("--vla-fuzz needs a suite: add --vla-suite=tabletop, for example")
    chosen = plan(suites, settings.tasks, (0,), task_levels=settings.task_levels)
    found = {suite.name: tuple(case.task_key for case in chosen if case.suite == suite.name) for suite in suites}
    for suite in suites:
        for task in suite.tasks:
            check_unvaried(task, "--vla-fuzz")
    return {name: keys for name, keys in found.items() if keys}


def searched_task(suite: str, key: str, settings: Settings) -> Task:
    """Return the task of a search, as this invocation runs it. Raises VlaError."""
    return settings.as_run(load_suite(suite, data=settings.data).task(key))


def _check_searches(settings: Settings, named: Sequence[str]) -> None:
    """Raise VlaError if the options of searches do not fit each other, or an id names a search without --vla-fuzz."""
    if settings.fuzz is None and named:
        raise VlaError(f"{named[0]} is a search: add --vla-fuzz=N (the number of scenes)")
    if settings.fuzz is None and settings.fuzz_dimensions:
        raise VlaError("--vla-fuzz-dimensions needs --vla-fuzz=N (the number of scenes)")
    if settings.fuzz is not None and settings.vary_typed:
        raise VlaError("--vla-fuzz draws the changes by itself: leave --vla-vary out, or run without --vla-fuzz")


def _why_nothing(suite: Suite, suites: Iterable[Suite], settings: Settings) -> str:
    """Return the reason why a selected suite runs nothing while other suites run."""
    meant = [task for task in select_tasks(list(suites), settings.tasks) if task.suite == suite.name]
    levels = settings.task_levels
    if not meant or (levels and not any(task.task_level in levels for task in meant)):
        asked = [f"--vla-tasks={','.join(settings.tasks)}"] * bool(settings.tasks)
        asked += [f"--vla-task-levels={','.join(levels)}"] * bool(levels)
        return f"none of its {counted(len(suite.tasks), 'task')} matches {' and '.join(asked)}"
    if any(task.varied for task in suite.tasks):
        return "its list has no variation of its tasks"
    return f"no task of it can have {', '.join(dict.fromkeys(map(name_of, settings.vary)))}"


def as_typed(node: str, config: pytest.Config) -> str:
    """Return a node id relative to the folder in which pytest was started."""
    path, separator, names = node.partition("::")
    if is_suite(path):
        return node
    return f"{os.path.relpath(config.rootpath / path, config.invocation_params.dir)}{separator}{names}"


def suite_module(name: str) -> Path:
    """Return the file that pytest collects for a suite: its own, or the one for all suites without one."""
    manifest = suite_manifest(name)
    own = manifest.with_name(f"test_{name}.py") if manifest is not None and manifest.name == MANIFEST else None
    return own if own is not None and own.is_file() else Path(suite_items.__file__)


def suite_argument(name: str) -> str:
    """Return pytest's argument for a suite."""
    file = suite_module(name)
    return f"{file}::{name}" if file == Path(suite_items.__file__) else str(file)


def suite_of(path: Path) -> str | None:
    """Return the suite whose module this file is, or None for any other file."""
    name = path.parent.name
    if path.name != f"test_{name}.py" or name not in suite_names():
        return None
    folder = suite_folder(name)
    return name if folder is not None and path.resolve().parent == folder.resolve() else None


def suite_of_manifest(path: Path) -> str | None:
    """Return the suite that pytest collects by this manifest (`_manifest_collected`), or None for another file."""
    return next((name for name in suite_names() if _manifest_collected(name) == path.resolve()), None)


def _manifest_collected(name: str) -> Path | None:
    """Return the manifest by which pytest collects one of our suites without a module, if it is in a given folder.

    Another package's manifest does not count: a project's plain run would collect the project's suites.
    """
    manifest = suite_manifest(name)
    if manifest is None or suite_module(name) != Path(suite_items.__file__):
        return None
    found = manifest.resolve()
    return found if found.is_relative_to(SUITES.resolve()) else None


@dataclass(frozen=True)
class _Argument:
    """One of pytest's arguments, with the suite and the case that it names."""

    text: str
    suite: str | None = None
    case: Case | None = None
    search: str = ""


def _translate(argument: str, folder: Path) -> list[_Argument]:
    """Return a suite's file for its name, each file for the name of several suites; any other argument unchanged."""
    path, separator, names = argument.partition("::")
    # pytest shows ids relative to the current folder, as ../libero_goal::...; a folder cannot have names after it.
    name = Path(path).name
    try:
        is_path = (folder / path).is_file() if separator else (folder / path).exists()
    except OSError:
        # Too long a name, for example: pytest will say so.
        return [_Argument(argument)]
    if is_path and separator and Path(path).resolve() == Path(suite_items.__file__):
        # As a worker gets it.
        name, _, names = names.partition("::")
        separator = "::" if names else ""
        suites: tuple[str | None, ...] = (name or None,)
    elif is_path:
        suites = (suite_of(folder / path) if separator else None,)
    else:
        suites = named_suites(name) if is_suite(name) else (None,)
    return [
        _Argument(argument) if suite is None else _of_suite(argument, suite, separator, names, is_path)
        for suite in suites
    ]


def _of_suite(argument: str, suite: str, separator: str, names: str, is_path: bool) -> _Argument:
    """Return the argument for a suite; `names` is the part of the id after the suite's name."""
    text = argument if is_path else f"{suite_argument(suite)}{separator}{names}"
    node = f"{suite}{separator}{names}"
    # Also where it was pasted with what pytest-repeat adds.
    case = parse_node_id(node) or parse_node_id(re.sub(r"-\d+-\d+\]$", "]", node))
    return _Argument(text, suite, case, node if parse_search_id(node) else "")


def _suites_in(arguments: Sequence[str], folder: Path) -> list[str]:
    """Return the suites that pytest finds at or under the paths, by their modules or manifests."""
    paths = [(folder / argument.partition("::")[0]).resolve() for argument in arguments]
    files = {name: _manifest_collected(name) or suite_module(name) for name in suite_names()}
    # What many share is collected of those that are named.
    own = {name: file for name, file in files.items() if file != Path(suite_items.__file__)}
    return [name for name, file in own.items() if any(file.is_relative_to(path) for path in paths)]


def _check_not_hidden(file: str, paths: Sequence[str], folder: Path) -> None:
    """Raise VlaError if a suite lies in an environment under a given folder: pytest does not enter environments."""
    for path in paths:
        above = (folder / path.partition("::")[0]).resolve()
        between = [parent for parent in Path(file).parents if parent != above and parent.is_relative_to(above)]
        hiding = next((parent for parent in between if (parent / "pyvenv.cfg").is_file()), None)
        if hiding is not None:
            raise VlaError(
                f"the suites are installed in the environment {hiding} under {path}, and pytest does not collect from "
                "environments: leave the path out, or give the folders of your tests"
            )
