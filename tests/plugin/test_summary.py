"""What a varied run says at its end: benign and varied apart, the paper's row, and the command for the rest."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.cli import main
from tests.support.listening import HEADER, LISTENING, ROWS
from tests.support.runs import run_names
from tests.support.workers import ALONE

Run = Callable[..., pytest.RunResult]
GOAL = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=listening:policy")


@pytest.fixture(autouse=True)
def listening(project: pytest.Pytester) -> None:
    project.makepyfile(listening=LISTENING)


def summary(result: pytest.RunResult) -> list[str]:
    """The lines of our section."""
    lines = result.outlines
    start = next(index for index, line in enumerate(lines) if re.fullmatch(r"=+ vla =+", line))
    end = next(index for index in range(start + 1, len(lines)) if lines[index].startswith("="))
    return [line for line in lines[start + 1 : end] if line]


def rates(lines: list[str]) -> dict[str, str]:
    return {cells[0]: cells[2] for cells in map(str.split, lines) if len(cells) > 4 and "/" in cells[2]}


@ALONE
def test_benign_twins_probes_and_words_have_rows_of_their_own(vla: Run, workers: str) -> None:
    varied = ("--vla-vary=language.blank,language.words:1", "--vla-twins=auto", "--vla-seeds=0-1")
    lines = summary(vla(*GOAL, *varied, workers))
    assert rates(lines) == {
        "benign": "2/2",
        "language.blank": "0/2",
        "language.words:1": "0/2",
    }
    assert "-v shows each task" in lines
    assert lines[1] == "libero_goal"
    assert any(re.fullmatch(r"Full report: `pytest-vla report \.vla/\S+`", line) for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_run_without_variations_says_no_more_than_ever(vla: Run) -> None:
    lines = summary(vla(*GOAL))
    assert [line.split()[0] for line in lines] == ["suite", "libero_goal", "turn_on_the_stove", "1", "records:"]


def test_libero_para_gives_table_3s_row_and_resumed_too(
    vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = project.path / "para"
    data.mkdir()
    (data / "libero_para_metadata.csv").write_text(HEADER + ROWS)
    for kind in ("assets", "bddl_files", "init_files"):
        (data / kind).mkdir()
    suite = ("--vla-suite=libero_para", "--vla-tasks=turn_on", "--vla-model=listening:policy", f"--vla-data={data}")
    stopped = summary(vla(*suite, "--vla-seeds=7-8", "--vla-twins=auto", "--maxfail=2", "-v"))
    done = summary(vla("--vla-resume"))
    # The suite pins one init state: the second seed repeats what the first has done.
    assert rates(done)["benign"] == "1/1"
    assert rates(done)["language.paraphrase"] == "0/3"
    title = next(index for index, line in enumerate(done) if line.startswith("paraphrases by listening:policy, %"))
    assert done[title + 1].split() == ["suite", "n", "SR", "PRIDE", "overestimation"]
    assert done[title + 2].split()[:3] == ["libero_para", "3", "0.0"]
    assert done[title + 3].startswith("PRIDE at alpha 0.5 by published libero-para csv ")
    (little,) = [line for line in done if "per task is few" in line]
    assert "--vla-episodes" not in little, "more seeds would repeat the same start"
    assert any(line.startswith("Full report: ") for line in stopped)
    # The command does what it says.
    (command,) = [line for line in done if line.startswith("Full report: ")]
    (name,) = run_names(project.path / ".vla")
    program, verb, folder, option = shlex.split(command.partition("`")[2].rstrip("`"))
    assert (program, verb, folder) == ("pytest-vla", "report", f".vla/{name}")
    assert Path(option.removeprefix("--data=")).samefile(data / "libero_para_metadata.csv")
    monkeypatch.chdir(project.path)
    main([verb, folder, option])
    report = capsys.readouterr().out.splitlines()
    cells, of_report = done[title + 2].split(), next(line for line in report if line.startswith("listening:policy"))
    # Of fewer than five the report shows counts.
    assert of_report.split()[:5] == ["listening:policy", "libero_para", "7", cells[1], "0/3"]
    assert of_report.split()[-3:] == ["100.0", "[20.7,", "100.0]"], "of the benign twins"


@pytest.mark.parametrize("episodes", [19, 20])
@ALONE
def test_a_run_at_zero_names_the_doctor(vla: Run, workers: str, episodes: int) -> None:
    still = (*GOAL[:2], "--vla-model=policies:still", f"--vla-seeds=20-{19 + episodes}")
    lines = summary(vla(*still, workers))
    told = [shlex.split(line.split("`")[1]) for line in lines if "pytest-vla doctor" in line or " doctor " in line]
    wanted = ["doctor", "--vla-model=policies:still", "--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove"]
    assert [words[words.index("doctor") :] for words in told] == [wanted] * (episodes == 20)
    if told:
        assert "doctor" not in vla(*still, workers, "-q").stdout.str()
