"""``-n auto``: more workers than cores where a policy's process answers them, else pytest-xdist's own number."""

from collections.abc import Callable

import pytest

from tests.support.batched import BATCHED
from tests.support.runs import digests
from tests.support.waiting import RUN_OUT

Run = Callable[..., pytest.RunResult]
GOAL = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "-nauto")

# Two cores and memory for many, on whatever machine this runs.
CORES = """
import pytest
import pytest_vla.run.constants
import xdist.plugin

pytest_vla.run.constants.available_bytes = lambda: {memory}

def two(config):
    return 2

two.__module__ = "xdist.plugin"

class Cores:
    pytest_xdist_auto_num_workers = staticmethod(pytest.hookimpl(two))

def pytest_addhooks(pluginmanager):
    pluginmanager.register(Cores())
"""


@pytest.fixture
def cores(project: pytest.Pytester) -> None:
    project.makepyfile(cores=CORES.format(memory="10**12"), batched=BATCHED, run_out=RUN_OUT)


def workers_of(result: pytest.RunResult) -> int:
    """How many pytest-xdist started."""
    return int(result.stdout.str().partition("created: ")[2].split("/")[0])


@pytest.mark.slow
@pytest.mark.usefixtures("cores")
def test_two_a_core_where_the_policy_answers_in_batches(vla: Run, project: pytest.Pytester) -> None:
    result = vla("-p", "cores", *GOAL, "--vla-model=batched:policy", "--vla-seeds=0-15")
    assert workers_of(result) == 4
    result.stdout.fnmatch_lines(
        [
            "vla: -n auto: 4 workers on 2 cores: a core is idle while its worker waits for the policy",
            "vla: 16 episodes of libero_goal with batched:policy on 4 workers, 16 distinct starts",
        ]
    )
    found = digests(project.path / ".vla")
    vla("-p", "cores", *GOAL, "-n1", "--vla-model=batched:policy", "--vla-seeds=0-15")
    assert digests(project.path / ".vla") == found


@pytest.mark.usefixtures("cores")
def test_as_many_as_there_is_work_for(vla: Run) -> None:
    result = vla("-p", "cores", *GOAL, "--vla-model=batched:policy", "--vla-seeds=0-11")
    assert workers_of(result) == 3
    assert "vla: -n auto: 3 workers on 2 cores: 12 episodes do not need more" in result.stdout.str()
    result = vla("-p", "cores", *GOAL, "--vla-model=batched:policy", "--vla-seeds=0-7")
    assert workers_of(result) == 2
    assert "-n auto:" not in result.stdout.str()


@pytest.mark.usefixtures("cores")
def test_as_many_as_the_memory_holds(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(cores=CORES.format(memory="3 * 10**9"))
    result = vla("-p", "cores", *GOAL, "--vla-model=batched:policy", "--vla-seeds=0-15")
    assert workers_of(result) == 3
    assert "vla: -n auto: 3 workers on 2 cores: more do not fit into the memory" in result.stdout.str()


@pytest.mark.usefixtures("cores")
@pytest.mark.parametrize(
    "options",
    [
        ("--vla-model=policies:straight", "--vla-seeds=0-15"),
        ("--vla-model=random", "--vla-seeds=0-15"),
        ("--vla-model=batched:policy", "--vla-seeds=0-15", "--maxprocesses=2"),
    ],
)
def test_as_pytest_xdist_has_it_elsewhere(vla: Run, options: tuple[str, ...]) -> None:
    result = vla("-p", "cores", *GOAL, *options)
    assert workers_of(result) == 2
    assert "-n auto:" not in result.stdout.str()
    assert "on 2 workers" in result.stdout.str()


@pytest.mark.slow
@pytest.mark.usefixtures("cores")
def test_who_says_how_many_is_heeded(vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    options = (*GOAL, "--vla-model=batched:policy", "--vla-seeds=0-15")
    project.makeconftest("def pytest_xdist_auto_num_workers(config):\n    return 1\n")
    assert workers_of(vla("-p", "cores", *options)) == 1
    project.makeconftest("")
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "1")
    assert workers_of(vla(*options)) == 1


@pytest.mark.usefixtures("cores")
def test_tests_without_episodes_are_none_of_our_business(vla: Run, project: pytest.Pytester) -> None:
    result = vla("-p", "cores", "test_mine.py", "-nauto")
    assert workers_of(result) == 2
    project.makeini("[pytest]\nvla_model = batched:policy\nvla_suite = libero_goal\n")
    assert workers_of(vla("-p", "cores", "test_mine.py", "-nauto")) == 2
