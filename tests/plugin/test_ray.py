"""``--vla-ray`` with a cluster of several nodes on this machine: what one machine gives, whatever is killed."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.records.store import open_store
from tests.support.batched import BATCHED
from tests.support.ray_nodes import Nodes, descendants, ray_nodes
from tests.support.runs import digests, last_records, records_of
from tests.support.waiting import RUN_OUT, until

pytest.importorskip("ray", reason="Ray is not installed here: make ray")
pytestmark = pytest.mark.usefixtures("own_processes")

# Half of the tasks are done; with a little to read for who waits for files.
POLICIES = """
import os
import numpy as np

def mixed(episode):
    pace = episode.rng.uniform(0, 0.04)
    return lambda observation: np.array([pace, 0, 0, 0, 0, 0, -1])

def fatal(episode):
    if episode.seed == 1:
        os._exit(3)
    return mixed(episode)

def hangs(episode):
    if episode.seed == 1:
        import ctypes
        ctypes.PyDLL(None).pause()
    return mixed(episode)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    with ray_nodes([1.0, 1.0]) as (nodes, _):
        yield nodes


@pytest.fixture
def begin(
    pytester: pytest.Pytester, vla: Callable[..., pytest.RunResult], cluster: Nodes
) -> Iterator[tuple[Start, Path]]:
    """Starts pytest on the fake world in the cluster; what it prints goes to ``out``."""
    pytester.makepyfile(policies=POLICIES, batched=BATCHED, run_out=RUN_OUT)
    begun: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        with (pytester.path / "out").open("a") as out:
            order = [sys.executable, "-m", "pytest", "-p", "pytest_vla.testing", "-p", "no:hypothesispytest"]
            process = subprocess.Popen(
                [*order, f"--vla-ray={cluster.address}", *arguments],
                cwd=pytester.path,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )
        begun.append(process)
        return process

    yield start, pytester.path
    for process in begun:
        process.kill()
        process.wait()


def ended(results: Path) -> int:
    """How many episodes a run has in the store by now."""
    try:
        with open_store(results, create=False) as store:
            return len(store.episodes(store.run("last").name))
    except VlaError:
        return 0


def test_is_what_one_machine_gives(begin: tuple[Start, Path], vla: Callable[..., pytest.RunResult]) -> None:
    start, folder = begin
    what = ("--vla-suite=libero_spatial", "--vla-model=policies:mixed", "--vla-episodes=3")
    vla(*what, "-n", "2", "--vla-results=near")
    assert start(*what, "-n", "2", "--vla-results=far", "--vla-video=failed").wait() == 1
    near, far = last_records(folder / "near"), last_records(folder / "far")
    assert digests(folder / "near") == digests(folder / "far")
    assert {record.outcome for record in far.values()} == {"success", "failure"}
    assert {record.attempt for record in far.values()} == {1}
    run = next((folder / "far").glob("2*"))
    for case, record in far.items():
        arrays = str(record.arrays)
        assert arrays == near[case].arrays
        assert (run / arrays).is_file()
        assert (run / arrays).with_suffix(".mp4").is_file() == (record.outcome == "failure")
    told = (folder / "out").read_text()
    assert "Ray: 2 nodes, 2 processors" in told
    # As `ray start` makes it.
    assert "warning ray-open: Ray on " in told


def test_a_lost_node_costs_no_episode(begin: tuple[Start, Path], cluster: Nodes) -> None:
    start, folder = begin
    more = [cluster.add(1.0), cluster.add(1.0)]
    what = ("--vla-suite=libero_spatial", "--vla-model=policies:mixed", "--vla-episodes=24", "-n", "4")
    run = start(*what)
    for number, node in enumerate(more, 1):
        until(lambda number=number: ended(folder / ".vla") > 20 * number or run.poll() is not None)  # type: ignore[misc]
        cluster.kill(node)
    assert run.wait() == 1, (folder / "out").read_text()
    with open_store(folder / ".vla", create=False) as store:
        attempts = [*store.attempts(store.run("last").name)]
    assert len({record.node for record in attempts}) == 240
    # A node may be lost when an episode's record has come and its test has not ended: it runs again, the first counts.
    assert len(attempts) <= 240 + len(more)
    assert {record.outcome for record in attempts} == {"success", "failure", "invalid"}
    assert {record.attempt for record in attempts} <= {1, 2}
    again = [record for record in attempts if record.attempt == 2]
    assert len(again) <= 2


