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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.mishaps import describe
from pytest_vla.policies.spec import ModelSpec

_SOCKET = "policy.sock"
_POLL_SECONDS = 1.0
_END_SECONDS = 5.0
_HUNG_GRACE = 5.0  # Beyond a worker's patience, so that the worker is the one to tell.


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
        """One that nobody listens at yet, in a folder of its own that only this user can enter."""
        return cls(Path(tempfile.mkdtemp(prefix="pytest-vla-")) / _SOCKET, secrets.token_bytes(32))

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
    """

    digest: str | None = None
    replan: Any = None
    traits: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PolicyProcess:
    """A policy's process that answers.

    Attributes:
        address: where it listens.
        about: its policy.
    """

    address: PolicyAddress
    about: About
    _process: "subprocess.Popen[bytes]" = field(repr=False)

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Waits until the process has ended. Returns its exit code, negative for a signal."""
        return self._process.wait()

    def close(self) -> None:
        """Ends the process; its address stays."""
        _end(self._process)


class NotBatched(VlaError):
    """The policy does not answer in batches: each worker is to load it for itself."""


def start(
    spec: ModelSpec,
    most: int,
    address: PolicyAddress,
    *,
    told: Callable[[float], None] = lambda seconds: None,
) -> PolicyProcess:
    """Starts a process, and waits until it has loaded its policy.

    Args:
        spec: of a `BatchPolicy`.
        most: questions in a batch.
        address: where it is to listen; a socket that is there is replaced.
        told: called about once a second while it loads, with the seconds that it took so far.

    Raises:
        NotBatched: the policy is no `BatchPolicy`.
        VlaError: it could not be loaded: the policy's own message.
    """
    orders = {"spec": spec.table(), "most": most, "socket": str(address.path), "secret": address.secret.hex()}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest_vla.serving.process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(orders).encode() + b"\n")
            process.stdin.flush()
        answer = _answer(process, told)
        if "about" in answer:
            return PolicyProcess(address, About(**answer["about"]), process)
    except BaseException:
        _end(process)
        raise
    _end(process)
    if "not_batched" in answer:
        raise NotBatched(answer["not_batched"])
    ended = f"its process ended with {process.returncode} before it had loaded; its own words are above"
    raise VlaError(str(answer.get("error") or f"--vla-model={spec.text}: {ended}"))


def _answer(process: "subprocess.Popen[bytes]", told: Callable[[float], None]) -> dict[str, Any]:
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
    spec = ModelSpec.of(orders["spec"])
    try:
        answer, server = _load(spec, orders)
    except VlaError as error:
        answer, server = {"error": str(error)}, None
    except BaseException as error:
        answer, server = {"error": f"--vla-model={spec.text}: loading raised {describe(error)}"}, None
    print(json.dumps(answer), file=answers, flush=True)
    if server is None:
        # A module that started threads must not keep the process.
        os._exit(1)
    threading.Thread(target=_end_if_hung, args=(server.batcher, spec.timeout + _HUNG_GRACE), daemon=True).start()
    # Until who started this process is gone.
    with suppress(KeyboardInterrupt):
        sys.stdin.read()
    # Not Server.close alone: a policy that hangs must not keep the process.
    threading.Thread(target=server.close, daemon=True).start()
    time.sleep(0.1)
    os._exit(0)


def _load(spec: ModelSpec, orders: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    from pytest_vla.policies.base import is_batch_policy
    from pytest_vla.policies.resolve import digest_of, load_policy, may_batch, policy_digest
    from pytest_vla.policies.traits import traits_of
    from pytest_vla.serving.server import Server

    with ThreadPoolExecutor(1) as pool:
        # Of a checkpoint, which may be gigabytes, while it is loaded; of a module, once it is there.
        early = pool.submit(policy_digest, spec) if may_batch(spec) else None
        policy = load_policy(spec)
        if not is_batch_policy(policy):
            return {"not_batched": f"--vla-model={spec.text}: this policy does not answer in batches"}, None
        digest = digest_of(policy, spec) if early is None else early.result()
    about = About(digest, getattr(policy, "replan", None), traits_of(policy).table())
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with suppress(FileNotFoundError):
        # Of a process that died.
        os.unlink(orders["socket"])
    listener.bind(orders["socket"])
    server = Server(policy, listener, bytes.fromhex(orders["secret"]), orders["most"])
    return {"about": asdict(about)}, server


def _end_if_hung(batcher: Any, seconds: float) -> None:
    """Ends the process where one call of the policy takes longer: it would keep all episodes waiting."""
    while True:
        time.sleep(_POLL_SECONDS)
        since = batcher.busy_since
        if since is not None and time.monotonic() - since > seconds:
            print(f"pytest-vla: the policy has been at one call for {seconds:.0f} s; its process ends", file=sys.stderr)
            os._exit(70)


if __name__ == "__main__":
    sys.exit(main())
