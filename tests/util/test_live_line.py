"""Who waits is told what for; who does not is told nothing."""

import io
import os
import re
import time

import pytest

from pytest_vla.util import live_line as waiting
from pytest_vla.util.live_line import output_aside, progress, told_when_slow
from tests.support.waiting import HANG, until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_quick_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", HANG)
    for stream in (io.StringIO(), Terminal()):
        with told_when_slow("comparing", stream):
            pass
        assert stream.getvalue() == ""


def test_what_is_slow_says_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    stream = io.StringIO()
    with told_when_slow("comparing 3 pairs", stream):
        until(stream.getvalue)
        time.sleep(0.05)
    assert stream.getvalue() == "comparing 3 pairs ...\n"


def test_on_a_terminal_seconds_are_counted_and_the_line_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    stream = Terminal()
    with pytest.raises(ValueError, match="the block's own"), told_when_slow("comparing", stream):  # noqa: PT012
        until(stream.getvalue)
        raise ValueError("the block's own")
    first, *_, last = stream.getvalue().split("\r")[1:]
    assert re.match(r"comparing: \d+ s", first)
    assert last == ""
    assert stream.getvalue().split("\r")[-2].strip() == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_long_is_told_meanwhile(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REDRAW_EVERY", 0.01)
    monkeypatch.setattr(waiting, "LOG_EVERY", 0.01)
    stream = Terminal() if terminal else io.StringIO()
    with progress(stream) as told:
        told("loading pi0\x1b")
        until(lambda: "loading" in stream.getvalue())
    shown = stream.getvalue()
    if terminal:
        assert re.match(r"\r\x1b\[Kloading pi0\?, \d+ s so far", shown)
        assert shown.endswith("\r\x1b[K"), "the line is gone when the report comes"
    else:
        assert all(re.fullmatch(r"loading pi0\?, \d+ s so far", line) for line in shown.splitlines())


def test_what_is_done_at_once_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REDRAW_EVERY", HANG)
    monkeypatch.setattr(waiting, "LOG_EVERY", HANG)
    for stream in (Terminal(), io.StringIO()):
        with progress(stream) as told:
            told("loading")
        assert stream.getvalue().strip("\r\x1b[K") == ""


def test_output_of_libraries_goes_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with output_aside():
        print("Python's")
        os.write(1, b"a library's")
    print("result")
    out, err = capfd.readouterr()
    assert out == "result\n"
    assert "Python's" in err
    assert "a library's" in err
