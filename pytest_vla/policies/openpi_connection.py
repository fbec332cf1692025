"""A connection to a server of openpi's websocket protocol: one question at a time, each with a time limit."""

import ipaddress
import os
import re
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.fit import Traits
from pytest_vla.policies.msgpack_arrays import pack, unpack
from pytest_vla.util.text import printable
from pytest_vla.util.warnings import ServerTraceback

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection
    from websockets.sync.connection import Connection


T = TypeVar("T")

# Names in openpi's websocket protocol, and in the extension between pytest-vla's own server and client.

DEFAULT_PORT = 8000

OBSERVATIONS: Mapping[str, str] = {
    "observation/image": "agentview_image",
    "observation/wrist_image": "robot0_eye_in_hand_image",
    "observation/state": "state",
}
"""The observations that openpi's LIBERO client sends, and our names for them. The `PROMPT` is sent, too."""

PROMPT = "prompt"

OURS = "pytest_vla"
"""The key that identifies pytest-vla's own server and client, in the metadata and in each request."""

VERSION = 1


@dataclass(frozen=True)
class ServerInfo:
    """The description of its policy that ``pytest-vla serve`` sends to each client.

    Attributes:
        reads: the observations that a question must have, or None for all.
        replan: the number of steps of a chunk that are executed, or None for all.
        digest: the digest of the policy's content, or None if it is not known.
        traits: the policy's traits.
    """

    reads: tuple[str, ...] | None
    replan: int | None = None
    digest: str | None = None
    traits: Traits = field(default_factory=Traits)

    def metadata(self) -> dict[str, Any]:
        """Return the metadata to send on connection, in openpi's place for it."""
        reads = None if self.reads is None else list(self.reads)
        said = {"reads": reads, "replan": self.replan, "digest": self.digest, "traits": self.traits.table()}
        return {OURS: {"protocol": VERSION, **said}}

    @classmethod
    def of(cls, metadata: Mapping[Any, Any]) -> "ServerInfo | None":
        """Read the result of `metadata`; None for another kind of server.

        Raises:
            ValueError: another version of the protocol, or an invalid description.
            VlaError: invalid traits.
        """
        if OURS not in metadata:
            return None
        table = metadata[OURS]
        version = table.get("protocol") if isinstance(table, dict) else None
        if version != VERSION:
            raise ValueError(
                f"the server speaks version {version!r} of pytest-vla's protocol, and this is version {VERSION}: "
                "install the same pytest-vla on both machines"
            )
        reads, replan, digest, traits = (table.get(name) for name in ("reads", "replan", "digest", "traits"))
        if not (reads is None or (isinstance(reads, list) and all(isinstance(name, str) for name in reads))):
            raise ValueError("the server does not say what its policy reads")
        if not (replan is None or (type(replan) is int and replan >= 1)):
            raise ValueError(f"the server's replan is {str(replan)[:40]}, and no number of steps")
        if not (digest is None or isinstance(digest, str)) or not isinstance(traits, dict):
            raise ValueError("the server's digest is a text, and its traits are a table")
        return cls(None if reads is None else tuple(reads), replan, digest, Traits.of(traits))


# Where a policy server listens: HOST, HOST:PORT or a URL, as typed after the kind in ``--vla-model``.

AWAY_SECONDS = 60.0
"""Seconds that a server on the network may be away before the run stops."""

KEY = "PYTEST_VLA_POLICY_KEY"
"""The environment variable with a policy server's key: a key in ``--vla-model`` would be stored in every record."""

GONE = "policy-connection"
"""The reason of an error if there is no server, or if it is gone."""

_RETRY_SECONDS = 0.5
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\s/:@?#\[\]]+")

WEBSOCKET = ("ws", "wss")
"""The schemes of a websocket's URL."""


@dataclass(frozen=True)
class Address:
    """The address of a policy server.

    Attributes:
        url: the URL for a client; it has host and port, and no secret.
        model: the text of ``--vla-model``, for messages.
    """

    url: str
    model: str

    def __str__(self) -> str:
        return self.url


