"""A store from elsewhere: its tables, its values and the paths in it are checked, and each is one clear error."""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.errors import VlaError
from pytest_vla.records.record import parse_record, record_line
from pytest_vla.records.store import STORE, open_store
from pytest_vla.records.trajectory import load_trajectory, trajectory_file, video_file
from tests.support.attack_stores import OTHER_RUN, RUN, sound_store
from tests.support.records import RECORD

Said = Callable[..., str]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    sound_store(tmp_path / ".vla")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path / ".vla"
    assert os.listdir(tmp_path / "here") == [], "nothing is written"


@pytest.fixture
def refusal(results: Path, capfd: pytest.CaptureFixture[str]) -> Said:
    """What every command that reads runs says to the store after these statements; one line, the same from all."""

    def run(statements: str) -> str:
        with closing(sqlite3.connect(results / STORE)) as connection:
            connection.executescript(f"PRAGMA foreign_keys = OFF; {statements}")
        told = set()
        for command in (["runs"], ["report"], ["export", "all"], ["show", "last"]):
            assert main([*command, "--results", str(results)]) == 1, command
            out, error = capfd.readouterr()
            assert (out, error.count("\n"), error.isascii()) == ("", 1, True)
            told.add(error)
        assert len(told) == 1
        (line,) = told
        return line

    return run


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS"


@pytest.mark.parametrize(
    ("statements", "complaint"),
    [
        (f"DROP VIEW results; CREATE VIEW results AS {ENDLESS} run FROM n", "its view results is not as pytest-vla"),
        (f"DROP TABLE records; CREATE VIEW records AS {ENDLESS} episode FROM n", "its view records is not"),
        ("CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM runs; END", "its trigger t is not as pytest-vla"),
        ("CREATE INDEX i ON episodes (abs(node))", "its index i is not as pytest-vla makes it"),
        ("ALTER TABLE runs ADD COLUMN x DEFAULT 1", "its table runs is not as pytest-vla makes it"),
        ("DROP VIEW results", "it has no results"),
        ("DROP INDEX episodes_run; DROP INDEX runs_model", "it has no runs_model, episodes_run"),
        ("UPDATE runs SET model = x'1b5b324a'", r"expected str in a column, found b'\x1b[2J'"),
        ("UPDATE runs SET pid = '7; x'", "expected int in a column, found '7; x'"),
        ("UPDATE runs SET name = '../../x' WHERE id = 2", "a run is called '../../x': expected letters, digits"),
        ("UPDATE runs SET name = '' WHERE id = 2", "a run is called '': expected letters, digits"),
        ("UPDATE runs SET name = '.hidden' WHERE id = 2", "a run is called '.hidden'"),
        ("UPDATE runs SET started = 'x' || char(10) WHERE id = 2", r"started at 'x\n', no time"),
        ("UPDATE runs SET status = 'harm' WHERE id = 2", "expected one of running, finished, stopped, found 'harm'"),
        ("UPDATE runs SET invocation = '{' WHERE id = 2", "the invocation of run"),
        ("UPDATE runs SET invocation = '{\"settings\": []}' WHERE id = 2", "is not as pytest-vla writes it"),
    ],
)
def test_every_command_says_the_same_of_a_store_that_is_not_ours(
    refusal: Said, results: Path, statements: str, complaint: str
) -> None:
    line = refusal(statements)
    assert line.startswith(f"pytest-vla: cannot read records: {results / STORE}: ")
    assert complaint in line
    assert "the file is left unchanged; move it away to start anew" in line


@pytest.mark.parametrize(
    ("statements", "complaint"),
    [
        ("UPDATE episodes SET outcome = 'success'", "its column outcome has 'success', and its record has '"),
        ("UPDATE episodes SET reason = 'x' WHERE outcome = 'error'", "its column reason has 'x', and its record has"),
        (f"UPDATE episodes SET run = '{RUN}'", f"its column run has '{RUN}', and its record has '{OTHER_RUN}'"),
        ("UPDATE episodes SET case_id = 'x'", "its column case_id has 'x', and its record has '"),
        ("UPDATE episodes SET suite = 'x'", "its columns are not those of its record"),
        ("UPDATE items SET own = (SELECT min(own) FROM items)", "its columns are not those of its record"),
        ("UPDATE items SET counting = (SELECT min(own) FROM items)", "its columns are not those of its record"),
        ("UPDATE items SET counting = NULL", "its columns are not those of its record"),
    ],
)
def test_every_command_refuses_columns_that_differ_from_records(
    results: Path, capfd: pytest.CaptureFixture[str], statements: str, complaint: str
) -> None:
    with closing(sqlite3.connect(results / STORE)) as connection:
        connection.executescript(f"PRAGMA foreign_keys = OFF; {statements}")
    for command in (["runs"], ["report"], ["export", "all"], ["show", "last"]):
        assert main([*command, "--results", str(results)]) == 1, command
        out, error = capfd.readouterr()
        assert (out, error.count("\n")) == ("", 1)
        assert error.startswith(f"pytest-vla: cannot read records: {results / STORE}: run 202601"), command
        assert "turn_on_the_stove" in error or "put_the_bowl_on_the_plate" in error, "the case is named"
        assert complaint in error


