"""`pytest-vla baseline`: made of runs, shown, updated; what would mislead is refused, and nothing is written half."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.commands import baseline as command
from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline_file import read_baseline
from pytest_vla.records.record import Record
from tests.support.forks import forked
from tests.support.kept_runs import write
from tests.support.own_worlds import CONFTEST, POLICIES
from tests.support.records import record_of
from tests.support.varied import varied

VLA, FILE = Path(".vla"), Path("baseline.vla.json")


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    # What pytester printed of runs.
    capsys.readouterr()
    assert main(["baseline", *arguments]) == code
    out, err = capsys.readouterr()
    return str(err if code else out)


def ten(successes: int = 8, **changes: Any) -> list[Record]:
    return [varied("", seed < successes, seed=seed, **changes) for seed in range(10)]


def options_of(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.declare(parser)
    return parser.parse_args(arguments)


def test_a_run_is_saved_and_shown(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    write("one", [*ten(), varied("light.diffuse-L2", True)])
    saved = call(capsys, "save").splitlines()
    assert saved[-1] == "saved: baseline.vla.json"
    shown = call(capsys, "show").splitlines()
    note = next(place for place, line in enumerate(saved) if line.startswith("note: one run seed"))
    assert shown == saved[:note]
    assert shown[:4] == [
        "model: random (of unknown content)",
        "cases: 11 cases of 1 task, run seed 0",
        f"runs: one; {read_baseline(FILE).made_by}",
        "began: 2026-01-02 03:04 to 2026-01-02 03:04 UTC",
    ]
    assert [line.split() for line in shown[4:7]] == [
        ["suite", "success", "rate", "95%", "interval"],
        ["libero_goal,", "benign", "8/10", "80.0%", "[49.0%,", "94.3%]"],
        ["libero_goal,", "varied", "1/1", "100.0%", "[20.7%,", "100.0%]"],
    ]
    assert shown[7] == "conditions: cameras agentview, max_steps 300, mujoco 3.8.1"


def test_of_several_run_seeds_nothing_is_noted(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    write("one", ten())
    write("two", [varied("", True, seed=seed, run_seed=1) for seed in range(10)])
    assert "one run seed" not in call(capsys, "save", "one", "two", "-o", "both.json")
    assert "one run seed" in call(capsys, "save", "one", "-o", "alone.json")


def test_programs_get_it_as_json(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    write("one", [*ten(), varied("", "invalid", seed=13)])
    call(capsys, "save", "one", "-o", "my.json")
    table = json.loads(call(capsys, "show", "my.json", "--json"))
    assert (table["schema"], table["model"], table["runs"], table["cases"]) == (1, "random", ["one"], 11)
    suite = table["suites"]["libero_goal"]
    assert (suite["tasks"], suite["cases"], suite["rates"]["all"]["sr"]) == (1, 11, 80)
    assert suite["rates"]["all"]["not_counted"] == 1
    assert suite["conditions"]["protocol.max_steps"] == 300


def test_nothing_is_overwritten_and_update_says_what_changes(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    write("one", ten(8))
    call(capsys, "save")
    before = FILE.read_bytes()
    assert "pytest-vla baseline update baseline.vla.json one" in call(capsys, "save", "one", code=1)
    write("two", [*ten(9, digest="77", replan=5)[1:], varied("light.diffuse-L2", False)])
    assert main(["baseline", "update", str(FILE)]) == 1
    out, err = capsys.readouterr()
    told = " ".join(out.split())
    for part in (
        "added: 1 case: libero_goal/turn_on_the_stove[light.diffuse-L2-seed0]",
        "removed: 1 case: libero_goal/turn_on_the_stove[seed0]",
        "succeed now: 1 case: libero_goal/turn_on_the_stove[seed8]",
        "same outcome, different trajectory: 8 cases",
        "replan length differs (baseline whole chunks, run 5; 9 cases): querying",
        "libero_goal: 8/10 = 80.0% before, none now",
    ):
        assert part in told
    assert "fail now" not in told
    assert "not a terminal, so the command cannot ask. Use --yes" in err
    assert FILE.read_bytes() == before
    assert call(capsys, "update", str(FILE), "two", "--yes").splitlines()[-1] == "updated: baseline.vla.json"
    assert [case.case[-7:] for case in read_baseline(FILE).cases][-1] == "[seed9]"
    assert call(capsys, "update", str(FILE)) == "baseline.vla.json: no changes\n"
    assert sorted(path.name for path in Path().iterdir()) == [".vla", "baseline.vla.json"]


@pytest.mark.parametrize(("answer", "written"), [("y", True), ("", False), ("no", False)])
def test_the_user_is_asked(alone: None, capsys: pytest.CaptureFixture[str], answer: str, written: bool) -> None:
    write("one", ten(8))
    call(capsys, "save")
    write("two", ten(7))
    asked = []

    def ask(question: str) -> str:
        asked.append(question)
        return answer

    if written:
        command.update(options_of("update", str(FILE)), ask)
    else:
        with pytest.raises(VlaError, match="nothing was written"):
            command.update(options_of("update", str(FILE)), ask)
    assert asked == ["Write baseline.vla.json? [y/N] "]
    assert sum(case.outcome == "success" for case in read_baseline(FILE).cases) == (7 if written else 8)
    assert "fail now: 1 case" in capsys.readouterr().out


def test_what_would_mislead_is_refused(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    write("part", ten(), planned=2, end="stopped")
    told = call(capsys, "save", code=1)
    assert "run part has 10 of 12 episodes: pytest --vla-resume=part runs the rest" in told
    assert "Use --allow-unfinished to continue with the episodes that ran" in told
    write("broken", [*ten()[:9], record_of(9, "error")])
    assert "1 episode broke (policy-raised)" in call(capsys, "save", code=1)
    assert not FILE.exists()
    out = call(capsys, "save", "--allow-unfinished")
    assert "note: 1 episode broke" in out
    assert "1 error" in out
    write("picked", ten()[8:], picked="--lf")
    assert "picked (--lf): only episodes selected by their earlier outcome" in call(
        capsys, "save", "picked", "-o", "x", "--allow-unfinished", code=1
    )
    write("running", ten(), end="")
    assert "run running is still running" in call(capsys, "save", "-o", "x", "--allow-unfinished", code=1)
    assert not Path("x").exists()


def test_of_several_models_one_is_named(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    write("one", ten(8, policy="one"))
    write("two", ten(7, policy="two"))
    assert "2 models: one, two. A baseline needs one: --model=NAME" in call(capsys, "save", "all", code=1)
    call(capsys, "save", "all", "--model=two")
    baseline = read_baseline(FILE)
    assert (baseline.model, baseline.runs, len(baseline.cases)) == ("two", ("two",), 10)


def test_several_runs_are_one_and_repeats_are_told(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    write("one", ten()[:6])
    write("two", ten()[4:])
    out = call(capsys, "save", "one", "two")
    assert "cases: 10 cases of 1 task" in out
    assert "note: 2 repeats of 2 episodes" in out


def test_what_is_not_there_is_told(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no baseline baseline.vla.json: make one" in call(capsys, "show", code=1)
    write("one", ten())
    assert "there is no run 'nothing'" in call(capsys, "save", "nothing", code=1)
    assert "there is no baseline x" in call(capsys, "update", "x", "one", code=1)
    assert "is a folder; give a file, such as .vla/baseline.vla.json" in call(capsys, "save", "-o", ".vla", code=1)
    assert "cannot write" in call(capsys, "save", "-o", "nowhere/x.json", code=1)
    FILE.write_text("{}")
    assert "baseline.vla.json: not a baseline: expected schema 1" in call(capsys, "show", code=1)


@pytest.fixture
def point(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(pushing=POLICIES)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_VLA_DATA"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> pytest.RunResult:
        with forked():
            return pytester.runpytest_subprocess("-p", "no:hypothesispytest", *arguments)

    return run


def test_a_real_run_is_saved_shown_and_the_same_again(
    point: Callable[..., pytest.RunResult], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--vla-suite=point", "--vla-seeds=0-2", "--vla-model=pushing:right")
    point(*arguments).assert_outcomes(passed=6)
    call(capsys, "save")
    shown = call(capsys, "show")
    assert ["point", "6/6", "100.0%", "[61.0%,", "100.0%]"] in [line.split() for line in shown.splitlines()]
    assert "world pytest_vla.testing.PointWorld" in " ".join(shown.split())
    (first, *_) = (case for case in read_baseline(FILE).cases if "push" in case.case)
    assert (first.steps, first.costs) == (5, {"": {"sideways": 0.125}})
    point(*arguments, "-n2").assert_outcomes(passed=6)
    assert call(capsys, "update", str(FILE), "--yes").splitlines() == [
        "no case changes; only the runs' names and times do",
        "updated: baseline.vla.json",
    ]
    point("--vla-suite=point", "--vla-seeds=0-2", "--vla-model=pushing:aside").assert_outcomes(failed=6)
    told = call(capsys, "update", str(FILE), "--yes")
    assert "policy: pushing:right (policy" in told
    assert "fail now: 6 cases" in told
