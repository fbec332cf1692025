"""PRIDE against its definition, against the real log's numbers, and against what the paper prints."""

import csv
import json
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.language.published import load_published
from pytest_vla.metrics.pride import (
    ACTION_TYPES,
    ALPHAS,
    OBJECT_TYPES,
    ParaphraseOutcome,
    Pride,
    alpha_sweep,
    group,
    paraphrase_distance,
    paraphrase_weight,
    pride,
    pride_table,
)
from pytest_vla.suites.libero_para.variations import published_outcomes, read_para_log
from tests.support.data import data_root

SHARES = st.floats(min_value=0, max_value=1)
CELLS = [(o, a) for o in OBJECT_TYPES for a in ACTION_TYPES if (o, a) != ("none", "none")]


def outcome(success: bool, keyword: float, structural: float, **others: str) -> ParaphraseOutcome:
    given = {"object_type": "none", "action_type": "hint", "task": "stove", "backend": "fake 1"} | others
    return ParaphraseOutcome(success, keyword, structural, **given)


OUTCOMES = st.lists(
    st.builds(
        lambda success, keyword, structural, cell, task: outcome(
            success, keyword, structural, object_type=cell[0], action_type=cell[1], task=task
        ),
        st.booleans(),
        SHARES,
        SHARES,
        st.sampled_from(CELLS),
        st.sampled_from(["stove", "plate"]),
    ),
    min_size=1,
    max_size=30,
)


# By hand


def test_failures_far_from_the_original_weigh_more() -> None:
    outcomes = [outcome(True, 0.9, 0.7), outcome(True, 1.0, 0.8), outcome(False, 0.5, 0.5)]
    # Distances at alpha 0.5: 0.2, 0.1, 0.5.
    assert pride(outcomes) == pytest.approx(100 * 0.3 / 0.8)
    assert pride(outcomes, 1.0) == pytest.approx(100 * 0.1 / 0.6)
    assert pride(outcomes, 0.0) == pytest.approx(100 * 0.5 / 1.0)
    numbers = group(outcomes)
    assert (numbers.n, numbers.sr, numbers.pd) == (3, pytest.approx(200 / 3), pytest.approx(0.8 / 3))
    assert numbers.overestimation == pytest.approx(100 * (200 / 3 - 37.5) / (200 / 3))


def test_paraphrases_at_no_distance_have_no_pride() -> None:
    # Published S_K of equal words: float32's 1.
    for keyword in (1.0, 1.0000001192092896, 0.9999998807907104):
        outcomes = [outcome(True, keyword, 1.0), outcome(False, keyword, 1.0)]
        assert pride(outcomes) is None
        assert (group(outcomes).sr, group(outcomes).pd, group(outcomes).overestimation) == (50.0, 0.0, None)
        assert paraphrase_distance(keyword, 0.4, alpha=1.0) == 0.0


def test_a_group_of_nothing_but_rounding_has_no_pride_and_no_other_loses_any() -> None:
    rounded = [outcome(True, keyword, 0.5) for keyword in (1.0000001192092896, 0.9999998807907104)] * 50
    assert pride(rounded, alpha=1.0) is None
    assert group(rounded, alpha=1.0).pd == 0.0
    beside = [*rounded, outcome(True, 0.9, 0.5), outcome(False, 0.8, 0.5), outcome(True, 1.0000001192092896, 0.5)]
    weights = [1 - each.keyword for each in beside]
    literal = 100 * sum(w for w, each in zip(weights, beside, strict=True) if each.success) / sum(weights)
    assert pride(beside, alpha=1.0) == pytest.approx(literal, abs=1e-9)


def test_nothing_is_overestimated_where_all_succeed() -> None:
    for keywords in ([0.1, 0.7, 0.3], [0.3, 0.6, 0.9, 0.11, 0.12], [0.77] * 7):
        assert str(group([outcome(True, each, each / 3) for each in keywords]).overestimation) == "0.0"


def test_nothing_succeeded_nothing_is_overestimated() -> None:
    numbers = group([outcome(False, 0.5, 0.5)])
    assert (numbers.sr, numbers.pride, numbers.overestimation) == (0.0, 0.0, None)


