"""The hub's own client fetches LIBERO's data from a server of this machine."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.commands import fetch
from pytest_vla.commands.fetch import REPOSITORY
from tests.support.hub_files import CONTENT, REVISION, hub_file, make_wheel
from tests.support.waiting import HANG


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_wheel(tmp_path / "made", monkeypatch)


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a listing and a snapshot ask for."""

    protocol_version = "HTTP/1.1"
    served: list[str]
    broken: set[str]

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        api = f"/api/datasets/{REPOSITORY}"
        files = {**CONTENT, "README.md": b"# LIBERO's assets"}
        if path.startswith(f"{api}/tree/"):
            entries = [{"type": "file", "path": n, "size": len(c), "oid": "0" * 40} for n, c in files.items()]
            self._send(json.dumps(entries).encode(), {"Content-Type": "application/json"}, body)
        elif path.startswith(api):
            self._send(json.dumps(self._info(files)).encode(), {"Content-Type": "application/json"}, body)
        elif match := re.fullmatch(f"/datasets/{REPOSITORY}/resolve/{REVISION}/(.+)", path):
            content = files[match[1]]
            digest = hub_file(match[1], content).digest
            if body:
                self.served.append(match[1])
            if body and match[1] in self.broken:
                self.send_error(403)
                return
            self._send(content, {"ETag": f'"{digest}"', "X-Repo-Commit": REVISION}, body)
        else:
            self.send_error(404)

    def _info(self, files: dict[str, bytes]) -> dict[str, Any]:
        siblings = []
        for name, content in files.items():
            listed = hub_file(name, content)
            lfs = {"size": len(content), "sha256": listed.digest, "pointerSize": 130}
            siblings.append(
                {"rfilename": name, "size": len(content), "blobId": listed.digest}
                | ({"lfs": lfs} if listed.algorithm == "sha256" else {})
            )
        return {"id": REPOSITORY, "sha": REVISION, "siblings": siblings, "cardData": {"license": "mit"}}

    def _send(self, content: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    Hub.served, Hub.broken = [], set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetching(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs the command in a process of its own, as the client reads the hub's address while it is imported."""
    pytest.importorskip("huggingface_hub")
    script = tmp_path / "made" / "run.py"
    script.write_text(
        "import shutil, sys\n"
        "from pathlib import Path\n"
        "from pytest_vla import cli; from pytest_vla.commands import fetch\n"
        f"fetch.PACKAGE_SHA256 = {fetch.PACKAGE_SHA256!r}\n"
        "def package(folder):\n"
        "    folder.mkdir(parents=True, exist_ok=True)\n"
        f"    return Path(shutil.copy({str(wheel)!r}, folder))\n"
        "fetch._download_package = package\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "made" / "hf"))
    monkeypatch.setenv("HF_HUB_DISABLE_XET", "1")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    # One try is enough to be told.
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "5")

    def run(port: int) -> "subprocess.CompletedProcess[str]":
        environ = os.environ | {"HF_ENDPOINT": f"http://127.0.0.1:{port}"}
        command = [sys.executable, str(script), "fetch", "libero", "--yes", f"--to={tmp_path / 'libero'}"]
        return subprocess.run(
            command, env=environ, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=HANG
        )

    return run


def test_the_hub_s_own_client_brings_it_and_goes_on_where_it_was_stopped(
    server: ThreadingHTTPServer, fetching: Callable[..., Any], tmp_path: Path
) -> None:
    Hub.broken = {"scenes/table.xml"}
    result = fetching(server.server_port)
    assert result.returncode == 1, result.stdout
    assert "the download stopped: " in result.stderr.splitlines()[-1]
    assert not (tmp_path / "libero").exists()
    had = {name for name in CONTENT if (tmp_path / "libero.part" / "assets" / name).exists()}
    Hub.broken = set()
    Hub.served.clear()
    result = fetching(server.server_port)
    assert result.returncode == 0, result.stderr
    assert "licence: mit" in result.stdout
    assert set(Hub.served) == CONTENT.keys() - had
    assert {name: (tmp_path / "libero" / "assets" / name).read_bytes() for name in CONTENT} == CONTENT
    assert not (tmp_path / "libero" / "assets" / ".cache").exists()


def test_without_a_network_it_says_what_else_there_is(
    server: ThreadingHTTPServer, fetching: Callable[..., Any], tmp_path: Path
) -> None:
    port = server.server_port
    # Nobody listens at a port of the machine that was just closed.
    server.shutdown()
    server.server_close()
    result = fetching(port)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert f"http://127.0.0.1:{port}: its files cannot be listed: " in last
    assert "Without a network, set --vla-data or PYTEST_VLA_DATA to libero/libero in a checkout of LIBERO" in last
    assert os.listdir(tmp_path) == ["made"]
