"""The pool that items are handed out from: who gets what, and that nothing is lost whatever workers do."""

import time
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.run.xdist.scheduler import Pool, PoolItem


def items(*of: tuple[str | None, float]) -> list[PoolItem]:
    return [PoolItem(index, scene, seconds) for index, (scene, seconds) in enumerate(of)]


def taken(pool: Pool, *workers: str) -> list[tuple[str | None, float] | None]:
    """What the workers take, one after the other."""
    return [item and (item.scene, item.seconds) for item in (pool.take(worker) for worker in workers)]


def test_within_a_scene_the_longest_comes_first() -> None:
    pool = Pool(items(("a", 2), ("a", 9), ("a", 5)))
    assert taken(pool, "w", "w", "w", "w") == [("a", 9), ("a", 5), ("a", 2), None]


def test_a_worker_stays_with_its_scene() -> None:
    pool = Pool(items(("a", 3), ("b", 9), ("a", 2), ("b", 1)))
    assert taken(pool, "w", "w", "w", "w") == [("b", 9), ("b", 1), ("a", 3), ("a", 2)]


def test_the_scene_with_the_most_work_is_begun_first() -> None:
    pool = Pool(items(("a", 5), ("b", 3), ("b", 3), ("c", 4)))
    assert taken(pool, "u", "v", "w") == [("b", 3), ("a", 5), ("c", 4)]


def test_a_scene_is_not_split_while_another_has_no_worker() -> None:
    pool = Pool(items(*[("a", 100)] * 9, ("b", 1)))
    assert taken(pool, "u", "v") == [("a", 100), ("b", 1)]


def test_one_scene_is_split_over_all_workers() -> None:
    pool = Pool(items(*[("a", 1)] * 6))
    assert taken(pool, "u", "v", "w", "u", "v", "w") == [("a", 1)] * 6
    assert len(pool) == 0


def test_workers_beyond_the_scenes_go_where_each_has_the_most_to_do() -> None:
    pool = Pool(items(*[("a", 1)] * 61, *[("b", 1)] * 21, *[("c", 1)] * 11))
    scenes = Counter(item.scene for number in range(9) if (item := pool.take(number)))
    assert scenes == {"a": 6, "b": 2, "c": 1}


def test_at_the_end_a_worker_helps_out_in_another_scene() -> None:
    pool = Pool(items(("a", 1), *[("b", 5)] * 4, *[("c", 4)] * 4))
    assert taken(pool, "b's", "c's", "a's", "a's") == [("b", 5), ("c", 4), ("a", 1), ("b", 5)]


def test_items_without_a_scene_keep_their_order() -> None:
    pool = Pool(items((None, 1), (None, 9), (None, 5)))
    assert taken(pool, "u", "v", "u") == [(None, 1), (None, 9), (None, 5)]


def test_after_items_without_a_scene_a_worker_goes_on_with_the_scene_that_it_has() -> None:
    pool = Pool(items(("a", 9)))
    assert taken(pool, "w") == [("a", 9)]
    pool.put_back(PoolItem(1, None, 1))
    assert taken(pool, "w") == [(None, 1)]
    pool.put_back(PoolItem(2, "b", 50))
    pool.put_back(PoolItem(3, "a", 1))
    assert pool.stays("w")
    assert taken(pool, "w") == [("a", 1)]


def test_who_stays() -> None:
    pool = Pool(items(("a", 1), ("b", 1)))
    assert not pool.stays("new")
    assert taken(pool, "w") == [("a", 1)]
    assert not pool.stays("w")
    pool.put_back(PoolItem(2, "a", 1))
    assert pool.stays("w")


def test_the_scene_of_a_worker_that_left_is_free_again() -> None:
    pool = Pool(items(*[("a", 1)] * 4, *[("b", 10)] * 4))
    assert taken(pool, "v", "u") == [("b", 10), ("a", 1)]
    pool.remove_worker("u")
    assert taken(pool, "w") == [("a", 1)], "though the work in b is more"


def test_what_is_put_back_is_handed_out_again() -> None:
    pool = Pool(items(("a", 1), ("a", 2)))
    first = pool.take("u")
    assert first == PoolItem(1, "a", 2)
    pool.remove_worker("u")
    pool.put_back(first)
    assert taken(pool, "v", "v", "v") == [("a", 2), ("a", 1), None]


def test_ties_are_broken_by_the_order_given() -> None:
    pool = Pool(items(("b", 1), ("a", 1), ("b", 1), ("a", 1)))
    assert [pool.take(worker) for worker in "uvuv"] == [
        PoolItem(0, "b", 1),
        PoolItem(1, "a", 1),
        PoolItem(2, "b", 1),
        PoolItem(3, "a", 1),
    ]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_seconds_that_are_none(seconds: float) -> None:
    with pytest.raises(ValueError, match="estimated seconds"):
        Pool([PoolItem(0, "a", seconds)])


POOLS = st.lists(
    st.tuples(st.sampled_from([None, "a", "b", "c", "d"]), st.floats(min_value=0, max_value=100)), max_size=40
).map(lambda drawn: items(*drawn))
# A worker by its number takes an item, ends one, or is killed with all that it has.
STEPS = st.lists(st.tuples(st.sampled_from(["take", "end", "kill"]), st.integers(min_value=0, max_value=4)))


