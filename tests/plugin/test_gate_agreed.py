"""``--vla-baseline``: what is agreed before the first episode, other ways to ask, and what makes no sense."""

import json
import re
from pathlib import Path

import pytest
import scipy.special  # noqa: F401  # Before pytester, which would have it imported twice.

from pytest_vla.cli import main
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.baseline_file import write_baseline
from pytest_vla.records.store import open_store
from tests.support.batched import BATCHED
from tests.support.gate_runs import ALL, BASELINE, EIGHT, FOUR, POLICIES, STOVE, WIDE, Run, afterwards
from tests.support.runs import records_of, run_names
from tests.support.waiting import RUN_OUT
from tests.support.workers import ALONE, BOTH


@pytest.fixture(autouse=True)
def upto(project: pytest.Pytester) -> None:
    """Policies that do all seeds, those below 8, those below 4; all break at seed 20."""
    project.makepyfile(upto=POLICIES)


# What was agreed.


@pytest.mark.usefixtures("base")
def test_what_was_agreed_is_written_before_the_first_episode(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        looks=f"""
        import json, sqlite3
        import upto

        def policy(episode):
            rows = sqlite3.connect({str(project.path / ".vla" / "results.sqlite")!r}).execute(
                "SELECT invocation, (SELECT count(*) FROM episodes WHERE run = runs.name) FROM runs ORDER BY id DESC"
            )
            invocation, episodes = rows.fetchone()
            if episodes == 0:
                with open("agreed.json", "w") as file:
                    file.write(json.dumps(json.loads(invocation)["gate"]))
            return upto.all(episode)
        """
    )
    result = vla(*STOVE, "--vla-model=looks:policy", BASELINE, WIDE, "-v")
    assert result.ret == 0
    agreed = json.loads((project.path / "agreed.json").read_text())
    assert agreed | {"baseline": "", "baseline_digest": "", "cases_digest": ""} == {
        "baseline": "",
        "baseline_digest": "",
        "rule": "fixed",
        "margin": 60.0,
        "alpha": 0.05,
        "by": ["suite", "dimension"],
        "required": "no-regression",
        "cases": 10,
        "cases_digest": "",
        "is_paired": True,
        "groups": {"libero_goal[benign]": 10},
        "measures": [],
        "regression": "margin",
        "looks": [],
    }
    line = "gate plan: 10 cases vs base.json; margin 60 points, alpha 5% per side; fixed; fails on regression"
    said = " ".join(result.stdout.str().split())
    assert said.count(line) == 1, "when the run begins"
    digests = f"cases {agreed['cases_digest'][:8]}, baseline {agreed['baseline_digest'][:8]}"
    assert f"{digests}; cases by group: libero_goal[benign] 10" in said


@pytest.mark.usefixtures("base")
def test_afterwards_it_is_said_what_is_not_as_agreed(vla: Run, capsys: pytest.CaptureFixture[str]) -> None:
    vla(*STOVE, EIGHT, BASELINE)
    _, told = afterwards(capsys)
    assert "differs from the run's gate plan" not in told
    assert "gate plan: 10 cases vs " in told
    _, told = afterwards(capsys, "--margin=60", "--by=suite", "--require=no-worse", "--alpha=.1")
    lines = " ".join(told.partition("\nrun: ")[0].split()).split("note: ")[1:]
    assert [line.strip().partition(" differs from the run's gate plan: using ")[::2] for line in lines] == [
        ("margin", "60 points; planned 5 points"),
        ("alpha", "0.1; planned 0.05"),
        ("grouping", "suite; planned suite,dimension"),
        ("requirement", "no-worse; planned no-regression"),
    ]


def test_a_resumed_run_keeps_what_was_agreed(vla: Run, project: pytest.Pytester, base: Path) -> None:
    vla(*STOVE[:2], "--vla-seeds=20,0-9", ALL, BASELINE, "-x")
    (run,) = run_names(project.path / ".vla")
    for option, before, now in (("margin", "5", "10"), ("gate-by", "suite,dimension", "suite")):
        result = vla("--vla-resume", f"--vla-{option}={now}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*run {run} was started with --vla-{option}={before}, not with {now}: *"])
    changed = base.read_text().replace('"seed9]"', '"seed8]"').replace('"outcome": "success"', '"outcome": "failure"')
    kept = base.read_text()
    base.write_text(changed)
    result = vla("--vla-resume")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --vla-resume: the baseline base.json has changed since run {run} began: *"])
    base.write_text(kept)
    assert vla("--vla-resume").ret == pytest.ExitCode.TESTS_FAILED, "the same error again"


