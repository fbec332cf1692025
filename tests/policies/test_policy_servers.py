"""Clients of GR00T's, X-VLA's and starVLA's servers: what is sent, what is read, and what goes wrong."""

import base64
import dataclasses
import json
import pickle
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.extensions import policies
from pytest_vla.plan.case import Case
from pytest_vla.plan.evaluators import load_evaluator
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies import openpi_connection
from pytest_vla.policies.base import Episode
from pytest_vla.policies.fit import check_fit, traits_of
from pytest_vla.policies.load import check_model, load_policy
from pytest_vla.policies.openpi_connection import GONE, KEY, MAX_REPLY
from pytest_vla.policies.policy_servers import PROTOCOLS, check_server, server_policies
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.testing import World
from tests.support import openpi_server
from tests.support.policy_servers import GREETING, OnTheWire, http, libzmq, npy, zeromq
from tests.support.waiting import HANG

TASK = load_suite("libero_goal").task("turn_on_the_stove")
EPISODE = Episode("libero_goal/a[seed0]", "libero_goal", "a", "do it", 0, np.random.default_rng(0))
NAMES = ("x", "y", "z", "roll", "pitch", "yaw", "gripper")
EVALUATORS = {"groot": "groot-n1.7", "groot-n1.5": "groot-n1.5", "x-vla": "x-vla", "starvla": ""}
# Of limits within which the first answers come, on a machine however busy.
SECONDS = (1.0, 10.0, 100.0)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(KEY, raising=False)


def an_observation() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    names = ("agentview_image", "robot0_eye_in_hand_image")
    pictures = {name: rng.integers(0, 256, (256, 256, 3), dtype=np.uint8) for name in names}
    controller = {"controller_pos": np.array([0.1, 0.2, 0.3]), "controller_mat": np.arange(9.0).reshape(3, 3)}
    return {**pictures, **controller, "state": np.arange(8.0)}


def config(value: object) -> dict[str, Any]:
    return {"video": {"__ModalityConfig_class__": True, "as_json": value}}


N15, N17 = config('{"modality_keys": ["video.image"]}'), config({"modality_keys": ["image"]})


def groot_chunk(steps: int = 16, dtype: str = "f4") -> dict[str, Any]:
    """N1.7's: a batch of one, and one value a step; the first moves to the left, and all but it close the gripper."""
    parts = {f"action.{name}": np.zeros((1, steps, 1), dtype) for name in NAMES}
    parts["action.x"][0, 0] = 0.25
    parts["action.gripper"][0, 0] = 1
    return parts


def groot(reply: Callable[[], Any] = lambda: [groot_chunk(), {}], said: Any = N17) -> Callable[[dict[str, Any]], Any]:
    return lambda request: said if request["endpoint"] == "get_modality_config" else reply()


def n15_reply() -> Any:
    return {name: part.reshape(-1).astype("f8") for name, part in groot_chunk().items()}


POSE = [0.1, 0.2, 0.3, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]


def x_vla(reply: Any = None) -> Callable[[dict[str, Any]], Any]:
    return lambda request: (
        {"action": [[*POSE, grip, *[9.0] * 10] for grip in (0.6, 0.4, 0.5)]} if reply is None else reply
    )


STARVLA = {"env": "starvla_policy_server", "ckpt_path": "a.pt", "action_chunk_size": 8}


def starvla_reply(request: dict[str, Any]) -> Any:
    actions = np.zeros((1, 8, 7), "f4")
    actions[0, :4, 6] = 1
    return {
        "status": "ok",
        "ok": True,
        "type": "inference_result",
        "request_id": "default",
        "data": {"actions": actions},
    }


@contextmanager
def serving(kind: str, reply: Callable[[dict[str, Any]], Any] | None = None, port: int = 0) -> Iterator[Any]:
    """A server of a kind, with an attribute `port`, that answers as a sound one does."""
    if kind == "starvla":
        with openpi_server.serving(reply or starvla_reply, metadata=STARVLA, port=port) as server:
            yield server
    elif kind == "x-vla":
        with http(reply or x_vla(), port=port) as seen:
            yield seen
    else:
        sound = groot() if kind == "groot" else groot(n15_reply, N15)
        with zeromq(reply or sound, port=port) as seen:
            yield seen


