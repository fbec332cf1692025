"""``--vla-report``: a run's page is written when it has ended."""

from collections.abc import Callable

import pytest

from pytest_vla.reports.html.parts import script_json
from tests.support.page import Parsed, page
from tests.support.runs import run_names

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-episodes=2")


def test_a_run_leaves_its_page(vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = vla(*STOVE, "--vla-model=policies:still", "--vla-report=report.html")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["report: *report.html"])
    text = (project.path / "report.html").read_text()
    found = Parsed(text)
    assert found.faults == []
    assert found.column("outcome") == ["failure", "failure"]
    (before, after), (_, node) = found.data["recipes"][0], found.data["commands"][0]
    assert f"{before}{node}{after}".startswith("pytest 'libero_goal::test_episode[turn_on_the_stove-seed0]'")
    # And afterwards the command makes the same one.
    monkeypatch.chdir(project.path)
    (name,) = run_names(project.path / ".vla")
    again = page(name, "--pictures=0")
    assert script_json(again.data) == script_json(found.data)


def test_what_a_gate_says_is_there(vla: Run, project: pytest.Pytester) -> None:
    assert vla(*STOVE, "--vla-model=policies:straight", "--vla-results=first").ret == 0
    gated = vla(
        *STOVE,
        "--vla-model=policies:still",
        f"--vla-baseline=first/{run_names(project.path / 'first')[0]}",
        "--vla-report=report.html",
        "--vla-margin=60",
    )
    gated.stdout.fnmatch_lines(["gate: *"])
    text = (project.path / "report.html").read_text()
    line = next(line for line in gated.outlines if line.startswith("gate: "))
    assert line in text.replace("&#39;", "'")
    assert "gate plan: " in text


def test_a_file_that_cannot_be_is_refused_at_once(vla: Run) -> None:
    result = vla(*STOVE, "--vla-model=policies:still", "--vla-report=nowhere/report.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--vla-report=*nowhere/report.html: expected a file*"])


def test_no_other_file_than_a_page_is_overwritten(vla: Run, project: pytest.Pytester) -> None:
    mine = project.makeconftest("# mine").read_text()
    result = vla(*STOVE, "--vla-model=policies:still", "--vla-report=conftest.py")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--vla-report=*conftest.py: expected a file that ends in .html*"])
    assert (project.path / "conftest.py").read_text() == mine


def test_a_report_that_could_not_be_written_is_said_last(vla: Run, project: pytest.Pytester) -> None:
    (project.path / "report.html").symlink_to("/dev/full")
    full = vla(*STOVE, "--vla-model=policies:straight", "--vla-report=report.html")
    assert full.ret == pytest.ExitCode.INTERNAL_ERROR
    assert full.outlines[-2].startswith("no report: cannot write ")
    assert full.outlines[-2].endswith("No space left on device")
    (project.path / "report.html").unlink()
    empty = vla(*STOVE, "--vla-model=policies:straight", "--vla-report=report.html", "-k", "nothing_is_called_so")
    assert empty.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    empty.stdout.fnmatch_lines(["no report: no episode was run, so *report.html was not written"])
