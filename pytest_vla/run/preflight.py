"""Checks before the first episode, so that an error stops the run once instead of failing every episode."""

import dataclasses
import json
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_vla import extensions
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import LATENCY, Case, changes_actions, init_state_of, parts_of
from pytest_vla.plan.choices import ABSOLUTE, DRAWN, LONGEST, NO_LATENCY, steps_late
from pytest_vla.plan.data_roots import find_init_states, task_roots
from pytest_vla.plan.manifests import data_advice, file_language, is_sentence, is_suite, load_suite, suite_names
from pytest_vla.plan.select import numbers_as_names
from pytest_vla.plan.task import OWN_EVALUATOR, Task, language_of
from pytest_vla.run.failures import MISFIT
from pytest_vla.run.marker import MODELS
from pytest_vla.run.metrics import metrics_of
from pytest_vla.run.selection import Selection, searched_task
from pytest_vla.run.settings import Settings
from pytest_vla.util.extras import PICTURES, is_installed
from pytest_vla.util.text import counted, did_you_mean, printable, ranges_text
from pytest_vla.vary.registry import find_variation, kind_of

if TYPE_CHECKING:
    from pytest_vla.policies.fit import FitFinding, Traits


def check_ready(selection: Selection) -> None:
    """Check that the selected episodes can be run. Loads neither policy nor simulator.

    Args:
        selection: the selection of this invocation.

    Raises:
        VlaError: no policy, or none of that name; no data; an unsupported version of the simulator.
    """
    settings = selection.settings
    # A model of the ini file counts where a suite is named.
    model = settings.model if selection.named or settings.model_typed else None
    if model is not None:
        from pytest_vla.policies.load import check_model

        check_model(settings.spec)
        _check_latency(selection)
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
            f"{', '.join(selection.named)}: no policy is given. Add {MODELS} (--collect-only lists episodes without "
            "one)"
        )
    from pytest_vla.util.files import cache_limit
    from pytest_vla.versions import check_versions

    of_mujoco = [name for name in selection.named if _is_of_mujoco(name, settings)]
    if of_mujoco:
        check_versions(allow=settings.allow_versions)
        cache_limit()
    _check_modules(selection)
    for task in (task for name in selection.named for task in load_suite(name, data=settings.data).tasks[:1]):
        # A suite's own world may know that it cannot be made here.
        getattr(task.world, "check_installed", bool)()
    _check_results(settings.results)
    if of_mujoco:
        _check_data(settings, of_mujoco)


_RECORDED_ACTIONS = ("replay", "memoriser")
"""Policies that do not look, and so do not think."""


def _check_latency(selection: Selection) -> None:
    """Raise VlaError if recorded actions are to be played with latency: they came in time when they were recorded."""
    settings = selection.settings
    if str(settings.model_text).partition(":")[0] not in _RECORDED_ACTIONS:
        return
    late = settings.latency is not None and settings.latency.seconds != 0
    labels = (case.variation for suite in selection.cases.values() for case in suite)
    varied = next((label for label in labels if LATENCY in label), None)
    if late or varied:
        given = f"--vla-realtime={settings.realtime}" if late else f"--vla-vary={varied}"
        raise VlaError(
            f"{given}: --vla-model={settings.model} plays recorded actions, which came in time when they were "
            "recorded. Use only one of the two"
        )


_OURS = ("vla", "pytest_vla.")
"""How the names of pytest-vla's own plugins begin."""
_FAKE_WORLD = "pytest_vla.testing"


def importers_of_numpy(config: pytest.Config) -> tuple[str, ...]:
    """Return the names of plugins that pytest loads before it knows options, and that hold something of numpy's."""
    manager = config.pluginmanager
    early = [plugin for plugin, _ in manager.list_plugin_distinfo()]
    early += map(manager.getplugin, config.option.plugins or ())
    return tuple(
        name
        for name, plugin in manager.list_name_plugin()
        if plugin in early and not name.startswith(_OURS) and any(map(_is_of_numpy, vars(plugin or object).values()))
    )


