"""``--vla-fuzz``: a search is an item of the run; what it finds is a file of cases, tried first in the next search."""

from collections.abc import Callable
from pathlib import Path

import numpy as np  # noqa: F401  # Before pytester, which would have it imported twice.
import pytest

from pytest_vla.fuzz.case_file import read_cases
from tests.support.runs import records_of, run_names
from tests.support.searched import EXPERT, POLICIES

Run = Callable[..., pytest.RunResult]

STOVE = "turn_on_the_stove"
SEARCH = ("--vla-suite=tabletop", f"--vla-tasks={STOVE}", "--vla-fuzz-dimensions=action", "--vla-fuzz=6")
TWO = ("--vla-suite=tabletop", f"--vla-tasks={STOVE},put_the_bowl_on_the_stove", *SEARCH[2:])
IMPATIENT, STRAIGHT = "--vla-model=policies:impatient", "--vla-model=policies:straight"


@pytest.fixture(autouse=True)
def here(project: pytest.Pytester) -> Path:
    (project.path / "policies.py").write_text(POLICIES)
    project.makeconftest(EXPERT)
    return project.path


def found_in(here: Path) -> list[Path]:
    """The files of cases of all runs, the last one last."""
    return sorted(here.glob(".vla/*/fuzz_cases.toml"), key=lambda file: file.stat().st_mtime_ns)


def test_what_is_found_fails_the_item_and_is_a_file_to_run_again(vla: Run, here: Path) -> None:
    result = vla(*TWO, IMPATIENT, "--junitxml=junit.xml")
    result.assert_outcomes(failed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (file,) = found_in(here)
    shown = file.relative_to(here)
    result.stdout.fnmatch_lines(
        [
            "vla: 2 searches of 6 scenes each with policies:impatient",
            f"tabletop/{STOVE}: 1 distinct failure that the policy should not have",
            "  * of 2 evenly drawn scenes fail = *% [[]*%, *%[]]; guided: * of 4 fail",
            "  fails under 4 of 4 run seeds: action.delay steps=3 (succeeds at steps=2), seed 0",
            f"  run it: *pytest --vla-cases={shown} --vla-tasks={STOVE} {IMPATIENT} -p pytest_vla.testing",
            "*= vla: searches =*",
            f"tabletop/{STOVE}: * of 2 evenly drawn scenes fail = *",
            f"2 cases found; run again with `*pytest --vla-cases={shown} {IMPATIENT} -p pytest_vla.testing`",
            f"FAILED tabletop::test_fuzz[[]{STOVE}[]]*",
        ]
    )
    cases = [each.candidate for each in read_cases(file)]
    assert [case.changes[0].params for case in cases] == [{"steps": 3}] * 2
    junit = (here / "junit.xml").read_text()
    assert '<property name="vla_scenes" value="6" />' in junit
    assert "changes" not in junit, "what the search found is in its file"
    assert run_names(here / ".vla") == [], "its episodes are in no record, and it is no run to report"
    again = vla(f"--vla-cases={shown}", IMPATIENT)
    again.assert_outcomes(failed=2)
    assert {record.case for record in records_of(here / ".vla")} == {case.case.id for case in cases}

    # With workers the same, to the byte; one process writes the file.
    assert vla(*TWO, IMPATIENT, "-n2").ret == pytest.ExitCode.TESTS_FAILED
    assert found_in(here)[-1] != file
    assert found_in(here)[-1].read_bytes() == file.read_bytes()


def test_where_nothing_is_found_it_passes_and_writes_nothing(vla: Run, here: Path) -> None:
    result = vla(*SEARCH, STRAIGHT)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"tabletop/{STOVE}: 0 of 2 evenly drawn scenes fail = 0.0% *"])
    result.stdout.no_fnmatch_line("*run again with*")
    assert not list(here.glob(".vla/**/*.toml"))


def test_where_no_scene_can_be_tried_it_is_an_error(vla: Run) -> None:
    result = vla(*SEARCH, "--vla-model=policies:still", "--vla-seeds=2")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            f"tabletop/{STOVE}: nothing could be searched",
            "  no scene was tried",
            "  seed 2 skipped: without any change the policy fails",
        ]
    )


def test_what_was_found_before_is_tried_first_and_in_no_rate(vla: Run, here: Path) -> None:
    vla(*SEARCH, IMPATIENT).assert_outcomes(failed=1)
    known = here / ".vla" / "fuzz" / "tabletop" / f"{STOVE}.toml"
    before = known.read_bytes()
    # The one scene that is drawn has action.noise.
    result = vla(*SEARCH[:3], "--vla-fuzz=1", IMPATIENT)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "  0 of 1 evenly drawn scenes fail = 0.0% *",
            "  fails under 4 of 4 run seeds: action.delay steps=3, seed 0 (found before)",
        ]
    )
    assert len(read_cases(found_in(here)[-1])) == 1
    vla(*SEARCH[:2], "--vla-fuzz=1", "--vla-fuzz-dimensions=light", IMPATIENT).assert_outcomes(passed=1)
    mended = vla(*SEARCH, STRAIGHT)
    mended.assert_outcomes(passed=1)
    mended.stdout.fnmatch_lines(["  succeeds now (found before): action.delay steps=3, seed 0"])
    assert known.read_bytes() == before, "a regression is seen at once"
    for policy, number in ((STRAIGHT, 1), (IMPATIENT, 0)):
        run = vla(f"--vla-cases={known}", policy)
        run.assert_outcomes(passed=number, failed=1 - number)
        told = [line for line in run.outlines if line.startswith("1 of 1 given case with a change succeed: ")]
        assert len(told) == number
    known.write_text("schema = 99\n")
    spoilt = vla(*SEARCH, STRAIGHT)
    spoilt.assert_outcomes(passed=1, warnings=1)
    spoilt.stdout.fnmatch_lines(["*expected schema = 1, found 99*known failures of this task are not tried first"])


