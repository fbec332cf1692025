"""Tables and texts that fit a terminal of 100 columns."""

import pytest

from pytest_vla.reports.text import aligned, note_lines, wrapped
from pytest_vla.util.text import counted

HEAD = ("task", "n", "SR")


def test_columns_are_as_wide_as_they_have_to_be() -> None:
    assert list(aligned([HEAD, ("stove", "10", "50.0 [1.0, 2.0]"), ("a", "5", "-")], 1)) == [
        "task    n               SR",
        "stove  10  50.0 [1.0, 2.0]",
        "a       5                -",
    ]


def test_where_it_is_too_wide_intervals_stand_below_then_names_above() -> None:
    rows = [HEAD, ("stove", "10", "50.0 [1.0, 2.0]"), ("a", "5", "-")]
    assert list(aligned(rows, 1, width=25)) == [
        "task    n          SR",
        "stove  10        50.0",
        "           [1.0, 2.0]",
        "a       5           -",
    ]
    # Even so it is wider than 20, and only without its longest name it is not.
    assert list(aligned(rows, 1, width=20)) == [
        "task   n          SR",
        "stove",
        "      10        50.0",
        "          [1.0, 2.0]",
        "a      5           -",
    ]
    assert list(aligned(rows, 1, width=18)) == [
        "task",
        "   n          SR",
        "stove",
        "  10        50.0",
        "      [1.0, 2.0]",
        "a",
        "   5           -",
    ]


def test_a_wide_table_is_broken_into_parts_if_names_leave_room() -> None:
    rows = [("task", *"abcdef"), ("stove", *["10.0"] * 6), ("plate", *["2.0"] * 6)]
    assert list(aligned(rows, 1, width=24)) == [
        "task      a     b     c",
        "stove  10.0  10.0  10.0",
        "plate   2.0   2.0   2.0",
        "",
        "task      d     e     f",
        "stove  10.0  10.0  10.0",
        "plate   2.0   2.0   2.0",
    ]
    assert "" not in list(aligned(rows, 1, width=22)), "parts of two columns each are no table"


def test_a_title_breaks_at_its_blank() -> None:
    rows = [("task", "near max", "far max"), ("stove", "10.0", "7.0")]
    assert list(aligned(rows, 1, width=17)) == ["       near  far", "task    max  max", "stove  10.0  7.0"]


def test_a_head_may_have_two_lines_and_stands_low() -> None:
    rows = [("", "same_\nhabitual", "all"), ("hint", "1", "2")]
    assert list(aligned(rows, 1)) == ["         same_", "      habitual  all", "hint         1    2"]


def test_text_at_the_end_is_broken_where_nothing_else_helps() -> None:
    rows = [("task", "n", "did"), ("stove", "1", "one two three four five six")]
    lines = list(aligned(rows, 1, left={2}, width=20))
    assert max(map(len, lines)) <= 20
    assert " ".join(" ".join(lines).split()) == "task n did stove 1 one two three four five six"


@pytest.mark.parametrize("text", ["", "short", "word " * 40 + "end", "/a/very/long/" + "path/" * 40])
def test_words_are_kept_whole(text: str) -> None:
    lines = wrapped(text, 60)
    assert " ".join(line.strip() for line in lines) == text
    assert all(len(line) <= 60 or " " not in line.strip() for line in lines)
    assert wrapped("a b", None) == ["a b"]


def test_notes_are_indented_below_their_first_word() -> None:
    first, second = note_lines(["word " * 25])
    assert first.startswith("note: word")
    assert second.startswith("      word")


def test_one_of_a_thing_is_not_many() -> None:
    assert (counted(1, "episode"), counted(2, "episode"), counted(0, "pair")) == ("1 episode", "2 episodes", "0 pairs")
