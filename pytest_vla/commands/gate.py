"""``pytest-vla gate``: judges whether a run is worse than a baseline.

Exit codes: 0 if ``--require`` is met, 1 if it is not, 2 if nothing could be judged, because there is no baseline or no
episode was measured.
"""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.commands.baseline import DEFAULT_FILE, declare_runs, of_runs
from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.gate.choices import ALPHA, BEYOND, BY, LABELS, MARGIN, NO_REGRESSION, REGRESSIONS, REQUIRED

if TYPE_CHECKING:
    from pytest_vla.gate.baseline import Baseline
    from pytest_vla.gate.manifest import Manifest
    from pytest_vla.gate.measures import Measure
    from pytest_vla.gate.verdicts import Terms

_UNMEASURED = 2
"""The exit code if no episode of the run, or none of the baseline, was measured."""

# Heavy imports are inside the functions, so that --help is fast.


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Episodes are paired by case: task, variation, seed, and run seed if a side has several. If no case is in "
        "both, each task under each variation is compared over all seeds of either side. The verdict of a group is "
        "'regression' if success fell significantly beyond the margin (with --regression=any: fell significantly); 'no "
        "worse' if a fall by the margin is ruled out; else 'undecided', with the number of pairs that a "
        "new comparison needs. A significant loss that is no regression is reported. A run with --vla-gate=sequential "
        "is judged by the rounds, margin and other terms of its plan. Exit code: 0 if --require is met, 1 if it is "
        "not, 2 if nothing could be judged, for example without a baseline or if every episode ended as an error."
    )
    declare_runs(parser)
    declare_terms(parser)
    parser.add_argument(
        "--unpaired",
        action="store_true",
        help="compare tasks over all seeds of either side, even if cases are in both (default: pair cases)",
    )
    parser.add_argument(
        "--require",
        choices=tuple(REQUIRED),
        default=NO_REGRESSION,
        help="verdict required for exit code 0 (default: no-regression, which includes undecided)",
    )
    parser.add_argument(
        "--measure",
        metavar="NAME[=MARGIN]",
        action="append",
        default=[],
        help="also judge this measure of the pairs: steps (if both succeed), cost, cost.ACCOUNT, cost.ACCOUNT.NAME, "
        "pride, or a plugin's number as lower:NAME or higher:NAME, by which is better. With a margin: "
        "steps=10 accepts 10 more steps. Can be repeated",
    )
    parser.add_argument(
        *("-v", "--verbose"), action="store_true", help="list more of the tasks and cases that were lost"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--summary",
        metavar="FILE",
        type=Path,
        help="append the verdict to this file as Markdown, with the worst tasks and the flipped cases, such as to "
        "$GITHUB_STEP_SUMMARY",
    )


def declare_terms(parser: argparse.ArgumentParser) -> None:
    """Declare the terms of a gate: ``--baseline``, ``--margin``, ``--regression``, ``--alpha`` and ``--by``."""
    parser.add_argument(
        "--baseline",
        metavar="FILE|RUN",
        default=DEFAULT_FILE,
        help="baseline to compare with: a file from `pytest-vla baseline save`, a run, or a log of another "
        f"evaluator (default: {DEFAULT_FILE})",
    )
    parser.add_argument(
        "--margin", metavar="POINTS", type=number, help="percentage points of success that may be lost (default: 5)"
    )
    parser.add_argument(
        "--regression",
        choices=REGRESSIONS,
        help="which loss is a regression: margin, a significant loss beyond --margin; or any significant loss "
        "(default: margin)",
    )
    parser.add_argument(
        "--alpha", metavar="A", type=number, help="error rate of the gate's claims, per side (default: .05)"
    )
    parser.add_argument(
        "--by", metavar="LABEL[,LABEL]", help=f"group by: {', '.join(LABELS)} (default: {','.join(BY)})"
    )


