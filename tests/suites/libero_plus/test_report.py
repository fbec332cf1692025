"""LIBERO-Plus's part of the report: its Table 10 for people, and all of it for programs."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports.loaded import load
from pytest_vla.reports.text import block_lines
from pytest_vla.suites.libero_plus import report as plus_report
from pytest_vla.suites.libero_plus.names import parse_name
from pytest_vla.suites.libero_plus.report import (
    DIMENSIONS,
    ModelPlus,
    difficulty_rows,
    make_plus,
    plus_blocks,
    plus_table,
)
from tests.support.data import data_root
from tests.support.golden import check_golden
from tests.support.libero_plus import PLAIN, RAMEKIN, STOVE, episode, records
from tests.support.reports import RESULTS, report, write

MILK = "pick_up_the_milk_and_place_it_in_the_basket"


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


# The further tables and figures, for --paper=libero-plus.


def rows_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, list[list[Any]]]:
    report("--format=json", "--paper=libero-plus", *arguments)
    found = json.loads(capsys.readouterr().out)["paper"]["tables"]
    return {each["table"]: [row["cells"] for row in each["rows"] if row["from"] == "own"] for each in found}


def test_success_by_level_and_weighted_as_the_paper_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Language in every suite; the paper swaps two suites' counts, so its mean is not the list's."""
    bases = (RAMEKIN, MILK, STOVE, "KITCHEN_SCENE8_put_both_moka_pots_on_the_stove")
    write([episode(f"{base}_language_5_{PLAIN}", base != MILK, 1 + place) for place, base in enumerate(bases)])
    found = rows_of(capsys)
    assert found["fig9"] == [["random", 100.0, 0.0, 100.0, 100.0, None, None]]
    assert found["fig10"] == [["language", "random", 100.0, 0.0, 100.0, 100.0, None, None]]
    (row,) = found["10-weights"]
    assert row[3] == pytest.approx(100 * (354 + 410 + 383) / (354 + 390 + 410 + 383))
    assert row[1:3] + row[4:] == [None] * 7


def test_sub_dimensions_that_names_do_not_tell(capsys: pytest.CaptureFixture[str]) -> None:
    texts = {
        5: "Please be so kind as to turn on the stove over there",
        6: "Make the cooking surface hot",
        7: "If the stove is off, turn on the stove",
    }
    made = [episode(f"{STOVE}_language_{n}_{PLAIN}", n != 6, instruction=text) for n, text in texts.items()]
    for number, differs in ((3, "diffuse"), (4, "diffuse"), (5, "castshadow, dir"), (6, "")):
        one = episode(f"{STOVE}_light_{number}", number != 4)
        one.variation["parameters"].update({"differs": differs} if differs else {})
        made.append(one)
    write(made)
    assert rows_of(capsys, "--table=sub-dimensions")["sub-dimensions"] == [
        ["language", "R1-distraction", "random", 1, 100.0],
        ["language", "R2-common-sense", "random", 1, 0.0],
        ["language", "R3-reasoning", "random", 1, 100.0],
        ["light", "L-light", "random", 1, 100.0],
        ["light", "L1-diffuse", "random", 2, 50.0],
        ["light", "L2-direction+L4-shadow", "random", 1, 100.0],
    ]


ARMS = [f"{STOVE}_view_0_0_100_0_0_initstate_{number}" for number in range(1, 4)]


def test_difficulty_is_counted_and_fitted_from_ones_own_models(capsys: pytest.CaptureFixture[str]) -> None:
    """Of four models a fails nothing and d everything."""
    for place, policy in enumerate("abcd"):
        write([episode(name, place <= at, at + 2, policy=policy) for at, name in enumerate(ARMS)], run=policy)
    found = rows_of(capsys)
    assert found["difficulty"][0][:9] == ["robot", 3, 0, 1, 1, 1, 0, 3.0, 3.0]
    entries = {row[0]: row[1:] for row in found["entries"]}
    assert [entries[name][2] for name in ARMS] == [4, 3, 2], "levels: 1 and how many failed"
    hardness = [entries[name][4] for name in ARMS]
    assert sorted(hardness, reverse=True) == hardness
    abilities = {row[0]: row[2] for row in found["ability"]}
    assert sorted(abilities, key=lambda name: -abilities[name]) == list("abcd")
    report("--paper=libero-plus")
    assert "Table entries. Each" not in capsys.readouterr().out, "thousands of rows are for files"
    report("--paper=libero-plus", "--table=entries", "--format=csv")
    assert capsys.readouterr().out.count("_initstate_") == 3


def test_an_entry_that_some_models_have_not_run_has_no_level() -> None:
    noise = f"{STOVE}_{PLAIN}_noise_11"
    models = {
        policy: [(episode(name, True), parse_name(name)) for name in (*ARMS[:1], *some)]
        for policy, some in (("a", [noise]), ("b", []))
    }
    rows, told = difficulty_rows(models)
    assert [row[2:4] for row in rows["entries"]] == [(2, 1), (1, None)]
    assert [row[1] for row in rows["difficulty"]] == [1]
    assert [(note.text[:6], note.tables) for note in told] == [("1 of 2", ("difficulty", "entries"))]
    assert difficulty_rows({"a": models["a"]}) == ({}, [])


def test_all_episodes_of_an_entry_make_its_difficulty() -> None:
    name = f"{STOVE}_{PLAIN}_noise_11"
    models = {
        model: [(episode(name, success), parse_name(name)) for success in some]
        for model, some in (("a", (False, False, False, True)), ("b", (True,)))
    }
    (row,) = difficulty_rows(models)[0]["entries"]
    assert row[2:4] == (2, 3), "of the last one alone it would be L1"


def test_an_entry_under_another_protocol_is_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    made = [
        episode(f"{STOVE}_{PLAIN}_noise_11", policy == "a", protocol=protocol, policy=policy)
        for policy, protocol in (("a", "paper"), ("b", "paper"), ("a", "upstream"))
    ]
    write(made)
    found = rows_of(capsys, "--table=entries")["entries"]
    assert [row[1:4] for row in found] == [["noise", 2, 3]], "of one model alone under upstream's: none"


def test_actions_are_counted_in_bins(capsys: pytest.CaptureFixture[str]) -> None:
    actions = np.zeros((9, 7))
    actions[:, 0], actions[:3, 6], actions[3:, 6] = -0.95, -1.0, 1.5
    path, none = np.zeros((10, 3)), np.zeros((10, 0))
    made = episode(f"{STOVE}_{PLAIN}_noise_11", True)
    write([(made, Trajectory(none, none, path, actions)), episode(f"{STOVE}_{PLAIN}_noise_12", True)])
    rows = {row[2]: row for row in rows_of(capsys, "--table=fig11")["fig11"]}
    assert list(rows) == ["x", "y", "z", "roll", "pitch", "yaw", "gripper"]
    assert rows["x"] == ["noise", "random", "x", 100.0, *[0.0] * 9]
    assert rows["gripper"][3:] == pytest.approx([100 / 3, *[0.0] * 8, 200 / 3]), "beyond the range: in the last one"
    assert rows["y"][3 + 5] == 100.0
