"""``pytest-vla baseline``: what later runs are compared with, as a file that is kept beside the policy's code."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import declare_results, some_text

if TYPE_CHECKING:
    from pytest_vla.commands.rm import Ask
    from pytest_vla.gate.baseline import Baseline
    from pytest_vla.records.runs import Run

# What the command needs is imported when it runs: --help has to come at once.

DEFAULT_FILE = "baseline.vla.json"


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments: a command of its own for each thing to do."""
    parser.epilog = (
        "A baseline is text with a line for each case: how it ended, its steps, its costs, and what it ran under. Keep "
        "it in version control: a diff says what changed. `pytest-vla baseline save --help` says more, and so do those "
        "of show and update."
    )
    kinds = parser.add_subparsers(metavar="DO", required=True, title="what to do", dest="do")
    save = kinds.add_parser("save", help="make one of runs", description="Makes a baseline of runs.")
    save.epilog = (
        "Of each case the first complete record counts (docs: What counts). The file is written whole or not at all, "
        "and none is overwritten: `pytest-vla baseline update` says what changes, and then does."
    )
    declare_runs(save)
    save.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        default=Path(DEFAULT_FILE),
        help=f"new file (default: {DEFAULT_FILE})",
    )
    show = kinds.add_parser("show", help="what one holds", description="Says what a baseline holds.")
    show.epilog = (
        "Model, cases, rates by suite with 95% intervals over these tasks, benign and varied episodes apart, and the "
        "conditions that its cases share."
    )
    show.add_argument("file", metavar="FILE", type=Path, nargs="?", default=Path(DEFAULT_FILE), help=_FILE_HELP)
    show.add_argument("--json", action="store_true", help="for programs")
    update = kinds.add_parser(
        "update", help="put other runs in its place", description="Puts runs in the place of what a baseline holds."
    )
    update.epilog = (
        "Says first what changes: cases that are added, gone, fail now or succeed now, and conditions that differ. It "
        "is written after your yes, whole or not at all."
    )
    update.add_argument("file", metavar="FILE", type=Path, help="the baseline")
    declare_runs(update)
    update.add_argument("--yes", action="store_true", help="do not ask")


_FILE_HELP = f"the baseline (default: {DEFAULT_FILE})"


