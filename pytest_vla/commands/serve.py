"""``pytest-vla serve``: offers a policy to other machines, so that one with a GPU serves those that simulate."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import one_seed, question_count, whole_number
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    import socket

    from pytest_vla.policies.base import BatchPolicy
    from pytest_vla.policies.spec import ModelSpec
    from pytest_vla.serving.websocket import WebsocketServer

# What the command needs is imported when it runs: --help has to come at once.

_SECONDS_ON_A_TERMINAL, _SECONDS_IN_A_LOG = 10.0, 60.0
_BUSY_SECONDS = 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    from pytest_vla.policies.openpi_connection import DEFAULT_PORT

    parser.epilog = (
        "Clients are `pytest --vla-model=openpi:HOST:PORT`, whose episodes are then bit for bit what they are with the "
        "policy at home, and any client of openpi's protocol. The key is in the environment variable "
        "PYTEST_VLA_POLICY_KEY, here as there; where others than this machine are served it has to be set. Nothing is "
        "encrypted: over networks that are not yours use a tunnel (ssh -L). Ctrl-C ends it."
    )
    parser.add_argument("--vla-model", metavar="POLICY", required=True, help="as pytest's --vla-model")
    parser.add_argument(
        "--port",
        metavar="N",
        type=whole_number("a port", 0, 65535),
        default=DEFAULT_PORT,
        help=f"0: a free one (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="on which to listen; 0.0.0.0: on all of this machine's (default: 127.0.0.1, for this machine only)",
    )
    parser.add_argument(
        "--vla-device", metavar="DEVICE", default="auto", help="auto (default: cuda, mps, cpu), or torch's name of it"
    )
    parser.add_argument(
        "--vla-max-batch", metavar="N", type=question_count, help="questions answered at once, at most, as pytest's"
    )
    parser.add_argument(
        "--run-seed",
        metavar="N",
        type=one_seed,
        default=0,
        help="seeds the policy's noise for clients that bring none, which are openpi's (default: 0)",
    )


def run(options: argparse.Namespace) -> None:
    """Loads the policy, and serves it until SIGINT or SIGTERM. Raises VlaError."""
    from pytest_vla.policies.devices import DEFAULT_BATCH
    from pytest_vla.policies.load import check_model, digest_of
    from pytest_vla.policies.openpi_connection import KEY, require_websockets
    from pytest_vla.run.project import typed_model
    from pytest_vla.serving.websocket import WebsocketServer

    require_websockets("pytest-vla serve")
    key = os.environ.get(KEY, "").strip()
    spec = typed_model(options.vla_model, options.vla_device)
    with _bound(options.host, options.port) as listener:
        host = listener.getsockname()[0]
        if not key and not _is_loopback(host):
            raise VlaError(
                f"--host={options.host} serves other machines: set a key in the environment variable {KEY}, the same "
                "here and there"
            )
        check_model(spec)
        _say(f"loading {spec.text}")
        began = time.monotonic()
        policy = _load(spec)
        took = time.monotonic() - began
        batch = options.vla_max_batch or DEFAULT_BATCH
        try:
            server = WebsocketServer(
                *(policy, listener),
                key=key,
                most=batch,
                run_seed=options.run_seed,
                digest=digest_of(policy, spec),
                told=_say,
            )
        except OSError as error:
            raise _unusable(options.host, options.port, error) from error
    with _signals():
        try:
            device = getattr(policy, "device", None)
            _say(
                f"{spec.text} is loaded{f' on {device}' if device is not None else ''} in {took:.1f} s; it answers "
                f"{min(batch, policy.max_batch)} at once, at most"
            )
            _say(f"listening on {_joined(host, server.port)}{'; clients need the key' if key else ''}; Ctrl-C ends it")
            _say(f"pytest --vla-suite=SUITE --vla-model=openpi:{_joined(_reachable(host), server.port)}")
            _report(server)
        except KeyboardInterrupt:
            _ignore_signals()
        _say("ends")
        if not server.close():
            # A policy that hangs keeps its threads.
            sys.stdout.flush()
            os._exit(0)


def _load(spec: "ModelSpec") -> "BatchPolicy":
    from pytest_vla.policies.load import load_policy
    from pytest_vla.serving.websocket import as_batch_policy
    from pytest_vla.util.warnings import describe

    try:
        policy = load_policy(spec)
    except VlaError:
        raise
    except Exception as error:
        raise VlaError(f"--vla-model={spec.text}: loading raised {describe(error)}") from error
    if getattr(policy, "privileged", False):
        raise VlaError(
            f"--vla-model={spec.text} looks into the simulator, which is in another process: it cannot be served; "
            "clients have it by themselves"
        )
    return as_batch_policy(policy)


def _report(server: "WebsocketServer") -> None:
    """A line now and then, where something happened, until a KeyboardInterrupt."""
    pause = _SECONDS_ON_A_TERMINAL if sys.stdout.isatty() else _SECONDS_IN_A_LOG
    asked = batches = connections = 0
    last = time.monotonic()
    while True:
        time.sleep(pause)
        sizes, now = dict(server.batcher.sizes), time.monotonic()
        new_asked, new_batches = sum(size * count for size, count in sizes.items()), sum(sizes.values())
        since = server.batcher.busy_since
        busy = now - since if since is not None else 0.0
        if new_batches > batches or server.connections != connections or busy > _BUSY_SECONDS:
            connections = server.connections
            line = f"{connections} connections, {(new_asked - asked) / (now - last):.1f} questions/s"
            if new_batches > batches:
                line += f", {(new_asked - asked) / (new_batches - batches):.1f} in a batch"
            if busy > _BUSY_SECONDS:
                line += f"; the policy has been at one call for {busy:.0f} s"
            _say(f"{time.strftime('%H:%M:%S')} {line}")
        asked, batches, last = new_asked, new_batches, now


@contextmanager
def _bound(host: str, port: int) -> Iterator["socket.socket"]:
    """A TCP socket that is bound and does not listen yet: who connects before the policy is loaded is refused."""
    import socket

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise VlaError(f"--host={host}: {error}; write an address of this machine, such as 0.0.0.0 for all") from error
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            raise _unusable(host, port, error) from error
        yield listener


def _unusable(host: str, port: int, error: OSError) -> VlaError:
    import errno

    if error.errno == errno.EADDRINUSE:
        return VlaError(f"--port={port} is in use on {host}: take another; 0 is a free one")
    return VlaError(f"--host={host} --port={port}: {error.strerror or error}")


def _is_loopback(host: str) -> bool:
    import ipaddress

    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _reachable(host: str) -> str:
    """The name by which clients reach an address."""
    import socket

    return socket.gethostname() if host in ("0.0.0.0", "::") else host


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def _signals() -> Iterator[None]:
    """SIGTERM is a KeyboardInterrupt, as SIGINT is; both are as before afterwards."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _say(line: str) -> None:
    # Who reads it may be gone, which is no reason to serve nobody.
    with suppress(OSError):
        print(printable(f"pytest-vla: {line}"), flush=True)


COMMAND = Command(declare, run)
