"""A policy that changes what the clocks of its process say keeps its records."""

from collections.abc import Callable

import pytest

from tests.support.runs import records_of

Run = Callable[..., pytest.RunResult]

CLOCKLESS = """
import time
import numpy as np

def policy(episode):
    if episode.seed == 1:
        time.time = time.monotonic = time.perf_counter = lambda: {value}
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])
"""
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-model=clockless:policy", "--vla-seeds=0-2")


@pytest.mark.parametrize(
    ("value", "more"),
    [("float('nan')", ("-n0", "--vla-timeout=1000", "--vla-policy-timeout=900")), ("float('inf')", ("-n1",))],
)
def test_clocks_that_say_no_number_cost_no_record(
    vla: Run, project: pytest.Pytester, value: str, more: tuple[str, ...]
) -> None:
    project.makepyfile(clockless=CLOCKLESS.format(value=value))
    result = vla(*STOVE, *more)
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    records = {record.seed: record for record in records_of(project.path / ".vla")}
    assert {record.outcome for record in records.values()} == {"success"}
    assert (records[0].timings["wall"] or 0) > 0
    assert records[1].timings["wall"] is None
    assert records[2].timings["policy"] is None
    # What is to come is estimated from what was measured.
    (project.path / "clockless.py").write_text(CLOCKLESS.format(value="0.0"))
    assert vla(*STOVE).ret == 0
