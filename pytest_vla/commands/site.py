"""``pytest-vla site``: writes runs as a static site for CI pages, which grows from job to job."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.reports.html.gates import GateTold
    from pytest_vla.reports.loaded import Loaded
    from pytest_vla.reports.site.page import Built

# Heavy imports are inside the functions, so that --help is fast.

FOLDER = "public"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    from pytest_vla.commands.report import episode_number, video_number
    from pytest_vla.run.arguments import declare_results, some_text, whole_number

    parser.epilog = (
        "DIR gets index.html, runs/NAME.html for each run, and runs.json, which keeps runs without records in the "
        "index: keep DIR between jobs, and each job adds its run. A page is made again only if its run's records, "
        "pytest-vla's version or the pictures have changed. Nothing in DIR is deleted."
    )
    parser.add_argument(
        "which",
        metavar="RUN|DIR",
        nargs="*",
        help="a run's name or the beginning of it, a run's folder, a results folder, last or all (default: all)",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="DIR",
        type=lambda text: Path(some_text(text)),
        default=Path(FOLDER),
        help=f"folder of the site, created if missing (default: {FOLDER})",
    )
    parser.add_argument("--title", metavar="TEXT", type=some_text, help="title of the index")
    parser.add_argument(
        "--limit",
        metavar="N",
        type=whole_number("a number of runs", 1),
        help="list only the newest N runs in the index; older ones stay in runs.json (default: all)",
    )
    parser.add_argument("--force", action="store_true", help="make all pages again")
    parser.add_argument(
        "--pictures",
        metavar="N",
        type=episode_number,
        default=0,
        help="on each run's page: number of episodes with pictures of their start and end (default: 0)",
    )
    parser.add_argument(
        "--videos",
        metavar="none|failed[:N]|all[:N]",
        type=video_number,
        default=(0, True),
        help="on each run's page: episodes with a video, recorded or drawn now (default: none; default N: 20)",
    )
    parser.add_argument("--data", metavar="DIR", type=Path, help="data folder, as for pytest's --vla-data")
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Write the site. Raises VlaError: there are no runs, it cannot be written, or a part of it is missing."""
    from pytest_vla.reports.html.media import MediaShown
    from pytest_vla.reports.site.page import INDEX, TITLE, Site, build_site
    from pytest_vla.run.html_report import run_page
    from pytest_vla.util.live_line import progress

    most, of_failed = options.videos
    shown = MediaShown(options.pictures, most, of_failed, options.data)
    site = Site(
        options.output,
        tuple(options.which),
        options.results,
        options.title or TITLE,
        options.limit,
        options.force,
        shown,
    )

    def page_of(loaded: "Loaded", run: str, results: Path, gates: "Sequence[GateTold]") -> tuple[bytes, list[str]]:
        return run_page(loaded, run, results, options.data, shown, f"../{INDEX}", gates)

    with progress(sys.stderr) as tell:
        built = build_site(site, page_of, tell)
    print(_summary(options.output / INDEX, built))
    if built.troubles:
        raise VlaError("\n".join(built.troubles))


def _summary(file: Path, built: "Built") -> str:
    """Return the summary: ``public/index.html: 12 runs; pages: 2 made, 9 unchanged, 1 of runs without records``."""
    from pytest_vla.util.text import counted

    pages = [f"{len(built.made)} made", f"{len(built.unchanged)} unchanged"]
    if gone := built.listed - len(built.made) - len(built.unchanged):
        pages.append(f"{gone} of runs without records")
    return f"{file}: {counted(built.listed, 'run')}; pages: {', '.join(pages)}"


COMMAND = Command(declare, run)
