"""The cache of words and texts: right with any file on disk, and with several processes at once."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_vla.language.models import FILE, cached_values
from tests.support.waiting import HANG

PARENT_AND_CHILD = """
import sys
from pytest_vla.language.models import cached_values

for turn in range(20):
    keys = [f"{turn}-{n}" for n in range(50)]
    found = cached_values("space", keys, lambda keys: [k * 3 for k in keys], str.encode, bytes.decode)
    assert found == {key: key * 3 for key in keys}, found
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Maker:
    """Doubles words, and says which it was asked for."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, keys: Sequence[str]) -> list[str]:
        self.asked.append(list(keys))
        return [key * 2 for key in keys]


def ask(maker: Maker, keys: Sequence[str], space: str = "space") -> dict[str, str]:
    return cached_values(space, keys, maker, str.encode, bytes.decode)


def test_only_what_is_missing_is_made() -> None:
    maker = Maker()
    assert ask(maker, ["b", "a", "b"]) == {"a": "aa", "b": "bb"}
    assert ask(maker, ["c", "a"]) == {"a": "aa", "c": "cc"}
    assert ask(maker, ["a", "b", "c"]) == {"a": "aa", "b": "bb", "c": "cc"}
    assert ask(maker, ["a"], space="other") == {"a": "aa"}
    assert maker.asked == [["a", "b"], ["c"], ["a"]]
    assert ask(maker, []) == {}


def test_values_that_others_may_have_written_are_made_again(folder: Path) -> None:
    ask(Maker(), ["a"])
    (folder / FILE).chmod(0o666)
    again = Maker()
    assert ask(again, ["a"]) == {"a": "aa"}
    assert again.asked == [["a"]]


def test_many_keys_at_once() -> None:
    keys = [str(n) for n in range(2000)]
    assert ask(Maker(), keys) == {key: key * 2 for key in keys}
    again = Maker()
    assert ask(again, [*keys, "new"]) == {key: key * 2 for key in [*keys, "new"]}
    assert again.asked == [["new"]]


def test_a_value_that_cannot_be_read_is_made_anew(folder: Path) -> None:
    ask(Maker(), ["a", "b"])
    with sqlite3.connect(folder / FILE) as connection:
        connection.execute("UPDATE known SET value = ? WHERE key = 'a'", (b"\xff",))
    again = Maker()
    assert ask(again, ["a", "b"]) == {"a": "aa", "b": "bb"}
    assert again.asked == [["a"]]
    assert ask(again, ["a"]) == {"a": "aa"}
    assert again.asked == [["a"]]


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100, b"SQLite format 3\x00" + b"\x01" * 5000])
def test_a_damaged_file_is_begun_anew(folder: Path, content: bytes) -> None:
    folder.mkdir()
    (folder / FILE).write_bytes(content)
    for _ in range(2):
        assert ask(Maker(), ["a"]) == {"a": "aa"}
    again = Maker()
    assert ask(again, ["a"]) == {"a": "aa"}
    assert again.asked == []


def test_without_a_place_for_it_everything_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_text("a file where the folder should be")
    assert ask(Maker(), ["a"]) == {"a": "aa"}
    for name in ("PYTEST_VLA_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pytest_vla.util.files.expanded", lambda path: None)
    assert ask(Maker(), ["a"]) == {"a": "aa"}


def test_several_processes_at_once(folder: Path) -> None:
    command = [sys.executable, "-c", PARENT_AND_CHILD]
    running = [subprocess.Popen(command, env=os.environ) for _ in range(4)]
    assert [each.wait(timeout=HANG) for each in running] == [0] * 4
    with sqlite3.connect(folder / FILE) as connection:
        assert connection.execute("SELECT count(*) FROM known").fetchone() == (1000,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
