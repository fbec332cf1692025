"""Tables of a report as CSV and LaTeX: numbers are the JSON's, and no text becomes a formula or a command."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.metrics.language_grounding import GroundingEstimate, GroundingShare
from pytest_vla.reports.blocks import Block, Column, Heading, MarkedNumber, Table
from pytest_vla.reports.export import FORMULA_SIGNS, csv_files, latex_files, latex_text, named_tables
from tests.support.examples import scaled
from tests.support.records import record_of
from tests.support.reports import report, write
from tests.support.varied import varied

HOSTILE = (
    "=1+1",
    "@cmd",
    "a,b",
    'a"b',
    "a\nb",
    "\\input{x}",
    "100% of $5 & #1_{}^~",
    "[x]",
    "--'`\"<>|",
    "\ud800",
    "-",
)
TEXTS = st.text(max_size=30) | st.sampled_from(HOSTILE) | st.text("\\{}$&#%_~^<>|\"[]-'`=+@,\n\r ab", max_size=30)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def blocks(*rows: tuple[str, str], caption: str = "a caption") -> Iterator[Block]:
    yield Heading("one", ("model", "suite", ""))
    yield Table(caption, (Column("name"), Column("text")), rows, "texts")


@settings(max_examples=scaled(60))
@given(TEXTS, TEXTS)
def test_a_text_is_one_cell_of_csv_and_no_formula(one: str, other: str) -> None:
    (text,) = csv_files(named_tables("ours", blocks((one, other)))).values()
    head, *rows = csv.reader(io.StringIO(text, newline=""))
    assert head[:2] == ["model", "suite"]
    written = dict(zip(head, rows[0], strict=True))
    assert len(rows) == 1
    for name, value in (("name", one), ("text", other)):
        told = re.sub(r"[\r\n]+", " ", value)
        assert written.get(name, "") in (("", "-") if told == "-" else (told, f"'{told}"))
        assert not written.get(name, "").startswith(FORMULA_SIGNS)


def printed_by_latex(source: str) -> str:
    """Return the text that LaTeX prints for an escaped text."""
    commands = {
        "textbackslash": "\\",
        "textasciitilde": "~",
        "textasciicircum": "^",
        "textless": "<",
        "textgreater": ">",
        "textbar": "|",
        "textquotedbl": '"',
        "textquotesingle": "'",
        "textasciigrave": "`",
    }
    found, place = "", 0
    while place < len(source):
        rest = source[place:]
        if match := re.match(r"\\([a-z]+)\{\}", rest):
            found += commands[match[1]]
        elif (match := re.match(r"\\([{}$&#%_])", rest)) or (match := re.match(r"\{([\[\]-])\}", rest)):
            found += match[1]
        else:
            match = re.match(r"[^\\{}$&#%_~^<>|\"\[\]'`-]", rest, re.DOTALL)
            assert match is not None, rest
            found += match[0]
        place += match.end()
    return found


@settings(max_examples=scaled(100))
@given(TEXTS)
def test_latex_prints_a_text_as_it_is(text: str) -> None:
    assert printed_by_latex(latex_text(text)) == "".join(sign if sign.isprintable() else " " for sign in text)


@settings(max_examples=scaled(40))
@given(TEXTS, TEXTS)
def test_no_text_is_a_column_or_a_row_of_latex(one: str, other: str) -> None:
    (text,) = latex_files(named_tables("ours", blocks((one, other), caption=other))).values()
    body = text.partition("\\midrule\n")[2].partition("\\bottomrule")[0]
    (row,) = body.splitlines()
    assert row.endswith(r" \\")
    assert len(re.findall(r"(?<!\\)&", row)) == 1
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:ours.texts-model-suite"]


def test_numbers_have_all_digits_in_csv_and_a_minus_in_latex() -> None:
    columns = (
        Column("difference", "+.1f"),
        Column("share", ".0%"),
        Column("p", "p"),
        Column("points", ".0f", 100),
        Column("interval", ".1f"),
        Column("terminal only", medium="terminal"),
        Column("nothing", is_optional=True),
    )
    row = (
        GroundingEstimate(-1.25, (-2.5, 0.125)),
        GroundingShare(9, 10, (0.5, 1.0)),
        MarkedNumber(0.0001, "*"),
        0.125,
        (1.0, 2.0),
        "x",
        None,
    )
    found = list(
        named_tables("ours", ["a line", Table("c", columns, (row,), "numbers"), Table("e", columns, (), "empty")])
    )
    assert csv_files(found) == {
        "ours.numbers": "difference,difference low,difference high,share,share of,share low,share high,p,points,"
        "interval low,interval high\n-1.25,-2.5,0.125,9,10,0.5,1.0,0.0001,12.5,1.0,2.0\n"
    }
    text = latex_files(found)["ours.numbers"]
    assert r"$-$1.2 {[}$-$2.5, +0.1{]} & 9/10 {[}50\%, 100\%{]} & \textless{}0.001* & 12 & {[}1.0, 2.0{]} \\" in text


def test_tables_of_one_name_are_joined() -> None:
    def some() -> Iterator[Block]:
        for model, interval in (("a", None), ("b", (1.0, 3.0))):
            yield Heading(model, (model, "suite", ""))
            yield Table("c", (Column("rate"), Column("n")), ((GroundingEstimate(2.0, interval), 5),), "rates")

    (text,) = csv_files(named_tables("ours", some())).values()
    assert text == "model,suite,rate,rate low,rate high,n\na,suite,2.0,,,5\nb,suite,2.0,1.0,3.0,5\n"


def test_a_report_as_csv_has_the_numbers_of_its_json(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    labels = ("", "camera.distance-L1", "camera.distance-L2")
    records = [
        varied(label, seed >= 2 * place, "a_task", seed, metrics={"way": 0.1 * seed})
        for place, label in enumerate(labels)
        for seed in range(8)
    ]
    write(records)
    report("--format=csv", "-o", "tables")
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert {"robustness.dimensions.csv", "robustness.levels.csv", "robustness.variations.csv"} <= set(names)
    assert "robustness.grid.csv" not in names, "it has the numbers of another table"
    with Path("tables/robustness.dimensions.csv").open(newline="") as stream:
        (row,) = csv.DictReader(stream)
    report("--format=json")
    (model,) = json.loads(capsys.readouterr().out)["models"]
    (curve,) = model["robustness"]["curves"]
    assert (row["model"], row["suite"], row["dimension"]) == (model["model"], model["suite"], "camera")
    change = curve["difference"]
    assert [float(row[f"change, points{end}"]) for end in ("", " low", " high")] == [
        change["value"],
        *change["interval"],
    ]
    assert (float(row["varied"]), float(row["adj. p"])) == (curve["sr"], change["p_adjusted"])
    report("-o", "all.tex")
    text = Path("all.tex").read_text()
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == len(names) + 1
    assert text.count("booktabs") == 1
    report("--format=csv")
    assert "\n# robustness.levels\nmodel,suite,dimension," in capsys.readouterr().out


def test_a_folder_of_tables_has_to_be_one(alone: None) -> None:
    write([record_of(0, metrics={"way": 1.0})])
    Path("file").write_text("")
    with pytest.raises(VlaError, match="with a folder has a file for each table"):
        report("--format=latex", "-o", "file/tables")
