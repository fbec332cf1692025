"""Policies on servers: how each kind is reached, and those of GR00T, X-VLA and starVLA themselves.

openpi's and vla-eval's have modules of their own. The formats of the others are read from the projects' sources, as of
2026-11. Their grippers are converted here, as their own clients do it, so that their episodes can follow any evaluator.
"""

import base64
import io
import json
import math
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError
from pytest_vla.plan.choices import ABSOLUTE, ONE_CLOSES, ONE_OPENS, RELATIVE
from pytest_vla.policies.base import Episode, Observation, Policy, Session, check_actions
from pytest_vla.policies.devices import REQUEST_TIMEOUT
from pytest_vla.policies.fit import ACTION_SIZE, OPENS, POSE_6D_SIZE, STATE_LAYOUTS, Traits
from pytest_vla.policies.msgpack_arrays import MAX_ELEMENTS, pack
from pytest_vla.policies.openpi import OpenpiPolicy
from pytest_vla.policies.openpi_connection import (
    DEFAULT_PORT as OPENPI_PORT,
)
from pytest_vla.policies.openpi_connection import (
    GONE,
    KEY,
    MAX_REPLY,
    WEBSOCKET,
    Address,
    OpenpiConnection,
    parse_addresses,
    proxy_of,
    reached,
    read_reply,
    refusal,
    require_websockets,
)
from pytest_vla.policies.servers import OneServer, PolicyServer, Said, check_servers, policy_of_servers
from pytest_vla.policies.view import as_rendered, gripper_of, resize_with_padding, rotation_6d
from pytest_vla.policies.vla_eval import DEFAULT_PORT as VLA_EVAL_PORT
from pytest_vla.policies.vla_eval import VlaEvalPolicy
from pytest_vla.util.text import printable

SCENE, WRIST = "agentview_image", "robot0_eye_in_hand_image"

_RELATIVE = Traits(
    action_size=ACTION_SIZE,
    action_convention=RELATIVE,
    rotation="axis_angle",
    gripper=OPENS,
    reads=(SCENE, WRIST),
    image_transform="rotate_180",
    language=True,
)

Left = Callable[[], float]
"""Returns the seconds that are left for an answer."""


def server_policies(kind: str, where: str, timeout: float = REQUEST_TIMEOUT, number: int = 0) -> Policy:
    """Return the policy of one or several servers, without connecting. Raises VlaError.

    Args:
        kind: one of `PROTOCOLS`.
        where: HOST, HOST:PORT or a URL, or a list of them (``HOST1:5555,HOST2:5555``).
        timeout: seconds that connecting, or one request, may take in an episode.
        number: the number of this worker, which selects its server.
    """
    make = PROTOCOLS[kind].make
    return policy_of_servers(_addresses(kind, where), lambda address: make(address, timeout), number)


def check_server(kind: str, where: str) -> None:
    """Connect once to each server of a list, and disconnect.

    Raises:
        VlaError: a package is missing, a server does not answer in `CHECK_TIMEOUT`, or they serve different policies.
    """
    expected = f"{PROTOCOLS[kind].expected} there. Start it first, and check host and port"
    check_servers(f"{kind}:{where}", _addresses(kind, where), PROTOCOLS[kind].make, expected)


def _addresses(kind: str, where: str) -> tuple[Address, ...]:
    protocol = PROTOCOLS[kind]
    if protocol.schemes == WEBSOCKET:
        require_websockets(f"--vla-model={kind}")
    return parse_addresses(kind, where, protocol.port, protocol.schemes)


def _closing(chunk: NDArray[np.float64], rule: str, address: Address) -> NDArray[np.float64]:
    """Return actions whose gripper, the last value, is -1 to open and 1 to close, from one in [0, 1]."""
    if (chunk[:, -1] < -0.5).any():
        told = f"the gripper is {chunk[:, -1].min():g}, expected 0 to 1"
        raise EpisodeError("policy-range", f"{address}: {told}; the server's actions are not those of its own client")
    return np.array([[*row[:-1], gripper_of(row[-1], rule)] for row in chunk])


def _no_reply(address: Address, told: str) -> EpisodeError:
    return EpisodeError("policy-protocol", f"{address} {printable(told)[:400]}")


