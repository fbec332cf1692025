"""The policy's process: ``python -m pytest_vla.serving.computing_process``.

`pytest_vla.serving.process` starts it. It calls the policy and does nothing else. It starts a second process for the
workers, the batch server (`pytest_vla.serving.batch_server_process`).
"""

import faulthandler
import importlib
import io
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pytest_vla.errors import VlaError, WireError
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.batch_server_process import DeskProcess
from pytest_vla.serving.process import BACKSTOP_SECONDS, COVERAGE, DESK_GONE, HUNG, About
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    from pytest_vla.policies.base import BatchPolicy, Episode, Observations
    from pytest_vla.serving.computing import Computer

_FAREWELL_SECONDS = 0.5  # For the answers that are being sent.
_SHORTEST_LOOK, _LONGEST_LOOK = 0.02, 0.5  # Seconds between two checks of a call's duration.


def main() -> int:
    """Run the process: read its orders from standard input, and answer one line when it is ready or has failed."""
    # The policy's output goes to standard error, and its standard input is empty: the original two are ours.
    answers, control = os.fdopen(os.dup(1), "w"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # It is not flushed at the end, since this process is killed.
        sys.stdout.reconfigure(line_buffering=True)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    line = control.readline()
    if not line:
        return 1
    orders = json.loads(line)
    _measure_coverage()
    threading.Thread(target=_end_with_starter, args=(control, Path(orders["socket"]).parent), daemon=True).start()
    spec = ModelSpec.of(orders["spec"])
    desk = DeskProcess(answers)
    policy = None
    try:
        answer, policy = _load(spec, orders)
        if policy is not None:
            reads, most = list(policy.reads), max(1, min(orders["most"], policy.max_batch))
            where = orders["socket"], orders["secret"]
            answer["port"] = desk.open(*where, reads, most, orders["processes"], orders["network"], orders["cores"])
    except VlaError as error:
        answer, policy = {"error": str(error)}, None
    except BaseException as error:
        answer, policy = {"error": f"--vla-model={spec.text}: loading raised {describe(error)}"}, None
    print(json.dumps(answer), file=answers, flush=True)
    if policy is None:
        # A module that started threads must not keep the process.
        desk.close()
        os._exit(1)
    if orders["log"] is not None:
        with suppress(OSError):
            _write_to(Path(orders["log"]))
    # After a crash in native code, the log has the place.
    faulthandler.enable()
    return _compute(policy, desk, spec.timeout)


def _compute(policy: "BatchPolicy", desk: DeskProcess, limit: float) -> int:
    """Call the policy for the batch server until that ends; return the exit code."""
    from pytest_vla.serving.computing import Computer

    computer = Computer(_Watched(policy, limit + BACKSTOP_SECONDS), desk.channel)
    threading.Thread(target=_watch, args=(computer, limit), name="vla-watch", daemon=True).start()
    desk.give_signs_of_life()
    try:
        computer.run()
    except WireError as error:
        print(f"pytest-vla: the batch server of the policy's process has ended: {error}", file=sys.stderr, flush=True)
    desk.close()
    os._exit(DESK_GONE)


def _watch(computer: "Computer", limit: float) -> None:
    """End the process if one call of the policy takes too long."""
    while True:
        time.sleep(min(max(limit / 8, _SHORTEST_LOOK), _LONGEST_LOOK))
        if computer.give_up(limit):
            _end_hung()


def _load(spec: ModelSpec, orders: Mapping[str, Any]) -> "tuple[dict[str, Any], BatchPolicy | None]":
    from pytest_vla.policies.base import is_batch_policy, own_number
    from pytest_vla.policies.fit import traits_of
    from pytest_vla.policies.load import digest_of, load_policy, may_batch, policy_digest

    # After our own imports: a user's file may have the name of a standard module.
    sys.path[:] = orders["path"]

    with ThreadPoolExecutor(1) as pool:
        # A checkpoint may have gigabytes and is hashed while it is loaded; a module is hashed after loading.
        early = pool.submit(policy_digest, spec) if may_batch(spec) else None
        policy = load_policy(spec)
        if not is_batch_policy(policy):
            return {"not_batched": f"--vla-model={spec.text}: this policy does not answer in batches"}, None
        # A checkpoint that had to be downloaded can be hashed only now.
        digest = (early and early.result()) or digest_of(policy, spec)
    most = min(orders["most"], policy.max_batch)
    about = About(digest, own_number(policy, "replan"), traits_of(policy).table(), most)
    return {"about": asdict(about)}, policy


class _Watched:
    """A policy whose calls end the process if they take too long, even if they hold Python's lock."""

    def __init__(self, policy: "BatchPolicy", seconds: float) -> None:
        self._policy, self._seconds = policy, seconds
        self.max_batch, self.reads = policy.max_batch, policy.reads

    def begin(self, episode: "Episode") -> Any:
        with self._limited():
            return self._policy.begin(episode)

    def act(self, states: Sequence[Any], observations: "Observations") -> Sequence[Any]:
        with self._limited():
            return self._policy.act(states, observations)

    @contextmanager
    def _limited(self) -> Iterator[None]:
        faulthandler.dump_traceback_later(self._seconds, exit=True)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def _end_with_starter(control: "BinaryIO", folder: Path) -> None:
    """End this process and its children as soon as the process that started it ends, or closes the pipe."""
    control.read()
    shutil.rmtree(folder, ignore_errors=True)
    _keep_coverage()
    # The group is our own, see `start`. It is killed at once: a policy that hangs must not keep the process.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def _measure_coverage() -> None:
    """Start coverage.py where pytest-cov measures the run, as in its workers; `COVERAGE` has the options."""
    if text := os.environ.get(COVERAGE):
        importlib.import_module("coverage").Coverage(**json.loads(text), data_suffix=True).start()


def _keep_coverage() -> None:
    """Write what coverage.py has measured, whoever started it: this process is killed."""
    with suppress(Exception):
        if (found := sys.modules["coverage"].Coverage.current()) is not None:
            found.stop()
            found.save()


def _end_hung() -> None:
    print("pytest-vla: one call of the policy took too long. Its process ends.", file=sys.stderr, flush=True)
    faulthandler.dump_traceback()
    time.sleep(_FAREWELL_SECONDS)
    os._exit(HUNG)


def _write_to(log: Path) -> None:
    """Redirect standard output and standard error to a file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    os.close(stream)


if __name__ == "__main__":
    sys.exit(main())
