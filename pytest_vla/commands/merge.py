"""``pytest-vla merge``: joins the runs of shards into one run."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.run.arguments import declare_results

if TYPE_CHECKING:
    from pytest_vla.scale.merge import Aside, Left, Merged

# Heavy imports are inside the functions, so that --help is fast.

INCOMPLETE = 3
"""The exit code if the given shards were merged, and something is missing."""

_MOST_LINES = 20
_MOST_RUNS = 3


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Shards are the runs of pytest --vla-shard=N/COUNT. The merged run equals a run on one machine, for all "
        "commands and for --vla-resume. Merging the same shards again changes nothing; merging later ones adds them. "
        "Shards that differ in selection, conditions, versions or policy are refused. Exit code: 0 if the run is "
        f"complete, {INCOMPLETE} if something is missing (it is listed with the command that runs it), 1 if nothing "
        "could be merged."
    )
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="*",
        type=Path,
        help="a shard's results folder, or a folder that has several (default: shards in the results folder)",
    )
    declare_results(parser, "-o")


def run(options: argparse.Namespace) -> int:
    """Merge, print the missing parts, and return the exit code. Raises VlaError if nothing could be merged."""
    from pytest_vla.run.constants import SHARDS
    from pytest_vla.run.options import KEPT, OPTIONS
    from pytest_vla.run.project import find_project
    from pytest_vla.scale.merge import merge
    from pytest_vla.util.text import printable

    # Options with paths are not compared: paths differ between machines, and the files' content is in the records.
    kept = [each for each in OPTIONS if each.belongs in KEPT and each.into is None and each.checked is None]
    names = [each.attribute for each in kept if each.attribute not in ("shard", "model")]
    is_own = options.results.resolve() == find_project(Path.cwd()).results.resolve()
    given = [] if is_own else [f"--vla-results={options.results}"]
    folders = options.folders or [options.results / SHARDS]
    found = merge(folders, options.results, names, given)
    for line in _summary(found, options.results, given):
        print(printable(line))
    return INCOMPLETE if found.left or found.uncollected else 0


def _summary(found: "Merged", results: Path, given: list[str]) -> Iterator[str]:
    from pytest_vla.reports.runs import status_of
    from pytest_vla.run.command_lines import command_line, named_plugins
    from pytest_vla.util.text import counted, ranges_text

    run, missing = found.run, [each for each in found.left if each.folder is None and each.not_run == each.planned]
    if found.is_new:
        done = f"made of {counted(found.records, 'record')}"
    elif found.records:
        done = f"has {counted(found.records, 'record')} more"
    else:
        done = "is unchanged: these shards have nothing new"
    yield f"run {run.name} in {results} {done}; {found.ended} of {counted(found.items, 'item')} are done"
    of = found.count - found.empty
    empty = f" ({found.empty} more have no item)" if found.empty else ""
    yield f"shards: {of - len(missing)} of {of}{empty}, {run.model}, {status_of(run)}"
    if found.lost:
        number = counted(len(found.lost), "trajectory").replace("trajectorys", "trajectories")
        yield f"not found: {number}, such as {found.lost[0]}. Their records are merged; metrics of paths are missing"
    for place in found.unread:
        yield f"left out: {place} has no records"
    for aside in found.aside:
        yield _aside(aside)
    for each in found.left[:_MOST_LINES]:
        yield from _left(each, found)
    if more := found.left[_MOST_LINES:]:
        yield f"and {counted(len(more), 'shard')} more: {ranges_text(each.number for each in more)}"
    plugins = [name for name in named_plugins(run.command) if not name.startswith("no:")]
    resume = f"  {command_line([f'--vla-resume={run.name}', *given], plugins, Path.cwd())}"
    if found.left:
        yield "then merge again; or run the rest on this machine:"
        yield resume
    if found.uncollected:
        yield from _uncollected(found)
    elif not found.left and run.invocation.get("settings", {}).get("min_success") is not None:
        yield "complete; to judge it by --vla-min-success:"
        yield resume


def _aside(aside: "Aside") -> str:
    from pytest_vla.util.text import counted

    names = [f"run {name} of {what}" for name, what in aside.runs.items()]
    some = ", ".join(names[:_MOST_RUNS])
    more = f" and {counted(len(names) - _MOST_RUNS, 'run')} more" if len(names) > _MOST_RUNS else ""
    whose = "which is not merged: its results stay there" if len(names) == 1 else "not merged: their results stay there"
    return f"note: {aside.place} also has {some}{more}, {whose} (pytest-vla runs --results={aside.place})"


def _uncollected(found: "Merged") -> Iterator[str]:
    """Yield each file that no shard could collect, and the commands that run its tests."""
    import shlex

    from pytest_vla.scale.merge import for_shard
    from pytest_vla.util.text import counted, ranges_text

    shards: dict[tuple[str, str], list[int]] = {}
    for number, lost in found.uncollected.items():
        for each in lost.files:
            shards.setdefault(each, []).append(number)
    for (name, why), numbers in list(shards.items())[:_MOST_LINES]:
        yield f"not collected: {name or 'the session'}: {why} (shard {ranges_text(numbers)})"
    number = max(max(lost.number for lost in found.uncollected.values()), len(shards))
    if number > _MOST_LINES:
        yield f"and {number - _MOST_LINES} more that could not be collected"
    yield "these files' tests are in no shard. Fix them, run the shards again without --vla-resume, then merge again:"
    numbers = sorted(found.uncollected)
    for number in numbers[:_MOST_LINES]:
        folder = found.folders.get(number)
        command = for_shard(found.command if folder is None else folder.last.run.command, number, found.count)
        yield f"  {command}" + (f" --vla-results={shlex.quote(str(folder.place))}" if folder is not None else "")
    if others := numbers[_MOST_LINES:]:
        yield f"and {counted(len(others), 'shard')} more in the same way: {ranges_text(others)}"


def _left(left: "Left", found: "Merged") -> Iterator[str]:
    from pytest_vla.records.runs import is_alive, sample_of
    from pytest_vla.run.command_lines import command_line, named_plugins
    from pytest_vla.scale.merge import for_shard
    from pytest_vla.util.text import counted

    parts = [f"{left.not_run} of {counted(left.planned, 'item')} not run"] * bool(left.not_run)
    parts += [f"{counted(left.errors, 'error')}"] * bool(left.errors)
    if left.run is not None and (sample := sample_of(left.run)) is not None:
        parts.append(f"stopped by time ({sample.by})")
    what = ", ".join(parts)
    if left.run is None or left.folder is None:
        yield f"missing: shard {left.number}: {what}"
        yield f"  {for_shard(found.command, left.number, found.count)}"
        return
    alive = is_alive(left.run)
    if alive:
        yield f"still running: shard {left.number} in {left.folder}, process {left.run.pid}: {what}"
        return
    unsure = f"; it may still run on {left.run.host}" if alive is None else ""
    yield f"left: shard {left.number} in {left.folder}: {what}{unsure}"
    plugins = [name for name in named_plugins(left.run.command) if not name.startswith("no:")]
    resume = [f"--vla-resume={left.run.name}", f"--vla-results={left.folder}"]
    yield f"  {command_line(resume, plugins, Path.cwd())}"


COMMAND = Command(declare, run)
