"""``pytest-vla label``: a local page on which you say how well a run's successes were done."""

import argparse
import getpass
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import declare_data, declare_results, some_text, whole_number

if TYPE_CHECKING:
    from pytest_vla.records.record import Record
    from pytest_vla.show.runs import RunEpisodes
    from pytest_vla.show.tasks import Drawing

# What the command needs is imported when it runs: --help has to come at once.


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "It serves on 127.0.0.1 alone, until Ctrl-C, and prints the page's address. Of each success it shows the "
        "video, which is drawn from its recorded states where there is none. Each label is written at once: started "
        "again, it goes on with what is left. Two people label under two names; `pytest-vla report --labels=FILE` says "
        "how far they agree, and which metrics go with what they say."
    )
    parser.add_argument("which", metavar="RUN", help="its name or the beginning of it, last, or its folder")
    parser.add_argument(
        *("-o", "--output"), metavar="FILE", type=Path, help="CSV of labels (default: RUN-labels.csv in this folder)"
    )
    parser.add_argument("--by", metavar="NAME", type=some_text, help="who labels (default: your name on this machine)")
    parser.add_argument(
        "--port", metavar="N", type=whole_number("a port", 0, 65535), default=0, help="default: any that is free"
    )
    declare_data(parser)
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Serve until Ctrl-C. Raises VlaError: there is no such run, it has no success, or the file is none of labels."""
    from pytest_vla.show.labelling import Shown, labelling_server
    from pytest_vla.show.runs import load_runs
    from pytest_vla.show.tasks import Drawing

    runs = load_runs([options.which], options.results)
    if len(runs) != 1:
        raise VlaError(f"{options.which} are {len(runs)} runs: name one")
    (found,) = runs
    drawing = Drawing(None, None, options.data, options.allow_versions)
    successes = {
        (record.case, record.digest): record
        for record in found.records
        if record.outcome == "success" and record.arrays
    }
    if not successes:
        raise VlaError(f"run {found.run.name} has no success with a trajectory: there is nothing whose quality to say")
    shown = [
        Shown(case, digest, record.run, record.instruction, _video(found, record, number, drawing))
        for number, ((case, digest), record) in enumerate(sorted(successes.items()))
    ]
    file = options.output or Path(f"{found.run.name}-labels.csv")
    server, address = labelling_server(shown, file, options.by or _user(), options.port)
    print(f"{address}\n{len(shown)} successes, labels in {file}; Ctrl-C ends it", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()


def _video(found: "RunEpisodes", record: "Record", number: int, drawing: "Drawing") -> "Callable[[Path], Path]":
    def video(folder: Path) -> Path:
        from pytest_vla.records.record import VIDEO_SUFFIX
        from pytest_vla.records.trajectory import trajectory_file
        from pytest_vla.show.runs import run_video

        made = trajectory_file(found.folder, str(record.arrays)).with_suffix(VIDEO_SUFFIX)
        drawn = folder / f"{number}{VIDEO_SUFFIX}"
        if made.is_file():
            return made
        if not drawn.exists():
            label = str(record.variation.get("label", ""))
            which = (label,) if label else ("benign",) if any(each.variation for each in found.records) else ()
            run_video(found, (record.task_key,), (record.seed,), drawn, drawing, which)
        return drawn

    return video


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "somebody"


COMMAND = Command(declare, run)
