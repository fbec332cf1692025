"""The page of a search: what stands on it, that no text breaks it, that it says when little is known."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.plan.manifests import load_suite
from pytest_vla.reports import fuzz as failures
from pytest_vla.reports.fuzz import FoundSearch, page_of, search_html, task_table, words_of
from pytest_vla.show.variations import SceneView
from pytest_vla.vary.chosen import Change
from tests.support.page import Parsed
from tests.support.searches import OPTIONS, Params, searched

SUITE = load_suite("tabletop")
BOWL, STOVE = SUITE.task("put_the_bowl_on_the_stove"), SUITE.task("turn_on_the_stove")
DIMENSIONS = ("camera", "light", "action", "language")


def azimuth(params: Params) -> float:
    return float(params.get("camera.azimuth", {}).get("azimuth_deg", 0))


def breaks(params: Params) -> bool:
    return abs(azimuth(params)) > 20 or params.get("action.delay", {}).get("steps", 0) > 3


@pytest.fixture(autouse=True)
def painted(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[Candidate]]:
    """Painted pictures in the renderer's place, and what was asked of it."""
    asked: list[Sequence[Candidate]] = []

    def paint(candidates: Sequence[Candidate]) -> list[SceneView]:
        asked.append(candidates)
        picture = np.zeros((8, 8, 3), np.uint8)
        return [
            SceneView(None, "the change is not visible") if each.dimensions == ("action",) else SceneView(picture)
            for each in candidates
        ]

    monkeypatch.setattr(failures, "scene_pictures", paint)
    return asked


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> FoundSearch:
    return searched(
        tmp_path_factory.mktemp("search"),
        [BOWL, STOVE],
        breaks,
        120,
        DIMENSIONS,
        aside=lambda params: "the expert does not do it either" * ("action.noise" in params),
        flaky=lambda params: "action.delay" in params,
        options={**OPTIONS, "against": "the.one:before"},
        rival=lambda params: azimuth(params) > 0,
    )


def test_all_that_was_found_stands_on_it(search: FoundSearch) -> None:
    page = page_of(search)
    found = [each for seen in search.seen.values() for each in seen.found]
    assert len(page.failures) == len(found) > 3
    is_flaky = [each.often.startswith("flaky") for each in page.failures]
    assert is_flaky == sorted(is_flaky), "what always fails comes first"
    assert set(is_flaky) == {True, False}
    first = page.failures[0]
    (table,) = first.block.tables
    ((kind, name, passes, fails),) = table.rows
    assert first.title == f"{kind} {name}={fails}"
    assert abs(float(passes)) < 20 < abs(float(fails)) < 23
    assert [shot.about for shot in first.shots] == ["without any change", "at its smallest", "as it was found"]
    assert all(shot.source.startswith("data:image/webp;base64,") for shot in first.shots)
    assert {each.rival for each in page.failures if "camera" in each.title} == {
        "; the.one:before fails too", "; the.one:before succeeds"
    }  # fmt: skip
    command = first.facts["again"]
    assert re.fullmatch(
        r"<code>pytest &#39;tabletop::test_episode\[\w+-camera.azimuth-x[0-9a-f]{8}-seed0\]&#39; "
        r"--vla-cases=fuzz_cases.toml --vla-model=a.policy:policy</code>",
        str(command),
    )
    assert page.failures[-1].facts["again"] == "in no file, as it does not fail under all run seeds"


def test_it_is_whole_and_small(search: FoundSearch) -> None:
    text = search_html(search).decode()
    found = Parsed(text)
    assert found.faults == []
    assert len(found.ids) == len(set(found.ids))
    links = {about["href"] for tag, about in found.elements if tag == "a"}
    assert {link[1:] for link in links} <= set(found.ids)
    assert {"summary", "failures", "failure-1", "ways", "coverage", "shares", "aside"} <= set(found.ids)
    for tag, about in found.elements:
        assert about.get("src", "data:").startswith("data:")
        assert not [name for name in about if name.startswith("on")]
        assert tag not in ("script", "iframe")
        assert tag != "img" or about["alt"]
        assert tag != "th" or about.get("scope")
    tables = sum(tag == "table" for tag, _ in found.elements)
    assert tables == sum(tag == "caption" for tag, _ in found.elements)
    assert re.findall(r"@import|url\(", text) == []
    assert len(re.sub(r'base64,[^"]*', "", text)) < 250_000


