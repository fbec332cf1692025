"""The command line: what it says, what it exits with, and that it starts at once."""

import csv
import dataclasses
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pytest_vla import cli, extensions, kernels
from pytest_vla.cli import main
from pytest_vla.entries import NAMES, Command
from pytest_vla.records.checks import OUTCOMES
from pytest_vla.records.names import DEFAULT_RESULTS
from pytest_vla.records.record import record_line
from pytest_vla.records.store import STORE, open_store
from tests.support.records import record_of
from tests.support.varied import varied
from tests.support.waiting import HANG

OWN = "test_mine.py::test_bowl[turn_on_the_stove-seed0]"


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


def said(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What a command says, on the one stream that it is for."""
    assert main(arguments) == code
    out, err = capfd.readouterr()
    assert bool(err) == bool(code)
    assert not (out and err)
    return out or err


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
    own = {"suite": "libero_goal", "of_suite": False, "varied": False, "is_probe": False}
    own |= {"outcome": "success", "reason": None}
    assert own | {"episodes": 1} in first["counts"]
    rate = {"n": 2, "sr": 50, "interval": pytest.approx([9.45, 90.55], abs=0.01), "tasks_interval": None}
    rate |= {"not_counted": 2, "bounds": [25, 75]}
    assert first["rates"] == {"all": rate}
    assert first["repeats"] == {"records": 0, "cases": 0, "other_outcome": 0, "other_digest": 0}
    assert (second["status"], second["model"], second["rate"]) == ("finished", "my:policy", 1.0)


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
    assert line.startswith(f"pytest-vla: no runs in {DEFAULT_RESULTS} yet: run pytest with --vla-suite and --vla-model")
    (line,) = said(capfd, *command, "--results=elsewhere", code=1).splitlines()
    assert "no runs in elsewhere" in line
    assert os.listdir(tmp_path) == []


def test_a_folder_that_lost_its_runs_is_no_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    open_store(tmp_path, create=True).close()
    assert said(capfd, "runs", f"--results={tmp_path}", "--json") == "[]\n"
    assert "no runs in" in said(capfd, "runs", f"--results={tmp_path}", code=1)


def test_the_last_run_is_exported_as_csv(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (row,) = csv.DictReader(said(capfd, "export").splitlines())
    assert (row["run"], row["outcome"], row["node"]) == ("20260102-second", "success", OWN)


def test_a_run_is_exported_by_the_beginning_of_its_name(results: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = said(capfd, "export", "20260101", "--format=jsonl").splitlines()
    wanted = [record_of(seed, outcome, "20260101-first") for seed, outcome in enumerate(OUTCOMES)]
    records = [json.loads(record_line(r)) for r in (*wanted, dataclasses.replace(wanted[0], node=OWN))]
    assert [json.loads(line) for line in lines] == [record | {"counts": True} for record in records]
    assert "no run 'x'" in said(capfd, "export", "x", code=1)


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
    assert "give a file with -o FILE.parquet" in said(capfd, "export", "--format=parquet", code=1)
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


def test_the_help_names_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    commands = extensions.commands()
    for arguments in (["--help"], *([name, "--help"] for name in commands)):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 0
        out, err = capfd.readouterr()
        assert err == ""
        if arguments == ["--help"]:
            assert re.findall(r"^  ([a-z-]+)  ", out.partition("\ncommands:\n")[2], re.MULTILINE) == [*commands]
        else:
            assert out.startswith(f"usage: pytest-vla {arguments[0]} ")
        assert "%%" not in out


@pytest.mark.parametrize("arguments", [[], ["fly"], ["runs", "--fly"], ["export", "--format=xls"]])
def test_what_it_does_not_understand_exits_with_2(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    assert "usage: pytest-vla" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("typed", "meant"), [("reprot", "report"), ("check_policy", "check-policy"), ("run", "runs"), ("Show", "show")]
)
def test_a_command_that_is_nearly_one_is_guessed(typed: str, meant: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([typed, "--results=x"])
    assert left.value.code == 2
    assert f"there is no command {typed!r}. Did you mean {meant}" in capfd.readouterr().err


def test_a_command_that_is_like_none_gets_the_list(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["\x1b[2Jfly"])
    assert "no command '\\x1b[2Jfly'. Commands: show, view, check-policy, " in capfd.readouterr().err


def module(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pytest_vla.cli", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    """A results folder with more than a pipe holds."""
    with open_store(tmp_path, create=True) as store:
        store.begin("a-run", [], command="", model="random")
        for seed in range(2):
            store.add(record_of(seed, message="x" * 10**6))
    return tmp_path


def exporting(results: Path, **options: Any) -> "subprocess.Popen[str]":
    """A process that has begun to write, and cannot end before somebody reads all of it."""
    process = module("export", f"--results={results}", stdout=subprocess.PIPE, **options)
    assert process.stdout is not None
    assert process.stdout.read(1) == "s"
    return process


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough_is_no_trouble(
    long_run: Path, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    process = exporting(long_run)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    assert process.wait(HANG) == 1
    process.stderr.close()


def test_a_full_disk_behind_standard_output_is_one_line(results: Path) -> None:
    with open("/dev/full", "wb") as full:
        _, err = (process := module("runs", stdout=full)).communicate(timeout=HANG)
    assert err == "pytest-vla: [Errno 28] No space left on device\n"
    assert process.returncode == 1


def test_an_interrupt_is_one_line(long_run: Path) -> None:
    process = exporting(long_run, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG)
    assert err == "pytest-vla: interrupted\n"
    assert process.returncode == 1


def test_it_starts_without_anything_heavy() -> None:
    script = (
        "import sys\n"
        "from pytest_vla.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([name for name in ('pytest', 'numpy', 'sqlite3', 'pyarrow') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True).endswith("\n[]\n")


def test_a_command_is_found_by_its_module_s_name() -> None:
    folder = Path(str(cli.__file__)).parent / "commands"
    ours = {name for name, entry in extensions.commands().items() if extensions.is_built_in(entry)}
    modules = {file.stem for file in folder.glob("*.py")} - {"__init__", "extension"}
    assert {name.rstrip("_").replace("_", "-") for name in modules} | {"coverage"} == ours, "the last is LIBERO-PRO's"


def test_only_the_module_of_the_command_that_is_typed_is_imported() -> None:
    script = (
        "import sys\n"
        "from pytest_vla.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit: print(*(name for name in sys.modules if name.startswith('pytest_vla.commands.')))"
    )
    for typed, loaded in (["--help"], ""), (["runs", "--help"], "pytest_vla.commands.runs"):
        out = subprocess.check_output([sys.executable, "-c", script, *typed], text=True)
        assert out.splitlines()[-1] == f"pytest_vla.commands.extension {loaded}".rstrip()


OURS = """
from pytest_vla.entries import Command, CommandEntry

def pytest_vla_commands():
    nothing = CommandEntry("nothing", "nothing at all", ":pytest_vla_commands")
    return [CommandEntry("wave", "the robot waves", ":WAVE"), nothing]

def declare(parser):
    parser.add_argument("--times", type=int, default=1)

WAVE = Command(declare, lambda options: print("wave " * options.times))
"""


@pytest.fixture
def pytest_vla(tmp_path: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs the command in a process of its own, in a folder of its own."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "pytest_vla.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG)

    return run


def test_a_command_of_a_project_is_told_and_run(tmp_path: Path, pytest_vla: Any) -> None:
    (tmp_path / "waving.py").write_text(OURS)
    assert re.search(r"^  wave +the robot waves$", pytest_vla("-p", "waving", "--help").stdout, re.MULTILINE)
    assert pytest_vla("-p", "waving", "wave", "--times=2").stdout == "wave wave \n"
    said = pytest_vla("-p", "waving", "wave", "--help").stdout
    assert said.startswith("usage: pytest-vla wave [-h] [--times TIMES]\n\nThe robot waves.\n")
    assert "Did you mean wave" in pytest_vla("-pwaving", "wvae").stderr
    wrong = pytest_vla("-p", "waving", "nothing")
    assert wrong.returncode == 1
    assert wrong.stderr == (
        "pytest-vla: -p waving: :pytest_vla_commands is function, expected pytest_vla.entries.Command\n"
    )


def test_one_bad_command_is_told_and_takes_no_other_away(tmp_path: Path, pytest_vla: Any) -> None:
    bad = '[CommandEntry("b c", "bad", ":WAVE"), 3, '
    (tmp_path / "waving.py").write_text(OURS.replace("[", bad, 1))
    told = (
        f"pytest-vla: -p waving: pytest_vla_commands: 'b c' is no name: expected {NAMES}\n"
        "pytest-vla: -p waving: pytest_vla_commands gives int, expected a list of CommandEntry\n"
    )
    (tmp_path / "broken.py").write_text("def pytest_vla_commands():\n    raise ValueError('broken')\n")
    done = pytest_vla("-p", "waving", "wave")
    assert (done.returncode, done.stdout, done.stderr) == (0, "wave \n", told)
    helped = pytest_vla("-p", "waving", "-p", "broken", "--help")
    assert helped.stderr.startswith(told)
    assert helped.stderr.count("\n") == 3
    assert "-p broken: pytest_vla_commands raised ValueError: broken" in helped.stderr
    listed = re.findall(r"^  ([a-z-]+)  ", helped.stdout.partition("\ncommands:\n")[2], re.MULTILINE)
    assert sorted(listed) == sorted([*extensions.commands(), "wave", "nothing"])
    (tmp_path / "misspelt.py").write_text("def pytest_vla_comands(): return []\n")
    helped = pytest_vla("-p", "misspelt", "--help")
    assert "Did you mean pytest_vla_commands" in helped.stderr
    assert all(f"\n  {name} " in helped.stdout for name in extensions.commands())


@pytest.mark.parametrize(("returned", "code"), [(5, 5), (0, 0), (None, 0)])
def test_what_a_command_returns_is_the_exit_code(
    returned: int | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Command(lambda parser: None, lambda options: returned)
    monkeypatch.setattr(cli, "command_of", lambda entry: command)
    assert main(["runs"]) == code


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out == f"pytest-vla {version('pytest-vla')}\n"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["runs", "-p", "conftest"], "pytest-vla -p conftest runs ..."),
        (["runs", "-pconftest"], "pytest-vla -p conftest runs ..."),
        (["report", "last", "-p", "ours"], "pytest-vla -p ours report ..."),
        (["runs", "-p"], "pytest-vla -p MODULE runs ..."),
    ],
)
def test_minus_p_after_the_command_is_told_its_place(
    typed: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(typed)
    assert left.value.code == 2
    assert f". -p goes before the command: {meant}\n" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["runs", "--fly"])
    assert capsys.readouterr().err.endswith("error: unrecognized arguments: --fly\n")


def test_who_takes_the_name_of_one_of_ours_is_told_and_takes_nothing(tmp_path: Path, pytest_vla: Any) -> None:
    (tmp_path / "waving.py").write_text(OURS.replace("wave", "runs"))
    helped = pytest_vla("-p", "waving", "--help")
    assert (
        "two packages have a command 'runs': pytest-vla (pytest_vla.commands.extension) and -p waving" in helped.stderr
    )
    assert (helped.returncode, helped.stdout.count("\n  runs  ")) == (0, 1)
    assert "no runs in .vla yet" in pytest_vla("-p", "waving", "runs").stderr


POINT = """
import numpy
from pytest_vla import testing
from pytest_vla.entries import Command, CommandEntry, PolicyEntry, SuiteEntry
from pytest_vla.kernels import in_force

def pytest_vla_suites():
    return [SuiteEntry("point", "a point", ":point")]

def pytest_vla_policies():
    return [PolicyEntry("pusher", "pushes", ":pusher")]

def pytest_vla_commands():
    return [CommandEntry("kernels", "which are in force", ":KERNELS")]

def point():
    return testing.point_suite()

def pusher(text):
    return lambda episode: lambda observation: [0.1, 0.1]

KERNELS = Command(lambda parser: None, lambda options: print(in_force()))
"""


@pytest.mark.parametrize(
    "typed",
    [
        ["show", "point"],
        ["check-policy", "--vla-suite=point", "--vla-model=random"],
        ["check-policy", "--vla-suite=tabletop", "--vla-model=pusher"],
        ["kernels"],
    ],
    ids=" ".join,
)
def test_what_a_conftest_may_have_is_told_until_minus_p_names_it(
    typed: list[str], tmp_path: Path, pytest_vla: Any
) -> None:
    (tmp_path / "conftest.py").write_text(POINT)
    assert ". The conftest.py of this folder may have it: it is read where you say so, pytest-vla -p conftest ..." in (
        pytest_vla(*typed).stderr
    )
    done = pytest_vla("-p", "conftest", *typed)
    # The pusher's actions are two, and no task of ours takes these.
    assert done.returncode == ("--vla-model=pusher" in typed), done.stderr
    assert "may have it" not in done.stderr


def test_a_conftest_that_adds_nothing_is_not_told_of(tmp_path: Path, pytest_vla: Any) -> None:
    (tmp_path / "conftest.py").write_text("x = 1\n")
    assert "conftest" not in pytest_vla("show", "point").stderr


@pytest.mark.skipif(not kernels._pins(), reason="this is no x86-64 processor with AVX2 under Linux")
def test_kernels_are_pinned_before_minus_p_imports_numpy(
    tmp_path: Path, pytest_vla: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in kernels._pins():
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "conftest.py").write_text(POINT)
    assert pytest_vla("-p", "conftest", "kernels").stdout == "pinned\n"


@pytest.mark.parametrize("typed", [["-p"], ["-p", "x"], ["--results=x", "runs"]])
def test_what_stands_before_a_command_is_minus_p_alone(typed: list[str], pytest_vla: Any) -> None:
    done = pytest_vla(*typed)
    assert (done.returncode, done.stdout) == (1 if "x" in typed else 2, "")


def test_it_is_installed_as_a_command() -> None:
    out = subprocess.check_output([Path(sys.executable).with_name("pytest-vla"), "--help"], text=True)
    assert out.startswith("usage: pytest-vla")
