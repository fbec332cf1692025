"""A policy offered to other machines: what our own clients and openpi's get, and what nonsense and strangers get."""

import dataclasses
import errno
import http.client
import itertools
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from pytest_vla.episode.rollout import Conditions, Rollout, run_episode
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.address import KEY
from pytest_vla.policies.base import Answer, Episode, Observation, Policy, Wishes, one_by_one
from pytest_vla.policies.noise import noise_generator, pack_noise, reseed
from pytest_vla.policies.openpi import OpenpiPolicy, check_openpi, openpi_policy
from pytest_vla.policies.openpi_protocol import OURS, Served
from pytest_vla.serving import websocket
from pytest_vla.serving.plain import as_batch_policy
from pytest_vla.serving.requests import BadRequest, read_libero_request, read_observation, read_request
from pytest_vla.serving.websocket import WebsocketServer
from pytest_vla.testing import World
from tests.support.openpi_server import decoded, encoded
from tests.support.waiting import HANG, until

TASK = load_suite("libero_goal").task("turn_on_the_stove")
PICTURE = np.arange(224 * 224 * 3, dtype=np.uint8).reshape(224, 224, 3)
REQUEST = {
    "observation/image": PICTURE,
    "observation/wrist_image": PICTURE,
    "observation/state": np.arange(8.0),
    "prompt": "do it",
}


class Wandering:
    """Goes by its noise, its state and all that it sees; has troubles on demand; remembers what was closed."""

    def __init__(self, max_batch: int = 8, replan: int | None = 3) -> None:
        self.max_batch, self.replan = max_batch, replan
        self.reads: Sequence[str] = ("agentview_image", "state")
        self.traits = {"control_freq": 20}
        self.gate = threading.Event()
        self.gate.set()
        self.episodes: list[Episode] = []
        self.seen: list[dict[str, Any]] = []
        self.batches: list[int] = []
        self.closed = 0

    def begin(self, episode: Episode) -> Any:
        self.episodes.append(episode)
        if episode.instruction == "refuse":
            raise ValueError("no such task")
        return _Walk(self, episode)

    def act(self, states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[Any]:
        self.gate.wait(HANG)
        self.batches.append(len(states))
        return [state.answer(observation) for state, observation in zip(states, observations, strict=True)]


class _Walk:
    def __init__(self, policy: Wandering, episode: Episode) -> None:
        self.policy, self.episode, self.steps = policy, episode, 0

    def answer(self, observation: Observation) -> Any:
        self.policy.seen.append(dict(observation))
        if self.episode.instruction == "raise":
            raise KeyError("nothing here")
        if self.episode.instruction == "raise \\udcff":
            raise ValueError("a file \udcff")
        if self.episode.instruction == "nan":
            return np.full((2, 7), np.nan)
        self.steps += 1
        chunk = np.zeros((5, 7))
        chunk[:, :3] = 0.02 * self.episode.rng.normal(size=(5, 3))
        chunk[:, 3] = 0.01 * self.steps
        chunk[:, 4] = observation["agentview_image"].mean() / 1000
        chunk[:, 5] = observation["state"].sum() / 100
        if not self.episode.wishes.samples:
            return chunk
        return Answer(chunk, np.stack([chunk] * self.episode.wishes.samples), np.array([0.25, 0.5]))

    def close(self) -> None:
        self.policy.closed += 1
        if self.episode.instruction == "close badly":
            raise OSError("no place to say goodbye")


def plain(episode: Episode) -> Any:
    """As people write policies; reads what it likes, and changes what it gets."""
    steps = 0

    def session(observation: Observation) -> Any:
        nonlocal steps
        steps += 1
        wrist = observation["robot0_eye_in_hand_image"]
        wrist += 1
        return np.array(
            [episode.rng.normal() * 0.02, *observation["robot0_eef_pos"] / 100, steps / 100, wrist[0, 0, 0] / 999, 1]
        )

    return session


@contextmanager
def serving(policy: Any, port: int = 0, **options: Any) -> Iterator[WebsocketServer]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = WebsocketServer(as_batch_policy(policy), listener, **{"most": 8, **options})
    try:
        yield server
    finally:
        assert server.close(HANG)


def policy_of(server: WebsocketServer, timeout: float = HANG) -> OpenpiPolicy:
    return openpi_policy(f"127.0.0.1:{server.port}", timeout)


@contextmanager
def client(server: WebsocketServer, **options: Any) -> Iterator[ClientConnection]:
    """As openpi's client connects; its metadata are received."""
    with connect(f"ws://127.0.0.1:{server.port}", compression=None, max_size=None, **options) as connection:
        assert OURS in decoded(connection.recv(HANG))
        yield connection


def asked(connection: ClientConnection, request: Any = None) -> Any:
    connection.send(encoded(REQUEST if request is None else request))
    return decoded(connection.recv(HANG))


def closing_code(connection: ClientConnection) -> int:
    with pytest.raises(ConnectionClosedError) as closed:
        connection.recv(HANG)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def episode(seed: int = 0, instruction: str = "do it", wishes: Wishes | None = None) -> Episode:
    case = f"s/t[seed{seed}]"
    return Episode(case, "s", "t", instruction, seed, noise_generator(0, case), wishes or Wishes())


def observation(value: int = 7) -> dict[str, Any]:
    return {"agentview_image": np.full((256, 200, 3), value, np.uint8), "state": np.arange(8.0)}


def run(policy: Policy, seed: int, **conditions: Any) -> Rollout:
    task = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, max_steps=20))
    case = Case("libero_goal", "turn_on_the_stove", seed)
    return run_episode(case, task, policy, World, Conditions("the policy", run_seed=5, **conditions))


