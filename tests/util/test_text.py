"""What is shown of texts from outside is what a terminal does not obey."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.util.text import printable, printable_lines, visible


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


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::stop-commands::token", ": stop-commands::token"),
        ("  \t::set-output name=a::b", None),
        (":::error::", ": :error::"),
        ("a ##[add-path]/tmp b ##vso[task.setvariable]", "a # [add-path]/tmp b # vso[task.setvariable]"),
        ("tabletop::test_episode[a-seed0] ## a heading", "tabletop::test_episode[a-seed0] ## a heading"),
    ],
)
def test_no_line_is_a_command_of_a_services_log(text: str, shown: str | None) -> None:
    assert shown in (None, printable(text))
    for line in (printable(text), *printable_lines(f"a\n{text}\n").split("\n")):
        assert not line.lstrip().startswith("::")
        assert not re.search(r"##\w*\[", line)
    assert visible("::stop-commands::token") == "::stop-commands::token"
