"""``--vla-model=vla-eval:HOST:PORT``: a model server of vla-eval, asked through that package's own client."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import Episode, Observation, Policy, Session, check_actions
from pytest_vla.policies.devices import REQUEST_TIMEOUT
from pytest_vla.policies.openpi_connection import Address, await_server, parse_address, parse_addresses
from pytest_vla.policies.servers import Said, check_servers, policy_of_servers
from pytest_vla.policies.view import resize_with_padding

DEFAULT_PORT = 8000
IMAGE_SIZE = 256
"""Height and width of the pictures that vla-eval's LIBERO benchmark sends, pixels."""

CHECK_TIMEOUT = 10.0
"""Seconds that the server may take to answer before the first episode."""

_CLOSE_TIMEOUT = 1.0
_GRACE = 5.0  # The client has its own limits; this is the slack beyond them.


@dataclass(frozen=True)
class VlaEvalPolicy:
    """A policy behind vla-eval's protocol; each episode has a connection, and thereby a server session, of its own.

    An observation has the form of vla-eval's own LIBERO benchmark: ``images`` with ``agentview`` (256, 256, 3) uint8,
    turned as the suite defines, and ``task_description``; ``wrist`` and ``states`` (8,) if the server's hello requests
    them. Answers are read as in that benchmark: the gripper closes at 0 and above. There is one question per step,
    since the server keeps the chunks. Pictures are sent uncompressed.

    Episodes end with EpisodeError ``policy-connection`` (no server, it is gone, or it was away for a moment and has
    lost the episode), ``policy-timeout``, ``policy-raised`` (the server's error) or ``policy-protocol``.

    Attributes:
        address: the server's address.
        timeout: seconds that connecting, or one request, may take in an episode.
    """

    address: Address
    timeout: float = REQUEST_TIMEOUT

    @cached_property
    def said(self) -> Said:
        """The server's hello. Connects once. Raises EpisodeError."""
        return _hello(self.address, self.timeout)

    def reach(self) -> Said:
        """Connect, and return the server's current hello.

        Raises:
            EpisodeError: no hello within `CHECK_TIMEOUT`, or it requests data that no suite has.
        """
        return _hello(self.address, CHECK_TIMEOUT)

    def recover(self, reason: str | None) -> bool:
        """Wait for a server that went away; see `pytest_vla.episode.rollout.play_until_it_counts`."""
        if reason != "policy-connection":
            return False
        await_server(self.reach)
        return True

    def __call__(self, episode: Episode) -> Session:
        """Connect for an episode, and begin it on the server."""
        return _Session(self.address, episode, self.timeout)


def vla_eval_policy(where: str, timeout: float = REQUEST_TIMEOUT) -> VlaEvalPolicy:
    """Return the policy of one model server, without connecting. Raises VlaError.

    Args:
        where: HOST, HOST:PORT or a URL.
        timeout: seconds that connecting, or one request, may take in an episode.
    """
    _client()
    return VlaEvalPolicy(parse_address("vla-eval", where, DEFAULT_PORT), timeout)


def vla_eval_policies(where: str, timeout: float = REQUEST_TIMEOUT, number: int = 0) -> Policy:
    """Return the policy of one or several model servers, without connecting. Raises VlaError.

    Args:
        where: an address as for `vla_eval_policy`, or a list of them (``HOST1:8000,HOST2:8000``).
        timeout: seconds that connecting, or one request, may take in an episode.
        number: the number of this worker, which selects its server.
    """
    _client()
    addresses = parse_addresses("vla-eval", where, DEFAULT_PORT)
    return policy_of_servers(addresses, lambda address: VlaEvalPolicy(address, timeout), number)


def check_vla_eval(where: str) -> None:
    """Connect once to each server of a list, and disconnect.

    Raises:
        VlaError: the package is missing, a server does not answer or requests data that no suite has, or they
            serve different policies.
    """
    _client()
    expected = "a vla-eval model server there. Start it first (`vla-eval serve`), and check host and port"
    check_servers(f"vla-eval:{where}", parse_addresses("vla-eval", where, DEFAULT_PORT), VlaEvalPolicy, expected)


def vla_eval_state(state: NDArray[Any], *, antipodal: bool) -> NDArray[np.float64]:
    """Return the state (8,) in vla-eval's form.

    Unless `antipodal`, a rotation by more than pi becomes the shorter one in the opposite direction.
    """
    sent = np.array(state, dtype=np.float64)
    angle = float(np.linalg.norm(sent[3:6]))
    if not antipodal and angle > np.pi:
        sent[3:6] *= (angle - 2 * np.pi) / angle
    return sent


