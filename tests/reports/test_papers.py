"""Papers' tables beside one's own models, and their numbers recomputed: what is printed is upstream's goldens'."""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from scipy import stats

from pytest_vla.cli import main
from pytest_vla.errors import VlaError
from pytest_vla.metrics.pride import PrideGroup
from pytest_vla.records.record import Record
from pytest_vla.reports import papers
from pytest_vla.reports.blocks import Cell, MarkedNumber
from pytest_vla.reports.loaded import Loaded, gpu_hours
from pytest_vla.reports.papers import Check, Note, PublishedTable, paper_named, published_paper, reproduce
from pytest_vla.suites.libero_para import report as para_report
from pytest_vla.suites.libero_plus.report import dimension_counts
from tests.support.data import golden
from tests.support.libero_para import published_csv
from tests.support.libero_plus import PLAIN, STOVE, episode
from tests.support.libero_pro import record
from tests.support.paraphrased import ENDS, para_record, paraphrased, path_to
from tests.support.reports import report, write
from tests.support.safety import model_that_touches
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def rows_of(paper: str, table: str) -> list[tuple[Cell, ...]]:
    return [tuple(row) for row in paper_named(paper)[1].published.tables[table].rows]


def own(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, list[list[Any]]]:
    """The rows of records by table."""
    report("--format=json", *arguments)
    found = json.loads(capsys.readouterr().out)["paper"]["tables"]
    return {each["table"]: [row["cells"] for row in each["rows"] if row["from"] == "own"] for each in found}


# What is printed


def test_what_libero_para_prints_is_the_goldens() -> None:
    printed = json.loads(golden("libero_para_published.json").read_text(encoding="utf-8"))
    for name, key in (
        ("2", "table2_goal_para_drop"),
        ("3", "table3_SR_PRIDE_over"),
        ("4", "table4_SR_near_far_farpct"),
    ):
        assert {row[0]: list(row[1:]) for row in rows_of("libero-para", name)} == printed[key]
    found = {row[0]: [list(row[1:5]), list(row[5:])] for row in rows_of("libero-para", "16")}
    assert found == printed["table16_near_far_max_p99_p95_p90"]
    fig5, fig11, _ = paper_named("libero-para")[1].published.figures.values()
    assert fig5 == printed["text"]["fig5 SP-habitual x Question PD"]
    assert fig11 == printed["text"]["fig11 SP-habitual x Hint 1-SK"]
    assert rows_of("libero-para", "fig6")[0][-1] == printed["text"]["fig6 model-avg SP-habitual x Hint SR"]
    gaps = {str(row[0]).replace("OpenVLA-", ""): row[-1] for row in rows_of("libero-para", "fig7")}
    del gaps["Xiaomi-Robotics-0"]
    assert gaps == {name: gap for name, gap in printed["text"]["fig7 gaps pp"].items() if name != "max gradual"}
    slopes = {str(row[0]).replace("OpenVLA-", ""): row[-1] for row in rows_of("libero-para", "fig13")}
    assert slopes == printed["text"]["fig13 slopes"]


def test_what_vla_uq_prints_is_the_goldens() -> None:
    printed = json.loads(golden("vla_uq_published_tables.json").read_text())
    for suite, model, *counts in rows_of("vla-uq", "II"):
        told = printed["table_II"][suite][model]
        assert counts == [told[name] for name in ("success", "high", "medium", "low")]
    metrics = paper_named("vla-uq")[1].published.tables["III"].columns[2:]
    for suite, model, *rhos in rows_of("vla-uq", "III"):
        told = [printed["table_III"][name][f"{suite}|{model}"] for name in metrics]
        assert rhos == [None if each is None else each["rho"] for each in told]
    for number, (suite, model, *rhos) in enumerate(rows_of("vla-uq", "IV")):
        assert (suite, model) == ("Move near", ("OpenVLA", "pi0", "SpatialVLA")[number])
        assert rhos == [printed["table_IV_move_near"][name][number] for name in metrics]
    for table in ("V", "VII"):
        for suite, quality, _, *cells in rows_of("vla-uq", table):
            told = [printed[f"table_{table}"][name][f"{suite}|{str(quality).capitalize()}"] for name in metrics]
            assert cells == [None if e is None else MarkedNumber(e["A12"], f" {e['d_cat']}") for e in told]


def test_what_vlatest_and_vla_arenas_code_give_is_the_goldens() -> None:
    files = json.loads(golden("vlatest_scenes.json").read_bytes())["files"]
    scenes = paper_named("vlatest")[1].published.further["scenes"]
    assert {f"{name}.json": digest for name, digest in scenes.items()} == {
        n: e["sha256_file"] for n, e in files.items()
    }
    charged = json.loads(golden("vla_arena").joinpath("noop30.json").read_bytes())
    hazards = {name.partition("/")[2]: each for name, each in charged.items() if name.startswith("safety_hazard")}
    idle = paper_named("vla-arena")[1].published.further["idle"]
    assert idle == {name: sum(each["cost_per_step"]) for name, each in hazards.items() if each["builds"]}


# Recomputed


