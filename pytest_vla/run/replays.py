"""The commands that run one case of a run alone: of the run that is going on, and of stored ones."""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.gate.losses import Flip
from pytest_vla.plan.manifests import is_suite
from pytest_vla.records.items import SHARED, Item
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.reports.gates import Replay
from pytest_vla.run.invocation import Invocation, read_invocation
from pytest_vla.run.selection import as_typed
from pytest_vla.run.settings import SHOWN_ALONE, Settings
from pytest_vla.run.typed import command_line, named_plugins


class _Recipe(NamedTuple):
    """What a run was started with."""

    invocation: Invocation
    plugins: tuple[str, ...]


def replays(settings: Settings, config: pytest.Config, items: Iterable[Item]) -> Replay:
    """Of the run that is going on, as its failed items say them; none of an episode that several tests share.

    Args:
        settings: of this invocation.
        config: likewise.
        items: of the run.
    """
    alone = _alone(items)

    def command(flip: Flip) -> str:
        return settings.command(as_typed(flip.node, config), config) if flip.node in alone else ""

    return command


def stored_replays(texts: Sequence[str], results: Path) -> Replay:
    """Of stored runs, to be typed where this process was started; none of what was imported.

    Args:
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
    """
    found: dict[tuple[str, int], _Recipe] = {}
    for store, runs in open_runs(texts, results):
        for run in runs:
            recipe = _recipe(run)
            if recipe is not None:
                run_seed = int(recipe.invocation.values["run_seed"])
                found |= {(node, run_seed): recipe for node in _alone(store.items(run.name))}

    def command(flip: Flip) -> str:
        recipe = found.get((flip.node, flip.run_seed))
        return "" if recipe is None else _command(flip.node, recipe)

    return command


def record_replays(texts: Sequence[str], results: Path) -> Callable[[Record], str]:
    """Of stored runs, of each record in its own run; empty where no command is known.

    Args:
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
    """
    found: dict[str, tuple[_Recipe, frozenset[str]]] = {}
    for store, runs in open_runs(texts, results):
        for run in runs:
            recipe = _recipe(run)
            if recipe is not None:
                found[run.name] = recipe, _alone(store.items(run.name))

    def command(record: Record) -> str:
        recipe, alone = found.get(record.run, (None, frozenset()))
        return "" if recipe is None or record.node not in alone else _command(record.node, recipe)

    return command


def _alone(items: Iterable[Item]) -> frozenset[str]:
    return frozenset(item.node for item in items if item.episode and item.status != SHARED)


def _recipe(run: Run) -> _Recipe | None:
    try:
        # What stands in a store may be anything, and this is shown to be typed.
        plugins = tuple(name for name in named_plugins(run.command) if re.fullmatch(r"[\w.]+", name))
        return _Recipe(read_invocation(run.name, run.invocation), plugins)
    except VlaError:
        # Of a log that was imported, or of another version.
        return None


def _command(node: str, recipe: _Recipe) -> str:
    invocation, plugins = recipe
    file = node.partition("::")[0]
    if not is_suite(file) and not (invocation.folder / file).is_file():
        return ""
    command = command_line([node, *invocation.given, SHOWN_ALONE], plugins, invocation.folder)
    return command if invocation.folder == Path.cwd() else f"cd {shlex.quote(str(invocation.folder))} && {command}"