def test_similarities_of_two_backends_are_never_mixed() -> None:
    mixed = [outcome(True, 0.9, 0.7), outcome(True, 0.9, 0.7, backend="other 2")]
    for score in (pride, group, pride_table, alpha_sweep):
        with pytest.raises(ValueError, match="2 backends in one score: fake 1, other 2"):
            score(mixed)


@pytest.mark.parametrize("numbers", [(1.1, 0.5, 0.5), (0.5, -0.1, 0.5), (0.5, 0.5, 1.5), (0.5, 0.5, float("nan"))])
def test_what_is_no_share_is_refused(numbers: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        paraphrase_distance(*numbers)


def test_unknown_types_and_no_episodes_are_refused() -> None:
    with pytest.raises(ValueError, match="no such types of paraphrase: 'none' with 'shouting'"):
        pride_table([outcome(True, 0.5, 0.5, action_type="shouting")])
    for nothing in (pride_table, group):
        with pytest.raises(ValueError, match="no episodes"):
            nothing([])


# Whatever the outcomes


@given(OUTCOMES, SHARES)
def test_pride_is_a_percentage_and_full_only_of_successes(outcomes: list[ParaphraseOutcome], alpha: float) -> None:
    value = pride(outcomes, alpha)
    if value is None:
        assert sum(paraphrase_weight(each.keyword, each.structural, alpha) for each in outcomes) < 1e-6 * len(outcomes)
    else:
        assert -1e-6 <= value <= 100 + 1e-6
        done = pride([replace(each, success=True) for each in outcomes], alpha)
        failed = pride([replace(each, success=not each.success) for each in outcomes], alpha)
        assert done == pytest.approx(100)
        assert failed == pytest.approx(100 - value, abs=1e-9)


@given(st.lists(st.booleans(), min_size=1), SHARES, SHARES)
def test_pride_is_the_success_rate_where_all_are_equally_far(
    successes: list[bool], keyword: float, structural: float
) -> None:
    numbers = group([outcome(success, keyword, structural) for success in successes])
    assert numbers.pride is None or numbers.pride == pytest.approx(numbers.sr)


@given(OUTCOMES, SHARES)
def test_the_groups_weigh_into_the_whole(outcomes: list[ParaphraseOutcome], alpha: float) -> None:
    table = pride_table(outcomes, alpha)
    for groups in (table.cells, table.objects, table.actions, table.tasks):
        assert sum(part.n for part in groups.values()) == table.overall.n == len(outcomes)
        weight = sum(part.n * part.pd for part in groups.values())
        assert weight == pytest.approx(table.overall.n * table.overall.pd)
        if table.overall.pride is not None:
            weighted = sum(part.n * part.pd * (part.pride or 0.0) for part in groups.values())
            assert weighted / weight == pytest.approx(table.overall.pride, abs=1e-6)
        successes = sum(part.n * part.sr for part in groups.values())
        assert successes / table.overall.n == pytest.approx(table.overall.sr, abs=1e-9)
    assert table.sweep[0.5] == pride(outcomes)


@given(OUTCOMES, st.randoms(use_true_random=False))
def test_the_order_of_episodes_changes_nothing(outcomes: list[ParaphraseOutcome], drawn: Any) -> None:
    shuffled = outcomes[:]
    drawn.shuffle(shuffled)
    one, other = pride_table(outcomes), pride_table(shuffled)
    assert (one.overall, one.sweep, list(one.cells.items())) == (other.overall, other.sweep, list(other.cells.items()))


# The real log


def para_data() -> Path:
    root = data_root()
    if root is None or not (root / "libero_para").is_dir():
        pytest.skip("needs LIBERO-Para's data: set PYTEST_VLA_DATA or put it at ../shared/data")
    return root / "libero_para"


@pytest.fixture(scope="module")
def log() -> Path:
    return para_data() / "xiaomi-robotics-0_seed7"


@pytest.fixture(scope="module")
def table(log: Path) -> Pride:
    published = load_published(log.parent / "libero_para_metadata.csv")
    return pride_table(published_outcomes(read_para_log(log), published, "published"))


@pytest.fixture(scope="module")
def by_hand(log: Path) -> list[tuple[bool, Fraction, Fraction, tuple[str, str], str]]:
    """Success, S_K, S_T, cell and task of every episode, joined by the names of upstream's files alone."""
    with (log.parent / "libero_para_metadata.csv").open(encoding="utf-8") as file:
        rows = {
            f"{r['high']}_{r['mid']}_{r['low']}_eval{r['eval']}_ver{r['batch_idx']}": r for r in csv.DictReader(file)
        }
    found = []
    for number in range(6):
        for episode in json.loads((log / f"eval{number}.json").read_text(encoding="utf-8"))["episodes"]:
            row = rows[episode["bddl_file"].removesuffix(".bddl")]
            assert row["new_instruction"] == episode["paraphrased_instruction"]
            parts = row["low"].split("+")
            cell = (parts[0], parts[1]) if len(parts) == 2 else ("none", parts[0])
            if row["high"] == "obj":
                cell = (parts[0], "none")
            shares = Fraction(row["keyword_similarity"]), Fraction(row["structural_similarity"])
            found.append((episode["success"], *shares, cell, row["original_instruction"]))
    return found


def exact(episodes: list[Any], alpha: Fraction) -> float:
    weights = [1 - (alpha * keyword + (1 - alpha) * structural) for _, keyword, structural, *_ in episodes]
    return float(100 * sum(w for w, each in zip(weights, episodes, strict=True) if each[0]) / sum(weights))


def test_success_and_pride_of_the_real_log(table: Pride, by_hand: list[Any]) -> None:
    assert (table.overall.n, round(table.overall.sr, 1)) == (2431, 78.3)
    assert table.overall.pride == pytest.approx(71.03389, abs=1e-5)
    assert table.overall.overestimation == pytest.approx(9.25728, abs=1e-5)
    assert tuple(table.sweep) == ALPHAS
    for tenths, alpha in enumerate(ALPHAS):
        # Also at alpha 1, where published S_K of 1.00000012 weighs a little below nothing.
        assert table.sweep[alpha] == pytest.approx(exact(by_hand, Fraction(tenths, 10)), abs=1e-9)


def test_all_43_cells_of_the_real_log(table: Pride, by_hand: list[Any]) -> None:
    assert len(table.cells) == 43
    cells = defaultdict(list)
    for each in by_hand:
        cells[each[3]].append(each)
    assert {cell: len(some) for cell, some in cells.items()} == {cell: part.n for cell, part in table.cells.items()}
    for cell, some in cells.items():
        assert table.cells[cell].sr == pytest.approx(100 * sum(each[0] for each in some) / len(some))
        assert table.cells[cell].pride == pytest.approx(exact(some, Fraction(1, 2)), abs=1e-9)


def test_every_task_of_the_real_log(table: Pride, by_hand: list[Any]) -> None:
    tasks = defaultdict(list)
    for each in by_hand:
        tasks[each[4]].append(each)
    assert set(table.tasks) == set(tasks)
    for task, some in tasks.items():
        assert table.tasks[task].n == len(some)
        assert table.tasks[task].pride == pytest.approx(exact(some, Fraction(1, 2)), abs=1e-9)
    assert table.tasks["put the bowl on the stove"].sr == pytest.approx(100 * 332 / 403)


def test_marginals_of_the_real_log(table: Pride, by_hand: list[Any]) -> None:
    for name, part in table.objects.items():
        some = [each for each in by_hand if each[3][0] == name]
        assert (part.n, part.pride) == (len(some), pytest.approx(exact(some, Fraction(1, 2)), abs=1e-9))
    for name, part in table.actions.items():
        some = [each for each in by_hand if each[3][1] == name]
        assert (part.n, part.pride) == (len(some), pytest.approx(exact(some, Fraction(1, 2)), abs=1e-9))
    assert (list(table.objects), list(table.actions)) == (list(OBJECT_TYPES), list(ACTION_TYPES))
    assert {name: part.n for name, part in table.categories.items()} == Counter(
        {"lexical": 148, "pragmatical": 262, "structural": 99}
    ) - Counter()


# What the paper prints