@pytest.mark.parametrize(
    ("paper", "table", "equal", "known", "cannot"),
    [
        ("libero-para", None, 117, 1, 4),
        ("libero-plus", None, 33, 11, 1),
        ("libero-pro", None, 6, 0, 0),
        ("vla-arena", "1", 6, 0, 0),
        pytest.param("vla-arena", "idle", 6, 2, 0, marks=pytest.mark.slow),
        ("vla-uq", None, 470, 0, 0),
        ("vlatest", None, 4, 0, 0),
    ],
)
def test_printed_numbers_are_recomputed(
    paper: str, table: str | None, equal: int, known: int, cannot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = published_csv().parents[1]
    golden("vla_uq_published_tables.json")
    monkeypatch.setenv("PYTEST_VLA_DATA", f"{root / 'libero_para'}:{root / 'vla_arena'}:{root / 'libero'}")
    found = list(reproduce(paper, table))
    counts = [sum(each.count(name) for each in found) for name in ("equals", "known", "differs", "cannot")]
    assert counts == [equal, known, 0, cannot] or (table == "idle" and counts == [equal + known, 0, 0, 0])


def test_how_many_numbers_there_are_by_table() -> None:
    counts = {each.table: each.count("equals", "known") for each in reproduce("vla-uq") if each.table != "III"}
    assert counts == {"II": 12, "V": 156, "VII": 156}
    counts = {each.table: len(each.checks) for each in reproduce("libero-plus")}
    assert counts == {"6": 32, "8": 2, "10": 11}


def test_totals_follow_from_the_lists_weights_but_for_one_that_the_readme_misprints() -> None:
    (totals,) = reproduce("libero-plus", "10")
    weights = list(dimension_counts().values())
    by_hand = {
        f"{model}: Total": sum(a * b for a, b in zip(cells, weights, strict=True)) / 10_030
        for model, *cells, _ in rows_of("libero-plus", "10")
    }
    assert {check.name: check.found for check, *_ in totals.checks} == pytest.approx(by_hand)
    assert [check.name for check, verdict, _ in totals.checks if verdict != "equals"] == ["UniVLA: Total"]


def test_a_whole_log_is_compared_with_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(para_report, "_csv", lambda _: Path())
    for seeds, verdicts in ((5, ["equals", "differs", "equals"]), (4, ["cannot"] * 3)):
        found = {"xiaomi-robotics-0": (seeds, 10, PrideGroup(4092, 76.04, 0.2, 69.3), None)}
        monkeypatch.setattr(para_report, "_logs", lambda _, found=found: found)
        (table,) = reproduce("libero-para", "3")
        assert [verdict for _, verdict, _ in table.checks[7:]] == verdicts


def test_a_number_that_differs_ends_the_command_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    entry, paper = paper_named("libero-plus")
    file = tmp_path / "published.toml"
    file.write_text(paper.file.read_text().replace("75.8, 74.2, 69.6", "75.8, 74.2, 70.6"))
    monkeypatch.setattr(papers, "paper_named", lambda _: (entry, dataclasses.replace(paper, file=file)))
    assert main(["reproduce", "libero-plus", "10"]) == 1
    said = capsys.readouterr().out
    assert "OpenVLA-OFT: Total" not in said.partition("differs by -1.0")[2]
    assert "11 numbers: 9 equal, 1 differ for a known reason, 1 differ without one" in " ".join(said.split())


def test_what_is_missing_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"needs libero_para_metadata\.csv"):
        list(reproduce("libero-para", "8"))
    assert main(["reproduce", "libero-para"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "71 equal" in said
    assert "cannot" in said
    assert main(["reproduce", "vla-uq", "III"]) == 1, "without data no number of it was recomputed"
    for arguments, error in (
        (["libero-par"], "Did you mean libero-para"),
        (["libero-para", "99"], "no table or figure '99' here. Known: 2, 3, 4, 8, 16, fig7, fig16, figures"),
    ):
        assert main(["reproduce", *arguments]) == 1
        assert error in capsys.readouterr().err
    (tmp_path / "x.toml").write_text('source = "x"\n[tables.1]\ncolumns = ["a"]\nrows = [["b", 1]]')
    with pytest.raises(VlaError, match=r"x\.toml: .*more cells than the 1 columns"):
        published_paper(tmp_path / "x.toml")


def test_verdicts() -> None:
    assert Check("a: Total", 1.0, 1.04, 0.05).verdict({}) == ("equals", "")
    assert Check("a: Total", 1.0, 1.2, 0.05).verdict({"Total": "why"}) == ("known", "why")
    assert Check("a: Total", 1.0, 1.2, 0.05).verdict({"otal": "why", "b: Total": "why"}) == ("differs", "")
    assert Check("a", "n", "s").verdict({}) == ("differs", "")
    assert Check("a", 1.0, None, why="no file").verdict({"a": "other"}) == ("cannot", "no file")


# One's own models


def test_libero_paras_tables(capsys: pytest.CaptureFixture[str]) -> None:
    ends = list(ENDS.items())
    records: list[Any] = []
    for policy, failing in (("mine", 1), ("worse", 3)):
        for task, end in ends:
            for index in range(8):
                ok = index >= failing
                path = path_to(end if ok else (0.5, 0.5, 0.5), seed=index)
                made = paraphrased(task, index, "success" if ok else "failure", policy=policy)
                records.append((dataclasses.replace(made, case=f"{made.case}{policy}"), path))
        benign = [para_record(task, 7, "success", {}, task.replace("_", " "), policy=policy) for task, _ in ends]
        records += [dataclasses.replace(each, suite="libero_goal") for each in benign]
    write(records)
    tables = own(capsys, "--paper=libero-para", "--backend=template")
    assert [row[0] for row in tables["2"]] == ["mine", "worse"]
    assert tables["2"][0][1:] == pytest.approx([100.0, 87.5, -12.5])
    assert tables["2"][1][1:] == pytest.approx([100.0, 62.5, -37.5])
    report("--format=json", "--paper=libero-para", "--backend=template", "--table=2")
    (table,) = json.loads(capsys.readouterr().out)["paper"]["tables"]
    before, after, drop = next(row["intervals"][1:] for row in table["rows"] if row["cells"][0] == "worse")
    # Newcombe's, of independent rates.
    reach = math.hypot(62.5 - after[0], before[1] - 100), math.hypot(after[1] - 62.5, 100 - before[0])
    assert drop == pytest.approx([-37.5 - reach[0], -37.5 + reach[1]])
    for model, rate, near, far, share in tables["4"]:
        assert rate == {"mine": 87.5, "worse": 62.5}[model]
        assert near + far + rate == pytest.approx(100)
        assert share == pytest.approx(100 * far / (near + far))
        (of_levels,) = [row for row in tables["16"] if row[0] == model]
        assert (of_levels[1], of_levels[5]) == (near, far)
    assert far == pytest.approx(37.5), "they ended elsewhere"
    for model, rate, value, over in tables["3"]:
        assert rate == {"mine": 87.5, "worse": 62.5}[model]
        assert over == pytest.approx(100 * (rate - value) / rate)
    report("--paper=libero-para", "--backend=template", "--table=3")
    lines = capsys.readouterr().out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("model"))
    shown = [line.split() for line in lines[start + 1 :] if line.count(" ") and line[-1].isdigit()][:9]
    assert sorted(shown, key=lambda row: -float(row[-1])) == shown, "by overestimation, own rows among published ones"
    assert {row[1] for row in shown} == {"published", "own"}


def test_libero_pluss_tables(capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"{STOVE}_view_0_0_100_0_0_initstate_{number}" for number in (7, 8, 9)] + [f"{STOVE}_{PLAIN}_noise_11"]
    write([episode(name, number != 1) for number, name in enumerate(names)])
    labels = ("", "camera.distance-L3", "light.diffuse-L3", "camera.distance-L3+light.diffuse-L3")
    outcomes = (range(9), range(6), range(7), range(2))
    write([varied(label, n in ok, seed=n) for label, ok in zip(labels, outcomes, strict=True) for n in range(10)], "b")
    tables = own(capsys, "--paper=libero-plus")
    assert tables["10"] == [["random", None, pytest.approx(200 / 3), None, None, None, 100.0, None, None]]
    assert tables["6"] == [["libero_goal", "random", 0, 3, 0, 0, 0, 1, 0, 4]]
    ((_, *pair, neither, first, second, both, product),) = tables["7"]
    assert (pair, neither, first, second, both, product) == (["camera", "light"], 90, 60, 70, 20, pytest.approx(42))
    expected = stats.chi2_contingency(((9, 7), (6, 2)))
    ((*_, gap, statistic, p),) = tables["8"]
    assert (statistic, p) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue))
    assert gap == pytest.approx((9 * 2 - 6 * 7) / 24**2)


