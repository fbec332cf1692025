"""``--vla-shard=3/16``: this machine's share of the selected items, and the plan of all shards that its run keeps.

Every process that collects finds the same shards: they follow from the items' ids, their scenes, and durations from a
file or step budgets, and never from the contents of a store.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.data_roots import DataRoot, data_roots, find_file, find_task_file
from pytest_vla.run.constants import shard_folder
from pytest_vla.run.context import RunContext
from pytest_vla.run.nodes import Collected, collected_of, tasks_by_key
from pytest_vla.run.resume import LAST_FAILED, STEPWISE
from pytest_vla.run.settings import Settings
from pytest_vla.scale.shards import BUDGETS, SHARD, ShardItem, ShardPlan, with_uncollected
from pytest_vla.scene.cache import scene_key
from pytest_vla.scene.problem import parse_problem
from pytest_vla.util.text import counted

FIRST = 1
"""The shard that runs what needs no policy."""


def check_shard(settings: Settings, config: pytest.Config) -> None:
    """Raise VlaError if an option cannot work in a shard."""
    if settings.shard is None:
        if settings.shard_durations is not None:
            raise VlaError("--vla-shard-durations needs --vla-shard=N/COUNT")
        return
    flag = f"--vla-shard={settings.shard[0]}/{settings.shard[1]}"
    if settings.baseline is not None:
        raise VlaError(
            f"{flag}: a gate needs all episodes, and a shard has only some: leave --vla-baseline out (-o vla_baseline= "
            "if the ini file sets it), and run `pytest-vla gate` after `pytest-vla merge`"
        )
    for option, name in ((LAST_FAILED, "lf"), (STEPWISE, "stepwise")):
        if config.getoption(name, False):
            raise VlaError(
                f"{flag}: {option} selects the failures of this machine, which the other shards do not know: leave it "
                "out. --vla-resume resumes a stopped shard"
            )


class ShardItems:
    """The plugin of each process that collects: deselects the items of other shards."""

    def __init__(self, context: RunContext) -> None:
        self._settings, self._findings = context.settings, context.findings

    # Behind -k, -m and a project's own choice: what they leave is shared out.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep this shard's items, in their order."""
        assert self._settings.shard is not None
        number, count = self._settings.shard
        collected = collected_of(items)
        shards, weights = _shared_out(collected, count, self._settings)
        self._findings.shard = ShardPlan(count, weights, tuple(_planned(collected, shards))).table(number)
        others = [item for item in items if shards[item.nodeid] != number]
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if shards[item.nodeid] == number]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the reason of a collection error, as pytest may continue without those tests; merging reports it."""
        if report.failed:
            self._findings.uncollected.setdefault(report.nodeid, _why(report))


def shard_line(table: Mapping[str, Any]) -> str:
    """Return the line on this shard's part of the selection."""
    number, count, own = table["number"], table["count"], table["own"]
    whole = counted(table["items"], "item")
    if own or not table["items"]:
        return f"vla: shard {number} of {count}: {own} of {whole}"
    return f"vla: shard {number} of {count} is empty: the selection has {whole}"


def shard_end(context: RunContext, has_run: bool) -> str:
    """Return the shard's line for pytest's end: it was empty, or the command that merges all shards."""
    settings, table = context.settings, context.findings.shard
    if table is not None and is_empty_shard(context):
        return f"{shard_line(table)}: there is nothing to run here"
    if settings.shard is None or not has_run or context.config.option.collectonly:
        return ""
    own = shard_folder(settings.results.parent.parent, settings.shard) == settings.results
    command = "pytest-vla merge" if own else "pytest-vla merge DIR... -o .vla"
    return f"when all {counted(settings.shard[1], 'shard')} have ended, merge them: `{command}`"


def kept_of_shard(context: RunContext) -> dict[str, Any]:
    """Return the shard's table for the run's invocation."""
    table = context.findings.shard
    return {} if table is None else {SHARD: with_uncollected(table, context.findings.uncollected)}


def is_empty_shard(context: RunContext) -> bool:
    """Whether there is nothing to run here because other shards have the whole selection."""
    table = context.findings.shard
    return table is not None and bool(table["items"]) and not table["own"]


def planned_items(collected: Collected) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    """Return a run's episodes, its other items, and those episodes that several tests share."""
    names, shared = collected.names, collected.shared
    episodes = dict.fromkeys(shared.get(node, names.get(node, node)) for node in collected.cases)
    others = dict.fromkeys(
        names.get(node, node) for node in collected.nodes if node not in collected.cases or node in shared
    )
    return tuple(episodes), tuple(others), frozenset(shared.values())


def step_budgets(suites: Iterable[str], settings: Settings) -> dict[str, int]:
    """Return the step budget of each suite in this invocation. Raises VlaError if there is no such suite."""
    return {name: settings.load_suite(name).protocol.max_steps for name in suites}


