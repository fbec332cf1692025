"""Records that come fast are written in groups: the same as one by one, and a killed process leaves no hole."""

import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.records.items import STATUSES
from pytest_vla.records.record import Record
from pytest_vla.records.store import LEAST_PAUSE, MOST_PAUSE, STORE, Ending, Store, Writer, open_store
from tests.support.data import REPOSITORY
from tests.support.examples import scaled
from tests.support.records import record_of

RUN = "a-run"
NODES = tuple(record_of(seed).node for seed in range(4))


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / ".vla", create=True) as store:
        begin(store)
        yield store


def begin(store: Store) -> None:
    store.begin(RUN, NODES, command="", model="random")


def on_disk(folder: Path) -> tuple[list[Record], dict[str, str | None]]:
    with open_store(folder, create=False) as store:
        return [*store.attempts(RUN)], {item.node: item.status for item in store.items(RUN)}


def endings(folder: Path) -> dict[str, str]:
    """As they are written, whatever an episode says."""
    with closing(sqlite3.connect(folder / STORE)) as connection:
        return dict(connection.execute("SELECT node, status FROM items WHERE status IS NOT NULL"))


CHANGES = st.one_of(
    st.builds(
        record_of, st.integers(0, 3), st.sampled_from(("success", "failure", "error")), attempt=st.integers(1, 2)
    ),
    st.tuples(st.sampled_from(NODES), st.sampled_from(STATUSES)),
)
PUTS = st.lists(st.tuples(st.lists(CHANGES, max_size=3), st.sampled_from((0.0, 0.004, 1.0)), st.booleans()), max_size=8)


@settings(max_examples=scaled(25))
@given(puts=PUTS, in_groups=st.booleans())
def test_groups_leave_what_one_by_one_leaves(
    tmp_path_factory: pytest.TempPathFactory, puts: list[tuple[list[Record | Ending], float, bool]], in_groups: bool
) -> None:
    folder = tmp_path_factory.mktemp("both")
    with open_store(folder / "groups", create=True) as grouped, open_store(folder / "alone", create=True) as alone:
        begin(grouped)
        begin(alone)
        clock = Clock()
        writer = Writer(grouped, RUN, in_groups=in_groups, clock=clock)
        for changes, passed, at_once in puts:
            writer.put(changes, at_once=at_once)
            for change in changes:
                alone.add(change) if isinstance(change, Record) else alone.mark(RUN, dict([change]))
            if changes and (at_once or not in_groups):
                assert on_disk(folder / "groups") == on_disk(folder / "alone")
            clock.now += passed
        writer.close()
        assert on_disk(folder / "groups") == on_disk(folder / "alone")
        assert endings(folder / "groups") == endings(folder / "alone")


def test_what_comes_slowly_is_on_the_disk_at_once_and_what_comes_fast_with_the_next(store: Store) -> None:
    clock = Clock()
    # No thread: it would write what this test wants to see waiting.
    writer = Writer(store, RUN, in_groups=True, clock=clock)
    writer._thread = threading.Thread()
    for seed in range(2):
        clock.now += MOST_PAUSE
        writer.put([record_of(seed)])
        assert len(on_disk(store.results)[0]) == seed + 1
    writer.put([record_of(2)])
    writer.put([(NODES[2], "failed")])
    assert len(on_disk(store.results)[0]) == 2
    clock.now += LEAST_PAUSE
    writer.put([record_of(3)])
    assert [record.seed for record in on_disk(store.results)[0]] == [0, 1, 2, 3]
    assert endings(store.results) == {NODES[2]: "failed"}


def test_nobody_has_to_call_again(store: Store) -> None:
    writer = Writer(store, RUN, in_groups=True)
    for seed in range(4):
        writer.put([record_of(seed), (NODES[seed], "failed")])
    writer.settle()
    assert endings(store.results) == dict.fromkeys(NODES, "failed")
    assert writer._thread is not None, "the last ones came within a pause"
    writer.close()
    assert not writer._thread.is_alive()


def test_a_pause_is_as_long_as_the_disk_is_slow(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    writer = Writer(store, RUN, in_groups=True, clock=clock)
    for took, pause in ((0.0, LEAST_PAUSE), (0.02, 0.08), (5.0, MOST_PAUSE)):

        def slow(*_: object, took: float = took) -> None:
            clock.now += took

        monkeypatch.setattr(store, "write", slow)
        writer.put([(NODES[0], "passed")], at_once=True)
        assert writer._due - clock.now == pytest.approx(pause)


def test_one_that_cannot_be_written_takes_nothing_with_it(store: Store) -> None:
    writer = Writer(store, RUN, in_groups=True)
    writer.put([record_of(0)])
    stranger = replace(record_of(2), run="no-such-run")
    # All within a pause: the thread writes them.
    writer._due = time.monotonic() + 3600
    for change in (record_of(1), stranger, record_of(3)):
        writer.put([change])
    writer._due = 0.0
    writer.put([])
    with writer._changed:
        writer._changed.notify_all()
    writer.settle()
    assert [record.seed for record in on_disk(store.results)[0]] == [0, 1]
    with pytest.raises(VlaError, match="FOREIGN KEY"):
        writer.put([record_of(3)])
    # Once is enough.
    writer.close()
    assert [record.seed for record in on_disk(store.results)[0]] == [0, 1]


def test_what_was_not_written_is_said_at_the_end(store: Store) -> None:
    writer = Writer(store, RUN, in_groups=True)
    writer._due = time.monotonic() + 3600
    writer.put([replace(record_of(2), run="no-such-run")])
    with pytest.raises(VlaError, match="FOREIGN KEY"):
        writer.close()


# Writes episodes as fast as it can, each with its ending, and says now and then that all before are on the disk.
WRITER = """
import pathlib, sys
from pytest_vla.records.store import open_store
from pytest_vla.records.store import Writer
from tests.support.records import record_of
with open_store(pathlib.Path(sys.argv[1]), create=True) as store:
    store.begin(sys.argv[2], ["planned"], command="", model="random")
    writer = Writer(store, sys.argv[2], in_groups=True)
    print("begun", flush=True)
    for seed in range(100_000):
        record = record_of(seed, run=sys.argv[2], message="x" * 3000)
        writer.put([record])
        writer.put([(record.node, "failed")])
        if seed % 50 == 0:
            writer.settle()
            print(seed, flush=True)
"""


def test_a_killed_process_leaves_no_hole(tmp_path: Path) -> None:
    rng = random.Random(0)
    for number in range(4):
        run = f"run{number}"
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), run], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        with process:
            said = [process.stdout.readline() for _ in range(rng.randrange(2, 6))]
            time.sleep(rng.random() * 0.03)
            process.send_signal(signal.SIGKILL)
            said += process.stdout.read().splitlines(keepends=True)
        settled = max((int(line) for line in said if line.endswith("\n") and line != "begun\n"), default=-1)
        with closing(sqlite3.connect(tmp_path / STORE)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            rows = connection.execute(
                "SELECT e.seed, i.status FROM items AS i LEFT JOIN episodes AS e ON e.id = i.own"
                " WHERE i.run = ? AND i.node != 'planned' ORDER BY e.seed",
                (run,),
            ).fetchall()
        # From the first one on, and at most the last one without its ending.
        assert [seed for seed, _ in rows] == [*range(len(rows))]
        assert len(rows) > settled
        assert [status for _, status in rows[:-1]] == ["failed"] * (len(rows) - 1)
