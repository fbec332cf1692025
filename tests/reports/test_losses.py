"""Lost success, in words: how much is shown, what is left out, and that nothing breaks out of its place."""

import re
from collections.abc import Sequence
from dataclasses import replace

from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.verdicts import Flip, GateJudgement, Terms, judge
from pytest_vla.reports.gates import (
    LONG,
    SHORT,
    brief_lines,
    group_reason,
    loss_lines,
    loss_markdown,
    loss_table,
    no_replay,
    warned_of,
)
from tests.support.varied import varied


def judged(tasks: int = 12, lost: int = 2, gained: int = 1) -> GateJudgement:
    """Return a judgement of tasks with five seeds each, of which the first are lost and the last gained."""
    sides = [
        baseline_of(
            varied("", (seed < 4) if is_baseline else lost <= seed < 4 + gained, task=f"task_{task:02}", seed=seed)
            for task in range(tasks)
            for seed in range(5)
        )
        for is_baseline in (True, False)
    ]
    return judge(*sides, Terms())


def command(flips: Sequence[Flip]) -> str:
    return f"pytest {' '.join(repr(flip.node) for flip in flips)}"


def test_a_few_are_shown_and_how_many_more_there_are() -> None:
    lines = [*loss_lines(judged(), command, SHORT)]
    assert [line.split()[0] for line in lines[1:4]] == [f"libero_goal/task_{task:02}" for task in range(3)]
    assert lines[4] == "9 tasks more lost (-v has more)"
    assert lines[5] == "24 cases lost, 12 gained; each alone:"
    assert lines[6] == "  lost    pytest 'libero_goal::test_episode[task_00-seed0]'"
    assert lines[9:] == ["  and 21 cases more lost, 12 gained (-v has more)"]
    many = [*loss_lines(judged(), command, LONG)]
    assert many[11] == "2 tasks more lost (pytest-vla gate --json has all)"
    assert many[-1] == "  and 4 cases more lost, 12 gained (pytest-vla gate --json has all)"


def test_a_regression_is_five_lines_with_one_command_for_what_was_lost() -> None:
    lines = [*brief_lines(judged(4, 4, 1), command)]
    assert len(lines) == 5
    assert lines[0].startswith("gate: regression (")
    assert re.fullmatch(r"libero_goal\[benign\]: 80.0% -> 20.0%, -60.0 points \[.*\], 20 pairs", lines[1])
    assert lines[2] == "worst (counts, no test): libero_goal/task_00 4 -> 1 of 5"
    assert lines[3] == "16 cases lost, 4 gained: libero_goal/task_00[seed0] and 19 more (-v has more)"
    assert lines[4].count("::test_episode") == 16, "those that were lost, and no others"
    (row,) = [line for line in brief_lines(noisy(), no_replay) if line.startswith("worst")]
    assert "kind gaussian 28 -> 2 of 30, libero_goal/task_02 2 -> 1 of 2" in row
    assert not any(line.startswith("replay") for line in brief_lines(noisy(), no_replay)), "no command is known"


def test_of_many_groups_those_that_lost_most_are_named() -> None:
    sides = [
        baseline_of(
            varied(f"noise.kind_{kind}", is_baseline or kind > 3, task=f"task_{task:02}")
            for kind in range(9)
            for task in range(20)
        )
        for is_baseline in (True, False)
    ]
    lines = [*brief_lines(judge(*sides, Terms(by=("kind",))), no_replay)]
    assert [line.partition(":")[0] for line in lines[1:5]] == ["kind_0", "kind_1", "kind_2", "6 more groups"]
    assert "1 regression, 5 undecided" in lines[4]
    assert len(lines) == 7


def test_where_nothing_was_lost_gains_stand_alone() -> None:
    assert [*loss_lines(judged(1, 0), no_replay, SHORT)] == [
        "1 case gained; each alone:",
        "  gained  libero_goal/task_00[seed4]",
    ]
    assert [*loss_lines(judged(1, 0, 0), no_replay, SHORT)] == []
    assert [*loss_markdown(judged(1, 0, 0), no_replay)] == []


