"""Shards: each unit is in one, the same whoever asks, balanced, scenes together where they fit."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.scale.shards import TOLERANCE, Unit, loads, partition

UNITS = st.lists(st.tuples(st.integers(0, 12), st.one_of(st.just(0.0), st.floats(0.01, 500.0))), max_size=60).map(
    lambda drawn: [Unit(f"item {n}", f"scene {scene}", seconds) for n, (scene, seconds) in enumerate(drawn)]
)
COUNTS = st.integers(1, 20)


def scenes_of(units: list[Unit]) -> dict[str, list[Unit]]:
    found: dict[str, list[Unit]] = {}
    for unit in units:
        found.setdefault(unit.scene, []).append(unit)
    return found


@given(UNITS, COUNTS)
def test_every_unit_is_in_exactly_one_shard(units: list[Unit], count: int) -> None:
    shards = partition(units, count)
    assert shards.keys() == {unit.name for unit in units}
    assert set(shards.values()) <= set(range(1, count + 1))


@given(UNITS, COUNTS, st.randoms(use_true_random=False))
def test_neither_the_order_of_units_nor_the_names_of_scenes_matter(units: list[Unit], count: int, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = [Unit(unit.name, f"other {hash(unit.scene) % 10**9} {unit.scene}", unit.seconds) for unit in units]
    random.shuffle(shuffled)
    assert partition(shuffled, count) == partition(units, count)


@given(UNITS, COUNTS)
def test_no_shard_is_much_longer_than_the_mean(units: list[Unit], count: int) -> None:
    found = loads(units, partition(units, count), count)
    mean = math.fsum(unit.seconds for unit in units) / count
    longest = max((unit.seconds for unit in units), default=0.0)
    # Of a line's part, or of the shard that was the emptiest before its last piece.
    assert max(found) <= mean * (1 + TOLERANCE) + longest + 1e-6
    pieces = [min(sum(each.seconds for each in some), mean) for some in scenes_of(units).values()]
    assert max(found) <= mean + max([*pieces, longest]) + longest + 1e-6


@given(UNITS, COUNTS)
def test_a_scene_that_fits_is_whole_or_no_whole_scenes_are_balanced(units: list[Unit], count: int) -> None:
    shards = partition(units, count)
    mean = math.fsum(unit.seconds for unit in units) / count
    by_scene = scenes_of(units).values()
    split = [some for some in by_scene if len({shards[unit.name] for unit in some}) > 1]
    fitting = [some for some in split if 0 < sum(unit.seconds for unit in some) <= mean * (1 - 1e-9)]
    if not fitting:
        return
    # On a line: each cut goes through one scene.
    pieces = sum(len({shards[unit.name] for unit in some}) for some in by_scene)
    assert pieces <= len(by_scene) + count - 1


def test_scenes_that_fit_stay_together() -> None:
    units = [Unit(f"{scene}-{n}", scene, 1.0) for scene in "abcdefgh" for n in range(10)]
    shards = partition(units, 4)
    assert all(len({shards[f"{scene}-{n}"] for n in range(10)}) == 1 for scene in "abcdefgh")
    assert loads(units, shards, 4) == [20.0] * 4


def test_a_scene_larger_than_a_share_is_split_into_as_few_pieces_as_can_be() -> None:
    units = [Unit(f"large-{n:02}", "large", 1.0) for n in range(30)]
    units += [Unit(f"small-{n:02}", f"small {n}", 1.0) for n in range(10)]
    shards = partition(units, 4)
    assert loads(units, shards, 4) == [10.0] * 4
    assert len({shards[unit.name] for unit in units if unit.scene == "large"}) == 3


def test_equal_scenes_that_do_not_divide_are_cut_on_a_line() -> None:
    units = [Unit(f"{scene:02}-{n}", f"{scene}", 1.0) for scene in range(17) for n in range(16)]
    shards = partition(units, 16)
    assert loads(units, shards, 16) == [17.0] * 16
    assert sum(len({shards[u.name] for u in units if u.scene == f"{scene}"}) for scene in range(17)) <= 17 + 15


def test_more_shards_than_items_leave_some_empty() -> None:
    units = [Unit(f"{n}", "one", 2.0) for n in range(3)]
    assert sorted(loads(units, partition(units, 16), 16)) == [0.0] * 13 + [2.0] * 3


def test_what_takes_no_time_is_shared_out_by_number() -> None:
    units = [Unit(f"{n}", f"{n}", 0.0) for n in range(8)]
    assert sorted(partition(units, 4).values()) == [1, 1, 2, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_seconds_that_are_none_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds"):
        partition([Unit("a", "a", seconds)], 2)
