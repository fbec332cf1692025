"""What names runs: names, beginnings, folders and results folders; and what is said where there is none."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.records.load import is_run_folder, open_run, open_runs
from pytest_vla.records.store import open_store


@pytest.fixture(autouse=True)
def two_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`.vla` of the current folder with two runs, the second of which has no folder, as imported ones."""
    monkeypatch.chdir(tmp_path)
    with open_store(Path(".vla"), create=True) as store:
        for name in ("20260101-a", "20260102-b"):
            store.begin(name, ["x::test[a-seed0]"], command="pytest", model="random")
    Path(".vla/20260101-a").mkdir()


def named(*texts: str, results: str = ".vla") -> list[str]:
    return [run.name for _, runs in open_runs(texts, Path(results)) for run in runs]


@pytest.mark.parametrize(
    "text", ["20260102-b", "20260102", "last", ".vla/20260102-b", ".vla/../.vla/20260102-b", "other/../.vla/20260102-b"]
)
def test_a_run_by_its_name_or_its_folder(text: str) -> None:
    Path("other").mkdir()
    assert named(text) == ["20260102-b"]
    with open_run(text, Path(".vla")) as (store, (run,)):
        assert (store.results.resolve(), run.name) == (Path(".vla").resolve(), "20260102-b")


def test_all_runs_of_a_folder_the_oldest_first() -> None:
    assert named() == named("all") == named(".vla") == named(".vla/", results="nowhere") == ["20260101-a", "20260102-b"]
    assert named("last", "20260101", "last") == ["20260102-b", "20260101-a"], "each once"


def test_a_run_s_folder_is_one_in_a_results_folder() -> None:
    assert is_run_folder(Path(".vla/20260101-a"))
    assert not is_run_folder(Path(".vla/20260102-b"))
    assert not is_run_folder(Path(".vla"))


@pytest.mark.parametrize(
    ("text", "results", "complaint"),
    [
        ("3", ".vla", r"there is no run '3' in .vla/results.sqlite. The latest are 20260102-b"),
        ("2026", ".vla", "2 runs in .* begin with '2026'"),
        (".vla/2025", ".vla", "there is no run '2025'"),
        ("empty", "nowhere", "the folder empty has no results: neither it nor its parent has results.sqlite"),
        ("empty", ".vla", "the folder empty has no results: neither it nor its parent has results.sqlite"),
        ("last", "nowhere", "no runs in nowhere yet. Run pytest with"),
        ("", "nowhere", "no runs in nowhere yet. Run pytest with"),
        ("fresh", ".vla", "no runs in fresh yet. Run pytest with"),
    ],
)
def test_what_is_no_run_is_told(text: str, results: str, complaint: str) -> None:
    Path("empty").mkdir()
    open_store(Path("fresh"), create=True).close()
    with pytest.raises(VlaError, match=complaint), open_run(text, Path(results)):
        pass
    with pytest.raises(VlaError, match=complaint):
        named(text, results=results)
