"""Success under variations: pairs and cells."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.metrics.differences import difference_of, mean_difference
from pytest_vla.metrics.robustness import twin_pairs, varied_models
from pytest_vla.metrics.statistics import holm
from tests.support.examples import scaled
from tests.support.robustness import cells_of, curves_of, one, run_of
from tests.support.varied import varied

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
    assert found.left_out == ("2 probes left out: probes measure no loss",)


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
        "1 episode of your own tests: only the suite's own items count",
        "1 repeat of 1 episode, whose first record counts: 1 (100.0%) ended differently, 0 (0.0%) with another digest",
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
        "3 episodes without a benign twin under its run seed (--vla-twins=auto runs it): in no difference",
        "1 episode whose benign twin is an error or invalid: in no difference",
        "1 pair with different step budgets or replan lengths: still compared",
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


def test_a_twin_that_a_file_of_cases_names_is_in_no_pair() -> None:
    """It was chosen for how it ended: seed 1 failed, and would make the variation look harmless."""
    benign = run_of("", [True, False])
    chosen = replace(benign[1], given=True)
    label = run_of("camera.distance-L3", [False, False])
    assert [pair.difference for pair in twin_pairs(one([*benign, *label]))[0]] == [-1, 0]
    pairs, left_out = twin_pairs(one([benign[0], chosen, *label]))
    assert [pair.difference for pair in pairs] == [-1]
    assert left_out[0].startswith("1 episode without a benign twin")


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
    units = [("a_task", seed) for seed in range(12)]
    of_four = difference_of(mean_difference([0] * 6 + [-1] * 6, units), among=4)
    assert of_four.detectable is not None
    assert differences[1].detectable == 100 * of_four.detectable, "what each could show is as one of four"
    assert differences[1].telling == of_four.telling


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


@settings(max_examples=scaled(25))
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
