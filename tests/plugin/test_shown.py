"""What a run with episodes shows and leaves, and that pytest's own options work with them."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_vla.records.record import Record
from tests.support import runs as runs_support
from tests.support.runs import records_of, run_names
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]

GOAL = ("--vla-suite=libero_goal",)
STOVE = (*GOAL, "--vla-tasks=turn_on_the_stove")


def runs(project: pytest.Pytester, folder: str = ".vla") -> list[Path]:
    """The folders of all runs, in the order of their making."""
    results = project.path / folder
    return [results / name for name in run_names(results)]


def last_records(project: pytest.Pytester) -> dict[str, Record]:
    return runs_support.last_records(project.path / ".vla")


@pytest.mark.parametrize(
    ("flags", "table", "sentence", "place"),
    [((), 1, 0, 1), (("-v",), 1, 0, 1), (("-q",), 0, 1, 1), (("-qq",), 0, 0, 0)],
)
def test_verbosity(vla: Run, flags: tuple[str, ...], table: int, sentence: int, place: int) -> None:
    text = vla(*STOVE, "--vla-model=policies:straight", *flags).stdout.str()
    assert text.count("95%, these tasks") == table
    assert text.count("records: .vla, run ") == place
    assert text.count("vla: 1 episode of libero_goal with policies:straight") == table
    assert text.count("vla: 1/1 success, 100.0% [20.7%, 100.0%]") == sentence


@pytest.mark.parametrize("arguments", [(), ("-n1",), ("--vla-results=elsewhere",)])
def test_unused_it_is_silent_and_writes_nothing(project: pytest.Pytester, vla: Run, arguments: tuple[str, ...]) -> None:
    def files() -> set[str]:
        # pytester keeps its own files there.
        own = ("__pycache__", "runpytest-", "stdout", "stderr")
        return {path.name for path in project.path.iterdir() if not path.name.startswith(own)}

    before = files()
    result = vla("-p", "no:cacheprovider", *arguments)
    result.assert_outcomes(passed=2)
    lines = [line for line in result.outlines if not line.startswith("plugins:") and "test_unused" not in line]
    assert "vla" not in "\n".join(lines)
    assert files() == before


def test_collecting_writes_nothing(project: pytest.Pytester, vla: Run) -> None:
    vla(*GOAL, "--vla-model=random", "--collect-only")
    assert runs(project) == []


def test_the_traceback_of_what_broke_is_shown(vla: Run) -> None:
    result = vla(*STOVE, "--vla-model=policies:broken")
    result.stdout.fnmatch_lines(["*Captured traceback setup*", "*Traceback (most recent call last)*", "*1 / 0*"])
    result.stdout.no_fnmatch_line("*During handling of the above exception*")


SEEDS = "--vla-seeds=0-12"


@pytest.fixture
def many(vla: Run, project: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Runs a policy of which eight episodes fail and five break, and a test of the user's that fails."""
    project.makepyfile(
        few="""
        def policy(episode):
            if episode.seed >= 8:
                raise RuntimeError("no more")
            return lambda observation: [[0.0] * 7]
        """,
        test_mine="def test_own():\n    assert False",
    )
    paths = ("test_mine.py", *STOVE, "--vla-model=few:policy", "--vla-steps=2")

    def run(*arguments: str) -> pytest.RunResult:
        return vla(*paths, *arguments)

    return run


@pytest.mark.parametrize("flags", [(), ("-q",), ("--tb=short",), ("-n2",)])
def test_of_many_episodes_only_the_users_tests_are_listed_below_the_results(
    many: Callable[..., pytest.RunResult], project: pytest.Pytester, flags: tuple[str, ...]
) -> None:
    result = many(SEEDS, "--junitxml=out.xml", *flags)
    result.assert_outcomes(failed=9, errors=5)
    text = result.stdout.str()
    assert re.findall("^(?:FAILED|ERROR) (.*) - ", text, re.M) == ["test_mine.py::test_own"]
    shown = 3 if "--tb=short" not in flags else 8
    assert len(re.findall("^_+ test_episode.* _+$", text, re.M)) == shown
    assert len(re.findall("^_+ ERROR at setup of .* _+$", text, re.M)) == min(shown, 5)
    told = [line for line in result.outlines if "-rf" in line or "-rE" in line]
    assert [line.split(" episodes ")[0] for line in told] == (
        ["3 of 8 failed", "3 of 5 broken"] if shown == 3 else ["8 failed", "5 broken"]
    )
    assert ("2 policy-raised" in told[1]) == (shown == 3)
    assert (project.path / "out.xml").read_text().count("RuntimeError: no more") >= 5


@pytest.mark.parametrize(
    ("flags", "number"),
    [
        ((SEEDS, "-v"), 14),
        ((SEEDS, "-rfE"), 14),
        ((SEEDS, "-o", "addopts=-rfE"), 14),
        (("--vla-seeds=2-11",), 11),
    ],
)
def test_who_asks_for_lists_or_has_few_has_them(
    many: Callable[..., pytest.RunResult], flags: tuple[str, ...], number: int
) -> None:
    assert len(re.findall("^(?:FAILED|ERROR) .* - ", many(*flags).stdout.str(), re.M)) == number


