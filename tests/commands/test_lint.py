"""``pytest-vla lint``: which files it looks at, what it prints, and its exit code."""

import json
import re
from pathlib import Path

import pytest

from pytest_vla.cli import main
from pytest_vla.commands.lint import FORMATS, _lines
from pytest_vla.scene.lint.reading import LintFinding
from tests.support.lint_tasks import TASK, changed

TWO = changed("(And (On butter_1 => (And (In butter_1", "(And (Fall plate_1)) => (Fall plate_1) (Fall butter_1)")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three task files, one without fault, one with two errors, one with a warning."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks" / "more").mkdir(parents=True)
    (tmp_path / "tasks" / "put_the_butter_on_the_plate.bddl").write_text(TASK)
    (tmp_path / "tasks" / "more" / "put_the_butter_on_the_plate.bddl").write_text(TWO)
    interest = "(:obj_of_interest butter_1 => (:obj_of_interest butter_2"
    (tmp_path / "tasks" / "put_the_butter_on_the_plate_2.bddl").write_text(changed(interest))
    (tmp_path / "tasks" / "notes.txt").write_text("no task")
    return tmp_path / "tasks"


def told(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_files_and_folders_are_looked_at(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "tasks"]) == 1
    *lines, summary = told(capsys)
    assert [re.split(r"[: ]+", line)[3:5] for line in lines] == [
        ["error", "G002"],
        ["error", "C001"],
        ["warning", "O002"],
    ]
    assert lines[0].startswith("tasks/more/put_the_butter_on_the_plate.bddl:15:15: error G002: (in butter_1 plate_1): ")
    assert summary == "3 task files: 2 errors, 1 warning"
    # Twice is once.
    sound = "tasks/put_the_butter_on_the_plate.bddl"
    assert main(["lint", sound, sound]) == 0
    assert told(capsys) == ["1 task file: nothing found"]


def test_warnings_do_not_fail(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "tasks/put_the_butter_on_the_plate_2.bddl"]) == 0
    assert told(capsys)[-1] == "1 task file: 1 warning"


@pytest.mark.parametrize(
    ("options", "codes", "exit_code"),
    [
        (["--select=G002"], ["G002"], 1),
        (["--select=g,O002"], ["G002", "O002"], 1),
        (["--select=G", "--select=O"], ["G002", "O002"], 1),
        (["--ignore=G002,C"], ["O002"], 0),
        (["--select=C", "--ignore=C001"], [], 0),
        (["--level=error"], ["G002", "C001"], 1),
        (["--level=error", "--select=O002"], [], 0),
    ],
)
def test_codes_are_selected(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], codes: list[str], exit_code: int
) -> None:
    assert main(["lint", "tasks", *options]) == exit_code
    assert re.findall(r": (?:error|warning|note) (\w+): ", capsys.readouterr().out) == codes


@pytest.mark.parametrize(("protocol", "level"), [("upstream", "error"), ("paper", "warning"), ("ours", "warning")])
def test_what_upstream_raises_at_is_as_bad_as_the_rules_make_it(
    folder: Path, capsys: pytest.CaptureFixture[str], protocol: str, level: str
) -> None:
    file = folder / "put_the_butter_on_the_plate.bddl"
    file.write_text(changed("Fall plate_1 => Collide plate_1"))
    assert main(["lint", str(file), f"--protocol={protocol}"]) == int(level == "error")
    assert f": {level} C002: " in told(capsys)[0]


def test_hidden_ones_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "tasks", "--level=error", "--select=O002"]) == 0
    assert told(capsys) == ["3 task files: 1 warning (--level=warning shows all)"]


def test_github_annotates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "tasks", "--format=github", "--select=O"]) == 0
    first, summary = told(capsys)
    assert first.startswith(
        "::warning file=tasks/put_the_butter_on_the_plate_2.bddl,line=13,col=21,title=O002:::obj_of_interest names "
    )
    assert summary == "3 task files: 1 warning"


def test_github_s_own_characters_are_escaped() -> None:
    (line,) = _lines([LintFinding("a,b:c%.bddl", 1, 2, "S002", "100%\nof it, here: there")], "github")
    assert line == "::error file=a%2Cb%3Ac%25.bddl,line=1,col=2,title=S002::100%25%0Aof it, here: there"


def test_json_is_one_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "tasks", "--format=json"]) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(row["code"], row["level"]) for row in rows] == [("G002", "error"), ("C001", "error"), ("O002", "warning")]
    assert set(rows[0]) == {"file", "line", "column", "code", "level", "message"}
    assert main(["lint", "tasks", "--format=json", "--select=R"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_broken_file_does_not_stop_the_rest(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "broken.bddl").write_bytes(b"(define \xff")
    assert main(["lint", "tasks"]) == 1
    *lines, summary = told(capsys)
    assert lines[0].startswith("tasks/broken.bddl:1:9: error S002: expected UTF-8 text")
    assert summary == "4 task files: 3 errors, 1 warning"


def test_a_text_of_a_file_cannot_command_a_terminal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "odd.bddl").write_text(TASK.replace("(:domain", "(\x1b[2J a) (:domain"))
    assert main(["lint", str(folder / "odd.bddl")]) == 1
    assert "\x1b" not in capsys.readouterr().out


def test_a_suite_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lint", "--suite=tabletop"]) == 0
    assert told(capsys) == ["10 task files: nothing found"]


def test_scenes_are_settled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In processes of their own; here none can be built."""
    file = tmp_path / "put_the_butter_on_the_plate.bddl"
    file.write_text(TASK)
    assert main(["lint", str(file), "--simulate", "--select=I", "--states=1"]) == 1
    assert ": error I004: only a file in DIR/bddl_files/SUITE can be simulated" in told(capsys)[0]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "no task files: give files"),
        (["gone"], "gone: there is no such file or folder"),
        (["empty"], "empty: no task file (.bddl or .cbddl) in this folder"),
        (["--suite=tabletopp"], "there is no suite 'tabletopp'. Did you mean tabletop"),
        (["tasks", "--data=gone"], "--vla-data names a folder that does not exist"),
    ],
)
def test_slips_of_the_keyboard(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], complaint: str
) -> None:
    (folder.parent / "empty").mkdir()
    assert main(["lint", *arguments]) == 1
    said = capsys.readouterr()
    assert complaint in said.err
    assert said.out == ""


@pytest.mark.parametrize(("option", "complaint"), [("--select=X9", "there is no code 'X9'"), ("--format=xml", "xml")])
def test_what_cannot_be_understood(option: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["lint", "tasks", option])
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
    assert "xml" not in FORMATS
