"""Starts the policy's process (`pytest_vla.serving.computing_process`), waits until it has loaded, and ends it.

The process lives as long as the pipe is open that it gets its orders by, so that it ends with who started it, however
that ends, and with it all that it started itself.
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
from pytest_vla.serving.handshake import NetworkAddress, reachable
from pytest_vla.serving.stats import ServingStats, read_seen
from pytest_vla.util.processes import ObservedTime

_SOCKET = "policy.sock"
_POLL_SECONDS = 1.0
_END_SECONDS = 5.0
BACKSTOP_SECONDS = 10.0
"""Beyond the limit of a call, after which code is ended that holds Python's lock."""

_LOOK_SECONDS = 2.0  # For which the next sign of life is waited.
_LONGEST_PATH = 100
"""Bytes of a socket's path; systems take 104 or 108."""

HUNG = 70
"""The exit code of a process that gave up because one call of its policy took too long."""

DESK_GONE = 72
"""Likewise because the desk was gone, the process that talks to workers."""

FROZEN = 71
"""Said of a process that gave no sign of life and was killed from outside."""

LATER = 5.0
"""Seconds after a process should have ended itself, when it is killed from outside."""


@dataclass(frozen=True)
class PolicyAddress:
    """Where a policy's process listens.

    Attributes:
        path: of its Unix-domain socket.
        secret: what a worker has to know.
    """

    path: Path
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> "PolicyAddress":
        """One that nobody listens at yet, in a folder of its own that only this user can enter.

        Raises:
            VlaError: no such folder can be made whose name is short enough for a socket.
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
            f"the policy's process needs a folder for its socket, and none can be made in {tried}: {trouble}; let "
            "TMPDIR name a folder with a short name that can be written"
        )

    def remove(self) -> None:
        """Removes socket and folder."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


@dataclass(frozen=True)
class About:
    """What a loaded policy says of itself; of texts and numbers.

    Attributes:
        digest: names the content that it is made of; None: not known.
        replan: how many steps of a chunk it wants executed; None: it does not say.
        traits: what it expects of a suite, as a table.
        most: questions that it is asked at once, at most; 0: not known.
    """

    digest: str | None = None
    replan: Any = None
    traits: Mapping[str, Any] = field(default_factory=dict)
    most: int = 0


@dataclass(frozen=True)
class PolicyProcess:
    """A policy's process that answers.

    Attributes:
        address: where it listens.
        about: its policy.
        network: where it listens for workers of other hosts; None: nowhere.
    """

    address: PolicyAddress
    about: About
    _process: "subprocess.Popen[bytes]" = field(repr=False)
    # An open file of its own, which only `wait` uses: closing the process may not pull it away.
    _signs: io.FileIO = field(repr=False)
    network: NetworkAddress | None = None

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def wait(self, silence: float | None = None, seen: Callable[[ServingStats], None] = lambda seen: None) -> int:
        """Waits until the process has ended; to be called once.

        Args:
            silence: seconds without a sign of life after which it is killed, as it may be stopped; None: it never is.
            seen: told what the process sees of the run, about once a second.

        Returns:
            Its exit code, negative for a signal; `FROZEN`: it was killed.
        """
        patience, still, rest = ObservedTime(), 0.0, b""
        with selectors.DefaultSelector() as selector, self._signs:
            selector.register(self._signs, selectors.EVENT_READ)
            # What it started may keep its pipe open.
            while self._process.poll() is None:
                heard = False
                if selector.select(_LOOK_SECONDS):
                    told = self._signs.read(io.DEFAULT_BUFFER_SIZE)
                    if not told:
                        break
                    *lines, rest = (rest + told).split(b"\n")
                    # An empty line is a sign of life. What was seen is none: another process may write it.
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
        """Ends the process, and what it started; its address goes with it."""
        _end(self._process)


class NotBatched(VlaError):
    """The policy does not answer in batches: each worker is to load it for itself."""


class NotShared(NotBatched):
    """This system has not what it takes that workers share a policy."""


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
    """Starts a process, and waits until it has loaded its policy.

    Args:
        spec: of a `BatchPolicy`.
        most: questions in a batch.
        address: where it is to listen; a socket that is there is replaced.
        told: called about once a second while it loads, with the seconds that it took so far.
        log: the file that gets what the policy prints once it is loaded; None: standard error.
        given_up: asked about once a second whether nobody wants it any more.
        processes: of the run's policy, this one among them.
        listen: an address of this machine, at which workers of other hosts find it by TCP too; ``0.0.0.0``: at all of
            them, and what is told is this machine's name; None: only those of this host do.
        port: of TCP; 0: a free one.
        cores: that workers share; 0: each has one of its own; None: this machine's.

    Raises:
        NotBatched: the policy is no `BatchPolicy`; `NotShared`: no policy can be shared here.
        VlaError: it could not be loaded: the policy's own message; or it cannot listen there.
    """
    if missing := [name for name in ("AF_UNIX", "send_fds") if not hasattr(socket, name)]:
        raise NotShared(
            f"{platform.system()} has no sockets that processes share memory by (socket.{missing[0]}), so that no "
            "process of its own can answer all workers"
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
        # What can be imported here can be there.
        "path": sys.path,
    }
    process = subprocess.Popen(
        # -P: a user's file must not take the place of a module of Python's own.
        [sys.executable, "-P", "-m", "pytest_vla.serving.computing_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # A group of its own, which is ended as a whole; Ctrl-C is for who started it.
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
    ended = f"its process ended with {process.returncode} before it had loaded; its own words are above"
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
                return {"error": "the policy's process was given up while it loaded"}
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
    """Ends it and its group, also where they are stopped."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def longest_silence(timeout: float) -> float:
    """Seconds without a sign of life after which a process is frozen: past the limit of a call, and past its grace."""
    return timeout + BACKSTOP_SECONDS + LATER