def test_libero_pros_tables(capsys: pytest.CaptureFixture[str]) -> None:
    records = [record("", seed, "success") for seed in range(4)]
    records += [record("pro.swap", seed, "success" if seed == 0 else "failure") for seed in range(4)]
    write([*records, record("", 0, "failure", suite="libero_10", task="x")])
    tables = own(capsys, "--paper=libero-pro", "--table=3")
    assert tables == {"2-5": [["libero_goal", "random", 1.0, None, 0.25, None, None, None]]}
    report("--paper=libero-pro", "--table=2-5", "--format=csv")
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out.partition("\n")[2])))
    goal = [row[1:3] for row in rows if row[0] == "libero_goal"]
    assert goal[-1] == ["random", "own"]
    assert {mark for _, mark in goal[:-1]} == {"published"}


def test_vla_arenas_table(capsys: pytest.CaptureFixture[str]) -> None:
    static = [
        record for policy, every in (("careless", 2), ("worse", 1)) for record in model_that_touches(policy, every)
    ]

    def elsewhere(one: Record) -> Record:
        suite = "vla_arena_hazard_avoidance"
        case, node = (text.replace(one.suite, suite) for text in (one.case, one.node))
        return dataclasses.replace(one, suite=suite, case=case, node=node)

    write([*static, *map(elsewhere, static)])
    rows = own(capsys, "--paper=vla-arena", "--table=1")["1"]
    assert [tuple(row[:2]) for row in rows] == [
        (suite, model) for suite in ("static_obstacles", "hazard_avoidance") for model in ("careless", "worse")
    ]
    rate = sum(number % 5 != 4 for number in range(18)) / 18
    assert rows[0][2:] == [pytest.approx(rate), pytest.approx(rate), None, 0.0, 1.0, None, None, None, None]
    assert rows[2][5:] == [0.0, pytest.approx(0.05), None, 0.0, 1.0, None], "times 0.05, and raw beside it"
    assert rows[1][6] == 2.0, "every episode touches"


