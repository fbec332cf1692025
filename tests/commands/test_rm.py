"""`pytest-vla rm` and `prune`: what goes goes whole, what is in use or not ours stays, and nothing goes unasked."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.commands.prune import select_runs
from pytest_vla.errors import VlaError
from pytest_vla.records.runs import running_file
from pytest_vla.records.store import STORE, open_store
from tests.support.records import record_of
from tests.support.runs import run_names

VLA = Path(".vla")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115


def make(
    name: str, outcomes: Sequence[str] = ("success",), *, end: str = "finished", picked: str | None = None
) -> None:
    """A run with a file of 1000 bytes; an empty `end`: it is still running."""
    with open_store(VLA, create=True) as store:
        nodes = [record_of(seed).node for seed in range(max(len(outcomes), 1))]
        store.begin(name, nodes, command="pytest", model="random", picked=picked)
        for seed, outcome in enumerate(outcomes):
            store.add(record_of(seed, outcome, name, started=f"2026-01-{len(run_names(VLA)):02}T00:00:00.000+00:00"))
        if end:
            store.end(name, end)
    (VLA / name / "libero_goal").mkdir(parents=True)
    (VLA / name / "libero_goal" / "a.npz").write_bytes(bytes(1000))


def change(name: str, **values: Any) -> None:
    with closing(sqlite3.connect(VLA / STORE)) as connection:
        for column, value in values.items():
            connection.execute(f"UPDATE runs SET {column} = ? WHERE name = ?", (value, name))
        connection.commit()


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    out, err = capsys.readouterr()
    return str(err if code else out)


def rows() -> dict[str, int]:
    with closing(sqlite3.connect(VLA / STORE)) as connection:
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("runs", "items", "episodes", "records")
        }


def test_a_run_goes_with_its_records_and_files_and_the_others_stay(capsys: pytest.CaptureFixture[str]) -> None:
    make("20260101-one", ["success", "failure", "error"])
    make("20260102-two", ["success"])
    # Its process was killed in an episode.
    running_file(VLA / "20260101-one").touch()
    out = call(capsys, "rm", "20260101", "--yes").splitlines()
    assert out[0].split()[0] == "20260101-one"
    assert out[0].split()[-4:-2] == ["3/3", "finished"]
    assert out[-1].startswith("removed 1 run, about ")
    assert run_names(VLA) == ["20260102-two"]
    assert sorted(path.name for path in VLA.iterdir()) == [".gitignore", "20260102-two", STORE]
    assert rows() == {"runs": 1, "items": 1, "episodes": 1, "records": 1}
    with open_store(VLA, create=False) as store:
        assert [record.outcome for record in store.records("20260102-two")] == ["success"]


def test_it_says_what_is_freed_of_files_and_store(capsys: pytest.CaptureFixture[str]) -> None:
    make("20260101-one", ["success"] * 40)
    make("20260102-two")
    would = call(capsys, "rm", "20260101", "--dry-run").splitlines()[-1]
    before = sum(path.stat().st_size for path in VLA.rglob("*") if path.is_file())
    (freed,) = (line for line in call(capsys, "rm", "20260101", "--yes").splitlines() if line.startswith("removed"))
    really = before - sum(path.stat().st_size for path in VLA.rglob("*") if path.is_file())
    assert really > 41_000, "the store's file is smaller too"
    assert freed == f"{would.replace('would remove', 'removed')}; the results folder is {really / 1000:.1f} kB smaller"


@pytest.mark.parametrize("command", [["rm", "last"], ["prune", "--keep=0"]])
def test_nothing_goes_unasked(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make("20260101-one")
    assert "not a terminal, so the command cannot ask. Use --yes" in call(capsys, *command, code=1)
    assert call(capsys, *command, "--dry-run").splitlines()[-1].startswith("would remove 1 run, about 1")
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda text: asked.append(text) or "n")
    assert "nothing was removed" in call(capsys, *command, code=1)
    assert (VLA / "20260101-one").is_dir()
    assert rows()["runs"] == 1
    monkeypatch.setattr("builtins.input", lambda text: "Yes")
    assert "removed 1 run" in call(capsys, *command)
    assert asked[0].startswith("Remove 1 run, about 1")
    assert rows()["runs"] == 0


def test_a_run_that_is_alive_stays(capsys: pytest.CaptureFixture[str]) -> None:
    make("20260101-one")
    make("20260102-two", end="")
    err = call(capsys, "rm", "20260101-one", "20260102-two", "--yes", code=1)
    assert "nothing is removed: '20260102-two': it is still running, as process " in err
    assert run_names(VLA) == ["20260101-one", "20260102-two"]
    out = call(capsys, "prune", "--keep=0", "--yes")
    assert out.startswith("kept: 20260102-two: it is still running")
    assert run_names(VLA) == ["20260102-two"]
    assert "nothing to remove" in call(capsys, "prune", "--keep=0", "--yes")
    # Killed: the process is there no more.
    change("20260102-two", process="0")
    assert "removed 1 run" in call(capsys, "rm", "last", "--yes")


def test_a_run_that_is_gone_on_with_meanwhile_stays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make("20260101-one", end="stopped")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)

    def resume(text: str) -> str:
        with open_store(VLA, create=True) as store:
            store.resume("20260101-one")
        return "y"

    monkeypatch.setattr("builtins.input", resume)
    assert "it is still running" in call(capsys, "rm", "last", code=1)
    assert (VLA / "20260101-one" / "libero_goal" / "a.npz").exists()
    assert rows()["records"] == 1


def test_a_run_of_another_machine_goes_only_when_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    make("20260101-one", end="")
    change("20260101-one", host="elsewhere")
    assert "it may still run on elsewhere" in call(capsys, "rm", "last", "--yes", code=1)
    assert "removed 1 run" in call(capsys, "rm", "last", "--yes", "--elsewhere")


def test_a_run_whose_records_another_one_counts_goes_with_it_only(capsys: pytest.CaptureFixture[str]) -> None:
    make("20260101-one", ["failure"])
    make("20260102-two", ["success"], picked="--lf")
    with open_store(VLA, create=False) as store:
        assert [each.record.outcome for each in store.earlier("20260102-two")] == ["failure"], "what is to be kept true"
    err = call(capsys, "rm", "20260101", "--yes", code=1)
    assert "'20260101-one': run 20260102-two selected episodes from it (such as by --lf) and counts its records" in err
    assert "kept: 20260101-one: " in call(capsys, "prune", "--older-than=0m", "--keep=1", "--yes")
    assert "removed 2 runs" in call(capsys, "rm", "20260101", "20260102", "20260102-two", "--yes")
    assert rows() == {"runs": 0, "items": 0, "episodes": 0, "records": 0}


@pytest.mark.parametrize("name", ["../outside", "/etc", "..", ".", "", "a/b", ".gitignore", "a\nb", "x\x1b[2J"])
def test_a_name_that_is_no_folders_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store may come from elsewhere."""
    make("20260101-one")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "mine").write_text("")
    with closing(sqlite3.connect(VLA / STORE)) as connection:
        for table, column in (("runs", "name"), ("items", "run"), ("episodes", "run")):
            connection.execute(f"UPDATE {table} SET {column} = ?", (name,))
        # Records would say another run, and the store would be refused for that.
        connection.execute("UPDATE items SET own = NULL, counting = NULL")
        connection.execute("DELETE FROM records")
        connection.execute("DELETE FROM episodes")
        connection.commit()
    for command in (("rm", "last"), ("prune", "--keep=0")):
        err = call(capsys, *command, "--yes", code=1)
        assert f"a run is called {name!r}" in err
        assert "\x1b" not in err
    assert (tmp_path / "outside" / "mine").exists()
    assert (VLA / ".gitignore").exists()
    assert rows()["runs"] == 1


