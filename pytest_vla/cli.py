"""``pytest-vla``: looks at tasks and at the records of earlier runs. Each command calls one function elsewhere."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_vla import extensions, kernels
from pytest_vla.commands import check_policy, remove, serve
from pytest_vla.commands import import_ as import_command
from pytest_vla.commands import pride as pride_command
from pytest_vla.commands import report as report_command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import Joined, comma_list, declare_results, seed_list
from pytest_vla.util.text import did_you_mean, printable_lines

# What a command needs is imported when it runs: --help has to come at once.


@dataclass(frozen=True)
class Command:
    """``pytest-vla NAME``: what its help says, how its arguments are declared, and what it does."""

    name: str
    help: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit code: 0, 1 (it could not be done) or 2 (it cannot be understood)."""
    parser = argparse.ArgumentParser(
        prog="pytest-vla",
        description="Look at robot-policy tests: their tasks, and the records of runs. The tests are run by pytest: "
        "`pytest --vla-suite=SUITE --vla-model=POLICY`; `pytest --help` has all --vla options.",
    )
    parser.add_argument(
        "-p",
        dest="plugins",
        metavar="MODULE",
        action="append",
        default=[],
        help="before the command: take suites and more from this module too, such as -p conftest; Python's path begins "
        "with this folder",
    )
    typed = sys.argv[1:] if arguments is None else list(arguments)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    names = [command.name for command in COMMANDS]
    try:
        rest = _take_plugins(typed)
        for command in COMMANDS:
            own = commands.add_parser(command.name, help=command.help, description=command.help)
            # Of others only the name is told, and packages are looked through only where they add options.
            if command.name in typed:
                command.declare(own)
            own.set_defaults(run=command.run)
    except VlaError as error:
        return _refuse(error)
    if rest and not rest[0].startswith("-") and rest[0] not in names:
        parser.error(f"there is no command {rest[0]!r}.{did_you_mean(rest[0], names)} Commands: {', '.join(names)}")
    options = parser.parse_args(typed)
    # What is simulated, or served, is to be what a run of pytest has.
    kernels.pin()
    try:
        options.run(options)
        sys.stdout.flush()
    except (VlaError, OSError) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return _refuse("interrupted")
    return 0


def _take_plugins(typed: Sequence[str]) -> Sequence[str]:
    """Of ``-p MODULE`` before the command; gives what comes after. Raises VlaError."""
    names, rest = [], list(typed)
    while rest and rest[0].startswith("-p"):
        name = rest.pop(0)[2:]
        if not name and rest:
            name = rest.pop(0)
        names.append(name)
    if names:
        sys.path.insert(0, os.getcwd())
        extensions.consent(names)
    return rest


def _refuse(error: Exception | str) -> int:
    if isinstance(error, OSError):
        # Standard output is what cannot be written. Python would complain once more when it closes it.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # A reader such as head has seen enough.
    if not isinstance(error, BrokenPipeError):
        print(printable_lines(f"pytest-vla: {error}"), file=sys.stderr)
    return 1


