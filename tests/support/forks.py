"""Runs of pytest that need not start: forks of a process that has imported pytest, the plugin and numpy.

To import these takes longer than what most tests of the plugin look at. `forked` makes pytester's runs such forks, and
the xdist workers that they start. A fork is what ``python -m pytest`` or ``python -c`` is when it has begun, with its
folder, its environment and its ``sys.path``; and it ends as any interpreter does. But it has numpy and the plugin, its
kernels, and its seed of hashes is that of all others. Tests of these take real processes.
"""

import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

SOCKET = "VLA_TEST_FORKS"
"""The environment variable that names the socket of the process that is forked."""

TIMES = "VLA_TEST_TIMES"
"""The environment variable that names the folder where `tests.support.times` writes what tests cost."""

TIMED = "VLA_TEST_TIMED"
"""The environment variable that names the test being run, for the forks that it starts."""

# What runs of the fake world import; what a fork has to import for itself, each of a thousand runs would import anew.
# Neither MuJoCo nor the world that it drives: the fake one takes their place, and a fork of them has their threads.
_IMPORTED = (
    "_pytest._argcomplete",
    "_pytest.faulthandler",
    "_pytest.helpconfig",
    "_pytest.junitxml",
    "_pytest.pastebin",
    "_pytest.pytester",
    "_pytest.setuponly",
    "_pytest.setupplan",
    "_pytest.skipping",
    "_pytest.stepwise",
    "_pytest.threadexception",
    "_pytest.tracemalloc",
    "_pytest.unittest",
    "_pytest.unraisableexception",
    "_pytest.warnings",
    "concurrent.futures.thread",
    "email.parser",
    "encodings.ascii",
    "encodings.unicode_escape",
    "encodings.utf_8_sig",
    "numpy.random",
    "pdb",
    "pkgutil",
    "pytest",
    "pytest_vla.commands.extension",
    "pytest_vla.episode.apply_metrics",
    "pytest_vla.episode.rollout",
    "pytest_vla.episode.world_pool",
    "pytest_vla.expert.extension",
    "pytest_vla.fixtures.episode",
    "pytest_vla.metrics.extension",
    "pytest_vla.plugin",
    "pytest_vla.policies.extension",
    "pytest_vla.policies.load",
    "pytest_vla.records.store",
    "pytest_vla.reports.extension",
    "pytest_vla.reports.terminal",
    "pytest_vla.run.hooks",
    "pytest_vla.run.html_report",
    "pytest_vla.run.xdist.hooks",
    "pytest_vla.run.sharding",
    "pytest_vla.run.xdist.scheduler",
    "pytest_vla.serving.replicas",
    "pytest_vla.suites.extension",
    "pytest_vla.suites.libero.extension",
    "pytest_vla.suites.libero_para.extension",
    "pytest_vla.suites.libero_plus.extension",
    "pytest_vla.suites.libero_pro.extension",
    "pytest_vla.suites.vla_arena.extension",
    "pytest_vla.testing",
    "pytest_vla.track.extension",
    "pytest_vla.vary.extension",
    "readline",
    "scipy.special",
    "sqlite3",
    "tomllib",
    "xdist.dsession",
    "xdist.looponfail",
    "xdist.newhooks",
    "xdist.plugin",
    "xdist.remote",
    "xdist.workermanage",
)


def append_time(test: str, wall: float, cpu: float) -> None:
    """Append what (a part of) a test cost, in seconds, to this process's file in the folder of `TIMES`."""
    with open(Path(os.environ[TIMES]) / f"{os.getpid()}.jsonl", "a") as file:
        print(json.dumps({"test": test, "wall": wall, "cpu": cpu}), file=file)


