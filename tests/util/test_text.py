"""What is shown of texts from outside is what a terminal does not obey."""

from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.util.text import printable, printable_lines


@given(st.text(st.characters(exclude_categories=())))
def test_whatever_comes_one_line_goes_out_that_can_be_encoded(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert shown.isprintable()
    shown.encode()
    assert printable(shown) == shown
    assert printable_lines(text).count("\n") == text.count("\n")


def test_what_terminals_obey_goes_and_all_else_stays() -> None:
    assert printable("\x1b]0;title\x07 größer 机器人\u202e \x9b31m \udc80") == "?]0;title? größer 机器人? ?31m ?"
    assert printable_lines("a\n\tb\r\x1b[2J\n") == "a\n        b??[2J\n"
