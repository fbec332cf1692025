"""The client of vla-eval's model servers, against that package's own server in a process of its own."""

import dataclasses
import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies import openpi_connection
from pytest_vla.policies.base import Episode
from pytest_vla.policies.fit import WARNING, Traits, check_fit, traits_of
from pytest_vla.policies.policy_servers import check_server, server_policies
from pytest_vla.policies.servers import ServersPolicy
from pytest_vla.policies.vla_eval import declared_traits, vla_eval_state
from pytest_vla.records.counting import SAID
from pytest_vla.testing import World
from tests.support.model_server import ModelServer, model_server
from tests.support.openpi_server import serving
from tests.support.waiting import HANG

TASK = load_suite("libero_goal").task("turn_on_the_stove")
EPISODE = Episode("libero_goal/a[seed0]", "libero_goal", "a", "walk", 0, np.random.default_rng(0))
ALL = {"send_wrist_image": True, "send_state": True, "quat_no_antipodal": True, "seed": 0}
# Of limits within which the first answers come, on a machine however busy.
SECONDS = (1.0, 10.0, 100.0)

Start = Callable[..., ModelServer]


@contextmanager
def scripted(reply: Callable[[dict[str, Any]], dict[str, Any]], **hello: Any) -> Iterator[str]:
    """A server whose replies are changed by what `reply` returns, without the package vla-eval."""

    def talk(connection: ServerConnection) -> None:
        for frame in connection:
            message = msgpack.unpackb(frame)
            if message["type"] == "hello":
                connection.send(msgpack.packb({**message, "payload": hello}))
            elif message["type"] == "observation":
                changed = {**message, "type": "action", "payload": {}, **reply(message)}
                with suppress(ConnectionClosed):
                    connection.send(msgpack.packb(changed))

    with serve(talk, "127.0.0.1", 0, compression=None, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server whose hello asks for what is given."""
    pytest.importorskip("vla_eval", reason="vla-eval is not installed")
    with ExitStack() as servers:
        names = itertools.count()
        yield lambda **params: servers.enter_context(model_server(tmp_path / f"{next(names)}.jsonl", **params))


def run(
    where: str, language: str = "walk", max_steps: int = 12, policy_timeout: float = HANG, **conditions: Any
) -> Rollout:
    protocol = dataclasses.replace(TASK.protocol, max_steps=max_steps)
    task = dataclasses.replace(TASK, protocol=protocol, language=language)
    case = Case("libero_goal", TASK.name, 0)
    return run_episode(
        case, task, server_policies("vla-eval", where, policy_timeout), World, Conditions("vla-eval", **conditions)
    )


def test_an_episode_is_a_session_of_the_server_from_its_start_to_its_end(start: Start) -> None:
    server = start(**ALL)
    check_server("vla-eval", server.where)
    first, second = run(server.where), run(server.where)
    assert (first.record.outcome, first.steps, first.record.replan) == ("failure", 12, None)
    # Chunks of four; the gripper closes at 0 and above.
    assert np.allclose(first.trajectory.actions[:, 0], np.repeat([0.01, 0.02, 0.03], 4))
    assert first.trajectory.actions[:, 6].tolist() == [-1.0] * 4 + [1.0] * 8
    assert first.record.digest == second.record.digest, "the second episode knows nothing of the first"
    lines = server.lines(ended=2)
    assert [next(iter(line)) for line in lines] == ["start", *["session"] * 3, "end"] * 2
    assert [line["step"] for line in lines if "step" in line] == [0, 4, 8] * 2
    assert len({line["session"] for line in lines[:5]}) == len({line["session"] for line in lines[5:]}) == 1
    assert lines[0]["session"] != lines[5]["session"]
    assert lines[0]["start"] == {"task": {"name": "walk", "suite": "libero_goal", "episode_idx": 0}}


def spec(form: str, dims: int = 3, **more: Any) -> dict[str, Any]:
    return {"name": "any", "dims": dims, "format": form, **more}


OURS = {
    "position": spec("delta_xyz", range=[-1, 1]),
    "rotation": spec("axis_angle", range=[-3.15, 3.15]),
    "gripper": spec("binary_close_positive", 1),
}
STATE = "eef_pos3_axisangle3_gripper2"


@pytest.mark.parametrize(
    ("action", "state", "codes"),
    [
        ({}, spec(STATE, 8), []),
        # The default evaluator executes poses, too.
        ({"position": spec("absolute_xyz")}, None, []),
        # Relative, so a warning; absolute, an error.
        ({"rotation": spec("euler_xyz")}, None, ["VLA-P003 warning"]),
        ({"rotation": spec("euler_xyz"), "position": spec("absolute_xyz")}, None, ["VLA-P003"]),
        ({"rotation": spec("quaternion_xyzw", 4)}, None, ["VLA-P001", "VLA-P003"]),
        ({"gripper": spec("continuous_01", 1)}, None, ["VLA-P004"]),
        ({"gripper": spec("binary_close_negative", 1)}, None, ["VLA-P004"]),
        ({}, spec("eef_pos3_quat4_gripper1", 8), ["VLA-P008"]),
        ({}, spec("eef_pos3_quat4_gripper1", 8, accepts=["eef_pos3_quat4_gripper1", STATE]), []),
        ({}, spec("rot6d_interleaved_proprio_20d", 20), ["VLA-P008"]),
        # What is not known says nothing.
        ({"gripper": spec("raw", 1), "rotation": spec("of_tomorrow", 0)}, spec("raw", 0), []),
    ],
)
def test_what_a_hello_declares_is_compared_with_the_suite(
    action: dict[str, Any], state: dict[str, Any] | None, codes: list[str]
) -> None:
    seen = {"image": spec("rgb_hwc_uint8", 0), "language": spec("language", 0)}
    hello = {
        "action_spec": {**OURS, **action},
        "observation_spec": seen if state is None else {**seen, "state": state},
        "observation_params": {"send_state": True},
    }
    with scripted(lambda _: {}, **hello) as where:
        traits = traits_of(server_policies("vla-eval", where))
    assert traits.reads == ("agentview_image", "state")
    assert traits.language is True
    found = check_fit(traits, load_suite("libero_goal"))
    assert [each.code + " warning" * (each.severity == WARNING) for each in found] == codes


def test_a_hello_that_declares_nothing_has_no_traits_but_what_it_reads() -> None:
    assert declared_traits({"action_spec": {"actions": spec("raw", 0)}}) == Traits(reads=("agentview_image",))
    assert declared_traits({}) == Traits(reads=("agentview_image",))


@pytest.mark.parametrize(
    "specs", [3, [1], {"position": 3}, {"position": {"dims": 3}}, {"position": {"format": "raw", "dims": True}}]
)
def test_a_hello_with_specs_of_another_form_is_refused(specs: object) -> None:
    with scripted(lambda _: {}, action_spec=specs) as where, pytest.raises(VlaError, match="server's action_spec is"):
        check_server("vla-eval", where)


def test_a_list_of_servers_is_asked_in_turn_where_their_hellos_are_the_same(start: Start) -> None:
    one, other, unlike = start(**ALL), start(**ALL), start(send_state=True)
    where = f"{one.where},{other.where}"
    check_server("vla-eval", where)
    policies = [server_policies("vla-eval", where, HANG, number) for number in range(2)]
    for policy in policies:
        assert isinstance(policy, ServersPolicy)
        assert policy.replan is None
        assert str(policy.digest).endswith(SAID)
        policy(EPISODE).close()  # type: ignore[attr-defined]
    assert [len(server.lines(ended=1)) for server in (one, other)] == [2, 2]
    with pytest.raises(
        VlaError, match=r"serve different policies: observation_params.send_wrist_image is True, and not"
    ):
        check_server("vla-eval", f"{where},{unlike.where}")


def test_the_server_gets_what_its_hello_asks_for_and_no_more(start: Start) -> None:
    server = start(**ALL)
    bare = start()
    assert run(server.where, max_steps=1).steps == run(bare.where, max_steps=1).steps == 1
    world = World(TASK)
    picture = world.reset(0, 0, settle=True)["agentview_image"]
    image = [256, 256, 3, int(picture.sum())]
    assert server.lines()[1]["images"] == {"agentview": image, "wrist": image}
    assert server.lines()[1]["states"] == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert (bare.lines()[1]["images"], bare.lines()[1]["states"]) == ({"agentview": image}, None)


@pytest.mark.parametrize(
    ("language", "reason", "message", "steps"),
    [
        ("raise", "policy-raised", "observation_failed: RuntimeError: no memory", 0),
        ("refused", "policy-raised", "episode_start_failed: ValueError: not this task", 0),
        ("shape", "policy-shape", "(6,)", 0),
        ("silent", "policy-protocol", "without actions; the reply has thoughts", 0),
        ("die", "policy-connection", "", 4),
    ],
)
def test_what_goes_wrong_is_an_error_that_says_so(
    start: Start, language: str, reason: str, message: str, steps: int
) -> None:
    server = start(**ALL)
    ended = run(server.where, language)
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, steps), ended.record.message
    assert message in str(ended.record.message)
    assert server.where in str(ended.record.message) or reason == "policy-shape"


def test_a_slow_reply_is_waited_for_up_to_the_limit(start: Start) -> None:
    for seconds in SECONDS:
        server = start(**ALL)
        ended = run(server.where, "sleep", policy_timeout=seconds)
        if ended.steps:
            break
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", "policy-timeout", 4)
    assert ended.record.message == f"ws://{server.where} gave no answer within {seconds:g} s (--vla-policy-timeout)"


def test_the_wall_limit_of_an_episode_stops_the_waiting(start: Start) -> None:
    for seconds in SECONDS:
        ended = run(start(**ALL).where, "sleep", timeout=seconds)
        if ended.steps:
            break
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", "timeout", 4)


def test_closing_twice_and_late_is_harmless(start: Start) -> None:
    server = start()
    session: Any = server_policies("vla-eval", server.where)(EPISODE)
    session.close()
    session.close()
    assert len(server.lines(ended=1)) == 2


@pytest.mark.parametrize("wish", ["send_video_history", "absolute_action"])
def test_a_server_that_wants_what_no_suite_has_is_refused(start: Start, wish: str) -> None:
    server = start(send_state=True, **{wish: True})
    with pytest.raises(VlaError, match=f"the model server asks for {wish}, which no suite has"):
        check_server("vla-eval", server.where)
    ended = run(server.where)
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-protocol")


def test_a_server_that_is_not_there_is_refused_before_the_first_episode() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(VlaError) as refused:
        check_server("vla-eval", f"127.0.0.1:{port}")
    assert str(refused.value).startswith(
        f"--vla-model=vla-eval:127.0.0.1:{port}: nothing listens at ws://127.0.0.1:{port}. Expected a vla-eval model "
    )
    ended = run(f"127.0.0.1:{port}")
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-connection")


def test_a_server_of_openpi_is_refused() -> None:
    with (
        serving(lambda request: {}) as server,
        pytest.raises(VlaError, match=r"does not speak vla-eval's protocol: expected"),
    ):
        check_server("vla-eval", f"127.0.0.1:{server.port}")


@pytest.mark.parametrize(
    ("reply", "reason", "message"),
    [
        ({"seq": -1}, "policy-protocol", "replied to message -1 instead of"),
        ({"type": "hello"}, "policy-protocol", "does not speak vla-eval's protocol: expected 'action'"),
        ({"payload": [1]}, "policy-protocol", "got 'action' with a payload of list"),
        ({"type": "error", "payload": {"error": "no memory"}}, "policy-raised", ": no memory"),
        ({"payload": {"actions": [[0.0] * 7] * 20_000}}, "policy-protocol", "more than 100000 elements"),
        ({"payload": {"actions": bytes(openpi_connection.MAX_REPLY)}}, "policy-connection", "ended the connection"),
    ],
)
def test_a_reply_is_bounded_and_checked(reply: dict[str, Any], reason: str, message: str) -> None:
    with scripted(lambda message: reply) as where:
        ended = run(where)
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, 0), ended.record.message
    assert message in str(ended.record.message)


def test_arrays_have_vla_evals_form_both_ways() -> None:
    actions = {"__ndarray__": True, "data": np.full((3, 7), 0.5).tobytes(), "dtype": "<f8", "shape": [3, 7]}
    seen: list[dict[str, Any]] = []

    def reply(message: dict[str, Any]) -> dict[str, Any]:
        seen.append(message)
        return {"payload": {"actions": actions}}

    with scripted(reply) as where:
        ended = run(where, max_steps=3)
    assert (ended.steps, ended.trajectory.actions[:, 0].tolist()) == (3, [0.5] * 3)
    assert [message["type"] for message in seen] == ["observation"]
    image = seen[0]["payload"]["images"]["agentview"]
    assert {name: image[name] for name in ("__ndarray__", "dtype", "shape")} == {
        "__ndarray__": True,
        "dtype": "|u1",
        "shape": [256, 256, 3],
    }


quaternions = hnp.arrays(np.float64, 4, elements={"min_value": -1, "max_value": 1}).filter(
    lambda quaternion: np.linalg.norm(quaternion) > 0.1
)


@given(quaternions)
def test_the_rotation_of_a_state_is_that_of_vla_eval(quaternion: Any) -> None:
    """As vla_eval.rotation.quat_to_axisangle makes it: of the quaternion with w of 0 or more, so at most pi."""
    x, y, z, w = quaternion / np.linalg.norm(quaternion)
    sine = np.sqrt(max(1.0 - w * w, 0.0))
    if sine < 1e-6 or abs(w) < 1e-6:
        # No axis, or two.
        return
    axis = np.array([x, y, z]) / sine
    # robosuite's: up to 2 pi, of the quaternion as it is.
    state = np.concatenate([[1, 2, 3], axis * 2 * np.arccos(w), [4, 5]])
    sign = -1.0 if w < 0 else 1.0
    expected = sign * axis * 2 * np.arccos(sign * w)
    assert np.array_equal(vla_eval_state(state, antipodal=True), state)
    sent = vla_eval_state(state, antipodal=False)
    assert sent[[0, 1, 2, 6, 7]].tolist() == [1, 2, 3, 4, 5]
    # Of an angle near 2 pi, what is left has its rounding, and that of the sine near a w of 1.
    assert np.allclose(sent[3:6], expected, atol=1e-5)
