"""Runs of pytest as a site: what their gates said is in the index, as the run itself said it."""

from collections.abc import Callable

import pytest

from pytest_vla.cli import main
from pytest_vla.reports.site.entries import read_listing
from tests.support.runs import run_names

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-episodes=2")


def test_two_runs_with_a_gate_are_a_site(
    vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vla(*STOVE, "--vla-model=policies:straight").ret == 0
    (first,) = run_names(project.path / ".vla")
    gated = vla(*STOVE, "--vla-model=policies:still", f"--vla-baseline={first}", "--vla-margin=60")
    monkeypatch.chdir(project.path)
    assert main(["site"]) == 0
    assert capsys.readouterr().out.endswith("public/index.html: 2 runs; pages: 2 made, 0 unchanged\n")
    (second,) = {*run_names(project.path / ".vla")} - {first}
    listed = read_listing(project.path / "public" / "runs.json")
    assert listed[first].verdict is None
    verdict = listed[second].verdict
    assert verdict is not None
    line = next(line for line in gated.outlines if line.startswith("gate: "))
    assert verdict.line.startswith(line)
    assert (verdict.word in line, verdict.passed) == (True, gated.ret == 0)
    assert [entry.results[0].rate.successes for entry in (listed[first], listed[second])] == [2, 0]
    assert verdict.line in (project.path / "public" / "runs" / f"{second}.html").read_text().replace("&#39;", "'")
