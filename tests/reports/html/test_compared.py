"""Two runs side by side in the page: why they cannot be compared."""

from pathlib import Path

import pytest

from tests.support.page import page
from tests.support.records import RECORD
from tests.support.reports import write
from tests.support.varied import varied


def test_why_two_cannot_be_compared_stands_beside_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))
    for run, rule in (("20260101-000000-aaaa", {}), ("20260102-000000-bbbb", {"stop_when": "token_entropy>0.3"})):
        provenance = {**RECORD.provenance, **rule}
        write([varied("", seed != 1, seed=seed, provenance=provenance) for seed in range(3)], run)
    page("--pictures=0")
    text = Path("report.html").read_text()
    assert "Verdict: not comparable" in text
    assert "not comparable: alarm (--vla-stop-when) differs (baseline not recorded, " in text
