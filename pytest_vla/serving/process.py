"""Starts the policy's process, waits until it has loaded, and ends it: ``python -m pytest_vla.serving.process``.

The process lives as long as its standard input is open, so that it ends with who started it, however that ends.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.mishaps import describe

_SOCKET = "policy.sock"
_POLL_SECONDS = 1.0
_END_SECONDS = 5.0


@dataclass(frozen=True)
class PolicyProcess:
    """A policy's process that answers.

    Attributes:
        path: of the Unix-domain socket on which it listens.
        secret: what a worker has to know.
    """

    path: Path
    secret: bytes = field(repr=False)
    _process: "subprocess.Popen[bytes]" = field(repr=False)

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process and removes its socket."""
        _end(self._process)
        shutil.rmtree(self.path.parent, ignore_errors=True)


def start(
    model: str, folder: Path, most: int, *, told: Callable[[float], None] = lambda seconds: None
) -> PolicyProcess:
    """Starts a process, and waits until it has loaded its policy.

    Args:
        model: the text of ``--vla-model``; it has to name a `BatchPolicy`.
        folder: what relative paths and the user's modules are relative to.
        most: questions in a batch.
        told: called about once a second while it loads, with the seconds that it took so far.

    Raises:
        VlaError: it could not be loaded: the policy's own message.
    """
    place = Path(tempfile.mkdtemp(prefix="pytest-vla-"))
    secret = secrets.token_bytes(32)
    orders = {
        "model": model,
        "folder": str(folder),
        "most": most,
        "socket": str(place / _SOCKET),
        "secret": secret.hex(),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_vla.serving.process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(orders).encode() + b"\n")
            process.stdin.flush()
        answer = _answer(process, told)
    except BaseException:
        _end(process)
        shutil.rmtree(place, ignore_errors=True)
        raise
    if answer != {"ready": True}:
        _end(process)
        shutil.rmtree(place, ignore_errors=True)
        ended = f"its process ended with {process.returncode} before it had loaded; its own words are above"
        raise VlaError(str(answer.get("error") or f"--vla-model={model}: {ended}"))
    return PolicyProcess(place / _SOCKET, secret, process)


def _answer(process: "subprocess.Popen[bytes]", told: Callable[[float], None]) -> dict[str, object]:
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
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


def main() -> int:
    """The process: reads its orders from standard input, answers one line when it is ready or cannot be."""
    # What the policy prints goes to standard error: standard output is for the one answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    orders = json.loads(sys.stdin.readline())
    try:
        from pytest_vla.policies.base import is_batch_policy
        from pytest_vla.policies.resolve import load_policy
        from pytest_vla.serving.server import Server

        policy = load_policy(orders["model"], Path(orders["folder"]))
        if not is_batch_policy(policy):
            raise VlaError(f"--vla-model={orders['model']}: this policy does not answer in batches")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(orders["socket"])
        server = Server(policy, listener, bytes.fromhex(orders["secret"]), orders["most"])
    except VlaError as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)
        return 1
    except BaseException as error:
        text = f"--vla-model={orders['model']}: loading raised {describe(error)}"
        print(json.dumps({"error": text}), file=answers, flush=True)
        return 1
    print(json.dumps({"ready": True}), file=answers, flush=True)
    # Until who started this process is gone.
    with suppress(KeyboardInterrupt):
        sys.stdin.read()
    # Not Server.close alone: a policy that hangs must not keep the process.
    threading.Thread(target=server.close, daemon=True).start()
    time.sleep(0.1)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
