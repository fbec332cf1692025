"""``pytest-vla report``: the numbers of made runs with paths and probes."""

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from pytest_vla import extensions
from pytest_vla.cli import main
from pytest_vla.commands.report import FORMATS
from pytest_vla.entries import SectionEntry
from pytest_vla.errors import VlaError
from pytest_vla.language import similarity
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports import figures
from pytest_vla.reports.blocks import Column, PageDrawing, Table
from pytest_vla.reports.sections import Section
from pytest_vla.util import live_line as waiting
from tests.support.paraphrased import BOWL, ENDS, PLATE, STOVE, para_record, paraphrased, path_to, probed
from tests.support.records import RECORD
from tests.support.reports import RESULTS, models_of, report, write
from tests.support.waiting import HANG, until


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def test_errors_and_invalid_episodes_are_in_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = ["success", "success", "failure", "error", "invalid"]
    write(paraphrased(STOVE, index, outcome) for index, outcome in enumerate(outcomes))
    (model,) = models_of(capsys, "--backend=template")
    assert (model["n"], model["sr"]) == (3, pytest.approx(200 / 3))
    assert (model["errors"], model["invalid"]) == ({"policy-raised": 1}, {"goal-holds-at-start": 1})
    assert model["backend"] == "template 1 (low fidelity)"
    report("--backend=template")
    assert (model["not_counted"], model["bounds"]) == (2, [40, 80])
    lines = capsys.readouterr().out.splitlines()
    assert "in no rate: 1 policy-raised, 1 goal-holds-at-start" in lines
    assert "in no rate of paraphrases: 1 policy-raised, 1 goal-holds-at-start; with them 40.0% to 80.0%" in lines


def test_a_rate_at_its_end_is_not_certain(capsys: pytest.CaptureFixture[str]) -> None:
    write(paraphrased(STOVE, index, "success", seed=seed) for index in range(10) for seed in range(7, 12))
    (model,) = models_of(capsys, "--backend=template")
    # Ten paraphrases, and not fifty episodes: Wilson's of 10 of 10.
    assert (model["sr"], model["sr_interval"]) == (100, [pytest.approx(72.25, abs=0.01), pytest.approx(100)])
    low, high = model["pride_interval"]["0.5"]
    assert 0 < low <= model["sr_interval"][0] + 1e-9, "paraphrases that weigh unequally say less"
    assert (model["pride"]["0.5"], high, model["overestimation"]) == (pytest.approx(100), 100, pytest.approx(0))
    low, high = model["overestimation_interval"]
    assert -10 < low < 0 < high < 10
    report("--backend=template")
    assert "-0.0" not in capsys.readouterr().out


def test_the_first_of_one_case_counts_and_own_tests_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    write([paraphrased(STOVE, 0, "failure"), paraphrased(STOVE, 1, "success")], run="a-run")
    write(
        [
            paraphrased(STOVE, 0, "success"),
            paraphrased(STOVE, 1, "failure", seeds=RECORD.seeds | {"run": 5}),
            paraphrased(STOVE, 0, "failure", node="test_mine.py::test_it"),
        ],
        run="b-run",
    )
    (model,) = models_of(capsys, "--backend=template")
    assert (model["n"], model["sr"], model["runs"]) == (3, pytest.approx(100 / 3), ["a-run", "b-run"])
    assert model["left_out"][:2] == [
        "1 episode of your own tests: only the suite's own items count",
        "1 repeat of 1 episode, whose first record counts: 1 (100.0%) ended differently, 0 (0.0%) with another digest",
    ]
    (model,) = models_of(capsys, "--backend=template", "a-run")
    assert (model["n"], model["sr"]) == (2, 50)


