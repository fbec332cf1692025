"""The process of a batch server: ``python -m pytest_vla.serving.batch_server_process``, and how it is started.

It is started before the policy is loaded, so that both get ready in parallel. A sign of life passes through
both processes: the batch server sends one each second, and the policy's process forwards it from Python code,
so that a hang with Python's lock held stops it. Statistics go directly to the process that started the
policy's.
"""

import io
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError, WireError
from pytest_vla.kernels import processors

if TYPE_CHECKING:
    from pytest_vla.serving.stats import ServingStats

_SIGN = b"\n"
_END_SECONDS = 5.0


class DeskProcess:
    """A batch server, as its policy's process sees it.

    Attributes:
        channel: the connection to it.
    """

    def __init__(self, answers: io.TextIOBase, own_group: bool = False) -> None:
        """Start the process; it listens after `open`.

        Args:
            answers: the pipe to the process that started this one.
            own_group: whether it gets a process group of its own, so that Ctrl-C does not reach it.
        """
        self._answers = answers
        self.channel, theirs = socket.socketpair()
        self._signs, signs = os.pipe()
        files = (theirs.fileno(), signs, answers.fileno())
        self._process = subprocess.Popen(
            # -P: a user's file must not replace a standard module.
            [sys.executable, "-P", "-m", "pytest_vla.serving.batch_server_process", *map(str, files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=files,
            start_new_session=own_group,
        )
        theirs.close()
        os.close(signs)

    def open(
        self,
        path: str,
        secret: str,
        reads: Sequence[str],
        most: int,
        desks: int,
        network: tuple[str, int] | None = None,
        cores: int | None = None,
    ) -> int | None:
        """Make it listen, and wait until it does.

        Args:
            path: the Unix-domain socket; an existing one is replaced.
            secret: the secret that workers authenticate with, in hex.
            reads: the observations that the policy needs.
            most: the most questions in a batch.
            desks: the number of batch servers of the run, including this one.
            network: host and port for TCP, with port 0 for a free one; None for no TCP.
            cores: the number that workers share; 0 if each has its own; None for this machine's.

        Returns:
            The TCP port, or None without TCP.

        Raises:
            VlaError: it cannot listen.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        orders = {"path": path, "secret": secret, "reads": [*reads], "most": most, "desks": desks}
        orders |= {"network": network, "cores": processors() if cores is None else cores}
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(orders).encode() + b"\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            raise VlaError(
                f"the batch server of the policy's process ended with {code} at its start; see its output above"
            )
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise VlaError(answer["error"])
        port: int | None = answer["port"]
        return port

    def give_signs_of_life(self) -> None:
        """Start to forward the batch server's signs of life, in a thread."""
        threading.Thread(target=self._hand_on, name="vla-signs", daemon=True).start()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.channel.close()
        with suppress(OSError):
            # Without `open`, the process still waits for its orders.
            self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def _hand_on(self) -> None:
        # If it fails, the starter has closed its pipes, which ends this process.
        with suppress(OSError, ValueError):
            while os.read(self._signs, io.DEFAULT_BUFFER_SIZE):
                os.write(self._answers.fileno(), _SIGN)
        os.close(self._signs)


def main() -> int:
    """Run the batch server.

    The arguments are the numbers of open files: the channel, and the pipes for signs of life and for statistics.
    """
    from pytest_vla.serving.batch_server import BatchServer
    from pytest_vla.serving.network import bound_again
    from pytest_vla.serving.stats import seen_line

    channel_file, signs, answers = map(int, sys.argv[1:])
    line = sys.stdin.buffer.readline()
    if not line:
        return 0
    orders: dict[str, Any] = json.loads(line)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(FileNotFoundError):
        # A socket left by a process that died.
        os.unlink(orders["path"])
    listener.bind(orders["path"])
    network = None
    if orders["network"] is not None:
        host, port = orders["network"]
        try:
            network = bound_again(host, port)
        except (OSError, UnicodeError) as error:
            told_of = f"the policy's process cannot listen at {host}, port {port or 'any'}: {error}"
            print(json.dumps({"error": f"{told_of}; use an address of this machine, and a free port"}), flush=True)
            return 1
    told = b""

    def beat(seen: "ServingStats") -> None:
        nonlocal told
        os.write(signs, _SIGN)
        line = seen_line(seen)
        if seen.questions and line != told:
            told = line
            os.write(answers, line)

    with socket.socket(fileno=channel_file) as channel:
        desk = BatchServer(
            channel,
            listener,
            bytes.fromhex(orders["secret"]),
            orders["reads"],
            orders["most"],
            network=network,
            cores=orders["cores"],
            desks=orders["desks"],
            beat=beat,
        )
        print(json.dumps({"port": None if network is None else network.getsockname()[1]}), flush=True)
        with suppress(WireError, OSError):
            desk.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