def run_at_once(policy_for: Callable[[], Policy], count: int = 8) -> dict[int, Rollout]:
    ended: dict[int, Rollout] = {}

    def work(seed: int) -> None:
        ended[seed] = run(policy_for(), seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return ended


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
    with serving(Wandering(replan=4), digest="abc") as server:
        policy, where = policy_of(server), f"127.0.0.1:{server.port}"
        assert policy.replan == 4
        assert policy.traits.control_freq == 20
        assert policy.traits.reads == ("agentview_image", "state")
        assert policy.digest == "abc"
        check_openpi(where)
        assert run(policy, 0, replan=2).record.replan == 2
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
            assert "test_websocket.py" in str(raised.value.__cause__)
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


def test_openpis_client_gets_a_chunk_and_how_long_it_took() -> None:
    policy = Wandering()
    with serving(policy) as server, client(server) as connection:
        reply = asked(connection)
        assert set(reply) == {"actions", "server_timing"}
        assert (reply["actions"].shape, reply["actions"].dtype) == ((5, 7), np.float64)
        assert 0 < reply["server_timing"]["infer_ms"] < 10_000
        # A picture that the policy does not read may be missing.
        asked(connection, {name: value for name, value in REQUEST.items() if name != "observation/wrist_image"})
    assert [seen.keys() for seen in policy.seen] == [{"agentview_image", "state"}] * 2
    assert np.array_equal(policy.seen[0]["agentview_image"], PICTURE)
    assert policy.seen[0]["state"].tolist() == list(range(8))


def test_a_connection_is_a_session_and_another_prompt_begins_a_new_one() -> None:
    policy = Wandering()
    with serving(policy) as server:
        with client(server) as first, client(server) as second:
            # The fourth number counts the session's questions.
            counts = [asked(connection)["actions"][0, 3] for connection in (first, second, first, second, first)]
            assert [round(100 * count) for count in counts] == [1, 1, 2, 2, 3]
            assert round(100 * asked(first, {**REQUEST, "prompt": "now that"})["actions"][0, 3]) == 1
            assert (server.connections, server.batcher.sessions, policy.closed) == (2, 2, 1)
        until(lambda: server.batcher.sessions == 0)
        until(lambda: policy.closed == 3)
    assert [episode.instruction for episode in policy.episodes] == ["do it", "do it", "now that"]


def test_noise_that_nobody_brings_is_of_the_run_seed_the_connection_and_the_request() -> None:
    def answers(run_seed: int) -> list[Any]:
        with serving(Wandering(), run_seed=run_seed) as server:
            with client(server) as first:
                given = [asked(first)["actions"][:, :3] for _ in range(2)]
            with client(server) as second:
                return [*given, asked(second)["actions"][:, :3]]

    one, again, other = answers(1), answers(1), answers(2)
    assert np.array_equal(one, again)
    assert len({chunk.tobytes() for chunk in (*one, *other)}) == 6


def test_a_plain_policy_gets_from_openpis_client_what_that_has() -> None:
    def counting(episode: Episode) -> Any:
        return lambda observation: np.full(7, len(observation) / 10)

    with serving(counting) as server, client(server) as connection:
        assert asked(connection)["actions"].tolist() == [[0.3] * 7]
    with serving(plain) as server, client(server) as connection:
        connection.send(encoded(REQUEST))
        assert "KeyError: 'robot0_eef_pos'" in connection.recv(HANG)


def test_a_policy_that_reads_more_than_the_protocol_has_tells_other_clients_so() -> None:
    policy = Wandering()
    policy.reads = ("state", "robot0_joint_pos")
    with serving(policy) as server, client(server) as connection:
        connection.send(encoded(REQUEST))
        assert "this policy reads robot0_joint_pos, which openpi's protocol has no place for" in connection.recv(HANG)


def test_openpis_client_gets_the_traceback_as_text_and_then_the_end() -> None:
    with serving(Wandering()) as server, client(server) as whole:
        assert asked(whole)["actions"].shape == (5, 7)
        for prompt, words in (("raise", "KeyError: 'nothing here'\n"), ("nan", "policy-nan: action 0")):
            with client(server) as broken:
                broken.send(encoded({**REQUEST, "prompt": prompt}))
                assert words in broken.recv(10, decode=True)
                assert closing_code(broken) == 1011
        assert asked(whole)["actions"].shape == (5, 7)


BEGIN = {
    OURS: "begin",
    "case_id": "s/t[seed0]",
    "suite": "s",
    "task": "t",
    "instruction": "do it",
    "seed": 0,
    "wishes": {"samples": 0, "token_probabilities": False},
    "noise": pack_noise(np.random.Generator(np.random.PCG64(0))),
}


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ("hello", "a request is a binary frame of msgpack; this one is text"),
        (b"\xc1\xc1", "2 bytes that are no request"),
        (b"", "0 bytes that are no request"),
        (b"\x91" * 100_000, "no request"),
        ([1, 2], "a request is a dict, not list"),
        ({}, "lacks observation/image, observation/state, prompt; it has []"),
        ({**REQUEST, "prompt": 3}, "prompt: expected a text of up to 10000 characters, got 3"),
        ({**REQUEST, "prompt": "x" * 10_001}, "prompt: expected a text"),
        (
            {**REQUEST, "observation/image": PICTURE.astype(np.float32)},
            "(H, W, 3) of uint8, sides up to 4096, got float32",
        ),
        ({**REQUEST, "observation/image": PICTURE.transpose(2, 0, 1)}, "got uint8 (3, 224, 224)"),
        ({**REQUEST, "observation/image": np.zeros((5000, 1, 3), np.uint8)}, "got uint8 (5000, 1, 3)"),
        ({**REQUEST, "observation/image": np.zeros((0, 1, 3), np.uint8)}, "got uint8 (0, 1, 3)"),
        ({**REQUEST, "observation/image": [[0]]}, "'observation/image': expected a picture"),
        (
            {**REQUEST, "observation/state": np.zeros(7)},
            "'observation/state': expected 8 real numbers (8,), got float64 (7,)",
        ),
        ({**REQUEST, "observation/state": np.array(["x"] * 8)}, "expected 8 real numbers (8,), got <U1 (8,)"),
        ({"observation/image": {b"__ndarray__": True, b"dtype": "|O"}}, "not of dtype '|O'"),
        ({OURS: "harm"}, "expected one of begin, act, end, got 'harm'"),
        ({OURS: {}}, "expected one of begin, act, end"),
        ({OURS: "act"}, "a question before the episode's begin"),
        ({OURS: "begin"}, "case_id: expected a text"),
        ({**BEGIN, "seed": 1.5}, "seed: expected an integer, got 1.5"),
        ({**BEGIN, "noise": [b"", b"", 0]}, "noise: no state of a generator"),
        ({**BEGIN, "noise": [bytes([255] * 100), b"", 0, 0]}, "noise: no state of a generator"),
        ({**BEGIN, "wishes": {"samples": 10**9, "token_probabilities": True}}, "wishes: expected up to 1000 samples"),
    ],
)
def test_nonsense_is_told_what_it_is_and_hurts_nobody_else(frame: Any, complaint: str) -> None:
    told: list[str] = []
    with serving(Wandering(), told=told.append) as server, client(server) as whole:
        asked(whole)
        with client(server) as connection:
            connection.send(frame if isinstance(frame, str | bytes) else encoded(frame))
            text = connection.recv(10, decode=True)
            assert complaint in text
            assert len(text) < 500
            assert closing_code(connection) == 1008
        assert round(100 * asked(whole)["actions"][0, 3]) == 2
        until(lambda: len(told) == 1)
    assert complaint in told[0]


