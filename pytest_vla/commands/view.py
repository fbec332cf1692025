"""``pytest-vla view``: a task in MuJoCo's viewer."""

import argparse

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import declare_data, one_seed


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = "Physics runs in real time and the robot rests. It needs a screen; `pytest-vla show` does not."
    parser.add_argument("task", metavar="TASK", help="SUITE/TASK, a task's name or a part of it")
    parser.add_argument("--seed", metavar="N", type=one_seed, default=0, help="which init state (default: 0)")
    declare_data(parser)


def run(options: argparse.Namespace) -> None:
    """Open the viewer, until it is closed. Raises VlaError: there is no such task, or no screen."""
    from pytest_vla.show.tasks import find_tasks
    from pytest_vla.show.viewer import view_task

    tasks = find_tasks(options.task, options.data)
    if len(tasks) > 1:
        raise VlaError(f"{options.task} is a suite of {len(tasks)} tasks: {', '.join(task.key for task in tasks[:10])}")
    view_task(tasks[0], options.seed, options.allow_versions)


COMMAND = Command(declare, run)