def test_its_numbers_are_those_of_the_search(search: FoundSearch) -> None:
    rows = Parsed(search_html(search).decode()).rows
    for task, seen in search.seen.items():
        rate = next(row for row in rows if row[0] == task and "%" not in row[1] and " of " in row[1])
        assert rate[1] == f"{seen.failed} of {seen.failed + seen.passed}"
        assert rate[2].startswith(f"{100 * seen.failed / (seen.failed + seen.passed):.1f} [")
        assert rate[5] == f"{seen.guided_failed} of {seen.guided}"
        assert [task, "the expert does not do it either", str(sum(seen.aside.values()))] in rows
        camera = search.retold.tasks[task].coverage.pairs["camera", "camera"]
        assert any(row[0] == "camera" and f"{camera.failed}/{camera.tried}" in row for row in rows)
    assert any(row == ["even", "60", *row[2:]] for row in rows)
    text = search_html(search).decode()
    assert "so not a rate" in text
    assert "What matters" in text


def test_only_the_first_failures_are_drawn(
    search: FoundSearch, painted: list[Sequence[Candidate]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "PICTURED", 2)
    page = page_of(search)
    assert [bool(each.shots) for each in page.failures][:3] == [True, True, False]
    (asked,) = painted
    assert len(asked) == 6
    assert [len(each.changes) for each in asked[::3]] == [0, 0]


def test_where_nothing_fails_it_says_so(tmp_path: Path, painted: list[Sequence[Candidate]]) -> None:
    search = searched(tmp_path, [BOWL], lambda params: False, 6, ("camera",), guided=False)
    page = page_of(search)
    assert page.texts == ("None was found.",)
    assert painted == []
    text = search_html(search).decode()
    assert "at least 30 are needed" in text
    assert "not tried" in text
    assert Parsed(text).faults == []


HOSTILE = "</code><script>alert(1)</script>'\"&\u202e"


def test_no_text_breaks_it(tmp_path: Path) -> None:
    search = searched(
        tmp_path,
        [BOWL],
        lambda params: abs(azimuth(params)) > 20,
        24,
        ("camera", "action"),
        aside=lambda params: f"{HOSTILE}: {len(params)}" if "action.noise" in params else "",
        options={**OPTIONS, "vla_model": HOSTILE, "output": HOSTILE},
    )
    text = search_html(search).decode()
    assert "<script" not in text
    assert "\u202e" not in text
    assert Parsed(text).faults == []


def test_words_say_how_much() -> None:
    def words(kind: str, **params: object) -> str:
        return words_of(Candidate(BOWL, 0, (Change(kind, params),)))

    assert words("camera.azimuth", azimuth_deg=-23.456789) == "camera.azimuth azimuth_deg=-23.46"
    assert words("robot.joints", offset=[0, 0, 0.31, 0, 0, 0, 0]) == "robot.joints offset[2]=0.31 rad"
    assert words("language.words", instruction="move it") == 'language.words instruction="move it"'
    assert words("layout.distractors", distractor_1=["food_box", 0.1, 0.2, 3.0]) == (
        "layout.distractors distractor_1=food_box"
    )
    assert words_of(Candidate(BOWL, 0)) == "no change"


def test_programs_get_the_same(search: FoundSearch) -> None:
    told = search.retold.tasks[BOWL.id]
    table = task_table(BOWL.id, search.seen[BOWL.id], told)
    even = told.coverage.kinds["camera.azimuth"].even
    azimuths = table["coverage"]["kinds"]["camera.azimuth"]
    assert azimuths["even"] == [even.tried, even.failed, even.aside]
    assert len(azimuths["edges"]) == len(azimuths["bins"]) + 1 == 11
    assert [sum(each["even"][at] for each in azimuths["bins"]) for at in range(3)] == azimuths["even"]
    assert set(table["coverage"]["dimensions"]) >= {"camera", "light+camera"}
    assert table["sources"]["even"] == [30, table["fails"], sum(table["aside"].values())]
    assert table["shares"]["scenes"] == table["fails"] + table["passes"]
