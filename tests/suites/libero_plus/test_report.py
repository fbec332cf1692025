"""LIBERO-Plus's part of the report: its Table 10 for people, and all of it for programs."""

import dataclasses
import json
from pathlib import Path

import pytest

from pytest_vla.reports.loaded import load
from pytest_vla.reports.text import block_lines
from pytest_vla.suites.libero_plus import report as plus_report
from pytest_vla.suites.libero_plus.report import DIMENSIONS, ModelPlus, make_plus, plus_blocks, plus_table
from tests.support.data import data_root
from tests.support.golden import check_golden
from tests.support.libero_plus import PLAIN, RAMEKIN, STOVE, episode, records
from tests.support.reports import RESULTS, report, write


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_leaderboard_for_people(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # Its list may lie somewhere on this machine.
    monkeypatch.setattr(plus_report, "_section_unavailable", lambda *_: None)
    write(records(), planned=3)
    report()
    text = capsys.readouterr().out
    check_golden(Path(__file__).with_name("golden") / "report.txt", text)
    assert max(map(len, text.splitlines())) <= 100


def test_all_of_it_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    write(records())
    write([episode(f"{STOVE}_add_3", False, None, protocol="upstream")], run="b-run")
    report("--format=json")
    whole = json.loads(capsys.readouterr().out)
    model, upstream = whole["libero_plus"]
    assert (model["protocol"], upstream["protocol"], upstream["dimensions"]["layout"]["sr"]) == ("paper", "upstream", 0)
    assert (model["entries"], model["of_list"]) == (7, 10_030)
    assert list(model["dimensions"]) == list(DIMENSIONS)
    camera = model["dimensions"]["camera"]
    assert (camera["n"], camera["sr"], camera["of_list"], camera["weighted"]) == (2, 50, 1599, None)
    assert camera["interval"][0] < 50 < camera["interval"][1]
    assert model["dimensions"]["light"]["errors"] == {"policy-raised": 1}
    assert (model["total"]["n"], model["total"]["of_list"]) == (6, 10_030)
    assert (model["total"]["sr"], model["total"]["weighted"], model["total"]["missing"]) == (None, None, 75)
    assert [(each["level"], each["n"]) for each in model["levels"]] == [
        (1, 1),
        (2, 1),
        (3, 0),
        (4, 0),
        (5, 3),
        (None, 1),
    ]
    assert {"dimension": "robot", "level": 1, "n": 1, "sr": 100}.items() <= model["cells"][1].items()
    assert {"dimension": "camera", "suite": "libero_spatial", "of_list": 376}.items() <= model["suites"][0].items()
    assert {"dimension": "camera", "name": "C1-distance", "n": 1}.items() <= model["sub_dimensions"][0].items()
    assert {each["suite"] for each in whole["models"]} == {"libero_plus_goal", "libero_plus_spatial"}


def test_what_of_the_list_cannot_be_made_is_told_where_it_is_at_hand() -> None:
    write(records())
    found = make_plus(load([], RESULTS), None)
    nowhere = "the number of unavailable entries is unknown: LIBERO-Plus's list was not found (PYTEST_VLA_DATA)"
    if found[0].unavailable is None:
        assert nowhere in list(block_lines(plus_blocks(found)))
    (model,) = found
    told = dataclasses.replace(model, unavailable={"needs a checkout": 1910})
    assert "unavailable in the suites that were run: 1,910: needs a checkout" in list(block_lines(plus_blocks([told])))
    assert nowhere in list(block_lines(plus_blocks([dataclasses.replace(model, unavailable=None)])))
    assert plus_table(dataclasses.replace(model, unavailable=None))["unavailable"] is None


def test_the_list_itself_says_how_many() -> None:
    root = data_root()
    if root is None or not (root / "libero_plus").is_dir():
        pytest.skip("needs LIBERO-Plus's list: put it at ../shared/data/libero_plus")
    write(records())
    (model,) = make_plus(load([], RESULTS), root)
    assert model.unavailable is not None
    assert 0 <= sum(model.unavailable.values()) < 2402 + 2591, "those of the two suites that were run"
    assert plus_table(model)["unavailable"] == dict(model.unavailable)


def test_where_all_suites_were_run_the_lists_counts_weigh() -> None:
    rewritten = [f"{task}_language_5_{PLAIN}" for task in (RAMEKIN, "pick_up_the_milk_and_place_it_in_the_basket")]
    names = [
        *rewritten,
        f"{STOVE}_language_5_{PLAIN}",
        f"KITCHEN_SCENE8_put_both_moka_pots_on_the_stove_language_5_{PLAIN}",
    ]
    write([episode(name, name in rewritten) for name in names])
    (model,) = make_plus(load([], RESULTS), None)
    assert isinstance(model, ModelPlus)
    assert plus_table(model)["dimensions"]["language"]["weighted"] == pytest.approx(100 * (390 + 354) / 1537)
    (weighted,) = [line.split() for line in block_lines(plus_blocks([model])) if line.startswith("whole list  ")]
    assert weighted[:5] == ["whole", "list", "-", "-", "48.4"]
    low, high = plus_table(model)["dimensions"]["language"]["weighted_interval"]
    assert low < 48.4 < high
