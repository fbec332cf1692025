"""Stores of other versions: an older one is read as it is, and becomes ours when it is written to."""

import gzip
import hashlib
import json
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_vla.cli import main
from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge, totals
from pytest_vla.records.counting import key_of
from pytest_vla.records.database import SCHEMA
from pytest_vla.records.record import Record, parse_record, record_line
from pytest_vla.records.store import STORE, open_store
from tests.support.records import RECORD, record_of

OLD = Path(__file__).with_name("old")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder with a store that the last version of schema 3 wrote: six runs of 15 episodes."""
    folder = tmp_path / ".vla"
    folder.mkdir()
    (folder / STORE).write_bytes(gzip.decompress((OLD / "schema_3.sqlite.gz").read_bytes()))
    return folder


def state(results: Path) -> tuple[str, list[str]]:
    return hashlib.sha256((results / STORE).read_bytes()).hexdigest(), os.listdir(results)


def version(results: Path) -> int:
    with closing(sqlite3.connect(results / STORE)) as connection:
        ((found,),) = connection.execute("PRAGMA user_version")
    return int(found)


def keys(results: Path) -> dict[str, str]:
    with closing(sqlite3.connect(results / STORE)) as connection:
        return dict(connection.execute("SELECT case_id || id, case_key FROM episodes"))


def test_an_old_store_is_read_and_not_written(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = state(results)
    (results / STORE).chmod(0o444)
    with open_store(results, create=False) as store:
        runs = {run.name: run for run in store.runs()}
        records = [record for name in runs for record in store.records(name)]
        assert [store.items(name) for name in runs]
    assert (len(runs), len(records)) == (6, 15)
    assert sum(totals(record.costs).get("sideways", 0.0) for record in records) == pytest.approx(0.25)
    for command in (["runs"], ["export", "all"], ["export", "all", "--format=jsonl"], ["report", *runs]):
        assert main([*command, "--results", str(results)]) == 0
        assert "point" in capfd.readouterr().out or command == ["runs"]
    assert state(results) == before


def test_an_old_store_becomes_ours_where_it_is_written_to(results: Path) -> None:
    before = keys(results)
    with open_store(results, create=True) as store:
        run = store.runs()[-1].name
        assert [record.suite for record in store.records(run)] == ["point"] * 4
    assert version(results) == SCHEMA
    after = keys(results)
    changed = {case for case in before if before[case] != after[case]}
    assert changed == {case for case in before if case.startswith("point/")}, "what MuJoCo moves is the case it was"
    with open_store(results, create=True) as store:
        for run in store.runs():
            for record in store.attempts(run.name):
                assert key_of(record).text in after.values()
        # New records beside old ones, of the same case.
        old = next(store.records(store.runs()[-1].name))
        store.begin("new", [old.node], command="pytest", model=old.policy, picked="--lf")
        store.add(replace(old, run="new", costs=(Charge("sideways", 0.5, 1),), started="2999-01-01T00:00:00+00:00"))
        (earlier,) = store.earlier("new")
        assert earlier.record == old
    assert keys(results).items() >= after.items()


def test_a_migration_that_breaks_leaves_the_store_as_it_was(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE episodes SET case_key = 'x'")
        raise sqlite3.OperationalError("database or disk is full")

    before = state(results)
    monkeypatch.setattr("pytest_vla.records.database.STEPS", {3: full})
    with pytest.raises(VlaError, match=r"cannot open records: .*disk is full"):
        open_store(results, create=True)
    assert state(results) == before


def test_an_old_record_that_is_damaged_does_not_keep_a_store_from_opening(results: Path) -> None:
    with closing(sqlite3.connect(results / STORE, isolation_level=None)) as connection:
        connection.execute("UPDATE records SET line = substr(line, 1, 40) WHERE episode = 1")
        connection.execute("UPDATE records SET line = x'00ff' WHERE episode = 2")
        connection.execute("""UPDATE records SET line = '{"provenance": {"world": 1}}' WHERE episode = 3""")
    open_store(results, create=True).close()
    assert version(results) == SCHEMA


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (
            SCHEMA + 1,
            f"has schema {SCHEMA + 1}, and this version of pytest-vla reads 3 to {SCHEMA}; upgrade pytest-vla",
        ),
        (2, "has schema 2, and .*; read it with the version that wrote it"),
    ],
)
def test_a_store_of_another_schema_is_refused(results: Path, schema: int, complaint: str, create: bool) -> None:
    with closing(sqlite3.connect(results / STORE, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version = {schema}")
    before = state(results)
    with pytest.raises(VlaError, match=complaint):
        open_store(results, create=create)
    assert state(results) == before


def test_what_a_later_version_wrote_into_a_record_comes_out_of_the_store(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = json.loads(record_line(record_of(0, "success")))
    table |= {"quality": {"jerk": 0.5}, "costs": [{"name": "force", "step": 1, "amount": 2.0, "last_step": 3}]}
    table["provenance"]["gpu"] = "H200"
    record = parse_record(json.dumps(table))
    with open_store(tmp_path / ".vla", create=True) as store:
        store.begin(RECORD.run, [record.node], command="pytest", model="random")
        store.add(record)
    with open_store(tmp_path / ".vla", create=True) as store:
        store.resume(RECORD.run)
        (kept,) = store.records(RECORD.run)
        assert kept == record
        store.add(replace(kept, attempt=2))
        _, again = store.attempts(RECORD.run)
        assert json.loads(record_line(again)) == {**table, "attempt": 2}
        store.end(RECORD.run, "finished")
    assert main(["export", "--format=jsonl", "--results", str(tmp_path / ".vla")]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line.pop("counts") for line in lines] == [True, False]
    assert lines == [table, {**table, "attempt": 2}]
    assert main(["export", "--format=csv", "--results", str(tmp_path / ".vla")]) == 0
    head = capfd.readouterr().out.splitlines()[0]
    assert "unknown.quality" in head
    assert "costs.force" in head


def test_what_an_own_world_says_tells_cases_apart(tmp_path: Path) -> None:
    def of(run: str, version: str) -> Record:
        provenance = {"mujoco": "3.8.1", "version": version}
        return record_of(0, "success", run, provenance=provenance, simulator=("version",))

    with open_store(tmp_path, create=True) as store:
        for run, said in (("a", "1"), ("b", "2"), ("c", "1")):
            store.begin(run, [RECORD.node], command="pytest", model="random", picked="--lf")
            store.add(replace(of(run, said), started=f"2026-01-0{'abc'.index(run) + 1}T00:00:00+00:00"))
        assert [each.record.run for each in store.earlier("c")] == ["a"], "the first of the same simulator counts"
        assert store.earlier("b") == ()