def run(options: argparse.Namespace) -> int:
    """Judge the run, and return 0 if ``--require`` is met, 1 if it is not, or 2 if no episode was measured.

    Raises:
        VlaError: there is no such run or baseline, or they have nothing in common.
    """
    from pytest_vla.gate.manifest import baseline_digest
    from pytest_vla.gate.measures import parse_measures
    from pytest_vla.gate.sequential import judge_as_agreed
    from pytest_vla.gate.verdicts import judge
    from pytest_vla.records.names import LAST_RUN
    from pytest_vla.reports.gates import (
        failed_heading,
        fails,
        gate_lines,
        gate_markdown,
        gate_table,
        measured_by,
        measures_lines,
        measures_markdown,
        measures_table,
    )
    from pytest_vla.run.html_report import stored_replays

    measures = parse_measures(options.measure)
    if options.require != NO_REGRESSION and any(each.margin is None for each in measures):
        raise VlaError(f"--require={options.require}: expected a margin for each --measure, such as steps=10")
    options.which = options.which or [LAST_RUN]
    terms, baseline = terms_of(options), baseline_of(options)
    sequential = _sequential_of(options)
    new, told = of_runs(options, allow_broken=True, allow_decided=sequential is not None)
    if sequential is None:
        judgement = judge(baseline, new, terms, is_paired=False if options.unpaired else None)
    else:
        manifest, nodes = sequential
        check_as_agreed(options, manifest, baseline_digest(baseline))
        if measures:
            raise VlaError(
                "--measure: the run has a sequential gate, which stopped by success, so bounds of other numbers would "
                "not hold. Run it with --vla-gate=fixed"
            )
        judgement = judge_as_agreed(manifest, baseline, new, nodes)
        terms = judgement.terms
    told += _agreed(options, new, baseline, terms, measures)
    judgement = replace(judgement, look=_look(options, baseline, new, [each.name for each in judgement.groups]))
    replay = stored_replays(options.which or [LAST_RUN], options.results)
    measured, by = measured_by(baseline, new, terms, measures)
    failed = fails(measured, options.require)
    is_met = judgement.verdict in REQUIRED[options.require] and not failed and judgement.is_measured
    if options.json:
        table = gate_table(judgement, baseline, new, replay)
        further = {"require": options.require, "passed": is_met, "measures": measures_table(measured)}
        print(json.dumps({**table, **further}, indent=2))
    else:
        lines = gate_lines(judgement, baseline, new, options.baseline, replay, is_long=options.verbose)
        print("\n".join([*told, *lines, *measures_lines(measured, terms, by, failed)]))
    if options.summary is not None:
        try:
            with options.summary.open("a", encoding="utf-8") as file:
                file.write(failed_heading(failed) + gate_markdown(judgement, baseline, new, options.baseline, replay))
                file.write(measures_markdown(measured, terms, by, failed))
        except OSError as error:
            raise VlaError(f"--summary={options.summary}: {error.strerror}; expected a file to append to") from error
    return int(not is_met) if judgement.is_measured else _UNMEASURED


def _look(options: argparse.Namespace, baseline: "Baseline", new: "Baseline", groups: "Sequence[str]") -> int:
    """Return the number of this look at the comparison, counting the looks of earlier runs in the same results."""
    from pytest_vla.gate.manifest import baseline_digest, looks_at, manifests_of
    from pytest_vla.records.load import open_runs
    from pytest_vla.records.names import LAST_RUN

    opened = open_runs(options.which or [LAST_RUN], options.results)
    before = [each for store, _ in opened for each in manifests_of(store.invocations()).values()]
    return len(looks_at(baseline_digest(baseline), groups, new, before))


def _sequential_of(options: argparse.Namespace) -> "tuple[Manifest, tuple[str, ...]] | None":
    """Return a sequential run's manifest and the ids of its episodes' items, or None if no run is sequential.

    Raises:
        VlaError: a sequential run is named together with other runs.
    """
    from pytest_vla.gate.manifest import read_manifest
    from pytest_vla.records.load import open_runs
    from pytest_vla.records.names import LAST_RUN

    found, number = None, 0
    for store, runs in open_runs(options.which or [LAST_RUN], options.results):
        for run in runs:
            number += 1
            manifest = read_manifest(run.invocation)
            if manifest is not None and manifest.is_sequential:
                found = run.name, manifest, tuple(item.node for item in store.items(run.name) if item.episode)
    if found is None:
        return None
    if number > 1:
        raise VlaError(f"run {found[0]} has a sequential gate, whose rounds cover this run only. Name no other run")
    return found[1:]