def test_a_policy_that_is_lost_is_replaced(begin: tuple[Start, Path], vla: Callable[..., pytest.RunResult]) -> None:
    start, folder = begin
    what = ("--vla-suite=libero_spatial", "--vla-model=batched:policy", "--vla-episodes=6")
    # One of the workers waits for room, and must not take that of the copy.
    run = start(*what, "-n", "3", "--vla-results=far")
    until(lambda: ended(folder / "far") > 5 or run.poll() is not None)
    (host,) = [int(line.split()[0]) for line in (folder / "loaded.txt").read_text().splitlines()]
    # The actor too, which would start another by itself.
    parent = int(Path(f"/proc/{host}/stat").read_bytes().rpartition(b")")[2].split()[1])
    for pid in (parent, *descendants(parent)):
        os.kill(pid, signal.SIGKILL)
    assert run.wait() == 0, (folder / "out").read_text()
    assert "another is started in its place" in (folder / "out").read_text()
    vla(*what, "-n", "2", "--vla-results=near")
    assert digests(folder / "near") == digests(folder / "far")


def test_goes_on_after_the_driver_was_killed(begin: tuple[Start, Path]) -> None:
    start, folder = begin
    run = start("--vla-suite=libero_spatial", "--vla-model=policies:mixed", "--vla-episodes=12", "-n", "2")
    until(lambda: ended(folder / ".vla") > 10 or run.poll() is not None)
    run.kill()
    run.wait()
    before = ended(folder / ".vla")
    assert before < 120
    assert start("--vla-resume", "-n", "2").wait() == 1
    with open_store(folder / ".vla", create=False) as store:
        assert len(store.episodes(store.run("last").name)) == 120
    assert len(last_records(folder / ".vla")) == 120


def test_an_episode_that_kills_its_worker_is_an_error(begin: tuple[Start, Path]) -> None:
    start, folder = begin
    what = ("--vla-suite=libero_spatial", "--vla-tasks=ramekin", "--vla-episodes=2", "-n", "2")
    assert start(*what, "--vla-model=policies:fatal").wait() == 1
    found = {record.seed: record for record in records_of(folder / ".vla") if "next_to" in record.task}
    assert found[0].outcome in ("success", "failure")
    assert (found[1].outcome, found[1].reason, found[1].attempt) == ("error", "worker-crashed", 2)
    assert "ended with code 3" in str(found[1].message)


def test_an_episode_that_hangs_says_where(begin: tuple[Start, Path]) -> None:
    start, folder = begin
    what = ("--vla-suite=libero_spatial", "--vla-tasks=next_to_the_ramekin", "--vla-episodes=2", "-n", "1")
    assert start(*what, "--vla-model=policies:hangs", "--vla-timeout=3").wait() == 1
    hung = next(record for record in records_of(folder / ".vla") if record.seed == 1)
    assert (hung.outcome, hung.reason) == ("error", "timeout")
    assert "policies.py" in str(hung.message)


def test_stops_at_the_first_failure(begin: tuple[Start, Path]) -> None:
    start, folder = begin
    what = ("--vla-suite=libero_spatial", "--vla-model=policies:mixed", "--vla-episodes=8", "-n", "2", "-x")
    assert start(*what).wait() in (1, 2)
    assert ended(folder / ".vla") < 40


def test_workers_wait_for_room_and_take_part_when_there_is(begin: tuple[Start, Path], cluster: Nodes) -> None:
    start, folder = begin
    run = start("--vla-suite=libero_spatial", "--vla-model=policies:mixed", "--vla-episodes=20", "-n", "3")
    until(lambda: ended(folder / ".vla") > 5 or run.poll() is not None)
    node = cluster.add(1.0)
    assert run.wait() == 1, (folder / "out").read_text()
    cluster.kill(node)
    told = (folder / "out").read_text()
    assert "2 of the 3 workers start now, the others when there is room" in told
    assert "has joined" in told
    assert len({record.worker for record in records_of(folder / ".vla")}) == 3


