"""Whatever goes wrong: what was acknowledged stays, the file opens again, and the message says what to do."""

import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.records.database import SCHEMA
from pytest_vla.records.store import STORE, Store, open_store
from tests.support.data import REPOSITORY
from tests.support.records import record_of
from tests.support.waiting import HANG

# Writes episodes of seeds 0, 1, 2, ... and says so after each.
WRITER = """
import pathlib, sys
from pytest_vla.errors import VlaError
from pytest_vla.records.store import open_store
from tests.support.records import record_of
folder, run, count = sys.argv[1:]
try:
    with open_store(pathlib.Path(folder), create=True) as store:
        store.begin(run, ["planned"], command="", model="random")
        print("begun", flush=True)
        for seed in range(int(count)):
            store.add(record_of(seed, run=run, message="x" * 5000))
            print(seed, flush=True)
except VlaError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with a run of three episodes."""
    with open_store(tmp_path / ".vla", create=True) as store:
        begin(store)
        for seed in range(3):
            store.add(record_of(seed))
    return tmp_path / ".vla"


def begin(store: Store) -> None:
    store.begin("a-run", ["planned"], command="", model="random")


def seeds_in(results: Path, run: str = "a-run") -> list[int]:
    """What a run has, after a check of every page."""
    with closing(sqlite3.connect(results / STORE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with open_store(results, create=False) as store:
        return [record.seed for record in store.records(run)]


def writer(results: Path, run: str, count: int = 2000, *wrapper: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*wrapper, sys.executable, "-c", WRITER, str(results), run, str(count)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def acknowledged(process: "subprocess.Popen[str]") -> list[int]:
    """What a writer says that it wrote, up to its end; a last word that was cut off is none."""
    assert process.stdout is not None
    # Not communicate(), which would not see what readline() has taken from the pipe and not given yet.
    with process:
        lines = process.stdout.read().splitlines(keepends=True)
    return [int(line) for line in lines if line.endswith("\n") and line != "begun\n"]


def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    rng = random.Random(0)
    number = journals = 0
    # Until some came in the midst of a transaction: others show nothing.
    while number < 15 or not journals:
        process = writer(tmp_path, f"run{number}")
        assert process.stdout is not None
        before = [process.stdout.readline() for _ in range(rng.randrange(1, 20))]
        time.sleep(rng.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        written = len(before) - 1 + len(acknowledged(process))
        journals += (tmp_path / f"{STORE}-journal").exists()
        found = seeds_in(tmp_path, f"run{number}")
        # The last one may be written and not yet acknowledged.
        assert found in (list(range(written)), list(range(written + 1)))
        number += 1
    with open_store(tmp_path, create=False) as store:
        assert len(store.runs()) == number


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    both = [writer(tmp_path / ".vla", run, 60) for run in ("one", "two")]
    for process in both:
        assert acknowledged(process) == list(range(60))
        assert process.returncode == 0
    assert seeds_in(tmp_path / ".vla", "one") == seeds_in(tmp_path / ".vla", "two") == list(range(60))


def test_a_database_that_is_full_keeps_what_it_has(results: Path) -> None:
    with open_store(results, create=True) as store:
        pages = store._database.connection.execute("PRAGMA page_count").fetchone()[0]
        store._database.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(VlaError) as full:
            store.add(record_of(3, message="x" * 10**6))
        assert str(full.value) == (
            f"cannot write records: {results / STORE}: database or disk is full; free space on the disk (or in the "
            "quota); records so far are kept"
        )
        assert seeds_in(results) == [0, 1, 2]
        store._database.connection.execute("PRAGMA max_page_count = 1000000")
        store.add(record_of(3, message="x" * 10**6))
    assert seeds_in(results) == [0, 1, 2, 3]


def test_a_file_that_may_not_grow_keeps_what_it_has(tmp_path: Path) -> None:
    """As with a quota: the system refuses to write, and not SQLite."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, limit[1]))
    try:
        process = writer(tmp_path / ".vla", "a-run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    written = acknowledged(process)
    assert process.returncode == 1
    assert len(written) > 5
    assert seeds_in(tmp_path / ".vla") == written
    with open_store(tmp_path / ".vla", create=True) as store:
        store.add(record_of(10**6))
    assert seeds_in(tmp_path / ".vla") == [*written, 10**6]


def test_a_disk_that_is_full_keeps_what_it_has(tmp_path: Path) -> None:
    """A file system of one megabyte, whose content is copied out before it goes with its process."""
    small, copy = tmp_path / "small", tmp_path / "copy"
    small.mkdir()
    script = f'mount -t tmpfs -o size=1m tmpfs {small} && "$@"; code=$?; cp -r {small}/.vla {copy}; exit $code'
    process = writer(small / ".vla", "a-run", 2000, "unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh")
    out, err = process.communicate(timeout=HANG)
    if "begun" not in out:
        pytest.skip(f"no file system can be mounted here: {err.strip()}")
    assert "cannot write records: " in err
    assert "free space on the disk" in err
    written = [int(line) for line in out.split()[1:]]
    assert len(written) > 20
    assert seeds_in(copy) == written


def test_a_locked_database_is_waited_for_and_then_told(results: Path) -> None:
    with open_store(results, create=True, timeout=0.1) as store, closing(sqlite3.connect(results / STORE)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = "locked by another process for more than 0.1 s; close the program that holds it open"
        with pytest.raises(VlaError, match=f"cannot write records: .*{STORE}: {said}"):
            store.add(record_of(3))
        with pytest.raises(VlaError, match=f"cannot read records: .*{said}"):
            store.runs()
        for create in (True, False):
            with pytest.raises(VlaError, match=f"cannot open records: .*{said}"):
                open_store(results, create=create, timeout=0.1)
        other.rollback()
        store.add(record_of(3))
    assert seeds_in(results) == [0, 1, 2, 3]


def test_a_reader_that_stays_stops_no_writer_for_ever(results: Path) -> None:
    with open_store(results, create=True, timeout=0.1) as store, closing(sqlite3.connect(results / STORE)) as other:
        other.execute("BEGIN")
        other.execute("SELECT * FROM runs").fetchone()
        with pytest.raises(VlaError, match="locked by another process"):
            store.add(record_of(3))
        other.rollback()
        store.add(record_of(3))
    assert seeds_in(results) == [0, 1, 2, 3]


def test_nothing_is_locked_between_the_lines(results: Path) -> None:
    with open_store(results, create=True, timeout=0.1) as store, open_store(results, create=False) as reader:
        records = reader.records("a-run")
        assert next(records).seed == 0
        store.add(record_of(0, "success"))
        assert [record.seed for record in records] == [1, 2], "what was there when reading began"


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may write everything, and is somebody else meanwhile."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_what_may_only_be_read_is_read_and_not_written() -> None:
    # pytest's own folder cannot be entered by others.
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / ".vla"
        with open_store(results, create=True) as store:
            begin(store)
            store.add(record_of(0))
        for path, mode in ((results / STORE, 0o444), (results, 0o555), (Path(folder), 0o555)):
            path.chmod(mode)
        cure = "make file and folder readable and writable, or use another results folder"
        with without_rights():
            with open_store(results, create=True) as store:
                assert len(list(store.records("a-run"))) == 1
                with pytest.raises(VlaError, match=f"cannot write records: .*{cure}"):
                    store.add(record_of(1))
            with pytest.raises(VlaError, match=r"cannot open records: .*Permission denied"):
                open_store(Path(folder) / "another", create=True)
        # The file may be written, but no journal can be made beside it.
        (results / STORE).chmod(0o666)
        refused = pytest.raises(VlaError, match=f"cannot write records: .*{cure}")
        with without_rights(), open_store(results, create=True) as store, refused:
            store.add(record_of(1))
        (results / STORE).chmod(0)
        with without_rights(), pytest.raises(VlaError, match=f"cannot open records: .*{cure}"):
            open_store(results, create=False)
        assert seeds_in(results) == [0]
        for path in (results, Path(folder)):
            path.chmod(0o755)


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"episodes,success\n" * 100, "file is not a database; the file is left unchanged; move it away"),
        (b"SQLite format 3\0" + b"\xff" * 2000, "file is not a database; the file is left unchanged; move it away"),
        (None, "database disk image is malformed; the file is left unchanged; move it away"),
    ],
)
def test_a_damaged_file_is_refused_and_left_as_it_is(
    results: Path, content: bytes | None, complaint: str, create: bool
) -> None:
    file = results / STORE
    # Cut in the middle, as a disk that was full while it was copied leaves it.
    broken = file.read_bytes()[: file.stat().st_size // 2 // 512 * 512] if content is None else content
    file.write_bytes(broken)
    with (
        pytest.raises(VlaError, match=f"cannot (open|read|write) records: .*{STORE}: {complaint}"),
        open_store(results, create=create) as store,
    ):
        begin(store)
    assert file.read_bytes() == broken
    assert sorted(os.listdir(results)) == [".gitignore", STORE]


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        (
            f"PRAGMA user_version = {SCHEMA + 1}",
            f"has schema {SCHEMA + 1}, and this version of pytest-vla reads 3 to {SCHEMA}; upgrade",
        ),
        ("PRAGMA user_version = 0", "has schema 0, .*; read it with the version that wrote it, or use another"),
        ("PRAGMA application_id = 0", "is another program's database; use another results folder"),
    ],
)
def test_a_file_of_another_schema_is_refused(results: Path, statement: str, complaint: str, create: bool) -> None:
    with closing(sqlite3.connect(results / STORE)) as connection:
        connection.execute(statement)
    before = (results / STORE).read_bytes()
    with pytest.raises(VlaError, match=f"{STORE} {complaint}"):
        open_store(results, create=create)
    assert (results / STORE).read_bytes() == before


def test_an_empty_file_is_no_run_and_may_become_one(tmp_path: Path) -> None:
    """A process that is killed at its start leaves it."""
    (tmp_path / STORE).touch()
    with pytest.raises(VlaError, match="no runs in"):
        open_store(tmp_path, create=False)
    with open_store(tmp_path, create=True) as store:
        begin(store)
    assert seeds_in(tmp_path) == []


def test_a_file_that_is_deleted_meanwhile_is_told(results: Path) -> None:
    """Otherwise everything would go to a file that nobody can open again."""
    with open_store(results, create=True) as store:
        (results / STORE).unlink()
        with pytest.raises(VlaError, match="it was moved or deleted while in use"):
            store.add(record_of(3))


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(VlaError, match=r"cannot open records: .*file"):
        open_store(tmp_path / "file" / ".vla", create=True)
    with pytest.raises(VlaError, match="no runs in"):
        open_store(tmp_path / "file", create=False)
    (tmp_path / STORE).mkdir()
    for create in (True, False):
        with pytest.raises(VlaError, match=f"cannot open records: .*{STORE}"):
            open_store(tmp_path, create=create)


def test_a_record_of_another_schema_is_named_with_its_run(results: Path) -> None:
    with closing(sqlite3.connect(results / STORE)) as connection:
        connection.execute("UPDATE records SET line = '{\"schema\":1}'")
        connection.commit()
    with open_store(results, create=False) as store:
        assert store.run("last").done == 3
        with pytest.raises(VlaError, match=f"{STORE}: run a-run: not a record of schema .*: schema is 1"):
            list(store.records("a-run"))
