"""Durations in a file: the same for all shards, whoever reads it."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.scale.shards import mean_durations, read_durations, write_durations

ROWS = [("tabletop", "stove", 1, 3.0), ("tabletop", "stove", 0, 1.0), ("tabletop", "stove", 0, 2.0)]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    durations = mean_durations([*ROWS, ("tabletop", "stove", 0, -1.0), ("tabletop", "stove", 0, float("inf"))])
    assert durations.rows == (("tabletop", "stove", 0, 1.5), ("tabletop", "stove", 1, 3.0))
    write_durations(tmp_path / "d.json", durations, "tiny")
    found = read_durations(tmp_path / "d.json")
    assert (found, found.digest) == (durations, durations.digest)
    assert mean_durations(ROWS[::-1]).digest == durations.digest, "the order of runs does not matter"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not a durations file"),
        ("[]", "expected a table"),
        ('{"pytest_vla_durations": 2, "episodes": []}', '"pytest_vla_durations": 1'),
        ('{"pytest_vla_durations": 1, "episodes": [["a", "b", 0, -1]]}', "episode 1 of it"),
        ('{"pytest_vla_durations": 1, "episodes": [["a", "b", 0, 1], ["a", 0, 1]]}', "episode 2 of it"),
        ('{"pytest_vla_durations": 1, "episodes": [["a", "b", 0, 1e308], ["a", "b", 0, 1e308]]}', "episode 1 of it"),
        ('{"pytest_vla_durations": 1, "episodes": [["a", "b", 0, ' + "9" * 400 + "]]}", "episode 1 of it"),
        ('{"pytest_vla_durations": 1, "episodes": [["a", "b", 0, ' + "9" * 5000 + "]]}", "digits"),
    ],
)
def test_what_is_no_such_file_is_refused_by_name(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(VlaError, match=told) as refused:
        read_durations(tmp_path / "d.json")
    assert "d.json" in str(refused.value)
    assert "pytest-vla durations" in str(refused.value)


def test_a_file_that_is_not_there_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="pytest-vla durations --model=POLICY"):
        read_durations(tmp_path / "none.json")