def test_runs_are_named_and_folders_too(capsys: pytest.CaptureFixture[str]) -> None:
    write([paraphrased(STOVE, 0, "failure")], run="20260101-a")
    write([(paraphrased(PLATE, 0, "success"), path_to(ENDS[PLATE]))], run="20260102-b", planned=3)
    for which, n in [("last", 1), ("20260101", 1), (".vla/20260102-b", 1), (".vla", 2)]:
        (model,) = models_of(capsys, "--backend=template", which)
        assert model["n"] == n
        assert ("run 20260102-b has 1 of 4 episodes: the others are not in it" in model["left_out"]) == (
            which != "20260101"
        )
    (model,) = models_of(capsys, "--backend=template", "20260101", "20260102", ".vla")
    assert model["n"] == 2, "each once"
    with pytest.raises(VlaError, match=r"there is no run 'nothing' in \.vla"):
        report("nothing")
    Path("empty").mkdir()
    for arguments in (["empty"], ["empty", "--results=nowhere"]):
        with pytest.raises(
            VlaError, match=r"the folder empty has no results: neither it nor its parent has results.sqlite"
        ):
            report(*arguments)


def test_other_changes_of_the_text_are_apart_and_twins_beside(capsys: pytest.CaptureFixture[str]) -> None:
    words = {"label": "language.words-L2", "dimension": "language", "kind": "words", "level": 2, "parameters": {}}
    camera = {"label": "camera", "dimension": "camera", "kind": "shift", "level": None, "parameters": {}}
    write(
        [
            para_record(STOVE, 7, "success", {}, "turn on the stove"),
            para_record(STOVE, 8, "failure", {}, "turn on the stove"),
            para_record(STOVE, 7, "success", words, "turn on the oven"),
            para_record(PLATE, 7, "failure", words, "put the vessel on the plate"),
            para_record(PLATE, 7, "failure", camera, "put the bowl on the plate"),
        ]
    )
    (model,) = models_of(capsys, "--backend=template")
    assert (model["n"], model["benign"]["n"], model["benign"]["sr"]) == (0, 1, 100), "seed 8 is nobody's twin"
    assert [(each["kind"], each["n"], each["sr"]) for each in model["others"]] == [("words level 2", 2, 50)]
    assert model["others"][0]["pd"] > 0
    assert "PRIDE and the grids: there is no success and no failure under a paraphrase" in model["left_out"]


def test_any_alpha_has_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    write(paraphrased(STOVE, index, "success" if index < 3 else "failure") for index in range(6))
    (model,) = models_of(capsys, "--backend=template", "--alpha=0.55")
    assert list(model["pride"]) == ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.55", "0.6", "0.7", "0.8", "0.9", "1.0"]
    between = sorted([model["pride"]["0.5"], model["pride"]["0.6"]])
    assert between[0] - 1e-9 <= model["pride"]["0.55"] <= between[1] + 1e-9
    with pytest.raises(SystemExit):
        report("--alpha=1.5")


