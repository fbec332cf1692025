"""The balanced order: whenever it is stopped, every stratum has its share, and pairs are complete."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.scale.order import FEWEST_ROUNDS, PlannedEpisode, _times, balance_of, balanced_rounds, round_count

CAMERA, LIGHT = ("camera", "camera.distance", "-L1"), ("light", "light.diffuse", "-L2")


def episode(task: int, seed: int, kind: tuple[str, ...] = (), scenes: int = 2) -> PlannedEpisode:
    name = f"{'.'.join(kind)}-" * bool(kind)
    return PlannedEpisode(
        f"suite::test_episode[t{task}-{name}seed{seed}]", "suite", f"t{task}", kind, seed, f"s{task % scenes}"
    )


strata = st.lists(st.integers(1, 12), min_size=1, max_size=12)


def planned_of(sizes: list[int]) -> list[PlannedEpisode]:
    return [episode(task, seed) for task, size in enumerate(sizes) for seed in range(size)]


@given(strata, st.integers(0, 9), st.randoms())
def test_all_run_once_and_the_order_given_does_not_matter(sizes: list[int], seed: int, luck: random.Random) -> None:
    some = planned_of(sizes)
    mixed = some[:]
    luck.shuffle(mixed)
    rounds = balanced_rounds(mixed, seed)
    assert rounds == balanced_rounds(some, seed)
    assert sorted(node for each in rounds for node in each) == sorted(each.node for each in some)


@given(strata, st.integers(0, 9), st.floats(0, 1))
def test_at_any_time_a_stratum_has_its_share_to_within_one(sizes: list[int], seed: int, when: float) -> None:
    some = planned_of(sizes)
    times = _times(some, random.Random(seed))
    for task, size in enumerate(sizes):
        ran = sum(times[each.node] <= when for each in some if each.task == f"t{task}")
        assert abs(ran - when * size) <= 1.0 + 1e-9


@given(strata, st.integers(0, 9))
def test_whole_rounds_are_a_balanced_sample(sizes: list[int], seed: int) -> None:
    some = planned_of(sizes)
    done: list[str] = []
    for each in balanced_rounds(some, seed):
        done += each
        found = balance_of(some, done)
        assert (found.done, found.planned, found.strata) == (len(done), len(some), len(sizes))
        assert found.off < 2.0, "one of its own, and what the others have together"


def test_every_episode_is_as_likely_to_be_early() -> None:
    some = planned_of([2, 4, 8, 16])
    early = dict.fromkeys((each.node for each in some), 0)
    for seed in range(400):
        times = _times(some, random.Random(seed))
        for node, when in times.items():
            early[node] += when < 0.25
    # Four standard errors of a share of a quarter.
    assert all(abs(number / 400 - 0.25) < 4 * (0.25 * 0.75 / 400) ** 0.5 for number in early.values())


def test_seeds_of_a_task_come_in_a_drawn_order() -> None:
    some = planned_of([30])
    orders = [[node for each in balanced_rounds(some, seed) for node in each] for seed in (0, 1)]
    assert orders[0] != orders[1]
    assert orders[0] != [each.node for each in some]


@given(st.integers(1, 4), st.integers(1, 8), st.integers(0, 9))
def test_a_varied_episode_has_its_twin_when_its_round_is_over(tasks: int, seeds: int, seed: int) -> None:
    some = [episode(task, s, kind) for task in range(tasks) for s in range(seeds) for kind in ((), CAMERA, LIGHT)]
    by_node = {each.node: each for each in some}
    benign: set[tuple[str, int]] = set()
    varied: set[tuple[str, int]] = set()
    for each in balanced_rounds(some, seed):
        new = {(by_node[node].task, by_node[node].seed) for node in each if by_node[node].kind}
        benign |= {(by_node[node].task, by_node[node].seed) for node in each if not by_node[node].kind}
        varied |= new
        assert varied == benign, "each pair, and no twin before it is needed"


def test_kinds_have_their_shares_long_before_each_stratum_has_an_episode() -> None:
    kinds = [("camera", f"camera.{number}", "") for number in range(4)] + [("light", "light.diffuse", "")]
    some = [episode(task, 0, kind) for task in range(100) for kind in kinds]
    first = [node for each in balanced_rounds(some, 0) for node in each][:50]
    for kind in kinds:
        assert 8 <= sum(f"-{'.'.join(kind)}-" in node for node in first) <= 12
    assert len({node.partition("-")[0] for node in first}) > 30, "tasks are not one after the other"


def test_scenes_stay_together_within_a_round_and_rounds_are_no_longer_than_they_have_to_be() -> None:
    some = [episode(task, seed, scenes=5) for task in range(20) for seed in range(50)]
    rounds = balanced_rounds(some, 0)
    assert len(rounds) == round_count(some) == 1000 / 10, "two episodes of each of five scenes"
    scenes = {each.node: each.scene for each in some}
    for each in rounds:
        changes = sum(scenes[one] != scenes[other] for one, other in pairwise(each))
        assert changes < 5
    one_each = [episode(task, seed, scenes=20) for task in range(20) for seed in range(5)]
    assert round_count(one_each) == 5, "as few as these have one of each task, and no more"
    alone = [episode(task, 0, scenes=1000) for task in range(1000)]
    assert round_count(alone) > FEWEST_ROUNDS, "nobody shares a scene"
    assert balanced_rounds([], 0) == ()


def test_benign_twins_are_in_no_stratum() -> None:
    some = [episode(0, seed, kind) for seed in range(10) for kind in ((), CAMERA)]
    found = balance_of(some, [each.node for each in some if each.seed < 5 or not each.kind])
    assert (found.done, found.planned, found.tasks, found.strata, found.share, found.off) == (15, 20, 1, 1, 0.5, 0.0)
    halves = [*planned_of([4, 4])]
    assert balance_of(halves, [each.node for each in halves if each.task == "t0"]).off == 2.0