class Fork:
    """A process; as much of `subprocess.Popen` as pytester and execnet ask for."""

    def __init__(
        self,
        args: Sequence[Any],
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        env: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        assert args[0] == sys.executable, args
        assert options.keys() <= {"close_fds"}, options
        self.args, self.returncode = args, None
        mine: list[IO[bytes] | None] = []
        theirs, opened = [], []
        for number, stream in enumerate((stdin, stdout, stderr)):
            if stream == subprocess.PIPE:
                read, write = os.pipe()
                inner, outer = (read, write) if number == 0 else (write, read)
                # As `subprocess.Popen` has them: what is written goes out at once where it is flushed.
                mine.append(os.fdopen(outer, "rb" if number else "wb"))
                opened.append(inner)
                theirs.append(inner)
            else:
                mine.append(None)
                theirs.append(number if stream is None else stream if isinstance(stream, int) else stream.fileno())
        self.stdin, self.stdout, self.stderr = mine
        job = {
            "arguments": [str(argument) for argument in args[1:]],
            "folder": os.getcwd(),
            "environment": dict(os.environ if env is None else env),
        }
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(os.environ[SOCKET])
        message = json.dumps(job).encode()
        socket.send_fds(self._connection, [len(message).to_bytes(8, "big")], theirs)
        self._connection.sendall(message)
        for descriptor in opened:
            os.close(descriptor)
        self._answers = self._connection.makefile("r")
        self.pid = int(self._answers.readline())

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative where a signal ended it."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                self.returncode = int(self._answers.readline())
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
        return self.returncode

    def __enter__(self) -> "Fork":
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def kill(self) -> None:
        """Ends it."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@contextmanager
def forked() -> Iterator[None]:
    """Within it `Fork` stands where pytester starts processes. The process that is forked starts once in a session."""
    popen = subprocess.Popen
    os.environ[SOCKET] = _server()
    subprocess.Popen = Fork
    try:
        yield
    finally:
        subprocess.Popen = popen
        del os.environ[SOCKET]


@cache
def _server() -> str:
    """The socket of the process that is forked, which ends with this one, as its standard input does."""
    path = str(Path(tempfile.mkdtemp(prefix="forks-")) / "socket")
    command = [sys.executable, __file__, path]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_ENVIRONMENT)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    _SERVERS.append(server)
    return path


_SERVERS: list[Any] = []
# Before the first test changed it.
_ENVIRONMENT = dict(os.environ)


def _serve(path: str) -> dict[str, Any]:
    """Forks for each connection; returns in the fork, with its orders. At the end of standard input it ends."""
    for name in _IMPORTED:
        importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("_pytest", "pytest_vla", "xdist"):
            # Else pytest warns that it comes too late to rewrite their assertions.
            module.__doc__ = f"{module.__doc__ or ''} PYTEST_DONT_REWRITE"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in readable:
            os.unlink(path)
            os.rmdir(os.path.dirname(path))
            sys.exit()
        connection, _ = listening.accept()
        head, streams, _, _ = socket.recv_fds(connection, 8, 3)
        if not os.fork():
            listening.close()
            order = _watch(connection, int.from_bytes(head, "big"), streams)
            if order is not None:
                return order
        for descriptor in streams:
            os.close(descriptor)
        connection.close()


def _watch(connection: socket.socket, size: int, streams: list[int]) -> dict[str, Any] | None:
    """In a process between: forks once more, tells its pid and how it ended. Returns in the fork."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection.makefile("rb") as file:
        job: dict[str, Any] = json.loads(file.read(size))
    pid = os.fork()
    if not pid:
        connection.close()
        for target, descriptor in enumerate(streams):
            os.dup2(descriptor, target)
            os.close(descriptor)
        return job
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for descriptor in streams:
        os.close(descriptor)
    connection.sendall(f"{pid}\n".encode())
    _, status, usage = os.wait4(pid, 0)
    if os.environ.get(TIMES):
        append_time(job["environment"].get(TIMED, ""), 0.0, usage.ru_utime + usage.ru_stime)
    with suppress(OSError):
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _fork_worker(gateway: Any, args: Sequence[str], execmodel: Any) -> None:
    gateway.popen = Fork(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    sys.modules["execnet.gateway_base"].Popen2IO.__init__(gateway, gateway.popen.stdin, gateway.popen.stdout, execmodel)


def _become(job: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(job["environment"])
    time.tzset()
    os.chdir(job["folder"])
    random.seed()
    sys.modules["numpy"].random.seed()
    # As `python -m` and `python -c` have it: the folder, and what PYTHONPATH names before what is installed.
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    here = str(Path(__file__).parent)
    sys.path[:] = [job["folder"], *filter(None, named), *(path for path in sys.path if path not in (here, *named))]
    importlib.invalidate_caches()
    # What xdist's workers are to have, as it was when xdist was imported.
    sys.modules["xdist.workermanage"]._sys_path = sys.path.copy()
    # The workers of a fork are forks.
    gateway_io = importlib.import_module("execnet.gateway_io")
    gateway_io.Popen2IOMaster.__init__ = _fork_worker
    arguments: Sequence[str] = job["arguments"]
    executed = None
    try:
        _interpret(arguments)
    except _Executed as error:
        executed = error.arguments
    # Not while an exception is handled: it would be the context of all that are raised.
    if executed is not None:
        _interpret(executed)


class _Executed(BaseException):
    """The process is to become another one of Python's."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__()
        self.arguments = arguments


def _interpret(arguments: Sequence[str]) -> None:
    """What ``python`` does with its arguments."""
    arguments = [argument for argument in arguments if argument not in ("-u", "-I", "-S")]
    first, rest = arguments[0], arguments[1:]
    if first == "-c":
        sys.argv[:] = ["-c", *rest[1:]]
        sys.path[0] = ""
        exec(rest[0], {"__name__": "__main__", "__builtins__": __builtins__})
    elif first.startswith("-m"):
        module, *rest = (first[2:], *rest) if first != "-m" else rest
        sys.argv[1:] = rest
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = arguments
        execute, os.execvp = os.execvp, _execute
        try:
            runpy.run_path(first, run_name="__main__")
        finally:
            os.execvp = execute


def _execute(file: str, command: Sequence[str]) -> NoReturn:
    assert file == sys.executable, command
    raise _Executed(command[1:])


if __name__ == "__main__":
    _become(_serve(sys.argv[1]))
