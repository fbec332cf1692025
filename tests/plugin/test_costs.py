"""Costs in runs: the options, what a user's tests are given, what fails, what a resumed run keeps."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory
from tests.support.own_worlds import CONFTEST, POLICIES
from tests.support.runs import digests, records_of, run_names

Run = Callable[..., pytest.RunResult]

EXPERT = (
    "--vla-suite=tabletop",
    "--vla-tasks=put_the_bowl_on_the_plate",
    "--vla-model=expert",
    "-p",
    "no:hypothesispytest",
)
CLI = "from pytest_vla.cli import main; raise SystemExit(main())"
COSTS = """
[[cost]]
name = "gentle"
rule = "force"
on = "table"
above = 5

[[cost]]
literal = "(On bowl_1 plate_1)"
weight = 3
"""
MINE = """
import pytest
from pytest_vla import VlaError

@pytest.mark.vla(suite="tabletop", tasks="put_the_bowl_on_the_plate")
class TestCosts:
    def test_mine(self, rollout):
        assert rollout.success
        assert rollout.cost("(on BOWL_1  plate_1)") == 3 == rollout.cost("on")
        assert rollout.cost("gentle") == sum(c.amount for c in rollout.costs if c.name == "gentle") > 0
        assert rollout.cost() == rollout.cost(account="declared") == rollout.cost("gentle") + 3
        assert rollout.cost("arm_contact") == rollout.cost(account="collisions") == 0
        with pytest.raises(VlaError, match="no cost is called 'gentel'.* Did you mean gentle"):
            rollout.cost("gentel")
        with pytest.raises(VlaError, match="no cost account 'paper'; it has 'declared', 'collisions'"):
            rollout.cost("gentle", account="paper")
"""


@pytest.mark.slow
def test_a_users_test_asks_what_an_episode_cost(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makefile(".toml", costs=COSTS)
    pytester.makepyfile(test_mine=MINE)
    pytester.runpytest_subprocess(
        "--vla-model=expert", "--vla-cost-file=costs.toml", "-p", "no:hypothesispytest"
    ).assert_outcomes(passed=1)
    (record,) = records_of(pytester.path / ".vla")
    assert {charge.account for charge in record.costs} == {"declared", "collisions"}
    gentle = next(charge for charge in record.costs if charge.name == "gentle" and charge.amount)
    assert gentle.force is not None
    assert gentle.force > 5
    assert gentle.position is not None
    assert gentle.bodies == ("table",)
    assert record.provenance["declared_costs"]
    # A run without any account has the same episode.
    quiet = pytester.runpytest_subprocess(*EXPERT, "--vla-collision-costs=none", "--vla-results=quiet")
    quiet.assert_outcomes(passed=1)
    (other,) = records_of(pytester.path / "quiet")
    assert other.digest == record.digest
    assert other.costs == ()
    assert other.provenance["costs"] == "none"
    assert set(digests(pytester.path / "quiet").values()) == {record.digest}
    # And can be charged afterwards, from what is recorded of it.
    rescore = ("pytest-vla", "rescore", "last", "--results=quiet", "--cost-file=costs.toml", "-o", "again")
    told = pytester.run(sys.executable, "-c", CLI, *rescore[1:])
    assert told.ret == 0, told.stderr.str()
    told.stdout.fnmatch_lines(["1 of 1 episodes rescored; their states were reproduced bit for bit", "run * again"])
    (anew,) = records_of(pytester.path / "again")
    assert anew.costs == record.costs
    assert anew.digest == record.digest
    assert anew.provenance["declared_costs"] == record.provenance["declared_costs"]
    assert "costs" not in anew.provenance
    assert load_trajectory(pytester.path / "again" / anew.run / str(anew.arrays)).qpos.shape[0] == record.steps + 1
    refused = pytester.run(sys.executable, "-c", CLI, *rescore[1:])
    assert refused.ret != 0
    refused.stderr.fnmatch_lines(["*again exists already, and is not overwritten*"])


@pytest.fixture
def point(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """As in `tests.plugin.test_own_worlds`: five steps that cost 0.025 each."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(pushing=POLICIES)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_VLA_DATA"):
        monkeypatch.delenv(name, raising=False)
    right = ("--vla-suite=point", "--vla-tasks=push_the_point", "--vla-model=pushing:right")
    return lambda *arguments: pytester.runpytest_subprocess("-p", "no:hypothesispytest", *right, *arguments)


def of_run(pytester: pytest.Pytester) -> Record:
    return records_of(pytester.path / ".vla")[-1]


def test_an_episode_that_costs_too_much_fails_and_is_a_success_all_the_same(
    point: Run, pytester: pytest.Pytester
) -> None:
    point("--vla-max-cost=0.125").assert_outcomes(passed=1)
    result = point("--vla-max-cost=0.1", "--vla-min-success=50%")
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "cost 0.125, more than --vla-max-cost=0.1: sideways at step 1; sideways at step 2; *",
            "point *1/1*100.0%*",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    assert of_run(pytester).outcome == "success"


