"""A site's index in a real Chromium without a network: nothing is loaded, nothing is too wide, axe finds no fault."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vla.reports.site.entries import EntryVerdict
from pytest_vla.reports.site.page import index_html
from tests.support.chromium import PROGRAMS, Browser, check_readable, chromium, chromium_program
from tests.support.sites import entry_of, part_of, result_of

pytestmark = pytest.mark.skipif(chromium_program() is None, reason=f"none of {', '.join(PROGRAMS)} is installed")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the index of thirty runs: three models, a long name among them, two suites, parts, breaks, verdicts."""
    long = "a_package.with_a_long_name.policies:the_policy_of_the_third_experiment"
    verdict = EntryVerdict("regression", False, "gate: regression (margin 5 points): failed by regression")
    entries = [
        entry_of(
            day,
            part_of(3, model=model) if day % 7 == 6 else result_of(day % 20, model=model, conditions=conditions),
            result_of(model=model, group="varied", policies=(f"{day:08d}",)),
            model=model,
            verdict=verdict if day % 3 == 0 else None,
        )
        for day in range(1, 31)
        for model in [("tiny", "expert", long)[day % 3]]
        for conditions in [{"protocol.max_steps": "300" if day < 15 else "400"}]
    ]
    file = tmp_path_factory.mktemp("site") / "index.html"
    file.write_bytes(index_html("Runs", entries[::-1], {entry.name for entry in entries}, ["a note"]))
    return file


IN_SIGHT = """
[...document.querySelectorAll('th.kept')].map(each => each.getBoundingClientRect())
    .every(place => place.left >= 0 && place.right <= window.innerWidth)
"""
"""Whether the columns of rates and verdicts are within the width of the window."""


def test_rates_and_verdicts_are_in_sight_on_a_phone(browser: Browser, index: Path) -> None:
    browser.open(index.as_uri(), 390)
    assert browser.run("document.querySelectorAll('th.kept').length") > 0
    assert browser.run(IN_SIGHT)


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["light", "narrow, dark"])
def test_everybody_can_read_it(browser: Browser, index: Path, width: int, dark: bool) -> None:
    check_readable(browser, index, width, dark)
