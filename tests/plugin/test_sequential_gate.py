"""``--vla-gate=sequential``: groups stop when they are decided, and what is left of them is skipped and never lost."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
import scipy.special  # noqa: F401  # Before pytester, which would have it imported twice.

from pytest_vla.cli import main
from pytest_vla.records.store import open_store
from tests.support import fake_repeats
from tests.support.gate_runs import Run, base_in
from tests.support.runs import run_names
from tests.support.workers import BOTH

TWO = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove,open_the_middle_drawer_of_the_cabinet")
TEN = (*TWO, "--vla-episodes=10")
ALL, NONE, MOST, BROKEN, CUT = (f"--vla-model=upto:{name}" for name in ("all", "none", "most", "broken", "cut"))
GATE = ("--vla-baseline=base.json", "--vla-gate=sequential", "--vla-margin=60", "--vla-regression=any")
"""Six pairs that all end as before are within the margin, and eight that are all lost are a regression."""

POLICIES = """
import signal
import numpy as np
from pathlib import Path

def moving(does):
    return lambda observation: np.array([[float(does), 0, 0, 0, 0, 0, 0]] * 20)

def all(episode):
    return moving(True)

def none(episode):
    return moving(False)

def most(episode):
    return moving(episode.seed != 3)

def broken(episode):
    if episode.task.startswith("turn") and not Path("mended").exists():
        raise RuntimeError("no more")
    return moving(True)

def cut(episode):
    with open("begun", "a") as file:
        file.write("x")
    if Path("begun").stat().st_size == 4:
        signal.raise_signal(signal.SIGINT)
    return moving(True)
"""


@pytest.fixture(autouse=True)
def upto(project: pytest.Pytester) -> None:
    """Policies that do all, nothing, all seeds but 3; that break in one task; that are interrupted at the fourth."""
    project.makepyfile(upto=POLICIES)


@pytest.fixture
def base(vla: Run, project: pytest.Pytester, kept: dict[str, str]) -> Path:
    """A baseline of two tasks from ten seeds each, all of them done."""
    return base_in(project, vla, kept, *TEN, ALL)


def verdict_of(text: str) -> str:
    """The gate's verdict."""
    (line,) = (line for line in text.splitlines() if line.startswith("gate: "))
    return line


def afterwards(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """`pytest-vla gate` of the last run."""
    capsys.readouterr()
    code = main(["gate", "--baseline=base.json", *arguments])
    out, errors = capsys.readouterr()
    return code, out + errors


def statuses(project: pytest.Pytester) -> dict[str, int]:
    """How the items of the last run ended, and how many of each."""
    with open_store(project.path / ".vla", create=False) as store:
        found = [str(item.status) for item in store.items(store.run("last").name)]
    return {status: found.count(status) for status in sorted({*found})}


@pytest.mark.usefixtures("base")
def test_what_is_no_worse_stops(vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    result = vla(*TEN, ALL, *GATE, "-rs", "--junitxml=junit.xml")
    assert result.ret == 0
    result.assert_outcomes(passed=7, skipped=14)
    reason = "decided: libero_goal[benign] is no worse after 6 of 20 pairs"
    lines = [
        "14 of 20 episodes skipped: the gate had already decided*",
        "gate: no worse (margin 60 points, alpha 5% per side, any loss is a regression, sequential)",
        "libero_goal[[]benign[]]: no worse after 6 of 20 pairs (3 of 10 rounds): 100.0% -> 100.0%, *",
        "vla: passed (--vla-baseline=base.json)",
        f"SKIPPED [[]14[]] *: {reason.replace('[', '[[]', 1)}",
    ]
    result.stdout.fnmatch_lines(lines)
    assert "not in the run" not in result.stdout.str(), "what was skipped is no lack"
    cases = [*ElementTree.parse(project.path / "junit.xml").iter("testcase")]
    assert len(cases) == 21
    assert [each.get("message") for case in cases for each in case.iter("skipped")] == [reason] * 14
    assert statuses(project) == {"decided": 14, "passed": 6}
    code, told = afterwards(capsys)
    assert code == 0
    assert "compared: the same cases, sequentially, in whole rounds" in told
    assert verdict_of(told) == verdict_of(result.stdout.str()), "the same verdict in the same words"


@pytest.mark.usefixtures("base")
def test_with_workers_a_regression_stops(vla: Run, capsys: pytest.CaptureFixture[str]) -> None:
    result = vla(*TEN, NONE, *GATE, "-n2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1
    assert outcomes["skipped"] >= 8, "at most two of each worker were on their way"
    told = "regression after 8 of 20 pairs"
    lines = [
        "gate: regression *, sequential)",
        f"libero_goal[[]benign[]]: {told} (4 of 10 rounds): 100.0% -> 0.0%, *",
        "vla: failed (*): the gate says regression",
    ]
    result.stdout.fnmatch_lines(lines)
    code, told = afterwards(capsys)
    assert code == 1
    assert verdict_of(told) == verdict_of(result.stdout.str())


@pytest.mark.usefixtures("base")
def test_the_order_is_agreed_and_rounds_have_each_task(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*TEN, MOST, *GATE[:2], "--vla-margin=5", "-v")
    assert result.ret == 0
    told = " ".join(result.stdout.str().split())
    assert "alpha 5% per side; sequential, 10 rounds; fails on regression" in told
    assert "; a group stops after the round that shows regression, no worse or better; order " in told
    with open_store(project.path / ".vla", create=False) as store:
        manifest = store.run("last").invocation["gate"]
    assert manifest["rule"] == "sequential"
    assert manifest["rounds"] == {"libero_goal[benign]": 10}
    assert manifest["run_seed"] == 0
    ran = [line for line in result.stdout.lines if line.startswith("libero_goal::")]
    tasks = [line.partition("[")[2].partition("-")[0] for line in ran]
    assert all(len({*tasks[place : place + 2]}) == 2 for place in range(0, 20, 2))
    seeds = [line.partition("-")[2].partition("]")[0] for line in ran if "[turn" in line]
    assert seeds != sorted(seeds)
    told = "undecided after 20 of 20 pairs"
    result.stdout.fnmatch_lines([f"libero_goal[[]benign[]]: {told} (10 of 10 rounds, not decided before)"])


@pytest.mark.usefixtures("base")
def test_errors_are_what_they_might_have_been(vla: Run, project: pytest.Pytester) -> None:
    """One of two tasks breaks: no more than half of the pairs could be lost, which is within no margin of 40 points."""
    result = vla(*TEN, BROKEN, *GATE, "--vla-margin=40")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=10, errors=10, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "gate: undecided *",
            "libero_goal[[]benign[]]: undecided after 20 of 20 pairs (10 of 10 rounds, not decided before): *",
            "libero_goal[[]benign[]]: errors: regression if they count as failures, no worse if they *",
        ]
    )
    # Mended, they succeed, but the errors were the policy's own: what they would have been is as unknown as before.
    (project.path / "mended").touch()
    result = vla("--vla-resume")
    assert result.ret == 0
    result.assert_outcomes(passed=10, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "gate: undecided *",
            "libero_goal[[]benign[]]: errors: regression if they count as failures, no worse if they *",
            "vla: not shown *",
        ]
    )


