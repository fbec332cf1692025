"""``pytest-vla show``: draws tasks and runs as pictures."""

import argparse
import re
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import JoinAction, comma_list, declare_data, declare_results, seed_list, whole_number

if TYPE_CHECKING:
    from pytest_vla.plan.task import Task


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "A task is SUITE/TASK, its name or a part of its name. Its sheet shows it as policies first see it, with a "
        "picture for each seed and camera; a sheet of a suite or of several tasks has one picture for each task. With "
        "--vary, the unvaried task comes first, and each kind of variation has a row: a picture of each level at the "
        "start of an episode, with the drawn values below. Variations without a picture (instructions, actions), and "
        "those that a task cannot have, are described in words. Of a suite's own MuJoCo model, the parts that "
        "variations change are printed. A run is its name or the beginning of it, `last`, or "
        "its folder. Its sheet shows the start and the end of the first episode of each task and variation; several "
        "runs are shown side by side. With -o FILE.mp4 the result is the video of one episode instead."
    )
    parser.add_argument("what", metavar="TASK|SUITE|RUN", nargs="+", help="tasks and suites, or runs, to show")
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        help="file to write (default: TASK.png, SUITE.png or RUN.png in the current folder, several names joined)",
    )
    parser.add_argument(
        "--seeds",
        metavar="SEEDS",
        type=seed_list,
        help="seeds to show, such as 0-9 (default: 0-3 for one task, 0 for several or with --vary, the first for runs)",
    )
    parser.add_argument(
        "--vary",
        metavar="VARIATIONS",
        type=comma_list,
        action=JoinAction,
        help="for tasks: variations, as for --vla-vary, such as camera,light:3 or camera+light:3 (`pytest "
        "--vla-vary=list` lists them). For runs and for suites with their own variations, such as libero_plus_goal: "
        "show only variations with these labels; * ? [] are wildcards, such as 'camera*', and benign selects a run's "
        "unvaried episodes",
    )
    parser.add_argument(
        "--tasks",
        metavar="TASK[,TASK]",
        type=comma_list,
        action=JoinAction,
        help="for runs: show only these tasks, as for --vla-tasks (default: all)",
    )
    parser.add_argument(
        "--frames",
        metavar="N",
        type=whole_number("a number of moments", 1, 100),
        help="for runs: moments of each episode (default: 2, start and end)",
    )
    parser.add_argument(
        "--cameras",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=JoinAction,
        help="cameras to show (default: the suite's; only its first with --vary, for runs and for several tasks)",
    )
    parser.add_argument(
        "--size", metavar="PIXELS", type=_size, help="size of a picture, 512 or HxW (default: the suite's)"
    )
    declare_data(parser)
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Draw the named tasks or runs, and print the file's name. Raises VlaError: not found, drawn or written."""
    from pytest_vla.records.record import VIDEO_SUFFIX
    from pytest_vla.run.constants import LIST
    from pytest_vla.show import runs as run_sheets
    from pytest_vla.show import tasks as sheets
    from pytest_vla.show.sheet import check_target, default_name, write_png

    drawing = sheets.Drawing(options.cameras, options.size, options.data, options.allow_versions)
    of_runs = [run_sheets.is_run(text) for text in options.what]
    if any(of_runs) and not all(of_runs):
        raise VlaError(f"{' '.join(options.what)}: give either tasks or runs, not both")
    if not any(of_runs) and options.vary == (LIST,):
        from pytest_vla.vary.registry import kinds_table

        print("\n".join(kinds_table()))
        return
    if not all(of_runs):
        if options.tasks or options.frames:
            raise VlaError("--tasks and --frames are for runs. Name a run, such as `pytest-vla show last`")
        found = [sheets.find_tasks(text, options.data) for text in options.what]
        names = [tasks[0].key if len(tasks) == 1 else tasks[0].suite for tasks in found]
        tasks = [task for tasks in found for task in tasks]
        file = options.output or default_name(names)
        check_target(file)
        if options.vary is None:
            picture = sheets.task_sheet(tasks, options.seeds, drawing)
        else:
            from pytest_vla.show.variations import vary_sheet

            picture = vary_sheet(tasks, ",".join(options.vary), options.seeds, drawing)
        write_png(picture, file)
        for line in dict.fromkeys(line for task in tasks for line in _scene_lines(task)):
            print(line)
    else:
        runs = run_sheets.load_runs(options.what, options.results)
        file = options.output or default_name([run.run.name for run in runs])
        if file.suffix == VIDEO_SUFFIX:
            if len(runs) > 1 or options.frames:
                raise VlaError("a video shows one episode. Name one run, and leave --frames out")
            run_sheets.run_video(runs[0], options.tasks or (), options.seeds, file, drawing, options.vary or ())
        else:
            check_target(file)
            frames = options.frames or 2
            labels = options.vary or ()
            write_png(run_sheets.run_sheet(runs, options.tasks or (), options.seeds, frames, drawing, labels), file)
    print(file)


def _scene_lines(task: "Task") -> list[str]:
    """Return the parts of an own world's MuJoCo model that variations change, a field in a line."""
    if task.scene is None:
        return []
    values = {each.name: getattr(task.scene, each.name) for each in fields(task.scene)}
    return [f"scene of {task.id}:", *(f"  {name} = {value!r}" for name, value in values.items())]


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch("0*([1-9][0-9]{0,3})(?:x0*([1-9][0-9]{0,3}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in pixels. Write 512, or 480x640 for height x width")
    return int(match[1]), int(match[2] or match[1])


COMMAND = Command(declare, run)
