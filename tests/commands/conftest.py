"""A results folder for commands that read one."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.names import DEFAULT_RESULTS
from pytest_vla.records.store import STORE, open_store
from tests.support.command_line import OWN
from tests.support.records import record_of


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two runs in the current folder: one of a suite, of five items and with every outcome, and one of own tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    with open_store(Path(DEFAULT_RESULTS), create=True) as store:
        nodes = [*(record_of(seed).node for seed in range(4)), OWN]
        store.begin("20260101-first", nodes, command="pytest", model="random", invocation={"seeds": [0, 1]})
        for seed, outcome in enumerate(OUTCOMES):
            store.add(record_of(seed, outcome, "20260101-first"))
        store.add(record_of(0, "success", "20260101-first", node=OWN))
        store.end("20260101-first", "stopped")
        store.begin("20260102-second", [OWN], command="pytest", model="my:policy")
        store.add(record_of(0, "error", "20260102-second", node=OWN))
        store.add(record_of(0, "success", "20260102-second", node=OWN))
        store.end("20260102-second", "finished")
    with closing(sqlite3.connect(Path(DEFAULT_RESULTS) / STORE)) as connection:
        connection.execute("UPDATE runs SET started = '2026-01-02T20:30:00.000+00:00'")
        connection.commit()
    yield tmp_path / DEFAULT_RESULTS
    monkeypatch.undo()
    time.tzset()