def _shared_out(collected: Collected, count: int, settings: Settings) -> tuple[dict[str, int], str]:
    """Return the shard of each node id, and the source of the durations. Raises UsageError for an invalid file."""
    from pytest_vla.plan.durations import estimate
    from pytest_vla.plan.manifests import suite_names
    from pytest_vla.scale.shards import Unit, partition, read_durations

    cases: dict[str, Case] = {}
    for node, case in collected.cases.items():
        cases.setdefault(_unit_of(node, collected), case)
    try:
        durations = None if settings.shard_durations is None else read_durations(settings.shard_durations)
        rows = () if durations is None else durations.rows
        suites = {case.suite for case in cases.values()} | ({suite for suite, *_ in rows} & set(suite_names()))
        estimates = estimate(tuple(cases.values()), rows, step_budgets(sorted(suites), settings))
    except VlaError as error:
        raise pytest.UsageError(f"--vla-shard: {error}") from error
    scenes = scene_names(cases.values(), settings.data)
    units = [
        Unit(name, f"scene {scenes[case]}", found.seconds)
        for (name, case), found in zip(cases.items(), estimates, strict=True)
    ]
    # Searches take about as long as each other, and each has a scene of its own.
    units += [Unit(node, f"search {node}", 1.0) for node in collected.searches]
    found = partition(units, count)
    shards = {node: found.get(_unit_of(node, collected), FIRST) for node in collected.nodes}
    return shards, BUDGETS if durations is None else f"durations {durations.digest}"


def _why(report: pytest.CollectReport) -> str:
    """Return the line of the exception, which is the last one that pytest marks; without marks, the first line."""
    lines = [line for line in report.longreprtext.splitlines() if line.strip()]
    marked = [line.removeprefix("E ") for line in lines if line.startswith("E ")]
    return next(iter([*marked[-1:], *lines]), "it could not be collected").strip()


def _unit_of(node: str, collected: Collected) -> str:
    """Return the name of an item's unit, which one shard has: its repetitions, and tests that share its episode."""
    return collected.shared.get(node, collected.names.get(node, node))


def _planned(collected: Collected, shards: Mapping[str, int]) -> Sequence[ShardItem]:
    """Return the whole selection as one machine would store it: tests without episodes before those with episodes."""
    episodes, others, shared = planned_items(collected)
    of: dict[str, int] = {}
    for node in collected.nodes:
        of[collected.names.get(node, node)] = of[_unit_of(node, collected)] = shards[node]
    items = {**dict.fromkeys(others, False), **dict.fromkeys(episodes, True)}
    return [ShardItem(node, episode, node in shared, of[node]) for node, episode in items.items()]


# Which cases share a compiled scene, so that they can be run on one worker. Reads task files; needs no simulator.


def scene_names(cases: Iterable[Case], data: Path | None = None) -> dict[Case, str]:
    """Return a name for each case's scene, equal if one compiled model serves both; each task file is read once.

    Tasks of a suite whose files are missing or invalid share a name: their episodes will report the error.

    Args:
        cases: cases of any suites.
        data: the folder of ``--vla-data``, or None for the default roots.
    """
    try:
        roots = data_roots(data)
    except (SceneError, OSError):
        roots = ()
    by_task: dict[tuple[str, str], str] = {}
    names = {}
    for case in cases:
        task = (case.suite, case.task_key)
        if task not in by_task:
            of_file = _own_world_of(case, data) or _scene_of(case, data, roots)
            by_task[task] = of_file or case.suite
        names[case] = by_task[task]
        if case.variation and _is_changed(case, data):
            names[case] += f"/{case.task_key}/{case.variation}/{case.seed}"
    return names


def _own_world_of(case: Case, data: Path | None) -> str | None:
    """Return a name for the world that the suite brings for this task, or None if it uses MuJoCo's."""
    try:
        task = tasks_by_key(case.suite, data).get(case.task_key)
    except VlaError:
        return None
    return f"{case.suite}/{case.task_key}" if task is not None and task.world is not None else None


def _is_changed(case: Case, data: Path | None) -> bool:
    """Whether a case's variation changes the compiled scene of its task."""
    from pytest_vla.vary.registry import compiles_anew

    try:
        return compiles_anew(tasks_by_key(case.suite, data)[case.task_key], case.variation, case.seed)
    except (VlaError, KeyError):
        return False


def _scene_of(case: Case, data: Path | None, roots: tuple[DataRoot, ...]) -> str | None:
    try:
        task = tasks_by_key(case.suite, data).get(case.task_key)
    except VlaError:
        task = None
    try:
        if task is None:
            # Of a suite that cannot be used here, where it would be as a rule.
            path = find_file(roots, "bddl_files", f"{case.suite}/{case.task}.bddl", f"task {case.task}")
        else:
            path = find_task_file(roots, task)
        return scene_key(parse_problem(path))
    except (SceneError, OSError, PackageNotFoundError):
        return None
