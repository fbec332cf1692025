"""``pytest-vla init-states``: makes init states for a user's own tasks.

By default 50 a task, each at rest for ten seconds. The random draws are seeded by the task's name, so that the same
files give the same states on one machine. With ``--add`` a task of any suite gets additional ones; existing init states
keep their numbers.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.kernels import pinned_processes
from pytest_vla.plan.manifests import data_bases, load_suite, suite_named, suite_names, takes_tasks
from pytest_vla.plan.task import Task
from pytest_vla.run.arguments import whole_number
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import printable_lines

# The simulator is imported inside the functions, so that --help is fast.

# Larger numbers of init states, or longer waits (s), are taken for typing errors.
_MOST, _LONGEST = 10_000, 3600.0


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Init states are random placements of the scene's objects that stay at rest. They are written to "
        "DIR/init_files/SUITE/TASK.pruned_init. The same files give the same states on one machine. Uses all "
        "processors."
    )
    parser.add_argument(
        "tasks",
        nargs="*",
        metavar="TASK",
        help="tasks to make init states for (default: all in DIR without init states)",
    )
    parser.add_argument("--data", required=True, metavar="DIR", type=Path, help="your data folder, as for --vla-data")
    parser.add_argument("--suite", default="tabletop", metavar="SUITE", help="suite of the tasks (default: tabletop)")
    parser.add_argument(
        "--count",
        metavar="N",
        type=whole_number("a number of init states", 1, _MOST),
        help="init states for each task (default: the suite's number, 50)",
    )
    parser.add_argument(
        "--add",
        action="store_true",
        help="keep each TASK's init states, with their numbers, and append new ones up to --count; --vla-data=DIR then "
        "runs them (default: make all anew)",
    )
    parser.add_argument(
        "--hold", type=_hold, default=10.0, metavar="S", help="seconds that each state must stay at rest (default: 10)"
    )


def run(options: argparse.Namespace) -> None:
    """Make the init states, and print the files. Raises VlaError: some task's init states cannot be made."""
    if options.add:
        if options.count is None:
            raise VlaError("--add needs --count=N, the total number of init states of each task")
        tasks, folder = _to_extend(options.suite, options.data, options.tasks)
    else:
        tasks, folder = _asked(options.suite, options.data, options.tasks)
    failed = write_all(tasks, folder, options.count, options.hold, options.add)
    if failed:
        raise VlaError(f"no init states were made for {', '.join(failed)}; see above")


def write_init_states(
    task: Task, folder: Path, count: int | None = None, hold_seconds: float = 10.0, add: bool = False
) -> Path:
    """Make a task's init states and write them, whole or not at all, to ``TASK.pruned_init``.

    Args:
        task: the task.
        folder: the folder of the suite's init states; created if missing.
        count: how many, or None for the protocol's number.
        hold_seconds: how long each must stay at rest.
        add: keep the task's existing ones, with their numbers, and append the missing ones.

    Raises:
        VlaError: the scene cannot be used or does not come to rest, the task has as many already, or the file cannot
            be written.
    """
    from pytest_vla.sim.settle import generator_of, settled_states
    from pytest_vla.sim.world import World

    with World(task) as world:
        number = task.protocol.init_states if count is None else count
        kept = world.init_states[:number] if add else np.empty((0, 1 + world.model.nq + world.model.nv))
        if len(kept) == number:
            raise VlaError(f"{task.id}: has {len(world.init_states)} init states. Give a --count above {number}")
        source = generator_of(task.key, after=len(kept))
        made = settled_states(world, number - len(kept), source, hold_seconds=hold_seconds)
        states = np.concatenate([kept, made])
    path = _init_file(task, folder)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VlaError(f"cannot write {path}: {error.strerror or error}") from error
    with whole_file(path) as file:
        # Column order compresses to a third: columns vary little from state to state.
        np.savez_compressed(file, init_states=np.asfortranarray(states))
    return path


def write_all(
    tasks: Sequence[Task], folder: Path, count: int | None = None, hold_seconds: float = 10.0, add: bool = False
) -> tuple[str, ...]:
    """Call `write_init_states` for several tasks on all processors, print the results, and return the failed tasks."""
    failed = []
    with pinned_processes(len(tasks)) as pool:
        futures = [(task, pool.submit(write_init_states, task, folder, count, hold_seconds, add)) for task in tasks]
        for task, future in futures:
            try:
                print(future.result(), flush=True)
            except VlaError as error:
                print(printable_lines(str(error)), file=sys.stderr, flush=True)
                failed.append(task.key)
    return tuple(failed)


def _to_extend(name: str, data: Path, names: Sequence[str]) -> tuple[list[Task], Path]:
    """Return the tasks to extend (all if none is named), and their init states' folder. Raises VlaError."""
    data = data.expanduser().absolute()
    suite = load_suite(suite_named(name), data=data if data_bases(data) else None)
    tasks = [suite.task(task) for task in dict.fromkeys(names)] or list(suite.tasks)
    if told := next((task for task in tasks if task.world is not None), None):
        raise VlaError(f"{told.id}: its suite has its own world, so no init states can be made here")
    return tasks, next(iter(data_bases(data)), data) / "init_files" / tasks[0].files


def _asked(name: str, data: Path, names: Sequence[str]) -> tuple[list[Task], Path]:
    """Return the requested tasks, and their init states' folder."""
    data = data.expanduser().absolute()
    name = suite_named(name)
    bases = data_bases(data)
    suite = load_suite(name, data=data)
    if not takes_tasks(name):
        open_suites = ", ".join(other for other in suite_names() if takes_tasks(other))
        raise VlaError(f"suite {name} uses upstream's init states. Put your tasks into: {open_suites}")
    base = next((base for base in bases if (base / "bddl_files" / name).is_dir()), None)
    if base is None:
        raise VlaError(f"{data}: expected task files in bddl_files/{name}, found no such folder")
    folder = base / "init_files" / name
    if names:
        return [suite.task(task) for task in dict.fromkeys(names)], folder
    there = [task for task in suite.tasks if (base / "bddl_files" / f"{task.paths[0]}.bddl").is_file()]
    lacking = [task for task in there if not _init_file(task, folder).is_file()]
    if not lacking:
        raise VlaError(f"{data}: all {len(there)} tasks have init states. Name the tasks to make them anew")
    return lacking, folder


def _init_file(task: Task, folder: Path) -> Path:
    """Return the path of a task's init states in its suite's folder."""
    return folder / f"{task.file or task.name}.pruned_init"


def _hold(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, 0 to {_LONGEST:g} seconds")
    return seconds


COMMAND = Command(declare, run)