def parse_address(kind: str, where: str, default_port: int, schemes: Sequence[str] = WEBSOCKET) -> Address:
    """Parse the address of a policy server; a URL without a port has the default of its scheme (80, 443).

    Args:
        kind: the text before the address in ``--vla-model``.
        where: HOST, HOST:PORT or a URL.
        default_port: for HOST.
        schemes: the URL schemes of the server's protocol: the plain one, and the one over TLS if there is one.

    Raises:
        VlaError: not an address, or one that contains a password or a query.
    """
    model, expected = f"{kind}:{where}", _expected(kind, schemes)
    if not where.isprintable() or " " in where:
        raise VlaError(f"--vla-model={kind}:{where!r}: {expected}")
    if "@" in where or "?" in where or "#" in where:
        raise VlaError(
            f"--vla-model={kind}:...: a user, password or query in the address would be stored in every record; "
            f"{expected}, and set the server's key in the environment variable {KEY}"
        )
    if "://" in where:
        if not _is_usable(where, schemes):
            raise VlaError(f"--vla-model={model}: {expected}")
        return Address(where, model)
    host = _HOST.match(where)
    colon, port = (where[host.end() : host.end() + 1], where[host.end() + 1 :]) if host else ("", "")
    if host is None or colon not in ("", ":"):
        raise VlaError(f"--vla-model={model}: {expected} (an IPv6 address in brackets)")
    if colon and not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65535):
        raise VlaError(f"--vla-model={model}: {port!r} is not a port number (1 to 65535)")
    return Address(f"{schemes[0]}://{host[0]}:{int(port) if colon else default_port}", model)


def parse_addresses(
    kind: str, where: str, default_port: int, schemes: Sequence[str] = WEBSOCKET
) -> tuple[Address, ...]:
    """Parse one address (``HOST``) or a list of them (``HOST1:8000,HOST2:8000``); arguments as for `parse_address`.

    Raises:
        VlaError: as for `parse_address`, or an address is given twice.
    """
    parts = [part.strip(" ") for part in where.split(",")] if "," in where else [where]
    if not all(parts):
        raise VlaError(f"--vla-model={kind}:{where}: an address in the list is empty")
    addresses = [parse_address(kind, part, default_port, schemes) for part in parts]
    urls = [address.url for address in addresses]
    if twice := [url for number, url in enumerate(urls) if url in urls[:number]]:
        raise VlaError(f"--vla-model={kind}:{where}: {twice[0]} is given twice")
    return tuple(addresses)


def await_server(reach: Callable[[], T]) -> T:
    """Wait until a server on the network answers again, and return what `reach` returned then.

    Args:
        reach: connects once; raises EpisodeError if the server does not answer.

    Raises:
        VlaError: the server stayed away for `AWAY_SECONDS`.
    """
    end = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            return reach()
        except EpisodeError as error:
            if time.monotonic() > end:
                raise VlaError(
                    f"no server came back within {AWAY_SECONDS:g} s: {error.message}. The run stops. "
                    "Start the server, and resume with --vla-resume."
                ) from error
        time.sleep(_RETRY_SECONDS)


def _is_usable(url: str, schemes: Sequence[str]) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _expected(kind: str, schemes: Sequence[str]) -> str:
    encrypted = f" ({schemes[1]}:// for TLS)" if len(schemes) > 1 else ""
    return f"write {kind}:HOST:PORT or {kind}:{schemes[0]}://HOST:PORT{encrypted}"


MAX_REPLY = 16 * 1024 * 1024
"""The most bytes in one reply."""

FIRST_ANSWER = 10
"""Factor of the time limit for a server's first answer, for which it may compile its network."""

_CLOSE_TIMEOUT = 1.0  # A server that is computing another answer does not reply to a close.
_LONGEST_TEXT = 20_000


class AnswerLimit:
    """The time limit of a server's answers: longer until the first one, and after `renew`.

    Attributes:
        seconds: ``--vla-policy-timeout``.
    """

    def __init__(self, seconds: float, first: int = FIRST_ANSWER) -> None:
        """Set the limit; the first answer may take `first` times as long."""
        self.seconds, self._first, self._factor = seconds, first, first

    def renew(self) -> None:
        """Allow the longer time again, for a server that was restarted."""
        self._factor = self._first

    def asked(self, ask: Callable[[Callable[[], float]], T], address: Address) -> T:
        """Return the result of `ask`, which gets a function for the seconds left. Raises EpisodeError as `guarded`."""
        told = "--vla-policy-timeout"
        if self._factor > 1:
            told = f"{self._factor} times {told}, as a server may compile for its first answer"
        answer = guarded(ask, address, self._factor * self.seconds, f" ({told})")
        self._factor = 1
        return answer


