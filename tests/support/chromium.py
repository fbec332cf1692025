"""A real Chromium for tests of pages: one process, driven by its own protocol over a websocket. It has no network."""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_SECONDS = 30.0


def chromium_program() -> str | None:
    """Where it is; None: it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One tab.

    Args:
        wire: to the tab.
    """

    def __init__(self, wire: ClientConnection) -> None:
        self._wire, self._number = wire, 0
        self.requests: list[str] = []
        """Addresses that pages have asked for."""
        self.troubles: list[str] = []
        """What pages said on their console as an error, and what they raised."""
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A method of the protocol. Raises RuntimeError: it failed."""
        self._number += 1
        self._wire.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._wire.recv(_SECONDS))
            if said.get("id") == self._number:
                if "error" in said:
                    raise RuntimeError(f"{method}: {said['error']}")
                return dict(said["result"])
            self._heard(said)

    def open(self, address: str, width: int = 1280, height: int = 900, dark: bool = False) -> float:
        """Go to a page, and wait until it is loaded and drawn; seconds that it took."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        # A hash alone would not load the page anew.
        self.call("Page.navigate", url="about:blank")
        began = time.perf_counter()
        self.call("Page.navigate", url=address)
        while self.run("document.readyState") != "complete" or self.run("location.href") == "about:blank":
            time.sleep(0.01)
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))")
        return time.perf_counter() - began

    def run(self, script: str) -> Any:
        """The value of an expression in the page; a promise is waited for. Raises RuntimeError: it raised."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"].get("description", found))
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression in the page holds. Raises TimeoutError: it does not."""
        until = time.monotonic() + _SECONDS
        while not self.run(script):
            if time.monotonic() > until:
                raise TimeoutError(script)
            time.sleep(0.02)

    def press(self, key: str, code: int) -> None:
        """A key, down and up."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def picture(self, file: Path) -> None:
        """What is in sight, as PNG."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    def _heard(self, said: dict[str, Any]) -> None:
        about = said.get("params", {})
        match said.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(about["request"]["url"])
            case "Runtime.exceptionThrown":
                self.troubles.append(about["exceptionDetails"].get("exception", {}).get("description", "raised"))
            case "Log.entryAdded" if about["entry"]["level"] == "error":
                self.troubles.append(about["entry"]["text"])


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser with a profile in this folder; it ends with the block. Raises RuntimeError: it does not start."""
    program = chromium_program()
    assert program is not None, "tests that need it skip where it is not installed"
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    command = [program, *flags, "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with connect(_address(folder, process), max_size=None, open_timeout=_SECONDS) as wire:
            yield Browser(wire)
    finally:
        process.terminate()
        process.wait(_SECONDS)


def _address(folder: Path, process: "subprocess.Popen[bytes]") -> str:
    """Of the first tab, which it says in its profile's folder when it listens."""
    import urllib.request

    file, until = folder / "DevToolsActivePort", time.monotonic() + _SECONDS
    while time.monotonic() < until and process.poll() is None:
        if file.exists() and (lines := file.read_text().splitlines()):
            with urllib.request.urlopen(f"http://127.0.0.1:{lines[0]}/json/list", timeout=_SECONDS) as stream:
                for tab in json.load(stream):
                    if tab["type"] == "page":
                        return str(tab["webSocketDebuggerUrl"])
        time.sleep(0.05)
    raise RuntimeError("Chromium does not start, or does not listen")


def check_readable(browser: Browser, page: Path, width: int, dark: bool) -> None:
    """A page fits the window, axe finds nothing that hinders a reader, and it asks for nothing outside."""
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    browser.open(page.as_uri(), width, dark=dark)
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
    browser.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
    browser.run((files(axe) / "axe.min.js").read_text(encoding="utf-8") + "; 0")
    told = browser.run("axe.run().then(found => found.violations.map(v => [v.id, v.nodes[0].html.slice(0, 200)]))")
    assert told == []
    assert [each for each in browser.requests if not each.startswith(("file:", "data:", "about:"))] == []
    assert browser.troubles == []
