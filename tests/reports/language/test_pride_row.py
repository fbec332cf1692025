"""The row of LIBERO-Para's Table 3 at a run's end, and the command that tells the rest."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_vla.language import backends, models
from pytest_vla.language.published import FILE
from pytest_vla.language.similarity import Parsed, Token
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.reports.language import language_lines, make_report
from pytest_vla.reports.loaded import load
from pytest_vla.reports.terminal import closing_lines
from tests.support.data import REPOSITORY
from tests.support.golden import check_golden
from tests.support.records import record_of
from tests.support.varied import varied

HEADER = "high,mid,low,eval,batch_idx,new_instruction,original_instruction,structural_similarity,keyword_similarity\n"
TEXTS = ("kindly turn on the stove", "turn on the gas stove", "switch on the stove", "could the stove be on?")
CSV = HEADER + "".join(
    f"act,lexical,addition_deletion,9,{index},{text},turn on the stove,{0.9 - index / 5:.2f},{1 - index / 10:.2f}\n"
    for index, text in enumerate(TEXTS)
)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "para").mkdir()
    (tmp_path / "para" / FILE).write_text(CSV)
    return tmp_path / "para"


def paraphrased(**changes: Any) -> list[Record]:
    types = {"object_type": "none", "action_type": "addition_deletion", "original": "turn on the stove"}
    found = []
    for index, text in enumerate(TEXTS):
        label = f"none.addition_deletion.{index}"
        table = {"label": label, "dimension": "language", "kind": "paraphrase", "level": None, "parameters": types}
        for seed in (0, 1):
            done = (index + seed) % 3 == 0
            found.append(varied(label, done, seed=seed, instruction=text, variation=table))
    return [replace(each, **changes) for each in found]


def kept(results: Path, records: list[Record], data: Path | None = None) -> Path:
    """Store the records and return the run's folder."""
    with open_store(results, create=True) as store:
        invocation = {"settings": {"data": None if data is None else str(data)}}
        store.begin("a-run", [each.node for each in records], command="pytest", model="random", invocation=invocation)
        store.add_all(records)
        store.end("a-run", "finished")
    (results / "a-run").mkdir()
    return results / "a-run"


