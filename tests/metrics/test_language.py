"""Success and PRIDE over paraphrases, and what their intervals are of."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.metrics.language import Scored, clusters_of, measure, measure_paraphrases, of_list, pair_of, scored
from pytest_vla.metrics.pride import ACTION_TYPES, OBJECT_TYPES, ParaphraseOutcome
from pytest_vla.metrics.statistics import wilson_interval
from tests.support.examples import scaled
from tests.support.paraphrased import PLATE, STOVE, paraphrased


def test_one_label_with_a_text_for_each_seed_is_several_paraphrases() -> None:
    same = [paraphrased(STOVE, 0, "success", seed=seed) for seed in range(4)]
    drawn = [dataclasses.replace(record, instruction=f"text {record.seed}") for record in same]
    for records, texts in ((drawn, 4), (same, 1)):
        known = scored(records, {pair_of(record): (0.9, 0.8) for record in records}, "fake 1")
        assert (len(set(known.texts)), len(set(known.seeds))) == (texts, 4)
        table = measure_paraphrases(known, 0.5)
        # One paraphrase says nothing of others, however often it is told.
        expected = tuple(100 * bound for bound in wilson_interval(4, 4)) if texts == 4 else None
        assert table.overall.sr.interval == expected


def test_paraphrases_that_are_told_once_have_exactly_wilsons_interval() -> None:
    for n in (1, 3, 7, 60):
        for done in range(n + 1):
            outcomes = tuple(outcome(number < done) for number in range(n))
            expected = tuple(100 * bound for bound in wilson_interval(done, n))
            assert measure(Scored(outcomes, tuple(range(n)), (7,) * n), 0.5).sr.interval == expected


def outcome(success: bool, distance: float = 0.3, task: str = STOVE) -> ParaphraseOutcome:
    return ParaphraseOutcome(success, 1 - distance, 1 - distance, "none", "hint", task, "fake 1")


def test_paraphrases_and_seeds_cross_where_they_recur() -> None:
    tasks, texts, seeds = zip(*((t, f"{t} {n}", s) for t in "ab" for n in range(6) for s in range(3)), strict=True)
    assert clusters_of(texts, tasks, seeds) == (texts, list(zip(tasks, seeds, strict=True))), "seeds of a task"
    once = [place for place in range(36) if place % 3 == 0]
    of_one_seed = [[each[place] for place in once] for each in (texts, tasks, seeds)]
    assert clusters_of(*of_one_seed)[1] is None, "of one seed nothing is known of others"
    drawn = [(place // 3) % 3 for place in once]
    assert clusters_of(of_one_seed[0], of_one_seed[1], drawn)[1] is None, "each text is told under one seed"


def test_what_the_paraphrases_of_a_task_have_in_common_is_in_its_interval() -> None:
    """Six tasks, of which each is done always or never: the paraphrases are many, the tasks few."""
    outcomes = tuple(outcome(task % 2 == 0, task=f"task {task}") for task in range(6) for _ in range(50))
    found = measure(Scored(outcomes, tuple(range(300)), (0,) * 300), 0.5)
    assert found.sr.interval == tuple(100 * bound for bound in wilson_interval(150, 300))
    assert found.sr.tasks_interval is not None
    assert found.sr.tasks_interval[0] < 20
    assert found.sr.tasks_interval[1] > 80
    four = measure(Scored(outcomes[:200], tuple(range(200)), (0,) * 200), 0.5)
    assert four.sr.tasks_interval is None, "of four tasks nothing is said of others"


def test_the_list_weighs_its_cells() -> None:
    counts = {("none", "hint"): 90, ("none", "coordination"): 10}
    outcomes = tuple(
        ParaphraseOutcome(done, 0.5, 0.5, "none", action, STOVE, "fake 1")
        for action, some in (("hint", [True, True, True, False]), ("coordination", [False] * 4))
        for done in some
    )
    found = of_list(Scored(outcomes, tuple(range(8)), (0,) * 8), 0.5, counts)
    assert found is not None
    sr, pride = found
    assert sr.value == pytest.approx(90 * 0.75)
    assert pride is not None
    assert pride.value == pytest.approx(90 * 0.75), "all are as distant"
    assert sr.interval is not None
    assert sr.interval[0] < sr.value < sr.interval[1]
    assert of_list(Scored(outcomes[:4], tuple(range(4)), (0,) * 4), 0.5, counts) is None, "a cell is missing"


def test_texts_that_are_drawn_by_seed_leave_no_cell_without_an_interval() -> None:
    """As `--vla-sample` or texts drawn by seed have it: four of a cell, each under one of five seeds."""
    generator = np.random.default_rng(0)
    cells = [(o, a) for o in OBJECT_TYPES for a in ACTION_TYPES if (o, a) != ("none", "none")]
    outcomes, seeds = [], []
    for object_type, action_type in cells:
        seeds += generator.choice(np.arange(7, 12), size=4).tolist()
        for _ in range(4):
            success, values = bool(generator.random() < 0.7), generator.uniform(0.5, 0.95, size=2)
            outcomes.append(ParaphraseOutcome(success, *values, object_type, action_type, STOVE, "fake 1"))
    table = measure_paraphrases(Scored(tuple(outcomes), tuple(range(172)), tuple(seeds)), 0.5)
    for cell in table.cells.values():
        assert cell.pride is not None
        for estimate in (cell.sr, cell.pride, cell.pd):
            low, high = estimate.interval or (1, -1)
            assert low < high
            assert low <= estimate.value <= high
        assert (cell.overestimation is None) == (cell.sr.value == 0)
    low, high = table.overall.sr.interval or (0, 0)
    independent = 2 * 1.96 * 100 * (0.7 * 0.3 / 172) ** 0.5
    assert high - low == pytest.approx(independent, rel=0.15), "no wider than episodes that are all their own"


def test_no_overestimation_where_all_succeed_is_not_certain() -> None:
    def measured(keywords: list[float]) -> tuple[float, tuple[float, float] | None]:
        outcomes = tuple(ParaphraseOutcome(True, each, each, "none", "hint", STOVE, "fake 1") for each in keywords)
        texts = tuple(range(len(keywords)))
        found = measure_paraphrases(Scored(outcomes, texts, (7,) * len(texts)), 0.5)
        assert found.overall.overestimation is not None
        return found.overall.overestimation.value, found.overall.overestimation.interval

    value, (low, high) = measured([0.5, 0.7, 0.9, 0.95] * 5)  # type: ignore[misc]
    assert (value, low, high) == (pytest.approx(0, abs=1e-9), pytest.approx(-high), pytest.approx(high))
    assert 3 < high < 25
    wider = measured([0.5, 0.7, 0.9, 0.95])[1]
    assert wider is not None
    assert wider[1] > high, "fewer say less"
    # Equal distances: PRIDE is the success rate, whatever that is.
    assert measured([0.7] * 8)[1] == pytest.approx((0, 0), abs=1e-9)


OUTCOME = st.builds(
    ParaphraseOutcome,
    success=st.booleans(),
    keyword=st.floats(0, 1),
    structural=st.floats(0, 1),
    object_type=st.sampled_from(OBJECT_TYPES),
    action_type=st.sampled_from(ACTION_TYPES[1:]),
    task=st.sampled_from([STOVE, PLATE]),
    backend=st.just("fake 1"),
)


@settings(max_examples=scaled(15))
@given(st.lists(OUTCOME, min_size=1, max_size=12), st.integers(1, 3), st.floats(0, 1))
def test_all_numbers_are_of_all_episodes(outcomes: list[ParaphraseOutcome], seeds: int, alpha: float) -> None:
    found = Scored(
        tuple(outcomes), tuple(i // seeds for i in range(len(outcomes))), tuple(i % seeds for i in range(len(outcomes)))
    )
    table = measure_paraphrases(found, alpha)
    for groups in (table.cells, table.objects, table.actions, table.tasks):
        assert sum(group.n for group in groups.values()) == table.overall.n == len(outcomes)
    for estimate in (table.overall.sr, table.overall.pride, *table.sweep.values()):
        if estimate is not None and estimate.interval is not None:
            low, high = estimate.interval
            assert -1e-9 <= low <= high <= 100 + 1e-9
    assert table.sweep[0.5] is None or table.sweep[0.5].value == pytest.approx(
        100
        * sum(2 - o.keyword - o.structural for o in outcomes if o.success)
        / sum(2 - o.keyword - o.structural for o in outcomes),
        abs=1e-3,
    )