def run(kind: str, port: int, max_steps: int = 10, limit: float = HANG, **conditions: Any) -> Rollout:
    """An episode in a scripted world, under the evaluator that the kind implies."""
    task = load_evaluator(EVALUATORS[kind] or "ours").task(TASK)
    protocol = dataclasses.replace(task.protocol, max_steps=max_steps, scenes="seed", starts="init_states")
    task = dataclasses.replace(task, protocol=protocol)
    policy = server_policies(kind, f"127.0.0.1:{port}", limit)
    return run_episode(Case("libero_goal", TASK.name, 0), task, policy, World, Conditions(kind, **conditions))


@pytest.mark.parametrize("server", [zeromq, libzmq])
def test_groot_gets_what_its_sim_wrapper_takes(server: Any) -> None:
    if server is libzmq:
        pytest.importorskip("zmq", reason="pyzmq is not installed")
    seen = an_observation()
    with server(groot()) as served:
        session: Any = server_policies("groot", served.where)(EPISODE)  # type: ignore[operator]
        chunks = [session(seen), session(seen)]
        session.close()
    for chunk in chunks:
        assert chunk.shape == (16, 7)
        assert chunk[0].tolist() == [0.25, 0, 0, 0, 0, 0, -1]
        assert chunk[1:, 6].tolist() == [1.0] * 15
    request = served.requests[-1]
    assert {name: request[name] for name in ("endpoint",)} == {"endpoint": "get_action"}
    assert "api_token" not in request
    assert request["data"]["options"] is None
    asked = request["data"]["observation"]
    assert asked.pop("annotation.human.action.task_description") == ["do it"]
    for name, ours in (("image", "agentview_image"), ("wrist_image", "robot0_eye_in_hand_image")):
        assert np.array_equal(asked.pop(f"video.{name}"), seen[ours][None, None])
    assert {name: (part.dtype.str, part.shape) for name, part in asked.items()} == {
        f"state.{name}": ("<f4", (1, 1, 2 if name == "gripper" else 1)) for name in NAMES
    }
    assert [float(asked[f"state.{name}"].reshape(-1)[-1]) for name in NAMES] == [0, 1, 2, 3, 4, 5, 7]


@pytest.mark.parametrize("server", [zeromq, libzmq])
@pytest.mark.parametrize("shape", [(16,), (16, 1)])
def test_groot_n15_gets_what_its_libero_script_sends(server: Any, shape: tuple[int, ...]) -> None:
    if server is libzmq:
        pytest.importorskip("zmq", reason="pyzmq is not installed")

    def reply() -> Any:
        return {name: part.reshape(shape) for name, part in n15_reply().items()}

    with server(groot(reply, N15)) as served:
        session: Any = server_policies("groot-n1.5", served.where)(EPISODE)  # type: ignore[operator]
        assert session(an_observation())[0].tolist() == [0.25, 0, 0, 0, 0, 0, -1]
        session.close()
    data = served.requests[-1]["data"]
    assert data.pop("annotation.human.action.task_description") == ["do it"]
    shapes = {name: (part.dtype.str, part.shape) for name, part in data.items()}
    pictures = {f"video.{name}": ("|u1", (1, 256, 256, 3)) for name in ("image", "wrist_image")}
    assert shapes == {**pictures, **{f"state.{n}": ("<f8", (1, 2 if n == "gripper" else 1)) for n in NAMES}}


