"""What can be known to be wrong before the first episode stops the run there, once, and not in every episode."""

import dataclasses
import json
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytest_vla import extensions
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case, init_state_of
from pytest_vla.plan.data_roots import find_init_states, task_roots
from pytest_vla.plan.manifests import data_advice, load_suite
from pytest_vla.plan.task import Task
from pytest_vla.run.failures import MISFIT
from pytest_vla.run.marker import MODELS
from pytest_vla.run.metrics import metrics_of
from pytest_vla.run.selection import Selection, searched_task
from pytest_vla.run.settings import Settings
from pytest_vla.util.text import counted, ranges_text
from pytest_vla.vary.registry import find_variation


def check_ready(selection: Selection) -> None:
    """Whether the episodes that were asked for by name can be run. Loads neither policy nor simulator.

    Args:
        selection: what is to be collected.

    Raises:
        VlaError: no policy, or none of that name; no data; another simulator than the supported one.
    """
    settings = selection.settings
    # A model of the ini file counts where a suite is named.
    model = settings.model if selection.named or settings.model_typed else None
    if model is not None:
        from pytest_vla.policies.load import check_model

        check_model(settings.spec)
    if model is not None or selection.named:
        # What packages add to records is known, or refused, before there is one.
        extensions.metrics()
        metrics_of(settings)
    if not selection.named:
        return
    _check_dimensions(selection)
    if model is not None:
        from pytest_vla.policies.load import known_to_draw

        check_starts(selection, known_to_draw(settings.spec))
    if model is None:
        raise VlaError(
            f"{', '.join(selection.named)}: which policy? Add {MODELS} (--collect-only lists the episodes without one)"
        )
    from pytest_vla.util.files import cache_limit
    from pytest_vla.versions import check_versions

    of_mujoco = [name for name in selection.named if _is_of_mujoco(name, settings)]
    if of_mujoco:
        check_versions(allow=settings.allow_versions)
        cache_limit()
    _check_results(settings.results)
    if of_mujoco:
        _check_data(settings, of_mujoco)


def notes_before(selection: Selection, has_workers: bool) -> tuple[str, ...]:
    """What is to be known of the numbers before the first episode, in a line each. Loads nothing heavy.

    Args:
        selection: what is to be collected.
        has_workers: whether episodes run in processes that begin with this one's environment.
    """
    settings = selection.settings
    if settings.model is None or not (selection.named or settings.model_typed):
        return ()
    from pytest_vla.kernels import NATIVE, PINNED, TOO_LATE, how_to_pin, in_force
    from pytest_vla.plan import premises
    from pytest_vla.versions import DEFAULT, check_versions

    notes = []
    # Too late here is early enough for workers, which import numpy anew.
    if settings.kernels == PINNED and in_force() not in (PINNED, NATIVE, *([TOO_LATE] if has_workers else [])):
        note = f"kernels are {in_force()}; records may differ from another machine's"
        if in_force() == TOO_LATE:
            note += f". Where a -p or a plugin imports it, begin the command with {how_to_pin()}, or use workers (-n 1)"
        notes.append(note)
    notes += _idle_rules(selection)
    notes += _repeated_starts(selection)
    of_mujoco = any(_is_of_mujoco(name, settings) for name in selection.cases)
    mujoco = check_versions(allow=True)["mujoco"] if of_mujoco or not selection.cases else DEFAULT["mujoco"]
    if mujoco != DEFAULT["mujoco"]:
        suites = {name: load_suite(name, data=settings.data) for name in selection.cases}
        starts = [
            (task, init_state_of(case.seed, task.protocol.init_states, task.protocol.init_state))
            for name, cases in selection.cases.items()
            for case in cases
            for task in (suites[name].task(case.task_key),)
        ]
        notes += premises.notes_before(starts, mujoco, settings.premises)
    return tuple(notes)


def _repeated_starts(selection: Selection) -> tuple[str, ...]:
    """What is to be known of seeds that repeat a start; where they are refused, `check_ready` says so."""
    from pytest_vla.policies.load import known_to_draw

    settings = selection.settings
    try:
        draws = known_to_draw(settings.spec)
    except VlaError:
        # No such policy, which `check_ready` says.
        return ()
    return () if draws is False and not settings.run_seed else check_starts(selection, draws)


def _idle_rules(selection: Selection) -> list[str]:
    """What of a file of costs is of no task of the run."""
    settings = selection.settings
    if settings.cost_file is None or not selection.cases:
        return []
    from pytest_vla.scene.cost_rules import read_costs

    suites = {name: load_suite(name, data=settings.data) for name in selection.cases}
    tasks = {suites[name].task(case.task_key) for name, cases in selection.cases.items() for case in cases}
    rules = (rule for rule in read_costs(settings.cost_file).rules if not any(map(rule.is_of, tasks)))
    return [
        f"{rule.where}: {rule.name!r} is of none of the tasks that are run ({', '.join(rule.tasks)})" for rule in rules
    ]


