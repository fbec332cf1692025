"""LIBERO-Para's CSV: read whole, found in a folder, refused where it is not what it should be."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language.published import (
    FILE,
    cell_of,
    find_csv,
    load_published,
    missing_paraphrases,
    numbered_tasks,
    texts_key,
)
from tests.support.libero_para import HEADER, ROWS, published_csv


def test_the_real_csv() -> None:
    found = load_published(published_csv())
    assert len(found.rows) == len(found.by_key) == 4092
    assert len(found.by_texts) == 3889
    assert re.fullmatch("csv [0-9a-f]{8}", found.version)
    cells = Counter((row.object_type, row.action_type) for row in found.rows)
    assert len(cells) == 43
    assert cells["none", "coordination"] == 98
    assert cells["same_polarity_habitual", "none"] == 74
    assert cells["same_polarity_contextual", "question_directive"] == 94
    row = found.by_key["none", "addition_deletion", 0, 2]
    assert (row.instruction, row.original) == (
        "carefully open the middle drawer of the cabinet",
        "open the middle drawer of the cabinet",
    )
    # The paper's Table 10 prints a distance of .05 here.
    assert 1 - row.structural == pytest.approx(0.0667, abs=5e-5)
    assert found.by_texts[texts_key(row.original, row.instruction.title())] is row


def test_rows_are_kept_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_text("\ufeff" + "\r\n".join([HEADER, *ROWS]), encoding="utf-8")
    found = load_published(file)
    assert [row.key for row in found.rows] == [
        ("none", "addition_deletion", 0, 0),
        ("same_polarity_habitual", "none", 0, 0),
        ("addition_deletion", "hint", 1, 3),
    ]
    assert found.rows[0].keyword == 1.0000001192092896
    assert texts_key("OPEN it", " gently  open it") in found.by_texts


@pytest.mark.parametrize(
    ("place", "change", "trouble"),
    [
        (0, lambda line: line.replace("low", "lower"), "no column low"),
        (1, lambda line: line.replace("act", "verb"), f"{FILE}:2: there is no cell with high 'verb'"),
        (1, lambda line: line.replace("addition_deletion", "none"), "there is no cell with high 'act' with low 'none'"),
        (3, lambda line: line.replace("+hint", ""), "there is no cell with high 'comp' with low 'addition_deletion'"),
        (1, lambda line: line.replace(",0,0,", ",0,-1,"), "batch_idx is '-1', expected a whole number"),
        (1, lambda line: line.replace("0.75", "nan"), "structural_similarity is 'nan', expected a number from 0 to 1"),
        (1, lambda line: line.replace("0.75", "1.5"), "structural_similarity is '1.5'"),
        (1, lambda line: line.replace("Gently open  it", " "), "new_instruction is empty"),
        (1, lambda line: line + ",more", "too few or too many columns"),
        (1, lambda line: "act,lexical", "too few or too many columns"),
        (
            2,
            lambda line: ROWS[0],
            f"{FILE}:3: eval, types and batch_idx are those of line 2, expected another batch_idx",
        ),
        (2, lambda line: line.replace(",0,0,", ",12,0,"), f"{FILE}:3: eval is '12', expected a whole number, 0 to 9"),
        (
            2,
            lambda line: line.replace("thing,open it", "thing,open all"),
            f"{FILE}:3: original_instruction is 'open all'",
        ),
        (
            2,
            lambda line: line.replace("open it", "turn on the stove"),
            "is 'turn on the stove', which is that of eval 9; eval is 0; correct it",
        ),
        (
            3,
            lambda line: line.replace("open the box", "open it"),
            f"{FILE}:4: original_instruction is 'open it', which is that of eval 0; ",
        ),
        (
            2,
            lambda line: line.replace("the thing", "the\0thing"),
            rf"{FILE}:3: new_instruction has the control character",
        ),
        (2, lambda line: line.replace("open the thing", '"open\nit"'), r"has the control character '\n'"),
        (
            2,
            lambda line: line.replace("open it", '"open\x1b[31m it"'),
            r"original_instruction has the control character",
        ),
        (2, lambda line: ROWS[0].replace(",0,0,", ",0,1,").replace("0.75", "0.5"), "two scores for 'Gently open  it'"),
        (
            1,
            lambda line: line.replace("Gently", '"Gently'),
            f"{FILE}:2: the row that begins here cannot be read: unexp",
        ),
        (3, lambda line: line.replace("the box is", '"the box is'), f"{FILE}:4: the row that begins here cannot be"),
        (
            2,
            lambda line: line.replace("open the thing", '"open" it'),
            f"{FILE}:3: the row that begins here cannot be read",
        ),
    ],
)
def test_what_is_not_the_csv_is_refused(tmp_path: Path, place: int, change: Callable[[str], str], trouble: str) -> None:
    lines = [HEADER, *ROWS]
    lines[place] = change(lines[place])
    file = tmp_path / FILE
    file.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(VlaError, match=re.escape(trouble)) as caught:
        load_published(file)
    assert str(file) in str(caught.value)
    if place:
        assert f"correct it, or use {FILE} as LIBERO-Para publishes it" in str(caught.value)


def test_of_two_instructions_of_a_task_the_one_that_is_not_its_own_is_told(tmp_path: Path) -> None:
    row = "act,lexical,hint,9,{},the stove is off,{},0.5,0.5"
    rows = [row.format(0, "turn on teh stove"), row.format(1, "turn on the stove")]
    (tmp_path / FILE).write_text("\n".join([HEADER, *rows]), encoding="utf-8")
    right = "expected 'turn on the stove', which eval 9 is on line 3"
    with pytest.raises(VlaError, match=rf"{FILE}:2: original_instruction is 'turn on teh stove', {right}"):
        load_published(tmp_path / FILE)


def test_a_quotation_mark_that_swallows_more_than_a_field_may_have_is_told_with_its_line(tmp_path: Path) -> None:
    rows = [ROWS[0].replace(",0,0,", f",0,{number},") for number in range(4000)]
    rows[7] = rows[7].replace("Gently", '"Gently')
    (tmp_path / FILE).write_text("\n".join([HEADER, *rows]), encoding="utf-8")
    with pytest.raises(VlaError, match=rf"{FILE}:9: the row .*field larger than .*a quotation mark may not be closed"):
        load_published(tmp_path / FILE)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_byte_that_is_not_utf_8_is_told_with_its_line(tmp_path: Path, mark: str) -> None:
    content = "\r\n".join([mark + HEADER, *ROWS]).encode()
    (tmp_path / FILE).write_bytes(content.replace(b"the thing", "die Tür".encode("latin-1")))
    with pytest.raises(VlaError, match=rf"{FILE}:3: cannot be read: byte 0xfc is not UTF-8; save the file as UTF-8"):
        load_published(tmp_path / FILE)


def test_numbers_of_tasks_are_alphabetical() -> None:
    found = [task.language for task in numbered_tasks()]
    assert (len(found), found[0], found[9]) == (10, "open the middle drawer of the cabinet", "turn on the stove")
    assert found == sorted(found)
    of_csv = {(row.task, row.original) for row in load_published(published_csv()).rows}
    assert of_csv == set(enumerate(found))


def test_what_is_missing_of_the_published_ones_is_told(tmp_path: Path) -> None:
    lines = published_csv().read_text(encoding="utf-8").splitlines()
    assert missing_paraphrases(load_published(published_csv())) is None

    def missing(kept: list[str]) -> str:
        (tmp_path / FILE).write_text("\n".join(kept), encoding="utf-8")
        return missing_paraphrases(load_published(tmp_path / FILE)) or ""

    assert missing(lines[:-1]) == (
        "4091 of 4092 published paraphrases: 413 of 414 of 'turn on the stove'; 93 of 94 of "
        "same_polarity_habitual+subordination. Rates cover only these; download the file again unless this is intended"
    )
    # Neither another row in its place, nor more of them elsewhere, hide it.
    more = lines[1].replace(",0,0,", ",0,99,")
    assert missing([*lines[:-1], more]).startswith("4092 of 4092 published paraphrases: 413 of 414 of 'turn on")
    assert missing([*lines, more]) == ""
    (tmp_path / FILE).write_text("\n".join([HEADER, *ROWS]), encoding="utf-8")
    told = missing_paraphrases(load_published(tmp_path / FILE))
    assert told is not None
    assert "0 of 416 of 'open the middle drawer of the cabinet', " in told
    assert " and 7 more tasks; 1 of 100 of none+addition_deletion, " in told
    assert " and 40 more cells. " in told


def test_no_file_no_text_and_no_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="cannot be read"):
        load_published(tmp_path / FILE)
    (tmp_path / FILE).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(VlaError, match="cannot be read"):
        load_published(tmp_path / FILE)
    (tmp_path / FILE).write_text(HEADER + "\n")
    with pytest.raises(VlaError, match="has no paraphrase"):
        load_published(tmp_path / FILE)


def test_the_csv_is_found_in_data_in_a_checkout_or_as_itself(tmp_path: Path) -> None:
    file = tmp_path / "libero_para" / FILE
    assert find_csv(tmp_path) is None
    file.parent.mkdir()
    file.touch()
    assert find_csv(tmp_path) == find_csv(tmp_path / "libero_para") == find_csv(file) == file
    assert find_csv(tmp_path / "nothing") is None


def test_cells_by_upstreams_names() -> None:
    assert cell_of("act", "hint") == ("none", "hint")
    assert cell_of("obj", "addition_deletion") == ("addition_deletion", "none")
    assert cell_of("comp", "addition_deletion+addition_deletion") == ("addition_deletion", "addition_deletion")
    for high, low in (("obj", "hint"), ("comp", "hint+addition_deletion"), ("comp", "none+hint"), ("act", "none")):
        assert cell_of(high, low) is None
