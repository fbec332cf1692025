"""A project's conftest.py adds a suite, a policy, a variation, a metric, and is told of every episode."""

import sys
from collections.abc import Callable

import pytest

from tests.support.runs import records_of

Run = Callable[..., pytest.RunResult]

CONFTEST = """
    from pathlib import Path
    import numpy as np
    from pytest_vla.entries import MetricEntry, PolicyEntry, SuiteEntry, VariationEntry
    from pytest_vla.plan.manifests import suite_folder
    from pytest_vla.scene.variation import Edits
    from pytest_vla.vary.kind import VariationKind

    def pytest_vla_suites():
        import pytest_vla.suites
        libero = Path(pytest_vla.suites.__path__[0]) / "libero"
        return [SuiteEntry("mine", "LIBERO-Goal by another name", folder=libero, manifest="libero_goal.toml")]

    def pytest_vla_policies():
        return [PolicyEntry("pusher", "pushes", ":pusher")]

    def pytest_vla_variations():
        return [VariationEntry("mine", "a polite robot", ":KINDS")]

    def pytest_vla_metrics():
        return [MetricEntry("first_push", "the first action's x", ":first_push"),
                MetricEntry("broken", "raises", ":broken")]

    def pytest_vla_episode_finished(record):
        with open("finished.txt", "a") as stream:
            stream.write(f"{record.case} {record.outcome}\\n")
        raise OSError("the server is gone")

    def pusher(text, speed=1.0):
        return lambda episode: lambda observation: np.array([speed, 0, 0, 0, 0, 0, -1])

    def polite(task, params):
        return Edits(instruction=f"please {task.language}")

    KINDS = (VariationKind("mine.polite", "says please", "a test", lambda draw: {}, polite),)

    def first_push(record, trajectory):
        return trajectory.actions[0, 0] if record.task != "open_the_middle_drawer_of_the_cabinet" else None

    def broken(record, trajectory):
        raise KeyError("x")
"""


