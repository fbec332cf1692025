"""``--vla-baseline``: a run is compared with a baseline, and each group of episodes is an item at the end."""

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
import scipy.special  # noqa: F401  # Before pytester, which would have it imported twice.

from pytest_vla.cli import main
from pytest_vla.records.store import open_store
from tests.support import fake_repeats
from tests.support.gate_runs import ALL, BASELINE, EIGHT, FOUR, POLICIES, STOVE, WIDE, Run, afterwards
from tests.support.workers import ALONE, BOTH


@pytest.fixture(autouse=True)
def upto(project: pytest.Pytester) -> None:
    """Policies that do all seeds, those below 8, those below 4; all break at seed 20."""
    project.makepyfile(upto=POLICIES)


def gate_table(text: str) -> list[str]:
    """The lines from the one that names both sides to the gate's verdict."""
    lines = text.splitlines()
    (end,) = (number for number, line in enumerate(lines) if line.startswith("gate: "))
    (start,) = (number for number, line in enumerate(lines) if re.match(r"runs?: ", line))
    return lines[start : end + 1]


def brief(text: str) -> list[str]:
    """The lines from the gate's verdict to the run's."""
    lines = text.splitlines()
    (start,) = (number for number, line in enumerate(lines) if line.startswith("gate: "))
    (end,) = (number for number, line in enumerate(lines) if line.startswith("vla: failed"))
    return lines[start:end]


@pytest.mark.parametrize("flags", [(), ("-n2",), ("-v",)])
@pytest.mark.usefixtures("base")
def test_a_regression_fails_as_an_item_of_its_own(
    vla: Run, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    result = vla(*STOVE, FOUR, BASELINE, *flags)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 4 passed, 6 not done in" in result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "gate: regression (margin 5 points, alpha 5% per side)",
            "vla: failed (--vla-baseline=base.json): the gate says regression",
        ]
    )
    result.stdout.no_fnmatch_line("* FAILURES *")
    result.stdout.fnmatch_lines(["FAILED gate::libero_goal[[]benign[]] - regression: -60.0 points*"])
    if "-v" in flags:
        result.stdout.fnmatch_lines(
            [
                "libero_goal::test_episode[[]turn_on_the_stove-seed4[]] NOT DONE (*",
                "gate::libero_goal[[]benign[]] FAILED *",
            ]
        )
    code, told = afterwards(capsys, "-v")
    assert code == 1
    if "-v" in flags:
        assert gate_table(told) == gate_table(result.stdout.str()), "the same verdicts in the same words"
    else:
        assert gate_table(told)[-1] == brief(result.stdout.str())[0]


@pytest.mark.usefixtures("base")
def test_what_is_no_worse_passes(vla: Run) -> None:
    result = vla(*STOVE, ALL, BASELINE, WIDE)
    assert result.ret == 0
    result.assert_outcomes(passed=11)
    result.stdout.fnmatch_lines(
        [
            "gate: no worse (margin 60 points, alpha 5% per side)",
            "vla: passed (--vla-baseline=base.json)",
        ]
    )


@pytest.mark.usefixtures("base")
def test_without_seeds_a_run_has_the_baselines(vla: Run) -> None:
    vla(*STOVE[:2], ALL, BASELINE, WIDE).assert_outcomes(passed=11)
    vla(*STOVE[:2], ALL, BASELINE, WIDE, "--vla-seeds=3").assert_outcomes(passed=1, skipped=1)


@pytest.mark.usefixtures("base")
def test_what_is_undecided_is_skipped_with_its_reason(vla: Run) -> None:
    result = vla(*STOVE, EIGHT, BASELINE, "-rs", "-v")
    assert result.ret == 0
    result.assert_outcomes(passed=8, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "gate::libero_goal[[]benign[]] SKIPPED *",
            "SKIPPED * undecided: inconclusive: 10 pairs can detect a drop of * (80% power); "
            "smaller ones beyond the margin (5 points) may go unnoticed. To decide, *",
            "*8 passed, 1 skipped, 2 not done*",
        ]
    )
    result.stdout.fnmatch_lines(["gate: undecided *", "vla: not shown (--vla-baseline=base.json: undecided)"])


@pytest.mark.usefixtures("base")
def test_more_may_be_required(vla: Run, capsys: pytest.CaptureFixture[str]) -> None:
    result = vla(*STOVE, EIGHT, BASELINE, "--vla-gate-require=no-worse")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "libero_goal ........nn * [[]100%[]]",
            "gate F*",
            "vla: failed (*): the gate says undecided (--vla-gate-require=no-worse)",
            "FAILED gate::libero_goal[[]benign[]] - undecided: inconclusive*",
        ]
    )
    assert result.stdout.str().count("[100%]") == 1
    assert afterwards(capsys, "--require=no-worse")[0] == 1


