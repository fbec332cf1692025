"""Pages in a real Chromium without a network: opened, filtered, read by keys, printed, and looked at by axe."""

import base64
import json
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.reports.html.gates import anchor_of
from pytest_vla.reports.html.page import episodes_table, twin_places
from pytest_vla.reports.html.parts import Page, page_html, script_json
from pytest_vla.show.video import write_frames
from tests.support.chromium import PROGRAMS, Browser, chromium, chromium_program
from tests.support.page import Parsed, many, page, page_of
from tests.support.records import record_of
from tests.support.reports import write
from tests.support.safety import model_that_touches
from tests.support.varied import varied

pytestmark = pytest.mark.skipif(chromium_program() is None, reason=f"none of {', '.join(PROGRAMS)} is installed")

OPENED = 2.0
"""Seconds that a page of ten thousand episodes may take."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def quiet(browser: Browser) -> Iterator[None]:
    """Assert that a page loads nothing and logs no error."""
    browser.requests.clear()
    browser.troubles.clear()
    yield
    assert [each for each in browser.requests if not each.startswith(("file:", "data:", "about:"))] == []
    assert browser.troubles == []


def opened(
    browser: Browser, anchor: str = "", width: int = 1280, dark: bool = False, folder: Path | None = None
) -> float:
    file = (folder or Path.cwd()) / "report.html"
    return browser.open(f"{file.as_uri()}{anchor}", width, dark=dark)


def count(browser: Browser) -> str:
    return str(browser.run("document.getElementById('episode-count').textContent"))


def typed(browser: Browser, selector: str, text: str) -> None:
    browser.run(
        f"(() => {{ const i = document.querySelector({json.dumps(selector)}); i.value = {json.dumps(text)};"
        "i.dispatchEvent(new Event('input')); return new Promise(done => setTimeout(done, 150)); })()"
    )


@pytest.mark.slow
def test_ten_thousand_episodes_open_at_once(browser: Browser) -> None:
    page_of(many(10_000))
    assert Path("report.html").stat().st_size < 5_000_000
    # Others may use the machine too.
    assert min(opened(browser) for _ in range(3)) < OPENED
    assert count(browser) == "10,000 of 10,000 episodes"
    assert browser.run("document.querySelectorAll('#episode-rows tr.row').length") < 100
    # The last one is a matter of scrolling.
    browser.run("document.getElementById('episode-rows').scrollTop = 1e9")
    browser.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert browser.run("Math.max(...[...document.querySelectorAll('tr.row')].map(r => r.ariaRowIndex))") == 10_001


def test_episodes_are_filtered_and_sorted(browser: Browser, both: Path) -> None:
    opened(browser, folder=both)
    assert count(browser) == "152 of 152 episodes"
    typed(browser, "#episode-search", "second:policy error")
    assert count(browser) == "1 of 152 episodes"
    browser.run("document.getElementById('episode-clear').click()")
    assert count(browser) == "152 of 152 episodes"
    typed(browser, "input[aria-label='Filter seed']", ">=24")
    assert count(browser) == "8 of 152 episodes"
    typed(browser, "input[aria-label='Filter outcome']", "=error")
    assert count(browser) == "2 of 152 episodes"
    browser.run("document.getElementById('episode-clear').click()")
    browser.run("document.querySelector('button[title=\"Sort by seed\"]').click()")
    browser.run("document.querySelector('button[title=\"Sort by seed\"]').click()")
    assert browser.run("document.querySelector('th[aria-sort]').ariaSort") == "descending"
    assert "turn_on_the_stove" in browser.run("document.querySelector('tr.row th').textContent")


def test_an_episode_opens_by_its_anchor_and_by_keys(browser: Browser) -> None:
    write(model_that_touches())
    found = page()
    place = int(next(iter(found.data["costs"])))
    opened(browser, f"#episode-{found.data['anchors'][place]}")
    said = str(browser.run("document.querySelector('dialog[open]').innerText"))
    assert "What it was charged" in said
    assert "(incontact bowl_1 vase_1)" in said
    assert "(turnon flat_stove_1)" in said
    browser.press("Escape", 27)
    browser.wait("document.querySelector('dialog[open]') === null && location.hash === '#episodes'")
    browser.run("document.querySelector('tr.row a').focus()")
    browser.press("Enter", 13)
    browser.wait("document.querySelector('dialog[open]') !== null")
    assert browser.run("document.activeElement.textContent") == "Close"


def test_flipped_cases_lead_to_their_episodes(browser: Browser, both: Path) -> None:
    opened(browser, folder=both)
    browser.run("document.querySelector('#comparison a[href^=\"#episode-\"]').click()")
    browser.wait("document.querySelector('dialog[open]') !== null")
    assert "first:policy" in browser.run("document.querySelector('dialog[open]').innerText")


def test_videos_of_an_episode_and_its_twin_have_one_control(browser: Browser) -> None:
    """Play two real videos of 4 and 2 seconds: one button plays and pauses both, one bar seeks in both."""
    records = [varied("", True, "a_task"), varied("camera.distance-L1", False, "a_task")]
    write(records)
    media = {}
    for place, frames in enumerate((20, 40)):
        file = Path(f"{place}.mp4")
        write_frames(
            [(step, np.full((32, 32, 3), 5 * step, np.uint8)) for step in range(frames)], file, ending="", fps=10
        )
        media[place] = {"video": f"data:video/mp4;base64,{base64.b64encode(file.read_bytes()).decode()}"}
    table = episodes_table(records, lambda record: "", media, twin_places(records))
    Path("report.html").write_bytes(page_html(Page("twins", {}, (), script_json(table), 2)))
    opened(browser, f"#episode-{anchor_of(records[1])}")
    videos = "[...document.querySelectorAll('dialog video')]"
    browser.wait(f"{videos}.length === 2 && {videos}.every(each => each.readyState > 1)")
    assert browser.run(f"{videos}.some(each => each.controls)") is False
    seek = (
        "(() => { const bar = document.querySelector('.together input');"
        " bar.value = 1.5; bar.dispatchEvent(new Event('input')); })()"
    )
    browser.run(seek)
    browser.wait(f"{videos}.every(each => !each.seeking && Math.abs(each.currentTime - 1.5) < 0.05)")
    browser.run("document.querySelector('.together button').click()")
    browser.wait(f"{videos}.every(each => !each.paused || each.ended) && {videos}[0].currentTime > 1.7")
    browser.run("document.querySelector('.together button').click()")
    browser.wait(f"{videos}.every(each => each.paused)")
    one, other = browser.run(f"{videos}.map(each => each.currentTime)")
    assert abs(one - other) < 0.4
    # Beyond the end of the shorter one it waits there.
    browser.run(seek.replace("1.5", "4"))
    browser.wait(
        f"{videos}.every(each => !each.seeking) && {videos}[0].currentTime > 3.9 && {videos}[1].currentTime < 3.3"
    )
    browser.run("document.querySelector('.twins a').click()")
    browser.wait("document.querySelector('#episode-title').textContent.startsWith('a_task, benign')")
    assert browser.run("document.querySelector('dialog video').controls")


def test_hostile_texts_do_nothing(browser: Browser) -> None:
    text = "</script><img src=x onerror='document.title=1'><script>document.title=1</script>"
    write([record_of(0, instruction=text, message=text, policy="a:b")])
    found = page()
    opened(browser, f"#episode-{found.data['anchors'][0]}")
    assert text in browser.run("document.querySelector('dialog').innerText")
    assert browser.run("document.title") == "a:b on libero_goal"
    assert browser.run("document.images.length") == 0


def test_the_page_is_printed(browser: Browser, both: Path) -> None:
    opened(browser, folder=both)
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 20_000
    assert browser.run("document.getElementById('episode-printed').textContent") == "Printed are 152 of 152 episodes."


def test_of_many_rows_the_first_are_printed_and_that_is_said(browser: Browser) -> None:
    page_of(many(600))
    opened(browser)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.querySelectorAll('tr.row').length") == 500
    said = browser.run("document.getElementById('episode-printed').textContent")
    assert said == "Printed are the first 500 of 600 rows that were found, of 600 episodes."


IN_SIGHT = """
[...document.querySelectorAll('th.kept')].map(each => each.getBoundingClientRect())
    .every(place => place.left >= 0 && place.right <= window.innerWidth)