@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_a_conftest_adds_to_a_run(vla: Run, project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    project.makeconftest(CONFTEST)
    result = vla(
        *("--vla-suite=mine", "--vla-tasks=turn_on_the_stove", "--vla-vary=mine.polite", "--vla-twins=auto"),
        *("--vla-model=pusher?speed=0.5", *workers),
    )
    result.assert_outcomes(passed=2, warnings=2)
    result.stdout.fnmatch_lines(["*vla: *conftest.py: pytest_vla_episode_finished raised OSError: the server is gone*"])
    assert str(result.stdout).count("the server is gone") == 1
    result.stdout.fnmatch_lines(["*metric broken (*conftest.py) raised KeyError*"])
    twin, varied = sorted(records_of(project.path / ".vla"), key=lambda record: len(record.case))
    assert (twin.suite, twin.policy, varied.instruction) == ("mine", "pusher?speed=0.5", "please turn on the stove")
    assert [record.metrics["first_push"] for record in (twin, varied)] == [0.5, 0.5]
    assert twin.policy_digest is not None
    told = (project.path / "finished.txt").read_text().splitlines()
    assert sorted(told) == sorted(f"{record.case} success" for record in (twin, varied))


def test_a_conftest_s_metric_is_in_the_summary_and_in_the_report(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(CONFTEST)
    tasks = "--vla-tasks=turn_on_the_stove,open_the_middle_drawer_of_the_cabinet"
    result = vla("--vla-suite=mine", tasks, "--vla-seeds=0-2", "--vla-model=pusher?speed=0.5")
    result.assert_outcomes(passed=6, warnings=6)
    told = [
        "first_push: the first action's x",
        "number      of    episodes  mean, these tasks",
        "broken      mine         0                  -",
        "first_push  mine         3                0.5",
        "note: broken is missing from 6 of 6 episodes: mine/*[[]seed0[]],",
        "      mine/*",
        "      mine/* and 3 more",
        "note: first_push is missing from 3 of 6 episodes: mine/open_the_middle_drawer_of_the_cabinet[[]seed0[]],*",
    ]
    result.stdout.fnmatch_lines(told)
    # Where nobody knows who gave it, what was kept is told all the same.
    lines = project.run(sys.executable, "-c", "from pytest_vla.cli import main; main(['report'])").outlines
    start = lines.index("=== pusher?speed=0.5, mine ===")
    assert lines[start + 1 : start + 3] == [
        "number      episodes  mean, these tasks",
        "first_push         3                0.5",
    ]
    assert lines[start + 3].startswith("note: first_push is missing from 3 of 6 episodes: mine/open_the_middle")


def test_another_argument_is_another_policy(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_models =\n    slow = tuned:policy?gain=0.5\n")
    project.makepyfile(
        tuned="""
        import numpy as np
        def policy(episode, gain=1.0):
            return lambda observation: np.array([gain, 0, 0, 0, 0, 0, -1])
        """
    )
    base = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
    found = {}
    for model in ("slow", "slow?gain=0.25", "tuned:policy?gain=0.5", "tuned:policy"):
        vla(*base, f"--vla-model={model}").assert_outcomes(passed=1)
        (record,) = records_of(project.path / ".vla")
        found[record.policy] = record
    steps = {name: record.steps for name, record in found.items()}
    assert steps["slow?gain=0.25"] > steps["slow"] == steps["tuned:policy?gain=0.5"] > steps["tuned:policy"]
    digests = [found[name].policy_digest for name in steps]
    assert digests[0] == digests[2], "the same policy by another name"
    assert len({*digests}) == 3
    refused = vla(*base, "--vla-model=slow?gian=1")
    refused.stdout.fnmatch_lines(["*takes no argument 'gian'. Did you mean gain?*"])
    assert refused.ret != 0


@pytest.mark.parametrize(
    ("name", "meant", "arguments"),
    [
        ("pytest_vla_sutes", "Did you mean pytest_vla_suites?", ("--vla-suite=sutes", "--vla-model=policies:straight")),
        ("pytest_vla_sutes", "Did you mean pytest_vla_suites?", ("-n1",)),
        ("pytest_vla_xyzzy", "Known: pytest_vla_suites, *", ()),
    ],
)
def test_a_hook_that_is_misspelt_stops_pytest(
    vla: Run, project: pytest.Pytester, name: str, meant: str, arguments: tuple[str, ...]
) -> None:
    project.makeconftest(f"def {name}(): return []\n")
    result = vla(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *conftest.py: {name} is not a hook of pytest-vla. {meant}"])


def test_a_misspelt_hook_is_found_while_tests_are_collected(vla: Run, project: pytest.Pytester) -> None:
    below = project.mkdir("below")
    (below / "conftest.py").write_text("def pytest_vla_sutes(): return []\n")
    (below / "test_below.py").write_text("def test_it(): pass\n")
    result = vla()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "INTERNALERROR" not in result.stdout.str()
    result.stderr.fnmatch_lines(["ERROR: *conftest.py: pytest_vla_sutes is not a hook of *mean pytest_vla_suites?"])


def test_a_hook_of_a_later_version_may_be_optional(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest("import pytest\n\n@pytest.hookimpl(optionalhook=True)\ndef pytest_vla_sutes(): return []\n")
    vla().assert_outcomes(passed=2)


BROKEN = """
    import os, pathlib
    from pytest_vla.entries import SuiteEntry, VariationEntry
    from pytest_vla.scene.variation import Edits
    from pytest_vla.vary.kind import LEVELS, VariationKind
    from pytest_vla.vary.space import NUMBER, Parameter

    def pytest_vla_suites():
        return [SuiteEntry("point", "a point", ":suite")]

    def pytest_vla_variations():
        return [VariationEntry("ours", "breaks", ":KINDS")]

    def suite():
        from pytest_vla.testing import point_suite
        return point_suite()

    def sample(draw):
        return {{"amount": draw.share{more}}}

    def apply(task, params):
        calls.append(task)
        {line}
        return Edits(pictures=(lambda: lambda picture, camera, step: picture{end},))

    calls = []
    KINDS = (VariationKind("ours.odd", "breaks", "a test", sample, apply,
                           lambda task: (Parameter("amount", NUMBER, 0, 1, 0),), levels=LEVELS, needs=()),)

    def policy(episode):
        return lambda seen: [float(seen["front_image"].mean() * 0 + 1), 0.0]
"""
PLAIN = {"line": "pass", "more": "", "end": ""}


def _breaking(project: pytest.Pytester, **changed: str) -> None:
    project.makeconftest(BROKEN.format(**PLAIN | changed))


@pytest.mark.parametrize("workers", [(), ("-n2",)])
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"line": "1 / 0"}, "apply raised ZeroDivisionError"),
        ({"more": " + 7"}, "amount: expected 0 to 1, found"),
    ],
)
def test_a_kind_that_breaks_while_episodes_are_planned_stops_the_run(
    vla: Run, project: pytest.Pytester, workers: tuple[str, ...], changed: dict[str, str], told: str
) -> None:
    _breaking(project, **changed)
    result = vla("--vla-suite=point", "--vla-model=conftest:policy", "--vla-vary=ours.odd", *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: variation-broken: *conftest.py: the kind ours.odd: *{told}*"])
    assert "INTERNALERROR" not in str(result.stdout) + str(result.stderr)


@pytest.mark.parametrize("workers", [(), ("-n2",)])
@pytest.mark.parametrize("end", ["[:5]", " / 255", " * float('nan')", ".gone"])
def test_a_kind_that_breaks_in_an_episode_is_an_error_of_its_own(
    vla: Run, project: pytest.Pytester, workers: tuple[str, ...], end: str
) -> None:
    _breaking(project, end=end)
    vla(
        "--vla-suite=point",
        "--vla-tasks=push_the_point",
        "--vla-model=conftest:policy",
        "--vla-vary=ours.odd:2",
        *workers,
    )
    (record,) = records_of(project.path / ".vla")
    assert (record.outcome, record.reason) == ("error", "variation-broken")
    assert "the kind ours.odd: a picture edit" in str(record.message)


def test_a_kind_that_breaks_before_its_episode_begins_leaves_a_record(vla: Run, project: pytest.Pytester) -> None:
    """The changes of a file of cases are made again for each episode."""
    _breaking(project, line="if len(calls) > 2: raise KeyError(len(calls))")
    case = '[[case]]\nsuite = "point"\ntask = "push_the_point"\nseed = 0\n[case.changes."ours.odd"]\namount = 0.5\n'
    (project.path / "cases.toml").write_text("schema = 1\n" + case)
    vla("--vla-cases=cases.toml", "--vla-model=conftest:policy")
    (record,) = records_of(project.path / ".vla")
    assert (record.outcome, record.reason) == ("error", "variation-broken")
    assert (record.variation["dimension"], record.variation["kind"]) == ("ours", "odd")


def test_a_search_with_a_broken_kind_says_whose_it_is(project: pytest.Pytester) -> None:
    _breaking(project, line="1 / 0")
    model = ("--vla-suite=point", "--vla-model=conftest:policy", "--dimensions=ours", "--scenes=2")
    done = project.run(sys.executable, "-m", "pytest_vla.cli", "-p", "conftest", "fuzz", *model)
    assert done.ret == 1
    done.stderr.fnmatch_lines(["*variation-broken: *the kind ours.odd: apply raised ZeroDivisionError*"])
