"""Texts that are compared whole with ``golden/NAME.txt`` beside a test; ``PYTEST_VLA_UPDATE_GOLDEN=1`` renews them."""

import difflib
import os
from pathlib import Path

import pytest

UPDATE = "PYTEST_VLA_UPDATE_GOLDEN"


def check_golden(file: Path, text: str) -> None:
    """The text is the file's; else the test fails, with what differs.

    Where `UPDATE` is set the file is written anew, what has changed is shown, and the test fails once: a look at it
    is part of the change.
    """
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if text == before:
        return
    differs = "".join(difflib.unified_diff(before.splitlines(True), text.splitlines(True), file.name, "now"))
    if os.environ.get(UPDATE):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{file} is written anew; it passes from now on:\n{differs}", pytrace=False)
    pytest.fail(f"{file} differs; where that is meant, {UPDATE}=1 writes it anew:\n{differs}", pytrace=False)
