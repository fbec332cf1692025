"""The report of variations: its tables, its JSON and its pictures, alone and beside the language's."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_vla.errors import VlaError
from pytest_vla.metrics.robustness_curves import Curve, Halving, ModelRobustness
from pytest_vla.metrics.success import success_rate, unit_of
from pytest_vla.records.record import Record
from pytest_vla.reports.figures import file_names
from pytest_vla.reports.json_schema import written
from pytest_vla.reports.loaded import load
from pytest_vla.reports.robustness import _MODELS, curve_title, make_robustness, pictures, robustness_blocks
from pytest_vla.reports.sections import Section, section_lines, section_table
from pytest_vla.reports.text import block_lines
from tests.support.golden import check_golden
from tests.support.reports import RESULTS, models_of, report, write
from tests.support.varied import varied

GOLDEN = Path(__file__).with_name("golden")


def robustness_lines(found: Sequence[ModelRobustness], full: bool = False) -> list[str]:
    return list(block_lines(robustness_blocks(found, full)))


def robustness_table(found: ModelRobustness) -> dict[str, Any]:
    table: dict[str, Any] = written(_MODELS, found)["robustness"]
    return table


STOVE, PLATE = "turn_on_the_stove", "put_the_bowl_on_the_plate"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def of_seeds(label: str, successes: Sequence[int], **changes: Any) -> list[Record]:
    """Ten seeds of two tasks; of each task so many succeed."""
    return [
        varied(label, seed < count, task, seed, **changes)
        for task, count in zip((STOVE, PLATE), successes, strict=True)
        for seed in range(10)
    ]


def records() -> list[Record]:
    """Return records in which camera loses more than light, and both at once most; one error, one invalid."""
    return [
        *of_seeds("", (10, 9)),
        *of_seeds("camera.distance-L1", (8, 7)),
        *of_seeds("camera.distance-L2", (2, 1)),
        *of_seeds("light.diffuse-L1", (10, 9)),
        *of_seeds("light.diffuse-L2", (9, 8)),
        *of_seeds("camera.distance-L1+light.diffuse-L1", (3, 1)),
        varied("light.diffuse-L1", "error", STOVE, 10),
        varied("light.diffuse-L2", "invalid", STOVE, 10),
    ]


WORDS = [
    dataclasses.replace(varied("language.words-L2", success, STOVE, seed), instruction="turn on the oven")
    for seed, success in enumerate([True, True, False])
]


def test_the_tables_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Check by hand: success halves from 95 at 47.5, between 75 at L1 and 15 at L2.

    The pair's gap is 57 (19 x 4 - 15 x 19)^2 / (34 x 23 x 38 x 19) = 4.41.
    """
    write(records())
    report()
    text = capsys.readouterr().out
    check_golden(GOLDEN / "tables.txt", text)
    assert max(map(len, text.splitlines())) <= 100


SEVEN = ("layout.distractors", "background.table", "light.diffuse", "camera.fov", "robot.joints", "noise.fog")