def _raised(address: Address, error: object) -> EpisodeError:
    told = error.get("message", error) if isinstance(error, Mapping) else error
    return EpisodeError("policy-raised", f"{address}: {printable(str(told))[:500]}")


# GR00T: ZeroMQ, msgpack, arrays as npy files. Sources: NVIDIA/Isaac-GR00T, gr00t/eval/service.py and robot.py with
# examples/Libero/eval/run_libero_eval.py at 15166e3 (N1.5); gr00t/policy/server_client.py, gr00t/policy/gr00t_policy.py
# (Gr00tSimPolicyWrapper) and gr00t/eval/sim/LIBERO/libero_env.py at 559269d (N1.6 and N1.7).

_STATE = ("x", "y", "z", "roll", "pitch", "yaw")
"""Position, and the axis-angle rotation, which has these names."""

_INSTRUCTION = "annotation.human.action.task_description"
# The header that numpy writes for an array of numbers (version 1.0), read without evaluating it.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00(?P<size>[\s\S]{2})\{'descr': '(?P<dtype>\|[iu]1|<[fiu][248])', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[0-9]{1,9}(?:, [0-9]{1,9}){0,3})?,?\), \}"
)


@dataclass(frozen=True)
class GrootPolicy(OneServer):
    """A policy behind GR00T's ZeroMQ protocol; each episode has a connection of its own.

    A request is the one of GR00T's LIBERO evaluation: two pictures (256, 256, 3) uint8, the state's parts by name, and
    the instruction. Actions are relative, (T, 7).

    Attributes:
        is_n15: whether it is N1.5's server, or a later one's with ``--use-sim-policy-wrapper``. These also have a
            batch's dimension, and the state in float32.
    """

    is_n15: bool = False
    traits: ClassVar[Traits] = replace(_RELATIVE, reads=(SCENE, WRIST, "state"), state_layout=STATE_LAYOUTS[0])

    @property
    def replan(self) -> int:
        """The number of steps of a chunk that GR00T's own evaluation executes."""
        return 1 if self.is_n15 else 8

    def ask(self, timeout: float) -> Said:
        """Connect, and return the description of what the policy reads and gives. Raises EpisodeError."""
        connection, said = self._connected(timeout)
        connection.close()
        return said

    def __call__(self, episode: Episode) -> Session:
        """Connect for an episode."""
        return _GrootSession(self, self.checked(*self._connected(self.timeout)), episode.instruction)

    def _connected(self, timeout: float) -> "tuple[_ZeroMqConnection, Said]":
        def connect(left: Left) -> "tuple[_ZeroMqConnection, Said]":
            connection = _ZeroMqConnection(self.address, left)
            try:
                said = _groot_reply(connection.ask(_groot_request("get_modality_config"), left), self.address)
                if not isinstance(said, dict):
                    raise _no_reply(self.address, f"described itself by {type(said).__name__}, and not by a dict")
                self._check_version(said)
                return connection, said
            except BaseException:
                connection.close()
                raise

        return reached(connect, self.address, timeout)

    def _check_version(self, said: Said) -> None:
        """Refuse a server of another version: N1.5 describes each modality by a JSON text, later ones by a dict."""
        forms = {type(each.get("as_json")) for each in said.values() if isinstance(each, dict)}
        if str in forms and not self.is_n15:
            raise _no_reply(self.address, "is GR00T N1.5's server: write groot-n1.5:HOST:PORT")
        if dict in forms and self.is_n15:
            raise _no_reply(self.address, "is the server of GR00T N1.6 or later: write groot:HOST:PORT")


