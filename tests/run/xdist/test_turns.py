"""Items whose turns come by rounds: none before those of earlier rounds, each once; scenes stay, or places stand."""

import dataclasses
import random

from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.run.xdist.scheduler import PoolItem, TurnPool


def items(rounds: int, scenes: int) -> list[PoolItem]:
    return [
        PoolItem(turn * scenes + scene, f"s{scene}", 1.0, None, turn)
        for turn in range(rounds)
        for scene in range(scenes)
    ]


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.randoms())
def test_rounds_come_one_after_the_other(rounds: int, scenes: int, workers: int, luck: random.Random) -> None:
    some = items(rounds, scenes)
    mixed = some[:]
    luck.shuffle(mixed)
    pool = TurnPool(mixed)
    assert len(pool) == len(some)
    taken = []
    while pool:
        worker = luck.randrange(workers)
        assert pool.has(worker)
        item = pool.take(worker)
        assert item is not None
        taken.append(item)
    assert sorted(item.index for item in taken) == [item.index for item in some]
    assert [item.turn for item in taken] == sorted(item.turn for item in taken)
    assert pool.take(0) is None
    assert not pool.has(0)
    assert not pool.stays(0)


def test_a_worker_stays_with_its_scene_and_leaves_others_theirs() -> None:
    pool = TurnPool(items(3, 4))
    first = [pool.take(worker) for worker in ("a", "b", "a", "b")]
    assert [item.scene for item in first if item] == ["s0", "s1", "s2", "s3"]
    assert pool.stays("a")
    second = [pool.take(worker) for worker in ("a", "b", "a", "b")]
    assert [item.scene for item in second if item] == ["s2", "s3", "s0", "s1"]


def test_items_come_in_the_order_of_their_places() -> None:
    pool = TurnPool([PoolItem(number, "s", 1.0, None, 0, 3 - number) for number in range(4)])
    assert [pool.take("a") for _ in range(4)] == [PoolItem(n, "s", 1.0, None, 0, 3 - n) for n in (3, 2, 1, 0)]


def test_tests_of_one_episode_stay_on_one_worker() -> None:
    shared = [PoolItem(number, "s0", 1.0, "g", 1) for number in range(3)]
    pool = TurnPool([*shared, PoolItem(3, "s1", 1.0, None, 1), PoolItem(4, "s1", 1.0, None, 2)])
    assert len(pool) == 5
    assert pool.take("a") == shared[0]
    assert pool.take("b") == PoolItem(3, "s1", 1.0, None, 1)
    assert pool.stays("a")
    assert pool.take("b") == PoolItem(4, "s1", 1.0, None, 2)
    assert not pool.has("b"), "the rest is the other's"
    assert pool.take("b") is None
    assert pool.take("a") == shared[1]
    pool.remove_worker("a")
    assert len(pool) == 1
    assert pool.take("b") == shared[2]
    pool.put_back(shared[1])
    pool.put_back(shared[2])
    assert [pool.take("b"), pool.take("b"), pool.take("b")] == [shared[1], shared[2], None]


places = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 9), st.sampled_from(["s0", "s1", "s2", None])), min_size=1, max_size=40
)


@given(places, st.integers(1, 5), st.randoms())
def test_in_strict_order_each_comes_at_its_place_whoever_asks(
    some: list[tuple[int, int, str | None]], workers: int, luck: random.Random
) -> None:
    mixed = [PoolItem(index, scene, 1.0, None, turn, place) for index, (turn, place, scene) in enumerate(some)]
    expected = sorted(mixed, key=lambda item: (item.turn, item.place, item.index))
    pool = TurnPool(luck.sample(mixed, len(mixed)), is_strict=True)
    on: dict[int, str | None] = {}
    for item in expected:
        worker = luck.randrange(workers)
        assert pool.has(worker)
        assert pool.stays(worker) is (item.scene is not None and on.get(worker) == item.scene)
        assert pool.take(worker) == item
        on[worker] = item.scene or on.get(worker)
        if luck.random() < 0.2:
            pool.remove_worker(worker)
            del on[worker]
        if luck.random() < 0.2:
            pool.put_back(item)
            assert pool.take(worker) == item, "it comes first again"
            on[worker] = item.scene or on.get(worker)
    assert not pool


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.integers(1, 4), st.randoms())
def test_in_strict_order_groups_come_at_their_places_and_stay_on_one_worker(
    sizes: list[int], workers: int, luck: random.Random
) -> None:
    mixed = [
        PoolItem(0, f"s{place % 2}", 1.0, f"g{place}" if size > 1 else None, place // 3, place)
        for place, size in enumerate(sizes)
        for _ in range(size)
    ]
    some = [dataclasses.replace(item, index=index) for index, item in enumerate(mixed)]
    pool = TurnPool(some, is_strict=True)
    of: dict[int, int] = {}
    begun = []
    while pool:
        worker = luck.randrange(workers)
        item = pool.take(worker)
        if item is None:
            assert not pool.has(worker)
            continue
        begun += [item.place] * (item.place not in of)
        assert of.setdefault(item.place, worker) == worker
    assert begun == list(range(len(sizes)))


def test_what_is_put_back_comes_next() -> None:
    pool = TurnPool(items(2, 2))
    first = pool.take("a")
    assert first is not None
    for _ in range(2):
        pool.take("b")
    pool.put_back(first)
    pool.remove_worker("a")
    assert pool.take("b") == first
    assert len(pool) == 1
