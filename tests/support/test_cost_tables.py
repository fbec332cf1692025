"""`tests/support/cost_tables.py`: what it reads and adds up, of lines as tests/support/times.py writes them."""

import json
import sys
from pathlib import Path

import pytest

from tests.support import cost_tables

LINES = {
    "11.jsonl": [
        {"stage": "start", "worker": "", "cpu": 0.5, "at": 2.0, "wall": 0.1, "command": ["-m", "not slow"]},
        {"stage": "collected", "worker": "", "cpu": 2.0, "at": 5.0, "wall": 3.0, "command": []},
        {"test": "tests/a/test_x.py::test_one[p/q]", "cpu": 2.0, "wall": 3.0},
        {"test": "tests/a/test_x.py::test_two", "cpu": 0.25, "wall": 0.5},
        # What a forked run cost counts as its test's, and is no test of its own.
        {"test": "tests/a/test_x.py::test_two", "cpu": 4.0, "wall": 0.0},
        {"stage": "end", "worker": "", "cpu": 9.0, "at": 12.0, "wall": 10.0, "command": []},
    ],
    "7.jsonl": [
        {"stage": "start", "worker": "gw0", "cpu": 0.25, "at": 1.0, "wall": 0.2, "command": []},
        {"test": "tests/b/test_y.py::test_three", "cpu": 1.75, "wall": 2.0},
        {"test": "", "cpu": 0.0, "wall": 0.5},
    ],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, lines in LINES.items():
        (tmp_path / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with (tmp_path / "7.jsonl").open("a") as file:
        file.write('{"test": "tests/b/test_y.py::test_cut_o')
    (tmp_path / "notes.txt").write_text("no line\n")
    return tmp_path


def test_lines_of_all_processes_are_added_up_by_folder_module_and_test(folder: Path) -> None:
    lines = list(cost_tables.read_lines(folder))
    assert len(lines) == 9, "what a killed process left half-written is skipped"
    assert {line["process"] for line in lines} == {"11", "7"}

    def costs(by: str) -> dict[str, tuple[int, float, float]]:
        return {name: (cost.tests, cost.cpu, cost.wall) for name, cost in cost_tables.grouped(lines, by).items()}

    assert costs("folder") == {"tests/a": (2, 6.25, 3.5), "tests/b": (1, 1.75, 2.0), ".": (1, 0.0, 0.5)}
    assert list(costs("test")) == [
        "tests/a/test_x.py::test_two",
        "tests/a/test_x.py::test_one[p/q]",
        "tests/b/test_y.py::test_three",
        "(none)",
    ], "the dearest first"
    assert costs("test")["tests/a/test_x.py::test_two"] == (1, 4.25, 0.5)
    assert costs("module")["tests/a/test_x.py"] == (2, 6.25, 3.5)


def test_the_tables_are_printed_of_a_folder_and_of_a_command(
    folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("of_command")))
    assert cost_tables.main(["--top=1", str(folder)]) == 0
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["tests/a", "2", "6.2", "3.5", "78.1%"] in printed
    assert printed.count(["all", "4", "8.0", "6.0"]) == 2
    assert ["tests/a/test_x.py::test_two", "1", "4.2", "0.5", "53.1%"] in printed
    assert not [line for line in printed if line[:1] == ["tests/b/test_y.py::test_three"]], "one row of tests"
    processes = printed[-4:] if not printed[-1] else printed[-3:]
    assert [line for line in processes if line] == [
        ["process", "start:", "cpu", "s", "collection:", "cpu", "s", "wall", "s", "session:", "wall", "s"],
        ["gw0", "0.2", "-", "-", "-"],
        ["-m", "not", "slow", "0.5", "1.5", "3.0", "10.0"],
    ], "in the order of their starts; of one that has not ended, what is known"
    script = "import os, pathlib, sys; pathlib.Path(os.environ['VLA_TEST_TIMES'], '1.jsonl').write_text(sys.argv[1])"
    line = json.dumps({"test": "t.py::test_it", "cpu": 1.0, "wall": 1.0})
    assert cost_tables.main([sys.executable, "-c", f"{script}; sys.exit(3)", line]) == 3, "the command's own code"
    assert "t.py::test_it" in capsys.readouterr().out
    assert cost_tables.main([str(tmp_path_factory.mktemp("empty"))]) == 1
    assert "no process wrote what its tests cost" in capsys.readouterr().err
