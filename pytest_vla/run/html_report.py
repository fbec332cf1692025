"""The HTML report, for stored runs and for the run that has just ended (``--vla-report``)."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.gate.verdicts import Flip
from pytest_vla.plan.case import parse_node_id
from pytest_vla.plan.manifests import is_suite
from pytest_vla.records.items import SHARED, RunItem
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.reports.gates import Replay
from pytest_vla.reports.loaded import Loaded, load
from pytest_vla.reports.sections import Named, make_sections, plain_options
from pytest_vla.run.command_lines import command_line, named_plugins
from pytest_vla.run.resume import REPLAYED, Invocation, read_invocation
from pytest_vla.run.selection import as_typed
from pytest_vla.run.settings import SHOWN_ALONE, Settings
from pytest_vla.util.files import whole_file

if TYPE_CHECKING:
    from pytest_vla.reports.html.gates import GateTold


# The commands that run cases of a run again: of the run that is going on, and of stored ones.

_MOST_IDS = 3
"""More ids than these are read from a file, so that a command stays a line."""

_MARKS = ("-", "@")
"""What pytest takes for an option, or for a file of arguments."""


class _Recipe(NamedTuple):
    """The invocation that started a run, with its plugins."""

    invocation: Invocation
    plugins: tuple[str, ...]


def replays(settings: Settings, config: pytest.Config, items: Iterable[RunItem], run: Path) -> Replay:
    """Return a function that gives the command for cases of the current run; empty if all of them are shared episodes.

    Args:
        settings: the settings of this invocation.
        config: the config of this invocation.
        items: the run's items.
        run: the run's folder, in which many ids are written into a file.
    """
    alone = _alone(items)

    def command(flips: Sequence[Flip]) -> str:
        nodes = [as_typed(flip.node, config) for flip in flips if flip.node in alone]
        return settings.command(_as_arguments(nodes, run, config.invocation_params.dir), config) if nodes else ""

    return command


def _as_arguments(nodes: Sequence[str], run: Path, here: Path) -> Sequence[str]:
    """Return node ids as arguments of pytest: many of them as a file of the run, relative to `here`."""
    if len(nodes) <= _MOST_IDS or any(node.startswith(_MARKS) or not node.isprintable() for node in nodes):
        return nodes
    try:
        with whole_file(run / REPLAYED) as stream:
            stream.write("".join(f"{node}\n" for node in nodes).encode())
    except VlaError:
        return nodes
    return [f"@{os.path.relpath(run / REPLAYED, here)}"]


def stored_replays(texts: Sequence[str], results: Path) -> Replay:
    """Return a function that gives the command for cases of stored runs; empty if they are of imported or several runs.

    Args:
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
    """
    found: dict[tuple[str, int], tuple[_Recipe, str]] = {}
    for store, runs in open_runs(texts, results):
        for run in runs:
            recipe = _recipe(run)
            if recipe is not None:
                run_seed = int(recipe.invocation.values["run_seed"])
                items = store.items(run.name)
                found |= {(node, run_seed): (recipe, run.name) for node in _replayed(items, recipe)}

    def command(flips: Sequence[Flip]) -> str:
        known = {flip.node: found[flip.node, flip.run_seed] for flip in flips if (flip.node, flip.run_seed) in found}
        if len({run for _, run in known.values()}) != 1:
            return ""
        return _command([*known], next(iter(known.values()))[0])

    return command


def record_replays(texts: Sequence[str], results: Path) -> Callable[[Record], str]:
    """Return a function that gives the command for a record in its own run, or an empty text if none is known.

    Args:
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
    """
    found: dict[str, tuple[_Recipe, frozenset[str]]] = {}
    for store, runs in open_runs(texts, results):
        for run in runs:
            recipe = _recipe(run)
            if recipe is not None:
                found[run.name] = recipe, _replayed(store.items(run.name), recipe)

    def command(record: Record) -> str:
        recipe, alone = found.get(record.run, (None, frozenset()))
        return "" if recipe is None or record.node not in alone else _command([record.node], recipe)

    return command


def _alone(items: Iterable[RunItem]) -> frozenset[str]:
    return frozenset(item.node for item in items if item.episode and item.status != SHARED)


def _replayed(items: Iterable[RunItem], recipe: _Recipe) -> frozenset[str]:
    """Return the node ids that can be run again: of suites, also of a ``conftest.py`` that was not read here."""
    # A store's ids may be anything, and a command is shown to be typed: none is an option or a file of options.
    some = [item for item in items if not item.node.startswith(_MARKS)]
    of_suites = {item.node for item in some if item.of_suite and parse_node_id(item.node)}
    folder, there = recipe.invocation.folder, dict[str, bool]()
    for file in {node.partition("::")[0] for node in _alone(some) - of_suites}:
        there[file] = is_suite(file) or (folder / file).is_file()
    return frozenset(node for node in _alone(some) if node in of_suites or there[node.partition("::")[0]])


def _recipe(run: Run) -> _Recipe | None:
    try:
        # What stands in a store may be anything, and this is shown to be typed.
        plugins = tuple(name for name in named_plugins(run.command) if re.fullmatch(r"[\w.]+", name))
        return _Recipe(read_invocation(run.name, run.invocation), plugins)
    except VlaError:
        # Of a log that was imported, or of another version.
        return None


def _command(nodes: Sequence[str], recipe: _Recipe) -> str:
    invocation, plugins = recipe
    command = command_line([*nodes, *invocation.given, SHOWN_ALONE], plugins, invocation.folder)
    return command if invocation.folder == Path.cwd() else f"cd {shlex.quote(str(invocation.folder))} && {command}"


ENDINGS = (".html", ".htm")
"""Of files that ``--vla-report`` writes."""

NO_REPORT = "no report:"
"""What the line begins with that says why ``--vla-report`` has written nothing."""

if TYPE_CHECKING:
    from pytest_vla.reports.html.gates import GateTold
    from pytest_vla.reports.html.media import MediaShown


def write_html(
    loaded: Loaded,
    sections: Sequence[Named],
    texts: Sequence[str],
    results: Path,
    file: Path | None,
    troubles: Sequence[str] = (),
    shown: "MediaShown | None" = None,
) -> None:
    """Write a page, as a whole or not at all.

    Args:
        loaded: the records.
        sections: the parts of the report.
        texts: runs, as `pytest_vla.records.load` knows them.
        results: the folder of all runs.
        file: the file; None or ``-`` writes to standard output.
        troubles: the missing parts, with the reasons.
        shown: how many episodes have pictures and videos, or None for no pictures.

    Raises:
        VlaError: it cannot be written, or the runs cannot be read.
    """
    from pytest_vla.reports.html.media import MediaShown as Of
    from pytest_vla.reports.html.page import PageRequest, make_page
    from pytest_vla.reports.html.parts import page_html

    wanted = PageRequest(tuple(texts), results, record_replays(texts, results), shown or Of(pictures=0))
    content = page_html(make_page(loaded, sections, wanted, troubles))
    if file is None or str(file) == "-":
        sys.stdout.buffer.write(content)
        return
    with whole_file(file) as stream:
        stream.write(content)


def check_report(file: Path, option: str = "--vla-report") -> None:
    """Check the file of an HTML report before anything runs. Raises VlaError if it has another ending or no folder."""
    if file.suffix.lower() not in ENDINGS:
        raise VlaError(
            f"{option}={file}: expected a file that ends in {' or '.join(ENDINGS)}, such as report.html (an existing "
            "file is overwritten)"
        )
    if file.is_dir() or not file.parent.is_dir():
        raise VlaError(f"{option}={file}: expected a file, such as report.html, in an existing folder")


def report_run(run: Path, file: Path, data: Path | None, pictures: int = 0) -> None:
    """Write the page of a run that has ended.

    Args:
        run: the run's folder.
        file: the file to write.
        data: the folder of ``--vla-data``.
        pictures: the number of episodes with pictures.

    Raises:
        VlaError: it cannot be written, or the run cannot be read.
    """
    from pytest_vla.reports.html.media import MediaShown as Of

    content, _ = run_page(load([run.name], run.parent), run.name, run.parent, data, Of(pictures, data=data))
    with whole_file(file) as stream:
        stream.write(content)


def run_page(
    loaded: Loaded,
    run: str,
    results: Path,
    data: Path | None = None,
    shown: "MediaShown | None" = None,
    index: str = "",
    gates: "Sequence[GateTold] | None" = None,
) -> tuple[bytes, list[str]]:
    """Return the page of one run, and a line for each part that is missing.

    Args:
        loaded: the run's records.
        run: its name.
        results: the folder of all runs.
        data: the folder of ``--vla-data``.
        shown: how many episodes have pictures and videos, or None for no pictures.
        index: see `pytest_vla.reports.html.parts.Page`.
        gates: the run's gates, or None to judge them now.

    Raises:
        VlaError: the run cannot be read.
    """
    from pytest_vla.reports.html.media import MediaShown as Of
    from pytest_vla.reports.html.page import PageRequest, make_page
    from pytest_vla.reports.html.parts import page_html

    sections, troubles = make_sections(loaded, plain_options(data), "html")
    wanted = PageRequest((run,), results, record_replays([run], results), shown or Of(pictures=0), index, gates)
    return page_html(make_page(loaded, sections, wanted, troubles)), troubles
