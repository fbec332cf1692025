"""The compositional gap: by hand, by its definition as a covariance, and what is in no quartet."""

from collections.abc import Sequence
from dataclasses import replace
from math import erfc, sqrt
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.metrics.composition import (
    DimensionPair,
    compositional_gap,
    compositions,
    pooled_compositions,
    quartets,
)
from pytest_vla.metrics.robustness import Varied, varied_models
from pytest_vla.metrics.statistics import chi_square, holm, wilson_interval
from pytest_vla.records.record import Record
from tests.support.examples import scaled
from tests.support.varied import varied

CAMERA, LIGHT, NOISE = "camera.distance-L3", "light.diffuse-L3", "noise.fog-L3"
Four = tuple[bool, bool, bool, bool]


def one(records: Sequence[Record]) -> Varied:
    (found,) = varied_models(records)
    return found


def quartet(outcomes: Sequence[bool | str], seed: int, first: str = CAMERA, second: str = LIGHT) -> list[Record]:
    """The benign episode, the two alone and both at once, of a task for each ten seeds."""
    labels = ("", first, second, f"{first}+{second}")
    return [
        varied(label, outcome, f"task_{seed // 10}", seed % 10) for label, outcome in zip(labels, outcomes, strict=True)
    ]


def of_counts(n: int, counts: Sequence[int], first: str = CAMERA, second: str = LIGHT) -> list[Record]:
    """n quartets with so many successes in each of the four, anywhere among them."""
    labels = ("", first, second, f"{first}+{second}")
    ranks = [np.random.default_rng(crc32(label.encode())).permutation(n) for label in labels]
    return [
        record
        for seed in range(n)
        for record in quartet(
            [bool(rank[seed] < count) for rank, count in zip(ranks, counts, strict=True)], seed, first, second
        )
    ]


def made(records: Sequence[Record]) -> tuple[DimensionPair, ...]:
    return compositions(one(records))[0]


def test_a_gap_by_hand() -> None:
    # 90, 60, 75 and 10 successes of 100: 235 in all.
    (pair,) = made(of_counts(100, (90, 60, 75, 10)))
    assert (pair.dimensions, pair.labels) == (("camera", "light"), (f"{CAMERA}+{LIGHT}",))
    assert (pair.n, pair.successes, pair.rates) == (100, (90, 60, 75, 10), (0.9, 0.6, 0.75, 0.1))
    assert pair.gap == pytest.approx(10 / 235 - (60 + 10) / 235 * (75 + 10) / 235)
    # Yates: the difference of the products is less by half of all.
    statistic = 235 * (60 * 75 - 90 * 10 - 235 / 2) ** 2 / ((90 + 75) * (60 + 10) * (90 + 60) * (75 + 10))
    assert pair.chi_square == pytest.approx(statistic)
    assert pair.p == pair.p_adjusted == pytest.approx(float(stats.chi2.sf(statistic, 1)))
    assert pair.product == pytest.approx(0.45)
    assert pair.expected == pytest.approx(0.5)
    assert pair.joint_interval == wilson_interval(10, 100)
    assert (pair.undefined, pair.rough) == ("", False)
    for interval, value in [
        (pair.gap_interval, pair.gap),
        (pair.product_interval, 0.45),
        (pair.expected_interval, 0.5),
        (pair.less_product, -0.35),
        (pair.less_expected, -0.4),
    ]:
        assert interval is not None
        assert value is not None
        assert interval[0] < value < interval[1]
    assert pair.less_expected is not None
    assert pair.less_expected[1] < 0, "worse than independent dimensions would be"
    assert pair.verdict == "worse"
    assert pair.tasks_gap_interval is not None


def test_dimensions_that_take_their_share_have_no_gap() -> None:
    (pair,) = made(of_counts(100, (100, 50, 40, 20)))
    assert (pair.gap, pair.chi_square, pair.p, pair.verdict) == (0, 0, 1, "not determined")
    assert pair.expected == pytest.approx(pair.product) == pytest.approx(0.2)
    assert pair.less_expected is not None
    assert pair.less_expected[0] < 0 < pair.less_expected[1]


@given(st.tuples(*[st.integers(0, 500)] * 4))
def test_the_gap_is_the_covariance_among_successes(counts: tuple[int, int, int, int]) -> None:
    gap = compositional_gap(*counts)
    if not any(counts):
        assert gap is None
        return
    applied = np.repeat([(0, 0), (1, 0), (0, 1), (1, 1)], counts, axis=0)
    assert gap == pytest.approx(np.cov(applied.T, bias=True)[0, 1] if len(applied) > 1 else 0, abs=1e-12)
    assert gap is not None
    assert -0.25 <= gap <= 0.25
    assert gap == compositional_gap(counts[0], counts[2], counts[1], counts[3]), "neither dimension is the first"
    rates = [count / 500 for count in counts]
    assert compositional_gap(*rates) == pytest.approx(gap, abs=1e-9)


