"""A file is written whole or not at all."""

import os
import threading
from pathlib import Path
from typing import IO

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.util.files import whole_file, whole_folder


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