def test_x_vla_gets_what_its_libero_client_sends() -> None:
    seen = an_observation()
    with http(x_vla()) as served:
        policy: Any = server_policies("x-vla", served.where)
        session = policy(EPISODE)
        chunk = session(seen)
        session(seen)
    assert chunk.shape == (3, 10)
    assert chunk[:, 9].tolist() == [1.0, -1.0, -1.0]
    first, second = served.requests
    settings = {name: first.pop(name) for name in ("domain_id", "steps", "language_instruction")}
    assert settings == {"domain_id": 3, "steps": 10, "language_instruction": "do it"}
    arrays = [{name: decoded(first[name]) for name in first}, {"proprio": decoded(second["proprio"])}]
    assert set(first) == {"proprio", "image0", "image1"}
    # The controller's columns, then the last action that it gave.
    assert arrays[0]["proprio"].tolist() == [0.1, 0.2, 0.3, 0, 3, 6, 1, 4, 7, *[0] * 11]
    assert arrays[1]["proprio"].tolist() == [*POSE, *[0] * 11]
    assert np.array_equal(arrays[0]["image0"], seen["agentview_image"])
    # As rendered: an episode's wrist is turned by 180 degrees.
    assert np.array_equal(arrays[0]["image1"], seen["robot0_eye_in_hand_image"][::-1, ::-1])


def test_x_vlas_state_is_that_of_its_evaluator() -> None:
    shown: list[Any] = []
    with http(x_vla()) as served:
        policy: Any = server_policies("x-vla", served.where)

        def watched(episode: Episode) -> Any:
            session = policy(episode)
            return lambda observation: (shown.append(observation["state"]), session(observation))[1]

        watched.traits = policy.traits  # type: ignore[attr-defined]
        task = load_evaluator("x-vla").task(TASK)
        task = dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, max_steps=9))
        run_episode(Case("libero_goal", TASK.name, 0), task, watched, World, Conditions("x-vla"))
    sent = [decoded(request["proprio"])[:10].tolist() for request in served.requests]
    assert (len(sent), sent) == (3, [state.tolist() for state in shown])


def decoded(text: str) -> Any:
    table = json.loads(text)
    return np.frombuffer(base64.b64decode(table["__numpy__"]), table["dtype"]).reshape(table["shape"])


def test_arrays_are_what_json_numpy_reads() -> None:
    json_numpy = pytest.importorskip("json_numpy", reason="json-numpy is not installed")
    with http(x_vla()) as served:
        policy: Any = server_policies("x-vla", served.where)
        policy(EPISODE)(an_observation())
    for name in ("proprio", "image0", "image1"):
        read = json_numpy.loads(served.requests[0][name])
        assert np.array_equal(read, decoded(served.requests[0][name]))
        assert served.requests[0][name] == json_numpy.dumps(read)


def test_starvla_gets_what_its_libero_client_sends() -> None:
    with openpi_server.serving(starvla_reply, metadata=STARVLA) as served:
        policy: Any = server_policies("starvla", f"127.0.0.1:{served.port}")
        session = policy(EPISODE)
        chunk = session(an_observation())
        session.close()
    assert chunk[:, 6].tolist() == [-1.0] * 4 + [1.0] * 4
    (request,) = served.requests
    (example,) = request.pop("examples")
    assert request == {"unnorm_key": None, "do_sample": False, "use_ddim": True, "num_ddim_steps": 10}
    assert example["lang"] == "do it"
    assert [(picture.shape, picture.dtype) for picture in example["image"]] == [((224, 224, 3), np.uint8)] * 2


@pytest.mark.parametrize("kind", EVALUATORS)
def test_an_episode_runs_under_the_evaluator_that_the_kind_implies(kind: str) -> None:
    assert policies()[kind].evaluator == EVALUATORS[kind]
    with serving(kind) as server:
        check_server(kind, f"127.0.0.1:{server.port}")
        policy = server_policies(kind, f"127.0.0.1:{server.port}")
        task = load_evaluator(EVALUATORS[kind] or "ours").task(TASK)
        assert check_fit(traits_of(policy), (TASK.suite, task.protocol)) == ()
        ended = run(kind, server.port)
        again = run(kind, server.port)
    assert (ended.record.outcome, ended.steps) == ("failure", 10), ended.record.message
    assert ended.record.digest == again.record.digest
    if kind == "x-vla":
        assert np.allclose(ended.trajectory.actions[0], [0.1, 0.2, 0.3, 0, 0, 0, 1], atol=1e-5)