class _GrootSession:
    def __init__(self, policy: GrootPolicy, connection: "_ZeroMqConnection", instruction: str) -> None:
        self._policy, self._connection, self._instruction = policy, connection, instruction

    def __call__(self, observation: Observation) -> NDArray[np.float64]:
        address, state = self._policy.address, np.asarray(observation["state"], dtype=np.float64)
        parts = {**{f"state.{name}": state[at : at + 1] for at, name in enumerate(_STATE)}, "state.gripper": state[6:]}
        seen = {"video.image": observation[SCENE], "video.wrist_image": observation[WRIST]}
        if not self._policy.is_n15:
            parts = {name: part[None].astype(np.float32) for name, part in parts.items()}
            seen = {name: picture[None] for name, picture in seen.items()}
        arrays = {name: _as_npy(array[None]) for name, array in {**seen, **parts}.items()}
        asked: dict[str, Any] = {**arrays, _INSTRUCTION: [self._instruction]}
        data = asked if self._policy.is_n15 else {"observation": asked, "options": None}
        request = _groot_request("get_action", data)
        frame = self._policy.limit.asked(partial(self._connection.ask, request), address)
        reply = _groot_reply(frame, address)
        if not self._policy.is_n15:
            reply = reply[0] if isinstance(reply, list) and reply else None
        if not isinstance(reply, dict):
            raise _no_reply(address, "replied without a dict of actions")
        columns = [_column(reply, f"action.{name}", address) for name in (*_STATE, "gripper")]
        if len({len(column) for column in columns}) != 1:
            raise EpisodeError("policy-shape", f"{address}: parts of an action have {[*map(len, columns)]} steps")
        return _closing(check_actions(np.stack(columns, axis=1)), ONE_OPENS, address)

    def close(self) -> None:
        self._connection.close()


def _groot_request(endpoint: str, data: Mapping[str, Any] | None = None) -> bytes:
    key = os.environ.get(KEY, "").strip()
    request: dict[str, Any] = {"endpoint": endpoint, **({} if data is None else {"data": data})}
    return pack({**request, **({"api_token": key} if key else {})})


def _groot_reply(frame: bytes, address: Address) -> Any:
    reply = read_reply(frame, address)
    if isinstance(reply, dict) and "error" in reply:
        hint = f" (the key is read from the environment variable {KEY})" if "token" in str(reply["error"]) else ""
        raise _raised(address, f"{reply['error']}{hint}")
    return reply


def _as_npy(array: NDArray[Any]) -> dict[str, object]:
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return {"__ndarray_class__": True, "as_npy": file.getvalue()}


def _column(reply: Mapping[Any, Any], name: str, address: Address) -> NDArray[np.float64]:
    """Return one value of an action over the steps, (T,), sent as (T,), (T, 1) or (1, T, 1). Raises EpisodeError."""
    if name not in reply:
        listed = ", ".join(sorted(map(str, reply))) or "nothing"
        raise _no_reply(address, f"replied without {name}; the reply has {listed}")
    array = _of_npy(reply[name])
    if array is None:
        raise EpisodeError("policy-dtype", f"{address}: {name} is no array of numbers")
    if array.ndim not in (1, 2, 3) or array.size != array.shape[-2 if array.ndim > 1 else 0] or not array.size:
        raise EpisodeError("policy-shape", f"{address}: {name} is {array.shape}, expected one value a step")
    return array.reshape(-1).astype(np.float64)


def _of_npy(value: object) -> NDArray[Any] | None:
    data = value.get("as_npy") if isinstance(value, dict) else None
    header = _NPY.match(data) if isinstance(data, bytes) else None
    if header is None or not isinstance(data, bytes):
        return None
    begin, dtype = 10 + int.from_bytes(header["size"], "little"), np.dtype(header["dtype"].decode())
    shape = tuple(map(int, (header["shape"] or b"1").split(b",")))
    if begin + math.prod(shape) * dtype.itemsize != len(data):
        return None
    return np.frombuffer(data, dtype, offset=begin).reshape(shape)


