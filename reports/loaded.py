"""The records of which a report is made: those of runs, with what is known of the runs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.records.counting import standings
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record, parse_record
from pytest_vla.records.runs import Run, TimeLimitSample, sample_of
from pytest_vla.records.store import Store
from pytest_vla.records.trajectory import Trajectory, load_trajectory, trajectory_file

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.metrics.language_paths import Paths

SEED = 0
"""Seed of the resamples."""


@dataclass(frozen=True)
class Loaded:
    """All records of runs, with the folders of their trajectories.

    Attributes:
        records: in the order in which they ended; which of them count is `pytest_vla.records.counting`'s. Of a run of
            what earlier ones had picked by their outcomes, such as with ``--lf``, those that count instead are among
            them.
        folders: by run's name, its folder.
        unfinished: of runs that have not run all that was planned, what to say of them, by run's name.
        samples: what ran of those that time has ended, by run's name.
        logs: of imported runs, the path of the log, by run's name.
        gpus: how many GPUs a run's ``--vla-device`` names, by run's name; runs whose device is not known are not in it.
    """

    records: tuple[Record, ...]
    folders: dict[str, Path]
    unfinished: dict[str, str]
    samples: dict[str, TimeLimitSample] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    gpus: dict[str, int] = field(default_factory=dict)

    def trajectory(self, record: Record) -> Trajectory | None:
        """Return a record's trajectory, or None if it has none. Raises VlaError if it cannot be read."""
        arrays = record.arrays
        return None if arrays is None else load_trajectory(trajectory_file(self.folders[record.run], arrays))


def load(texts: Sequence[str], results: Path) -> Loaded:
    """Read the records of runs.

    Args:
        texts: as in the help; none: all runs of `results`.
        results: the folder where runs are looked for by their names.

    Raises:
        VlaError: there is no such run, or the records cannot be read.
    """
    found: dict[tuple[Path, str], tuple[Run, Path]] = {}
    ended: dict[tuple[Path, int], Record] = {}
    dates: dict[tuple[Path, int], str] = {}
    for store, runs in open_runs(texts, results):
        folder = store.results
        for run in runs:
            found[folder.resolve(), run.name] = (run, folder / run.name)
            dated = store.dated(run.name)
            for number, record in zip(dated, store.parsed(run.name, [*dated]), strict=True):
                ended[folder.resolve(), number] = record
            dates |= {(folder.resolve(), number): date for number, date in dated.items()}
    ordered = sorted(found.values(), key=lambda each: (each[0].started, each[0].name))
    folders = {run.name: folder for run, folder in ordered}
    # Numbers follow the order of the ends, even of two within a millisecond, or where a clock was set back.
    latest: dict[Path, str] = {}
    for place in sorted(ended, key=lambda place: place[1]):
        dates[place] = latest[place[0]] = max(dates[place], latest.get(place[0], ""))
    by_end = sorted(ended, key=lambda place: (dates[place], place[1], str(place[0])))
    for folder, number in by_end:
        folders.setdefault(ended[folder, number].run, folder / ended[folder, number].run)
    return Loaded(
        tuple(ended[place] for place in by_end),
        folders,
        {run.name: _unfinished(run) for run, _ in ordered if run.done < run.planned},
        {run.name: sample for run, _ in ordered if (sample := sample_of(run)) is not None},
        {run.name: str(run.invocation["log"]) for run, _ in ordered if "log" in run.invocation},
        {run.name: gpus for run, _ in ordered if (gpus := _gpus(run)) is not None},
    )


def _gpus(run: Run) -> int | None:
    """Return the number of GPUs that a run named, or None if its device was chosen automatically or is a server's."""
    settings = run.invocation.get("settings")
    devices = settings.get("device") if isinstance(settings, dict) else None
    devices = [devices] if isinstance(devices, str) else devices
    if not isinstance(devices, list) or not devices or "auto" in devices or "://" in run.model:
        return None
    return sum(str(device).startswith("cuda") for device in devices)