"""
"""Whether the columns of rates and verdicts are within the width of the window."""


def test_rates_and_verdicts_are_in_sight_on_a_phone(browser: Browser, both: Path) -> None:
    opened(browser, width=390, folder=both)
    assert browser.run("document.querySelectorAll('th.kept').length") > 0
    assert browser.run(IN_SIGHT)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["light", "narrow, dark"])
def test_everybody_can_read_it(browser: Browser, both: Path, width: int, dark: bool) -> None:
    """Assert that axe-core finds no serious fault, and that nothing is wider than the window."""
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    anchors = Parsed((both / "report.html").read_text()).data["anchors"]
    for anchor in ("", f"#episode-{anchors[30]}"):
        opened(browser, anchor, width, dark, both)
        assert browser.run("document.documentElement.scrollWidth <= window.innerWidth")
        browser.run("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        browser.run((files(axe) / "axe.min.js").read_text(encoding="utf-8") + "; 0")
        told = browser.run(
            "axe.run().then(found => found.violations.filter(v => ['serious', 'critical'].includes(v.impact))"
            ".map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 200), v.nodes[0].failureSummary]))"
        )
        assert told == []


def test_the_tables_are_there_without_javascript(browser: Browser, both: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.call("Page.navigate", url=(both / "report.html").as_uri())
        time.sleep(0.5)
        said = str(browser.run("document.body.innerText"))
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
    assert "needs JavaScript" in said
    assert "second:policy" in said
    assert "camera" in said
