"""The policy's process from outside: start it, wait until it has loaded the policy, end it.

Its code is `pytest_vla.serving.computing_process`. The process lives as long as the pipe with its orders is open. It
therefore ends, with all its children, when the process that started it ends in any way.
"""

import io
import json
import os
import platform
import secrets
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.network import NetworkAddress, reachable
from pytest_vla.serving.stats import ServingStats, read_seen
from pytest_vla.util.processes import ObservedTime

_SOCKET = "policy.sock"
_POLL_SECONDS = 1.0
_END_SECONDS = 5.0
COVERAGE = "PYTEST_VLA_COVERAGE"
"""The variable with the options of coverage.py for the policy's process, as JSON."""

BACKSTOP_SECONDS = 10.0
"""Seconds beyond the limit of a call, after which code that holds Python's lock is killed."""

_LOOK_SECONDS = 2.0  # The longest wait for the next sign of life.
_LONGEST_PATH = 100
"""The most bytes of a socket's path; systems allow 104 or 108."""

HUNG = 70
"""The exit code of a process that gave up because one call of its policy took too long."""

DESK_GONE = 72
"""The exit code of a process whose batch server, the process that serves workers, has ended."""

FROZEN = 71
"""The code for a process that gave no sign of life and was killed from outside."""

LATER = 5.0
"""Seconds between the moment when a process should have ended itself, and when it is killed from outside."""


