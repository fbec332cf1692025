"""Picture sheets: every picture is there as it was, nothing overlaps, and every text is on the sheet and legible."""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.show.sheet import (
    MAX_SHEET_PIXELS,
    MAX_SHEET_SIDE,
    SheetCell,
    _font,
    _wrap,
    blank,
    check_layout,
    check_target,
    default_name,
    in_rows,
    sheet,
    write_png,
)
from tests.support.examples import scaled

WHITE = 255


def plain(colour: int, height: int = 40, width: int = 60) -> np.ndarray:
    """A picture of one colour that no text and no line has: it can be found again."""
    picture = np.zeros((height, width, 3), np.uint8)
    picture[...] = (colour, 1, 250)
    return picture


def box(on: np.ndarray, colour: int) -> tuple[int, int, int, int]:
    """Top, left, bottom and right of a `plain` picture on a sheet; it must be whole."""
    rows, columns = np.nonzero((on == (colour, 1, 250)).all(axis=2))
    top, left, bottom, right = rows.min(), columns.min(), rows.max() + 1, columns.max() + 1
    assert len(rows) == (bottom - top) * (right - left), "something lies over it"
    return int(top), int(left), int(bottom), int(right)


def ink(on: np.ndarray, top: int, left: int, bottom: int, right: int) -> int:
    return int((on[top:bottom, left:right].min(axis=2) < 128).sum())


@settings(max_examples=scaled(40))
@given(
    sizes=st.lists(
        st.lists(st.one_of(st.none(), st.tuples(st.integers(1, 90), st.integers(1, 90))), min_size=1, max_size=4),
        min_size=1,
        max_size=4,
    ),
    label=st.text(st.characters(codec="utf-8"), max_size=60),
    title=st.text(max_size=80),
    heads=st.lists(st.text(max_size=30), max_size=5),
)
def test_every_picture_is_there_as_it_was_whatever_the_texts(
    sizes: list[list[tuple[int, int] | None]], label: str, title: str, heads: list[str]
) -> None:
    colours = iter(range(1, 100))
    rows = [[None if size is None else SheetCell(plain(next(colours), *size), label) for size in row] for row in sizes]
    cells = [cell for row in rows for cell in row if cell is not None]
    if not cells:
        with pytest.raises(VlaError, match="needs a picture"):
            sheet(rows)
        return
    made = sheet(rows, title=title, subtitle=title, heads=heads)
    assert made.dtype == np.uint8
    for cell in cells:
        top, left, bottom, right = box(made, int(cell.picture[0, 0, 0]))
        assert (bottom - top, right - left) == cell.picture.shape[:2]
        assert min(top, left, made.shape[0] - bottom, made.shape[1] - right) >= 20, "there is a margin"


def test_pictures_stand_in_rows_and_columns() -> None:
    rows = [[SheetCell(plain(1)), SheetCell(plain(2, 80, 90))], [SheetCell(plain(3)), None, SheetCell(plain(4))]]
    made = sheet(rows)
    (top1, left1, *_), (top2, left2, bottom2, right2) = box(made, 1), box(made, 2)
    (top3, left3, *_), (top4, left4, *_) = box(made, 3), box(made, 4)
    assert top1 == top2
    assert top3 == top4
    assert top3 > bottom2, "a row is as high as its highest picture"
    assert left1 == left3
    assert left4 > right2 > left2 > left1, "a column is as wide as its widest picture"


@pytest.mark.parametrize("width", [84, 256, 640])
def test_a_label_stands_below_its_picture_and_is_wrapped_to_its_width(width: int) -> None:
    label = "put_the_wine_bottle_on_top_of_the_cabinet, agentview, success after 87 steps"
    made = sheet([[SheetCell(plain(1, 50, width), label), SheetCell(plain(2, 50, width))]])
    *_, bottom, right = box(made, 1)
    _, other, *_ = box(made, 2)
    height, left = made.shape[0], box(made, 1)[1]
    assert ink(made, bottom + 2, left, height, right) > 300, "it is there"
    assert ink(made, bottom + 2, right + 2, height, other) == 0, "it ends with its picture"
    rows = np.nonzero((made[bottom + 2 :, left:right].min(axis=2) < 128).any(axis=1))[0]
    first_line = np.nonzero(np.diff(rows) > 1)[0]
    assert (first_line[0] + 1 if len(first_line) else len(rows)) >= 9, "letters are high enough to be read"