@pytest.mark.parametrize(
    ("observed", "complaint"),
    [
        (None, "observation: expected a dict of arrays, got None"),
        ({"state": np.zeros(8)}, "observation: expected agentview_image, state, got ['state']"),
        ({"agentview_image": PICTURE, "state": np.zeros((2, 4))}, "'state': expected 8 real numbers (8,)"),
        (
            {"agentview_image": np.zeros((4, 4, 4), np.uint8), "state": np.zeros(8)},
            "'agentview_image': expected a picture",
        ),
    ],
)
def test_a_client_of_ours_that_asks_nonsense_is_told_so(observed: Any, complaint: str) -> None:
    with serving(Wandering()) as server, client(server) as connection:
        assert asked(connection, BEGIN) == {}
        connection.send(encoded({OURS: "act", "noise": BEGIN["noise"], "observation": observed}))
        assert complaint in connection.recv(HANG)
        until(lambda: server.batcher.sessions == 0)


def test_more_bytes_than_a_request_may_have_end_the_connection() -> None:
    with serving(Wandering()) as server, client(server) as connection:
        with suppress(ConnectionClosedError):
            connection.send(bytes(17 * 1024 * 1024))
        assert closing_code(connection) == 1009
        with client(server) as other:
            assert asked(other)["actions"].shape == (5, 7)


