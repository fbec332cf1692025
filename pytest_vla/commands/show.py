"""``pytest-vla show``: draws tasks and runs as pictures."""

import argparse
import re
from pathlib import Path

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import JoinAction, comma_list, declare_data, declare_results, seed_list, whole_number


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "A task is SUITE/TASK, its name or a part of its name, and is shown as policies first see it, a picture for "
        "each seed and camera; of a suite or of several tasks each has one. With --vary the task as it is stands "
        "first, and each kind of variation has a row beside it: each level, as an episode under it begins; below them "
        "what was drawn, and in words what has no picture (instructions, actions) and what a task cannot have. A run "
        "is its name or the beginning of it, `last`, or its folder: each of its tasks and variations has the start and"
        " the end of its first episode, and several runs stand side by side. With -o FILE.mp4 it is the video of one "
        "episode instead."
    )
    parser.add_argument("what", metavar="TASK|SUITE|RUN", nargs="+", help="what to show; several of one kind")
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        help="default: TASK.png, SUITE.png or RUN.png in this folder, the names of several joined",
    )
    parser.add_argument(
        "--seeds",
        metavar="SEEDS",
        type=seed_list,
        help="such as 0-9 (default: 0-3 of one task, 0 of several or with --vary; of runs the first)",
    )
    parser.add_argument(
        "--vary",
        metavar="VARIATIONS",
        type=comma_list,
        action=JoinAction,
        help="of tasks: as --vla-vary, such as camera,light:3 or camera+light:3 (`pytest --vla-vary=list` lists what "
        "there is); of suites that are varied by themselves, such as libero_plus_goal, and of runs: only variations "
        "with these labels, * ? [] are wildcards, such as 'camera*'; benign: of runs, what is not varied",
    )
    parser.add_argument(
        "--tasks",
        metavar="TASK[,TASK]",
        type=comma_list,
        action=JoinAction,
        help="of runs: only these, as --vla-tasks",
    )
    parser.add_argument(
        "--frames",
        metavar="N",
        type=whole_number("a number of moments", 1, 100),
        help="of runs: moments of each episode (default: 2, start and end)",
    )
    parser.add_argument(
        "--cameras",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=JoinAction,
        help="default: the suite's; its first with --vary, of runs and of several tasks",
    )
    parser.add_argument("--size", metavar="PIXELS", type=_size, help="of a picture, 512 or HxW (default: the suite's)")
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
        raise VlaError(f"{' '.join(options.what)}: show either tasks or runs, not both")
    if not any(of_runs) and options.vary == (LIST,):
        from pytest_vla.vary.registry import kinds_table

        print("\n".join(kinds_table()))
        return
    if not all(of_runs):
        if options.tasks or options.frames:
            raise VlaError("--tasks and --frames are for runs: name the run, such as `pytest-vla show last`")
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
    else:
        runs = run_sheets.load_runs(options.what, options.results)
        file = options.output or default_name([run.run.name for run in runs])
        if file.suffix == VIDEO_SUFFIX:
            if len(runs) > 1 or options.frames:
                raise VlaError("a video is of one episode: name one run, and leave --frames out")
            run_sheets.run_video(runs[0], options.tasks or (), options.seeds, file, drawing, options.vary or ())
        else:
            check_target(file)
            frames = options.frames or 2
            labels = options.vary or ()
            write_png(run_sheets.run_sheet(runs, options.tasks or (), options.seeds, frames, drawing, labels), file)
    print(file)


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch("0*([1-9][0-9]{0,3})(?:x0*([1-9][0-9]{0,3}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in pixels; write 512, or 480x640 for height x width")
    return int(match[1]), int(match[2] or match[1])


COMMAND = Command(declare, run)
