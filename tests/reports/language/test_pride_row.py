"""The row of LIBERO-Para's Table 3 at a run's end, and the command that tells the rest."""

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language import backends
from pytest_vla.language.published import FILE
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.reports.language import pride_row
from pytest_vla.reports.language.compared import Source
from pytest_vla.reports.language.make import make_report
from pytest_vla.reports.language.pride_row import language_lines
from pytest_vla.reports.loaded import load
from pytest_vla.reports.terminal.summary import closing_lines
from tests.support.data import REPOSITORY
from tests.support.golden import check_golden
from tests.support.records import record_of
from tests.support.varied import varied
from tests.support.waiting import HANG

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
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)


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
    """The run's folder."""
    with open_store(results, create=True) as store:
        invocation = {"settings": {"data": None if data is None else str(data)}}
        store.begin("a-run", [each.node for each in records], command="pytest", model="random", invocation=invocation)
        store.add_all(records)
        store.end("a-run", "finished")
    (results / "a-run").mkdir()
    return results / "a-run"


WORDS = "from pytest_vla.language import backends; backends.NAMES = ('template',)"
"""As if no parser were installed, in the process that compares."""


def comparing_by(monkeypatch: pytest.MonkeyPatch, program: str, limit: float = HANG) -> None:
    """The program runs before the process compares."""
    command = f"{program}; from pytest_vla.reports.language.pride_row import compare; compare()"
    monkeypatch.setattr(pride_row, "_COMPARE", ("-P", "-c", command))
    monkeypatch.setattr(pride_row, "LIMIT_SECONDS", limit)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser has the time that it needs."""
    monkeypatch.setattr(pride_row, "LIMIT_SECONDS", HANG)


def test_the_row_is_the_reports(data: Path) -> None:
    records = [record_of(0, "success"), *paraphrased(), varied("language.blank", False)]
    run = kept(Path(".vla"), records, data)
    title, header, row, by, more = language_lines(records, run, ".vla/a-run", 80)
    assert title == "paraphrases by random, % [95% over paraphrases like these, of these tasks]"
    assert header.split() == ["suite", "n", "SR", "PRIDE", "overestimation"]
    assert by.startswith("PRIDE at alpha 0.5 by published libero-para csv ")
    # The command is the one that gives the same.
    assert more == f"more of it: `pytest-vla report .vla/a-run --data={data / FILE}`"
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
    assert more == "more of it: `pytest-vla report .vla/a-run`"


def test_without_parsers_the_row_is_of_low_fidelity(monkeypatch: pytest.MonkeyPatch) -> None:
    comparing_by(monkeypatch, WORDS)
    *_, by, more = language_lines(paraphrased(), Path(".vla/a-run"), ".vla/a-run", 80)
    assert by == "PRIDE at alpha 0.5 by template 1 (low fidelity)"
    # Without a trajectory there is no such folder.
    assert more == "more of it: `pytest-vla report a-run --results=.vla`"


def test_without_paraphrases_only_the_command_is_named() -> None:
    Path(".vla/a-run").mkdir(parents=True)
    for records in ([varied("language.blank", False)], [varied("camera.distance-L2", True)]):
        assert language_lines(records, Path(".vla/a-run"), ".vla/a-run", 80) == [
            "more of it: `pytest-vla report .vla/a-run`"
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
    assert more.startswith("more of it: ")


@pytest.mark.parametrize(
    ("program", "limit", "why"),
    [
        ("import time; time.sleep(3600)", 0.5, "not worked out here, as the parser takes longer than 0.5 s"),
        ("raise SystemExit(1)", HANG, "texts cannot be compared here; the report says why"),
    ],
)
def test_a_parser_that_takes_long_or_breaks_is_left_to_the_report(
    monkeypatch: pytest.MonkeyPatch, program: str, limit: float, why: str
) -> None:
    Path(".vla/a-run").mkdir(parents=True)
    comparing_by(monkeypatch, program, limit)
    assert language_lines(paraphrased(), Path(".vla/a-run"), ".vla/a-run", 80) == [
        f"PRIDE: {why}",
        "more of it: `pytest-vla report .vla/a-run`",
    ]


def elsewhere(text: str) -> list[Record]:
    """Episodes of another suite, with a text that was never published."""
    return [
        replace(each, suite="libero_10", instruction=f"{each.instruction} {text}", node=each.node.replace("goal", "10"))
        for each in paraphrased()
    ]


def test_each_suite_has_what_the_report_takes_for_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    comparing_by(monkeypatch, WORDS)
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
    # What is too slow takes nothing from what is not.
    comparing_by(monkeypatch, "import time; time.sleep(3600)", 0.5)
    _, _, row, by, slow, _ = language_lines(records, run, ".vla/a-run", None)
    assert (row.split(), by) == (goal.split(), published.removesuffix(" (libero_goal)"))
    assert slow == "PRIDE of libero_10: not worked out here, as the parser takes longer than 0.5 s"


def test_similarities_of_the_records_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    comparing_by(monkeypatch, "raise SystemExit(1)")
    stored = {"s_k": 0.5, "s_t": 0.5, "similarity_by": "published libero-para csv 12345678"}
    records = [
        replace(each, variation={**each.variation, "parameters": {**each.variation["parameters"], **stored}})
        for each in paraphrased()
    ]
    _, _, row, by, _ = language_lines(records, Path(".vla/a-run"), ".vla/a-run", 80)
    assert by == "PRIDE at alpha 0.5 by published libero-para csv 12345678"
    # All distances are one: PRIDE is the success rate.
    assert row.split()[2] == row.split()[5] == "37.5"


def test_what_the_other_process_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A file of the user's with the name of ours is not imported.
    (tmp_path / "pytest_vla.py").write_text("raise SystemExit(3)")
    comparing_by(monkeypatch, WORDS)
    (compared,) = pride_row._parsed([paraphrased()], None) or ()
    pairs = [("turn on the stove", text) for text in TEXTS]
    found = backends.template_backend().compare(pairs)
    assert compared.similarities == {
        pair: (each.keyword, each.structural) for pair, each in zip(pairs, found, strict=True)
    }
    assert compared.source == Source("template 1 (low fidelity)", True, {})
    with pytest.raises(VlaError, match=FILE):
        pride_row._parsed([paraphrased()], tmp_path / FILE)


def test_without_variations_nothing_more_is_imported() -> None:
    script = (
        "import sys; from pathlib import Path; from tests.support.records import record_of;"
        "from pytest_vla.reports.terminal.summary import closing_lines;"
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
    assert max(map(len, lines)) <= 80
    check_golden(Path(__file__).with_name("golden") / "closing.txt", "\n".join(lines))
    quiet = closing_lines(records, run.resolve(), [], "pytest --vla-resume=a-run", -1, 80)
    assert quiet[0].startswith("vla: benign 2/2 success, ")
    assert not any("PRIDE" in line for line in quiet)