def _is_of_numpy(value: object) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] == "numpy"


def notes_before(selection: Selection, has_workers: bool, config: pytest.Config) -> tuple[str, ...]:
    """Return notes on the run's numbers for before the first episode, a line each. Loads nothing heavy.

    Args:
        selection: the selection of this invocation.
        has_workers: whether episodes run in processes that start with this one's environment.
        config: pytest's.
    """
    settings = selection.settings
    if settings.model is None or not (selection.named or settings.model_typed):
        return ()
    from pytest_vla.kernels import NATIVE, PINNED, TOO_LATE, how_to_pin, in_force
    from pytest_vla.plan import premises
    from pytest_vla.versions import DEFAULT, check_versions

    notes = []
    by = importers_of_numpy(config) if in_force() == TOO_LATE else ()
    # Too late here is early enough for workers, which import numpy anew, and for the point, whose world is asked for.
    unharmed = has_workers or (not by and config.pluginmanager.hasplugin(_FAKE_WORLD))
    if settings.kernels == PINNED and in_force() not in (PINNED, NATIVE, *([TOO_LATE] if unharmed else [])):
        note = f"kernels are {in_force()}"
        note += f", by {', '.join(by)}" * bool(by) + "; records may differ between machines"
        if in_force() == TOO_LATE:
            # What -p names is wanted.
            without = " ".join(f"-p no:{name}" for name in by if name not in (config.option.plugins or ()))
            begin = f"Leave it out ({without}), put" if without else "Put" if by else "If a plugin imports it, put"
            note += f". {begin} {how_to_pin()} before the command, or use workers (-n 1)"
        notes.append(note)
    notes = [*_evaluators(selection), *_latencies(selection), *notes]
    notes += _instructions_of_files(selection)
    if settings.tasks and selection.cases:
        notes += numbers_as_names([load_suite(name, data=settings.data) for name in selection.cases], settings.tasks)
    notes += _idle_rules(selection)
    notes += _repeated_starts(selection)
    of_mujoco = any(_is_of_mujoco(name, settings) for name in selection.cases)
    mujoco = check_versions(allow=True)["mujoco"] if of_mujoco else DEFAULT["mujoco"]
    if mujoco != DEFAULT["mujoco"]:
        suites = {name: settings.load_suite(name) for name in selection.cases}
        starts = [
            (task, init_state_of(case.seed, task.protocol.init_states, task.protocol.init_state))
            for name, cases in selection.cases.items()
            for case in cases
            for task in (suites[name].task(case.task_key),)
        ]
        notes += premises.notes_before(starts, mujoco, settings.premises)
    return tuple(notes)


def _repeated_starts(selection: Selection) -> tuple[str, ...]:
    """Return notes on seeds that repeat a start; empty if `check_ready` refuses them."""
    from pytest_vla.policies.load import known_to_draw

    settings = selection.settings
    try:
        draws = known_to_draw(settings.spec)
    except VlaError:
        # No such policy, which `check_ready` says.
        return ()
    return () if draws is False and not settings.run_seed else check_starts(selection, draws)


