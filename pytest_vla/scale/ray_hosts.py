"""The processes of a run on another machine: workers of pytest-xdist and the policy, each held by a Ray actor.

A worker is a process of its own, as on one machine: its standard input and output are a connection to the process that
holds the session (`Switchboard`). It ends with that connection, and with its actor, which outlives it to report how it
ended. `Scratch` is a folder that goes with its process.
"""

import os
import secrets
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.scale.far_object import SCRATCH
from pytest_vla.scale.node_facts import environment
from pytest_vla.serving.handshake import Door, greet
from pytest_vla.serving.network import bound, tune
from pytest_vla.serving.process import NotBatched, NotShared
from pytest_vla.serving.replicas import Replicas

# A folder for temporary files that goes with the process that made it, also where that is killed.

# It reads nothing until whoever writes is gone.
_REMOVE = "import shutil, sys; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"


class Scratch:
    """A folder for temporary files, removed when the process that made it ends, even if it is killed.

    Attributes:
        path: of it.
    """

    def __init__(self) -> None:
        """Make the folder, and start a process that removes it when this one is gone.

        Raises:
            OSError: it cannot be made.
        """
        self.path = Path(tempfile.mkdtemp(prefix="pytest-vla-"))
        self._remover = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _REMOVE, str(self.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Whatever ends this process's group leaves it.
            start_new_session=True,
        )

    def remove(self) -> None:
        """Remove the folder now."""
        shutil.rmtree(self.path, ignore_errors=True)
        assert self._remover.stdin is not None
        self._remover.stdin.close()
        self._remover.wait()


# The policy on a machine of a cluster: a Ray actor that starts its process there and watches it.

_LOG_BYTES = 1 << 16


class PolicyHost:
    """One process of the policy, which is started again on this machine if it dies, as without a cluster."""

    def __init__(
        self, spec: Mapping[str, Any], most: int, processes: int, host: str, variables: Mapping[str, str | None]
    ) -> None:
        """Load the policy; errors are not raised but returned by `begun`.

        Args:
            spec: of the policy, as a table.
            most: questions in a batch.
            processes: number of the run's processes of the policy, including this one.
            host: this machine's address for workers on others; if empty, Ray's.
            variables: of the process's environment; a value of None removes the variable.
        """
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._notices: list[str] = []
        self._replicas: Replicas | None = None
        self._scratch = Scratch()
        self._log, self._told = self._scratch.path / "policy.log", 0
        found = ModelSpec.of(dict(spec))
        try:
            self._replicas = Replicas(
                found,
                [found.device],
                most,
                notice=self._notices.append,
                log=self._log,
                listen=host or _address(),
                cores=0,
                processes=processes,
            )
            self._begun: dict[str, Any] = {
                "about": asdict(self._replicas.about),
                "patience": self._replicas.patience,
                "path": str(self._replicas.addresses[0].path),
                "network": self._replicas.network[0].table(),
            }
        except NotBatched as error:
            self._begun = {"not_batched": str(error), "not_shared": isinstance(error, NotShared)}
        except (VlaError, OSError) as error:
            self._begun = {"error": str(error)}

    def begun(self) -> dict[str, Any]:
        """Return the policy's description and addresses, or the error if it could not be loaded."""
        return self._begun

    def state(self) -> dict[str, Any]:
        """Return the statistics so far, and the notices and the policy's output since the last call."""
        assert self._replicas is not None
        notices, self._notices[:] = [*self._notices], []
        printed = b""
        with suppress(OSError), self._log.open("rb") as stream:
            stream.seek(self._told)
            printed = stream.read(_LOG_BYTES)
            self._told += len(printed)
        (seen,) = self._replicas.seen()
        return {"seen": seen.table(), "notices": notices, "lost": self._replicas.lost(0), "printed": printed}

    def close(self) -> None:
        """End the process."""
        if self._replicas is not None:
            self._replicas.close()
        self._scratch.remove()


def _address() -> str:
    import ray

    return str(ray.util.get_node_ip_address())


# Where workers on other hosts call the process that holds the session: one listening socket for all of them.

_LONGEST_NAME = 64
_NAME_SECONDS = 10.0

Answer = Callable[[str, socket.socket], None]
"""Called with who calls and the connection, in a thread of its own; the connection is whoever's it is given to."""


