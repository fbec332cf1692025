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


def test_models_are_compared_where_all_of_them_were_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))
    for day, name in enumerate(("aaaa", "bbbb", "cccc")):
        outcomes = ["success", "error" if day else "success", "failure", "success"]
        records = [
            varied(
                label, each, seed=seed, policy=name, given=seed == 3, started=f"2026-01-0{day + 1}T00:00:0{seed}+00:00"
            )
            for label in ("", "camera.orbit-L1")
            for seed, each in enumerate(outcomes)
        ]
        write(records, f"2026010{day + 1}-000000-{name}")
    page("--pictures=0")
    text = " ".join(Path("report.html").read_text().split())
    for kind in ("", "varied "):
        table = text.partition(f"Success in 2 {kind}cases that all 3 have")[2].partition("</table>")[0]
        assert table.count(">1/2<") == 3, "neither the case in which two broke off, nor the one that was chosen"
        assert table.count("1 error") == 2
