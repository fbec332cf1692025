"""The command that serves a policy: what it says, what it refuses, and that it ends whatever the policy does."""

import argparse
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_vla.commands import serve
from pytest_vla.commands.serve import declare, run
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.openpi_connection import KEY
from pytest_vla.policies.policy_servers import check_server, server_policies
from tests.support.waiting import HANG

POLICIES = """
import sys, time
import numpy as np

class Moving:
    max_batch, reads, replan, device = 4, ("state",), 2, "cuda:7"

    def begin(self, episode):
        return episode

    def act(self, states, observations):
        print("asked", flush=True)
        while states[0].instruction == "hang":
            time.sleep(3600)
        return [np.full((4, 7), state.rng.normal()) for state in states]

moving = Moving()
plain = lambda episode: lambda observation: observation["state"][:7]

def watching(episode):
    raise AssertionError
watching.privileged = True
"""

COMMAND = """
import argparse
from pytest_vla.commands.serve import declare, run
parser = argparse.ArgumentParser()
declare(parser)
run(parser.parse_args())
"""

STATE = {"state": np.arange(8.0) / 10}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_served.py").write_text(POLICIES)
    (tmp_path / "my_broken.py").write_text("raise RuntimeError('weights are missing')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@dataclass(frozen=True)
class Command:
    """A running command: what it said until it listened, and where it listens."""

    process: "subprocess.Popen[str]"
    said: list[str]
    where: str

    def ends(self, number: int) -> tuple[int, str]:
        """Its exit code after a signal, and its last words."""
        self.process.send_signal(number)
        out, _ = self.process.communicate(timeout=HANG)
        return self.process.returncode, out


@contextmanager
def serving(*arguments: str) -> Iterator[Command]:
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "--port=0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = [line.rstrip() for line in (process.stdout.readline() for _ in range(4))]
        found = re.search("--vla-model=openpi:(.+)", said[-1])
        assert found is not None, said
        yield Command(process, said, found[1])
    finally:
        process.kill()
        process.communicate()


def refused(*arguments: str) -> str:
    parser = argparse.ArgumentParser()
    declare(parser)
    with pytest.raises(VlaError) as error:
        run(parser.parse_args(arguments))
    assert not isinstance(error.value, EpisodeError)
    return str(error.value)


def episode(instruction: str = "do it") -> Episode:
    return Episode("s/t[seed0]", "s", "t", instruction, 0, noise_generator(0, "s/t[seed0]"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_it_serves_where_and_ends_when_it_is_told_to(number: int) -> None:
    with serving("--vla-model=my_served:moving", "--vla-max-batch=3") as command:
        loading, loaded, listening, typed = command.said
        assert loading == "pytest-vla: loading my_served:moving"
        assert re.fullmatch(
            r"pytest-vla: my_served:moving is loaded on cuda:7 in \d+\.\d s; it answers up to 3 at once", loaded
        )
        host, _, port = command.where.partition(":")
        assert host == "127.0.0.1"
        assert listening == f"pytest-vla: listening on 127.0.0.1:{port}; Ctrl-C ends it"
        assert typed == f"pytest-vla: pytest --vla-suite=SUITE --vla-model=openpi:127.0.0.1:{port}"
        policy = server_policies("openpi", command.where)
        assert policy.replan == 2
        answer: Any = policy(episode())(STATE)
        assert np.array_equal(answer.actions, np.full((4, 7), episode().rng.normal()))
        code, last = command.ends(number)
    assert (code, last.splitlines()) == (0, ["asked", "pytest-vla: stopped"])


def test_records_can_name_the_content_of_what_is_served(folder: Path) -> None:
    import hashlib

    with serving("--vla-model=my_served:plain") as command:
        assert (
            server_policies("openpi", command.where).digest
            == hashlib.sha256((folder / "my_served.py").read_bytes()).hexdigest()
        )
        answer: Any = server_policies("openpi", command.where)(episode())(STATE)
        assert np.array_equal(answer.actions, [STATE["state"][:7]])


def test_a_policy_that_hangs_does_not_keep_the_process() -> None:
    with serving("--vla-model=my_served:moving") as command:
        session = server_policies("openpi", command.where)(episode("hang"))
        reasons: list[str] = []

        def ask() -> None:
            with pytest.raises(EpisodeError) as raised:
                session(STATE)
            reasons.append(raised.value.reason)

        asking = threading.Thread(target=ask)
        asking.start()
        assert command.process.stdout is not None
        assert command.process.stdout.readline() == "asked\n"
        assert command.ends(signal.SIGTERM)[0] == 0
        asking.join(HANG)
    assert reasons == ["policy-connection"]


def test_the_key_of_the_environment_is_what_clients_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "s3cret")
    with serving("--vla-model=my_served:plain", "--host=0.0.0.0") as command:
        assert command.said[2].endswith("; clients need the key; Ctrl-C ends it")
        assert "s3cret" not in "".join(command.said)
        where = f"127.0.0.1:{command.where.rpartition(':')[2]}"
        check_server("openpi", where)
        monkeypatch.setenv(KEY, "guess")
        with pytest.raises(VlaError, match="refuses the key"):
            check_server("openpi", where)


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_other_machines_are_served_with_a_key_only(host: str) -> None:
    text = refused("--vla-model=my_served:plain", "--port=0", f"--host={host}")
    assert text.startswith(f"--host={host} serves other machines. Set the same key in the environment variable {KEY}")


def test_a_port_that_is_in_use_is_told_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = refused("--vla-model=my_broken:policy", f"--port={port}")
    assert text == f"--port={port} is in use on 127.0.0.1. Use another, or 0 for any free one"


def test_nobody_is_let_in_before_the_policy_is_loaded(folder: Path) -> None:
    (folder / "my_slow.py").write_text(
        "import sys\nprint('now', flush=True)\nsys.stdin.read()\nfrom my_served import plain\n"
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, f"--port={port}", "--vla-model=my_slow:plain"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert [process.stdout.readline() for _ in range(2)][1] == "now\n"
        with pytest.raises(VlaError, match="nothing listens at"):
            check_server("openpi", f"127.0.0.1:{port}")
        process.stdin.close()
        assert "is loaded in" in process.stdout.readline()
        assert "listening" in process.stdout.readline()
        check_server("openpi", f"127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vla-model=nothing_here:policy"], "there is no module 'nothing_here'"),
        (["--vla-model=expertt"], "no such policy. Did you mean"),
        (["--vla-model=my_served:nobody"], "has no 'nobody'"),
        (["--vla-model=my_broken:policy"], "importing my_broken raised RuntimeError: weights are missing"),
        (["--vla-model=my_served:watching"], "reads the simulator's state, so it cannot be served"),
        (["--vla-model=expert"], "reads the simulator's state, so it cannot be served"),
        (["--vla-model=my_served:plain", "--host=no.such.host.invalid"], "--host=no.such.host.invalid: "),
        (["--vla-model=my_served:plain", "--host=192.0.2.1"], "--host=192.0.2.1 --port=0: Cannot assign"),
    ],
)
def test_what_cannot_be_served_is_told_in_the_policys_own_words(arguments: list[str], words: str) -> None:
    assert words in refused("--port=0", *arguments)


