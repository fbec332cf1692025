"""What workers ask the policy's process: sessions are kept apart, the killed leave nothing, troubles have reasons."""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import Wishes
from pytest_vla.policies.tokens import PER_TOKEN, token_statistics
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.handshake import greet
from pytest_vla.serving.process import HUNG, PolicyAddress, PolicyProcess
from pytest_vla.serving.wire import SharedPictures, allocate, receive, send
from tests.support.policy_processes import POLICIES, episode, policy_of, run, seen, start
from tests.support.waiting import HANG, until


def test_sessions_of_many_workers_are_what_they_are_alone(process: PolicyProcess) -> None:
    alone = [run(policy_of(process), seed, 5) for seed in range(6)]
    assert alone[2][:, 0, 0].tolist() == [1, 2, 3, 4, 5]
    assert alone[2][3, 0, 2:5].tolist() == [5.0, 2.5, 2.0]
    together: dict[int, np.ndarray] = {}

    def work(seed: int) -> None:
        together[seed] = run(policy_of(process), seed, 5)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    for seed in range(6):
        assert np.array_equal(together[seed], alone[seed])


def test_two_sessions_of_one_worker_do_not_touch_each_other(process: PolicyProcess) -> None:
    policy = policy_of(process)
    first, second = policy(episode(1)), policy(episode(2))
    assert [asked(seen(0)).actions[0, 0] for asked in (first, second, first, second)] == [1, 1, 2, 2]


def test_what_is_wished_for_beside_actions_crosses_too(process: PolicyProcess) -> None:
    begun = dataclasses.replace(episode(0, "doubt"), wishes=Wishes(samples=5, token_probabilities=True))
    answer = policy_of(process)(begun)(seen(0))
    assert answer.samples is not None
    assert answer.token_probabilities is not None
    assert (answer.samples.shape, answer.token_probabilities.tolist()) == ((5, 2, 7), [0.25])
    assert np.array_equal(answer.samples[0], answer.actions)
    assert answer.token_statistics is not None
    expected = token_statistics([[0.0, 1.0, 2.0]])
    for name in PER_TOKEN:
        assert np.array_equal(getattr(answer.token_statistics, name), getattr(expected, name))
    assert answer.token_statistics.vocabulary == 3


def test_how_much_of_a_chunk_is_executed_crosses_too(process: PolicyProcess) -> None:
    begun = [episode(0), dataclasses.replace(episode(0), replan=3)]
    assert [policy_of(process)(one)(seen(0)).actions[0, 5] for one in begun] == [0, 3]


