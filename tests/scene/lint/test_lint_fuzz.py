"""Whatever a file holds, looking at it raises nothing, and all findings lie in the file."""

import re
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_vla.language.prompts import check_prompt
from pytest_vla.scene.compose import PartSite
from pytest_vla.scene.lint.checks import check_models, check_text, state_length
from pytest_vla.scene.lint.conditions import ModelFacts
from pytest_vla.scene.lint.reading import CODES, read_task_text
from pytest_vla.scene.literals import CONNECTIVES, SIGNATURES
from tests.support.examples import scaled
from tests.support.lint_tasks import TASK as SOUND
from tests.support.task_files import TASK

FACTS = ModelFacts(1, {"top_side": PartSite((), (), True), "": PartSite((), (), True)}, (None, "1"), 0.05)


def check_any(text: str) -> None:
    task = read_task_text(text, "some_task.bddl")
    found = [*check_text(task)]
    if task.problem is not None:
        found += check_prompt(task, task.problem)
        found += check_models(task, task.problem, lambda item: FACTS if "_" in item.category else None)
        assert (state_length(task.problem, lambda item: FACTS) or 0) >= 19
    lines = len(re.split(r"\r\n|\r|\n", text))
    for each in found:
        assert each.code in CODES
        assert 1 <= each.line <= lines
        assert each.column >= 1
        assert each.message.strip()


@given(st.text() | st.text("()ab:-;.01 \n"))
def test_any_text_can_be_looked_at(text: str) -> None:
    check_any(text)


@st.composite
def changed_tasks(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from((TASK, SOUND, SOUND.replace("LIBERO_", ""))))
    tokens = re.findall(r"[()]|[^\s()]+", text)
    words = [*tokens, *SIGNATURES, *CONNECTIVES, "and", "pi/2", "1e999", "é", ";", "-", "water_ball", "all", "both"]
    for _ in range(draw(st.integers(0, 5))):
        start, removed = draw(st.integers(0, len(tokens))), draw(st.integers(0, 3))
        tokens[start : start + removed] = draw(st.lists(st.sampled_from(words), max_size=4))
    return "\n".join(tokens)


@given(changed_tasks())
@settings(max_examples=scaled(300))
@example(TASK)
def test_any_change_of_a_task_can_be_looked_at(text: str) -> None:
    check_any(text)


def exchanged(text: str, one: int, other: int) -> str:
    groups = [match.span() for match in re.finditer(r"\([^()]*\)", text)]
    spans = sorted({groups[one % len(groups)], groups[other % len(groups)]})
    for (start, end), (after, last) in pairwise(spans):
        text = text[:start] + text[after:last] + text[end:after] + text[start:end] + text[last:]
    return text


@given(st.integers(0, 99), st.integers(0, 99), st.sampled_from((TASK, SOUND)))
def test_exchanged_groups_can_be_looked_at(one: int, other: int, text: str) -> None:
    check_any(exchanged(text, one, other))
