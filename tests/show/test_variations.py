"""`pytest-vla show --vary`: what stands beside what, and that pictures are drawn as episodes begin."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_vla.cli import main
from pytest_vla.errors import EpisodeError, RedrawError, UnchangedError, VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import ModelEdit, Variation
from pytest_vla.show import variations as vary_sheets
from pytest_vla.show.sheet import SheetCell
from pytest_vla.show.tasks import Drawing
from pytest_vla.show.variations import in_short, match_labels, vary_sheet
from pytest_vla.vary import registry
from pytest_vla.vary.kind import MOST_DRAWS, VariationListing
from tests.support.coloured import BLUE, ColouredWorld
from tests.support.worlds import tabletop_world

STOVE, BOWL = "turn_on_the_stove", "put_the_bowl_on_the_plate"


def described(cell: SheetCell | None) -> tuple[Any, ...] | None:
    """A picture's level and camera, None for words, the cell's texts and its tone."""
    if cell is None:
        return None
    _, camera, blue = cell.picture[0, 0]
    seen = None if cell.picture.shape[0] < 10 else ((BLUE - int(blue)) // 10, int(camera))
    return seen, cell.name, cell.label, cell.tone


def shown(drawn: dict[str, Any]) -> list[list[Any]]:
    return [[described(cell) for cell in row] for row in drawn["rows"]]


def tasks(*names: str) -> list[Task]:
    return [load_suite("tabletop").task(name) for name in names]


def test_each_kind_has_a_row_with_the_task_as_it_is_beside_its_levels(drawn: dict[str, Any]) -> None:
    vary_sheet(tasks(STOVE), "camera.distance,camera.elevation:1-2", None, Drawing())
    first, second = shown(drawn)
    assert first == [
        ((0, 0), "benign", '"turn on the stove"', "plain"),
        ((1, 0), "camera.distance-L1", "factor 1.2", "plain"),
        ((2, 0), "camera.distance-L2", "factor 1.4", "plain"),
        ((3, 0), "camera.distance-L3", "factor 1.6", "plain"),
        ((4, 0), "camera.distance-L4", "factor 1.8", "plain"),
        ((5, 0), "camera.distance-L5", "factor 2", "plain"),
    ]
    assert second[0] is None, "the task as it is stands on the sheet once"
    assert [cell[1:3] for cell in second[1:]] == [
        ("camera.elevation-L1", "elevation 6 deg"),
        ("camera.elevation-L2", "elevation 12 deg"),
    ]
    assert (drawn["title"], drawn["subtitle"]) == (
        "turn on the stove",
        "tabletop/turn_on_the_stove, seed 0, agentview",
    )
    resets = ColouredWorld.resets()
    assert resets[:2] == [(STOVE, "", 0, 0, True), (STOVE, "camera.distance-L1", 0, 0, True)]
    assert len(resets) == 8, "the task as it is was drawn once"


def test_tasks_seeds_and_cameras_have_rows_of_their_own(drawn: dict[str, Any]) -> None:
    drawing = Drawing(cameras=("frontview", "agentview"), size=(40, 50))
    vary_sheet(tasks(STOVE, BOWL), "robot:4", (0, 4), drawing)
    rows = shown(drawn)
    assert len(rows) == 8
    assert [row[0][:3] for row in rows[:3]] == [
        ((0, 2), "benign", 'tabletop/turn_on_the_stove, seed 0, frontview, "turn on the stove"'),
        ((0, 0), "benign", 'tabletop/turn_on_the_stove, seed 0, agentview, "turn on the stove"'),
        ((0, 2), "benign", 'tabletop/turn_on_the_stove, seed 4, frontview, "turn on the stove"'),
    ]
    assert [row[1][0] for row in rows] == [(4, 2), (4, 0)] * 4
    assert {cell.picture.shape for row in drawn["rows"] for cell in row} == {(40, 50, 3)}
    assert drawn["title"] == "variations: robot:4"
    assert (STOVE, "robot.joints-L4", 1, 4, True) in ColouredWorld.resets(), "seed 4 is init state 4 mod 3"
    with pytest.raises(VlaError, match="tabletop/turn_on_the_stove has no camera fly"):
        vary_sheet(tasks(STOVE), "robot:4", None, Drawing(cameras=("fly",)))


def test_what_is_only_told_or_done_is_words_and_not_drawn(drawn: dict[str, Any]) -> None:
    vary_sheet(tasks(STOVE), "language.blank,language.other_goal,language.words:1,action.delay:2", None, Drawing())
    blank, other, words, delay = shown(drawn)
    assert blank[0] == (None, "benign", '"turn on the stove"', "plain")
    assert [row[0] for row in (other, words, delay)] == [None] * 3
    assert blank[1] == (None, "language.blank", '"", no instruction', "plain")
    assert other[1][2].startswith('"')
    assert words[1][2] == f'"{vary_sheets.find_variation(tasks(STOVE)[0], "language.words-L1", 0).instruction}"'  # type: ignore[union-attr]
    told = "no picture, it changes actions: steps 2, milliseconds 100"
    assert delay[1] == (None, "action.delay-L2", told, "plain")
    assert ColouredWorld.resets() == [(STOVE, "", 0, 0, True)]
    assert ColouredWorld.log[-1] == ("close",)


def test_beside_words_the_task_is_words_and_its_picture_stands_where_the_first_pictures_are(
    drawn: dict[str, Any],
) -> None:
    vary_sheet(tasks(STOVE), "language.blank,camera.distance:1,light.diffuse:1", (0, 1), Drawing())
    assert [row[0] and row[0][:2] for row in shown(drawn)] == [(None, "benign"), ((0, 0), "benign"), None] * 2


def test_a_joint_variation_is_one_picture_with_its_instruction(drawn: dict[str, Any]) -> None:
    vary_sheet(tasks(STOVE), "camera.distance:1-5+language.words:1", None, Drawing())
    for row in shown(drawn):
        assert [cell[2].split("; ")[1:] for cell in row[1:]] == [['"switch on the stove"']] * len(row[1:])
    row = shown(drawn)[0]
    assert [cell[1] for cell in row[1:]] == [f"camera.distance-L{level}+language.words-L1" for level in range(1, 6)]


def test_parts_of_a_kind_are_wrapped_below_each_other(drawn: dict[str, Any]) -> None:
    vary_sheet(tasks(STOVE), "language.paraphrase", None, Drawing())
    rows = shown(drawn)
    assert [len(row) for row in rows] == [6] * 8 + [4]
    assert [row[0] is None for row in rows] == [False] + [True] * 8


def test_what_a_task_cannot_have_is_told_in_its_place(drawn: dict[str, Any]) -> None:
    vary_sheet(tasks(STOVE), "layout.displacement:1,camera.distance:1", None, Drawing())
    (_, displaced), (_, distance) = shown(drawn)
    assert displaced == (
        *(None, "layout.displacement-L1"),
        *("none of the task's objects stands on the workspace", "bad"),
    )
    assert distance[0] == (1, 0)
    broken: list[Exception] = [VlaError("camera.distance-L1: no"), EpisodeError("physics-nan", "at 3")]
    for error, text in zip([*broken, UnchangedError("as it is")], ["no", "physics-nan: at 3", "as it is"], strict=True):
        ColouredWorld.broken = {"camera.distance-L1": error}
        vary_sheet(tasks(STOVE), "camera.distance:1", None, Drawing())
        assert shown(drawn)[0][1] == (None, "camera.distance-L1", text, "bad")
    ColouredWorld.broken = {"": VlaError("no such data")}
    with pytest.raises(VlaError, match="no such data"):
        vary_sheet(tasks(STOVE), "camera.distance:1", None, Drawing())


def test_a_variation_is_drawn_anew_until_the_task_is_in_sight(drawn: dict[str, Any]) -> None:
    label = "camera.orientation-L3"
    first = vary_sheets.find_variation(tasks(STOVE)[0], label, 0)
    assert first is not None
    assert first.redraw is not None
    ColouredWorld.unseen = {label: 2}
    vary_sheet(tasks(STOVE), label, None, Drawing())
    assert shown(drawn)[0][1] == ((3, 0), label, in_short(first.redraw(2).parameters), "plain")
    ColouredWorld.unseen, ColouredWorld.log = {label: 99}, []
    vary_sheet(tasks(STOVE), label, None, Drawing())
    seen, _, told, tone = shown(drawn)[0][1]
    last = in_short(first.redraw(MOST_DRAWS - 1).parameters)
    assert told == f"{last}; out of sight in 10 draws: plate_1 is hidden"
    assert (seen, tone) == ((3, 0), "bad"), "the last draw is there to be looked at"
    assert len(ColouredWorld.resets()) == 1 + MOST_DRAWS
    ColouredWorld.broken = {label: RedrawError("two objects overlap")}
    vary_sheet(tasks(STOVE), label, None, Drawing())
    assert shown(drawn)[0][1] == (None, label, "cannot be had in 10 draws: two objects overlap", "bad")
    ColouredWorld.unseen, ColouredWorld.broken = {"camera.distance-L1": 99}, {}
    vary_sheet(tasks(STOVE), "camera.distance:1", None, Drawing())
    assert shown(drawn)[0][1][2] == "factor 1.2; out of sight in its one draw: plate_1 is hidden"


def test_a_goal_that_holds_at_the_start_and_a_picture_that_is_the_same_are_told(drawn: dict[str, Any]) -> None:
    ColouredWorld.holds = True
    vary_sheet(tasks(STOVE), "camera.distance:1", None, Drawing())
    told = "factor 1.2; the goal holds already after settling"
    assert shown(drawn)[0][1] == ((1, 0), "camera.distance-L1", told, "bad")
    ColouredWorld.holds = False
    vary_sheet(tasks(STOVE), "pro.swap", None, Drawing())
    assert shown(drawn)[0][1][2].endswith("; the same picture as benign"), "the fake world knows levels only"


def test_probes_of_whether_a_policy_looks_have_pictures(drawn: dict[str, Any]) -> None:
    vary_sheet(tasks("put_the_bowl_on_the_plate", STOVE), "camera.blackout.wrist,layout.removed", None, Drawing())
    cells = [cell for row in shown(drawn) for cell in row if cell and cell[1] != "benign"]
    # Of the fake world all are alike.
    assert [(cell[1], cell[2].partition(";")[0]) for cell in cells] == [
        ("camera.blackout.wrist", "view wrist"),
        ("layout.removed", "objects bowl_1"),
        ("camera.blackout.wrist", "view wrist"),
        ("layout.removed", "the goal places no object that could be removed"),
    ]


def test_too_much_is_refused_before_a_picture_is_drawn(drawn: dict[str, Any]) -> None:
    with pytest.raises(VlaError, match="1002 pictures are too many"):
        vary_sheet(tasks(STOVE), "camera.distance", range(167), Drawing())
    with pytest.raises(VlaError, match="pixels is too large"):
        vary_sheet(tasks(STOVE), "camera.distance", None, Drawing(size=(9000, 9000)))
    with pytest.raises(VlaError, match=r"there is no variation 'camara'\. Did you mean camera"):
        vary_sheet(tasks(STOVE), "camara", None, Drawing())
    assert ColouredWorld.log == []


def test_suites_that_are_varied_by_themselves_are_chosen_from_by_label(
    drawn: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {
        label: Variation(label, "camera", kind, level, {"h": 30}, model=(ModelEdit((), lambda model, scene: None),))
        for label, kind, level in (("camera-view_1", "C1", 1), ("camera-view_2", "C2", 2), ("camera-view_11", "C1", 4))
    }
    monkeypatch.setattr(registry, "listing", lambda name: VariationListing(lambda task, protocol: made))
    task = load_suite("libero_plus_goal").task(STOVE)
    vary_sheet([task], "camera-view_1*, CAMERA-VIEW_2", None, Drawing())
    rows = shown(drawn)
    assert [[cell[:3] for cell in row[1:]] for row in rows] == [
        [((1, 0), "camera-view_1", "h 30"), ((4, 0), "camera-view_11", "h 30")],
        [((2, 0), "camera-view_2", "h 30")],
    ]
    with pytest.raises(VlaError, match=r"no variation of libero_plus_goal/turn_on_the_stove is 'camera'\. Did you"):
        vary_sheet([task], "camera", None, Drawing())
    with pytest.raises(VlaError, match="--vary is empty; libero_plus_goal has labels such as camera-view_1"):
        vary_sheet([task], " , ", None, Drawing())


def test_labels_are_matched_whole_or_by_wildcards() -> None:
    known = ["", "camera.distance-L1", "camera.distance-L2", "light.shadow-L1"]
    assert match_labels(["*-L1"], known, "it") == ("camera.distance-L1", "light.shadow-L1")
    assert match_labels(["light*", "benign"], known, "it") == ("", "light.shadow-L1"), "in their own order"
    with pytest.raises(
        VlaError, match=r"no variation of run x is 'fly'. It has benign, .*distance-L2 and 1 more. .* \* \?"
    ):
        match_labels(["*", "fly"], known, "run x")


@pytest.mark.parametrize(
    ("known", "told"),
    [
        ([], "It has none."),
        ([""], "It has benign."),
        (["layout.distractors-L1"], "It has layout.distractors-L1."),
        (["", "noise.fog-L1"], "It has benign and noise.fog-L1."),
        (["", "noise.fog-L1", "noise.fog-L2"], "It has benign, noise.fog-L1 and noise.fog-L2."),
        (["", "b-L1", "b-L2", "b-L3", "b-L4"], "It has benign, b-L1, b-L2 and 2 more."),
    ],
)
def test_what_there_is_instead_is_listed_and_no_more(known: list[str], told: str) -> None:
    with pytest.raises(VlaError) as raised:
        match_labels(["x*"], known, "run x")
    assert str(raised.value) == f"no variation of run x is 'x*'. {told} Wildcards are * ? []"


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({}, ""),
        ({"factor": 1.6, "seed": 7, "noise_seed": 8, "name": "long"}, "factor 1.6"),
        ({"camera.distance.factor": 2.0, "light.shadow.strength": 0.123456}, "factor 2, strength 0.123"),
        ({"turn_deg": -36.0, "offset": [0.1] * 7, "axis": [1, 0.5]}, "turn -36 deg, axis 1 0.5"),
        (
            {"norm": 0.1, "rgba": [1, 0, 0, 1], "robot.rest.offset": (0.1,) * 7, "rgb": [1, 0, 0.5]},
            "norm 0.1, rgb 1 0 0.5",
        ),
        ({"yaw": -9.0, "with": [], "moves": {}, "along": ["box_1"] * 4}, "yaw -9, along box_1 box_1 box_1 box_1"),
        ({"distractor_1": ["box", 0.1, 2.0], "whole": True}, "distractor 1 box 0.1 2, whole yes"),
        ({"categories": {"a": "b"}, "none": None, "temperature_k": 8230.4}, "categories a: b, temperature k 8230"),
    ],
)
def test_parameters_are_told_in_short(parameters: dict[str, Any], text: str) -> None:
    assert in_short(parameters) == text
    assert len(in_short({str(at): "word" for at in range(99)})) <= 140


# The command.


def test_show_vary_writes_a_sheet(
    drawn: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["show", f"tabletop/{STOVE}", "--vary", "camera.distance:3, robot:1", "--size=24x32"]) == 0
    assert capsys.readouterr().out == f"{STOVE}.png\n"
    picture = np.asarray(Image.open(f"{STOVE}.png"))
    assert int((picture == (100, 0, BLUE - 30)).all(axis=2).sum()) == 24 * 32
    assert main(["show", f"tabletop/{STOVE}", "--vary", "camera.distanse"]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "Did you mean camera.distance" in err
    with pytest.raises(SystemExit):
        main(["show", f"tabletop/{STOVE}", "--vary="])
    assert "--vary" in capsys.readouterr().err


def test_the_built_in_tasks_are_drawn_under_variations(monkeypatch: pytest.MonkeyPatch) -> None:
    tabletop_world()
    asked: dict[str, Any] = {}
    monkeypatch.setattr(vary_sheets, "sheet", lambda rows, **texts: asked.update(rows=rows))
    vary_sheet(tasks(STOVE), "camera.azimuth:5,noise.fog:5", None, Drawing(size=(96, 96)))
    assert [cell is None for row in asked["rows"] for cell in row] == [False, False, True, False]
    pictures = [cell.picture.astype(int) for row in asked["rows"] for cell in row if cell is not None]
    assert abs(pictures[1] - pictures[0]).mean() > 15
    assert pictures[2].std() < pictures[0].std() * 0.7, "fog takes contrast"
    assert [cell.tone for row in asked["rows"] for cell in row if cell is not None] == ["plain"] * 3