def test_a_run_may_be_the_baseline_and_last_stays_the_same_one(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, ALL)
    result = vla(*STOVE[:2], "--vla-seeds=20,0-9", ALL, "--vla-baseline=last", WIDE, "-x")
    first = run_names(project.path / ".vla")[0]
    result.stdout.fnmatch_lines([f"vla: gate plan: 11 cases vs {first}; *"])
    result = vla("--vla-resume")
    result.stdout.fnmatch_lines(["gate: no worse *", f"vla: failed (--vla-baseline={first}): *"])


@pytest.mark.usefixtures("base")
def test_looks_at_a_baseline_are_counted(
    vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one policy whose outcomes differ; the run keeps them, and all that tells of the gate says it once."""
    project.makepyfile(
        lucky="""
        import upto

        def policy(episode):
            return upto.moving(episode, episode.rng.random() < 0.5)
        """
    )
    asked = (*STOVE, "--vla-model=lucky:policy", BASELINE, "--vla-gate-summary=gate.json")

    def look() -> tuple[int, int]:
        (own, *_) = (run.invocation for run in open_store(project.path / ".vla", create=False).runs())
        found = json.loads((project.path / "gate.json").read_text())
        told = [text for text in found["notes"] if text.startswith("look ")]
        assert len(told) == (found["look"] > 1)
        return found["look"], len(own["gate"]["looks"])

    assert "look " not in vla(*asked, "--vla-run-seed=3").stdout.str()
    assert look() == (1, 1)
    vla(*asked, "--vla-run-seed=3")
    assert look() == (1, 1), "the same again"
    told = "look 2 of this comparison: the chance of a false regression adds up, to at most 10%"
    result = vla(*asked, "--vla-run-seed=4")
    assert look() == (2, 2)
    assert result.stdout.str().count(told) == 1
    assert afterwards(capsys)[1].count(told) == 1
    assert main(["report", "last", "-o", "page.html"]) == 0
    assert (project.path / "page.html").read_text().count(told) == 1
    vla(*STOVE, ALL, BASELINE, "--vla-gate-summary=gate.json")
    assert look() == (1, 1), "of another policy"


# Other ways to ask.


@pytest.mark.usefixtures("base")
def test_the_smallest_drop_that_is_found_is_told_before_the_first_episode(vla: Run) -> None:
    about = "vla: this run can detect"
    result = vla(*STOVE, ALL, BASELINE)
    (line,) = (line for line in result.stdout.lines if line.startswith(about))
    drop = re.fullmatch(rf"{about} a drop of (\d+) points or more \(80% power, simulated from the baseline\)", line)
    assert drop is not None, line
    # Five of ten have to be lost for p = 1/32: of 55 to 65% lost that is seen in four of five runs.
    assert 50 <= int(drop[1]) <= 70
    assert result.stdout.lines.index(line) == 1 + next(
        place for place, each in enumerate(result.stdout.lines) if each.startswith("vla: gate plan: ")
    )
    few = vla(*STOVE[:2], "--vla-episodes=4", ALL, BASELINE)
    few.stdout.fnmatch_lines([f"{about} no drop (80% power, simulated from the baseline)"])
    assert about not in vla(*STOVE, ALL, BASELINE, "-q").stdout.str()
    other = vla(*STOVE[:2], "--vla-seeds=30-39", ALL, BASELINE)
    other.stdout.fnmatch_lines(["vla: detectable drop: unknown, as no case of this run is in the baseline"])


@pytest.mark.usefixtures("base")
def test_other_seeds_are_compared_by_task(vla: Run) -> None:
    result = vla(*STOVE[:2], "--vla-seeds=30-39", ALL, BASELINE, "--vla-margin=90", "-v")
    result.stdout.fnmatch_lines(
        ["vla: gate plan: * (the same tasks, other seeds); *", "*; cases by group: libero_goal[[]benign[]] *"]
    )
    result.stdout.fnmatch_lines(["compared: the same tasks from other seeds (no case is in both)*", "gate: *"])


@pytest.mark.usefixtures("base")
def test_in_the_ini_file_it_is_for_runs_of_suites(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_baseline = base.json\nvla_margin = 60\n")
    result = vla("test_mine.py")
    assert result.ret == 0
    assert "gate" not in result.stdout.str()
    result = vla(*STOVE, ALL)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["gate: no worse (margin 60 *)", "vla: passed (--vla-baseline=base.json)"])
    project.makeini("[pytest]\nvla_baseline = nowhere.json\n")
    assert vla("test_mine.py").ret == 0
    assert vla(*STOVE, ALL).ret == pytest.ExitCode.USAGE_ERROR
    assert vla(*STOVE, ALL, "--collect-only").ret == 0


@pytest.mark.usefixtures("base")
def test_a_pasted_id_is_no_run_of_the_suite(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_baseline = base.json\n")
    result = vla("libero_goal::test_episode[turn_on_the_stove-seed5]", FOUR)
    result.assert_outcomes(failed=1)
    assert "gate" not in result.stdout.str(), "it says why the episode failed"
    result = vla("libero_goal::test_episode[turn_on_the_stove-seed5]", FOUR, BASELINE)
    result.stdout.fnmatch_lines(["gate: undecided (*; 9 cases of the baseline not in the run)"])


@pytest.mark.usefixtures("base")
def test_measures_beside_success_fail_the_run_too(
    vla: Run, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    project.makepyfile(
        slower="""
        import upto

        def policy(episode):
            still, act, asked = 3 + episode.seed % 3, upto.all(episode), []

            def answer(observation):
                asked.append(observation)
                return act(observation) * (len(asked) > still)

            return answer
        """
    )
    asked = (*STOVE, BASELINE, WIDE, "--vla-replan=1", "--vla-gate-measure=steps=100")
    assert vla(*STOVE, ALL, "--vla-replan=1", "--vla-results=one").ret == 0
    write_baseline(baseline_of(records_of(project.path / "one")), project.path / "base.json")
    files = ("--vla-gate-summary=out.md,gate.json", "--vla-gate-alpha=.04")
    result = vla(*asked, "--vla-model=slower:policy", *files)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["vla: gate plan: *alpha 4% per side*; also judged: steps=100"])
    result.stdout.fnmatch_lines(["gate: no worse *", "steps (margin 100)*no worse", "vla: passed (*)"])
    strict = ("--vla-gate-measure=steps", "--vla-gate-summary=out.md,gate.json")
    result = vla(*asked[:-1], "--vla-model=slower:policy", *strict)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line = "vla: failed (--vla-baseline=base.json): the gate says steps of libero_goal[benign] regression"
    assert result.stdout.lines.count(line) == 1
    found = json.loads((project.path / "gate.json").read_text())
    assert (found["verdict"], found["passed"]) == ("no worse", False)
    assert [each["verdict"] for each in found["measures"]] == ["regression"]
    assert "### gate: steps of libero\\_goal\\[benign\\] regression" in (project.path / "out.md").read_text()
    assert main(["report", "last", "-o", "page.html"]) == 0
    page = (project.path / "page.html").read_text()
    assert "failed by steps of libero_goal[benign] regression; no-regression required" in page
    assert "beside success: mean differences of pairs" in page
    code, told = afterwards(capsys, "--margin=60", "--measure=steps", "--json")
    assert code == 1
    assert json.loads(told) == {name: value for name, value in found.items() if name != "line"}
    told = "note: set of measures differs from the run's gate plan: using none; planned steps"
    assert told in " ".join(afterwards(capsys, "--margin=60")[1].split())


def test_tests_of_the_users_are_pairs_of_their_own_and_may_be_grouped(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=range(10), group="heat")
        def test_hot(rollout):
            assert rollout.steps

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=range(30, 40))
        def test_other(rollout):
            assert rollout.steps
        """
    )
    assert vla("test_mine.py", ALL, "--vla-results=first").ret == 0
    write_baseline(baseline_of(records_of(project.path / "first")), project.path / "base.json")
    result = vla("test_mine.py", ALL, BASELINE, WIDE, "--vla-gate-by=group,test", "-v")
    said = " ".join(result.stdout.str().split())
    assert "cases by group: -,test_mine.py::test_other 10, heat,test_mine.py::test_hot 10 " in said
    result.stdout.fnmatch_lines(["heat,test_mine.py::test_hot*", "gate: no worse *"])
    # Three items run each episode (--vla-episodes is for the user's tests too): no pair is counted twice.
    result = vla(*STOVE, "test_mine.py", ALL, BASELINE, WIDE, "-v")
    assert "30 cases" in result.stdout.str()
    result.stdout.fnmatch_lines(["*cases by group: libero_goal[[]benign[]] 10", "libero_goal[[]benign[]]*0/10 *"])
    project.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", group=7)
        def test_hot(rollout):
            pass
        """
    )
    vla("test_mine.py", ALL).stdout.fnmatch_lines(["*@pytest.mark.vla: group=7: expected a name of letters, *"])


# What makes no sense.


@pytest.mark.usefixtures("base")
def test_what_cannot_be_compared_is_told_before_the_first_episode(vla: Run, project: pytest.Pytester) -> None:
    file = project.path / "base.json"
    table = json.loads(file.read_text())
    table["common"]["provenance.mujoco"] = "3.0.1"
    file.write_text(json.dumps(table))
    result = vla(*STOVE, ALL, BASELINE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        [
            "ERROR: --vla-baseline=base.json: not comparable, whatever the outcomes:",
            "MuJoCo differs (baseline 3.0.1, run *; 10 cases): MuJoCo versions give different physics",
            "Install the versions of the baseline, or save a new baseline: *",
        ]
    )


@ALONE
@pytest.mark.usefixtures("base")
@pytest.mark.parametrize(
    ("option", "name", "before", "now"),
    [
        ("--vla-steps", "protocol.max_steps", 300, 50),
        ("--vla-settle-steps", "protocol.settle_steps", 10, 3),
        ("--vla-textures", "protocol.textures", None, "installed"),
        ("--vla-replan", "replan", None, 5),
    ],
)
def test_conditions_that_options_set_are_compared_before_the_first_episode(
    vla: Run, project: pytest.Pytester, workers: str, option: str, name: str, before: object, now: object
) -> None:
    file = project.path / "base.json"
    had = json.loads(file.read_text())["common"].get(name)
    assert before in (None, had)
    for seeds in ("--vla-seeds=0-9", "--vla-seeds=30,31"):
        result = vla(*STOVE[:2], seeds, ALL, BASELINE, f"{option}={now}", workers)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        mend = f"{option} sets it" if had is None else f"Use {option}={had}"
        shown = "whole chunks" if had is None else had
        result.stderr.fnmatch_lines(
            [
                "ERROR: --vla-baseline=base.json: not comparable, whatever the outcomes:",
                f"* differs (baseline {shown}, run {now}; *): *. {mend}",
                "Or save a new baseline: *",
            ]
        )
        assert not (project.path / ".vla").exists(), "nothing ran"
    if had is not None:
        assert vla(*STOVE, ALL, BASELINE, WIDE, f"{option}={had}", workers).ret == 0


@pytest.mark.usefixtures("base")
def test_the_replan_length_of_a_shared_policy_is_compared_once_it_is_loaded(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(batched=BATCHED, run_out=RUN_OUT)
    result = vla(*STOVE, "--vla-model=batched:policy", BASELINE, "-n1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    told = result.stderr.str() + result.stdout.str()
    assert "replan length differs (baseline whole chunks, run 3; 10 cases)" in told
    assert "--vla-replan sets it" in told
    assert not (project.path / ".vla" / "results.sqlite").exists()


@pytest.mark.usefixtures("base")
def test_a_baseline_that_differs_in_some_cases_is_compared(vla: Run, project: pytest.Pytester) -> None:
    file = project.path / "base.json"
    table = json.loads(file.read_text())
    table["cases"][0].setdefault("but", {})["protocol.max_steps"] = 50
    file.write_text(json.dumps(table))
    result = vla(*STOVE, ALL, BASELINE)
    result.stdout.fnmatch_lines(["*step budget differs (baseline 50, run 300; 1 case): *", "*Use --vla-steps=50*"])
    assert len(records_of(project.path / ".vla")) == 10


@pytest.mark.usefixtures("base")
@BOTH
def test_what_earlier_outcomes_picked_is_not_compared(vla: Run, project: pytest.Pytester, workers: str) -> None:
    vla(*STOVE, FOUR)
    result = vla(*STOVE, ALL, BASELINE, "--lf", workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "--lf selects items by their earlier outcomes" in result.stderr.str() + result.stdout.str()
    assert len(run_names(project.path / ".vla")) == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--vla-baseline=nowhere.json"], "ERROR: --vla-baseline: there is no baseline *nowhere.json: make one with *"),
        (["--vla-baseline=nowhere"], "ERROR: --vla-baseline: nowhere is neither a baseline file *) nor a run: *"),
        (["--vla-baseline=cut.json"], "ERROR: --vla-baseline: *cut.json: not a baseline: *cut off?*; save it again *"),
        (["--vla-baseline=later.json"], "ERROR: --vla-baseline: *later.json: not a baseline: *schema*"),
        ([BASELINE, "--vla-margin=0"], "*--vla-margin: '0': expected percentage points above 0, at most 100*"),
        ([BASELINE, "--vla-margin=100.1"], "*--vla-margin: '100.1': expected percentage points above 0, at most 100*"),
        ([BASELINE, "--vla-gate-by=suite,dimensions"], "*cannot group by 'dimensions': *Did you mean dimension*"),
        ([BASELINE, "--vla-gate-alpha=.5"], "*--vla-gate-alpha: '.5': expected a share of runs above 0, below .5, *"),
        (
            [BASELINE, "--vla-gate-measure=speed"],
            "ERROR: --vla-gate-measure=speed: measure 'speed': expected steps, *",
        ),
        ([BASELINE, "--vla-gate-measure=steps,steps=2"], "*measure steps: given twice*"),
        (
            [BASELINE, "--vla-gate-measure=cost.no"],
            "*measure cost.no: no baseline case has a value for it; none is recorded*",
        ),
        (
            [BASELINE, "--vla-gate-require=no-worse", "--vla-gate-measure=steps"],
            "ERROR: --vla-gate-measure=steps: expected a margin for each with --vla-gate-require=no-worse, *steps=10",
        ),
        (
            [BASELINE, "--vla-gate=sequential", "--vla-gate-measure=steps"],
            "ERROR: --vla-gate-measure=steps: a sequential gate stops by success alone*",
        ),
        ([BASELINE, "--vla-gate=soon"], "*--vla-gate: 'soon': expected 'fixed'*"),
        (["--vla-margin=5"], "ERROR: --vla-margin: a baseline is required; add --vla-baseline=FILE*"),
        (["--vla-gate-summary=out.md"], "ERROR: --vla-gate-summary: a baseline is required; add *"),
        ([BASELINE, "--vla-gate-summary=no/such.md"], "ERROR: --vla-gate-summary=*no/such.md: expected a file in *"),
        ([BASELINE, "--vla-tasks=open_the_middle_drawer"], "ERROR: --vla-baseline=base.json: no task under the same *"),
    ],
    ids=lambda each: each[-1] if isinstance(each, list) else "",
)
def test_bad_input_is_told_before_any_episode(
    vla: Run, project: pytest.Pytester, base: Path, options: list[str], told: str
) -> None:
    text = base.read_text()
    (project.path / "cut.json").write_text(text[: len(text) // 2])
    (project.path / "later.json").write_text(re.sub(r'"schema": \d+', '"schema": 99', text))
    tasks = [] if any("tasks" in option for option in options) else [STOVE[1]]
    result = vla(STOVE[0], *tasks, STOVE[2], ALL, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])
    assert not (project.path / ".vla").exists(), "nothing is written"


@ALONE
@pytest.mark.usefixtures("base")
def test_ids_without_a_common_case_are_told_too(vla: Run, project: pytest.Pytester, workers: str) -> None:
    node = "libero_goal::test_episode[open_the_middle_drawer_of_the_cabinet-seed0]"
    result = vla(node, ALL, BASELINE, workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --vla-baseline=base.json: no task under the same *"])
    assert not (project.path / ".vla").exists()