def sampled() -> list[Record]:
    """Return a policy's records at 83% success: for each of six dimensions a few episodes at each level."""
    generator = np.random.default_rng(0)
    tasks = [f"task_{number}" for number in range(10)]
    found = [varied("", bool(generator.random() < 0.83), task, seed) for task in tasks for seed in range(3)]
    for kind in SEVEN:
        for number in range(24):
            outcome = bool(generator.random() < 0.83)
            found.append(varied(f"{kind}-L{1 + number % 5}", outcome, tasks[number % 10], number // 10))
    return found


def test_a_small_sample_says_what_it_cannot_tell_first(capsys: pytest.CaptureFixture[str]) -> None:
    """Check 24 pairs at five levels: five or four at each, and no rate from four episodes."""
    write(sampled())
    report()
    text = capsys.readouterr().out
    check_golden(GOLDEN / "small_sample.txt", text)
    assert max(map(len, text.splitlines())) <= 100
    report("--full")
    full = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(tuple(f"{kind} L" for kind in SEVEN)) for line in full) == 30
    assert not any("say nothing by themselves" in line for line in full)


def test_the_table_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    write(records(), planned=2)
    (model,) = models_of(capsys)
    assert (model["model"], model["suite"]) == ("random", "libero_goal")
    found = model["robustness"]
    assert set(found) == {
        *("runs", "dimensions", "curves", "most_harmful", "pairs", "left_out"),
        *("failures", "failure_algorithm", "failure_tau", "pooled_pairs", "pooled_suites", "memory"),
    }
    assert found["memory"] == []
    assert found["runs"] == ["a-run"]
    assert found["left_out"][0].startswith("run a-run has 122 of 124 episodes")
    cells = {(each["dimension"], each["kind"], each["level"]): each for each in found["dimensions"]}
    cell = cells["camera", "distance", 2]
    assert (cell["n"], cell["sr"], cell["benign"]) == (20, 15, 95)
    assert cell["interval"] == [pytest.approx(5.24, abs=0.01), pytest.approx(36.04, abs=0.01)]
    difference = cell["difference"]
    assert (difference["pairs"], difference["value"], difference["lost"], difference["gained"]) == (20, -80, 16, 0)
    assert difference["p"] < 1e-6
    assert difference["p_adjusted"] == pytest.approx(5 * difference["p"]), "five comparisons"
    assert difference["interval"][0] < -80 < difference["interval"][1] < 0
    assert (difference["units"], difference["tasks_interval"], cell["few"]) == (20, None, False)
    assert 10 < difference["detectable"] < 50 < difference["telling"]
    assert (cells["light", "diffuse", 1]["errors"], cells["light", "diffuse", 2]["invalid"]) == (
        {"policy-raised": 1},
        {"goal-holds-at-start": 1},
    )
    assert cells["camera+light", "distance+diffuse", 1]["sr"] == 20
    camera, light = found["curves"]
    assert [(each["level"], each["n"], each["sr"]) for each in camera["levels"]] == [
        (0, 20, 95),
        (1, 20, 75),
        (2, 20, 15),
    ]
    assert (camera["halves_at"], camera["why"]) == (pytest.approx(1 + 27.5 / 60), None)
    low, high = camera["halves_at_interval"]
    assert 1 < low < camera["halves_at"] < high < 2
    assert (light["halves_at"], light["why"]) == (None, "not reached up to L2")
    assert (camera["n"], camera["difference"]["value"], camera["drop"]) == (40, -50, 50)
    worst = found["most_harmful"]
    assert (worst["dimension"], worst["largest"], worst["drop"], worst["why"]) == ("camera", "camera", 50, None)
    (pair,) = found["pairs"]
    assert (pair["dimensions"], pair["n"], pair["joint"], pair["undefined"]) == (["camera", "light"], 20, 20, None)
    assert pair["product"] == pytest.approx(75 * 95 / 100)
    assert pair["expected"] == pytest.approx(75)
    assert pair["joint_less_expected"] == pytest.approx(-55)
    assert pair["gap"] == pytest.approx(4 / 57 - (15 + 4) / 57 * (19 + 4) / 57)
    assert pair["p_adjusted"] == pair["p"]
    assert (pair["verdict"], pair["gap_interval"][1] < 0) == ("worse", True)
    report("--format=json")
    whole = json.loads(capsys.readouterr().out)
    assert whole["schema"] == 1
    assert set(whole) == {"schema", "robustness", "models", "notes"}, "no language, no keys of it"
    assert whole["models"] == [model], "the resamples are seeded"
    assert whole["robustness"]["over"] == {"interval": "these tasks", "tasks_interval": "tasks like these"}


def test_the_language_is_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    write([*records(), *WORDS, varied("", True, policy="other"), varied("light.diffuse-L1", True, policy="other")])
    both, other = models_of(capsys, "--backend=template")
    assert (both["model"], other["model"]) == ("random", "other")
    assert [each["kind"] for each in both["others"]] == ["words level 2"]
    assert {"language", "camera", "light"} <= {each["dimension"] for each in both["robustness"]["dimensions"]}
    # As `pytest_vla.reports.sections.section_table` says.
    assert set(other) == {"model", "suite", "robustness"}
    report("--backend=template")
    lines = capsys.readouterr().out.splitlines()
    assert lines.index("=== random, libero_goal: under variations ===") < lines.index("=== random, libero_goal ===")
    assert "=== other, libero_goal ===" not in lines


def test_without_twins_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    write(of_seeds("noise.fog-L1", (5, 5)))
    report()
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("note: 20 episodes without a benign twin under its run seed") for line in lines)
    assert "most harmful dimension: not known without benign twins (--vla-twins=auto runs them)" in lines
    assert any(line.split() == ["noise", "▅", "50", "-"] for line in lines)
    assert "halves at, noise: no benign twin was measured" in lines
    (model,) = models_of(capsys)
    assert model["robustness"]["most_harmful"] is None
    assert model["robustness"]["dimensions"][0]["difference"] is None


