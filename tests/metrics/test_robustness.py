"""Success under variations: pairs, cells, curves and the most harmful dimension."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.metrics.paired import holm, mcnemar_exact, paired_interval
from pytest_vla.metrics.robustness import Cell, Varied, cells, twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import Curve, Harm, curves, halving_level
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.records import Record
from tests.support.varied import varied


def one(records: Sequence[Record]) -> Varied:
    (found,) = varied_models(records)
    return found


def cells_of(records: Sequence[Record]) -> dict[tuple[str, str, int | None], Cell]:
    found = one(records)
    made = cells(found, twin_pairs(found)[0], np.random.default_rng(0))
    return {(cell.dimension, cell.kind, cell.level): cell for cell in made}


def curves_of(records: Sequence[Record]) -> tuple[dict[str, Curve], Harm | None, tuple[str, ...]]:
    found = one(records)
    made, harm, notes = curves(found, twin_pairs(found)[0], np.random.default_rng(0))
    return {curve.dimension: curve for curve in made}, harm, notes


def run_of(label: str, outcomes: Sequence[bool], task: str = "a_task") -> list[Record]:
    """An episode of each seed."""
    return [varied(label, outcome, task, seed) for seed, outcome in enumerate(outcomes)]


def rate(successes: int, counted: int) -> SuccessRate:
    return SuccessRate(
        "", counted, successes, counted, wilson_interval(successes, counted) if counted else None, {}, {}
    )


BENIGN = [True] * 9 + [False]
L3 = [True] * 4 + [False] * 5 + [True]


# Which records


def test_models_and_suites_are_apart() -> None:
    records = [
        varied("camera.distance-L1", True),
        varied("camera.distance-L1", True, policy="other"),
        varied("", True, policy="benign only"),
        varied("language.paraphrase", True, policy="language only"),
        varied("language.words-L2", True, policy="graded language"),
    ]
    assert [(each.model, each.suite, len(each.episodes)) for each in varied_models(records)] == [
        ("random", "libero_goal", 1),
        ("other", "libero_goal", 1),
        ("graded language", "libero_goal", 1),
    ]


def test_probes_are_not_counted_as_harm() -> None:
    records = [
        varied("camera.distance-L1", True),
        varied("language.blank", False),
        varied("language.other_task", False),
    ]
    found = one(records)
    assert len(found.episodes) == 1
    assert found.left_out == ("2 probes: no dimension of harm",)


def test_the_first_of_a_case_counts_and_own_tests_do_not() -> None:
    records = [
        varied("camera.distance-L1", False),
        varied("camera.distance-L1", True),
        varied("camera.distance-L1", False, run_seed=1),
        varied("camera.distance-L1", False, node="test_mine.py::test_it"),
    ]
    cell = cells_of(records)["camera", "distance", 1]
    assert (cell.rate.successes, cell.rate.counted) == (0, 2)
    assert one(records).left_out == (
        "1 episode of your own tests, beside the suite's own items",
        "1 repeat of 1 episode, whose first record counts: 1 (100.0%) ended otherwise, 0 (0.0%) with another digest",
    )


def test_pairs_are_of_one_task_seed_and_run_seed() -> None:
    label = "camera.distance-L1"
    records = [
        varied("", True, seed=0),
        varied("", "invalid", seed=1),
        varied("", True, seed=2, run_seed=1),
        varied("", True, seed=3, replan=5),
        varied("", True, "another_task", seed=4),
        *(varied(label, False, seed=seed) for seed in range(5)),
        varied(label, "error", seed=5),
        varied(label, False, seed=0, run_seed=1),
    ]
    pairs, left_out = twin_pairs(one(records))
    assert [(pair.episode.seed, pair.twin.case, pair.difference) for pair in pairs] == [
        (0, "libero_goal/turn_on_the_stove[seed0]", -1),
        (3, "libero_goal/turn_on_the_stove[seed3]", -1),
    ]
    assert left_out == (
        "3 episodes without a benign twin of the same run seed (--vla-twins=auto runs it): in no difference",
        "1 episode whose benign twin is an error or invalid: in no difference",
        "1 pair of which one had another step budget or replan length: they are compared nevertheless",
    )


# Cells


def test_a_cell_by_hand() -> None:
    found = cells_of([*run_of("", BENIGN), *run_of("camera.distance-L3", L3)])
    cell = found["camera", "distance", 3]
    difference = cell.difference
    assert (cell.rate.successes, cell.rate.counted) == (5, 10)
    assert difference is not None
    assert (difference.pairs, difference.lost, difference.gained) == (10, 5, 1)
    assert (difference.benign, difference.value) == (90, -40)
    assert difference.interval == pytest.approx([100 * bound for bound in paired_interval(4, 5, 1, 0)])
    assert difference.p == difference.p_adjusted == mcnemar_exact(5, 1) == 0.21875


def test_errors_and_invalid_episodes_are_beside_the_rate() -> None:
    outcomes = ["success", "failure", "error", "error", "invalid"]
    records = [varied("noise.fog-L2", outcome, seed=seed) for seed, outcome in enumerate(outcomes)]
    cell = cells_of(records)["noise", "fog", 2]
    assert (cell.rate.counted, cell.rate.rate) == (2, 0.5)
    assert (cell.rate.errors, cell.rate.invalid) == ({"policy-raised": 2}, {"goal-holds-at-start": 1})
    assert cell.difference is None


def test_the_adjustment_is_over_all_of_the_table() -> None:
    records = [
        *run_of("", [True] * 12),
        *run_of("camera.distance-L1", [False] * 12),
        *run_of("light.diffuse-L1", [True] * 6 + [False] * 6),
        *run_of("light.diffuse-L2", [True] * 12),
        *run_of("camera.distance-L1+light.diffuse-L1", [True] * 3 + [False] * 9),
    ]
    found = list(cells_of(records).values())
    assert [(cell.dimension, cell.level) for cell in found] == [
        ("camera", 1),
        ("light", 1),
        ("light", 2),
        ("camera+light", 1),
    ]
    differences = [cell.difference for cell in found if cell.difference is not None]
    p_values = [each.p for each in differences if each.p is not None]
    assert p_values == [mcnemar_exact(lost, 0) for lost in (12, 6, 0, 9)]
    assert tuple(each.p_adjusted for each in differences) == holm(p_values)


def test_episodes_that_share_a_twin_are_no_independent_pairs() -> None:
    outcomes = [True, False, False, True, False, False]
    shared = [
        varied(f"language.paraphrase.{index}", outcome, task, seed)
        for task in ("a_task", "b_task")
        for seed, outcome in enumerate(outcomes)
        for index in range(3)
    ]
    for record in shared:
        record.variation["kind"] = "paraphrase"  # type: ignore[index]
    benign = [record for task in ("a_task", "b_task") for record in run_of("", [True] * 6, task)]
    records = [*benign, *shared, *run_of("camera.distance-L1", outcomes)]
    difference = cells_of(records)["language", "paraphrase", None].difference
    assert difference is not None
    assert (difference.pairs, difference.value) == (36, pytest.approx(-200 / 3))
    assert difference.p is difference.p_adjusted is None
    assert difference.interval is not None
    low, high = difference.interval
    assert low < -200 / 3 < high < 0
    assert high - low > 30, "thirty-six episodes of six seeds say no more than six seeds"


def test_joint_variations_of_two_levels_are_told_apart() -> None:
    labels = ["camera.distance-L1+light.diffuse-L2", "camera.distance-L2+light.diffuse-L1"]
    found = cells_of([record for label in labels for record in run_of(label, [True])])
    assert list(found) == [
        ("camera+light", "distance-L1+diffuse-L2", None),
        ("camera+light", "distance-L2+diffuse-L1", None),
    ]


OUTCOMES = st.lists(st.sampled_from(["success", "failure", "error", "invalid"]), min_size=1, max_size=8)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(st.sampled_from(["", "camera.distance-L1", "camera.fov-L1", "noise.fog-L2"]), OUTCOMES))
def test_every_episode_is_in_one_cell(runs: dict[str, list[str]]) -> None:
    records = [varied(label, outcome, seed=seed) for label, some in runs.items() for seed, outcome in enumerate(some)]
    if not any(runs):
        assert varied_models(records) == ()
        return
    for (dimension, kind, level), cell in cells_of(records).items():
        outcomes = runs[f"{dimension}.{kind}-L{level}"]
        assert cell.rate.episodes == len(outcomes)
        assert cell.rate.counted + sum(cell.rate.errors.values()) + sum(cell.rate.invalid.values()) == len(outcomes)
        twins = zip(outcomes, runs.get("", []), strict=False)
        pairs = [each for each in twins if {*each} <= {"success", "failure"}]
        assert (cell.difference.pairs if cell.difference else 0) == len(pairs)
        if cell.difference is not None:
            low, high = cell.difference.interval or (0, 0)
            assert low <= cell.difference.value <= high
            assert cell.difference.lost == pairs.count(("failure", "success"))
            assert cell.difference.p is not None
            assert cell.difference.p <= (cell.difference.p_adjusted or 0)


# Curves


@pytest.mark.parametrize(
    ("successes", "level"),
    [
        ([100, 80, 60, 40, 20, 0], 2.5),
        ([100, 50], 1.0),
        ([80, 70, 30, 90, 10], 1.75),
        ([10, 0], 0.5),
    ],
)
def test_where_success_halves(successes: list[int], level: float) -> None:
    points = [(index, rate(number, 100)) for index, number in enumerate(successes)]
    assert halving_level(points) == (pytest.approx(level), "")


def test_levels_that_were_not_run_are_interpolated_over() -> None:
    assert halving_level([(0, rate(10, 10)), (1, rate(8, 10)), (3, rate(0, 0)), (5, rate(2, 10))])[0] == 3


@pytest.mark.parametrize(
    ("points", "why"),
    [
        ([(0, rate(9, 10)), (1, rate(9, 10)), (5, rate(5, 10))], "not reached up to L5"),
        ([(0, rate(0, 10)), (1, rate(0, 10))], "benign success is 0"),
        ([(1, rate(9, 10)), (2, rate(1, 10))], "no benign twin was measured"),
        ([(0, rate(9, 10)), (1, rate(0, 0))], "no level was measured"),
        ([], "no benign twin was measured"),
    ],
)
def test_where_it_does_not(points: list[tuple[int, SuccessRate]], why: str) -> None:
    assert halving_level(points) == (None, why)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=7))
def test_the_halving_level_is_on_the_curve(successes: list[int]) -> None:
    level, why = halving_level([(index, rate(number, 50)) for index, number in enumerate(successes)])
    half = successes[0] / 2
    if level is None:
        assert why
        assert successes[0] == 0 or min(successes) > half
    else:
        assert np.interp(level, range(len(successes)), successes) == pytest.approx(half)
        assert all(number > half for number in successes[: int(np.ceil(level))])


def test_a_curve_has_all_kinds_and_the_twins() -> None:
    records = [
        *run_of("", [True] * 8 + [False] * 2),
        varied("", False, "another_task"),
        *run_of("camera.distance-L1", [True] * 8 + [False] * 2),
        *run_of("camera.fov-L1", [True] * 6 + [False] * 4),
        *run_of("camera.distance-L2", [False] * 10),
        *run_of("camera.table", [False] * 10),
    ]
    found, harm, notes = curves_of(records)
    curve = found["camera"]
    assert [(level, each.successes, each.counted) for level, each in curve.points] == [
        (0, 8, 10),
        (1, 14, 20),
        (2, 0, 10),
    ]
    assert curve.halves_at == pytest.approx(1 + 0.3 / 0.7)
    assert curve.drop is not None
    assert curve.drop.value == pytest.approx((10 + 80 + 80) / 3), "each level weighs the same, and none too"
    assert harm is not None
    assert (harm.dimension, harm.why) == ("camera", "there is no other")
    assert notes == (
        "camera: 10 episodes without a level: on no curve; in the mean drop as one level more",
        "camera: levels were measured on different tasks, seeds and kinds, which the curve mixes",
    )


def test_a_curve_of_several_task_lists_says_so() -> None:
    records = [*run_of("camera.distance-L1", [True] * 5), *run_of("camera.distance-L2", [True] * 5, "another_task")]
    found, harm, notes = curves_of(records)
    assert notes == ("camera: levels were measured on different tasks, seeds and kinds, which the curve mixes",)
    assert found["camera"].why == "no benign twin was measured"
    assert (found["camera"].drop, harm) == (None, None)


def test_where_nothing_was_measured_no_twin_is_blamed() -> None:
    broken = [dataclasses.replace(each, outcome="error") for each in run_of("camera.fov-L1", [False] * 3)]
    found, harm, _ = curves_of([*run_of("", [True] * 3), *broken])
    assert (found["camera"].why, harm) == ("no varied episode was measured", None)


def test_what_has_no_level_harms_too() -> None:
    """LIBERO-PRO's swap, of which all fail, beside a displacement that does little, and a camera."""
    records = [*run_of("", [True] * 10), *run_of("pro.swap", [False] * 10)]
    records += [*run_of("pro.displace_x-L1", [True] * 9 + [False]), *run_of("camera.fov-L1", [True, False] * 5)]
    found, harm, notes = curves_of(records)
    assert harm is not None
    assert harm.dimension == "pro"
    assert found["pro"].drop is not None
    assert found["pro"].drop.value == pytest.approx((100 + 10) / 2)
    assert harm.levels == "camera L1; pro L1, no level"
    assert notes[0].startswith("pro: 10 episodes without a level: on no curve")