def declare_runs(
    parser: argparse.ArgumentParser,
    about: str = "a run's name or its beginning, its folder, or a results folder; last (default); all",
) -> None:
    """Of which runs: ``which`` (`about` is its help), ``--model``, ``--allow-unfinished`` and ``--vla-results``."""
    parser.add_argument("which", metavar="RUN", nargs="*", help=about)
    parser.add_argument("--model", metavar="NAME", type=some_text, help="of several models the one that is meant")
    parser.add_argument(
        "--allow-unfinished",
        action="store_true",
        help="also of a run that has not run all that was planned, or whose episodes broke",
    )
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Save, show or update. Raises VlaError: there is no such run or file, or a baseline of it would mislead."""
    if options.do == "show":
        _show(options)
    elif options.do == "save":
        _save(options)
    else:
        update(options, input if sys.stdin.isatty() else None)


def _show(options: argparse.Namespace) -> None:
    import json

    from pytest_vla.gate.baseline_file import read_baseline
    from pytest_vla.reports.baselines import baseline_lines, baseline_table

    baseline = read_baseline(options.file)
    print(json.dumps(baseline_table(baseline), indent=2) if options.json else "\n".join(baseline_lines(baseline)))


def _save(options: argparse.Namespace) -> None:
    from pytest_vla.gate.baseline_file import write_baseline
    from pytest_vla.reports.baselines import baseline_lines

    if options.output.is_dir():
        raise VlaError(f"-o {options.output} is a folder: give a file, such as {options.output / DEFAULT_FILE}")
    if options.output.exists():
        raise VlaError(
            f"{options.output} is there already, and nothing is overwritten: pytest-vla baseline update "
            f"{options.output} {' '.join(options.which)}".rstrip()
        )
    baseline, notes = baseline_of_runs(options)
    write_baseline(baseline, options.output)
    print("\n".join([*baseline_lines(baseline), *notes, f"saved: {options.output}"]))


def update(options: argparse.Namespace, ask: "Ask | None") -> None:
    """Put runs in the place of what a baseline holds, with the user's consent. Raises VlaError: nothing was written.

    Args:
        options: of ``update``.
        ask: asks the user; None: nobody can be asked.
    """
    from pytest_vla.commands.rm import agrees
    from pytest_vla.gate.baseline_file import read_baseline, text_of, write_baseline
    from pytest_vla.gate.changes import changes_of
    from pytest_vla.reports.baselines import change_lines

    before = read_baseline(options.file)
    after, notes = baseline_of_runs(options)
    if text_of(before) == text_of(after):
        print("\n".join([*notes, f"{options.file}: nothing changes"]))
        return
    changes = [*change_lines(changes_of(before, after))] or ["no case changes: only the runs' names and times"]
    print("\n".join([*changes, *notes]))
    if not options.yes and ask is None:
        raise VlaError("nothing was written: nobody can be asked, as standard input is no terminal: say yes with --yes")
    if not options.yes and ask is not None and not agrees(ask, f"Write {options.file}?"):
        raise VlaError("nothing was written")
    write_baseline(after, options.file)
    print(f"updated: {options.file}")


def baseline_of_runs(options: argparse.Namespace, *, allow_broken: bool = False) -> "tuple[Baseline, list[str]]":
    """The baseline that runs make, and what is to be said of it.

    Args:
        options: with `declare_runs`'s.
        allow_broken: whether episodes may have broken, since the caller tells what that makes of its numbers.

    Raises:
        VlaError: there is no such run, or a baseline of it would mislead.
    """
    from pytest_vla.gate.baseline import baseline_of, counting_of
    from pytest_vla.records.load import open_runs
    from pytest_vla.reports.loaded import load
    from pytest_vla.reports.tables import notes
    from pytest_vla.util.text import counted

    texts = options.which or ["last"]
    runs = {run.name: run for _, some in open_runs(texts, options.results) for run in some}
    records = load(texts, options.results).records
    counting = counting_of(records, options.model)
    baseline = baseline_of(records, options.model)
    against = _against([*runs.values()], baseline.runs)
    broken = [record for record in counting.records if record.outcome == "error"]
    if broken and not allow_broken:
        reasons = ", ".join(sorted({str(record.reason) for record in broken}))
        against.append(
            f"{counted(len(broken), 'episode')} broke ({reasons}): nothing is known of what the policy does there; "
            f"pytest --vla-resume={broken[-1].run} runs them again"
        )
    if against and not options.allow_unfinished:
        raise VlaError("\n".join([*against, "--allow-unfinished goes by what there is all the same"]))
    return baseline, [*notes([*against, *counting.left_out])]


def _against(named: "Sequence[Run]", counting: Sequence[str]) -> "list[str]":
    """Why a baseline would have less than it seems. Raises VlaError: it would mislead in any case.

    Args:
        named: the runs that the user named.
        counting: names of those whose records are in it.
    """
    from pytest_vla.records.runs import is_alive

    found = []
    for run in named:
        if run.done and run.name not in counting:
            # Of another model, or its cases count elsewhere.
            continue
        if is_alive(run):
            raise VlaError(f"run {run.name} is still running (process {run.pid}): wait for its end, or stop it")
        if run.done < run.planned:
            found.append(
                f"run {run.name} has {run.done} of {run.planned} episodes: pytest --vla-resume={run.name} runs the rest"
            )
    if all(run.picked for run in named):
        told = ", ".join(f"{run.name} ({run.picked})" for run in named)
        raise VlaError(
            f"{told}: it ran only what earlier runs had picked by how it ended, and a baseline of that says nothing of "
            "the policy; give the run of everything too, or run all episodes"
        )
    return found


COMMAND = Command(declare, run)
