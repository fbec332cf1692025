"""Policies of another process as `--vla-model`, on a world without a simulator."""

import itertools
import math
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.records.counting import SAID
from pytest_vla.records.record import Record
from tests.support.model_server import model_server
from tests.support.openpi_server import Died, serving
from tests.support.runs import records_of
from tests.support.waiting import HANG
from tests.support.workers import BOTH

Run = Callable[..., pytest.RunResult]

# One task of the fake world cannot be built.
GOAL = ("--vla-suite=libero_goal", "--vla-tasks=bowl_on_the_stove,turn,drawer", "--vla-seeds=0-2")
EPISODES = 12


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def straight(request: dict[str, Any]) -> Any:
    """Towards the goal, the faster the nearer: what it answers depends on what it was sent."""
    action = np.zeros((10, 7), dtype=np.float32)
    action[:, 0] = 0.4 + 0.1 * request["observation/state"][0]
    action[:, 6] = -1
    return {"actions": action}


def records(project: pytest.Pytester) -> dict[str, Record]:
    return {record.case: record for record in records_of(project.path / ".vla")}


def test_episodes_are_the_same_with_and_without_workers(vla: Run, project: pytest.Pytester) -> None:
    with serving(straight) as server:
        model = f"--vla-model=openpi:127.0.0.1:{server.port}"
        alone = vla(*GOAL, model, "-n0")
        alone.assert_outcomes(passed=EPISODES)
        alone.stdout.fnmatch_lines(["*the server says nothing of its policy*"])
        first = records(project)
        assert {record.replan for record in first.values()} == {5}
        # Without workers they run in the order in which they are recorded.
        asked = [math.ceil(record.steps / 5) for record in first.values()]
        # One to look whether it is there, one to ask what it serves.
        assert [len(requests) for requests in server.connections] == [0, 0, *asked], "a connection an episode"
        assert set(asked) == {2, 3}

        shared = vla(*GOAL, model, "-n2")
        shared.assert_outcomes(passed=EPISODES)
        assert len(server.connections) == 2 + EPISODES + 3 + EPISODES, "a worker does not look whether it is there"
    second = records(project)
    assert {case: record.digest for case, record in second.items()} == {
        case: record.digest for case, record in first.items()
    }
    assert {record.worker for record in second.values()} == {"gw0", "gw1"}


def test_the_number_of_steps_of_a_chunk_can_be_given(vla: Run, project: pytest.Pytester) -> None:
    with serving(straight) as server:
        vla(*GOAL, f"--vla-model=openpi:127.0.0.1:{server.port}", "--vla-replan=10").assert_outcomes(passed=EPISODES)
        assert {len(requests) for requests in server.connections[2:]} <= {1, 2}
    assert {record.replan for record in records(project).values()} == {10}


def test_a_server_that_is_not_there_stops_the_run_before_the_first_item(vla: Run, project: pytest.Pytester) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for workers in ("-n0", "-n2"):
        result = vla(*GOAL, f"--vla-model=openpi:127.0.0.1:{port}", workers)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(
            [f"ERROR: --vla-model=openpi:127.0.0.1:{port}: nothing listens at ws://127.0.0.1:{port}. Expected *"]
        )
    assert not (project.path / ".vla").exists()
    vla(*GOAL, f"--vla-model=openpi:127.0.0.1:{port}", "--collect-only").assert_outcomes()


def test_an_episode_whose_server_was_away_for_a_moment_runs_again(vla: Run, project: pytest.Pytester) -> None:
    asked = iter([None, Died])

    def infer(request: dict[str, Any]) -> Any:
        if next(asked, None) is Died:
            raise Died
        return straight(request)

    with serving(infer) as server:
        result = vla(*GOAL, f"--vla-model=openpi:127.0.0.1:{server.port}")
    result.assert_outcomes(passed=EPISODES)
    result.stdout.fnmatch_lines(["1 episode ran again after an error or a crashed process"])
    assert sorted(record.attempt for record in records(project).values()) == [*([1] * (EPISODES - 1)), 2]


def test_workers_of_a_server_that_dies_go_to_the_other_of_the_list(vla: Run, project: pytest.Pytester) -> None:
    with serving(straight) as alone:
        vla(*GOAL, f"--vla-model=openpi:127.0.0.1:{alone.port}").assert_outcomes(passed=EPISODES)
    expected = {case: record.digest for case, record in records(project).items()}
    died = threading.Event()

    def dying(request: dict[str, Any]) -> Any:
        died.set()
        raise Died

    def serve_until_it_dies() -> None:
        with serving(dying, port=port):
            started.set()
            died.wait(HANG)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = threading.Event()
    server = threading.Thread(target=serve_until_it_dies)
    server.start()
    started.wait(HANG)
    with serving(straight) as stays:
        where = f"127.0.0.1:{port},127.0.0.1:{stays.port}"
        result = vla(*GOAL, f"--vla-model=openpi:{where}", "-n2")
        server.join()
        # The other one: that the server says nothing of its policy.
        result.assert_outcomes(passed=EPISODES, warnings=2)
        result.stdout.fnmatch_lines([f"*ws://127.0.0.1:{port} *; its episodes use the other servers*"])
        kept = records(project)
        assert {case: record.digest for case, record in kept.items()} == expected
        assert {record.policy for record in kept.values()} == {f"openpi:{where}"}
        assert sorted(record.attempt for record in kept.values()) == [*([1] * (EPISODES - 1)), 2]
        refused = vla(*GOAL, f"--vla-model=openpi:{where}", "-n2")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines([f"ERROR: *1 of 2 servers cannot be used: nothing listens at ws://127.0.0.1:{port}.*"])


