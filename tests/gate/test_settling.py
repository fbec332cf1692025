"""How many pairs a new comparison takes: four of five that go on like what was seen are decided by so many."""

import numpy as np
import pytest

from pytest_vla.gate.episodes_needed import drop_of, fresh_of, smallest_drops
from pytest_vla.gate.evidence import GroupOutcomes, evidence_of
from pytest_vla.gate.planning import fresh_pairs
from pytest_vla.gate.verdicts import GateGroup, Terms, judge, verdict_of
from pytest_vla.plan.case import Case
from tests.support.gate_sides import TASKS, made, only, side


def sample(lost: int, gained: int, same: int, per_unit: int = 1) -> GroupOutcomes:
    """Pairs one after the other, so many of a unit."""
    new = [0] * lost + [1] * gained + [1] * same
    baseline = [1] * lost + [0] * gained + [1] * same
    units = tuple(("suite/task", place // per_unit) for place in range(len(new)))
    return GroupOutcomes(tuple(new), units, tuple(baseline), units)


def verdict(sample: GroupOutcomes, terms: Terms, *, is_paired: bool = True) -> str:
    found = evidence_of(sample, terms.margin / 100, terms.alpha, is_paired)
    assert found is not None
    return verdict_of(found.p_beyond, found.p_better, found.p_no_worse, terms)


def undecided(sample: GroupOutcomes) -> GateGroup:
    return GateGroup("s", "undecided", "", None, None, None, (0, 0), (), sample=sample)


def fresh(some: GroupOutcomes, terms: Terms | None = None, groups: int = 1) -> int | None:
    return fresh_of(undecided(some), terms or Terms(), groups)


@pytest.mark.slow
@pytest.mark.parametrize("some", [sample(2, 2, 46), sample(4, 0, 16), sample(0, 0, 20)], ids=["even", "lost", "same"])
def test_four_of_five_new_comparisons_of_so_many_pairs_are_decided(some: GroupOutcomes) -> None:
    """Drawn here pair by pair, with one that was not seen as in plans; 15% fewer are decided less often."""
    number = fresh(some)
    assert number is not None
    n, generator = len(some.new), np.random.default_rng(1)
    differences = np.array(some.new) - np.array(some.baseline)
    rates = [(sum(side) + 0.5) / (n + 1) for side in (some.new, some.baseline)]

    def share(pairs: int) -> float:
        said = 0
        for _ in range(150):
            drawn = generator.integers(0, n + 1, pairs)
            unseen = (generator.random((pairs, 2)) < rates).astype(int)
            rows = np.where(drawn < n, differences[np.minimum(drawn, n - 1)], unseen[:, 0] - unseen[:, 1])
            lost, gained = int((rows < 0).sum()), int((rows > 0).sum())
            said += verdict(sample(lost, gained, pairs - lost - gained), Terms()) != "undecided"
        return said / 150

    assert 0.74 <= share(number) <= (0.9 if any(differences) else 1.0)
    assert share(round(0.85 * number)) < 0.84


def test_more_groups_and_pairs_that_share_starts_take_more() -> None:
    alone, of_ten = fresh(sample(6, 0, 14)), fresh(sample(6, 0, 14), groups=10)
    assert alone is not None
    assert of_ten is not None
    assert alone < of_ten
    together = fresh(sample(10, 10, 180, per_unit=10))
    apart = fresh(sample(10, 10, 180))
    assert apart is not None
    assert together is None or together > apart


def test_what_is_never_decided_has_no_number() -> None:
    """Pairs that lose just the margin."""
    assert fresh(sample(50, 0, 950)) is None
    assert fresh(sample(0, 0, 4), Terms(0.01)) is None
    settled = GateGroup("s", "no worse", "", None, None, None, (0, 0), ())
    assert fresh_of(settled, Terms(), 1) is None


def test_the_same_generator_says_the_same() -> None:
    numbers = {fresh_pairs(sample(2, 1, 17), Terms(), 1, np.random.default_rng(7)) for _ in range(2)}
    assert len(numbers) == 1


def test_unpaired_episodes_take_more_of_either_side() -> None:
    def seeds(number: int) -> GroupOutcomes:
        mine, theirs = (tuple(("suite/task", first + seed) for seed in range(number)) for first in (0, 1000))
        return GroupOutcomes((1,) * number, mine, (1,) * number, theirs)

    number = fresh(seeds(4))
    assert number is not None
    assert verdict(seeds(number), Terms(), is_paired=False) == "no worse"
    pairs = fresh(sample(0, 0, 20))
    assert pairs is not None


def test_what_the_pairs_find_is_what_was_said_before_the_first_episode() -> None:
    """One sentence, one number: of both groups, with Holm's correction for two."""
    label = "light.diffuse-L3"
    outcomes = [place % 7 > 0 for place in range(60)]
    baseline = made(side(outcomes), side(outcomes, label))
    judgement = judge(baseline, made(side(outcomes[::-1]), side(outcomes[::-1], label)), Terms())
    assert [group.verdict for group in judgement.groups] == ["undecided", "undecided"]
    names = [group.name for group in judgement.groups]
    found = {group.name: drop_of(group, Terms(), names) for group in judgement.groups}
    cases = [Case("libero_goal", task, seed, each) for task in TASKS for seed in range(6) for each in ("", label)]
    assert found == smallest_drops(baseline, cases, 0, Terms(), np.random.default_rng(0))
    alone = only(judge(made(side(outcomes)), made(side(outcomes[::-1])), Terms()))
    of_one = drop_of(alone, Terms(), [alone.name])
    assert of_one is not None
    assert of_one < min(drop for drop in found.values() if drop)