class _ZeroMqConnection:
    """The requesting end of ZeroMQ over TCP: ZMTP 3.0 without security, https://rfc.zeromq.org/spec/23.

    Not libzmq's, which connects again by itself, so that a server's end looks like a slow answer, and which bounds the
    size of a message's parts, but not their number. Methods raise what `guarded` turns into EpisodeErrors.
    """

    _GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    _READY = b"\x05READY" + b"\x0bSocket-Type" + b"\0\0\0\x03REQ"
    _MORE, _LONG, _COMMAND = 1, 2, 4

    def __init__(self, address: Address, left: Left) -> None:
        parts = urlsplit(address.url)
        self._address = address
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0), max(left(), 1e-3))
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(self._GREETING)
            # Another server may say nothing, or less than a greeting.
            greeting = self._received(10, left)
            if (greeting[0], greeting[9]) != (0xFF, 0x7F) or (greeting := self._received(54, left))[0] < 3:
                raise EpisodeError(GONE, f"{address} is no ZeroMQ server")
            if greeting[2:22].rstrip(b"\0") != b"NULL":
                raise EpisodeError(GONE, f"{address} asks for ZeroMQ's security, which GR00T's servers do not have")
            self._socket.sendall(bytes([self._COMMAND, len(self._READY)]) + self._READY)
            flags, body = self._frame(left)
            if not flags & self._COMMAND or not body.startswith(b"\x05READY"):
                told = printable(body[:200].decode(errors="replace"))
                raise EpisodeError(GONE, f"{address} refuses the connection: {told}")
        except BaseException:
            self.close()
            raise

    def ask(self, request: bytes, left: Left) -> bytes:
        """Send a request, and return the reply."""
        self._socket.settimeout(max(left(), 1e-3))
        # An empty frame ends the envelope.
        self._socket.sendall(bytes([self._MORE, 0, self._LONG]) + len(request).to_bytes(8, "big") + request)
        more, envelope = self._part(left)
        if more and not envelope:
            more, reply = self._part(left)
            if not more:
                return reply
        raise _no_reply(self._address, "sent no reply of one frame")

    def close(self) -> None:
        with suppress(OSError):
            self._socket.close()

    def _part(self, left: Left) -> tuple[bool, bytes]:
        """Return whether a message goes on, and its next part; commands, such as heartbeats, are skipped."""
        flags, body = self._frame(left)
        while flags & self._COMMAND:
            flags, body = self._frame(left)
        return bool(flags & self._MORE), body

    def _frame(self, left: Left) -> tuple[int, bytes]:
        flags = self._received(1, left)[0]
        size = int.from_bytes(self._received(8 if flags & self._LONG else 1, left), "big")
        if size > MAX_REPLY:
            raise _no_reply(self._address, f"sent {size} bytes, and a reply has {MAX_REPLY} at most")
        return flags, self._received(size, left)

    def _received(self, size: int, left: Left) -> bytes:
        data = bytearray()
        while len(data) < size:
            if (seconds := left()) <= 0:
                raise TimeoutError
            self._socket.settimeout(seconds)
            part = self._socket.recv(min(size - len(data), 2**18))
            if not part:
                raise EpisodeError(GONE, f"{self._address} ended the connection")
            data += part
        return bytes(data)


# X-VLA: HTTP, JSON, arrays in json_numpy's form. Source: 2toinf/X-VLA, evaluation/libero/libero_client.py and
# models/modeling_xvla.py (read in moonquekes/X-VLA at 225010b).

_DOMAIN, _STEPS = 3, 10
"""LIBERO's number among X-VLA's domains, and the steps of its denoising."""


@dataclass(frozen=True)
class XVlaPolicy(OneServer):
    """A policy behind X-VLA's ``/act``. Its server does not describe itself.

    A request is the one of X-VLA's LIBERO client: the scene's picture (256, 256, 3) uint8 as the suite turns it, the
    wrist's as it was rendered, the controller's pose, and later the last action of the chunk before. Actions are
    absolute, (T, 10).
    """

    traits: ClassVar[Traits] = replace(
        _RELATIVE,
        action_size=POSE_6D_SIZE,
        action_convention=ABSOLUTE,
        rotation="rotation_6d",
        reads=(SCENE, WRIST, "controller_pos", "controller_mat"),
    )

    def ask(self, timeout: float) -> Said:
        """Connect, and return an empty description. Raises EpisodeError."""
        reached(partial(_http, self.address, None), self.address, timeout)
        return {}

    def __call__(self, episode: Episode) -> Session:
        """Begin an episode; each question is a request of its own."""
        return _XVlaSession(self, episode)