def _declare_runs(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Episodes are those done of those planned. The rate is over successes and failures of the suites' episodes "
        "(of your own tests, where there are no others), with its 95% interval over these tasks; errors are not in it. "
        "Of varied episodes `pytest-vla report RUN` has the interval."
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    declare_results(parser)


def _runs(options: argparse.Namespace) -> None:
    from pytest_vla.records.store import no_runs, open_store
    from pytest_vla.reports.runs import runs_json, runs_table

    with open_store(options.results, create=False) as store:
        runs = store.runs()
    if not runs and not options.json:
        raise no_runs(options.results)
    print(runs_json(runs) if options.json else "\n".join(runs_table(runs)))


def _declare_export(parser: argparse.ArgumentParser) -> None:
    from pytest_vla.reports.export import FORMATS

    parser.epilog = (
        "One row an episode, in the order in which they ended; rates are of those whose counts is true, the others are "
        "repeats (docs: What counts). csv and parquet have a column for each value: counts, outcome, steps, "
        "timings.wall, provenance.mujoco, protocol.max_steps, seeds.init_state, costs.NAME, metrics.NAME, eef_pos.x; "
        "literals are JSON text. In csv a text that a spreadsheet would run as a formula has an apostrophe before it. "
        "jsonl has the records as they are kept, and counts."
    )
    parser.add_argument(
        "which",
        metavar="RUN|DIR",
        nargs="?",
        default="last",
        help="a run's name or its beginning, its folder, or a results folder; last (default); all",
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="default: what the ending of FILE says, or csv; parquet needs pyarrow"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="written as a whole or not at all (default: standard output)"
    )
    declare_results(parser)


def _export(options: argparse.Namespace) -> None:
    from pytest_vla.records.load import open_run
    from pytest_vla.reports.export import FORMATS, check_format, export
    from pytest_vla.reports.loaded import counted_episodes
    from pytest_vla.util.files import whole_file

    output = None if options.output in (None, "-") else Path(options.output)
    ending = output.suffix[1:].lower() if output else ""
    format = options.format or (ending if ending in FORMATS else "csv")
    if format == "parquet" and output is None:
        raise VlaError("parquet is no text: give a file with -o FILE.parquet")
    check_format(format)
    with open_run("" if options.which == "all" else options.which, options.results) as (store, runs):
        # Fixed now: a run that goes on gets more.
        episodes = counted_episodes(store, [run.name for run in runs])
        # Not sys.stdout.buffer: with PYTHONUNBUFFERED that one may write a part and be content.
        with whole_file(output) if output else open(sys.stdout.fileno(), "wb", closefd=False) as stream:
            export(lambda: store.lines([*episodes]), format, stream, [*episodes.values()])


def _declare_show(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "A task is SUITE/TASK, its name or a part of its name, and is shown as policies first see it, a picture for "
        "each seed and camera; of a suite or of several tasks each has one. With --vary the task as it is stands "
        "first, and each kind of variation has a row beside it: each level, as an episode under it begins; below them "
        "what was drawn, and in words what has no picture (instructions, actions) and what a task cannot have. A run "
        "is its name or the beginning of it, `last`, or its folder: each of its tasks and variations has the start and"
        " the end of its first episode, and several runs stand side by side. With -o FILE.webm it is the video of one "
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
        action=Joined,
        help="of tasks: as --vla-vary, such as camera,light:3 or camera+light:3 (`pytest --vla-vary=list` lists what "
        "there is); of suites that are varied by themselves, such as libero_plus_goal, and of runs: only variations "
        "with these labels, * ? [] are wildcards, such as 'camera*'; benign: of runs, what is not varied",
    )
    parser.add_argument(
        "--tasks",
        metavar="TASK[,TASK]",
        type=comma_list,
        action=Joined,
        help="of runs: only these, as --vla-tasks",
    )
    parser.add_argument(
        "--frames", metavar="N", type=_frames, help="of runs: moments of each episode (default: 2, start and end)"
    )
    parser.add_argument(
        "--cameras",
        metavar="NAME[,NAME]",
        type=comma_list,
        action=Joined,
        help="default: the suite's; its first with --vary, of runs and of several tasks",
    )
    parser.add_argument("--size", metavar="PIXELS", type=_size, help="of a picture, 512 or HxW (default: the suite's)")
    _declare_data(parser)
    declare_results(parser)


def _show(options: argparse.Namespace) -> None:
    from pytest_vla.records.record import VIDEO_SUFFIX
    from pytest_vla.run.about import LIST
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
        names = [tasks[0].name if len(tasks) == 1 else tasks[0].suite for tasks in found]
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


def _declare_view(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Physics runs in real time and the robot rests. It needs a screen; `pytest-vla show` does not."
    parser.add_argument("task", metavar="TASK", help="SUITE/TASK, a task's name or a part of it")
    parser.add_argument("--seed", metavar="N", type=_seed, default=0, help="which init state (default: 0)")
    _declare_data(parser)


def _view(options: argparse.Namespace) -> None:
    from pytest_vla.show.tasks import find_tasks
    from pytest_vla.show.viewer import view_task

    tasks = find_tasks(options.task, options.data)
    if len(tasks) > 1:
        raise VlaError(
            f"{options.task} is a suite of {len(tasks)} tasks: {', '.join(task.name for task in tasks[:10])}"
        )
    view_task(tasks[0], options.seed, options.allow_versions)


def _declare_fetch(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "It says what comes from where, how much and under which licence, and asks before it downloads. Needs a "
        "network and huggingface_hub: pip install 'pytest-vla[libero]'."
    )
    parser.add_argument("what", metavar="libero", choices=("libero",), help="LIBERO's assets, tasks and init states")
    parser.add_argument(
        "--to", metavar="DIR", type=Path, help="default: ~/.local/share/pytest-vla/libero, which is found by itself"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _fetch(options: argparse.Namespace) -> None:
    from pytest_vla.commands.fetch import fetch_libero

    fetch_libero(options.to, options.yes, ask=input if sys.stdin.isatty() else None)


def _declare_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", metavar="DIR", type=Path, help="pytest's --vla-data")
    parser.add_argument("--allow-versions", action="store_true", help="pytest's --vla-allow-versions")


def _seed(text: str) -> int:
    seeds = seed_list(text)
    if len(seeds) != 1:
        raise argparse.ArgumentTypeError(f"{text!r} is more than one seed")
    return seeds[0]


def _frames(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of moments, 1 to 100")
    return int(text)


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch("0*([1-9][0-9]{0,3})(?:x0*([1-9][0-9]{0,3}))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size in pixels; write 512, or 480x640 for height x width")
    return int(match[1]), int(match[2] or match[1])


COMMANDS = (
    Command("show", "pictures of tasks, or of a run's episodes, on one sheet", _declare_show, _show),
    Command("view", "a task in MuJoCo's viewer", _declare_view, _view),
    Command("fetch", "LIBERO's data from where its authors put it, with your consent", _declare_fetch, _fetch),
    Command(
        "check-policy",
        "whether a policy fits a suite: what it says, what a trial shows, how long answers take",
        check_policy.declare,
        check_policy.run,
    ),
    Command("serve", "a policy for other machines, in openpi's protocol", serve.declare, serve.run),
    Command(
        "pride",
        "how far a paraphrase is from its original, with the parts of the distance",
        pride_command.declare,
        pride_command.run,
    ),
    Command("runs", "the runs, newest first: how far they came, and their success rates", _declare_runs, _runs),
    Command(
        "report",
        "what runs say beyond their rates: success under paraphrases, PRIDE, failure types, does the policy listen; "
        "robustness to variations by dimension and level; the tables of LIBERO-PRO and LIBERO-Plus",
        report_command.declare,
        report_command.run,
    ),
    Command("import", "published logs as a run", import_command.declare, import_command.run),
    Command("rm", "remove runs: their records and their files", remove.declare_rm, remove.rm),
    Command("prune", "remove the runs that are old, broken or too many", remove.declare_prune, remove.prune),
    Command("export", "the episodes of a run as a table for other programs", _declare_export, _export),
)

if __name__ == "__main__":
    sys.exit(main())
