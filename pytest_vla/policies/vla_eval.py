"""``--vla-model=vla-eval:HOST:PORT``: a model server that speaks vla-eval's protocol."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Episode, Observation, Session, check_actions
from pytest_vla.policies.fit import Traits
from pytest_vla.policies.msgpack_arrays import pack
from pytest_vla.policies.openpi_connection import (
    Address,
    AnswerLimit,
    guarded,
    limit_sending,
    open_connection,
    read_table,
)
from pytest_vla.policies.servers import OneServer, Said
from pytest_vla.policies.view import resize_with_padding

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

DEFAULT_PORT = 8000
IMAGE_SIZE = 256
"""Height and width of the pictures that vla-eval's LIBERO benchmark sends, pixels."""

# The formats of vla-eval's specs, and the traits that they are.
_POSITIONS = {"delta_xyz": "relative", "absolute_xyz": "absolute"}
_ROTATIONS = {
    "axis_angle": "axis_angle",
    "euler_xyz": "euler",
    "quaternion_xyzw": "quaternion",
    "rot6d_interleaved": "rotation_6d",
}
_GRIPPERS = {
    "binary_close_positive": "-1 opens, 1 closes",
    "binary_close_negative": "1 opens, -1 closes",
    "binary_close_01": "0 opens, 1 closes",
    "continuous_01": "0 to 1",
}
_MOST_DIMS = 1000
_OUR_STATE = "eef_pos3_axisangle3_gripper2"
_STATES = {
    _OUR_STATE: "eef_pos, axis_angle, gripper_qpos",
    "eef_pos3_quat4_gripper1": "eef_pos, quaternion, gripper_qpos",
    "eef_pos3_euler3_gripper2": "eef_pos, euler, gripper_qpos",
    "joint_positions": "joint_pos, gripper_qpos",
}


@dataclass(frozen=True)
class VlaEvalPolicy(OneServer):
    """A policy behind vla-eval's protocol; each episode has a connection, and thereby a server session, of its own.

    An observation has the form of vla-eval's own LIBERO benchmark: ``images`` with ``agentview`` (256, 256, 3) uint8,
    turned as the suite defines, and ``task_description``; ``wrist`` and ``states`` (8,) if the server's hello requests
    them. Answers are read as in that benchmark: the gripper closes at 0 and above. There is one question per step,
    since the server keeps the chunks. Pictures are sent uncompressed.

    Episodes end with the EpisodeErrors of `VlaEvalConnection`.
    """

    def ask(self, timeout: float) -> Said:
        """Connect, and return the server's hello. Raises EpisodeError, also if it requests data that no suite has."""
        connection = VlaEvalConnection(self.address, timeout)
        connection.close()
        declared_traits(connection.hello)
        return connection.hello

    @property
    def traits(self) -> Traits:
        """The traits that the server's hello declares. Raises as `said`."""
        return declared_traits(self.said)

    def __call__(self, episode: Episode) -> Session:
        """Connect for an episode, and begin it on the server."""
        connection = VlaEvalConnection(self.address, self.timeout, self.limit)
        try:
            self.check_alike(connection.hello)
            return _Session(self.address, connection, episode)
        except BaseException:
            connection.close()
            raise


def vla_eval_state(state: NDArray[Any], *, antipodal: bool) -> NDArray[np.float64]:
    """Return the state (8,) in vla-eval's form.

    Unless `antipodal`, a rotation by more than pi becomes the shorter one in the opposite direction.
    """
    sent = np.array(state, dtype=np.float64)
    angle = float(np.linalg.norm(sent[3:6]))
    if not antipodal and angle > np.pi:
        sent[3:6] *= (angle - 2 * np.pi) / angle
    return sent