def check_starts(selection: Selection, draws: bool | None) -> tuple[str, ...]:
    """Whether the seeds of a run are starts of their own, where that matters. Loads no simulator.

    Args:
        selection: what is to be collected.
        draws: whether the policy samples its actions (`pytest_vla.policies.fit.Traits.draws`).

    Returns:
        What is to be known of a run seed that a policy does not draw from, and of seeds that repeat a start, in a line
        for each suite; nothing of a policy that draws.

    Raises:
        VlaError: seeds repeat a start, which the policy does not draw from, and no run seed is given.
    """
    settings = selection.settings
    if draws:
        return ()

    repeated = repeated_seeds(selection.cases, settings)
    notes: tuple[str, ...] = ()
    if draws is False and settings.run_seed:
        notes = (
            f"--vla-run-seed={settings.run_seed}: {settings.model} does not sample its actions, so its episodes repeat "
            "those of other run seeds and add no observation",
        )
    if draws is None or settings.run_seed:
        known = "does not" if draws is False else "has not said so (traits.draws)"
        why = f"they are further observations only of a policy that samples its actions, and {settings.model} {known}"
        return (*notes, *(f"{each.text}; {why}" for each in repeated))
    if repeated:
        which = "; ".join(each.text for each in repeated)
        raise VlaError(
            f"--vla-seeds: {which}: {settings.model} does the same again, which counts once. Draw more with "
            "`pytest-vla init-states --add`"
        )
    return ()


def check_fits(policy: object, selection: Selection, suites: Iterable[str]) -> tuple[str, ...]:
    """Whether a policy fits suites, by what it says of itself. Needs no simulator.

    Args:
        policy: loaded, or what stands for one that is loaded elsewhere.
        selection: says which tasks.
        suites: by name.

    Returns:
        What may be meant, in a line each.

    Raises:
        VlaError: it does not fit one of them; the message has a line for each cause.
    """
    from pytest_vla.policies.fit import ERROR, check_fit, check_replan, traits_of
    from pytest_vla.policies.load import known_to_draw

    try:
        traits = traits_of(policy)
    except EpisodeError:
        # A server that is gone; the episodes tell it.
        return ()
    told: tuple[str, ...] = ()
    if traits.draws is False and known_to_draw(selection.settings.spec) is None:
        # Nothing said so before it was loaded.
        told = check_starts(selection, traits.draws)
    found = {}
    for name in suites:
        wanted = {case.task_key for case in selection.cases_of(name)} | {*selection.searches.get(name, ())}
        suite = load_suite(name, data=selection.settings.data)
        tasks = tuple(task for task in suite.tasks if task.key in wanted) or suite.tasks
        misfits = check_fit(traits, dataclasses.replace(suite, tasks=tasks))
        found[name] = (*misfits, *check_replan(traits, selection.settings.replan))
    errors = [f"\n  {finding}" for findings in found.values() for finding in findings if finding.severity == ERROR]
    if errors:
        listed = "".join(dict.fromkeys(errors))
        raise VlaError(f"{MISFIT}--vla-model={selection.settings.model} and {', '.join(found)}{listed}")
    return (*told, *dict.fromkeys(str(finding) for findings in found.values() for finding in findings))


def _check_dimensions(selection: Selection) -> None:
    """Raises VlaError where no task that is searched has any of ``--vla-fuzz-dimensions``."""
    if not selection.settings.fuzz_dimensions:
        return
    from pytest_vla.fuzz.sampler import fuzzed_kinds

    refused: VlaError | None = None
    for suite, keys in selection.searches.items():
        for key in keys:
            try:
                fuzzed_kinds(searched_task(suite, key, selection.settings), selection.settings.fuzz_dimensions)
                return
            except VlaError as error:
                refused = refused or error
    if refused is not None:
        raise VlaError(f"--vla-fuzz-dimensions: {refused}") from refused


def _is_of_mujoco(suite: str, settings: Settings) -> bool:
    """Whether a suite has no world of its own."""
    return any(task.world is None for task in load_suite(suite, data=settings.data).tasks)


def _check_data(settings: Settings, suites: Iterable[str]) -> None:
    from pytest_vla.plan.data_roots import BESIDE, data_roots, describe_search, holds_suite
    from pytest_vla.plan.manifests import KINDS, data_bases

    roots = data_roots(settings.data)
    declared = {name: advice for name in suites if (advice := data_advice(name)) is not None}
    for name, advice in declared.items():
        if not any(holds_suite(root, load_suite(name, data=settings.data).tasks[0]) for root in roots):
            raise VlaError(f"the task files of {name} are nowhere. {describe_search(roots, 'bddl_files', advice)}")
    if {root.suite for root in roots} >= set(suites) - set(declared):
        # They bring their own.
        return
    for kind in KINDS:
        if not any(root.folder(kind) for root in roots if root.suite is None):
            advice = None
            if settings.data is not None and not data_bases(settings.data):
                advice = f"{settings.data} has what tasks are varied by, and not LIBERO's own data: {BESIDE}"
            raise VlaError(f"LIBERO's {kind} are nowhere. {describe_search(roots, kind, advice)}")