def test_the_environment_goes_with_the_command(begin: tuple[Start, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    start, folder = begin
    (folder / "by_variable.py").write_text(
        "import os\nimport numpy as np\n\ndef policy(episode):\n"
        "    pace = float(os.environ['MY_PACE'])\n    return lambda seen: np.array([pace, 0, 0, 0, 0, 0, -1])\n"
    )
    monkeypatch.setenv("MY_PACE", "1.0")
    what = ("--vla-suite=libero_spatial", "--vla-tasks=next_to_the_ramekin", "--vla-model=by_variable:policy")
    assert start(*what, "-n", "1").wait() == 0, (folder / "out").read_text()


def test_workers_that_cannot_begin_leave_their_room_and_end_the_run(begin: tuple[Start, Path], cluster: Nodes) -> None:
    start, folder = begin
    (folder / "test_none.py").write_text("def test_nothing(): pass\n")
    (folder / "conftest.py").write_text(
        "import os\n\nif 'PYTEST_XDIST_WORKER' in os.environ:\n    raise RuntimeError('not on workers')\n"
    )
    what = ("--vla-suite=libero_spatial", "--vla-model=policies:mixed")
    assert start("test_none.py", *what, "-n", "2", "--max-worker-restart=2").wait() not in (0, None)
    assert "not on workers" in (folder / "out").read_text()
    (folder / "conftest.py").unlink()
    assert start(*what, "-n", "2").wait() == 1


def test_own_tests_run_with_their_files(begin: tuple[Start, Path], pytester: pytest.Pytester) -> None:
    start, folder = begin
    pytester.makepyfile(
        test_far="""
        import pytest

        @pytest.mark.vla(suite="libero_spatial", tasks="next_to_the_ramekin", seeds="0-1")
        def test_pace(rollout, tmp_path):
            (tmp_path / "note").write_text(rollout.record.case)
            assert rollout.steps > 1
        """
    )
    assert start("test_far.py", "--vla-model=policies:mixed", "-n", "2").wait() == 0, (folder / "out").read_text()


def test_suites_of_the_projects_conftest_are_there_too(begin: tuple[Start, Path]) -> None:
    start, folder = begin
    (folder / "conftest.py").write_text(
        "from pytest_vla.entries import SuiteEntry\n"
        "from pytest_vla.testing import point_suite\n"
        "def suite(): return point_suite('points')\n"
        "def push(episode): return lambda observation: [1.0, 0.5]\n"
        "def pytest_vla_suites(): return [SuiteEntry('points', 'a point', ':suite')]\n"
    )
    what = ("--vla-suite=points", "--vla-tasks=push", "--vla-model=conftest:push", "--vla-episodes=2")
    assert start(*what, "-n", "2").wait() == 0, (folder / "out").read_text()
    assert [record.outcome for record in records_of(folder / ".vla")] == ["success"] * 2


def test_says_what_is_wrong_before_anything_runs(begin: tuple[Start, Path], cluster: Nodes) -> None:
    start, folder = begin
    what = ("--vla-suite=libero_spatial", "--vla-model=policies:mixed")
    assert start(*what, "--vla-ray=127.0.0.1:1", "-n", "2").wait() == 4
    assert start(*what, "--vla-ray=ray://127.0.0.1:1", "-n", "2").wait() == 4
    assert start(*what).wait() == 4
    assert start(*what, "-n", "2", "--vla-ray-cpus=8").wait() == 4
    told = (folder / "out").read_text()
    assert "--vla-ray=127.0.0.1:1: no answer" in told
    assert "nodes cannot reach a Ray client" in told
    assert "needs a number of workers: add -n" in told
    assert "--vla-ray-cpus=8: no node has that many processors (the largest has 1)" in told
    assert not (folder / ".vla").exists()
    shutil.rmtree(folder / ".vla", ignore_errors=True)
