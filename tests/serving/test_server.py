"""The policy's process: sessions are kept apart, nothing is left of killed workers, every trouble has its reason."""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import Episode, Wishes
from pytest_vla.policies.noise import noise_generator, reseed
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import HUNG, PolicyAddress, PolicyProcess
from pytest_vla.serving.process import start as start_at
from pytest_vla.serving.server import PROTOCOL
from pytest_vla.serving.wire import SharedPictures, allocate, receive, send
from tests.support.waiting import HANG, RUN_OUT, until

# Counts its own steps, adds noise and what it sees; has troubles on demand.
POLICIES = """
import os, signal, time
from pathlib import Path
import numpy as np
from run_out import run_out, run_out_for_good
from pytest_vla.policies.base import Answer

class Telling:
    def close(self):
        Path(__file__).with_name("closed.txt").touch()

class Counting:
    max_batch, reads = 8, ("agentview_image", "state")

    def begin(self, episode):
        if episode.instruction == "refuse":
            raise ValueError("no such task")
        if episode.instruction == "tell":
            return Telling()
        return {"rng": episode.rng, "steps": 0, "seed": episode.seed, "told": episode.instruction,
                "wishes": episode.wishes}

    def act(self, states, observations):
        if any(state["told"] == "die" for state in states):
            os._exit(3)
        if any(state["told"] == "hang" for state in states):
            Path(__file__).with_name("hangs").touch()
            run_out()
            time.sleep(7200)
        if any(state["told"] == "slow" for state in states):
            # Who asked is interrupted while it waits.
            os.kill(os.getppid(), signal.SIGALRM)
            time.sleep(0.5)
        answers = []
        for state, observation in zip(states, observations):
            if state["told"] == "doubt":
                drawn = state["rng"].normal(size=(state["wishes"].samples, 2, 7))
                answers.append(Answer(drawn[0], drawn, np.array([0.25])))
                continue
            if state["told"] == "raise":
                raise KeyError("nothing here")
            if state["told"] == "nan":
                answers.append(np.full((2, 7), np.nan))
                continue
            state["steps"] += 1
            chunk = np.zeros((2, 7))
            chunk[:, 0] = state["steps"]
            chunk[:, 1] = state["rng"].normal()
            chunk[:, 2] = observation["agentview_image"].mean()
            chunk[:, 3] = observation["state"][0]
            chunk[:, 4] = state["seed"]
            answers.append(chunk)
        return answers

counting = Counting()
plain = lambda episode: None

class Loud(Counting):
    def __init__(self):
        print("this goes to standard error")

def broken():
    raise RuntimeError("weights are missing")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "served_policies.py").write_text(POLICIES)
    (tmp_path / "run_out.py").write_text(RUN_OUT)
    return tmp_path


@pytest.fixture
def process(folder: Path) -> Iterator[PolicyProcess]:
    process = start("served_policies:counting", folder, 8)
    yield process
    process.close()
    assert not process.is_alive()


@pytest.fixture(autouse=True)
def addresses() -> Iterator[list[PolicyAddress]]:
    yield ADDRESSES
    while ADDRESSES:
        ADDRESSES.pop().remove()


ADDRESSES: list[PolicyAddress] = []


def start(model: str, folder: Path, most: int, timeout: float = HANG, **more: Any) -> PolicyProcess:
    ADDRESSES.append(PolicyAddress.new())
    return start_at(ModelSpec(model, folder, timeout=timeout), most, ADDRESSES[-1], **more)


def policy_of(process: PolicyProcess, timeout: float = HANG) -> ServedPolicy:
    return ServedPolicy(process.address, timeout)


def episode(seed: int, instruction: str = "do it") -> Episode:
    case = f"s/t[seed{seed}]"
    return Episode(case, "s", "t", instruction, seed, noise_generator(0, case))


def seen(value: int) -> dict[str, Any]:
    return {"agentview_image": np.full((64, 64, 3), value, np.uint8), "state": np.full(8, 0.5 * value), "other": None}


def run(policy: ServedPolicy, seed: int, steps: int) -> np.ndarray:
    """The answers of one whole episode, seeded before every question as rollouts do."""
    begun = episode(seed)
    session = policy(begun)
    answers = []
    for step in range(steps):
        reseed(begun.rng, 0, begun.case_id, step)
        answers.append(session(seen(seed + step)).actions)
    session.close()
    return np.array(answers)


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
    begun = dataclasses.replace(episode(0, "doubt"), wishes=Wishes(samples=5))
    answer = policy_of(process)(begun)(seen(0))
    assert answer.samples is not None
    assert answer.token_probabilities is not None
    assert (answer.samples.shape, answer.token_probabilities.tolist()) == ((5, 2, 7), [0.25])
    assert np.array_equal(answer.samples[0], answer.actions)


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


def test_a_policy_that_reads_standard_input_finds_nothing_there(folder: Path) -> None:
    (folder / "asks.py").write_text("from served_policies import *\ntry:\n    input()\nexcept EOFError: pass\n")
    start("asks:counting", folder, 8).close()


def test_files_with_names_of_pythons_own_do_not_matter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("random", "queue", "secrets", "selectors"):
        (folder / f"{name}.py").write_text("raise RuntimeError('the wrong one')\n")
    monkeypatch.chdir(folder)
    start("served_policies:counting", folder, 8).close()


def test_what_can_be_imported_here_can_be_there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "helping_of_test.py").write_text("answer = 42\n")
    (folder / "helped.py").write_text("import helping_of_test\nfrom served_policies import counting\n")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    start("helped:counting", folder, 8).close()


def test_what_the_policy_started_ends_with_it(folder: Path) -> None:
    (folder / "parent.py").write_text(
        "import subprocess, sys\nfrom pathlib import Path\nfrom served_policies import counting\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'])\n"
        "Path(__file__).with_name('child.txt').write_text(str(child.pid))\n"
    )
    start("parent:counting", folder, 8).close()
    child = int((folder / "child.txt").read_text())
    until(lambda: not Path(f"/proc/{child}").exists() or "Z" in status_of(child))


def status_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2]
    except OSError:
        return "Z"


def test_a_long_name_of_the_folder_of_temporary_files(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ("long" * 25)
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    process = start("served_policies:counting", folder, 8)
    assert run(policy_of(process), 1, 2)[:, 0, 0].tolist() == [1, 2]
    process.close()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: (_ for _ in ()).throw(PermissionError("not here")))
    with pytest.raises(VlaError, match="let TMPDIR name a folder with a short name"):
        PolicyAddress.new()


def test_what_the_policy_prints_goes_to_the_log_once_it_is_loaded(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = POLICIES.replace(
        'if episode.instruction == "refuse"', 'print("begun")\n        if episode.instruction == "refuse"'
    )
    (folder / "served_policies.py").write_text(text)
    log = tmp_path / "run" / "policy.log"
    process = start("served_policies:counting", folder, 8, log=log)
    run(policy_of(process), 1, 2)
    process.close()
    assert log.read_text() == "begun\n"
    assert "begun" not in "".join(capfd.readouterr())


def test_a_worker_without_the_secret_is_refused(process: PolicyProcess) -> None:
    with pytest.raises(EpisodeError, match="not this run's secret"):
        ServedPolicy(PolicyAddress(process.address.path, b"guess"), HANG)(episode(0))


@pytest.mark.parametrize("message", [{"do": "harm"}, {"do": "act", "session": 5}, {"do": "begin"}, {}])
def test_a_worker_that_speaks_nonsense_is_left_alone(process: PolicyProcess, message: dict[str, Any]) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(HANG)
        connection.connect(str(process.address.path))
        descriptor = allocate(4096)
        send(connection, {"protocol": PROTOCOL, "secret": process.address.secret}, (descriptor,))
        SharedPictures(descriptor)
        assert receive(connection)[0] == {"reads": ["agentview_image", "state"]}
        send(connection, message)
        with pytest.raises(VlaError, match="closed the connection"):
            receive(connection)
    assert run(policy_of(process), 1, 2)[:, 0, 0].tolist() == [1, 2]


# Each child is killed while it asks.
WORKERS = """
import os, signal, sys, numpy as np
sys.path.insert(0, {repository!r})
from pathlib import Path
from pytest_vla.policies.base import Episode; from pytest_vla.policies.noise import noise_generator
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


