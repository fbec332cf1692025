"""The policy's process by itself: where it finds modules, what it prints, how it loads, and that it ends."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.serving.process import FROZEN, About, NotShared, PolicyAddress, PolicyProcess
from pytest_vla.serving.stats import ServingStats
from tests.support.policy_processes import POLICIES, policy_of, run, start
from tests.support.waiting import HANG, until


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
    with pytest.raises(VlaError, match="Set TMPDIR to a writable folder with a short name"):
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
    with pytest.raises(VlaError, match="ended with 7 while loading"):
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


def test_a_system_without_unix_sockets_says_so_and_each_worker_loads_for_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("socket.AF_UNIX")
    monkeypatch.setattr("platform.system", lambda: "Windows")
    with pytest.raises(
        NotShared, match=r"Windows has no sockets for sharing memory between processes \(socket.AF_UNIX\)"
    ):
        start("served_policies:counting", folder, 8)


# Says what it sees until its pipe is closed, as the desk does, and gives no sign of life.
TELLS = """
import sys, time
from pytest_vla.serving.stats import ServingStats, seen_line
while True:
    sys.stdout.buffer.write(seen_line(ServingStats(1.0, 0.5, int(sys.argv[1]))) + b"{no line of ours\\n")
    sys.stdout.buffer.write(b"\\n" * int(sys.argv[2]))
    sys.stdout.buffer.flush()
    time.sleep(0.01)
"""


def telling(folder: Path, *arguments: str) -> PolicyProcess:
    command = [sys.executable, "-c", TELLS, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    signs = io.FileIO(os.dup(process.stdout.fileno()))
    return PolicyProcess(PolicyAddress(folder / "none", b""), About(), process, signs)


def test_what_is_seen_is_told_and_is_no_sign_of_life(folder: Path) -> None:
    told: list[ServingStats] = []
    alive, still = telling(folder, "7", "1"), telling(folder, "7", "0")

    def hear(seen: ServingStats) -> None:
        told.append(seen)
        if len(told) == 3:
            alive._process.kill()

    assert alive.wait(HANG, hear) == -signal.SIGKILL
    assert all(seen == ServingStats(1.0, 0.5, 7) for seen in told)
    assert still.wait(0.5) == FROZEN
    for process in (alive, still):
        process.close()