@pytest.mark.usefixtures("base")
def test_junit_has_the_groups(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, FOUR, BASELINE, "--junitxml=junit.xml")
    cases = {
        f"{case.get('classname')}::{case.get('name')}": case
        for case in ElementTree.parse(project.path / "junit.xml").iter("testcase")
    }
    assert len(cases) == 11
    group = cases["gate::libero_goal[benign]"]
    (failure,) = group.iter("failure")
    assert "regression" in str(failure.text)
    assert [(each.get("name"), each.get("value")) for each in group.iter("property")] == [("vla_verdict", "regression")]
    (not_done,) = (list(case) for name, case in cases.items() if "seed9" in name)
    (skipped,) = (each for each in not_done if each.tag == "skipped")
    assert str(skipped.get("message")).startswith("not done after 300 of 300 steps")
    assert skipped.get("type") == "pytest.skip", "other plugins read it so too: it is no expected failure"
    (suite,) = ElementTree.parse(project.path / "junit.xml").iter("testsuite")
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["11", "1", "0", "6"]


@BOTH
@pytest.mark.usefixtures("base")
def test_what_was_lost_is_said_with_one_command_that_runs_it_again(vla: Run, workers: str) -> None:
    result = vla(*STOVE, FOUR, BASELINE, workers)
    lines = brief(result.stdout.str())
    assert len(lines) == 5
    assert lines[1].startswith("libero_goal[benign]: 100.0% -> 40.0%, -60.0 points [")
    assert lines[2:4] == [
        "worst (counts, no test): libero_goal/turn_on_the_stove 10 -> 4 of 10",
        "6 cases lost: libero_goal/turn_on_the_stove[seed4] and 5 more (-v has more)",
    ]
    (command,) = re.findall(r"^replay: pytest (@.*)$", lines[4])
    result = vla(*shlex.split(command), workers)
    result.assert_outcomes(failed=6)
    result.stdout.fnmatch_lines(["*not done after 300 of 300 steps*", "replay.txt selected 6 episodes by earlier *"])