def test_a_users_own_test_fails_too_but_only_where_it_had_passed(point: Run, pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.vla(suite="point", tasks="push_the_point")
        class TestIt:
            def test_passes(self, rollout):
                assert rollout.cost("sideways") > 0.1

            def test_fails(self, rollout):
                assert rollout.cost() == 0, "my own words"
        """
    )
    result = pytester.runpytest_subprocess(
        "--vla-model=pushing:right", "--vla-max-cost=0.1", "-p", "no:hypothesispytest"
    )
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*cost 0.125, more than*", "*my own words*"])
    # As a line of its own: where CI is set, pytest repeats whole messages in its summary.
    told = [line for line in result.outlines if line.startswith("cost 0.125, more than --vla-max-cost")]
    assert len(told) == 1, "of the one that had passed"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--vla-max-cost=-1", "*'-1' is not a cost; write 0 or 12.5*"),
        ("--vla-collision-costs=some", "*'some': expected 'all' or 'none'*"),
        ("--vla-cost-file=nowhere.toml", "*nowhere.toml: costs cannot be read: No such file*"),
        ("--vla-cost-file=costs.toml", "*costs.toml:3: cost[[]0[]].abov: unknown key 'abov'*Did you mean above?*"),
    ],
)
def test_what_cannot_be_used_is_a_usage_error(point: Run, pytester: pytest.Pytester, option: str, message: str) -> None:
    Path(pytester.path / "costs.toml").write_text('[[cost]]\nrule = "force"\nabov = 3\n')
    result = point(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_costs_of_a_simulator_of_ones_own_are_its_own_to_say(point: Run, pytester: pytest.Pytester) -> None:
    Path(pytester.path / "costs.toml").write_text('[[cost]]\nname = "a"\nrule = "joint"\nwithin = 0.1\n')
    result = point("--vla-cost-file=costs.toml")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*costs.toml:1: cost[[]0[]]: point/push_the_point has its own simulator*"])


def test_a_resumed_run_charges_as_it_began(point: Run, pytester: pytest.Pytester) -> None:
    costs = Path(pytester.path / "costs.toml")
    costs.write_text('[[cost]]\nname = "a"\nrule = "joint"\nwithin = 0.1\ntasks = "nothing"\n')
    point("--vla-cost-file=costs.toml", "--vla-max-cost=1").assert_outcomes(passed=1)
    (run,) = run_names(pytester.path / ".vla")
    kept = point(f"--vla-resume={run}")
    kept.stdout.fnmatch_lines([f"vla: nothing is left of run {run}, 1 episode kept"])
    other = point(f"--vla-resume={run}", "--vla-max-cost=2")
    other.stderr.fnmatch_lines([f"*--vla-resume: run {run} was started with --vla-max-cost=1, not with 2*"])
    costs.write_text('[[cost]]\nname = "b"\nrule = "joint"\nwithin = 0.1\ntasks = "nothing"\n')
    changed = point(f"--vla-resume={run}")
    changed.stderr.fnmatch_lines([f"*costs.toml has changed since run {run} charged its episodes by it*"])


@pytest.mark.slow
def test_a_bound_is_not_kept_by_what_was_not_measured(pytester: pytest.Pytester) -> None:
    pytester.makefile(".toml", costs='[[cost]]\nname="a"\nrule="joint"\nwithin=0.02\ntasks="nothing_*"\n')
    given = ("--vla-collision-costs=none", "--vla-max-cost=0", "--vla-cost-file=costs.toml")
    result = pytester.runpytest_subprocess("--vla-suite=tabletop", "--vla-tasks=turn_on", "--vla-model=random", *given)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*costs.toml:*'a' applies to none of the run's tasks (nothing_[*])*"])
    assert of_run(pytester).costs == ()
    (pytester.path / "test_one.py").write_text(
        "import pytest\n@pytest.mark.vla(suite='tabletop', tasks='turn_on')\ndef test_one(rollout): rollout.cost()\n"
    )
    result = pytester.runpytest_subprocess("test_one.py", "--vla-model=random", "--vla-collision-costs=none")
    result.stdout.fnmatch_lines(["*no cost is recorded in this episode*"])


def test_a_failed_episode_that_cost_too_much_is_not_excused_by_a_success_rate(point: Run) -> None:
    result = point("--vla-model=pushing:aside", "--vla-min-success=0", "--vla-max-cost=0.01")
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert [line for line in result.outlines if "more than --vla-max-cost" in line]
    within = point("--vla-model=pushing:aside", "--vla-min-success=0", "--vla-max-cost=100", "--vla-results=within")
    assert within.ret == pytest.ExitCode.OK


def test_a_success_that_cost_too_much_is_not_offered_to_be_run_again(point: Run) -> None:
    result = point("--vla-max-cost=0.01")
    result.assert_outcomes(failed=1)
    assert not [line for line in result.outlines if "--vla-resume=" in line]
