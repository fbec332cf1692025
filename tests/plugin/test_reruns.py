"""Other plugins that run an item again, such as pytest-rerunfailures."""

from collections.abc import Callable

import pytest

from pytest_vla.records.trajectory import digest_of, load_trajectory
from tests.support.runs import records_of

Run = Callable[..., pytest.RunResult]


@pytest.mark.parametrize("workers", ["-n0", "-n1"])
def test_of_an_item_that_another_plugin_runs_again_the_first_attempt_counts(
    vla: Run, project: pytest.Pytester, workers: str
) -> None:
    """As old versions of pytest-rerunfailures do it: nothing of an attempt is reported after what failed."""
    project.makeconftest(
        """
        import pytest
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            for attempt in (1, 2):
                item._initrequest()
                reports = runtestprotocol(item, nextitem=nextitem, log=False)
                again = attempt == 1 and any(report.failed for report in reports)
                for report in reports:
                    report.outcome = "rerun" if again and report.failed else report.outcome
                    item.ihook.pytest_runtest_logreport(report=report)
                    if report.outcome == "rerun":
                        break
                if not again:
                    break
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
            return True
        """
    )
    project.makepyfile(
        second="""
        import numpy as np
        from pathlib import Path

        def policy(episode):
            good = Path("once").exists()
            Path("once").touch()
            return lambda observation: np.array([float(good), 0, 0, 0, 0, 0, 0])
        """
    )
    result = vla("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=second:policy", workers)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    (record,) = records_of(project.path / ".vla")
    assert (record.outcome, record.steps) == ("failure", 300)
    trajectory = load_trajectory(project.path / ".vla" / record.run / str(record.arrays))
    assert digest_of(record.outcome, record.steps, record.literals, trajectory) == record.digest, "one attempt's"
    result.stdout.fnmatch_lines(["libero_goal * 1 * 0/1 *", "1 episode failed at first and passed when run again; *"])
    assert vla("--vla-resume", workers).ret == pytest.ExitCode.TESTS_FAILED
