"""`pytest-vla runs`: the table of runs, and the list for programs."""

import dataclasses
import json
import os
import re
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from pytest_vla.records.names import DEFAULT_RESULTS
from pytest_vla.records.store import STORE, open_store
from tests.support.command_line import said
from tests.support.records import record_of
from tests.support.varied import varied


def test_the_runs_are_a_table(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    header, second, first = (re.split(" {2,}", line) for line in said(capfd, "runs").splitlines())
    assert header == [
        *("run", "started", "model", "suites", "episodes", "success", "rate", "95% interval"),
        *("not in the rate", "status"),
    ]
    assert second == [
        *("20260102-second", "2026-01-03 05:30", "my:policy", "libero_goal"),
        *("1/1", "1/1", "100.0%", "[20.7%, 100.0%]", "finished"),
    ]
    assert first == [
        *("20260101-first", "2026-01-03 05:30", "random", "libero_goal"),
        *("5/5", "1/2", "50.0%", "[9.5%, 90.5%]", "1 error, 1 invalid: 25.0% to 75.0%", "stopped"),
    ]


def test_the_runs_are_a_list_for_programs(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    second, first = json.loads(said(capfd, "runs", "--json"))
    assert (first["name"], first["suites"], first["done"], first["planned"]) == (
        "20260101-first",
        ["libero_goal"],
        5,
        5,
    )
    assert (first["rate"], first["errors"], first["invocation"]) == (0.5, {"policy-raised": 1}, {"seeds": [0, 1]})
    assert first["interval"] == pytest.approx([0.0945, 0.9055], abs=1e-4)
    own = {"suite": "libero_goal", "of_suite": False, "varied": False, "is_probe": False, "is_given": False}
    own |= {"outcome": "success", "reason": None}
    assert own | {"episodes": 1} in first["counts"]
    rate = {"n": 2, "sr": 50, "interval": pytest.approx([9.45, 90.55], abs=0.01), "tasks_interval": None}
    rate |= {"not_counted": 2, "bounds": [25, 75]}
    assert first["rates"] == {"all": rate}
    assert first["repeats"] == {"records": 0, "cases": 0, "other_outcome": 0, "other_digest": 0}
    assert (second["status"], second["model"], second["rate"]) == ("finished", "my:policy", 1.0)


def test_a_run_with_two_versions_of_the_policy_is_marked(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with open_store(results, create=False) as store:
        store.begin("20260103-two", [], command="", model="random")
        for seed, digest in enumerate(("aaaa", "bbbb", "bbbb")):
            store.add(record_of(seed, "success", run="20260103-two", policy_digest=digest))
        # An error may not know its policy, and says nothing of a version.
        store.add(record_of(3, "error", run="20260103-two", policy_digest="cccc"))
    first, *others = said(capfd, "runs").splitlines()[1:]
    assert first.endswith(", 2 versions of the policy")
    assert not [line for line in others if "version" in line]
    assert [run["policies"] for run in json.loads(said(capfd, "runs", "--json"))] == [2, 0, 0]


def test_varied_episodes_of_a_run_have_a_line_of_their_own(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    blank = varied("language.blank", False)
    probe = dataclasses.replace(blank, variation=blank.variation | {"probe": True})
    records = [record_of(0, "success"), varied("camera.shift-L1", True), varied("camera.shift-L2", False), probe]
    with open_store(results, create=True) as store:
        store.begin("20260103-third", [each.node for each in records], command="", model="random")
        store.add_all(dataclasses.replace(each, run="20260103-third") for each in records)
        store.end("20260103-third", "finished")
    _, benign, more, *_ = (re.split(" {2,}", line.strip()) for line in said(capfd, "runs").splitlines())
    assert benign[4:] == ["4/4", "benign 1/1", "100.0%", "[20.7%, 100.0%]", "finished"]
    assert more == ["varied 1/2", "50.0%", "-"]
    third = json.loads(said(capfd, "runs", "--json"))[0]
    assert {name: (each["n"], each["sr"]) for name, each in third["rates"].items()} == {
        "benign": (1, 100),
        "varied": (2, 50),
    }
    assert (third["rate"], third["done"]) == (1, 4)


def test_a_run_whose_process_is_gone_was_killed(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with open_store(results, create=True) as store:
        store.begin("20260103-third", ["a"], command="", model="mo\x1b[2Jdel")
    running = said(capfd, "runs").splitlines()[1]
    assert running.split()[-1] == "running"
    assert "mo?[2Jdel" in running, "a terminal would obey it"
    with closing(sqlite3.connect(results / STORE)) as connection:
        connection.execute("UPDATE runs SET process = '1' WHERE name = '20260103-third'")
        connection.commit()
        assert said(capfd, "runs").splitlines()[1].split()[-1] == "killed"
        assert json.loads(said(capfd, "runs", "--json"))[0]["status"] == "killed"
        connection.execute("UPDATE runs SET host = 'elsewhere' WHERE name = '20260103-third'")
        connection.commit()
    assert said(capfd, "runs").splitlines()[1].endswith("running on elsewhere")


@pytest.mark.parametrize("command", [["runs"], ["export"], ["show", "last"]], ids=" ".join)
def test_a_folder_without_runs_is_told(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = said(capfd, *command, code=1).splitlines()
    assert line.startswith(f"pytest-vla: no runs in {DEFAULT_RESULTS} yet. Run pytest with --vla-suite and --vla-model")
    (line,) = said(capfd, *command, "--results=elsewhere", code=1).splitlines()
    assert "no runs in elsewhere" in line
    assert os.listdir(tmp_path) == []


def test_a_folder_that_lost_its_runs_is_no_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    open_store(tmp_path, create=True).close()
    assert said(capfd, "runs", f"--results={tmp_path}", "--json") == "[]\n"
    assert "no runs in" in said(capfd, "runs", f"--results={tmp_path}", code=1)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_on_a_terminal_the_table_is_as_wide_as_it(
    results: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    whole = said(capfd, "runs")
    monkeypatch.setenv("COLUMNS", str(width))
    assert said(capfd, "runs") == whole, "a pipe gets a line for each run"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    lines = said(capfd, "runs")
    assert max(map(len, whole.splitlines())) > width >= max(map(len, lines.splitlines()))
    assert sorted(lines.split()) == sorted(whole.split()), "nothing is left out"