@pytest.mark.parametrize("column", ["outcome", "steps", "digest"])
def test_a_record_that_differs_from_its_columns_is_not_read(results: Path, column: str) -> None:
    """Also where JSON says it twice, of which SQLite takes the first and Python the last."""
    with closing(sqlite3.connect(results / STORE)) as connection, connection:
        ((number, line),) = connection.execute("SELECT episode, line FROM records LIMIT 1").fetchall()
        other = {"outcome": "invalid", "steps": 9, "digest": "x"}[column]
        line = f"{line[:-1]}, {json.dumps(column)}: {json.dumps(other)}}}"
        connection.execute("UPDATE records SET line = ? WHERE episode = ?", (line, number))
    with open_store(results, create=False) as store:
        run = store.run(RUN)
        with pytest.raises(
            VlaError, match=rf"run {RUN}: \S+: its column {column} has .*, and its record has {other!r}"
        ):
            list(store.records(run.name))


def test_what_people_add_for_themselves_is_left_alone(results: Path) -> None:
    with closing(sqlite3.connect(results / STORE)) as connection:
        connection.executescript("CREATE TABLE mine (x); CREATE VIEW errors AS SELECT * FROM episodes")
    with open_store(results, create=True) as store:
        assert [run.name for run in store.runs()] == [OTHER_RUN, RUN]


def test_a_journal_that_names_another_file_is_not_followed(results: Path) -> None:
    victim = results.parent / "victim"
    victim.write_text("mine")
    name = os.fsencode(victim)
    tail = name + len(name).to_bytes(4) + sum(name).to_bytes(4) + bytes.fromhex("d9d505f920a163d7")
    (results / f"{STORE}-journal").write_bytes(bytes(512) + tail)
    with pytest.raises(VlaError, match="journal names another file"):
        open_store(results, create=True)
    assert victim.read_text() == "mine"


TABLE = json.loads(record_line(RECORD))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("run", value) for value in ("../x", "/etc", "a/b", "", ".", "..", None, 7)),
        *(("arrays", value) for value in ("../x.npz", "/x.npz", "a/../../x.npz", "x.txt", "a\\b.npz", "\x1b.npz", 7)),
        *(("outcome", value) for value in ("done", None, ["success"])),
        *(("seed", value) for value in (-1, 2**63, 1.5, True, "0", None)),
        *(("steps", value) for value in (-1, 10**400, None)),
        *(("timings", value) for value in (None, {"wall": "x"}, {"wall": 10**400}, [1])),
        *(("seeds", value) for value in ({"run": "x"}, {"run": 2**70}, [])),
        *(("variation", value) for value in (None, {"kind": "x"}, {"label": 3}, {"label": "x", "parameters": []})),
        *(("literals", value) for value in (None, {"x": []}, {"x": [[1]]}, {"x": [["1", True]]}, {"x": [[None, 1]]})),
        *(("eef_pos", value) for value in ([1, 2], [1, 2, "3"], "xyz", [1, 2, 10**400])),
        *(("provenance", value) for value in (None, {"mujoco": 3}, "x")),
        *(("protocol", value) for value in (None, [], {"x": 2**70})),
        *(("started", value) for value in ("soon", 3, "0001-01-01x")),
        ("instruction", None),
        ("node", ["x"]),
        ("replan", "5"),
    ],
)
def test_a_record_with_a_value_of_another_type_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(VlaError, match=rf"^not a record: (?:{name}|a literal|not enough)"):
        parse_record(json.dumps({**TABLE, name: value}))


@pytest.mark.parametrize("value", ["[" * 20_000, "[" * 900 + "]" * 900, "NaN", "-Infinity", "9" * 5000, "1e999"])
def test_a_record_that_json_cannot_hold_is_refused(value: str) -> None:
    with pytest.raises(VlaError, match="not a record"):
        parse_record(record_line(RECORD).replace('"max_steps":300', f'"max_steps":{value}'))


def test_no_trajectory_is_read_outside_of_the_results(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outside = results.parent / "outside"
    (results / RUN / "tabletop").rename(outside)
    (results / RUN / "tabletop").symlink_to(outside)
    file = next(outside.glob("*.npz"))
    name = f"tabletop/{file.name}"
    assert load_trajectory(results / RUN / name).qpos.shape == (3, 41)
    with pytest.raises(VlaError, match=r"is outside of the results .*, so it is not read"):
        trajectory_file(results / RUN, name)
    assert trajectory_file(results / OTHER_RUN, name).is_file()
    # A video is found beside its trajectory.
    (results / OTHER_RUN / name).with_suffix(".mp4").symlink_to(file)
    with pytest.raises(VlaError, match=r"mp4 is outside of the results .*, so it is not read"):
        video_file(results / OTHER_RUN, name)
    assert main(["show", RUN, "--results", str(results), "-o", str(results / "x.png"), "--size=64"]) == 1
    assert "outside of the results" in capfd.readouterr().err