class Switchboard:
    """A listening socket that hands each connection with the right secret to `answer`.

    Attributes:
        port: where it listens.
        secret: that a caller has to know; unique to this object.
    """

    def __init__(self, host: str, answer: Answer) -> None:
        """Start to listen.

        Args:
            host: address of this machine by which the others reach it.
            answer: takes the calls.

        Raises:
            OSError: it cannot listen there.
        """
        self.secret = secrets.token_bytes(32)
        self._answer, self._closing = answer, threading.Event()
        listener = bound(host, 0)
        self.port: int = listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._door = Door(self._selector, [listener], self.secret, (), self._admit)
        threading.Thread(target=self._run, name="vla-switchboard", daemon=True).start()

    def close(self) -> None:
        """Stop listening within a second; open connections stay."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            for key, _ in self._selector.select(1.0):
                key.data()
            self._door.look_at_clock(time.monotonic())
        self._door.close()
        self._selector.close()

    def _admit(self, connection: socket.socket) -> None:
        threading.Thread(target=self._receive, args=(connection,), name="vla-call", daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_NAME_SECONDS)
            (length,) = connection.recv(1) or b"\0"
            name = connection.recv(min(length, _LONGEST_NAME), socket.MSG_WAITALL).decode("ascii", "replace")
            connection.settimeout(None)
        except OSError:
            connection.close()
            return
        self._answer(name, connection)


def call(host: str, port: int, secret: bytes, name: str, seconds: float = 30.0) -> socket.socket:
    """Call a switchboard.

    Args:
        host: where it listens.
        port: where it listens.
        secret: of the switchboard.
        name: of the caller, ASCII letters, at most 64.
        seconds: the timeout for each answer.

    Raises:
        OSError: it cannot be reached.
        WireError: it is a different switchboard.
    """
    said = name.encode("ascii")
    assert 0 < len(said) <= _LONGEST_NAME
    connection = socket.create_connection((host, port), seconds)
    try:
        tune(connection)
        greet(connection, secret)
        connection.sendall(bytes([len(said)]) + said)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


_LAST_WORDS = 4000
_END_SECONDS = 5.0
# execnet's first line of a process that it starts.
_BOOTSTRAP = "import sys;exec(eval(sys.stdin.readline()))"


@dataclass(frozen=True)
class WorkerExit:
    """The end of a worker's process.

    Attributes:
        code: its exit code, as a shell has it, or None if it still runs.
        words: the end of its standard error.
    """

    code: int | None
    words: str


class WorkerHost:
    """A worker's process on this machine."""

    def __init__(
        self,
        name: str,
        host: str,
        port: int,
        secret: bytes,
        folder: str,
        folders: Sequence[str],
        variables: Mapping[str, str | None],
        guardian: str,
    ) -> None:
        """Start the worker's process.

        Args:
            name: of the worker, such as ``gw3``, unique in its run.
            host: of the switchboard.
            port: of the switchboard.
            secret: of the switchboard.
            folder: that the worker is started in.
            folders: made before it starts.
            variables: of its environment; a value of None removes the variable.
            guardian: the file of the program that guards it.

        Raises:
            OSError: the switchboard cannot be reached, or a folder cannot be made.
        """
        for each in folders:
            os.makedirs(each, mode=0o700, exist_ok=True)
        self._words = tempfile.TemporaryFile(prefix="pytest-vla-")  # noqa: SIM115
        self._scratch = Scratch()
        with call(host, port, secret, name) as connection:
            # With its parent's end it ends, and what it started.
            guarded = [sys.executable, "-I", "-S", guardian, "--parent", str(os.getpid())]
            self._process = subprocess.Popen(
                [*guarded, sys.executable, "-u", "-c", _BOOTSTRAP],
                stdin=connection.fileno(),
                stdout=connection.fileno(),
                stderr=self._words,
                cwd=folder,
                env=environment({**variables, SCRATCH: str(self._scratch.path)}),
                start_new_session=True,
            )

    def process(self) -> int:
        """Return the id of the process that guards the worker's."""
        return int(self._process.pid)

    def ended(self) -> WorkerExit:
        """Return how the process ended; wait a little for it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - _LAST_WORDS))
        return WorkerExit(self._process.returncode, self._words.read().decode(errors="replace").strip())

    def left(self) -> dict[str, bytes]:
        """Return the small files in the run folder of a worker that has ended, by name, and remove its folder.

        Such a file is the traceback of a hang.
        """
        found = {}
        for path in self._scratch.path.glob("*/*"):
            with suppress(OSError):
                if path.is_file() and path.stat().st_size < 1 << 20:
                    found[path.name] = path.read_bytes()
        self._scratch.remove()
        return found