@pytest.mark.parametrize(("outcomes", "why"), [((2, 1), "without benign twins"), ((), "as no varied episode was")])
def test_why_no_dimension_does_most_harm(outcomes: Sequence[int], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check kinds without levels too, which are on no curve."""
    write(of_seeds("pro.swap", outcomes) if outcomes else [varied("pro.swap", "error")])
    report()
    (line,) = [each for each in capsys.readouterr().out.splitlines() if each.startswith("most harmful dimension")]
    assert line.startswith(f"most harmful dimension: not known {why}")


def test_episodes_that_share_a_twin_are_compared_too() -> None:
    shared = [varied(f"language.plus.{index}", False, STOVE, seed) for seed in range(10) for index in range(2)]
    for record in shared:
        record.variation["kind"] = "plus"  # type: ignore[index]
    write([*records(), *shared])
    lines = list(robustness_lines(make_robustness(load([], RESULTS)), full=True))
    (grid,) = [line for line in lines if line.startswith("language.plus ") and "[" not in line]
    assert grid.split() == ["language.plus", "-", "-", "0", "-100*"], "in the column without a level"
    (row,) = [line for line in lines if line.startswith("language.plus ") and "[" in line]
    assert row.split()[-2:] == ["20/0", "<0.001*"]


def test_a_few_of_anything_are_counted() -> None:
    write([*records(), varied("noise.fog-L1", False, STOVE, 0), varied("noise.fog-L1", True, STOVE, 1)])
    found = make_robustness(load([], RESULTS))
    lines = list(robustness_lines(found))
    assert "cannot tell anything of noise: fewer than 5 pairs" in lines
    row = next(line.split() for line in lines if line.startswith("noise  "))
    assert row == ["noise", "2", "-", "1/2", "-", "-", "-"]
    full = list(robustness_lines(found, full=True))
    (cell,) = [line.split() for line in full if line.startswith("noise.fog L1")]
    assert cell == ["noise.fog", "L1", "2", "1/2", "-", "1/0", "-"]
    table = robustness_table(found[0])
    (noise,) = [each for each in table["dimensions"] if each["dimension"] == "noise"]
    assert (noise["few"], noise["difference"]["p_adjusted"]) == (True, None)


def test_undefined_gaps_are_named() -> None:
    write(
        [record for record in records() if "+" not in record.case and "camera.distance-L2" not in record.case]
        + of_seeds("camera.distance-L2+light.diffuse-L2", (0, 0))
    )
    write(of_seeds("camera.distance-L2", (0, 0)), run="b-run")
    (found,) = make_robustness(load([], RESULTS))
    lines = list(robustness_lines([found]))
    assert any(line.split()[-6:] == ["-", "-", *["nothing", "succeeded", "with", "camera"]] for line in lines), lines
    assert json.loads(json.dumps(robustness_table(found)))["pairs"][0]["undefined"] == "nothing succeeded with camera"


def test_pairs_of_several_suites_are_pooled_once() -> None:
    spatial = [dataclasses.replace(record, suite="libero_spatial") for record in records()]
    write([*records(), *spatial])
    found = make_robustness(load([], RESULTS))
    assert [each.suite for each in found] == ["libero_goal", "libero_spatial"]
    for each in found:
        assert each.pooled_suites == ("libero_goal", "libero_spatial")
        (pair,), (alone,) = each.pooled, each.pairs
        assert (pair.n, pair.gap) == (2 * alone.n, pytest.approx(alone.gap))
        table = robustness_table(each)
        assert table["pooled_pairs"][0]["n"] == 2 * table["pairs"][0]["n"]
    lines = list(robustness_lines(found))
    assert lines.count("Over all suites together (libero_goal, libero_spatial):") == 1
    write(records(), run="alone")
    alone_found = make_robustness(load(["alone"], RESULTS))
    assert [(each.pooled, each.pooled_suites) for each in alone_found] == [((), ())]


def test_a_memoriser_is_a_reference_on_the_same_cases(capsys: pytest.CaptureFixture[str]) -> None:
    """The model succeeds in 6 of 8 cases, the memoriser in 4 of these and in one that the model fails."""
    done = {"mine": range(6), "memoriser:.vla/RUN": (0, 1, 2, 3, 7)}
    write(
        [
            varied("camera.orbit-L1", seed in some, seed=seed, policy=name)
            for name, some in done.items()
            for seed in range(10 if name == "mine" else 8)
        ]
    )
    mine, memoriser = (model["robustness"]["memory"] for model in models_of(capsys))
    assert memoriser == []
    (row,) = mine
    assert (row["dimension"], row["cases"]) == ("camera", 8)
    counts = [(row[name]["count"], row[name]["of"]) for name in ("model", "memory", "shared")]
    assert counts == [(6, 8), (5, 8), (4, 6)]
    report()
    (line,) = [
        each.split() for each in capsys.readouterr().out.splitlines() if each.startswith("camera  ") and "67%" in each
    ]
    assert line[:2] == ["camera", "8"]


def test_cases_that_were_given_are_counted_and_in_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    """Check 24 failures of a fuzz file beside 54 ordinary episodes: light was +0.0, and became -25.0 with p < .001."""
    ordinary = [
        *of_seeds("", (10, 8)),
        *of_seeds("light.diffuse-L1", (10, 8)),
    ]
    given = [
        varied(f"light.diffuse-x{number:08x}", number == 0, task, seed)
        for number, (task, seed) in enumerate((task, seed) for task in (STOVE, PLATE) for seed in range(10))
    ]
    words = varied("language.blank-x0123abcd", False, STOVE, 3)
    write(ordinary, run="a-run")
    write([*ordinary, *given, words], run="b-run")
    alone, beside = ({}, {})
    for run, found in (("a-run", alone), ("b-run", beside)):
        report(run, "--format=json")
        (model,) = json.loads(capsys.readouterr().out)["models"]
        found |= model["robustness"]
    (note,) = [text for text in beside.pop("left_out") if text not in alone.pop("left_out")]
    assert note.startswith("21 given cases (--vla-cases), of which 1 succeeded")
    assert (beside.pop("runs"), alone.pop("runs")) == (["b-run"], ["a-run"])
    assert beside == alone
    light = beside["dimensions"][0]["difference"]
    assert (light["pairs"], light["value"], light["lost"], light["gained"]) == (20, 0, 0, 0)


def test_names_of_others_do_not_reach_the_terminal_as_they_are() -> None:
    write([dataclasses.replace(record, policy="na\x1b[2Jme") for record in records()])
    lines = list(robustness_lines(make_robustness(load([], RESULTS))))
    assert "=== na?[2Jme, libero_goal: under variations ===" in lines


def test_the_pictures_show_curves_and_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'pytest-vla[report]')")
    write(records())
    report("--format=png", "-o", tmp_path / "folder")
    names = ["random-libero_goal-robustness.png", "random-libero_goal-pairs.png"]
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "folder" / name) for name in names]
    curves, pairs = (np.asarray(Image.open(tmp_path / "folder" / name).convert("RGB")).astype(int) for name in names)
    assert min(curves.shape[:2]) > 300
    red, green, blue = curves.transpose(2, 0, 1)
    assert ((blue - red > 60) & (blue > green)).sum() > 200, "the lines are blue"
    red, green, blue = pairs.transpose(2, 0, 1)
    # Viridis at 20% (violet) and at 75% (green).
    assert ((abs(red - 65) < 8) & (abs(green - 68) < 8) & (abs(blue - 135) < 8)).sum() > 1000
    assert ((abs(red - 94) < 12) & (abs(green - 201) < 12) & (abs(blue - 98) < 12)).sum() > 1000


@pytest.mark.parametrize(
    ("halving", "said"),
    [
        (Halving(2.26, (1.5, 3.0), ""), "half of benign success: at L2.3"),
        (Halving(None, None, "not reached up to L5"), "half of benign success: not reached up to L5"),
        (Halving(None, None, "no benign twin was measured"), "half of benign success: no benign twin was measured"),
    ],
)
def test_a_curves_title_names_what_was_or_was_not_reached(halving: Halving, said: str) -> None:
    rate = success_rate("camera", [], unit_of)
    assert curve_title(Curve("camera", rate, (), halving, None)) == ("camera", said)


def test_there_has_to_be_something_to_draw(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install 'pytest-vla[report]')")
    write(of_seeds("camera.table", (5, 5)))
    assert pictures(make_robustness(load([], RESULTS))) == {}
    with pytest.raises(VlaError, match="nothing to draw"):
        report("--format=png", "-o", tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


# Sections


def section(name: str, *models: str) -> Section:
    found = {(model, "suite", ""): {name: len(model)} for model in models}
    return Section(lambda: [f"{name} line"], {f"{name}_about": 1}, found, lambda: {})


def test_sections_are_put_together() -> None:
    sections = [section("one", "a", "b"), section("two", "c", "b")]
    assert list(section_lines(sections)) == ["one line", "", "two line"]
    assert section_table(sections) == {
        "one_about": 1,
        "two_about": 1,
        "models": [
            {"model": "a", "suite": "suite", "one": 1},
            {"model": "b", "suite": "suite", "one": 1, "two": 1},
            {"model": "c", "suite": "suite", "two": 1},
        ],
    }


def test_files_have_names_of_their_own() -> None:
    assert file_names([("my:model", "s"), ("my/model", "s"), ("other", "s")]) == (
        "my_model-s",
        "my_model-s-2",
        "other-s",
    )
