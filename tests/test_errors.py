"""Every reason code that the code gives is in the table that pages are made from, and the table has no other."""

import re
from functools import cache

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
from tests.support.data import REPOSITORY

TABLE = REPOSITORY / "pytest_vla" / "errors.py"


@cache
def code() -> str:
    folders = (REPOSITORY / name for name in ("pytest_vla", "suites", "reports", "fixtures"))
    files = {path.resolve() for folder in folders for path in folder.rglob("*.py")} - {TABLE}
    # Below the tables stand errors and names of codes.
    below = TABLE.read_text().partition("class VlaError")[2]
    return "\n".join([below, *(path.read_text() for path in sorted(files))])


def test_every_code_that_is_raised_is_in_the_table() -> None:
    raised = set(re.findall(r'\bEpisodeError\(\s*"([^"]+)"', code()))
    assert len(raised) > 10
    assert sorted(raised - set(ERROR_REASONS)) == []


def test_every_code_that_looks_like_one_is_in_the_table() -> None:
    """Also those that are named by a constant, or kept in a table."""
    named = set(re.findall(r'"((?:policy|physics|world|worker|replay|action)-[a-z]+(?:-[a-z]+)*)"', code()))
    assert sorted(named - set(ERROR_REASONS)) == []


def test_every_code_in_the_table_is_given_somewhere() -> None:
    assert [name for name in (*ERROR_REASONS, *INVALID_REASONS) if f'"{name}"' not in code()] == []


def test_no_code_stands_for_two_outcomes() -> None:
    assert ERROR_REASONS.keys() & INVALID_REASONS.keys() == set()