def declared_traits(hello: Said) -> Traits:
    """Return the traits that a server's hello declares: its action_spec, observation_spec and observation_params.

    A format that is unknown or ``raw`` says nothing, and leaves a trait None. Formats are those of vla-eval 0.8
    (its specs.py).

    Raises:
        EpisodeError: ``policy-protocol``: a part of the hello is not what the protocol has there, or it requests data
            that no suite has.
    """
    wishes, action, seen = _wishes(hello), _specs(hello, "action_spec"), _specs(hello, "observation_spec")
    said: dict[str, Any] = {
        name: formats.get(spec["format"])
        for name, (specs, part, formats) in {
            "action_convention": (action, "position", _POSITIONS),
            "rotation": (action, "rotation", _ROTATIONS),
            "gripper": (action, "gripper", _GRIPPERS),
            "state_layout": (seen, "state", _STATES),
        }.items()
        if (spec := specs.get(part)) is not None
    }
    sizes = [action[part]["dims"] for part in ("position", "rotation", "gripper") if part in action]
    if len(sizes) == 3 and all(sizes):
        said["action_size"] = sum(sizes)
    if (state := seen.get("state")) is not None:
        accepts = state.get("accepts")
        if isinstance(accepts, list) and _OUR_STATE in accepts:
            said["state_layout"] = _STATES[_OUR_STATE]
        # In a known form the layout is compared, not the size: with a quaternion and one finger it has 8 numbers, too.
        elif state["format"] not in ("raw", *_STATES):
            said["state_size"] = state["dims"] or None
    if "language" in seen:
        said["language"] = True
    reads = ["agentview_image"]
    reads += ["robot0_eye_in_hand_image"] * bool(wishes.get("send_wrist_image"))
    reads += ["state"] * bool(wishes.get("send_state"))
    return Traits(reads=tuple(reads), **said)