class _XVlaSession:
    def __init__(self, policy: XVlaPolicy, episode: Episode) -> None:
        self._policy, self._episode = policy, episode
        self._pose: NDArray[np.float64] | None = None

    def __call__(self, observation: Observation) -> NDArray[np.float64]:
        address = self._policy.address
        if self._pose is None:
            self._pose = np.concatenate([observation["controller_pos"], rotation_6d(observation["controller_mat"])])
        arrays = {
            "proprio": np.concatenate([self._pose, np.zeros(11)]),
            "image0": observation[SCENE],
            "image1": as_rendered(observation[WRIST], self._episode.wrist_transform),
        }
        settings = {"domain_id": _DOMAIN, "steps": _STEPS, "language_instruction": self._episode.instruction}
        request = json.dumps({**{name: _as_json(array) for name, array in arrays.items()}, **settings}).encode()
        actions = _of_json(self._policy.limit.asked(partial(_http, address, request), address), address)
        if actions.ndim != 2 or actions.shape[1] < POSE_6D_SIZE or not len(actions):
            told = f"{address}: actions are {actions.shape}, expected (k, {POSE_6D_SIZE}) or more columns"
            raise EpisodeError("policy-shape", told)
        # Further columns are a second arm's.
        chunk = check_actions(actions[:, :POSE_6D_SIZE], POSE_6D_SIZE)
        self._pose = chunk[-1, :9]
        return _closing(chunk, ONE_CLOSES, address)


def _as_json(array: NDArray[Any]) -> str:
    """Return an array as json_numpy's ``dumps`` writes it: a JSON text of its own within the request."""
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return json.dumps({"__numpy__": data, "dtype": array.dtype.str, "shape": array.shape})


