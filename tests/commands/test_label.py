"""pytest-vla label: which episodes it shows, where labels go, and what is refused."""

import argparse
from http.server import HTTPServer
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.commands import label
from pytest_vla.errors import VlaError
from pytest_vla.metrics.discrimination import CLASSES, CRITERIA
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from tests.support.reports import write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))

    def interrupted(self: HTTPServer, poll_interval: float = 0.5) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(HTTPServer, "serve_forever", interrupted)


def called(*arguments: str) -> None:
    parser = argparse.ArgumentParser()
    label.declare(parser)
    label.run(parser.parse_args(arguments))


def episode(seed: int, done: bool) -> tuple[Record, Trajectory]:
    rows = np.zeros((3, 3))
    return varied("", done, seed=seed), Trajectory(rows, rows, rows, np.zeros((2, 7)))


def test_it_shows_successes_and_says_where_until_it_is_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    write([episode(0, True), episode(1, False), episode(2, True), varied("", True, seed=3, arrays=None)])
    called("last", "--by=me")
    address, told = capsys.readouterr().out.splitlines()
    assert address.startswith("http://127.0.0.1:")
    assert told == "2 successes; labels are saved in a-run-labels.csv; Ctrl-C ends it"


def test_what_cannot_be_labelled_is_said() -> None:
    write([episode(0, False)])
    with pytest.raises(VlaError, match="run a-run has no success with a trajectory"):
        called("last")
    write([episode(0, True)], "b-run")
    Path("labels.csv").write_text("case,label,by\nelsewhere,low,me\n")
    with pytest.raises(VlaError, match=r"labels.csv has no column digest, run"):
        called("b-run", "-o", "labels.csv")
    with pytest.raises(VlaError, match="name one"):
        called("all")
    assert not list(Path().glob("*-labels.csv"))


def test_criteria_come_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write([episode(0, True)])
    shown = []
    nowhere = HTTPServer.__new__(HTTPServer)
    monkeypatch.setattr(label, "labelling_server", lambda *given: shown.append(given[-1]) or (nowhere, ""))
    monkeypatch.setattr(HTTPServer, "server_close", lambda self: None)
    lines = {name: f"{name}: as it says" for name in CLASSES}
    Path("c.toml").write_text("".join(f'{name} = "{text}"\n' for name, text in lines.items()))
    called("last")
    called("last", "--criteria=c.toml")
    assert shown == [CRITERIA, lines]
    for text, error in (
        ('low = "a"\nmedium = "b"', r"c\.toml: high: expected a text"),
        ("low", r"c\.toml: cannot be read as TOML"),
        ('low = "a"\nmedium = "b"\nhigh = 3', "high: expected a text of at most 1000 characters, found 3"),
        ('low = "a"\nmedium = "b"\nhigh = "c"\nbest = "d"', "best is no class. Classes: low, medium, high"),
    ):
        Path("c.toml").write_text(text)
        with pytest.raises(VlaError, match=error):
            called("last", "--criteria=c.toml")
