"""An examination as a page and as JSON: its numbers, hostile texts, and numbers that are not finite."""

import dataclasses
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.doctor.findings import (
    CODES,
    WELL,
    ClosedLoop,
    ComparedObservation,
    Diagnosis,
    DoctorFinding,
    Examination,
    Replayed,
    Tried,
    examination_table,
)
from pytest_vla.doctor.page import write_page
from pytest_vla.errors import VlaError
from tests.support.page import Parsed

NAN = float("nan")
HOSTILE = (
    "</script><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</pre></figure><style>*{display:none}</style>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202eturned \x00",
)


def made(**changes: Any) -> Examination:
    """Return an examination that found a turned picture and an inverted gripper."""
    generator = np.random.default_rng(0)
    shown = generator.uniform(-1, 1, (400, 7))
    finding = DoctorFinding(
        "VLA-D010",
        "pictures arrive upside down",
        "explained variance rises from 3% to 91%",
        "certain",
        ('seen["agentview_image"] = seen["agentview_image"][::-1, ::-1]',),
        {"gain": 0.88, "unknown": NAN},
    )
    gripper = DoctorFinding("VLA-D040", "the gripper's sign is inverted", "slope -1", "likely", ("chunk[:, 6] *= -1",))
    picture = generator.integers(0, 255, (16, 16, 3), dtype=np.uint8)
    found = Examination(
        "mine:policy",
        "tabletop",
        ("expert: tabletop/a[seed0]", "expert: tabletop/b[seed1]"),
        Diagnosis(
            (finding, gripper),
            (0.03, 0.91),
            {"today": (0.1, 0.2, NAN, -1.0, 0.0, 0.0, -0.5), "proposed": (0.9, 0.91, NAN, 0.92, 0.93, 0.94, 0.95)},
            {"no motion": -0.02, "the mean action": 0.0},
            (
                Tried("VLA-D012", "red and blue exchanged", -0.01, -0.03, 0.02, 40),
                Tried("VLA-D010", "both pictures turned by 180 degrees", 0.88, 0.8, 0.92, 128),
                Tried("VLA-D015", "both pictures as float", None, questions=8, refused="expected uint8"),
            ),
            {"both pictures turned by 180 degrees": ("both pictures upside down",)},
            1234,
            {"shown": shown, "today": shown[::-1], "proposed": shown + 0.01},
        ),
        (Replayed("as recorded", 7, 8, 3.25), Replayed("absolute", 0, 8, NAN)),
        (
            ComparedObservation("agentview_image", "turned by 180 degrees", 1.5, 60.25, picture, picture),
            ComparedObservation("state", "the same", 0.0, 0.0),
        ),
        ClosedLoop(("tabletop/a[seed0]", "tabletop/b[seed1]"), (False, False), (True, False)),
        {"demonstrations": 12.5, "diagnosis": 30.0},
        ("no episode of task c: nobody demonstrated it",),
        ("def act(seen):", '    seen["a"] = seen["a"][::-1]'),
        {"the suite's": 0.3125, "recorded state alone": 0.875},
    )
    return dataclasses.replace(found, **changes)


def page(examination: Examination, folder: Path) -> tuple[str, Parsed]:
    """Return the written page, whose structure must be valid and load nothing."""
    write_page(examination, folder / "doctor.html")
    text = (folder / "doctor.html").read_text()
    found = Parsed(text)
    assert text.startswith("<!DOCTYPE html>")
    assert found.faults == []
    assert len(found.ids) == len(set(found.ids))
    links = {about["href"] for tag, about in found.elements if tag == "a"}
    assert {link[1:] for link in links} <= set(found.ids)
    assert "script" not in {tag for tag, _ in found.elements}
    for tag, about in found.elements:
        assert not [name for name in about if name.startswith("on")], tag
        for name in ("src", "href"):
            assert about.get(name, "#").startswith(("#", "data:")), (tag, about)
    assert re.findall(r"@import|url\(", text) == []
    return text, found


def test_the_page_has_the_result_first_and_every_number(tmp_path: Path) -> None:
    text, found = page(made(), tmp_path)
    places = [text.index(f". {code}, ") for code in ("VLA-D010", "VLA-D040")]
    assert places == sorted(places)
    assert places[-1] < text.index('id="fit"') < text.index('id="wirings"')
    assert html.escape("chunk[:, 6] *= -1") in text
    assert {"fit", "observations", "wirings", "replays", "closed-loop", "about"} <= set(found.ids)
    rows = {row[0]: row[1:] for row in found.rows}
    assert rows["all"] == ["3", "91"]
    assert rows["z"] == ["-", "-"], "not judged"
    assert rows["gripper"] == ["-50", "95"]
    assert rows["yardstick: no motion"] == ["-2", "-"]
    assert rows["with recorded state alone inputs"] == ["88", "-"]
    assert rows["agentview_image"] == ["60.2", "turned by 180 degrees", "1.5"]
    assert rows["absolute"] == ["0", "8", "-"]
    assert rows["tabletop/a[seed0]"] == ["failure", "success"]
    assert rows["successes"] == ["0/2", "1/2"]
    assert rows["total"] == ["42.5"]
    images = [about for tag, about in found.elements if tag == "img"]
    assert [each["alt"] for each in images] == ["agentview_image, ours", "agentview_image, recorded"]
    plots = [about for tag, about in found.elements if tag == "svg" and about.get("class") == "chart scatter"]
    assert len(plots) == 7
    assert all("proposed" in about["aria-label"] for about in plots)


