"""What a run says of device and cores where a policy's process serves its workers; nothing elsewhere."""

import re
from collections.abc import Callable

import pytest

from tests.support.batched import BATCHED
from tests.support.waiting import RUN_OUT

Run = Callable[..., pytest.RunResult]
STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-seeds=0-29")

# The processes see an episode in ten seconds, of 20 questions in calls of 400 ms, with 100 ms of thinking in between.
SEEN = """
import itertools
import pytest_vla.run.progress
import pytest_vla.run.utilisation
from pytest_vla.serving import replicas, stats

pytest_vla.run.progress.LOG_EVERY = 0.0
# It is over in less time than that.
pytest_vla.run.utilisation.START_SECONDS = 0.0
LOOKS = itertools.count(1)

def seen_now(self):
    n = next(LOOKS)
    calls = {1: (20 * n, 0.4)}
    return (stats.ServingStats(10.0 * n, 8.0 * n, 20 * n, calls, 0.0, (0.1,), (0.1,), n, 1, 2),)

replicas.Replicas.seen = seen_now
"""


def test_in_the_line_and_at_the_end(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(batched=BATCHED, run_out=RUN_OUT)
    project.makeconftest(SEEN)
    text = vla(*STOVE, "--vla-model=batched:policy", "-n1").stdout.str()
    assert re.search(
        r"^vla 5/30: success [^\n]*; device 80% busy, mean batch 1\.0; cores 1[01]% busy$", text, re.MULTILINE
    ), text
    assert (
        "bottleneck: none (device 80% busy, mean batch 1.0; cores 10% busy); a call takes 400 ms, a worker "
        "computes 100 ms between questions, 100 ms between episodes\n"
    ) in text
    assert re.search(r"^-n \d would save about \d+% of the time$", text, re.MULTILINE), text


def test_nothing_with_q(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(batched=BATCHED, run_out=RUN_OUT)
    project.makeconftest(SEEN)
    assert "busy" not in vla(*STOVE, "--vla-model=batched:policy", "-n1", "-q").stdout.str()


@pytest.mark.parametrize("options", [("--vla-model=policies:straight", "-n1"), ("--vla-model=batched:policy", "-n0")])
def test_nothing_where_no_process_serves(vla: Run, project: pytest.Pytester, options: tuple[str, ...]) -> None:
    project.makepyfile(batched=BATCHED, run_out=RUN_OUT)
    project.makeconftest(SEEN)
    assert "busy" not in vla(*STOVE, *options).stdout.str()


def test_nothing_of_a_run_that_is_soon_over(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(batched=BATCHED, run_out=RUN_OUT)
    assert "would take" not in vla(*STOVE, "--vla-model=batched:policy", "-n2").stdout.str()
