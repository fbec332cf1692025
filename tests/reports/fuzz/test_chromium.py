"""The page of a search in a real Chromium without a network: nothing is loaded or too wide, axe finds no fault."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.plan.manifests import load_suite
from pytest_vla.reports import fuzz as failures
from pytest_vla.reports.fuzz import search_html
from pytest_vla.show.variations import SceneView
from tests.support.chromium import PROGRAMS, Browser, check_readable, chromium, chromium_program
from tests.support.searches import searched

pytestmark = pytest.mark.skipif(chromium_program() is None, reason=f"none of {', '.join(PROGRAMS)} is installed")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    tasks = [load_suite("tabletop").task(name) for name in ("put_the_bowl_on_the_stove", "turn_on_the_stove")]
    with pytest.MonkeyPatch.context() as patch:
        picture = np.full((64, 64, 3), 120, np.uint8)
        patch.setattr(
            failures, "scene_pictures", lambda some: [SceneView(picture), SceneView(None, "why"), SceneView(picture)]
        )
        search = searched(
            folder,
            tasks,
            lambda params: "camera.azimuth" in params,
            60,
            ("camera", "light", "action"),
            guided=False,
            aside=lambda params: "the expert does not do it either" * ("action.noise" in params),
        )
        patch.setattr(failures, "PICTURED", 1)
        (folder / "search.html").write_bytes(search_html(search))
    return folder / "search.html"


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)], ids=["light", "narrow, dark"])
def test_everybody_can_read_it(browser: Browser, page: Path, width: int, dark: bool) -> None:
    check_readable(browser, page, width, dark)