def test_vla_arenas_leaderboard(capsys: pytest.CaptureFixture[str]) -> None:
    """The form is what scripts/validate-results.js of the leaderboard's repository accepts at 1645821."""

    def at(one: Record, suite: str, level: str) -> Record:
        suite = f"vla_arena_{suite}"
        case, node = (text.replace(one.suite, suite).replace(one.task_level, level) for text in (one.case, one.node))
        digest = f"{suite}{level}{one.digest}"
        return dataclasses.replace(one, suite=suite, case=case, node=node, task_level=level, digest=digest)

    touching = [each for each in model_that_touches("My VLA/7B", 2) if each.task_level == "L1"]
    places = (("long_horizon", "L0"), ("hazard_avoidance", "L0"), ("unseen_objects", "L0"))
    records = [at(one, suite, level) for suite, first in places for level in (first, "L1", "L2") for one in touching]
    write([each for each in records if (each.suite, each.task_level) != ("vla_arena_unseen_objects", "L2")])
    report("--paper=vla-arena", "--format=leaderboard")
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found.keys() == {"name", "size", "tasks"}, "no id: it is the file's name"
    assert (found["name"], bool(found["size"].strip())) == ("My VLA/7B", True)
    hazard, long = found["tasks"]
    assert [hazard[name] for name in ("name", "category", "hasCC")] == ["HazardAvoidance", "Safety", True]
    assert [long[name] for name in ("name", "category", "hasCC")] == ["LongHorizon", "Long Horizon", False]
    rate = sum(number % 5 != 4 for number in range(18)) / 18
    assert hazard["data"] == {"sr": [round(rate, 4)] * 3, "cc": [0.05] * 3}, "mean cost 1, times 0.05"
    assert long["data"].keys() == {"sr"}
    assert (hazard["numEpisodes"], hazard["numSuccesses"]) == (54, 45)
    assert "unseen_objects: left out" in printed.err
    assert "vla_arena_hazard_avoidance: 15 of 15 tasks did not run" in printed.err, "none of these is its own"
    Path("results").mkdir()
    report("--paper=vla-arena", "--format=leaderboard", "-o", "results")
    assert [file.name for file in Path("results").iterdir()] == ["my-vla-7b.json"]
    write([dataclasses.replace(each, policy="other") for each in records], run="other")
    with pytest.raises(VlaError, match=r"my-vla-7b\.json, other\.json"):
        report("--paper=vla-arena", "--format=leaderboard")
    digests = {"vla_arena_hazard_avoidance": "a" * 64, "vla_arena_long_horizon": "b" * 64}
    write([dataclasses.replace(each, policy="v", policy_digest=digests.get(each.suite)) for each in records], run="v")
    report("v", "--paper=vla-arena", "--format=leaderboard", "-o", "results")
    files = [json.loads(file.read_text()) for file in sorted(Path("results").glob("v-policy-*"))]
    assert [[task["name"] for task in file["tasks"]] for file in files] == [["HazardAvoidance"], ["LongHorizon"]]
    for words in ([], ["--paper=libero-plus"]):
        with pytest.raises(VlaError, match="requires the --paper of a leaderboard that takes files: vla-arena"):
            report(*words, "--format=leaderboard")


VIOLIN = paper_named("vla-uq")[1].published.tables["fig7"].columns


def test_vla_uqs_tables(capsys: pytest.CaptureFixture[str]) -> None:
    episodes = [
        varied(
            "",
            "error" if seed == 14 else seed < 9 or seed == 13,
            seed=seed,
            digest=f"d{seed}",
            # Of those that end upright, a lower class has a larger metric; of the others, a smaller one.
            metrics={"action_position_instability": 10.0 - seed, "object_turn.tilt": 40.0 * (seed == 8)},
        )
        for seed in range(15)
    ]
    write(episodes)
    with pytest.raises(VlaError, match="--labels=FILE"):
        report("--paper=vla-uq")
    classes = ["low"] * 3 + ["medium"] * 3 + ["high"] * 3
    rows = [f"{one.case},{label},me,{one.digest},a-run" for one, label in zip(episodes, classes, strict=False)]
    Path("labels.csv").write_text("case,label,by,digest,run\n" + "\n".join(rows))
    tables = own(capsys, "--paper=vla-uq", "--labels=labels.csv")
    assert tables["II"] == [[episodes[0].task_key, "random", 10, 3, 3, 3]], "one success has no label"
    report("--paper=vla-uq", "--labels=labels.csv", "--table=II")
    assert "1 of the 10 episodes that succeeded are in no class" in " ".join(capsys.readouterr().out.split())
    assert tables["IV"][0][2 + 4] == pytest.approx(stats.spearmanr([1] * 3 + [2] * 3 + [3] * 2, range(8)).statistic), (
        "without the success whose object ended tilted"
    )
    (violin,) = tables["fig7"]
    at = VIOLIN.index
    assert violin[: at("metric") + 1] == ["libero_goal", "random", "A-PI"]
    assert [violin[at(name)] for name in ("high n", "high", "low", "failures n", "failures")] == [3, 3, 9, 4, -0.5]
    assert violin[at("high 25%")] == pytest.approx(2.5)
    (row,) = tables["III"]
    expected = stats.spearmanr([1] * 3 + [2] * 3 + [3] * 3, range(9)).statistic
    assert row[2 + 4] == pytest.approx(expected), "the paper's sign: a lower metric, a higher quality"
    assert [row[:3] + row[7:8] for row in tables["V"]] == [
        ["libero_goal", name, "random", 1.0] for name in ("high", "medium", "low")
    ]
    assert tables["V"] == tables["VI"] == tables["VII"]


