"""The command line: what it says, what it exits with, and that it starts at once."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pytest_vla import cli, extensions, kernels
from pytest_vla.cli import main
from pytest_vla.entries import NAMES, Command
from pytest_vla.records.store import open_store
from tests.support.records import record_of
from tests.support.waiting import HANG


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
    assert "no command '\\x1b[2Jfly'. Commands: runs, merge, durations, " in capfd.readouterr().err


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
    assert {name.rstrip("_").replace("_", "-") for name in modules} | {"coverage", "own-texts"} == ours, (
        "LIBERO-PRO's, LIBERO-Para's"
    )


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
    assert f". put -p before the command: {meant}\n" in capsys.readouterr().err
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
    assert ". The conftest.py of this folder may define it; load it with pytest-vla -p conftest ..." in (
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