@pytest.mark.parametrize("name", ["groot", "groot-n1.5", "starvla", "x-vla"])
def test_a_gripper_in_minus_one_to_one_is_refused(name: str) -> None:
    parts = {**groot_chunk(), "action.gripper": np.full((1, 16, 1), -1.0)}
    flat = {key: part.reshape(-1) for key, part in parts.items()}
    replies: dict[str, Any] = {
        "groot": groot(lambda: [parts, {}]),
        "groot-n1.5": groot(lambda: flat, N15),
        "starvla": lambda request: {"data": {"actions": np.full((1, 8, 7), -1.0)}},
        "x-vla": x_vla({"action": [[*POSE, -1.0]]}),
    }
    with serving(name, replies[name]) as server:
        assert run(name, server.port).record.reason == "policy-range"


def with_part(value: Any) -> list[Any]:
    return [{**groot_chunk(), "action.yaw": value}, {}]


def npy_of(header: bytes, data: bytes = b"") -> dict[str, Any]:
    return {
        "__ndarray_class__": True,
        "as_npy": b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data,
    }


@pytest.mark.parametrize(
    ("reply", "reason", "message"),
    [
        ({"error": "CUDA out of memory"}, "policy-raised", "CUDA out of memory"),
        ({"error": "Unauthorized: Invalid API token"}, "policy-raised", KEY),
        ([], "policy-protocol", "without a dict"),
        ({}, "policy-protocol", "without a dict"),
        ([{"action.x": np.zeros((1, 16, 1))}, {}], "policy-protocol", "without action.y; the reply has action.x"),
        (with_part(np.zeros((1, 15, 1))), "policy-shape", "[16, 16, 16, 16, 16, 15, 16]"),
        (with_part(np.zeros((2, 16, 1))), "policy-shape", "(2, 16, 1)"),
        (with_part(np.zeros((16, 2))), "policy-shape", "(16, 2)"),
        (with_part(np.zeros((1, 0, 1))), "policy-shape", "(1, 0, 1)"),
        (with_part(np.full((1, 16, 1), np.nan)), "policy-nan", "action 0"),
        (with_part(np.zeros((1, 16, 1), "c8")), "policy-dtype", "action.yaw"),
        (with_part(npy(np.array([[None]]), allow_pickle=True)), "policy-dtype", "action.yaw"),
        (with_part({"__ndarray_class__": True, "as_npy": pickle.dumps(0)}), "policy-dtype", "action.yaw"),
        (with_part({"__ndarray_class__": True}), "policy-dtype", "action.yaw"),
        (with_part([0.0] * 16), "policy-dtype", "action.yaw"),
        (
            with_part(npy_of(b"{'descr': '<f1', 'fortran_order': False, 'shape': (16,), }", bytes(16))),
            "policy-dtype",
            "yaw",
        ),
        (
            with_part(npy_of(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4 4,), }", bytes(64))),
            "policy-dtype",
            "yaw",
        ),
        # A terabyte in 100 bytes, and a header that is code.
        (
            with_part(npy_of(b"{'descr': '<f8', 'fortran_order': False, 'shape': (1, 999999999999, 1), }")),
            "policy-dtype",
            "action.yaw",
        ),
        (with_part(npy_of(b"{'descr': print(1), 'fortran_order': False, 'shape': (1,), }")), "policy-dtype", "yaw"),
        (b"ERROR", "policy-protocol", "5 bytes that are no reply"),
        (b"\xdd\xff\xff\xff\xff", "policy-protocol", "more than 100000 elements"),
        (pickle.dumps({}), "policy-protocol", "that are no reply"),
        (OnTheWire(b"\x01\x00\x02" + (MAX_REPLY + 1).to_bytes(8, "big")), "policy-protocol", "at most"),
        (OnTheWire(b"\x01\x00" * 3), "policy-protocol", "no reply of one frame"),
        (OnTheWire(b"\x00\x01x"), "policy-protocol", "no reply of one frame"),
        # Heartbeats of a later version are skipped.
        (OnTheWire(b"\x04\x07\x04PING\0\0" * 3 + b"\x00\x00"), "policy-protocol", "no reply of one frame"),
    ],
)
def test_what_groots_server_replies_is_bounded_and_checked(reply: Any, reason: str, message: str) -> None:
    asked = groot(lambda: reply)
    with zeromq(asked) as server:
        ended = run("groot", server.port)
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, 0), ended.record.message
    assert message in str(ended.record.message)