def read_or_refusal(read: Callable[..., Any], *given: Any) -> Any:
    try:
        return read(*given)
    except BadRequest as error:
        text = str(error)
    assert len(text) < 400
    return text


@given(st.binary(max_size=200))
def test_any_bytes_are_a_table_or_refused(data: bytes) -> None:
    assert isinstance(read_or_refusal(read_request, data), dict | str)


NONSENSE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.sampled_from([np.zeros(8), np.zeros((2, 2, 3), np.uint8), np.float32(1), PICTURE]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9) | st.binary(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from([*REQUEST, "observation", b"x"]), NONSENSE),
    st.sampled_from([None, ("state",), ("a",)]),
)
def test_any_table_is_a_request_or_refused(request: dict[Any, Any], reads: Sequence[str] | None) -> None:
    for read in (read_libero_request, read_observation):
        assert isinstance(read_or_refusal(read, request, reads), dict | tuple | str)


def test_a_key_is_asked_for_but_not_for_the_servers_health() -> None:
    told: list[str] = []
    with serving(Wandering(), key="s3cret", told=told.append) as server:
        for headers in (
            [],
            [("Authorization", "Api-Key s3cre")],
            [("Authorization", "s3cret")],
            [("Authorization", "Api-Key s3cret")] * 2,
        ):
            with pytest.raises(InvalidStatus) as refused, client(server, additional_headers=headers):
                pass
            assert refused.value.response.status_code == 401
        with client(server, additional_headers=[("Authorization", "Api-Key s3cret")]) as connection:
            assert asked(connection)["actions"].shape == (5, 7)
        health = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG)
        health.request("GET", "/healthz")
        answer = health.getresponse()
        assert (answer.status, answer.read()) == (200, b"OK\n")
        health.close()
    assert [line.partition(": ")[2] for line in told] == [
        "refused, there is no key",
        *["refused, the key is another"] * 3,
    ]
    assert "s3cre" not in " ".join(told)