@given(POOLS, STEPS)
def test_every_item_is_run_once_whatever_workers_do(pool_items: list[PoolItem], steps: list[tuple[str, int]]) -> None:
    pool, held, done = Pool(pool_items), {number: [] for number in range(5)}, Counter[PoolItem]()
    for step, worker in [*steps, *[("take", 0), ("end", 0)] * len(pool_items)]:
        if step == "take":
            left = len(pool)
            item = pool.take(worker)
            assert (item is None) == (left == 0), "nobody waits while there are items"
            held[worker] += [item] if item else []
            assert len(pool) == max(left - 1, 0)
        elif step == "end" and held[worker]:
            done[held[worker].pop(0)] += 1
        elif step == "kill":
            pool.remove_worker(worker)
            for item in held[worker]:
                pool.put_back(item)
            held[worker] = []
    for others in held.values():
        done.update(others)
    assert len(pool) == 0
    assert done == Counter(pool_items)


GROUPED = st.lists(st.tuples(st.sampled_from(["a", "b"]), st.integers(min_value=0, max_value=3)), max_size=30).map(
    lambda drawn: [
        PoolItem(index, scene, float(number), f"{scene}{number}" if number else None)
        for index, (scene, number) in enumerate(drawn)
    ]
)


@given(GROUPED, STEPS)
def test_a_group_stays_with_its_worker_and_nothing_is_lost(
    pool_items: list[PoolItem], steps: list[tuple[str, int]]
) -> None:
    pool, held, done = Pool(pool_items), {number: [] for number in range(5)}, Counter[PoolItem]()
    on: dict[str, int] = {}
    end = [("kill", number) for number in range(5)] + [("take", 0)] * len(pool_items)
    for step, worker in [*steps, *end]:
        if step == "take":
            left, has = len(pool), pool.has(worker)
            item = pool.take(worker)
            assert (item is not None) == has
            assert len(pool) == left - has
            if item is not None:
                held[worker].append(item)
                if item.group is not None:
                    assert on.setdefault(item.group, worker) == worker, "one that has run another of the group"
        elif step == "end":
            done.update(held[worker][:1])
            del held[worker][:1]
        else:
            pool.remove_worker(worker)
            on = {group: other for group, other in on.items() if other != worker}
            for item in held[worker]:
                pool.put_back(item)
            held[worker] = []
    for others in held.values():
        done.update(others)
    assert len(pool) == 0
    assert done == Counter(pool_items)


def test_the_rest_of_a_group_comes_before_anything_else() -> None:
    one, other = [PoolItem(number, "a", 9.0 * (not number), "g") for number in range(3)], PoolItem(3, "a", 5.0)
    pool = Pool([*one, other])
    assert [pool.take("v"), pool.take("w"), pool.take("w"), pool.take("v"), pool.take("v")] == [
        one[0],
        other,
        None,
        one[1],
        one[2],
    ]
    assert not pool.has("v")


@given(POOLS, st.lists(st.integers(min_value=0, max_value=7), max_size=60))
def test_a_worker_changes_its_scene_only_when_it_is_empty(pool_items: list[PoolItem], turns: list[int]) -> None:
    pool, at = Pool(pool_items), dict[int, str | None]()
    left = Counter(item.scene for item in pool_items)
    for worker in turns:
        item = pool.take(worker)
        if item is None:
            break
        if worker in at and at[worker] != item.scene:
            assert left[at[worker]] == 0
        if worker not in at and any(left[scene] and scene not in at.values() for scene in left):
            assert item.scene not in at.values(), "a scene without a worker comes first"
        at[worker] = item.scene
        left[item.scene] -= 1


@given(POOLS, st.lists(st.integers(min_value=0, max_value=4), max_size=60))
def test_the_same_calls_have_the_same_answers(pool_items: list[PoolItem], turns: list[int]) -> None:
    one, other = Pool(pool_items), Pool(pool_items)
    assert [one.take(worker) for worker in turns] == [other.take(worker) for worker in turns]


def handing_out(count: int, scenes: int) -> float:
    """Seconds of this thread on a processor, for as many items on 64 workers."""
    pool = Pool([PoolItem(index, f"scene {index % scenes}", float(index % 17)) for index in range(count)])
    start = time.thread_time()
    for number in range(count * 6 // 5):
        item = pool.take(number % 64)
        if item and number % 10 == 0:
            pool.remove_worker(number % 64)
            pool.put_back(item)
    assert len(pool) == 0
    return time.thread_time() - start


@pytest.mark.parametrize("scenes_of", [lambda count: 1, lambda count: 40, lambda count: count])
def test_the_time_of_handing_out_grows_with_the_number_of_items_and_no_faster(
    scenes_of: Callable[[int], int],
) -> None:
    few, many = (min(handing_out(count, scenes_of(count)) for _ in range(3)) for count in (1_000, 10_000))
    assert many < 40 * few, "ten times as many items; quadratic takes a hundred times as long"
