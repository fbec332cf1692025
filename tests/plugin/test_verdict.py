"""``--vla-min-success``: the success rate of each suite decides over the run."""

import argparse
from collections.abc import Callable

import pytest

from pytest_vla.run.arguments import min_success
from tests.support.workers import ALONE, BOTH

Run = Callable[..., pytest.RunResult]

# Seed 13 is an invalid episode of the fake world.
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-episodes=10")
MODEL = "--vla-model=eight:policy"
NO_POLICY = "vla: failed (--vla-min-success=80%): no episode ran: no policy was given (add --vla-model=POLICY)"


@pytest.fixture(autouse=True)
def eight(project: pytest.Pytester) -> None:
    """A policy that does seeds 0 to 7, and breaks at seed 20."""
    project.makepyfile(
        eight="""
        import numpy as np
        def policy(episode):
            if episode.seed == 20:
                raise RuntimeError("no more")
            return lambda observation: np.array([[float(episode.seed < 8), 0, 0, 0, 0, 0, 0]] * 20)
        """
    )


@pytest.mark.parametrize("flags", [(), ("-n2",), ("-q",), ("-qq", "-n2"), ("-p", "no:xdist"), ("-v",)])
def test_a_suite_that_reaches_it_passes(vla: Run, flags: tuple[str, ...]) -> None:
    result = vla(*STOVE, MODEL, "--vla-min-success=0.8", *flags)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["libero_goal: 8/10 = 80.0% [[]49.0%, 94.3%[]] >= 80%", "vla: passed (--vla-min-success=80%)"]
    )
    # What failed still says so, and how.
    result.stdout.fnmatch_lines(["*does not hold  (beyond point_1 line_1)"])
    if "-qq" not in flags:
        result.assert_outcomes(passed=8, failed=2)


@pytest.mark.parametrize("flags", [(), ("-n2", "-q")])
def test_a_suite_below_it_fails(vla: Run, flags: tuple[str, ...]) -> None:
    result = vla(*STOVE, MODEL, "--vla-min-success=80.1%", *flags)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "libero_goal: 8/10 = 80.0% [[]49.0%, 94.3%[]] < 80.1%",
            "vla: failed (--vla-min-success=80.1%): libero_goal below 80.1%",
        ]
    )


def test_it_says_how_easily_luck_passes(vla: Run) -> None:
    result = vla(*STOVE, MODEL, "--vla-min-success=0.8")
    result.stdout.fnmatch_lines(
        [
            "libero_goal: 8/10 *",
            "for reference: a policy with a true rate of 60% passes this check 17% of the time (10 episodes)",
        ]
    )


@pytest.mark.parametrize(("share", "sign", "code"), [("0.4", ">=", 0), ("50%", "<", 1)])
def test_the_lower_end_of_the_interval_decides_where_it_is_asked_for(
    vla: Run, share: str, sign: str, code: int
) -> None:
    result = vla(*STOVE, MODEL, f"--vla-min-success={share}:lower")
    assert result.ret == code
    wanted = f"{float(share.rstrip('%')) * (1 if '%' in share else 100):g}%"
    result.stdout.fnmatch_lines(
        [
            f"libero_goal: 8/10 = 80.0% [[]49.0%, 94.3%[]], lower end {sign} {wanted}",
            "for reference: *",
            f"vla: {'failed' if code else 'passed'} (--vla-min-success={wanted}:lower)*",
        ]
    )


def test_a_resumed_run_is_judged_by_the_lower_end_too(vla: Run) -> None:
    assert vla(*STOVE, MODEL, "--vla-min-success=0.45:lower").ret == 0
    vla("--vla-resume").stdout.fnmatch_lines(
        ["libero_goal: 8/10 = 80.0% *, lower end >= 45%", "vla: passed (--vla-min-success=45%:lower)"]
    )
    result = vla("--vla-resume", "--vla-min-success=0.8")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["libero_goal: 8/10 = 80.0% [[]49.0%, 94.3%[]] >= 80%", "vla: passed (*=80%)"])


def test_without_it_a_failed_episode_fails_the_run(vla: Run) -> None:
    result = vla(*STOVE, MODEL)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "vla: passed" not in result.stdout.str()
    assert "vla: failed" not in result.stdout.str()


def test_each_suite_has_to_reach_it(vla: Run) -> None:
    both = ("--vla-suite=libero_goal,libero_object", "--vla-tasks=turn_on_the_stove,milk", MODEL)
    result = vla(*both, "--vla-seeds=7-8", "--vla-min-success=50%")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["libero_goal: 1/2 * >= 50%", "libero_object: 1/2 * >= 50%", "vla: passed (*)"])
    result = vla(*both, "--vla-seeds=7-8", "--vla-min-success=50%", "-k", "goal or seed8")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["libero_goal: 1/2 * >= 50%", "libero_object: 0/1 * < 50%", "vla: failed (*): libero_object below 50%"]
    )


@BOTH
def test_errors_still_fail(vla: Run, workers: str) -> None:
    result = vla(*STOVE[:2], MODEL, "--vla-seeds=0-9,20", "--vla-min-success=0.8", workers)
    result.assert_outcomes(passed=8, failed=2, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["libero_goal: 8/10 * >= 80%", "vla: failed (*): 1 item failed for other reasons *"])


