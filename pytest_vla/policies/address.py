"""Where a policy server listens: HOST, HOST:PORT or a websocket URL, as typed after the kind in ``--vla-model``."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from pytest_vla.errors import EpisodeError, VlaError

AWAY_SECONDS = 60.0
"""How long a server on the network may be away before the run stops."""

KEY = "PYTEST_VLA_POLICY_KEY"
"""The environment variable with a policy server's key: a key in ``--vla-model`` would be kept in every record."""

_RETRY_SECONDS = 0.5
_HOST = re.compile(r"\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\s/:@?#\[\]]+")


@dataclass(frozen=True)
class Address:
    """A policy server's place.

    Attributes:
        url: what a websocket client connects to; names host and port, and holds no secret.
        model: the text of ``--vla-model``, for messages.
    """

    url: str
    model: str

    def __str__(self) -> str:
        return self.url


def parse_address(kind: str, where: str, default_port: int) -> Address:
    """The address that `where` is for a `kind` of model; a URL without a port has the scheme's own (80, 443).

    Raises:
        VlaError: not an address, or one with a password or a query in it.
    """
    model = f"{kind}:{where}"
    if not where.isprintable() or " " in where:
        raise VlaError(f"--vla-model={kind}:{where!r}: {_expected(kind)}")
    if "@" in where or "?" in where or "#" in where:
        raise VlaError(
            f"--vla-model={kind}:...: a user, password or query in the address would be kept in every record; "
            f"{_expected(kind)}, and give the server's key in the environment variable {KEY}"
        )
    if "://" in where:
        return Address(_checked_url(where, model, kind), model)
    host = _HOST.match(where)
    colon, port = (where[host.end() : host.end() + 1], where[host.end() + 1 :]) if host else ("", "")
    if host is None or colon not in ("", ":"):
        raise VlaError(f"--vla-model={model}: {_expected(kind)} (an IPv6 address in brackets)")
    if colon and not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65535):
        raise VlaError(f"--vla-model={model}: a port is a number from 1 to 65535, and {port!r} is none")
    return Address(f"ws://{host[0]}:{int(port) if colon else default_port}", model)


def parse_addresses(kind: str, where: str, default_port: int) -> tuple[Address, ...]:
    """The addresses of ``HOST1:8000,HOST2:8000``, or the one of ``HOST``. As `parse_address`; raises VlaError also for
    one that is there twice."""
    parts = [part.strip(" ") for part in where.split(",")] if "," in where else [where]
    if not all(parts):
        raise VlaError(f"--vla-model={kind}:{where}: an address is missing beside a comma")
    addresses = [parse_address(kind, part, default_port) for part in parts]
    urls = [address.url for address in addresses]
    if twice := [url for number, url in enumerate(urls) if url in urls[:number]]:
        raise VlaError(f"--vla-model={kind}:{where}: {twice[0]} is there twice")
    return tuple(addresses)


def await_server(reach: Callable[[], object]) -> None:
    """Waits until a server on the network answers again.

    Args:
        reach: connects once; raises EpisodeError where there is nobody.

    Raises:
        VlaError: it stayed away for `AWAY_SECONDS`.
    """
    end = time.monotonic() + AWAY_SECONDS
    while True:
        try:
            reach()
            return
        except EpisodeError as error:
            if time.monotonic() > end:
                raise VlaError(
                    f"{error.message}, for {AWAY_SECONDS:g} s: the run stops; start the server, and go on with "
                    "--vla-resume"
                ) from error
        time.sleep(_RETRY_SECONDS)


def _checked_url(where: str, model: str, kind: str) -> str:
    try:
        parts = urlsplit(where)
        usable = parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise VlaError(f"--vla-model={model}: {_expected(kind)}")
    return where


def _expected(kind: str) -> str:
    return f"write {kind}:HOST:PORT or {kind}:ws://HOST:PORT (wss:// for TLS)"