def test_our_client_brings_the_key_of_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Wandering(), key="s3cret") as server:
        monkeypatch.setenv(KEY, "another")
        with pytest.raises(VlaError, match="refuses the key in the environment variable PYTEST_VLA_POLICY_KEY"):
            check_openpi(f"127.0.0.1:{server.port}")
        monkeypatch.setenv(KEY, "s3cret")
        assert run(policy_of(server), 0).record.outcome == "failure"


def test_a_web_page_in_a_browser_is_refused() -> None:
    with (
        serving(Wandering()) as server,
        pytest.raises(InvalidStatus) as refused,
        client(server, origin="https://example.org"),
    ):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "said", [b"", b"\x00" * 5000, b"GET / HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"GET /" + b"x" * 20_000]
)
def test_who_speaks_no_websocket_hurts_nobody(said: bytes) -> None:
    with serving(Wandering()) as server, socket.create_connection(("127.0.0.1", server.port), HANG) as stranger:
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        with client(server) as connection:
            assert asked(connection)["actions"].shape == (5, 7)


CLIENT = """
import sys
sys.path.insert(0, {repository!r})
import numpy as np
from pytest_vla.policies.base import Episode; from pytest_vla.policies.noise import noise_generator
from pytest_vla.policies.openpi import openpi_policy
session = openpi_policy("127.0.0.1:{port}")(Episode("c", "s", "t", "do it", 0, noise_generator(0, "c")))
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
        until(lambda: server.batcher._waiting.qsize() == 2)
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
        session._connection._timeout = 0.2  # Not of the connecting, too.
        policy.gate.clear()
        with pytest.raises(EpisodeError, match=r"no answer within 0.2 s") as raised:
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
        Served.of({OURS: table})


def test_metadata_say_what_was_put_into_them() -> None:
    assert Served.of({}) is None
    for served in (Served(None), Served(("state",), 3, "abc")):
        assert Served.of(decoded(encoded(served.metadata()))) == served


def test_no_free_descriptors_are_a_pause_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    troubles = [OSError(errno.EMFILE, "too many open files"), TimeoutError(), OSError(errno.ECONNABORTED, "gone")]

    class Troubled:
        """Takes the place of `socket.socket`'s own accept."""

        def __call__(self, listener: socket.socket) -> Any:
            if troubles:
                raise troubles.pop(0)
            return accept(listener)

    accept = socket.socket.accept
    monkeypatch.setattr(websocket, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(socket.socket, "accept", lambda listener: Troubled()(listener))
    with serving(Wandering()) as server, client(server) as connection:
        assert asked(connection)["actions"].shape == (5, 7)
    assert not troubles


def test_a_request_in_very_many_pieces_is_refused_and_one_in_some_is_not() -> None:
    whole = encoded(REQUEST)
    with serving(Wandering()) as server:
        with client(server) as connection:
            connection.send(whole[at : at + 4096] for at in range(0, len(whole), 4096))
            assert "actions" in decoded(connection.recv(HANG))
        with client(server) as connection:
            with suppress(ConnectionClosedError):
                connection.send(itertools.repeat(b"", 3000))
            assert "up to 1000 pieces" in connection.recv(HANG)
            assert closing_code(connection) == 1008
