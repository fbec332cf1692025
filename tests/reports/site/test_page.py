"""The index of what is listed: which run stands for a checkpoint, what charts show, and what is said beside them."""

import re

from pytest_vla.reports.site.entries import Entry, EntryVerdict
from pytest_vla.reports.site.page import index_html, index_page, trend_blocks
from tests.support.page import Parsed
from tests.support.sites import entry_of, part_of, rate_of, result_of


def index(*entries: Entry, pages: bool = True) -> str:
    """Return the index of runs, the oldest first."""
    newest = [*reversed(entries)]
    return index_html("Runs", newest, {entry.name for entry in entries} if pages else set()).decode()


def checkpoints(*entries: Entry) -> list[list[str]]:
    page = index_page("Runs", [*reversed(entries)], {entry.name for entry in entries})
    return [[re.sub(r"<[^>]+>", " ", str(cell)).split()[-1] for cell in row] for row in page.checkpoints.tables[0].rows]


def test_a_checkpoint_stands_with_its_newest_whole_run() -> None:
    part, cut = entry_of(3, part_of(3)), entry_of(4, done=3)
    assert checkpoints(entry_of(1), entry_of(2), part, cut) == [["04061fba", "run-02"]]
    assert "3 of 20 episodes</span>, <a" in index(cut)
    # Of a part where there is no other; what earlier runs had picked is no measure of it.
    assert checkpoints(part, entry_of(5, picked="--lf")) == [["04061fba", "run-03"]]
    assert "There is none yet" in index(entry_of(5, picked="--lf"))


def test_checkpoints_are_of_a_model_and_its_content_by_suite() -> None:
    other = result_of(policies=("17006338",))
    varied = result_of(group="varied", suite="tabletop")
    found = checkpoints(entry_of(1), entry_of(2, other), entry_of(3, varied))
    assert found == [["04061fba", "run-01", "run-03"], ["17006338", "run-02", "-"]]


def test_earlier_checkpoints_are_behind_a_title() -> None:
    entries = [entry_of(day, result_of(policies=(f"{day:08d}",))) for day in range(1, 13)]
    page = index_page("Runs", [*reversed(entries)], set())
    assert page.checkpoints.title == "2 earlier checkpoints"
    assert [len(table.rows) for table in page.checkpoints.tables] == [10, 2]
    assert len({table.caption for table in page.checkpoints.tables}) == 2


def test_what_is_in_no_rate_stands_beside_it() -> None:
    text = index(entry_of(1, result_of(rate=rate_of(15, 20, {"timeout": 5}))))
    assert text.count("not in it: 5 errors: 60.0% to 80.0%") == 3
    assert "-" in index(entry_of(1, result_of(rate=rate_of(0, 0, {"timeout": 5}))))


def test_verdicts_are_as_the_run_said_them() -> None:
    line = "gate: regression (margin 5 points): failed by regression, no-regression is required"
    text = index(
        entry_of(1, verdict=EntryVerdict("no worse", True, "gate: no worse")),
        entry_of(2, verdict=EntryVerdict("not judged", False, "gate: not judged: there is no baseline")),
        entry_of(3, verdict=EntryVerdict("regression", False, line)),
    )
    assert f'<p class="verdict bad">{line}</p>' in text
    assert f'<span class="bad" title="{line}">regression: failed</span>' in text
    assert ">no worse: passed</span>" in text
    assert ">not judged</span>" in text


def test_a_run_without_its_page_is_no_link() -> None:
    text = index(entry_of(1), pages=False)
    assert "its page is not here" in text
    assert "run-01.html" not in text


def test_a_chart_has_runs_of_its_models_in_their_order() -> None:
    entries = [entry_of(1), entry_of(2, result_of(model="expert")), entry_of(3), entry_of(4, picked="--lf")]
    (block,) = trend_blocks([*reversed(entries)], set())
    drawing = str(block.drawings[0])
    assert "3 runs, the oldest first" in drawing
    assert re.findall(r"<title>(run-\d+), ", drawing) == ["run-01", "run-03", "run-02"]
    assert [row[0] for row in block.tables[0].rows] == ["run-03", "run-02", "run-01"]
    assert "hollow:" not in drawing
    assert "dashed:" not in drawing


def test_a_model_has_the_same_sign_in_all_charts_where_it_is_free() -> None:
    def signs(*models: str) -> list[str]:
        runs = [entry_of(1, *(result_of(model=f"old{n}", suite="libero_goal") for n in range(12)))]
        runs += [entry_of(day, result_of(model=model)) for day, model in enumerate(models, 2)]
        blocks = {block.title: str(block.drawings[0]) for block in trend_blocks(runs[::-1], set())}
        return re.findall(r'<svg class="key (m\d)"', blocks["tabletop"])

    assert signs("old3", "old5") == ["m3", "m5"]
    assert signs("old3", "new0") == ["m3", "m0"]
    # Of twelve signs this one is taken: by the thirteenth model.
    assert signs("old0", "new0") == ["m0", "m1"]


def test_a_result_without_a_rate_is_in_the_table_only() -> None:
    nothing = entry_of(2, result_of(rate=rate_of(0, 0, {"timeout": 5})))
    (block,) = trend_blocks([nothing, entry_of(1)], set())
    assert "1 run, the oldest first" in str(block.drawings[0])
    assert block.tables[0].rows[0][4:7] == ("0/0", "-", "-")
    (alone,) = trend_blocks([nothing], set())
    assert alone.drawings == ()
    assert Parsed(index(nothing)).faults == []


def test_notes_are_by_reason_the_newest_first_and_not_endless() -> None:
    def budget(day: int) -> Entry:
        return entry_of(day, result_of(conditions={"protocol.max_steps": str(100 * (day // 2 % 2))}))

    (block,) = trend_blocks([budget(day) for day in range(28, 0, -1)], set())
    note = next(note for note in block.notes if "0 before, 100 here" in note)
    assert note.startswith("not joined: run-26 to run-25, run-22 to run-21, run-18 to run-17, run-14 to run-13 and 3 ")
    each = [entry_of(day, result_of(conditions={"protocol.max_steps": str(day)})) for day in range(28, 0, -1)]
    (block,) = trend_blocks(each, set())
    assert len(block.notes) == 7
    assert block.notes[-1] == "21 further reasons why runs are not joined: point at the runs' marks"


def test_models_of_several_in_a_run_are_named() -> None:
    text = index(entry_of(1, result_of(), result_of(model="expert"), model="tiny, expert"))
    assert Parsed(text).rows[-1][2].startswith("tinytabletop 75.0%")
    assert "experttabletop 75.0%" in Parsed(text).rows[-1][2]


def test_nothing_turns_the_reading_direction() -> None:
    named = "tiny\u202egpj.\x1b[31m\x00"
    text = index(entry_of(1, result_of(model=named), model=named, verdict=EntryVerdict(named, True, named)))
    assert all(line.isprintable() for line in text.split("\n"))
    assert "tiny?gpj.?[31m?" in text


def test_the_rate_of_a_run_that_its_gate_stopped_is_not_among_checkpoints() -> None:
    stopped = entry_of(2, result_of(3, 8), planned=20, done=8, decided=12)
    (block,) = index_page("x", [stopped], ()).checkpoints.tables
    told = str(block.rows[0][1])
    assert "stopped by its gate after 8 of 20 episodes" in told
    assert "37.5%" not in told
    (block,) = index_page("x", [stopped, entry_of(1)], ()).checkpoints.tables
    assert "75.0%" in str(block.rows[0][1]), "a fixed run of it goes first"
