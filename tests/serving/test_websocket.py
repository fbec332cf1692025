"""A policy offered to other machines: what our own clients get, and what becomes of them in trouble."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import Answer, Wishes, one_by_one
from pytest_vla.policies.generators import reseed
from pytest_vla.policies.openpi_connection import KEY, OURS, ServerInfo
from pytest_vla.policies.policy_servers import check_server
from pytest_vla.policies.tokens import statistics_table
from tests.support.openpi_server import decoded, encoded
from tests.support.waiting import HANG, until
from tests.support.websocket_policies import (
    STATISTICS,
    Wandering,
    episode,
    observation,
    plain,
    policy_of,
    run,
    run_at_once,
    serving,
)


@pytest.mark.parametrize("most", [1, 8])
def test_episodes_are_bit_for_bit_what_they_are_with_the_policy_at_home(most: int) -> None:
    home = {seed: run(one_by_one(Wandering()), seed) for seed in range(8)}
    assert len({ended.record.digest for ended in home.values()}) == 8
    policy = Wandering()
    with serving(policy, most=most) as server:
        away = run_at_once(lambda: policy_of(server))
    for seed in range(8):
        assert away[seed].record.outcome == "failure", away[seed].explanation
        assert away[seed].record.digest == home[seed].record.digest
        assert np.array_equal(away[seed].trajectory.actions, home[seed].trajectory.actions)
        assert away[seed].record.replan == home[seed].record.replan == 3
    assert max(policy.batches) <= most
    assert (len(policy.episodes), policy.closed) == (8, 8)


def test_a_policy_that_knows_no_batches_is_served_with_all_that_there_is() -> None:
    home = {seed: run(plain, seed).record for seed in range(3)}
    with serving(plain) as server:
        away = run_at_once(lambda: policy_of(server), 3)
    for seed in range(3):
        assert away[seed].record.outcome == "failure", away[seed].explanation
        assert (away[seed].record.digest, away[seed].record.replan) == (home[seed].digest, None)


def test_only_what_the_policy_reads_crosses_the_wire_and_as_it_is() -> None:
    policy = Wandering()
    read: list[str] = []

    class Watched(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            read.append(name)
            return super().__getitem__(name)

    with serving(policy) as server:
        session = policy_of(server)(episode())
        session(Watched(observation(), other=np.zeros(3)))
        session.close()  # type: ignore[attr-defined]
    assert sorted(read) == ["agentview_image", "state"]
    (seen,) = policy.seen
    assert seen.keys() == {"agentview_image", "state"}
    for name, sent in observation().items():
        assert (seen[name].dtype, seen[name].tolist()) == (sent.dtype, sent.tolist())
        # As at home, a policy may write to it.
        assert seen[name].flags.writeable
    (begun,) = policy.episodes
    assert (begun.case_id, begun.suite, begun.task, begun.instruction, begun.seed) == (
        "s/t[seed0]",
        "s",
        "t",
        "do it",
        0,
    )


def test_an_episodes_noise_is_the_clients_generator_as_it_stands() -> None:
    policy = Wandering()
    with serving(policy) as server:
        here, there = episode(3), episode(3)
        session, alone = policy_of(server)(there), Wandering()
        state = alone.begin(here)
        for step in (0, 3, 3, 9):
            reseed(here.rng, 1, here.case_id, step)
            reseed(there.rng, 1, there.case_id, step)
            here.rng.integers(0, 5, 3, dtype=np.uint32)
            there.rng.integers(0, 5, 3, dtype=np.uint32)
            assert np.array_equal(session(observation()).actions, alone.act([state], [observation()])[0])  # type: ignore[union-attr]


def test_what_the_policy_says_of_itself_is_known_before_its_first_episode() -> None:
    behind = Wandering(replan=4)
    with serving(behind, digest="abc") as server:
        policy, where = policy_of(server), f"127.0.0.1:{server.port}"
        assert policy.replan == 4
        assert policy.traits.control_freq == 20
        assert policy.traits.reads == ("agentview_image", "state")
        assert policy.digest == "abc"
        check_server("openpi", where)
        assert run(policy, 0, replan=2).record.replan == 2
        assert behind.episodes[-1].replan == 2
    with serving(Wandering(replan=None)) as server:
        assert policy_of(server).replan is None
        assert policy_of(server).digest is None
    with (
        pytest.raises(VlaError, match="replan is a number, 1 or more; this one's is 0"),
        serving(Wandering(replan=0)),
    ):
        pass


def test_what_is_wished_for_beside_actions_comes_back() -> None:
    with serving(Wandering()) as server:
        answer = policy_of(server)(episode(wishes=Wishes(samples=2, token_probabilities=True)))(observation())
    assert isinstance(answer, Answer)
    assert answer.samples is not None
    assert answer.samples.tolist() == [answer.actions.tolist()] * 2
    assert answer.token_probabilities is not None
    assert answer.token_probabilities.tolist() == [0.25, 0.5]
    assert answer.token_statistics is not None
    assert statistics_table(answer.token_statistics).keys() == statistics_table(STATISTICS).keys()
    for name, value in statistics_table(answer.token_statistics).items():
        assert np.array_equal(value, getattr(STATISTICS, name))


@pytest.mark.parametrize(
    ("instruction", "reason", "words"),
    [
        ("raise", "policy-raised", "nothing here"),
        ("raise \\udcff", "policy-raised", r"a file \\udcff"),
        ("nan", "policy-nan", "action 0 of the chunk of 2"),
    ],
)
def test_trouble_in_a_question_has_its_own_reason_and_the_next_question_may_go_well(
    instruction: str, reason: str, words: str
) -> None:
    told: list[str] = []
    with serving(Wandering(), told=told.append) as server:
        session = policy_of(server)(episode(0, instruction))
        for _ in range(2):
            with pytest.raises(EpisodeError, match=words) as raised:
                session(observation())
            assert raised.value.reason == reason
        assert (raised.value.__cause__ is not None) == (reason == "policy-raised")
        if raised.value.__cause__ is not None:
            assert "websocket_policies.py" in str(raised.value.__cause__)
        session.close()  # type: ignore[attr-defined]
        assert run(policy_of(server), 0).record.outcome == "failure"
    assert len(told) == 2
    assert all(reason in line and line.startswith("127.0.0.1:") for line in told)


def test_trouble_at_an_episodes_begin_and_end_is_told() -> None:
    with serving(Wandering()) as server:
        with pytest.raises(EpisodeError, match=r"at the episode's begin: ValueError: no such task") as raised:
            policy_of(server)(episode(0, "refuse"))
        assert raised.value.reason == "policy-raised"
        session = policy_of(server)(episode(0, "close badly"))
        session(observation())
        with pytest.raises(EpisodeError, match=r"at the episode's end: OSError: no place to say goodbye"):
            session.close()  # type: ignore[attr-defined]
        until(lambda: server.connections == 0)
        assert server.batcher.sessions == 0


def test_our_client_brings_the_key_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Wandering(), key="s3cret") as server:
        monkeypatch.setenv(KEY, "another")
        with pytest.raises(VlaError, match="refuses the key in the environment variable PYTEST_VLA_POLICY_KEY"):
            check_server("openpi", f"127.0.0.1:{server.port}")
        monkeypatch.setenv(KEY, "s3cret")
        assert run(policy_of(server), 0).record.outcome == "failure"


CLIENT = """
import sys
sys.path.insert(0, {repository!r})
import numpy as np
from pytest_vla.policies.base import Episode; from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.policy_servers import server_policies
session = server_policies("openpi", "127.0.0.1:{port}")(Episode("c", "s", "t", "do it", 0, noise_generator(0, "c")))
print("begun", flush=True)
sys.stdin.readline()
session({{"agentview_image": np.zeros((256, 256, 3), np.uint8), "state": np.zeros(8)}})
"""


def test_nothing_is_left_of_clients_that_are_killed_while_they_wait() -> None:
    policy = Wandering(max_batch=1)
    policy.gate.clear()
    repository = str(Path(__file__).parents[2])
    with serving(policy) as server:
        code = CLIENT.format(repository=repository, port=server.port)
        clients = [
            subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for _ in range(3)
        ]
        assert [process.stdout.readline() for process in clients if process.stdout] == [b"begun\n"] * 3
        for process in clients:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
        batcher = server.batcher
        # Two wait, sent or taken in, while the policy is busy with the third.
        until(lambda: batcher.busy_since is not None and batcher._sent.qsize() + len([*batcher._former]) == 2)
        for process in clients:
            process.kill()
            process.communicate()
        # Those that wait are given up while the policy is busy with the first.
        until(lambda: server.connections == 0)
        policy.gate.set()
        until(lambda: (server.connections, server.batcher.sessions, policy.closed) == (0, 0, 3))
        assert policy.batches == [1]
        assert run(policy_of(server), 1).record.outcome == "failure"


def test_an_answer_that_takes_too_long_ends_the_episode_and_no_other() -> None:
    policy = Wandering()
    with serving(policy) as server:
        slow, quick = policy_of(server), policy_of(server)
        session: Any = slow(episode())
        session._connection._limit.seconds = 0.2  # Not of the connecting, too.
        policy.gate.clear()
        with pytest.raises(EpisodeError, match=r"no answer within 0.2 s \(--vla-policy-timeout\)") as raised:
            session(observation())
        assert raised.value.reason == "policy-timeout"
        # It does not wait for the policy.
        session.close()
        policy.gate.set()
        assert run(quick, 0).record.outcome == "failure"


def test_a_policy_that_hangs_does_not_keep_the_server_from_ending() -> None:
    policy = Wandering()
    with serving(policy) as server:
        session = policy_of(server)(episode())
        policy.gate.clear()
        reasons: list[str] = []

        def ask() -> None:
            with pytest.raises(EpisodeError) as raised:
                session(observation())
            reasons.append(raised.value.reason)

        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: server.batcher.busy_since is not None)
        assert not server.close(0.2)
        asking.join(HANG)
        assert reasons == ["policy-connection"]
        policy.gate.set()


def test_another_policy_at_the_same_place_is_an_error_in_the_episodes_that_follow() -> None:
    with serving(Wandering(), digest="one") as server:
        port, policy = server.port, policy_of(server)
        assert run(policy, 0).record.outcome == "failure"
    with serving(Wandering(), port, digest="two"):
        ended = run(policy, 0)
    assert (ended.record.reason, ended.steps) == ("policy-connection", 0)
    assert "serves another policy than when the run began" in str(ended.record.message)


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"protocol": 2}, "version 2 of pytest-vla's protocol, and this is version 1"),
        (None, "version None"),
        ({"protocol": 1}, "traits are a table"),
        ({"protocol": 1, "reads": [1], "traits": {}}, "does not say what its policy reads"),
        ({"protocol": 1, "replan": True, "traits": {}}, "replan is True, and no number of steps"),
        ({"protocol": 1, "digest": 5, "traits": {}}, "digest is a text"),
        ({"protocol": 1, "traits": {"arms": 2}}, "there is no 'arms'"),
    ],
)
def test_metadata_of_ours_that_are_none_are_refused(table: Any, complaint: str) -> None:
    with pytest.raises((ValueError, VlaError), match=complaint):
        ServerInfo.of({OURS: table})


def test_metadata_say_what_was_put_into_them() -> None:
    assert ServerInfo.of({}) is None
    for served in (ServerInfo(None), ServerInfo(("state",), 3, "abc")):
        assert ServerInfo.of(decoded(encoded(served.metadata()))) == served
