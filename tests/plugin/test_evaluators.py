"""--vla-evaluator on the world without a simulator: whose protocol episodes follow, how many, what is refused."""

from collections.abc import Callable

import pytest

from pytest_vla.records.record import Record
from tests.support import runs as runs_support


def last_records(project: pytest.Pytester) -> dict[str, Record]:
    return runs_support.last_records(project.path / ".vla")


Run = Callable[..., pytest.RunResult]
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
STILL = "--vla-model=policies:still"
ONE = "--vla-seeds=0"


def test_episodes_follow_the_evaluator_that_is_typed(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, STILL, "--vla-evaluator=openpi", "--vla-steps=6", "--vla-seeds=3,4")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "vla: evaluator openpi: *examples/libero/main.py*",
            "vla: step budget 6 differs from that of the evaluator openpi (libero_goal 300)*",
        ]
    )
    assert "--vla-evaluator=openpi --vla-steps=6" in result.stdout.str()
    for record in last_records(project).values():
        assert record.replan == 5
        assert record.protocol["evaluator"] == "openpi"
        assert (record.protocol["scenes"], record.protocol["max_steps"]) == ("stream 7", 6)
        assert record.seeds["scene"] == record.seed


def test_without_seeds_the_evaluators_episodes_run(vla: Run) -> None:
    for name, number in (("openpi", 50), ("groot-n1.5", 5), ("lerobot", 10)):
        listed = vla(*STOVE, STILL, f"--vla-evaluator={name}", "--collect-only", "-q")
        assert f"{number} tests collected" in listed.stdout.str()
    assert "1 test collected" in vla(*STOVE, STILL, "--collect-only", "-q").stdout.str()
    assert (
        "3 tests collected"
        in vla(*STOVE, STILL, "--vla-evaluator=openpi", "--vla-episodes=3", "--collect-only", "-q").stdout.str()
    )


def test_the_longest_budget_holds_all_others(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*STOVE, STILL, ONE, "--vla-steps=longest")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["vla: step budget 800 (libero_goal), the longest of all evaluators: *"])
    (record,) = last_records(project).values()
    assert (record.protocol["max_steps"], record.protocol.get("evaluator")) == (800, None)
    result = vla("--vla-suite=tabletop", "--vla-tasks=turn_on_the_stove", "--vla-steps=longest", ONE, STILL)
    result.stdout.fnmatch_lines(["vla: step budget 300 (tabletop), *no evaluator has a longer one"])


def test_success_that_lasts_is_in_the_record(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, "--vla-model=policies:straight", ONE, "--vla-success=end", "--vla-steps=20").assert_outcomes(passed=1)
    (record,) = last_records(project).values()
    assert (record.protocol["success"], record.steps) == ("end", 20)
    assert record.metrics["first_success_step"] < 20
    vla(*STOVE, "--vla-model=policies:straight", ONE, "--vla-success=held:1").assert_outcomes(passed=1)
    (record,) = last_records(project).values()
    assert "success" not in record.protocol, "the same as first, which is usual"