def test_failures_are_near_or_far_and_did_another_task(capsys: pytest.CaptureFixture[str]) -> None:
    records = []
    for task, end in ENDS.items():
        for index in range(6):
            records.append((paraphrased(task, index, "success"), path_to(end, noise=0.01, seed=index)))
    # Of the stove's: one as the successes, one to the plate, one that rests; and one without a path.
    records += [
        (paraphrased(STOVE, 6, "failure"), path_to(ENDS[STOVE], noise=0.0)),
        (paraphrased(STOVE, 7, "failure"), path_to(ENDS[PLATE])),
        (paraphrased(STOVE, 8, "failure"), path_to((0, 0, 0), noise=0.001)),
    ]
    lonely = "open_the_middle_drawer_of_the_cabinet"
    write([*records, paraphrased(STOVE, 9, "failure"), (paraphrased(lonely, 0, "failure"), path_to((0.5, 0.5, 0.5)))])
    (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    failures = model["failures"]
    assert (failures["algorithm"], failures["n"], failures["differing"]) == ("exact", 22, 0)
    shares = [failures[name] for name in ("sr", "near", "far", "undefined")]
    assert shares == pytest.approx([100 * each / 22 for each in (18, 1, 2, 1)])
    assert failures["far_of_failures"] == pytest.approx(200 / 3)
    for name in ("sr", "near", "far", "undefined", "far_of_failures"):
        low, high = failures[f"{name}_interval"]
        assert low <= failures[name] <= high
        assert low < high
    assert failures["thresholds"]["max"]["near"] == failures["near"] >= failures["thresholds"]["p90"]["near"]
    tasks = {task["name"]: task for task in failures["tasks"]}
    stove = tasks[STOVE]
    assert (stove["successes"], stove["failures"], stove["near"], stove["far"]) == (6, 3, 1, 2)
    assert (stove["instead"], stove["of_no_task"], stove["remarks"]) == ({PLATE: 1}, 1, {"static": 1})
    assert (tasks[lonely]["undefined"], tasks[lonely]["near"], tasks[lonely]["far"]) == ("no-success", None, None)
    assert "failure types: 1 of 23 episodes has no trajectory" in model["left_out"]
    assert 0.9 < stove["instead_margin"][PLATE] < 1
    static, other = sorted(stove["far_failures"], key=lambda each: each["margin"] or 0)
    assert (static["instead"], static["nearest"], static["margin"]) == (None, None, None)
    assert (other["instead"], other["nearest"]) == (PLATE, PLATE)
    assert other["margin"] == stove["instead_margin"][PLATE]
    assert other["case"] == "libero_para/turn_on_the_stove[none.hint.7-seed7]"


def test_tau_as_the_paper_has_it_is_smaller(capsys: pytest.CaptureFixture[str]) -> None:
    """Each success is in the mean that it is compared with: more failures are far, as Tables 4 and 16 count them."""
    records = [
        (paraphrased(STOVE, index, "success"), path_to(ENDS[STOVE], noise=0.02, seed=index)) for index in range(6)
    ]
    records += [
        (paraphrased(STOVE, 10 + index, "failure"), path_to(ENDS[STOVE], noise=0.02, seed=100 + index))
        for index in range(20)
    ]
    lonely = "open_the_middle_drawer_of_the_cabinet"
    records += [
        (paraphrased(lonely, index, "success"), path_to((0.5, 0.5, 0.5), noise=0.01, seed=index)) for index in range(2)
    ]
    write([*records, (paraphrased(lonely, 9, "failure"), path_to((0.5, 0.5, 0.5)))])
    found = {}
    for tau in ("leave-one-out", "paper"):
        (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact", f"--tau={tau}")
        assert model["failures"]["tau"] == tau
        found[tau] = {task["name"]: task for task in model["failures"]["tasks"]}
    assert found["paper"][STOVE]["far"] > found["leave-one-out"][STOVE]["far"]
    # Two successes are enough for the paper, and too few to be told apart from luck.
    assert (found["leave-one-out"][lonely]["undefined"], found["paper"][lonely]["undefined"]) == ("few-successes", None)
    (usual,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    assert usual["failures"]["tau"] == "leave-one-out"


def test_failures_under_any_other_text_have_types_and_probes_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    words = {"label": "language.words-L2", "dimension": "language", "kind": "words", "level": 2, "parameters": {}}
    records: list[Record | tuple[Record, Trajectory]] = []
    for task, end in ENDS.items():
        for seed in range(6):
            done = para_record(task, seed, "success", words, f"do {task}")
            records.append((done, path_to(end, noise=0.01, seed=seed)))
    records.append((para_record(STOVE, 6, "failure", words, "turn on the oven"), path_to(ENDS[PLATE])))
    records.append((probed(STOVE, "blank", "failure"), path_to(ENDS[BOWL])))
    write(records)
    (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    assert (model["failures"]["n"], model["failures"]["far"]) == (19, pytest.approx(100 / 19))
    (stove,) = [task for task in model["failures"]["tasks"] if task["name"] == STOVE]
    assert stove["instead"] == {PLATE: 1}
    assert not any(text.startswith("failure types") for text in model["left_out"])
    # Keys are those of LIBERO-Para's types; the rest is in others.
    assert (model["n"], model["sr"], model["pride"], model["overestimation"]) == (0, None, None, None)
    assert (model["cells"], model["tasks"]) == ([], [])
    assert [each["n"] for each in model["others"]] == [19]


def test_what_failure_types_lack_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    write([probed(STOVE, "blank", "failure")])
    (model,) = models_of(capsys)
    assert "failure types: there is no success and no failure under another text, probes aside" in model["left_out"]
    write([paraphrased(STOVE, 0, "failure"), paraphrased(STOVE, 1, "success")], run="b-run")
    (model,) = models_of(capsys, "--backend=template")
    assert "failure types: no episode has a trajectory" in model["left_out"]
    assert model["failures"] is None


def test_the_default_algorithm_is_the_papers_or_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_vla.util import extras as missing

    write((paraphrased(STOVE, i, "success" if i < 3 else "failure"), path_to(ENDS[STOVE], seed=i)) for i in range(5))
    monkeypatch.setattr(missing, "is_installed", lambda module: False)
    (model,) = models_of(capsys, "--backend=template")
    assert model["failures"]["algorithm"] == "exact"
    assert any(text.startswith("fastdtw, the paper's DTW: it is not installed") for text in model["left_out"])


def test_trajectories_that_cannot_be_read_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    write([(paraphrased(STOVE, index, "success"), path_to(ENDS[STOVE])) for index in range(3)])
    (RESULTS / "a-run" / "libero_para" / "1.npz").write_text("no npz")
    (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    assert any(text.startswith("1 trajectory whose hand path cannot be used: .vla") for text in model["left_out"])
    (RESULTS / "a-run" / "libero_para" / "2.npz").unlink()
    (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    assert (model["n"], model["failures"]["n"]) == (3, 1)
    assert any(
        text.startswith("2 trajectories whose hand paths cannot be used, such as .vla") for text in model["left_out"]
    )


def test_a_policy_that_listens(capsys: pytest.CaptureFixture[str]) -> None:
    records = []
    for seed in range(8):
        for task, other in ((STOVE, PLATE), (PLATE, STOVE)):
            still, there = path_to((0, 0, 0), noise=0.0), path_to(ENDS[task], seed=seed)
            benign = para_record(task, seed, "success", {}, task.replace("_", " "))
            records += [
                (benign, there),
                (probed(task, "blank", "failure", seed), still),
                (probed(task, "nonsense", "failure" if seed else "success", seed), there if not seed else still),
                (probed(task, "other_task", "failure", seed, other=other), path_to(ENDS[other], seed=seed)),
                (probed(task, "other_goal", "success" if seed < 6 else "failure", seed, other=other), still),
            ]
    write(records)
    (model,) = models_of(capsys)
    assert (model["listening"]["noise"], model["listening"]["path_score"]) == (None, None)
    (said,) = [text for text in model["left_out"] if text.startswith("the path score and its noise")]
    assert "another --vla-run-seed" in said
    again = [para_record(t, s, "success", {}, "", seeds={"run": 1}) for t in (STOVE, PLATE) for s in range(8)]
    write([(record, path_to(ENDS[record.task], seed=100 + record.seed)) for record in again], run="b-run")
    write([probed(BOWL, "blank", "failure"), probed(STOVE, "blank", "error", seed=9)], run="c-run")
    (model,) = models_of(capsys)
    heard = model["listening"]
    assert set(heard["probes"]) == {"blank", "nonsense", "other_task", "other_goal"}
    assert not any("--vla-run-seed" in text for text in model["left_out"])
    assert 0 < heard["noise"] < heard["distance"]
    goal = heard["probes"]["other_goal"]
    assert (goal["score"], goal["sr_probe_n"], goal["obeyed"], goal["obeyed_n"]) == (None, 0, 75, 16)
    assert (heard["obeyed"], heard["followed_n"], heard["sr_right_n"]) == (75, 16, 16)
    assert goal["distance"] > 1
    assert (model["others"], model["n"], model["pride"]) == ([], 0, None)
    assert (heard["probes"]["blank"]["score"], heard["probes"]["nonsense"]["score"]) == (1, pytest.approx(14 / 16))
    assert (heard["lost"], heard["gained"], heard["score"]) == (46, 0, pytest.approx(46 / 48))
    assert heard["path_score"] > 0.8
    assert heard["probes"]["other_task"]["followed"] == 100
    assert heard["probes"]["other_task"]["followed_n"] == 16
    assert model["backend"] is None
    assert "1 episode under a probe: error or invalid" in model["left_out"]
    assert any(text.startswith("1 episode under a probe, without a measured benign twin") for text in model["left_out"])
    assert heard["verdict"] == "listens"


def test_a_run_of_errors_alone_says_so() -> None:
    write(para_record(STOVE, seed, "error", {}, "turn on the stove") for seed in (0, 1))
    with pytest.raises(VlaError, match=r"nothing to report: .*; 2 of them ended as errors or invalid: 2 policy-raised"):
        report()


def test_nothing_varied_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"no runs in \.vla yet"):
        report()
    write([para_record(STOVE, 0, "success", {}, "turn on the stove")])
    with pytest.raises(VlaError, match="nothing to report: none of 1 record has a variation, another text"):
        report()
    assert not (tmp_path / "out.json").exists()


def test_a_file_is_written_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write([paraphrased(STOVE, 0, "failure", policy="na\x1b[2Jme")])
    report("--backend=template", "-o", "out.json")
    report("--backend=template", "-o", "out.txt")
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "out.json").read_text())["models"][0]["model"] == "na\x1b[2Jme"
    text = (tmp_path / "out.txt").read_text()
    assert "na?[2Jme" in text, "a terminal would obey it"
    report("--backend=template", "--format=terminal", "-o", "out.md")
    assert (tmp_path / "out.md").read_text() == text


def never(loaded: object, options: object) -> None:
    raise AssertionError("nothing is computed for an output that cannot be written")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-o", "nowhere/out.json"], "cannot write nowhere/out.json: there is no folder nowhere"),
        (["-o", "out.pdf"], r"-o out.pdf: unknown ending .pdf. Expected .json, .txt, .html,"),
        (["-o", "x.png"], r"-o x.png: there are several pictures. Give a folder: --format=png -o FOLDER"),
        (["--format=png", "-o", "x.PNG"], r"there are several pictures"),
        (["-o", "folder"], r"-o folder is a folder. Give a file, or --format=png to write pictures into it"),
        (["--format=terminal", "--videos=all:1"], r"--videos requires --format=html -o report.html; found terminal"),
        (["-o", "out.json", "--pictures=3"], r"--pictures requires --format=html -o report.html; found json"),
        (["--format=png", "-o", "file/pictures"], r"pictures are written into a folder: \S*file is no folder"),
    ],
)
def test_an_output_that_cannot_be_is_refused_at_once(
    arguments: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write([paraphrased(STOVE, 0, "failure")])
    Path("folder").mkdir()
    Path("file").touch()
    monkeypatch.setattr("pytest_vla.reports.loaded.load", never)
    monkeypatch.setattr(figures, "check_matplotlib", lambda: None)
    before = sorted(Path().rglob("*"))
    with pytest.raises(VlaError, match=why):
        report(*arguments)
    assert sorted(Path().rglob("*")) == before, "nothing is made"


def _lines_that_raise() -> list[str]:
    raise ValueError("no\nlines")


def _pictures(drawn: Any) -> Any:
    return lambda: drawn


SECTION = Section(lambda: ["ours"], {"ours": 1}, {}, dict)


@pytest.mark.parametrize(
    ("format", "made", "why"),
    [
        *(
            (each, "text", "it returned str, expected pytest_vla.reports.sections.Section")
            for each in FORMATS
            if each != "leaderboard"
        ),
        ("terminal", replace(SECTION, blocks=_lines_that_raise), "ValueError: no lines"),
        ("terminal", replace(SECTION, blocks=lambda: "ours"), "blocks() returned str, expected blocks"),
        ("json", replace(SECTION, table=[]), "table is list, expected a mapping"),
        (
            "json",
            replace(SECTION, table={"ours": {1}}),
            "table or models cannot be written as JSON: Object of type set",
        ),
        ("json", replace(SECTION, models={"ours": {}}), "models has 'ours', expected the names of a model"),
        ("png", replace(SECTION, pictures=_pictures({"a": "b"})), "pictures() returned dict, expected a mapping of"),
    ],
)
def test_a_section_that_is_none_is_told_and_leaves_the_others(
    format: str, made: Any, why: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = PageDrawing(lambda: Markup('<svg viewBox="0 0 1 1"></svg>'), name="kept")
    blocks = ["kept", Table("kept", (Column("kept"),), ((1,),)), drawing]
    ours = Section(lambda: blocks, {"kept": True}, {}, lambda: {"kept": b"png"})
    givers = {":bad": lambda loaded, options: made, ":good": lambda loaded, options: ours}
    entries = [SectionEntry(load[1:], "", load, origin="-p mine") for load in givers]
    monkeypatch.setattr(extensions, "sections", lambda: tuple(entries))
    load = extensions.load
    monkeypatch.setattr(extensions, "load", lambda entry: givers.get(entry.load) or load(entry))
    monkeypatch.setattr(figures, "check_matplotlib", lambda: None)
    write([para_record(STOVE, 0, "success", {}, "turn on the stove")])
    assert main(["report", "--format", format]) == 1
    out, err = capsys.readouterr()
    assert "kept" in out
    assert "ours" not in out
    assert err.startswith(f"pytest-vla: the section bad, of -p mine, is left out: {why}")
    assert err.count("\n") == 1


def test_who_waits_is_told_what_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write([paraphrased(STOVE, index, "failure") for index in range(3)])
    monkeypatch.setattr(waiting, "PATIENCE", HANG)
    report("--backend=template")
    assert capsys.readouterr().err == ""
    compare = similarity.compare_words
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)

    def slow(*texts: str) -> Any:
        until(told.getvalue)
        return compare(*texts)

    monkeypatch.setattr(similarity, "compare_words", slow)
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    report("--backend=template", "--format=json")
    out = capsys.readouterr().out
    assert told.getvalue().splitlines()[0] == "comparing 3 pairs of texts by template; what is worked out is kept ..."
    assert json.loads(out)["models"]


def test_a_policy_that_a_store_names_is_not_called_unasked(tmp_path: Path) -> None:
    from argparse import Namespace
    from types import SimpleNamespace

    from pytest_vla.commands.report import _policies

    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "results.sqlite").touch()
    run: Any = SimpleNamespace(name="run", model="subprocess:getoutput?cmd=touch ran")
    refused: dict[str, None] = {}
    folders = {"run": tmp_path / "theirs" / "run"}
    policy_of = _policies(Namespace(vla_model=None, vla_device=None), folders, refused)
    with pytest.raises(VlaError, match=r"subprocess.py is not in the project .*, then add --vla-model='subprocess:"):
        policy_of(run, RECORD)
    assert [each.partition(",")[0] for each in refused] == [
        "--occlusion would load the policy subprocess:getoutput?cmd=touch ran of run run"
    ]
    assert not (tmp_path / "ran").exists()
    run.model = "random"
    assert callable(policy_of(run, RECORD))