def _evaluators(selection: Selection) -> list[str]:
    """Return a note on each evaluator that the episodes follow, and on each field in which options deviate from it."""
    from pytest_vla.gate.comparable import label_of
    from pytest_vla.plan.evaluators import deviations

    settings, notes = selection.settings, dict[str, None]()
    changed: dict[tuple[str, str, str], list[str]] = {}
    for name in selection.cases:
        task = load_suite(name, data=settings.data).tasks[0]
        evaluator = settings.evaluator_of(task)
        if evaluator.name != OWN_EVALUATOR:
            why = f", by vla_evaluator in {Path(settings.ini_file).name}" if settings.evaluator is not None else ""
            why = "" if "evaluator" in settings.typed else why or f", which --vla-model={settings.model} implies"
            at = f" at {evaluator.commit}" if evaluator.commit else ""
            notes[f"evaluator {evaluator.name}{why}: {evaluator.about} ({evaluator.source}{at})"] = None
            for other in evaluator.max_steps:
                if not is_suite(other):
                    near = did_you_mean(other, suite_names())
                    notes[f"evaluator {evaluator.name}: [max_steps] has {other}, which is no suite.{near}"] = None
        found = deviations(task, settings.as_run(task).protocol, evaluator)
        if settings.steps == LONGEST and "max_steps" not in found:
            budget = settings.as_run(task).protocol.max_steps
            notes[f"step budget {budget} ({name}), as without --vla-steps=longest: no evaluator has a longer one"] = (
                None
            )
        differs: dict[str, tuple[object, object]] = {f"protocol.{field}": both for field, both in found.items()}
        if settings.replan is not None and evaluator.replan not in (None, settings.replan):
            differs["replan"] = evaluator.replan, settings.replan
        for condition, (wanted, has) in differs.items():
            # How textures are drawn is asked for a machine's sake, and not for an evaluator's.
            if condition != "protocol.textures":
                changed.setdefault((evaluator.name, condition, str(has)), []).append(f"{name} {wanted}")
    for (evaluator_name, condition, has_text), of_suites in changed.items():
        if condition == "protocol.max_steps" and settings.steps == LONGEST:
            suites = ", ".join(each.partition(" ")[0] for each in of_suites)
            notes[
                f"step budget {has_text} ({suites}), the longest of all evaluators: for the rates under smaller ones, "
                "run `pytest-vla report last --section=evaluators`"
            ] = None
            continue
        whose = "the suite's own" if evaluator_name == OWN_EVALUATOR else f"that of the evaluator {evaluator_name}"
        told = f"{label_of(condition)} {has_text} differs from {whose} ({', '.join(of_suites)})"
        notes[f"{told}: gates do not compare these episodes with those that have it"] = None
    return list(notes)


def _latencies(selection: Selection) -> Iterator[str]:
    """Yield a note on the steps that answers come late in each suite, or that measured ones cannot be repeated."""
    settings = selection.settings
    latency = settings.latency or NO_LATENCY
    if latency.seconds is None:
        yield (
            f"--vla-realtime={settings.realtime}: answers are as late as they take on this machine, so this run cannot "
            "be repeated exactly"
        )
        return
    for name in selection.cases if latency.seconds else ():
        hertz = load_suite(name, data=settings.data).tasks[0].protocol.control_freq
        late = counted(steps_late(latency.seconds, hertz), "control step")
        yield f"latency {latency}: answers are used {late} late in {name} ({hertz} Hz)"


def _instructions_of_files(selection: Selection) -> list[str]:
    """Return a note on each suite with tasks whose instruction is their file's, as their names are no sentences."""
    notes = []
    for name, cases in selection.cases.items():
        suite = load_suite(name, data=selection.settings.data)
        tasks = [suite.task(key) for key in dict.fromkeys(case.task_key for case in cases)]
        odd = [task for task in tasks if not is_sentence(language_of(task.name)) and task.world is None]
        if told := [task for task in odd if task.language == file_language(task)]:
            one, text = told[0].name, repr(printable(told[0].language))
            notes.append(
                f"{counted(len(told), 'task')} of {name} have names like {one}, which are no sentences, so their "
                f"instructions are their files' :language ({text})"
                if len(told) > 1
                else f"the task name {one} is no sentence, so its instruction is its file's :language ({text})"
            )
    return notes


def _idle_rules(selection: Selection) -> list[str]:
    """Return notes on rules of the cost file that apply to none of the run's tasks."""
    settings = selection.settings
    if settings.cost_file is None or not selection.cases:
        return []
    from pytest_vla.scene.cost_rules import read_costs

    suites = {name: settings.load_suite(name) for name in selection.cases}
    tasks = {suites[name].task(case.task_key) for name, cases in selection.cases.items() for case in cases}
    rules = (rule for rule in read_costs(settings.cost_file).rules if not any(map(rule.is_of, tasks)))
    return [
        f"{rule.where}: {rule.name!r} applies to none of the run's tasks ({', '.join(rule.tasks)})" for rule in rules
    ]