def test_an_outcome_has_its_colour() -> None:
    for tone, channel in (("good", 1), ("bad", 0)):
        made = sheet([[SheetCell(plain(1), "success", tone)]]).astype(int)  # type: ignore[arg-type]
        text = made[box(made, 1)[2] + 2 :].reshape(-1, 3)
        text = text[text.min(axis=1) < 100]
        others = [other for other in range(3) if other != channel]
        assert len(text) > 20
        assert (text[:, channel] > text[:, others].max(axis=1)).all()


def test_a_name_stands_between_a_picture_and_its_label() -> None:
    made = sheet([[SheetCell(plain(1, 50, 256), "success", "good", name="turn on the stove")]])
    bare = sheet([[SheetCell(plain(1, 50, 256), "success", "good")]])
    (_, left, bottom, right), line = box(made, 1), made.shape[0] - bare.shape[0]
    assert line >= 14
    name, label = made[bottom + 2 : bottom + line, left:right], made[bottom + 3 + line :, left:right]
    for text, is_green in ((name, False), (label, True)):
        dark = text.reshape(-1, 3).astype(int)
        dark = dark[dark.min(axis=1) < 60]
        assert len(dark) > 20
        assert (dark[:, 1] > dark[:, 0] + 40).mean() > 0.5 if is_green else (dark[:, 1] < dark[:, 0] + 20).all()


def test_title_and_heads_are_drawn_where_they_belong() -> None:
    cells = [[SheetCell(plain(1)), SheetCell(plain(2))], [SheetCell(plain(3)), SheetCell(plain(4))]]
    bare = sheet(cells)
    titled = sheet(cells, title="turn on the stove", subtitle="goal: (turnon flat_stove_1)")
    assert box(titled, 1)[0] > box(bare, 1)[0] + 30
    assert box(titled, 1)[1] == box(bare, 1)[1]
    headed = sheet(cells, heads=["", "random"])
    top, left, _, right = box(headed, 2)
    assert ink(headed, 0, left, top - 2, right) > 50
    assert ink(headed, 0, 0, top - 2, left - 2) == 0


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=200), st.integers(20, 300))
def test_wrapping_keeps_every_letter_and_the_width(text: str, width: int) -> None:
    font = _font(15)
    lines = _wrap(text, font, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(font.getlength(line) <= width or len(line) == 1 for line in lines)


def test_long_names_are_broken_behind_an_underscore() -> None:
    assert _wrap("the put_the_bowl_on_the_plate", _font(15), 150) == ["the", "put_the_bowl_on_", "the_plate"]
    assert _wrap("first\nsecond line", _font(15), 500) == ["first", "second line"]


def test_in_rows_keeps_the_order() -> None:
    cells = [SheetCell(plain(number)) for number in range(5)]
    assert in_rows(cells, 2) == [cells[0:2], cells[2:4], cells[4:]]


@pytest.mark.parametrize(
    "picture",
    [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3)), np.zeros((4, 4, 4), np.uint8)],
    ids=lambda p: str(p.shape),
)
def test_what_is_no_picture_is_refused(picture: np.ndarray) -> None:
    with pytest.raises(VlaError, match=r"\(H, W, 3\) uint8, got \(4, 4"):
        sheet([[SheetCell(picture)]])


def test_a_sheet_that_no_program_shows_is_refused() -> None:
    rows: Sequence[Sequence[SheetCell]] = [[SheetCell(plain(1, MAX_SHEET_SIDE, 1))]]
    with pytest.raises(VlaError, match=r"too large\. Use fewer tasks, seeds or cameras"):
        sheet(rows)