def test_junit_xml_and_durations_still_work(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, "--vla-model=policies:straight", "--junit-xml=out.xml", "--durations=1").assert_outcomes(passed=1)
    text = (project.path / "out.xml").read_text()
    assert 'errors="0" failures="0" skipped="0" tests="1"' in text


def cases_of_junit(project: pytest.Pytester) -> dict[str, ElementTree.Element]:
    found = ElementTree.parse(project.path / "out.xml").iter("testcase")
    return {properties(case)["vla_seed"]: case for case in found}


def properties(case: ElementTree.Element) -> dict[str, str]:
    return {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}


@BOTH
def test_junit_files_have_how_each_episode_ended_and_no_record(
    vla: Run, project: pytest.Pytester, workers: str
) -> None:
    project.makepyfile(
        mixed="""
        import numpy as np

        def policy(episode):
            if episode.seed == 2:
                raise ValueError("broken")
            return lambda observation: np.array([float(episode.seed != 1), 0, 0, 0, 0, 0, 0])
        """
    )
    stopping = ("--vla-metrics=action_position_instability", "--junit-xml=out.xml")
    vla(*STOVE, "--vla-model=mixed:policy", "--vla-seeds=0-2", *stopping, workers)
    cases, records = cases_of_junit(project), last_records(project)
    (run,) = run_names(project.path / ".vla")
    for record in records.values():
        case = cases[str(record.seed)]
        found = properties(case)
        assert found == {
            "vla_case": record.case, "vla_suite": "libero_goal", "vla_task": "turn_on_the_stove",
            "vla_seed": str(record.seed), "vla_outcome": record.outcome, "vla_steps": str(record.steps),
            "vla_digest": record.digest, "vla_node": record.node, "vla_run": run,
        } | ({"vla_reason": record.reason} if record.reason else {})  # fmt: skip
    # Neither twice nor as another sort.
    told = {
        seed: [each.tag for each in case if each.tag in ("error", "failure", "skipped")] for seed, case in cases.items()
    }
    assert told == {"0": [], "1": ["failure"], "2": ["error"]}
    assert "error policy-raised after 0 of 300 steps" in str(ElementTree.tostring(cases["2"]))
    assert "provenance" not in (project.path / "out.xml").read_text()


def test_junit_files_have_variations_and_invalid_episodes_as_skipped(vla: Run, project: pytest.Pytester) -> None:
    rule = "--vla-stop-when=action_position_instability>=0 for 1"
    vla(*STOVE, "--vla-model=policies:still", "--vla-vary=action.delay:1", rule, "--junit-xml=out.xml")
    (case,) = cases_of_junit(project).values()
    assert properties(case)["vla_variation"] == "action.delay-L1"
    assert (properties(case)["vla_outcome"], properties(case)["vla_reason"]) == ("invalid", "stopped-early")
    assert [each.tag for each in case if each.tag in ("error", "failure", "skipped")] == ["skipped"]


def test_the_debugger_stops_where_an_episode_failed(vla: Run) -> None:
    result = vla(*STOVE, "--vla-model=policies:still", "--pdb", "--vla-timeout=60")
    result.stdout.fnmatch_lines(["*not done after 300 of 300 steps*", "*entering PDB*", "*(Pdb)*"])
    assert "INTERNALERROR" not in result.stdout.str()


def test_the_failed_first_and_the_slowest(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        second="""
        import numpy as np
        def policy(episode):
            return lambda observation: np.array([[float(episode.seed != 2), 0, 0, 0, 0, 0, 0]] * 20)
        """
    )
    arguments = (*STOVE, "--vla-model=second:policy", "--vla-seeds=0-2")
    vla(*arguments).assert_outcomes(passed=2, failed=1)
    result = vla(*arguments, "--ff", "--durations=2", "-vv")
    assert [record.seed for record in records_of(project.path / ".vla")] == [2, 0, 1]
    result.stdout.fnmatch_lines(["*slowest 2 durations*", "*s setup *libero_goal::test_episode*"])


def test_what_a_policy_says_is_not_obeyed_by_a_terminal(vla: Run, project: pytest.Pytester) -> None:
    text = "\x1b]0;mine\x07\x1b[2J\x9b1m"
    project.makepyfile(
        hostile=f"def policy(episode):\n    raise ValueError({text!r})\n", test_own="def test_own(): pass\n"
    )
    result = vla(*STOVE, "--vla-model=hostile:policy", "-vv", "--color=no", "-rA")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["error policy-raised after 0 of 300 steps: *ValueError: ?]0;mine??[[]2J?1m (*"])
    shown = result.stdout.str() + result.stderr.str()
    assert not {c for c in shown if not c.isprintable() and c != "\n"}
    (record,) = last_records(project).values()
    assert text in str(record.message), "data are as they were"
