"""``pytest-vla doctor``: find out why a policy fails, from demonstrations: wiring, weights, or neither."""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla import extensions
from pytest_vla.doctor.findings import DEFAULT_DEMONSTRATIONS
from pytest_vla.entries import Command
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.task import OWN_EVALUATOR
from pytest_vla.run.arguments import JoinAction, comma_list, whole_number
from pytest_vla.util.live_line import output_aside, progress
from pytest_vla.util.text import counted, printable

if TYPE_CHECKING:
    from pytest_vla.doctor.findings import Examination
    from pytest_vla.plan.evaluators import Evaluator
    from pytest_vla.plan.manifests import Suite
    from pytest_vla.policies.spec import ModelSpec

# Heavy imports are inside the functions, so that --help is fast.

DEFAULT_SUITE, DEFAULT_EPISODES = "tabletop", 5


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Compares the policy's answers along demonstrations with the demonstrated actions, under the wirings that "
        "people get wrong, and prints the cause, its evidence and the lines that mend it. Exit code: 0 if nothing is "
        "wrong with the wiring, else 1."
    )
    parser.add_argument(
        "--vla-model", metavar="POLICY", help="policy to examine, as for pytest (required without --codes)"
    )
    parser.add_argument(
        "--vla-suite", metavar="NAME", default=DEFAULT_SUITE, help=f"suite that it fails on (default: {DEFAULT_SUITE})"
    )
    parser.add_argument(
        "--vla-tasks", metavar="TASK[,TASK]", type=comma_list, action=JoinAction, default=(), help="only these tasks"
    )
    parser.add_argument(
        "--vla-evaluator",
        metavar="NAME|FILE",
        help="published evaluator to follow, as for pytest (default: the one that the policy's kind implies)",
    )
    parser.add_argument("--vla-data", metavar="FOLDER", type=Path, help="folder of the suite's data, as for pytest")
    parser.add_argument("--vla-device", metavar="DEVICE", help="device of the policy, as for pytest (default: auto)")
    parser.add_argument(
        "--vla-replan",
        metavar="N",
        type=whole_number("a number of steps", 1, 1000),
        help="steps of a chunk that are executed, as for pytest (default: the policy's own number)",
    )
    parser.add_argument(
        "--demos",
        metavar="PATH|HUB_ID",
        help="demonstrations: LIBERO's HDF5, a folder of it, a LeRobot data set or its id on the hub (default: the "
        "expert makes some)",
    )
    parser.add_argument(
        "--cameras", metavar="NAME:CAMERA[,...]", help="names of the data set's pictures, such as front:agentview"
    )
    parser.add_argument(
        "--no-ops",
        metavar="K",
        type=whole_number("a number of rows", 0, 9999),
        help="leave out the demonstrations' rows without motion, but keep K after each change of the gripper, as "
        "VLA-Arena's training data does with 4, 8, 12 or 16 (default: keep all)",
    )
    parser.add_argument(
        "--action-stats",
        metavar="PATH",
        type=Path,
        help="tables of normalisation, one of which may have been taken for another: OpenVLA's "
        "dataset_statistics.json, openpi's norm_stats.json, LeRobot's meta/stats.json, or a folder with such files "
        "(default: those of the data set that --demos gives, and of a lerobot: checkpoint)",
    )
    parser.add_argument(
        "--demo-count",
        metavar="N",
        type=whole_number("a number of demonstrations", 2, 200),
        default=DEFAULT_DEMONSTRATIONS,
        help=f"demonstrations to use (default: {DEFAULT_DEMONSTRATIONS})",
    )
    parser.add_argument(
        "--episodes",
        metavar="N",
        type=whole_number("a number of episodes", 0, 1000),
        default=DEFAULT_EPISODES,
        help=f"episodes to run as wired today, and as proposed; 0 for none (default: {DEFAULT_EPISODES})",
    )
    parser.add_argument("--all", action="store_true", help="make every step, though an earlier one explains everything")
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page with pictures and figures")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--codes", action="store_true", help="print all codes with their meanings, and exit")


def run(options: argparse.Namespace) -> None:
    """Examine the policy and print the result. Raises VlaError: it cannot be examined, or something is wrong."""
    from pytest_vla.doctor.action_tables import action_tables_in, read_action_tables
    from pytest_vla.doctor.examine import ExaminationSettings, check_examinable, demonstrations_of, examine
    from pytest_vla.doctor.findings import CODES, examination_table
    from pytest_vla.doctor.page import write_page
    from pytest_vla.policies.load import check_model, load_policy
    from pytest_vla.run.project import typed_model

    if options.codes:
        print(json.dumps(CODES, indent=2) if options.json else "\n".join(f"{k}  {v}" for k, v in CODES.items()))
        return
    if options.vla_model is None:
        raise VlaError(
            "which policy? Add --vla-model=POLICY, such as --vla-model=my_policy:policy (not needed with --codes)"
        )
    if options.html is not None and not options.html.absolute().parent.is_dir():
        raise VlaError(f"--html={options.html}: there is no folder {options.html.absolute().parent}. Make it first")
    if options.html is not None and options.html.is_dir():
        raise VlaError(
            f"--html={options.html}: that is a folder, expected a file such as {options.html / 'doctor.html'}"
        )
    if options.html is not None and not os.access(
        options.html if options.html.exists() else options.html.absolute().parent, os.W_OK
    ):
        raise VlaError(f"--html={options.html}: it cannot be written: choose another place")
    suite, evaluator = _suite_and_evaluator(options)
    check_examinable(suite)
    spec = typed_model(options.vla_model, options.vla_device)
    replan = options.vla_replan or evaluator.replan
    tables = () if options.action_stats is None else read_action_tables(options.action_stats)
    # The policy's own output must not mix with the report.
    with progress(sys.stderr) as told, output_aside():
        told(f"loading {spec.text}")
        check_model(spec)
        tables = tables or action_tables_in(_own_tables(options.demos, spec))
        policy = load_policy(spec)
        demonstrations = demonstrations_of(
            options.demos, suite, options.demo_count, options.cameras, told, options.no_ops
        )
        settings = ExaminationSettings(spec.text, replan, options.episodes, options.all, tables=tables)
        try:
            found = examine(policy, suite, demonstrations, settings, told=told)
        except EpisodeError as error:
            raise VlaError(f"{spec.text} cannot be asked: {error.reason}: {error.message}") from error
    print(json.dumps(examination_table(found), indent=2) if options.json else "\n".join(as_text(found)))
    if options.html is not None:
        write_page(found, options.html)
        print(f"page: {options.html}", file=sys.stderr)
    if not found.diagnosis.is_well:
        # The error goes to another stream.
        sys.stdout.flush()
        first = found.diagnosis.findings[0]
        raise VlaError(f"{spec.text}: {first.code}: {first.cause}")


