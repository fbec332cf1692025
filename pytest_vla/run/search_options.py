"""What the commands that search for failures have in common: the policy, its tasks and seeds, and the file of cases."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import Joined, comma_list, one_seed, seed_list

if TYPE_CHECKING:
    from pytest_vla.plan.task import Task
    from pytest_vla.policies.spec import ModelSpec

DEFAULT_SUITE = "tabletop"


def declare_search(parser: argparse.ArgumentParser, drawn: str, seeds: str, file: Path) -> None:
    """The options.

    Args:
        parser: of the command.
        drawn: what is drawn by the run seed too, such as ``scenes``.
        seeds: what is done with the seeds of cases.
        file: the file of cases, if no other is asked for.
    """
    parser.add_argument("--vla-model", metavar="POLICY", help="as pytest's")
    parser.add_argument(
        "--vla-suite",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=Joined,
        default=(DEFAULT_SUITE,),
        help=f"as pytest's (default: {DEFAULT_SUITE})",
    )
    parser.add_argument(
        "--vla-tasks", metavar="TASK[,TASK]", type=comma_list, action=Joined, default=(), help="as pytest's"
    )
    parser.add_argument(
        "--vla-seeds", metavar="SEEDS", type=seed_list, default=(0,), help=f"as pytest's, {seeds} (default: 0)"
    )
    parser.add_argument(
        "--vla-run-seed",
        metavar="N",
        type=one_seed,
        default=0,
        help=f"as pytest's; other {drawn} are drawn by it too (default: 0)",
    )
    parser.add_argument("--vla-device", metavar="DEVICE", help="as pytest's, one device (default: auto)")
    parser.add_argument("--vla-data", metavar="DIR", type=Path, help="as pytest's")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=file,
        help=f"the file of cases; what was there is replaced (default: {file})",
    )
    parser.add_argument("--json", action="store_true", help="print what was found for programs")


def check_output(output: Path) -> None:
    """Refuse before anything is loaded. Raises VlaError."""
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise VlaError(f"{output}: expected a file in a folder that is there (-o)")


def searched_model(options: argparse.Namespace) -> "ModelSpec":
    """The policy that is searched. Raises VlaError: none is given."""
    from pytest_vla.run.project import typed_model

    if options.vla_model is None:
        raise VlaError("which policy? Add --vla-model=POLICY, such as --vla-model=tiny")
    return typed_model(options.vla_model, options.vla_device)


def searched_tasks(options: argparse.Namespace) -> "Sequence[Task]":
    """The tasks that are searched. Raises VlaError: there is none such, or one is varied by itself."""
    from pytest_vla.plan.manifests import load_suite, named_suites
    from pytest_vla.plan.select import select_tasks

    names = [name for text in options.vla_suite for name in named_suites(text)]
    tasks = select_tasks([load_suite(name, data=options.vla_data) for name in names], options.vla_tasks)
    if varied := next((task for task in tasks if task.varied), None):
        raise VlaError(f"{varied.suite} is varied by itself; take the suite {varied.files} for others")
    return tasks
