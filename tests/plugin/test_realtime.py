"""``--vla-realtime`` and ``--vla-vary=action.latency`` from the command line: run, on workers, resumed, refused."""

from collections.abc import Callable

import pytest

from tests.support.own_worlds import CONFTEST, POLICIES
from tests.support.runs import digests, records_of

Run = Callable[..., pytest.RunResult]
PUSH = ("--vla-suite=point", "--vla-tasks=push", "--vla-model=pushing:right")


@pytest.fixture
def point(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs pytest in a project whose conftest.py adds the point's suites; no simulator's place is taken."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(pushing=POLICIES)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_VLA_DATA"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: pytester.runpytest_subprocess("-p", "no:hypothesispytest", *arguments)


def test_a_run_with_latency_says_so_and_is_resumed_with_it(point: Run, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nvla_realtime = 100ms\n")
    result = point(*PUSH, "--vla-seeds=0-1")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*latency 0.1 s, skip: answers are used 2 control steps late in point (20 Hz)*"])
    result.stdout.fnmatch_lines(["latency: an answer took * ms, *(medians over 2 episodes); the arm held in 55% of *"])
    results = pytester.path / ".vla"
    first, _ = records_of(results)
    # Two steps until the first push, and one between two pushes.
    assert (first.outcome, first.steps, first.metrics["held_steps"]) == ("success", 11, 6.0)
    assert first.provenance["realtime"] == "0.1 s, skip"
    assert 0 <= (first.timings["answer"] or 0) <= (first.timings["answer_p90"] or 0)
    digest = digests(results)
    point(*PUSH, "--vla-seeds=0-1", "-n1").assert_outcomes(passed=2)
    assert digests(results) == digest, "a served policy's answers are as late"
    refused = point("--vla-resume", "--vla-realtime=0.2")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*with --vla-realtime=0.1, not with 0.2*"])
    again = point(*PUSH, f"--vla-model=replay:.vla/{first.run}")
    assert again.ret == pytest.ExitCode.USAGE_ERROR
    again.stderr.fnmatch_lines(["*--vla-realtime=0.1: --vla-model=replay:* plays recorded actions*"])


def test_a_curve_over_latencies_is_one_command(point: Run, pytester: pytest.Pytester) -> None:
    result = point(*PUSH, "--vla-seeds=0-1", "--vla-vary=action.latency", "--vla-twins=auto")
    result.assert_outcomes(passed=6, failed=6)
    rates: dict[object, set[str]] = {}
    for record in records_of(pytester.path / ".vla"):
        rates.setdefault(record.variation.get("level"), set()).add(record.outcome)
    assert rates == {None: {"success"}, 1: {"success"}, 2: {"success"}, 3: {"failure"}, 4: {"failure"}, 5: {"failure"}}
    beyond = point(*PUSH, "--vla-realtime=1")
    assert beyond.ret == pytest.ExitCode.USAGE_ERROR
    beyond.stderr.fnmatch_lines(["*--vla-realtime=1: the first answer comes after the last of the 20 steps of point*"])
    wrong = point(*PUSH, "--vla-realtime=-1")
    assert wrong.ret == pytest.ExitCode.USAGE_ERROR