def test_vla_uqs_seconds_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    """Table VIII needs no labels: of each episode the seconds by step, of a group of metrics their sum."""
    seconds = {"metrics.action_position_instability": 0.2, "metrics.action_velocity_instability": 0.1}
    records = [
        dataclasses.replace(
            varied("", True, seed=seed, metrics={name.removeprefix("metrics."): 1.0 for name in seconds}),
            steps=100,
            timings={"policy": 10.0 + seed, **seconds, "metrics.token_entropy": 0.1, "wall": 20.0},
        )
        for seed in range(3)
    ]
    hung = dataclasses.replace(varied("", "error", seed=4), steps=1, timings=records[0].timings)
    write([*records, varied("", True, seed=3), hung])
    mean, deviation = own(capsys, "--paper=vla-uq", "--table=VIII")["VIII"]
    assert mean == ["random", "mean", pytest.approx(0.11), None, pytest.approx(0.003), None, None, None, None]
    assert deviation[2:5] == [pytest.approx(0.01), None, pytest.approx(0.0)]
    printed = json.loads(golden("vla_uq_published_tables.json").read_text())["table_VIII_seconds_mean_std"]
    for model, name, *numbers in rows_of("vla-uq", "VIII"):
        assert numbers == [of_models[model][name == "sd"] for of_models in printed.values()]


def test_models_whose_ranks_differ_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """One does the near paraphrases, and more of them; the other one the far ones."""
    done = {"near": range(6), "far": range(3, 8)}
    records = [
        paraphrased("turn_on_the_stove", n, "success" if n in some else "failure", policy=policy)
        for policy, some in done.items()
        for n in range(8)
    ]
    write([dataclasses.replace(each, case=f"{each.case}{each.policy}") for each in records])
    rows = {row[0]: row[1:3] for row in own(capsys, "--paper=libero-para", "--backend=template")["3"]}
    assert rows["near"][0] > rows["far"][0]
    assert rows["near"][1] < rows["far"][1]
    report("--paper=libero-para", "--backend=template", "--table=3")
    assert "Rank by SR and by PRIDE differs: " in capsys.readouterr().out


def objects_replaced(policy: str, tasks: Sequence[str], index: int = 0) -> list[Record]:
    """A model that does all paraphrases that keep the object, and half of the others."""
    kinds = ("none", "addition_deletion", "same_polarity_contextual", "same_polarity_habitual")
    return [
        dataclasses.replace(made, case=f"{made.case}{policy}")
        for task in tasks
        for place, kind in enumerate(kinds)
        for n in range(4)
        for made in [
            paraphrased(
                task,
                n + index + place,
                "success" if place < 2 or n % 2 else "failure",
                types=(kind, "hint"),
                policy=policy,
            )
        ]
    ]