class OpenpiConnection:
    """A connection whose server has sent its metadata.

    Every method but `close` raises EpisodeError: ``policy-connection`` (no server, or it is gone), ``policy-timeout``
    (no reply in time), ``policy-raised`` (the server's traceback) or ``policy-protocol`` (an invalid reply).

    Attributes:
        address: the server's address.
        metadata: the server's first message.
        is_sound: whether no question is open or has failed.
    """

    def __init__(self, address: Address, timeout: float, limit: AnswerLimit | None = None) -> None:
        """Connect, with the key in the environment variable `KEY`.

        Args:
            address: the server's address.
            timeout: seconds that connecting may take.
            limit: of its answers, `timeout` by default.
        """
        self.address, self._limit = address, limit or AnswerLimit(timeout, first=1)
        self.is_sound = True
        self._socket, self.metadata = open_connection(
            address, timeout, lambda socket, left: read_table(socket.recv(timeout=left()), address)
        )

    def ask(self, request: Mapping[str, Any]) -> Mapping[Any, Any]:
        """Send a request, and return the reply."""
        packed = pack(request)
        socket = self._socket

        def ask(left: Callable[[], float]) -> str | bytes:
            limit_sending(socket, left())
            socket.send(packed)
            return socket.recv(timeout=left())

        self.is_sound = False
        reply = read_table(self._limit.asked(ask, self.address), self.address)
        self.is_sound = True
        return reply

    def close(self) -> None:
        """Close the connection. Errors while closing are ignored: they do not affect the episode."""
        with suppress(Exception):
            self._socket.close()


def require_websockets(needed_by: str) -> None:
    """Check that the package websockets is installed.

    Raises:
        VlaError: it is missing; the message says which feature needs it, and how to install it.
    """
    try:
        import websockets.sync.client
        import websockets.sync.server  # noqa: F401
    except ImportError as error:
        raise VlaError(
            f"{needed_by} needs the package websockets ({error}): pip install 'pytest-vla[remote]'"
        ) from error


def limit_sending(connection: "Connection", seconds: float) -> None:
    """Set a time limit for sending, for a peer that does not read; receiving has a limit of its own."""
    import socket

    timeout = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with suppress(OSError, AttributeError):
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


def open_connection(
    address: Address, timeout: float, greet: "Callable[[ClientConnection, Callable[[], float]], T]"
) -> "tuple[ClientConnection, T]":
    """Return a connection to a policy server, and the result of `greet`, which exchanges its first messages.

    Args:
        address: the server's address. The key in the environment variable `KEY` is sent to it, and to no address that
            it redirects to.
        timeout: seconds that all of this may take.
        greet: gets the connection, and a function for the seconds left.

    Raises:
        EpisodeError: ``policy-connection``, and what `greet` raises.
    """
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import ClientConnection, connect

    class NotRedirected(ClientConnection):
        # Some versions of websockets follow a redirect, which names another server than the user.
        def handshake(self, *args: Any, **kwargs: Any) -> None:
            try:
                super().handshake(*args, **kwargs)
            except InvalidStatus as error:
                status, to = error.response.status_code, error.response.headers.get("Location", "")
                raise EpisodeError(GONE, refusal(address, status, str(to), "websocket server")) from error

    key = os.environ.get(KEY, "").strip()

    def open_it(left: Callable[[], float]) -> "tuple[ClientConnection, T]":
        opening = connect(
            address.url,
            additional_headers={"Authorization": f"Api-Key {key}"} if key else None,
            compression=None,
            max_size=MAX_REPLY,
            open_timeout=left(),
            # The server computes in the loop that would answer a ping.
            ping_interval=None,
            close_timeout=_CLOSE_TIMEOUT,
            proxy=proxy_of(address),
            create_connection=NotRedirected,
        )
        # From websockets 17.1 on, a connection that is not entered warns.
        connection = opening.__enter__()
        try:
            limit_sending(connection, timeout)
            return connection, greet(connection, left)
        except BaseException:
            connection.close()
            raise

    return reached(open_it, address, timeout)


def reached(open_it: Callable[[Callable[[], float]], T], address: Address, timeout: float) -> T:
    """Return the result of `guarded` for a new connection: a server that does not answer it is not there."""
    try:
        return guarded(open_it, address, timeout)
    except EpisodeError as error:
        if error.reason != "policy-timeout":
            raise
        raise EpisodeError(GONE, f"{error.message} to a new connection") from error