@pytest.mark.usefixtures("base")
def test_a_replay_is_no_sample(vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    """Its cases were selected because they were lost: as with --lf, nothing is judged by them or saved."""
    result = vla(*STOVE, FOUR, BASELINE)
    (command,) = re.findall(r"^replay: pytest (@.*)$", result.stdout.str(), re.M)
    result = vla(*shlex.split(command), BASELINE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "replay.txt selects items by their earlier outcomes" in result.stderr.str()
    vla(*shlex.split(command))
    with open_store(project.path / ".vla", create=False) as store:
        newest, *_ = store.runs()
        assert (newest.picked, newest.planned) == ("replay.txt", 6)
    capsys.readouterr()
    for arguments in (["gate", "--baseline=base.json"], ["baseline", "save", "-o", "new.json"]):
        assert main(arguments) != 0
        assert "(replay.txt): only episodes selected by their earlier outcome" in capsys.readouterr().err
    # Another file of ids is a selection as any other.
    (project.path / "replay.txt").write_text("libero_goal::test_episode[turn_on_the_stove-seed4]\n")
    vla("@replay.txt", FOUR)
    with open_store(project.path / ".vla", create=False) as store:
        newest, *_ = store.runs()
        assert newest.picked is None


@pytest.mark.usefixtures("base")
def test_a_few_lost_cases_are_in_the_command(vla: Run) -> None:
    result = vla(*STOVE[:2], FOUR, BASELINE, "--vla-seeds=0-6", "--vla-gate-require=better")
    (command,) = re.findall(r"^replay: pytest (.*seed4.*)$", result.stdout.str(), re.M)
    assert command.count("::test_episode[") == 3
    vla(*shlex.split(command)).assert_outcomes(failed=3)


@pytest.mark.usefixtures("base")
def test_with_v_each_lost_case_has_its_command(vla: Run) -> None:
    result = vla(*STOVE, FOUR, BASELINE, "-v")
    (command,) = re.findall(r"^  lost    pytest (.*seed4.*)$", result.stdout.str(), re.M)
    vla(*shlex.split(command)).assert_outcomes(failed=1)


@BOTH
@pytest.mark.usefixtures("base")
def test_a_summary_is_written_in_the_gates_words(
    vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    (project.path / "out.md").write_text("before\n")
    result = vla(*STOVE, FOUR, BASELINE, "--vla-gate-summary=out.md,gate.json", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = (project.path / "out.md").read_text()
    assert text.startswith("before\n### gate: regression")
    assert "- vla: failed (--vla-baseline=base.json): the gate says regression" in text
    assert "- gate plan: 10 cases" in text
    assert text.count("# lost libero_goal/turn") == 6
    found = json.loads((project.path / "gate.json").read_text())
    assert found.pop("line") == "vla: failed (--vla-baseline=base.json): the gate says regression"
    # And `pytest-vla gate` says the same, commands too.
    assert json.loads(afterwards(capsys, "--json")[1]) == found
    assert found["flipped"][0]["command"].startswith("pytest 'libero_goal::test_episode[turn_on_the_stove-seed4]' ")


@pytest.mark.usefixtures("base")
def test_a_summary_says_that_nothing_was_judged(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_gate_summary = out.md, gate.json\n")
    vla(*STOVE[:2], "--vla-seeds=20,0-9", ALL, BASELINE, WIDE, "-x")
    text = (project.path / "out.md").read_text()
    assert text.startswith(
        "### gate: not judged\n\nvla: failed (--vla-baseline=base.json): the gate was not judged: 10"
    )
    found = json.loads((project.path / "gate.json").read_text())
    assert found["verdict"] is None
    assert found["reason"] == "the gate was not judged: 10 of 11 episodes were not run"


@pytest.mark.usefixtures("base")
def test_groups_are_the_users(vla: Run) -> None:
    result = vla(*STOVE, ALL, BASELINE, WIDE, "--vla-gate-by=task,level", "-v")
    result.stdout.fnmatch_lines(["gate::turn_on_the_stove,- PASSED *"])
    result = vla(*STOVE, ALL, BASELINE, WIDE, "--vla-gate-by=suite", "-q")
    result.stdout.fnmatch_lines(["gate: no worse (*)", "vla: passed (*)"])
    assert "baseline  " not in result.stdout.str(), "-q says the verdict alone"


@pytest.mark.usefixtures("base")
def test_errors_stay_errors(vla: Run) -> None:
    result = vla(*STOVE[:2], ALL, BASELINE, WIDE, "--vla-seeds=0-9,20")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=11, errors=1)
    result.stdout.fnmatch_lines(["gate: no worse *", "vla: failed (*): 1 item failed for other reasons *"])


@pytest.mark.usefixtures("base")
def test_a_gate_and_a_rate_both_have_to_hold(vla: Run) -> None:
    both = (BASELINE, "--vla-min-success=0.7")
    result = vla(*STOVE, EIGHT, *both)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "libero_goal: 8/10 = 80.0% * >= 70%",
            "gate: undecided *",
            "vla: not shown (--vla-baseline=base.json: undecided, --vla-min-success=70%)",
        ]
    )
    result = vla(*STOVE, FOUR, *both)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = "the gate says regression; --vla-min-success=70%: libero_goal below 70%"
    result.stdout.fnmatch_lines([f"vla: failed (--vla-baseline=base.json, --vla-min-success=70%): {told}"])
    result = vla(*STOVE, EIGHT, BASELINE, "--vla-min-success=0.9")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["vla: failed (*): --vla-min-success=90%: libero_goal below 90%"])


def test_your_own_failed_test_still_fails(vla: Run, project: pytest.Pytester, base: Path) -> None:
    project.makepyfile(test_mine="def test_it(): assert False\n")
    result = vla("test_mine.py", *STOVE, EIGHT, BASELINE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["vla: failed (*): 1 item failed for other reasons *"])


@ALONE
@pytest.mark.usefixtures("base")
def test_what_is_not_done_stops_nothing(vla: Run, workers: str) -> None:
    result = vla(*STOVE, EIGHT, BASELINE, "-x", workers)
    assert result.ret == 0
    result.assert_outcomes(passed=8, skipped=1)


@pytest.mark.usefixtures("base")
def test_a_run_that_was_stopped_is_not_judged_before_it_is_resumed(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE[:2], "--vla-seeds=20,0-9", ALL, BASELINE, WIDE, "-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "gate::" not in result.stdout.str()
    told = "the gate was not judged: 10 of 11 episodes were not run; 1 item failed for *"
    result.stdout.fnmatch_lines([f"vla: failed (--vla-baseline=base.json): {told}"])
    project.makepyfile(upto=POLICIES.replace("== 20", "== 21"))
    result = vla("--vla-resume", "-n2")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["vla: gate plan: 11 cases * margin 60 points, *"])
    result.stdout.fnmatch_lines(["gate: no worse (margin 60 *)", "vla: passed (--vla-baseline=base.json)"])
    # Once more: nothing is left, and the verdict is the same.
    result = vla("--vla-resume")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["gate: no worse (margin 60 *)", "vla: passed (--vla-baseline=base.json)"])


@pytest.mark.usefixtures("base")
def test_failed_episodes_are_kept_as_such(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, EIGHT, BASELINE)
    with open_store(project.path / ".vla", create=False) as store:
        items = store.items(store.run("last").name)
    assert sorted(item.status for item in items) == ["failed"] * 2 + ["passed"] * 8
    assert not any(item.is_left for item in items)


@pytest.mark.usefixtures("base")
def test_a_rerun_turns_no_failure_into_a_success(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(fake_repeats=Path(fake_repeats.__file__).read_text())
    result = vla("-p", "fake_repeats", *STOVE, FOUR, BASELINE, "--reruns=2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["gate: regression *", "vla: failed (*): the gate says regression"])
