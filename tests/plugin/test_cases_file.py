"""``--vla-cases``: changes that stand in a file are items, which are recorded, run again by id, and gone on with."""

from collections.abc import Callable

import numpy as np  # noqa: F401  # Before pytester, which would have it imported twice.
import pytest

from pytest_vla.metrics.language import subjects, types_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.store import open_store
from pytest_vla.show.restored import given_back
from tests.support.runs import records_of
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]

CASES = """\
schema = 1

[[case]]
suite = "libero_goal"
task = "turn_on_the_stove"
seed = 2
about = "the one that Jo found"

[case.changes."action.delay"]
steps = 2

[case.changes."noise.gaussian"]
deviation = 0.1
seed = 5

[[case]]
suite = "libero_goal"
task = "turn_on_the_stove"
seed = 0
"""


@BOTH
def test_the_files_cases_are_items_with_ids(vla: Run, project: pytest.Pytester, workers: str) -> None:
    (project.path / "cases.toml").write_text(CASES)
    result = vla("--vla-cases=cases.toml", "--vla-model=policies:straight", workers)
    result.assert_outcomes(passed=2)
    first, second = sorted(records_of(project.path / ".vla"), key=lambda record: -record.seed)
    label = first.variation["label"]
    assert first.node == f"libero_goal::test_episode[turn_on_the_stove-{label}-seed2]"
    assert first.variation["dimension"] == "noise+action"
    assert first.variation["parameters"] == {
        "noise.gaussian.deviation": 0.1, "noise.gaussian.seed": 5,
        "action.delay.steps": 2, "action.delay.milliseconds": 100.0,
    }  # fmt: skip
    assert second.variation == {}
    assert first.is_given
    assert second.is_given, "it was chosen, though nothing is changed"
    again = vla(first.node, "--vla-cases=cases.toml", "--vla-model=policies:straight", workers)
    again.assert_outcomes(passed=1)
    (record,) = records_of(project.path / ".vla", "last")
    assert (record.node, record.digest) == (first.node, first.digest)
    unknown = vla(first.node, "--vla-model=policies:straight", workers)
    assert unknown.ret == pytest.ExitCode.USAGE_ERROR
    unknown.stderr.fnmatch_lines(["*are unknown; run it with the file of cases that lists them (--vla-cases)*"])


def test_twins_and_a_suite_beside_the_file(vla: Run, project: pytest.Pytester) -> None:
    (project.path / "cases.toml").write_text(CASES)
    result = vla("--vla-cases=cases.toml", "--vla-twins=auto", "--vla-model=policies:straight", "--collect-only", "-q")
    found = [line for line in result.outlines if line.startswith("libero_goal::")]
    assert found[0] == "libero_goal::test_episode[turn_on_the_stove-seed2]"
    assert len(found) == 5, "the case, its twin, its two changes alone, and the other case"
    whole = ("--vla-suite=libero_goal", "--vla-tasks=stove", "--vla-model=policies:straight", "--collect-only", "-q")
    alone = [line for line in vla(*whole).outlines if "::" in line]
    beside = [line for line in vla(*whole, "--vla-cases=cases.toml").outlines if "::" in line]
    assert len(beside) == len(alone) + 1, "one of the file's is the suite's own"


@BOTH
def test_what_the_file_names_as_it_is_is_in_no_rate_but_of_a_suite_beside_it(
    vla: Run, project: pytest.Pytester, workers: str
) -> None:
    """Two cases, and the twin of one: counts alone. What the suite's own selection has too is the suite's."""
    (project.path / "cases.toml").write_text(CASES)
    asked = ("--vla-cases=cases.toml", "--vla-twins=auto", "--vla-model=policies:straight", workers)
    result = vla(*asked, "--vla-min-success=.9")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "  given: benign *2      2/2  given *",
            "not judged: 5 given cases (--vla-cases), not part of any rate",
            "vla: failed (--vla-min-success=90%): no episode of a suite was judged",
        ]
    )
    with open_store(project.path / ".vla", create=False) as store:
        assert all(count.is_given for count in store.run("last").counts)
    result = vla(*asked, "--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
    assert [record.seed for record in records_of(project.path / ".vla", "last") if not record.is_given] == [0]
    result.stdout.fnmatch_lines(["  benign *1      1/1 *"])


def test_a_stopped_run_goes_on_with_the_files_cases(vla: Run, project: pytest.Pytester) -> None:
    (project.path / "cases.toml").write_text(CASES)
    result = vla("--vla-cases=cases.toml", "--vla-model=policies:straight", "-k", "seed0")
    result.assert_outcomes(passed=1, deselected=1)
    resumed = vla("--vla-resume")
    assert resumed.ret == 0
    resumed.stdout.fnmatch_lines(["*nothing is left*"])


def test_a_file_that_is_wrong_ends_the_run_before_it_begins(vla: Run, project: pytest.Pytester) -> None:
    (project.path / "cases.toml").write_text(CASES.replace("steps = 2", "steps = 20"))
    result = vla("--vla-cases=cases.toml", "--vla-model=policies:straight")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*cases.toml:10: case[[]0].steps: action.delay: steps: expected 0 to 5 *found 20*"])
    assert not (project.path / ".vla").exists()


REWORDED = """\
schema = 1

[[case]]
suite = "libero_goal"
task = "turn_on_the_stove"
seed = 0

[case.changes."language.paraphrase"]
action_type = "none"
instruction = "turn on the range"
object_type = "same_polarity_habitual"
original = "turn on the stove"

[[case]]
suite = "libero_goal"
task = "turn_on_the_stove"
seed = 0

[case.changes."language.words"]
instruction = "switch on the stove"
"""


def test_a_reworded_task_is_a_paraphrase_in_records_and_reports(vla: Run, project: pytest.Pytester) -> None:
    (project.path / "cases.toml").write_text(REWORDED)
    vla("--vla-cases=cases.toml", "--vla-model=policies:straight").assert_outcomes(passed=2)
    records = records_of(project.path / ".vla")
    told = {record.variation["kind"]: record for record in records}
    assert {kind: record.instruction for kind, record in told.items()} == {
        "paraphrase": "turn on the range", "words": "switch on the stove"
    }  # fmt: skip
    assert types_of(told["paraphrase"]) == ("same_polarity_habitual", "none")
    task = load_suite("libero_goal").task("turn_on_the_stove")
    for record in records:
        label, parameters = record.variation["label"], record.variation["parameters"]
        again = given_back(task, label, parameters, record.instruction)
        assert again is not None
        assert (again.instruction, again.label) == (record.instruction, label)
    # They were chosen: in no rate, and in no PRIDE.
    assert subjects(records) == ()
    report = project.runpython_c("from pytest_vla.cli import main; raise SystemExit(main(['report']))")
    assert report.ret == 0
    report.stdout.fnmatch_lines(["*2 given cases*2 succeeded*"])
