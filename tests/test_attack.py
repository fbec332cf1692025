"""A small draw of `make attack`: whatever is wrong with a file or with bytes, it is one clear error."""

import pytest

from tests.support import attack

DRAW = {"bddl": 300, "files": 300, "stores": 9, "frames": 60, "faults": 1}


@pytest.mark.parametrize(("kind", "number"), DRAW.items())
def test_nothing_hostile_is_a_traceback_or_hangs(
    kind: str, number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(attack, "COUNTS", {kind: number})
    code = attack.main([kind, "--seed=7"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    row = shown.out.splitlines()[1].split()
    assert row[0] == kind
    assert int(row[1]) >= number
    assert (int(row[2]) > 0) == (kind != "faults"), "that many are refused, and some are"