@pytest.mark.parametrize("shape", [(MAX_SHEET_SIDE, 1), (1, MAX_SHEET_SIDE), (MAX_SHEET_PIXELS // 9000, 9000)])
def test_a_sheet_that_would_be_too_large_is_refused_without_its_pictures(shape: tuple[int, int]) -> None:
    with pytest.raises(VlaError, match=r"too large\. Use fewer tasks, seeds or cameras"):
        check_layout([[SheetCell(blank(shape))]])
    check_layout([[SheetCell(blank((shape[0] - shape[0] // 10, shape[1] - shape[1] // 10)))]])


@settings(max_examples=scaled(20))
@given(st.integers(1, 30), st.integers(1, 10), st.tuples(st.integers(1, 9999), st.integers(1, 9999)))
def test_what_is_let_through_before_drawing_is_let_through_after_it(
    count: int, columns: int, size: tuple[int, int]
) -> None:
    """Also with the goal, which nobody knows before the scene is there."""
    rows = in_rows([SheetCell(blank(size), "seed 0, agentview")] * count, columns)
    try:
        check_layout(rows, title="turn on the stove")
    except VlaError:
        return
    with pytest.MonkeyPatch.context() as patch:
        # The pixels themselves would take seconds.
        patch.setattr("pytest_vla.show.sheet._drawn", lambda layout: np.zeros((1, 1, 3), np.uint8))
        sheet(rows, title="turn on the stove", subtitle="goal: " + "(on bowl_1 stove_1_cook_region)  " * 4)


def test_a_blank_picture_takes_no_memory() -> None:
    assert blank((4096, 2048), 7).shape == (4096, 2048, 3)
    assert blank((4096, 2048), 7).base.nbytes == 1
    assert (sheet([[SheetCell(blank((40, 60), 235))]]) == 235).all(axis=2).sum() >= 40 * 60


def test_a_sheet_s_own_name_has_no_folder_and_is_no_longer_than_a_file_s_name_may_be() -> None:
    assert default_name(["a_task"]) == Path("a_task.png")
    assert default_name(["a_task", "another"]) == Path("a_task_another.png")
    many = default_name([f"{number:02}_is_a_task_with_quite_a_long_name" for number in range(40)])
    assert many == Path(
        "00_is_a_task_with_quite_a_long_name_01_is_a_task_with_quite_a_long_name_"
        "02_is_a_task_with_quite_a_long_name_and_37_more.png"
    )
    longest = max((task.name for name in suite_names() for task in load_suite(name).tasks), key=len)
    assert longest in default_name([longest] * 200).name


def test_a_target_that_cannot_be_written_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    check_target(tmp_path / "a.png")
    (tmp_path / "is.png").mkdir()
    for file, why in (
        (tmp_path / "a.jpg", "a name ending in .png"),
        (tmp_path / "missing" / "a.png", r"cannot write .*missing/a\.png: .*no folder"),
        (tmp_path / "is.png", r"cannot write .*is\.png: it is a folder"),
        # Not even root makes files here.
        (Path("/proc/a.png"), r"cannot write /proc/a\.png: "),
        (tmp_path / f"{'x' * 300}.png", r"cannot write .*x\.png: .*too long"),
    ):
        with pytest.raises(VlaError, match=why):
            check_target(file)
    assert [path.name for path in tmp_path.iterdir()] == ["is.png"]


def test_without_pillow_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(VlaError, match=r"needs Pillow, which cannot be imported: .*\. pip install pillow"):
        check_target(tmp_path / "a.png")


def test_a_picture_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (30, 20, 3), dtype=np.uint8)
    file = tmp_path / "a.png"
    write_png(picture, file)
    assert (np.asarray(Image.open(file)) == picture).all()
    before = file.read_bytes()

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Image.Image, "save", fails)
    with pytest.raises(VlaError, match=r"cannot write .*a\.png: No space left"):
        write_png(plain(1), file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_name_that_is_no_picture_s_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"a\.jpg: expected a name ending in \.png"):
        write_png(plain(1), tmp_path / "a.jpg")
    with pytest.raises(VlaError, match="cannot write"):
        write_png(plain(1), tmp_path / "missing" / "a.png")
