"""Options that the commands that search for failures share: the policy, its tasks and seeds, and the file of cases."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.run.arguments import JoinAction, comma_list, one_seed, seed_list

if TYPE_CHECKING:
    from pytest_vla.plan.task import Task
    from pytest_vla.policies.spec import ModelSpec


DEFAULT_SUITE = "tabletop"


def declare_search(parser: argparse.ArgumentParser, drawn: str, seeds: str, file: Path) -> None:
    """Declare the options of a command that searches.

    Args:
        parser: the command's parser.
        drawn: the name of what the run seed draws too, such as ``scenes``.
        seeds: the use of the cases' seeds, for the help.
        file: the default file of cases.
    """
    parser.add_argument("--vla-model", metavar="POLICY", help="policy to test, as for pytest")
    parser.add_argument(
        "--vla-suite",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=JoinAction,
        default=(DEFAULT_SUITE,),
        help=f"suites to search (default: {DEFAULT_SUITE})",
    )
    parser.add_argument(
        "--vla-tasks", metavar="TASK[,TASK]", type=comma_list, action=JoinAction, default=(), help="only these tasks"
    )
    parser.add_argument(
        "--vla-seeds", metavar="SEEDS", type=seed_list, default=(0,), help=f"seeds of each task, {seeds} (default: 0)"
    )
    parser.add_argument(
        "--vla-run-seed",
        metavar="N",
        type=one_seed,
        default=0,
        help=f"seed of the policy's noise and of the drawn {drawn} (default: 0)",
    )
    parser.add_argument("--vla-device", metavar="DEVICE", help="device of the policy's weights (default: auto)")
    parser.add_argument(
        "--vla-data", metavar="DIR", type=Path, help="folder with task files, init states and assets, as for pytest"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=file,
        help=f"file for the cases; an existing one is replaced (default: {file})",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def check_output(output: Path) -> None:
    """Check the output file before anything is loaded. Raises VlaError."""
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise VlaError(f"{output}: expected a file in an existing folder (-o)")


def searched_model(options: argparse.Namespace) -> "ModelSpec":
    """Return the policy to search. Raises VlaError if none is given."""
    from pytest_vla.run.project import typed_model

    if options.vla_model is None:
        raise VlaError("no policy is given: add --vla-model=POLICY, such as --vla-model=tiny")
    return typed_model(options.vla_model, options.vla_device)


def searched_tasks(options: argparse.Namespace) -> "Sequence[Task]":
    """Return the tasks to search. Raises VlaError if there is none, or if a suite is varied by itself."""
    from pytest_vla.plan.manifests import named_suites
    from pytest_vla.plan.select import select_tasks
    from pytest_vla.plan.task import check_unvaried

    names = [name for text in options.vla_suite for name in named_suites(text)]
    tasks = select_tasks([load_suite(name, data=options.vla_data) for name in names], options.vla_tasks)
    for task in tasks:
        check_unvaried(task)
    return tasks