def check_starts(selection: Selection, draws: bool | None) -> tuple[str, ...]:
    """Check that the seeds of a run have different starts, if the policy needs that. Loads no simulator.

    Args:
        selection: the selection of this invocation.
        draws: whether the policy samples its actions (`pytest_vla.policies.fit.Traits.draws`).

    Returns:
        Notes, a line each: a run seed that the policy does not use, and for each suite the seeds that repeat a start.
        Empty for a policy that samples its actions.

    Raises:
        VlaError: seeds repeat a start although the policy does not sample its actions, and no run seed is given.
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
        known = "does not" if draws is False else "does not declare it (traits.draws)"
        why = f"they add observations only if the policy samples its actions, and {settings.model} {known}"
        return (*notes, *(f"{each.text}; {why}" for each in repeated))
    if repeated:
        which = "; ".join(each.text for each in repeated)
        raise VlaError(
            f"--vla-seeds: {which}: {settings.model} would repeat the same episodes, which count once. Add starts with "
            "`pytest-vla init-states --add`"
        )
    return ()


def check_fits(policy: object, selection: Selection, suites: Iterable[str]) -> tuple[str, ...]:
    """Check that a policy fits suites, by its own description. Needs no simulator.

    Args:
        policy: the policy, or a stand-in for one that is loaded elsewhere.
        selection: the selection of this invocation.
        suites: names of suites.

    Returns:
        Warnings, a line each.

    Raises:
        VlaError: it does not fit one of them; the message has a line for each cause.
    """
    from pytest_vla.policies.fit import ERROR, check_fit, check_replan, traits_of
    from pytest_vla.policies.load import known_to_draw

    settings = selection.settings
    try:
        traits = traits_of(policy)
        is_any = bool(settings.implied_evaluator) and getattr(policy, "served", None) is not None
    except EpisodeError:
        # A server that is gone; the episodes tell it.
        return ()
    implied = {settings.evaluator_of(load_suite(name, data=settings.data).tasks[0]).name for name in suites}
    if is_any and implied != {OWN_EVALUATOR}:
        raise VlaError(
            f"{MISFIT}--vla-model={settings.model} is `pytest-vla serve`, which may serve any policy, so its evaluator "
            f"is not known. Type it: --vla-evaluator={OWN_EVALUATOR} for a policy of your own, lerobot for lerobot's, "
            f"or {settings.implied_evaluator}"
        )
    told: tuple[str, ...] = ()
    if hasattr(policy, "recover"):
        from pytest_vla.policies.servers import weights_note

        told += tuple(filter(None, [weights_note(policy)]))
    if traits.draws is False and known_to_draw(selection.settings.spec) is None:
        # Nothing said so before it was loaded.
        told += check_starts(selection, traits.draws)
    found = {}
    for name in suites:
        wanted = {case.task_key for case in selection.cases_of(name)} | {*selection.searches.get(name, ())}
        suite = selection.settings.load_suite(name)
        tasks = tuple(task for task in suite.tasks if task.key in wanted) or suite.tasks
        misfits = check_fit(traits, dataclasses.replace(suite, tasks=tasks))
        misfits += _unfit_for_poses(traits, tasks[0], selection)
        found[name] = (*misfits, *check_replan(traits, selection.settings.replan))
    errors = [f"\n  {finding}" for findings in found.values() for finding in findings if finding.severity == ERROR]
    if errors:
        listed = "".join(dict.fromkeys(errors))
        raise VlaError(f"{MISFIT}--vla-model={selection.settings.model} and {', '.join(found)}{listed}")
    return (*told, *dict.fromkeys(str(finding) for findings in found.values() for finding in findings))


def _unfit_for_poses(traits: "Traits", task: Task, selection: Selection) -> "tuple[FitFinding, ...]":
    """Return what cannot be run if actions are poses: scenes of robosuite 1.5.1, and variations of actions."""
    from pytest_vla.policies.fit import ACTION_CONVENTION, controlled
    from pytest_vla.scene.problem import problem_of
    from pytest_vla.scene.workspaces import workspace

    if task.world is not None or controlled(task.protocol, traits).control != ABSOLUTE:
        return ()
    with suppress(VlaError):
        problem = problem_of(task)
        profile = workspace(problem.name, problem.source).profile
        if profile.goals_in_base_frame:
            runs = f"{task.suite} runs as robosuite {profile.robosuite}"
            told = f"the policy's actions are absolute, but {runs}, which takes relative ones"
            return (ACTION_CONVENTION.found(told, mend="use a policy with relative actions for this suite"),)
    changed = [case.variation for case in selection.cases_of(task.suite) if changes_actions(case.variation)]
    if not changed:
        return ()
    told = f"the policy's actions are absolute, but {changed[0]} changes relative ones only"
    return (ACTION_CONVENTION.found(told, mend="leave such variations out of --vla-vary"),)


def _check_dimensions(selection: Selection) -> None:
    """Raise VlaError if no searched task has any of ``--vla-fuzz-dimensions``."""
    if not selection.settings.fuzz_dimensions:
        return
    from pytest_vla.fuzz.proposals import fuzzed_kinds

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


def _check_modules(selection: Selection) -> None:
    """Raise VlaError if a kind of the selected variations needs a package that is not installed."""
    labels = {*selection.settings.vary, *(case.variation for cases in selection.cases.values() for case in cases)}
    kinds = {kind.name: kind for label in labels for part in parts_of(label) if (kind := kind_of(part)) is not None}
    lacking: dict[str, list[str]] = {}
    for kind in kinds.values():
        for module in kind.modules:
            if not is_installed(module):
                lacking.setdefault(module, []).append(kind.name)
    if lacking:
        names = {name for some in lacking.values() for name in some}
        # An environment with opencv-python must not get the headless one too.
        cure = PICTURES if "cv2" in lacking else "pip install numba"
        raise VlaError(f"{', '.join(sorted(names))}: not installed: {', '.join(sorted(lacking))}. {cure}")


def _is_of_mujoco(suite: str, settings: Settings) -> bool:
    """Whether a suite has a task without a world of its own."""
    return any(task.world is None for task in load_suite(suite, data=settings.data).tasks)


def _check_data(settings: Settings, suites: Iterable[str]) -> None:
    from pytest_vla.plan.data_roots import BESIDE, data_roots, describe_search, holds_suite
    from pytest_vla.plan.manifests import KINDS, data_bases

    roots = data_roots(settings.data)
    declared = {name: advice for name in suites if (advice := data_advice(name)) is not None}
    for name, advice in declared.items():
        if not any(holds_suite(root, load_suite(name, data=settings.data).tasks[0]) for root in roots):
            raise VlaError(f"the task files of {name} were not found. {describe_search(roots, 'bddl_files', advice)}")
    if {root.suite for root in roots} >= set(suites) - set(declared):
        # They bring their own.
        return
    for kind in KINDS:
        if not any(root.folder(kind) for root in roots if root.suite is None):
            advice = None
            if settings.data is not None and not data_bases(settings.data):
                advice = f"{settings.data} has only variation files, not LIBERO's own data: {BESIDE}"
            raise VlaError(f"LIBERO's {kind} were not found. {describe_search(roots, kind, advice)}")


def _check_results(results: Path) -> None:
    nearest = next(folder for folder in (results, *results.parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise VlaError(f"--vla-results={results}: the folder cannot be written; give another one")


# From how many distinct starts a run's episodes begin, before any of them runs. What a start is, counting says.


class Repeated(NamedTuple):
    """Seeds of a suite with the same starts as other seeds of their task.

    Attributes:
        suite: the suite's name.
        starts: the number of starts of a task.
        seeds: the larger of each pair of seeds with one start.
    """

    suite: str
    starts: int
    seeds: tuple[int, ...]

    @property
    def text(self) -> str:
        """``tabletop has 200 starts per task; seeds 200-249 repeat them``."""
        seeds = ranges_text(self.seeds)
        told = f"seed {seeds} repeats one" if len(self.seeds) == 1 else f"seeds {seeds} repeat them"
        return f"{self.suite} has {counted(self.starts, 'start')} per task; {told}"


def distinct_starts(cases: Sequence[Case], settings: Settings) -> int:
    """Return the number of distinct starts of cases; a case whose start is not known counts as one of its own."""
    return len(_by_start(cases, settings))


def repeated_seeds(cases: Mapping[str, Sequence[Case]], settings: Settings) -> tuple[Repeated, ...]:
    """Return the seeds that repeat the starts of other seeds, by suite; benign twins of varied episodes may repeat one.

    Args:
        cases: by suite, the cases to run.
        settings: the settings of this invocation.
    """
    found = []
    for suite, some in cases.items():
        twins = {case.twin for case in some if case.variation}
        repeating = [case for alike in _by_start(some, settings).values() for case in alike[1:] if case not in twins]
        if repeating:
            as_run = settings.load_suite(suite)
            tasks = {as_run.task(case.task_key) for case in repeating}
            # Where a variation draws alike nothing need be known of the task.
            starts = min((number for task in tasks if (number := starts_of(task)) is not None), default=1)
            found.append(Repeated(suite, starts, tuple(sorted({case.seed for case in repeating}))))
    return tuple(found)


def distinct_seeds(task: Task, seeds: Iterable[int]) -> tuple[int, ...]:
    """Return the seeds of a task with different starts, in their order; of seeds with one start, the first."""
    found: dict[Hashable, int] = {}
    for seed in seeds:
        found.setdefault(_start(task, seed), seed)
    return tuple(found.values())


def starts_of(task: Task) -> int | None:
    """Return the number of starts of a task, or None if each seed has its own or the number is not known."""
    if task.world is not None or task.protocol.starts == DRAWN or _is_placed(task):
        return None
    return 1 if task.protocol.init_state is not None else _init_states(task)


def _by_start(cases: Iterable[Case], settings: Settings) -> dict[Hashable, list[Case]]:
    """Return the cases of each start, sorted by seed."""
    tasks: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases:
        tasks.setdefault((case.suite, case.task_key, case.variation), []).append(case)
    found: dict[Hashable, list[Case]] = {}
    for (suite, key, label), some in tasks.items():
        # Of one seed nothing has to be read.
        task = None if len(some) == 1 else settings.as_run(load_suite(suite, data=settings.data).task(key))
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
    """Return the unvaried start of a task's seed."""
    count = starts_of(task)
    # Else the scene seed, which is the seed, decides too.
    return seed if count is None else init_state_of(seed, count)


@cache
def _init_states(task: Task) -> int:
    """Return the number of a task's init states: that in its file, or the suite's number if the file cannot be read."""
    from pytest_vla.scene.init_states import read_init_states

    with suppress(VlaError):
        path, member = find_init_states(task_roots(task), task)
        return len(read_init_states(path, member))
    return task.protocol.init_states


@cache
def _is_placed(task: Task) -> bool:
    """Whether the scene seed also decides how a task's episode begins; True if that is unknown."""
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
    """Return the parameters that a variation draws for a case, as text; its seed if they cannot be drawn."""
    task = load_suite(case.suite, data=settings.data).task(case.task_key)
    with suppress(VlaError):
        variation = find_variation(task, case.variation, case.seed)
        if variation is not None:
            return json.dumps(variation.table()["parameters"], sort_keys=True)
    return f"seed {case.seed}"