def _own_tables(demonstrations: str | None, spec: "ModelSpec") -> list[Path]:
    """Return the places of the tables that a data set, and a checkpoint of lerobot's, may have."""
    places = [own] if demonstrations and (own := Path(demonstrations, "meta", "stats.json")).is_file() else []
    kind, _, text = spec.text.partition(":")
    if kind == "lerobot":
        from pytest_vla.policies.lerobot import find_here

        places += [found] if (found := find_here(text.partition("?")[0], spec.folder)) is not None else []
    return places


def _suite_and_evaluator(options: argparse.Namespace) -> "tuple[Suite, Evaluator]":
    """Return the suite as a run of this policy has it: under the evaluator that is typed, or that its kind implies."""
    from pytest_vla.plan.evaluators import load_evaluator
    from pytest_vla.plan.manifests import load_suite, suite_with
    from pytest_vla.plan.select import select_tasks

    suite = load_suite(options.vla_suite, data=options.vla_data)
    entry = extensions.policies().get(options.vla_model.partition(":")[0])
    evaluator = load_evaluator(options.vla_evaluator or (entry and entry.evaluator) or OWN_EVALUATOR)
    if options.vla_evaluator is None and not evaluator.knows(suite.tasks[0]):
        evaluator = load_evaluator(OWN_EVALUATOR)
    suite = suite_with(suite, evaluator.task)
    if options.vla_tasks:
        suite = replace(suite, tasks=select_tasks([suite], options.vla_tasks))
    return suite, evaluator


def as_text(examination: "Examination") -> Iterator[str]:
    """Yield the lines of a result for the terminal."""
    from pytest_vla.reports.text import aligned, terminal_width, wrapped

    diagnosis, width = examination.diagnosis, terminal_width()
    count = counted(len(examination.demonstrations), "demonstration")
    yield f"{examination.model} on {examination.suite}, along {count}, {counted(diagnosis.questions, 'question')}"
    for number, each in enumerate(diagnosis.findings):
        yield ""
        yield from wrapped(f"{each.code} ({each.confidence}): {printable(each.cause)}", width)
        yield from (f"  {line}" for line in wrapped(printable(each.evidence), width - 2))
        # Those of the first one are in the adapter, if it mends that.
        if each.lines and not (number == 0 and each.code in examination.mended):
            yield from (f"    {line}" for line in each.lines)
    if examination.adapter:
        yield ""
        yield examination.adapter_use
        yield from (f"    {line}" for line in examination.adapter_module)
    if diagnosis.by_dimension:
        from pytest_vla.doctor.findings import UNKNOWN
        from pytest_vla.doctor.fits import DIMENSIONS

        yield ""
        rows = [["variance explained", *DIMENSIONS, "mean"]]
        # Where the policy knows nothing, the best that was tried is no proposal.
        best = "best tried" if any(each.code == UNKNOWN for each in diagnosis.findings) else "proposed"
        for name, value in zip(("today", "proposed"), diagnosis.explained, strict=True):
            shares = [f"{each:.2f}" if each == each else "-" for each in diagnosis.by_dimension[name]]
            rows.append([name if name == "today" else best, *shares, f"{value:.2f}"])
        yield from aligned(rows, 0)
        listed = ", ".join(f"{name} {value:.2f}" for name, value in diagnosis.yardsticks.items())
        yield from wrapped(f"(1: the demonstrated actions themselves; {listed})", width)
    for played in examination.replayed:
        told = f", {played.drift_mm:.0f} mm away at the end" if played.drift_mm == played.drift_mm else ""
        yield f"played back {played.reading}: {played.succeeded} of {played.count} succeed{told}"
    for each_compared in examination.compared:
        name, reading = printable(each_compared.name), each_compared.reading
        yield f"recorded {name}: fits the suite's {reading}, {each_compared.difference:.3g} apart"
    for name, share in examination.exchanged.items():
        yield f"explained with {printable(name)} inputs: {share:.2f}"
    if examination.closed_loop is not None:
        closed = examination.closed_loop
        told = f"; as proposed {sum(closed.proposed)}" if closed.proposed else ""
        yield f"closed loop: {sum(closed.today)} of {len(closed.cases)} succeed as wired today{told}"
        yield from (line for each in closed.errors[:3] for line in wrapped(f"error: {printable(each)}", width))
    yield from (line for note in examination.notes for line in wrapped(f"note: {note}", width))


COMMAND = Command(declare, run)