@dataclass(frozen=True)
class PolicyAddress:
    """The address where a policy's process listens.

    Attributes:
        path: the path of its Unix-domain socket.
        secret: the secret that workers authenticate with.
    """

    path: Path
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> "PolicyAddress":
        """Return an unused address, in a folder of its own that only this user can enter.

        Raises:
            VlaError: no folder with a name that is short enough for a socket can be made.
        """
        places = dict.fromkeys([tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp"])
        trouble: OSError | str = "their names are too long for a socket"
        for place in filter(None, places):
            if len(os.fsencode(place)) + len(_SOCKET) + 24 > _LONGEST_PATH:
                continue
            try:
                return cls(Path(tempfile.mkdtemp(prefix="pytest-vla-", dir=place)) / _SOCKET, secrets.token_bytes(32))
            except OSError as error:
                trouble = error
        tried = ", ".join(filter(None, places))
        raise VlaError(
            f"cannot make a folder for the socket of the policy's process in {tried}: {trouble}. Set TMPDIR to a "
            "writable folder with a short name."
        )

    def remove(self) -> None:
        """Remove the socket and its folder."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


@dataclass(frozen=True)
class About:
    """A loaded policy's description of itself, as texts and numbers.

    Attributes:
        digest: the digest of its content, or None if it is not known.
        replan: the number of steps of a chunk that it wants executed, or None.
        traits: its requirements on a suite, as a table.
        most: the most questions in a batch; 0 if not known.
    """

    digest: str | None = None
    replan: Any = None
    traits: Mapping[str, Any] = field(default_factory=dict)
    most: int = 0


@dataclass(frozen=True)
class PolicyProcess:
    """A policy's process that has loaded its policy.

    Attributes:
        address: where it listens.
        about: its policy's description of itself.
        network: where it listens for workers on other hosts, or None.
    """

    address: PolicyAddress
    about: About
    _process: "subprocess.Popen[bytes]" = field(repr=False)
    # A file descriptor of its own, which only `wait` uses, so that `close` does not close it.
    _signs: io.FileIO = field(repr=False)
    network: NetworkAddress | None = None

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def wait(self, silence: float | None = None, seen: Callable[[ServingStats], None] = lambda seen: None) -> int:
        """Wait until the process has ended; to be called once.

        Args:
            silence: seconds without a sign of life after which it is killed, or None for never.
            seen: called with its statistics, about once a second.

        Returns:
            Its exit code, negative for a signal, or `FROZEN` if it was killed for its silence.
        """
        patience, still, rest = ObservedTime(), 0.0, b""
        with selectors.DefaultSelector() as selector, self._signs:
            selector.register(self._signs, selectors.EVENT_READ)
            # The process's children may keep its pipe open.
            while self._process.poll() is None:
                heard = False
                if selector.select(_LOOK_SECONDS):
                    told = self._signs.read(io.DEFAULT_BUFFER_SIZE)
                    if not told:
                        break
                    *lines, rest = (rest + told).split(b"\n")
                    # Only an empty line is a sign of life: another process may write the statistics.
                    heard = b"" in lines
                    for found in filter(None, map(read_seen, lines)):
                        seen(found)
                still = 0.0 if heard else still + patience.passed()
                if heard:
                    patience = ObservedTime()
                elif silence is not None and still > silence:
                    _kill(self._process)
                    self._process.wait()
                    return FROZEN
        return self._process.wait()

    def close(self) -> None:
        """End the process and its children; the process removes its address."""
        _end(self._process)


class NotBatched(VlaError):
    """The policy does not answer in batches: each worker has to load it."""


class NotShared(NotBatched):
    """This system lacks the sockets with which workers share a policy."""


def start(
    spec: ModelSpec,
    most: int,
    address: PolicyAddress,
    *,
    told: Callable[[float], None] = lambda seconds: None,
    log: Path | None = None,
    given_up: Callable[[], bool] = lambda: False,
    processes: int = 1,
    listen: str | None = None,
    port: int = 0,
    cores: int | None = None,
) -> PolicyProcess:
    """Start a process, and wait until it has loaded its policy.

    Args:
        spec: names a `BatchPolicy`.
        most: the most questions in a batch.
        address: where it is to listen; an existing socket is replaced.
        told: called about once a second while it loads, with the seconds so far.
        log: the file for the policy's output after loading, or None for standard error.
        given_up: called about once a second; returns whether the process is no longer wanted.
        processes: the number of processes of the run's policy, including this one.
        listen: an address of this machine for workers on other hosts (TCP), ``0.0.0.0`` for all of its
            addresses (workers are then given this machine's name), or None for workers on this host only.
        port: the TCP port, or 0 for a free one.
        cores: the number that workers share; 0 if each has its own; None for this machine's.

    Raises:
        NotBatched: the policy is not a `BatchPolicy`; `NotShared` if no policy can be shared on this system.
        VlaError: the policy's own message if it could not be loaded; or the process cannot listen there.
    """
    if missing := [name for name in ("AF_UNIX", "send_fds") if not hasattr(socket, name)]:
        raise NotShared(
            f"{platform.system()} has no sockets for sharing memory between processes (socket.{missing[0]}), so "
            "workers cannot share one policy"
        )
    orders = {
        "spec": spec.table(),
        "most": most,
        "processes": processes,
        "socket": str(address.path),
        "secret": address.secret.hex(),
        "cores": cores,
        "network": None if listen is None else (listen, port),
        "log": None if log is None else str(log),
        # The same modules can be imported there.
        "path": sys.path,
    }
    process = subprocess.Popen(
        # -P: a user's file must not replace a standard module.
        [sys.executable, "-P", "-m", "pytest_vla.serving.computing_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A process group of its own, which is killed as a whole; Ctrl-C reaches only the starter.
        start_new_session=True,
    )
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(orders).encode() + b"\n")
            process.stdin.flush()
        answer = _answer(process, told, given_up)
        if "about" in answer:
            assert process.stdout is not None
            signs = io.FileIO(os.dup(process.stdout.fileno()))
            network = None if listen is None else NetworkAddress(reachable(listen), answer["port"], address.secret)
            return PolicyProcess(address, About(**answer["about"]), process, signs, network)
    except BaseException:
        _end(process)
        raise
    _end(process)
    if "not_batched" in answer:
        raise NotBatched(answer["not_batched"])
    ended = f"the policy's process ended with {process.returncode} while loading; see its output above"
    raise VlaError(str(answer.get("error") or f"--vla-model={spec.text}: {ended}"))


def _answer(
    process: "subprocess.Popen[bytes]", told: Callable[[float], None], given_up: Callable[[], bool]
) -> dict[str, Any]:
    lines: list[bytes] = []

    def read() -> None:
        assert process.stdout is not None
        lines.append(process.stdout.readline())

    began = time.monotonic()
    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while reader.is_alive():
        reader.join(_POLL_SECONDS)
        if reader.is_alive():
            told(time.monotonic() - began)
            if given_up():
                return {"error": "loading of the policy was cancelled"}
    try:
        answer = json.loads(lines[0])
    except ValueError:
        process.wait(_END_SECONDS)
        return {}
    return answer if isinstance(answer, dict) else {}


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError):
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS)
    _kill(process)
    process.wait()
    process.stdout.close()


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process and its group, even if they are stopped."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def longest_silence(timeout: float) -> float:
    """Return the seconds without a sign of life after which a process counts as frozen, for this call timeout."""
    return timeout + BACKSTOP_SECONDS + LATER
