"""All rewordings of a task: each is a change that can be run and given back, and keeps what the task is."""

import random
from dataclasses import replace

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.reword import Rewording, rewordings
from pytest_vla.language.grammar import meanings
from pytest_vla.plan.manifests import load_suite
from pytest_vla.show.restored import given_back
from pytest_vla.vary.registry import find_variation

SUITE = load_suite("tabletop")
STOVE, PUSH = SUITE.task("turn_on_the_stove"), SUITE.task("push_the_plate_to_the_front_of_the_stove")
CELLS = 43


def sorts_of(some: tuple[Rewording, ...]) -> set[str]:
    return {axis for each in some for axis, _ in each.sorts}


@pytest.mark.parametrize("task", [STOVE, PUSH], ids=lambda task: task.name)
def test_each_is_a_change_of_its_own_and_means_the_same(task) -> None:  # type: ignore[no-untyped-def]
    found = rewordings(task)
    others = {each.language.lower() for each in SUITE.tasks}
    texts = [each.text.lower() for each in found]
    assert len(set(texts)) == len(texts)
    assert not others & set(texts)
    assert sorts_of(found) == {"object", "action", "words"}
    assert len({each.sorts for each in found if each.sorts[0][0] == "object"}) == CELLS
    own = meanings(task.language)
    for each in random.Random(0).sample(found, 40):
        assert (meanings(each.text) or own) == own
        candidate = Candidate(task, 2, (each.change,))
        made = find_variation(task, candidate.label, 2)
        assert made is not None
        assert made.instruction == each.text
        assert not made.changes_scene
        again = given_back(task, candidate.label, made.parameters, made.instruction)
        assert again is not None
        assert (again.instruction, again.parameters, again.label) == (made.instruction, made.parameters, made.label)


def test_a_paraphrase_says_its_types_and_words_say_what_they_replace() -> None:
    by_kind = {each.change.kind: each.change.params for each in reversed(rewordings(STOVE))}
    assert set(by_kind["language.paraphrase"]) == {"object_type", "action_type", "original", "instruction"}
    assert by_kind["language.words"]["replaced"] == "stove at 12: kitchen range (synonym)"


def test_what_the_grammar_cannot_read_has_words_alone() -> None:
    found = rewordings(replace(STOVE, language="grasp the wobbly thingamajig and put it on the stove"))
    assert sorts_of(found) == {"words"}


def test_a_task_without_any_is_told() -> None:
    with pytest.raises(VlaError, match=r"cannot be reworded: .*'xyzzy'.* has no reading"):
        rewordings(replace(STOVE, language="xyzzy"))