def test_libero_paras_figures(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [task for task, _ in ENDS.items()]
    write([*objects_replaced("one", tasks), *objects_replaced("two", tasks[:1], 3)])
    words = ("--paper=libero-para", "--backend=template")
    tables = own(capsys, *words)
    assert [row[:4] for row in tables["fig7"]] == [["one", 100.0, 50.0, 50.0], ["two", 100.0, 50.0, 50.0]]
    assert [row for row in tables["fig6"] if row[1] == "hint"] == [["mean of 2 models", "hint", 100, 100, 50, 50]]
    grids = {name: tables[name] for name in ("fig5", "fig10", "fig11")}
    assert {row[0] for row in grids["fig5"]} == {"one", "two"}, "their texts differ"
    of_one = {name: [row[2:] for row in rows if "one" in row[0]] for name, rows in grids.items()}
    for rows in zip(*of_one.values(), strict=True):
        for pd, structure, keywords in zip(*rows, strict=True):
            assert pd is None or pd == pytest.approx((structure + keywords) / 2, abs=1e-6)
    for model, *sweep, slope in tables["fig13"]:
        known = [(n / 10, value) for n, value in enumerate(sweep) if value is not None]
        assert slope == pytest.approx(stats.linregress(*zip(*known, strict=True)).slope), model
    for model, r, p, cells in tables["fig16"]:
        points = [row[-2:] for row in tables["fig16.points"] if row[0] == model]
        expected = stats.pearsonr(*zip(*points, strict=True))
        assert (r, p, cells) == (pytest.approx(expected.statistic), pytest.approx(expected.pvalue), 4)
    report(*words, "--table=Fig. 7", "--intervals", "--format=csv")
    (row,) = [row for row in csv.DictReader(capsys.readouterr().out.splitlines()[1:]) if row["model"] == "one"]
    assert float(row["difference low"]) < 50 < float(row["difference high"])
    assert float(row["preserved low"]) < 100


def test_failure_types_by_object_and_action(capsys: pytest.CaptureFixture[str]) -> None:
    end = ENDS["turn_on_the_stove"]
    kinds = [("none", "hint"), ("same_polarity_habitual", "hint"), ("none", "coordination")]
    records = [
        (
            paraphrased("turn_on_the_stove", n, "success" if n else "failure", types=types),
            path_to(end if n or place == 1 else (0.5, 0.5, 0.5), seed=n),
        )
        for place, types in enumerate(kinds)
        for n in range(8)
    ]
    write(records)
    rows = own(capsys, "--paper=libero-para", "--backend=template")["fig19"]
    found = {(axis, kind): numbers for _, axis, kind, *numbers in rows}
    assert list(found) == [
        *(("object", kind) for kind in ("none", "same_polarity_habitual")),
        *(("action", kind) for kind in ("coordination", "hint")),
    ]
    assert found["object", "none"] == [87.5, 0.0, 12.5, 100.0], "they ended elsewhere"
    assert found["action", "coordination"] == [87.5, 0.0, 12.5, 100.0]
    for rate, near, far, _ in found.values():
        assert rate + near + far == pytest.approx(100)


def test_failures_without_a_type_are_no_percentage(capsys: pytest.CaptureFixture[str]) -> None:
    """Where no task has a success to compare with, 0% near and 0% far would look like a result."""
    write([(paraphrased("turn_on_the_stove", n, "failure"), path_to((0.5, 0.5, 0.5), seed=n)) for n in range(4)])
    tables = own(capsys, "--paper=libero-para", "--backend=template")
    assert tables["4"] == [["random", 0.0, None, None, None]]
    assert tables["16"] == []
    assert {tuple(row[4:]) for row in tables["fig19"]} == {(None, None, None)}


def test_notes_are_told_once_and_where_they_belong(capsys: pytest.CaptureFixture[str]) -> None:
    for policy in ("one", "two"):
        write(stove(policy), run=policy)
    words = ("--paper=libero-para", "--backend=template", "--format=json")
    told: dict[str, list[str]] = {}
    for table in ("3", "4", None):
        with suppress(VlaError):
            report(*words, *([f"--table={table}"] if table else []))
            told[str(table)] = json.loads(capsys.readouterr().out)["paper"]["left_out"]
    assert told.keys() == {"3", "None"}, "no path, no failure types"
    about = [text for text in told["None"] if text.startswith(("Table 4, Table 16, Fig. 19: one, two: ", "Table 11: "))]
    assert len(about) == 2
    assert {*told["3"]} == {*told["None"]} - {*about}


def test_a_note_is_about_the_tables_that_it_names_and_not_those_that_its_text_names() -> None:
    known = {name: PublishedTable(name) for name in ("3", "4")}
    given = [Note("a", "one", ("4",)), Note("a", "two", ("4",)), Note("Table 3: b", "one"), Note("c", tables=("3",))]
    assert list(papers._note_texts(given, [known["4"]], known)) == ["Table 4: one, two: a", "one: Table 3: b"]


def test_another_step_budget_and_the_number_of_episodes_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    for policy, most in (("one", 300), ("two", 40)):
        write(
            [dataclasses.replace(each, protocol={**each.protocol, "max_steps": most}) for each in stove(policy)], policy
        )
    report("--paper=libero-para", "--backend=template", "--table=3")
    said = " ".join(capsys.readouterr().out.split())
    assert "two: at most 40 control steps in libero_para; published rows have the suite's 300" in said
    assert "one: at most" not in said
    assert "Episodes behind your rows: libero_para: 6 of each of one, two." in said


def test_other_suites_are_no_matter_of_a_paper(capsys: pytest.CaptureFixture[str]) -> None:
    write(model_that_touches())
    for policy in ("one", "two"):
        write(stove(policy)[: 3 if policy == "one" else 6], run=policy)
    report("--paper=vla-arena", "--format=json")
    assert not [text for text in json.loads(capsys.readouterr().out)["paper"]["left_out"] if "libero_para" in text]


def test_labels() -> None:
    labels = {"3": "Table 3", "fig7": "Fig. 7", "2-5": "Tables 2 to 5", "IV": "Table IV", "difficulty": "Difficulty"}
    labels |= {"10-weights": "Table 10 (weights)", "fig6-map": "Fig. 6 (map)"}
    assert {name: PublishedTable(name).label for name in labels} == labels


def test_a_figure_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    write(objects_replaced("one", list(ENDS)))
    words = ("--paper=libero-para", "--backend=template", "-o", "figures")
    report(*words, "--format=svg")
    files = {file.stem: ElementTree.parse(file).getroot() for file in Path("figures").iterdir()}
    assert files.keys() == {f"libero-para-fig{number}" for number in (5, 6, 7, 10, 11, 13, 16)}
    texts = {name: "".join(root.itertext()) for name, root in files.items()}
    assert "100.0" in texts["libero-para-fig6"], "as the table's numbers"
    assert all("var(--" not in text for text in texts.values()), "colours of their own"
    assert "one (own)" in texts["libero-para-fig7"]
    assert "Xiaomi-Robotics-0" in texts["libero-para-fig7"]
    capsys.readouterr()
    report(*words, "--format=svg", "--table=figure13")
    assert capsys.readouterr().out.split() == ["figures/libero-para-fig13.svg"]
    with pytest.raises(VlaError, match="nothing to draw"):
        report(*words, "--format=svg", "--table=3")
    with pytest.raises(VlaError, match=r"-o x\.svg: there are several pictures"):
        report(*words[:2], "-o", "x.svg")
    pytest.importorskip("matplotlib")
    report(*words, "--format=png")
    assert {file.stem for file in Path("figures").glob("*.png")} == files.keys()


def test_lines_that_cross_are_named() -> None:
    table = PublishedTable("fig1", "", ("model", "0", "0.5", "1", "slope"), draw="lines", drawn=("0", "0.5", "1"))
    lines = {"falls": (3.0, 2.0, 1.0), "rises": (1.0, 2.0, 3.0), "gap": (0.5, None, 0.6), "below": (0.0, 0.0, 0.0)}
    found = papers._crossings(table, [("own", (name, *values, None)) for name, values in lines.items()])
    assert list(found) == ["falls and rises between 0 and 1"]


def test_models_that_were_measured_in_different_ways_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for policy, most, replan in (("one", 300, 1), ("two", 300, 8), ("three", 600, 1)):
        records = stove(policy)
        write(
            [
                dataclasses.replace(each, protocol={**each.protocol, "max_steps": most}, replan=replan)
                for each in records
            ],
            run=policy,
        )
    report("--paper=libero-para", "--backend=template", "--table=3", "--format=json")
    told = [text for text in json.loads(capsys.readouterr().out)["paper"]["left_out"] if "differs" in text]
    (text,) = told
    assert "libero_para: max_steps differs" in text
    assert text.endswith("300 (one, two), 600 (three)")


# Formats, and what is refused


def stove(policy: str) -> Sequence[Record]:
    return [
        dataclasses.replace(paraphrased("turn_on_the_stove", n, "success" if n % 3 else "failure"), policy=policy)
        for n in range(6)
    ]


def test_any_number_of_models_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    for policy in ("one", "two", "three"):
        write(stove(policy), run=policy)
    words = ("--paper=libero-para", "--backend=template", "--table=3")
    checks: dict[str, Callable[[str], bool]] = {
        "terminal": lambda text: "Table 3. " in text and max(map(len, text.splitlines())) <= 100,
        "csv": lambda text: text.startswith("# paper.table-3\nmodel,from,SR,PRIDE,overestimation\n"),
        "latex": lambda text: r"\caption{Table 3. " in text and "three & own & 66.7" in text,
        "json": lambda text: json.loads(text)["paper"]["tables"][0]["table"] == "3",
    }
    for format, is_right in checks.items():
        report(*words, f"--format={format}")
        said = capsys.readouterr().out
        assert is_right(said), format
        assert all(policy in said for policy in ("one", "two", "three", "pi05"))
    report(*words, "--intervals", "--format=csv")
    assert "SR low,SR high" in capsys.readouterr().out
    report(*words, "-o", "page.html")
    page = Path("page.html").read_text()
    assert all(policy in page for policy in ("one", "two", "three", "pi05", "Table 3. "))
    places = [page.index(f'id="{name}-title"') for name in ("section-paper", "comparison", "tasks")]
    assert places == sorted(places), "what was asked for is first"
    assert "only the words were varied" in page
    write([record("pro.swap", 0, "success")], run="pro")
    report("pro", "--paper=libero-pro", "-o", "page.html")
    assert "only the words were varied" not in Path("page.html").read_text()


def test_lines_are_as_wide_as_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write(stove("one"))
    words = ("--paper=libero-para", "--backend=template", "--intervals")
    for columns in (72, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        report(*words)
        assert max(map(len, capsys.readouterr().out.splitlines())) <= columns
    report(*words, "-o", "report.txt")
    assert max(map(len, Path("report.txt").read_text().splitlines())) > 80, "a file is for any terminal"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--paper=libero-par"], "Did you mean libero-para"),
        (
            ["--paper=libero-para", "--table=99"],
            "no table or figure '99' here. Known: 2, 3, 4, fig5, fig6, fig7, 8, 10, 11, fig10, ",
        ),
        (["--paper=libero-para", "--table=8"], "Table 8 of libero-para is not available: "),
        (["--paper=libero-para", "--table=4"], "pytest --vla-suite=libero_para"),
        (["--paper=libero-plus"], "pytest --vla-suite=libero_plus_spatial"),
        (["--paper=vlatest"], "pytest-vla reproduce vlatest"),
        (["--table=3"], "--table requires --paper"),
        (["--intervals"], "--intervals requires --paper"),
        (["--section=paper"], "--section=paper requires --paper"),
    ],
)
def test_what_there_is_not_is_said(arguments: list[str], error: str) -> None:
    write(stove("one"))
    with pytest.raises(VlaError) as raised:
        report("--backend=template", *arguments)
    assert error in str(raised.value)


