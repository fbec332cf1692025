"""A test that is skipped for want of data fails where the data is there: tests/conftest.py."""

from pathlib import Path

import pytest

from tests import conftest
from tests.support import data


def why_skipped(monkeypatch: pytest.MonkeyPatch, needs: str) -> str:
    """The reason that the data helpers give where there is no data at all."""
    monkeypatch.setattr(data, "data_root", lambda: None)
    with pytest.raises(pytest.skip.Exception) as caught:
        data.golden("some_golden") if needs == "golden" else data.libero_data()
    return str(caught.value)


@pytest.mark.parametrize("needs", ["golden", "data"])
def test_each_reason_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, needs: str) -> None:
    reason = why_skipped(monkeypatch, needs)
    monkeypatch.setattr(conftest, "data_root", lambda: tmp_path)
    monkeypatch.setattr(conftest, "golden_root", lambda: tmp_path)
    assert conftest.blames_present_data(reason)
    monkeypatch.setattr(conftest, "data_root", lambda: None)
    monkeypatch.setattr(conftest, "golden_root", lambda: None)
    assert not conftest.blames_present_data(reason)


def test_the_marker_s_reason_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(conftest, "data_root", lambda: tmp_path)
    assert conftest.blames_present_data(data.needs_data.kwargs["reason"])


@pytest.mark.parametrize("reason", ["not today", "EGL does not work here: apt-get install x", "needs two cores"])
def test_other_skips_stay_skips(reason: str) -> None:
    assert not conftest.blames_present_data(reason)