def test_levels_that_differ_are_told() -> None:
    records = [*run_of("", [True] * 9), *run_of("noise.fog-L5", [False] * 9)]
    records += [each for level in range(1, 6) for each in run_of(f"camera.fov-L{level}", [level < 5] * 9)]
    _, harm, _ = curves_of(records)
    assert harm is not None
    assert (harm.dimension, harm.levels) == ("noise", "camera L1, L2, L3, L4, L5; noise L5")
    _, harm, _ = curves_of([record for record in records if "-L5" in record.case or not record.variation])
    assert harm is not None
    assert harm.levels == ""


def test_the_numbers_do_not_depend_on_the_order_in_which_episodes_ended() -> None:
    records = harmed(4, 3, camera=[0.25, 0.75], light=[0.5, 0.5])
    records += [*run_of("camera.turned-L1", [False, True, True, True], "task_0")]
    shuffled = [records[index] for index in np.random.default_rng(3).permutation(len(records))]
    assert shuffled != records
    assert curves_of(shuffled) == curves_of(records)
    assert cells_of(shuffled) == cells_of(records)


def test_the_paper_s_protocol_and_upstream_s_are_apart() -> None:
    def under(protocol: str, outcome: bool, seed: int) -> Record:
        record = varied(f"{protocol}.camera-L1", outcome, "a_task", seed)
        variation = {**record.variation, "dimension": "camera", "parameters": {"protocol": protocol}}
        return dataclasses.replace(record, variation=variation)

    records = [under(name, name == "paper", seed) for seed in range(4) for name in ("upstream", "paper")]
    paper, upstream = varied_models([*run_of("", [True] * 4), *records])
    assert (paper.protocol, upstream.protocol) == ("paper", "upstream")
    for found, successes in ((paper, 4), (upstream, 0)):
        (cell,) = cells(found, twin_pairs(found)[0], np.random.default_rng(0))
        assert (cell.rate.successes, cell.rate.counted) == (successes, 4)
        assert cell.difference is not None
        assert cell.difference.pairs == 4


