"""Lost success, in words: how much is shown, what is left out, and that nothing breaks out of its place."""

from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.verdicts import Flip, GateJudgement, Terms, judge
from pytest_vla.reports.gates import LONG, SHORT, loss_lines, loss_markdown, loss_table, no_replay
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


def command(flip: Flip) -> str:
    return f"pytest '{flip.node}'"


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
    lines = [*loss_markdown(judged(), lambda flip: "pytest '```\x1b[31m'")]
    assert sum(line.startswith("| libero") for line in lines) == 10
    assert "2 tasks more lost." in lines
    fences = [place for place, line in enumerate(lines) if line.startswith("````")]
    assert len(fences) == 2
    within = lines[fences[0] + 1 : fences[1]]
    assert within[0] == "# lost libero_goal/task_00[seed0]"
    assert len(within) == 40
    assert all(line.isprintable() for line in lines)
    assert lines[-1] == "And 4 cases more lost, 12 gained."