def test_nothing_is_left_of_workers_that_are_killed(process: PolicyProcess) -> None:
    repository = str(Path(__file__).parents[2])
    where = {"path": str(process.address.path), "secret": process.address.secret.hex()}
    script = WORKERS.format(repository=repository, count=KILLS, hang=HANG, **where)
    shared = set(os.listdir("/dev/shm"))
    open_files = Path(f"/proc/{process._process.pid}/fd")
    before = len(list(open_files.iterdir()))
    subprocess.run([sys.executable, "-c", script], check=True, timeout=HANG)
    until(lambda: len(list(open_files.iterdir())) <= before)
    until(lambda: not [name for name in set(os.listdir("/dev/shm")) - shared if "vla" in name])
    assert run(policy_of(process), 3, 1)[0, 0, 0] == 1


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("served_policies:plain", "does not answer in batches"),
        ("served_policies:nobody", "has no 'nobody'"),
        ("nothing_at_all:policy", "there is no module"),
    ],
)
def test_a_policy_that_cannot_be_loaded_says_why_at_once(folder: Path, model: str, words: str) -> None:
    with pytest.raises(VlaError, match=words):
        start(model, folder, 8)


def test_what_a_policy_prints_while_it_loads_is_no_answer(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "served_policies.py").write_text(POLICIES + "\nloud = Loud()\n")
    start("served_policies:loud", folder, 8).close()
    captured = capfd.readouterr()
    assert "this goes to standard error" in captured.err
    assert captured.out == ""


def test_a_process_that_dies_while_it_loads_is_told(folder: Path) -> None:
    (folder / "dying.py").write_text("import os\nos._exit(7)\n")
    with pytest.raises(VlaError, match="ended with 7 before it had loaded"):
        start("dying:policy", folder, 8)


def test_loading_tells_how_long_it_takes(folder: Path) -> None:
    enough = folder / "enough"
    (folder / "slow.py").write_text(
        "import time\nfrom pathlib import Path\nfrom served_policies import counting\n"
        f"while not Path({str(enough)!r}).exists(): time.sleep(0.01)\n"
    )
    told: list[float] = []

    def tell(seconds: float) -> None:
        told.append(seconds)
        if len(told) >= 2:
            enough.touch()

    start("slow:counting", folder, 8, told=tell).close()
    assert told == sorted(told)


def test_the_process_ends_with_who_started_it(folder: Path) -> None:
    repository = str(Path(__file__).parents[2])
    script = (
        f"import sys, os; sys.path.insert(0, {repository!r})\nfrom pathlib import Path\n"
        "from pytest_vla.policies.spec import ModelSpec\nfrom pytest_vla.serving.process import PolicyAddress, start\n"
        f"process = start(ModelSpec('served_policies:counting', Path({str(folder)!r})), 8, PolicyAddress.new())\n"
        "print(process._process.pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False).stdout
    until(lambda: not Path(f"/proc/{int(told)}").exists())
