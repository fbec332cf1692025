"""Two processes prove to each other over a socket that they know the same secret, without saying it.

Each sends 32 random bytes and gets back their HMAC-SHA256 with the secret, the role of who answers, and both sides'
bytes, so that no answer can be sent back as one's own. Whoever does not know the secret has sent a hundred bytes at
most, and nothing of them was parsed.
"""

import hashlib
import hmac
import secrets
import socket

HELLO = b"pytest-vla 1\n"
SECONDS = 10.0
"""For which the other side is waited for."""

_NONCE = 32


class NotProven(OSError):
    """The other side is none of ours, or has another secret."""


def prove(connection: socket.socket, secret: bytes, *, listens: bool, seconds: float = SECONDS) -> None:
    """Proves this side to the other and has it prove itself. The socket's timeout is as before afterwards.

    Args:
        connection: a connected stream socket.
        secret: what both sides know.
        listens: whether this side accepted the connection; one side has to have.
        seconds: for which each answer is waited for.

    Raises:
        NotProven: the other side does not know the secret, or speaks otherwise.
        OSError: it is gone, or silent for too long.
    """
    before = connection.gettimeout()
    connection.settimeout(seconds)
    try:
        ours = secrets.token_bytes(_NONCE)
        connection.sendall(HELLO + ours)
        said = _exactly(connection, len(HELLO) + _NONCE)
        if said[: len(HELLO)] != HELLO:
            raise NotProven("the other side is no process of this version of pytest-vla")
        theirs = said[len(HELLO) :]
        connection.sendall(_proof(secret, listens, ours, theirs))
        if not hmac.compare_digest(_exactly(connection, _NONCE), _proof(secret, not listens, theirs, ours)):
            raise NotProven("the other side does not know this run's secret")
    finally:
        connection.settimeout(before)


def keep_alive(connection: socket.socket, seconds: float = 30.0) -> None:
    """Has a connection break within about so many seconds where the other side's host is gone; small messages go at
    once.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    whole = max(1, int(seconds / 3))
    # Linux has all of them, other systems some.
    for name, value in (("TCP_KEEPIDLE", whole), ("TCP_KEEPINTVL", max(1, whole // 2)), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * seconds))


def _proof(secret: bytes, listens: bool, own: bytes, other: bytes) -> bytes:
    role = b"listens" if listens else b"connects"
    return hmac.digest(secret, role + own + other, hashlib.sha256)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise NotProven("the other side closed the connection")
        found += part
    return found
