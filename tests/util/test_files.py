"""A file is written whole or not at all."""

import os
import threading
from pathlib import Path
from typing import IO

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.util.files import check_no_link, whole_file, whole_folder, why_foreign


def interrupt(stream: IO[bytes]) -> None:
    stream.write(b"half")
    stream.flush()
    raise KeyboardInterrupt


def test_a_whole_file_takes_the_old_one_s_place(tmp_path: Path) -> None:
    file, link = tmp_path / "out.csv", tmp_path / "link.csv"
    file.write_text("old")
    link.symlink_to(file)
    with whole_file(link) as stream:
        stream.write(b"new")
        assert file.read_text() == "old"
    assert (file.read_text(), link.is_symlink()) == ("new", True)
    with pytest.raises(KeyboardInterrupt), whole_file(file) as stream:
        interrupt(stream)
    assert file.read_text() == "new"
    assert sorted(os.listdir(tmp_path)) == ["link.csv", "out.csv"]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "out.csv", tmp_path):
        with pytest.raises(VlaError, match=f"cannot write {path}: "), whole_file(path):
            pass


def test_a_pipe_is_written_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()), daemon=True)
    reader.start()
    with whole_file(pipe) as stream:
        stream.write(b"content")
    reader.join(10)
    assert read == [b"content"]
    assert pipe.is_fifo()


def test_a_whole_folder_takes_the_place_of_an_empty_one_or_of_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    for name in ("new", "link"):
        with whole_folder(tmp_path / name) as folder:
            (folder / "file").touch()
            assert not list((tmp_path / name).glob("*"))
        assert os.listdir(tmp_path / name) == ["file"]
    assert sorted(os.listdir(tmp_path)) == ["empty", "link", "new"]


def stop(folder: Path) -> None:
    (folder / "below").mkdir()
    raise KeyboardInterrupt


def test_a_folder_that_was_interrupted_is_gone(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "new") as folder:
        stop(folder)
    assert os.listdir(tmp_path) == []


def test_a_folder_that_holds_something_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    for name in ("mine", "mine/file"):
        with pytest.raises(VlaError, match=f"{name} exists already"), whole_folder(tmp_path / name):
            pytest.fail("it is not written to")
    with pytest.raises(VlaError, match="cannot write "), whole_folder(tmp_path / "mine" / "file" / "below"):
        pytest.fail("it cannot be made")


def test_what_came_into_an_empty_folder_meanwhile_stays(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="cannot write"), whole_folder(tmp_path / "new"):  # noqa: PT012
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "theirs").touch()
    assert os.listdir(tmp_path) == ["new"]
    assert os.listdir(tmp_path / "new") == ["theirs"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="the system has no users")
def test_only_this_user_and_a_group_of_its_own_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import grp
    import pwd

    place, name = tmp_path / "place", pwd.getpwuid(os.geteuid()).pw_name
    place.mkdir()
    members: list[str] = []
    named = [name]
    monkeypatch.setattr(grp, "getgrgid", lambda group: grp.struct_group((named[0], "x", group, members)))
    for mode, is_foreign in ((0o700, False), (0o755, False), (0o775, False), (0o757, True), (0o777, True)):
        place.chmod(mode)
        assert bool(why_foreign(place)) == is_foreign, oct(mode)
    place.chmod(0o775)
    members[:] = [name]
    assert not why_foreign(place)
    members[:] = [name, "another"]
    assert why_foreign(place) == f"{place} can be written by other users"
    members[:], named[0] = [], "staff"
    assert why_foreign(place)


def test_links_within_results_are_no_links_out_of_them(tmp_path: Path) -> None:
    results, run = tmp_path / "results", tmp_path / "results" / "run"
    (run / "suite").mkdir(parents=True)
    (run / "inner").symlink_to(run / "suite")
    (tmp_path / "link").symlink_to(results)
    check_no_link(tmp_path / "link", tmp_path / "link" / "run", results / "none")
    (run / "suite" / "log").symlink_to(tmp_path / "gone")
    with pytest.raises(VlaError, match="log is a link out of the results"):
        check_no_link(results, run)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "run").symlink_to(run)
    with pytest.raises(VlaError, match="run is a link out of the results"):
        check_no_link(tmp_path / "other", tmp_path / "other" / "run")
