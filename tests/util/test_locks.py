"""One process at a time, where files can be locked; where they cannot, nobody is held up."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.util.files import exclusive
from tests.support.waiting import HANG, until

HOLDS = """
import sys, time
from pathlib import Path
from pytest_vla.util.files import exclusive
with exclusive(Path("a.lock")):
    Path("in-" + sys.argv[1]).touch()
    while not Path("go-" + sys.argv[1]).exists():
        time.sleep(0.005)
    Path("out-" + sys.argv[1]).touch()
"""


@pytest.fixture
def holder(tmp_path: Path) -> "Callable[[str], subprocess.Popen[bytes]]":
    return lambda name: subprocess.Popen([sys.executable, "-c", HOLDS, name], cwd=tmp_path)


def test_the_second_process_waits_for_the_first(
    tmp_path: Path, holder: "Callable[[str], subprocess.Popen[bytes]]"
) -> None:
    first = holder("1")
    until((tmp_path / "in-1").exists)
    (tmp_path / "go-2").touch()
    second = holder("2")
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(0.5)
        assert not (tmp_path / "in-2").exists()
        (tmp_path / "go-1").touch()
        assert first.wait(HANG) == second.wait(HANG) == 0
        assert (tmp_path / "in-2").exists()
    finally:
        first.kill()
        second.kill()


def test_who_is_killed_holds_nothing(tmp_path: Path, holder: "Callable[[str], subprocess.Popen[bytes]]") -> None:
    process = holder("1")
    until((tmp_path / "in-1").exists)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with exclusive(tmp_path / "a.lock"):
        pass


def test_a_lock_is_a_file_as_any_that_is_made_and_stays(tmp_path: Path) -> None:
    with exclusive(tmp_path / "new" / "a.lock"):
        pass
    (tmp_path / "plain").touch()
    assert (tmp_path / "new" / "a.lock").stat().st_mode == (tmp_path / "plain").stat().st_mode
    # Again, by the same process.
    with exclusive(tmp_path / "new" / "a.lock"):
        pass
    assert os.listdir(tmp_path / "new") == ["a.lock"]


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_without_locks_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(fcntl, "flock", refused)
    done = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(2):
            with exclusive(tmp_path / "a.lock"):
                done.append(error)
    assert done == [error, error]
    # Said once, and not of a disk that fails.
    assert [str(each.message).partition(":")[0] for each in told] == [str(tmp_path)] * (error != errno.EIO)


def test_where_no_file_can_be_made_nobody_is_held_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    done = []
    for place in ("file/a.lock", "folder", "link", "/proc/none/a.lock"):
        with exclusive(tmp_path / place):
            done.append(place)
    assert len(done) == 4
    assert sorted(os.listdir(tmp_path)) == ["file", "folder", "link"]


def test_what_the_block_raises_goes_on_and_frees_the_lock(tmp_path: Path) -> None:
    def raises() -> None:
        with exclusive(tmp_path / "a.lock"):
            raise OSError("its own")

    for _ in range(2):
        with pytest.raises(OSError, match="its own"):
            raises()
