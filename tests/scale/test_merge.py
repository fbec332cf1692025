"""Shards' stores become one run: complete, once, in the selection's order; what does not belong together is refused."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.records.record import Record
from pytest_vla.records.runs import BALANCED, ORDER, SAMPLE, TimeLimitSample, sample_of, sample_table
from pytest_vla.records.store import STORE, open_store
from pytest_vla.scale import merge as files
from pytest_vla.scale.merge import Merged, merge
from pytest_vla.scale.shards import SHARD
from tests.support.shards import NODES, PLAN, add, write_shard


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    """Three shards, done; seed 4 failed."""
    return [
        write_shard(tmp_path / "shards" / f"{n}", n, f"run-{n}", {s: "failure" if s == 4 else "success" for s in seeds})
        for n, seeds in ((1, (0, 3, 6)), (2, (1, 4, 7)), (3, (2, 5, 8)))
    ]


NAME = "run-1-merged"


def merged(places: Sequence[Path], target: Path) -> Merged:
    return merge(places, target, ("replan",), ())


def content(target: Path, name: str = NAME) -> tuple[list[Any], list[Record], dict[str, str]]:
    """Items, records and files of the merged run."""
    with open_store(target, create=False) as store:
        assert [run.name for run in store.runs()] == [name]
        items, records = list(store.items(name)), list(store.attempts(name))
    found = {str(file.relative_to(target / name)): file.read_text() for file in (target / name).rglob("*.*")}
    return items, records, found


def test_a_run_of_all_shards_is_that_of_one_machine(shards: list[Path], tmp_path: Path) -> None:
    target = tmp_path / ".vla"
    found = merged([tmp_path / "shards"], target)
    items, records, texts = content(target)
    assert [item.node for item in items] == NODES
    assert [item.status for item in items] == ["failed" if seed == 4 else "passed" for seed in range(9)]
    assert {(record.seed, record.outcome, record.digest) for record in records} == {
        (seed, outcome, f"{outcome}-{seed}") for seed in range(9) for outcome in ["failure" if seed == 4 else "success"]
    }
    assert {record.run for record in records} == {NAME}
    assert texts["libero_goal/seed4.npz"] == "run-2 failure"
    assert texts["libero_goal/seed4.mp4"] == "video of run-2"
    assert len(texts) == 18
    assert (found.left, found.ended, found.files, found.run.status, found.run.planned) == ((), 9, 9, "finished", 9)
    assert found.run.command == "pytest --vla-suite=libero_goal"
    assert SHARD not in found.run.invocation
    assert found.run.invocation["settings"] == {"replan": None, "typed": ["model"], "given": []}


def test_merging_again_changes_nothing(shards: list[Path], tmp_path: Path) -> None:
    target = tmp_path / ".vla"
    merged(shards, target)
    before, file = content(target), (target / STORE).read_bytes()
    found = merged(shards[::-1], target)
    assert (found.is_new, found.records, found.known, found.run.name) == (False, 0, 9, NAME)
    assert content(target) == before
    assert (target / STORE).read_bytes() == file


def test_a_later_shard_completes_the_run(shards: list[Path], tmp_path: Path) -> None:
    target, whole = tmp_path / ".vla", tmp_path / "whole"
    first = merged([shards[0], shards[2]], target)
    assert [(each.number, each.folder, each.not_run) for each in first.left] == [(2, None, 3)]
    assert first.run.status == "stopped"
    second = merged([shards[1]], target)
    assert (second.left, second.records, second.run.status) == ((), 3, "finished")
    merged(shards, whole)
    items, records, texts = content(target)
    assert (items, texts) == (content(whole)[0], content(whole)[2])
    assert sorted(records, key=lambda each: each.seed) == sorted(content(whole)[1], key=lambda each: each.seed)


def test_what_was_not_run_and_errors_are_told(tmp_path: Path) -> None:
    place = write_shard(tmp_path / "1", 1, "run-1", {0: "success", 3: "error"}, end=False)
    found = merged([place], tmp_path / ".vla")
    told = [(each.number, each.planned, each.not_run, each.errors) for each in found.left]
    assert told == [(1, 3, 1, 1), (2, 3, 3, 0), (3, 3, 3, 0)]
    assert found.left[0].run is not None
    assert found.ended == 1


def test_a_shard_that_was_gone_on_with_brings_what_is_new(tmp_path: Path) -> None:
    target = tmp_path / ".vla"
    place = write_shard(tmp_path / "1", 1, "run-1", {0: "success", 3: "error"}, end=False)
    merged([place], target)
    with open_store(place, create=True) as store:
        add(store, "run-1", place, {3: "failure", 6: "success"})
    found = merged([place], target)
    assert (found.records, found.known) == (2, 2)
    items, records, _ = content(target)
    assert [item.status for item in items][::3] == ["passed", "failed", "passed"]
    assert [(record.seed, record.outcome) for record in records] == [
        (0, "success"),
        (3, "error"),
        (3, "failure"),
        (6, "success"),
    ]


def test_no_task_that_is_started_again_turns_a_failure_into_a_success(tmp_path: Path) -> None:
    """All records come along, and the first counts, though the later run's clock is years behind."""
    early = "2001-01-01T00:00:00.000+00:00"
    write_shard(tmp_path / "1", 1, "run-1", {0: "failure", 3: "error"})
    place = write_shard(tmp_path / "1", 1, "run-b", {0: "success", 3: "success", 6: "success"}, started=early)
    merged([place], tmp_path / ".vla")
    items, records, texts = content(tmp_path / ".vla")
    assert [item.status for item in items][::3] == ["failed", "passed", "passed"]
    assert [item.outcome for item in items][::3] == ["failure", "success", "success"]
    assert [(record.seed, record.outcome, record.attempt) for record in records] == [
        (0, "failure", 1),
        (3, "error", 1),
        (0, "success", 1),
        (3, "success", 2),
        (6, "success", 1),
    ]
    assert texts["libero_goal/seed0.npz"] == "run-1 failure"
    assert texts["libero_goal/seed0-repeat2.npz"] == "run-b success"
    assert texts["libero_goal/seed3.npz"] == "run-b success"
    assert [record.arrays for record in records][2] == "libero_goal/seed0-repeat2.npz"