@pytest.mark.parametrize(
    ("reply", "reason", "message"),
    [
        ((400, {"error": "Request failed"}), "policy-raised", 'HTTP 400: {"error": "Request failed"}'),
        ((500, b"\x1b[2J"), "policy-raised", "HTTP 500: ?[2J"),
        ((302, {}), GONE, "redirects to /elsewhere (HTTP 302). Redirects are not followed"),
        ((401, {}), GONE, KEY),
        ((404, {}), GONE, "it has no /act (HTTP 404)"),
        (b"<html>", "policy-protocol", "6 bytes that are no JSON"),
        (b"[" * 90_000, "policy-protocol", "no JSON"),
        (b"[" * 200_000, "policy-protocol", "more than 100000 elements"),
        (b'{"action": ' + b"1" * 10_000 + b"}", "policy-protocol", "no JSON"),
        (b" " * (MAX_REPLY + 1), "policy-protocol", f"more than {MAX_REPLY} bytes"),
        ({"actions": []}, "policy-protocol", "without an action; the reply has actions"),
        ([1], "policy-protocol", "without an action; the reply has list"),
        ({"action": []}, "policy-shape", "(0,)"),
        ({"action": POSE}, "policy-shape", "(9,)"),
        ({"action": [POSE]}, "policy-shape", "(1, 9)"),
        ({"action": [[*POSE, float("nan")]]}, "policy-nan", "action 0"),
        ({"action": [[*POSE, "x"]]}, "policy-dtype", "no array of numbers"),
        ({"action": [[*POSE, 1], [1]]}, "policy-dtype", "no array of numbers"),
        ({"action": {"__numpy__": "AAAA", "dtype": "|O", "shape": [1]}}, "policy-dtype", "no array of numbers"),
    ],
)
def test_what_x_vlas_server_replies_is_bounded_and_checked(reply: Any, reason: str, message: str) -> None:
    with http(x_vla(reply)) as server:
        ended = run("x-vla", server.port)
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, 0), ended.record.message
    assert message in str(ended.record.message)


@pytest.mark.parametrize(
    ("reply", "reason", "message"),
    [
        ({"ok": False, "status": "error", "error": {"message": "no such key"}}, "policy-raised", "no such key"),
        ({"ok": False}, "policy-raised", "without a message"),
        ({"ok": True}, "policy-protocol", "the reply's data have NoneType"),
        ({"data": {"thoughts": 1}}, "policy-protocol", "the reply's data have thoughts"),
        ({"data": {"normalized_actions": np.zeros((1, 8, 7))}}, "policy-protocol", "update it there"),
        ({"data": {"actions": [[[0.0] * 7]]}}, "policy-shape", "list"),
        ({"data": {"actions": np.zeros((2, 8, 7))}}, "policy-shape", "(2, 8, 7)"),
        ({"data": {"actions": np.zeros((1, 8, 6))}}, "policy-shape", "(8, 6)"),
        ({"data": {"actions": np.full((1, 8, 7), np.inf)}}, "policy-nan", "action 0"),
    ],
)
def test_what_starvlas_server_replies_is_checked(reply: Any, reason: str, message: str) -> None:
    with serving("starvla", lambda request: reply) as server:
        ended = run("starvla", server.port)
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, 0), ended.record.message
    assert message in str(ended.record.message)