@BOTH
def test_a_server_that_stays_away_stops_the_run_which_can_go_on(
    vla: Run, project: pytest.Pytester, workers: str
) -> None:
    project.makeconftest("import pytest_vla.policies.openpi_connection as address\naddress.AWAY_SECONDS = 1.0\n")
    asked, stop = itertools.count(), threading.Event()

    def infer(request: dict[str, Any]) -> Any:
        if next(asked) >= 8:
            stop.set()
            raise Died
        return straight(request)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started = threading.Event()

    def serve_for_a_while() -> None:
        with serving(infer, port=port):
            started.set()
            stop.wait(HANG)

    server = threading.Thread(target=serve_for_a_while)
    server.start()
    started.wait(HANG)
    result = vla(*GOAL, f"--vla-model=openpi:127.0.0.1:{port}", workers)
    stop.set()
    server.join()
    assert result.ret != 0
    kept = records(project)
    errors = [record for record in kept.values() if record.outcome == "error"]
    assert 1 <= len(errors) <= 4, "not one error an episode"
    assert {record.reason for record in errors} == {"policy-connection"}
    result.stdout.fnmatch_lines(
        ["*no server came back within 1 s: *. The run stops. Start the server, and resume with --vla-resume*"]
    )
    with serving(straight, port=port):
        assert vla("--vla-resume", workers).ret == 0
    assert len(records(project)) == EPISODES


@BOTH
def test_a_server_with_another_checkpoint_is_noticed_in_a_run_and_when_it_is_resumed(
    vla: Run, project: pytest.Pytester, workers: str
) -> None:
    """One rate never covers two checkpoints behind one address."""
    asked, stop = itertools.count(), threading.Event()

    def infer(request: dict[str, Any]) -> Any:
        if next(asked) >= 8:
            stop.set()
            raise Died
        return straight(request)

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    started, over = threading.Event(), threading.Event()

    def serve_one_after_the_other() -> None:
        with serving(infer, port=port, metadata={"checkpoint": "step_10000"}):
            started.set()
            stop.wait(HANG)
        with serving(straight, port=port, metadata={"checkpoint": "step_90000"}):
            over.wait(HANG)

    server = threading.Thread(target=serve_one_after_the_other)
    server.start()
    started.wait(HANG)
    model = f"openpi:127.0.0.1:{port}"
    result = vla(*GOAL, f"--vla-model={model}", workers)
    assert result.ret != 0
    result.stdout.fnmatch_lines(
        ["*serves another policy than when the run began: checkpoint is 'step_10000', and 'step_90000'. The run stops*"]
    )
    kept = records(project)
    assert {record.reason for record in kept.values() if record.outcome == "error"} <= {"policy-connection"}
    digests = {record.policy_digest for record in kept.values()}
    assert len(digests) == 1
    assert str(digests.pop()).endswith(SAID)
    count = len([record for record in kept.values() if record.outcome != "error"])
    resumed = vla("--vla-resume", workers)
    over.set()
    server.join()
    resumed.stdout.fnmatch_lines(
        ["*the server has another policy (*) than when run * began (*). Serve that one again*"]
    )
    assert len([record for record in records(project).values() if record.outcome != "error"]) == count


def test_a_traceback_of_the_server_is_shown_with_the_item(vla: Run, project: pytest.Pytester) -> None:
    def infer(request: dict[str, Any]) -> Any:
        # A log of GitHub would take no further command, or set what the next step reads.
        raise ValueError("no checkpoint\n::stop-commands::x\n  ::error::y\n##[add-path]z\nnorm stats are missing")

    with serving(infer) as server:
        result = vla(*GOAL[:1], "--vla-tasks=turn", f"--vla-model=openpi:127.0.0.1:{server.port}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "error policy-raised after 0 of 300 steps: ws://127.0.0.1:*: norm stats are missing",
            "*Traceback (most recent call last):",
            "ValueError: no checkpoint",
            ": stop-commands::x",
            "  : error::y",
            "# ?add-path]z",
            "norm stats are missing",
        ],
        consecutive=False,
    )
    assert not [line for line in result.outlines if line.lstrip().startswith("::") or "##[" in line]


def test_a_model_server_of_vla_eval_serves_workers(vla: Run, project: pytest.Pytester, tmp_path: Path) -> None:
    pytest.importorskip("vla_eval", reason="vla-eval is not installed")
    chosen = ("--vla-suite=libero_goal", "--vla-tasks=turn", "--vla-seeds=0-3")
    kept = []
    with model_server(tmp_path / "log.jsonl", send_state=True) as server:
        for workers in ("-n0", "-n2"):
            result = vla(*chosen, f"--vla-model=vla-eval:{server.where}", workers, "-p", "no:anyio")
            result.assert_outcomes(passed=4)
            kept.append({case: record.digest for case, record in records(project).items()})
        sessions = [line["session"] for line in server.lines() if "start" in line]
    assert kept[0] == kept[1]
    assert len(set(sessions)) == len(sessions) == 8


def test_the_key_is_in_no_output_and_in_no_record(
    vla: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_VLA_POLICY_KEY", "s3cret")
    with serving(straight, key="s3cret") as server:
        result = vla(*GOAL, f"--vla-model=openpi:127.0.0.1:{server.port}", "-n2", "-v")
    result.assert_outcomes(passed=EPISODES)
    assert set(server.headers) == {"Api-Key s3cret"}
    assert "s3cret" not in result.stdout.str() + result.stderr.str()
    kept = [file.read_bytes() for file in (project.path / ".vla").rglob("*") if file.is_file()]
    assert kept
    assert not any(b"s3cret" in content for content in kept)