class _Session:
    def __init__(self, address: Address, episode: Episode, timeout: float) -> None:
        self._address, self._instruction, self._timeout = address, episode.instruction, timeout
        self._connection = _connect(address, timeout)
        # A different hello later means that the client has reconnected, to a server that has lost the episode.
        self._hello = self._connection.server_info
        self._wishes = _wishes(self._hello)
        self._in_step = True
        task = {"name": episode.instruction, "suite": episode.suite, "episode_idx": episode.seed}
        try:
            self._ask(self._connection.start_episode({"task": task}))
        except BaseException:
            _leave(self._connection)
            raise

    def __call__(self, observation: Observation) -> NDArray[np.float64]:
        self._refuse_if_gone()
        reply = self._ask(self._connection.act(self._observation(observation)))
        self._refuse_if_gone()
        actions = reply.get("actions", reply.get("action")) if isinstance(reply, dict) else None
        if actions is None:
            listed = ", ".join(sorted(map(str, reply)))[:200] if isinstance(reply, dict) else type(reply).__name__
            raise EpisodeError("policy-protocol", f"{self._address} replied without actions; the reply has {listed}")
        chunk = check_actions(actions)
        chunk[:, 6] = np.where(chunk[:, 6] < 0, -1.0, 1.0)
        return chunk

    def close(self) -> None:
        if self._in_step and self._connection.is_connected and self._connection.server_info is self._hello:
            with suppress(Exception):
                _run(self._connection.end_episode({}), _CLOSE_TIMEOUT)
        _leave(self._connection)

    def _observation(self, observation: Observation) -> dict[str, Any]:
        images = {"agentview": resize_with_padding(observation["agentview_image"], IMAGE_SIZE, IMAGE_SIZE)}
        if self._wishes.get("send_wrist_image"):
            images["wrist"] = resize_with_padding(observation["robot0_eye_in_hand_image"], IMAGE_SIZE, IMAGE_SIZE)
        sent: dict[str, Any] = {"images": images, "task_description": self._instruction}
        if self._wishes.get("send_state"):
            antipodal = bool(self._wishes.get("quat_no_antipodal"))
            sent["states"] = vla_eval_state(observation["state"], antipodal=antipodal)
        return sent

    def _ask(self, question: Coroutine[Any, Any, Any]) -> Any:
        self._in_step = False
        reply = _guarded(question, self._address, self._timeout)
        self._in_step = True
        return reply

    def _refuse_if_gone(self) -> None:
        if not self._connection.is_connected or self._connection.server_info is not self._hello:
            raise EpisodeError(
                "policy-connection", f"{self._address} ended the connection, and with it the episode's session"
            )


def _client() -> Any:
    try:
        from vla_eval.connection import Connection
        from vla_eval.protocol.numpy_codec import set_image_format
    except ImportError as error:
        raise VlaError(
            f"--vla-model=vla-eval needs the package vla-eval ({error}): pip install 'pytest-vla[vla-eval]'"
        ) from error
    # The default, PNG, takes 50 ms per picture to encode, longer than a network takes to send it raw.
    set_image_format("raw")
    return Connection


def _connect(address: Address, timeout: float) -> Any:
    """Return a connection whose server has answered the handshake. Raises EpisodeError."""
    connection = _client()(address.url, timeout=timeout, max_retries=1)
    try:
        _guarded(connection.connect(), address, timeout)
        _wishes(connection.server_info)
    except EpisodeError as error:
        _leave(connection)
        if error.reason == "policy-timeout":
            raise EpisodeError("policy-connection", f"{error.message} to a new connection") from error
        raise
    return connection


def _hello(address: Address, timeout: float) -> Said:
    """Connect, and return a server's hello. Raises EpisodeError."""
    connection = _connect(address, timeout)
    hello = connection.server_info
    _leave(connection)
    return hello if isinstance(hello, dict) else {}


def _wishes(hello: Any) -> Mapping[str, Any]:
    """Return the data that the server requests. Raises EpisodeError ``policy-protocol`` if no suite has them."""
    wishes = hello.get("observation_params") or {} if isinstance(hello, dict) else {}
    if not isinstance(wishes, dict):
        raise EpisodeError("policy-protocol", f"a server's observation_params are a dict, not {wishes!r}")
    known = {"send_wrist_image", "send_state"}
    foreign = [name for name, wish in wishes.items() if wish and str(name).startswith("send_") and name not in known]
    if wishes.get("absolute_action"):
        foreign.append("absolute_action")
    if foreign:
        raise EpisodeError("policy-protocol", f"the model server asks for {', '.join(foreign)}, which no suite has")
    return wishes


def _guarded(talk: Coroutine[Any, Any, Any], address: Address, timeout: float) -> Any:
    """Return the result of `talk`; turn errors into EpisodeErrors."""
    from websockets.exceptions import WebSocketException

    try:
        return _run(talk, timeout + _GRACE)
    except TimeoutError as error:
        raise EpisodeError("policy-timeout", f"{address} gave no answer within {timeout:g} s") from error
    except (OSError, EOFError, WebSocketException) as error:
        cause = error.__cause__ or error
        if isinstance(cause, TimeoutError):
            raise EpisodeError("policy-timeout", f"{address} gave no answer within {timeout:g} s") from error
        if isinstance(cause, ConnectionRefusedError):
            raise EpisodeError("policy-connection", f"nothing listens at {address}") from error
        raise EpisodeError(
            "policy-connection", f"no connection to {address}: {type(cause).__name__}: {cause}"
        ) from error
    except RuntimeError as error:
        # The client raises it for an error of the server.
        raise EpisodeError("policy-raised", f"{address}: {error}") from error
    except Exception as error:
        raise EpisodeError(
            "policy-protocol", f"{address} does not speak vla-eval's protocol: {type(error).__name__}: {error}"
        ) from error


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all connections of this process; its own thread keeps it apart from a test's loop."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="vla-eval", daemon=True).start()
    return loop


def _run(talk: Coroutine[Any, Any, Any], timeout: float) -> Any:
    running: concurrent.futures.Future[Any] = asyncio.run_coroutine_threadsafe(talk, _loop())
    try:
        return running.result(timeout)
    except BaseException:
        running.cancel()
        raise


def _leave(connection: Any) -> None:
    # Errors while closing do not affect the episode.
    with suppress(Exception):
        _run(connection.close(), _CLOSE_TIMEOUT)