def harmed(seeds: int, tasks: int, **shares: Sequence[float]) -> list[Record]:
    """Benign success is 1; each dimension fails the given share of the seeds at its levels, the first ones."""
    names = [f"task_{number}" for number in range(tasks)]
    records = [record for task in names for record in run_of("", [True] * seeds, task)]
    for dimension, by_level in shares.items():
        for level, share in enumerate(by_level, start=1):
            for number, task in enumerate(names):
                outcomes = np.roll(np.arange(seeds) >= round(share * seeds), number).tolist()
                records += run_of(f"{dimension}.kind-L{level}", outcomes, task)
    return records


def test_the_most_harmful_dimension_is_named_where_it_is_told_apart() -> None:
    found, harm, _ = curves_of(harmed(10, 5, camera=[0.4, 0.9], light=[0.0, 0.1], noise=[0.0, 0.0]))
    assert harm is not None
    assert (harm.dimension, harm.why, harm.not_told_apart) == ("camera", "", ())
    assert harm.drop == found["camera"].drop
    assert harm.drop.value == pytest.approx(65)
    low, high = harm.drop.interval or (0, 0)
    assert 40 < low < 65 < high < 85
    light = found["light"].drop
    assert light is not None
    assert light.value == pytest.approx(5)
    nothing = found["noise"].drop
    assert nothing is not None
    assert nothing.interval is not None
    assert (nothing.value, nothing.interval[0] < 0 < nothing.interval[1]) == (0, True), "fifty pairs are not all"


def test_dimensions_that_harm_alike_are_not_told_apart() -> None:
    _, harm, _ = curves_of(harmed(10, 5, camera=[0.5, 0.6], light=[0.5, 0.5], noise=[0.0, 0.0]))
    assert harm is not None
    assert (harm.dimension, harm.not_told_apart, harm.why) == ("camera", ("light",), "not told apart from light")


def test_a_few_pairs_name_no_dimension() -> None:
    _, harm, _ = curves_of(harmed(1, 5, camera=[1.0, 1.0], light=[0.0, 0.0]))
    assert harm is not None
    assert harm.why == "not told apart from light (fewer than 6 tasks and seeds)"
    low, high = harm.drop.interval or (0, 0)
    assert high == 100
    assert low < 70, "five of five are not certain"


def test_no_drop_is_no_harm() -> None:
    _, harm, _ = curves_of(harmed(10, 2, camera=[0.0], light=[0.0]))
    assert harm is not None
    assert harm.why == "its drop may be none"


def test_equal_seeds_give_equal_intervals() -> None:
    records = harmed(6, 3, camera=[0.3, 0.7], light=[0.2, 0.2])
    assert curves_of(records) == curves_of(records)
