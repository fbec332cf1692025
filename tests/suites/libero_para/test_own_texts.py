"""Own paraphrases in LIBERO-Para's cells: checked, written as a sheet, verified by two raters, and run."""

import csv
import io
from collections import Counter
from pathlib import Path

import pytest

from pytest_vla.cli import main
from pytest_vla.errors import VlaError
from pytest_vla.language.published import load_published
from pytest_vla.metrics.discrimination import gwet_ac1
from pytest_vla.suites.libero_para import own_texts
from pytest_vla.suites.libero_para.own_texts import ANSWERS, read_texts
from pytest_vla.suites.libero_para.variations import variation_of
from tests.support.libero_para import published_csv

TEXTS = """original_instruction,new_instruction,object_type,action_type
turn on the stove,could you turn on the stove?,,
turn on the stove,turn on the range,same_polarity_habitual,none
turn on the stove,is the kitchen stove on?,,
put the bowl on the plate,set the bowl on the plate,,same_polarity_contextual
"""
CELLS = [
    ("none", "embedded_imperative"),
    ("same_polarity_habitual", "none"),
    ("addition_deletion", "question_directive"),
    ("none", "same_polarity_contextual"),
]


def texts(folder: Path, content: str = TEXTS) -> Path:
    file = folder / "texts.csv"
    file.write_text(content)
    return file


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text())))


def fill(sheet: Path, *answers: str) -> None:
    found = rows(sheet)
    with sheet.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, found[0].keys())
        writer.writeheader()
        for row, given in zip(found, answers, strict=True):
            writer.writerow(row | dict(zip(ANSWERS, given.split(), strict=True)))


def test_texts_get_cells_and_a_sheet_that_the_suite_reads(tmp_path: Path) -> None:
    assert main(["own-texts", str(texts(tmp_path))]) == 0
    sheet = tmp_path / "texts-sheet.csv"
    published = load_published(sheet)
    assert [(row.object_type, row.action_type) for row in published.rows] == CELLS
    assert [row["types_by"] for row in rows(sheet)] == ["rule", "author", "rule", "rule"]
    variations = [variation_of(row, row.original, published) for row in published.rows]
    assert len({each.label for each in variations}) == len(CELLS)
    assert all("own-" in each.label and each.parameters["texts"] == "own" for each in variations)
    assert all("s_k" not in each.parameters for each in variations), "nobody has published them"


def test_two_raters_agreement_and_what_both_accept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["own-texts", str(texts(tmp_path)), "-o", str(tmp_path / "sheet.csv")])
    sheet = tmp_path / "sheet.csv"
    fill(sheet, "yes yes yes yes", "y y y n", "yes no yes no", "no yes yes yes")
    capsys.readouterr()
    assert main(["own-texts", str(sheet)]) == 0
    said = capsys.readouterr().out
    # Of 4 texts both agree on 3; 7 of 8 answers are yes: by chance 2 * 7/8 * 1/8.
    assert f"Gwet's AC1 {(0.75 - 14 / 64) / (1 - 14 / 64):.3f}" in said.splitlines()[0]
    assert [row["new_instruction"] for row in rows(tmp_path / "sheet-verified.csv")] == ["could you turn on the stove?"]


def test_ac1() -> None:
    assert gwet_ac1([(True, True)] * 3) == 1
    assert gwet_ac1([(True, False), (False, True)]) == -1
    # Kappa is below 0 here.
    pairs = [(True, True)] * 118 + [(True, False)] * 5 + [(False, True)] * 2
    assert gwet_ac1(pairs) == pytest.approx(0.9408, abs=1e-4)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("a,b\n1,2\n", r"texts\.csv: no column original_instruction, new_instruction"),
        ("original_instruction,new_instruction\n", "has no text below its first line"),
        ("original_instruction,new_instruction\nturn on stove,x\n", r"texts\.csv:2: 'turn on stove' is no instruction"),
        ("original_instruction,new_instruction\nturn on the stove,Turn on  the stove\n", r":2: .*another text"),
        ("original_instruction,new_instruction\nturn on the stove,turn on the range\n", r":2: .*replaces a noun"),
        ("original_instruction,new_instruction\nturn on the stove,start the stove\n", r":2: .*replaces a verb"),
        (f"{TEXTS}turn on the stove,Turn on the range,none,hint\n", r":6: .*is also on line 3"),
        (f"{TEXTS}turn on the stove,x,none,hnt\n", r":6: action_type is 'hnt'\. Did you mean hint"),
        (f"{TEXTS}turn on the stove,x,none,none\n", r":6: .*changes neither object nor action"),
        (f"{TEXTS}turn on the stove\n", r":6: 1 columns, expected 4"),
    ],
)
def test_what_is_refused(tmp_path: Path, content: str, error: str) -> None:
    with pytest.raises(VlaError, match=error):
        read_texts(texts(tmp_path, content))


def test_answers_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["own-texts", str(texts(tmp_path))])
    sheet = tmp_path / "texts-sheet.csv"
    fill(sheet, "yes yes yes yes", "yes yes yes yes", "yes yes yes perhaps", "yes yes yes yes")
    with pytest.raises(VlaError, match=r":4: right_cell_2 is 'perhaps', expected yes or no"):
        read_texts(sheet)
    sheet.write_text(sheet.read_text().replace("perhaps", ""))
    assert main(["own-texts", str(sheet)]) == 1
    said = capsys.readouterr().err
    assert f"{sheet}:4: no answer in right_cell_2. 1 text of 4 lacks answers" in said


def test_a_sheet_that_nobody_filled_in_is_named_and_nothing_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["own-texts", str(texts(tmp_path))])
    before = {*tmp_path.iterdir()}
    sheet = tmp_path / "texts-sheet.csv"
    capsys.readouterr()
    assert main(["own-texts", str(sheet)]) == 1
    said = capsys.readouterr()
    assert f"{sheet}:2: no answer in same_task_1, right_cell_1, same_task_2, right_cell_2. 4 texts of 4" in said.err
    assert said.out == ""
    assert {*tmp_path.iterdir()} == before


def test_answers_of_raters_are_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = texts(tmp_path)
    assert main(["own-texts", str(file)]) == main(["own-texts", str(file)]) == 0
    sheet = tmp_path / "texts-sheet.csv"
    fill(sheet, *["yes yes yes yes"] * 4)
    filled = sheet.read_text()
    assert main(["own-texts", str(file)]) == 1
    assert "-o FILE" in capsys.readouterr().err
    assert sheet.read_text() == filled


def test_rules_on_the_published_texts() -> None:
    found = load_published(published_csv()).rows
    for rule, name, decided, right in (
        ("object_type", "object_type", 1800, 0.9),
        ("action_type", "action_type", 3300, 0.9),
    ):
        pairs = [(getattr(own_texts, rule)(row.original, row.instruction), getattr(row, name)) for row in found]
        counts = Counter(one == other for one, other in pairs if one is not None)
        assert counts.total() >= decided
        assert counts[True] / counts.total() >= right, (rule, counts)
