"""Where success was lost: tasks with their counts, and flipped cases, in the order in which they are shown."""

from typing import Any

from pytest_vla.gate.baseline import Baseline, baseline_of
from pytest_vla.gate.verdicts import GateJudgement, TaskChange, Terms, judge
from tests.support.records import RECORD
from tests.support.varied import varied


def side(*tasks: tuple[str, str], label: str = "", first: int = 0, **changes: Any) -> Baseline:
    """Of each task its episodes, seed after seed: ``+`` a success, ``-`` a failure, ``e`` an error."""
    ends: dict[str, bool | str] = {"+": True, "-": False, "e": "error"}
    return baseline_of(
        varied(label, ends[mark], task=task, seed=first + seed, **changes)
        for task, marks in tasks
        for seed, mark in enumerate(marks)
    )


def judged(baseline: Baseline, new: Baseline) -> GateJudgement:
    return judge(baseline, new, Terms())


def test_tasks_that_lost_most_come_first() -> None:
    found = judged(
        side(("a", "++++"), ("b", "++++"), ("c", "--++")),
        side(("a", "+++-"), ("b", "+---"), ("c", "++++")),
    ).tasks
    assert found == (
        TaskChange("libero_goal[benign]", "libero_goal/b", (4, 4), (1, 4)),
        TaskChange("libero_goal[benign]", "libero_goal/a", (4, 4), (3, 4)),
        TaskChange("libero_goal[benign]", "libero_goal/c", (2, 4), (4, 4)),
    )
    assert [change.lost for change in found] == [3, 1, -2]


def test_lost_cases_come_before_gained_ones_and_of_the_worst_task_first() -> None:
    flips = judged(
        side(("a", "++++"), ("b", "++++"), ("c", "--++")),
        side(("a", "+++-"), ("b", "+---"), ("c", "++++")),
    ).flips
    assert [(flip.case.partition("/")[2], flip.is_lost) for flip in flips] == [
        ("b[seed1]", True),
        ("b[seed2]", True),
        ("b[seed3]", True),
        ("a[seed3]", True),
        ("c[seed0]", False),
        ("c[seed1]", False),
    ]
    assert flips[0].node == "libero_goal::test_episode[b-seed1]"


def test_numbers_are_in_order() -> None:
    judgement = judged(side(("a_10", "++"), ("a_9", "+" * 12)), side(("a_10", "--"), ("a_9", "++" + "-" * 10)))
    seeds = [flip.case.partition("seed")[2].rstrip("]") for flip in judgement.flips]
    assert seeds == [*map(str, range(2, 12)), "0", "1"]
    judgement = judged(side(("a_10", "++"), ("a_9", "++")), side(("a_10", "--"), ("a_9", "--")))
    assert [change.task for change in judgement.tasks] == ["libero_goal/a_9", "libero_goal/a_10"]


def test_what_is_not_counted_on_both_sides_is_in_no_count() -> None:
    judgement = judged(side(("a", "++e+")), side(("a", "+e--")))
    assert judgement.tasks == (TaskChange("libero_goal[benign]", "libero_goal/a", (2, 2), (1, 2)),)
    assert [flip.case for flip in judgement.flips] == ["libero_goal/a[seed3]"]


def test_your_own_tests_are_replayed_by_their_own_node() -> None:
    node = "test_mine.py::test_it[a-seed0]"
    (flip,) = judged(side(("a", "+"), node=node), side(("a", "-"), node=node)).flips
    assert flip.node == node


def test_other_seeds_have_tasks_and_no_flips() -> None:
    judgement = judged(side(("a", "++++"), ("b", "+-")), side(("a", "++--"), ("b", "--++"), first=50))
    assert [(change.task, change.baseline, change.new) for change in judgement.tasks] == [
        ("libero_goal/a", (4, 4), (2, 4)),
        ("libero_goal/b", (1, 2), (2, 4)),
    ]
    assert judgement.flips == ()


def test_what_cannot_be_compared_has_none() -> None:
    protocol = {**RECORD.protocol, "max_steps": 400}
    judgement = judged(side(("a", "++")), side(("a", "--"), protocol=protocol))
    assert judgement.verdict == "not comparable"
    assert (judgement.tasks, judgement.flips) == ((), ())