@given(st.tuples(*[st.integers(1, 300)] * 4))
def test_chi_square_and_the_gap_say_the_same(counts: tuple[int, int, int, int]) -> None:
    benign, first, second, joint = counts
    n, gap = sum(counts), compositional_gap(*counts)
    assert gap is not None
    one, other = (first + joint) / n, (second + joint) / n
    statistic = n * gap**2 / (one * (1 - one) * other * (1 - other))
    expected = stats.chi2_contingency(((benign, second), (first, joint)), correction=False)
    assert statistic == pytest.approx(expected.statistic, rel=1e-6, abs=1e-9)
    assert erfc(sqrt(statistic / 2)) == pytest.approx(expected.pvalue, rel=1e-4, abs=1e-9)


FOURS = st.lists(st.tuples(*[st.booleans()] * 4), min_size=1, max_size=25)


@settings(max_examples=scaled(25))
@given(FOURS)
def test_any_quartets_have_a_table(fours: list[Four]) -> None:
    (pair,) = made([record for seed, four in enumerate(fours) for record in quartet(four, seed)])
    assert pair.successes == tuple(sum(column) for column in zip(*fours, strict=True))
    benign, first, second, joint = pair.successes
    zero = 0 in (first + joint, second + joint, benign + second, benign + first)
    assert (pair.chi_square is None) == (pair.p is None) == (pair.p_adjusted is None) == bool(pair.undefined) == zero
    assert (pair.expected is None) == (benign == 0)
    if pair.gap_interval is not None:
        assert -0.25 <= pair.gap_interval[0] <= pair.gap_interval[1] <= 0.25


@pytest.mark.parametrize(
    ("counts", "why", "gap"),
    [
        ((0, 0, 0, 0), "nothing succeeded", None),
        ((9, 0, 5, 0), "nothing succeeded with camera", 0),
        ((9, 5, 0, 0), "nothing succeeded with light", 0),
        ((9, 0, 0, 0), "nothing succeeded with camera and nothing with light", 0),
        ((0, 5, 0, 5), "nothing succeeded without camera", 0),
        ((0, 0, 0, 5), "nothing succeeded without camera and nothing without light", 0),
    ],
)
def test_what_is_undefined_is_named(counts: tuple[int, int, int, int], why: str, gap: float | None) -> None:
    (pair,) = made(of_counts(10, counts))
    assert (pair.undefined, pair.gap) == (why, gap)
    assert pair.chi_square is pair.p is pair.p_adjusted is None


def test_pairs_are_adjusted_together_and_named_in_order() -> None:
    records = [
        *of_counts(40, (40, 20, 24, 2)),
        *of_counts(40, (40, 24, 20, 12), LIGHT, CAMERA.replace("L3", "L2")),
        *of_counts(40, (40, 24, 32, 5), LIGHT, NOISE),
        *of_counts(40, (40, 0, 32, 0), "robot.joints-L3", NOISE),
    ]
    pairs = made(records)
    assert [pair.dimensions for pair in pairs] == [("camera", "light"), ("light", "noise"), ("noise", "robot")]
    assert pairs[0].n == 80
    assert pairs[2].successes == (40, 32, 0, 0), "noise first; its episodes of another pair are the same ones"
    adjusted = [pair.p_adjusted for pair in pairs]
    assert adjusted == [*holm([pair.p for pair in pairs if pair.p is not None]), None]


def test_several_of_a_task_and_seed_count_as_one() -> None:
    once = of_counts(40, (36, 20, 24, 4))
    (alone,) = made(once)
    orientation = "camera.orientation-L3"
    twice = [*once, *of_counts(40, (36, 20, 24, 4), orientation, LIGHT)]
    (pair,) = made(twice)
    assert (pair.n, pair.successes) == (80, (72, 40, 48, 8))
    assert pair.gap == pytest.approx(alone.gap)
    doubled_counts = stats.chi2_contingency(((72, 48), (40, 8)))
    assert pair.chi_square == pytest.approx(doubled_counts.statistic), "as printed: it takes all for independent"
    assert pair.chi_square > 2 * (alone.chi_square or 0)
    same = [each for record in once for each in (record, as_kind(record, orientation))]
    (doubled,) = made(same)
    assert (doubled.n, doubled.gap) == (80, pytest.approx(alone.gap))
    assert doubled.gap_interval == pytest.approx(alone.gap_interval), "the same outcomes once more are no evidence"


def as_kind(record: Record, label: str) -> Record:
    """The same outcome under another kind of camera; the benign twin and the light's stay the same records."""
    old = str(record.variation.get("label", ""))
    if CAMERA not in old:
        return record
    return varied(old.replace(CAMERA, label), record.outcome, record.task, record.seed)


# The paper's chi-square


def printed_chi_square(*rates: float) -> float | None:
    """The statistic of Table 8 from the rates of Table 7: without a variation, with either, with both; 2,000 each."""
    none, one, other, both = (round(2000 * rate) for rate in rates)
    return chi_square(((none, other), (one, both)), yates=True)


