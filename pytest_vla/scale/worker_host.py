"""What starts a worker of pytest-xdist on another machine, and outlives it: a Ray actor, one for each worker.

The worker is a process of its own, as on one machine: its standard input and output are a connection to the process
that holds the session. It ends with that connection, and with this actor.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pytest_vla.scale.far_object import SCRATCH
from pytest_vla.scale.node_facts import environment
from pytest_vla.scale.scratch import Scratch
from pytest_vla.scale.switchboard import call

_LAST_WORDS = 4000
_END_SECONDS = 5.0
# execnet's first line of a process that it starts.
_BOOTSTRAP = "import sys;exec(eval(sys.stdin.readline()))"


@dataclass(frozen=True)
class Ended:
    """How a worker's process ended.

    Attributes:
        code: its exit code, as a shell has it; None: it runs.
        words: the last that it wrote to standard error.
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
        """Starts it.

        Args:
            name: of the worker, such as ``gw3``, unique in its run.
            host: where the switchboard is.
            port: likewise.
            secret: what it knows.
            folder: that the worker is started in.
            folders: to be there before it starts.
            variables: of its environment; None: without it.
            guardian: the file that it is run by.

        Raises:
            OSError: the switchboard cannot be reached, or a folder is not there.
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
        """The id of the process that guards the worker's."""
        return int(self._process.pid)

    def ended(self) -> Ended:
        """How the process ended; waits a little for it."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - _LAST_WORDS))
        return Ended(self._process.returncode, self._words.read().decode(errors="replace").strip())

    def left(self) -> dict[str, bytes]:
        """The small files that a worker that has ended left in its run's folder, such as the traceback of a hang, by
        name; its folder goes.
        """
        found = {}
        for path in self._scratch.path.glob("*/*"):
            with suppress(OSError):
                if path.is_file() and path.stat().st_size < 1 << 20:
                    found[path.name] = path.read_bytes()
        self._scratch.remove()
        return found