def guarded(talk: Callable[[Callable[[], float]], T], address: Address, timeout: float, option: str = "") -> T:
    """Return the result of `talk`, which gets a function for the seconds left; turn errors into EpisodeErrors.

    Args:
        talk: sends and receives.
        address: of the server.
        timeout: seconds.
        option: where that limit is from, for the message.
    """
    closed: tuple[type[Exception], ...] = ()
    failed: tuple[type[Exception], ...] = (OSError, EOFError, ValueError, ImportError, HTTPException)
    # Not all protocols need websockets.
    with suppress(ImportError):
        from websockets.exceptions import ConnectionClosed, WebSocketException

        closed, failed = (ConnectionClosed,), (*failed, WebSocketException)
    deadline = time.monotonic() + timeout
    late = EpisodeError("policy-timeout", f"{address}{_through(address)} gave no answer within {timeout:g} s{option}")
    try:
        return talk(lambda: max(deadline - time.monotonic(), 0.0))
    except EpisodeError:
        raise
    except failed as error:
        # A connection also breaks if sending takes too long.
        if isinstance(error, TimeoutError) or time.monotonic() >= deadline:
            raise late from error
        if isinstance(error, ConnectionRefusedError):
            proxy = _through(address).removeprefix(" through ")
            where = f"{proxy}, on the way to {address}" if proxy else str(address)
            raise EpisodeError(GONE, f"nothing listens at {where}") from error
        if isinstance(error, closed):
            raise EpisodeError(GONE, f"{address} ended the connection: {error}") from error
        text = f"{type(error).__name__}: {error}"
        raise EpisodeError(GONE, f"no connection to {address}{_through(address)}: {text}") from error


_PROXIES = {
    **{"ws": ("ws", "socks", "https", "http"), "wss": ("wss", "socks", "https")},
    **{"http": ("http",), "https": ("https",)},
}
"""By the scheme of a server's URL, the schemes of the environment's proxies that may lead to it."""


def proxy_of(address: Address) -> str | None:
    """Return the URL of the environment's proxy for an address, or None; a loopback address has none."""
    parts = urlsplit(address.url)
    host = parts.hostname or ""
    with suppress(ValueError):
        if ipaddress.ip_address(host.partition("%")[0]).is_loopback:
            return None
    if host == "localhost" or proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    found = ((name, proxies[name]) for name in _PROXIES.get(parts.scheme, ()) if proxies.get(name))
    name, url = next(found, ("", None))
    return f"socks5h://{url[7:]}" if url and name == "socks" and url.startswith("http://") else url


def _through(address: Address) -> str:
    """Return `` through the proxy URL``, without its user and password, or an empty text if there is no proxy."""
    proxy = proxy_of(address)
    if proxy is None:
        return ""
    shown = f"{proxy.partition('://')[0]}://{proxy.rpartition('@')[2].rpartition('://')[2]}"
    return f" through the proxy {shown} of the environment (no_proxy=HOST avoids it)"


def refusal(address: Address, status: int, location: str, kind: str) -> str:
    """Return what a server's HTTP status means.

    Args:
        address: of the server.
        status: not the one that was hoped for.
        location: where a redirect leads.
        kind: what the server should be, such as ``websocket server``.
    """
    if 300 <= status < 400:
        to = printable(location)[:200] or "nowhere"
        return f"{address} redirects to {to} (HTTP {status}). Redirects are not followed"
    if status in (401, 403):
        given = "the key in" if os.environ.get(KEY, "").strip() else "a connection without a key; give it in"
        return f"{address} refuses {given} the environment variable {KEY} (HTTP {status})"
    return f"{address} is no {kind}{_through(address)} (HTTP {status})"


def read_table(frame: str | bytes, address: Address) -> Mapping[Any, Any]:
    """Return the dict of a binary frame; a text frame is the server's traceback. Raises EpisodeError."""
    if isinstance(frame, str):
        lines = [line for line in frame.splitlines() if line.strip()] or ["(an empty text)"]
        raise EpisodeError("policy-raised", f"{address}: {lines[-1].strip()[:500]}") from ServerTraceback(
            frame[-_LONGEST_TEXT:]
        )
    table = read_reply(frame, address)
    if not isinstance(table, dict):
        raise EpisodeError("policy-protocol", f"{address} sent {type(table).__name__}, and not a dict")
    return table


def read_reply(frame: bytes, address: Address) -> Any:
    """Return what a frame of msgpack holds. Raises EpisodeError."""
    try:
        return unpack(frame)
    except ValueError as error:
        raise EpisodeError(
            "policy-protocol", f"{address} sent {len(frame)} bytes that are no reply: {error}"
        ) from error
