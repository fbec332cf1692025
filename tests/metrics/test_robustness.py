"""Success under variations: pairs, cells, curves and the most harmful dimension."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.metrics.differences import difference_of, mean_difference
from pytest_vla.metrics.paired import holm
from pytest_vla.metrics.robustness import Cell, Varied, cells, twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import NO_DOSE, Curve, Harm, curves
from pytest_vla.records.record import Record
from tests.support.varied import varied


def one(records: Sequence[Record]) -> Varied:
    (found,) = varied_models(records)
    return found


def cells_of(records: Sequence[Record]) -> dict[tuple[str, str, int | None], Cell]:
    found = one(records)
    made = cells(found, twin_pairs(found)[0])
    return {(cell.dimension, cell.kind, cell.level): cell for cell in made}


def curves_of(records: Sequence[Record]) -> tuple[dict[str, Curve], Harm | None, tuple[str, ...]]:
    found = one(records)
    made, harm, notes = curves(found, twin_pairs(found)[0], np.random.default_rng(0))
    return {curve.dimension: curve for curve in made}, harm, notes


def run_of(label: str, outcomes: Sequence[bool], task: str = "a_task") -> list[Record]:
    """An episode of each seed."""
    return [varied(label, outcome, task, seed) for seed, outcome in enumerate(outcomes)]


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
    units = [("a_task", seed) for seed in range(10)]
    alone = difference_of(mean_difference([-1] * 5 + [1] + [0] * 4, units))
    assert alone.interval is not None
    assert difference.interval == pytest.approx([100 * bound for bound in alone.interval])
    assert difference.p == difference.p_adjusted == alone.p
    assert difference.interval[0] < -40 < 0 < difference.interval[1]
    assert (difference.units, difference.tasks_interval) == (10, None), "of one task nothing is said of others"


def test_a_difference_is_one_wherever_it_is_shown() -> None:
    """A dimension of one kind and level: its row, its dimension and the largest loss have the same numbers."""
    records = [r for t in range(6) for r in (*run_of("", BENIGN, f"t{t}"), *run_of("camera.distance-L3", L3, f"t{t}"))]
    cell = cells_of(records)["camera", "distance", 3]
    found, harm, _ = curves_of(records)
    assert cell.difference == found["camera"].change
    assert harm is not None
    assert harm.change == cell.difference
    assert cell.difference is not None
    assert cell.difference.tasks_interval is not None


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
    assert [each.lost for each in differences] == [12, 6, 0, 9]
    assert tuple(each.p_adjusted for each in differences) == holm(p_values)


def test_a_few_pairs_are_not_tested() -> None:
    records = [*run_of("", [True] * 9), *run_of("camera.fov-L1", [False] * 4), *run_of("noise.fog-L2", [False] * 9)]
    few, enough = cells_of(records).values()
    assert (few.is_few, enough.is_few) == (True, False)
    assert few.difference is not None
    assert enough.difference is not None
    assert few.difference.p_adjusted is None
    assert enough.difference.p_adjusted == enough.difference.p, "nor do they cost the others anything"


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
    assert (difference.pairs, difference.units, difference.value) == (36, 12, pytest.approx(-200 / 3))
    assert difference.interval is not None
    once = cells_of(
        [*benign, *run_of("camera.distance-L1", outcomes), *run_of("camera.distance-L1", outcomes, "b_task")]
    )
    assert difference.p == pytest.approx(once["camera", "distance", 1].difference.p)  # type: ignore[union-attr]
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
            assert (cell.difference.interval is None) == (cell.difference.p is None) == (len(pairs) == 1)
            low, high = cell.difference.interval or (-100, 100)
            assert low <= cell.difference.value <= high
            assert cell.difference.lost == pairs.count(("failure", "success"))
            if cell.difference.p is not None:
                assert (cell.difference.p < 0.05) == (not low <= 0 <= high), "one test, one interval"
                assert cell.difference.p <= (cell.difference.p_adjusted or 1)


# Curves


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
    assert (curve.halving.level, curve.halving.why) == (None, "not determined: fewer than 20 episodes at a level")
    assert curve.change is not None
    assert (curve.change.pairs, curve.change.units) == (40, 10)
    assert curve.change.value == pytest.approx(-(0 + 20 + 80 + 80) / 4)
    assert harm is not None
    assert (harm.dimension, harm.why) == ("camera", "there is no other")
    assert notes == (
        "camera: 10 episodes without a level: on no curve",
        "camera: levels were measured on different tasks, seeds and kinds, which the curve mixes",
    )


def test_a_curve_of_several_task_lists_says_so() -> None:
    records = [*run_of("camera.distance-L1", [True] * 5), *run_of("camera.distance-L2", [True] * 5, "another_task")]
    found, harm, notes = curves_of(records)
    assert notes == ("camera: levels were measured on different tasks, seeds and kinds, which the curve mixes",)
    assert found["camera"].halving.why == "no benign twin was measured"
    assert (found["camera"].change, harm) == (None, None)


def test_where_nothing_was_measured_no_twin_is_blamed() -> None:
    broken = [dataclasses.replace(each, outcome="error") for each in run_of("camera.fov-L1", [False] * 3)]
    found, harm, _ = curves_of([*run_of("", [True] * 3), *broken])
    assert (found["camera"].halving.why, harm) == ("no varied episode was measured", None)


def test_where_success_halves_is_on_the_curve_of_all_kinds() -> None:
    shares = {1: 0.9, 2: 0.8, 3: 0.5, 4: 0.3, 5: 0.1}
    records = [record for task in "abcd" for record in run_of("", [True] * 10, task)]
    for level, share in shares.items():
        for task in "abcd":
            records += run_of(f"camera.fov-L{level}", [seed < 10 * share for seed in range(10)], task)
    halving = curves_of(records)[0]["camera"].halving
    assert halving.why == ""
    assert halving.level == pytest.approx(3)
    assert halving.interval is not None
    assert 2 < halving.interval[0] < 3 < halving.interval[1] < 4.5


def test_nothing_halves_over_the_difficulty_of_libero_plus() -> None:
    """Its levels say how many models fail: the curve falls by its making."""
    records = [*run_of("", [True] * 30)]
    for level in range(1, 6):
        records += run_of(f"camera.distance-L{level}", [seed > 5 * level for seed in range(30)])
    plus = "libero_plus_goal"
    listed = [dataclasses.replace(r, suite=plus, case=r.case.replace(r.suite, plus)) for r in records]
    (found,) = curves_of(listed)[0].values()
    assert (found.halving.level, found.halving.why, found.points) == (None, NO_DOSE, ())
    assert found.change is not None
    assert found.change.value < 0


def test_what_has_no_level_harms_too() -> None:
    """LIBERO-PRO's swap, of which all fail, beside a displacement that does little, and a camera."""
    records = [*run_of("", [True] * 10), *run_of("pro.swap", [False] * 10)]
    records += [*run_of("pro.displace_x-L1", [True] * 9 + [False]), *run_of("camera.fov-L1", [True, False] * 5)]
    found, harm, notes = curves_of(records)
    assert harm is not None
    assert harm.dimension == "pro"
    assert found["pro"].change is not None
    assert found["pro"].change.value == pytest.approx(-(100 + 10) / 2)
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
        (cell,) = cells(found, twin_pairs(found)[0])
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
    assert harm.change == found["camera"].change
    assert harm.change.value == pytest.approx(-65)
    low, high = harm.change.interval or (0, 0)
    assert -80 < low < -65 < high < -50
    light = found["light"].change
    assert light is not None
    assert light.value == pytest.approx(-5)
    nothing = found["noise"].change
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
    assert harm.why == "not determined: fewer than 6 tasks and seeds"
    low, high = harm.change.interval or (0, 0)
    assert low == -100
    assert high > -30, "five of five are not certain"


def test_no_drop_is_no_harm() -> None:
    _, harm, _ = curves_of(harmed(10, 2, camera=[0.0], light=[0.0]))
    assert harm is not None
    assert harm.why == "not determined: it may be none"


def test_a_few_pairs_do_not_hide_what_many_tell() -> None:
    """A dimension of two episodes that both fail is not the worst of all."""
    records = [*harmed(10, 5, camera=[0.5, 0.5], light=[0.0, 0.0])]
    records += [varied("noise.fog-L1", False, "task_0", seed) for seed in range(2)]
    _, harm, _ = curves_of(records)
    assert harm is not None
    assert harm.dimension == "camera"
    assert harm.not_told_apart == ("noise",)


def test_equal_seeds_give_equal_intervals() -> None:
    records = harmed(6, 3, camera=[0.3, 0.7], light=[0.2, 0.2])
    assert curves_of(records) == curves_of(records)
