"""``pytest-vla gate``: whether a run is worse than a baseline.

It ends with 0 where what ``--require`` asks for is shown, else with 1.
"""

import argparse
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.commands.baseline import DEFAULT_FILE, baseline_of_runs, declare_runs
from pytest_vla.entries import Command
from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.gate.baseline import Baseline
    from pytest_vla.gate.verdicts import Terms, Verdict

# What the command needs is imported when it runs: --help has to come at once.

REQUIRED: "dict[str, tuple[Verdict, ...]]" = {
    "no-regression": ("better", "no worse", "undecided"),
    "no-worse": ("better", "no worse"),
    "better": ("better",),
}
"""By what is asked for, the verdicts with which it is met."""


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "Pairs are of the same case: task, variation, seed and run seed. Where no case is in both, each task under "
        "each variation is compared over the seeds that either has. A regression is success that fell, where it is not "
        "shown that it fell by less than the margin; no worse is that it did not fall by the margin; else it is "
        "undecided, and the gate says about how many episodes would settle it. Exit code: 0 where --require is met, "
        "else 1."
    )
    declare_runs(parser)
    declare_terms(parser)
    parser.add_argument(
        "--unpaired", action="store_true", help="compare tasks over all seeds of either, also where cases are in both"
    )
    parser.add_argument(
        "--require",
        choices=tuple(REQUIRED),
        default="no-regression",
        help="what has to be shown for exit code 0 (default: no-regression, which undecided meets)",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--summary",
        metavar="FILE",
        type=Path,
        help="append the verdict as Markdown, such as to $GITHUB_STEP_SUMMARY",
    )


def declare_terms(parser: argparse.ArgumentParser) -> None:
    """What a gate goes by: ``--baseline``, ``--margin``, ``--alpha`` and ``--by``."""
    parser.add_argument(
        "--baseline",
        metavar="FILE|RUN",
        default=DEFAULT_FILE,
        help=f"what `pytest-vla baseline save` wrote, or a run (default: {DEFAULT_FILE})",
    )
    parser.add_argument(
        "--margin", metavar="POINTS", type=number, help="percentage points of success that may be lost (default: 5)"
    )
    parser.add_argument(
        "--alpha",
        metavar="A",
        type=number,
        help="share of runs in which a claim may be wrong, each way (default: .05)",
    )
    parser.add_argument(
        "--by",
        metavar="LABEL,...",
        help="what makes a group: suite, task, task_level, dimension, kind, level, label (default: suite,dimension)",
    )


def run(options: argparse.Namespace) -> int:
    """Judge the run; 0: what is required was shown, 1: it was not.

    Raises:
        VlaError: there is no such run or baseline, or both have nothing in common.
    """
    from pytest_vla.gate.verdicts import judge
    from pytest_vla.reports.gates import gate_lines, gate_markdown, gate_table

    terms = terms_of(options)
    baseline = baseline_named(options)
    new, told = baseline_of_runs(options, allow_broken=True)
    judgement = judge(baseline, new, terms, is_paired=False if options.unpaired else None)
    if options.json:
        print(json.dumps(gate_table(judgement, baseline, new), indent=2))
    else:
        print("\n".join([*told, *gate_lines(judgement, baseline, new, options.baseline)]))
    if options.summary is not None:
        text = gate_markdown(judgement, baseline, new, options.baseline)
        try:
            with options.summary.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise VlaError(f"--summary={options.summary}: {error.strerror}; expected a file to append to") from error
    return int(judgement.verdict not in REQUIRED[options.require])


def terms_of(options: argparse.Namespace) -> "Terms":
    """Of `declare_terms`. Raises VlaError: a number is out of range, or nothing is grouped by such a label."""
    from pytest_vla.gate.verdicts import ALPHA, BY, MARGIN, Terms

    return Terms(
        MARGIN if options.margin is None else options.margin,
        ALPHA if options.alpha is None else options.alpha,
        BY if options.by is None else tuple(name.strip() for name in options.by.split(",")),
    )


def baseline_named(options: argparse.Namespace) -> "Baseline":
    """Of a file; or of a run, where no such file is there. Raises VlaError: neither is there, or it cannot be read."""
    from pytest_vla.gate.baseline_file import read_baseline

    path = Path(options.baseline)
    if path.is_file() or path.suffix == ".json":
        return read_baseline(path)
    of_run = argparse.Namespace(
        which=[options.baseline], results=options.results, model=None, allow_unfinished=options.allow_unfinished
    )
    return baseline_of_runs(of_run, allow_broken=True)[0]


def number(text: str) -> float:
    """For argparse."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number")
    return found


COMMAND = Command(declare, run)
