"""What can be known to be wrong before the first episode stops the run there, once, and not in every episode."""

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path

from pytest_vla import extensions
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import init_state_of
from pytest_vla.plan.manifests import data_advice, load_suite
from pytest_vla.run.failures import MISFIT
from pytest_vla.run.marker import MODELS
from pytest_vla.run.metrics import metrics_of
from pytest_vla.run.selection import Selection, searched_task
from pytest_vla.run.settings import Settings


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
    from pytest_vla.util.folders import cache_limit
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
    if settings.cost is None or not selection.cases:
        return []
    from pytest_vla.scene.cost_rules import read_costs

    suites = {name: load_suite(name, data=settings.data) for name in selection.cases}
    tasks = {suites[name].task(case.task_key) for name, cases in selection.cases.items() for case in cases}
    rules = (rule for rule in read_costs(settings.cost).rules if not any(map(rule.is_of, tasks)))
    return [
        f"{rule.where}: {rule.name!r} is of none of the tasks that are run ({', '.join(rule.tasks)})" for rule in rules
    ]


def check_starts(selection: Selection, draws: bool | None) -> tuple[str, ...]:
    """Whether the seeds of a run are starts of their own, where that matters. Loads no simulator.

    Args:
        selection: what is to be collected.
        draws: whether the policy samples its actions (`pytest_vla.policies.traits.Traits.draws`).

    Returns:
        What is to be known of a run seed that a policy does not draw from, and of seeds that repeat a start, in a line
        for each suite; nothing of a policy that draws.

    Raises:
        VlaError: seeds repeat a start, which the policy does not draw from, and no run seed is given.
    """
    settings = selection.settings
    if draws:
        return ()
    from pytest_vla.run.starts import repeated_seeds

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
    from pytest_vla.policies.fit import ERROR, check_fit, check_replan
    from pytest_vla.policies.load import known_to_draw
    from pytest_vla.policies.traits import traits_of

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
    from pytest_vla.fuzz.propose import fuzzed_kinds

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
    from pytest_vla.plan.data_folders import KINDS, data_bases
    from pytest_vla.plan.data_roots import BESIDE, data_roots, describe_search, holds_suite

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
