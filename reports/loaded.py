"""The records of which a report is made: those of runs, with what is known of the runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.records import Record
from pytest_vla.runs import Run
from pytest_vla.store import STORE, open_store

SEED = 0
"""Of the resamples."""


@dataclass(frozen=True)
class Loaded:
    """Records of runs, the oldest first, with the folders of their trajectories.

    Attributes:
        records: of all runs.
        folders: by run's name, its folder.
        unfinished: of runs that have not run all that was planned, what to say of them, by run's name.
    """

    records: tuple[Record, ...]
    folders: dict[str, Path]
    unfinished: dict[str, str]


def load(texts: Sequence[str], results: Path) -> Loaded:
    """The records of runs.

    Args:
        texts: as in the help; none: all runs of `results`.
        results: the folder where runs are looked for by their names.

    Raises:
        VlaError: there is no such run, or the records cannot be read.
    """
    # Of which folder which runs; without a name all of it.
    chosen: dict[tuple[Path, str], None] = {}
    for text in texts or [str(results)]:
        path = Path(text)
        if (path / STORE).is_file() or not texts:
            chosen[path, ""] = None
        elif (path.is_dir() or path.parent != Path()) and (path.resolve().parent / STORE).is_file():
            # An imported run has no folder, and is named like one.
            chosen[path.resolve().parent, path.resolve().name] = None
        else:
            chosen[results, text] = None
    found: dict[tuple[Path, str], tuple[Run, Path, tuple[Record, ...]]] = {}
    for folder, name in chosen:
        try:
            with open_store(folder, create=False) as store:
                runs = [store.run(name)] if name else list(reversed(store.runs()))
                for run in runs:
                    found[folder.resolve(), run.name] = (run, folder / run.name, tuple(store.records(run.name)))
        except VlaError as error:
            if name and Path(name).is_dir():
                raise VlaError(
                    f"the folder {name} has no results: there is no {STORE} in it, nor where it lies; give a results "
                    "folder, such as .vla, or a run's name"
                ) from error
            raise
    ordered = sorted(found.values(), key=lambda each: each[0].started)
    return Loaded(
        tuple(record for _, _, records in ordered for record in records),
        {run.name: folder for run, folder, _ in ordered},
        {
            run.name: f"run {run.name} has {run.done} of {run.planned} episodes: the others are not in it"
            for run, _, _ in ordered
            if run.done < run.planned
        },
    )


def runs_of(records: Sequence[Record], loaded: Loaded) -> tuple[str, ...]:
    """The runs that they are of, in the order of `Loaded.folders`."""
    counted = {record.run for record in records}
    return tuple(run for run in loaded.folders if run in counted)


def unfinished_of(records: Sequence[Record], loaded: Loaded) -> Iterator[str]:
    """What to say of their runs that have not run all that was planned."""
    return (loaded.unfinished[run] for run in runs_of(records, loaded) if run in loaded.unfinished)
