"""``pytest-vla export``: writes the episodes of runs as a table for other programs, or as a training data set."""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.records.load import open_run
from pytest_vla.reports.export import (
    ALL,
    FORMATS,
    LEROBOT,
    NO_PICTURES,
    ONLY,
    PICTURES,
    SUCCESS,
    VIDEO,
    check_format,
    export,
)
from pytest_vla.reports.loaded import counted_episodes
from pytest_vla.run.arguments import declare_data, declare_results
from pytest_vla.util.files import whole_file, whole_folder
from pytest_vla.util.text import printable_lines

if TYPE_CHECKING:
    from pytest_vla.records.record import Record
    from pytest_vla.records.runs import Run
    from pytest_vla.records.store import Store
    from pytest_vla.reports.dataset.frames import Frame
    from pytest_vla.reports.dataset.held_out import Keys


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "The table has one row for each episode, in the order in which they ended. Compute rates from rows with counts "
        "= true; the others are repeats (docs: What counts). csv and parquet have a column for each value: counts, "
        "outcome, steps, timings.wall, provenance.mujoco, protocol.max_steps, seeds.init_state, costs.NAME, "
        "metrics.NAME, eef_pos.x; literals are JSON text. csv prefixes an apostrophe to texts that a spreadsheet would "
        "run as a formula. jsonl has the stored records, with counts. lerobot is a folder in LeRobot's format v3.0, "
        "with one row for each control step of the episodes that count and succeeded or failed: the policy's "
        "observation and its action. Steps are simulated again from their recorded states; pictures are identical bit "
        "for bit if the simulator's version is the same."
    )
    parser.add_argument(
        "which",
        metavar="RUN|DIR",
        nargs="?",
        default="last",
        help="a run's name or the beginning of it, a run's folder, a results folder, last or all (default: last)",
    )
    parser.add_argument(
        "--format",
        choices=(*FORMATS, LEROBOT),
        help="format to write; parquet and lerobot need pyarrow (default: by the ending of FILE, or csv)",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        help="file to write, whole or not at all; for lerobot a new folder (default: standard output)",
    )
    parser.add_argument(
        "--pictures",
        choices=PICTURES,
        help="for lerobot: how to store pictures: video (H.264, small, lossy), image (PNG in the tables, exact) or "
        "none (default: video)",
    )
    parser.add_argument(
        "--only", choices=ONLY, help="for lerobot: export only the episodes that succeeded, or all (default: all)"
    )
    parser.add_argument(
        "--vary",
        metavar="KINDS",
        help="for lerobot: play the actions of the run's unvaried successes under these variations first, as "
        "--vla-vary names them, and export the episodes that succeed (default: export the run itself)",
    )
    parser.add_argument(
        "--pytest",
        metavar="OPTIONS",
        default="",
        help="for --vary: further options for pytest, such as '-n 8 --vla-run-seed=1' (default: none)",
    )
    parser.add_argument(
        "--held-out",
        metavar="FILE|RUN",
        help="for lerobot: leave out episodes whose case is a test: a file with ids of cases, as `pytest "
        "--collect-only -q` prints them, or a run (default: none)",
    )
    parser.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of a record (a line of jsonl), and exit"
    )
    declare_data(parser)
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Write the table, whole or not at all. Raises VlaError: no such run, or the format is not available."""
    if options.schema:
        from pytest_vla.reports.export import record_schema

        print(json.dumps(record_schema(), indent=2))
        return
    output = None if options.output in (None, "-") else Path(options.output)
    if options.format == LEROBOT:
        _export_dataset(options, output)
        return
    if options.pictures or options.only or options.data or options.allow_versions:
        raise VlaError("--pictures, --only, --data and --allow-versions require --format=lerobot")
    if options.vary or options.held_out or options.pytest:
        raise VlaError("--vary, --held-out and --pytest require --format=lerobot")
    ending = output.suffix[1:].lower() if output else ""
    format = options.format or (ending if ending in FORMATS else "csv")
    if format == "parquet" and output is None:
        raise VlaError("parquet cannot be written to standard output. Use -o FILE.parquet")
    check_format(format)
    with open_run(options.which, options.results) as (store, runs):
        # Fixed now, because a running run adds episodes.
        episodes = counted_episodes(store, [run.name for run in runs])
        with whole_file(output) if output else _standard_output() as stream:
            export(lambda: store.lines([*episodes]), format, stream, [*episodes.values()])


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    """Open standard output; a terminal gets printable lines, since it would obey escapes in records."""
    if sys.stdout.isatty():
        with tempfile.TemporaryFile() as whole:
            yield whole
            whole.seek(0)
            for line in whole:
                print(printable_lines(line.decode().rstrip("\r\n")))
        return
    # Not sys.stdout.buffer: with PYTHONUNBUFFERED it may write only a part without an error.
    with open(sys.stdout.fileno(), "wb", closefd=False) as stream:
        yield stream


def _export_dataset(options: argparse.Namespace, output: Path | None) -> None:
    from pytest_vla.reports.dataset.lerobot import check_packages

    if output is None:
        raise VlaError("lerobot writes a folder. Name a new one with -o FOLDER")
    pictures = options.pictures or VIDEO
    check_packages(pictures == VIDEO)
    if options.pytest and not options.vary:
        raise VlaError("--pytest has options for the episodes of --vary, which is not given")
    if options.vary and options.only == ALL:
        raise VlaError("--vary exports episodes that succeed. Leave out --only=all")
    held_out = _held_out(options)
    which, only = options.which, options.only or ALL
    with whole_folder(output) as folder:
        if options.vary:
            which, only = _played(options), SUCCESS
        with open_run(which, options.results) as (store, runs):
            told = _write_dataset(store, runs, folder, pictures, options, only, held_out)
    print(f"{told}\n{output}")


def _held_out(options: argparse.Namespace) -> "Keys":
    from pytest_vla.reports.dataset.held_out import held_out_keys

    return frozenset() if options.held_out is None else held_out_keys(options.held_out, options.results, options.data)


def _played(options: argparse.Namespace) -> str:
    """Play a run's unvaried successes under variations, and return the name of the run with these episodes.

    Raises:
        VlaError: the run has no such episode, or pytest fails.
    """
    from pytest_vla.records.store import open_store

    with open_run(options.which, options.results) as (store, runs):
        if len(runs) != 1:
            raise VlaError(f"--vary plays the episodes of one run, and {options.which} names {len(runs)}")
        (run,), folder = runs, store.results / runs[0].name
        done = [r for r in store.records(run.name) if r.outcome == "success" and not r.variation and r.arrays]
        before = {each.name for each in store.runs()}
    if not done:
        raise VlaError(f"--vary: run {run.name} has no unvaried success whose actions could be played")
    names = {
        "suite": dict.fromkeys(each.suite for each in done),
        "tasks": dict.fromkeys(each.task_key for each in done),
        "seeds": dict.fromkeys(str(each.seed) for each in done),
    }
    data = options.data or run.invocation.get("settings", {}).get("data")
    command = [
        *(f"--vla-{name}={','.join(some)}" for name, some in names.items()),
        f"--vla-model=memoriser:{folder}",
        f"--vla-vary={options.vary}",
        f"--vla-results={options.results}",
        *([f"--vla-data={data}"] if data else []),
        *shlex.split(options.pytest),
    ]
    print(f"export: $ {shlex.join(['pytest', *command])}", flush=True)
    ended = subprocess.run([sys.executable, "-m", "pytest", *command], check=False).returncode
    if ended not in (0, 1):
        raise VlaError(f"--vary: pytest exited with code {ended}; see its output above")
    with open_store(options.results, create=False) as store:
        made = [each for each in store.runs() if each.name not in before]
    if len(made) != 1:
        raise VlaError(f"--vary: expected one new run in {options.results}, found {len(made)}: run it again")
    return made[0].name


def _write_dataset(
    store: "Store",
    runs: "Sequence[Run]",
    folder: Path,
    pictures: str,
    options: argparse.Namespace,
    only: str,
    held_out: "Keys",
) -> str:
    """Write the data set, and return the summary to print."""
    from pytest_vla.episode.world_pool import WorldPool
    from pytest_vla.reports.dataset.frames import choose, frames_of
    from pytest_vla.reports.dataset.lerobot import write_dataset
    from pytest_vla.util.live_line import progress
    from pytest_vla.util.text import counted

    chosen = choose(store, runs, only, options.data, held_out)
    drifts = [0.0]

    def watched(frames: "Iterator[Frame]") -> "Iterator[Frame]":
        for frame in frames:
            drifts.append(max(drifts.pop(), frame.drift))
            yield frame

    with progress(sys.stderr) as tell, closing(WorldPool(options.allow_versions)) as pool:

        def episodes() -> "Iterator[tuple[Record, Iterator[Frame]]]":
            for number, each in enumerate(chosen.episodes, 1):
                tell(f"episode {number} of {len(chosen.episodes)}: {each.record.case}")
                yield each.record, watched(frames_of(pool, each, pictures=pictures != NO_PICTURES))

        frames = write_dataset(folder, episodes(), chosen.layout, pictures=pictures)
    succeeded = sum(each.record.outcome == "success" for each in chosen.episodes)
    told = f"{counted(len(chosen.episodes), 'episode')} ({succeeded} succeeded), {counted(frames, 'control step')}"
    left_out = ", ".join(f"{number} {why}" for why, number in chosen.left_out.items())
    same = "bit for bit" if drifts[0] == 0 else f"to within {drifts[0]:.2g} (m, rad)"
    return f"{told}; left out: {left_out or 'none'}; states were reproduced {same}"


COMMAND = Command(declare, run)
