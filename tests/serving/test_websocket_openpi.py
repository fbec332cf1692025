"""A policy offered to openpi's own clients: sessions, noise, and what the protocol does not have."""

from typing import Any

import numpy as np

from pytest_vla.policies.base import Episode
from tests.support.openpi_server import encoded
from tests.support.waiting import HANG, until
from tests.support.websocket_policies import PICTURE, REQUEST, Wandering, asked, client, closing_code, plain, serving


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