def test_clocks_of_other_machines_do_not_say_what_counts_or_comes_first(tmp_path: Path) -> None:
    late, early = "2031-01-01T00:00:00.000+00:00", "2001-01-01T00:00:00.000+00:00"
    first = write_shard(tmp_path / "1", 1, "run-1", {0: "success", 3: "failure", 6: "success"}, started=late)
    second = write_shard(tmp_path / "2", 2, "run-2", {1: "success", 4: "success", 7: "failure"}, started=early)
    merged([second, first], tmp_path / ".vla")
    _, records, _ = content(tmp_path / ".vla")
    assert [record.seed for record in records] == [0, 3, 6, 1, 4, 7]


OTHER_SELECTION = replace(PLAN, items=PLAN.items[:8])
OTHER_SHARDS = replace(PLAN, items=tuple(replace(each, shard=each.shard % 3 + 1) for each in PLAN.items))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"plan": OTHER_SELECTION}, r"selection is 8 items .* 2 others .* have 9 items"),
        ({"plan": replace(PLAN, count=4)}, "number of shards is 4"),
        ({"plan": replace(PLAN, weights="durations 00")}, "weights for balance is durations 00"),
        ({"plan": OTHER_SHARDS}, "partition, .* is sha256"),
        ({"model": "tiny"}, "policy is tiny, and 2 others"),
        ({"settings": {"replan": 5}}, "--vla-replan is 5, and 2 others .* have null"),
        ({"provenance": {"mujoco": "3.3.2"}}, r"mujoco is 3\.3\.2, and 2 others .* have 3\.8\.1"),
        ({"policy_digest": "ff" * 32}, "policy_digest is ffff"),
        ({"seeds": {"run": 7, "scene": 0, "init_state": 0, "init_states": 50}}, "run seed is 7"),
        ({"provenance": {"mujoco": "3.8.1", "kernels": "native", "pytest-vla": "9"}}, "kernels is native"),
    ],
)
def test_what_does_not_belong_together_is_refused_by_folder(
    shards: list[Path], tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    for number, seeds in ((2, (1, 4, 7)), (1, (0, 3, 6))):
        about = {"policy_digest": "ee" * 32, "provenance": {"mujoco": "3.8.1", "kernels": "pinned"}}
        write_shard(tmp_path / "new" / f"{number}", number, "run-x", dict.fromkeys(seeds, "success"), **about)
    odd = write_shard(tmp_path / "new" / "odd", 3, "run-odd", dict.fromkeys((2, 5), "success"), **{**about, **changes})
    with pytest.raises(VlaError, match=told) as refused:
        merged([tmp_path / "new"], tmp_path / ".vla")
    assert str(refused.value).startswith(f"{odd}: ")
    assert not (tmp_path / ".vla").exists()


def test_a_shard_that_is_there_twice_is_refused(shards: list[Path], tmp_path: Path) -> None:
    again = write_shard(tmp_path / "again", 2, "run-again", {1: "success"})
    with pytest.raises(VlaError, match="shard 2 is there twice") as refused:
        merged([*shards, again], tmp_path / ".vla")
    assert str(shards[1]) in str(refused.value)
    assert str(again) in str(refused.value)


def test_the_same_folder_given_twice_is_one(shards: list[Path], tmp_path: Path) -> None:
    assert merged([*shards, tmp_path / "shards"], tmp_path / ".vla").records == 9


def test_a_later_evaluation_of_another_policy_is_a_run_beside_the_first(shards: list[Path], tmp_path: Path) -> None:
    target = tmp_path / ".vla"
    merged(shards, target)
    new = [
        write_shard(
            tmp_path / f"new{n}", n, f"new-{n}", dict.fromkeys(range(n - 1, 9, 3), "success"), policy_digest="f"
        )
        for n in (1, 2, 3)
    ]
    assert merged(new, target).run.name == "new-1-merged"
    assert merged(shards, target).run.name == NAME
    assert merged(new[:1], target).run.name == "new-1-merged"


def test_a_damaged_store_is_named_and_nothing_is_merged(shards: list[Path], tmp_path: Path) -> None:
    store = shards[1] / STORE
    store.write_bytes(store.read_bytes()[: store.stat().st_size // 2])
    with pytest.raises(VlaError) as refused:
        merged(shards, tmp_path / ".vla")
    assert str(store) in str(refused.value)
    assert not (tmp_path / ".vla").exists()


def test_folders_without_shards_are_told_apart(shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "shards" / "7").mkdir()
    assert merged([tmp_path / "shards"], tmp_path / ".vla").unread == (tmp_path / "shards" / "7",)
    with pytest.raises(VlaError, match="no results of shards"):
        merged([tmp_path / "shards" / "7"], tmp_path / ".vla")
    with pytest.raises(VlaError, match="is not a folder"):
        merged([tmp_path / "none"], tmp_path / ".vla")
    with pytest.raises(VlaError, match="it has no run of a shard"):
        merged([tmp_path / ".vla"], tmp_path / "other")
    with pytest.raises(VlaError, match="is the target folder"):
        merged(shards, shards[0])


def test_a_merge_that_is_cut_off_while_it_copies_has_merged_nothing(
    shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, copied = tmp_path / ".vla", []

    def full(old: Path, new: Path) -> bool:
        copied.append(new)
        if len(copied) == 7:
            raise VlaError(f"cannot copy {old}: no space left on device")
        return real(old, new)

    real = files._copy
    with monkeypatch.context() as patched:
        patched.setattr(files, "_copy", full)
        with pytest.raises(VlaError, match="no space"):
            merged(shards, target)
    with open_store(target, create=False) as store:
        assert store.runs() == ()
    assert merged(shards, target).files == 6, "three were whole already"
    assert len(content(target)[2]) == 18


def test_a_trajectory_that_is_lost_or_leads_away_is_told(shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not ours")
    file = shards[0] / "run-1" / "libero_goal" / "seed0.npz"
    file.unlink()
    os.symlink(tmp_path / "secret", file)
    (shards[0] / "run-1" / "libero_goal" / "seed3.npz").unlink()
    found = merged(shards, tmp_path / ".vla")
    assert [each.name for each in found.lost] == ["seed0.npz", "seed3.npz"]
    assert not (tmp_path / ".vla" / NAME / "libero_goal" / "seed0.npz").exists()
    assert found.files == 7


def test_fewer_records_than_were_merged_are_refused(shards: list[Path], tmp_path: Path) -> None:
    merged(shards, tmp_path / ".vla")
    (shards[0] / STORE).unlink()
    write_shard(shards[0], 1, "run-1", {0: "success"})
    with pytest.raises(VlaError, match="has 1 records, but 3 were merged before"):
        merged(shards, tmp_path / ".vla")


def test_a_run_that_goes_on_is_not_merged_into(shards: list[Path], tmp_path: Path) -> None:
    merged(shards[:2], tmp_path / ".vla")
    with open_store(tmp_path / ".vla", create=True) as store:
        store.resume(NAME)
    with pytest.raises(VlaError, match="is still running, as process"):
        merged(shards, tmp_path / ".vla")


def test_what_was_written_meanwhile_is_not_merged_over(
    shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, copy = tmp_path / ".vla", files.Copies.write

    def write(self: files.Copies) -> None:
        copy(self)
        with monkeypatch.context() as unpatched:
            unpatched.setattr(files.Copies, "write", copy)
            merged(shards[:2], target)

    with monkeypatch.context() as patched:
        patched.setattr(files.Copies, "write", write)
        with pytest.raises(VlaError, match="Merge again"):
            merged(shards, target)
    assert not merged(shards, target).is_new
    assert len(content(target)[1]) == 9


BY_TIME = {ORDER: BALANCED, SAMPLE: sample_table(TimeLimitSample("--vla-max-hours=2", 1, 3, True, 1, 1, 0.33, 0.5, 1))}


def test_a_merged_run_is_no_sample_of_a_shards_limit(tmp_path: Path) -> None:
    """Whichever shard comes first, and also where the merged run itself was ended by time before more came."""
    target = tmp_path / ".vla"
    limited = write_shard(tmp_path / "2", 2, "run-2", {1: "success"}, end=False, kept=BY_TIME)
    with open_store(limited, create=True) as store:
        store.end("run-2", "stopped")
    found = merged([limited], target)
    assert found.run.status == "stopped"
    assert not {ORDER, SAMPLE} & found.run.invocation.keys()
    assert found.left[1].run is not None
    assert sample_of(found.left[1].run) is not None, "the shard itself is one"
    with open_store(target, create=True) as store:
        store.set_in_invocation(found.run.name, SAMPLE, BY_TIME[SAMPLE])
    later = merged([write_shard(tmp_path / "1", 1, "run-1", {0: "success"}), limited], target)
    assert later.run.name == found.run.name
    assert sample_of(later.run) is None


def test_what_a_shard_could_not_collect_is_known_until_it_was_run_again(tmp_path: Path) -> None:
    target, lost = tmp_path / ".vla", {f"test_{n}.py": "NameError: \x1b" for n in range(30)}
    seeds = {1: (0, 3, 6), 2: (1, 4, 7), 3: (2, 5, 8)}
    some = [write_shard(tmp_path / f"{n}", n, f"run-{n}", dict.fromkeys(seeds[n], "success")) for n in (2, 3)]
    broken = write_shard(tmp_path / "1", 1, "run-1", dict.fromkeys(seeds[1], "success"), failures=lost)
    assert merged([broken], target).uncollected[1].number == 30
    found = merged(some, target)
    assert (found.left, sorted(found.uncollected)) == ((), [1]), "also where its folder is not given"
    assert len(found.uncollected[1].files) == 20
    assert found.uncollected[1].files[0] == ("test_0.py", "NameError: ?")
    write_shard(broken, 1, "run-b", {})
    assert merged([broken], target).uncollected == {}


def test_a_damaged_account_of_what_was_not_collected_is_refused(tmp_path: Path) -> None:
    for number, table in enumerate(([], [1, "test_a.py"], [0, ["a", "b"]], ["1"], [2], [-1], {}, [1, ["a", 1]])):
        kept = {SHARD: {**PLAN.table(1), "uncollected": table}}
        with pytest.raises(VlaError, match="its list of uncollected files is damaged"):
            merged([write_shard(tmp_path / f"{number}", 1, "run-1", {0: "success"}, kept=kept)], tmp_path / ".vla")


def test_a_refusal_says_what_would_fit(shards: list[Path], tmp_path: Path) -> None:
    write_shard(shards[0], 1, "run-odd", {0: "success"}, plan=OTHER_SELECTION, failures={"test_a.py": "NameError: x"})
    with pytest.raises(
        VlaError, match=r"could not collect test_a\.py, so its tests are missing: NameError: x"
    ) as refused:
        merged(shards, tmp_path / ".vla")
    assert f"Run run-1 of {shards[0]} fits: remove the later runs" in str(refused.value)
    assert f"(pytest-vla rm run-odd --results={shards[0]})" in str(refused.value)


def test_a_folder_may_have_several_shards(tmp_path: Path) -> None:
    """As where they were run one after the other on one machine."""
    for n, seeds in ((1, (0, 3, 6)), (2, (1, 4, 7)), (3, (2, 5, 8))):
        place = write_shard(tmp_path / "out", n, f"run-{n}", dict.fromkeys(seeds, "success"))
    assert merged([place], tmp_path / ".vla").left == ()
    assert [item.node for item in content(tmp_path / ".vla")[0]] == NODES