def check_as_agreed(options: argparse.Namespace, manifest: "Manifest", digest: str) -> None:
    """Check that a sequential run is judged by the terms of its manifest.

    Args:
        options: the command's arguments.
        manifest: the run's manifest.
        digest: the digest of the given baseline.

    Raises:
        VlaError: the terms or the baseline differ from the manifest's.
    """
    from pytest_vla.gate.manifest import change_text, changes
    from pytest_vla.gate.sequential import AGREED_ALONE
    from pytest_vla.gate.verdicts import Terms

    given = terms_of(options)
    terms = Terms(
        manifest.margin if options.margin is None else given.margin,
        manifest.alpha if options.alpha is None else given.alpha,
        manifest.by if options.by is None else given.by,
        options.regression or manifest.regression,
    )
    told = changes(manifest, terms, manifest.required, digest)
    if options.unpaired:
        told.append(change_text("comparison", "--unpaired", "pairs"))
    if told:
        raise VlaError(f"{AGREED_ALONE}: {'; '.join(told)}")


def _agreed(
    options: argparse.Namespace, new: "Baseline", baseline: "Baseline", terms: "Terms", measures: "Sequence[Measure]"
) -> list[str]:
    """Return the lines about the runs' gate plans, and about deviations from them; empty if no run has a plan."""
    from pytest_vla.gate.manifest import (
        baseline_digest,
        changes,
        manifest_details,
        manifest_text,
        read_manifest,
    )
    from pytest_vla.records.load import open_runs
    from pytest_vla.records.names import LAST_RUN
    from pytest_vla.reports.text import wrapped

    told = []
    for run in (run for _, runs in open_runs(options.which or [LAST_RUN], options.results) for run in runs):
        manifest = read_manifest(run.invocation) if run.name in new.runs else None
        if manifest is not None:
            place = Path(manifest.baseline)
            name = str(place.relative_to(Path.cwd())) if place.is_relative_to(Path.cwd()) else str(place)
            told += wrapped(manifest_text(manifest, name))
            if options.verbose:
                told += wrapped(manifest_details(manifest))
            for change in changes(manifest, terms, options.require, baseline_digest(baseline), measures):
                told += wrapped(f"note: {change}")
    return told


def terms_of(options: argparse.Namespace) -> "Terms":
    """Return the terms that the options of `declare_terms` set.

    Raises:
        VlaError: a number is out of range, or there is no such label.
    """
    from pytest_vla.gate.verdicts import Terms

    return Terms(
        MARGIN if options.margin is None else options.margin,
        ALPHA if options.alpha is None else options.alpha,
        BY if options.by is None else tuple(name.strip() for name in options.by.split(",")),
        options.regression or BEYOND,
    )


def baseline_of(options: argparse.Namespace) -> "Baseline":
    """Return the baseline that ``--baseline`` names. Raises VlaError: no such file or run, or it is unreadable."""
    from pytest_vla.records.load import is_log, open_runs
    from pytest_vla.records.names import LAST_RUN
    from pytest_vla.reports.baselines import baseline_named

    if LAST_RUN in options.which and is_log(Path(options.baseline)):
        # A log that is read for the first time becomes the last run itself.
        names = [run.name for _, runs in open_runs([LAST_RUN], options.results) for run in runs]
        options.which = [*(text for text in options.which if text != LAST_RUN), *names]
    return baseline_named(options.baseline, options.results, allow_unfinished=options.allow_unfinished)


def number(text: str) -> float:
    """Parse a finite number, for argparse."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number")
    return found


COMMAND = Command(declare, run, trouble=2)
