"""``--vla-shard=3/16``: which of the selected items this machine runs, and what its run keeps of the whole selection.

Every process that collects finds the same: items are shared out by their ids, their scenes, and durations from a file
or step budgets, and never by what a store happens to hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.run.collected import Collected, collected_of
from pytest_vla.run.context import RunContext
from pytest_vla.run.folder import shard_folder
from pytest_vla.run.picked import LAST_FAILED, STEPWISE
from pytest_vla.run.settings import Settings
from pytest_vla.scale.shards import BUDGETS, SHARD, Plan, Planned, with_uncollected
from pytest_vla.util.text import counted

FIRST = 1
"""The shard that runs what needs no policy."""


def check_shard(settings: Settings, config: pytest.Config) -> None:
    """Raises VlaError where something was asked for that no shard can do by itself."""
    if settings.shard is None:
        if settings.shard_durations is not None:
            raise VlaError("--vla-shard-durations says how shards are balanced: add --vla-shard=N/COUNT")
        return
    flag = f"--vla-shard={settings.shard[0]}/{settings.shard[1]}"
    if settings.baseline is not None:
        raise VlaError(
            f"{flag}: a gate judges all episodes, and a shard has some of them: leave --vla-baseline out "
            "(-o vla_baseline= where the ini file has it), and run `pytest-vla gate` when `pytest-vla merge` has made "
            "one run of all shards"
        )
    for option, name in ((LAST_FAILED, "lf"), (STEPWISE, "stepwise")):
        if config.getoption(name, False):
            raise VlaError(
                f"{flag}: {option} runs what failed on this machine, and no other shard would know of it: leave it "
                "out. --vla-resume goes on with a shard that was stopped"
            )


class ShardItems:
    """The plugin of each process that collects: takes out what other shards run."""

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
        self._findings.shard = Plan(count, weights, tuple(_planned(collected, shards))).table(number)
        others = [item for item in items if shards[item.nodeid] != number]
        if others:
            config.hook.pytest_deselected(items=others)
            items[:] = [item for item in items if shards[item.nodeid] == number]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep what could not be collected, as pytest may go on without it: whoever merges learns what is missing."""
        if report.failed:
            self._findings.uncollected.setdefault(report.nodeid, _why(report))


def shard_line(table: Mapping[str, Any]) -> str:
    """What of the selection this shard has, in a line."""
    number, count, own = table["number"], table["count"], table["own"]
    whole = counted(table["items"], "item")
    if own or not table["items"]:
        return f"vla: shard {number} of {count}: {own} of {whole}"
    return f"vla: shard {number} of {count} is empty, as the selection has {whole}"


def shard_end(context: RunContext, has_run: bool) -> str:
    """Return the line on the shard when pytest ends: it was empty, or the command that makes one run of all shards."""
    settings, table = context.settings, context.findings.shard
    if table is not None and is_empty_shard(context):
        return f"{shard_line(table)}: there is nothing to run here"
    if settings.shard is None or not has_run or context.config.option.collectonly:
        return ""
    own = shard_folder(settings.results.parent.parent, settings.shard) == settings.results
    command = "pytest-vla merge" if own else "pytest-vla merge DIR... -o .vla"
    return f"when all {counted(settings.shard[1], 'shard')} have ended, `{command}` makes one run of them"


def kept_of_shard(context: RunContext) -> dict[str, Any]:
    """Return what the run's invocation keeps of the shard."""
    table = context.findings.shard
    return {} if table is None else {SHARD: with_uncollected(table, context.findings.uncollected)}


def is_empty_shard(context: RunContext) -> bool:
    """Whether there is nothing to run here since other shards run all that is selected."""
    table = context.findings.shard
    return table is not None and bool(table["items"]) and not table["own"]


def planned_items(collected: Collected) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
    """What a run has in its store: its episodes, its further items, and which episodes are several tests'."""
    names, shared = collected.names, collected.shared
    episodes = dict.fromkeys(shared.get(node, names.get(node, node)) for node in collected.cases)
    others = dict.fromkeys(
        names.get(node, node) for node in collected.nodes if node not in collected.cases or node in shared
    )
    return tuple(episodes), tuple(others), frozenset(shared.values())


def step_budgets(suites: Iterable[str], data: Path | None) -> dict[str, int]:
    """The most steps of an episode, by suite. Raises VlaError: there is no such suite."""
    from pytest_vla.plan.manifests import load_suite

    return {name: load_suite(name, data=data).protocol.max_steps for name in suites}


def _shared_out(collected: Collected, count: int, settings: Settings) -> tuple[dict[str, int], str]:
    """By node id the shard, and what said how long items take. Raises UsageError: the file of durations is none."""
    from pytest_vla.plan.durations import estimate
    from pytest_vla.plan.manifests import suite_names
    from pytest_vla.run.scenes import scene_names
    from pytest_vla.scale.durations import read_durations
    from pytest_vla.scale.partition import Unit, partition

    cases: dict[str, Case] = {}
    for node, case in collected.cases.items():
        cases.setdefault(_unit_of(node, collected), case)
    try:
        durations = None if settings.shard_durations is None else read_durations(settings.shard_durations)
        rows = () if durations is None else durations.rows
        suites = {case.suite for case in cases.values()} | ({suite for suite, *_ in rows} & set(suite_names()))
        estimates = estimate(tuple(cases.values()), rows, step_budgets(sorted(suites), settings.data))
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
    """The exception's line, which is the last of those that pytest marks; where it marks none, the first."""
    lines = [line for line in report.longreprtext.splitlines() if line.strip()]
    marked = [line.removeprefix("E ") for line in lines if line.startswith("E ")]
    return next(iter([*marked[-1:], *lines]), "it could not be collected").strip()


def _unit_of(node: str, collected: Collected) -> str:
    """What is not parted: repetitions of an item, and tests that share an episode."""
    return collected.shared.get(node, collected.names.get(node, node))


def _planned(collected: Collected, shards: Mapping[str, int]) -> Sequence[Planned]:
    """The whole selection as one machine would enter it: tests without episodes before those with."""
    episodes, others, shared = planned_items(collected)
    of: dict[str, int] = {}
    for node in collected.nodes:
        of[collected.names.get(node, node)] = of[_unit_of(node, collected)] = shards[node]
    items = {**dict.fromkeys(others, False), **dict.fromkeys(episodes, True)}
    return [Planned(node, episode, node in shared, of[node]) for node, episode in items.items()]