def gpu_hours(records: Sequence[Record], loaded: Loaded) -> float | None:
    """Return the hours in which an episode of these records ran, times the GPUs of its run; None if one is not known.

    Episodes that ran at the same time share a run's GPUs, and pauses between them cost none.
    """
    spans: dict[str, list[tuple[float, float]]] = {}
    for record in records:
        wall = record.timings.get("wall")
        if record.run not in loaded.gpus or wall is None:
            return None
        begin = datetime.fromisoformat(record.started).timestamp()
        spans.setdefault(record.run, []).append((begin, begin + wall))
    return sum(loaded.gpus[run] * _covered(some) for run, some in spans.items()) / 3600


def _covered(spans: Sequence[tuple[float, float]]) -> float:
    """Return the length of the union of spans."""
    whole, reached = 0.0, -inf
    for begin, end in sorted(spans):
        whole += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return whole


def _unfinished(run: Run) -> str:
    if (sample := sample_of(run)) is not None and not run.decided:
        return f"run {run.name} was {sample.text}"
    told = f"run {run.name} has {run.done} of {run.planned} episodes: the others are not in it"
    return told + ", as a sequential gate skipped them, and its rates are biased" * bool(run.decided)


def counted_episodes(store: Store, runs: Sequence[str]) -> dict[int, bool]:
    """Return the episodes of runs by number, and whether each counts if these runs are reported together.

    By number, in the order of their ends. Errors beside another record of their case are not among them.
    """
    numbers = sorted({number for run in runs for number in store.dated(run)})
    records: dict[int, Record] = {}
    for number, line in zip(numbers, store.lines(numbers), strict=True):
        # An unreadable record counts nowhere; reading it for a report raises the error.
        with suppress(VlaError):
            # Most of a record need not be kept in memory.
            records[number] = replace(parse_record(line), literals={}, timings={}, message=None)
    how = {number: each.how for number, each in zip(records, standings([*records.values()]), strict=True)}
    own = {number for run in runs for number in store.episodes(run)}
    return {number: how.get(number) == "counts" for number in sorted(own) if how.get(number) != "superseded"}


def runs_of(records: Sequence[Record], loaded: Loaded) -> tuple[str, ...]:
    """Return the runs of records, in the order of `Loaded.folders`."""
    counted = {record.run for record in records}
    return tuple(run for run in loaded.folders if run in counted)


def unfinished_of(records: Sequence[Record], loaded: Loaded) -> Iterator[str]:
    """Return a line for each run of records that has not run all that was planned."""
    return (loaded.unfinished[run] for run in runs_of(records, loaded) if run in loaded.unfinished)


def path_loader(loaded: Loaded) -> "tuple[Paths, dict[Path, str]]":
    """Return a function that gives a record's path or None, and the reasons by file that could not be read."""
    import numpy as np

    troubles: dict[Path, str] = {}

    @cache
    def read(folder: Path, arrays: str) -> "NDArray[np.float64] | None":
        file = folder / arrays
        try:
            path = load_trajectory(trajectory_file(folder, arrays)).eef_pos
        except VlaError as error:
            troubles[file] = str(error)
            return None
        if len(path) and path.ndim == 2 and path.shape[1] == 3 and np.isfinite(path).all():
            return path
        # Some worlds have no hand in space.
        if path.size:
            troubles[file] = f"{file}: its path is not finite"
        return None

    def paths(record: Record) -> "NDArray[np.float64] | None":
        return None if record.arrays is None else read(loaded.folders[record.run], record.arrays)

    return paths, troubles


def unread_lines(troubles: dict[Path, str]) -> Iterator[str]:
    """Yield a line on trajectories that could not be read."""
    if len(troubles) == 1:
        yield f"1 trajectory whose hand path cannot be used: {next(iter(troubles.values()))}"
    elif troubles:
        yield f"{len(troubles)} trajectories whose hand paths cannot be used, such as {next(iter(troubles.values()))}"