def test_what_a_link_leads_to_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make("20260101-one")
    make("20260102-two")
    outside = tmp_path / "outside"
    (VLA / "20260101-one").rename(outside)
    (VLA / "20260101-one").symlink_to(outside)
    (VLA / "20260102-two" / "shared").symlink_to(outside)
    assert "is a link or a file, not a folder" in call(capsys, "rm", "20260101", "--yes", code=1)
    call(capsys, "rm", "20260102", "--yes")
    assert (outside / "libero_goal" / "a.npz").exists()
    assert run_names(VLA) == ["20260101-one"]


def test_a_run_without_files_goes_too(capsys: pytest.CaptureFixture[str]) -> None:
    make("20260101-one", [], end="stopped")
    (VLA / "20260101-one" / "libero_goal" / "a.npz").unlink()
    (VLA / "20260101-one" / "libero_goal").rmdir()
    (VLA / "20260101-one").rmdir()
    assert "removed 1 run" in call(capsys, "rm", "last", "--yes")


def test_a_folder_that_cannot_be_removed_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make("20260101-one")

    def full_of_holes(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder / "a.npz"))

    monkeypatch.setattr("shutil.rmtree", full_of_holes)
    err = call(capsys, "rm", "last", "--yes", code=1)
    assert ".vla/20260101-one/a.npz: Permission denied. Delete these yourself" in err
    assert rows()["runs"] == 0


def test_no_run_is_named_in_vain(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no runs in .vla yet" in call(capsys, "rm", "last", "--yes", code=1)
    make("20260101-one")
    assert "there is no run 'fly'" in call(capsys, "rm", "20260101", "fly", "--yes", code=1)
    assert "which runs? Give at least one of --keep=N" in call(capsys, "prune", "--yes", code=1)
    assert run_names(VLA) == ["20260101-one"]
    for wrong in ("--keep=-1", "--older-than=30", "--older-than=soon"):
        with pytest.raises(SystemExit):
            main(["prune", wrong])


def test_what_is_pruned_is_what_all_options_hold_of() -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    for day, (name, outcomes, end) in enumerate(
        [("a", ["success"], "finished"), ("b", ["error"], "finished"), ("c", ["error"], "stopped"),
         ("d", [], "stopped"), ("e", ["invalid"], "stopped"), ("f", ["failure"], "finished")]
    ):  # fmt: skip
        make(name, outcomes, end=end)
        change(name, started=(now - timedelta(days=30 - 5 * day)).isoformat())
    with open_store(VLA, create=False) as store:
        runs = store.runs()

    def pruned(**asked: Any) -> str:
        chosen = dict[str, Any](keep=None, older_than=None, errors=False, unfinished=False) | asked
        return "".join(sorted(run.name for run in select_runs(runs, now=now, **chosen)))

    assert pruned(keep=2) == "abcd"
    assert pruned(keep=0) == "abcdef"
    assert pruned(keep=9) == ""
    assert pruned(older_than=20 * 86_400.0) == "ab"
    assert pruned(older_than=20 * 86_400.0, keep=5) == "a"
    assert pruned(errors=True) == "bcd"
    assert pruned(unfinished=True) == "cde"
    assert pruned(unfinished=True, errors=True, keep=3) == "c"


def test_records_that_cannot_be_written_stay_with_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_vla.records.removal import remove_runs

    make("20260101-one")
    with open_store(VLA, create=False, timeout=0.05) as store, closing(sqlite3.connect(VLA / STORE)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(VlaError, match="locked by another process"):
            remove_runs(store, store.runs())
        other.rollback()
    assert (VLA / "20260101-one").is_dir()
    assert rows()["records"] == 1
