"""The labelling page's server: what it keeps, whom it answers, and that it goes on where it was."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pytest_vla.commands import label
from pytest_vla.commands.label import ADDRESS, EpisodeToLabel, labelling_server
from pytest_vla.errors import VlaError
from pytest_vla.metrics.discrimination import read_labels
from tests.support.chromium import chromium, chromium_program
from tests.support.waiting import HANG, until

CASES = ("s/a[seed0]", "s/b[seed0]", "s/<script>alert(1)</script>[seed0]")


def broken(folder: Path) -> Path:
    raise VlaError("its scene is gone")


def drawn(folder: Path) -> Path:
    file = folder / "0.mp4"
    file.write_bytes(b"a video")
    return file


@contextmanager
def served(
    file: Path, by: str = "me", videos: Sequence[Callable[[Path], Path]] = (drawn, broken, broken)
) -> Iterator[str]:
    shown = [
        EpisodeToLabel(case, f"digest of {case}", "a-run", f"do {case}", video)
        for case, video in zip(CASES, videos, strict=True)
    ]
    server, address = labelling_server(shown, file, by)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(address: str, path: str, body: Any = None, host: str | None = None) -> tuple[int, bytes]:
    where = urlsplit(address)
    connection = http.client.HTTPConnection(ADDRESS, where.port or 0, timeout=30)
    headers = {"Host": host or where.netloc}
    text = None if body is None else body if isinstance(body, str) else json.dumps(body)
    connection.request("GET" if body is None else "POST", where.path + path, text, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_a_label_is_kept_at_once_and_the_next_call_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    with served(file) as address:
        assert b"<title>Label episodes</title>" in ask(address, "")[1]
        state = json.loads(ask(address, "state")[1])
        assert [each["label"] for each in state["episodes"]] == [None] * 3
        assert [*state["criteria"]] == state["classes"], "what each class means"
        assert ask(address, "video/0") == (200, b"a video")
        assert ask(address, "video/1") == (404, b"its scene is gone")
        state = json.loads(ask(address, "label", {"number": 2, "label": "high"})[1])
        assert [each["label"] for each in state["episodes"]] == [None, None, "high"]
        assert [each.case for each in read_labels(file)] == [CASES[2]]
        assert file.read_text().splitlines()[1].endswith(f",high,me,digest of {CASES[2]},a-run")
    with served(file) as address:
        assert json.loads(ask(address, "state")[1])["episodes"][2]["label"] == "high"
        ask(address, "label", {"number": 2, "label": "low"})
    with served(file, "you") as address:
        assert json.loads(ask(address, "state")[1])["episodes"][2]["label"] is None
        ask(address, "label", {"number": 0, "label": "medium"})
    assert [(each.by, each.label) for each in read_labels(file)] == [("me", "low"), ("you", "medium")]


def test_labels_are_kept_while_a_video_is_drawn_and_the_page_is_told(tmp_path: Path) -> None:
    begun, released = threading.Event(), threading.Event()

    def slow(folder: Path) -> Path:
        begun.set()
        released.wait(HANG)
        return drawn(folder)

    file = tmp_path / "labels.csv"
    with served(file, videos=(slow, broken, drawn)) as address:
        assert ask(address, "video/0") == (202, b"the video is being drawn")
        begun.wait(HANG)
        state = json.loads(ask(address, "label", {"number": 0, "label": "high"})[1])
        assert state["episodes"][0]["label"] == "high"
        assert [each.label for each in read_labels(file)] == ["high"]
        released.set()
        until(lambda: ask(address, "video/0") == (200, b"a video"))


def test_idle_connections_hold_up_nobody(tmp_path: Path) -> None:
    with served(tmp_path / "labels.csv") as address, ExitStack() as idle:
        for _ in range(3):
            idle.enter_context(socket.create_connection((ADDRESS, urlsplit(address).port or 0)))
        # One that says how much it sends, and does not.
        half = idle.enter_context(socket.create_connection((ADDRESS, urlsplit(address).port or 0)))
        where = urlsplit(address)
        half.sendall(f"POST {where.path}label HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: 99\r\n\r\n".encode())
        assert ask(address, "state")[0] == 200
        assert label._IDLE_SECONDS <= 60


def test_an_instruction_cannot_turn_the_page(tmp_path: Path) -> None:
    shown = [EpisodeToLabel("s/a[seed0]", "d", "r", "pick \u202eup", drawn)]
    server, address = labelling_server(shown, tmp_path / "a.csv", "me")
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    state = json.loads(ask(address, "state")[1])
    thread.join()
    server.server_close()
    assert state["episodes"][0]["instruction"] == "pick ?up"


@pytest.mark.parametrize(
    "body",
    [
        *("", "[", "3", "[" * 9000, {"number": 9, "label": "low"}, {"number": 0, "label": "good"}),
        *({"number": "0", "label": "low"}, {"number": True, "label": "low"}),
    ],
)
def test_what_is_no_label_is_refused(tmp_path: Path, body: Any) -> None:
    with served(tmp_path / "labels.csv") as address:
        assert ask(address, "label", body)[0] == 400
        assert ask(address, "elsewhere", {"number": 0, "label": "low"})[0] == 404
    assert not (tmp_path / "labels.csv").exists()


def test_who_does_not_know_the_address_is_not_answered(tmp_path: Path) -> None:
    with served(tmp_path / "labels.csv") as address:
        root = f"http://{urlsplit(address).netloc}/"
        assert ask(root, "")[0] == 404
        assert ask(root, "state")[0] == 404
        # A page elsewhere, whose name was made to mean this machine.
        assert ask(address, "state", host="evil.example")[0] == 404
        assert ask(address, "label", {"number": 0, "label": "low"}, host="evil.example")[0] == 404
        assert ask(address, "video/9")[0] == 404
        assert ask(address, "../state")[0] == 404


def test_labels_of_other_episodes_stay_and_old_files_and_a_taken_port_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text(f"case,label,by,digest,run\n{CASES[0]},low,me,of another policy,b-run\n")
    with served(file) as address:
        assert json.loads(ask(address, "state")[1])["episodes"][0]["label"] is None
        ask(address, "label", {"number": 0, "label": "high"})
    assert [(each.run, each.label) for each in read_labels(file)] == [("b-run", "low"), ("a-run", "high")]
    file.write_text("case,label,by\nother,low,me\n")
    with pytest.raises(VlaError, match="has no column digest, run"):
        labelling_server([EpisodeToLabel(CASES[0], "d", "r", "", drawn)], file, "me")
    with served(tmp_path / "mine.csv") as address, pytest.raises(VlaError, match="Without --port a free one is used"):
        labelling_server([], tmp_path / "b.csv", "me", urlsplit(address).port or 0)


@pytest.mark.skipif(chromium_program() is None, reason="needs Chromium (make setup installs it)")
def test_in_a_browser_keys_and_buttons_label_and_hostile_texts_are_texts(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    with served(file) as address, chromium(tmp_path / "profile") as browser:
        # The page is served here; everything else stays out of reach.
        browser.call(
            "Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1
        )
        browser.open(address, width=390)
        browser.wait("document.querySelectorAll('button').length === 3")
        assert browser.run("document.getElementById('instruction').textContent") == f"do {CASES[0]}"
        browser.press("2", 50)
        browser.wait("document.getElementById('done').textContent.startsWith('1 of 3')")
        browser.run("document.querySelectorAll('button')[2].click()")
        browser.wait("document.getElementById('done').textContent.startsWith('2 of 3')")
        assert browser.run("document.getElementById('instruction').textContent") == f"do {CASES[2]}"
        browser.wait("document.getElementById('trouble').textContent === 'its scene is gone'")
        browser.press("ArrowLeft", 37)
        browser.press("ArrowLeft", 37)
        assert browser.run("document.querySelector('[aria-pressed=true]').textContent") == "2 medium"
        assert browser.run("document.documentElement.scrollWidth <= innerWidth"), "nothing to scroll sideways"
        axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
        browser.run((files(axe) / "axe.min.js").read_text(encoding="utf-8") + "; 0")
        serious = browser.run(
            "axe.run().then(found => found.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
            ".map(v => v.id))"
        )
        assert serious == []
        here = urlsplit(address).netloc
        assert {urlsplit(each).netloc for each in browser.requests if each.startswith("http")} == {here}
    assert [(each.case, each.label) for each in read_labels(file)] == [(CASES[0], "medium"), (CASES[1], "high")]