class VlaEvalConnection:
    """A connection to a model server that has answered the hello: a session of the server.

    It is never made anew: a new session would know nothing of the episode. Methods raise the EpisodeErrors of
    `pytest_vla.policies.openpi_connection.OpenpiConnection`.

    Attributes:
        hello: the server's description of itself.
        is_sound: whether no question is open or has failed.
    """

    def __init__(self, address: Address, timeout: float, limit: AnswerLimit | None = None) -> None:
        """Connect and exchange hellos within `timeout` seconds; answers have the `limit`, or the same seconds."""
        self._address, self._timeout, self._number = address, timeout, 0
        self._limit = limit or AnswerLimit(timeout, first=1)
        self.is_sound = True

        def greet(socket: "ClientConnection", left: Callable[[], float]) -> Mapping[Any, Any]:
            socket.send(self._message("hello", {"harness_version": "pytest-vla", "protocol_version": 1}))
            return self._reply(socket.recv(timeout=left()), "hello")

        self._socket, self.hello = open_connection(address, timeout, greet)

    def send(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Send a message that has no reply."""
        self.is_sound = False
        guarded(lambda left: self._socket.send(self._message(kind, payload)), self._address, self._timeout)
        self.is_sound = True

    def ask(self, observation: Mapping[str, Any]) -> Mapping[Any, Any]:
        """Send an observation, and return the action."""

        def ask(left: Callable[[], float]) -> Mapping[Any, Any]:
            limit_sending(self._socket, left())
            self._socket.send(self._message("observation", observation))
            return self._reply(self._socket.recv(timeout=left()), "action")

        self.is_sound = False
        reply = self._limit.asked(ask, self._address)
        self.is_sound = True
        return reply

    def close(self) -> None:
        """Close the connection. Errors while closing are ignored: they do not affect the episode."""
        with suppress(Exception):
            self._socket.close()

    def _message(self, kind: str, payload: Mapping[str, Any]) -> bytes:
        self._number += 1
        return pack({"type": kind, "payload": payload, "seq": self._number, "timestamp": time.time()}, text_keys=True)

    def _reply(self, frame: str | bytes, kind: str) -> Mapping[Any, Any]:
        """Return the payload of the reply to the last message. Raises EpisodeError."""
        table = read_table(frame, self._address)
        said, payload, number = (table.get(name) for name in ("type", "payload", "seq"))
        if said == "error":
            # It may be about an earlier message, such as the episode's start, which has no reply.
            told = payload.get("error", payload) if isinstance(payload, dict) else payload
            raise EpisodeError("policy-raised", f"{self._address}: {str(told)[:500]}")
        if said != kind or not isinstance(payload, dict):
            got = f"{str(said)[:40]!r} with a payload of {type(payload).__name__}"
            raise EpisodeError(
                "policy-protocol",
                f"{self._address} does not speak vla-eval's protocol: expected {kind!r} with a dict, got {got}",
            )
        if number != self._number:
            raise EpisodeError(
                "policy-protocol", f"{self._address} replied to message {str(number)[:40]} instead of {self._number}"
            )
        return payload


class _Session:
    def __init__(self, address: Address, connection: VlaEvalConnection, episode: Episode) -> None:
        self._address, self._connection, self._instruction = address, connection, episode.instruction
        self._wishes = _wishes(connection.hello)
        task = {"name": episode.instruction, "suite": episode.suite, "episode_idx": episode.seed}
        connection.send("episode_start", {"task": task})

    def __call__(self, observation: Observation) -> NDArray[np.float64]:
        reply = self._connection.ask(self._observation(observation))
        actions = reply.get("actions", reply.get("action"))
        if actions is None:
            listed = ", ".join(sorted(map(str, reply)))[:200] or "nothing"
            raise EpisodeError("policy-protocol", f"{self._address} replied without actions; the reply has {listed}")
        chunk = check_actions(actions)
        chunk[:, 6] = np.where(chunk[:, 6] < 0, -1.0, 1.0)
        return chunk

    def close(self) -> None:
        """End the episode on the server too, unless a question to it failed."""
        if self._connection.is_sound:
            with suppress(EpisodeError):
                self._connection.send("episode_end", {})
        self._connection.close()

    def _observation(self, observation: Observation) -> dict[str, Any]:
        images = {"agentview": resize_with_padding(observation["agentview_image"], IMAGE_SIZE, IMAGE_SIZE)}
        if self._wishes.get("send_wrist_image"):
            images["wrist"] = resize_with_padding(observation["robot0_eye_in_hand_image"], IMAGE_SIZE, IMAGE_SIZE)
        sent: dict[str, Any] = {"images": images, "task_description": self._instruction}
        if self._wishes.get("send_state"):
            antipodal = bool(self._wishes.get("quat_no_antipodal"))
            sent["states"] = vla_eval_state(observation["state"], antipodal=antipodal)
        return sent


def _wishes(hello: Said) -> Mapping[str, Any]:
    """Return the data that the server requests. Raises EpisodeError ``policy-protocol`` if no suite has them."""
    wishes = hello.get("observation_params") or {}
    if not isinstance(wishes, dict):
        raise EpisodeError("policy-protocol", f"a server's observation_params are a dict, not {type(wishes).__name__}")
    known = {"send_wrist_image", "send_state"}
    foreign = [name for name, wish in wishes.items() if wish and str(name).startswith("send_") and name not in known]
    if wishes.get("absolute_action"):
        foreign.append("absolute_action")
    if foreign:
        raise EpisodeError(
            "policy-protocol", f"the model server asks for {', '.join(map(str, foreign))[:200]}, which no suite has"
        )
    return wishes


def _specs(hello: Said, name: str) -> Mapping[str, Mapping[str, Any]]:
    """Return a part of the hello that describes arrays by name. Raises EpisodeError ``policy-protocol``."""
    specs = hello.get(name) or {}
    sound = isinstance(specs, dict) and all(
        isinstance(spec, dict)
        and isinstance(spec.get("format"), str)
        and type(spec.get("dims")) is int
        and 0 <= spec["dims"] <= _MOST_DIMS
        for spec in specs.values()
    )
    if not sound:
        raise EpisodeError(
            "policy-protocol",
            f"a server's {name} is a dict of dicts with `format`, a text, and `dims`, 0 to {_MOST_DIMS}; this one's is "
            f"{str(specs)[:200]}",
        )
    return specs