@pytest.mark.parametrize("argument", ["--port=65536", "--port=x", "--vla-max-batch=0", "--run-seed=-1"])
def test_a_number_that_is_none_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    declare(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--vla-model=random", argument])
    assert "is not a" in capsys.readouterr().err


def test_a_missing_package_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.sync.server", None)
    text = refused("--vla-model=random", "--port=0")
    assert re.fullmatch(
        r"pytest-vla serve needs the package websockets \(.*\): pip install 'pytest-vla\[remote\]'", text
    )


def test_a_line_now_and_then_tells_how_it_goes_where_something_happened(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    server = SimpleNamespace(batcher=SimpleNamespace(sizes={}, busy_since=None), connections=0)
    clock = [1000.0]

    def connect() -> None:
        server.connections = 2
        server.batcher.sizes = {1: 20, 4: 10}

    def hang() -> None:
        server.batcher.busy_since = clock[0] - 90

    happenings = [lambda: None, connect, lambda: None, hang]

    def sleep(seconds: float) -> None:
        if not happenings:
            raise KeyboardInterrupt
        happenings.pop(0)()
        clock[0] += seconds

    monkeypatch.setattr(
        serve, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: clock[0], strftime=lambda _: "9:00")
    )
    with pytest.raises(KeyboardInterrupt):
        serve._report(server)  # type: ignore[arg-type]
    assert capsys.readouterr().out.splitlines() == [
        "pytest-vla: 9:00 2 connections, 1.0 questions/s, 2.0 in a batch",
        "pytest-vla: 9:00 2 connections, 0.0 questions/s; the current call of the policy has taken 150 s",
    ]
