"""`pytest-vla export`: which runs, which format, where to."""

import csv
import dataclasses
import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.names import DEFAULT_RESULTS
from pytest_vla.records.record import record_line
from tests.support.command_line import OWN, said
from tests.support.records import record_of
from tests.support.reports import write


def test_the_last_run_is_exported_as_csv(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (row,) = csv.DictReader(said(capfd, "export").splitlines())
    assert (row["run"], row["outcome"], row["node"]) == ("20260102-second", "success", OWN)


def test_a_run_is_exported_by_the_beginning_of_its_name(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = said(capfd, "export", "20260101", "--format=jsonl").splitlines()
    wanted = [record_of(seed, outcome, "20260101-first") for seed, outcome in enumerate(OUTCOMES)]
    records = [json.loads(record_line(r)) for r in (*wanted, dataclasses.replace(wanted[0], node=OWN))]
    assert [json.loads(line) for line in lines] == [record | {"counts": True} for record in records]
    assert "no run 'x'" in said(capfd, "export", "x", code=1)


def test_a_terminal_gets_no_escapes_and_a_pipe_the_exact_text(
    results: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b]0;title\x07 pick \u202eup"
    write([record_of(0, instruction=hostile)])
    assert hostile in said(capfd, "export")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = said(capfd, "export")
    assert "?]0;title? pick ?up" in shown
    assert all(line.isprintable() for line in shown.splitlines())


def test_all_runs_are_exported_oldest_first(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(said(capfd, "export", "all").splitlines()))
    assert [row["run"] for row in rows] == ["20260101-first"] * 5 + ["20260102-second"]


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["-o", "out.parquet"], "out.parquet"),
        (["--format=parquet", "--output=out.csv"], "out.csv"),
    ],
)
def test_the_file_s_ending_says_the_format_where_nothing_else_does(
    results: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], name: str
) -> None:
    assert said(capfd, "export", "all", *arguments) == ""
    assert pq.read_table(name).num_rows == 6
    assert sorted(os.listdir(".")) == sorted([DEFAULT_RESULTS, name])


def test_parquet_does_not_go_to_a_terminal(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "Use -o FILE.parquet" in said(capfd, "export", "--format=parquet", code=1)
    assert "\n" in said(capfd, "export", "-o", "-"), "- is standard output"


def test_without_pyarrow_it_says_what_to_install(
    results: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert said(capfd, "export", "-o", "out.parquet", code=1) == (
        "pytest-vla: parquet needs pyarrow: pip install 'pytest-vla[parquet]'\n"
    )
    assert os.listdir(".") == [DEFAULT_RESULTS]
    assert said(capfd, "export").count("\n") == 2


def test_a_file_that_cannot_be_written_is_one_line(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert said(capfd, "export", "-o", "missing/out.csv", code=1).endswith(
        "missing/out.csv: No such file or directory\n"
    )
