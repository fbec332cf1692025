"""LIBERO-Para's CSV: read whole, found in a folder, refused where it is not what it should be."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language.published import FILE, cell_of, find_csv, load_published, texts_key
from tests.support.data import data_root

HEADER = "high,mid,low,eval,batch_idx,new_instruction,original_instruction,structural_similarity,keyword_similarity"
ROWS = [
    "act,lexical,addition_deletion,0,0,Gently open  it,open it,0.75,1.0000001192092896",
    "obj,lexical,same_polarity_habitual,0,0,open the thing,open it,0.5,0.4",
    "comp,lexical+pragmatical,addition_deletion+hint,1,3,the box is shut,open the box,0.25,0.0",
]


def published_csv() -> Path:
    """The real CSV; skips the test where it is absent."""
    root = data_root()
    if root is None or not (root / "libero_para" / FILE).is_file():
        pytest.skip("needs LIBERO-Para's data: set PYTEST_VLA_DATA or put it at ../shared/data")
    return root / "libero_para" / FILE


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
        (1, lambda line: line.replace("act", "verb"), f"{FILE}:2: no cell has high 'verb'"),
        (1, lambda line: line.replace("addition_deletion", "none"), "no cell has high 'act' with low 'none'"),
        (3, lambda line: line.replace("+hint", ""), "no cell has high 'comp' with low 'addition_deletion'"),
        (1, lambda line: line.replace(",0,0,", ",0,-1,"), "batch_idx is '-1', expected a whole number"),
        (1, lambda line: line.replace("0.75", "nan"), "structural_similarity is 'nan', expected a number from 0 to 1"),
        (1, lambda line: line.replace("0.75", "1.5"), "structural_similarity is '1.5'"),
        (1, lambda line: line.replace("Gently open  it", " "), "new_instruction is empty"),
        (1, lambda line: line + ",more", "too few or too many columns"),
        (1, lambda line: "act,lexical", "too few or too many columns"),
        (2, lambda line: ROWS[0], "twice"),
        (2, lambda line: ROWS[0].replace(",0,0,", ",0,1,").replace("0.75", "0.5"), "two scores for 'Gently open  it'"),
        (1, lambda line: line.replace("Gently", '"Gently'), "cannot be read"),
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