@pytest.mark.parametrize("kind", EVALUATORS)
def test_a_server_that_is_not_there_is_refused_before_the_first_episode(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spec = ModelSpec(f"{kind}:127.0.0.1:{port}", Path())
    with pytest.raises(VlaError) as refused:
        check_model(spec)
    scheme = PROTOCOLS[kind].schemes[0]
    assert str(refused.value).startswith(f"--vla-model={spec.text}: nothing listens at {scheme}://127.0.0.1:{port}.")
    assert PROTOCOLS[kind].expected in str(refused.value)


@pytest.mark.parametrize("kind", EVALUATORS)
def test_only_websockets_need_a_package(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(kind) as server:
        for name in ("websockets", "websockets.exceptions", "websockets.sync.client"):
            monkeypatch.setitem(sys.modules, name, None)
        if kind == "starvla":
            with pytest.raises(VlaError, match=r"pip install 'pytest-vla\[remote\]'"):
                check_server(kind, f"127.0.0.1:{server.port}")
        else:
            check_server(kind, f"127.0.0.1:{server.port}")
            assert run(kind, server.port, max_steps=2).record.outcome == "failure"
        monkeypatch.undo()


@pytest.mark.parametrize("kind", EVALUATORS)
def test_a_server_that_dies_is_an_error_and_its_return_is_noticed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openpi_connection, "AWAY_SECONDS", HANG)
    asked: list[int] = []

    def dying(request: dict[str, Any]) -> Any:
        if request.get("endpoint") != "get_modality_config":
            asked.append(1)
            raise openpi_server.Died
        return N17 if kind == "groot" else N15

    with serving(kind, dying) as server:
        port = server.port
        policy: Any = server_policies(kind, f"127.0.0.1:{port}")
        session = policy(EPISODE)
        with pytest.raises(EpisodeError) as broken:
            session(an_observation())
    assert (broken.value.reason, len(asked)) == (GONE, 1), broken.value.message
    with pytest.raises(EpisodeError) as gone:
        policy(EPISODE)(an_observation())
    assert gone.value.reason == GONE
    with serving(kind, port=port):
        assert policy.recover(GONE)
        session = policy(EPISODE)
        assert len(session(an_observation()))
    assert not policy.recover("policy-shape")


@pytest.mark.parametrize("kind", EVALUATORS)
def test_a_slow_reply_is_waited_for_up_to_the_limit(kind: str) -> None:
    release = threading.Event()

    def slow(request: dict[str, Any]) -> Any:
        if request.get("endpoint") == "get_modality_config":
            return N17 if kind == "groot" else N15
        release.wait()
        raise openpi_server.Died

    for seconds in SECONDS:
        release.clear()
        with serving(kind, slow) as server:
            policy: Any = server_policies(kind, f"127.0.0.1:{server.port}", seconds / 10)
            try:
                with pytest.raises(EpisodeError) as late:
                    policy(EPISODE)(an_observation())
            finally:
                release.set()
        if late.value.reason == "policy-timeout":
            break
    assert f"gave no answer within {seconds:g} s (10 times --vla-policy-timeout" in late.value.message


@pytest.mark.parametrize("kind", ["groot", "x-vla"])
def test_a_server_that_trickles_reaches_the_limit_too(kind: str) -> None:
    """A socket's own limit is one for each part."""
    over = threading.Event()

    def trickle(connection: socket.socket) -> None:
        with connection:
            if kind == "groot":
                connection.sendall(GREETING[:10])
            try:
                while not over.wait(0.02):
                    connection.sendall(b"H")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: trickle(listening.accept()[0]))
        thread.start()
        policy: Any = server_policies(kind, f"127.0.0.1:{listening.getsockname()[1]}", 0.5)
        try:
            with pytest.raises(EpisodeError) as late:
                _ = policy.said
        finally:
            over.set()
            thread.join()
    assert late.value.reason == GONE
    assert "gave no answer within 0.5 s to a new connection" in late.value.message


@pytest.mark.parametrize("user", ["", "me:p%40ss@"])
def test_x_vla_is_reached_through_the_environments_proxy(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def forward(connection: socket.socket, port: int) -> None:
        with connection, socket.create_connection(("127.0.0.1", port)) as beyond:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += connection.recv(1)
            asked.append(head)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            beyond.sendall(connection.recv(2**16))
            while data := beyond.recv(2**16):
                connection.sendall(data)

    with http(x_vla()) as server, socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: forward(listening.accept()[0], server.port))
        thread.start()
        monkeypatch.setenv("http_proxy", f"http://{user}127.0.0.1:{listening.getsockname()[1]}")
        check_server("x-vla", "gpu.example:8000")
        thread.join()
    assert asked[0].startswith(b"CONNECT gpu.example:8000 HTTP/1.")
    assert (b"Proxy-Authorization: Basic bWU6cEBzcw==" in asked[0]) == bool(user)