def test_a_file_of_the_projects_own_is_an_evaluator(vla: Run, project: pytest.Pytester) -> None:
    project.makefile(".toml", mine='extends = "openpi"\n[max_steps]\nlibero_goal = 9\n')
    project.makeini("[pytest]\nvla_evaluator = mine.toml")
    result = vla(*STOVE, STILL, ONE)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["vla: evaluator mine, by vla_evaluator in tox.ini: *"])
    (record,) = last_records(project).values()
    assert (record.protocol["evaluator"], record.steps, record.replan) == ("mine", 9, 5)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((*STOVE, "--vla-evaluator=openpie"), "*no evaluator 'openpie'. Did you mean openpi*"),
        ((*STOVE, "--vla-evaluator=none.toml"), "*none.toml: cannot be read as TOML*"),
        ((*STOVE, "--vla-evaluator="), "*--vla-evaluator*"),
        (("--vla-suite=tabletop", "--vla-evaluator=openpi"), "*openpi has no protocol for tabletop: *libero_spatial*"),
        ((*STOVE, "--vla-evaluator=groot-n1.7", "--vla-vary=camera"), "*groot-n1.7 draws where things stand*"),
        ((*STOVE, "--vla-success=held:0"), "*held:K*"),
        ((*STOVE, "--vla-steps=long"), "*'long'*"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(arguments: tuple[str, ...], told: str, vla: Run) -> None:
    result = vla(*arguments, STILL)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([told])


def test_an_evaluator_of_the_ini_file_is_named_where_it_does_not_fit(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_evaluator = openpi")
    told = "*no protocol for tabletop*--vla-evaluator=ours, which overrides vla_evaluator = openpi in *tox.ini*"
    vla("--vla-suite=tabletop", STILL).stderr.fnmatch_lines([told])
    project.makepyfile(
        "import pytest\n@pytest.mark.vla(suite='tabletop', seeds=1)\ndef test_own(rollout):\n    assert rollout\n"
    )
    vla(STILL).stdout.fnmatch_lines([f"*test_own: @pytest.mark.vla: {told}"])
    typed = vla(STILL, "--vla-evaluator=openpi").stdout.str()
    assert "no protocol for tabletop" in typed
    assert "ini" not in typed.partition("no protocol")[2].partition("short test summary")[0]


def test_a_policy_may_imply_its_evaluator(vla: Run, project: pytest.Pytester) -> None:
    project.makeconftest(
        "from pytest_vla.entries import PolicyEntry\n"
        "def pytest_vla_policies():\n"
        "    return [PolicyEntry('mine', 'as openpi', load='policies:of_text', evaluator='openpi')]\n"
    )
    (project.path / "policies.py").write_text(
        (project.path / "policies.py").read_text() + "\ndef of_text(text=''):\n    return still\n"
    )
    result = vla(*STOVE, ONE, "--vla-model=mine", "--vla-steps=6")
    result.stdout.fnmatch_lines(["vla: evaluator openpi, which --vla-model=mine implies: *"])
    (record,) = last_records(project).values()
    # Its number of steps of a chunk is the policy's to say.
    assert (record.protocol["evaluator"], record.replan) == ("openpi", None)
    vla(*STOVE, ONE, "--vla-model=mine", "--vla-steps=6", "--vla-evaluator=ours")
    (record,) = last_records(project).values()
    assert record.protocol.get("evaluator") is None


def test_a_gate_refuses_to_mix_evaluators_and_names_the_fields(vla: Run, project: pytest.Pytester) -> None:
    vla(*STOVE, STILL, "--vla-seeds=0-3", "--vla-evaluator=openpi", "--vla-steps=6")
    result = vla(*STOVE, STILL, "--vla-seeds=0-3", "--vla-evaluator=lerobot", "--vla-steps=6", "--vla-baseline=last")
    text = result.stdout.str() + result.stderr.str()
    assert result.ret != 0
    for field in ("evaluator", "scenes", "image size"):
        assert field in text
    for value in ("openpi", "lerobot", "stream 7"):
        assert value in text


def test_a_misspelt_suite_of_an_evaluators_budgets_is_told(vla: Run, project: pytest.Pytester) -> None:
    project.makefile(".toml", mine='extends = "openpi"\n[max_steps]\nlibero_gaol = 9\n')
    result = vla(*STOVE, STILL, ONE, "--vla-evaluator=mine.toml", "--vla-steps=3")
    result.stdout.fnmatch_lines(["*mine: ?max_steps? has libero_gaol, which is no suite. Did you mean libero_goal*"])


def test_success_for_longer_than_the_budget_is_refused(vla: Run, project: pytest.Pytester) -> None:
    straight = "--vla-model=policies:straight"
    refused = vla(*STOVE, straight, ONE, "--vla-success=held:21", "--vla-steps=20")
    assert "no episode of libero_goal can succeed in 20 steps" in refused.stdout.str() + refused.stderr.str()
    failed = vla(*STOVE, straight, ONE, "--vla-success=held:20", "--vla-steps=20")
    failed.stdout.fnmatch_lines(["*success asked for is held:20; the goal held first at step *"])
