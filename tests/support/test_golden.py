"""Golden files: what differs fails, and is written only where that is asked for."""

from pathlib import Path

import pytest

from tests.support.golden import UPDATE, check_golden


def test_what_differs_fails_with_a_diff_and_leaves_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(UPDATE, raising=False)
    file = tmp_path / "golden" / "table.txt"
    with pytest.raises(pytest.fail.Exception, match=UPDATE):
        check_golden(file, "a  1\n")
    assert not file.exists()
    monkeypatch.setenv(UPDATE, "1")
    with pytest.raises(pytest.fail.Exception, match=r"written anew(.|\n)*\+a  1"):
        check_golden(file, "a  1\nb  2\n")
    monkeypatch.delenv(UPDATE)
    check_golden(file, "a  1  \nb  2")
    with pytest.raises(pytest.fail.Exception, match=r"-b  2\n\+b  3"):
        check_golden(file, "a  1\nb  3\n")
    assert file.read_text() == "a  1\nb  2\n"