def test_the_printed_chi_square_is_scipys_default_for_success_counts() -> None:
    """LIBERO-Plus (arXiv 2510.13626), appendix: of a 2x2 table of success counts, expected counts from its margins."""
    benign, first, second, joint = 0.971, 0.5635, 0.8870, 0.4120
    counts = [round(2000 * rate) for rate in (benign, first, second, joint)]
    assert counts == [1942, 1127, 1774, 824]
    expected = stats.chi2_contingency(((counts[0], counts[2]), (counts[1], counts[3])))
    without = stats.chi2_contingency(((counts[0], counts[2]), (counts[1], counts[3])), correction=False)
    assert expected.statistic < 0.99 * without.statistic, "the correction shows in three digits"
    assert printed_chi_square(benign, first, second, joint) == pytest.approx(expected.statistic, rel=1e-12)
    assert printed_chi_square(benign, second, first, joint) == pytest.approx(expected.statistic, rel=1e-12)
    # No success, and so no table.
    assert printed_chi_square(0, 0, 0, 0) is None


def test_its_printed_chi_square_is_within_reach() -> None:
    """Its Env and Camera, the one pair of numbers of these tables that is known here: the statistic is within reach."""
    # With 97.1% benign, 2,000 episodes each, and any singles, a joint rate gives it.
    for first, second in ((0.93, 0.56), (0.75, 0.56)):
        joints = np.linspace(0.2, first * second / 0.971, 400)
        found = [printed_chi_square(0.971, first, second, float(joint)) or 0.0 for joint in joints]
        assert min(found) < 1 < 26.1 < max(found)


@settings(max_examples=scaled(50))
@given(st.tuples(*[st.floats(0.02, 1)] * 4))
def test_rates_that_are_rounded_as_printed_give_it_to_two_percent(rates: tuple[float, float, float, float]) -> None:
    """As the paper prints rates, to a hundredth of a percent, where it is not near 0."""
    exact = printed_chi_square(*rates)
    rounded = printed_chi_square(*(round(rate, 4) for rate in rates))
    assert exact is not None
    assert rounded is not None
    assert rounded == pytest.approx(exact, rel=0.02, abs=1.0)


def test_suites_are_pooled_as_in_table_7() -> None:
    """Quartets of two suites are one table, and the same task and seed of another suite is another unit."""
    goal = of_counts(40, (38, 20, 30, 6))
    spatial = [replace(record, suite="libero_spatial") for record in of_counts(40, (39, 12, 25, 4))]
    (pair,) = pooled_compositions([one(goal), one(spatial)])
    assert (pair.n, pair.successes) == (80, (77, 32, 55, 10))
    expected = stats.chi2_contingency(((77, 55), (32, 10)))
    assert pair.chi_square == pytest.approx(expected.statistic)
    assert pair.p == pair.p_adjusted == pytest.approx(expected.pvalue)
    (alone,) = made(goal)
    assert pair.gap_interval is not None
    assert alone.gap_interval is not None
    assert pair.gap_interval[1] - pair.gap_interval[0] < alone.gap_interval[1] - alone.gap_interval[0]


def test_a_small_table_is_rough() -> None:
    assert made(of_counts(10, (9, 6, 6, 2)))[0].rough


def test_what_is_in_no_quartet() -> None:
    joint = f"{CAMERA}+{LIGHT}"
    records = [
        *quartet([True, True, False, False], 0),
        *quartet([True, "error", True, True], 1),
        *quartet(["invalid", True, True, True], 2),
        *quartet([True, True, True, True], 3)[1:],
        varied(joint, True, "task_0", 4),
        varied("", True, "task_0", 4),
        varied(CAMERA.replace("L3", "L2"), True, "task_0", 4),
        varied(LIGHT, True, "task_0", 4),
        varied(CAMERA, True, "task_0", 4, run_seed=1),
        varied(f"{joint}+{NOISE}", True, "task_0", 0),
    ]
    found, left_out = quartets(one(records))
    assert {names: len(some) for names, some in found.items()} == {("camera", "light"): 1}
    assert left_out == (
        "1 joint episodes with more than two variations: in no pair",
        "2 joint episodes without benign twin and single variations under the same run seed: in no pair",
        "2 joint episodes with an error or invalid episode among the four: in no pair",
    )


def test_other_parameters_than_the_parts_are_told() -> None:
    joint = {"camera.distance.scale": 1.5, "light.diffuse.red": 0.2}
    for scale, notes in ((1.5, 0), (1.4, 1)):
        records = [
            varied("", True),
            varied(CAMERA, True, parameters={"scale": scale}),
            varied(LIGHT, True, parameters={"red": 0.2}),
            varied(f"{CAMERA}+{LIGHT}", False, parameters=joint),
        ]
        found, left_out = quartets(one(records))
        assert len(found["camera", "light"]) == 1
        assert len(left_out) == notes
    assert left_out[0].startswith("1 joint episodes drew different parameters than their single variations")


def test_counts_below_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="expected rates or counts"):
        compositional_gap(1, -1, 0, 0)