@pytest.mark.usefixtures("base")
def test_what_is_decided_whatever_broke_stops(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(upto=POLICIES.replace('startswith("turn")', 'startswith("turn") and episode.seed == 4'))
    result = vla(*TEN, BROKEN, *GATE, "-v")
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "an error is an error"
    result.stdout.fnmatch_lines(["libero_goal[[]benign[]]: no worse after * of 20 pairs (* of 10 rounds)"])
    assert result.parseoutcomes()["skipped"] > 4


@pytest.mark.usefixtures("base")
def test_a_run_that_was_cut_off_goes_on_in_the_same_order(
    vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = vla(*TEN, ALL, *GATE, "-v")
    ran = [line.partition("]")[0] for line in whole.stdout.lines if line.startswith("libero_goal::")]
    result = vla(*TEN, CUT, *GATE)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert statuses(project) == {"None": 17, "passed": 3}
    assert afterwards(capsys)[0] == 2, "it has not ended"
    told = afterwards(capsys, "--allow-unfinished")[1]
    assert "libero_goal[benign]: undecided after 2 of 20 pairs (1 of 10 rounds, not decided before)" in told
    result = vla("--vla-resume", "-v")
    assert result.ret == 0
    again = [line.partition("]")[0] for line in result.stdout.lines if line.startswith("libero_goal::")]
    assert again == ran[3:]
    result.assert_outcomes(passed=4, skipped=14)
    result.stdout.fnmatch_lines(["libero_goal[[]benign[]]: no worse after 6 of 20 pairs (3 of 10 rounds)"])


@BOTH
@pytest.mark.usefixtures("base")
def test_what_is_decided_is_skipped_again(vla: Run, project: pytest.Pytester, workers: str) -> None:
    first = vla(*TEN, ALL, *GATE)
    assert statuses(project) == {"decided": 14, "passed": 6}
    result = vla("--vla-resume", workers)
    assert result.ret == 0
    result.assert_outcomes(passed=1, skipped=14)
    told = (
        "vla: skips 14 episodes of these, as the gate has decided: libero_goal[[]benign[]] is no worse after 6 of 20 "
    )
    result.stdout.fnmatch_lines([f"{told}pairs"])
    assert verdict_of(result.stdout.str()) == verdict_of(first.stdout.str())
    assert statuses(project) == {"decided": 14, "passed": 6}
    result = vla("--vla-resume", "--vla-gate=fixed")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.usefixtures("base")
def test_a_rerun_turns_no_failure_into_a_success(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(fake_repeats=Path(fake_repeats.__file__).read_text())
    result = vla("-p", "fake_repeats", *TEN, NONE, *GATE, "--reruns=2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["libero_goal[[]benign[]]: regression after 8 of 20 pairs *"])


@pytest.mark.usefixtures("base")
def test_each_group_stops_by_itself(vla: Run, project: pytest.Pytester) -> None:
    """Tasks as groups: rounds of one seed each, and what one has lost is not mixed with what the other has not."""
    project.makepyfile(upto=POLICIES.replace("episode.seed != 3", 'episode.task.startswith("turn")'))
    result = vla(*TEN, MOST, *GATE, "--vla-gate-by=task")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "gate: regression: open_the_middle_drawer_of_the_cabinet *",
            "open_the_middle_drawer_of_the_cabinet: regression after * of 10 pairs (*",
            "turn_on_the_stove: no worse after 5 of 10 pairs (5 of 10 rounds): *",
        ]
    )


@pytest.mark.usefixtures("base")
def test_afterwards_it_is_judged_by_what_was_agreed(vla: Run, capsys: pytest.CaptureFixture[str]) -> None:
    vla(*TEN, ALL, *GATE)
    told = "a run with a sequential gate can only be judged by its own gate plan: "
    for option, why in (
        ("--margin=5", "margin differs from the run's gate plan: using 5 points; planned 60 points"),
        ("--alpha=.1", "alpha differs from the run's gate plan: using 0.1; planned 0.05"),
        ("--by=suite", "grouping differs from the run's gate plan: using suite; planned suite,dimension"),
        ("--unpaired", "comparison differs from the run's gate plan: using --unpaired; planned pairs"),
    ):
        code, text = afterwards(capsys, option)
        assert code != 0
        assert told + why in " ".join(text.split())
    code, text = afterwards(capsys, "--json")
    table = json.loads(text)
    assert table["rule"] == "sequential"
    progress = {"decided": True, "rounds": 3, "of_rounds": 10, "pairs": 6, "of_pairs": 20, "rest": 0}
    assert table["groups"]["libero_goal[benign]"]["progress"] == progress
    told = " ".join(afterwards(capsys, "--require=better")[1].split())
    assert "note: requirement differs from the run's gate plan: using better" in told


@pytest.mark.usefixtures("base")
def test_what_is_left_is_no_baseline(vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    vla(*TEN, ALL, *GATE)
    assert main(["baseline", "save", "-o", "next.json"]) != 0
    assert "a sequential gate skipped 14 of 20 episodes" in " ".join(capsys.readouterr().err.split())
    assert not (project.path / "next.json").exists()
    (run,) = run_names(project.path / ".vla")
    assert vla(*TEN, ALL, f"--vla-baseline={run}").ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["--vla-seeds=30-39"],
            "ERROR: --vla-gate=sequential compares pairs, but no case of the run is in base.json *",
        ),
        (["--vla-min-success=.5"], "ERROR: --vla-gate=sequential skips episodes, but --vla-min-success needs *"),
        (["-n2", "--dist=worksteal"], "ERROR: --dist=worksteal: a sequential gate needs its rounds in order*"),
        (
            ["test_own.py"],
            "ERROR: --vla-gate=sequential: test_own.py::* is one of your own tests, and its assertions *",
        ),
        (
            ["--vla-cases=one.toml"],
            "ERROR: --vla-gate=sequential: libero_goal::*-seed30* is a given case (--vla-cases), *",
        ),
    ],
    ids=lambda each: each[-1] if isinstance(each, list) else "",
)
@pytest.mark.usefixtures("base")
def test_bad_input_is_told_before_any_episode(
    vla: Run, project: pytest.Pytester, options: list[str], told: str
) -> None:
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove")
        def test_it(rollout): pass
        """
    )
    named = f'suite = "libero_goal"\ntask = "{TWO[1].rpartition(",")[2]}"\nseed = 30'
    (project.path / "one.toml").write_text(f"schema = 1\n\n[[case]]\n{named}\n")
    seeds = [] if any("seeds" in option for option in options) else [TEN[-1]]
    result = vla(*TWO, *seeds, ALL, *GATE, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])
    assert not (project.path / ".vla").exists(), "nothing is written"


@pytest.mark.usefixtures("base")
@pytest.mark.parametrize(("episodes", "is_told"), [(2, True), (10, False)])
def test_too_few_rounds_are_told_before_the_first_episode(vla: Run, episodes: int, is_told: bool) -> None:
    result = vla(*TWO, f"--vla-episodes={episodes}", ALL, *GATE)
    told = f"too few rounds to detect a regression, even without any success: libero_goal[benign] has {episodes}"
    assert (told in result.stdout.str()) == is_told