@ALONE
def test_a_users_failed_assertion_still_fails(vla: Run, project: pytest.Pytester, workers: str) -> None:
    project.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=9)
        def test_it(rollout):
            assert rollout.success
        """
    )
    paths = ("test_mine.py", "--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", MODEL, workers)
    result = vla(*paths, "--vla-min-success=0.8")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["libero_goal: 1/1 * >= 80%", "vla: failed (*): 1 item failed for other reasons *"])
    project.makepyfile(test_mine="def test_it(): assert False\n")
    result = vla("test_mine.py", *STOVE, MODEL, "--vla-min-success=0.8", workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["libero_goal: 8/10 * >= 80%", "vla: failed (*): 1 item failed for other reasons *"])


def test_a_users_episode_does_not_count_in_the_suites_rate(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=[8, 9])
        def test_it(rollout):
            assert not rollout.success
        """
    )
    result = vla("test_mine.py", "libero_goal::test_episode[turn_on_the_stove-seed0]", MODEL, "--vla-min-success=1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["libero_goal: 1/1 = 100.0% * >= 100%", "vla: passed (*)"])


OWN = """
import pytest

@pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove", seeds=range(10))
def test_it(rollout):
    {body}
"""


def test_where_only_a_users_tests_run_episodes_these_are_judged(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(test_mine=OWN.format(body="assert rollout.steps > 0"))
    result = vla("test_mine.py", MODEL, "--vla-min-success=0.8", "-n2")
    result.assert_outcomes(passed=10)
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["libero_goal, own tests: 8/10 = 80.0% [[]49.0%, 94.3%[]] >= 80%", "vla: passed (--vla-min-success=80%)"]
    )
    result = vla("test_mine.py", MODEL, "--vla-min-success=0.9")
    result.assert_outcomes(passed=10)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["vla: failed (--vla-min-success=90%): libero_goal, own tests below 90%"])


def test_a_users_test_that_asserts_success_is_told_from_the_rate(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(test_mine=OWN.format(body="assert rollout.success"))
    result = vla("test_mine.py", MODEL, "--vla-min-success=0.8")
    result.assert_outcomes(passed=8, failed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    told = "2 failed by themselves (errors, or your own assertions)"
    result.stdout.fnmatch_lines(["libero_goal, own tests: 8/10 * >= 80%", f"vla: failed (*): {told}"])


def test_a_users_tests_without_a_policy_are_told_what_they_need(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(test_mine=OWN.format(body="pass"))
    result = vla("test_mine.py", "--vla-min-success=0.8")
    result.assert_outcomes(skipped=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([NO_POLICY])
    # In the ini file it is for runs of suites.
    project.makeini("[pytest]\nvla_min_success = 90%\n")
    assert vla("test_mine.py", MODEL).ret == 0


def test_a_run_without_episodes_fails(vla: Run) -> None:
    result = vla("--vla-min-success=0.8", "test_mine.py")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([NO_POLICY])
    assert vla(*STOVE, MODEL, "--vla-min-success=0.8", "-k", "nothing").ret == pytest.ExitCode.NO_TESTS_COLLECTED
    result = vla(*STOVE[:2], MODEL, "--vla-seeds=13", "--vla-min-success=0")
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "all episodes were invalid"
    result.stdout.fnmatch_lines(
        ["libero_goal: no episode counted, 0% required", "vla: failed (*): no episode of * counted"]
    )


def test_collecting_is_not_judged(vla: Run) -> None:
    assert vla(*STOVE, "--vla-min-success=0.8", "--collect-only").ret == 0


def test_a_run_that_was_stopped_does_not_pass(vla: Run) -> None:
    result = vla(*STOVE, MODEL, "--vla-min-success=0.8", "-x")
    result.assert_outcomes(passed=8, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["libero_goal: 8/9 * >= 80%", "vla: failed (*): the run was stopped before its end"])


def test_the_last_failed_are_remembered_all_the_same(vla: Run) -> None:
    assert vla(*STOVE, MODEL, "--vla-min-success=0.8").ret == 0
    vla(*STOVE, MODEL, "--vla-min-success=0.8", "--lf").assert_outcomes(failed=2, deselected=8)


def test_another_plugins_verdict_stands(vla: Run, project: pytest.Pytester) -> None:
    # As pytest-cov does where too little is covered.
    project.makeconftest(
        """
        import pytest

        @pytest.hookimpl(wrapper=True)
        def pytest_runtestloop(session):
            done = yield
            session.testsfailed += 1
            return done
        """
    )
    assert vla(*STOVE, MODEL, "--vla-min-success=0.8").ret == pytest.ExitCode.TESTS_FAILED


def test_in_the_ini_file_it_is_for_runs_of_suites(vla: Run, project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nvla_min_success = 80%\n")
    result = vla("test_mine.py", "-p", "no:cacheprovider")
    assert result.ret == 0
    assert "vla_min" not in result.stdout.str()
    assert vla(*STOVE, MODEL).ret == 0
    assert vla(*STOVE, MODEL, "--vla-min-success=0.9").ret == pytest.ExitCode.TESTS_FAILED
    project.makeini("[pytest]\nvla_min_success = 50%:lower\n")
    result = vla(*STOVE, MODEL)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["libero_goal: 8/10 = 80.0% *, lower end < 50%", "vla: failed (*:lower): *"])
    project.makeini("[pytest]\nvla_min_success = most\n")
    vla().stderr.fnmatch_lines(["ERROR: *tox.ini: vla_min_success: 'most' is not a share; write 0.8 or 80%"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((text, "0.8 or 80%, or 0.8:lower") for text in ("0.8:upper", "0.8:", "0.8:lower:lower")),
        *((text, "0.8 or 80%") for text in ("80", "-0.1", "nan", "1e-1", "101%", "", "half")),
    ],
)
def test_what_is_no_share_is_refused(text: str, expected: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        min_success(text)
    assert str(refused.value) == f"{text!r} is not a share; write {expected}"


def test_what_is_refused_is_told_by_pytest(vla: Run) -> None:
    result = vla("--vla-min-success=0.8:upper")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--vla-min-success: '0.8:upper' is not a share; write 0.8 or 80%, or 0.8:lower"])