def _check_results(results: Path) -> None:
    nearest = next(folder for folder in (results, *results.parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise VlaError(f"--vla-results={results}: no folder can be made there; give one that can be written")


# From how many distinct starts a run's episodes begin, before any of them runs. What a start is, counting says.


class Repeated(NamedTuple):
    """Seeds of a suite that begin as others of a task do.

    Attributes:
        suite: its name.
        starts: how many starts a task has.
        seeds: those of a larger number.
    """

    suite: str
    starts: int
    seeds: tuple[int, ...]

    @property
    def text(self) -> str:
        """``tabletop has 200 starts a task; seeds 200-249 are the same ones``."""
        seeds = ranges_text(self.seeds)
        told = f"seed {seeds} is one of them again" if len(self.seeds) == 1 else f"seeds {seeds} are the same ones"
        return f"{self.suite} has {counted(self.starts, 'start')} a task; {told}"


def distinct_starts(cases: Sequence[Case], settings: Settings) -> int:
    """Return from how many distinct starts cases begin; each counts where that is not known."""
    return len(_by_start(cases, settings))


def repeated_seeds(cases: Mapping[str, Sequence[Case]], settings: Settings) -> tuple[Repeated, ...]:
    """Return the seeds that repeat the starts of others, by suite; benign twins of varied episodes may repeat one.

    Args:
        cases: by suite, those that are to run.
        settings: of the invocation.
    """
    found = []
    for suite, some in cases.items():
        twins = {case.twin for case in some if case.variation}
        repeating = [case for alike in _by_start(some, settings).values() for case in alike[1:] if case not in twins]
        if repeating:
            tasks = {load_suite(suite, data=settings.data).task(case.task_key) for case in repeating}
            # Where a variation draws alike nothing need be known of the task.
            starts = min((number for task in tasks if (number := starts_of(task)) is not None), default=1)
            found.append(Repeated(suite, starts, tuple(sorted({case.seed for case in repeating}))))
    return tuple(found)


def distinct_seeds(task: Task, seeds: Iterable[int]) -> tuple[int, ...]:
    """Return the seeds of a task that begin from different starts, in their order, the first of each."""
    found: dict[Hashable, int] = {}
    for seed in seeds:
        found.setdefault(_start(task, seed), seed)
    return tuple(found.values())


def starts_of(task: Task) -> int | None:
    """Return from how many starts a task's seeds begin; None: from one each, or it is not known."""
    if task.world is not None or _is_placed(task):
        return None
    return 1 if task.protocol.init_state is not None else _init_states(task)


def _by_start(cases: Iterable[Case], settings: Settings) -> dict[Hashable, list[Case]]:
    """The cases of each start, by seed."""
    tasks: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        tasks.setdefault((case.suite, case.task_key, case.variation), []).append(case)
    found: dict[Hashable, list[Case]] = {}
    for (suite, key, label), some in tasks.items():
        # Of one seed nothing has to be read.
        task = None if len(some) == 1 else load_suite(suite, data=settings.data).task(key)
        for case in sorted(some, key=lambda case: case.seed):
            start = case.seed if task is None else _start(task, case.seed)
            found.setdefault((suite, key, label, start), []).append(case)
    told: dict[Hashable, list[Case]] = {}
    for began, alike in found.items():
        for case in alike:
            drawn = _drawn(case, settings) if case.variation and len(alike) > 1 else ""
            told.setdefault((began, drawn), []).append(case)
    return told


def _start(task: Task, seed: int) -> Hashable:
    """What a seed of a task begins from where nothing is varied."""
    count = starts_of(task)
    # Else the scene seed, which is the seed, decides too.
    return seed if count is None else init_state_of(seed, count)


@cache
def _init_states(task: Task) -> int:
    """How many init states a task has: as many as its file, or the suite's number if that cannot be read."""
    from pytest_vla.scene.init_states import read_init_states

    with suppress(VlaError):
        path, member = find_init_states(task_roots(task), task)
        return len(read_init_states(path, member))
    return task.protocol.init_states


@cache
def _is_placed(task: Task) -> bool:
    """Whether the scene seed decides how an episode of a task begins, beside its init state; so where nobody knows."""
    from pytest_vla.scene.problem import problem_of

    try:
        problem = problem_of(task)
    except VlaError:
        return True
    # As coded, a mover begins where the scene seed draws it.
    moved = {fixture.name for fixture in problem.fixtures} | {mover.name for mover in problem.movers}
    regions = {region.key: region for region in problem.regions}
    for literal in problem.init:
        region = regions.get(str(literal.arguments[-1]))
        if str(literal.arguments[0]) in moved and region is not None:
            points = {place for x0, y0, x1, y1 in region.ranges for place in ((x0, y0), (x1, y1))}
            if len(points) > 1 or region.yaw_rotation[0] != region.yaw_rotation[1]:
                return True
    return problem.random_color or problem.noise is not None


def _drawn(case: Case, settings: Settings) -> str:
    """The parameters that a variation draws for a case, as text; its seed if they cannot be had."""
    task = load_suite(case.suite, data=settings.data).task(case.task_key)
    with suppress(VlaError):
        variation = find_variation(task, case.variation, case.seed)
        if variation is not None:
            return json.dumps(variation.table()["parameters"], sort_keys=True)
    return f"seed {case.seed}"