def test_only_what_the_policy_reads_is_made(process: PolicyProcess) -> None:
    read: list[str] = []

    class Watched(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            read.append(name)
            return super().__getitem__(name)

    policy_of(process)(episode(0))(Watched(seen(1)))
    assert sorted(read) == ["agentview_image", "state"]


@pytest.mark.parametrize(
    ("instruction", "reason", "words"),
    [("raise", "policy-raised", "nothing here"), ("nan", "policy-nan", "nan"), ("die", "policy-server-died", "gone")],
)
def test_trouble_in_a_question_is_told_with_its_reason(
    process: PolicyProcess, instruction: str, reason: str, words: str
) -> None:
    session = policy_of(process)(episode(0, instruction))
    with pytest.raises(EpisodeError, match=words) as raised:
        session(seen(0))
    assert raised.value.reason == reason


def test_trouble_at_the_begin_is_told_and_the_next_episode_runs(process: PolicyProcess) -> None:
    policy = policy_of(process)
    with pytest.raises(EpisodeError, match=r"at the episode's begin: .*no such task") as raised:
        policy(episode(0, "refuse"))
    assert raised.value.reason == "policy-raised"
    assert run(policy, 1, 1).shape == (1, 2, 7)


def test_a_call_that_takes_too_long_is_an_error_of_its_episode_and_ends_the_process(folder: Path) -> None:
    process = start("served_policies:counting", folder, 1)
    session, other = policy_of(process)(episode(0, "hang")), policy_of(process)(episode(1))
    raised: list[EpisodeError] = []

    def ask() -> None:
        # Behind the one that hangs.
        until((folder / "hangs").exists)
        with pytest.raises(EpisodeError) as error:
            other(seen(0))
        raised.append(error.value)

    thread = threading.Thread(target=ask)
    thread.start()
    with pytest.raises(EpisodeError, match=rf"no answer of the policy in {HANG:g} s") as error:
        session(seen(0))
    assert error.value.reason == "policy-timeout"
    thread.join(HANG)
    assert [error.reason for error in raised] == ["policy-server-died"], "it may run again"
    assert process.wait() == HUNG


def test_code_that_holds_pythons_lock_for_too_long_ends_the_process(folder: Path) -> None:
    holding = POLICIES.replace("run_out()\n", "run_out_for_good()\n").replace(
        "time.sleep(7200)", "import ctypes; ctypes.PyDLL(None).sleep(7200)"
    )
    (folder / "served_policies.py").write_text(holding)
    process = start("served_policies:counting", folder, 1)
    session = policy_of(process)(episode(0, "hang"))
    with pytest.raises(EpisodeError, match="gone"):
        session(seen(0))
    assert process.wait() == 1


def test_a_killed_workers_sessions_are_closed(process: PolicyProcess, folder: Path) -> None:
    policy = policy_of(process)
    policy(episode(0, "tell"))
    policy.close()
    until((folder / "closed.txt").exists)


def test_what_the_policy_raised_comes_with_its_traceback_apart(process: PolicyProcess) -> None:
    session = policy_of(process)(episode(0, "raise"))
    with pytest.raises(EpisodeError, match="nothing here") as raised:
        session(seen(0))
    assert "Traceback" not in str(raised.value)
    assert "Traceback" in str(raised.value.__cause__)
    assert "served_policies.py" in str(raised.value.__cause__)


def test_a_question_that_is_interrupted_is_not_answered_by_the_next(process: PolicyProcess) -> None:
    policy = policy_of(process)

    class Interrupted(Exception):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    session = policy(episode(0, "slow"))
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(Interrupted):
            session(seen(0))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert run(policy, 1, 2)[:, 0, 0].tolist() == [1, 2]


def test_a_worker_without_the_secret_is_refused(process: PolicyProcess) -> None:
    with pytest.raises(EpisodeError, match="not this run's secret"):
        ServedPolicy(PolicyAddress(process.address.path, b"guess"), HANG)(episode(0))


@pytest.mark.parametrize("message", [{"do": "harm"}, {"do": "act", "session": 5}, {"do": "begin"}, {}])
def test_a_worker_that_speaks_nonsense_is_left_alone(process: PolicyProcess, message: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(HANG)
        connection.connect(str(process.address.path))
        assert greet(connection, process.address.secret).reads == ("agentview_image", "state")
        descriptor = allocate(4096)
        send(connection, message, (descriptor,))
        SharedPictures(descriptor)
        with pytest.raises(VlaError, match="closed the connection"):
            receive(connection)
    assert run(policy_of(process), 1, 2)[:, 0, 0].tolist() == [1, 2]


# Each child is killed while it asks.
WORKERS = """
import os, signal, sys, numpy as np
sys.path.insert(0, {repository!r})
from pathlib import Path
from pytest_vla.policies.base import Episode; from pytest_vla.policies.generators import noise_generator
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import PolicyAddress

def ask(told):
    policy = ServedPolicy(PolicyAddress(Path({path!r}), bytes.fromhex({secret!r})), {hang})
    session = policy(Episode("c", "s", "t", "do it", 0, noise_generator(0, "c")))
    while True:
        session({{"agentview_image": np.zeros((256, 256, 3), np.uint8), "state": np.zeros(8)}})
        os.write(told, b"asked")

for _ in range({count}):
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        ask(told)
    assert os.read(heard, 5) == b"asked"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(heard)
    os.close(told)
"""
KILLS = 100


def processes_of(process: PolicyProcess) -> list[int]:
    """All of the policy's process's group."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in found if group_of(pid) == process._process.pid]


def group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def test_nothing_is_left_of_workers_that_are_killed(process: PolicyProcess) -> None:
    repository = str(Path(__file__).parents[2])
    where = {"path": str(process.address.path), "secret": process.address.secret.hex()}
    script = WORKERS.format(repository=repository, count=KILLS, hang=HANG, **where)
    shared = set(os.listdir("/dev/shm"))
    # The memory of both batches is there from the second question on.
    run(policy_of(process), 3, 2)
    group = processes_of(process)
    assert len(group) == 2, "the policy's process and its desk"

    def open_files() -> int:
        return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in group)

    before = open_files()
    subprocess.run([sys.executable, "-c", script], check=True, timeout=HANG)
    until(lambda: open_files() <= before)
    until(lambda: not [name for name in set(os.listdir("/dev/shm")) - shared if "vla" in name])
    assert run(policy_of(process), 3, 1)[0, 0, 0] == 1
