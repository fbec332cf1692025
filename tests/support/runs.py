"""What runs left in a results folder."""

from pathlib import Path

from pytest_vla.records.record import Record
from pytest_vla.records.store import STORE, open_store


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


def last_records(results: Path) -> dict[str, Record]:
    """The last run's records by case; each case has to be there once."""
    records = records_of(results)
    by_case = {record.case: record for record in records}
    assert len(by_case) == len(records), "a record an episode"
    return by_case


def digests(results: Path) -> dict[str, str]:
    """The last run's digests by case."""
    return {case: record.digest for case, record in last_records(results).items()}