def test_wirings_are_ranked_and_what_was_refused_is_last(tmp_path: Path) -> None:
    _, found = page(made(), tmp_path)
    at = next(place for place, row in enumerate(found.rows) if row[0] == "wiring")
    rows = found.rows[at + 1 : at + 4]
    assert [row[1] for row in rows] == ["VLA-D010", "VLA-D012", "VLA-D015"]
    assert rows[0][2:5] == ["+88.0", "[+80.0, +92.0]", "128"]
    assert rows[2][2:] == ["-", "-", "8", "expected uint8"]


def test_texts_of_strangers_are_escaped(tmp_path: Path) -> None:
    for text in HOSTILE:
        finding = DoctorFinding(text, text, text, text, (text,), {text: 1.0})
        plain = made()
        diagnosis = dataclasses.replace(
            plain.diagnosis,
            findings=(finding, finding),
            yardsticks={text: 0.0},
            tried=(Tried(text, text, 0.1, refused=text),),
            same={text: (text,)},
        )
        picture = plain.compared[0].ours
        hostile = made(
            model=text,
            suite=text,
            demonstrations=(text,),
            diagnosis=diagnosis,
            replayed=(Replayed(text, 1, 1, 0.0),),
            compared=(ComparedObservation(text, text, 0.0, 0.0, picture, picture),),
            closed_loop=ClosedLoop((text,), (True,)),
            seconds={text: 1.0},
            notes=(text,),
            adapter=(text,),
        )
        written, found = page(hostile, tmp_path)
        tags = {tag for tag, _ in found.elements}
        assert len([tag for tag, _ in found.elements if tag == "style"]) == 1
        assert len([tag for tag, _ in found.elements if tag == "img"]) == 2
        assert tags.isdisjoint({"script", "iframe", "form"})
        assert "\u202e" not in written
        assert "\x00" not in written
        assert "49" not in html.unescape(written).partition("<title>")[2].partition("</title>")[0]
        assert json.loads(json.dumps(examination_table(hostile), allow_nan=False))["model"] == text


def test_a_page_of_nearly_nothing_is_written(tmp_path: Path) -> None:
    """Check an examination whose further steps were not made, with answers of every size and none finite."""
    well = DoctorFinding(WELL, CODES[WELL], "nothing does better", "likely")
    for answers in ({}, {"shown": np.full((3, 7), NAN), "today": np.full((3, 7), 1e300), "proposed": np.zeros((9, 7))}):
        nothing = Diagnosis((well,), (NAN, NAN), {}, {}, (), {}, 0, answers)
        text, found = page(Examination("m", "s", (), nothing), tmp_path)
        assert f"1. {WELL}, " in text
        assert "nan" not in [cell for row in found.rows for cell in row]
        assert set(found.ids) >= {"fit", "about"}
        assert set(found.ids).isdisjoint({"observations", "wirings", "replays", "closed-loop"})
        assert json.loads(json.dumps(examination_table(Examination("m", "s", (), nothing)), allow_nan=False))


def test_answers_to_other_rows_are_not_drawn_beside_the_demonstrated_ones(tmp_path: Path) -> None:
    """Check that a shift in time, which leaves fewer answers, hides today's unless their rows are known."""
    plain = made().diagnosis
    shown, today = plain.answers["shown"], plain.answers["today"]
    shifted = {**plain.answers, "shown": shown[2:], "proposed": shown[2:]}
    for answers, names in ((shifted, ["proposed"]), ({**shifted, "shown_today": shown}, ["today", "proposed"])):
        _, found = page(made(diagnosis=dataclasses.replace(plain, answers=answers)), tmp_path)
        labels = [
            about["aria-label"]
            for tag, about in found.elements
            if tag == "svg" and about.get("class") == "chart scatter"
        ]
        assert [[name for name in ("today", "proposed") if name in label] for label in labels] == [names] * 7
    assert len(today) == 400


def test_the_json_has_every_number_and_no_picture() -> None:
    table = json.loads(json.dumps(examination_table(made()), allow_nan=False))
    assert table.keys() == {field.name for field in dataclasses.fields(Examination)}
    diagnosis = table["diagnosis"]
    assert diagnosis["explained"] == {"today": 0.03, "proposed": 0.91}
    assert len(diagnosis["dimensions"]) == len(diagnosis["by_dimension"]["today"]) == 7
    assert diagnosis["by_dimension"]["today"][2] is None
    assert diagnosis["is_well"] is False
    assert [each["code"] for each in diagnosis["findings"]] == ["VLA-D010", "VLA-D040"]
    assert diagnosis["findings"][0]["meaning"] == CODES["VLA-D010"]
    assert diagnosis["findings"][0]["numbers"] == {"gain": 0.88, "unknown": None}
    assert diagnosis["tried"][2]["gain"] is None
    assert table["replayed"][1]["drift_mm"] is None
    assert table["compared"][0].keys() == {"name", "reading", "difference", "before"}
    assert table["closed_loop"]["proposed"] == [True, False]
    assert "answers" not in diagnosis


def test_numbers_of_numpy_are_pythons() -> None:
    numbers: dict[str, Any] = {"explained": (np.float64(0.5), np.float32("inf")), "questions": np.int64(3)}
    diagnosis = dataclasses.replace(made().diagnosis, **numbers)
    table = json.loads(json.dumps(examination_table(made(diagnosis=diagnosis))))
    assert table["diagnosis"]["explained"] == {"today": 0.5, "proposed": None}
    assert table["diagnosis"]["questions"] == 3


def test_a_page_that_cannot_be_written_is_an_error_and_leaves_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="nowhere"):
        write_page(made(), tmp_path / "nowhere" / "doctor.html")
    write_page(made(), tmp_path / "doctor.html")
    before = (tmp_path / "doctor.html").read_bytes()
    write_page(made(), tmp_path / "doctor.html")
    assert (tmp_path / "doctor.html").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["doctor.html"]
