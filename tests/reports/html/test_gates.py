"""A gate on a page: all that ``pytest-vla gate`` prints of it, whatever the verdict."""

import re
from collections.abc import Sequence

import pytest
from markupsafe import Markup

from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.measures import parse_measures
from pytest_vla.gate.verdicts import Terms, judge
from pytest_vla.records.record import Record
from pytest_vla.reports.gates import gate_lines, measured_by, measures_lines
from pytest_vla.reports.html.gates import GateTold, gate_blocks
from pytest_vla.reports.html.parts import Page, PageSection, page_html, script_json
from tests.support.varied import varied


def episodes(policy: str, done: int, of: int = 12, run: str = "b-run", **changes: object) -> Sequence[Record]:
    tasks = ("a_task", "b_task")
    return [
        varied("", seed < done, task, seed, policy=policy, run=run, steps=50 + seed % 3 + len(policy), **changes)
        for task in tasks
        for seed in range(of)
    ]


def words(text: str) -> str:
    return " ".join(re.sub(r"[()\[\]]", " ", text).split())


@pytest.mark.parametrize(
    ("done", "replan", "said"),
    [(2, None, "regression"), (9, None, "undecided"), (12, 4, "not comparable"), (12, None, "no worse")],
)
def test_it_says_all_that_a_terminal_does(done: int, replan: int | None, said: str) -> None:
    records = [*episodes("new:policy", done, replan=replan), varied("", "error", "a_task", 12, policy="new:policy")]
    old = [*episodes("old:policy", 11, run="a-run"), varied("", True, "a_task", 12, policy="old:policy")]
    baseline, new, terms = baseline_of(old), baseline_of(records), Terms(20.0, 0.05, ("suite",))
    judgement = judge(baseline, new, terms)
    measured, by = measured_by(baseline, new, terms, parse_measures(["steps=10"]))
    assert judgement.verdict == said
    gate = GateTold("b-run", "the verdict", "agreed", False, judgement, measured, baseline, new, "old.vla.json", by)
    blocks = gate_blocks(gate, records, str)
    page = Page("a gate", {}, (PageSection("gate", "Gate", tuple(blocks)),), script_json({}), 0)
    text = page_html(page).decode()
    shown = words(Markup(re.sub(r"<[^>]+>", " ", text)).unescape())
    printed = "\n".join(
        [*gate_lines(judgement, baseline, new, "old.vla.json"), *measures_lines(measured, terms, by, ())]
    )
    # Sentences, which are wrapped: each begins at the left.
    for sentence in re.split(r"\n(?!  )", printed):
        if re.match(r"(compared|new:policy|note|tabletop|libero_goal[^ ]*:|steps of|cost of|beside success)", sentence):
            assert words(sentence) in shown, sentence
    assert text.count('href="#episode-') == len(judgement.flips)


def test_what_was_not_judged_is_said() -> None:
    gate = GateTold("b-run", "b-run: gate: not judged: there is no file x.vla.json", "", False)
    (block,) = gate_blocks(gate, [], str)
    assert block.title == "b-run: gate: not judged: there is no file x.vla.json"
