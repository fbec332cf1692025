"""``pytest-vla serve``: serves a policy to other machines, so that a GPU machine can answer machines that simulate."""

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

# Heavy imports are inside the functions, so that --help is fast.

_SECONDS_ON_A_TERMINAL, _SECONDS_IN_A_LOG = 10.0, 60.0
_BUSY_SECONDS = 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    from pytest_vla.policies.openpi_connection import DEFAULT_PORT

    parser.epilog = (
        "Clients are `pytest --vla-model=openpi:HOST:PORT`, whose episodes are identical bit for bit to those with a "
        "local policy, and any client of openpi's protocol. Set the environment variable PYTEST_VLA_POLICY_KEY to the "
        "same key on server and clients; it is required unless only this machine is served. Nothing is encrypted: on "
        "untrusted networks use a tunnel (ssh -L). Stop it with Ctrl-C."
    )
    parser.add_argument("--vla-model", metavar="POLICY", required=True, help="policy to serve, as for pytest")
    parser.add_argument(
        "--port",
        metavar="N",
        type=whole_number("a port", 0, 65535),
        default=DEFAULT_PORT,
        help=f"port to listen on, 0 for any free one (default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        default="127.0.0.1",
        help="address to listen on, 0.0.0.0 for all of this machine's (default: 127.0.0.1, for this machine only)",
    )
    parser.add_argument(
        "--vla-device",
        metavar="DEVICE",
        default="auto",
        help="device of the policy: auto (cuda, mps or cpu), or torch's device name (default: auto)",
    )
    parser.add_argument(
        "--vla-max-batch", metavar="N", type=question_count, help="largest batch of questions, as for pytest"
    )
    parser.add_argument(
        "--run-seed",
        metavar="N",
        type=one_seed,
        default=0,
        help="seed of the policy's noise for clients that send none, such as openpi's (default: 0)",
    )


def run(options: argparse.Namespace) -> None:
    """Load the policy, and serve it until SIGINT or SIGTERM. Raises VlaError: it cannot be loaded or served."""
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
                f"--host={options.host} serves other machines. Set the same key in the environment variable {KEY} on "
                "the server and its clients"
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
                f"{spec.text} is loaded{f' on {device}' if device is not None else ''} in {took:.1f} s; it answers up "
                f"to {min(batch, policy.max_batch)} at once"
            )
            _say(f"listening on {_joined(host, server.port)}{'; clients need the key' if key else ''}; Ctrl-C ends it")
            _say(f"pytest --vla-suite=SUITE --vla-model=openpi:{_joined(_reachable(host), server.port)}")
            _report(server)
        except KeyboardInterrupt:
            _ignore_signals()
        _say("stopped")
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
            f"--vla-model={spec.text} reads the simulator's state, so it cannot be served. Use it in the "
            "client's pytest instead"
        )
    return as_batch_policy(policy)


def _report(server: "WebsocketServer") -> None:
    """Print a line of statistics now and then if there was activity, until a KeyboardInterrupt."""
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
                line += f"; the current call of the policy has taken {busy:.0f} s"
            _say(f"{time.strftime('%H:%M:%S')} {line}")
        asked, batches, last = new_asked, new_batches, now


@contextmanager
def _bound(host: str, port: int) -> Iterator["socket.socket"]:
    """Yield a TCP socket that is bound but does not listen, so that clients are refused until the policy is loaded."""
    import socket

    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise VlaError(f"--host={host}: {error}. Give an address of this machine, such as 0.0.0.0 for all") from error
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
        return VlaError(f"--port={port} is in use on {host}. Use another, or 0 for any free one")
    return VlaError(f"--host={host} --port={port}: {error.strerror or error}")


def _is_loopback(host: str) -> bool:
    import ipaddress

    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def _reachable(host: str) -> str:
    """Return the host name by which clients reach an address."""
    import socket

    return socket.gethostname() if host in ("0.0.0.0", "::") else host


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextmanager
def _signals() -> Iterator[None]:
    """Turn SIGTERM into a KeyboardInterrupt, as SIGINT is, and restore both handlers afterwards."""
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
    # The server continues without a reader of its output.
    with suppress(OSError):
        print(printable(f"pytest-vla: {line}"), flush=True)


COMMAND = Command(declare, run)