def test_other_runs_that_have_a_papers_episodes_are_named() -> None:
    write(stove("one"), run="para")
    write(model_that_touches(), run="arena")
    write([record("", 0, "success")], run="benign")
    with pytest.raises(VlaError, match=r"Try `pytest-vla report para --paper=libero-para --table=3`") as raised:
        report("benign", "--backend=template", "--paper=libero-para", "--table=3")
    assert "1 other run beside" in str(raised.value)
    with pytest.raises(VlaError) as raised:
        report("arena", "--paper=libero-pro")
    assert "other run" not in str(raised.value), "a benign run has nothing for tables of variations"


def test_tables_that_cannot_be_made_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    write(stove("one"))
    report("--backend=template", "--paper=libero-para")
    said = capsys.readouterr().out
    assert [line.split(":")[0] for line in said.splitlines() if "not available" in line] == [
        "Table 8",
        "Table 10",
    ]
    assert "pytest --vla-suite=libero_para" in " ".join(said.split()), "Table 4 needs trajectories"


def test_models_are_compared_on_the_cases_that_all_have(capsys: pytest.CaptureFixture[str]) -> None:
    for policy, count in (("one", 6), ("two", 4), ("three", 5)):
        write([dataclasses.replace(each, policy=policy) for each in stove("one")[:count]], run=policy)
    words = ("--paper=libero-para", "--backend=template", "--table=3")
    rows = {row[0]: row[1] for row in own(capsys, *words)["3"]}
    assert rows == dict.fromkeys(("one", "two", "three"), 50.0), "of the first four each third one succeeded"
    report(*words)
    said = " ".join(capsys.readouterr().out.split())
    assert "compared on the 4 cases that all of them have; left out: 2 of one, 1 of three" in said


