"""What `pytest-vla merge` says, and what it exits with."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla import cli
from pytest_vla.records.runs import BALANCED, ORDER, SAMPLE, TimeLimitSample, sample_table
from pytest_vla.records.store import open_store
from tests.support.shards import PLAN, write_shard


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def merge(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    code = cli.main(["merge", *arguments])
    said = capsys.readouterr()
    return code, (said.out + said.err).splitlines()


def test_all_that_is_missing_is_named_with_its_command(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shard(Path("out/a"), 1, "run-1", {0: "success", 3: "error"}, end=False)
    with open_store(Path("out/a"), create=True) as store:
        store.end("run-1", "stopped")
    Path("out/b").mkdir()
    code, said = merge(capsys, "out", "-o", "all")
    assert code == 3
    name = said[0].split()[1]
    assert said == [
        f"run {name} in all made of 2 records; 1 of 9 items are done",
        "shards: 1 of 3, random, stopped",
        "left out: out/b has no records",
        "left: shard 1 in out/a: 1 of 3 items not run, 1 error",
        "  pytest --vla-resume=run-1 --vla-results=out/a",
        "missing: shard 2: 3 of 3 items not run",
        "  pytest --vla-suite=libero_goal --vla-shard=2/3",
        "missing: shard 3: 3 of 3 items not run",
        "  pytest --vla-suite=libero_goal --vla-shard=3/3",
        "then merge again; or run the rest on this machine:",
        f"  pytest --vla-resume={name} --vla-results=all",
    ]


def test_shards_that_time_ended_are_named_with_what_goes_on(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = sample_table(TimeLimitSample("--vla-max-hours=2", 1, 3, True, 1, 1, 0.33, 0.5, 1))
    write_shard(Path("out/a"), 1, "run-1", {0: "success"}, end=False, kept={ORDER: BALANCED, SAMPLE: sample})
    with open_store(Path("out/a"), create=True) as store:
        store.end("run-1", "stopped")
    code, said = merge(capsys, "out", "-o", "all")
    assert code == 3
    at = said.index("left: shard 1 in out/a: 2 of 3 items not run, stopped by time (--vla-max-hours=2)")
    assert said[at + 1] == "  pytest --vla-resume=run-1 --vla-results=out/a"
    assert cli.main(["runs", "--results=all"]) == 0
    assert "stopped by time" not in capsys.readouterr().out, "it would say of all what one shard is"


def test_what_was_not_collected_is_named_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for n, seeds in ((1, (0, 3, 6)), (2, (1, 4, 7)), (3, (2, 5, 8))):
        lost = {"test_own.py": "NameError: name 'boom' is not defined"} if n < 3 else {}
        write_shard(Path(f"out/{n}"), n, f"run-{n}", dict.fromkeys(seeds, "success"), failures=lost)
    code, said = merge(capsys, "out", "-o", "all")
    assert code == 3
    assert said[2:] == [
        "not collected: test_own.py: NameError: name 'boom' is not defined (shard 1-2)",
        "these files' tests are in no shard. Fix them, run the shards again without --vla-resume, then merge again:",
        "  pytest --vla-suite=libero_goal --vla-shard=1/3 --vla-results=out/1",
        "  pytest --vla-suite=libero_goal --vla-shard=2/3 --vla-results=out/2",
    ]


def test_who_still_runs_is_named(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    write_shard(Path(".vla/shards/1-of-3"), 1, "run-1", {0: "success"}, end=False)
    monkeypatch.setattr("platform.node", lambda: "node12")
    write_shard(Path(".vla/shards/2-of-3"), 2, "run-2", {1: "success"}, end=False)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    code, said = merge(capsys)
    assert code == 3
    (alive,) = [line for line in said if line.startswith("still running: shard 1 in ")]
    assert "process" in alive
    (unsure,) = [line for line in said if line.startswith("left: shard 2 in ")]
    assert unsure.endswith("2 of 3 items not run; it may still run on node12")


def test_of_thousands_that_are_missing_some_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = tuple(replace(PLAN.items[0], node=f"{PLAN.items[0].node}{n}", shard=n + 2) for n in range(2000))
    plan = replace(PLAN, count=2001, items=(replace(PLAN.items[0], shard=1), *items))
    write_shard(Path("one"), 1, "run-1", {0: "success"}, plan)
    code, said = merge(capsys, "one")
    assert code == 3
    assert len(said) < 60
    assert all(len(line) < 400 for line in said), "numbers are ranges"
    (more,) = [line for line in said if line.startswith("and ")]
    assert more == "and 1980 shards more: 22-2001"


def test_what_cannot_be_merged_is_an_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = merge(capsys)
    assert code == 1
    assert "is not a folder" in said[0]


def test_what_else_is_in_a_folder_is_named_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An earlier evaluation's failures stay where they were, and nobody takes the merged run for all that was run."""
    smaller = replace(PLAN, items=PLAN.items[:8])
    otherwise = replace(PLAN, count=4)
    for name, plan, model in (("a", smaller, "random"), ("b", PLAN, "tiny"), ("c", otherwise, "random")):
        write_shard(Path("out/1"), 1, name, {0: "failure", 3: "failure"}, plan, model)
    write_shard(Path("out/2"), 2, "d", {1: "failure"}, smaller)
    for number, seeds in ((1, (0, 3, 6)), (2, (1, 4, 7)), (3, (2, 5, 8))):
        write_shard(Path(f"out/{number}"), number, f"run-{number}", dict.fromkeys(seeds, "success"))
    code, said = merge(capsys, "out", "-o", "all")
    assert code == 0
    assert [line for line in said if line.startswith("note: ")] == [
        "note: out/1 also has run a of another selection (8 items), run b of another policy (tiny), run c of a "
        "different partition of this selection (shard 1 of 4), not merged: their results stay there "
        "(pytest-vla runs --results=out/1)",
        "note: out/2 also has run d of another selection (8 items), which is not merged: its results stay there "
        "(pytest-vla runs --results=out/2)",
    ]
    with open_store(Path("out/1"), create=True) as store:
        for name in ("own", "e"):
            store.begin(name, [], command="pytest", model="random")
            store.end(name, "finished")
    assert merge(capsys, "out", "-o", "all")[1][-2].endswith(
        "different partition of this selection (shard 1 of 4) and 2 runs more, not merged: their results stay there "
        "(pytest-vla runs --results=out/1)"
    )
