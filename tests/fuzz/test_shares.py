"""What matters: shares of known causes, no share where nothing matters, and intervals that hold what is true."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.fuzz import shares as shares_module
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.shares import Counted, DimensionShares, beyond, changed, explained, shares_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import Change
from tests.support.examples import scaled

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
SPACES = {kind.name: kind.space(TASK) for kind in fuzzed_kinds(TASK)}


def counted(*scenes: tuple[str, bool]) -> Counted:
    """Of ``("AB", True)``: A and B are changed, and it fails."""
    found = Counted(("A", "B", "C"))
    for there, fails in scenes:
        found.count(dict.fromkeys(there, 1), fails)
    return found


def told(found: Counted, seed: int = 0) -> DimensionShares:
    return shares_of(found, np.random.default_rng(seed))


EVERY = ["".join(each) for each in product(("", "A"), ("", "B"), ("", "C"))]


def test_a_single_cause_has_all_of_it() -> None:
    found = told(counted(*((there, "A" in there) for there in EVERY * 20)))
    a, *rest = found.single
    assert (a.of, a.share, a.p) == (("A",), 1.0, 1 / (1 + shares_module.DRAWS))
    assert a.interval == pytest.approx((1.0, 1.0))
    assert a.adjusted == pytest.approx(3 * (1 / (1 + shares_module.DRAWS)))
    for each in (*rest, *found.pairs):
        assert each.share is not None
        assert each.share == pytest.approx(0, abs=0.01)
        assert each.p is not None
        assert each.p > 0.9


def test_what_only_two_do_is_in_no_single_share() -> None:
    """Either of the two, and not both."""
    found = told(counted(*((there, ("A" in there) != ("B" in there)) for there in EVERY * 20)))
    assert all(each.share is not None and abs(each.share) < 0.01 for each in found.single)
    pair, *rest = found.pairs
    assert (pair.of, pair.share, pair.more) == (("A", "B"), 1.0, False)
    assert pair.p is not None
    assert pair.p < 0.001
    assert all(each.share is not None and abs(each.share) < 0.02 for each in rest)


def test_both_at_once_is_more_than_the_sum() -> None:
    found = told(counted(*((there, {"A", "B"} <= set(there)) for there in EVERY * 20)))
    # Y = A and B of fair coins: each has a third of the variance 3/16, what is joint a third.
    assert [each.share for each in found.single[:2]] == pytest.approx([1 / 3, 1 / 3], abs=0.01)
    assert found.pairs[0].share == pytest.approx(1 / 3, abs=0.01)
    assert found.pairs[0].more


def test_too_few_are_said_to_be_too_few() -> None:
    few = told(counted(*((there, "A" in there) for there in EVERY * 3)))
    assert "the policy fails 12 of 24 conclusive evenly drawn scenes" in few.why
    assert few.single == few.pairs == ()
    none = told(counted(*((there, False) for there in EVERY * 20)))
    assert "the policy fails 0" in none.why
    rare = told(counted(*((there, "A" in there) for there in ["", "A", "B", "C"] * 20)))
    assert {each.why for each in rare.pairs} == {"0 scenes change both: 10 are needed, also with one alone and neither"}
    assert rare.why == ""
    never = told(counted(*((there, "A" in there) for there in ["", "A", "B", "AB"] * 20)))
    assert [each.why for each in never.single if each.of == ("C",)] == ["no scene changes it, or all do"]
    many = Counted(("A",))
    for place in range(60):
        many.count({"A": place // 2}, place % 2 == 0)
    assert told(many).single[0].why == "60 scenes are too few for its 30 ways to be changed"


@settings(max_examples=scaled(60))
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=2, max_size=8))
def test_a_share_is_at_most_all_and_does_not_depend_on_order(rows: list[tuple[int, int]]) -> None:
    table = np.array(rows)
    if table.sum() < 2 or not table.sum(0).all():
        return
    share = float(explained(table))
    assert share <= 1 + 1e-9
    assert share == pytest.approx(float(explained(table[::-1])))
    assert share == pytest.approx(float(explained(table[:, ::-1]))), "what passes is what does not fail"


def test_the_bias_that_is_taken_off_is_the_mean_over_permutations() -> None:
    generator = np.random.default_rng(4)
    numbers = np.array([40, 3, 7, 10])
    failed = generator.multivariate_hypergeometric(numbers, 17, 20_000)
    assert float(explained(np.stack([numbers - failed, failed], -1)).mean()) == pytest.approx(0, abs=0.002)


@pytest.mark.parametrize(("effect", "least"), [(0.0, 0.95), (0.3, 0.88), (0.8, 0.88)])
def test_intervals_hold_what_is_true(monkeypatch: pytest.MonkeyPatch, effect: float, least: float) -> None:
    """Also of few scenes: a dimension with four ways, one of which may matter; chance is told as chance."""
    monkeypatch.setattr(shares_module, "DRAWS", 200)
    generator = np.random.default_rng(7)
    ways, rates = np.array([0.79, 0.07, 0.07, 0.07]), np.array([0.1, 0.1 + effect, 0.1, 0.1])
    mean = float(ways @ rates)
    true = float(ways @ (rates - mean) ** 2) / (mean * (1 - mean))
    held, found, shares = 0, 0, []
    times = 150
    for _ in range(times):
        number = generator.multinomial(200, ways)
        failed = generator.binomial(number, rates)
        one = Counted(("A",), 200, int(failed.sum()))
        one.single["A"] = {place: [int(n - f), int(f)] for place, (n, f) in enumerate(zip(number, failed, strict=True))}
        one.strata["A"] = {0: one.single["A"]}
        (each,) = shares_of(one, generator).single
        assert each.interval is not None
        assert each.p is not None
        assert each.share is not None
        held += each.interval[0] <= true <= each.interval[1]
        found += each.p < 0.05
        shares.append(each.share)
    assert held / times >= least
    assert np.mean(shares) == pytest.approx(true, abs=0.02)
    assert found / times <= 0.1 if not effect else found / times > 0.3


@pytest.mark.parametrize(("rates", "is_joint"), [([[0.02, 0.3], [0.3, 0.58]], False), ([[0, 0], [0, 0.4]], True)])
def test_what_adds_up_is_not_joint(monkeypatch: pytest.MonkeyPatch, rates: list[list[float]], is_joint: bool) -> None:
    monkeypatch.setattr(shares_module, "DRAWS", 200)
    generator = np.random.default_rng(8)
    ways, rate = np.array([[0.62, 0.17], [0.17, 0.04]]), np.array(rates)
    mean = float((ways * rate).sum())
    contrast = float(rate[1, 1] - rate[1, 0] - rate[0, 1] + rate[0, 0])
    true = contrast**2 / float((1 / ways).sum()) / (mean * (1 - mean))
    found = held = times = 0
    for _ in range(100):
        number = generator.multinomial(600, ways.ravel()).reshape(2, 2)
        failed = generator.binomial(number, rates)
        if number.min() < shares_module.FEWEST_OF_BOTH or failed.sum() < 5:
            continue
        both = Counted(("A", "B"), 600, int(failed.sum()))
        both.pairs["A", "B"] = np.stack([number - failed, failed], -1)
        both.single = {}
        (each,) = shares_of(both, generator).pairs
        assert each.p is not None
        assert each.interval is not None
        held += each.interval[0] <= true <= each.interval[1]
        found, times = found + (each.p < 0.05), times + 1
    assert times > 80
    assert held >= 0.85 * times
    assert found > 0.9 * times if is_joint else found <= 0.12 * times


def test_an_empty_cell_is_no_share() -> None:
    assert float(beyond(np.array([[[10, 0], [5, 5]], [[5, 5], [0, 0]]]))) == 0.0
    assert float(explained(np.array([[10, 0], [5, 0]]))) == 0.0


def test_ways_are_kinds_with_how_much() -> None:
    def ways(kind: str, **params: float) -> object:
        (found,) = changed(Candidate(TASK, 0, (Change(kind, params),)), SPACES).values()
        return found

    places = [ways("camera.azimuth", azimuth_deg=each) for each in (-70.0, -10.0, 10.0, 70.0)]
    assert places == [("camera.azimuth", place) for place in range(4)]
    assert [ways("light.direction", turn_deg=each, heading_deg=0.0) for each in (10.0, 50.0)] == [
        ("light.direction", 0), ("light.direction", 1)
    ]  # fmt: skip
    assert ways("language.words") == ("language.words", 0)


def test_equal_generators_tell_alike() -> None:
    found = counted(*((there, "A" in there) for there in EVERY * 20), *(("B", True) for _ in range(9)))
    assert told(found, 1) == told(found, 1)
    assert told(found, 1) != told(found, 2)


def test_a_dimension_without_effect_has_an_even_p_beside_a_dominant_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One to three of six dimensions are changed, and one decides: of the five others 63% had p < .05."""
    monkeypatch.setattr(shares_module, "DRAWS", 200)
    names = ("A", "B", "C", "D", "E", "F")
    generator = np.random.default_rng(3)
    by_chance, found, marginal = [], [], []
    for _ in range(30):
        one = Counted(names)
        for _ in range(400):
            there = generator.choice(names, int(generator.integers(1, 4)), replace=False)
            one.count({str(name): int(generator.integers(0, 3)) for name in there}, bool("A" in there))
        for each in shares_of(one, generator).single:
            assert each.p is not None
            (found if each.of == ("A",) else by_chance).append(each.p)
        table = np.array([*one.single["B"].values()])
        failed = generator.multivariate_hypergeometric(table.sum(1), int(table[:, 1].sum()), 200)
        as_much = shares_module._raw(np.stack([table.sum(1) - failed, failed], -1)) >= shares_module._raw(table)
        marginal.append(float(as_much.mean()))
    assert max(found) < 0.01
    # 5% of 150, and three standard deviations.
    assert sum(p < 0.05 for p in by_chance) / len(by_chance) < 0.104
    assert 0.4 < float(np.mean(by_chance)) < 0.6
    assert sum(p < 0.05 for p in marginal) / len(marginal) > 0.2, "without the condition chance is told as an effect"
