"""The codes of the doctor: their form, and the table of docs/how-to/doctor.md."""

import re

from pytest_vla.doctor.findings import CODES
from tests.support.data import REPOSITORY


def test_the_page_has_every_code_with_its_meaning_and_what_to_do() -> None:
    page = (REPOSITORY / "docs" / "how-to" / "doctor.md").read_text()
    rows = [[cell.strip() for cell in row] for row in re.findall(r"^\| `(VLA-D\d+)` \|([^|]+)\|([^|]+)\|$", page, re.M)]
    assert {code: meaning for code, meaning, _ in rows} == CODES
    assert len(rows) == len(CODES)
    assert all(cure for *_, cure in rows)
    assert {*re.findall(r"VLA-D\d+", page)} <= {*CODES}


def test_codes_are_in_order_and_have_one_form() -> None:
    assert list(CODES) == sorted(CODES)
    assert all(re.fullmatch(r"VLA-D\d{3}", code) for code in CODES)
    assert len({*CODES.values()}) == len(CODES)