def test_a_case_on_which_one_model_broke_off_is_no_shared_one(capsys: pytest.CaptureFixture[str]) -> None:
    """The second of six, which succeeded: beside it the others' rate would be over other cases."""
    for policy, place in (("one", None), ("two", 1)):
        some = [dataclasses.replace(each, policy=policy) for each in stove("one")[:6]]
        if place is not None:
            some[place] = dataclasses.replace(some[place], outcome="error", reason="policy-raised")
        write(some, run=policy)
    words = ("--paper=libero-para", "--backend=template", "--table=3")
    rates = {row[0]: row[1] for row in own(capsys, *words)["3"]}
    assert rates["one"] == rates["two"]
    report(*words)
    said = " ".join(capsys.readouterr().out.split())
    assert "libero_para: 1 of two had errors or could not be measured: in no rate" in said
    assert "compared on the 5 cases that all of them have; left out: 1 of one" in said


def test_a_model_without_variations_takes_none_from_others(capsys: pytest.CaptureFixture[str]) -> None:
    labels = ("", "pro.swap", "pro.task")
    write([record(label, seed, "success", policy="whole") for label in labels for seed in range(3)], run="whole")
    write([record("", seed, "failure", policy="smoke") for seed in range(2)], run="smoke")
    (row,) = own(capsys, "--paper=libero-pro", "--table=2-5")["2-5"]
    assert row[:3] + row[4:5] + row[6:7] == ["libero_goal", "whole", 1.0, 1.0, 1.0]
    report("--paper=libero-pro", "--table=2-5")
    said = " ".join(capsys.readouterr().out.split())
    assert "libero_goal, without a variation: models are compared on the 2 cases" in said


def test_chosen_cases_count_in_no_papers_rate(capsys: pytest.CaptureFixture[str]) -> None:
    touching = model_that_touches()
    chosen = [dataclasses.replace(each, outcome="failure", given=number < 9) for number, each in enumerate(touching)]
    write([each if each.given else touching[number] for number, each in enumerate(chosen)])
    (row,) = own(capsys, "--paper=vla-arena", "--table=1")["1"]
    assert row[2] == pytest.approx(sum(number % 5 != 4 for number in range(9, 18)) / 9), "L0, of which nine are given"
    report("--paper=vla-arena", "--table=1")
    assert "9 given cases (--vla-cases)" in " ".join(capsys.readouterr().out.split())
    write(
        [record(label, seed, "success", given=seed > 0) for label in ("", "pro.swap") for seed in range(3)], run="pro"
    )
    report("pro", "--format=json", "--section=libero_pro")
    (model,) = json.loads(capsys.readouterr().out)["libero_pro"]
    assert [model["suites"][0]["columns"][name]["n"] for name in ("Ori", "Pos")] == [1, 1]
    some = [episode(f"{STOVE}_{PLAIN}_noise_{number}", True, given=number > 1) for number in (1, 2)]
    write(some, run="plus")
    report("plus", "--format=json", "--section=libero_plus")
    (model,) = json.loads(capsys.readouterr().out)["libero_plus"]
    assert model["dimensions"]["noise"]["n"] == 1


def test_versions_of_a_policy_stay_apart_even_without_a_case_in_common(capsys: pytest.CaptureFixture[str]) -> None:
    digests = ("a" * 64, "b" * 64)
    write([dataclasses.replace(each, policy_digest=digests[n < 2]) for n, each in enumerate(stove("one"))])
    words = ("--paper=libero-para", "--backend=template", "--table=3")
    rows = {row[0]: row[1] for row in own(capsys, *words)["3"]}
    assert rows == {"one (policy bbbbbbbb)": 50.0, "one (policy aaaaaaaa)": 75.0}
    report(*words)
    assert "no case was run with all of 2 models" in " ".join(capsys.readouterr().out.split())


def test_gpu_hours_are_of_the_time_in_which_episodes_ran() -> None:
    starts = ("2026-01-01T00:00:00+00:00", "2026-01-01T00:30:00+00:00", "2026-01-02T00:00:00+00:00")
    records = [
        dataclasses.replace(one, run="a", started=start, timings={"wall": 3600.0})
        for one, start in zip(stove("one"), starts, strict=False)
    ]
    loaded = Loaded(tuple(records), {}, {}, gpus={"a": 2})
    assert gpu_hours(records, loaded) == pytest.approx(2 * 2.5), "two at once share them, and a day's pause costs none"
    assert gpu_hours([*records, dataclasses.replace(records[0], run="b")], loaded) is None
    assert gpu_hours([dataclasses.replace(records[0], timings={"wall": None})], loaded) is None


def test_a_wrong_paper_is_named_without_any_run() -> None:
    with pytest.raises(VlaError, match="libero-parra"):
        report("--paper=libero-parra")
