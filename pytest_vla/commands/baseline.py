"""``pytest-vla baseline``: saves, shows and updates the file that later runs are compared with."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import declare_results, some_text

if TYPE_CHECKING:
    from pytest_vla.commands.rm import Ask
    from pytest_vla.gate.baseline import Baseline

# Heavy imports are inside the functions, so that --help is fast.

DEFAULT_FILE = "baseline.vla.json"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the subcommands save, show and update, with their options."""
    parser.epilog = (
        "A baseline is a text file with one line for each case: its outcome, steps, costs and conditions. Keep it in "
        "version control, so that a diff shows what changed. See `pytest-vla baseline save --help`, and the help of "
        "show and update."
    )
    kinds = parser.add_subparsers(metavar="save|show|update", required=True, title="subcommands", dest="do")
    save = kinds.add_parser(
        "save", help="save runs as a new baseline", description="Save the results of runs as a new baseline."
    )
    save.epilog = (
        "For each case the first complete record counts (docs: What counts). The file is written whole or not at all, "
        "and an existing file is never overwritten: use `pytest-vla baseline update`, which shows the changes first."
    )
    declare_runs(save)
    save.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        default=Path(DEFAULT_FILE),
        help=f"file to create (default: {DEFAULT_FILE})",
    )
    show = kinds.add_parser("show", help="show a baseline", description="Show the content of a baseline.")
    show.epilog = (
        "Shows the model, the cases, success rates by suite with 95% intervals over these tasks (benign and varied "
        "episodes separately), and the conditions that all cases share."
    )
    show.add_argument("file", metavar="FILE", type=Path, nargs="?", default=Path(DEFAULT_FILE), help=_FILE_HELP)
    show.add_argument("--json", action="store_true", help="print JSON")
    update = kinds.add_parser(
        "update",
        help="replace a baseline by other runs",
        description="Replace the content of a baseline by the results of other runs.",
    )
    update.epilog = (
        "Prints the changes first: cases that are added, removed, now fail or now succeed, and conditions that differ. "
        "The file is written after you agree, whole or not at all."
    )
    update.add_argument("file", metavar="FILE", type=Path, help="baseline to replace")
    declare_runs(update)
    update.add_argument("--yes", action="store_true", help="write without asking")


_FILE_HELP = f"baseline to show (default: {DEFAULT_FILE})"


def declare_runs(
    parser: argparse.ArgumentParser,
    about: str = (
        "a run's name or the beginning of it, a run's folder, a results folder, another evaluator's log, last or all "
        "(default: last)"
    ),
) -> None:
    """Declare the options that select runs: ``which``, ``--model``, ``--allow-unfinished`` and ``--vla-results``.

    Args:
        parser: the command's.
        about: the help text of ``which``.
    """
    parser.add_argument("which", metavar="RUN", nargs="*", help=about)
    parser.add_argument(
        "--model", metavar="NAME", type=some_text, help="use this model's episodes; required if the runs have several"
    )
    parser.add_argument(
        "--allow-unfinished",
        action="store_true",
        help="accept a run that has not run all planned episodes, or has episodes that ended as errors",
    )
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Save, show or update a baseline. Raises VlaError: no such run or file, or the baseline would mislead."""
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
    from pytest_vla.reports.baselines import baseline_lines, kept_lines

    if options.output.is_dir():
        raise VlaError(f"-o {options.output} is a folder; give a file, such as {options.output / DEFAULT_FILE}")
    if options.output.exists():
        raise VlaError(
            f"{options.output} exists already. To replace it, use: pytest-vla baseline update "
            f"{options.output} {' '.join(options.which)}".rstrip()
        )
    baseline, notes = of_runs(options)
    write_baseline(baseline, options.output)
    print("\n".join([*baseline_lines(baseline), *notes, *kept_lines(baseline), f"saved: {options.output}"]))


def update(options: argparse.Namespace, ask: "Ask | None") -> None:
    """Replace the content of a baseline by runs, after the user agrees. Raises VlaError: nothing was written.

    Args:
        options: the arguments of ``update``.
        ask: asks the user a question, or None if standard input is no terminal.
    """
    from pytest_vla.commands.rm import agrees
    from pytest_vla.gate.baseline_file import changes_of, read_baseline, text_of, write_baseline
    from pytest_vla.reports.baselines import change_lines

    before = read_baseline(options.file)
    after, notes = of_runs(options)
    if text_of(before) == text_of(after):
        print("\n".join([*notes, f"{options.file}: no changes"]))
        return
    changes = [*change_lines(changes_of(before, after))] or ["no case changes; only the runs' names and times do"]
    print("\n".join([*changes, *notes]))
    if not options.yes and ask is None:
        raise VlaError("nothing was written: standard input is not a terminal, so the command cannot ask. Use --yes")
    if not options.yes and ask is not None and not agrees(ask, f"Write {options.file}?"):
        raise VlaError("nothing was written")
    write_baseline(after, options.file)
    print(f"updated: {options.file}")


def of_runs(
    options: argparse.Namespace, *, allow_broken: bool = False, allow_decided: bool = False
) -> "tuple[Baseline, list[str]]":
    """Return `baseline_of_runs` for the runs that the options of `declare_runs` select."""
    from pytest_vla.reports.baselines import baseline_of_runs

    return baseline_of_runs(
        options.which,
        options.results,
        options.model,
        allow_unfinished=options.allow_unfinished,
        allow_broken=allow_broken,
        allow_decided=allow_decided,
    )


COMMAND = Command(declare, run)