def _of_json(body: bytes, address: Address) -> NDArray[Any]:
    """Return the actions of a reply. Raises EpisodeError."""
    if sum(map(body.count, (b",", b"[", b"{"))) > MAX_ELEMENTS:
        raise _no_reply(address, f"sent a reply with more than {MAX_ELEMENTS} elements")
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _no_reply(address, f"sent {len(body)} bytes that are no JSON: {error}") from error
    if not isinstance(reply, dict) or "action" not in reply:
        listed = ", ".join(sorted(reply)) if isinstance(reply, dict) else type(reply).__name__
        raise _no_reply(address, f"replied without an action; the reply has {listed or 'nothing'}")
    try:
        return np.asarray(reply["action"], dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EpisodeError("policy-dtype", f"{address}: the action is no array of numbers: {error}") from error


def _http(address: Address, body: bytes | None, left: Left) -> bytes:
    """Post a body to ``/act``, and return the reply's; with no body, ask by GET whether there is an ``/act``.

    Raises what `guarded` turns into EpisodeErrors.
    """
    parts, key, proxy = urlsplit(address.url), os.environ.get(KEY, "").strip(), proxy_of(address)
    make = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    to = (parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
    via = urlsplit(proxy or "")
    connection = make(*((via.hostname or "", via.port or 80) if proxy else to), timeout=max(left(), 1e-3))
    if proxy:
        user = base64.b64encode(unquote(f"{via.username}:{via.password or ''}").encode()).decode()
        connection.set_tunnel(*to, headers={"Proxy-Authorization": f"Basic {user}"} if via.username else {})
    headers = {"Content-Type": "application/json", **({"Authorization": f"Api-Key {key}"} if key else {})}
    try:
        connection.connect()
        # A limit of the socket's is one for each part of an answer.
        over = threading.Timer(left(), partial(_shut, connection.sock))
        over.daemon = True
        over.start()
        try:
            connection.request("GET" if body is None else "POST", f"{parts.path.rstrip('/')}/act", body, headers)
            reply = connection.getresponse()
            data = reply.read(MAX_REPLY + 1)
        finally:
            over.cancel()
        if left() <= 0:
            raise TimeoutError
        if len(data) > MAX_REPLY:
            raise _no_reply(address, f"sent more than {MAX_REPLY} bytes")
        if reply.length:
            raise EOFError("the reply is cut off")
        # What takes no GET exists.
        if reply.status == 200 or (body is None and reply.status in (405, 422)):
            return data
        if body is None or 300 <= reply.status < 400 or reply.status in (401, 403, 404):
            location = str(reply.headers.get("Location", ""))
            raise EpisodeError(GONE, refusal(address, reply.status, location, "X-VLA server: it has no /act"))
        raise _raised(address, f"HTTP {reply.status}: {data[:2000].decode(errors='replace')}")
    finally:
        connection.close()


def _shut(connected: socket.socket) -> None:
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


# starVLA: openpi's websocket with other requests. Source: starVLA/starVLA, deployment/model_server (policy_wrapper.py,
# tools/websocket_policy_server.py) and examples/LIBERO/eval_files/model2libero_interface.py at eea0653.

_SIZE = 224
"""Height and width of the pictures that starVLA's LIBERO client sends, pixels."""


@dataclass(frozen=True)
class StarVlaPolicy(OneServer):
    """A policy behind starVLA's websocket; each episode has a connection of its own.

    A request is the one of starVLA's LIBERO client: two pictures (224, 224, 3) uint8 and the instruction. Actions are
    relative, (T, 7), with the scale of the data: servers before 2026 leave that to their client, and are refused.
    """

    traits: ClassVar[Traits] = _RELATIVE

    def ask(self, timeout: float) -> Said:
        """Connect, and return the server's metadata, its first message. Raises EpisodeError."""
        connection = OpenpiConnection(self.address, timeout)
        connection.close()
        return connection.metadata

    def __call__(self, episode: Episode) -> Session:
        """Connect for an episode."""
        connection = OpenpiConnection(self.address, self.timeout, self.limit)
        return _StarVlaSession(self.checked(connection, connection.metadata), episode.instruction)


class _StarVlaSession:
    def __init__(self, connection: OpenpiConnection, instruction: str) -> None:
        self._connection, self._instruction = connection, instruction

    def __call__(self, observation: Observation) -> NDArray[np.float64]:
        address = self._connection.address
        pictures = [resize_with_padding(observation[name], _SIZE, _SIZE) for name in (SCENE, WRIST)]
        example = {"image": pictures, "lang": self._instruction}
        settings = {"unnorm_key": None, "do_sample": False, "use_ddim": True, "num_ddim_steps": 10}
        reply = self._connection.ask({"examples": [example], **settings})
        if reply.get("ok") is False or "error" in reply:
            raise _raised(address, reply.get("error", "an error without a message"))
        data = reply.get("data")
        if not isinstance(data, dict) or "actions" not in data:
            listed = ", ".join(sorted(map(str, data))) if isinstance(data, dict) else type(data).__name__
            old = " (normalised ones are an older starVLA's: update it there)" * ("normalized_actions" in listed)
            raise _no_reply(address, f"replied without actions; the reply's data have {listed or 'nothing'}{old}")
        actions = data["actions"]
        if not isinstance(actions, np.ndarray) or actions.ndim != 3 or len(actions) != 1:
            shape = getattr(actions, "shape", type(actions).__name__)
            raise EpisodeError("policy-shape", f"{address}: actions are {shape}, expected (1, k, 7)")
        return _closing(check_actions(actions[0]), ONE_OPENS, address)

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True)
class ServerKind:
    """How servers of one kind are reached.

    Attributes:
        make: returns the policy of an address, with a time limit.
        port: the default.
        schemes: of a URL.
        expected: describes the server, and how to start it.
    """

    make: Callable[..., PolicyServer]
    port: int
    schemes: tuple[str, ...]
    expected: str


PROTOCOLS: Mapping[str, ServerKind] = {
    "openpi": ServerKind(
        OpenpiPolicy,
        OPENPI_PORT,
        WEBSOCKET,
        "an openpi policy server (openpi's scripts/serve_policy.py, `pytest-vla serve`, or another server of its "
        "protocol)",
    ),
    "vla-eval": ServerKind(VlaEvalPolicy, VLA_EVAL_PORT, WEBSOCKET, "a vla-eval model server (`vla-eval serve`)"),
    "groot": ServerKind(
        GrootPolicy,
        5555,
        ("tcp",),
        "a server of GR00T N1.6 or N1.7 (gr00t/eval/run_gr00t_server.py with --use-sim-policy-wrapper)",
    ),
    "groot-n1.5": ServerKind(
        partial(GrootPolicy, is_n15=True), 5555, ("tcp",), "GR00T N1.5's server (scripts/inference_service.py --server)"
    ),
    "x-vla": ServerKind(XVlaPolicy, 8000, ("http", "https"), "X-VLA's server (its deploy.py)"),
    "starvla": ServerKind(
        StarVlaPolicy, 10093, WEBSOCKET, "starVLA's server (deployment/model_server/server_policy.py)"
    ),
}
"""By the text before the address in ``--vla-model``."""