@pytest.mark.parametrize("cut", [b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{", b"", b"no HTTP\r\n\r\n"])
def test_a_reply_of_http_that_is_cut_off_is_no_answer(cut: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        with connection:
            connection.recv(2**16)
            connection.sendall(cut)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: answer(listening.accept()[0]))
        thread.start()
        policy: Any = server_policies("x-vla", f"127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises(EpisodeError) as broken:
            _ = policy.said
        thread.join()
    assert broken.value.reason == GONE


@pytest.mark.parametrize(
    "greeting",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n" + b" " * 64,
        GREETING[:10] + b"\x01" + GREETING[11:],
        GREETING[:12] + b"CURVE" + GREETING[17:],
    ],
)
def test_another_server_than_zeromqs_is_told(greeting: bytes) -> None:
    with zeromq(groot(), greeting=greeting) as server, pytest.raises(VlaError, match="ZeroMQ"):
        check_server("groot", server.where)


def test_a_server_that_refuses_the_connection_is_told() -> None:
    refusing = b"\x04\x0b\x05ERROR\x04no\x1b!"
    with zeromq(groot(), ready=refusing) as server, pytest.raises(VlaError, match="refuses the connection"):
        check_server("groot", server.where)


@pytest.mark.parametrize("status", [302, 401, 404, 500])
def test_another_http_server_is_told(status: int) -> None:
    with http(x_vla(), get=status) as server, pytest.raises(VlaError, match=f"HTTP {status}"):
        check_server("x-vla", server.where)
    assert server.connections == 1, "a redirect is not followed"


def test_a_server_of_another_version_is_told() -> None:
    with zeromq(groot(n15_reply, N15)) as server, pytest.raises(VlaError, match=r"write groot-n1.5:HOST:PORT"):
        check_server("groot", server.where)
    with zeromq(groot()) as server, pytest.raises(VlaError, match=r"write groot:HOST:PORT"):
        check_server("groot-n1.5", server.where)
    # Some servers do not describe themselves.
    with zeromq(groot(said={})) as server:
        check_server("groot", server.where)
        assert server_policies("groot", server.where).digest is None  # type: ignore[attr-defined]


def test_a_key_is_sent_to_groots_and_x_vlas_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret")
    with zeromq(groot()) as server:
        check_server("groot", server.where)
    assert server.requests == [{"endpoint": "get_modality_config", "api_token": "secret"}]


@pytest.mark.parametrize(
    ("kind", "where", "url"),
    [
        ("groot", "gpu", "tcp://gpu:5555"),
        ("groot-n1.5", "tcp://gpu:1", "tcp://gpu:1"),
        ("x-vla", "gpu", "http://gpu:8000"),
        ("x-vla", "https://gpu/x", "https://gpu/x"),
        ("starvla", "[::1]", "ws://[::1]:10093"),
    ],
)
def test_what_is_typed_is_an_address(kind: str, where: str, url: str) -> None:
    assert str(server_policies(kind, where).address) == url  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("model", "expected"),
    [("groot:ws://gpu", "groot:tcp://HOST:PORT"), ("x-vla:tcp://gpu", "x-vla:http://HOST:PORT"), ("x-vla:a@b", KEY)],
)
def test_an_address_of_another_protocol_is_refused(model: str, expected: str) -> None:
    with pytest.raises(VlaError) as refused:
        check_model(ModelSpec(model, Path()))
    assert expected in str(refused.value)


def test_servers_of_several_kinds_in_a_list_serve_one_policy() -> None:
    with zeromq(groot()) as one, zeromq(groot()) as other, zeromq(groot(said=config({"other": 1}))) as unlike:
        check_server("groot", f"{one.where},{other.where}")
        with pytest.raises(VlaError, match="serve different policies"):
            check_server("groot", f"{one.where},{unlike.where}")


@pytest.mark.parametrize("does", [check_model, load_policy])
def test_lerobots_async_server_is_refused_by_name(does: Callable[[ModelSpec], Any]) -> None:
    with pytest.raises(VlaError) as refused:
        does(ModelSpec("lerobot-async:gpu:8080", Path()))
    assert "pickles" in str(refused.value)
    assert "pytest-vla serve --vla-model=lerobot:PATH" in str(refused.value)