def test_programs_get_all_of_them() -> None:
    table = loss_table(judged(), no_replay)
    assert len(table["worst_tasks"]) == 12
    assert [each["way"] for each in table["flipped"]] == ["lost"] * 24 + ["gained"] * 12
    assert table["flipped"][0]["command"] is None


def test_markdown_has_a_table_and_commands_that_nothing_breaks_out_of() -> None:
    lines = [*loss_markdown(judged(), lambda flips: "pytest '```\x1b[31m'")]
    assert sum(line.startswith("| libero") for line in lines) == 10
    assert "2 tasks more lost." in lines
    fences = [place for place, line in enumerate(lines) if line.startswith("````")]
    assert len(fences) == 2
    within = lines[fences[0] + 1 : fences[1]]
    assert within[0] == "# lost libero_goal/task_00[seed0]"
    assert len(within) == 40
    assert all(line.isprintable() for line in lines)
    assert lines[-1] == "And 4 cases more lost, 12 gained."


NOISES = ("gaussian", "motion_blur")


def noisy(margin: float = 5.0, lost: int = 26, kinds: tuple[str, ...] = NOISES) -> GateJudgement:
    """Of each kind 30 episodes, one of each task: the baseline does 28, the run of the first kind `lost` fewer."""
    sides = [
        baseline_of(
            varied(f"noise.{kind}", task < 28 - (fewer if kind == kinds[0] else 0), task=f"task_{task:02}")
            for kind in kinds
            for task in range(30)
        )
        for fewer in (0, lost)
    ]
    return judge(*sides, Terms(margin))


def test_a_kind_that_lost_over_all_tasks_is_seen_everywhere() -> None:
    judgement = noisy()
    for lines in ([*loss_lines(judgement, no_replay, SHORT)], [*loss_markdown(judgement, no_replay)]):
        (row,) = [line for line in lines if "gaussian" in line and "kind" in line]
        assert "28/30" in row
        assert "2/30" in row.replace("28/30", "")
        assert any("count" in line and "test" in line for line in lines[:4])
        assert not any("kind motion_blur" in line for line in lines), "it lost nothing"
        assert any("libero_goal/task_02" in line for line in lines), "tasks are beside it"
    table = loss_table(judgement, no_replay)
    kind = {"group": "libero_goal[noise]", "kind": "gaussian", "baseline": [28, 30], "run": [2, 30]}
    assert table["worst_kinds"] == [kind]
    assert len(table["worst_tasks"]) == 26


def test_a_kind_that_is_all_of_its_group_is_no_row_of_its_own() -> None:
    assert loss_table(noisy(kinds=NOISES[:1]), no_replay)["worst_kinds"] == []


def test_what_lost_more_than_the_margin_is_told_where_the_verdict_passes() -> None:
    passes = noisy(margin=60, lost=15)
    assert passes.verdict == "no worse"
    assert warned_of(passes) == [], "it is not beyond this margin"
    judgement = replace(passes, terms=Terms(5.0))
    (note,) = warned_of(judgement)
    assert "no worse overall, but kind gaussian 28 -> 13 of 30" in note
    assert warned_of(replace(judgement, verdict="undecided")) == []
    assert warned_of(replace(noisy(lost=2), verdict="no worse")) == [], "so few are chance"


def test_an_undecided_gate_warns_of_drops_beyond_the_margin_that_it_cannot_detect() -> None:
    sides = [baseline_of(varied("", task >= lost, task=f"task_{task:02}") for task in range(20)) for lost in (0, 4)]
    for margin, warns in ((5.0, True), (40.0, False)):
        judgement = judge(*sides, Terms(margin, regression="any"))
        reason = group_reason(judgement.groups[0], judgement)
        assert "20 pairs can detect a drop of 33 points or more" in reason
        assert (f"beyond the margin ({margin:g} points)" in reason) == warns
