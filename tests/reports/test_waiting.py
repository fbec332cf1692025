"""Who waits is told what for; who does not is told nothing."""

import io
import time

import pytest

from pytest_vla.reports import waiting
from pytest_vla.reports.waiting import told_when_slow


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_quick_says_nothing() -> None:
    for stream in (io.StringIO(), Terminal()):
        with told_when_slow("comparing", stream):
            pass
        assert stream.getvalue() == ""


def test_what_is_slow_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    stream = io.StringIO()
    with told_when_slow("comparing 3 pairs", stream):
        wait_for(stream)
        time.sleep(0.05)
    assert stream.getvalue() == "comparing 3 pairs ...\n"


def test_on_a_terminal_seconds_are_counted_and_the_line_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    stream = Terminal()
    with pytest.raises(ValueError, match="the block's own"), told_when_slow("comparing", stream):  # noqa: PT012
        wait_for(stream)
        raise ValueError("the block's own")
    first, *_, last = stream.getvalue().split("\r")[1:]
    assert first.startswith("comparing: 0 s")
    assert last == ""
    assert stream.getvalue().split("\r")[-2].strip() == ""


def wait_for(stream: io.StringIO) -> None:
    for _ in range(1000):
        if stream.getvalue():
            return
        time.sleep(0.01)
    raise AssertionError("nothing was said")