@pytest.fixture
def words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the installed parsers."""
    monkeypatch.setattr(backends, "NAMES", ("published", "template"))


class Words:
    """A parser that is installed: a word is its own lemma, and hangs on the first one."""

    name, version = "en_core_web_sm", "flat"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        self.asked += texts
        return [
            Parsed(text.lower(), (tuple(Token(word, word, "NOUN", "ROOT", 0) for word in text.lower().split()),))
            for text in texts
        ]


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Words:
    found = Words()
    monkeypatch.setattr(models, "english_parser", lambda: found)
    monkeypatch.setattr(backends, "is_installed", lambda module: True)
    monkeypatch.setattr(models, "find_model", lambda: Path("model"))
    monkeypatch.setattr(models, "_encode", lambda words: np.eye(models.LENGTH, dtype=np.float32)[: len(words)])
    monkeypatch.setattr(backends, "compare_trees", lambda *trees: SimpleNamespace(similarity=0.5))
    return found


def test_the_row_is_the_reports(data: Path) -> None:
    records = [record_of(0, "success"), *paraphrased(), varied("language.blank", False)]
    run = kept(Path(".vla"), records, data)
    title, header, row, by, more = language_lines(records, run, ".vla/a-run", 80)
    assert title == "paraphrases by random, % [95% over paraphrases like these, of these tasks]"
    assert header.split() == ["suite", "n", "SR", "PRIDE", "overestimation"]
    assert by.startswith("PRIDE at alpha 0.5 by published libero-para csv ")
    # The command is the one that gives the same.
    assert more == f"Full report: `pytest-vla report .vla/a-run --data={data / FILE}`"
    which = Path(shlex.split(more.partition("`")[2].rstrip("`"))[2])
    report = make_report(load([str(which)], Path("nowhere")), 0.5, data / FILE, None, "exact")
    assert report is not None
    (model,) = report.models
    assert model.paraphrases is not None
    overall = model.paraphrases.overall
    texts = [
        "{:.1f} [{:.1f}, {:.1f}]".format(each.value, *each.interval)
        for each in (overall.sr, overall.pride, overall.overestimation)
        if each is not None and each.interval is not None
    ]
    assert len(texts) == 3
    assert row.split() == " ".join(["libero_goal", "8", *texts]).split()


def test_data_of_the_environment_needs_no_option(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    *_, by, more = language_lines(paraphrased(), kept(Path(".vla"), paraphrased()), ".vla/a-run", None)
    assert "published" in by
    assert more == "Full report: `pytest-vla report .vla/a-run`"


@pytest.mark.usefixtures("words_alone")
def test_without_parsers_the_row_is_of_low_fidelity() -> None:
    *_, by, more = language_lines(paraphrased(), Path(".vla/a-run"), ".vla/a-run", 80)
    assert by == "PRIDE at alpha 0.5 by template 1 (low fidelity)"
    # Without a trajectory there is no such folder.
    assert more == "Full report: `pytest-vla report a-run --results=.vla`"


def test_without_paraphrases_only_the_command_is_named() -> None:
    Path(".vla/a-run").mkdir(parents=True)
    for records in ([varied("language.blank", False)], [varied("camera.distance-L2", True)]):
        assert language_lines(records, Path(".vla/a-run"), ".vla/a-run", 80) == [
            "Full report: `pytest-vla report .vla/a-run`"
        ]
    # Nothing was measured.
    broken = paraphrased(outcome="error", reason="policy-raised")
    assert len(language_lines(broken, Path(".vla/a-run"), ".vla/a-run", 80)) == 1


def test_a_csv_that_cannot_be_read_spoils_no_summary(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / FILE).write_text("nothing")
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    *trouble, more = language_lines(paraphrased(), Path(".vla/a-run"), ".vla/a-run", 80)
    assert " ".join(trouble).startswith("PRIDE: ")
    assert FILE in "".join(trouble)
    assert more.startswith("Full report: ")


def test_a_parser_is_not_loaded_and_what_a_report_has_worked_out_is_taken(parser: Words) -> None:
    records = paraphrased()
    run = kept(Path(".vla"), records)
    assert language_lines(records, run, ".vla/a-run", None) == [
        "PRIDE: not worked out here, as a parser would have to be loaded; the report does it, and keeps it",
        "Full report: `pytest-vla report .vla/a-run`",
    ]
    assert parser.asked == []
    report = make_report(load([str(run)], Path("nowhere")), 0.5, None, None, "exact")
    assert report is not None
    (model,) = report.models
    assert model.paraphrases is not None
    assert model.paraphrases.overall.pride is not None
    asked = len(parser.asked)
    assert asked
    *_, row, by, _ = language_lines(records, run, ".vla/a-run", None)
    assert by == "PRIDE at alpha 0.5 by en_core_web_sm flat, all-MiniLM-L6-v2 53aa5117"
    assert f" {model.paraphrases.overall.pride.value:.1f} [" in row
    assert len(parser.asked) == asked


def elsewhere(text: str) -> list[Record]:
    """Return episodes of another suite, with a text that was never published."""
    return [
        replace(each, suite="libero_10", instruction=f"{each.instruction} {text}", node=each.node.replace("goal", "10"))
        for each in paraphrased()
    ]


@pytest.mark.usefixtures("words_alone")
def test_each_suite_has_what_the_report_takes_for_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    records = [*paraphrased(), *elsewhere("now")]
    run = kept(Path(".vla"), records)
    _, _, other, goal, template, published, _ = language_lines(records, run, ".vla/a-run", None)
    assert (goal.split()[0], other.split()[0]) == ("libero_goal", "libero_10")
    assert published.startswith("PRIDE at alpha 0.5 by published libero-para csv ")
    assert published.endswith(" (libero_goal)")
    assert template == "PRIDE at alpha 0.5 by template 1 (low fidelity) (libero_10)"
    report = make_report(load([str(run)], Path("nowhere")), 0.5, data / FILE, "template", "exact")
    assert report is not None
    (overall,) = [each.paraphrases.overall for each in report.models if each.suite == "libero_10" and each.paraphrases]
    assert overall.pride is not None
    assert f" {overall.pride.value:.1f} [" in other


@pytest.mark.usefixtures("parser")
def test_what_needs_a_parser_takes_nothing_from_what_does_not(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    records = [*paraphrased(), *elsewhere("now")]
    _, _, row, by, left, _ = language_lines(records, kept(Path(".vla"), records), ".vla/a-run", None)
    assert row.split()[0] == "libero_goal"
    assert by.startswith("PRIDE at alpha 0.5 by published libero-para csv ")
    assert left.startswith("PRIDE of libero_10: not worked out here, as a parser would have to be loaded")


@pytest.mark.usefixtures("parser")
def test_similarities_of_the_records_are_taken_as_they_are() -> None:
    stored = {"s_k": 0.5, "s_t": 0.5, "similarity_by": "published libero-para csv 12345678"}
    records = [
        replace(each, variation={**each.variation, "parameters": {**each.variation["parameters"], **stored}})
        for each in paraphrased()
    ]
    _, _, row, by, _ = language_lines(records, Path(".vla/a-run"), ".vla/a-run", 80)
    assert by == "PRIDE at alpha 0.5 by published libero-para csv 12345678"
    # All distances are one: PRIDE is the success rate.
    assert row.split()[2] == row.split()[5] == "37.5"


def test_without_variations_nothing_more_is_imported() -> None:
    script = (
        "import sys; from pathlib import Path; from tests.support.records import record_of;"
        "from pytest_vla.reports.terminal import closing_lines;"
        "closing_lines([record_of(0)], Path('.vla/a-run'), [], 'pytest', 0, 80);"
        "print([name for name in ('numpy', 'pytest_vla.metrics.language', 'sqlite3') if name in sys.modules])"
    )
    folder = str(REPOSITORY)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r}); {script}"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_the_whole_summary_of_a_varied_run(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    records = [record_of(0, "success"), record_of(1, "success"), *paraphrased(), varied("language.blank", False)]
    run = kept(Path(".vla"), records)
    lines = closing_lines(records, run.resolve(), [], "pytest --vla-resume=a-run", 0, 80)
    assert max(len(line.text) for line in lines) <= 80
    check_golden(Path(__file__).with_name("golden") / "closing.txt", "\n".join(line.text for line in lines))
    quiet = closing_lines(records, run.resolve(), [], "pytest --vla-resume=a-run", -1, 80)
    assert quiet[0].text.startswith("vla: benign 2/2 success, ")
    assert not any("PRIDE" in line.text for line in quiet)