def test_cases_ids_and_tests_of_the_users_own_run_beside(vla: Run, here: Path) -> None:
    (here / "cases.toml").write_text(f'schema = 1\n[[case]]\nsuite = "tabletop"\ntask = "{STOVE}"\nseed = 3\n')
    options = (*SEARCH, STRAIGHT, "--collect-only", "-q")
    search = f"tabletop::test_fuzz[{STOVE}]"
    of_file, of_id = f"tabletop::test_episode[{STOVE}-seed3]", f"tabletop::test_episode[{STOVE}-seed1]"

    def ids(*arguments: str) -> list[str]:
        return [line for line in vla(*arguments).outlines if "::" in line]

    assert ids(*options) == [search]
    assert ids(*options, "--vla-cases=cases.toml") == [of_file, search]
    assert ids(*options, of_id, search) == [of_id, search]
    assert ids(*options, "test_mine.py") == ["test_mine.py::test_one", "test_mine.py::test_two", search]
    result = vla(*SEARCH, STRAIGHT, "--vla-cases=cases.toml")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    (record,) = records_of(here / ".vla")
    assert (record.seed, record.is_given) == (3, True), "what a search tries is no episode"


def test_a_failing_search_fails_a_run_whose_rate_is_as_wanted(vla: Run, here: Path) -> None:
    (here / "cases.toml").write_text(f'schema = 1\n[[case]]\nsuite = "tabletop"\ntask = "{STOVE}"\nseed = 3\n')
    result = vla(*SEARCH, IMPATIENT, "--vla-cases=cases.toml", "--vla-min-success=1.0")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [record.outcome for record in records_of(here / ".vla")] == ["success"]


def test_one_that_was_stopped_is_gone_on_with(vla: Run, here: Path) -> None:
    result = vla(*TWO, IMPATIENT, "-x")
    result.assert_outcomes(failed=1)
    (run,) = run_names(here / ".vla")
    resumed = vla("--vla-resume")
    resumed.assert_outcomes(failed=2)
    assert len(read_cases(here / ".vla" / run / "fuzz_cases.toml")) == 2


def test_ctrl_c_ends_it_and_what_was_found_is_known(vla: Run, here: Path) -> None:
    (here / "conftest.py").write_text(
        EXPERT
        + """
from pytest_vla.fixtures import play as search

remember = search.remember_failures

def interrupted(*rest):
    remember(*rest)
    raise KeyboardInterrupt

search.remember_failures = interrupted
"""
    )
    result = vla(*SEARCH, IMPATIENT)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*"])
    (known,) = read_cases(here / ".vla" / "fuzz" / "tabletop" / f"{STOVE}.toml")
    assert known.candidate.changes[0].params == {"steps": 3}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--vla-fuzz=3", STRAIGHT), "*--vla-fuzz needs a suite: add --vla-suite=tabletop*"),
        (("--vla-fuzz=0", "--vla-suite=tabletop", STRAIGHT), "*'0' is not a number of scenes, 1 to 1000000*"),
        (("--vla-fuzz=3", "--vla-suite=tabletop"), "*tabletop: no policy is given. Add --vla-model=*"),
        ((*SEARCH, STRAIGHT, "--vla-vary=camera"), "*--vla-fuzz draws the changes by itself: leave --vla-vary out*"),
        (
            (f"tabletop::test_fuzz[{STOVE}]", STRAIGHT),
            f"*tabletop::test_fuzz[[]{STOVE}[]] is a search: add --vla-fuzz=N*",
        ),
        (
            ("--vla-suite=tabletop", "--vla-fuzz-dimensions=camera", STRAIGHT),
            "*--vla-fuzz-dimensions needs --vla-fuzz=N*",
        ),
        (
            ("--vla-suite=tabletop", "--vla-fuzz=3", "--vla-fuzz-dimensions=camra", STRAIGHT),
            "*--vla-fuzz-dimensions: no dimension 'camra' can be searched. Did you mean camera?*",
        ),
        (
            ("--vla-suite=libero_plus_goal", "--vla-fuzz=3", STRAIGHT),
            "*libero_plus_goal is already varied; use the suite libero_goal for your own changes*",
        ),
    ],
)
def test_what_cannot_be_searched_is_said_before_anything_runs(
    vla: Run, arguments: tuple[str, ...], said: str, here: Path
) -> None:
    result = vla(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert not (here / ".vla").exists()
