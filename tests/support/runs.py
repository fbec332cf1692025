"""What runs left in a results folder."""

from pathlib import Path

from pytest_vla.records import Record
from pytest_vla.store import STORE, open_store


def run_names(results: Path) -> list[str]:
    """The runs, in the order of their making; none where nothing was written."""
    if not (results / STORE).exists():
        return []
    with open_store(results, create=False) as store:
        return [run.name for run in reversed(store.runs())]


def records_of(results: Path, run: str = "last") -> list[Record]:
    """The last record of each item of a run, in the order in which they ended."""
    with open_store(results, create=False) as store:
        return list(store.records(store.run(run).name))
