"""Cases that are held out for tests: which episodes of a data set are one of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.reports.dataset.frames import HELD_OUT, choose
from pytest_vla.reports.dataset.held_out import held_out_keys, keys_of
from pytest_vla.reports.export import ALL
from tests.support.kept_runs import BOWL, STOVE, ended, keep
from tests.support.varied import variation_of

GOAL = load_suite("libero_goal")
PROTOCOL = GOAL.protocol.table()


def kept(label: str, seed: int = 0, task: str = STOVE, text: str = "", **parameters: object) -> Record:
    about = variation_of(label, parameters)
    instruction = text or GOAL.task(task).language
    return ended(task, seed, "success", 3, protocol=PROTOCOL, variation=about, instruction=instruction)


def is_held_out(record: Record, *others: Record) -> bool:
    def keys(each: Record) -> set[str]:
        return {*keys_of(each, GOAL.task(each.task_key))}

    return any(keys(record) & keys(other) for other in others)


def test_a_case_is_the_same_by_its_draws_text_or_seed() -> None:
    drawn = kept("camera.distance-L2", 0, factor=1.5)
    assert is_held_out(kept("camera.distance-L2", 4, factor=1.5), drawn), "another start of the same camera"
    assert not is_held_out(kept("camera.distance-L2", 1, factor=1.6), drawn)
    assert is_held_out(kept("camera.distance-L2", 0, factor=1.6), drawn), "the same case, drawn again"
    assert not is_held_out(kept("camera.distance-L2", 0, task=BOWL, factor=1.5), drawn)
    assert not is_held_out(kept("light.diffuse-L2", 0, factor=1.5), drawn)
    text = "make the stove hot"
    assert is_held_out(kept("language.plus", 1, text=text, index=3), kept("language.words-L1", text=text, words=1))
    assert is_held_out(kept("", 3), kept("", 3))
    assert not is_held_out(kept("", 3), kept("", 4))
    assert not is_held_out(kept("", 3), drawn)
    assert is_held_out(kept("action.none", 1), kept("action.none", 2)), "a variation that draws nothing is one case"


def test_a_list_of_ids_holds_out_what_they_draw(tmp_path: Path) -> None:
    """Upstream's names and the ids of items and of cases, as pytest prints them, with its sum below."""
    tabletop = load_suite("tabletop")
    ids = [
        "tabletop::test_episode[turn_on_the_stove-camera.distance-L1-seed0]",
        "tabletop/turn_on_the_stove[seed7]",
        "",
        "2 tests collected in 0.1s",
    ]
    (tmp_path / "test.txt").write_text("\n".join(ids))
    found = held_out_keys(str(tmp_path / "test.txt"), tmp_path, None)
    assert len(found) == 3
    task = tabletop.task("turn_on_the_stove")
    seed7, seed8 = (ended("turn_on_the_stove", seed, "success", 3, suite="tabletop") for seed in (7, 8))
    assert not found.isdisjoint(keys_of(seed7, task))
    assert found.isdisjoint(keys_of(seed8, task))


def test_episodes_that_are_held_out_are_left_out_and_counted(tmp_path: Path) -> None:
    def write(run: str, records: Sequence[Record]) -> None:
        keep(tmp_path, run, "mine", *records)

    write("20260101-test", [kept("camera.distance-L2", factor=1.5), kept("", 1)])
    write("20260102-train", [kept("camera.distance-L2", 3, factor=1.5), kept("", 1), kept("", 2)])
    held_out = held_out_keys("20260101-test", tmp_path, None)
    with open_store(tmp_path, create=False) as store:
        found = choose(store, [store.run("20260102-train")], ALL, None, held_out)
    assert [each.record.seed for each in found.episodes] == [2]
    assert found.left_out[HELD_OUT] == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("libero_goal::test_episode[what?]", r"test\.txt, line 2: .* is no case; expected an id such as"),
        ("nothing", r"test\.txt names no case"),
    ],
)
def test_a_list_that_names_no_cases_is_refused(tmp_path: Path, text: str, error: str) -> None:
    (tmp_path / "test.txt").write_text(f"\n{text}\n")
    with pytest.raises(VlaError, match=error):
        held_out_keys(str(tmp_path / "test.txt"), tmp_path, None)
