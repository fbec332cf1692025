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


def test_any_number_of_runs_is_compared_with_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))
    names = ("aaaa", "bbbb", "cccc")
    for day, (name, seeds) in enumerate(zip(names, (6, 5, 4), strict=True)):
        records = [
            varied("", seed >= day, seed=seed, policy=name, started=f"2026-01-0{day + 1}T00:00:00+00:00")
            for seed in range(seeds)
        ]
        write(records, f"2026010{day + 1}-000000-{name}")
    page("--pictures=0")
    text = " ".join(Path("report.html").read_text().split())
    assert "Success in 4 cases that all 3 have" in text
    assert all(f"{name} against aaaa" in text for name in names[1:])
    assert "cccc against bbbb" not in text
    for name, success, lacking in zip(names, ("4/4", "3/4", "2/4"), (2, 1, 0), strict=True):
        row = text.partition("Success in 4 cases")[2].partition(f">{name}<")[2].partition("</tr>")[0]
        assert f">{success}<" in row
        assert f">{lacking}<" in row
